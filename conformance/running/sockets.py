"""One TCP or TLS socket of the harness, read the moment bytes arrive.

A plain non-blocking socket instead of asyncio streams: before every action all sockets must be drained, synchronously, so
that the log never shows an action before a frame that arrived earlier.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import ssl
import struct
import sys
import termios
from collections.abc import Callable
from typing import Any, Literal

from conformance.targets.model import Endpoint
from conformance.targets.tls import BROKEN_OFF

_CHUNK = 1 << 14


class SocketConnection:
    """A socket.

    Args:
        on_data: Called with bytes that have arrived.
        on_closed: Called once when the other side has closed the connection.
    """

    def __init__(self, on_data: Callable[[bytes], None], on_closed: Callable[[Literal["fin", "rst"]], None]) -> None:
        self._on_data = on_data
        self._on_closed = on_closed
        self._socket: socket.socket | None = None
        self._tls: ssl.SSLObject | None = None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()

    async def open(self, endpoint: Endpoint, seconds: float) -> None:
        """Connect, with a TLS handshake if the endpoint speaks TLS.

        Raises:
            OSError: The connection was refused or the handshake failed.
            TimeoutError: It took longer than `seconds`.
        """
        async with asyncio.timeout(seconds):
            loop = asyncio.get_running_loop()
            family, kind, protocol, _, address = (await _addresses(endpoint.host, endpoint.port))[0]
            opened = socket.socket(family, kind, protocol)
            opened.setblocking(False)
            try:
                await loop.sock_connect(opened, address)
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if endpoint.tls:
                    await self._handshake(opened, endpoint)
            except BaseException:
                opened.close()
                raise
            self._socket = opened
            loop.add_reader(opened, self._read)

    async def _handshake(self, opened: socket.socket, endpoint: Endpoint) -> None:
        loop = asyncio.get_running_loop()
        name = endpoint.tls_hostname or endpoint.host
        self._tls = endpoint.ssl_context().wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                data = b""
                with contextlib.suppress(ConnectionError):
                    await loop.sock_sendall(opened, self._outgoing.read())
                    data = await loop.sock_recv(opened, _CHUNK)
                if not data:
                    raise ssl.SSLError(BROKEN_OFF) from None
                self._incoming.write(data)
        await loop.sock_sendall(opened, self._outgoing.read())

    async def send(self, data: bytes, seconds: float) -> None:
        """Write bytes. If the other side has closed the connection they are dropped silently, because the close is an event of its own.

        Raises:
            TimeoutError: The other side does not read.
        """
        if self._socket is None:
            return
        if self._tls is not None:
            self._tls.write(data)
            data = self._outgoing.read()
        with contextlib.suppress(ConnectionError):
            with contextlib.suppress(BlockingIOError):
                data = data[self._socket.send(data) :]
            if data:
                async with asyncio.timeout(seconds):
                    await asyncio.get_running_loop().sock_sendall(self._socket, data)

    def drain(self) -> None:
        """Read all that has arrived by now. What arrives meanwhile waits: a peer that never stops must not hold the harness."""
        left = self._arrived()
        while (size := self._read()) and left > 0:
            left -= size

    def _arrived(self) -> int:
        """Return how many bytes have arrived and were not read."""
        if self._socket is None:
            return 0
        return int.from_bytes(fcntl.ioctl(self._socket, termios.FIONREAD, bytes(4)), sys.byteorder)

    def _read(self) -> int:
        """Read once; return how many bytes."""
        if self._socket is None:
            return 0
        try:
            data = self._socket.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self._ended("rst")
            return 0
        if data:
            self._on_data(self._decrypted(data))
        else:
            self._ended("fin")
        return len(data)

    def reading(self, on: bool) -> None:
        """Read from the connection, or leave what arrives in the socket."""
        if self._socket is None:
            return
        if on:
            asyncio.get_running_loop().add_reader(self._socket, self._read)
        else:
            asyncio.get_running_loop().remove_reader(self._socket)

    def _decrypted(self, data: bytes) -> bytes:
        if self._tls is None:
            return data
        self._incoming.write(data)
        plain = bytearray()
        with contextlib.suppress(ssl.SSLError):
            while piece := self._tls.read(_CHUNK):
                plain += piece
        return bytes(plain)

    def _ended(self, how: Literal["fin", "rst"]) -> None:
        self._release()
        self._on_closed(how)

    def close(self, how: Literal["fin", "rst", "half"] = "fin") -> None:
        """Close the connection from this side; after `half` it can still be read."""
        if self._socket is None:
            return
        if how == "half":
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
            return
        if how == "rst":
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._release()

    def _release(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None


async def _addresses(host: str, port: int) -> list[tuple[Any, ...]]:
    """Return what a host and a port stand for; only a name is looked up, in a thread."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
