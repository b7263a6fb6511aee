"""Consumers and producers of scalable topics against the reference broker, in virtual time."""

import asyncio
import json
import random
from urllib.parse import parse_qsl

import pytest

from refimpl.broker import PROPOSALS, Broker, Member
from refimpl.client import BrokerRefused, Closed
from refimpl.client.followed_topics import RETRY_SECONDS
from refimpl.client.scalable_producer import segment_hash
from refimpl.net.memory_link import Faults, MemoryLink
from refimpl.proposals.administration import AdminRequest
from refimpl.proposals.scalable_topics import ScalableTopicChanges, ScalableTopicsExtension, topics_hash
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, InvalidTopicName, TopicNotFound, UnsupportedVersionError
from tests.fakes.client_world import World, eventually, received, virtually
from tests.samples.scalable_names import NS, segment, topic

EARLIEST = {"initial_position": CommandSubscribe.Earliest}
SHARED = {"type": CommandSubscribe.Shared, **EARLIEST}


def create(world: World, name: object, segments: int = 1, **properties: str) -> None:
    ask(world, "PUT", f"{name}?numInitialSegments={segments}", properties)


def delete(world: World, name: object) -> None:
    ask(world, "DELETE", f"{name}", None)


def ask(world: World, method: str, path: str, body: object) -> None:
    place, _, query = path.partition("?")
    data = b"" if body is None else json.dumps(body).encode()
    assert world.link.admin(AdminRequest(method, f"/admin/v2/scalable/{NS}/{place}", dict(parse_qsl(query)), data)).status == 204


# One topic


@pytest.mark.parametrize(
    ("key", "value"),
    [("", 0), ("hello", 0xFA47), ("hello, world", 0xBB7F), ("The quick brown fox jumps over the lazy dog", 0xF723), ("a", 0x69B2)],
)
def test_keys_are_hashed_as_murmur_does(key: str, value: int) -> None:
    assert segment_hash(key) == value


def test_produce_and_consume() -> None:
    async def test(world: World) -> None:
        world.broker.extension(ScalableTopicsExtension).admin.create_scalable_topic(topic("x"), segments=4)
        async with world.client() as client:
            producer = await client.create_producer(topic("x"), batching=False)
            consumer = await client.subscribe(topic("x"), "s", **EARLIEST)
            assert producer.partitions == len(consumer.attached) == 4
            for number in range(40):
                await producer.send(b"%d" % number, key=f"k{number % 10}")
            messages = await received(consumer, 40)
            by_key = {key: [one for one in messages if one.key == key] for key in {one.key for one in messages}}
            for key, ones in by_key.items():
                numbers = [int(one.payload) for one in ones]
                (name,) = {one.topic for one in ones}
                start, end, _ = name.rsplit("/", 1)[1].split("-")
                assert int(start, 16) <= segment_hash(key) <= int(end, 16)
                assert numbers == sorted(numbers)
            await consumer.acknowledge(messages)
            for _ in range(4):
                await producer.send(b"in turn")
            assert len({one.topic for one in await received(consumer, 4)}) == 4

    virtually(test)


def test_a_topic_that_does_not_exist() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            for attempt in (client.create_producer(topic("x")), client.subscribe(topic("x"), "s")):
                with pytest.raises(BrokerRefused) as caught:
                    await attempt
                assert caught.value.code == TopicNotFound
        assert world.broker.store.kept["pr25648"] == {}

    virtually(test)


def test_a_broker_from_before_refuses_and_keeps_the_connection() -> None:
    async def test(world: World) -> None:
        world.link.close()
        world.broker = Broker(members=[Member("pulsar://broker:6650")], proposals=PROPOSALS - {"pr25648"})
        world.link = MemoryLink(world.broker)
        async with world.client() as client:
            with pytest.raises(BrokerRefused) as caught:
                await client.subscribe_namespace(NS, "s")
            assert caught.value.code == UnsupportedVersionError
            with pytest.raises(BrokerRefused) as caught:
                await client.subscribe(topic("x"), "s")
            assert caught.value.code == InvalidTopicName
            await client.create_producer("t")
            assert len(world.transports) == 1

    virtually(test)


def test_a_deleted_topic_ends_its_producer_and_its_consumer() -> None:
    async def test(world: World) -> None:
        world.broker.extension(ScalableTopicsExtension).admin.create_scalable_topic(topic("x"))
        async with world.client() as client:
            producer = await client.create_producer(topic("x"))
            consumer = await client.subscribe(topic("x"), "s")
            delete(world, "x")
            with pytest.raises(BrokerRefused) as caught:
                await consumer.receive()
            assert caught.value.code == TopicNotFound
            with pytest.raises(BrokerRefused):
                await producer.send(b"late")

    virtually(test)


def test_a_topic_that_is_made_anew_is_followed() -> None:
    async def test(world: World) -> None:
        world.broker.extension(ScalableTopicsExtension).admin.create_scalable_topic(topic("x"))
        async with world.client() as client:
            producer = await client.create_producer(topic("x"), batching=False)
            consumer = await client.subscribe(topic("x"), "s", **SHARED)
            delete(world, "x")
            create(world, "x", segments=3)
            await eventually(lambda: len(consumer.attached) == 3 == producer.partitions)
            await producer.send(b"new")
            assert (await consumer.receive()).payload == b"new"

    virtually(test)


# All topics of a namespace


