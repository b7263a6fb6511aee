"""Schemas of topics: versions from 0, shared by all partitions of a topic and by both domains.

The rules are as observed on Apache Pulsar 4.2.4. How a producer's schema has to fit the older ones is a policy; by default it and the
newest schema have to be able to read each other's data (FULL). A consumer's schema has to be able to read data of the newest schema.
Only Avro definitions are compared, which JSON schemas use, too. A schema of any other type is compatible with every schema of its type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote_plus

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

    def versions(self, name: TopicName) -> list[Schema]:
        """Return the schemas of a topic by version; empty if it has none, or does not exist."""
        namespace = self._store.namespaces.get(name.namespace)
        return namespace.schemas.get(_key(name), []) if namespace is not None else []

    def newest(self, name: TopicName) -> Schema | None:
        """Return the newest schema of a topic."""
        return next(reversed(self.versions(name)), None)

    def of_version(self, name: TopicName, version: bytes) -> Schema | None:
        """Return a schema by its version as written on the wire; None: the topic has no such version."""
        versions = self.versions(name)
        number = int.from_bytes(version[:_VERSION_BYTES], "big")
        return versions[number] if len(version) >= _VERSION_BYTES and number < len(versions) else None

    def forget(self, name: TopicName) -> None:
        """Delete the schemas of a topic."""
        namespace = self._store.namespaces.get(name.namespace)
        if namespace is not None:
            namespace.schemas.pop(_key(name), None)

    # Rules

    def check(self, schema: Schema) -> None:
        """Check that a schema is valid.

        Raises:
            Refused: IncompatibleSchema.
        """
        kind = Schema.Type.Name(schema.type)
        if schema.type == Schema.AutoConsume:
            raise Refused(IncompatibleSchema, "Schema AUTO_CONSUME is a client-side schema type")
        if schema.type in _BY_AVRO:
            try:
                avro_schemas.parse(schema.schema_data)
            except ValueError as error:
                raise Refused(IncompatibleSchema, f"Invalid schema definition data for {kind.upper()} schema: {error}") from None

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
        versions = self.versions(name)
        for number, known in enumerate(versions):
            if _same(known, schema):
                return version_bytes(number)
        if not by_admin and self._policies.of(name, AUTO_UPDATE) is False:
            raise Refused(IncompatibleSchema, "Schema not found and schema auto updating is disabled.")
        self._check_fits(versions, schema, self._strategy(name))
        if len(versions) >= MOST_VERSIONS:
            raise Refused(IncompatibleSchema, f"The topic has {MOST_VERSIONS} schema versions, more are not allowed")
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
            self._check_fits(self.versions(topic.name), schema, "BACKWARD" if strategy in _READ_BY_CONSUMERS else strategy)
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
            if strategy == "ALWAYS_INCOMPATIBLE" or not _fits(old, schema, strategy):
                raise Refused(IncompatibleSchema, f"Error during schema compatibility check with strategy {strategy}")


def version_bytes(number: int) -> bytes:
    """Encode a version for commands and messages."""
    return number.to_bytes(_VERSION_BYTES, "big")


def _key(name: TopicName) -> str:
    """Return what all partitions and domains share: tenant, namespace and local name, which is encoded as Java's URLEncoder does."""
    local = name.partitioned.removeprefix(f"{name.domain}://{name.namespace}/")
    return f"{name.namespace}/{quote_plus(local, safe='*').replace('~', '%7E')}"


def _kind(schema: Schema) -> str:
    return Schema.Type.Name(schema.type).rstrip("_").upper()


def _check_type(newest: Schema, schema: Schema) -> None:
    if newest.type != schema.type:
        raise Refused(IncompatibleSchema, f"Incompatible schema: exists schema type {_kind(newest)}, new schema type {_kind(schema)}")


def _fits(old: Schema, new: Schema, strategy: str) -> bool:
    if new.type not in _BY_AVRO:
        return True
    forth = strategy.startswith("FORWARD") or avro_schemas.reads(new.schema_data, old.schema_data)
    return forth and (strategy.startswith("BACKWARD") or avro_schemas.reads(old.schema_data, new.schema_data))


def _same(one: Schema, other: Schema) -> bool:
    if one.type != other.type:
        return False
    if one.schema_data == other.schema_data:
        return True
    return one.type in _BY_AVRO and avro_schemas.same(one.schema_data, other.schema_data)


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


def described(versions: list[Schema], number: int | None) -> dict[str, Any]:
    """Return a schema as JSON for the admin interface; timestamps are not stored.

    Args:
        versions: All versions of the topic.
        number: The version; None: the newest.

    Raises:
        AdminRefused: 404.
    """
    chosen = len(versions) - 1 if number is None else number
    if not 0 <= chosen < len(versions):
        raise AdminRefused(404, "Schema not found")
    schema = versions[chosen]
    return {
        "version": chosen,
        "type": _kind(schema),
        "timestamp": 0,
        "data": schema.schema_data.decode(errors="replace"),
        "properties": {one.key: one.value for one in cast(Iterable[Any], schema.properties)},
    }


def posted(kind: str, definition: str, properties: Mapping[str, str]) -> Schema:
    """Parse a schema from an admin request.

    Raises:
        AdminRefused: 422: there is no such type.
    """
    numbers = {name.rstrip("_").upper(): number for name, number in Schema.Type.items()}
    if kind.upper() not in numbers:
        raise AdminRefused(422, f"{kind!r} is no schema type")
    pairs = [KeyValue(key=key, value=value) for key, value in properties.items()]
    return Schema(name="", type=cast(Any, numbers[kind.upper()]), schema_data=definition.encode(), properties=pairs)
