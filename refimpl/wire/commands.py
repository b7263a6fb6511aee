"""Commands by name: the table between `BaseCommand.Type` and the sub-messages, read from the schema.

A command's type number is also the number of its field in `BaseCommand`, so one table serves both directions.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, cast

from google.protobuf.message import Message

from refimpl.wire.pulsar_api_pb2 import BaseCommand
from refimpl.wire.schema import fields_of, inner_message

_TYPES = BaseCommand.DESCRIPTOR.enum_types_by_name["Type"].values_by_number
_ALL_FIELDS = fields_of(BaseCommand)
_FIELDS = {number: _ALL_FIELDS[number] for number in _TYPES}
_TYPE_BY_MESSAGE = {inner.full_name: number for number, field in _FIELDS.items() if (inner := inner_message(field)) is not None}

FIELD_BY_TYPE: Mapping[int, str] = MappingProxyType({number: field.name for number, field in _FIELDS.items()})
"""Name of the sub-message field, such as `watchTopicList`, by type number."""

TYPE_BY_FIELD: Mapping[str, int] = MappingProxyType({name: number for number, name in FIELD_BY_TYPE.items()})
"""Type number by name of the sub-message field."""

CARRY_PAYLOAD = frozenset({int(BaseCommand.SEND), int(BaseCommand.MESSAGE)})
"""Types of the commands that a payload follows."""


def command(name: str, **fields: Any) -> BaseCommand:
    """Build a command from the name of its field and the values of its sub-message.

    Args:
        name: As in `BaseCommand`, for example `watchTopicList`.
        fields: Values by field name; a dict for a message, a list for a repeated field, a name or number for an enum.

    Returns:
        The whole command. Required fields may still be missing; `encode_frame` refuses that.

    Raises:
        ValueError: No command or no field has that name, or a value does not fit its field.
    """
    number = TYPE_BY_FIELD.get(name)
    if number is None:
        raise ValueError(f"no command is called {name!r}{did_you_mean(name, TYPE_BY_FIELD)}")
    kind = type(getattr(BaseCommand(), name))
    for field in fields:
        if field not in kind.DESCRIPTOR.fields_by_name:
            raise ValueError(f"{name} has no field {field!r}{did_you_mean(field, kind.DESCRIPTOR.fields_by_name)}")
    try:
        message = kind(**fields)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} can't be built from {fields!r}: {error}") from None
    return wrap(message)


def wrap(message: Message) -> BaseCommand:
    """Put a sub-message into its command.

    Args:
        message: Such as a `CommandPing`; it is copied.

    Returns:
        The command with its type set, and with the sub-message present even if it is empty.

    Raises:
        ValueError: The message is the sub-message of no command.
    """
    number = _TYPE_BY_MESSAGE.get(message.DESCRIPTOR.full_name)
    if number is None:
        raise ValueError(f"{message.DESCRIPTOR.name} is the sub-message of no command")
    base = BaseCommand()
    base.type = cast("BaseCommand.Type", number)
    inner: Message = getattr(base, FIELD_BY_TYPE[number])
    inner.SetInParent()
    inner.MergeFrom(message)
    return base


def command_name(base: BaseCommand) -> str:
    """Return the name of a command's field, such as `watchTopicList`.

    Raises:
        ValueError: The command has no type.
    """
    if not base.HasField("type"):
        raise ValueError("the command has no type")
    return FIELD_BY_TYPE[base.type]


def type_name(base: BaseCommand) -> str:
    """Return the name of a command's type, such as `WATCH_TOPIC_LIST`.

    Raises:
        ValueError: The command has no type.
    """
    command_name(base)
    return str(_TYPES[base.type].name)


def sub_message(base: BaseCommand) -> Message:
    """Return the sub-message that belongs to a command's type.

    Raises:
        ValueError: The command has no type, or lacks the sub-message of its type.
    """
    name = command_name(base)
    if not base.HasField(name):
        raise ValueError(f"{type_name(base)} without its sub-message {name}")
    return cast(Message, getattr(base, name))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the name that is closest to a mistyped one; nothing if none is close."""
    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""
