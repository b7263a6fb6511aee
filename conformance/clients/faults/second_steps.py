"""Clients with a fault in a second step: after a reconnect, an error, an update or a new partition something is not as it was."""

from dataclasses import replace

from conformance.clients.faults.model import fault, in_place_of, on_outgoing, stays_away
from refimpl.client.connection import Connection
from refimpl.client.consumer import Consumer
from refimpl.client.entry import encode_entry
from refimpl.client.multi_topics_consumer import MultiTopicsConsumer
from refimpl.client.partitioned_producer import PartitionedProducer
from refimpl.client.producer import Producer
from refimpl.proposals.partition_watch.client import PartitionWatch
from refimpl.proposals.topic_list.client import TopicListWatch
from refimpl.proposals.uniform_batches import Batch
from refimpl.proposals.watch_machine import Registration
from refimpl.wire.pulsar_api_pb2 import (
    CommandPartitionedTopicMetadataResponse,
    CommandPartitionUpdate,
    CommandSubscribe,
    CommandWatchScalableTopics,
    ProducerAccessMode,
)

# Producers and consumers


@fault("core.client.reattaches-after-loss", "core.client.reattaches-after-close")
def stays_away_from_a_topic_that_has_ended(patches):
    """A consumer that was told of the end of its topic does not attach again."""

    def receiving(original):
        def received(consumer, frame):
            consumer.has_reached_the_end = consumer.__dict__.get("has_reached_the_end") or frame.command.HasField("reachedEndOfTopic")
            original(consumer, frame)

        return received

    patches.wrap(Consumer, "received", receiving)
    stays_away(patches, "has_reached_the_end")


@fault("core.client.waits-on")
def takes_its_second_answer_for_its_turn(patches):
    """A producer that asks for its access again is ready with the first answer, whatever producer_ready says."""

    def registering(original):
        async def register(producer, connection):
            connection.is_asked_again = producer._epoch > 0
            await original(producer, connection)

        return register

    def handling(original):
        def handle(connection, frame):
            if frame.command.HasField("producer_success") and connection.is_asked_again:
                frame.command.producer_success.producer_ready = True
            original(connection, frame)

        return handle

    patches.wrap(Producer, "_register", registering)
    patches.wrap(Connection, "_handle", handling)


@in_place_of(Connection.give_up, clause="core.client.waits-on")
def waits_for_a_turn_that_does_not_come(give_up, connection, request_id, error):
    """A producer that the broker closes while it waits for its turn goes on waiting for the answer."""


@in_place_of(Producer._on_attached, clause="pip191.header.extracted-set")
def sends_batches_again_without_their_sets(on_attached, producer, connection):
    """A batch that is sent again has no properties in its header."""
    for number, entry in producer._unconfirmed.items():
        if entry.is_batch and producer._epoch > 1:
            batch = Batch(tuple(entry.queued), None, None)
            producer._unconfirmed[number] = encode_entry(batch, producer.name, producer._core.wall_clock_ms(), producer.options.compression)
    on_attached(producer, connection)


# Watches


@fault("pip145.client.list-hash-of-set")
def asks_with_the_hash_of_its_last_list(patches):
    """A request for the list has the hash of the last list, also when updates have changed the set since."""

    def listing(original):
        def listed(watch, answer, now):
            original(watch, answer, now)
            if answer.changed:
                watch.listed_hash = watch.topics_hash

        return listed

    def asking(original):
        def ask(watch, send, request_id):
            request = original(watch, send, request_id)
            if request.HasField("topics_hash"):
                request.topics_hash = watch.listed_hash
            return request

        return ask

    patches.wrap(TopicListWatch, "_listed", listing)
    patches.wrap(TopicListWatch, "_list", asking)


@in_place_of(TopicListWatch.close, clause="pip145.client.watch-close")
def leaves_a_watcher_that_it_has_asked_for_again(close, watch):
    """Who closes a pattern consumer before its watch is answered on a second connection leaves the watcher open."""
    if watch.registrations and watch.registration is Registration.ASKED:
        watch.registration, watch.asked = Registration.NONE, None
    close(watch)


@in_place_of(PartitionWatch.close, clause="pip247.client.closes")
def leaves_a_partition_watcher_that_it_has_asked_for_again(close, watch):
    """Who closes a consumer before its watch is answered on a second connection leaves the watcher open."""
    if watch._epoch > 1 and watch.registration is Registration.ASKED:
        watch.registration = Registration.NONE
    close(watch)


@in_place_of(PartitionWatch._watched, clause="pip247.client.no-foreign-result")
def keeps_what_waits_for_its_listener(watched, watch, answer, now):
    """An update that waits for the listener when the connection ends is confirmed on the next connection."""
    waiting = watch._next
    watched(watch, answer, now)
    if waiting is not None and waiting.source is CommandPartitionUpdate:
        watch._next = replace(waiting, epoch=watch._epoch)


@on_outgoing(CommandWatchScalableTopics, clause="pr25648.client.error-retried")
def asks_again_without_filters(connection, request):
    """A second request on a connection has no property filters."""
    asked = connection.__dict__.setdefault("has_asked", set())
    if request.watch_id in asked:
        request.ClearField("property_filters")
    asked.add(request.watch_id)


# New partitions and segments


@in_place_of(PartitionWatch.called, clause="pip247.client.poll-attaches")
def tries_what_it_has_polled_once(called, watch, success, now):
    """A new partition that a poll has found counts as attached, also if it is refused."""
    told, _ = watch._running
    called(watch, success or told.source is CommandPartitionedTopicMetadataResponse, now)


@in_place_of(PartitionedProducer.grow, clause="pip247.client.new-alike")
async def shares_new_partitions(grow, producer, topics):
    """A producer attaches to a new partition with access Shared, whatever it has on the others."""
    options = producer.options
    producer.options = replace(options, access_mode=ProducerAccessMode.Shared)
    try:
        await grow(producer, topics)
    finally:
        producer.options = options


@in_place_of(MultiTopicsConsumer.grow, clause="pip247.client.new-alike")
async def takes_new_partitions_for_itself(grow, consumer, topics):
    """A consumer attaches to a new partition with type Exclusive, whatever it has on the others."""
    options = consumer.options
    consumer.options = replace(options, subscription_type=CommandSubscribe.Exclusive)
    try:
        await grow(consumer, topics)
    finally:
        consumer.options = options
