"""PR 7629: the message filter of one consumer, with the schemas that it needs if the client filters."""

from __future__ import annotations

from typing import Literal

from refimpl.client.connection import Connection
from refimpl.client.errors import BrokerRefused
from refimpl.client.unpack import open_messages
from refimpl.proposals.message_filter import (
    BYTES_PREFIX_FILTER,
    REGEX_FILTER,
    ConsumerFilter,
    EntryJudgement,
    FilterRegistry,
    MessageFilterPolicy,
    MessageFilterState,
    SchemaAccess,
)
from refimpl.proposals.refused import Refused
from refimpl.wire import Frame, WireError
from refimpl.wire.pulsar_api_pb2 import CommandGetSchema, CommandSubscribe, Schema

_WITHOUT_SCHEMA = frozenset({REGEX_FILTER, BYTES_PREFIX_FILTER})
_VERSION_BYTES = 8
"""Minimum length of a schema version in a request: a broker closes the connection on a shorter one (Apache Pulsar 4.2.4)."""


class ConsumerFiltering:
    """The message filter of one consumer.

    Args:
        topic: Full name.
        policy: Which messages are wanted.
        without_support: What to do if the broker does not filter: `refuse` to subscribe, or `filter` in the client.
        registry: The filters that the client can run.
        schema: The schema of the consumer; None: use the topic's.
    """

    def __init__(
        self,
        topic: str,
        policy: MessageFilterPolicy,
        *,
        without_support: Literal["refuse", "filter"],
        registry: FilterRegistry,
        schema: Schema | None,
    ) -> None:
        self._topic = topic
        self._filter = ConsumerFilter(policy, without_support=without_support, registry=registry)
        self._schema = schema
        self._versions: dict[bytes, Schema | None] = {}

    async def prepare(self, connection: Connection, request: CommandSubscribe) -> None:
        """Add the filter to a SUBSCRIBE for a connection: pr7629.client.sends-meta, .each-connection.

        Raises:
            ClientError: The client must not subscribe (pr7629.client.needs-flag), or can't get the topic's schema.
        """
        self._filter.connected(connection.flags)
        schemas = None
        if self._filter.state is MessageFilterState.CLIENT:
            schemas = SchemaAccess(self._schema or await self._newest(connection), self._versions.get)
        try:
            self._filter.prepare(request, schemas)
        except Refused as refused:
            raise BrokerRefused(refused.code, refused.message) from None

    def missing(self, frame: Frame) -> bytes | None:
        """Return the schema version that the filter needs to judge an entry; None: it needs none."""
        if (
            self._filter.state is not MessageFilterState.CLIENT
            or self._filter.policy.class_name in _WITHOUT_SCHEMA
            or frame.payload_bytes is None
        ):
            return None
        try:
            version = frame.payload().metadata.schema_version
        except WireError:
            return None
        return version if len(version) >= _VERSION_BYTES and version not in self._versions else None

    async def learn(self, connection: Connection, version: bytes) -> None:
        """Get a schema version from the broker; messages with an unknown version are undecidable.

        Raises:
            ClientError: The broker gave no answer.
        """
        self._versions[version] = await self._ask(connection, CommandGetSchema(topic=self._topic, schema_version=version))

    def judge(self, frame: Frame, batch_size: int) -> EntryJudgement | None:
        """Judge a received entry; None: the client does not filter."""
        if frame.payload_bytes is None:
            return None
        words = frame.command.message.ack_set
        bits = open_messages(words, batch_size)
        return self._filter.judge(frame.payload_bytes, frozenset(i for i in range(batch_size) if bits >> i & 1) if words else None)

    async def _newest(self, connection: Connection) -> Schema | None:
        if self._filter.policy.class_name in _WITHOUT_SCHEMA:
            return None
        return await self._ask(connection, CommandGetSchema(topic=self._topic))

    async def _ask(self, connection: Connection, request: CommandGetSchema) -> Schema | None:
        try:
            answer = await connection.request(request)
        except BrokerRefused as refused:
            if refused.retriable:
                raise
            return None
        found = answer.getSchemaResponse
        self._versions[found.schema_version] = found.schema
        return found.schema
