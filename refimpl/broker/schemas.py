"""Schemas of topics: versions from 0, shared by all partitions of a topic and by both domains.

The rules are as observed on Apache Pulsar 4.2.4. How a producer's schema has to fit the older ones is a policy; by default it and the
newest schema have to be able to read each other's data (FULL). A consumer's schema has to be able to read data of the newest schema.
Avro definitions are compared, which JSON schemas use, too; of native Protobuf schemas the names of their messages; keys and values each
by itself. A schema of any other type is compatible with every schema of its type.

To delete the schemas of a topic is a version, too, which like those before it can't be got any longer.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote_plus

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError

from refimpl.broker import avro_schemas
from refimpl.broker.names import parse_topic
from refimpl.broker.policies import AUTO_UPDATE, COMPATIBILITY, VALIDATION, Policies
from refimpl.names import TopicName
from refimpl.proposals.refused import AdminRefused, Refused
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandGetOrCreateSchema,
    CommandGetOrCreateSchemaResponse,
    CommandGetSchema,
    CommandGetSchemaResponse,
    IncompatibleSchema,
    KeyValue,
    Schema,
    TopicNotFound,
)

if TYPE_CHECKING:
    from refimpl.broker.session import Session
    from refimpl.broker.topic import Topic
    from refimpl.store import MemoryStore

MOST_VERSIONS = 1_000
"""Maximum number of schema versions of a topic, so that no peer can exhaust the memory."""

DEFAULT_STRATEGY = "FULL"
"""How a new schema has to fit the older ones, unless a policy says otherwise."""
_READ_BY_CONSUMERS = ("BACKWARD", "FORWARD", "FORWARD_TRANSITIVE", "FULL")
"""Strategies under which the schema of a consumer only has to read the newest data."""
_BY_AVRO = (Schema.Avro, Schema.Json)
_DEFINED_IN_AVRO = (*_BY_AVRO, Schema.Protobuf)
_DEFINED_IN_JSON = (*_DEFINED_IN_AVRO, Schema.ProtobufNative)
TYPES: Mapping[str, int] = {
    **{re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.rstrip("_")).upper(): number for name, number in Schema.Type.items() if name != "Bool"},
    "BOOLEAN": Schema.Bool,
    "BYTES": Schema.None_,
}
"""The types of schemas, by Pulsar's names."""
_VERSION_BYTES = 8


