"""PR 7629, the filter that decodes messages with their schema: BasicAvroFilter, for Avro and JSON schemas.

Schemas and payloads come from untrusted clients, and fastavro does not limit what they cost: a payload of a recursive schema crashes
the process at a few thousand levels, and an array whose values take no bytes can claim any number of elements. Therefore the
filter checks a schema before it decodes a payload with it, and decodes only the fields that it compares.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from fastavro import schemaless_reader
from fastavro.read import SchemaResolutionError
from fastavro.schema import parse_schema

from refimpl.proposals.message_filter.kinds import Candidate, InvalidFilter, SchemaAccess, Undecidable
from refimpl.wire.pulsar_api_pb2 import Schema

MAX_SCHEMA_DEPTH = 32
"""Maximum nesting of types; a recursive type is refused."""

_MAX_JSON_DEPTH = 5 * MAX_SCHEMA_DEPTH
_SCALARS = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})
_UNREADABLE = (EOFError, LookupError, ValueError, OverflowError, RecursionError, SchemaResolutionError)
"""Errors of fastavro and json for bytes that they can't decode, and of fastavro for a field that is not a scalar."""
_NO_TYPE = frozenset({"default", "doc", "aliases", "order", "logicalType", "precision", "scale"})


class BasicAvroFilter:
    """Matches messages whose fields have the given texts.

    Args:
        properties: The expected text of each top-level field. At least one; all have to be equal.
        schemas: `current` is required and has the type Avro or JSON.

    Raises:
        InvalidFilter: pr7629.avro.needs-schema, .needs-field, .schema-refused.
    """

    def __init__(self, properties: Mapping[str, str], schemas: SchemaAccess) -> None:
        if not properties:  # pr7629.avro.needs-field
            raise InvalidFilter("a key is missing: the name of a field")
        if "" in properties:
            raise InvalidFilter("this key is the name of no field", "")
        if schemas.current is None:  # pr7629.avro.needs-schema
            raise InvalidFilter("neither SUBSCRIBE nor the topic has a schema")
        self._expected = dict(properties)
        self._of_version = schemas.of_version
        self._readers: dict[bytes, _Reader] = {}
        try:
            self._reader = _reader(schemas.current, self._expected)
        except ValueError as error:  # pr7629.avro.schema-refused
            raise InvalidFilter(f"the schema can't be served: {error}") from None

    def matches(self, message: Candidate) -> bool:
        """Return whether all fields are equal: pr7629.avro.all-fields-equal, .missing-field, .other-type, .undecodable.

        Raises:
            Undecidable: The message was written with an unknown schema, or with one that the filter refuses.
        """
        version = message.metadata.schema_version
        reader = self._reader_of(version) if version else self._reader
        try:
            found = reader.fields(message.payload)
        except _UNREADABLE:
            return False
        return all(found.get(name) == text for name, text in self._expected.items())

    def _reader_of(self, version: bytes) -> _Reader:
        """Return the reader for the writer schema of a message: pr7629.avro.writer-schema, .unknown-version."""
        reader = self._readers.get(version)
        if reader is not None:
            return reader
        schema = self._of_version(version)
        if schema is None:
            raise Undecidable(f"schema version {version.hex()} is unknown")
        try:
            reader = self._readers[version] = _reader(schema, self._expected)
        except ValueError as error:
            raise Undecidable(f"schema version {version.hex()} can't be served: {error}") from None
        return reader


class _AvroReader:
    """Decodes the wanted fields of Avro records, and skips all others: pr7629.avro.trailing-octets."""

    def __init__(self, written: Any, wanted: Any) -> None:
        self._written = written
        self._wanted = wanted

    def fields(self, payload: bytes) -> Mapping[str, object]:
        found: Mapping[str, object] = schemaless_reader(_WholeReads(payload), self._written, self._wanted)  # type: ignore[assignment]
        return found


class _WholeReads(io.BytesIO):
    """A payload that does not give fewer bytes than it is asked for: fastavro does not look when it skips a field."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if len(data) != size:
            raise EOFError
        return data


class _JsonReader:
    """Decodes JSON objects."""

    def fields(self, payload: bytes) -> Mapping[str, object]:
        found = json.loads(payload.decode(), parse_int=_no_text, parse_float=_no_text, parse_constant=_no_json)
        if not isinstance(found, dict):
            raise ValueError("not an object")
        return found


def _no_json(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


_Reader = _AvroReader | _JsonReader


def _no_text(_: str) -> None:
    """Return None for a number: it never equals a text, and converting a long one is slow."""


def _reader(schema: Schema, wanted: Mapping[str, str]) -> _Reader:
    """Return a reader for payloads of a schema: pr7629.avro.avro-and-json.

    Raises:
        ValueError: The schema has another type, is malformed, or is not safe to decode with.
    """
    if schema.type == Schema.Json:
        return _JsonReader()
    if schema.type != Schema.Avro:
        raise ValueError(f"it is of type {_type_name(schema)}, not Avro or Json")
    try:
        written = parse_schema(_types_only(json.loads(schema.schema_data.decode())))
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except Exception as error:  # fastavro raises many kinds of errors for malformed definitions
        raise ValueError(f"it is no Avro schema: {error}") from None
    if not isinstance(written, dict) or written.get("type") != "record":
        raise ValueError("it is no record")
    _shape(written, {}, 1)
    return _AvroReader(written, _projection(written, wanted))


def _type_name(schema: Schema) -> str:
    return Schema.Type.Name(schema.type)


def _types_only(definition: Any, depth: int = 0) -> Any:
    """Return a schema's definition without logical types, whose values differ from those on the wire."""
    if depth > _MAX_JSON_DEPTH:
        raise ValueError("it is nested too deep")
    if isinstance(definition, dict):
        return {key: _types_only(value, depth + 1) for key, value in definition.items() if key not in _NO_TYPE}
    if isinstance(definition, list):
        return [_types_only(value, depth + 1) for value in definition]
    return definition


