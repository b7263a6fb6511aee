"""Uniform batches (PIP-191) of the client at the reference broker: what is stored, and what a filtered subscription gets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refimpl.broker import Broker, Member
from refimpl.broker.broker import PROPOSALS
from refimpl.client import (
    MessageId,
    ProducerOptions,
)
from refimpl.net.memory_link import MemoryLink
from refimpl.proposals import profiles, uniform_batches
from refimpl.proposals.uniform_batches import allowed_values, extracted_set
from refimpl.wire import SingleMessage, decode_batch, decompress, encode_batch, encode_payload, is_batch, parse_payload
from refimpl.wire.pulsar_api_pb2 import (
    LZ4,
    NONE,
    ZSTD,
    CommandSubscribe,
    MessageMetadata,
    SingleMessageMetadata,
)
from tests.fakes.broker_peer import Peer
from tests.fakes.client_world import World, received, virtually
from tests.fakes.scripted_broker import TOPIC
from tests.samples.uniform_batches import EXAMPLE, SETTING, uniform

JAVA_SINGLE = profiles.DEFAULT.replacing(uniform_batches.PROPOSAL, uniform_batches.UniformBatchesProfile(batch_of_one="java_single"))
ALLOWED = allowed_values(SETTING)


# At the reference broker


PROPERTIES = st.dictionaries(st.sampled_from(["region", "version", "tag"]), st.sampled_from(["us", "eu", "1", "2", "5"]), max_size=3)
MESSAGES = st.tuples(PROPERTIES, st.binary(max_size=80), st.sampled_from([None, "a", "b", "c"]), st.sampled_from([0.0, 0.0, 0.004, 0.02]))


@settings(max_examples=60)
@given(
    st.lists(MESSAGES, max_size=40),
    st.sampled_from([0, 1, 3]),
    st.integers(1, 6),
    st.integers(20, 300),
    st.sampled_from([NONE, LZ4]),
    st.sampled_from([profiles.DEFAULT, JAVA_SINGLE]),
)
def test_whatever_is_sent_is_stored_once_in_order_and_under_its_set(
    messages: list[Any], partitions: int, most: int, data: int, compression: int, profile: profiles.Profiles
) -> None:
    async def test(world: World) -> None:
        if partitions:
            world.broker.admin.create_partitioned_topic(TOPIC, partitions)
        async with world.client(profiles=profile) as client:
            options = uniform(batch_messages=most, batch_bytes=data, batch_delay=0.01, compression=compression)
            producer = await client.create_producer(TOPIC, options)
            sending = []
            for number, (properties, payload, key, pause) in enumerate(messages):
                sending.append(producer.send_async(b"%d:" % number + payload, properties=properties, key=key))
                if pause:
                    await asyncio.sleep(pause)
            await producer.flush()
            places = [await one for one in sending]
            stats = producer.stats
        topics = [f"{TOPIC}-partition-{index}" for index in range(partitions)] or [TOPIC]
        stored = {topic: world.broker.store.namespaces["public/default"].topics[topic].entries for topic in topics}
        assert (stats.messages, stats.entries) == (len(messages), sum(map(len, stored.values())))
        assert stats.entry_bytes == sum(len(entry.data) for entries in stored.values() for entry in entries)
        seen: dict[int, MessageId] = {}
        for partition, (_, entries) in enumerate(stored.items()):
            numbers = []
            for index, entry in enumerate(entries):
                payload = parse_payload(entry.data)
                metadata = payload.metadata
                body = decompress(payload.body, metadata.compression, metadata.uncompressed_size)
                shown = tuple((one.key, one.value) for one in metadata.properties)
                if not is_batch(metadata):
                    assert profile is JAVA_SINGLE
                    number = int(body.partition(b":")[0])
                    assert shown == tuple(messages[number][0].items())
                    numbers.append(number)
                    seen[number] = MessageId(places[number].ledger_id, index)
                    continue
                singles = decode_batch(body, metadata.num_messages_in_batch)
                assert len(singles) <= most
                for place, single in enumerate(singles):
                    number = int(single.body.partition(b":")[0])
                    properties = messages[number][0]
                    assert single.body == b"%d:" % number + messages[number][1]
                    assert {one.key: one.value for one in single.metadata.properties} == properties
                    assert shown == extracted_set(properties, ALLOWED)
                    numbers.append(number)
                    seen[number] = MessageId(places[number].ledger_id, index, place)
                    if partitions:
                        assert places[number].partition == partition
            assert numbers == sorted(numbers)
        assert [seen[number] for number in range(len(messages))] == places

    virtually(test)


ALL = [text for text, _ in EXAMPLE]


@pytest.mark.parametrize(
    ("options", "properties", "arrive"),
    [
        (uniform(), {"entry-filter.region": "eu"}, ["m1", "m2", "m3", "m4"]),
        (uniform(), {"entry-filter.version": "1"}, ["m1", "m2", "m3", "m4", "m5", "m7", "m8"]),
        (uniform(compression=ZSTD), {"entry-filter.version": "1", "entry-filter.region": "us"}, ["m5", "m7", "m8"]),
        (uniform(), {}, ALL),
        (ProducerOptions(batch_delay=1.0), {"entry-filter.region": "us"}, ALL),
        (ProducerOptions(batching=False), {"entry-filter.region": "us"}, ["m5", "m6", "m7", "m8"]),
        (ProducerOptions(batching=False), {"entry-filter.version": "1"}, ["m1", "m2", "m3", "m4", "m5"]),
    ],
)
@pytest.mark.parametrize("partitions", [0, 2])
def test_the_example_through_a_filter(options: ProducerOptions, properties: dict[str, str], arrive: list[str], partitions: int) -> None:
    async def test(world: World) -> None:
        if partitions:
            world.broker.admin.create_partitioned_topic(TOPIC, partitions)
        async with world.client() as client:
            filtered = await client.subscribe("t", "filtered", subscription_properties=properties)
            plain = await client.subscribe("t", "plain")
            producer = await client.create_producer("t", options)
            for text, of in EXAMPLE:
                producer.send_async(text.encode(), properties=of, key="k")
            await producer.flush()
            for consumer, expected in ((filtered, arrive), (plain, ALL)):
                messages = await received(consumer, len(expected))
                assert [message.payload.decode() for message in messages] == expected
                assert all(dict(message.properties) == dict(EXAMPLE)[message.payload.decode()] for message in messages)
                await consumer.acknowledge(messages)
        topics = [f"{TOPIC}-partition-{index}" for index in range(partitions)] or [TOPIC]
        for topic in topics:
            for one in world.broker.admin.topic_stats(topic)["subscriptions"].values():
                assert one["msgBacklog"] == 0

    virtually(test)


def test_at_a_broker_from_before_the_proposal_a_filter_filters_nothing() -> None:
    async def test(world: World) -> None:
        world.broker = Broker(proposals=PROPOSALS - {"pip191"}, members=[Member("pulsar://broker:6650")])
        world.link = MemoryLink(world.broker)
        async with world.client() as client:
            consumer = await client.subscribe("t", "s", subscription_properties={"entry-filter.region": "eu", "entry-filter.": "x"})
            producer = await client.create_producer("t", uniform())
            for text, of in EXAMPLE:
                producer.send_async(text.encode(), properties=of)
            await producer.flush()
            assert [message.payload.decode() for message in await received(consumer, 8)] == ALL

    virtually(test)


def test_a_message_without_properties_has_none_whatever_the_header_says() -> None:
    """As Go clients write batches."""

    async def test(world: World) -> None:
        metadata = MessageMetadata(producer_name="go", sequence_id=0, publish_time=1, num_messages_in_batch=2)
        metadata.properties.add(key="region", value="eu")
        singles = [SingleMessage(SingleMessageMetadata(sequence_id=number), b"%d" % number) for number in range(2)]
        peer = Peer(world.broker)
        peer.producer()
        peer.send("send", encode_payload(metadata, encode_batch(singles)), producer_id=1, sequence_id=0, num_messages=2)
        async with world.client() as client:
            consumer = await client.subscribe("t", "s", initial_position=CommandSubscribe.Earliest)
            assert [(message.payload, dict(message.properties)) for message in await received(consumer, 2)] == [(b"0", {}), (b"1", {})]

    virtually(test)
