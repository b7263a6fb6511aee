"""Parse one protobuf message strictly.

The generated code accepts a message that lacks required fields, returns text that is not UTF-8 as bytes, and does not say where an
error is. Here, all three are a `WireError` with an offset.
"""

from __future__ import annotations

from functools import cache
from itertools import islice
from typing import TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message

from refimpl.wire.errors import WireError
from refimpl.wire.scan import scan
from refimpl.wire.schema import descriptor_of, inner_message, is_repeated

M = TypeVar("M", bound=Message)

_MAX_SCANNED = 10_000


def parse(kind: type[M], data: bytes, offset: int = 0) -> M:
    """Parse a message.

    Args:
        kind: The generated class of the message.
        data: The encoded message, and nothing else.
        offset: Bytes before it in the frame; added to the offset of an error.

    Returns:
        The complete message, with each text as `str`. Unknown fields and enum values are accepted, as by real peers.

    Raises:
        WireError: It can't be parsed, lacks a required field, or holds text that is not UTF-8.
    """
    message = parse_complete(kind, data, offset)
    if not data.isascii() and not is_text(message):
        raise defect(descriptor_of(kind), data, offset)
    return message


def parse_complete(kind: type[M], data: bytes, offset: int = 0) -> M:
    """Parse a message as `parse` does, but do not look at its texts.

    Raises:
        WireError: It can't be parsed, or lacks a required field.
    """
    message = kind()
    try:
        message.ParseFromString(data)
        # The encoder checks required fields several times faster than IsInitialized, which looks at every field of
        # the schema, about eighty in a BaseCommand.
        message.SerializeToString()
    except (DecodeError, EncodeError, UnicodeDecodeError):
        raise defect(descriptor_of(kind), data, offset) from None
    return message


def defect(descriptor: Descriptor, data: bytes, offset: int = 0) -> WireError:
    """Locate the defect in bytes that can't be parsed.

    Args:
        descriptor: The description of the message.
        data: The encoded message.
        offset: Bytes before it in the frame.

    Returns:
        The error to raise. Only the first 10,000 fields are checked; for a defect after them, it names the start.
    """
    for piece in islice(scan(descriptor, data), _MAX_SCANNED):
        if piece.defect is not None:
            return WireError(offset + piece.value_start, piece.defect)
    return WireError(offset, f"{descriptor.name} can't be parsed")


def is_text(message: Message) -> bool:
    """Return whether each text in a message is UTF-8; the generated code returns any other text as bytes."""
    for name, repeated, is_message in _text_fields(descriptor_of(message)):
        if is_message and not repeated and not message.HasField(name):
            continue
        value = getattr(message, name)
        for item in value if repeated else (value,):
            if not (is_text(item) if is_message else isinstance(item, str)):
                return False
    return True


@cache
def _text_fields(descriptor: Descriptor) -> tuple[tuple[str, bool, bool], ...]:
    """List the fields that are text or may hold some inside: name, repeated, message."""
    return tuple(
        (field.name, is_repeated(field), inner_message(field) is not None)
        for field in descriptor.fields
        if _may_hold_text(field, frozenset())
    )


def _may_hold_text(field: FieldDescriptor, outer: frozenset[str]) -> bool:
    inner = inner_message(field)
    if inner is None:
        return bool(field.type == FieldDescriptor.TYPE_STRING)
    return inner.full_name not in outer and any(_may_hold_text(one, outer | {inner.full_name}) for one in inner.fields)
