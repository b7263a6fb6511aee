"""Raw captures: a folder with `index.jsonl` and one file of bytes for each connection and direction.

    {"connection": "10.0.0.7:51000", "direction": "client", "file": "1.client", "start": 0.25}
    {"connection": "10.0.0.7:51000", "direction": "broker", "file": "1.broker", "start": 0.25}

A file holds what one side sent, from the first byte of the connection, without anything between the frames. A large one is divided at the
borders of frames, which one pass from size to size finds. When the bytes came may be noted beside it (`times`).
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conformance.captures.errors import CaptureError
from conformance.captures.rows import (
    BAD_INDEX,
    CUT,
    KEPT,
    MAX_FRAME_SIZE,
    MISSING,
    Direction,
    FrameRow,
    Origin,
    Stream,
    defect_class,
    header_defect,
)
from conformance.captures.times import with_times

INDEX = "index.jsonl"
_HEADER = 4
_PIECE = 1 << 20
WINDOW = 1 << 16
"""Bytes in which the borders of frames are looked for at once."""


class Entry(BaseModel):
    """One line of an index: one file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    connection: str = Field(min_length=1, description="name of the connection, the same for both directions")
    direction: Direction = Field(description="who sent the bytes")
    file: str = Field(min_length=1, description="where they are, relative to the folder")
    start: float | None = Field(
        default=None, strict=True, allow_inf_nan=False, description="when the connection was opened, in seconds on any one clock"
    )
    target: str | None = Field(default=None, description="what the client talked to")
    release: str | None = Field(default=None, description="its release")

    def origin(self, prefix: str = "") -> Origin:
        """Return where the rows of the file come from; `prefix` is the folder, relative to the corpus, with a slash."""
        return Origin(prefix + self.file, self.connection, self.direction, self.start, self.target, self.release, prefix + INDEX)


@dataclass(frozen=True)
class Written:
    """The result of writing: numbers of streams and frames, and of rows that were left out because their bytes are unknown."""

    streams: int
    frames: int
    left_out: int


def read_index(folder: Path, prefix: str = "") -> Iterator[Entry | FrameRow]:
    """Read the index of a folder.

    Args:
        folder: The capture.
        prefix: Prefix of its files in rows.

    Yields:
        An entry for each file; a row for each line that is not an entry, names a place outside the folder or repeats a stream.

    Raises:
        CaptureError: There is no index.
    """
    path = folder / INDEX
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CaptureError(f"{path}: {error.strerror}; a raw capture needs an index: a line for each file of bytes") from None
    offset = 0
    seen: set[tuple[str, str]] = set()
    files: set[PurePosixPath] = set()
    for number, line in enumerate(data.splitlines(keepends=True), 1):  # of which the first may begin with a mark of UTF-8
        if line.strip():
            try:
                entry = _entry(line.removeprefix(BOM_UTF8) if number == 1 else line)
                if (entry.connection, entry.direction) in seen:
                    raise ValueError(f"the {entry.direction} of {entry.connection} has a file already")
                if PurePosixPath(entry.file) in files:
                    raise ValueError(f"{entry.file} is the file of another direction")
                seen.add((entry.connection, entry.direction))
                files.add(PurePosixPath(entry.file))
                yield entry
            except ValueError as error:
                corrupt = f"{BAD_INDEX}: line {number}: {error}"
                yield FrameRow(Origin(prefix + INDEX), offset, len(line), line[:KEPT], corrupt=corrupt)
        offset += len(line)


def _entry(line: bytes) -> Entry:
    try:
        entry = Entry.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{where}: {first['msg']}" if where else first["msg"]) from None
    json.loads(line, object_pairs_hook=_once)
    file = PurePosixPath(entry.file)
    if file.is_absolute() or ".." in file.parts:
        raise ValueError(f"{entry.file} is outside the folder")
    if "\0" in entry.file:
        raise ValueError(f"{entry.file!r} is no name of a file")
    return entry


def _once(pairs: list[tuple[str, Any]]) -> None:
    """Refuse an object in which a key is there more than once."""
    for key, count in Counter(key for key, _ in pairs).items():
        if count > 1:
            raise ValueError(f"{key} is there {count} times")


