"""The command `read`."""

from __future__ import annotations

import heapq
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import typer

from conformance.captures import (
    MAX_FRAME_SIZE,
    CaptureError,
    FrameRow,
    Origin,
    Piece,
    capture_path,
    defect_class,
    find_pieces,
    unread_files,
)
from conformance.captures.causes import SeenBy, orders
from conformance.captures.places import is_packets
from conformance.captures.rows import BAD_INDEX, LOG, MISSING, PACKETS, Direction
from conformance.captures.times import times_of
from conformance.commands.overhearing import ALL, EACH, Judge
from conformance.commands.proxying import commands_or_stop
from conformance.console import stop
from conformance.exit_codes import EXIT_CONFORMANT, EXIT_USAGE
from conformance.monitors import Breach, Side
from conformance.report.listing import breach_text, frame_text, line
from conformance.report.wording import number_of
from refimpl.wire import decode_frame

Connection = tuple[str, str]
"""What names of connections are unique in, and the name."""
UNREADABLE = frozenset({LOG, BAD_INDEX, MISSING, PACKETS})
"""What is wrong with a file as a whole; all else is about bytes of a connection, which a capture may well lack."""


def read(file: Path, commands: Sequence[str], *, judged: bool) -> None:
    """List the frames of a capture, as far as there are any.

    What a capture lacks is a line. If a file can't be read, or not to its end, the exit code is 2.

    Args:
        file: Where the capture is.
        commands: The commands that are listed, as they are written; empty: all.
        judged: Whether the monitors judge it.
    """
    shown = commands_or_stop(commands)
    try:
        path = capture_path(str(file))
        pieces, defects = find_pieces(path, sys.maxsize, MAX_FRAME_SIZE)
        unread = unread_files(str(file))
    except CaptureError as error:
        stop(EXIT_USAGE, str(error))
    except OSError as error:
        stop(EXIT_USAGE, f"{error.filename or file}: {error.strerror}")
    if judged:
        _check_order(pieces)
    lister = _Lister(shown, _orders(pieces) if judged else {}, judged=judged)
    for row in defects:
        lister.take("", row)
    for source, row in rows_of(pieces):
        lister.take(source, row)
    if lister.judge is not None:
        lister.ended(lister.judge)
        print(lister.judge.summary(), file=sys.stderr, flush=True)
    print(lister.summary(len(unread)), file=sys.stderr, flush=True)
    if lister.unreadable:
        stop(EXIT_USAGE, f"{path.parent if path.is_file() else path}/{lister.unreadable}")
    raise typer.Exit(lister.judge.code() if lister.judge is not None else EXIT_CONFORMANT)


def _check_order(pieces: Iterable[Piece]) -> None:
    """End unless it is known in which order both sides of a connection have spoken."""
    for piece in pieces:
        if piece.origin.connection is not None and not times_of(piece.path).is_file():
            stop(EXIT_USAGE, f"{piece.path}: can't be judged: when its bytes came was not noted in {times_of(piece.path).name}")


def _orders(pieces: Sequence[Piece]) -> dict[Connection, _Known]:
    """Find out what is known of the order in which both sides of each connection have spoken."""
    packets = {piece.origin.source for piece in pieces if piece.origin.connection is None and is_packets(piece.path)}
    known = {}
    for (source, connection), order in orders(rows_of(pieces)).items():
        if source not in packets:
            known[source, connection] = _Known(order.reversed)
        elif order.acknowledged():
            known[source, connection] = _Known(None, {"client": SeenBy("client"), "broker": SeenBy("broker")})
        else:
            known[source, connection] = _Known(order.reversed or "TCP does not say what each of them had got")
    return known


@dataclass(frozen=True)
class _Known:
    """What is known of the order of both sides of a connection.

    Attributes:
        why_not: Why it is not known; None: it is.
        views: What each side knew when it spoke, if that says more than the order in which frames were recorded.
    """

    why_not: str | None
    views: Mapping[Direction, SeenBy] = field(default_factory=dict)


def rows_of(pieces: Iterable[Piece]) -> Iterator[tuple[str, FrameRow]]:
    """Read pieces: the two directions of a connection side by side if it was noted when their bytes came, else one after the other.

    No more files are open at a time than connections were.

    Yields:
        What names of connections are unique in, and a row.
    """
    timed = []
    for piece in pieces:
        if piece.origin.connection is not None and times_of(piece.path).is_file():
            timed.append(piece)
        else:
            source = piece.origin.source
            yield from ((source, row) for row in piece.rows(MAX_FRAME_SIZE))
    heap: list[tuple[float, int, FrameRow | None, Iterator[FrameRow]]] = [
        (-math.inf if piece.origin.started is None else piece.origin.started, number, None, piece.rows(MAX_FRAME_SIZE))
        for number, piece in enumerate(timed)
    ]
    heapq.heapify(heap)
    while heap:
        time, number, row, rows = heapq.heappop(heap)
        if row is not None:
            yield timed[number].origin.source, row
        following = next(rows, None)
        if following is not None:
            heapq.heappush(heap, (time if following.time is None else following.time, number, following, rows))


