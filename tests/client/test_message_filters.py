"""PR 7629 as an application sees it: the reference client against the reference broker, in virtual time."""

import asyncio
import json
from typing import Any

import pytest

from refimpl.broker import Broker, Member
from refimpl.broker.broker import PROPOSALS
from refimpl.broker.requests import REQUESTS
from refimpl.client import BrokerRefused, MessageFilterPolicy, avro_schema, json_schema
from refimpl.net.client import Consumer
from refimpl.net.memory_link import MemoryLink
from refimpl.proposals.message_filter import BUILT_IN, FilterRegistry
from refimpl.wire import command, encode_frame, encode_payload
from refimpl.wire.pulsar_api_pb2 import LZ4, NONE, CommandSubscribe, MessageMetadata, NotAllowedError
from tests.fakes.client_world import URL, T, World, eventually, received, virtually
from tests.samples.message_filter import RECORD, avro_payload

POLICY = MessageFilterPolicy.regex_filter_policy("[3-5][0-9]")
EARLIEST = CommandSubscribe.Earliest
EXAMPLE = [str(number).encode() for number in range(101)]
MATCHING = EXAMPLE[30:60]
STEPS_IN = {"without_message_filters": "filter"}


def replace_broker(world: World, *, supported: bool) -> None:
    """Let another broker take over on the same store."""
    proposals = PROPOSALS if supported else PROPOSALS - {"pr7629"}
    world.link.close()
    world.broker = Broker(store=world.broker.store, members=[Member(URL)], proposals=proposals)
    world.link = MemoryLink(world.broker)


async def payloads(consumer: Consumer, count: int) -> list[bytes]:
    messages = await received(consumer, count)
    await consumer.acknowledge(messages)
    return [message.payload for message in messages]


async def nothing(consumer: Consumer, seconds: float = 2.0) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await consumer.receive()


def backlog(world: World, topic: str = T) -> int:
    return world.broker.admin.topic_stats(topic)["subscriptions"]["s"]["msgBacklog"]


@pytest.mark.parametrize(("batching", "compression"), [(True, LZ4), (False, NONE)], ids=["batches", "single"])
@pytest.mark.parametrize("supported", [True, False])
def test_the_example(supported: bool, batching: bool, compression: int) -> None:
    async def test(world: World) -> None:
        replace_broker(world, supported=supported)
        async with world.client() as client:
            producer = await client.create_producer(T, batching=batching, compression=compression, batch_messages=7, batch_delay=1.0)
            consumer = await client.subscribe(T, "s", message_filter_policy=POLICY, **STEPS_IN)
            await asyncio.gather(*(producer.send(payload) for payload in EXAMPLE))
            assert await payloads(consumer, 30) == MATCHING
            await nothing(consumer)
            assert backlog(world) == 0

    virtually(test)


@pytest.mark.parametrize("supported", [True, False])
def test_permits_stay_in_step_with_the_broker(supported: bool) -> None:
    """With a small queue, hundreds of batches of which two in seven match."""

    async def test(world: World) -> None:
        replace_broker(world, supported=supported)
        async with world.client() as client:
            producer = await client.create_producer(T, batch_messages=7, batch_delay=1.0)
            consumer = await client.subscribe(T, "s", message_filter_policy=POLICY, queue_size=10, **STEPS_IN)
            for _ in range(60):
                await asyncio.gather(*(producer.send(payload) for payload in (b"1", b"30", b"2", b"31", b"3", b"4", b"5")))
                assert await payloads(consumer, 2) == [b"30", b"31"]
            await eventually(lambda: backlog(world) == 0)
            (peer,) = world.broker.loaded(T).subscriptions["s"].consumers
            assert 0 < peer.permits <= 10

    virtually(test)


def test_a_broker_without_filters_is_refused_and_gets_no_subscribe() -> None:
    async def test(world: World) -> None:
        replace_broker(world, supported=False)
        async with world.client() as client:
            with pytest.raises(BrokerRefused, match="no message filters") as caught:
                await client.subscribe(T, "s", message_filter_policy=POLICY)
            assert caught.value.code == NotAllowedError
            assert world.broker.persistent_topics("public/default") == []

    virtually(test)


