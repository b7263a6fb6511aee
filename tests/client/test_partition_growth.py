"""Partitions that come while a client produces and consumes: the asyncio client and reference brokers in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from refimpl.broker import Broker, Configuration, Member
from refimpl.broker.broker import PROPOSALS
from refimpl.client import EARLIEST, BrokerRefused, ClientOptions
from refimpl.net.client import Client, Consumer, Producer
from refimpl.net.client_memory import memory_dial
from refimpl.net.memory_link import MemoryLink
from refimpl.net.virtual_time import VirtualTimeLoop
from refimpl.proposals.administration import AdminRequest
from refimpl.proposals.partition_watch import PartitionWatchExtension
from refimpl.store import MemoryStore
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe

URL = "pulsar://broker:6650"
T = "persistent://public/default/t"


class World:
    """Brokers on one store, one at a time, and clients of them."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.log: list[str] = []
        self.defects: list[str] = []
        self.link: MemoryLink | None = None
        self.start()

    def start(self, proposals: frozenset[str] = PROPOSALS, configuration: Configuration | None = None) -> None:
        broker = Broker(configuration, store=self.store, proposals=proposals, members=[Member(URL)])
        self.link = MemoryLink(broker, log=self.defects.append)

    def stop(self) -> None:
        if self.link is not None:
            self.link.close()
            self.link = None

    def partitions(self, method: str, count: int = 0, topic: str = T, **query: str) -> None:
        """Let an administrator create (PUT), extend (POST) or delete (DELETE) a partitioned topic."""
        assert self.link is not None
        path = f"/admin/v2/{topic.replace('://', '/')}/partitions"
        answer = self.link.admin(AdminRequest(method, path, query, str(count).encode() if count else b""))
        assert answer.status == 204, answer

    def watchers(self) -> int:
        assert self.link is not None
        broker = self.link.broker
        return sum(broker.extension(PartitionWatchExtension).watches.watcher_count(session) for session in broker.sessions)

    def client(self, **choices: Any) -> Client:
        return Client(URL, dial=self._dial, seed=3, wall_clock_offset=0.0, log=self.log.append, **choices)

    async def _dial(self, host: str, port: int, factory: Callable[[], asyncio.Protocol]) -> None:
        if self.link is None:
            raise ConnectionRefusedError("the broker is down")
        await memory_dial(self.link)(host, port, factory)


def virtually(test: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    """Run a test in virtual time; nothing may be left of it."""

    async def main() -> None:
        world = World()
        try:
            await asyncio.wait_for(test(world), 3600)
            assert not asyncio.all_tasks() - {asyncio.current_task()}
            assert not world.defects
        finally:
            world.stop()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())


