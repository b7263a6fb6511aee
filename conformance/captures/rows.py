"""A stream of bytes in one direction of one connection, cut at the borders of frames: one row for each frame.

Bytes that are not a frame are a row too. Its `corrupt` starts with a class:

    header     the total size is impossible: no frame can be found from here on, and the row is the rest of the stream
    truncated  the stream ends inside a frame
    refused    the size is right, but the strict decoder refuses the content of the frame; the stream continues after it
    cut        the capture lacks bytes of it: an event log keeps only the first and last bytes of a long send, packets may be missing
    shrunk     the file is shorter than when the read began
    log        a line is not a record of an event log: the row is the rest of the log
    index      a line of the index is not an entry
    missing    the index names a file that is not there or can't be read
    packets    a capture of packets is damaged, or has no connection to a broker
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import IO, Literal

from refimpl.wire import DEFAULT_MAX_FRAME_SIZE, FrameDecoder, WireError, command_name, decode_frame

Direction = Literal["client", "broker"]
OTHER_SIDE: dict[Direction, Direction] = {"client": "broker", "broker": "client"}
HEADER, TRUNCATED, REFUSED, CUT = "header", "truncated", "refused", "cut"
SHRUNK, LOG, BAD_INDEX, MISSING, PACKETS = "shrunk", "log", "index", "missing", "packets"

MAX_FRAME_SIZE = 8 * DEFAULT_MAX_FRAME_SIZE
"""Bytes of the largest frame that is read. A broker does not cap the topic lists that it writes, so this is well above the usual limit."""
KEPT = 4096
"""So many bytes are kept of what is no frame."""
_HEADER = 4
_FOREIGN = {
    b"\xd4\xc3\xb2\xa1": "a pcap file",
    b"\xa1\xb2\xc3\xd4": "a pcap file",
    b"\x0a\x0d\x0d\x0a": "a pcapng file",
    b"\x16\x03": "TLS",
    b"\x1f\x8b": "a gzip file",
    b"GET ": "HTTP",
    b"POST": "HTTP",
    b"HTTP": "HTTP",
}
"""How bytes start that are taken for a capture by mistake."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a stream comes from.

    Attributes:
        file: Relative to the corpus that was read.
        connection: Its name; None in a row about a file as a whole.
        direction: Who sent the bytes; None in a row about a file as a whole.
        started: When the connection was opened, in seconds on the clock of the capture, if that is known.
        target: What the client talked to, such as `apache-pulsar@4.2.4`, if that is known.
        release: Its release, if that is known.
        index: The index of the raw capture that names the file, relative to the corpus; None: none does.
    """

    file: str
    connection: str | None = None
    direction: Direction | None = None
    started: float | None = None
    target: str | None = None
    release: str | None = None
    index: str | None = None

    @property
    def source(self) -> str:
        """In what names of connections are unique: the folder of a raw capture, where each direction has a file of its own, or the file."""
        return self.file if self.index is None else str(PurePosixPath(self.index).parent)


@dataclass(frozen=True, slots=True)
class FrameRow:
    """One frame, or a piece that is not a frame.

    Attributes:
        origin: The stream.
        offset: Of its first byte in the stream; in a row about a log or an index, in that file (decompressed).
        size: Bytes from there; None where it is not known.
        data: The whole frame; of a piece that is not a frame, at most the first 4,096 bytes that are there.
        time: When its last byte was seen, in seconds on the clock of the capture, if that is known.
        command: Such as `watchTopicList`; None for a piece that is not a frame.
        corrupt: None for a frame, else a class, a colon, and what is wrong.
        heard: How many bytes of the other side its sender had got when it sent the first byte, as TCP acknowledges them; None: not known.
    """

    origin: Origin
    offset: int
    size: int | None
    data: bytes
    time: float | None = None
    command: str | None = None
    corrupt: str | None = None
    heard: int | None = None


def defect_class(corrupt: str) -> str:
    """Return the class at the start of `corrupt`."""
    return corrupt.partition(":")[0]


def looks_like(start: bytes) -> str:
    """Return a remark about what a stream is that starts so, in parentheses behind a space; empty if that is not known."""
    kind = next((name for magic, name in _FOREIGN.items() if start.startswith(magic)), None)
    return "" if kind is None else f" (this looks like {kind})"


def header_defect(header: bytes, limit: int) -> str | None:
    """Return the error in the first four bytes of a frame, in the words of the frame decoder; None if there is none.

    Args:
        header: Those four bytes.
        limit: Size of the largest frame, in bytes.
    """
    if 8 <= _HEADER + int.from_bytes(header, "big") <= limit:
        return None
    try:
        FrameDecoder(limit).receive(header)
    except WireError as error:
        return error.reason
    return None


class Limited(io.RawIOBase):
    """The first bytes of a file, and no more even if it grows."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self.left = size

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read the next bytes."""
        data = self._file.read(min(len(buffer), self.left))
        buffer[: len(data)] = data
        self.left -= len(data)
        return len(data)


class Stream:
    """Turns the bytes of one direction of one connection into rows, in pieces of any size.

    Attributes:
        broken: What makes the rest unreadable; None while frames can be found.
    """

    def __init__(self, origin: Origin, limit: int = MAX_FRAME_SIZE, offset: int = 0) -> None:
        self.origin = origin
        self.broken: str | None = None
        self._limit = limit
        self._offset = offset
        self._pending = bytearray()
        self._hidden = 0  # bytes of the frame at the front that the log did not keep
        self._rest = 0  # bytes of all the rest, once the stream is broken
        self._time: float | None = None
        self._heard: int | None = None  # of the frame at the front

    def feed(self, data: bytes, time: float | None = None, heard: int | None = None) -> list[FrameRow]:
        """Take the next bytes; return the rows that are now complete.

        Args:
            data: The bytes.
            time: When they were seen.
            heard: What their sender had got by then, see `FrameRow`.
        """
        if self.broken is not None:
            self._rest += len(data)
            self._pending += data[: max(0, KEPT - len(self._pending))]
            return []
        if not self._pending:
            self._heard = heard
        self._pending += data
        self._time = time
        rows: list[FrameRow] = []
        place = 0
        defect = None
        while len(self._pending) - place >= _HEADER:
            header = bytes(self._pending[place : place + _HEADER])
            defect = header_defect(header, self._limit)
            if defect is not None:
                break
            size = _HEADER + int.from_bytes(header, "big")
            kept = size - self._hidden
            if kept > len(self._pending) - place:
                break
            rows.append(self._frame(bytes(self._pending[place : place + kept]), size))
            place += kept
            self._offset += size
            self._hidden = 0
            self._heard = heard
        del self._pending[:place]
        if defect is not None:
            self._break(f"{HEADER}: {defect}{self._foreign()}")
        return rows

    def feed_cut(self, head: bytes, hidden: int, tail: bytes, time: float | None = None) -> list[FrameRow]:
        """Take bytes whose middle is unknown.

        A frame that holds all of the unknown bytes is one row, and the stream continues after it. If one ends among them, or the size of
        one is among them, no frame can be found in the rest.
        """
        rows = self.feed(head, time)
        if self.broken is None:
            size = _HEADER + int.from_bytes(self._pending[:_HEADER], "big") if len(self._pending) >= _HEADER else 0
            if size < len(self._pending) + self._hidden + hidden:
                self._break(f"{CUT}: the capture lacks {hidden:,} bytes, among which a frame ends")
            else:
                self._hidden += hidden
        if self.broken is not None:
            self._rest += hidden
        return rows + self.feed(tail, time)

    def skip(self, size: int) -> None:
        """Count bytes without reading them, because the stream is broken."""
        self._rest += size

    def end(self, shrunk: str | None = None) -> list[FrameRow]:
        """Return the last row, if something is left over.

        Args:
            shrunk: If the stream ends before its time: how it does.
        """
        size = len(self._pending) + self._hidden if self.broken is None else self._rest
        corrupt = self.broken
        if corrupt is None and shrunk is not None:
            corrupt = f"{SHRUNK}: {shrunk}"
        if corrupt is None and size:
            corrupt = f"{TRUNCATED}: the stream ends {size:,} bytes into a frame{self._expected()}"
        if corrupt is None:
            return []
        return [FrameRow(self.origin, self._offset, size, bytes(self._pending[:KEPT]), self._time, corrupt=corrupt)]

    def _frame(self, data: bytes, size: int) -> FrameRow:
        row = FrameRow(self.origin, self._offset, size, data, self._time, heard=self._heard)
        if self._hidden:
            text = f"{CUT}: the capture lacks {self._hidden:,} of {size:,} bytes"
            return replace(row, data=data[:KEPT], corrupt=text)
        try:
            return replace(row, command=command_name(decode_frame(data).command))
        except WireError as error:
            return replace(row, corrupt=f"{REFUSED}: {error}")

    def _break(self, why: str) -> None:
        self.broken = why
        self._rest = len(self._pending) + self._hidden
        del self._pending[KEPT:]

    def _foreign(self) -> str:
        return looks_like(bytes(self._pending[:_HEADER])) if self._offset == 0 else ""

    def _expected(self) -> str:
        return f" of {_HEADER + int.from_bytes(self._pending[:_HEADER], 'big'):,}" if len(self._pending) >= _HEADER else ""
