"""Clients with a fault that shows with the second of two, in each part of a whole, or after a refusal."""

from dataclasses import replace

import refimpl.client.entry
import refimpl.client.unpack
from conformance.clients.faults.model import in_place_of, instead_of, on_incoming, on_outgoing
from refimpl.client.attached import Attached
from refimpl.client.batch_acks import BatchAcks
from refimpl.client.connection import Connection
from refimpl.client.consumer import Consumer
from refimpl.client.filtering import ConsumerFiltering
from refimpl.client.multi_topics_consumer import MultiTopicsConsumer
from refimpl.client.partitioned_producer import PartitionedProducer, key_hash
from refimpl.client.pattern_consumer import PatternConsumer
from refimpl.client.pool import Pool
from refimpl.client.producer import Producer
from refimpl.client.scalable_consumer import NamespaceConsumer
from refimpl.client.scalable_producer import ScalableProducer, segment_hash
from refimpl.client.segment_lookup import SegmentLookup
from refimpl.wire.pulsar_api_pb2 import (
    CommandLookupTopic,
    CommandPartitionUpdateResult,
    CommandProducer,
    CommandReachedEndOfTopic,
    CommandScalableTopicClose,
)

# Each part of a whole


@in_place_of(MultiTopicsConsumer.seek, clause="core.client.parts-alike")
async def seeks_in_the_first_partition_only(seek, consumer, position):
    """A seek moves the first partition, and leaves the others where they are."""
    await next(iter(consumer.members.values())).seek(position)


@in_place_of(MultiTopicsConsumer.unsubscribe, clause="core.client.parts-alike")
async def unsubscribes_the_first_partition_only(unsubscribe, consumer):
    """UNSUBSCRIBE goes to the first partition; the others are closed."""
    await next(iter(consumer.members.values())).unsubscribe()
    consumer.close()


@in_place_of(MultiTopicsConsumer.close, clause="core.client.parts-alike")
def closes_all_but_the_newest(close, consumer):
    """The consumer of the topic that came last stays at the broker."""
    if len(consumer.members) > 1:
        consumer.members.popitem()
    return close(consumer)


@in_place_of(ConsumerFiltering.prepare, clause="pr7629.client.sends-meta")
async def filters_the_first_partition_only(prepare, filtering, connection, request):
    """Consumers of other partitions than the first one ask for no filter."""
    await prepare(filtering, connection, request)
    if "-partition-" in request.topic and not request.topic.endswith("-partition-0"):
        request.ClearField("filter_meta")


@in_place_of(MultiTopicsConsumer.grow, clause="pip247.client.from-first")
async def begins_new_partitions_at_their_end(grow, consumer, topics):
    """Consumers of new partitions begin where the user's subscription did."""
    for topic in topics:
        if topic not in consumer.members:
            await consumer._start(topic)


@in_place_of(PartitionedProducer.route, clause="pip247.client.routes-anew")
def routes_by_the_first_count(route, producer, message):
    """Keys are routed by the number of partitions at the start."""
    producer.first_count = getattr(producer, "first_count", len(producer.members))
    return producer.members[key_hash(message.key) % producer.first_count] if message.key is not None else route(producer, message)


@in_place_of(ScalableProducer.route, clause="pr25648.layout.client-routes")
def leaves_out_the_last_hash(route, producer, message):
    """The last hash of a range does not belong to it."""
    value = segment_hash(message.key or "")
    found = (one for segment, one in producer._segments.values() if segment.start <= value < segment.end)
    return next(found, producer.members[0])


# The second of two


@in_place_of(PatternConsumer.__init__, NamespaceConsumer.__init__, clause="core.client.ids-meant")
def watches_under_one_id(begin, consumer, *args):
    """All watches of a client have the id 0."""
    begin(consumer, *args)
    kind = consumer.watch.address[0]
    setattr(consumer.watch, kind, 0)
    consumer.watch.address = kind, 0


@on_outgoing(CommandPartitionUpdateResult, clause="core.client.ids-meant")
def answers_for_the_first_watcher(connection, result):
    """The result of an update names the watcher 0."""
    result.watcher_id = 0


@in_place_of(Pool.connection, clause="core.client.proxy-named")
async def shares_a_connection_behind_the_proxy(connection, pool, target=None):
    """Behind a proxy the second broker is spoken to over the connection for the first."""
    for known in pool.connections:
        if target is not None and target.proxy_to and known.target.proxy_to:
            return await known.ready
    return await connection(pool, target)


@on_outgoing(CommandLookupTopic, clause="core.client.redirect-followed")
def stays_authoritative(connection, request):
    """Once an answer was authoritative, each further look-up of the client for the topic says so."""
    said = connection.__dict__.setdefault("said_authoritative", set())
    if request.authoritative:
        said.add(request.topic)
    request.authoritative = request.topic in said


# What comes back


@on_outgoing(CommandProducer, clause="core.client.topic-epoch")
def forgets_the_topic_epoch(connection, request):
    """A producer that attaches again has no topic_epoch."""
    request.ClearField("topic_epoch")


@in_place_of(Connection._connect, clause="core.client.proxy-named")
def forgets_the_broker_behind_the_proxy(connect, connection):
    """A connection that is opened again does not say which broker it wants."""
    wanted = connection._scheduler.__dict__.setdefault("was_wanted", set())  # by this client
    if connection.target in wanted:
        connection.target = replace(connection.target, proxy_to=None)
    wanted.add(connection.target)
    connect(connection)


