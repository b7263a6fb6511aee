"""One direction of a connection: which bytes are a frame, what becomes of it, and the rest passed on as it comes.

    bytes -> [at a border: size, type] -> not wanted: the bytes go on, also those that are still to come
                                       -> seen: its command is decoded, the bytes go on
                                       -> taken: it is collected; then it goes on, goes changed, waits, comes twice, or is lost

What is no frame goes on as it is, and so does all that follows it. Nothing is collected without limit.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from conformance.captures.rows import MAX_FRAME_SIZE, Direction, looks_like
from conformance.proxy.watching import Passed
from refimpl.net.faults import Switch
from refimpl.wire import TYPE_BY_FIELD, WireError, command_name, decode_frame

if TYPE_CHECKING:
    from conformance.proxy.relay import Relay

HELD = 1 << 20
"""While so many bytes wait because of a delay, nothing more is read from their sender."""
SEEN = 64 << 10
"""Bytes of the largest command that is shown; a larger one goes on unseen."""
COLLECTED = 256 << 20
"""Bytes that all lanes of a proxy collect together; frames beyond that go on unseen."""
_SIZES = struct.Struct(">II")
_TYPE_KNOWN = 18
"""With so many bytes of a frame its type is known: sizes, a tag, and a number of at most nine bytes."""
_HEADER = 8
_BY_TYPE = {number: name for name, number in TYPE_BY_FIELD.items()}


@dataclass
class Collected:
    """How many bytes all lanes of a proxy have collected."""

    size: int = 0


class Lane:
    """One direction.

    Args:
        direction: Who sends.
        relay: The connection.

    Attributes:
        frames: How many frames have come.
        size: How many bytes have come.
        held: How many bytes wait.
    """

    def __init__(self, direction: Direction, relay: Relay) -> None:
        self.direction = direction
        self.frames = 0
        self.size = 0
        self.held = 0
        self._relay = relay
        self._proxy = relay.proxy
        self._loop = asyncio.get_running_loop()
        self._opaque = False
        self._over = False
        self._start = bytearray()  # of a frame of which too little is there
        self._need = _HEADER
        self._left = 0  # bytes of the current frame that are still to come
        self._taken: bytearray | None = None  # the current frame, if it is collected
        self._inserted: list[tuple[bytes, Passed]] = []
        self._waiting: deque[tuple[float, bytes, Callable[[], None] | None]] = deque()
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def put(self, data: bytes) -> None:
        """Take the next bytes."""
        self.size += len(data)
        if self._over:
            return
        if self._opaque:
            self._emit(data)
            return
        if self._start:
            self._start += data
            if len(self._start) < self._need:
                return
            data, self._start = bytes(self._start), bytearray()
        view = memoryview(data)
        end, place, passed = len(data), 0, 0
        while place < end:
            if self._left:
                step = min(self._left, end - place)
                if self._taken is not None:
                    self._collect(view[place : place + step])
                    passed = place + step
                place += step
                self._left -= step
                if self._left == 0 and self._taken is not None:
                    self._act(self._release())
                    if self._over:
                        return
                continue
            if self._inserted:
                self._emit(view[passed:place])
                passed = place
                self._insert()
            self._need = self._begin(view, data, place, end)
            if self._need:
                break
            if self._taken is not None:
                self._emit(view[passed:place])
                passed = place
            elif self._opaque:
                place = end
        if passed < place:
            self._emit(view[passed:place])
        if place < end:
            self._start += view[place:]
        elif self._inserted and not self._left:
            self._insert()

    def insert(self, data: bytes, passed: Passed) -> None:
        """Send a frame of the proxy itself, at the next border of frames."""
        self._inserted.append((data, passed))
        if not self._left or self._taken is not None or self._opaque:
            self._insert()

    def end(self, then: Callable[[], None]) -> None:
        """Pass on what is left, and do something behind it: the sender has ended."""
        unfinished = len(self._start) + len(self._taken or b"")
        if (unfinished or self._left) and not self._over:
            self._relay.note(f"{arrow(self.direction)} the connection ends inside a frame", unseen=True)
        if self._taken is not None:
            self._emit(self._release())
        self._emit(bytes(self._start))
        self._start.clear()
        self._left = 0
        self._emit(b"", then)

    def close(self) -> None:
        """Drop what is held."""
        if self._taken is not None:
            self._release()
        self._waiting.clear()
        self._start.clear()
        self._inserted.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self, view: memoryview, data: bytes, place: int, end: int) -> int:
        """Begin a frame; return how many bytes are needed for that if there are too few, else 0."""
        there = end - place
        if there < _HEADER:
            return _HEADER
        total: int
        size: int
        total, size = _SIZES.unpack_from(data, place)
        if not 4 <= total <= MAX_FRAME_SIZE - 4:
            self._opaque = True
            reason = f"a frame of {total + 4:,} bytes" if total >= 4 else f"total size {total} leaves no room for the command size"
            if not self.frames:
                reason += looks_like(data[place : place + _HEADER])
            self._relay.note(f"{arrow(self.direction)} no frame, passed on as it is, with all that follows: {reason}", unseen=True)
            return 0
        if there < min(_TYPE_KNOWN, total + 4):
            return min(_TYPE_KNOWN, total + 4)
        name = self._name(data, place, size, there)
        head = _HEADER + min(size, total - 4)
        waits = self.direction == "broker" and self._holding()  # so that it is told when the client gets it
        if not waits and not self._proxy.taken(name, self.direction):
            if self._proxy.seen(name):
                if head > SEEN:
                    self._relay.note(f"{arrow(self.direction)} {name or 'a command'} of {head:,} bytes, too large to be shown")
                elif there < head:
                    return head
                else:
                    self._see(view[place : place + head], total, size)
        else:
            self._taken = bytearray()
        self.frames += 1
        self._left = total + 4
        return 0

    def _name(self, data: bytes, place: int, size: int, there: int) -> str | None:
        """Return the name of a command, whose type peers write first; None if it is not there."""
        if size < 2 or data[place + _HEADER] != 8:
            return None
        number = shift = 0
        for at in range(place + _HEADER + 1, place + min(_TYPE_KNOWN, there)):
            number |= (data[at] & 0x7F) << shift
            if data[at] < 0x80:
                return _BY_TYPE.get(number)
            shift += 7
        return None

    def _see(self, head: memoryview, total: int, size: int) -> None:
        """Tell of a frame whose payload goes by."""
        alone = b"".join(((len(head) - 4).to_bytes(4, "big"), head[4:]))
        try:
            frame = decode_frame(alone)
        except WireError as error:
            self._refused(error)
            return
        self._relay.told(Passed(self._relay.number, self.direction, self._proxy.now(), frame, total - 4 - size))

    def _collect(self, piece: memoryview) -> None:
        assert self._taken is not None
        self._taken += piece
        self._proxy.collected.size += len(piece)
        if self._proxy.collected.size > COLLECTED:
            self._relay.note(
                f"{arrow(self.direction)} a frame passed on unseen: others of {COLLECTED >> 20} MiB wait for their ends", unseen=True
            )
            self._emit(self._release())

    def _release(self) -> bytes:
        """Return the frame that was collected."""
        assert self._taken is not None
        data, self._taken = bytes(self._taken), None
        self._proxy.collected.size -= len(data)
        return data

    def _refused(self, error: WireError) -> None:
        self._relay.note(f"{arrow(self.direction)} a frame whose contents are none, passed on as it is: {error}", unseen=True)

    def _act(self, data: bytes) -> None:
        """Do with a frame what is to be done."""
        try:
            frame = decode_frame(data)
        except WireError as error:
            self._refused(error)
            self._emit(data)
            return
        changed, remark = self._relay.changed(frame, self.direction)
        switch = self._proxy.faults.met(command_name(frame.command)) if changed is not None else None
        kind = switch.kind if switch is not None else None
        if switch is not None:
            remark = ", ".join(filter(None, (remark, _remark(switch))))
        dropped = changed is None or kind in ("drop", "refuse")
        shown = frame if self.direction == "client" or changed is None else changed
        told = Passed(self._relay.number, self.direction, self._proxy.now(), shown, len(shown.payload_bytes or b""), remark, dropped)
        if self.direction == "client" or dropped:
            self._relay.told(told)
        if switch is not None and kind == "refuse":
            self._relay.refuse(frame, switch)
        if dropped or changed is None:
            return
        if switch is not None and switch.seconds:
            self._until = max(self._until, self._loop.time() + switch.seconds)
        for _ in range(2 if kind == "twice" else 1):
            self._emit(changed.data, None if self.direction == "client" else self._telling(told))
        if kind == "cut":
            self._over = True
            self._emit(b"", self._relay.cut)

    def _telling(self, passed: Passed) -> Callable[[], None]:
        """Return what tells of a frame at the time when the client gets it."""

        def tell() -> None:
            self._relay.told(replace(passed, time=self._proxy.now()))

        return tell

    def _insert(self) -> None:
        inserted, self._inserted = self._inserted, []
        for data, passed in inserted:
            self._emit(data, self._telling(passed))

    def _emit(self, data: bytes | memoryview, then: Callable[[], None] | None = None) -> None:
        """Send bytes and do something, behind what is held."""
        if self._holding():
            self._waiting.append((self._until, bytes(data), then))
            self.held += len(data)
            self._relay.balance()
            if self._timer is None:
                self._timer = self._loop.call_at(self._waiting[0][0], self._due)
            return
        if data:
            self._relay.write(self.direction, data)
        if then is not None:
            then()

    def _holding(self) -> bool:
        return bool(self._waiting) or self._until > self._loop.time()

    def _due(self) -> None:
        self._timer = None
        while self._waiting and self._waiting[0][0] <= self._loop.time():
            _, data, then = self._waiting.popleft()
            self.held -= len(data)
            if data:
                self._relay.write(self.direction, data)
            if then is not None:
                then()
        if self._waiting:
            self._timer = self._loop.call_at(self._waiting[0][0], self._due)
        self._relay.balance()


def arrow(direction: Direction) -> str:
    """Return how lines write a direction: to the broker, or to the client."""
    return "->" if direction == "client" else "<-"


def _remark(switch: Switch) -> str:
    match switch.kind:
        case "drop":
            return "dropped"
        case "refuse":
            return "refused"
        case "delay":
            return f"held back {switch.seconds:g} s"
        case "cut":
            return "cut behind it"
    return switch.kind
