"""A message in a response of the admin interface: its payload as the body, its metadata as headers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from http import HTTPStatus

from refimpl.broker.topic import Topic
from refimpl.proposals.administration import AdminResponse
from refimpl.proposals.refused import AdminRefused
from refimpl.store import Entry
from refimpl.wire import WireError, decompress, parse_payload


def message_response(topic: Topic, index: int, entry: Entry) -> AdminResponse:
    """Return a response with the payload of an entry and its metadata as headers."""
    try:
        payload = parse_payload(entry.data)
        metadata = payload.metadata
        body = decompress(payload.body, metadata.compression, metadata.uncompressed_size)
    except WireError as error:
        raise AdminRefused(HTTPStatus.INTERNAL_SERVER_ERROR, f"the message can't be read: {error}") from None
    headers = {
        "X-Pulsar-Message-ID": f"{topic.stored.ledger_id}:{index}",
        "X-Pulsar-producer-name": _ascii(metadata.producer_name),
        "X-Pulsar-sequence-id": str(metadata.sequence_id),
        "X-Pulsar-publish-time": _moment(metadata.publish_time),
        "X-Pulsar-Is-Encrypted": str(bool(metadata.encryption_keys)).lower(),
        "X-Pulsar-txn-uncommitted": "false",
    }
    if metadata.properties:
        headers["X-Pulsar-PROPERTY"] = json.dumps({one.key: one.value for one in metadata.properties})
    if metadata.HasField("num_messages_in_batch"):
        headers["X-Pulsar-num-batch-message"] = str(metadata.num_messages_in_batch)
    if metadata.HasField("partition_key"):
        headers["X-Pulsar-partition-key"] = _ascii(metadata.partition_key)
    return AdminResponse(HTTPStatus.OK, body, "application/octet-stream", headers)


def _ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


def _moment(millis: int) -> str:
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(millis)
