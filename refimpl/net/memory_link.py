"""Connections to a broker inside one process, without sockets, on any event loop.

    link = MemoryLink(Broker(...))
    connection = link.connect(on_data, on_closed)
    connection.send(bytes)

Bytes reach the broker at once, and what it sends arrives with the next turn of the loop. With `Faults` bytes are late, in
other pieces, or lost with their connection: the same ones in every run with the same seed.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from refimpl.broker import Broker
from refimpl.broker.rest import AdminResponse
from refimpl.net.driver import Driver
from refimpl.proposals.administration import AdminRequest

BUFFERED = 256 * 1024
"""Bytes that are under way to a peer at a time; more stay with the session."""


@dataclass(frozen=True)
class Faults:
    """What goes wrong on the way.

    Attributes:
        seed: Decides what happens to each connection, by the order in which they are opened.
        delay: Shortest and longest time that a piece is under way, in seconds; pieces stay in order.
        largest_piece: Bytes are split into pieces of 1 to so many bytes; 0: they are not split.
        cut_after: A connection is lost after so many bytes in both directions, at least and at most; None: never.
    """

    seed: int = 0
    delay: tuple[float, float] = (0.0, 0.0)
    largest_piece: int = 0
    cut_after: tuple[int, int] | None = None


NO_FAULTS = Faults()


class _Lane:
    """What is under way in one direction; None stands for the end of the connection."""

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
        """Send on the way."""
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
        """Lose everything."""
        self._queue.clear()
        self.size = 0


class MemoryConnection:
    """Both ends of one connection: `send`, `close`, `reading` and `drain` are the peer's, the rest is the broker's.

    Attributes:
        open: Whether neither side has ended it, as the peer sees it.
    """

    def __init__(
        self,
        driver: Driver,
        faults: Faults,
        number: int,
        on_data: Callable[[bytes], None],
        on_closed: Callable[[Literal["fin", "rst"]], None],
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
        self._session = driver.connect(self)

    def send(self, data: bytes) -> None:
        """Send bytes to the broker; a connection that has ended takes them silently."""
        if self.open and not self._peer_ended and data:
            self._to_broker.put(data)
            self._arrive_at_broker()

    def close(self, how: Literal["fin", "rst", "half"] = "fin") -> None:
        """End the connection from the peer's side; after `half` what the broker sends still arrives."""
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
        """Return whether the peer takes bytes; set to False, they pile up at the broker."""
        return self._peer_reads

    @reading.setter
    def reading(self, value: bool) -> None:
        self._peer_reads = value
        if value:
            self._to_peer.wake()

    def drain(self) -> None:
        """Deliver all that has arrived at the peer, now instead of with the next turn of the loop."""
        while self._to_peer.ready and self._peer_reads and not self._delivering:
            self._arrive_at_peer()

    def pump(self) -> None:
        """Take what the session has to send."""
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

    def _let_through(self, piece: bytes) -> bytes:
        if self._bytes_left is None:
            return piece
        through = piece[: self._bytes_left]
        self._bytes_left -= len(through)
        return through


class MemoryLink:
    """A broker, reached inside the process; to be made while an event loop runs.

    Args:
        broker: What is reached.
        faults: What goes wrong on the way.
        log: Gets one line for each defect of the broker.
    """

    def __init__(self, broker: Broker, *, faults: Faults = NO_FAULTS, log: Callable[[str], None] | None = None) -> None:
        self._driver = Driver(broker, log=log)
        self._faults = faults
        self._numbers = itertools.count()

    @property
    def broker(self) -> Broker:
        """Return the broker."""
        return self._driver.broker

    def connect(self, on_data: Callable[[bytes], None], on_closed: Callable[[Literal["fin", "rst"]], None]) -> MemoryConnection:
        """Open a connection.

        Args:
            on_data: Gets bytes that arrive.
            on_closed: Is called once when the broker has ended the connection (`fin`) or it was lost (`rst`).
        """
        return MemoryConnection(self._driver, self._faults, next(self._numbers), on_data, on_closed)

    def admin(self, request: AdminRequest) -> AdminResponse:
        """Answer an admin call."""
        return self._driver.admin(request)

    def close(self) -> None:
        """Lose all connections and stop the broker's timer."""
        self._driver.close()
