"""What each side of a connection knew when it spoke: the frames in the order in which that side lived through them.

A capture has the frames of both sides in the order in which they were recorded, or by their times. Both may be wrong by a little: packets
are recorded by several processors, clocks of two machines differ. What a side had got when it sent a frame is known for sure where TCP
says so: each segment acknowledges what its sender has got (`FrameRow.heard`). Elsewhere the order is taken as it was recorded, unless it
can't be right, because something is answered before it was asked.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from conformance.captures.rows import OTHER_SIDE, Direction, FrameRow
from conformance.monitors.requests import ANSWERS
from refimpl.wire import command_name, decode_frame, sub_message

_Key: TypeAlias = tuple[Any, ...]
_FIRST: Final = "first"
_ALLOWS: Final = {"connect": "connected", "subscribe": "message"}
"""Commands that have to be there first, and what comes only behind them, as often as the broker likes."""
_KINDS: Final = tuple(dict.fromkeys(ANSWERS.values()))


class SeenBy:
    """Puts the rows of one connection into the order in which one side lived through them.

    Args:
        side: The side: its own frames come as it sent them, each behind what it had got by then.
    """

    def __init__(self, side: Direction) -> None:
        self._side = side
        self._own: deque[FrameRow] = deque()
        self._others: deque[FrameRow] = deque()
        self._arrived = 0

    def take(self, row: FrameRow) -> Iterator[FrameRow]:
        """Take the next row of either side, as it was recorded; yield those whose turn has come."""
        if row.origin.direction == self._side:
            self._own.append(row)
        else:
            self._others.append(row)
            self._arrived = _end(row)
        while self._own and (self._own[0].heard or 0) <= self._arrived:
            yield from self._next()

    def end(self) -> Iterator[FrameRow]:
        """Yield what waits for something that never came, and what the side has not got before its last frame."""
        while self._own:
            yield from self._next()
        yield from self._others
        self._others.clear()

    def _next(self) -> Iterator[FrameRow]:
        own = self._own.popleft()
        while self._others and _end(self._others[0]) <= (own.heard or 0):
            yield self._others.popleft()
        yield own


def _end(row: FrameRow) -> int:
    return row.offset + (len(row.data) if row.size is None else row.size)


class Order:
    """Looks whether the recorded order of a connection, or what TCP acknowledged in it, can be right."""

    def __init__(self) -> None:
        self._recorded = _Answers()
        self._known = _Answers()
        self._broker = SeenBy("broker")
        self._frames: Counter[Direction] = Counter()
        self._ends: Counter[Direction] = Counter()
        self._heard: Counter[Direction] = Counter()
        self._silent = False

    @property
    def reversed(self) -> str | None:
        """Return what was answered before it was asked, as it was recorded; None: nothing."""
        return self._recorded.reversed

    def take(self, row: FrameRow) -> None:
        """Take the next row, as it was recorded."""
        direction = row.origin.direction
        if direction is None:
            return
        self._ends[direction] = _end(row)
        for known in self._broker.take(row):
            self._known.take(known)
        if row.corrupt is None:
            self._recorded.take(row)
            self._listen(row, direction)

    def _listen(self, row: FrameRow, direction: Direction) -> None:
        self._heard[direction] = max(self._heard[direction], row.heard or 0)
        answers = self._frames[direction] > 1 and self._frames[OTHER_SIDE[direction]] > 1
        self._silent = self._silent or row.heard is None or (answers and not self._heard[direction])
        self._frames[direction] += 1

    def acknowledged(self) -> bool:
        """Tell, behind the last row, whether what TCP acknowledged says what each side knew."""
        for known in self._broker.end():
            self._known.take(known)
        if len(self._frames) < len(OTHER_SIDE):
            return False  # of one side nothing was captured
        all_came = all(self._heard[one] <= self._ends[OTHER_SIDE[one]] + 1 for one in self._heard)  # the end of a side counts like a byte
        return all_came and not self._silent and self._known.reversed is None


class _Answers:
    """Looks for what is answered before it is asked, and never again afterwards: an answer that nobody asked for is another matter."""

    def __init__(self) -> None:
        self._asked: Counter[_Key] = Counter()
        self._early: dict[_Key, str] = {}
        self._reversed: dict[_Key, str] = {}

    @property
    def reversed(self) -> str | None:
        return next(iter(self._reversed.values()), None)

    def take(self, row: FrameRow) -> None:
        if row.corrupt is not None:
            return
        name, keys = _keys(row)
        if row.origin.direction == "client":
            self._reversed.update((key, f"{self._early.pop(key)} before {name}") for key in keys if key in self._early)
            self._asked.update(keys)
            return
        open_keys = [key for key in keys if self._asked[key]]
        if not open_keys:
            self._early.update((key, name) for key in keys)
        for key in open_keys[:1]:
            self._reversed.pop(key, None)
            if key[0] != _FIRST:
                self._asked[key] -= 1
                if not self._asked[key]:
                    del self._asked[key]


def _keys(row: FrameRow) -> tuple[str, list[_Key]]:
    """Return the name of a command, and what it has in common with what asks for it or answers it."""
    command = decode_frame(row.data).command
    name = command_name(command)
    message: Any = sub_message(command)
    if name in ("send", "send_receipt", "send_error"):
        return name, [("send", message.producer_id, message.sequence_id)]
    if name in _ALLOWS or name in _ALLOWS.values():
        first = (_FIRST, _ALLOWS.get(name, name), getattr(message, "consumer_id", 0))
        return name, [("request", "success", message.request_id), first] if name == "subscribe" else [first]
    if "request_id" not in message.DESCRIPTOR.fields_by_name or not message.HasField("request_id"):
        return name, []
    kinds = _KINDS if name == "error" else (ANSWERS.get(name, name),)
    return name, [("request", kind, message.request_id) for kind in kinds]


def orders(rows: Iterable[tuple[str, FrameRow]]) -> dict[tuple[str, str], Order]:
    """Look through rows; return what can be said of the order in each connection, by source and name."""
    found: dict[tuple[str, str], Order] = {}
    for source, row in rows:
        if row.origin.connection is not None:
            found.setdefault((source, row.origin.connection), Order()).take(row)
    return found
