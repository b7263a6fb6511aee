"""Freedoms of connections, ids and look-ups."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import refimpl.client.attached
from conformance.clients.variants.model import after, client_variant, outgoing
from conformance.mutants.model import Patches
from refimpl.backoff import Backoff
from refimpl.client.attached import Attached
from refimpl.client.client import ClientCore
from refimpl.client.connection import Connection
from refimpl.client.errors import ClientError, Closed
from refimpl.client.pattern_consumer import PatternConsumer
from refimpl.client.pool import Pool
from refimpl.client.requests import RequestTable
from refimpl.wire import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandConnect,
    CommandLookupTopic,
    CommandPartitionedTopicMetadata,
    CommandPing,
    FeatureFlags,
)

_FIELD_OF_A_LATER_VERSION = b"\xfa\xff\x01\x05later"
"""Field 4095, which no version of the protocol has, with a text."""

_LOOK_UPS = ("lookupTopicResponse", "partitionMetadataResponse")


def _numbers_requests(patches: Patches, numbers: Callable[[], Iterator[int]]) -> None:
    after(patches, Pool, "__init__", lambda pool, *_: setattr(pool, "_request_ids", numbers()))


@client_variant("core.client.request-ids-unique")
def begins_request_ids_at_a_thousand(patches: Patches) -> None:
    """The first request has the request_id 1000."""
    _numbers_requests(patches, lambda: itertools.count(1000))


@client_variant("core.client.request-ids-unique")
def counts_request_ids_down(patches: Patches) -> None:
    """Request ids begin at the largest number, 2^64-1, and fall by 3."""
    _numbers_requests(patches, lambda: itertools.count(2**64 - 1, -3))


@client_variant("core.client.request-ids-unique")
def counts_requests_of_each_connection(patches: Patches) -> None:
    """Each connection has request ids of its own, from 0."""
    after(patches, Connection, "__init__", lambda connection, *_, **__: setattr(connection, "_request_ids", itertools.count()))


@client_variant("core.client.pending-by-kind", "core.client.request-ids-unique")
def counts_look_ups_apart(patches: Patches) -> None:
    """Look-ups and questions for partitions have request ids of their own, which other requests have, too."""

    def make(request_of: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def changed(connection: Any, request: Any) -> Any:
            if not isinstance(request, CommandLookupTopic | CommandPartitionedTopicMetadata):
                return await request_of(connection, request)
            if not hasattr(connection, "look_up_ids"):
                connection.look_up_ids = itertools.count()
            others, connection._request_ids = connection._request_ids, connection.look_up_ids
            asking: Any = request_of(connection, request)
            try:
                first = asking.send(None)  # what it waits for, once it has its id
            finally:
                connection._request_ids = others
            return await _Rest(asking, first)

        return changed

    def order(table: Any, _: Any) -> None:
        table.kinds = tuple(sorted(table.kinds, key=_LOOK_UPS.__contains__))  # ERROR answers a look-up last

    patches.wrap(Connection, "request", make)
    after(patches, RequestTable, "__init__", order)


class _Rest:
    """What is left of a coroutine that has begun to wait."""

    def __init__(self, begun: Any, first: Any) -> None:
        self._begun = begun
        self._first = first

    def __await__(self) -> Any:
        """Wait for what it waits for, and let it go on."""
        waits_for = self._first
        while True:
            try:
                value = yield waits_for
            except BaseException as error:
                step = partial(self._begun.throw, error)
            else:
                step = partial(self._begun.send, value)
            try:
                waits_for = step()
            except StopIteration as end:
                return end.value


@client_variant("core.client.ids-unique", "pip145.client.watch-id-unique")
def begins_all_other_ids_at_a_thousand(patches: Patches) -> None:
    """Producers, consumers and watchers have ids from 1000 on, each 7 above the one before."""
    after(patches, ClientCore, "__init__", lambda core, *_, **__: setattr(core, "_ids", _Counts()))


class _Counts(dict[str, Iterator[int]]):
    def setdefault(self, key: str, _: Any = None) -> Iterator[int]:
        return super().setdefault(key, itertools.count(1000, 7))


@client_variant("core.handshake.client-flags-no-effect")
def sets_every_flag(patches: Patches) -> None:
    """CONNECT has all feature flags that there are."""

    def change(_: Connection, connect: CommandConnect) -> None:
        for flag in FeatureFlags.DESCRIPTOR.fields:
            setattr(connect.feature_flags, flag.name, True)

    outgoing(patches, change, CommandConnect)


@client_variant("core.handshake.client-flags-no-effect")
def sets_no_flags(patches: Patches) -> None:
    """CONNECT has no feature flags."""
    outgoing(patches, lambda _, connect: connect.ClearField("feature_flags"), CommandConnect)


@client_variant("core.handshake.version-minimum")
def is_of_another_time(patches: Patches) -> None:
    """CONNECT states version 19 of the protocol, and no name of the client that anybody knows."""

    def change(_: Connection, connect: CommandConnect) -> None:
        connect.protocol_version, connect.client_version = 19, "x"

    outgoing(patches, change, CommandConnect)


@client_variant("core.command.unknown-field-ignored")
def has_fields_of_a_later_version(patches: Patches) -> None:
    """Each command has a field that no version of the protocol has."""
    outgoing(patches, lambda _, message: message.MergeFromString(_FIELD_OF_A_LATER_VERSION))


@client_variant("core.frame.any-segmentation")
def sends_a_few_bytes_at_a_time(patches: Patches) -> None:
    """What the client sends arrives in pieces of five bytes."""
    patches.wrap(Connection, "data_to_send", lambda take: lambda connection, limit=5: take(connection, min(limit, 5)))


@client_variant("core.keepalive.ping-answered")
def sends_a_ping_each_second(patches: Patches) -> None:
    """A PING goes to the broker as soon as the connection is ready, and again each second."""

    def ping(connection: Any, *_: Any) -> None:
        if not connection.closing:
            connection.send(CommandPing())
            connection._later(1.0, partial(ping, connection))

    after(patches, Connection, "_connected", ping)


@client_variant("core.client.connect-first")
def sends_a_ping_before_it_connects(patches: Patches) -> None:
    """The first command on a connection is PING."""

    def connect_after(connect: Callable[..., None]) -> Callable[..., None]:
        def changed(connection: Connection) -> None:
            connection.send(CommandPing())
            connect(connection)

        return changed

    def unless_pong(handle: Callable[..., None]) -> Callable[..., None]:
        return lambda connection, frame: None if frame.command.HasField("pong") else handle(connection, frame)

    patches.wrap(Connection, "_connect", connect_after)
    patches.wrap(Connection, "_handle", unless_pong)


@client_variant("core.client.answers-ping")
def answers_pings_after_a_second(patches: Patches) -> None:
    """PONG comes a second after its PING."""

    def make(handle: Callable[..., None]) -> Callable[..., None]:
        def changed(connection: Any, frame: Frame) -> None:
            if frame.command.HasField("ping"):
                connection._later(1.0, partial(handle, connection, frame))
            else:
                handle(connection, frame)

        return changed

    patches.wrap(Connection, "_handle", make)


@client_variant("core.client.reattaches-after-close")
def looks_everything_up_twice(patches: Patches) -> None:
    """Each look-up is repeated, and so is each question for partitions."""

    def make(ask: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def changed(pool: Pool, topic: str) -> Any:
            await ask(pool, topic)
            return await ask(pool, topic)

        return changed

    patches.wrap(Pool, "locate", make)
    patches.wrap(Pool, "partitions", make)


@client_variant("core.client.reattaches-after-close")
def asks_for_partitions_before_each_look_up(patches: Patches) -> None:
    """A look-up follows a question for the partitions of its topic, although they are known."""

    def make(locate: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def changed(pool: Pool, topic: str) -> Any:
            connection = await pool.connection()
            with suppress(ClientError):
                await connection.request(CommandPartitionedTopicMetadata(topic=topic, metadata_auto_creation_enabled=False))
            return await locate(pool, topic)

        return changed

    patches.wrap(Pool, "locate", make)


@client_variant("core.client.reattaches-after-close")
def attaches_on_other_connections_than_it_asks_on(patches: Patches) -> None:
    """Producers, consumers and watchers have another connection than look-ups."""

    def make(locate: Callable[..., Awaitable[Connection]]) -> Callable[..., Awaitable[Connection]]:
        async def changed(pool: Any, topic: str) -> Connection:
            asked = await locate(pool, topic)
            return await _further(pool, asked, "second")

        return changed

    patches.wrap(Pool, "locate", make)


@client_variant("core.client.reattaches-after-close")
def ends_the_connection_of_what_is_closed(patches: Patches) -> None:
    """Each producer and consumer has a connection of its own, and is closed by the end of it, without CLOSE_PRODUCER or CLOSE_CONSUMER."""

    def attach(attach: Callable[..., Awaitable[Connection]]) -> Callable[..., Awaitable[Connection]]:
        async def changed(attached: Any) -> Connection:
            pool = attached._core.pool
            locate = pool.locate

            async def alone(topic: str) -> Connection:
                return await _further(pool, await locate(topic), (attached.kind, attached.number))

            pool.locate = alone
            try:
                begun: Any = attach(attached)
                first = begun.send(None)
            finally:
                del pool.locate
            return await _Rest(begun, first)  # type: ignore[no-any-return]

        return changed

    async def end(_: Any, place: Any) -> None:
        if place is not None and not place.closing:
            place.end(Closed("what it was for is closed"))

    patches.wrap(Attached, "_attach", attach)
    patches.replace(Attached, "_send_close_request", end)


async def _further(pool: Any, asked: Connection, key: Any) -> Connection:
    """Return one more connection to where another one leads."""
    place = (key, asked.target)
    connection = pool._connections.get(place)
    if connection is None or connection.closing:
        connection = Connection(pool._scheduler, asked.target, pool._options, request_ids=pool._request_ids, log=pool._log)
        pool._connections[place] = connection
        pool._to_open.append(connection)
    return await connection.ready  # type: ignore[no-any-return]


@client_variant("core.lookup.pattern-as-topic", cases=("pip145/*",))
def looks_no_pattern_up(patches: Patches) -> None:
    """Lists and watches of topics go to the broker of the service URL, without a look-up."""

    async def locate(group: Any) -> Connection:
        found: Connection = await group._core.pool.connection()
        return found

    patches.replace(PatternConsumer, "_locate", locate)


@client_variant("core.client.reattaches-after-close")
def reconnects_slowly(patches: Patches) -> None:
    """A producer or consumer that is closed, or has lost its connection, waits two seconds before it attaches again."""
    patches.replace(refimpl.client.attached, "Backoff", partial(Backoff, first=2.0))


@client_variant("core.client.reattaches-after-close")
def reconnects_at_once(patches: Patches) -> None:
    """A producer or consumer that is closed, or has lost its connection, attaches again after a millisecond."""
    patches.replace(refimpl.client.attached, "Backoff", partial(Backoff, first=0.001))
