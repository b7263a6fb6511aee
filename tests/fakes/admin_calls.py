"""Calls of the admin interface without HTTP."""

from __future__ import annotations

import json
from urllib.parse import parse_qsl

from conformance.targets.operations import check_arguments, request
from refimpl.broker import Broker
from refimpl.broker.rest import handle
from refimpl.proposals.administration import AdminRequest
from refimpl.wire import command, encode_frame, encode_payload
from refimpl.wire.pulsar_api_pb2 import MessageMetadata
from tests.fakes.broker_peer import TOPIC, Peer

NAMESPACE = "/admin/v2/namespaces/public/default"
ADMIN_TOPIC = "/admin/v2/persistent/public/default/t"


def ask(broker: Broker, method: str, path: str, body: object = None, token: str | None = None, raw: bytes | None = None, **more: str):
    place, _, query = path.partition("?")
    data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
    answer = handle(broker, AdminRequest(method, place, dict(parse_qsl(query)), data, token, **more), broker.now)
    is_json = answer.content_type == "application/json" and answer.body
    return answer.status, json.loads(answer.body) if is_json else answer.body


def call(broker: Broker, op: str, args: object = None):
    """Call as the suite does."""
    method, path, body = request(op, check_arguments(op, args))
    return ask(broker, method, path, body)


def publish(broker: Broker, *metadata: MessageMetadata) -> None:
    """Publish messages with these headers to `TOPIC`, over a connection that ends."""
    session = broker.connect(0.0)
    session.receive(encode_frame(command("connect", client_version="x", protocol_version=21)), 0.0)
    session.receive(encode_frame(command("producer", topic=TOPIC, producer_id=1, request_id=1)), 0.0)
    for number, one in enumerate(metadata):
        send = command("send", producer_id=1, sequence_id=number, num_messages=one.num_messages_in_batch)
        session.receive(encode_frame(send, encode_payload(one, b"hello %d" % number)), 0.0)
    session.eof(0.0)


def give(peer: Peer, path: str, value: object, method: str = "POST") -> None:
    assert ask(peer.broker, method, path, value) == (204, b"")


def retention(minutes: int, mib: int) -> dict[str, int]:
    return {"retentionTimeInMinutes": minutes, "retentionSizeInMB": mib}


def auto_creation(allowed: bool, kind: str | None = None, count: int | None = None) -> dict[str, object]:
    found = {"allowAutoTopicCreation": allowed, "topicType": kind, "defaultNumPartitions": count}
    return {key: value for key, value in found.items() if value is not None}
