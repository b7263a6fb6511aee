"""The command `read`."""

from __future__ import annotations

import heapq
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

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
from conformance.captures.places import is_packets
from conformance.captures.rows import BAD_INDEX, LOG, MISSING, OTHER_SIDE, PACKETS, Direction
from conformance.captures.times import times_of
from conformance.commands.overhearing import Judge
from conformance.commands.proxying import commands_or_stop
from conformance.console import stop
from conformance.exit_codes import EXIT_CONFORMANT, EXIT_USAGE
from conformance.monitors import Breach
from conformance.report.listing import breach_text, frame_text, line
from refimpl.wire import decode_frame

Limits = dict[tuple[str, str], dict[Direction, int]]
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
    lister = _Lister(shown, _whole_until(pieces) if judged else {}, judged=judged)
    for row in defects:
        lister.take("", row)
    for source, row in rows_of(pieces):
        lister.take(source, row)
    if lister.judge is not None:
        lister.judge.ended()
        print(lister.judge.summary(), file=sys.stderr, flush=True)
    print(lister.summary(len(unread)), file=sys.stderr, flush=True)
    if lister.unreadable:
        stop(EXIT_USAGE, f"{file}: {lister.unreadable}")
    raise typer.Exit(lister.judge.code() if lister.judge is not None else EXIT_CONFORMANT)


def _check_order(pieces: Iterable[Piece]) -> None:
    """End unless it is known in which order both sides of a connection have spoken."""
    for piece in pieces:
        if piece.origin.connection is not None and not times_of(piece.path).is_file():
            stop(EXIT_USAGE, f"{piece.path}: can't be judged: when its bytes came was not noted in {times_of(piece.path).name}")


def _whole_until(pieces: Iterable[Piece]) -> Limits:
    """Find where connections in captures of packets begin to lack something.

    What follows a lost packet waits for it, so that frames of the other side come before it, and answer what nobody has asked.

    Returns:
        By source and connection: how many frames of a direction come before that. Of a connection of which one side is lacking, none do.
    """
    whole: Limits = {}
    for piece in pieces:
        if piece.origin.connection is not None or not is_packets(piece.path):
            continue
        frames: Counter[tuple[str, Direction]] = Counter()
        latest: dict[str, float] = {}
        limits: Limits = {}
        for row in piece.rows(MAX_FRAME_SIZE):
            connection, direction = row.origin.connection, row.origin.direction
            if connection is None or direction is None:
                continue
            time = latest.get(connection, -math.inf) if row.time is None else row.time
            late = time < latest.get(connection, -math.inf) and not frames[connection, direction]  # the capture has not the beginning
            latest[connection] = max(time, latest.get(connection, time))
            if late or row.corrupt is not None:
                limits.setdefault((_source(piece), connection), {}).setdefault(direction, frames[connection, direction])
            if row.corrupt is None:
                frames[connection, direction] += 1
        for connection, direction in frames:
            if not frames[connection, OTHER_SIDE[direction]]:
                limits.setdefault((_source(piece), connection), {})[direction] = 0
        whole |= limits
    return whole


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
            source = _source(piece)
            yield from ((source, row) for row in piece.rows(MAX_FRAME_SIZE))
    heap: list[tuple[float, int, FrameRow | None, Iterator[FrameRow]]] = [
        (-math.inf if piece.origin.started is None else piece.origin.started, number, None, piece.rows(MAX_FRAME_SIZE))
        for number, piece in enumerate(timed)
    ]
    heapq.heapify(heap)
    while heap:
        time, number, row, rows = heapq.heappop(heap)
        if row is not None:
            yield _source(timed[number]), row
        following = next(rows, None)
        if following is not None:
            heapq.heappush(heap, (time if following.time is None else following.time, number, following, rows))


def _source(piece: Piece) -> str:
    """Return the folder of a raw capture, in which a connection has two files, or the file."""
    return piece.origin.file if piece.origin.connection is None else str(PurePosixPath(piece.origin.file).parent)


class _Lister:
    """Prints rows.

    Args:
        commands: The commands that are listed; None: all.
        whole: How many frames of a direction come before its connection lacks something, where it does.
        judged: Whether the rows are judged.

    Attributes:
        judge: What judges them, if they are judged.
        unreadable: What is wrong with a file as a whole, if something is.
    """

    def __init__(self, commands: frozenset[str] | None, whole: Limits, *, judged: bool) -> None:
        self.judge = Judge(self._breach) if judged else None
        self._commands = commands
        self._left = whole
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
        if self.judge is not None:
            self.judge.gap(source, row.origin.connection or "")
        kind, _, text = row.corrupt.partition(": ")
        self._defects[kind] += 1
        where = row.origin.file if number is None else f"at byte {row.offset:,}"
        size = "" if row.size is None else f" ({row.size:,} bytes)"
        print(line(time, number, row.origin.direction, f"{where}: {kind}: {text}{size}"))
        if defect_class(row.corrupt) in UNREADABLE and self.unreadable is None:
            self.unreadable = f"{row.origin.file}: {text}"

    def _judge(self, source: str, row: FrameRow, time: float | None) -> None:
        if self.judge is None or row.origin.connection is None or row.origin.direction is None:
            return
        if time is None:
            self.judge.gap(source, row.origin.connection)
        else:
            self._note_what_lacks(self.judge, (source, row.origin.connection), row.origin.direction)
            self.judge.frame(source, row.origin.connection, row.origin.direction, decode_frame(row.data), time)

    def _note_what_lacks(self, judge: Judge, connection: tuple[str, str], direction: Direction) -> None:
        """From where a connection lacks something, let each frame be judged by what it says by itself."""
        left = self._left.get(connection)
        if left is None:
            return
        if 0 in left.values():
            judge.gap(*connection)
        elif direction in left:
            left[direction] -= 1

    def _breach(self, source: str, breach: Breach) -> None:
        print(line(breach.time, self._numbers[source, breach.connection], breach.side, breach_text(breach.clause, breach.text)))

    def summary(self, unread: int) -> str:
        """Say in a few words what there was."""
        parts = [f"{self._frames:,} frames in {len(self._numbers):,} connections"]
        parts += [f"{count:,} pieces that are no frame: {kind}" for kind, count in self._defects.items()]
        if unread:
            parts.append(f"{unread:,} files that were not read, because no index names them")
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
            print(line(time, self._numbers[key], None, f"is {origin.connection} in {source}"))
            if self.judge is not None and origin.started is not None:
                self.judge.opened(source, origin.connection)
        return self._numbers[key]
