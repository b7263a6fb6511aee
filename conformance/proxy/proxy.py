"""A proxy: the addresses that clients are given, one for each broker that they are led to, and all connections."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from conformance.captures.rows import Direction
from conformance.proxy.addresses import LEADING, lead_back
from conformance.proxy.lane import Collected
from conformance.proxy.relay import Change, Relay
from conformance.proxy.watching import Watcher
from conformance.targets.inputs import check_service_url
from conformance.targets.model import LOOPBACK, Endpoint, TargetError
from refimpl.net.fault_switches import FaultSwitches
from refimpl.net.faults import Switch
from refimpl.net.listener import Listener
from refimpl.wire.pulsar_api_pb2 import BaseCommand

MOST_BROKERS = 64
"""Brokers that clients are led to at most, each through a port of its own."""
_END_SECONDS = 10.0


class Proxy:
    """A running proxy; use it on its event loop.

    Args:
        to: The broker that the proxy leads to, and the hosts of others to which it may go.
        watchers: What follows the conversations.
        faults: Harm that is done.
        changes: By field of the command, what becomes of it. It may be changed at any time by somebody who takes whole frames.
        tls: The TLS context for clients; None: they come with plain TCP.

    Attributes:
        service_url: What clients are given.
        connections: How many there were.
        frames: How many frames have passed in the connections that are over, by direction.
        size: How many bytes these had.
    """

    def __init__(
        self,
        to: Endpoint,
        watchers: Sequence[Watcher] = (),
        faults: Sequence[Switch] = (),
        changes: dict[str, Change] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.to = to
        self.watchers = list(watchers)
        self.changes = {} if changes is None else changes
        self.faults = FaultSwitches()
        for fault in faults:
            self.faults.add(fault)
        self.collected = Collected()
        self.service_url = ""
        self._tls = tls
        self.connections = 0
        self.frames: dict[Direction, int] = {"client": 0, "broker": 0}
        self.size: dict[Direction, int] = {"client": 0, "broker": 0}
        self.refusing = False
        self._whole = any(watcher.whole for watcher in self.watchers)
        self._harmed = {fault.command for fault in faults}
        self._shown: set[str] | None = set()
        for watcher in self.watchers:
            self._shown = None if self._shown is None or watcher.commands is None else self._shown | set(watcher.commands)
        self._relays: set[Relay] = set()
        self._all_over = asyncio.Event()
        self._all_over.set()
        self._loop = asyncio.get_running_loop()
        self._opened = self._loop.time()
        self._listeners: dict[int, Listener] = {}
        self._ports: dict[tuple[str, int], int] = {}
        self._told: set[str] = set()
        self._host = ""

    def listen(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Accept connections.

        Raises:
            OSError: That can't be listened on.
        """
        self._host = host
        bound = self._listen(port, self.to)
        self._ports[_key(self.to)] = bound
        self.service_url = self._url(host, bound)

    def now(self) -> float:
        """Return the seconds since the proxy was opened."""
        return self._loop.time() - self._opened

    async def break_all(self) -> None:
        """End all connections at once."""
        for relay in list(self._relays):
            relay.abort()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await self._all_over.wait()

    async def close(self) -> None:
        """Accept no more connections, and end all."""
        self.refusing = True
        for listener in self._listeners.values():
            await listener.close()
        await self.break_all()

    # what relays need

    def taken(self, name: str | None, direction: Direction) -> bool:
        """Tell whether a command has to be collected."""
        if self._whole:
            return True
        if name is None:
            return bool(self._harmed or self.changes) or direction == "broker"
        return name in self._harmed or (direction == "broker" and name in LEADING) or name in self.changes

    def seen(self, name: str | None) -> bool:
        """Tell whether a command is looked at by somebody."""
        return self._shown is None or (name is None and bool(self._shown)) or name in self._shown

    def lead_back(self, command: BaseCommand, host: str) -> bool:
        """Change the addresses in a command so that they lead to the proxy, at the host where a client has found it."""
        to_tls = self._tls is not None
        return lead_back(command, lambda url, proxied: self._lead(url, host, proxied=proxied), tls=self.to.tls, to_tls=to_tls)

    def enter(self, relay: Relay) -> int:
        """Register the relay of a client that has come, with TLS after its handshake; return the number of the connection."""
        self.connections += 1
        self._relays.add(relay)
        self._all_over.clear()
        return self.connections

    def forget(self, relay: Relay) -> None:
        """Take note that a connection is over."""
        for direction, lane in relay.lanes.items():
            self.frames[direction] += lane.frames
            self.size[direction] += lane.size
        self._relays.discard(relay)
        if not self._relays:
            self._all_over.set()

    def _accepted(self, broker: Endpoint) -> asyncio.BaseProtocol:
        if self.refusing:
            return _Refused()
        return Relay(broker, self).sides["client"]

    def _failed(self, error: BaseException) -> None:
        self._note(f"a client did not come through the TLS handshake: {getattr(error, 'reason', None) or error or 'it ended'}")

    def _listen(self, port: int, broker: Endpoint) -> int:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            listening = socket.create_server((self._host, port), family=family)
        except OSError as error:
            raise OSError(error.errno, os.strerror(error.errno) if error.errno else str(error), f"{self._host}:{port}") from None
        bound = int(listening.getsockname()[1])
        self._listeners[bound] = Listener(listening, lambda: self._accepted(broker), self._tls, failed=self._failed if self._tls else None)
        return bound

    def _lead(self, url: str, host: str, *, proxied: bool) -> str | None:
        """Return the address of the proxy for that of a broker; None: it stays, because the proxy may not go there, or need not."""
        try:
            check_service_url(url, "the address of a broker")
            broker = replace(self.to, service_url=url)
            key = _key(broker)
        except (TargetError, ValueError) as error:
            self._leave(url, str(error))
            return None
        if key in self._ports:
            return self._url(host, self._ports[key]) if not proxied or key == _key(self.to) else None
        if proxied or (key[1] in self._listeners and _alike(key[0]) == _alike(self._host)):
            return None
        if not self.to.allows(url):
            self._leave(url, f"clients are led away; allow it: --allow-host {broker.host}")
            return None
        if len(self._ports) > MOST_BROKERS:
            self._leave(url, f"clients are led away; the proxy leads to {MOST_BROKERS} brokers at most")
            return None
        try:
            self._ports[key] = self._listen(0, broker)
        except OSError as error:
            self._leave(url, f"clients are led away; there is no port for it: {error.strerror}")
            return None
        self._note(f"{self._url(host, self._ports[key])} leads to {url}")
        return self._url(host, self._ports[key])

    def _url(self, host: str, port: int) -> str:
        scheme = "pulsar" if self._tls is None else "pulsar+ssl"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    def _leave(self, url: str, reason: str) -> None:
        if url not in self._told and len(self._told) < MOST_BROKERS:
            self._told.add(url)
            self._note(f"{url}: {reason}")

    def _note(self, text: str) -> None:
        for watcher in self.watchers:
            watcher.note(None, self.now(), text)


class _Refused(asyncio.Protocol):
    """A connection that is dropped at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Drop it."""
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


@contextlib.asynccontextmanager
async def proxying(
    to: Endpoint,
    watchers: Sequence[Watcher] = (),
    faults: Sequence[Switch] = (),
    changes: dict[str, Change] | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Proxy]:
    """Run a proxy for the length of a block; see `Proxy`.

    Raises:
        OSError: The address can't be listened on; `filename` names it.
    """
    proxy = Proxy(to, watchers, faults, changes, tls)
    proxy.listen(host, port)
    try:
        yield proxy
    finally:
        await proxy.close()


def _alike(host: str) -> str:
    """Return one name for all that mean this machine."""
    return "127.0.0.1" if host in LOOPBACK else host


def _key(broker: Endpoint) -> tuple[str, int]:
    return _alike(broker.host), broker.port
