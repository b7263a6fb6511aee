"""A command on one line, for readers: `WATCH_TOPIC_LIST_CLOSE{request_id: 8, watcher_id: 13}`.

Fields that are present, in the order of their numbers; text quoted as in JSON, enum values by name, bytes as `0x0a0b`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from refimpl.wire.commands import sub_message, type_name
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import BaseCommand
from refimpl.wire.schema import is_repeated


def line_notation(command: Frame | BaseCommand) -> str:
    """Write a command as one line.

    Args:
        command: A command, or a frame; the line has the length of a frame's payload.

    Returns:
        The line, without an end of line.

    Raises:
        ValueError: The command lacks its type or its sub-message.
    """
    if isinstance(command, Frame):
        rest = f" + {len(command.payload_bytes)} bytes" if command.payload_bytes else ""
        return line_notation(command.command) + rest
    return type_name(command) + message_notation(sub_message(command))


def message_notation(message: Message) -> str:
    """Write a message as `{field: value, ..}`."""
    return "{" + ", ".join([f"{_shape(field)[0]}: {_field(field, value)}" for field, value in message.ListFields()]) + "}"


_quoted = json.JSONEncoder(ensure_ascii=False).encode


def value_notation(field: FieldDescriptor, value: object) -> str:
    """Write one value of a field, or one element if the field is repeated."""
    if isinstance(value, Message):
        return message_notation(value)
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, str):
        return _quoted(value)
    names = _shape(field)[2]
    return str(value) if names is None or value not in names else names[value]


def _field(field: FieldDescriptor, value: object) -> str:
    if _shape(field)[1]:
        return "[" + ", ".join([value_notation(field, item) for item in value]) + "]"  # type: ignore[attr-defined]
    return value_notation(field, value)


@cache
def _shape(field: FieldDescriptor) -> tuple[str, bool, Mapping[object, str] | None]:
    """Return the name of a field, whether it is repeated, and how its values are called; to ask the schema each time takes longer."""
    names: dict[object, str] | None = None
    if field.type == FieldDescriptor.TYPE_BOOL:
        names = {True: "true", False: "false"}
    elif field.enum_type is not None:
        names = {number: str(one.name) for number, one in field.enum_type.values_by_number.items()}
    return str(field.name), is_repeated(field), names
