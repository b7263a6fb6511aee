"""Connections to a broker inside the process, without sockets, on any event loop.

    link = MemoryLink(Broker(...))
    connection = link.connect(on_data, on_closed)
    connection.send(bytes)

Bytes reach the broker at once, and its output arrives in the next iteration of the loop. `Faults` delay bytes, split them, or lose
them with their connection, in the same way in every run with the same seed.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from refimpl.broker import Broker, Member
from refimpl.net.driver import Driver
from refimpl.proposals.administration import AdminRequest, AdminResponse

BUFFERED = 256 * 1024
"""Maximum number of bytes in flight to a peer; the rest stays in the session."""


@dataclass(frozen=True)
class Faults:
    """Simulated network faults.

    Attributes:
        seed: Seed for the faults of each connection, in the order in which the connections are opened.
        delay: Minimum and maximum delay of a piece, in seconds; pieces stay in order.
        largest_piece: Maximum size of the pieces that bytes are split into; 0: they are not split.
        cut_after: Minimum and maximum number of bytes, both directions together, after which a connection is lost; None: never.
    """

    seed: int = 0
    delay: tuple[float, float] = (0.0, 0.0)
    largest_piece: int = 0
    cut_after: tuple[int, int] | None = None


NO_FAULTS = Faults()


class _Lane:
    """Bytes in flight in one direction; None marks the end of the connection."""

    def __init__(self, driver: Driver, faults: Faults, seed: str, arrived: Callable[[], None]) -> None:
        self._loop = driver.loop
        self._faults = faults
        self._random = random.Random(f"{faults.seed} {seed}")
        self._arrived = arrived
        self._queue: deque[tuple[float, bytes | None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0
        self.size = 0

    def put(self, data: bytes | None) -> None:
        """Send bytes, or the end of the connection."""
        for piece in self._pieces(data):
            self._last = max(self._last, self._loop.time() + self._random.uniform(*self._faults.delay))
            self._queue.append((self._last, piece))
            self.size += len(piece or b"")

    def _pieces(self, data: bytes | None) -> Iterator[bytes | None]:
        if data is None or not self._faults.largest_piece:
            yield data
            return
        place = 0
        while place < len(data):
            size = self._random.randint(1, self._faults.largest_piece)
            yield data[place : place + size]
            place += size

    @property
    def ready(self) -> bool:
        """Return whether something has arrived."""
        return bool(self._queue) and self._queue[0][0] <= self._loop.time()

    def take(self) -> Iterator[bytes | None]:
        """Yield what has arrived."""
        while self.ready:
            _, piece = self._queue.popleft()
            self.size -= len(piece or b"")
            yield piece

    def wake(self) -> None:
        """Call back when the next piece arrives."""
        if self._queue and self._timer is None:
            self._timer = self._loop.call_at(self._queue[0][0], self._woken)

    def _woken(self) -> None:
        self._timer = None
        self._arrived()

    def clear(self) -> None:
        """Drop everything."""
        self._queue.clear()
        self.size = 0


class MemoryConnection:
    """Both ends of one connection: the peer uses `send`, `close`, `reading` and `drain`, the broker uses the rest.

    Attributes:
        open: Whether the connection is open, from the peer's view.
    """

    def __init__(
        self,
        driver: Driver,
        faults: Faults,
        number: int,
        on_data: Callable[[bytes], None],
        on_closed: Callable[[Literal["fin", "rst"]], None],
        member: Member,
    ) -> None:
        self._driver = driver
        self._on_data = on_data
        self._on_closed = on_closed
        self._to_broker = _Lane(driver, faults, f"{number} to the broker", self._arrive_at_broker)
        self._to_peer = _Lane(driver, faults, f"{number} to the peer", self._arrive_at_peer)
        choice = random.Random(f"{faults.seed} {number} cut")
        self._bytes_left = choice.randint(*faults.cut_after) if faults.cut_after else None
        self._peer_reads = True
        self._peer_ended = False
        self._broker_ended = False
        self._delivering = False
        self.open = True
        self._session = driver.connect(self, member=member)

    def send(self, data: bytes) -> None:
        """Send bytes to the broker; an ended connection drops them silently."""
        if self.open and not self._peer_ended and data:
            self._to_broker.put(data)
            self._arrive_at_broker()

    def close(self, how: Literal["fin", "rst", "half"] = "fin") -> None:
        """End the connection from the peer's side; after `half`, the broker's output still arrives."""
        if not self.open or self._peer_ended:
            self.open = self.open and how == "half"
            return
        self._peer_ended = True
        if how != "half":
            self.open = False
            self._to_peer.clear()
        if how == "rst":
            self._to_broker.clear()
            self._driver.forget(self._session)
        else:
            self._to_broker.put(None)
            self._arrive_at_broker()

    @property
    def reading(self) -> bool:
        """Return whether the peer reads; while it is False, bytes queue up at the broker."""
        return self._peer_reads

    @reading.setter
    def reading(self, value: bool) -> None:
        self._peer_reads = value
        if value:
            self._to_peer.wake()

    def drain(self) -> None:
        """Deliver everything that has arrived at the peer now, not in the next iteration of the loop."""
        while self._to_peer.ready and self._peer_reads and not self._delivering:
            self._arrive_at_peer()

    def pump(self) -> None:
        """Send the session's output."""
        while not self._broker_ended and self._to_peer.size < BUFFERED and (data := self._session.data_to_send()):
            self._to_peer.put(data)
        if self._session.closing and not self._broker_ended and self._to_peer.size < BUFFERED:
            self._broker_ended = True
            self._to_peer.put(None)
            self._driver.forget(self._session)
        if self._peer_reads:
            self._to_peer.wake()
        if self._session.reading:
            self._to_broker.wake()

    def abort(self) -> None:
        """Lose the connection."""
        self._to_broker.clear()
        self._to_peer.clear()
        self._broker_ended = True
        self._driver.forget(self._session)
        if self.open:
            self.open = False
            self._on_closed("rst")

    def _arrive_at_broker(self) -> None:
        for piece in self._to_broker.take() if self._session.reading else ():
            if piece is None:
                self._driver.ended(self._session)
                if not self.open:
                    self._driver.forget(self._session)
            elif through := self._let_through(piece):
                self._driver.received(self._session, through)
            if self._bytes_left == 0:
                self.abort()
            if not self._session.reading:
                break
        if self._session.reading:
            self._to_broker.wake()

    def _arrive_at_peer(self) -> None:
        self._delivering = True
        try:
            for piece in self._to_peer.take() if self._peer_reads else ():
                if self.open and piece is None:
                    self.open = False
                    self._on_closed("fin")
                elif self.open and piece is not None and (through := self._let_through(piece)):
                    self._on_data(through)
                if self._bytes_left == 0:
                    self.abort()
        finally:
            self._delivering = False
        if not self._broker_ended:
            self._driver.resumed(self)
        elif self._peer_reads:
            self._to_peer.wake()

    def _let_through(self, piece: bytes) -> bytes:
        if self._bytes_left is None:
            return piece
        through = piece[: self._bytes_left]
        self._bytes_left -= len(through)
        return through


