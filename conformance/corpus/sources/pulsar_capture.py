"""The data source `pulsar_capture`: the frames of recordings, of event logs and of raw captures, one row each.

What `path` may be: an event log (`.jsonl`), a capture of packets (`.pcap`, `.pcapng` or `.cap`), each also with `.gz`, a folder with
`index.jsonl` (a raw capture), or a folder with any of these in it, at any depth. On a cluster each node has to see it under the same path.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from errno import EISDIR
from pathlib import Path
from stat import S_ISREG
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from conformance.corpus.captures import (
    INDEX,
    MAX_FRAME_SIZE,
    Entry,
    FrameRow,
    Origin,
    borders,
    log_rows,
    packet_rows,
    part_rows,
    read_index,
)
from conformance.corpus.captures.connections import packet_defect
from conformance.corpus.captures.rows import MISSING
from conformance.corpus.columns import arrow_schema, ddl
from conformance.corpus.errors import CorpusError
from conformance.corpus.sources.options import Option, read_options

RECORDINGS = Path(__file__).parents[2] / "recordings"
"""Those of this suite: `conformance.running.recorder.HOME`, which takes much longer to import than a task of Spark takes to start."""
FAIL, DROP, KEEP = "fail", "drop", "keep"
OPTIONS = (
    Option("path", "", "a log, a capture of packets, a raw capture, or a folder with some; the recordings of this suite if not given"),
    Option("mode", KEEP, "what to do with bytes that are no frame: raise, skip, or give a row with `_corrupt`", choices=(FAIL, DROP, KEEP)),
    Option("max_frame_size", MAX_FRAME_SIZE, "bytes of the largest frame; a header that announces more is damaged", least=8),
    Option("partition_size", 16 << 20, "approximate number of bytes in one Spark partition", least=1),
)
COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("file", "connection", "direction"), "string"),
    **{"offset": "bigint", "time": "double", "size": "bigint", "command": "string", "octets": "binary"},
    **{"target": "string", "release": "string", "started": "double", "_corrupt": "string"},
}
"""The columns, with their types as Spark writes them."""
_SCHEMA = arrow_schema(COLUMNS)
_LOG_ENDINGS = (".jsonl", ".jsonl.gz")
_PACKET_ENDINGS = tuple(f"{kind}{packed}" for kind in (".pcap", ".pcapng", ".cap") for packed in ("", ".gz"))
_KNOWN = ", ".join((_LOG_ENDINGS[0], *_PACKET_ENDINGS[::2])) + ", each also with .gz"
_GZIP_WEIGHT = 12
"""A byte of a compressed log is so many bytes to read: what the recordings of this suite come to."""
_BATCH_ROWS, _BATCH_BYTES = 4096, 8 << 20


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
            if _is_packets(self.path):
                return packet_rows(self.path, self.origin.file, self.end, limit)
            return log_rows(self.path, self.origin.file, self.end, limit)
        return part_rows(self.path, self.origin, self.start, self.end, limit)


@dataclass
class CapturePartition(InputPartition):
    """What one task reads: pieces, and rows that are known already because a file is missing or a line of an index is bad."""

    pieces: Sequence[Piece]
    rows: Sequence[FrameRow] = ()


class CaptureSource(DataSource):
    """Frames of captures."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self.chosen = read_options(self.name(), OPTIONS, options)
        corpus_path(self.chosen["path"])

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.read.format`."""
        return "pulsar_capture"

    def schema(self) -> str:
        """Return the columns."""
        return ddl(COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what Spark reads from."""
        return _CaptureReader(self.chosen, schema.fieldNames())


class _CaptureReader(DataSourceReader):
    def __init__(self, chosen: Mapping[str, Any], columns: Sequence[str]) -> None:
        self._chosen = chosen
        self._columns = columns
        found = corpus_path(chosen["path"])
        self._home = found.parent if found.is_file() else found

    def partitions(self) -> Sequence[InputPartition]:
        pieces, rows = find_pieces(corpus_path(self._chosen["path"]), self._chosen["partition_size"], self._chosen["max_frame_size"])
        return divide(pieces, rows, self._chosen["partition_size"])

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        limit = self._chosen["max_frame_size"]
        home = self._home if self._chosen["path"] else RECORDINGS  # which may be elsewhere on this node
        pieces = [replace(piece, path=home / piece.path.relative_to(self._home)) for piece in partition.pieces]
        found = (row for rows in (partition.rows, *(piece.rows(limit) for piece in pieces)) for row in rows)
        for batch in batches(by_mode(found, self._chosen["mode"], self._home)):
            yield batch.select(self._columns)


def corpus_path(text: str) -> Path:
    """Return where a corpus is; the recordings of this suite if the text is empty.

    Raises:
        CorpusError: It is not a path of the file system, or there is nothing.
    """
    scheme, separator, rest = text.partition(":")
    if separator and scheme == "file":
        text = "/" + rest.lstrip("/")
    elif separator and rest.startswith("//"):
        raise CorpusError(f"{text}: captures are read from the file system; copy it, or mount it on each node")
    path = Path(text) if text else RECORDINGS
    try:
        there = path.exists()
    except OSError as error:
        raise CorpusError(f"{path}: {error.strerror}") from None
    if not there:
        raise CorpusError(f"{path}: there is no such file or folder")
    if not path.is_file() and not path.is_dir():
        raise CorpusError(f"{path}: is neither a file nor a folder")
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
        CorpusError: There is nothing to read.
    """
    if home.is_file() and home.name != INDEX:
        if not home.name.endswith((*_LOG_ENDINGS, *_PACKET_ENDINGS)):
            what = f"neither an event log nor a capture of packets ({_KNOWN})"
            raise CorpusError(f"{home}: is {what}; a file of bytes needs a folder with an {INDEX}")
        return [_whole(home, home.name)], []
    folder = home.parent if home.is_file() else home
    pieces: list[Piece] = []
    rows: list[FrameRow] = []
    for index in sorted(folder.rglob(INDEX)):
        prefix = "" if index.parent == folder else f"{_name(index.parent, folder)}/"
        for found in read_index(index.parent, prefix):
            if isinstance(found, Entry):
                _add_file(index.parent / found.file, found.origin(prefix), (part, limit), pieces, rows)
            else:
                rows.append(found)
    known = {piece.path for piece in pieces}
    others = (path for path in sorted(folder.rglob("*")) if _is_whole(path) and path not in known)
    pieces += [_whole(path, _name(path, folder)) for path in others]
    if not pieces and not rows:
        lacks = f"there is no {INDEX} with entries, no event log and no capture of packets ({_KNOWN})"
        what = lacks if any(folder.iterdir()) else "it is empty"
        raise CorpusError(f"{folder}: no capture to read: {what}")
    return pieces, rows


def unread_files(text: str) -> list[Path]:
    """Return what is in the folder of a capture and is not read: files that no index names, links to folders, and what is no file.

    Args:
        text: The path, as for `corpus_path`.
    """
    home = corpus_path(text)
    if home.is_file() and home.name != INDEX:
        return []
    folder = home.parent if home.is_file() else home
    read = {piece.path for piece in find_pieces(home, sys.maxsize, MAX_FRAME_SIZE)[0]}
    return [
        path for path in sorted(folder.rglob("*")) if path not in read and path.name != INDEX and (path.is_symlink() or not path.is_dir())
    ]


def check_capture(text: str) -> None:
    """Look at the files of a capture, before anything is done with the frames in them.

    Args:
        text: The path, as for `corpus_path`.

    Raises:
        CorpusError: A file is missing or damaged, or a line of an index is not right. What a stream holds is not looked at.
    """
    home = corpus_path(text)
    pieces, rows = find_pieces(home, sys.maxsize, MAX_FRAME_SIZE)
    folder = home.parent if home.is_file() else home
    defects = [f"{folder / row.origin.file}: {_defect(row)}" for row in rows]
    for piece in pieces if text else ():  # the recordings of this suite are as they are
        if piece.origin.connection is None:
            found = packet_defect(piece.path) if _is_packets(piece.path) else _log_defect(piece)
            defects += [f"{piece.path}: {found}"] * (found is not None)
    if defects:
        more = f" (and {len(defects) - 1} more)" if len(defects) > 1 else ""
        raise CorpusError(f"{defects[0]}{more}")


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


def _is_packets(path: Path) -> bool:
    return path.name.endswith(_PACKET_ENDINGS)


def _whole(path: Path, name: str) -> Piece:
    return Piece(path, Origin(name), 0, path.stat().st_size)


def _add_file(path: Path, origin: Origin, sizes: tuple[int, int], pieces: list[Piece], rows: list[FrameRow]) -> None:
    try:
        status = path.stat()
        if not S_ISREG(status.st_mode):
            raise OSError(EISDIR, "it is no ordinary file")
        length = status.st_size  # taken once: later growth of the file is not read
        parts = borders(path, length, *sizes) if length > sizes[0] else [(0, length)]
    except OSError as error:
        rows.append(FrameRow(origin, 0, 0, b"", corrupt=f"{MISSING}: the index names this file: {error.strerror or error}"))
        return
    pieces += [Piece(path, origin, start, end) for start, end in parts]


def divide(pieces: Iterable[Piece], rows: Sequence[FrameRow], size: int) -> list[CapturePartition]:
    """Put pieces together into partitions, in their order.

    Args:
        pieces: What is read.
        rows: What is known already; goes to the first.
        size: Bytes of a partition, more or less.
    """
    partitions: list[list[Piece]] = [[]]
    weight = 0
    for piece in pieces:
        if weight >= size:
            partitions.append([])
            weight = 0
        partitions[-1].append(piece)
        weight += piece.weight
    return [CapturePartition(found, rows if number == 0 else ()) for number, found in enumerate(partitions)]


def by_mode(rows: Iterable[FrameRow], mode: str, home: Path) -> Iterator[FrameRow]:
    """Keep rows that are not frames, leave them out, or stop at the first.

    Raises:
        CorpusError: The mode is `fail`, and there is one.
    """
    for row in rows:
        if row.corrupt is not None and mode == FAIL:
            raise CorpusError(f"{home / row.origin.file}: at byte {row.offset}{_stream(row.origin)}: {row.corrupt}; mode keep shows it")
        if row.corrupt is None or mode == KEEP:
            yield row


def _stream(origin: Origin) -> str:
    return "" if origin.connection is None else f" of the {origin.direction} in {origin.connection}"


def batches(rows: Iterable[FrameRow]) -> Iterator[pa.RecordBatch]:
    """Put rows into Arrow batches of limited size."""
    waiting: list[FrameRow] = []
    size = 0
    for row in rows:
        waiting.append(row)
        size += len(row.data)
        if len(waiting) >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(rows: Sequence[FrameRow]) -> pa.RecordBatch:
    origins = [row.origin for row in rows]
    columns: Mapping[str, list[Any]] = {
        **{
            name: [getattr(origin, name) for origin in origins]
            for name in ("file", "connection", "direction", "target", "release", "started")
        },
        **{name: [getattr(row, name) for row in rows] for name in ("offset", "time", "size", "command")},
        "octets": [row.data for row in rows],
        "_corrupt": [row.corrupt for row in rows],
    }
    return pa.RecordBatch.from_pydict(columns, schema=_SCHEMA)
