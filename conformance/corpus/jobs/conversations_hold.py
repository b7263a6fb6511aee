"""The job `conversations_hold`: what monitors say of every connection in captures, in one law for each monitor."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from conformance.captures import MAX_FRAME_SIZE, capture_path, check_capture
from conformance.corpus.conversations import DDL, FRAMES, of_connection
from conformance.corpus.errors import CorpusError
from conformance.corpus.job import Findings, Job, Run
from conformance.corpus.laws import Law, Outcome
from conformance.monitors import MONITORS

BROKER, CLIENT, BOTH = "broker", "client", "both"
LAWS = tuple(Law(kind.name, (kind.__doc__ or "").partition("\n")[0]) for kind in MONITORS if not kind.of_all_connections)
_SIDES = {kind.name: kind.side for kind in MONITORS}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this job."""
    parser.add_argument(
        "--corpus",
        default="",
        help="an event log, a capture of packets, a raw capture, or a folder with some; the recordings of this suite if not given",
    )
    parser.add_argument("--max-frame-size", type=int, default=MAX_FRAME_SIZE, help="bytes of the largest frame (%(default)s)")
    parser.add_argument(
        "--side",
        choices=(CLIENT, BROKER, BOTH),
        help="who is judged (both; in the recordings of this suite only brokers, since the suite is wrong on purpose)",
    )


def look(options: argparse.Namespace) -> None:
    """Look at the files of the capture."""
    if options.max_frame_size < 8:
        raise CorpusError(f"--max-frame-size is at least 8, not {options.max_frame_size}")
    check_capture(options.corpus.removeprefix("capture:"))


def check(run: Run) -> Findings:
    """Let monitors hear all connections."""
    options = run.options
    path = options.corpus.removeprefix("capture:")
    chosen = {"path": path, "max_frame_size": options.max_frame_size}
    with run.part("conversations"):
        frames = run.spark.read.format("pulsar_capture").options(**chosen).load().where(F.col("connection").isNotNull())
        found = frames.groupBy("source", "connection").applyInArrow(of_connection, DDL)
        sums = (F.sum("checked").alias("checked"), F.sum("broken").alias("broken"), F.min("example").alias("example"))
        rows = found.groupBy("law", "clause", "target").agg(*sums).sort("law", "clause", "target").collect()
    if not any(row["clause"] == FRAMES for row in rows):
        raise CorpusError(f"{capture_path(path)}: there is no frame in it")
    side = options.side or (BOTH if options.corpus else BROKER)
    laws = [_outcome(law, rows) for law in LAWS if side in (BOTH, _SIDES[law.name])]
    return Findings([law for law in laws if law.checked], _counters(rows))


def _outcome(law: Law, rows: Sequence[Any]) -> Outcome:
    own = [row for row in rows if row["law"] == law.name]
    examples = [{"clause": row["clause"], "target": row["target"], "breach": row["example"]} for row in own if row["broken"]]
    return law.outcome(sum(row["checked"] for row in own), sum(row["broken"] for row in own), examples)


def _counters(rows: Sequence[Any]) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    targets: Counter[str] = Counter()
    judged: Counter[str] = Counter()
    for row in rows:
        (judged if row["law"] else counts)[row["clause"]] += row["checked"]
        if row["clause"] == FRAMES:
            targets[row["target"] or "not known"] += row["checked"]
    return {**counts, "frames by target": dict(targets), "judgements by clause": dict(judged)}


JOB = Job(
    "conversations_hold",
    "Lets the monitors of the suite hear every connection of a capture.",
    LAWS,
    check,
    add_options,
    look,
    reads_frames=True,
)

if __name__ == "__main__":
    sys.exit(JOB.main())