async def within(seconds: float, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def every_partition_works(producer: Producer, consumer: Consumer, count: int, seconds: float = 1.0) -> None:
    """Send one message to each partition and receive them all."""
    async with asyncio.timeout(seconds):
        sent = [await producer.send(b"x") for _ in range(count)]
        received = [await consumer.receive() for _ in range(count)]
        await consumer.acknowledge(received)
    assert {message.partition for message in sent} == {message.id.partition for message in received} == set(range(count))


async def both(client: Client, **choices: Any) -> tuple[Producer, Consumer]:
    return await client.create_producer("t", batching=False, **choices), await client.subscribe("t", "s", **choices)


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_new_partitions_are_used_within_a_second(domain: str) -> None:
    async def test(world: World) -> None:
        topic = f"{domain}://public/default/t"
        world.partitions("PUT", 2, topic=topic)
        async with world.client() as client:
            producer = await client.create_producer(topic, batching=False)
            consumer = await client.subscribe(topic, "s")
            await every_partition_works(producer, consumer, 2)
            for count in (3, 7):
                world.partitions("POST", count, topic=topic)
                await within(1.0, lambda count=count: producer.partitions == len(consumer.attached) == count)
                await every_partition_works(producer, consumer, count)
            assert world.watchers() == 2
            assert world.link.broker.extension(PartitionWatchExtension).watches.next_deadline() is None  # everything has its result
            await producer.close()
            assert world.watchers() == 1

    virtually(test)


def test_what_comes_before_the_consumer_knows_of_the_partition_is_received() -> None:
    async def test(world: World) -> None:
        world.partitions("PUT", 1)
        async with world.client() as fast, world.client() as slow:
            producer = await fast.create_producer("t", batching=False)
            consumer = await slow.subscribe("t", "s", enable_notification_for_partition_update=False)
            reader = await slow.create_reader("t", enable_notification_for_partition_update=False)
            world.partitions("POST", 3)
            await within(1.0, lambda: producer.partitions == 3)
            sent = {(await producer.send(b"x")).partition for _ in range(3)}
            assert sent == {0, 1, 2}
            assert {(await consumer.receive()).id.partition for _ in range(3)} == sent
            assert {(await reader.receive()).id.partition for _ in range(3)} == sent
            assert asyncio.get_running_loop().time() < 61.0

    virtually(test)


def test_restarts_on_the_same_store_with_growth_meanwhile() -> None:
    async def test(world: World) -> None:
        world.partitions("PUT", 2)
        async with world.client() as client:
            producer, consumer = await both(client)
            for count in (3, 4):
                world.stop()
                await asyncio.sleep(5.0)
                world.start()
                world.partitions("POST", count)
                await within(20.0, lambda count=count: producer.partitions == len(consumer.attached) == count)
                await every_partition_works(producer, consumer, count, 30.0)
            world.partitions("POST", 5)
            await within(1.0, lambda: producer.partitions == len(consumer.attached) == 5)

    virtually(test)


def test_a_broker_from_before_in_between() -> None:
    async def test(world: World) -> None:
        world.partitions("PUT", 2)
        async with world.client() as client:
            producer, consumer = await both(client, auto_update_partitions_interval=10.0)
            world.stop()
            world.start(PROPOSALS - {"pip247"})
            await within(5.0, lambda: len(consumer.attached) == 2)
            sessions = list(world.link.broker.sessions)
            world.partitions("POST", 3)
            await within(10.1, lambda: producer.partitions == len(consumer.attached) == 3)
            assert list(world.link.broker.sessions) == sessions  # no command of the proposal, which would have ended one
            world.stop()
            world.start()
            await within(5.0, lambda: len(consumer.attached) == 3 and world.watchers() == 2)
            world.partitions("POST", 4)
            await within(1.0, lambda: producer.partitions == len(consumer.attached) == 4)

    virtually(test)


@pytest.mark.parametrize("fewer", [1, 2, 3])
def test_deleted_and_created_again(fewer: int) -> None:
    async def test(world: World) -> None:
        world.partitions("PUT", 3)
        async with world.client() as client:
            producer, consumer = await both(client)
            world.partitions("DELETE", force="true")
            await asyncio.sleep(45.0)
            assert consumer.attached == frozenset()
            world.partitions("PUT", fewer)
            await within(1.0, lambda: len(consumer.attached) == fewer)
            assert producer.partitions == 3  # it never shrinks
            world.partitions("POST", 4)
            await within(1.0, lambda: producer.partitions == len(consumer.attached) == 4)
            await every_partition_works(producer, consumer, 4)
            assert world.link.broker.extension(PartitionWatchExtension).watches.next_deadline() is None

    virtually(test)


def test_a_topic_without_partitions_is_not_watched() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            producer = await client.create_producer("t")
            assert (producer.partitions, world.watchers()) == (1, 0)

    virtually(test)


def test_a_topic_that_does_not_exist_yet() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            with pytest.raises(BrokerRefused, match="TopicNotFound"):
                await client.subscribe("t", "s", force_topic_creation=False)
            world.stop()
            world.start(configuration=Configuration(allow_auto_topic_creation_type="partitioned", default_num_partitions=2))
            producer, consumer = await both(client)  # it comes with who needs it first
            assert producer.partitions == len(consumer.attached) == 2
            world.partitions("POST", 3)
            await within(1.0, lambda: producer.partitions == len(consumer.attached) == 3)
            await every_partition_works(producer, consumer, 3)

    virtually(test)


def test_the_listener_of_the_application() -> None:
    async def test(world: World) -> None:
        heard: list[tuple[int, float]] = []
        loop = asyncio.get_running_loop()

        async def listener(topics: tuple[str, ...], counts: tuple[int, ...]) -> None:
            assert topics == (T,)
            heard.append((counts[0], round(loop.time(), 2)))
            await asyncio.sleep(0.01)
            if counts == (3,) and len(heard) < 4:
                raise RuntimeError("the application is not ready")

        world.partitions("PUT", 2)
        async with world.client() as client:
            consumer = await client.subscribe("t", "s", partitions_update_listener=listener)
            await within(1.0, lambda: bool(heard))
            world.partitions("POST", 3)
            await within(1.0, lambda: len(heard) == 4)
            assert [count for count, _ in heard] == [2, 3, 3, 3]
            assert len(consumer.attached) == 3
            await within(1.0, lambda: world.link.broker.extension(PartitionWatchExtension).watches.next_deadline() is None)
            assert "the application is not ready" in " ".join(world.log)

    virtually(test)


def test_a_client_that_ends_while_its_listener_works_and_one_that_its_listener_closes() -> None:
    async def test(world: World) -> None:
        world.partitions("PUT", 2)
        started, ended = asyncio.Event(), asyncio.Event()

        async def listener(topics: tuple[str, ...], counts: tuple[int, ...]) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with world.client() as client:
            await client.subscribe("t", "s", partitions_update_listener=listener)
            await started.wait()
        assert ended.is_set()

        closed = asyncio.Event()

        async def closes(topics: tuple[str, ...], counts: tuple[int, ...]) -> None:
            await client.close()
            closed.set()

        async with world.client() as client:
            await client.create_producer("t", partitions_update_listener=closes)
            await asyncio.wait_for(closed.wait(), 5.0)
        assert world.watchers() == 0

    virtually(test)


def test_growth_under_a_pattern_subscription() -> None:
    async def test(world: World) -> None:
        world.partitions("PUT", 2)
        async with world.client() as client:
            consumer = await client.subscribe_pattern("persistent://public/default/t.*", "s")
            producer = await client.create_producer("t", batching=False)
            world.partitions("POST", 4)
            await within(1.0, lambda: producer.partitions == len(consumer.attached) == 4)
            await every_partition_works(producer, consumer, 4)
            assert world.watchers() == 1  # the producer's; the pattern has the partitions from its list

    virtually(test)


def test_a_refused_unsubscribe_leaves_a_consumer_that_grows() -> None:
    async def test(world: World) -> None:
        world.partitions("PUT", 2)
        async with world.client() as client:
            shared = {"type": CommandSubscribe.Shared}
            consumer, _ = await client.subscribe("t", "s", **shared), await client.subscribe("t", "s", **shared)
            with pytest.raises(BrokerRefused):
                await consumer.unsubscribe()
            world.partitions("POST", 3)
            await within(1.0, lambda: len(consumer.attached) == 3)

    virtually(test)


def test_unsubscribe_and_reader() -> None:
    async def test(world: World) -> None:
        world.partitions("PUT", 2)
        async with world.client(options=ClientOptions(operation_timeout=5.0)) as client:
            producer = await client.create_producer("t", batching=False)
            for _ in range(2):
                await producer.send(b"x")
            reader = await client.create_reader("t", EARLIEST)
            consumer = await client.subscribe("t", "s")
            await consumer.unsubscribe()
            world.partitions("POST", 3)
            await within(1.0, lambda: producer.partitions == len(reader.attached) == 3)
            for _ in range(3):
                await producer.send(b"y")
            assert sorted([(await reader.receive()).id.partition for _ in range(5)]) == [0, 0, 1, 1, 2]
            assert "s" not in world.link.broker.admin.subscriptions(T)

    virtually(test)