def test_topics_of_a_namespace_come_and_go_by_push() -> None:
    async def test(world: World) -> None:
        create(world, 1, owner="alice")
        create(world, 2, owner="bob")
        changes: list[ScalableTopicChanges] = []
        async with world.client() as client:
            consumer = await client.subscribe_namespace(NS, "s", property_filters={"owner": "alice"}, on_topics=changes.append, **SHARED)
            assert (consumer.topics, consumer.attached) == ({topic(1)}, {segment(1)})
            create(world, 3, owner="alice", segments=2)
            create(world, 4, owner="bob")
            await eventually(lambda: len(consumer.attached) == 3)
            for name in (1, 2, 3):
                async with await client.create_producer(topic(name)) as producer:
                    await producer.send(b"%d" % name)
            assert sorted(one.payload for one in await received(consumer, 2)) == [b"1", b"3"]
            delete(world, 1)
            ask(world, "PUT", "2/properties", {"owner": "alice"})
            await eventually(lambda: consumer.topics == {topic(2), topic(3)} and segment(2) in consumer.attached)
            assert (await consumer.receive()).payload == b"2"
            assert consumer.topics_hash == topics_hash([topic(2), topic(3)])
            assert changes == [ScalableTopicChanges((topic(3),), ()), ScalableTopicChanges((topic(2),), (topic(1),))]

    virtually(test)


def test_a_cut_is_survived_with_the_hash() -> None:
    async def test(world: World) -> None:
        create(world, 1)
        async with world.client() as client:
            consumer = await client.subscribe_namespace(NS, "s", **SHARED)
            producer = await client.create_producer(topic(1), batching=False)
            for number in range(3):
                world.cut()
                await producer.send(b"%d" % number)
                message = await consumer.receive()
                assert message.payload == b"%d" % number
                await consumer.acknowledge(message)
            world.cut()
            create(world, 2)
            delete(world, 1)
            await eventually(lambda: consumer.topics == {topic(2)} and consumer.attached == {segment(2)})
            create(world, 3)
            await eventually(lambda: len(consumer.attached) == 2)

    virtually(test)


def test_bytes_in_pieces_delays_and_cuts() -> None:
    async def test(world: World) -> None:
        rolls = random.Random(4)
        wanted: set[str] = set()
        async with world.client() as client:
            create(world, "first")
            wanted.add(topic("first"))
            world.link.faults = Faults(seed=9, delay=(0.0, 0.05), largest_piece=30)
            consumer = await client.subscribe_namespace(NS, "s", **SHARED)
            for number in range(30):
                if rolls.random() < 0.3 and len(wanted) > 1:
                    gone = sorted(wanted)[rolls.randrange(len(wanted))]
                    wanted.remove(gone)
                    delete(world, gone.rsplit("/", 1)[1])
                else:
                    create(world, number)
                    wanted.add(topic(number))
                if rolls.random() < 0.2:
                    world.cut()
                await asyncio.sleep(rolls.random() * 0.2)
            await eventually(lambda: consumer.topics == wanted)
            await eventually(lambda: consumer.attached == {segment(name.rsplit("/", 1)[1]) for name in wanted})

    virtually(test)


def test_a_listed_topic_that_could_not_be_attached_to_is_tried_again() -> None:
    async def test(world: World) -> None:
        create(world, 1)
        create(world, 2)
        async with world.client() as client:
            blocker = await client.subscribe(topic(1), "s")
            consumer = await client.subscribe_namespace(NS, "s", property_filters={"owner": "alice"})
            for name in (1, 2):
                ask(world, "PUT", f"{name}/properties", {"owner": "alice"})
            await eventually(lambda: consumer.topics == {topic(1), topic(2)} and consumer.attached == {segment(2)})
            await blocker.close()
            began = asyncio.get_running_loop().time()
            await eventually(lambda: len(consumer.attached) == 2)
            assert asyncio.get_running_loop().time() - began < RETRY_SECONDS + 0.1

    virtually(test)


def test_unsubscribing_deletes_every_subscription() -> None:
    async def test(world: World) -> None:
        create(world, 1, segments=2)
        create(world, 2)
        async with world.client() as client:
            consumer = await client.subscribe_namespace(NS, "s", **SHARED)
            await consumer.unsubscribe()
            with pytest.raises(Closed):
                await consumer.receive()
            records = world.broker.store.kept["pr25648"][NS].values()
            assert [list(stored.cursors) for record in records for stored in record.topics.values()] == [[], [], []]
            single = await client.subscribe(topic(1), "s", **SHARED)
            await single.unsubscribe()

    virtually(test)


def test_it_can_be_cancelled_and_closed() -> None:
    async def test(world: World) -> None:
        create(world, 1)
        async with world.client() as client:
            begun = asyncio.ensure_future(client.subscribe_namespace(NS, "s"))
            await asyncio.sleep(0)
            begun.cancel()
            with pytest.raises(asyncio.CancelledError):
                await begun
            consumer = await client.subscribe_namespace(NS, "s")
            await consumer.close()
            with pytest.raises(Closed):
                await consumer.receive()
            await eventually(lambda: not any(session.consumers for session in world.broker.sessions))
            (session,) = world.broker.sessions
            assert (
                world.broker.extension(ScalableTopicsExtension).watches.watch_count(session)
                == world.broker.extension(ScalableTopicsExtension).layouts.session_count(session)
                == 0
            )

    virtually(test)
