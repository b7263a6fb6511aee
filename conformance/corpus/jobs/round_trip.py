"""The job `round_trip`: decoding and encoding again gives the same bytes, for every frame of a capture, in pieces of any size."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from conformance.captures import MAX_FRAME_SIZE, Piece, capture_path, check_capture, defect_class, find_pieces, write_capture
from conformance.captures.places import is_packets
from conformance.corpus import round_trip as rules
from conformance.corpus.errors import CorpusError
from conformance.corpus.inputs.counted import capture_bytes
from conformance.corpus.job import Findings, Job, Run
from conformance.corpus.laws import EXAMPLES, Law, Outcome
from refimpl.wire import decode_frame

OF_FRAMES = (
    Law(rules.COMMAND, "A frame that is decoded and encoded again has the same bytes, or is written in a form that no encoder chooses."),
    Law(rules.VALUE, "What a frame says is the same after it was encoded and decoded once more."),
    Law(rules.PAYLOAD, "So it is with the metadata, checksum and body that follow SEND and MESSAGE."),
    Law(rules.BATCH, "So it is with the messages of a batch."),
    Law(rules.COMPRESSION, "A body that is compressed and decompressed is what it was."),
    Law(rules.PIECES, "Frames that arrive in any pieces are the same frames."),
)
"""Laws of what `count_batches` counts."""
RAW = Law("raw", "Frames of an event log, written as a raw capture and read in eight partitions, are the same frames.")
SPLITS = Law(
    "splits", "A file is divided where frames begin, and gives the rows that it gives as a whole, also one that is made to be awkward."
)
WHOLE = Law("whole", "Every byte that the files have is in a row.")
LAWS = (*OF_FRAMES, RAW, SPLITS, WHOLE)
_COUNTED = pa.schema(
    [(name, pa.string()) for name in ("law", "what", "command", "release")] + [("count", pa.int64()), ("example", pa.binary())],
)
_COUNTED_DDL = "law STRING, what STRING, command STRING, release STRING, count BIGINT, example BINARY"
_DIGITS = re.compile(r"\d[\d,]*")
_Key = tuple[str, str, str, str]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this job."""
    parser.add_argument(
        "--corpus",
        default="",
        help="an event log, a capture of packets, a raw capture, or a folder with some; the recordings of this suite if not given",
    )
    parser.add_argument("--max-frame-size", type=int, default=MAX_FRAME_SIZE, help="bytes of the largest frame (%(default)s)")
    parser.add_argument(
        "--scratch", type=Path, help="folder for a raw capture that is written and read; on a cluster one that all nodes see"
    )


def look(options: argparse.Namespace) -> None:
    """Look at the files of the capture."""
    if options.max_frame_size < 8:
        raise CorpusError(f"--max-frame-size is at least 8, not {options.max_frame_size}")
    check_capture(options.corpus.removeprefix("capture:"))


def check(run: Run) -> Findings:
    """Apply the laws to a capture."""
    options = run.options
    path = options.corpus.removeprefix("capture:")
    frames, began = _read(run, path), time.time()
    with run.part("round trip"):
        seed = options.seed
        counted = frames.mapInArrow(lambda batches: count_batches(batches, seed), _COUNTED_DDL)
        rows = (
            counted.groupBy("law", "what", "command", "release")
            .agg(F.sum("count").alias("count"), F.min("example").alias("example"))
            .collect()
        )
    laws = [_outcome(law, rows) for law in OF_FRAMES]
    if laws[0].checked == 0:
        raise CorpusError(f"{capture_path(path)}: there is no frame in it")
    with run.part("raw capture"):
        raw_laws, raw_counters = _raw(run, path, frames)
    return Findings(
        [*(law for law in (*laws, *raw_laws, _whole(path, rows, began)) if law.checked or law.broken)],
        {**_counters(rows), "raw capture": raw_counters},
    )


def _read(run: Run, path: str, **options: Any) -> DataFrame:
    chosen = {"path": path, "max_frame_size": run.options.max_frame_size, **options}
    return run.spark.read.format("pulsar_capture").options(**chosen).load()


