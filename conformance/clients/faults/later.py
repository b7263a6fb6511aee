"""Clients with a fault that shows later: after a reconnect, with what is sent, answered or refused a second time."""

from dataclasses import replace

import refimpl.client.consumer
import refimpl.client.entry
from conformance.clients.faults.model import fault, in_place_of, instead_of, on_outgoing
from refimpl.client.attached import Attached
from refimpl.client.batch_acks import BatchAcks
from refimpl.client.client import ClientCore
from refimpl.client.connection import Connection
from refimpl.client.consumer import Consumer
from refimpl.client.errors import BrokerRefused, ClientError, Closed
from refimpl.client.messages import MessageId
from refimpl.client.multi_topics_consumer import MultiTopicsConsumer
from refimpl.client.partitioned_producer import PartitionedProducer
from refimpl.client.producer import Producer
from refimpl.client.unpack import Corrupt
from refimpl.proposals.partition_watch.client import PartitionWatch
from refimpl.proposals.scalable_topics.client import ScalableTopicsWatch
from refimpl.proposals.topic_list.client import TopicListWatch
from refimpl.wire.pulsar_api_pb2 import (
    NONE,
    BaseCommand,
    CommandAck,
    CommandFlow,
    CommandPing,
    CommandPong,
    CommandSend,
    CommandSubscribe,
    CommandWatchScalableTopics,
    NotAllowedError,
    ProducerFenced,
)

# Silence


@in_place_of(Connection._keep_alive, clause="core.client.silent-broker-left")
def trusts_a_broker_that_answered_once(keep_alive, connection):
    """A connection on which one PING was answered is never left."""
    connection.has_answered = getattr(connection, "has_answered", False) or (hasattr(connection, "has_asked") and not connection._silent)
    connection.has_asked = True
    if connection.has_answered:
        connection._silent = False
    keep_alive(connection)


@in_place_of(Connection.send, clause="core.client.answers-ping")
def answers_no_ping_once_it_has_sent_one(send, connection, message, payload=None):
    """From its own first PING on a client sends no PONG."""
    connection.asked = getattr(connection, "asked", False) or isinstance(message, CommandPing)
    if not (connection.asked and isinstance(message, CommandPong)):
        send(connection, message, payload)


@fault("core.client.any-frame-counts")
def waits_for_pong_alone(patches):
    """While the client waits for PONG, nothing else shows that the broker is alive."""

    def handling(original):
        def handled(connection, frame):
            connection.waits = getattr(connection, "waits", False) and frame.command.type != BaseCommand.PONG
            original(connection, frame)

        return handled

    def asking(original):
        def asked(connection):
            connection._silent = getattr(connection, "waits", False)
            original(connection)
            connection.waits = True

        return asked

    patches.wrap(Connection, "_handle", handling)
    patches.wrap(Connection, "_keep_alive", asking)


# Producers


@in_place_of(Producer._register, clause="core.client.sequence-grows")
async def takes_the_number_of_the_broker_again(register, producer, connection):
    """A producer with a name of its own counts from last_sequence_id again whenever it attaches."""
    was = producer._was_attached
    producer._was_attached = was and producer.options.name is None
    try:
        await register(producer, connection)
    finally:
        producer._was_attached = was


@in_place_of(Producer._on_attached, clause="core.client.sends-again")
def sends_batches_again_without_their_number(on_attached, producer, connection):
    """A batch that is sent again does not say how many messages it has."""
    send = connection.send

    def without(message, payload=None):
        if isinstance(message, CommandSend):
            message.ClearField("num_messages")
        send(message, payload)

    connection.send = without
    try:
        on_attached(producer, connection)
    finally:
        connection.send = send


@in_place_of(Producer._on_attached, clause="core.client.sends-again")
def sends_again_after_one_loss(on_attached, producer, connection):
    """What was sent again once is not sent again after the next loss."""
    known = producer.__dict__.setdefault("sent_again", set())
    waiting = producer._unconfirmed
    producer._unconfirmed = {number: entry for number, entry in waiting.items() if number not in known}
    known.update(waiting)
    on_attached(producer, connection)
    producer._unconfirmed = {**waiting, **producer._unconfirmed}


@in_place_of(Producer._expire, clause="core.client.times-out")
def looks_at_the_time_once(expire, producer):
    """Once a message has run into the send time-out, no other one does."""
    expire(producer)
    if producer._expiry_timer is not None:
        producer._expiry_timer.cancel()


@in_place_of(Attached._gives_up, clause="core.client.fenced-ends")
def comes_back_after_it_was_fenced(gives_up, one, error, give_up_at):
    """A producer that is refused with ProducerFenced tries again."""
    return error.code != ProducerFenced and gives_up(one, error, give_up_at)