class MemoryLink:
    """A link to a broker inside the process. Create it while an event loop runs.

    Args:
        broker: The broker.
        faults: The network faults to simulate.
        log: Called with a line for each unhandled exception of the broker.
    """

    def __init__(self, broker: Broker, *, faults: Faults = NO_FAULTS, log: Callable[[str], None] | None = None) -> None:
        self._driver = Driver(broker, log=log)
        self._faults = faults
        self._numbers = itertools.count()

    @property
    def broker(self) -> Broker:
        """Return the broker."""
        return self._driver.broker

    def connect(
        self, on_data: Callable[[bytes], None], on_closed: Callable[[Literal["fin", "rst"]], None], service_url: str | None = None
    ) -> MemoryConnection:
        """Open a connection.

        Args:
            on_data: Called with the bytes that arrive.
            on_closed: Called once, when the broker has ended the connection (`fin`) or it was lost (`rst`).
            service_url: That of the broker of a cluster; None: the only one, or the first one.

        Raises:
            ConnectionRefusedError: No broker runs there.
        """
        member = self._member(lambda one: service_url in (None, one.service_url))
        return MemoryConnection(self._driver, self._faults, next(self._numbers), on_data, on_closed, member)

    def admin(self, request: AdminRequest, admin_url: str | None = None) -> AdminResponse:
        """Answer an admin call to the broker of a cluster with this admin URL; None: the only one, or the first one.

        Raises:
            ConnectionRefusedError: No broker runs there.
        """
        return self._driver.admin(request, self._member(lambda one: admin_url in (None, one.admin_url)))

    def _member(self, fits: Callable[[Member], bool]) -> Member:
        found = next(filter(fits, self.broker.members.running), None)
        if found is None:
            raise ConnectionRefusedError("no broker runs there")
        return found

    def close(self) -> None:
        """Drop all connections and stop the broker's timer."""
        self._driver.close()
