"""Clients with a fault in what they keep when a connection has ended, a redirect is over, or the user has moved."""

import dataclasses

import refimpl.client.scalable_producer
from conformance.clients.faults.model import in_place_of, instead_of, on_outgoing
from refimpl.client.consumer import Consumer
from refimpl.client.multi_topics_consumer import MultiTopicsConsumer
from refimpl.client.partitioned_producer import PartitionedProducer
from refimpl.client.pool import Pool
from refimpl.client.producer import Producer
from refimpl.client.watch_driver import WatchDriver
from refimpl.wire.pulsar_api_pb2 import CommandLookupTopic

# Limits and places


@in_place_of(Producer._on_attached, clause="core.client.size-limit")
def keeps_the_smallest_limit(on_attached, producer, connection):
    """The smallest max_message_size that a producer has heard of counts for ever."""
    on_attached(producer, connection)
    smallest = min(producer.__dict__.get("smallest", connection.max_message_size), connection.max_message_size)
    producer.__dict__["smallest"] = producer._max_message_size = smallest


@in_place_of(Pool._target, clause="core.client.proxy-named")
def stays_behind_the_proxy(target, pool, answer):
    """Once a look-up has led through the proxy, all others do."""
    found = target(pool, answer)
    pool.__dict__["proxied"] = pool.__dict__.get("proxied", False) or answer.proxy_through_service_url
    return dataclasses.replace(pool._service, proxy_to=found.address) if pool.__dict__["proxied"] else found


@on_outgoing(CommandLookupTopic, clause="core.client.redirect-followed")
def says_authoritative_for_ever(connection, request):
    """After a redirect that was authoritative all look-ups say so."""
    connection.__dict__["told"] = request.authoritative = connection.__dict__.get("told", False) or request.authoritative


@instead_of(refimpl.client.scalable_producer, "murmur3", clause="pr25648.layout.client-routes")
def hashes_letters_and_no_bytes(murmur3, data):
    """The hash of a key is that of its letters in ISO 8859-1."""
    return murmur3(data.decode().encode("latin-1", "replace"))


# Times


@in_place_of(Producer._on_attached, clause="core.client.times-out")
def waits_once_more_on_each_connection(on_attached, producer, connection):
    """The send time-outs of all messages begin again when a producer attaches again."""
    expires = producer._scheduler.now + producer.options.send_timeout
    for entry in producer._unconfirmed.values():
        entry.queued[:] = [dataclasses.replace(one, expires=expires) for one in entry.queued]
    on_attached(producer, connection)


@in_place_of(Consumer._acknowledge, clause=("core.client.seek-starts-anew", "core.client.negative-one"))
def acknowledges_later_whatever_comes(acknowledge, consumer, *what):
    """Acknowledgements are sent after a second, also if the user seeks or gives a message back before that."""
    consumer._scheduler.call_at(consumer._scheduler.now + 1, lambda: acknowledge(consumer, *what))


@in_place_of(Consumer._stale, clause="core.client.older-epoch")
def takes_messages_of_any_epoch(stale, consumer, frame):
    """The consumer_epoch of MESSAGE is not looked at."""
    return False


# What the user does while there is no connection


@in_place_of(MultiTopicsConsumer.seek, clause="core.client.done-is-done")
async def seeks_where_it_is_attached(seek, consumer, position):
    """A seek leaves out the topics that are not attached, and is done."""
    away = {topic: one for topic, one in consumer.members.items() if one.connection is None}
    for topic in away:
        del consumer.members[topic]
    try:
        await seek(consumer, position)
    finally:
        consumer.members.update(away)


@in_place_of(WatchDriver.close, clause=("pip145.client.watch-close", "pip247.client.closes", "pr25648.client.closes"))
def closes_what_is_attached(close, driver):
    """A watch that has no connection is not closed."""
    if driver._connection is not None:
        close(driver)


# Partitions that are found later


@in_place_of(PartitionedProducer.grow, clause="core.client.numbers-from")
async def counts_from_0_on_new_partitions(grow, producer, topics):
    """Messages to a partition that is found later are numbered from 0."""
    known = len(producer.members)
    await grow(producer, topics)
    for one in producer.members[known:]:
        one.last_sequence_id = -1


@in_place_of(PartitionedProducer.grow, clause="pip247.client.routes-anew")
async def sorts_partitions_as_text(grow, producer, topics):
    """When partitions are found, all are sorted by name, -10 before -2."""
    await grow(producer, topics)
    producer.members.sort(key=lambda one: one.topic)
