"""The backdrop of a case for clients: the reference broker behind a listener, which shows every frame and obeys the rules of the case.

client <--TCP--> Backdrop <--memory--> reference broker
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, Protocol

from conformance.clients.rules import Passing, Rules
from refimpl.broker import Broker, Configuration
from refimpl.broker.members import Member
from refimpl.net.memory_link import MemoryConnection, MemoryLink
from refimpl.net.serving import installed_plugins
from refimpl.wire import Frame, FrameDecoder, WireError

LARGEST_FRAME = 8 << 20
"""Bytes of a frame above which a client talks nonsense: the largest message of a broker with its default settings, and room."""
_RESOLUTION = 1e-6
"""Seconds that are no delay."""
_LINGER = 1.0
"""Seconds that a client has to take what was sent before the connection ended."""


class Listener(Protocol):
    """Is told all that happens between a client and the backdrop, in its order."""

    def opened(self, link: int) -> None:
        """Hear that the client has opened a connection."""

    def frame(self, link: int, frame: Frame) -> None:
        """Hear of a frame of the client, before the backdrop does."""

    def passed(self, link: int, data: bytes, rule: int | None) -> None:
        """Hear of a frame for the client; `rule` is the rule that made or changed it."""

    def garbage(self, link: int, data: bytes, reason: str) -> None:
        """Hear of bytes of the client that are no frame; the connection ends."""

    def closed(self, link: int, how: Literal["fin", "rst"]) -> None:
        """Hear that the client has ended a connection."""


class Backdrop:
    """A reference broker for one client, on a port of 127.0.0.1; use it as an asynchronous context manager.

    Args:
        listener: Is told all frames.
        config: Settings of the broker, Pulsar's own keys.
        port: The port; 0: a free one.
    """

    def __init__(self, listener: Listener, config: Mapping[str, str], port: int = 0) -> None:
        self.listener = listener
        self.rules = Rules()
        self.links: dict[int, Link] = {}
        self.alone = asyncio.Event()
        """Is set while there is no connection."""
        self.alone.set()
        self.admin_url = "http://127.0.0.1"
        self._config = config
        self._at = ("127.0.0.1", port)
        self._count = 0

    async def __aenter__(self) -> Backdrop:
        """Start to listen."""
        self.service_url = await self._listen()
        broker = Broker(
            Configuration.from_settings(self._config),
            members=[Member(self.service_url, self.admin_url)],
            wall_clock_offset=self._wall_clock_offset(),
            plugins=installed_plugins(),
        )
        self.memory = MemoryLink(broker)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop; what is still open is lost."""
        for link in list(self.links.values()):
            link.end("rst")
        await self._stop_listening()
        self.memory.close()

    async def _listen(self) -> str:
        listening = socket.create_server(self._at)
        self._server = await asyncio.get_running_loop().create_server(self._accepted, sock=listening)
        return "pulsar://{}:{}".format(*listening.getsockname())

    async def _stop_listening(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    def _wall_clock_offset(self) -> float:
        return time.time() - asyncio.get_running_loop().time()

    def _accepted(self) -> Link:
        self._count += 1
        return Link(self, self._count)

    def end(self, link: int, how: Literal["fin", "rst"]) -> None:
        """End a connection from the broker's side, without a word to the listener."""
        if link in self.links:
            self.links[link].end(how)


class Link(asyncio.Protocol):
    """One connection of the client, and its counterpart at the broker."""

    def __init__(self, backdrop: Backdrop, number: int) -> None:
        self._backdrop = backdrop
        self._number = number
        self._from_client = FrameDecoder(LARGEST_FRAME)
        self._from_broker = FrameDecoder(LARGEST_FRAME)
        self._to_client = _Lane()
        self._to_broker = _Lane()
        self._ended = False
        self._reset = False
        self._transport: asyncio.Transport | None = None
        self._broker: MemoryConnection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect to the broker, too."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._backdrop.links[self._number] = self
        self._backdrop.alone.clear()
        self._backdrop.listener.opened(self._number)
        self._broker = self._backdrop.memory.connect(self._answered, self.end)

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client."""
        try:
            arrived = self._from_client.receive(data)
        except WireError as error:
            self._backdrop.listener.garbage(self._number, data[:4096], str(error))
            self.end("fin")
            return
        for frame in arrived:
            if self._ended:
                return
            self._backdrop.listener.frame(self._number, frame)
            passing = self._backdrop.rules.passing("client", frame)
            for passed in passing.frames:
                self._to_broker.put(partial(self._deliver, passed), passing.delay, passing.late)
            self._answer(passing)

    def connection_lost(self, error: Exception | None) -> None:
        """Let go of the broker."""
        del self._backdrop.links[self._number]
        if not self._backdrop.links:
            self._backdrop.alone.set()
        if not self._ended:
            self._ended = True
            self._backdrop.listener.closed(self._number, "fin" if error is None else "rst")
        if self._broker is not None:
            self._broker.close()
        self._to_client.clear()
        self._to_broker.clear()

    def send(self, data: bytes, rule: int | None = None, delay: float = 0.0, late: float = 0.0) -> None:
        """Send a frame to the client, behind all that waits for it."""
        self._to_client.put(lambda: self._write(data, rule), delay, late)

    def inject(self, data: bytes) -> None:
        """Send bytes of the case to the client, behind all that waits for it; they are logged where the case sends them."""
        self._to_client.put(lambda: self._write_out(data))

    def end(self, how: Literal["fin", "rst"]) -> None:
        """End the connection from the broker's side."""
        if self._ended or self._transport is None:
            return
        self._ended = True
        if how == "rst":
            self._transport.abort()
        else:
            self._transport.close()
            asyncio.get_running_loop().call_later(_LINGER, self._transport.abort)

    def _answer(self, passing: Passing) -> None:
        for data in passing.answers:
            self.send(data, passing.rule)
        if passing.cut is not None:
            self.end(passing.cut)

    def _answered(self, data: bytes) -> None:
        for frame in self._from_broker.receive(data):
            passing = self._backdrop.rules.passing("broker", frame)
            for passed in passing.frames:
                self.send(passed, passing.rule, passing.delay, passing.late)
            self._answer(passing)

    def _write(self, data: bytes, rule: int | None) -> None:
        if not self._ended:
            self._backdrop.listener.passed(self._number, data, rule)
            self._write_out(data)

    def _write_out(self, data: bytes) -> None:
        if not self._ended and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _deliver(self, data: bytes) -> None:
        if self._broker is not None:
            self._broker.send(data)


class _Lane:
    """One direction: what is delayed holds up what follows it, what is late does not."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._late: list[asyncio.TimerHandle] = []

    def put(self, deliver: Callable[[], None], delay: float = 0.0, late: float = 0.0) -> None:
        loop = asyncio.get_running_loop()
        if late:
            self._late.append(loop.call_later(late, self.put, deliver))
            return
        if not self._waiting and not delay:
            deliver()
            return
        self._waiting.append((loop.time() + delay, deliver))
        if self._timer is None:
            self._timer = loop.call_at(self._waiting[0][0], self._due)

    def _due(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        while self._waiting and self._waiting[0][0] <= loop.time() + _RESOLUTION:
            self._waiting.popleft()[1]()
        if self._waiting:
            self._timer = loop.call_at(self._waiting[0][0], self._due)

    def clear(self) -> None:
        self._waiting.clear()
        for timer in self._late:
            timer.cancel()
        self._late.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
