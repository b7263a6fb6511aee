"""The reference client with scalable topics on a real Apache Pulsar 5.0.0-M1, and the same on the reference broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from conformance.targets import Endpoint
from refimpl.client import BrokerRefused
from refimpl.client.scalable_producer import segment_hash
from refimpl.net.client import NamespaceSubscription
from refimpl.proposals.scalable_topics import ScalableTopicChanges, topics_hash
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, TopicNotFound
from tests.interop.place import FROM_START, Place, Test, received

SHARED: dict[str, Any] = {"type": CommandSubscribe.Shared, **FROM_START}
FILTERS = {"owner": "alice"}
TOLD = 20.0
"""Seconds in which a change must be told of, and attached to, also by a broker that has just started on a busy machine."""


@pytest.fixture(scope="session")
def broker(scalable_broker: Endpoint) -> Endpoint:
    return scalable_broker


def topic(place: Place, name: object) -> str:
    return f"topic://{place.namespace}/{name}"


def segment(place: Place, name: object) -> str:
    return f"segment://{place.namespace}/{name}/0000-ffff-0"


async def create(place: Place, name: object, segments: int = 1, owner: str = "alice") -> None:
    await place.admin("create_scalable_topic", {"topic": topic(place, name), "segments": segments, "properties": {"owner": owner}})


async def until(condition: Callable[[], bool], seconds: float = TOLD) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def follows(place: Place, subscription: NamespaceSubscription, *names: object) -> None:
    """Wait until exactly these topics are known and attached to; 5.0.0-M1 now and then tells a deletion wrongly, which a reconnect heals."""
    wanted = {topic(place, name) for name in names}
    try:
        await until(lambda: subscription.topics == wanted)
    except TimeoutError:
        place.cut()
        await until(lambda: subscription.topics == wanted)
    await until(lambda: subscription.attached == {segment(place, name) for name in names})
    assert subscription.topics_hash == topics_hash(wanted)


@pytest.mark.parametrize("segments", [1, 3])
def test_produce_and_consume(at: Callable[[Test], None], segments: int) -> None:
    async def test(place: Place) -> None:
        await create(place, "x", segments)
        async with place.client() as client:
            consumer = await client.subscribe(topic(place, "x"), "s", **FROM_START)
            producer = await client.create_producer(topic(place, "x"), batching=False)
            assert producer.partitions == len(consumer.attached) == segments
            for number in range(20):
                await producer.send(b"%d" % number, key=f"k{number % 7}")
            messages = await received(consumer, 20)
            assert {int(one.payload) for one in messages} == set(range(20))
            for message in messages:
                start, end, _ = message.topic.rsplit("/", 1)[1].split("-")
                assert int(start, 16) <= segment_hash(message.key or "") <= int(end, 16)
            await consumer.acknowledge(messages)

    at(test)


def test_a_topic_that_does_not_exist(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        async with place.client() as client:
            with pytest.raises(BrokerRefused) as caught:
                await client.subscribe(topic(place, "x"), "s")
            assert caught.value.code == TopicNotFound

    at(test)


def test_topics_are_pushed(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        await create(place, "a")
        await create(place, "b", owner="bob")
        changes: list[ScalableTopicChanges] = []
        async with place.client() as client:
            consumer = await client.subscribe_namespace(place.namespace, "s", property_filters=FILTERS, on_topics=changes.append, **SHARED)
            assert (consumer.topics, consumer.attached) == ({topic(place, "a")}, {segment(place, "a")})
            await create(place, "c")
            await create(place, "d", owner="bob")
            await follows(place, consumer, "a", "c")
            assert changes == [ScalableTopicChanges((topic(place, "c"),), ())]
            for name in "abc":
                async with await client.create_producer(topic(place, name)) as producer:
                    await producer.send(name.encode())
            messages = await received(consumer, 2)
            assert sorted(one.payload for one in messages) == [b"a", b"c"]
            await consumer.acknowledge(messages)
            await place.admin("delete_scalable_topic", {"topic": topic(place, "a"), "force": True})
            await follows(place, consumer, "c")

    at(test)


def test_a_cut_is_survived_with_the_hash(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        await create(place, "a")
        async with place.client() as client:
            consumer = await client.subscribe_namespace(place.namespace, "s", property_filters=FILTERS, **SHARED)
            producer = await client.create_producer(topic(place, "a"), batching=False)
            for number in range(3):
                place.cut()
                await producer.send(b"%d" % number)
                message = await consumer.receive()
                assert message.payload == b"%d" % number
                await consumer.acknowledge(message)
            place.reachable = False
            place.cut()
            await create(place, "b")
            assert consumer.topics == {topic(place, "a")}
            place.reachable = True
            await follows(place, consumer, "a", "b")
            await create(place, "c")  # the watch lives on
            await follows(place, consumer, "a", "b", "c")

    at(test)


def test_a_scalable_and_an_ordinary_topic_side_by_side(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        async with place.client() as client:
            scalable = await client.subscribe_namespace(place.namespace, "s", **SHARED)
            ordinary = await client.subscribe_pattern(f"persistent://{place.namespace}/.*", "s", **SHARED)
            await create(place, "a")
            await place.admin("create_topic", place.topic("b"))
            await follows(place, scalable, "a")
            await until(lambda: ordinary.attached == {place.topic("b")})
            for name in (topic(place, "a"), place.topic("b")):
                async with await client.create_producer(name) as producer:
                    await producer.send(name.encode())
            assert (await scalable.receive()).topic == segment(place, "a")
            assert (await ordinary.receive()).topic == place.topic("b")

    at(test)
