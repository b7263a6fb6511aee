"""Validity and compatibility of Avro schemas.

Schemas come from untrusted clients, so every function takes at most time proportional to their size.
"""

from __future__ import annotations

import json
from typing import Any

from fastavro.schema import parse_schema

_MAX_DEPTH = 160
"""Maximum nesting of a definition, in JSON values."""

_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""The primitive types that values of each primitive type can be promoted to."""

_NAMED = ("record", "error", "enum", "fixed")
_SHOWN = 200


def parse(definition: bytes) -> Any:
    """Parse the definition of a schema.

    Raises:
        ValueError: It is not a valid definition.
    """
    try:
        found = json.loads(definition.decode())
        _check_depth(found, 0)
        return parse_schema(found)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except Exception as error:  # fastavro raises many kinds of errors for malformed definitions
        raise ValueError(f"{type(error).__name__}: {error}"[:_SHOWN]) from None


def same(one: bytes, other: bytes) -> bool:
    """Return whether two definitions describe the same schema; both are Avro schemas."""
    return bool(json.loads(one) == json.loads(other))


def reads(reader: bytes, writer: bytes) -> bool:
    """Return whether a reader schema can read all data of a writer schema; both are Avro schemas."""
    return _Comparison().reads(parse(reader), parse(writer))


def _check_depth(value: Any, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise RecursionError
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_depth(inner, depth + 1)


class _Comparison:
    """Compares the types of two schemas; each pair of named types once."""

    def __init__(self) -> None:
        self._readers: dict[str, Any] = {}
        self._writers: dict[str, Any] = {}
        self._pairs: dict[tuple[str, str], bool] = {}

    def reads(self, reader: Any, writer: Any) -> bool:
        reader, writer = _resolved(reader, self._readers), _resolved(writer, self._writers)
        if isinstance(writer, list):
            return all(self.reads(reader, branch) for branch in writer)
        if isinstance(reader, list):
            return any(self.reads(branch, writer) for branch in reader)
        wanted, found = reader["type"], writer["type"]
        if wanted != found:
            return isinstance(found, str) and wanted in _PROMOTED.get(found, ())
        if wanted in _NAMED:
            return self._named(reader, writer)
        inner = {"array": "items", "map": "values"}.get(wanted)
        return inner is None or self.reads(reader[inner], writer[inner])

    def _named(self, reader: Any, writer: Any) -> bool:
        pair = reader["name"], writer["name"]
        if pair not in self._pairs:
            self._pairs[pair] = True  # a recursive type is compatible if the rest is
            self._pairs[pair] = self._same_kind(reader, writer)
        return self._pairs[pair]

    def _same_kind(self, reader: Any, writer: Any) -> bool:
        if reader["name"].rpartition(".")[2] != writer["name"].rpartition(".")[2]:
            return False
        if reader["type"] == "enum":
            return "default" in reader or set(writer["symbols"]) <= set(reader["symbols"])
        if reader["type"] == "fixed":
            return bool(reader["size"] == writer["size"])
        written = {one["name"]: one["type"] for one in writer["fields"]}
        outcomes = []
        for one in reader["fields"]:
            name = next((name for name in (one["name"], *one.get("aliases", ())) if name in written), None)
            outcomes.append("default" in one if name is None else self.reads(one["type"], written[name]))
        return all(outcomes)


def _resolved(kind: Any, named: dict[str, Any]) -> Any:
    """Return a type as a union or as a dictionary with a plain `type`; resolve names."""
    if isinstance(kind, list):
        return kind
    if isinstance(kind, str):
        return named.get(kind, {"type": kind})
    if not isinstance(kind["type"], str):
        return _resolved(kind["type"], named)
    if kind["type"] in _NAMED:
        named[kind["name"]] = kind
    return kind
