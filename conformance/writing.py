"""Frames as transcripts write them: fields as patterns, names and hashes as what they stand for, steps as YAML.

Exploration writes differences with it, and `transcribe` recorded conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

HASHES = frozenset({"topics_hash", "current_hash"})
_WIDTH = 160
_SHORT = 120
"""Characters that are written in one line."""
LISTS_WITHOUT_ORDER = frozenset({"topics", "topic", "new_topics", "deleted_topics", "added", "removed"})


@dataclass(frozen=True)
class Patterns:
    """Turns messages of a broker into patterns.

    Attributes:
        text: What a text stands for, such as a name with variables in it.
        sets: By hash, the topics that have it.
        is_free: Whether a field may be anything, by its path, such as `CONNECTED.server_version`.
        position: What a message id becomes, with its path; None: nothing is said of it.
    """

    text: Callable[[str], Any]
    sets: Mapping[str, Sequence[str]]
    is_free: Callable[[str], bool]
    position: Callable[[str, Any], Any]

    def of(self, message: Message, path: str) -> dict[str, Any]:
        """Return the pattern of a message; `path` begins with the name of the command."""
        fields: dict[str, Any] = {name: [] for name in message.DESCRIPTOR.fields_by_name if name in LISTS_WITHOUT_ORDER}
        for descriptor, value in message.ListFields():
            place = f"{path}.{descriptor.name}"
            if self.is_free(place):
                continue
            if descriptor.message_type is not None and descriptor.message_type.name == "MessageIdData":
                written = self.position(place, value)
                if written is not None:
                    fields[descriptor.name] = written
            else:
                fields[descriptor.name] = self._value(descriptor, value, place)
        return fields

    def _value(self, descriptor: FieldDescriptor, value: Any, place: str) -> Any:
        if descriptor.name in HASHES:
            return hash_of(value, self.sets) or {"$any": True}
        if isinstance(value, Message):
            return self.of(value, place)
        if isinstance(value, bytes):
            return {"hex": value.hex()}
        if descriptor.enum_type is not None and isinstance(value, int):
            known = descriptor.enum_type.values_by_number.get(value)
            return value if known is None else known.name
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bool | int | float):
            return value
        items = [self._value(descriptor, one, place) for one in value]
        return {"$bag": items} if descriptor.name in LISTS_WITHOUT_ORDER else items


def hash_of(value: str, sets: Mapping[str, Sequence[str]]) -> dict[str, Any] | None:
    """Write a hash as that of the topics that have it, if they are known."""
    return {"$topics_hash": list(sets[value])} if value in sets else None


class _Head(yaml.SafeDumper):
    """Writes what is short in one line, below the keys of a file."""

    spread = 1
    """Levels that are written in lines of their own, however short they are."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._level = 0

    def represent_data(self, data: Any) -> yaml.Node:
        """Count the levels."""
        self._level += 1
        try:
            node: yaml.Node = super().represent_data(data)
        finally:
            self._level -= 1
        if isinstance(node, yaml.CollectionNode):
            node.flow_style = self._level >= self.spread and len(yaml.safe_dump(data, default_flow_style=True, width=10**9)) <= _SHORT
        return node

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Write what comes again in full."""
        return True


class _Steps(_Head):
    """The same for a list of steps."""

    spread = 2


def dumped(value: Any) -> str:
    """Write keys of a file as YAML."""
    return _dumped(value, _Head)


def written_steps(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """Write steps as items of the list below `steps:`."""
    return ["\n".join(f"  {line}" for line in _dumped([step], _Steps).splitlines()) for step in steps]


def _dumped(value: Any, dumper: type[yaml.SafeDumper]) -> str:
    text: str = yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return text.rstrip()
