"""A line of what a broker has said, without what it may choose freely."""

from __future__ import annotations

import fnmatch
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from google.protobuf.message import Message

from conformance.explore.freedoms import ignored_fields
from refimpl.wire import Frame, decode_batch, is_batch, parse_payload


@dataclass(frozen=True, order=True)
class Line:
    """One thing that a broker said.

    Attributes:
        lane: Who heard it: a connection, or the consumers of a shared subscription together, since the broker chooses among them.
        name: The command, in its field of BaseCommand, or what happened.
        fields: The fields as JSON, without those that are free.
    """

    lane: str
    name: str
    fields: str

    def value(self, field: str) -> Any:
        """Return a field; None: it is not set."""
        return json.loads(self.fields).get(field) if self.fields.startswith("{") else None

    def __str__(self) -> str:
        """Write it in one line."""
        return f"{self.lane}: {self.name} {self.fields}".rstrip()


def without_places(fields: dict[str, Any]) -> None:
    """Leave of the id of the last message what does not depend on where a broker keeps it, and whether there is one."""
    fields.pop("consumer_mark_delete_position", None)
    last = fields["last_message_id"]
    last["none"] = last["entryId"] == -1
    for name in ("ledgerId", "entryId"):
        last.pop(name)


def bodies_of(frame: Frame) -> list[str]:
    """Return the bodies of the messages of an entry, as text; an entry that can't be read is its bytes in hexadecimal."""
    assert frame.payload_bytes is not None
    payload = parse_payload(frame.payload_bytes)
    if is_batch(payload.metadata):
        return [one.body.decode(errors="replace") for one in decode_batch(payload.body, payload.metadata.num_messages_in_batch)]
    return [payload.body.decode(errors="replace")]


def number_of(body: str) -> int:
    """Return the number at the end of a body, which no other body has."""
    return int(body[len(body.rstrip("0123456789")) :])


@cache
def is_free(path: str) -> bool:
    """Tell whether a field may be anything, such as `CONNECTED.server_version`."""
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in ignored_fields())


def fields_of(message: Message, path: str) -> dict[str, Any]:
    """Return the fields of a message without those that are free, as JSON can hold them; `path` begins with the name of the command.

    No bytes, as the version of a schema that is not there, are as good as no field.
    """
    found = {}
    for descriptor, value in message.ListFields():
        place = f"{path}.{descriptor.name}"
        if not is_free(place) and value != b"":
            found[descriptor.name] = _plain(value, place, descriptor)
    return found


def _plain(value: Any, path: str, descriptor: Any) -> Any:
    if isinstance(value, Message):
        return fields_of(value, path)
    if isinstance(value, str | bool):
        return value
    if isinstance(value, int) and descriptor.enum_type is not None:
        return descriptor.enum_type.values_by_number[value].name if value in descriptor.enum_type.values_by_number else value
    if isinstance(value, int | float):
        return value
    if isinstance(value, bytes):
        return value.hex()
    return sorted((_plain(one, path, descriptor) for one in value), key=str)
