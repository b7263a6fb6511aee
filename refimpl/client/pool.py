"""The connections of a client, one for each target, and lookups."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from refimpl.client.connection import Connection
from refimpl.client.errors import Closed, ProtocolError
from refimpl.client.names import Target, parse_service_url
from refimpl.client.options import ClientOptions
from refimpl.client.scheduler import Scheduler
from refimpl.wire.pulsar_api_pb2 import CommandLookupTopic, CommandLookupTopicResponse, CommandPartitionedTopicMetadata

MAX_REDIRECTS = 20
"""Maximum number of redirects of one lookup."""

MAX_PARTITIONS = 10_000
"""Maximum partition count that the client accepts from a broker, because it creates a producer or consumer for each."""


class Pool:
    """Connections by target; an ended connection is replaced on the next request.

    Args:
        scheduler: The scheduler.
        service_url: The service URL of the client.
        options: Options for all connections.
        log: Called with a line for each connection that ends.
    """

    def __init__(self, scheduler: Scheduler, service_url: str, options: ClientOptions, log: Callable[[str], None] | None = None) -> None:
        self.service_url = service_url
        self.closed = False
        self._service = parse_service_url(service_url)
        self._scheduler = scheduler
        self._options = options
        self._log = log
        self._request_ids = itertools.count()
        self._connections: dict[Target, Connection] = {}
        self._to_open: list[Connection] = []

    def take_to_open(self) -> list[Connection]:
        """Return the connections to open; each is returned once."""
        taken, self._to_open = self._to_open, []
        return taken

    @property
    def connections(self) -> list[Connection]:
        """Return the connections that have not ended."""
        return [connection for connection in self._connections.values() if not connection.closing]

    async def connection(self, target: Target | None = None) -> Connection:
        """Return the connection to a target, by default the service URL, once it is ready.

        Raises:
            ConnectionLost: The connection could not be opened.
            BrokerRefused: The broker refused the client.
        """
        if self.closed:
            raise Closed("the client is closed")
        key = target or self._service
        connection = self._connections.get(key)
        if connection is None or connection.closing:
            connection = Connection(self._scheduler, key, self._options, request_ids=self._request_ids, log=self._log)
            self._connections = {key: connection, **{at: one for at, one in self._connections.items() if not one.closing}}
            self._to_open.append(connection)
        return await connection.ready

    async def locate(self, topic: str) -> Connection:
        """Return the connection to the broker that serves a topic.

        Args:
            topic: The full name; or the pattern of a watcher, which brokers treat as a name (core.lookup.pattern-as-topic).

        Raises:
            ClientError: No broker serves it, or the broker can't be reached.
        """
        connection = await self.connection()
        authoritative = False
        for _ in range(MAX_REDIRECTS):
            request = CommandLookupTopic(topic=topic, authoritative=authoritative)
            if self._options.listener_name is not None:
                request.advertised_listener_name = self._options.listener_name
            answer = (await connection.request(request)).lookupTopicResponse
            connection = await self.connection(self._target(answer))
            if answer.response == CommandLookupTopicResponse.Connect:
                return connection
            authoritative = answer.authoritative
        raise ProtocolError(f"LOOKUP of {topic} was redirected {MAX_REDIRECTS} times")

    async def partitions(self, topic: str) -> int:
        """Return the partition count of a topic; 0: it is not partitioned.

        Raises:
            ClientError: The request failed.
        """
        connection = await self.connection()
        answer = await connection.request(CommandPartitionedTopicMetadata(topic=topic, metadata_auto_creation_enabled=True))
        count = answer.partitionMetadataResponse.partitions
        if count > MAX_PARTITIONS:
            raise ProtocolError(f"{topic} has {count} partitions, {MAX_PARTITIONS} are allowed")
        return count

    def close(self) -> None:
        """End all connections."""
        self.closed = True
        for connection in self._connections.values():
            connection.end(Closed("the client is closed"))

    def _target(self, answer: CommandLookupTopicResponse) -> Target:
        """Return the target of a lookup answer: behind the service URL if the answer says so and names another broker.

        Source: observed on the Java client 4.2.4.
        """
        url = (self._service.tls and answer.brokerServiceUrlTls) or answer.brokerServiceUrl
        if url == self.service_url:
            return self._service
        try:
            target = parse_service_url(url)
        except ValueError as error:
            raise ProtocolError(f"LOOKUP_RESPONSE names no broker: {error}") from None
        if target.tls != self._service.tls:
            raise ProtocolError(f"LOOKUP_RESPONSE leads from {self._service} to {target}")
        if answer.proxy_through_service_url:
            return replace(self._service, proxy_to=target.address)
        return target
