"""One entry filter twice: built into the reference broker, and as a NAR in a real Apache Pulsar. Both do the same with the same entries.

The reference producer writes uniform batches (PIP-191), which are filtered by their header; stock clients write ordinary ones, which
are not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from conformance.targets import ApachePulsar, Endpoint
from refimpl.net.client import Client as ReferenceClient
from refimpl.net.embedded import EmbeddedBroker
from refimpl.proposals.uniform_batches import EntryFilter, EntryVerdict, FilterContext
from refimpl.wire.pulsar_api_pb2 import ZSTD
from tests.interop import entry_filter_nar
from tests.interop.stock_clients import SECONDS, Admin, Client, Consumer, texts
from tests.samples.uniform_batches import EXAMPLE, SETTING

RELEASE = "4.2.4"
Properties = Mapping[str, str]
ALL = [text for text, _ in EXAMPLE]


class PutOff:
    """What the filter in the NAR does beyond the built-in one."""

    def __init__(self) -> None:
        self._times: dict[int, int] = {}

    @staticmethod
    def of(properties: Properties) -> EntryFilter | None:
        return PutOff() if "put-off" in properties else None

    def judge(self, context: FilterContext) -> EntryVerdict:
        metadata = context.metadata
        header = {one.key: one.value for one in metadata.properties}
        times = self._times[metadata.sequence_id] = self._times.get(metadata.sequence_id, 0) + 1
        return EntryVerdict.RESCHEDULE if times <= int(header.get("put-off", "0")) else EntryVerdict.ACCEPT


@pytest.fixture(
    scope="module",
    params=[pytest.param("reference", marks=pytest.mark.interop), pytest.param("real", marks=(pytest.mark.interop, pytest.mark.real))],
)
def broker(request: pytest.FixtureRequest, loop: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """Start a broker with the filter."""
    folder = tmp_path_factory.mktemp("filter")
    if request.param == "reference":
        with EmbeddedBroker(entry_filters={"PutOff": PutOff.of}) as served:
            yield Endpoint(name="reference", service_url=served.service_url, admin_url=served.admin_url, log_file=folder / "none")
    else:
        settings = entry_filter_nar.build(RELEASE, folder)
        with loop.entered(ApachePulsar(RELEASE).run(settings)) as endpoint:
            yield endpoint


def send_example(broker: Endpoint, topic: str, *more: tuple[str, Properties], **options: Any) -> None:
    """Let the reference producer send the example of the text, then each further message by itself."""

    async def sending() -> None:
        async with ReferenceClient(broker.service_url) as client:
            choices = {"batch_delay": 5.0, "restrict_same_values_in_batch_properties": SETTING, **options}
            async with await client.create_producer(topic, **choices) as producer:
                for text, properties in EXAMPLE:
                    producer.send_async(text.encode(), properties=properties)
                await producer.flush()
                assert producer.stats.entries == 5
            async with await client.create_producer(topic, batching=False) as producer:
                for text, properties in more:
                    await producer.send(text.encode(), properties=properties)

    asyncio.run(asyncio.wait_for(sending(), SECONDS))


def subscribed(client: Client, broker: Endpoint, topic: str, properties: Properties, **options: str) -> Consumer:
    """Subscribe with a stock client; where it can't give the subscription properties, the reference client creates it before."""
    if client.language == "java":
        return client.consumer(topic, subscription_properties=dict(properties), **options)

    async def create() -> None:
        async with ReferenceClient(broker.service_url) as reference:
            await (await reference.subscribe(topic, options.get("subscription", "s"), subscription_properties=properties)).close()

    asyncio.run(asyncio.wait_for(create(), SECONDS))
    return client.consumer(topic, **options)


def until_end(consumer: Consumer) -> list[str]:
    """Receive and acknowledge up to the message that is called end; return what came before it."""
    messages = [consumer.receive()]
    while messages[-1].text != "end":
        messages.append(consumer.receive())
    consumer.ack(messages)
    return texts(messages)[:-1]


def end_of(properties: Properties) -> tuple[str, Properties]:
    """Return a last message that passes a filter."""
    prefix = "entry-filter."
    return "end", {name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)}


def nothing_left(admin: Admin, topic: str, subscription: str = "s") -> Mapping[str, Any]:
    """Wait until the backlog of a subscription is empty, and return its statistics."""
    deadline = time.monotonic() + SECONDS
    while True:
        stats: Mapping[str, Any] = admin("topic_stats", topic)["subscriptions"][subscription]
        if stats["msgBacklog"] == 0:
            return stats
        assert time.monotonic() < deadline, stats


def counts(stats: Mapping[str, Any]) -> list[int]:
    return [stats[f"filter{kind}MsgCount"] for kind in ("Processed", "Accepted", "Rejected", "Rescheduled")]


