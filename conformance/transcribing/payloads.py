"""Payloads and fields as transcripts write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from google.protobuf.message import Message

from conformance.transcribing.recorded import TranscribeProblem
from refimpl.wire import Frame, WireError, decode_batch, decompress, is_batch
from refimpl.wire.pulsar_api_pb2 import CompressionType, MessageMetadata

Text = Callable[[str], Any]
"""What a text stands for."""
_MADE_ANEW = frozenset({"compression", "uncompressed_size", "num_messages_in_batch", "publish_time"})
"""Metadata that the suite writes by itself, or that tells when something was sent."""
_LONG = 64


def sent_payload(frame: Frame, text: Text) -> dict[str, Any]:
    """Return a payload as the suite is to send it.

    Raises:
        TranscribeProblem: It can't be read.
    """
    payload = _parsed(frame)
    metadata = payload.metadata
    fields = dict(_metadata(metadata, text))
    fields["publish_time"] = 1
    if metadata.HasField("deliver_at_time"):
        fields["deliver_at_time"] = {"$now": delay_of(metadata)}
    written: dict[str, Any] = {"metadata": fields}
    if payload.checksum_valid is not True:
        written["checksum"] = "absent"
    if _is_raw(metadata):
        written["body"] = content(payload.body)
        fields |= {name: getattr(metadata, name) for name in ("uncompressed_size", "num_messages_in_batch") if metadata.HasField(name)}
        if metadata.compression:
            fields["compression"] = CompressionType.Name(metadata.compression)
        return written
    written |= _contents(payload, text)
    if metadata.compression:
        written["compression"] = CompressionType.Name(metadata.compression)
    return written


def expected_payload(frame: Frame, text: Text) -> dict[str, Any]:
    """Return a payload as it is expected.

    Raises:
        TranscribeProblem: It can't be read.
    """
    payload = _parsed(frame)
    fields = {name: value for name, value in _metadata(payload.metadata, text) if name != "deliver_at_time"}
    if _is_raw(payload.metadata):
        compressed = {"compression": CompressionType.Name(payload.metadata.compression)} if payload.metadata.compression else {}
        return {"metadata": fields, **compressed} if payload.metadata.compression else {"metadata": fields, "body": content(payload.body)}
    compression = {"compression": CompressionType.Name(payload.metadata.compression)} if payload.metadata.compression else {}
    return {"metadata": fields, **compression, **_contents(payload, text)}


def delay_of(metadata: MessageMetadata) -> float:
    """Return after how many seconds a message is to be delivered, to a tenth."""
    return round((metadata.deliver_at_time - metadata.publish_time) / 1000, 1)


def fields_of(message: Message, text: Text) -> dict[str, Any]:
    """Return the fields of a message that is sent."""
    return {descriptor.name: _value(descriptor, value, text) for descriptor, value in message.ListFields()}


def content(data: bytes) -> Any:
    """Write bytes: as text where it is one, in short where a letter repeats."""
    if len(data) >= _LONG and data == data[:1] * len(data):
        return {"text" if data[:1].isalnum() else "hex": data[:1].decode() if data[:1].isalnum() else data[:1].hex(), "repeat": len(data)}
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}
    return text if text.isprintable() and "$" not in text else {"hex": data.hex()}


def _is_raw(metadata: MessageMetadata) -> bool:
    """Tell whether the body is a piece of something, or encrypted: it can't be opened."""
    return metadata.num_chunks_from_msg > 1 or bool(metadata.encryption_keys)


def _parsed(frame: Frame) -> Any:
    try:
        payload = frame.payload()
    except WireError as error:
        raise TranscribeProblem(f"a payload can't be read: {error}") from None
    if payload is None:
        raise TranscribeProblem("a message has no payload")
    return payload


def _contents(payload: Any, text: Text) -> Mapping[str, Any]:
    metadata = payload.metadata
    try:
        body = decompress(payload.body, metadata.compression, metadata.uncompressed_size)
        if not is_batch(metadata):
            return {"body": content(body)}
        singles = decode_batch(body, metadata.num_messages_in_batch)
    except WireError as error:
        raise TranscribeProblem(f"a payload can't be opened: {error}") from None
    batch = []
    for single in singles:
        fields = {name: value for name, value in fields_of(single.metadata, text).items() if name != "payload_size"}
        batch.append({"metadata": fields, "body": content(single.body)} if fields else {"body": content(single.body)})
    return {"batch": batch}


def _metadata(metadata: MessageMetadata, text: Text) -> Iterator[tuple[str, Any]]:
    for name, value in fields_of(metadata, text).items():
        if name not in _MADE_ANEW:
            yield name, value


def _value(descriptor: Any, value: Any, text: Text) -> Any:
    if isinstance(value, Message):
        return fields_of(value, text)
    if isinstance(value, bytes):
        return content(value)
    if descriptor.enum_type is not None and isinstance(value, int):
        known = descriptor.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bool | int | float):
        return value
    return [_value(descriptor, one, text) for one in value]