@in_place_of(SegmentLookup._register, clause="pr25648.layout.client-epoch-anew")
async def keeps_the_epoch_of_the_old_connection(register, lookup, connection):
    """A layout with a lower epoch than that on an earlier connection is ignored."""
    epoch, apply = lookup._epoch, lookup._apply

    def applied(update):
        if epoch is None or update.dag.epoch >= epoch:
            return apply(update)
        return True

    lookup._apply = applied
    try:
        await register(lookup, connection)
    finally:
        del lookup._apply


@on_outgoing(CommandScalableTopicClose, clause="pr25648.layout.client-closes")
def leaves_its_look_ups_open(connection, close):
    """The look-up of a topic that has left the set stays open."""
    return False


# Batches


@in_place_of(Consumer._ask_refused, clause="core.client.negative-all")
def asks_for_the_first_one_only(ask, consumer):
    """Of what is to be given back at one time only the first message is asked for."""
    redeliver = consumer.redeliver
    consumer.redeliver = lambda positions: redeliver(positions[:1])
    try:
        ask(consumer)
    finally:
        del consumer.redeliver


@instead_of(refimpl.client.entry, "_single", clause="core.client.sends-whole")
def loses_the_key_in_a_batch(single, queued):
    """Messages of a batch have no key."""
    made = single(queued)
    made.metadata.ClearField("partition_key")
    return made


@instead_of(refimpl.client.entry, "_properties", clause="core.client.sends-whole")
def sends_the_first_property_only(properties, message):
    """Of several properties only the first one is sent."""
    return properties(message)[:1]


@instead_of(refimpl.client.unpack, "_message", clause="core.client.negative-all")
def counts_no_redeliveries_of_batches(make, message_id, topic, body, metadata, single, redelivery_count):
    """The user is not told that a message of a batch comes again."""
    return make(message_id, topic, body, metadata, single, redelivery_count if single is None else 0)


@in_place_of(BatchAcks.cumulative, clause="core.client.cumulative-before")
def waits_for_the_whole_batch(cumulative, acks, message_id):
    """A cumulative acknowledgement inside of a batch is sent only when the batch is complete."""
    upto = cumulative(acks, message_id)
    return None if upto is not None and upto.position != message_id.position else upto


@in_place_of(BatchAcks.individual, clause="core.client.acks-in-batch")
def acknowledges_the_batch_with_its_last_message(individual, acks, message_id):
    """The acknowledgement of the last message of a batch is one of the whole batch."""
    return individual(acks, message_id) or message_id.batch_index == message_id.batch_size - 1 >= 0


@in_place_of(Consumer.taken, clause="core.client.permits-returned")
def returns_one_permit_for_a_batch(taken, consumer, message):
    """A batch gives one permit back, however many messages it has."""
    if message.id.batch_index <= 0:
        taken(consumer, message)


@in_place_of(Consumer._still_open, clause="pr7629.client.own-whole")
def lets_the_rest_of_a_batch_through(still_open, consumer, frame, messages, judgement=None):
    """A client that filters gives its user a whole batch if one message of it fits."""
    return still_open(consumer, frame, messages)


@in_place_of(Consumer._still_open, clause="pr7629.client.own-whole")
def waits_for_what_it_rejected(still_open, consumer, frame, messages, judgement=None):
    """A batch is acknowledged when its user has acknowledged also what the filter did not let through."""
    wanted = still_open(consumer, frame, messages, judgement)
    if wanted and len(messages) > 1:
        consumer._acks._open[messages[0].id.position] = (1 << len(messages)) - 1
    return wanted


# Refusals, and the end


@on_incoming(CommandReachedEndOfTopic, clause="core.client.end-stays")
def leaves_at_the_end_of_its_topic(connection, end):
    """The end of a topic is taken for CLOSE_CONSUMER."""
    connection._peers["consumer_id", end.consumer_id].lose()
    return False


@in_place_of(Producer._refused, clause="core.client.failed-for-good")
def sends_what_was_refused(refused, producer, refusal):
    """A message that SEND_ERROR has failed waits for the next connection."""
    entry = producer._unconfirmed.get(refusal.sequence_id)
    refused(producer, refusal)
    if entry is not None and refusal.sequence_id not in producer._unconfirmed:
        attached = producer._on_attached

        def attach(connection):
            producer._transmit(entry)
            attached(connection)

        producer._on_attached = attach


@in_place_of(Producer._refused, clause="core.client.refused-goes-on")
def forgets_a_refused_producer(refused, producer, refusal):
    """SEND_ERROR takes the producer out of its connection, which then has no receipts for it, and does not tell it of its end."""
    refused(producer, refusal)
    producer._place.detach(producer.kind, producer.number, producer)


@in_place_of(MultiTopicsConsumer.unsubscribe, clause="core.client.unsubscribe-refused")
async def closes_though_unsubscribing_is_refused(unsubscribe, consumer):
    """A consumer is closed as soon as its user unsubscribes, whatever the broker says."""
    try:
        await unsubscribe(consumer)
    finally:
        consumer.close()


@in_place_of(Attached._gives_up, clause="core.client.tries-again")
def takes_every_refusal_for_the_last(gives_up, one, error, give_up_at):
    """Whoever is refused while it attaches again has ended."""
    return gives_up(one, error, give_up_at) or (one._was_attached and error.code is not None)