@in_place_of(PartitionedProducer.grow, clause="pip247.client.attaches-once")
async def attaches_again_to_what_grew_before(grow, producer, topics):
    """Whenever its topic grows, a producer attaches to all partitions beyond those that it was made with."""
    made_with = producer.__dict__.setdefault("made_with", len(producer.members))
    producer.members = producer.members[:made_with]
    await grow(producer, topics)


@in_place_of(Producer._register, clause="core.client.epoch-grows")
async def counts_one_reconnect(register, producer, connection):
    """The epoch of a producer is 1 from its first reconnect on."""
    producer._epoch = min(producer._epoch, 1)
    await register(producer, connection)


@instead_of(refimpl.client.entry, "compress", clause="core.client.sends-whole")
def leaves_what_does_not_shrink(compress, body, compression):
    """What compression would not make smaller is sent as it is, under a header that names the compression."""
    return min(compress(body, compression), body, key=len)


@in_place_of(Attached.end, clause="core.client.closed-stays")
def comes_back_after_its_user_left(end, one, error):
    """Who is closed while there is no connection goes on looking for one."""
    if one.error is None and isinstance(error, Closed) and one._was_attached and one._place is None:
        looking, one._process = one._process, None
        end(one, error)
        one._process = looking
    else:
        end(one, error)


# Consumers


@in_place_of(Consumer._on_attached, clause="core.client.permits-bounded")
def counts_what_a_lost_connection_delivered(on_attached, consumer, connection):
    """Permits that were not given back on the lost connection are given on the next one, beside those of the whole queue."""
    returned = consumer._permits.returned
    on_attached(consumer, connection)
    consumer._permits.returned = returned


@in_place_of(Attached._leave, clause="core.client.consumer-epoch")
def forgets_its_epoch(leave, one):
    """A consumer that loses its broker counts its requests for redelivery from 0 again."""
    leave(one)
    one._epoch = 0 if isinstance(one, Consumer) else one._epoch


@on_outgoing(CommandSubscribe, clause="core.client.reattaches-after-loss")
def subscribes_with_the_first_epoch(connection, request):
    """SUBSCRIBE says consumer_epoch 0, also after the consumer has asked for a redelivery with a higher one."""
    request.consumer_epoch = 0


@in_place_of(Consumer._ask_refused, clause="core.client.negative-all")
def forgets_what_is_given_back_later(ask, consumer):
    """When the time of one message that was given back has come, those whose time comes later are forgotten."""
    for position in [position for position, when in consumer._refused.items() if when > consumer._scheduler.now]:
        del consumer._refused[position]
    ask(consumer)


@in_place_of(Consumer._return, clause="core.client.permits-returned")
def gives_no_permits_where_there_are_few(give_back, consumer, count):
    """Half of a queue of one is none: FLOW has 0 permits."""
    if consumer.connection is not None and consumer.options.queue_size == 1:
        consumer.connection.send(CommandFlow(consumer_id=consumer.number, messagePermits=0))
    give_back(consumer, count)


@in_place_of(MultiTopicsConsumer.acknowledge_cumulative, clause="core.client.ids-meant")
def acknowledges_all_with_the_first_partition(acknowledge, consumer, message):
    """A cumulative acknowledgement goes through the consumer of the first partition, whichever the message is from."""
    next(iter(consumer.members.values())).acknowledge_cumulative(message.id)


@in_place_of(ClientCore.new_id, clause=("core.client.ids-unique", "core.client.ids-meant"))
def numbers_by_those_that_are_open(new_id, core, kind):
    """A new consumer or producer has the number of those that are open, which is that of an open one after another was closed."""
    kinds = {"consumer": Consumer, "producer": Producer}
    return sum(isinstance(part, kinds[kind]) for part in core._parts) if kind in kinds else new_id(core, kind)


@in_place_of(Consumer._register, clause="pr7629.client.sends-meta")
async def subscribes_without_the_refused_filter(register, consumer, connection):
    """A consumer whose filter is refused with NotAllowedError subscribes without it."""
    try:
        await register(consumer, connection)
    except BrokerRefused as refused:
        if consumer._filtering is None or refused.code != NotAllowedError:
            raise
        consumer._filtering = None
        await register(consumer, connection)


@in_place_of(BatchAcks.delivered, clause="core.client.batch-acknowledged")
def waits_for_what_was_acknowledged_before(delivered, acks, position, size, bits):
    """Of a batch that comes again in part, the messages that are not shown again count as open."""
    still = delivered(acks, position, size, bits)
    acks._open[position] = bits
    return still