class _Lister:
    """Prints rows.

    Args:
        commands: The commands that are listed; None: all.
        known: What is known of the order in each connection, if the rows are judged.
        judged: Whether the rows are judged.

    Attributes:
        judge: What judges them, if they are judged.
        unreadable: What is wrong with a file as a whole, if something is.
    """

    def __init__(self, commands: frozenset[str] | None, known: Mapping[Connection, _Known], *, judged: bool) -> None:
        self.judge = Judge(self._breach) if judged else None
        self._commands = commands
        self._known = known
        self._lacking: set[tuple[Connection, Side]] = set()
        self._times: dict[tuple[Connection, Side], float] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._first: float | None = None
        self._frames = 0
        self._defects: Counter[str] = Counter()
        self.unreadable: str | None = None

    def take(self, source: str, row: FrameRow) -> None:
        """Print a row."""
        time = self._time(row)
        number = self._number(source, row.origin, time)
        if row.corrupt is None:
            self._frames += 1
            self._judge(source, row, time)
            if self._commands is None or row.command in self._commands:
                frame = decode_frame(row.data)
                print(line(time, number, row.origin.direction, frame_text(frame, len(frame.payload_bytes or b""))))
            return
        self._judge(source, row, time)
        kind, _, text = row.corrupt.partition(": ")
        self._defects[kind] += 1
        where = row.origin.file if number is None else f"at byte {row.offset:,}"
        size = "" if row.size is None else f" ({row.size:,} bytes)"
        print(line(time, number, row.origin.direction, f"{where}: {kind}: {text}{size}"))
        if defect_class(row.corrupt) in UNREADABLE and self.unreadable is None:
            self.unreadable = f"{row.origin.file}: {text}"

    def _judge(self, source: str, row: FrameRow, time: float | None) -> None:
        """Let the monitors hear a row; of a connection whose order is not known, each frame by itself."""
        judge, connection, direction = self.judge, row.origin.connection, row.origin.direction
        if judge is None or connection is None or direction is None:
            if judge is not None:
                judge.gap(source, connection or "")
            return
        known = self._known.get((source, connection), _Known(None))
        if known.views:
            for side, view in known.views.items():
                for one in view.take(row):
                    self._judge_side(judge, (source, connection), side, one)
        elif row.corrupt is not None or time is None:
            judge.gap(source, connection)
        else:
            if known.why_not is not None:
                judge.unordered(source, connection)
            judge.frame(source, connection, direction, decode_frame(row.data), time)

    def _judge_side(self, judge: Judge, key: Connection, side: Side, row: FrameRow) -> None:
        """Let the monitors of one side hear what it has sent or got; behind a gap, each frame by itself."""
        if row.corrupt is not None or (key, side) in self._lacking:
            judge.gap(*key, EACH)
            self._lacking |= {(key, "client"), (key, "broker")}
        if row.corrupt is None and row.origin.direction is not None:
            time = self._times[key, side] = max(self._times.get((key, side), 0.0), self._time(row) or 0.0)
            judge.frame(*key, row.origin.direction, decode_frame(row.data), time, side)

    def ended(self, judge: Judge) -> None:
        """Note that there are no more rows."""
        for key, known in self._known.items():
            for side, view in known.views.items():
                for row in view.end():
                    self._judge_side(judge, key, side, row)
        judge.ended()

    def _breach(self, source: str, breach: Breach) -> None:
        print(line(breach.time, self._numbers[source, breach.connection], breach.side, breach_text(breach.clause, breach.text)))

    def summary(self, unread: int) -> str:
        """Say in a few words what there was."""
        parts = [f"{number_of(self._frames, 'frame')} in {number_of(len(self._numbers), 'connection')}"]
        parts += [f"{_pieces(count)}: {kind}" for kind, count in self._defects.items()]
        if unread:
            parts.append(f"{number_of(unread, 'file')} not read, because named by no index")
        return ", ".join(parts)

    def _time(self, row: FrameRow) -> float | None:
        """Return the seconds since the first row that has a time."""
        if row.time is None:
            return None
        if self._first is None:
            self._first = row.time
        return row.time - self._first

    def _number(self, source: str, origin: Origin, time: float | None) -> int | None:
        """Return the number of a connection; what is behind it is said when it comes for the first time."""
        if origin.connection is None:
            return None
        key = source, origin.connection
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers) + 1
            capture = "" if source in ("", ".") else f", in {source}"
            print(line(time, self._numbers[key], None, f"the connection named {origin.connection}{capture}"))
            known = self._known.get(key)
            if known is not None and known.why_not is not None:
                print(line(time, self._numbers[key], None, f"the order of both sides is not known: {known.why_not}"))
            if self.judge is not None and origin.started is not None:
                self.judge.opened(source, origin.connection, EACH if known is not None and known.views else ALL)
        return self._numbers[key]


def _pieces(count: int) -> str:
    return "1 piece that is no frame" if count == 1 else f"{count:,} pieces that are no frame"
