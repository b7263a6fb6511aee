"""PR 7629 over real sockets: the example of the text, and filters that other distributions bring."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from refimpl.client import BrokerRefused, MessageFilterPolicy, avro_schema
from refimpl.net.client import Client, Consumer
from refimpl.net.embedded import EmbeddedBroker
from refimpl.proposals.message_filter import ENTRY_POINT_GROUP
from refimpl.wire.pulsar_api_pb2 import LZ4, NONE
from tests.fakes.link_peers import DEADLINE, TOPIC

POLICY = MessageFilterPolicy.regex_filter_policy("[3-5][0-9]")
PLUGIN = """
class Longer:
    def __init__(self, properties, schemas):
        self.least = int(properties["least"])

    def matches(self, message):
        return len(message.payload) >= self.least
"""
ENTRY_POINTS = f"[{ENTRY_POINT_GROUP}]\norg.example.Longer = {{module}}:Longer\norg.example.Broken = {{module}}:Missing\n"


async def taken(consumer: Consumer, count: int) -> list[bytes]:
    found = []
    async with asyncio.timeout(DEADLINE):
        for _ in range(count):
            message = await consumer.receive()
            await consumer.acknowledge(message)
            found.append(message.payload)
    return found


async def counters(broker: EmbeddedBroker, least_backlog: int = 0) -> dict[str, Any]:
    """Return the stats of the subscription once the acknowledgements have reached the broker."""
    async with asyncio.timeout(DEADLINE):
        while True:
            stats = broker.broker.admin.topic_stats(TOPIC)["subscriptions"]["s"]
            if stats["msgBacklog"] == least_backlog:
                return stats
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("compression", [NONE, LZ4])
@pytest.mark.parametrize("batching", [False, True])
def test_the_example_of_the_text(batching: bool, compression: int) -> None:
    """Of "0" to "100" the pattern [3-5][0-9] lets exactly 30 messages through, then nothing, and nothing is left."""

    async def test() -> None:
        async with EmbeddedBroker() as broker, Client(broker.service_url) as client:
            producer = await client.create_producer(TOPIC, batching=batching, batch_messages=7, compression=compression)
            consumer = await client.subscribe(TOPIC, "s", message_filter_policy=POLICY)
            await asyncio.gather(*(producer.send(str(number).encode()) for number in range(101)))
            assert await taken(consumer, 30) == [str(number).encode() for number in range(30, 60)]
            stats = await counters(broker)
            assert (stats["messageFilterProcessedMsgCount"], stats["messageFilterRejectedMsgCount"]) == (101, 71)
            await producer.send(b"33")  # would come behind anything that is still under way
            assert await taken(consumer, 1) == [b"33"]
            assert consumer.queued == 0

    asyncio.run(test())


def test_fields_of_messages_with_a_schema() -> None:
    definition = {"type": "record", "name": "Order", "fields": [{"name": "state", "type": "string"}]}

    async def test() -> None:
        async with EmbeddedBroker() as broker, Client(broker.service_url) as client:
            producer = await client.create_producer(TOPIC, schema=avro_schema(definition))
            policy = MessageFilterPolicy.basic_avro_filter_policy({"state": "paid"})
            consumer = await client.subscribe(TOPIC, "s", message_filter_policy=policy)
            for state in (b"open", b"paid", b"lost"):
                await producer.send(bytes([len(state) * 2]) + state)
            assert await taken(consumer, 1) == [b"\x08paid"]
            assert (await counters(broker))["messageFilterRejectedMsgCount"] == 2

    asyncio.run(test())


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """Install a distribution with two entry points, of which one can't be loaded, in a folder of its own."""
    (tmp_path / "filter_plugin.py").write_text(PLUGIN)
    info = tmp_path / "filter_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: filter-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS.format(module="filter_plugin"))
    return tmp_path


async def filtered_by_plugin(service_url: str) -> None:
    async with Client(service_url) as client:
        consumer = await client.subscribe(TOPIC, "s", message_filter_policy=MessageFilterPolicy("org.example.Longer", {"least": "3"}))
        producer = await client.create_producer(TOPIC)
        for payload in (b"a", b"abc", b"ab", b"abcd"):
            await producer.send(payload)
        assert await taken(consumer, 2) == [b"abc", b"abcd"]
        with pytest.raises(BrokerRefused, match="invalid literal"):
            await client.subscribe(TOPIC, "t", message_filter_policy=MessageFilterPolicy("org.example.Longer", {"least": "x"}))
        with pytest.raises(BrokerRefused, match="can't be loaded"):
            await client.subscribe(TOPIC, "t", message_filter_policy=MessageFilterPolicy("org.example.Broken"))
        with pytest.raises(BrokerRefused, match="no such filter"):
            await client.subscribe(TOPIC, "t", message_filter_policy=MessageFilterPolicy("filter_plugin:Longer"))


def test_an_installed_filter_in_an_embedded_broker(plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(plugin)
    importlib.invalidate_caches()
    with EmbeddedBroker() as broker:
        asyncio.run(filtered_by_plugin(broker.service_url))
    sys.modules.pop("filter_plugin", None)


def test_an_installed_filter_in_a_broker_process(plugin: Path) -> None:
    command = [sys.executable, "-m", "conformance.cli", "broker", "--verbose"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(plugin), os.getcwd()])}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            asyncio.run(filtered_by_plugin(ready["service_url"]))
        finally:
            process.terminate()
            _, log = process.communicate(timeout=DEADLINE)
    assert "message filter org.example.Broken: it can't be loaded: AttributeError" in log
