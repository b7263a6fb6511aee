"""Records with a schema: what fits the schemas of a topic is taken and read, what does not is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from refimpl.wire.pulsar_api_pb2 import IncompatibleSchema, Schema
from tests.fakes.frame_proxy import FrameProxy
from tests.interop.stock_clients import Client, ClientFailed, texts

pytestmark = [
    pytest.mark.interop,
    pytest.mark.flows,
    pytest.mark.parametrize("client", ["python", "java", "go"], indirect=True),
    pytest.mark.parametrize("kind", ["AVRO", "JSON"]),
]


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Person", "fields": fields})


NAME = record({"name": "name", "type": "string"})
NAME_AND_AGE = record({"name": "name", "type": "string"}, {"name": "age", "type": ["null", "int"], "default": None})
NUMBER = record({"name": "name", "type": "int"})


def test_records_are_sent_and_received(client: Client, proxy: FrameProxy, topic: str, kind: str) -> None:
    consumer = client.consumer(topic, schema=kind, definition=NAME)
    client.producer(topic, schema=kind, definition=NAME).send("Ada", "Grace")
    assert texts(consumer.receive_all(2)) == ["Ada", "Grace"]
    for request in (*proxy.seen("subscribe"), *proxy.seen("producer")):
        assert request.schema.type == Schema.Type.Value(kind.capitalize())


def test_records_of_another_version_are_read(client: Client, proxy: FrameProxy, topic: str, kind: str) -> None:
    consumer = client.consumer(topic, schema=kind, definition=NAME)
    for name, definition in (("Ada", NAME), ("Grace", NAME_AND_AGE)):
        client.producer(topic, schema=kind, definition=definition).send(name)
    assert texts(consumer.receive_all(2)) == ["Ada", "Grace"]
    assert len({one.schema_version for one in proxy.seen("producer_success")}) == 2


def test_what_does_not_fit_the_schema_of_a_topic_is_refused(client: Client, proxy: FrameProxy, topic: str, kind: str) -> None:
    consumer = client.consumer(topic, schema=kind, definition=NAME)
    with pytest.raises(ClientFailed):
        client.producer(topic, schema=kind, definition=NUMBER)
    with pytest.raises(ClientFailed):
        client.consumer(topic, subscription="other", schema=kind, definition=NUMBER)
    assert client.process.running
    proxy.wait("error", count=2)
    assert [one.error for one in proxy.seen("error")] == [IncompatibleSchema, IncompatibleSchema]
    client.producer(topic, schema=kind, definition=NAME).send("Ada")
    assert consumer.receive().text == "Ada"


def test_a_consumer_finds_the_schemas_by_itself(client: Client, topic: str, kind: str) -> None:
    for name, definition in (("Ada", NAME), ("Grace", NAME_AND_AGE)):
        client.producer(topic, schema=kind, definition=definition).send(name)
    consumer = client.consumer(topic, position="Earliest", schema="AUTO_CONSUME")
    client.producer(topic, schema=kind, definition=NAME).send("Mary")
    assert texts(consumer.receive_all(3)) == ["Ada", "Grace", "Mary"]


def test_a_producer_finds_the_schema_by_itself(client: Client, topic: str, kind: str) -> None:
    consumer = client.consumer(topic, schema=kind, definition=NAME)
    body = {"AVRO": "\x06Ada", "JSON": '{"name": "Ada"}'}[kind]  # in Avro a length of three, doubled, and the text
    producer = client.producer(topic, schema="AUTO_PRODUCE_BYTES")
    with pytest.raises(ClientFailed):
        producer.send("\x40A")
    producer.send(body)
    assert consumer.receive().text == "Ada"
