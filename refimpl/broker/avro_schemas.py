"""Validity, equality and compatibility of Avro schemas, as Java's library has them: its rules are not all those of Avro's text.

Schemas come from untrusted clients, so every function takes at most time proportional to their size, or `MOST_STEPS`.
"""

from __future__ import annotations

import json
import re
from typing import Any

_MAX_DEPTH = 160
"""Maximum nesting of a definition, in JSON values."""
MOST_STEPS = 100_000
"""Maximum number of types and fields that are compared: two unions of records have as many as the product of their sizes."""

_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""The primitive types that values of each primitive type can be promoted to."""

_RECORDS, _NAMED = ("record", "error"), ("record", "error", "enum", "fixed")
_INNER = {"array": "items", "map": "values"}
_DEFAULTS: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    **dict.fromkeys(("int", "long", "float", "double"), (int, float)),
    **dict.fromkeys(("bytes", "string", "fixed"), (str,)),
}
"""What the JSON of a default is, by its type."""
_PRIMITIVES = _DEFAULTS.keys() - {"fixed"}
_NAME = re.compile(r"[^\W\d][\w$]*")
"""A name: letters of any alphabet, and dollar signs behind the first one."""
_SHOWN = 200
_OF_TYPES = {"doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"}
_OF_FIELDS = {"doc", "name", "type", "order", "default", "aliases"}


def parse(definition: bytes) -> Any:
    """Parse the definition of a schema. Defaults may have any type: only where schemas are compared, Java looks at them.

    Raises:
        ValueError: It is not a valid definition.
    """
    return _Definition(definition).root


def same(one: bytes, other: bytes) -> bool:
    """Return whether two definitions describe the same schema; both are Avro schemas. Documentation and aliases do not count.

    Raises:
        ValueError: A default has another type than its field.
    """
    return bool(_Definition(one, bare=True, strict=True).root == _Definition(other, bare=True, strict=True).root)


def reads(reader: bytes, writer: bytes) -> bool:
    """Return whether a reader schema can read all data of a writer schema; both are Avro schemas.

    Raises:
        ValueError: A default has another type than its field.
    """
    comparison = _Comparison(_Definition(reader, strict=True), _Definition(writer, strict=True))
    try:
        return comparison.reads(comparison.reader.root, comparison.writer.root)
    except RecursionError:
        return False


class _Definition:
    """A definition whose names are full names.

    Args:
        text: The definition.
        bare: Whether to leave out what does not make another schema of it.
        strict: Whether defaults must have the type of their field.

    Attributes:
        root: The type that is defined: a list of types is a union, a text is the name of a type, all others are dictionaries.
        named: The named types in it.

    Raises:
        ValueError: It is not valid.
    """

    def __init__(self, text: bytes, *, bare: bool = False, strict: bool = False) -> None:
        self._bare, self._strict, self._left = bare, strict, MOST_STEPS
        self.named: dict[str, dict[str, Any]] = {}
        try:
            found = json.loads(text.decode())
            _check_depth(found, 0)
            self.root = self._type(found, "")
        except ValueError as error:
            raise ValueError(str(error)[:_SHOWN]) from None
        except RecursionError:
            raise ValueError("it is nested too deep") from None

    def resolved(self, kind: Any) -> Any:
        """Return a type itself, where a name stands for it."""
        return self.named[kind] if isinstance(kind, str) else kind

    def _type(self, kind: Any, namespace: str) -> Any:
        if isinstance(kind, list):
            return self._union(kind, namespace)
        if isinstance(kind, str):
            full = _full(kind, namespace)
            if kind not in _PRIMITIVES and full not in self.named:
                raise ValueError(f"undefined name: {full}")
            return {"type": kind} if kind in _PRIMITIVES else full
        name = _part(kind, "type", str)
        properties = {key: value for key, value in kind.items() if key not in _OF_TYPES}
        if name in _NAMED:
            return self._named(name, kind, namespace, properties)
        if name in _INNER:
            return {**properties, "type": name, _INNER[name]: self._type(_part(kind, _INNER[name]), namespace)}
        return {**properties, "type": name} if name in _PRIMITIVES else self._type(name, namespace)

    def _union(self, kinds: list[Any], namespace: str) -> list[Any]:
        branches = [self._type(one, namespace) for one in kinds]
        marks = [one if isinstance(one, str) else "" if isinstance(one, list) else one.get("name", one["type"]) for one in branches]
        if "" in marks or len(set(marks)) < len(marks):
            raise ValueError("a union has another one, or a type twice")
        return branches

    def _named(self, kind: str, given: Any, namespace: str, properties: dict[str, Any]) -> dict[str, Any]:
        full = _full(_part(given, "name", str), given.get("namespace", namespace))
        namespace = full.rpartition(".")[0]
        aliases = frozenset(_full(one, namespace) for one in _aliases(given))
        for name in (full, *aliases):
            _check_names(name.split("."))
        if full in self.named or full in _PRIMITIVES:
            raise ValueError(f"{full} is defined already")
        found: dict[str, Any] = {"type": kind, "name": full, **({} if self._bare else {"aliases": aliases})}
        self.named[full] = found
        if kind in _RECORDS:
            found["fields"] = [self._field(one, namespace) for one in _part(given, "fields", list)]
            _check_names([one["name"] for one in found["fields"]], once=True)
        elif kind == "enum":
            found["symbols"] = _part(given, "symbols", list)
            _check_names(found["symbols"], once=True)
            if "default" in properties and properties["default"] not in found["symbols"]:
                raise ValueError("the default of an enum is none of its symbols")
            if self._bare:
                properties.pop("default", None)
        elif _part(given, "size", int) < 0:
            raise ValueError("a negative size")
        else:
            found["size"] = given["size"]
        found.update(properties)
        return found

    def _field(self, given: Any, namespace: str) -> dict[str, Any]:
        order = given.get("order", "ascending") if isinstance(given, dict) else None
        found = {"name": _part(given, "name", str), "type": self._type(_part(given, "type"), namespace), "order": order}
        if order not in ("ascending", "descending", "ignore"):
            raise ValueError(f"no order of a field: {order}")
        found.update((key, value) for key, value in given.items() if key == "default" or key not in _OF_FIELDS)
        if not self._bare:
            found["aliases"] = _aliases(given)
        if self._strict and "default" in found and not self._takes(found["type"], found["default"]):
            raise ValueError(f"the default of {found['name']} has another type")
        return found

    def _takes(self, kind: Any, value: Any) -> bool:
        """Return whether a default has the type of its field."""
        kind = self.resolved(kind)
        self._left -= 1 + len(kind if isinstance(kind, list) else kind.get("fields", ()))
        if self._left < 0:
            raise ValueError("it has too many defaults")
        if isinstance(kind, list):
            return any(self._takes(one, value) for one in kind)
        name = kind["type"]
        if name in _RECORDS:
            return isinstance(value, dict) and all(
                self._takes(one["type"], value[one["name"]]) if one["name"] in value else "default" in one for one in kind.get("fields", ())
            )
        if name == "enum":
            return value in kind["symbols"]
        if name == "array":
            return isinstance(value, list) and all(self._takes(kind["items"], one) for one in value)
        if name == "map":
            return isinstance(value, dict) and all(self._takes(kind["values"], one) for one in value.values())
        return isinstance(value, _DEFAULTS[name]) and (name == "boolean" or not isinstance(value, bool))


class _Comparison:
    """Compares the types of two schemas; each pair of named types once.

    Args:
        reader: The schema that is to read.
        writer: The schema that has written.
    """

    def __init__(self, reader: _Definition, writer: _Definition) -> None:
        self.reader, self.writer = reader, writer
        self._pairs: dict[tuple[str, str], bool] = {}
        self._unions: dict[int, dict[str | None, Any]] = {}
        self._left = MOST_STEPS

    def reads(self, reader: Any, writer: Any) -> bool:
        self._left -= 1
        if self._left < 0:
            return False
        reader, writer = self.reader.resolved(reader), self.writer.resolved(writer)
        if isinstance(writer, list):
            return all(self.reads(reader, branch) for branch in writer)
        if isinstance(reader, list):
            meant = self._branches(reader).get(writer.get("name"))
            return any(self.reads(branch, writer) for branch in reader) if meant is None else self.reads(meant, writer)
        wanted, found = reader["type"], writer["type"]
        if wanted != found:
            return wanted in _PROMOTED.get(found, ())
        if wanted in _NAMED:
            return self._named(reader, writer)
        return wanted not in _INNER or self.reads(reader[_INNER[wanted]], writer[_INNER[wanted]])

    def _branches(self, union: list[Any]) -> dict[str | None, Any]:
        """Return the named types in a union of the reader: of these, the one with the name that is written is meant."""
        if id(union) not in self._unions:
            self._unions[id(union)] = {one["name"]: one for one in map(self.reader.resolved, union) if "name" in one}
        return self._unions[id(union)]

    def _named(self, reader: Any, writer: Any) -> bool:
        pair = reader["name"], writer["name"]
        if pair not in self._pairs:
            self._pairs[pair] = True  # a recursive type is compatible if the rest is
            self._pairs[pair] = self._same_kind(reader, writer)
        return self._pairs[pair]

    def _same_kind(self, reader: Any, writer: Any) -> bool:
        if reader["type"] in _RECORDS:  # whatever their names, and an enum whatever its symbols
            self._left -= len(reader["fields"]) + len(writer["fields"])
            written = {one["name"]: one["type"] for one in writer["fields"]}
            return all(self._gets(one, written) for one in reader["fields"])
        is_named = reader["name"].rpartition(".")[2] == writer["name"].rpartition(".")[2] or writer["name"] in reader["aliases"]
        return is_named and reader.get("size") == writer.get("size")

    def _gets(self, field: Any, written: dict[str, Any]) -> bool:
        """Return whether a field of the reader has a value, from what is written or by default."""
        name = next((name for name in (field["name"], *field["aliases"]) if name in written), None)
        if name is not None:
            return self.reads(field["type"], written[name])
        return "default" in field


def _check_depth(value: Any, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise RecursionError
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_depth(inner, depth + 1)


def _check_names(names: list[Any], *, once: bool = False) -> None:
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name")
    if once and len(set(names)) < len(names):
        raise ValueError("a name twice")


def _full(name: Any, namespace: Any) -> str:
    """Return the full name of a type."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _aliases(given: Any) -> list[str]:
    found = given.get("aliases", [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError("aliases are a list of names")
    return found


def _part(given: Any, key: str, kind: type = object) -> Any:
    """Return a part that a type or a field must have."""
    found = given.get(key) if isinstance(given, dict) else None
    if found is None or not isinstance(found, kind):
        raise ValueError(f"no {key}")
    return found