@pytest.mark.parametrize("supported", [True, False])
def test_a_bad_filter_is_refused_by_whoever_builds_it(supported: bool) -> None:
    async def test(world: World) -> None:
        replace_broker(world, supported=supported)
        async with world.client() as client:
            for policy in (
                MessageFilterPolicy.regex_filter_policy("("),
                MessageFilterPolicy("org.example.Missing"),
                MessageFilterPolicy.basic_avro_filter_policy({"state": "paid"}),
            ):
                with pytest.raises(BrokerRefused, match="refused"):
                    await client.subscribe(T, "s", message_filter_policy=policy, **STEPS_IN)

    virtually(test)


def test_who_filters_is_decided_on_each_connection() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            consumer = await client.subscribe(T, "s", message_filter_policy=POLICY, **STEPS_IN)
            producer = await client.create_producer(T)
            for supported in (False, True, False):
                replace_broker(world, supported=supported)
                await eventually(lambda: consumer.attached == {T})
                for payload in (b"1", b"30", b"2"):
                    await producer.send(payload)
                assert await payloads(consumer, 1) == [b"30"]
                await nothing(consumer)
                assert backlog(world) == 0

    virtually(test)


def test_a_consumer_that_does_not_filter_waits_for_a_broker_that_does() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            consumer = await client.subscribe(T, "s", message_filter_policy=POLICY)
            producer = await client.create_producer(T)
            replace_broker(world, supported=False)
            for payload in (b"1", b"30", b"2"):
                await producer.send(payload)
            await nothing(consumer, 60)
            assert consumer.attached == frozenset()
            assert not any(one.consumers for one in world.broker.loaded(T).subscriptions.values())
            replace_broker(world, supported=True)
            assert await payloads(consumer, 1) == [b"30"]
            assert backlog(world) == 0

    virtually(test)


@pytest.mark.parametrize("supported", [True, False])
def test_a_cut_inside_a_batch_brings_back_what_matches(supported: bool) -> None:
    async def test(world: World) -> None:
        replace_broker(world, supported=supported)
        async with world.client() as client:
            producer = await client.create_producer(T, batch_messages=5, batch_delay=1.0)
            consumer = await client.subscribe(T, "s", message_filter_policy=POLICY, **STEPS_IN)
            await asyncio.gather(*(producer.send(payload) for payload in (b"1", b"30", b"x", b"31", b"32")))
            first, *_ = await received(consumer, 3)
            await consumer.acknowledge(first)
            world.cut()
            assert await payloads(consumer, 2) == [b"31", b"32"]
            await nothing(consumer)
            assert backlog(world) == 0

    virtually(test)


@pytest.mark.parametrize("supported", [True, False])
def test_all_partitions_are_filtered(supported: bool) -> None:
    async def test(world: World) -> None:
        replace_broker(world, supported=supported)
        world.broker.admin.create_partitioned_topic(T, 3)
        async with world.client() as client:
            consumer = await client.subscribe(T, "s", message_filter_policy=POLICY, **STEPS_IN)
            producer = await client.create_producer(T, batching=False)
            for payload in EXAMPLE:
                await producer.send(payload)
            assert sorted(await payloads(consumer, 30)) == MATCHING
            await nothing(consumer)
            assert [backlog(world, f"{T}-partition-{number}") for number in range(3)] == [0, 0, 0]

    virtually(test)


@pytest.mark.parametrize("supported", [True, False])
def test_the_topics_of_a_pattern_are_filtered_later_ones_too(supported: bool) -> None:
    async def test(world: World) -> None:
        replace_broker(world, supported=supported)
        async with world.client() as client:
            one = await client.create_producer("orders-1")
            pattern = "persistent://public/default/orders-.*"
            choices: dict[str, Any] = {"message_filter_policy": POLICY, "initial_position": EARLIEST, **STEPS_IN}
            consumer = await client.subscribe_pattern(pattern, "s", **choices)
            two = await client.create_producer("orders-2")
            for producer in (one, two):
                for payload in (b"1", b"30", b"2"):
                    await producer.send(payload)
            assert await payloads(consumer, 2) == [b"30", b"30"]
            await nothing(consumer)

    virtually(test)