@pytest.mark.parametrize(
    ("kind", "properties", "arrive"),
    [
        ("Exclusive", {}, ALL),
        ("Exclusive", {"entry-filter.region": "eu"}, ["m1", "m2", "m3", "m4"]),
        ("Shared", {"entry-filter.version": "1"}, ["m1", "m2", "m3", "m4", "m5", "m7", "m8"]),
        ("Failover", {"entry-filter.version": "1", "entry-filter-missing": "reject"}, ["m3", "m4", "m5"]),
        ("Shared", {"entry-filter.version": "2", "entry-filter.region": "us"}, ["m6", "m7", "m8"]),
    ],
)
def test_uniform_batches_are_filtered_by_their_headers(
    client: Client, broker: Endpoint, admin: Admin, topic: str, properties: Properties, arrive: list[str], kind: str
) -> None:
    consumer = subscribed(client, broker, topic, properties, type=kind)
    send_example(broker, topic, end_of(properties))
    assert until_end(consumer) == arrive
    stats = nothing_left(admin, topic)
    assert stats["subscriptionProperties"] == properties
    if properties:
        assert counts(stats) == [9, len(arrive) + 1, 8 - len(arrive), 0], "messages, not entries"


def test_ordinary_batches_of_stock_clients_are_not(client: Client, broker: Endpoint, admin: Admin, topic: str) -> None:
    lenient, strict = {"entry-filter.region": "us"}, {"entry-filter.region": "us", "entry-filter-missing": "reject"}
    first = subscribed(client, broker, topic, lenient, subscription="lenient")
    second = subscribed(client, broker, topic, strict, subscription="strict")
    client.producer(topic, batch=8).send(*ALL, properties=[of for _, of in EXAMPLE])
    client.producer(topic).send("unbatched", "end", properties=[{"region": "eu"}, {"region": "us"}])
    assert until_end(first) == ALL, "the header of the batch shows nothing, and only the unbatched one is filtered"
    assert until_end(second) == [], "five of them are from us"
    assert counts(nothing_left(admin, topic, "lenient")) == [10, 9, 1, 0]
    assert counts(nothing_left(admin, topic, "strict")) == [10, 1, 9, 0]


def test_a_batch_of_one_is_a_batch_in_python_and_none_in_java(client: Client, broker: Endpoint, topic: str) -> None:
    consumer = subscribed(client, broker, topic, {"entry-filter.region": "us"})
    client.producer(topic, batch=8).send("alone", properties=[{"region": "eu"}])
    client.producer(topic).send("end", properties=[{"region": "us"}])
    assert until_end(consumer) == (["alone"] if client.language == "python" else [])


@pytest.mark.parametrize(("reading", "arrive"), [("batch", ["alone"]), ("java_single", [])])
def test_both_readings_of_a_batch_of_one(client: Client, broker: Endpoint, topic: str, reading: str, arrive: list[str]) -> None:
    """They differ where a value is not allowed: the header of a batch does not show it."""
    consumer = subscribed(client, broker, topic, {"entry-filter.version": "1"})

    async def sending() -> None:
        async with ReferenceClient(broker.service_url) as reference:
            choices: dict[str, Any] = {"restrict_same_values_in_batch_properties": SETTING, "batch_of_one": reading}
            async with await reference.create_producer(topic, **choices) as producer:
                await producer.send(b"alone", properties={"region": "us", "version": "5"})
                await producer.send(b"end", properties={"version": "1"})

    asyncio.run(asyncio.wait_for(sending(), SECONDS))
    assert until_end(consumer) == arrive


def test_compressed_batches_are_judged_by_the_same_header(client: Client, broker: Endpoint, topic: str) -> None:
    consumer = subscribed(client, broker, topic, {"entry-filter.region": "us"})
    send_example(broker, topic, ("end", {"region": "us"}), compression=ZSTD)
    assert until_end(consumer) == ["m5", "m6", "m7", "m8"]


def test_an_entry_that_is_put_off_comes_later_and_is_counted(client: Client, broker: Endpoint, admin: Admin, topic: str) -> None:
    consumer = subscribed(client, broker, topic, {"put-off": "yes"}, type="Shared")
    began = time.monotonic()
    client.producer(topic).send("late", "a", "b", properties=[{"put-off": "3"}, {}, {}])
    messages = consumer.receive_all(3)
    assert [(message.text, message.redelivered) for message in messages] == [("a", 0), ("b", 0), ("late", 3)]
    assert time.monotonic() - began > 2.5, "three times a second"
    consumer.ack(messages)
    assert counts(nothing_left(admin, topic)) == [6, 3, 0, 3]
