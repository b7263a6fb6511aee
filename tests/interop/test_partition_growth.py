"""Partitions that come while clients of both kinds are there: the reference client is told, or asks; stock clients ask as ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from conformance.targets import Endpoint
from refimpl.net.client import Client, Consumer, Producer
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe
from tests.fakes.frame_proxy import FrameProxy
from tests.interop.conftest import BackgroundLoop
from tests.interop.stock_clients import Admin, texts
from tests.interop.stock_clients import Client as StockClient

pytestmark = pytest.mark.interop

INTERVAL = 1.0
"""Seconds between two looks at the partitions, by clients that are not told."""

PIP_247 = ("watchPartitionUpdate", "watchPartitionUpdateSuccess", "partitionUpdate", "partitionUpdateResult", "watchPartitionUpdateClose")


async def grown(producer: Producer, consumer: Consumer, count: int, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not producer.partitions == len(consumer.attached) == count:
            await asyncio.sleep(0.01)


async def exchange(producer: Producer, consumer: Consumer, count: int) -> set[int]:
    """Send one message to each partition and receive them all; return the partitions."""
    async with asyncio.timeout(20.0):
        sent = {(await producer.send(b"x")).partition for _ in range(count)}
        messages = [await consumer.receive() for _ in range(count)]
        await consumer.acknowledge(messages)
    assert {message.id.partition for message in messages} == sent
    return sent


async def pair(client: Client, topic: str, **choices: Any) -> tuple[Producer, Consumer]:
    return await client.create_producer(topic, batching=False, **choices), await client.subscribe(topic, "reference", **choices)


def test_the_reference_client_grows_by_push_or_by_asking(
    proxy: FrameProxy, loop: BackgroundLoop, broker: Endpoint, admin: Admin, topic: str
) -> None:
    told = broker.name == "reference"
    admin("create_partitioned_topic", {"topic": topic, "partitions": 2})
    with loop.entered(Client(proxy.service_url, seed=1)) as client:
        producer, consumer = loop.run(pair(client, topic, **({} if told else {"auto_update_partitions_interval": INTERVAL})))
        assert loop.run(exchange(producer, consumer, 2)) == {0, 1}
        admin("update_partitioned_topic", {"topic": topic, "partitions": 4})
        loop.run(grown(producer, consumer, 4, 20.0))
        assert loop.run(exchange(producer, consumer, 4)) == {0, 1, 2, 3}
        if told:
            for _ in range(2):
                proxy.wait("partitionUpdateResult", version=1, success=True, count=2)
    seen = {name: len(proxy.seen(name)) for name in PIP_247}
    assert seen == (dict.fromkeys(PIP_247, 2) if told else dict.fromkeys(PIP_247, 0))
    assert (len(proxy.seen("partitionMetadata")) > 2) is not told


def test_stock_clients_and_the_reference_client_on_one_growing_topic(
    client: StockClient, proxy: FrameProxy, loop: BackgroundLoop, admin: Admin, topic: str
) -> None:
    admin("create_partitioned_topic", {"topic": topic, "partitions": 2})
    interval = {"partitions_interval": 1} if client.language == "java" else {}
    consumer, producer = client.consumer(topic, **interval), client.producer(topic, **interval)
    with loop.entered(Client(proxy.service_url, seed=1)) as reference:
        ours = loop.run(pair(reference, topic, auto_update_partitions_interval=INTERVAL, enable_notification_for_partition_update=True))
        admin("update_partitioned_topic", {"topic": topic, "partitions": 4})
        loop.run(grown(*ours, 4, 20.0))
        if client.language == "java":  # the Python client asks once a minute, which can't be changed
            for number in (2, 3):
                proxy.wait_for_answer("success", proxy.wait("subscribe", topic=f"{topic}-partition-{number}", subscription="s"))
        producer.send(*(sent := [f"message {number}" for number in range(8)]))
        assert sorted(texts(consumer.receive_all(8))) == sent
        received = [loop.run(ours[1].receive()) for _ in range(8)]
        assert sorted(message.payload.decode() for message in received) == sent


def test_partitions_that_stock_clients_fill_before_the_reference_client_knows_of_them(
    client: StockClient, proxy: FrameProxy, loop: BackgroundLoop, admin: Admin, topic: str
) -> None:
    admin("create_partitioned_topic", {"topic": topic, "partitions": 1})
    with loop.entered(Client(proxy.service_url, seed=1)) as reference:
        choices = {"auto_update_partitions_interval": 3.0, "enable_notification_for_partition_update": False}
        consumer = loop.run(reference.subscribe(topic, "reference", initial_position=CommandSubscribe.Latest, **choices))
        admin("update_partitioned_topic", {"topic": topic, "partitions": 3})
        client.producer(topic).send(*(sent := [f"message {number}" for number in range(9)]))
        received = [loop.run(consumer.receive()) for _ in range(9)]
        assert sorted(message.payload.decode() for message in received) == sent