@in_place_of(BatchAcks.cumulative, clause="core.client.batch-acknowledged")
def counts_all_behind_a_cumulative_one_as_open(cumulative, acks, message_id):
    """After a cumulative acknowledgement inside of a batch all that is behind it is open, also what was acknowledged by itself."""
    size = message_id.batch_size
    if message_id.batch_index >= 0 and message_id.position in acks._open:
        acks._open[message_id.position] |= (1 << size) - (2 << message_id.batch_index)
    return cumulative(acks, message_id)


@in_place_of(Consumer._moved, clause="core.client.seek-starts-anew")
def goes_on_behind_the_batch_that_it_sought(moved, consumer, position):
    """After a seek to a message of a batch the whole batch is left out."""
    moved(consumer, position)
    if isinstance(position, MessageId) and position.batch_index >= 0:
        consumer._wanted = replace(position, batch_index=position.batch_size)


@instead_of(refimpl.client.consumer, "unpack", clause="core.client.size-optional")
def compares_sizes_always(unpack, frame, *place):
    """What is not as long as its header says is damaged, also if it is not compressed."""
    payload = frame.payload()
    if payload.metadata.compression == NONE and len(payload.body) != payload.metadata.uncompressed_size:
        raise Corrupt(CommandAck.DecompressionError, "it is not as long as its header says")
    return unpack(frame, *place)


@in_place_of(MultiTopicsConsumer.unsubscribe, clause="core.client.unsubscribe-refused")
async def tells_what_the_first_partition_said(unsubscribe, consumer):
    """Whether unsubscribing worked is what the first partition answers; the user does not hear of the others."""
    first, *others = consumer.members.values()
    await first.unsubscribe()
    for other in others:
        try:
            await other.unsubscribe()
        except ClientError:
            other.close()
    consumer.close()


@instead_of(refimpl.client.consumer, "open_messages", clause="pr7629.client.ack-set")
def reads_one_word_of_an_ack_set(open_messages, ack_set, batch_size):
    """Of an ack_set only the first 64 messages count."""
    return open_messages(list(ack_set)[:1], batch_size)


@in_place_of(Consumer.taken, clause="core.client.reader-continues")
def goes_on_behind_single_messages(taken, consumer, message):
    """A reader that comes back begins behind the last message that was no part of a batch."""
    start, wanted = consumer._start, consumer._wanted
    taken(consumer, message)
    if message.id.batch_index >= 0:
        consumer._start, consumer._wanted = start, wanted


# Watches


@in_place_of(TopicListWatch._offer_of, clause="pip145.client.watch-needs-flag")
def knows_the_flag_of_the_first_connection(offer_of, watch, flags):
    """Whether the broker has watchers is read once."""
    if not hasattr(watch, "first_offer"):
        watch.first_offer = offer_of(watch, flags)
    return watch.first_offer


@in_place_of(PartitionWatch.called, clause="pip247.client.result")
def names_the_newest_version(called, watch, success, now):
    """The result of an update names the version that came last, which the listener has not seen yet."""
    before = len(watch._results)
    called(watch, success, now)
    for result in watch._results[before:]:
        result.version = watch._update.version


@in_place_of(PartitionedProducer._end, clause="pip247.client.closes")
def follows_after_it_was_closed(end, producer, error):
    """A producer that is closed leaves its watcher open."""
    producer.error = producer.error or error
    producer._core.forget(producer)


@fault("pr25648.client.hash-on-reconnect")
def sends_the_hash_of_the_snapshot(patches):
    """The hash in a watch request leaves out what diffs have changed."""

    def replace(original):
        def replaced(watch, snapshot):
            original(watch, snapshot)
            watch.hash_of_snapshot = watch.topics_hash

        return replaced

    def messages(original):
        def changed(watch, *arguments):
            for message in original(watch, *arguments):
                if isinstance(message, CommandWatchScalableTopics) and message.HasField("current_hash"):
                    message.current_hash = watch.hash_of_snapshot
                yield message

        return changed

    patches.wrap(ScalableTopicsWatch, "_replace", replace)
    patches.wrap(ScalableTopicsWatch, "_messages", messages)


@in_place_of(ClientCore.new_id, clause="core.client.ids-meant")
def has_one_number_for_all_watches(new_id, core, kind):
    """All watches of namespaces have the watch_id 0."""
    return 0 if kind == "watch" else new_id(core, kind)


@in_place_of(TopicListWatch._watched, clause="pip145.client.watch-applies-list")
def keeps_what_a_later_list_lacks(watched, watch, answer, now):
    """The list that follows a reconnect adds topics, and takes none away."""
    known = [] if watch.registrations == 0 else [*(watch._topics or ())]
    replace = watch._replace
    watch._replace = lambda topics: replace(list(dict.fromkeys([*known, *topics])))
    try:
        watched(watch, answer, now)
    finally:
        del watch._replace
