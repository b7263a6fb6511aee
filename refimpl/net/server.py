"""The binary protocol over TCP or TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import cast

from refimpl.broker import Member
from refimpl.net.driver import Driver
from refimpl.net.listener import Listener

BUFFERED = 256 * 1024
"""Maximum number of buffered bytes for a slow peer; the rest stays in the session."""
LINGER_SECONDS = 5.0
"""Seconds for a peer to read the last bytes of a connection that the broker has ended."""


class SocketWire(asyncio.Protocol):
    """One connection."""

    def __init__(self, driver: Driver, server: Server) -> None:
        self._driver = driver
        self._server = server
        self._writable = True
        self._linger: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open a session."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=BUFFERED)
        address, *_ = self._transport.get_extra_info("peername") or ("",)
        self._session = self._driver.connect(self, address, self._server.member)
        self._server.opened(self)

    def data_received(self, data: bytes) -> None:
        """Pass bytes to the session."""
        self._driver.received(self._session, data)

    def eof_received(self) -> None:
        """Tell the session; the transport closes once the session's output is written."""
        self._driver.ended(self._session)
        self._close_soon()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Forget the session."""
        if self._linger is not None:
            self._linger.cancel()
        self._driver.forget(self._session)
        self._server.ended(self)

    def pause_writing(self) -> None:
        """Pause sending: the peer does not read."""
        self._writable = False

    def resume_writing(self) -> None:
        """Resume sending in the next iteration of the loop, because a transport must not be closed inside this call."""
        self._writable = True
        self._driver.loop.call_soon(self._driver.resumed, self)

    def pump(self) -> None:
        """Write the session's output while the peer reads it."""
        while self._writable and not self._transport.is_closing() and (data := self._driver.output(self._session)):
            self._transport.write(data)
        if self._transport.is_closing():
            return
        if self._session.closing:
            self._close_soon()
            if self._writable:
                self._transport.close()
        elif self._session.reading and self._driver.reading:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def abort(self) -> None:
        """Drop the connection."""
        self._transport.abort()

    def close(self) -> None:
        """End the connection from this side, once the written bytes have arrived."""
        self._close_soon()
        self._transport.close()

    def _close_soon(self) -> None:
        if self._linger is None:
            self._linger = self._driver.loop.call_later(LINGER_SECONDS, self._transport.abort)


class Server:
    """A server that listens until it is closed.

    Args:
        driver: The driver of the broker.
        member: The broker of a cluster that its connections are to; None: the only one.
    """

    def __init__(self, driver: Driver, member: Member | None = None) -> None:
        self.member = member
        self._driver = driver
        self._wires: set[SocketWire] = set()
        self._all_ended = asyncio.Event()
        self._closing = False
        self._listeners: list[Listener] = []

    def listen(self, listening: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Start to accept connections on a socket; there may be several.

        Args:
            listening: A bound socket; the server closes it at the end.
            tls: The TLS context; None: plain TCP.
        """
        self._listeners.append(Listener(listening, lambda: SocketWire(self._driver, self), tls))

    def opened(self, wire: SocketWire) -> None:
        """Add a connection."""
        self._wires.add(wire)
        self._all_ended.clear()
        if self._closing:
            wire.close()

    def ended(self, wire: SocketWire) -> None:
        """Remove a connection."""
        self._wires.discard(wire)
        if not self._wires:
            self._all_ended.set()

    async def close(self) -> None:
        """Stop accepting connections, end the open ones and wait until they have ended."""
        self._closing = True
        for listener in self._listeners:
            await listener.close()
        for wire in list(self._wires):
            wire.close()
        if self._wires:
            await self._all_ended.wait()
