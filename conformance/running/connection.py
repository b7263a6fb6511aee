"""One connection of the harness to the role under test: frames in, bytes out, over a socket or inside this process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Literal, Protocol

from conformance.running.sockets import SocketConnection
from conformance.targets.model import Endpoint
from refimpl.net.memory_link import MemoryConnection, MemoryLink
from refimpl.wire import DEFAULT_MAX_FRAME_SIZE, FrameDecoder, WireError
from refimpl.wire.frames import Frame

_ROOM_FOR_LISTS = 4
"""A broker does not cap the topic lists that it writes: the harness reads frames of this many times the usual limit."""
_FRAME = 16384
"""Bytes that a frame counts for besides its own: memory, and time to read and report it."""
IN_ONE_CONVERSATION = 44 << 20
"""Bytes of memory for what a target sends in one conversation: a list of 21 MB, or 2,800 PINGs. Cases need 20 MB at most."""
FLOOD = f"it sends more than {IN_ONE_CONVERSATION >> 21} MB, or {IN_ONE_CONVERSATION // _FRAME} frames, in one conversation"


class Allowance:
    """How much memory a target may make the harness take: what it sends is kept until the end.

    Args:
        room: Bytes.
        whole: The allowance of the run, for a conversation of it.
    """

    def __init__(self, room: int, whole: Allowance | None = None) -> None:
        self.room = room
        self._whole = whole

    def take(self, size: int) -> bool:
        """Take some of it; return whether there was enough."""
        self.room -= size
        return (self._whole is None or self._whole.take(size)) and self.room >= 0


class _Carrier(Protocol):
    async def send(self, data: bytes, seconds: float) -> None: ...

    def drain(self) -> None: ...

    def reading(self, on: bool) -> None: ...

    def close(self, how: Literal["fin", "rst", "half"]) -> None: ...


class _InProcess:
    """A connection that accepts bytes immediately, so that sending never waits."""

    def __init__(
        self, link: MemoryLink, url: str, on_data: Callable[[bytes], None], on_closed: Callable[[Literal["fin", "rst"]], None]
    ) -> None:
        self._connection: MemoryConnection = link.connect(on_data, on_closed, url)
        self.drain = self._connection.drain
        self.close = self._connection.close

    def reading(self, on: bool) -> None:
        self._connection.reading = on

    async def send(self, data: bytes, seconds: float) -> None:  # noqa: ARG002
        self._connection.send(data)


class Connection:
    """A connection to the role under test.

    Args:
        on_frame: Called with each whole frame.
        on_garbage: Called with bytes that are not a frame, and the reason; nothing is decoded after that.
        on_closed: Called once when the other side has closed the connection.
        allowance: How much may be received. When it is used up, `on_garbage` is called with no bytes, and the connection is closed.
    """

    def __init__(
        self,
        on_frame: Callable[[Frame], None],
        on_garbage: Callable[[bytes, str], None],
        on_closed: Callable[[Literal["fin", "rst"]], None],
        allowance: Allowance | None = None,
    ) -> None:
        self._on_frame = on_frame
        self._on_garbage = on_garbage
        self._on_closed = on_closed
        self._allowance = allowance or Allowance(IN_ONE_CONVERSATION)
        self._decoder = FrameDecoder(_ROOM_FOR_LISTS * DEFAULT_MAX_FRAME_SIZE)
        self._carrier: _Carrier | None = None
        self._reads = True

    async def open(self, endpoint: Endpoint, seconds: float) -> None:
        """Connect, with a TLS handshake if the endpoint speaks TLS.

        Raises:
            OSError: The connection was refused or the handshake failed.
            TimeoutError: It took longer than `seconds`.
        """
        if endpoint.in_process is not None:
            self._carrier = _InProcess(endpoint.in_process, endpoint.service_url, self._receive, self._ended)
        else:
            opened = SocketConnection(self._receive, self._ended)
            await opened.open(endpoint, seconds)
            self._carrier = opened

    async def send(self, data: bytes, seconds: float) -> None:
        """Write bytes. If the other side has closed the connection they are dropped silently, because the close is an event of its own.

        Raises:
            TimeoutError: The other side does not read.
        """
        if self._carrier is not None:
            await self._carrier.send(data, seconds)

    def drain(self) -> None:
        """Read all that has arrived."""
        if self._carrier is not None and self._reads:
            self._carrier.drain()

    def reading(self, on: bool) -> None:
        """Read from the connection, or leave what arrives where it is, so that the other side can't send more."""
        self._reads = on
        if self._carrier is not None:
            self._carrier.reading(on)

    def close(self, how: Literal["fin", "rst", "half"] = "fin") -> None:
        """Close the connection from this side; after `half` it can still be read."""
        if self._carrier is not None:
            self._carrier.close(how)

    def _receive(self, data: bytes) -> None:
        if self._decoder.error is not None or self._allowance.room < 0 or not data:
            return
        frames: list[Frame] = []
        if self._allowance.take(2 * len(data)):  # hexadecimal in the log
            with contextlib.suppress(WireError):
                frames = self._decoder.receive(data)
        for frame in frames:
            if not self._allowance.take(_FRAME):
                break
            self._on_frame(frame)
        if self._allowance.room < 0:
            self.close("rst")
            self._on_garbage(b"", FLOOD)
        elif self._decoder.error is not None:
            self._on_garbage(self._decoder.unread, str(self._decoder.error))

    def _ended(self, how: Literal["fin", "rst"]) -> None:
        half = self._decoder.unread if self._decoder.error is None else b""
        if half:
            self._on_garbage(half, "the connection ended inside a frame")
        self._on_closed(how)