def count_batches(batches: Iterable[pa.RecordBatch], seed: int) -> Iterator[pa.RecordBatch]:
    """Apply the laws to frames, and count the results.

    Args:
        batches: Columns of `pulsar_capture`.
        seed: Seed of the pieces in which frames arrive.
    """
    for batch in batches:
        counts: Counter[_Key] = Counter()
        examples: dict[_Key, bytes] = {}
        rows = batch.to_pylist()
        for row in rows:
            counts["of no connection" if row["connection"] is None else "bytes", row["file"], "", ""] += row["size"] or 0
            for law, what in _row_findings(row):
                key = law, what, row["command"] or "", row["release"] or ""
                counts[key] += 1
                if what == rules.BROKEN and len(row["octets"]) < len(examples.get(key, row["octets"] + b"-")):
                    examples[key] = row["octets"]
        for key, count, data in _piece_findings(rows, seed):
            counts[key] += count
            if key[1] == rules.BROKEN:
                examples[key] = data
        found = [(*key, count, examples.get(key)) for key, count in counts.items()]
        yield pa.RecordBatch.from_pylist([dict(zip(_COUNTED.names, one, strict=True)) for one in found], schema=_COUNTED)


def _row_findings(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if row["_corrupt"] is not None:
        yield "corrupt", f"{defect_class(row['_corrupt'])}: {_DIGITS.sub('N', row['_corrupt'].partition(': ')[2])}"
        return
    yield "frames", row["direction"]
    if rules.unknown_fields(decode_frame(row["octets"]).command):
        yield "unknown fields", row["direction"]
    for finding in rules.findings(row["octets"]):
        yield finding.law, finding.what


def _piece_findings(rows: Sequence[Mapping[str, Any]], seed: int) -> Iterator[tuple[_Key, int, bytes]]:
    """Let frames arrive in pieces: those that follow each other in one stream, as far as they are in one batch."""
    good = [row for row in rows if row["_corrupt"] is None]
    for stream, group in groupby(sorted(good, key=_place), key=lambda row: _place(row)[:3]):
        runs: list[list[Mapping[str, Any]]] = []
        for row in group:
            if not runs or runs[-1][-1]["offset"] + runs[-1][-1]["size"] != row["offset"]:
                runs.append([])
            runs[-1].append(row)
        for found in runs:
            same = rules.any_pieces([row["octets"] for row in found], f"{seed} {stream} {found[0]['offset']}")
            what = rules.SAME if same else rules.BROKEN
            yield (rules.PIECES, what, "", found[0]["release"] or ""), len(found), b"".join(row["octets"] for row in found)


def _place(row: Mapping[str, Any]) -> tuple[str, str, str, int]:
    return row["file"], row["connection"], row["direction"], row["offset"]


def _outcome(law: Law, rows: Sequence[Any]) -> Outcome:
    found = [row for row in rows if row["law"] == law.name and not row["what"].startswith("refused: ")]
    broken = [row for row in found if row["what"] == rules.BROKEN]
    smallest = sorted(broken, key=lambda row: (len(row["example"]), row["example"]))[:EXAMPLES]
    examples = [{"command": row["command"], "release": row["release"], "bytes": row["example"].hex()} for row in smallest]
    return law.outcome(sum(row["count"] for row in found), sum(row["count"] for row in broken), examples)


def _counters(rows: Sequence[Any]) -> dict[str, Any]:
    def by(law: str, *columns: str) -> dict[str, int]:
        found: Counter[str] = Counter()
        for row in rows:
            if row["law"] == law:
                found[" ".join(row[column] for column in columns).strip() or "not known"] += row["count"]
        return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))

    return {
        "frames by direction": by("frames", "what"),
        "frames by command": by("frames", "command"),
        "frames by release": by("frames", "release"),
        "frames by release and command": by("frames", "release", "command"),
        "frames with unknown fields, by command": by("unknown fields", "command"),
        "what is no frame, by class": by("corrupt", "what"),
        **{f"forms of a {law}": by(law, "what") for law in (rules.COMMAND, rules.PAYLOAD, rules.BATCH, rules.COMPRESSION)},
    }


