"""The log says each refusal in one line: what, to whom, with which code, and why."""

from __future__ import annotations

import json

import pytest

from refimpl.broker import Broker, Configuration
from refimpl.broker.rest import handle
from refimpl.proposals.administration import AdminRequest
from tests.fakes.broker_peer import TOPIC, Peer

NO_TOPIC = "persistent://public/default/t\nforged line"


def logged(settings: dict[str, str] | None = None) -> tuple[Broker, list[str]]:
    lines: list[str] = []
    return Broker(Configuration.from_settings(settings or {}), log=lines.append), lines


REFUSED = {
    "PRODUCER": ({"topic": "x://y", "producer_id": 1, "request_id": 1}, "InvalidTopicName: Invalid topic name: Invalid topic domain: 'x'"),
    "SUBSCRIBE": (
        {"topic": TOPIC, "subscription": "", "subType": "Exclusive", "consumer_id": 1, "request_id": 1},
        "ProducerBusy: Empty subscription name",
    ),
    "PARTITIONED_METADATA": ({"topic": "a/b", "request_id": 1}, "InvalidTopicName: "),
    "GET_LAST_MESSAGE_ID": ({"consumer_id": 9, "request_id": 1}, "MetadataError: Consumer not found"),
    "SCALABLE_TOPIC_SUBSCRIBE": (
        {"request_id": 1, "topic": "topic://a/b/c", "subscription": "s", "consumer_name": "c", "consumer_id": 1, "consumer_type": "STREAM"},
        "NotAllowedError: ScalableTopicSubscribe is not supported by this broker",
    ),
    "NEW_TXN": ({"request_id": 1}, "NotAllowedError: NewTxn is not supported by this broker"),
}
FIELDS = {
    "PRODUCER": "producer",
    "SUBSCRIBE": "subscribe",
    "PARTITIONED_METADATA": "partitionMetadata",
    "GET_LAST_MESSAGE_ID": "getLastMessageId",
    "SCALABLE_TOPIC_SUBSCRIBE": "scalableTopicSubscribe",
    "NEW_TXN": "newTxn",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_command(name):
    broker, lines = logged()
    Peer(broker)
    fields, reason = REFUSED[name]
    Peer(broker).send(FIELDS[name], **fields)
    (line,) = lines
    assert line.startswith(f"refused {name} of connection 2 () with {reason}")


def test_a_refused_message_connection_and_token():
    broker, lines = logged({"maxMessageSize": "10", "brokerMaxConnections": "1"})
    peer = Peer(broker)
    peer.producer()
    peer.publish("x" * 11)
    broker.connect(0.0, "192.0.2.1")
    assert lines == [
        "refused SEND of connection 1 () with UnknownError: The payload has 11 bytes, 10 are allowed",
        "refused CONNECT of connection 2 (192.0.2.1) with NotAllowedError: Reached the maximum number of connections",
        "connection 2 (192.0.2.1) has ended: Reached the maximum number of connections",
    ]


@pytest.mark.parametrize(
    ("method", "path", "line"),
    [
        ("GET", "/admin/v2/persistent/public/default/none/stats", "404: Topic persistent://public/default/none not found"),
        ("GET", "/nothing", "404: there is nothing at /nothing"),
        ("PUT", "/admin/v2/clusters", "405: /admin/v2/clusters takes GET, HEAD, OPTIONS"),
        ("PUT", "/admin/v2/persistent/public/default/t/partitions", "400: The request entity cannot be empty."),
    ],
)
def test_a_refused_admin_call(method, path, line):
    broker, lines = logged()
    answer = handle(broker, AdminRequest(method, path, address="192.0.2.1"), 0.0)
    assert lines == [f"refused {method} {path} of 192.0.2.1 with {line}"]
    assert json.loads(answer.body)["reason"] == line.partition(": ")[2]


def test_names_of_peers_forge_no_lines():
    broker, lines = logged()
    Peer(broker).send("producer", topic=NO_TOPIC, producer_id=1, request_id=1)
    Peer(broker).send("seek", consumer_id=1, request_id=1)
    handle(broker, AdminRequest("GET", "/admin/v2/tenants/a%0Ab\nc\x1b[0m"), 0.0)
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)


def test_what_is_served_is_not_logged():
    broker, lines = logged()
    peer = Peer(broker)
    peer.producer()
    peer.publish("a")
    handle(broker, AdminRequest("GET", "/admin/v2/clusters"), 0.0)
    assert lines == []
