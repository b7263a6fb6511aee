"""Stock clients whose service URL is that of the admin interface: they look topics up over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from conformance.targets import Endpoint
from tests.conftest import require_java, skip_for
from tests.interop.built_clients import missing_tool
from tests.interop.java_client import VERSIONS
from tests.interop.stock_clients import Admin, Client, ClientProcess, texts

pytestmark = [pytest.mark.interop, pytest.mark.flows]

THREE = ["one", "two", "three"]


@pytest.fixture(params=["python", "java", "go"])
def client(request: pytest.FixtureRequest, client_process: Callable[[str], ClientProcess], broker: Endpoint) -> Iterator[Client]:
    if request.param in VERSIONS:
        require_java()
    if tool := missing_tool(request.param):
        skip_for(f"{tool} is not installed")
    client = Client(client_process(request.param), broker.admin_url)
    yield client
    if client.process.running:
        client.end()


def test_topics_are_looked_up_over_http(client: Client, topic: str) -> None:
    consumer = client.consumer(topic)
    client.producer(topic).send(*THREE)
    assert texts(consumer.receive_all(3)) == THREE


def test_partitions_are_looked_up_over_http(client: Client, admin: Admin, topic: str) -> None:
    admin("create_partitioned_topic", {"topic": topic, "partitions": 2})
    consumer = client.consumer(topic)
    client.producer(topic).send(*THREE)
    messages = consumer.receive_all(3)
    assert sorted(texts(messages)) == sorted(THREE)
    assert {message.topic.rpartition("-")[0] for message in messages} == {f"{topic}-partition"}