def _raw(run: Run, path: str, frames: DataFrame) -> tuple[list[Outcome], dict[str, Any]]:
    """Read raw captures divided and whole; what is an event log is written as a raw capture first."""
    limit = run.options.max_frame_size
    home = capture_path(path)
    pieces, _ = find_pieces(home, sys.maxsize, limit)
    logs = [piece for piece in pieces if piece.origin.connection is None and not is_packets(piece.path)]
    files = [piece for piece in pieces if piece.origin.connection is not None]
    laws = []
    if run.options.scratch is not None:
        run.options.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="capture-", dir=run.options.scratch) as scratch:
        counters: dict[str, Any] = {}
        if logs:
            folder = Path(scratch) / "raw"
            written = write_capture(folder, (row for piece in logs for row in piece.rows(limit)))
            counters = {
                "streams written": written.streams,
                "frames written": written.frames,
                "rows that can't be written": written.left_out,
            }
            size = max(1, sum(path.stat().st_size for path in folder.iterdir()) // 8)
            laws.append(_same_frames(frames, _read(run, str(folder), partition_size=size)))
            files += find_pieces(folder, sys.maxsize, limit)[0]
        rules.write_unaligned(Path(scratch) / "unaligned")
        files += find_pieces(Path(scratch) / "unaligned", sys.maxsize, MAX_FRAME_SIZE)[0]
        splits = run.spark.sparkContext.parallelize(files, max(1, min(len(files), 32))).map(lambda piece: _split(piece, limit))
        total = splits.fold(rules.Splits(), _add)
    counters |= {"files": total.files, "parts": total.parts, "rows": total.rows}
    laws.append(SPLITS.outcome(total.files, len(total.broken), [{"file": file} for file in total.broken]))
    return laws, counters


def _whole(path: str, rows: Sequence[Any], began: float) -> Outcome:
    """Compare the bytes that rows have with those that event logs and files of bytes have, by file, unless it is damaged or still grows."""
    found = {row["what"]: row["count"] for row in rows if row["law"] == "bytes"}
    damaged = {row["what"] for row in rows if row["law"] == "of no connection"}
    written = capture_bytes(capture_path(path), damaged, began)
    broken = {file: abs(count - found.get(file, 0)) for file, count in written.items()}
    return WHOLE.outcome(sum(written.values()), sum(broken.values()), [{"file": file} for file, count in broken.items() if count])


def _split(piece: Piece, limit: int) -> rules.Splits:
    return rules.split_file(piece.path, piece.origin, piece.end, limit)


def _add(one: rules.Splits, other: rules.Splits) -> rules.Splits:
    broken = sorted([*one.broken, *other.broken])
    return rules.Splits(one.files + other.files, one.parts + other.parts, one.rows + other.rows, broken)


def _same_frames(frames: DataFrame, read: DataFrame) -> Outcome:
    """Compare frames of event logs with those of the raw capture of them, which names a connection after its file, too."""
    is_log = F.col("file").endswith(".jsonl") | F.col("file").endswith(".jsonl.gz")
    logs = frames.where(is_log & (F.col("source") == F.col("file")))  # a file of bytes may have any name
    logged, found = _signatures(logs, F.concat_ws(" ", "file", "connection")), _signatures(read, F.col("connection"))
    different = sorted(key for key in {*logged, *found} if logged.get(key) != found.get(key))
    broken = sum(max(logged.get(key, (0,))[0], found.get(key, (0,))[0]) for key in different)
    examples = [{"target": key[0], "command": key[1]} for key in different]
    return RAW.outcome(sum(count for count, *_ in logged.values()), broken, examples)


def _signatures(frames: DataFrame, connection: Column) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Return, for each target and command, frames, bytes, and a sum of hashes: of what frames are, and of their places in their streams."""
    good = frames.where(F.col("_corrupt").isNull()).withColumn("connection", connection)
    place = F.row_number().over(Window.partitionBy("connection", "direction").orderBy("offset"))
    hashed = F.xxhash64("connection", "direction", place, "octets", "started").cast("decimal(38)")
    sums = F.count("*").alias("count"), F.sum("size").alias("size"), F.sum("hash").alias("hash")
    rows = good.withColumn("hash", hashed).groupBy("target", "command").agg(*sums).collect()
    return {(row["target"] or "", row["command"]): (row["count"], row["size"], int(row["hash"])) for row in rows}


JOB = Job(
    "round_trip",
    "Decodes and encodes every frame of a capture, and reads it in pieces.",
    LAWS,
    check,
    add_options,
    look,
    reads_frames=True,
)

if __name__ == "__main__":
    sys.exit(JOB.main())
