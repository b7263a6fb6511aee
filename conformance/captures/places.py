"""Where captures are: everything that can be read under a path, looked at before frames are read.

A path may be an event log (`.jsonl`), a capture of packets (`.pcap`, `.pcapng` or `.cap`), each also with `.gz`, a folder with
`index.jsonl` (a raw capture), or a folder with any of these in it, at any depth.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from errno import EACCES, EISDIR, EXDEV
from pathlib import Path
from stat import S_ISREG

from conformance.captures.connections import packet_defect, packet_rows
from conformance.captures.errors import CaptureError
from conformance.captures.logs import log_rows
from conformance.captures.raw import INDEX, Entry, borders, part_rows, read_index
from conformance.captures.rows import MAX_FRAME_SIZE, MISSING, FrameRow, Origin
from conformance.captures.times import times_defect, times_of

RECORDINGS = Path(__file__).parents[1] / "recordings"
"""Those of this suite: `conformance.running.recorder.HOME`, which takes much longer to import than a task of Spark takes to start."""
_LOG_ENDINGS = (".jsonl", ".jsonl.gz")
_PACKET_ENDINGS = tuple(f"{kind}{packed}" for kind in (".pcap", ".pcapng", ".cap") for packed in ("", ".gz"))
_KNOWN = ", ".join((_LOG_ENDINGS[0], *_PACKET_ENDINGS[::2])) + ", each also with .gz"
_GZIP_WEIGHT = 12
"""A byte of a compressed log is so many bytes to read: what the recordings of this suite come to."""


@dataclass(frozen=True)
class Piece:
    """Something to read: an event log, a capture of packets, or a part of a file of bytes.

    Attributes:
        path: Where it is.
        origin: What the rows say of it; for a log or packets just its name.
        start: First byte.
        end: Byte after the last.
    """

    path: Path
    origin: Origin
    start: int
    end: int

    @property
    def weight(self) -> int:
        """How much it is to read, in bytes."""
        return (self.end - self.start) * (_GZIP_WEIGHT if self.path.suffix == ".gz" else 1)

    def rows(self, limit: int) -> Iterator[FrameRow]:
        """Read it."""
        if self.origin.connection is None:
            if is_packets(self.path):
                return packet_rows(self.path, self.origin.file, self.end, limit)
            return log_rows(self.path, self.origin.file, self.end, limit)
        return part_rows(self.path, self.origin, self.start, self.end, limit)


def capture_path(text: str) -> Path:
    """Return where a corpus is; the recordings of this suite if the text is empty.

    Raises:
        CaptureError: It is not a path of the file system, or there is nothing.
    """
    scheme, separator, rest = text.partition(":")
    if separator and scheme == "file":
        text = "/" + rest.lstrip("/")
    elif separator and rest.startswith("//"):
        raise CaptureError(f"{text}: captures are read from the file system; copy it, or mount it on each node")
    path = Path(text) if text else RECORDINGS
    try:
        there = path.exists()
    except OSError as error:
        raise CaptureError(f"{path}: {error.strerror}") from None
    if not there:
        raise CaptureError(f"{path}: there is no such file or folder")
    if not path.is_file() and not path.is_dir():
        raise CaptureError(f"{path}: is neither a file nor a folder")
    return path


def find_pieces(home: Path, part: int, limit: int) -> tuple[list[Piece], list[FrameRow]]:
    """Look for everything that can be read under a path.

    Args:
        home: The path.
        part: Bytes after which a large file of bytes is divided.
        limit: Size of the largest frame, in bytes.

    Returns:
        Pieces, in the order of their names, and rows about indexes that are not right.

    Raises:
        CaptureError: There is nothing to read.
    """
    if home.is_file() and home.name != INDEX:
        if not home.name.endswith((*_LOG_ENDINGS, *_PACKET_ENDINGS)):
            what = f"neither an event log nor a capture of packets ({_KNOWN})"
            raise CaptureError(f"{home}: is {what}; a file of bytes needs a folder with an {INDEX}")
        return [_whole(home, home.name)], []
    folder = home.parent if home.is_file() else home
    for path in (folder, *folder.rglob("*")):
        if path.is_dir() and not os.access(path, os.R_OK | os.X_OK):
            raise CaptureError(f"{path}: can't be read: Permission denied")
    pieces: list[Piece] = []
    rows: list[FrameRow] = []
    for index in sorted(folder.rglob(INDEX)):
        prefix = "" if index.parent == folder else f"{_name(index.parent, folder)}/"
        for found in read_index(index.parent, prefix):
            if isinstance(found, Entry):
                _add_file(index.parent, found.file, found.origin(prefix), (part, limit), pieces, rows)
            else:
                rows.append(found)
    known = {piece.path for piece in pieces}
    others = (path for path in sorted(folder.rglob("*")) if _is_whole(path) and path not in known)
    pieces += [_whole(path, _name(path, folder)) for path in others]
    if not pieces and not rows:
        lacks = f"there is no {INDEX} with entries, no event log and no capture of packets ({_KNOWN})"
        what = lacks if any(folder.iterdir()) else "it is empty"
        raise CaptureError(f"{folder}: no capture to read: {what}")
    return pieces, rows


def unread_files(text: str) -> list[Path]:
    """Return what is in the folder of a capture and is not read: files that no index names, links to folders, and what is no file.

    Args:
        text: The path, as for `capture_path`.
    """
    home = capture_path(text)
    if home.is_file() and home.name != INDEX:
        return []
    folder = home.parent if home.is_file() else home
    read = {piece.path for piece in find_pieces(home, sys.maxsize, MAX_FRAME_SIZE)[0]}
    times = {times_of(path) for path in read}
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path not in read and path not in times and path.name != INDEX and (path.is_symlink() or not path.is_dir())
    ]


def check_capture(text: str) -> None:
    """Look at the files of a capture, before anything is done with the frames in them.

    Args:
        text: The path, as for `capture_path`.

    Raises:
        CaptureError: A file is missing or damaged, or a line of an index is not right. What a stream holds is not looked at.
    """
    home = capture_path(text)
    pieces, rows = find_pieces(home, sys.maxsize, MAX_FRAME_SIZE)
    folder = home.parent if home.is_file() else home
    defects = [f"{folder / row.origin.file}: {_defect(row)}" for row in rows]
    for piece in pieces if text else ():  # the recordings of this suite are as they are
        if piece.origin.connection is None:
            found = packet_defect(piece.path) if is_packets(piece.path) else _log_defect(piece)
            defects += [f"{piece.path}: {found}"] * (found is not None)
        elif (found := times_defect(piece.path)) is not None:
            defects.append(f"{times_of(piece.path)}: {found}")
    if defects:
        more = f" (and {len(defects) - 1} more)" if len(defects) > 1 else ""
        raise CaptureError(f"{defects[0]}{more}")


def _defect(row: FrameRow) -> str:
    return (row.corrupt or "").partition(": ")[2]


def _log_defect(piece: Piece) -> str | None:
    if not piece.end:
        return "the log is empty"
    return next((_defect(row) for row in piece.rows(MAX_FRAME_SIZE) if row.origin.connection is None), None)


def _name(path: Path, folder: Path) -> str:
    """Return the name of a file in the rows; what is not UTF-8 in it is escaped."""
    return path.relative_to(folder).as_posix().encode(errors="surrogateescape").decode(errors="backslashreplace")


def _is_whole(path: Path) -> bool:
    """Tell whether it is read without an index."""
    return path.name.endswith((*_LOG_ENDINGS, *_PACKET_ENDINGS)) and path.name != INDEX and path.is_file()


def is_packets(path: Path) -> bool:
    """Tell whether a file is a capture of packets, by its name."""
    return path.name.endswith(_PACKET_ENDINGS)


def _whole(path: Path, name: str) -> Piece:
    return Piece(path, Origin(name), 0, path.stat().st_size)


def _add_file(folder: Path, name: str, origin: Origin, sizes: tuple[int, int], pieces: list[Piece], rows: list[FrameRow]) -> None:
    path = folder / name
    try:
        status = path.stat()
        if not path.resolve().is_relative_to(folder.resolve()):
            raise OSError(EXDEV, "it is a link out of the folder")
        if not S_ISREG(status.st_mode):
            raise OSError(EISDIR, "it is no ordinary file")
        if not os.access(path, os.R_OK):
            raise OSError(EACCES, "Permission denied")
        length = status.st_size  # taken once: later growth of the file is not read
        parts = borders(path, length, *sizes) if length > sizes[0] else [(0, length)]
    except OSError as error:
        rows.append(FrameRow(origin, 0, 0, b"", corrupt=f"{MISSING}: the index names this file: {error.strerror or error}"))
        return
    pieces += [Piece(path, origin, start, end) for start, end in parts]
