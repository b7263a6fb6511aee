"""The job `hashes_agree`: the hash of a list of topics is the same, however it is computed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from conformance.corpus.batching.slices import WHOLE, is_whole
from conformance.corpus.corpora import check_topics, rows_written
from conformance.corpus.errors import CorpusError
from conformance.corpus.filtering import rows
from conformance.corpus.filtering.hashes import namespace_hashes, namespace_of, reference_hashes, small_batches, whole_hash
from conformance.corpus.filtering.sql import is_system_topic
from conformance.corpus.job import Findings, Job, Run
from conformance.corpus.laws import Law, Outcome
from conformance.corpus.sources.jar_topics import TOPICS
from refimpl.indexes.topics_hash import TopicSet, topics_hash

DISTRIBUTED = Law("distributed-hash", "The hash of a namespace from hashed ranges is that of the reference.")
DIFF_APPLIED = Law("diff-applied", "The hash of a set to which a diff is applied is that of the listing.")
STEPWISE = Law(
    "diff-applied-stepwise",
    "The hash of a set to which a diff is applied is that of the listing, in the set of the reference, also while it is applied.",
)
ANY_DIVISION = Law("any-division", "The hash is the same into however many ranges the topics are divided.")
LAWS = (DISTRIBUTED, DIFF_APPLIED, STEPWISE, ANY_DIVISION, WHOLE)
COMES, GOES = 0, 1
"""The numbers of topics that only the later listing has, and only the earlier one."""
_HASHED = "namespace STRING, hash STRING, topics LONG"
_ASKED = 16
"""So often the set of the reference is asked for its hash while a diff is applied."""
_PART, _RUN = 900, slice(40, 560)
"""Of so many topics these neighbours go and come again: that empties a block of a set that is not among its last, and divides one."""
_FEW = 300
"""Rows of an Arrow batch of which a range has several, also in a small corpus."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this job."""
    rows.add_options(parser)
    parser.add_argument("--ranges", type=int, default=16, help="into how many ranges topics are divided to be hashed (%(default)s)")
    parser.add_argument("--changed", type=int, default=20, help="one of so many topics goes, and one comes, in a diff (%(default)s)")
    parser.add_argument(
        "--held", type=int, default=1_000_000, help="most topics of a namespace that the reference holds at once (%(default)s)"
    )


def look(options: argparse.Namespace) -> None:
    """Look at the numbers and at the corpus."""
    if options.changed < 2 or options.ranges < 1:
        raise CorpusError("--changed is at least 2, and --ranges at least 1")
    check_topics(options)


def check(run: Run) -> Findings:
    """Hash each namespace, all topics as one namespace, and lists after diffs."""
    options = run.options
    with rows.topics_at_hand(run.spark, options) as topics:
        found = _check(run, topics.where(~is_system_topic()).select("topic"))
        written = rows_written(options.corpus, TOPICS, options.rows)
        return found if written is None else replace(found, laws=[*found.laws, is_whole(written, [topics.count()])])


def _check(run: Run, topics: DataFrame) -> Findings:
    options = run.options
    with run.part("hash each namespace"):
        hashes = namespace_hashes(topics, options.ranges)
    if not hashes:
        raise CorpusError("the corpus has no topics that a list shows; give it rows, or another folder")
    held = {namespace for namespace, (_, count) in hashes.items() if count <= options.held}
    of_held = topics if len(held) == len(hashes) else topics.where(namespace_of().isin(*held))
    with run.part("hash each namespace by the reference"):
        reference = {row.namespace: (row.hash, row.topics) for row in reference_hashes(of_held).collect()}
    laws = [_equal(DISTRIBUTED, {namespace: hashes[namespace] for namespace in held}, reference), *_after_diffs(run, topics, held)]
    with run.part("hash all as one namespace"):
        of_parts = {str(parts): (whole_hash(topics, parts), 0) for parts in (1, options.ranges)}
        with small_batches(run.spark, _FEW):
            of_parts["3, in small batches"] = whole_hash(topics, 3), 0
    one = of_parts["1"]
    laws.append(_equal(ANY_DIVISION, of_parts, dict.fromkeys(of_parts, one)))
    sizes = sorted((count for _, count in hashes.values()), reverse=True)
    counters = {
        "topics": sum(sizes),
        "namespaces": len(sizes),
        "largest namespace": sizes[0],
        "namespaces that the reference did not hold": len(hashes) - len(held),
        "hash of all as one namespace": one[0],
    }
    return Findings(laws, counters)


