"""PR 7629 among stock clients: their messages are filtered for the reference client, by the reference broker or, on a real one, by itself."""

from __future__ import annotations

import asyncio

import pytest

from conformance.targets import Endpoint
from refimpl.client import BrokerRefused, MessageFilterPolicy
from refimpl.net.client import Client
from tests.interop.stock_clients import Admin, texts
from tests.interop.stock_clients import Client as StockClient

pytestmark = pytest.mark.interop

POLICY = MessageFilterPolicy.regex_filter_policy("[3-5][0-9]")
NUMBERS = [str(number) for number in range(101)]
DEADLINE = 60.0


@pytest.mark.parametrize(
    "choices", [{}, {"compression": "LZ4"}, {"batch": 7}, {"batch": 7, "compression": "LZ4"}], ids=["single", "lz4", "batch", "lz4-batch"]
)
def test_messages_of_stock_clients_are_filtered(
    client: StockClient, broker: Endpoint, admin: Admin, topic: str, choices: dict[str, object]
) -> None:
    everything = client.consumer(topic, subscription="all")
    producer = client.producer(topic, **choices)

    async def test() -> None:
        async with asyncio.timeout(DEADLINE), Client(broker.service_url) as filtering:
            consumer = await filtering.subscribe(topic, "some", message_filter_policy=POLICY, without_message_filters="filter")
            await asyncio.to_thread(producer.send, *NUMBERS, "39")
            messages = [await consumer.receive() for _ in range(31)]
            assert [message.payload.decode() for message in messages] == [*NUMBERS[30:60], "39"]
            assert consumer.queued == 0
            await consumer.acknowledge(messages)
            while (stats := await asyncio.to_thread(admin, "topic_stats", topic))["subscriptions"]["some"]["msgBacklog"]:
                await asyncio.sleep(0.05)
            assert stats["subscriptions"]["all"]["msgBacklog"] > 0

    asyncio.run(test())
    assert texts(everything.receive_all(102)) == [*NUMBERS, "39"]


def test_without_the_feature_flag_the_reference_client_refuses(broker: Endpoint, admin: Admin, topic: str) -> None:
    async def subscribe() -> None:
        async with asyncio.timeout(DEADLINE), Client(broker.service_url) as client:
            await client.subscribe(topic, "some", message_filter_policy=POLICY)

    if broker.name == "reference":
        asyncio.run(subscribe())
        return
    with pytest.raises(BrokerRefused, match="no message filters"):
        asyncio.run(subscribe())
    namespace = topic.removeprefix("persistent://").rpartition("/")[0]
    assert admin("list_topics", namespace) == [], "nothing was sent"
