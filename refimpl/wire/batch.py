"""Several messages in one entry: the body of a payload whose metadata carry `num_messages_in_batch`, after decompression.

    ([u32 size][SingleMessageMetadata][payload_size bytes])*

The size is big-endian.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from refimpl.wire.errors import WireError
from refimpl.wire.pulsar_api_pb2 import MessageMetadata, SingleMessageMetadata
from refimpl.wire.strict import parse


@dataclass(frozen=True, slots=True)
class SingleMessage:
    """One message of a batch: its own header and its bytes."""

    metadata: SingleMessageMetadata
    body: bytes


def is_batch(metadata: MessageMetadata) -> bool:
    """Return whether the body is a batch.

    The field decides, not its value: some clients write a batch of one as a batch, some as a plain message without it.

    Source: observed on the Python and Java clients 4.2.
    """
    return metadata.HasField("num_messages_in_batch")


def decode_batch(body: bytes, count: int) -> list[SingleMessage]:
    """Decode a batch.

    Args:
        body: The batch, decompressed.
        count: Number of messages, from the metadata.

    Returns:
        The messages, in order.

    Raises:
        WireError: A size does not fit, metadata can't be parsed, or bytes are left over. Offsets count in `body`.
    """
    if count < 0:
        raise WireError(0, f"a batch of {count} messages")
    messages: list[SingleMessage] = []
    place = 0
    for index in range(count):
        header, place = _take(body, place, 4, f"the metadata size of message {index}")
        encoded, place = _take(body, place, int.from_bytes(header, "big"), f"the metadata of message {index}")
        metadata = parse(SingleMessageMetadata, encoded, place - len(encoded))
        if metadata.payload_size < 0:
            raise WireError(place, f"message {index} has {metadata.payload_size} bytes")
        content, place = _take(body, place, metadata.payload_size, f"message {index}")
        messages.append(SingleMessage(metadata, content))
    if place != len(body):
        raise WireError(place, f"{len(body) - place} bytes after the last of {count} messages")
    return messages


def encode_batch(messages: Iterable[SingleMessage]) -> bytes:
    """Encode a batch.

    Args:
        messages: The messages, in order. A `payload_size` that is set is written unchanged, even if it is wrong.

    Returns:
        The body of a batch, not compressed.
    """
    parts: list[bytes] = []
    for message in messages:
        metadata = SingleMessageMetadata()
        metadata.CopyFrom(message.metadata)
        if not metadata.HasField("payload_size"):
            metadata.payload_size = len(message.body)
        encoded = metadata.SerializeToString()
        parts += [len(encoded).to_bytes(4, "big"), encoded, message.body]
    return b"".join(parts)


def _take(body: bytes, place: int, size: int, what: str) -> tuple[bytes, int]:
    if size > len(body) - place:
        raise WireError(place, f"{what} should have {size} bytes, {len(body) - place} are left")
    return body[place : place + size], place + size