class Schemas:
    """The schemas of all topics.

    Args:
        store: The store that keeps them.
        policies: The policies, which say how a new schema has to fit the others.
    """

    def __init__(self, store: MemoryStore, policies: Policies) -> None:
        self._store = store
        self._policies = policies

    # Versions

    def versions(self, name: TopicName) -> list[Schema | None]:
        """Return the schemas of a topic by version, None for those deleted; empty if it has none, or does not exist."""
        namespace = self._store.namespaces.get(name.namespace)
        return namespace.schemas.get(_key(name), []) if namespace is not None else []

    def valid(self, name: TopicName) -> dict[int, Schema]:
        """Return the schemas of a topic that are not deleted, by version."""
        return {number: one for number, one in enumerate(self.versions(name)) if one is not None}

    def newest(self, name: TopicName) -> Schema | None:
        """Return the newest schema of a topic."""
        return next(reversed(self.versions(name)), None)

    def of_version(self, name: TopicName, version: bytes) -> Schema | None:
        """Return a schema by its version as written on the wire; None: the topic has no such version."""
        versions = self.versions(name)
        number = int.from_bytes(version[:_VERSION_BYTES], "big")
        return versions[number] if len(version) >= _VERSION_BYTES and number < len(versions) else None

    def delete(self, name: TopicName) -> int:
        """Delete the schemas of a topic, and return the version of the deletion."""
        deleted = len(self.versions(name))
        self._store.namespaces[name.namespace].schemas[_key(name)] = [None] * (deleted + 1)
        return deleted

    def forget(self, name: TopicName) -> None:
        """Delete all versions of a topic, so that the next one is the first."""
        namespace = self._store.namespaces.get(name.namespace)
        if namespace is not None:
            namespace.schemas.pop(_key(name), None)

    # Rules

    def check(self, schema: Schema) -> None:
        """Check that a schema is valid.

        Raises:
            Refused: IncompatibleSchema.
        """
        if schema.type == Schema.AutoConsume:
            raise Refused(IncompatibleSchema, "Schema AUTO_CONSUME is a client-side schema type")
        try:
            if schema.type in _DEFINED_IN_AVRO:
                if isinstance(avro_schemas.parse(schema.schema_data), list) and schema.type == Schema.Avro:
                    raise ValueError("Avro schema typed [UNION] is not supported")
            elif schema.type == Schema.KeyValue:
                for part in _key_and_value(schema):
                    self.check(part)
            elif schema.type == Schema.ProtobufNative:
                _root_message(schema)
            elif schema.type != Schema.None_ and (size := len(schema.schema_data)):
                raise ValueError(f"length of schema data should be zero, but {size} bytes is found")
        except (ValueError, RecursionError) as error:
            raise Refused(IncompatibleSchema, f"Invalid schema definition data for {_kind(schema)} schema: {error}") from None

    def add(self, name: TopicName, schema: Schema, *, by_admin: bool = False) -> bytes:
        """Return the version of a schema; add it to the topic if it is new.

        Args:
            name: The topic.
            schema: The schema.
            by_admin: Whether an administrator adds it; clients may be forbidden to.

        Raises:
            Refused: IncompatibleSchema.
        """
        self.check(schema)
        valid = self.valid(name)
        for number, known in valid.items():
            if _compared(_same, known, schema):
                return version_bytes(number)
        if not by_admin and self._policies.of(name, AUTO_UPDATE) is False:
            raise Refused(IncompatibleSchema, "Schema not found and schema auto updating is disabled.")
        self._check_fits([*valid.values()], schema, self._strategy(name))
        if len(valid) >= MOST_VERSIONS:
            raise Refused(IncompatibleSchema, f"The topic has {MOST_VERSIONS} schema versions, more are not allowed")
        versions = self.versions(name)
        kept = Schema(name=_key(name), schema_data=schema.schema_data, type=schema.type, properties=schema.properties)
        self._store.namespaces[name.namespace].schemas[_key(name)] = [*versions, kept]
        return version_bytes(len(versions))

    def check_without(self, name: TopicName) -> None:
        """Check a new producer that brings no schema.

        Raises:
            Refused: IncompatibleSchema: core.policy.schema-validation.
        """
        if self._policies.of(name, VALIDATION) and self.newest(name) is not None:
            detail = "to topics with a schema when SchemaValidationEnforced is enabled"
            raise Refused(IncompatibleSchema, f"Producers cannot connect or send message without a schema {detail}")

    def check_joins(self, topic: Topic, schema: Schema) -> None:
        """Check the schema of a new consumer.

        Raises:
            Refused: IncompatibleSchema.
        """
        if schema.type == Schema.AutoConsume:
            return
        self.check(schema)
        if self.newest(topic.name) is not None:
            strategy = self._strategy(topic.name)
            self._check_fits([*self.valid(topic.name).values()], schema, "BACKWARD" if strategy in _READ_BY_CONSUMERS else strategy)
        elif topic.used_without_schema:
            detail = f"new schema type {_kind(schema)}"
            raise Refused(IncompatibleSchema, f"Failed to add schema to an active topic with empty(BYTES) schema: {detail}")

    def join(self, topic: Topic, schema: Schema) -> None:
        """Add the schema of a new consumer that `check_joins` has accepted, if it is the first one of the topic.

        Raises:
            Refused: IncompatibleSchema.
        """
        if schema.type != Schema.AutoConsume and self.newest(topic.name) is None:
            self.add(topic.name, schema)

    def _strategy(self, name: TopicName) -> str:
        found = self._policies.of(name, COMPATIBILITY)
        return DEFAULT_STRATEGY if found in (None, "UNDEFINED") else str(found)

    def _check_fits(self, versions: list[Schema], schema: Schema, strategy: str) -> None:
        """Check that a schema is compatible with the newest schema, or by the strategy with all."""
        if strategy == "ALWAYS_COMPATIBLE":
            return
        for old in versions if strategy.endswith("_TRANSITIVE") else versions[-1:]:
            _check_type(old, schema)
            if strategy == "ALWAYS_INCOMPATIBLE" or not _compared(_fits, old, schema, strategy):
                raise Refused(IncompatibleSchema, f"Error during schema compatibility check with strategy {strategy}")


def version_bytes(number: int) -> bytes:
    """Encode a version for commands and messages."""
    return number.to_bytes(_VERSION_BYTES, "big")


def _key(name: TopicName) -> str:
    """Return what all partitions and domains share: tenant, namespace and local name, which is encoded as Java's URLEncoder does."""
    local = name.partitioned.removeprefix(f"{name.domain}://{name.namespace}/")
    return f"{name.namespace}/{quote_plus(local, safe='*').replace('~', '%7E')}"


def _kind(schema: Schema) -> str:
    return next(name for name, number in TYPES.items() if number == schema.type)


def _check_type(newest: Schema, schema: Schema) -> None:
    if newest.type != schema.type:
        raise Refused(IncompatibleSchema, f"Incompatible schema: exists schema type {_kind(newest)}, new schema type {_kind(schema)}")


def _compared(comparison: Callable[..., bool], *schemas: Any) -> bool:
    try:
        return comparison(*schemas)
    except ValueError as error:
        raise Refused(IncompatibleSchema, f"Schemas can't be compared: {error}") from None


def _fits(old: Schema, new: Schema, strategy: str) -> bool:
    if new.type == Schema.KeyValue:
        pairs = zip(_key_and_value(old), _key_and_value(new), strict=True)
        return all(one.type == other.type and _fits(one, other, strategy) for one, other in pairs)
    if new.type == Schema.ProtobufNative:
        return _root_message(old) == _root_message(new)
    if new.type not in _BY_AVRO:
        return True
    forth = strategy.startswith("FORWARD") or avro_schemas.reads(new.schema_data, old.schema_data)
    return forth and (strategy.startswith("BACKWARD") or avro_schemas.reads(old.schema_data, new.schema_data))