def test_a_pattern_without_support_is_refused() -> None:
    async def test(world: World) -> None:
        replace_broker(world, supported=False)
        async with world.client() as client:
            await client.create_producer("orders-1")
            with pytest.raises(BrokerRefused, match="no message filters"):
                await client.subscribe_pattern("persistent://public/default/orders-.*", "s", message_filter_policy=POLICY)

    virtually(test)


def test_readers_are_filtered() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            reader = await client.create_reader(T, message_filter_policy=POLICY)
            producer = await client.create_producer(T)
            for payload in EXAMPLE:
                await producer.send(payload)
            assert [message.payload for message in await received(reader, 30)] == MATCHING

    virtually(test)


# Schemas

PAID = {"state": "paid", "amount": 7, "note": None, "kind": "BUY", "items": []}
OPEN = {**PAID, "state": "open"}
STATE = MessageFilterPolicy.basic_avro_filter_policy({"state": "paid"})


@pytest.mark.parametrize(
    ("schema", "encode"),
    [(avro_schema(RECORD), avro_payload), (json_schema(json.dumps(RECORD)), lambda value: json.dumps(value).encode())],
    ids=["avro", "json"],
)
@pytest.mark.parametrize("first", ["producer", "consumer"])
def test_a_client_that_filters_reads_messages_with_a_schema(first: str, schema: Any, encode: Any) -> None:
    async def test(world: World) -> None:
        replace_broker(world, supported=False)
        async with world.client() as client:
            choices: dict[str, Any] = {"message_filter_policy": STATE, **STEPS_IN}
            if first == "consumer":
                consumer = await client.subscribe(T, "s", schema=schema, **choices)
                producer = await client.create_producer(T, schema=schema)
            else:
                producer = await client.create_producer(T, schema=schema)
                consumer = await client.subscribe(T, "s", **choices)
            for value in (OPEN, PAID, OPEN):
                await producer.send(encode(value))
            (message,) = await received(consumer, 1)
            assert (message.payload, message.metadata.schema_version) == (encode(PAID), bytes(8))
            await consumer.acknowledge(message)
            await nothing(consumer)
            assert backlog(world) == 0

    virtually(test)


@pytest.mark.parametrize("cut", [False, True])
def test_a_client_that_filters_asks_for_the_schemas_that_it_does_not_know_and_keeps_the_order(cut: bool) -> None:
    def schema(*fields: str) -> dict[str, Any]:
        return {"type": "record", "name": "R", "fields": [{"name": name, "type": "string", "default": ""} for name in fields]}

    old, new = schema("state"), schema("since", "state")

    async def test(world: World) -> None:
        replace_broker(world, supported=False)
        async with world.client() as client:
            first = await client.create_producer(T, schema=avro_schema(old))
            consumer = await client.subscribe(T, "s", message_filter_policy=STATE, **STEPS_IN)
            second = await client.create_producer(T, schema=avro_schema(new))
            sent = [
                (first, avro_payload({"state": "paid"}, old)),
                (second, avro_payload({"since": "paid", "state": "open"}, new)),
                (second, avro_payload({"since": "x", "state": "paid"}, new)),
                (first, avro_payload({"state": "paid"}, old)),
            ]
            futures = [producer.send_async(payload) for producer, payload in sent]
            if cut:
                world.cut()
            await asyncio.gather(*futures)
            got = await payloads(consumer, 3)
            assert sorted(got) == sorted([sent[0][1], sent[2][1], sent[3][1]])
            await nothing(consumer)
            assert backlog(world) == 0

    virtually(test)


def test_entries_that_can_not_be_judged_in_time_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = REQUESTS["getSchema"]
    asked: list[bytes] = []

    def late(session: Any, request: Any, frame: Any) -> None:
        asked.append(request.schema_version)
        if not request.schema_version or asked.count(request.schema_version) > 1:  # the first question about a version is not answered
            answer(session, request, frame)

    monkeypatch.setitem(REQUESTS, "getSchema", late)

    async def test(world: World) -> None:
        replace_broker(world, supported=False)
        async with world.client() as client:
            producer = await client.create_producer(T, schema=avro_schema(RECORD))
            choices: dict[str, Any] = {"schema": avro_schema(RECORD), **STEPS_IN}
            consumer = await client.subscribe(T, "s", message_filter_policy=STATE, **choices)
            for value in (OPEN, PAID, OPEN, PAID):
                await producer.send(avro_payload(value))
            assert await payloads(consumer, 2) == [avro_payload(PAID)] * 2
            await nothing(consumer)
            assert backlog(world) == 0
        assert asked == [bytes(8), bytes(8)], "the consumer has a schema of its own, and asks for that of the messages"
        assert any("could not get schema version" in line for line in world.log)

    virtually(test)


