"""A message in a response of the admin interface: its payload as the body, its metadata as headers."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from refimpl.broker.topic import Topic
from refimpl.proposals.administration import AdminResponse
from refimpl.proposals.refused import AdminRefused
from refimpl.store import Entry
from refimpl.wire import WireError, decompress, parse_payload
from refimpl.wire.pulsar_api_pb2 import CompressionType


def message_response(topic: Topic, index: int, entry: Entry) -> AdminResponse:
    """Return a response with the payload of an entry and its metadata as headers."""
    try:
        payload = parse_payload(entry.data)
        metadata = payload.metadata
        body = decompress(payload.body, metadata.compression, metadata.uncompressed_size)
    except WireError as error:
        raise AdminRefused(HTTPStatus.INTERNAL_SERVER_ERROR, f"the message can't be read: {error}") from None
    headers = {
        "Message-ID": f"{topic.stored.ledger_id}:{index}",
        "PROPERTY": json.dumps({one.key: one.value for one in metadata.properties}),
        "Is-Encrypted": _flag(bool(metadata.encryption_keys)),
        "txn-uncommitted": "false",
        **{header: write(getattr(metadata, field)) for header, field, write in _HEADERS if metadata.HasField(field)},
    }
    if metadata.HasField("num_messages_in_batch"):
        headers["batch-size"] = str(len(entry.data) - metadata.ByteSize())
    if metadata.encryption_keys:
        headers["Base64-encryption-keys"] = ", ".join(_base64(one.SerializeToString()) for one in metadata.encryption_keys)
    return AdminResponse(HTTPStatus.OK, body, "application/octet-stream", {f"X-Pulsar-{name}": text for name, text in headers.items()})


def _ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


def _moment(millis: int) -> str:
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return str(millis)


def _flag(value: bool) -> str:
    return str(value).lower()


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


_HEADERS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("producer-name", "producer_name", _ascii),
    ("sequence-id", "sequence_id", str),
    ("publish-time", "publish_time", _moment),
    ("event-time", "event_time", _moment),
    ("deliver-at-time", "deliver_at_time", _moment),
    ("num-batch-message", "num_messages_in_batch", str),
    ("null-value", "null_value", _flag),
    ("replicated-from", "replicated_from", _ascii),
    ("partition-key", "partition_key", _ascii),
    ("partition-key-b64-encoded", "partition_key_b64_encoded", _flag),
    ("null-partition-key", "null_partition_key", _flag),
    ("Base64-ordering-key", "ordering_key", _base64),
    ("Base64-schema-version", "schema_version", _base64),
    ("compression", "compression", CompressionType.Name),
    ("uncompressed-size", "uncompressed_size", str),
    ("encryption-algo", "encryption_algo", _ascii),
    ("Base64-encryption-param", "encryption_param", _base64),
    ("highest-sequence-id", "highest_sequence_id", str),
    ("uuid", "uuid", _ascii),
    ("PROPERTY-TOTAL-CHUNKS", "num_chunks_from_msg", str),
    ("PROPERTY-CHUNK-ID", "chunk_id", str),
    ("num-chunks-from-msg", "num_chunks_from_msg", str),
    ("total-chunk-msg-size", "total_chunk_msg_size", str),
    ("chunk-id", "chunk_id", str),
)
"""The headers, without `X-Pulsar-`, the field that each is there for, and how its value is written."""