def borders(path: Path, length: int, part: int, limit: int = MAX_FRAME_SIZE) -> list[tuple[int, int]]:
    """Divide a file at the borders of frames; of large frames only the sizes are read.

    Args:
        path: The file.
        length: Bytes of it that are read, however many it has.
        part: Bytes after which the next part begins.
        limit: Size of the largest frame, in bytes.

    Returns:
        Start and end of each part. From an impossible header on, everything is one part, with the frames before it.
    """
    starts = [0]
    with path.open("rb", buffering=0) as file:
        window, first, place = b"", 0, 0
        while place + _HEADER <= length:
            if not first <= place <= first + len(window) - _HEADER:
                file.seek(place)
                first, window = place, file.read(min(WINDOW, length - place))
                if len(window) < _HEADER:
                    break
            header = window[place - first : place - first + _HEADER]
            if header_defect(header, limit) is not None:
                break
            place += _HEADER + int.from_bytes(header, "big")
            if place - starts[-1] >= part and place < length:
                starts.append(place)
    return list(zip(starts, [*starts[1:], length], strict=True))


def part_rows(path: Path, origin: Origin, start: int, end: int, limit: int = MAX_FRAME_SIZE) -> Iterator[FrameRow]:
    """Read the frames of a part of a file.

    Args:
        path: The file.
        origin: What the rows say of it.
        start: Offset of the first frame.
        end: Byte after the part; what the file has grown by since is not read.
        limit: Size of the largest frame, in bytes.
    """
    yield from with_times(path, _part_rows(path, origin, start, end, limit))


def _part_rows(path: Path, origin: Origin, start: int, end: int, limit: int) -> Iterator[FrameRow]:
    stream = Stream(origin, limit, start)
    place = start
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(start)
            while place < end and stream.broken is None:
                data = file.read(min(_PIECE, end - place))
                if not data:
                    break
                place += len(data)
                yield from stream.feed(data)
    except OSError as error:
        yield FrameRow(origin, start, None, b"", corrupt=f"{MISSING}: {error.strerror or error}")
        return
    if stream.broken is not None:
        stream.skip(end - place)
    yield from stream.end(f"{end:,} bytes were there when the read began, and {place:,} are left" if place < end else None)


def new_folder(folder: Path) -> None:
    """Make the folder of a capture.

    Raises:
        CaptureError: It can't be made, or is not empty.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CaptureError(f"{folder}: can't be made: {error.strerror}") from None
    if any(folder.iterdir()):
        raise CaptureError(f"{folder}: is not empty; a capture is written into a folder of its own")


def write_capture(folder: Path, rows: Iterable[FrameRow]) -> Written:
    """Write rows as a raw capture, such as those of a recording.

    Args:
        folder: Where to; made if it is not there. The index comes last: without it the capture is not complete.
        rows: Those of each stream in their order; streams may be mixed.

    Raises:
        CaptureError: The folder is not empty.
    """
    new_folder(folder)
    entries: dict[tuple[str, str | None, str | None], Entry] = {}
    connections: dict[tuple[str, str | None], int] = {}
    frames = left_out = 0
    for row in rows:
        origin = row.origin
        if origin.direction is None or (row.corrupt is not None and defect_class(row.corrupt) == CUT):
            left_out += 1
            continue
        frames += row.corrupt is None
        key = origin.file, origin.connection, origin.direction
        if key not in entries:
            number = connections.setdefault(key[:2], len(connections) + 1)
            entries[key] = _named(origin, number)
        with (folder / entries[key].file).open("ab") as file:
            file.write(row.data)
    text = "".join(json.dumps(entry.model_dump(exclude_none=True), ensure_ascii=False) + "\n" for entry in entries.values())
    new = folder / f".{INDEX}"
    new.write_text(text, encoding="utf-8")
    new.replace(folder / INDEX)
    return Written(len(entries), frames, left_out)


def _named(origin: Origin, number: int) -> Entry:
    assert origin.direction is not None
    return Entry(
        connection=f"{origin.file} {origin.connection}",
        direction=origin.direction,
        file=f"{number:05}.{origin.direction}",
        start=origin.started,
        target=origin.target,
        release=origin.release,
    )