# Together with PIP-191


@pytest.mark.parametrize("supported", [True, False])
def test_a_filter_on_uniform_batches_sees_what_entry_filters_let_through(supported: bool) -> None:
    async def test(world: World) -> None:
        replace_broker(world, supported=supported)
        async with world.client() as client:
            regions = {"region": ["eu", "us"]}
            producer = await client.create_producer(T, batch_delay=1.0, restrict_same_values_in_batch_properties=regions)
            properties = {"entry-filter.region": "eu"}
            consumer = await client.subscribe(T, "s", message_filter_policy=POLICY, subscription_properties=properties, **STEPS_IN)
            sent = [(b"1", "eu"), (b"30", "eu"), (b"31", "us"), (b"2", "us"), (b"3", "eu"), (b"59", "eu")]
            await asyncio.gather(*(producer.send(payload, properties={"region": region}) for payload, region in sent))
            assert await payloads(consumer, 2) == [b"30", b"59"]
            await nothing(consumer)
            stats = world.broker.admin.topic_stats(T)["subscriptions"]["s"]
            assert (stats["filterProcessedMsgCount"], stats["filterRejectedMsgCount"], stats["msgBacklog"]) == (6, 2, 0)
            if supported:
                assert (stats["messageFilterProcessedMsgCount"], stats["messageFilterRejectedMsgCount"]) == (4, 2)

    virtually(test)


# What nobody can judge


@pytest.mark.parametrize("supported", [True, False])
def test_encrypted_batches_are_delivered_and_their_permits_come_back(supported: bool) -> None:
    async def test(world: World) -> None:
        replace_broker(world, supported=supported)
        async with world.client() as client:
            consumer = await client.subscribe(T, "s", message_filter_policy=POLICY, queue_size=10, **STEPS_IN)
            header = MessageMetadata(producer_name="p", sequence_id=0, publish_time=0, num_messages_in_batch=8)
            header.encryption_keys.add(key="k", value=b"v")
            peer = world.link.connect(lambda data: None, lambda how: None)
            opening = command("connect", client_version="x", protocol_version=21), command("producer", topic=T, producer_id=1, request_id=1)
            peer.send(b"".join(map(encode_frame, opening)))
            for number in range(20):
                send = command("send", producer_id=1, sequence_id=number, num_messages=8)
                peer.send(encode_frame(send, encode_payload(header, b"sealed %d" % number)))
            assert await payloads(consumer, 20) == [b"sealed %d" % number for number in range(20)]
            await eventually(lambda: backlog(world) == 0)

    virtually(test)


# Filters of others


class OnlyFrom:
    """Wants the messages of one producer."""

    def __init__(self, properties: Any, schemas: Any) -> None:
        self._name = properties["producer"]

    def matches(self, message: Any) -> bool:
        return message.metadata.producer_name == self._name


@pytest.mark.parametrize("supported", [True, False])
def test_filters_of_others_work_on_both_sides(supported: bool) -> None:
    registry = FilterRegistry({**BUILT_IN, "org.example.OnlyFrom": OnlyFrom})
    policy = MessageFilterPolicy("org.example.OnlyFrom", {"producer": "b"})

    async def test(world: World) -> None:
        world.link.close()
        proposals = PROPOSALS if supported else PROPOSALS - {"pr7629"}
        world.broker = Broker(members=[Member(URL)], proposals=proposals, plugins={"pr7629": registry})
        world.link = MemoryLink(world.broker)
        async with world.client(message_filters=registry) as client:
            consumer = await client.subscribe(T, "s", message_filter_policy=policy, **STEPS_IN)
            for name in "abc":
                await (await client.create_producer(T, name=name)).send(name.encode())
            assert await payloads(consumer, 1) == [b"b"]
            await nothing(consumer)

    virtually(test)


def test_a_choice_that_does_not_exist() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            with pytest.raises(ValueError, match="refuse or filter"):
                await client.subscribe(T, "s", without_message_filters="ignore")

    virtually(test)
