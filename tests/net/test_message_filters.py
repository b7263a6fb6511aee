"""PR 7629: filters that other distributions bring, in a broker inside a program and in one of its own process."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from refimpl.client import BrokerRefused, MessageFilterPolicy
from refimpl.net.client import Client, Consumer
from refimpl.net.embedded import EmbeddedBroker
from refimpl.proposals.message_filter import ENTRY_POINT_GROUP
from tests.fakes.link_peers import DEADLINE, TOPIC

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
