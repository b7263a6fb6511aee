"""Consumers and producers of scalable topics: against a scripted broker, and against the reference broker in virtual time."""

import asyncio
import json
import random
from urllib.parse import parse_qsl

import pytest
from scripted_broker import ScriptedBroker
from test_client_asyncio import World, virtually

from refimpl.broker import PROPOSALS, Broker
from refimpl.broker.rest import AdminRequest
from refimpl.client import BrokerRefused, ClientError, ClientOptions, Closed, ConnectionLost, ConsumerOptions, NamespaceConsumer, TimedOut
from refimpl.client.scalable_consumer import RETRY_SECONDS
from refimpl.client.scalable_producer import segment_hash
from refimpl.net.memory_link import Faults, MemoryLink
from refimpl.proposals.profiles import LETTER
from refimpl.proposals.scalable_topics import ScalableTopicChanges, topics_hash
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, InvalidTopicName, NotAllowedError, TopicNotFound, UnsupportedVersionError

NS = "public/default"
EARLIEST = {"initial_position": CommandSubscribe.Earliest}
SHARED = {"type": CommandSubscribe.Shared, **EARLIEST}
SUPPORTED = {"feature_flags": {"supports_scalable_topics": True}}


def topic(name: object) -> str:
    return f"topic://{NS}/{name}"


def segment(name: object, part: str = "0000-ffff-0") -> str:
    return f"segment://{NS}/{name}/{part}"


def layout(broker: ScriptedBroker, name: object, *ranges: tuple[int, int], session_id: int = 0, epoch: int = 0) -> None:
    segments = [
        {"segment_id": number, "hash_start": start, "hash_end": end, "state": "ACTIVE", "created_at_epoch": 0, "created_at_ms": 0}
        for number, (start, end) in enumerate(ranges or ((0, 0xFFFF),))
    ]
    broker.send("scalableTopicUpdate", session_id=session_id, dag={"epoch": epoch, "segments": segments}, resolved_topic_name=topic(name))


def subscribing(broker: ScriptedBroker, **choices: object):
    return broker.begin(lambda: broker.core.subscribe_namespace(NS, ConsumerOptions("s"), **choices))


# What is asked, and when


def test_the_first_set_comes_before_anything_else_and_later_changes_come_by_themselves() -> None:
    broker, seen = ScriptedBroker(), []
    begun = subscribing(broker, property_filters={"owner": "alice"}, on_topics=seen.append)
    broker.accept(**SUPPORTED)
    request = broker.expect("watchScalableTopics")
    assert (request.watch_id, request.namespace, request.HasField("current_hash")) == (0, NS, False)
    assert [(one.key, one.value) for one in request.property_filters] == [("owner", "alice")]
    broker.send("watchScalableTopicsUpdate", watch_id=0, snapshot={"topics": [topic("a")]})
    assert not begun.done
    assert broker.answer_lookup() == topic("a")
    assert (broker.expect("scalableTopicLookup").topic) == topic("a")
    layout(broker, "a")
    assert broker.answer_lookup() == segment("a")
    assert broker.succeed("subscribe").force_topic_creation is False
    group = begun.value()
    assert (group.topics, group.topics_hash, set(group.members)) == ({topic("a")}, topics_hash([topic("a")]), {segment("a")})
    assert broker.sent() == ["flow"]
    broker.send("watchScalableTopicsUpdate", watch_id=0, diff={"added": [topic("b")], "removed": [topic("a")]})
    assert seen == [ScalableTopicChanges((topic("b"),), (topic("a"),))]
    assert broker.sent() == ["scalableTopicClose", "close_consumer", "lookupTopic"]
    assert set(group.lookups) == {topic("b")}


def test_an_empty_first_set_is_a_set() -> None:
    broker = ScriptedBroker()
    begun = subscribing(broker)
    broker.accept(**SUPPORTED)
    broker.expect("watchScalableTopics")
    broker.send("watchScalableTopicsUpdate", watch_id=0, snapshot={})
    assert begun.value().topics == frozenset()


