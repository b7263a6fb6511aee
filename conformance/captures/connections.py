"""Frames in captures of packets: the two directions of each connection put together again, whatever happened to them on the way.

Segments may come twice, late, or overlap. What the capture lacks, because it began in the middle of a connection, dropped packets or cut
them short, hides the frames that it is in; reading goes on at the next place where frames follow each other.

Connections to a broker are those to port 6650, and to any other end to which a CONNECT was sent.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from bisect import insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import IO, cast

from conformance.captures.packets import ACK, SYN, Damaged, End, Segment, segments
from conformance.captures.rows import (
    CUT,
    KEPT,
    MAX_FRAME_SIZE,
    MISSING,
    OTHER_SIDE,
    PACKETS,
    TRUNCATED,
    Direction,
    FrameRow,
    Limited,
    Origin,
    Stream,
    header_defect,
)
from refimpl.wire import WireError, decode_frame

PORT = 6650
HELD = 8 << 20
"""So many bytes of a direction wait for those before them at most; then these are given up."""
_TURN = 1 << 32
_NEAR = 1 << 30
_GZIP = b"\x1f\x8b"
_CONNECT = b"\x08\x02\x12"
_FRAME_START = 9


def packet_rows(path: Path, name: str, length: int | None = None, limit: int = MAX_FRAME_SIZE) -> Iterator[FrameRow]:
    """Read the frames of a capture of packets, compressed or not.

    Args:
        path: The capture.
        name: Its name in the rows.
        length: Bytes of the file to read; None: its current length.
        limit: Size of the largest frame, in bytes.

    Yields:
        Frames in the order in which they were complete. If the capture is damaged, or has no connection to a broker, the last row says so.
    """
    try:
        size = path.stat().st_size if length is None else length
        with path.open("rb") as file:
            survey = _survey(_segments(file, size))
        damage = None
        with path.open("rb") as file:
            connections = _Connections(name, limit, survey.brokers)
            try:
                for segment in _segments(file, size):
                    yield from connections.receive(segment)
            except Damaged as error:
                damage = error
            yield from connections.end()
    except OSError as error:
        yield FrameRow(Origin(name), 0, 0, b"", corrupt=f"{MISSING}: {error.strerror or error}")
        return
    if damage is not None:
        kind = TRUNCATED if damage.ended and connections.found else PACKETS
        yield FrameRow(Origin(name), damage.offset, None, b"", corrupt=f"{kind}: {damage}")
    elif not connections.found:
        yield FrameRow(Origin(name), 0, None, b"", corrupt=f"{PACKETS}: {survey}")


def packet_defect(path: Path) -> str | None:
    """Look through a capture of packets; return what is wrong with it as a whole, if something is."""
    try:
        with path.open("rb") as file:
            survey = _survey(_segments(file, path.stat().st_size))
    except OSError as error:
        return error.strerror or str(error)
    if survey.damage is not None:
        return None if survey.damage.ended and survey.connections else f"at byte {survey.damage.offset:,}: {survey.damage}"
    return None if survey.connections else str(survey)


def _segments(file: IO[bytes], size: int) -> Iterator[Segment]:
    compressed = file.read(2) == _GZIP
    file.seek(0)
    limited = io.BufferedReader(Limited(file, size))
    try:
        yield from segments(io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=limited))) if compressed else limited)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise Damaged(0, f"the file can't be decompressed further: {error}") from None


WITH_TLS = " with TLS, which can't be read"


@dataclass
class _Survey:
    """What is in a capture: the ends that are brokers, connections to them, other ports, and what is wrong with it."""

    brokers: set[End] = field(default_factory=set)
    connections: bool = False
    ports: Counter[str] = field(default_factory=Counter)
    damage: Damaged | None = None

    def __str__(self) -> str:
        ports = [port for port, _ in self.ports.most_common() if port + WITH_TLS not in self.ports]
        others = ", ".join(ports[:5])
        where = f"TCP goes to {others}" if others else "there is no TCP in it"
        return f"no connection to a broker (port {PORT}, or one to which CONNECT is sent): {where}"


def _survey(found: Iterator[Segment]) -> _Survey:
    survey = _Survey()
    try:
        for segment in found:
            data, target = segment.data, segment.target
            if target.port == PORT or (data[8:11] == _CONNECT and header_defect(data[:4], MAX_FRAME_SIZE) is None):
                survey.brokers.add(target)
            if segment.source.port == PORT:
                survey.brokers.add(segment.source)
            if segment.flags & (SYN | ACK) == SYN:
                survey.ports[f"port {target.port}"] += 1
            elif data.startswith(b"\x16\x03"):
                survey.ports[f"port {min(target.port, segment.source.port)}{WITH_TLS}"] += 1
    except Damaged as error:
        survey.damage = error
    survey.connections = bool(survey.brokers)
    return survey


class _Connections:
    """All connections to brokers.

    Attributes:
        found: How many there were.
    """

    def __init__(self, name: str, limit: int, brokers: set[End]) -> None:
        self._name = name
        self._limit = limit
        self._brokers = brokers
        self._open: dict[tuple[End, End], _Connection] = {}
        self._times: Counter[tuple[End, End]] = Counter()
        self.found = 0

    def receive(self, segment: Segment) -> Iterator[FrameRow]:
        direction: Direction
        if segment.target in self._brokers and not (segment.source in self._brokers and segment.source.port == PORT):
            ends, direction = (segment.source, segment.target), "client"
        elif segment.source in self._brokers:
            ends, direction = (segment.target, segment.source), "broker"
        else:
            return
        connection = self._open.get(ends)
        if connection is not None and segment.flags & SYN and connection.sides[direction].is_another(segment.sequence + 1):
            yield from connection.end()
            connection = None
        if connection is None:
            connection = self._open[ends] = self._new(ends, segment)
        yield from connection.receive(segment, direction)

    def end(self) -> Iterator[FrameRow]:
        for connection in self._open.values():
            yield from connection.end()

    def _new(self, ends: tuple[End, End], segment: Segment) -> _Connection:
        self.found += 1
        self._times[ends] += 1
        client, broker = ends
        again = f" ({self._times[ends]})" if self._times[ends] > 1 else ""
        started = segment.time if segment.flags & SYN else None
        origin = Origin(self._name, f"{client}-{broker}{again}", None, started, str(broker))
        return _Connection(origin, self._limit)


class _Connection:
    def __init__(self, origin: Origin, limit: int) -> None:
        directions: tuple[Direction, Direction] = ("client", "broker")
        self.sides = {one: _Side(_Frames(replace(origin, direction=one), limit)) for one in directions}

    def receive(self, segment: Segment, direction: Direction) -> list[FrameRow]:
        side = self.sides[direction]
        sequence = segment.sequence
        rows: list[FrameRow] = []
        if segment.flags & SYN:
            sequence += 1
            rows += side.begin(sequence)
        if segment.flags & ACK:
            self.sides[OTHER_SIDE[direction]].arrived(segment.acknowledged)
            side.hear(segment.acknowledged)
        return rows + side.receive(sequence, segment)

    def end(self) -> list[FrameRow]:
        return [row for side in self.sides.values() for row in side.end()]


@dataclass(order=True)
class _Held:
    start: int
    number: int
    data: bytes = field(compare=False)
    time: float = field(compare=False)
    heard: int | None = field(compare=False)


class _Side:
    """The bytes of one direction, put in order.

    Places count from the first byte of the connection, or from the first byte that was captured if that is not known.
    """

    def __init__(self, frames: _Frames) -> None:
        self._frames = frames
        self._first: int | None = None  # sequence number of place 0
        self._exact = False  # whether that is where the connection begins
        self._place = 0
        self._last = 0
        self._held: list[_Held] = []
        self._size = 0
        self._number = 0
        self._opened = False  # whether its SYN was captured
        self._least: int | None = None  # the least number that it has acknowledged: in a whole connection that of the first byte
        self._heard = 0  # the most bytes of the other side that it has acknowledged

    def hear(self, acknowledged: int) -> None:
        """Take the number of the byte of the other side that its sender waits for."""
        if self._least is None or self._distance(acknowledged, self._least) < 0:
            self._least = acknowledged % _TURN
        self._heard = max(self._heard, self._place_of(acknowledged, self._least))

    def is_another(self, first: int) -> bool:
        """Tell whether a connection that begins with this sequence number is another one."""
        if self._first is None:
            return False
        if self._exact:
            return first % _TURN != self._first
        return not 0 <= self._distance(self._first + min([self._place, *(held.start for held in self._held)]), first) < HELD

    def begin(self, first: int) -> list[FrameRow]:
        """Take the sequence number of the first byte."""
        self._opened = True
        if self._exact:
            return []
        if self._first is not None:
            shift = self._distance(self._first, first)
            self._held = [replace(held, start=held.start + shift) for held in self._held]
            self._last += shift
        self._first, self._exact = first % _TURN, True
        return self._in_order()

    def receive(self, sequence: int, segment: Segment) -> list[FrameRow]:
        """Take the next segment that was captured."""
        if not segment.size:
            return []
        if self._first is None:
            self._first = sequence % _TURN
        start = self._place + self._distance(sequence, self._first + self._place)
        if abs(start - self._place) >= _NEAR:
            return [self._frames.astray(segment, max(0, start))]
        self._last = max(self._last, start + segment.size)
        if segment.data and (not self._exact or start + len(segment.data) > self._place):
            self._number += 1
            insort(
                self._held, _Held(start, self._number, segment.data, segment.time, segment.acknowledged if segment.flags & ACK else None)
            )
            self._size += len(segment.data)
        rows = self._in_order() if self._exact else []
        while self._size > HELD:
            rows += self._give_up()
        return rows

    def arrived(self, sequence: int) -> None:
        """Take the number behind the last byte that has arrived: what was not captured until the end is lacking."""
        if self._first is None:
            return
        end = self._place + self._distance(sequence, self._first + self._place)
        if 1 < end - self._last < HELD:  # one is that of the end of the connection, which counts like a byte
            self._last = end

    def end(self) -> list[FrameRow]:
        """Take what waits, with what is lacking in between, and end."""
        rows: list[FrameRow] = []
        while self._held:
            rows += self._give_up()
        if self._last > self._place:
            rows += self._frames.lack(self._last - self._place)
        return rows + self._frames.end()

    def _give_up(self) -> list[FrameRow]:
        """Go on at the first byte that is there."""
        start = self._held[0].start
        rows: list[FrameRow] = []
        if not self._exact:
            assert self._first is not None
            self._first, self._exact = (self._first + start) % _TURN, True
            self._held = [replace(held, start=held.start - start) for held in self._held]
            self._last -= start
            self._frames.join()
        elif start > self._place:
            rows += self._frames.lack(start - self._place)
            self._place = start
        return rows + self._in_order()

    def _in_order(self) -> list[FrameRow]:
        rows: list[FrameRow] = []
        done = 0
        for held in self._held:
            if held.start > self._place:
                break
            done += 1
            self._size -= len(held.data)
            data = held.data[self._place - held.start :]
            if data:
                self._place += len(data)
                rows += self._frames.feed(data, held.time, self._heard_by(held.heard))
        del self._held[:done]
        return rows

    def _heard_by(self, acknowledged: int | None) -> int | None:
        """Return how many bytes of the other side had come; None: the capture has not the beginning, from which they count."""
        if acknowledged is None or self._least is None or not self._opened:
            return None
        return self._place_of(acknowledged, self._least)

    def _place_of(self, acknowledged: int, least: int) -> int:
        return self._heard + self._distance(acknowledged, least + self._heard)

    @staticmethod
    def _distance(sequence: int, other: int) -> int:
        """Return how far a number is behind another one: numbers begin again after four GiB."""
        return (sequence - other + _TURN // 2) % _TURN - _TURN // 2


class _Frames:
    """The frames of one direction, also behind bytes that are lacking."""

    def __init__(self, origin: Origin, limit: int) -> None:
        self._origin = origin
        self._limit = limit
        self._stream: Stream | None = Stream(origin, limit)
        self._unread = FrameRow(origin, 0, 0, b"", corrupt=f"{CUT}: the capture begins inside a frame")
        self._search = _Search(limit)
        self._time: float | None = None
        self._heard: int | None = None

    def join(self) -> None:
        """Begin in the middle of the connection."""
        self._stream = None

    def feed(self, data: bytes, time: float | None, heard: int | None) -> list[FrameRow]:
        self._time, self._heard = time, heard
        if self._stream is not None:
            return self._stream.feed(data, time, heard)
        self._search.feed(data)
        return self._found(self._search.find())

    def astray(self, segment: Segment, place: int) -> FrameRow:
        """Return a segment that is too far from all others to belong to the connection."""
        why = f"{CUT}: a segment of {segment.size:,} bytes, a gigabyte or more from the others"
        return FrameRow(self._origin, place, segment.size, segment.data[:KEPT], segment.time, corrupt=why)

    def lack(self, size: int) -> list[FrameRow]:
        """Go on after bytes that are not there."""
        rows = self._found(self._search.find(final=True)) if self._stream is None else []
        if self._stream is None:
            data = self._search.take()
            self._skip(data, len(data) + size)
            return rows
        rows += self._stream.feed_cut(b"", size, b"", self._time)
        if self._stream.broken is not None and self._stream.broken.startswith(CUT):
            (self._unread,) = self._stream.end()
            self._stream = None
        return rows

    def end(self) -> list[FrameRow]:
        rows = self._found(self._search.find(final=True)) if self._stream is None else []
        if self._stream is not None:
            return rows + self._stream.end()
        data = self._search.take()
        self._skip(data, len(data))
        return rows + [self._unread] * bool(self._unread.size)

    def _found(self, place: int | None) -> list[FrameRow]:
        """Go on where the next frame begins."""
        if place is None:
            return []
        data = self._search.take()
        self._skip(data[:place], place)
        self._stream = Stream(self._origin, self._limit, self._unread.offset + (self._unread.size or 0))
        return [self._unread] * bool(self._unread.size) + self._stream.feed(data[place:], self._time)

    def _skip(self, data: bytes, size: int) -> None:
        kept = self._unread.data + data[: max(0, KEPT - len(self._unread.data))]
        self._unread = replace(self._unread, data=kept, size=(self._unread.size or 0) + size, time=self._time)


class _Search:
    """Looks for the beginning of a frame: two frames in a row, or one at the very end."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self._open: list[int] = []  # where there may be one, of which too little is there
        self._place = 0

    def feed(self, data: bytes) -> None:
        self._data += data

    def take(self) -> bytes:
        """Take all bytes out."""
        data = bytes(self._data)
        self._data, self._open, self._place = bytearray(), [], 0
        return data

    def find(self, *, final: bool = False) -> int | None:
        """Return the place of the first frame, if it is there; `final`: nothing will follow."""
        last = max(0, len(self._data) - _FRAME_START + 1)
        new = [match.start() for match in _starts(self._limit >> 24).finditer(self._data, self._place)]
        self._place = max(self._place, last)
        candidates, self._open = [*self._open, *new], []
        for place in candidates:
            verdict = self._judge(place, final)
            if verdict is True:
                return place
            if verdict is None:
                self._open.append(place)
        return None

    def _judge(self, place: int, final: bool) -> bool | None:
        """Tell whether frames begin there; None: later bytes tell."""
        frames = 0
        while frames < 2:
            if place == len(self._data):
                return True if final and frames else None
            end = self._frame_end(place)
            if end is None:
                return True if final and frames else None
            if end == 0:
                return False
            frames += 1
            if end > len(self._data):
                return True if final or frames == 2 else None
            place = end
        return True

    def _frame_end(self, place: int) -> int | None:
        """Return where the frame there ends; 0: it is none; None: its command is not complete."""
        header = bytes(self._data[place : place + 8])
        if len(header) < 8:
            return None
        size, own = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")
        if header_defect(header[:4], self._limit) is not None or not 2 <= own <= size - 4:
            return 0
        command = self._data[place + 8 : place + 8 + own]
        if len(command) < own:
            return None
        try:
            decode_frame((own + 4).to_bytes(4, "big") + header[4:] + command)
        except WireError:
            return 0
        return place + 4 + size


@cache
def _starts(top: int) -> re.Pattern[bytes]:
    high = re.escape(bytes([min(top, 255)]))
    return re.compile(rb"(?s)(?=[\x00-" + high + rb"]...[\x00-" + high + rb"]...\x08)")