class _Shape(NamedTuple):
    """The nesting depth of a type, and whether its values take no bytes."""

    depth: int
    empty: bool


_LEAF = _Shape(1, empty=False)
_NOTHING = _Shape(1, empty=True)


def _shape(kind: Any, named: dict[str, _Shape | None], depth: int) -> _Shape:
    """Check a type of a parsed schema: pr7629.avro.schema-safe, .hostile-payload.

    Decoding a value of an accepted type takes time proportional to its bytes, and little stack.

    Args:
        kind: The type.
        named: Shapes by full name; None while a type is being checked.
        depth: The depth of the type in the schema.

    Raises:
        ValueError: It is recursive or nested too deeply, or a value in it takes no bytes and is not a branch of a union.
    """
    if depth > MAX_SCHEMA_DEPTH:
        raise ValueError(f"types are nested more than {MAX_SCHEMA_DEPTH} deep")
    if isinstance(kind, list):
        inner = [_shape(branch, named, depth + 1) for branch in kind]
        return _Shape(1 + max((one.depth for one in inner), default=0), empty=False)
    if isinstance(kind, str):
        return _shape_of_name(kind, named, depth)
    name, kind_name = kind.get("name"), kind["type"]
    if kind_name in ("record", "error"):
        named[name] = None
        inner = [_filled(one["type"], named, depth + 1) for one in kind["fields"]]
        shape = _Shape(1 + max((one.depth for one in inner), default=0), empty=not inner)
    elif kind_name in ("array", "map"):
        shape = _Shape(1 + _filled(kind["items" if kind_name == "array" else "values"], named, depth + 1).depth, empty=False)
    elif kind_name == "fixed":
        shape = _LEAF if isinstance(kind["size"], int) and kind["size"] > 0 else _NOTHING
    elif kind_name == "enum":
        shape = _LEAF
    else:
        return _shape(kind_name, named, depth)
    if name is not None:
        named[name] = shape
    return shape


def _shape_of_name(name: str, named: dict[str, _Shape | None], depth: int) -> _Shape:
    if name in _SCALARS:
        return _LEAF
    if name == "null":
        return _NOTHING
    shape = named.get(name)
    if shape is None:
        raise ValueError(f"type {name} is recursive")
    if depth + shape.depth - 1 > MAX_SCHEMA_DEPTH:
        raise ValueError(f"types are nested more than {MAX_SCHEMA_DEPTH} deep")
    return shape


def _filled(kind: Any, named: dict[str, _Shape | None], depth: int) -> _Shape:
    shape = _shape(kind, named, depth)
    if shape.empty:
        raise ValueError("a field or an element takes no bytes")
    return shape


def _projection(written: dict[str, Any], wanted: Mapping[str, str]) -> Any:
    """Return the reader schema: for each wanted field, its text type and every other scalar type.

    Raises:
        ValueError: A wanted field may be text or bytes, which fastavro does not distinguish.
    """
    enums: dict[str, Any] = {}
    _collect_enums(written, enums)
    scalars = _SCALARS | {"null"} | enums.keys()
    fields = []
    for one in written["fields"]:
        if one["name"] not in wanted:
            continue
        is_union = isinstance(one["type"], list)
        names = [_name_of(branch) for branch in (one["type"] if is_union else [one["type"]])]
        if {"bytes", "string"} <= set(names):
            raise ValueError(f"field {one['name']!r} is bytes or string")
        kept = [name for name in names if name in scalars]
        if kept:
            fields.append({"name": one["name"], "type": kept if is_union else kept[0]})
    return parse_schema({"type": "record", "name": written["name"], "fields": fields}, named_schemas=enums)


def _name_of(kind: Any) -> str:
    """Return the name of a branch of a union: a primitive type, a named type, array or map."""
    if isinstance(kind, str):
        return kind
    inner = kind["type"]
    return kind.get("name") or (inner if isinstance(inner, str) else _name_of(inner))


def _collect_enums(kind: Any, enums: dict[str, Any]) -> None:
    if isinstance(kind, list):
        for branch in kind:
            _collect_enums(branch, enums)
    elif isinstance(kind, dict):
        if kind["type"] == "enum":
            enums[kind["name"]] = kind
        for inner in (kind["type"], kind.get("items"), kind.get("values"), *(one["type"] for one in kind.get("fields", ()))):
            _collect_enums(inner, enums)