def test_without_the_flag_nothing_is_sent() -> None:
    broker = ScriptedBroker()
    begun = subscribing(broker)
    broker.accept()
    with pytest.raises(BrokerRefused) as caught:
        begun.value()
    assert caught.value.code == UnsupportedVersionError
    assert broker.sent() == []


def test_without_the_flag_no_scalable_topic_is_looked_up() -> None:
    broker = ScriptedBroker()
    begun = broker.begin(lambda: broker.core.subscribe(topic("a"), ConsumerOptions("s")))
    broker.accept()
    broker.answer_lookup()
    with pytest.raises(BrokerRefused):
        begun.value()
    assert broker.sent() == []


def test_an_error_before_the_first_set_is_the_applications() -> None:
    broker = ScriptedBroker()
    begun = subscribing(broker)
    broker.accept(**SUPPORTED)
    broker.expect("watchScalableTopics")
    broker.send("watchScalableTopicsUpdate", watch_id=0, error="NotAllowedError", message="no")
    with pytest.raises(BrokerRefused) as caught:
        begun.value()
    assert caught.value.code == NotAllowedError
    assert broker.sent() == []


def test_a_first_set_that_does_not_come_is_given_up() -> None:
    broker = ScriptedBroker(ClientOptions(operation_timeout=5.0))
    begun = subscribing(broker)
    broker.accept(**SUPPORTED)
    broker.expect("watchScalableTopics")
    broker.wait(5.0)
    with pytest.raises(ClientError, match="first set"):
        begun.value()
    assert broker.sent() == ["watchScalableTopicsClose"]


def test_a_connection_that_is_lost_before_the_first_set_ends_it() -> None:
    broker = ScriptedBroker()
    begun = subscribing(broker)
    broker.accept(**SUPPORTED)
    broker.cut()
    with pytest.raises(ConnectionLost):
        begun.value()
    assert broker.dialled() == []


def test_or_not_by_the_letter() -> None:
    broker = ScriptedBroker(profiles=LETTER)
    begun = subscribing(broker)
    broker.accept(**SUPPORTED)
    broker.cut()
    broker.wait(0.1)
    broker.accept(**SUPPORTED)
    assert not broker.expect("watchScalableTopics").HasField("current_hash")
    broker.send("watchScalableTopicsUpdate", watch_id=0, snapshot={})
    assert begun.value().topics_hash == "00000000"


def started(broker: ScriptedBroker) -> NamespaceConsumer:
    begun = subscribing(broker)
    broker.accept(**SUPPORTED)
    broker.expect("watchScalableTopics")
    broker.send("watchScalableTopicsUpdate", watch_id=0, snapshot={})
    return begun.value()


def test_pauses_grow_and_each_request_has_the_hash() -> None:
    broker = ScriptedBroker()
    started(broker)
    broker.cut()
    for longest in (0.1, 0.2, 0.4):
        before = broker.now
        while not (dialled := broker.dialled()):
            broker.wait(0.001)
        assert 0.9 * longest <= broker.now - before <= longest + 0.002
        dialled[0].eof(broker.now)
    broker.wait(0.8)
    broker.accept(**SUPPORTED)
    assert broker.expect("watchScalableTopics").current_hash == "00000000"


def test_an_error_later_is_asked_again_on_the_same_connection() -> None:
    broker = ScriptedBroker()
    group = started(broker)
    broker.send("watchScalableTopicsUpdate", watch_id=0, error="ServiceNotReady", message="soon")
    assert broker.sent() == []
    broker.wait(0.1)
    assert broker.expect("watchScalableTopics").current_hash == "00000000"
    broker.send("watchScalableTopicsUpdate", watch_id=99, snapshot={"topics": [topic("x")]})  # of nobody
    assert group.topics == frozenset()


