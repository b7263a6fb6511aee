"""Drives a broker: passes in bytes and the time, sends its output, and sets one timer.

    bytes, end of a connection, admin calls, the timer -> Driver -> Broker
    Broker -> Driver -> Wire.pump() of each session that has something to send

A `Wire` carries the bytes: a socket, or a link inside the process. The clock is the event loop's, so a broker runs in real or in
virtual time.

Turns are fair. A connection whose commands take longer than a turn waits, and is not read meanwhile. In each iteration of the event
loop one of the waiting connections has a turn, and each connection with new bytes. So whoever asks little never waits for long.
"""

from __future__ import annotations

import asyncio
import math
import traceback
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol

from refimpl.broker import Broker, Member, Session
from refimpl.broker.rest import handle, refusal
from refimpl.net.alarm import Alarm
from refimpl.net.fault_switches import FaultSwitches, FaultyLink
from refimpl.proposals.administration import AdminRequest, AdminResponse
from refimpl.proposals.refused import AdminRefused

TURN_SECONDS = 0.005
"""Seconds after which the commands of a connection wait for its next turn."""


class Wire(Protocol):
    """Carries the bytes of one connection."""

    def pump(self) -> None:
        """Send the session's output, resume or pause reading as the session asks, and end when the session has ended."""

    def abort(self) -> None:
        """End at once."""


class Driver:
    """Drives one broker on the running event loop.

    Args:
        broker: The broker; only this driver calls its sessions.
        log: Called with a line for each unhandled exception of the broker.
        faults: What a test switches on between the broker and its clients.
    """

    def __init__(self, broker: Broker, *, log: Callable[[str], None] | None = None, faults: FaultSwitches | None = None) -> None:
        self.broker = broker
        self.loop = asyncio.get_running_loop()
        self._log = log
        self._faults = faults
        self._links: dict[Session, FaultyLink] = {}
        self._wires: dict[Session, Wire] = {}
        self._ended: set[Session] = set()
        self._alarm = Alarm(self.loop, self._tick)
        self._turn_ends = math.inf
        self._next_turn: asyncio.Handle | None = None
        broker.turn_is_over = lambda: self.loop.time() >= self._turn_ends

    def connect(self, wire: Wire, address: str = "", member: Member | None = None) -> Session:
        """Open a session for a new connection from an address to a broker of the cluster; None: the only one, or the first one."""
        session = self.broker.connect(self.loop.time(), address, member)
        self._wires[session] = wire
        if session.closing:
            self.loop.call_soon(self.settle)
        if self._faults is not None:
            self._links[session] = self._faults.link(lambda data: self._take(session, data), wire.pump, wire.abort)
        self._alarm.set(self.broker.next_deadline())
        return session

    def received(self, session: Session, data: bytes) -> None:
        """Take bytes of a peer."""
        if session in self._links:
            self._links[session].received(data)
        else:
            self._take(session, data)

    def output(self, session: Session) -> bytes:
        """Remove and return bytes for a peer; empty if there are none now."""
        link = self._links.get(session)
        if link is None:
            return session.data_to_send()
        while data := session.data_to_send():
            link.sent(data)
        return link.ready()

    @property
    def reading(self) -> bool:
        """Return whether to read from peers at all."""
        return self._faults is None or self._faults.reading

    def ended(self, session: Session) -> None:
        """Report that a peer has ended its connection; its waiting commands are carried out, and the session's output can still be sent."""
        if session in self._wires and session not in self._ended:
            self._ended.add(session)
            if session not in self.broker.waiting:
                self._guarded(session, lambda: session.eof(self._begin_turn()))

    def forget(self, session: Session) -> None:
        """Report that a connection has ended on either side."""
        self.broker.waiting.pop(session, None)
        if session in self._wires and not session.closing:
            self._ended.add(session)
            self._guarded(session, lambda: session.eof(self._begin_turn()))
        self._wires.pop(session, None)
        if session in self._links:
            self._links.pop(session).close()
        self._ended.discard(session)

    def resumed(self, wire: Wire) -> None:
        """Report that a peer reads again."""
        self.broker.tick(self._begin_turn())
        wire.pump()
        self.settle()

    def admin(self, request: AdminRequest, member: Member | None = None) -> AdminResponse:
        """Answer an admin call to a broker of the cluster; None: the only one, or the first one."""
        try:
            response = handle(self.broker, request, self._begin_turn(), member)
        except Exception as error:
            self._report(f"{request.method} {request.path}", error)
            response = refusal(AdminRefused(HTTPStatus.INTERNAL_SERVER_ERROR, f"defect: {type(error).__name__}: {error}"))
        self.settle()
        return response

    def settle(self) -> None:
        """Send the broker's output, and set the timer for its next deadline and the next turn."""
        while sessions := self.broker.sessions_with_output():  # sending to one session may give others more output
            for session in sessions:
                if session in self._wires:
                    self._wires[session].pump()
        self._alarm.set(self.broker.next_deadline())
        self._turn_ends = math.inf
        if self.broker.waiting and self._next_turn is None:
            self._next_turn = self.loop.call_soon(self._give_turn)

    def close(self) -> None:
        """Drop all connections and stop the timer."""
        for wire in list(self._wires.values()):
            wire.abort()
        self._alarm.set(None)
        if self._next_turn is not None:
            self._next_turn.cancel()

    def _take(self, session: Session, data: bytes) -> None:
        if session in self._wires and session not in self._ended:
            self._guarded(session, lambda: session.receive(data, self._begin_turn()))

    def _begin_turn(self) -> float:
        now = self.loop.time()
        self._turn_ends = now + TURN_SECONDS
        return now

    def _give_turn(self) -> None:
        self._next_turn = None
        session = next(iter(self.broker.waiting), None)
        if session is not None:
            del self.broker.waiting[session]
            self._guarded(session, lambda: self._proceed(session))

    def _proceed(self, session: Session) -> None:
        session.proceed(self._begin_turn())
        if session in self._ended and session not in self.broker.waiting:
            session.eof(self.loop.time())

    def _guarded(self, session: Session, call: Callable[[], None]) -> None:
        wire = self._wires[session]
        try:
            call()
        except Exception as error:
            self._report("a connection is ended", error)
            wire.abort()
        wire.pump()
        self.settle()

    def _tick(self, now: float) -> None:
        self._begin_turn()
        try:
            self.broker.tick(now)
        except Exception as error:
            self._report("a timer", error)
        self.settle()

    def _report(self, what: str, error: Exception) -> None:
        if self._log is not None:
            place = traceback.extract_tb(error.__traceback__)[-1]
            self._log(f"defect: {what}: {type(error).__name__}: {error} ({place.name}, line {place.lineno})")
