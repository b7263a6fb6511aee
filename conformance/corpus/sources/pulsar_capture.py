"""The data source `pulsar_capture`: the frames of recordings, of event logs and of raw captures, one row each.

What `path` may be: an event log (`.jsonl`), a capture of packets (`.pcap`, `.pcapng` or `.cap`), each also with `.gz`, a folder with
`index.jsonl` (a raw capture), or a folder with any of these in it, at any depth. On a cluster each node has to see it under the same path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from conformance.captures import MAX_FRAME_SIZE, RECORDINGS, FrameRow, Origin, Piece, capture_path, find_pieces
from conformance.corpus.columns import arrow_schema, ddl
from conformance.corpus.errors import CorpusError
from conformance.corpus.sources.options import Option, read_options

FAIL, DROP, KEEP = "fail", "drop", "keep"
OPTIONS = (
    Option("path", "", "a log, a capture of packets, a raw capture, or a folder with some; the recordings of this suite if not given"),
    Option("mode", KEEP, "what to do with bytes that are no frame: raise, skip, or give a row with `_corrupt`", choices=(FAIL, DROP, KEEP)),
    Option("max_frame_size", MAX_FRAME_SIZE, "bytes of the largest frame; a header that announces more is damaged", least=8),
    Option("partition_size", 16 << 20, "approximate number of bytes in one Spark partition", least=1),
)
COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("file", "source", "connection", "direction"), "string"),
    **{"offset": "bigint", "time": "double", "size": "bigint", "command": "string", "octets": "binary"},
    **{"target": "string", "release": "string", "started": "double", "_corrupt": "string", "heard": "bigint"},
}
"""The columns, with their types as Spark writes them."""
_SCHEMA = arrow_schema(COLUMNS)
_BATCH_ROWS, _BATCH_BYTES = 4096, 8 << 20


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
        capture_path(self.chosen["path"])

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
        found = capture_path(chosen["path"])
        self._home = found.parent if found.is_file() else found

    def partitions(self) -> Sequence[InputPartition]:
        pieces, rows = find_pieces(capture_path(self._chosen["path"]), self._chosen["partition_size"], self._chosen["max_frame_size"])
        return divide(pieces, rows, self._chosen["partition_size"])

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        limit = self._chosen["max_frame_size"]
        home = self._home if self._chosen["path"] else RECORDINGS  # which may be elsewhere on this node
        pieces = [replace(piece, path=home / piece.path.relative_to(self._home)) for piece in partition.pieces]
        found = (row for rows in (partition.rows, *(piece.rows(limit) for piece in pieces)) for row in rows)
        for batch in batches(by_mode(found, self._chosen["mode"], self._home)):
            yield batch.select(self._columns)


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
            for name in ("file", "source", "connection", "direction", "target", "release", "started")
        },
        **{name: [getattr(row, name) for row in rows] for name in ("offset", "time", "size", "command", "heard")},
        "octets": [row.data for row in rows],
        "_corrupt": [row.corrupt for row in rows],
    }
    return pa.RecordBatch.from_pydict(columns, schema=_SCHEMA)
