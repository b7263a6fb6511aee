"""The reference client on a real Apache Pulsar, and the same on the reference broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from refimpl.client import EARLIEST, BrokerRefused, InvalidMessage
from refimpl.net.client import Client, Consumer, PatternSubscription
from refimpl.proposals.topic_list import TopicChanges, topics_hash
from refimpl.wire.pulsar_api_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD, CommandSubscribe, CompressionType, TopicNotFound
from tests.interop.place import FROM_START, Place, Test, received

S = CommandSubscribe
PUSHED = 20.0
"""Seconds in which a topic must be told of; far below the period of the checks, so that only a push explains it."""
ATTACHED = 20.0
"""Seconds in which its consumer must be there."""


async def nothing_more(consumer: Consumer, producing: Awaitable[Any]) -> None:
    """Show that nothing was left to receive: what is sent now comes next."""
    message_id = await producing
    assert (await consumer.receive()).id == message_id


def test_produce_and_consume(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        async with place.client() as client:
            consumer = await client.subscribe(place.topic(), "s")
            producer = await client.create_producer(place.topic(), batching=False)
            ids = [await producer.send(b"%d" % i, properties={"i": "é☃"}, key=f"k{i}", event_time=i) for i in range(10)]
            messages = await received(consumer, 10)
            assert [message.id for message in messages] == ids
            assert [message.payload for message in messages] == [b"%d" % i for i in range(10)]
            assert [(one.key, one.event_time, dict(one.properties)) for one in messages[:2]] == [
                ("k0", 0, {"i": "é☃"}),
                ("k1", 1, {"i": "é☃"}),
            ]
            assert {message.producer_name for message in messages} == {producer.name}
            assert await consumer.last_message_id() == ids[-1]

    at(test)


@pytest.mark.parametrize("compression", [NONE, LZ4, ZLIB, ZSTD, SNAPPY], ids=CompressionType.Name)
def test_batches(at: Callable[[Test], None], compression: int) -> None:
    async def test(place: Place) -> None:
        async with place.client() as client:
            consumer = await client.subscribe(place.topic(), "s")
            producer = await client.create_producer(place.topic(), compression=compression, batch_delay=0.05)
            payloads = [b"%d " % i * 100 for i in range(300)]
            ids = await asyncio.gather(*(producer.send(payload) for payload in payloads))
            messages = await received(consumer, 300)
            assert [message.payload for message in messages] == payloads
            assert [message.id for message in messages] == list(ids)
            assert ids[1].batch_size > 1
            assert len({one.position for one in ids}) < 10
            last = await consumer.last_message_id()
            assert (last.position, last.batch_index) == (ids[-1].position, ids[-1].batch_index)

    at(test)


def test_what_was_acknowledged_does_not_come_again(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        async with place.client() as client:
            producer = await client.create_producer(place.topic(), batch_delay=0.05)
            async with await client.subscribe(place.topic(), "s", **FROM_START) as consumer:
                for start in (0, 5, 10):
                    await asyncio.gather(*(producer.send(b"%d" % i) for i in range(start, start + 5)))
                messages = await received(consumer, 15)
                await consumer.acknowledge_cumulative(messages[6])  # inside the second batch
                await consumer.acknowledge(messages[10:])
            async with await client.subscribe(place.topic(), "s") as consumer:
                assert [message.payload for message in await received(consumer, 5)] == [b"5", b"6", b"7", b"8", b"9"]
                await nothing_more(consumer, producer.send(b"x"))

    at(test)


def test_a_small_queue_keeps_up(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        async with place.client() as client:
            consumer = await client.subscribe(place.topic(), "s", queue_size=3)
            producer = await client.create_producer(place.topic(), batch_messages=7)
            await asyncio.gather(*(producer.send(b"%d" % i) for i in range(100)))
            assert [message.payload for message in await received(consumer, 100)] == [b"%d" % i for i in range(100)]

    at(test)


def test_refused_messages_of_a_shared_subscription_come_again_alone(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        async with place.client() as client:
            consumer = await client.subscribe(place.topic(), "s", type=S.Shared, negative_ack_delay=0.1)
            producer = await client.create_producer(place.topic(), batching=False)
            for i in range(5):
                await producer.send(b"%d" % i)
            messages = await received(consumer, 5)
            await consumer.negative_acknowledge(messages[3])
            again = await consumer.receive()
            assert (again.payload, again.redelivery_count) == (b"3", 1)
            await consumer.acknowledge([*messages[:3], again, messages[4]])
            await nothing_more(consumer, producer.send(b"x"))

    at(test)


def test_on_an_exclusive_subscription_everything_comes_again(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        async with place.client() as client:
            consumer = await client.subscribe(place.topic(), "s", queue_size=4)
            producer = await client.create_producer(place.topic(), batching=False)
            for i in range(12):
                await producer.send(b"%d" % i)
            first = await consumer.receive()
            await consumer.acknowledge(first)
            for _ in range(3):
                assert (await consumer.receive()).payload == b"1"
                await consumer.redeliver()
            assert [message.payload for message in await received(consumer, 11)] == [b"%d" % i for i in range(1, 12)]
            await nothing_more(consumer, producer.send(b"x"))

    at(test)


def test_seek_and_readers(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        async with place.client() as client:
            producer = await client.create_producer(place.topic(), batch_delay=0.05)
            for start in (0, 5):
                await asyncio.gather(*(producer.send(b"%d" % i) for i in range(start, start + 5)))
            consumer = await client.subscribe(place.topic(), "s", **FROM_START)
            messages = await received(consumer, 10)
            await consumer.acknowledge(messages)
            for position, expected in ((messages[7], b"7"), (EARLIEST, b"0"), (messages[5].id, b"5"), (messages[0].publish_time, b"0")):
                await consumer.seek(position)
                assert (await consumer.receive()).payload == expected
            reader = await client.create_reader(place.topic(), messages[2].id)
            assert [message.payload for message in await received(reader, 3)] == [b"3", b"4", b"5"]
            await reader.seek(messages[8])
            assert (await reader.receive()).payload == b"8"
            place.cut()
            assert (await reader.receive()).payload == b"9"
            await reader.seek(EARLIEST)
            assert (await reader.receive()).payload == b"0"
            await consumer.unsubscribe()
            assert "s" not in (await place.admin("topic_stats", place.topic()))["subscriptions"]

    at(test)


def test_messages_that_are_not_stored(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        topic = place.topic().replace("persistent", "non-persistent")
        async with place.client() as client:
            consumer = await client.subscribe(topic, "s", type=S.Shared)
            producer = await client.create_producer(topic, batch_delay=0.02)
            for start in (0, 5, 10):
                await asyncio.gather(*(producer.send(b"%d" % i) for i in range(start, start + 5)))
                messages = await received(consumer, 5)
                assert [message.payload for message in messages] == [b"%d" % i for i in range(start, start + 5)]
                await consumer.acknowledge(messages)

    at(test)


def test_an_empty_topic_has_no_last_message(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        async with place.client() as client:
            consumer = await client.subscribe(place.topic(), "s")
            assert (await consumer.last_message_id()).entry_id == -1

    at(test)


def test_messages_up_to_the_limit_are_stored_and_larger_ones_never_sent(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        async with place.client() as client:
            consumer = await client.subscribe(place.topic(), "s")
            producer = await client.create_producer(place.topic())
            limit = 5 * 1024 * 1024
            await producer.send(b"x" * (limit - 1024))
            assert len((await consumer.receive()).payload) == limit - 1024
            with pytest.raises(InvalidMessage):
                await producer.send(b"x" * limit)
            await nothing_more(consumer, producer.send(b"x"))

    at(test)


def test_partitions_and_their_growth(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        topic = place.topic()
        await place.admin("create_partitioned_topic", {"topic": topic, "partitions": 2})
        async with place.client() as client:
            consumer = await client.subscribe(topic, "s")
            producer = await client.create_producer(topic)
            assert producer.partitions == 2
            ids = await asyncio.gather(*(producer.send(b"%d" % i, key=f"k{i % 5}") for i in range(20)))
            messages = await received(consumer, 20)
            assert {message.topic for message in messages} == {f"{topic}-partition-0", f"{topic}-partition-1"}
            by_key = {key: {message.id.partition for message in messages if message.key == key} for key in {m.key for m in messages}}
            assert all(len(partitions) == 1 for partitions in by_key.values())
            assert {one.partition for one in ids} == {0, 1}
            await consumer.acknowledge(messages)
            await place.admin("update_partitioned_topic", {"topic": topic, "partitions": 4})
            grown = await client.subscribe(topic, "s2", **FROM_START)
            assert len(grown.attached) == 4
            wider = await client.create_producer(topic, batching=False)
            assert wider.partitions == 4
            for i in range(8):
                await wider.send(b"new %d" % i)
            new = [one for one in await received(grown, 28) if one.payload.startswith(b"new")]
            assert sorted(message.id.partition for message in new) == [0, 0, 1, 1, 2, 2, 3, 3]
            assert {one.payload for one in await received(consumer, 4)} <= {message.payload for message in new}

    at(test)


def test_a_busy_subscription_is_refused(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        async with place.client() as client:
            await client.subscribe(place.topic(), "s")
            with pytest.raises(BrokerRefused, match="ConsumerBusy"):
                await client.subscribe(place.topic(), "s")

    at(test)


def test_an_unloaded_topic_is_found_again(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        async with place.client() as client:
            consumer = await client.subscribe(place.topic(), "s")
            producer = await client.create_producer(place.topic(), batching=False)
            await producer.send(b"before")
            await consumer.acknowledge(await consumer.receive())
            await place.admin("unload_topic", place.topic())
            await producer.send(b"after")
            received = await consumer.receive()
            if received.payload == b"before":  # a real broker loses an acknowledgement now and then that came right before the unload
                received = await consumer.receive()
            assert received.payload == b"after"

    at(test)


def test_connections_that_are_cut_lose_nothing(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        async with place.client() as client:
            consumer = await client.subscribe(place.topic(), "s")
            producer = await client.create_producer(place.topic(), batching=False)
            sendings, seen = [], {}
            for i in range(60):
                sendings.append(producer.send_async(b"%d" % i))
                if i % 20 == 10:
                    await asyncio.sleep(0)
                    place.cut()
            while len(seen) < 60:
                message = await consumer.receive()
                seen[message.payload] = message.id
                await consumer.acknowledge(message)
            assert list(seen) == [b"%d" % i for i in range(60)]
            await asyncio.gather(*sendings)

    at(test)


def test_a_deleted_topic_ends_a_consumer_that_must_not_create_it(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        await place.admin("create_topic", place.topic())
        async with place.client() as client:
            consumer = await client.subscribe(place.topic(), "s", force_topic_creation=False)
            await place.admin("delete_topic", {"topic": place.topic(), "force": True})
            with pytest.raises(BrokerRefused) as caught:
                await consumer.receive()
            assert caught.value.code == TopicNotFound
        assert place.topic() not in await place.admin("list_topics", place.namespace)

    at(test)


class Watcher:
    """A pattern subscription, and the changes that it was told of."""

    def __init__(self, client: Client, place: Place) -> None:
        self._client = client
        self._pattern = f"persistent://{place.namespace}/w-.*"
        self._changed = asyncio.Event()
        self.subscription: PatternSubscription
        self.changes: list[TopicChanges] = []

    async def subscribe(self, discovery_period: float = 600.0) -> PatternSubscription:
        self.subscription = await self._client.subscribe_pattern(
            self._pattern, "s", discovery_period=discovery_period, on_topics=self._note, **FROM_START
        )
        return self.subscription

    async def until(self, *topics: str, seconds: float = PUSHED) -> None:
        """Wait until exactly these topics are known."""
        async with asyncio.timeout(seconds):
            while self.subscription.topics != set(topics):
                self._changed.clear()
                await self._changed.wait()
        assert self.subscription.topics_hash == topics_hash(topics)

    def _note(self, changes: TopicChanges) -> None:
        self.changes.append(changes)
        self._changed.set()


@asynccontextmanager
async def watching(place: Place, discovery_period: float = 600.0) -> AsyncIterator[tuple[Client, Watcher, PatternSubscription]]:
    async with place.client() as client:
        watcher = Watcher(client, place)
        yield client, watcher, await watcher.subscribe(discovery_period)


async def attached(subscription: PatternSubscription, *topics: str) -> None:
    async with asyncio.timeout(ATTACHED):
        while subscription.attached != set(topics):
            await asyncio.sleep(0.01)


def test_new_topics_are_pushed(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        first, second = place.topic("w-1"), place.topic("w-2")
        await place.admin("create_topic", first)
        async with watching(place) as (client, watcher, subscription):
            assert subscription.topics == {first} == subscription.attached
            await place.admin("create_topic", second)
            await place.admin("create_topic", place.topic("x-1"))
            await watcher.until(first, second)
            producers = [await client.create_producer(topic) for topic in (first, second)]
            for producer in producers:
                await producer.send(b"hello")
            messages = await received(subscription, 2)
            assert {message.topic for message in messages} == {first, second}
            await subscription.acknowledge(messages)

    at(test)


def test_partitions_are_pushed_one_by_one(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        partitions = [place.topic(f"w-p-partition-{index}") for index in range(3)]
        async with watching(place) as (client, watcher, subscription):
            await place.admin("create_partitioned_topic", {"topic": place.topic("w-p"), "partitions": 2})
            await watcher.until(*partitions[:2])
            await place.admin("update_partitioned_topic", {"topic": place.topic("w-p"), "partitions": 3})
            await watcher.until(*partitions)
            producer = await client.create_producer(place.topic("w-p"), batching=False)
            for i in range(3):
                await producer.send(b"%d" % i)
            assert {message.topic for message in await received(subscription, 3)} == set(partitions)
            assert all(len(change.added) == 1 for change in watcher.changes)

    at(test)


def test_a_deleted_topic_is_left_and_not_created_again(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        topics = [place.topic(f"w-{index}") for index in range(3)]
        for topic in topics[:2]:
            await place.admin("create_topic", topic)
        async with watching(place) as (client, watcher, subscription):
            await place.admin("delete_topic", {"topic": topics[0], "force": True})
            await watcher.until(topics[1])
            await place.admin("create_topic", topics[2])  # a later event: nobody has created the deleted one before it
            await watcher.until(*topics[1:])
            assert watcher.changes[1].removed == (topics[0],)
            await attached(subscription, *topics[1:])
            producer = await client.create_producer(topics[1])
            await producer.send(b"still there")
            assert (await subscription.receive()).topic == topics[1]
            assert topics[0] not in await place.admin("list_topics", place.namespace)

    at(test)


def test_a_cut_connection_is_survived_with_the_hash(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        topics = [place.topic(f"w-{index}") for index in range(4)]
        await place.admin("create_topic", topics[0])
        async with watching(place) as (client, watcher, subscription):
            producer = await client.create_producer(topics[0], batching=False)
            known = subscription.topics_hash
            for i in range(3):
                place.cut()
                await producer.send(b"%d" % i)
                message = await subscription.receive()
                assert message.payload == b"%d" % i
                await subscription.acknowledge(message)
            assert subscription.topics_hash == known
            place.reachable = False
            place.cut()
            await place.admin("create_topic", topics[1])
            assert subscription.topics == {topics[0]}
            place.reachable = True
            await watcher.until(*topics[:2])
            await place.admin("create_topic", topics[2])  # the watcher was registered again
            await watcher.until(*topics[:3])
            await attached(subscription, *topics[:3])
            assert [change.removed for change in watcher.changes] == [(), (), ()]

    at(test)


def test_the_set_is_reconciled_once_in_a_period(at: Callable[[Test], None]) -> None:
    async def test(place: Place) -> None:
        async with watching(place, discovery_period=0.3) as (_, watcher, subscription):
            names: list[str] = []
            end = asyncio.get_running_loop().time() + 1.0
            while asyncio.get_running_loop().time() < end:  # about three checks
                names.append(place.topic(f"w-{len(names)}"))
                await place.admin("create_topic", names[-1])
                await watcher.until(*names)
            assert [(change.added, change.removed) for change in watcher.changes] == [((name,), ()) for name in names]
            await attached(subscription, *names)

    at(test)