def _key_and_value(schema: Schema) -> tuple[Schema, Schema]:
    """Return the schemas of the key and of the value.

    Raises:
        ValueError: There are none.
    """
    properties = {one.key: one.value for one in cast(Iterable[Any], schema.properties)}
    found, rest = [], schema.schema_data
    for part in ("key", "value"):
        size, kind = int.from_bytes(rest[:4], "big"), properties.get(f"{part}.schema.type", "BYTES")
        if len(rest) < 4 + size or kind not in TYPES:
            raise ValueError(f"it has no {part}")
        found.append(Schema(name="", type=cast(Any, TYPES[kind]), schema_data=rest[4 : 4 + size]))
        rest = rest[4 + size :]
    return found[0], found[1]


def _root_message(schema: Schema) -> str:
    """Return the name of the message that a native Protobuf schema is about.

    Raises:
        ValueError: There is none.
    """
    try:
        given = json.loads(schema.schema_data)
        files = FileDescriptorSet.FromString(b64decode(given["fileDescriptorSet"], validate=True)).file
        found = given["rootMessageTypeName"]
    except (ValueError, TypeError, LookupError, DecodeError):
        raise ValueError("it has no messages") from None
    if not any(found in _messages(one.package, one.message_type) for one in files):
        raise ValueError(f"there is no message {found}")
    return str(found)


def _messages(outer: str, inner: Iterable[Any]) -> Iterator[str]:
    for one in inner:
        full = f"{outer}.{one.name}".removeprefix(".")
        yield full
        yield from _messages(full, one.nested_type)


def _same(one: Schema, other: Schema) -> bool:
    if one.type != other.type:
        return False
    if one.schema_data == other.schema_data:
        return True
    return one.type in _DEFINED_IN_AVRO and avro_schemas.same(one.schema_data, other.schema_data)


# Commands


def get_schema(session: Session, request: CommandGetSchema, frame: Frame) -> None:  # noqa: ARG001
    """Answer with a schema of a topic: a given version, or the newest."""
    name = parse_topic(request.topic)
    broker = session.broker
    broker.authorization.check(session.role, name.namespace, "GetSchema", "produce", "consume")
    versions = broker.schemas.versions(name)
    version = request.schema_version if request.HasField("schema_version") else version_bytes(max(len(versions) - 1, 0))
    if len(version) < _VERSION_BYTES:
        raise Refused(IncompatibleSchema, "Empty schema version" if not version else "A schema version has 8 bytes")
    found = broker.schemas.of_version(name, version)
    if found is None:
        raise Refused(TopicNotFound, f"Topic not found or no-schema {name.full}")
    session.send(CommandGetSchemaResponse(request_id=request.request_id, schema=found, schema_version=version[:_VERSION_BYTES]))


def get_or_create_schema(session: Session, request: CommandGetOrCreateSchema, frame: Frame) -> None:  # noqa: ARG001
    """Answer with the version of a schema; add it to the topic if it is new."""
    name = parse_topic(request.topic)
    broker = session.broker
    broker.authorization.check(session.role, name.namespace, "GetOrCreateSchema", "produce")
    if name.namespace not in broker.store.namespaces or not broker.exists(name):
        raise Refused(TopicNotFound, f"Topic not found {name.full}")
    version = broker.schemas.add(name, request.schema)
    session.send(CommandGetOrCreateSchemaResponse(request_id=request.request_id, schema_version=version))


# Admin


def described(schema: Schema, number: int) -> dict[str, Any]:
    """Return a schema as JSON for the admin interface; timestamps are not stored."""
    data = schema.schema_data.decode(errors="replace")
    if schema.type == Schema.KeyValue:
        parts = (json.loads(one.schema_data) if one.type in _DEFINED_IN_JSON else "" for one in _key_and_value(schema))
        data = _compact(dict(zip(("key", "value"), parts, strict=True)))
    return {
        "version": number,
        "type": _kind(schema),
        "timestamp": 0,
        "data": data,
        "properties": {one.key: one.value for one in cast(Iterable[Any], schema.properties)},
    }


def posted(kind: str, definition: str, properties: Mapping[str, str]) -> Schema:
    """Parse a schema from an admin request.

    Raises:
        AdminRefused: 422: there is no such type, or key and value are not told.
    """
    if kind not in TYPES:
        raise AdminRefused(422, f"{kind!r} is no schema type")
    data = definition.encode()
    if TYPES[kind] == Schema.KeyValue:
        try:
            found = json.loads(definition)
            parts = [b"" if found[part] == "" else _compact(found[part]).encode() for part in ("key", "value")]
        except (ValueError, TypeError, LookupError, RecursionError):
            raise AdminRefused(422, "Invalid schema definition data for KEY_VALUE schema") from None
        data = b"".join(len(one).to_bytes(4, "big") + one for one in parts)
    pairs = [KeyValue(key=key, value=value) for key, value in properties.items()]
    return Schema(name="", type=cast(Any, TYPES[kind]), schema_data=data, properties=pairs)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
