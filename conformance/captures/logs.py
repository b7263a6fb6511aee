"""The frames in event logs: recordings and `events.jsonl`, compressed or not.

The client's bytes are joined from the sends of a conversation, since a case may send half a frame or several at once; what the
broker sent is in the log frame by frame.
"""

from __future__ import annotations

import gzip
import io
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from conformance.captures.rows import KEPT, LOG, MAX_FRAME_SIZE, MISSING, TRUNCATED, Direction, FrameRow, Limited, Origin, Stream
from conformance.engine import log

_LONGEST_LINE = 3 * MAX_FRAME_SIZE
"""Bytes: twice those of the largest frame, since they are hexadecimal, and room for the rest of the record."""
_GZIP = b"\x1f\x8b"


def log_rows(path: Path, name: str, length: int | None = None, limit: int = MAX_FRAME_SIZE) -> Iterator[FrameRow]:
    """Read the frames of an event log.

    Args:
        path: The log.
        name: Its name in the rows.
        length: Bytes of the file to read; None: its current length.
        limit: Size of the largest frame, in bytes.

    Yields:
        Frames in the order in which they were complete. If the log itself is damaged, the last row says where.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size if length is None else length
            yield from _Log(name, limit).rows(_Lines(file, name, size))
    except OSError as error:
        yield FrameRow(Origin(name), 0, 0, b"", corrupt=f"{MISSING}: {error.strerror or error}")


class _Lines:
    """The lines of a log, with the position of the current one.

    Attributes:
        offset: Of the line that was given last, in the decompressed log.
        line: That line.
        cut: What is wrong, if the log ends inside a line or can't be decompressed.
    """

    def __init__(self, file: IO[bytes], name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._compressed = file.read(2) == _GZIP
        file.seek(0)
        limited = io.BufferedReader(Limited(file, size))
        self._file = cast(IO[bytes], gzip.GzipFile(fileobj=limited) if self._compressed else limited)
        self.offset = 0
        self.line = b""
        self.cut: str | None = None

    def __iter__(self) -> Iterator[str]:
        number = 0
        while True:
            number += 1
            self.offset += len(self.line)
            self.line = b""
            try:
                self.line = self._file.readline(_LONGEST_LINE)
            except (EOFError, OSError, zlib.error) as error:
                self.cut = f"{TRUNCATED}: the log can't be decompressed further: {error}"
                return
            if not self.line:
                return
            if not self.line.endswith(b"\n"):
                self.cut = f"{TRUNCATED}: the log ends inside line {number:,}"
                return
            try:
                yield self.line.decode()
            except UnicodeDecodeError:
                raise log.LogError(f"{self._name}:{number}: not a record of an event log (not UTF-8)") from None

    @property
    def left(self) -> int | None:
        """Bytes from the line that was given last to the end; None in a compressed log."""
        return None if self._compressed else self._size - self.offset


class _Log:
    """Turns the records of one log into rows, conversation by conversation."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._origin = Origin(name)
        self._trial_logs: dict[str, dict[tuple[str, Direction], Stream]] = {}
        self._opened: dict[str, dict[str, tuple[int, float]]] = {}

    def rows(self, lines: _Lines) -> Iterator[FrameRow]:
        corrupt = None
        try:
            for number, record in enumerate(log.load(lines, self._name), 1):
                try:
                    yield from self._record(record, number)
                except ValueError as error:
                    if isinstance(error, log.LogError):
                        raise
                    raise log.LogError(f"{self._name}:{number}: the bytes of a {record.record} are not hexadecimal") from None
            corrupt = lines.cut
        except log.LogError as error:
            corrupt = f"{LOG}: {error}"
        for key in list(self._trial_logs):
            yield from self._finished(key)
        if corrupt is not None:
            yield FrameRow(self._origin, lines.offset, lines.left, lines.line[:KEPT], corrupt=corrupt)

    def _record(self, record: log.Record, number: int) -> list[FrameRow]:
        if number == 1:
            if not isinstance(record, log.Header):
                raise log.LogError(f"{self._name}: no header: this is no event log, or its first line is lost")
            if record.format != log.FORMAT:
                raise log.LogError(f"{self._name}: format {record.format}; this version reads {log.FORMAT}")
            self._origin = Origin(self._name, target=record.target, release=record.release)
        if not math.isfinite(getattr(record, "t", 0.0)):
            raise log.LogError(f"{self._name}:{number}: the time of a {record.record} is no number")
        if isinstance(record, log.Begin) and record.at is not None:
            return self._begin(record, record.at, number)
        if isinstance(record, log.Frame | log.Garbage):
            return self._stream(record.key, record.at, "broker").feed(bytes.fromhex(record.data), record.t)
        if isinstance(record, log.Answer):
            return self._stream(record.key, record.at, "client").feed(bytes.fromhex(record.data), record.t)
        if isinstance(record, log.Finished):
            return self._finished(record.key)
        return []

    def _begin(self, record: log.Begin, at: str, number: int) -> list[FrameRow]:
        if record.what == "open":
            opened = self._opened.setdefault(record.key, {})
            times, _ = opened.get(at, (0, 0.0))
            rows = self._ended(record.key, at, "client") + self._ended(record.key, at, "broker")
            opened[at] = times + 1, record.t
            return rows
        if record.what != "send" or record.data is None:
            return []
        stream = self._stream(record.key, at, "client")
        head, cut, tail = record.data.partition("..")
        if not cut:
            return stream.feed(bytes.fromhex(head), record.t)
        first, last = bytes.fromhex(head), bytes.fromhex(tail)
        hidden = (record.size or 0) - len(first) - len(last)
        if hidden < 0:
            raise log.LogError(f"{self._name}:{number}: a send of {record.size or 0:,} bytes of which more are there")
        return stream.feed_cut(first, hidden, last, record.t)

    def _stream(self, key: str, at: str, direction: Direction) -> Stream:
        streams = self._trial_logs.setdefault(key, {})
        if (at, direction) not in streams:
            times, started = self._opened.get(key, {}).get(at, (1, None))
            connection = f"{key} {at}" if times == 1 else f"{key} {at} ({times})"
            origin = Origin(self._name, connection, direction, started, self._origin.target, self._origin.release)
            streams[at, direction] = Stream(origin, self._limit)
        return streams[at, direction]

    def _ended(self, key: str, at: str, direction: Direction) -> list[FrameRow]:
        stream = self._trial_logs.get(key, {}).pop((at, direction), None)
        return [] if stream is None else stream.end()

    def _finished(self, key: str) -> list[FrameRow]:
        streams = self._trial_logs.pop(key, {})
        self._opened.pop(key, None)
        return [row for stream in streams.values() for row in stream.end()]