def _equal(law: Law, found: Mapping[str, Any], expected: Mapping[str, Any]) -> Outcome:
    differing = [key for key in sorted({*found, *expected}) if found.get(key) != expected.get(key)]
    examples = [{"namespace": key, "found": found.get(key), "expected": expected.get(key)} for key in differing]
    return law.outcome(len({*found, *expected}), len(differing), examples)


def _after_diffs(run: Run, topics: DataFrame, held: set[str]) -> list[Outcome]:
    """Take a listing, and a later one from which some topics are gone and to which others have come; go from one to the other by a diff."""
    options = run.options
    number = F.pmod(F.xxhash64("topic", F.lit(options.seed)), F.lit(options.changed))
    numbered = topics.withColumn("_number", number)
    earlier, later = (numbered.where(F.col("_number") != other).select("topic") for other in (COMES, GOES))
    with run.part("hash the later listing"):
        listing = namespace_hashes(later, options.ranges)
    with run.part("hash the earlier listing after the diff"):
        applied = namespace_hashes(_with_diff(earlier, *_diff(earlier, later)), options.ranges)
    with run.part("apply the diff by the reference"):
        changed = numbered.select(namespace_of().alias("namespace"), "topic", "_number").where(F.col("namespace").isin(*held))
        hashed = changed.groupBy("namespace").applyInArrow(_apply_diff, _HASHED).collect()
        stepwise = {row.namespace: (row.hash, row.topics) for row in hashed if row.topics}
    of_held = {namespace: found for namespace, found in listing.items() if namespace in held}
    return [_equal(DIFF_APPLIED, applied, listing), _equal(STEPWISE, stepwise, of_held)]


def _diff(earlier: DataFrame, later: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the topics that come, and those that go."""
    return later.join(earlier, "topic", "left_anti"), earlier.join(later, "topic", "left_anti")


def _with_diff(topics: DataFrame, added: DataFrame, removed: DataFrame) -> DataFrame:
    """Apply a diff to a listing."""
    return topics.join(removed, "topic", "left_anti").union(added)


def _apply_diff(table: pa.Table) -> pa.Table:
    """Go from the earlier listing of a namespace to the later one, topic by topic, as a client does.

    The hash is asked for now and then between changes. If it is not that of the topics that are there, it is the result. Then many
    neighbours go and come again, which a diff seldom has.
    """
    rows = list(zip(table.column("topic").to_pylist(), table.column("_number").to_pylist(), strict=True))
    there = {topic for topic, number in rows if number != COMES}
    topics = TopicSet(there)
    changes = [(topic, number) for topic, number in rows if number in (COMES, GOES)]
    wrong = None
    for place, (topic, number) in enumerate(changes):
        if place % max(1, len(changes) // _ASKED) == 0 and (asked := topics.hash) != topics_hash(there):
            wrong = wrong or asked
        for one in (there, topics):
            (one.remove if number == GOES else one.add)(topic)
    found = wrong or _wrong_in_run(sorted(there)) or topics.hash
    return pa.table({"namespace": table.column("namespace")[:1], "hash": [found], "topics": [len(topics)]})


def _wrong_in_run(names: list[str]) -> str | None:
    """Let neighbours go from a set, and come again; return the first hash that is wrong. A listing that is too small is passed over."""
    there = names[:_PART]
    if len(there) < _PART:
        return None
    topics, left = TopicSet(there), set(there)
    run = there[_RUN]
    for change, other in ((topics.remove, left.remove), (topics.add, left.add)):
        for topic in run:
            change(topic)
            other(topic)
            if (asked := topics.hash) != topics_hash(left):
                return asked
    return None


JOB = Job("hashes_agree", "Hash namespaces in ranges and by the reference, and after diffs.", LAWS, check, add_options, look)

if __name__ == "__main__":
    sys.exit(JOB.main())
