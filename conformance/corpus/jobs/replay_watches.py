"""The job `replay_watches`: changes of topics, replayed for many watchers. All learn of every change; what polling and watching costs."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sql

from conformance.corpus.batching.laws import percentile
from conformance.corpus.errors import CorpusError
from conformance.corpus.job import Findings, Job, Run
from conformance.corpus.laws import judged
from conformance.corpus.replay.changes import LogOptions
from conformance.corpus.replay.laws import LAWS
from conformance.corpus.replay.spread import Way, changes, check_quiet, replayed, ways

INTERVALS = "10000,60000"
WINDOWS = "0,10,50,100,250,500,1000"
_SUMS = ("opening_bytes", "frames_to_broker", "bytes_to_broker", "frames_to_client", "bytes_to_client", "changes", "untold")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this job."""
    usual = LogOptions()
    parser.add_argument("--watchers", type=int, default=1000, help="how many watchers (%(default)s)")
    parser.add_argument("--namespaces", type=int, default=usual.namespaces, help="each has a log of its own (%(default)s)")
    parser.add_argument("--seconds", type=int, default=usual.seconds, help="length of a log (%(default)s)")
    parser.add_argument("--quiet", type=int, default=usual.quiet + 1, help="seconds without changes at its end (%(default)s)")
    parser.add_argument("--topics", type=int, default=usual.topics, help="of a namespace at the beginning (%(default)s)")
    parser.add_argument(
        "--per-second", type=float, default=usual.per_second, help="mean number of single changes in a second (%(default)s)"
    )
    parser.add_argument(
        "--bursts-per-minute", type=float, default=usual.bursts_per_minute, help="mean number of bursts in a minute (%(default)s)"
    )
    parser.add_argument("--burst", type=int, default=usual.burst, help="mean number of changes in a burst (%(default)s)")
    parser.add_argument("--intervals", default=INTERVALS, help="of polls, in ms (%(default)s)")
    parser.add_argument("--windows", default=WINDOWS, help="in which changes are gathered, in ms (%(default)s)")
    parser.add_argument("--latency", type=int, default=1, help="ms that a frame takes (%(default)s)")
    parser.add_argument(
        "--compare-every", type=int, default=10, help="one watcher in so many is compared with the reference's broker (%(default)s)"
    )


def look(options: argparse.Namespace) -> None:
    """Look at the numbers."""
    for name, least in (("watchers", 1), ("latency", 0), ("compare_every", 0)):
        if getattr(options, name) < least:
            raise CorpusError(f"--{name.replace('_', '-')} is at least {least}, not {getattr(options, name)}")
    check_quiet(_logs(options), _ways(options), options.latency)


def check(run: Run) -> Findings:
    """Replay, check the laws, and sum up by proposal and way."""
    given = run.options
    options = _logs(given)
    with run.part("replay"):
        rows = replayed(
            run.spark, options, given.watchers, _ways(given), latency=given.latency, compare_every=given.compare_every
        ).persist()
        sums = rows.groupBy("proposal", "way", "milliseconds").agg(
            *(sql.sum(name).alias(name) for name in _SUMS), sql.max("frames_to_client").alias("most_frames_to_client")
        )
        found = sums.sort("proposal", "way", "milliseconds").collect()
    with run.part("staleness and laws"):
        staleness = _staleness(rows)
        laws = judged(rows, LAWS, ("watcher", "proposal", "way", "milliseconds"))
    rows.unpersist()
    counters = {
        "watchers": given.watchers,
        "seconds": options.seconds + options.quiet,
        "changes": changes(options, given.watchers),
        "ways": [_counters(row, staleness.get((row["proposal"], row["way"], row["milliseconds"]), {}), given.watchers) for row in found],
    }
    return Findings([law for law in laws if law.checked], counters)


def _logs(given: argparse.Namespace) -> LogOptions:
    return LogOptions(
        given.seed, given.namespaces, given.seconds, given.quiet, given.topics, given.per_second, given.bursts_per_minute, given.burst
    )


def _ways(given: argparse.Namespace) -> list[Way]:
    return ways(_numbers(given.intervals), _numbers(given.windows))


def _staleness(rows: DataFrame) -> dict[tuple[str, str, int], Counter[int]]:
    exploded = rows.select("proposal", "way", "milliseconds", sql.explode("staleness").alias("late", "count"))
    counts: dict[tuple[str, str, int], Counter[int]] = {}
    for row in exploded.groupBy("proposal", "way", "milliseconds", "late").agg(sql.sum("count").alias("times")).collect():
        counts.setdefault((row["proposal"], row["way"], row["milliseconds"]), Counter())[row["late"]] += row["times"]
    return counts


def _counters(row: Row, staleness: Mapping[int, int], watchers: int) -> dict[str, Any]:
    frames, size = row["frames_to_broker"] + row["frames_to_client"], row["bytes_to_broker"] + row["bytes_to_client"]
    return {
        "proposal": row["proposal"],
        "way": row["way"],
        "milliseconds": row["milliseconds"],
        **{name: row[name] for name in _SUMS},
        "most_frames_to_client": row["most_frames_to_client"],
        "frames_per_watcher": round(frames / watchers, 2),
        "bytes_per_watcher": round(size / watchers, 1),
        "staleness_ms": _percentiles(staleness),
    }


def _percentiles(counts: Mapping[int, int]) -> dict[str, int]:
    if not counts:
        return {}
    return {**{f"p{percent}": percentile(counts, percent) for percent in (50, 90, 99)}, "max": max(counts)}


def _numbers(text: str) -> Sequence[int]:
    try:
        return [int(number) for number in text.split(",") if number]
    except ValueError:
        raise CorpusError(f"intervals and windows are whole milliseconds, separated by commas, not {text!r}") from None


JOB = Job(
    "replay_watches",
    "Replay changes of topics for many watchers, check that all know everything in the end, and count the cost.",
    LAWS,
    check,
    add_options,
    look,
)

if __name__ == "__main__":
    sys.exit(JOB.main())