def test_a_close_ends_the_watch_and_its_attempts() -> None:
    broker = ScriptedBroker()
    group = started(broker)
    broker.begin(group.close)
    assert broker.sent() == ["watchScalableTopicsClose"]
    broker.send("watchScalableTopicsUpdate", watch_id=0, diff={"added": [topic("x")]})
    assert group.lookups == {}
    second = ScriptedBroker()
    group = started(second)
    second.cut()
    second.begin(group.close)
    second.wait(60.0)
    assert second.dialled() == []


@pytest.mark.parametrize("namespace", ["", "public", "public/default/", "a/b/c"])
def test_a_malformed_namespace_is_the_applications_mistake(namespace: str) -> None:
    broker = ScriptedBroker()
    with pytest.raises(ValueError, match="tenant/namespace"):
        broker.begin(lambda: broker.core.subscribe_namespace(namespace, ConsumerOptions("s")))


# One topic


def consuming(broker: ScriptedBroker, *ranges: tuple[int, int]):
    begun = broker.begin(lambda: broker.core.subscribe(topic("a"), ConsumerOptions("s")))
    broker.accept(**SUPPORTED)
    assert broker.answer_lookup() == topic("a")
    assert broker.expect("scalableTopicLookup").session_id == 0
    layout(broker, "a", *ranges)
    return begun


def attach(broker: ScriptedBroker) -> str:
    """Let one consumer attach."""
    name = broker.answer_lookup()
    assert broker.succeed("subscribe").topic == name
    assert broker.sent() == ["flow"]
    return name


def test_a_layout_that_comes_again_changes_nothing_and_another_one_is_followed() -> None:
    broker = ScriptedBroker()
    begun = consuming(broker)
    attach(broker)
    group = begun.value()
    layout(broker, "a")
    assert broker.sent() == []
    layout(broker, "a", (0, 0x7FFF), (0x8000, 0xFFFF), epoch=1)
    assert broker.sent() == ["close_consumer", "lookupTopic", "lookupTopic"]
    assert set(group.members) == {segment("a", "0000-7fff-0"), segment("a", "8000-ffff-1")}
    layout(broker, "a", epoch=0)  # an old one
    assert len(group.members) == 2


def test_the_look_up_is_repeated_with_its_id_on_the_next_connection() -> None:
    broker = ScriptedBroker()
    begun = consuming(broker)
    attach(broker)
    begun.value()
    broker.cut()
    broker.wait(0.1)
    broker.accept(**SUPPORTED)
    broker._read()
    topics = [frame.command.lookupTopic.topic for frame in broker.frames]
    assert sorted(topics) == sorted([topic("a"), segment("a")])
    for _ in topics:
        broker.answer_lookup()
    broker._read()
    asked = [frame.command.scalableTopicLookup for frame in broker.frames if frame.command.HasField("scalableTopicLookup")]
    assert [one.session_id for one in asked] == [0]


SEGMENT = {"segment_id": 0, "hash_start": 0, "hash_end": 9, "created_at_epoch": 0, "created_at_ms": 0}


@pytest.mark.parametrize(
    "dag",
    [
        None,
        {"epoch": 0},
        {"epoch": 0, "segments": [{**SEGMENT, "state": "SEALED"}]},
        {"epoch": 0, "segments": [{**SEGMENT, "state": "ACTIVE"}] * 10_001},
    ],
    ids=["nothing", "no-segments", "none-active", "too-many"],
)
def test_an_answer_without_use_is_a_defect_of_the_broker(dag: object) -> None:
    broker = ScriptedBroker(ClientOptions(operation_timeout=1.0))
    begun = broker.begin(lambda: broker.core.subscribe(topic("a"), ConsumerOptions("s")))
    broker.accept(**SUPPORTED)
    for _ in range(20):
        if begun.done:
            break
        broker.answer_lookup()
        broker.expect("scalableTopicLookup")
        broker.send("scalableTopicUpdate", session_id=0, dag=dag, resolved_topic_name=topic("a"))
        broker.wait(1.0)
    with pytest.raises(ConnectionLost, match="says not what"):
        begun.value()


