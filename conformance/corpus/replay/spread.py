"""All watchers, divided over Spark: each is replayed by itself, in each way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from conformance.corpus.errors import CorpusError
from conformance.corpus.replay import partitions, scalable
from conformance.corpus.replay.changes import LogOptions, Watcher, partition_log, scalable_log, watcher
from conformance.corpus.replay.tally import Tally

PROPOSALS = ("pip247", "pr25648")
RULES: tuple[scalable.Rule, ...] = ("last_wins", "cancels_out")
SCHEMA = (
    "watcher LONG, proposal STRING, way STRING, milliseconds INT, opening_bytes LONG, frames_to_broker LONG, bytes_to_broker LONG, "
    "frames_to_client LONG, bytes_to_client LONG, changes LONG, untold LONG, staleness MAP<INT, LONG>, laws MAP<STRING, BOOLEAN>"
)
"""One row for each watcher and way; staleness is the number of changes by milliseconds."""
_ARROW = pa.schema(
    [
        ("watcher", pa.int64()),
        ("proposal", pa.string()),
        ("way", pa.string()),
        ("milliseconds", pa.int32()),
        *((name, pa.int64()) for name in ("opening_bytes", "frames_to_broker", "bytes_to_broker", "frames_to_client", "bytes_to_client")),
        *((name, pa.int64()) for name in ("changes", "untold")),
        ("staleness", pa.map_(pa.int32(), pa.int64())),
        ("laws", pa.map_(pa.string(), pa.bool_())),
    ]
)


@dataclass(frozen=True)
class Way:
    """How a watcher learns of changes.

    Attributes:
        proposal: `pip247` or `pr25648`.
        kind: `poll`, or how changes in a window are folded: `last_wins` or `cancels_out`; partition counts know only `last_wins`.
        milliseconds: Interval of the polls, or length of the window.
    """

    proposal: str
    kind: Literal["poll", "last_wins", "cancels_out"]
    milliseconds: int


def changes(options: LogOptions, watchers: int) -> dict[str, int]:
    """Count by proposal the changes in all logs that so many watchers read."""
    logs = range(min(options.namespaces, watchers))
    return {
        "pip247": sum(len(partition_log(options, number).changes) for number in logs),
        "pr25648": sum(len(scalable_log(options, number).changes) for number in logs),
    }


def ways(intervals: Sequence[int], windows: Sequence[int]) -> list[Way]:
    """Return all ways: polls with these intervals, watches with these windows, both in milliseconds.

    Raises:
        CorpusError: An interval is below 1, or a window below 0.
    """
    if min(intervals, default=1) < 1 or min(windows, default=0) < 0:
        raise CorpusError(f"polls have intervals from 1 ms, watches have windows from 0 ms, not {list(intervals)} and {list(windows)}")
    polls = [Way(proposal, "poll", interval) for proposal in PROPOSALS for interval in intervals]
    updates = [Way("pip247", "last_wins", window) for window in windows]
    return [*polls, *updates, *(Way("pr25648", rule, window) for rule in RULES for window in windows)]


def replay(options: LogOptions, number: int, way: Way, *, latency: int, compare: bool) -> Tally:
    """Replay the log of a watcher's namespace in one way.

    Args:
        options: What logs look like.
        number: Of the watcher.
        way: How it learns of changes.
        latency: Milliseconds that a frame takes.
        compare: Whether the frames are compared with those of the reference's own broker, where it has that window; the law
            `reference` says how that went.
    """
    who = watcher(options, number)
    if way.proposal == "pip247":
        log = partition_log(options, who.namespace)
        if way.kind == "poll":
            return partitions.poll(log, who, way.milliseconds, options.end, latency)
        return partitions.watch(log, who, way.milliseconds, latency)
    if way.kind == "poll":
        return scalable.poll(scalable_log(options, who.namespace), who, way.milliseconds, options.end, latency)
    return _watch_scalable(options, who, way.kind, way.milliseconds, latency, compare=compare)


def _watch_scalable(options: LogOptions, who: Watcher, rule: scalable.Rule, window: int, latency: int, *, compare: bool) -> Tally:
    log = scalable_log(options, who.namespace)
    frames: list[tuple[int, bytes]] = []
    tally = scalable.watch(log, who, window, rule, latency, frames)
    if compare and window == scalable.REFERENCE_WINDOW:
        tally.laws["reference"] = frames == scalable.reference_frames(log, who, rule)
    return tally


def check_quiet(options: LogOptions, all_ways: Sequence[Way], latency: int) -> None:
    """Check that polling clients have the time to learn of every change.

    Raises:
        CorpusError: The quiet time at the end is too short.
    """
    slowest = max((way.milliseconds for way in all_ways if way.kind == "poll"), default=0)
    if slowest + 2 * latency > options.quiet * 1000:
        raise CorpusError(f"a poll each {slowest} ms needs as long a time without changes at the end, not {options.quiet} s; choose more")


def replayed(
    spark: SparkSession, options: LogOptions, watchers: int, all_ways: Sequence[Way], *, latency: int = 1, compare_every: int = 10
) -> DataFrame:
    """Replay the logs for many watchers.

    Args:
        spark: The session.
        options: What logs look like.
        watchers: How many.
        all_ways: The ways in which each learns of changes, one after the other.
        latency: Milliseconds that a frame takes.
        compare_every: One watcher in this many is compared with the reference's own broker; 0: none.

    Returns:
        Rows of `SCHEMA`.

    Raises:
        CorpusError: As `check_quiet`.
    """
    check_quiet(options, all_ways, latency)
    run = _runner(options, tuple(all_ways), latency, compare_every)
    parts = max(1, min(watchers, 4 * spark.sparkContext.defaultParallelism))
    return spark.range(0, watchers, 1, parts).mapInArrow(run, SCHEMA)


def _runner(
    options: LogOptions, all_ways: tuple[Way, ...], latency: int, compare_every: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                compare = compare_every > 0 and number % compare_every == 0
                tallies = [(way, replay(options, number, way, latency=latency, compare=compare)) for way in all_ways]
                yield pa.RecordBatch.from_pylist([_row(number, way, tally) for way, tally in tallies], _ARROW)

    return run


def _row(number: int, way: Way, tally: Tally) -> dict[str, object]:
    counts = {name: getattr(tally, name) for name in _ARROW.names if hasattr(tally, name)}
    maps = {"staleness": list(tally.staleness.items()), "laws": list(tally.laws.items())}
    return {"watcher": number, "proposal": way.proposal, "way": way.kind, "milliseconds": way.milliseconds, **counts, **maps}