def test_no_answer_to_a_look_up_is_a_time_out() -> None:
    broker = ScriptedBroker(ClientOptions(operation_timeout=1.0))
    begun = broker.begin(lambda: broker.core.subscribe(topic("a"), ConsumerOptions("s")))
    broker.accept(**SUPPORTED)
    broker.answer_lookup()
    broker.expect("scalableTopicLookup")
    broker.wait(1.0)
    with pytest.raises(TimedOut):
        begun.value()
    assert broker.sent() == ["scalableTopicClose"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("", 0), ("hello", 0xFA47), ("hello, world", 0xBB7F), ("The quick brown fox jumps over the lazy dog", 0xF723), ("a", 0x69B2)],
)
def test_keys_are_hashed_as_murmur_does(key: str, value: int) -> None:
    assert segment_hash(key) == value


# Against the reference broker, in virtual time


async def until(condition, seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)


async def received(consumer, count: int):
    return [await asyncio.wait_for(consumer.receive(), 60) for _ in range(count)]


def test_produce_and_consume() -> None:
    async def test(world: World) -> None:
        world.broker.admin.create_scalable_topic(topic("x"), segments=4)
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
        assert world.broker.store.scalable == {}

    virtually(test)


def test_a_broker_from_before_refuses_and_keeps_the_connection() -> None:
    async def test(world: World) -> None:
        world.link.close()
        world.broker = Broker(service_url="pulsar://broker:6650", proposals=PROPOSALS - {"pr25648"})
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
        world.broker.admin.create_scalable_topic(topic("x"))
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
        world.broker.admin.create_scalable_topic(topic("x"))
        async with world.client() as client:
            producer = await client.create_producer(topic("x"), batching=False)
            consumer = await client.subscribe(topic("x"), "s", **SHARED)
            delete(world, "x")
            create(world, "x", segments=3)
            await until(lambda: len(consumer.attached) == 3 == producer.partitions)
            await producer.send(b"new")
            assert (await consumer.receive()).payload == b"new"

    virtually(test)


def create(world: World, name: object, segments: int = 1, **properties: str) -> None:
    ask(world, "PUT", f"{name}?numInitialSegments={segments}", properties)


def delete(world: World, name: object) -> None:
    ask(world, "DELETE", f"{name}", None)


def ask(world: World, method: str, path: str, body: object) -> None:
    place, _, query = path.partition("?")
    octets = b"" if body is None else json.dumps(body).encode()
    assert world.link.admin(AdminRequest(method, f"/admin/v2/scalable/{NS}/{place}", dict(parse_qsl(query)), octets)).status == 204


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
            await until(lambda: len(consumer.attached) == 3)
            for name in (1, 2, 3):
                async with await client.create_producer(topic(name)) as producer:
                    await producer.send(b"%d" % name)
            assert sorted(one.payload for one in await received(consumer, 2)) == [b"1", b"3"]
            delete(world, 1)
            ask(world, "PUT", "2/properties", {"owner": "alice"})
            await until(lambda: consumer.topics == {topic(2), topic(3)} and segment(2) in consumer.attached)
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
            await until(lambda: consumer.topics == {topic(2)} and consumer.attached == {segment(2)})
            create(world, 3)
            await until(lambda: len(consumer.attached) == 2)

    virtually(test)


def test_octets_in_pieces_delays_and_cuts() -> None:
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
            await until(lambda: consumer.topics == wanted)
            await until(lambda: consumer.attached == {segment(name.rsplit("/", 1)[1]) for name in wanted})

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
            await until(lambda: consumer.topics == {topic(1), topic(2)} and consumer.attached == {segment(2)})
            await blocker.close()
            began = asyncio.get_running_loop().time()
            await until(lambda: len(consumer.attached) == 2)
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
            records = world.broker.store.scalable[NS].values()
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
            await until(lambda: not any(session.consumers for session in world.broker.sessions))
            (session,) = world.broker.sessions
            assert world.broker.scalable.watches.watch_count(session) == world.broker.scalable.layouts.session_count(session) == 0

    virtually(test)
