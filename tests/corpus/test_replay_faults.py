"""Each law of replays breaks when it should: faults in the reference's brokers and clients, in the replay, and in the listing."""

import dataclasses
from collections import Counter

import pyarrow as pa
import pytest

from conformance.corpus.jobs.replay_watches import JOB
from conformance.corpus.laws import sums
from conformance.corpus.replay.changes import LogOptions
from conformance.corpus.replay.spread import _runner, ways
from refimpl.wire.pulsar_api_pb2 import CommandPartitionUpdateResult, ScalableTopicsDiff
from tests.samples.faults import broken, came_and_gone, fault, planted

pytestmark = pytest.mark.usefixtures("without_compiling")
OPTIONS = LogOptions(seed=5, namespaces=2, seconds=60, quiet=6, topics=8, per_second=0.5, bursts_per_minute=12)
WAYS = tuple(ways([5000], [0, 50, 500]))
WATCHERS = 8


def told(change):
    """Change what a diff tells."""

    def wrong(right):
        def folded(*given):
            diff = right(*given)
            return diff and ScalableTopicsDiff(**{"added": diff.added, "removed": diff.removed, **change(diff)})

        return folded

    return wrong


def taken(change):
    """Change what the reference's broker tells."""

    def wrong(right):
        def take(self):
            changes = right(self)
            return changes and dataclasses.replace(changes, **change(changes))

        return take

    return wrong


def only_first_and_last(right):
    """Look at the last change of a topic only if there are less than three."""

    def folded(happened, rule):
        times = Counter(topic for topic, _ in happened)
        return right([one for one in happened if times[one[0]] < 3], rule)

    return folded


def additions_first(right):
    def apply(self, diff):
        right(self, type(diff)(added=diff.added))
        right(self, type(diff)(removed=diff.removed))

    return apply


def results(times):
    """Send each result so many times."""

    def wrong(right):
        def commands(self, *given):
            return [one for one in right(self, *given) for _ in range(times if isinstance(one, CommandPartitionUpdateResult) else 1)]

        return commands

    return wrong


def older(right):
    def topics(self):
        told = right(self)
        for one in told:
            one.partition -= 1
        return told

    return topics


REPLAY = "conformance.corpus.replay.scalable"
FOLDED = f"{REPLAY}:folded"
SCALABLE, PARTITIONS = "refimpl.proposals.scalable_topics", "refimpl.proposals.partition_watch"
RULES, APPLY = f"{SCALABLE}.rules:FoldedChanges", f"{SCALABLE}.client:ScalableTopicsWatch._apply"
COMMANDS = f"{PARTITIONS}.client:PartitionWatch.commands_to_send"
ALL_FAULTS = (
    fault("nothing is wrong", FOLDED, lambda right: right),
    fault("diffs leave out a topic that came", FOLDED, told(lambda one: {"added": one.added[: max(1, len(one.added) - 1)]}), "listing", "hash", "reference"),
    fault("diffs that have nothing to tell go out", FOLDED, lambda right: lambda *given: right(*given) or ScalableTopicsDiff(), "never-empty", "reference"),
    fault("diffs name topics in another order than the reference's broker", FOLDED, told(lambda one: {"added": one.added[::-1]}), "reference"),
    fault("topics that change three times in a window are not told of", FOLDED, only_first_and_last, "listing", "hash", "reference"),
    fault("the broker leaves out a topic that came", f"{RULES}.take", taken(lambda one: {"added": one.added[: max(1, len(one.added) - 1)]}), "reference"),
    fault("the broker forgets what left if it came in the same window", f"{RULES}.remove", came_and_gone, "reference"),
    fault("clients add before they remove", APPLY, additions_first, "listing", "hash"),
    fault("clients remove nothing", APPLY, lambda right: lambda self, diff: right(self, type(diff)(added=diff.added)), "listing", "hash"),
    fault("clients hash in another order", "refimpl.indexes.topics_hash:TopicSet.hash", lambda right: property(lambda self: right.fget(self)[::-1]), "hash"),
    fault("all lists have the same hash", f"{REPLAY}:topics_hash", lambda right: lambda topics: right(()), "listing", "hash"),
    fault("the last change is lost", f"{REPLAY}:flips", lambda right: lambda *given: iter(list(right(*given))[:-1]), "listing", "hash", "reference"),
    fault("all topics fit the filters, but for the reference's broker", f"{REPLAY}:fits", lambda right: lambda *_: True, "reference"),
    fault("the broker's window is a millisecond longer", f"{SCALABLE}.broker:COALESCING_SECONDS", lambda right: right + 0.001, "reference"),
    fault("the broker is not told of one topic", f"{SCALABLE}.broker:ScalableTopicsBroker.notified", lambda right: lambda self, path, now: None if path.endswith("-7") else right(self, path, now), "reference"),
    fault("versions are skipped", f"{PARTITIONS}.broker:next_version", lambda right: lambda version, **more: right(version, **more) + 1, "versions-grow"),
    fault("versions stay the same", f"{PARTITIONS}.broker:next_version", lambda right: lambda version, **more: 1, "versions-grow", "listing"),
    fault("updates tell of a partition less", f"{PARTITIONS}.broker:_Watcher.topics_with_partitions", older, "listing"),
    fault("clients send no results", COMMANDS, results(0), "versions-grow"),  # the next update replaces one in flight
    fault("clients send results twice", COMMANDS, results(2), "versions-grow"),
    fault("answers to polls are not looked at", f"{PARTITIONS}.client:PartitionWatch._polled", lambda right: lambda *_: None, "listing"),
)  # fmt: skip
"""Faults of the reference, and of the replay alone."""


def in_driver(name):
    """Replay without Spark, so that what is planted here is in force."""
    numbers = pa.record_batch({"id": pa.array(range(WATCHERS), pa.int64())})
    rows = pa.Table.from_batches(_runner(OPTIONS, WAYS, 1, 1)(iter([numbers])))
    return rows.append_column("fault", pa.array([name] * len(rows)))


def test_each_fault_breaks_just_the_laws_that_speak_of_it(spark):
    rows = []
    for one in ALL_FAULTS:
        with planted(one):
            rows.append(in_driver(one.name))
    totals = spark.createDataFrame(pa.concat_tables(rows).combine_chunks()).groupBy("fault").agg(*sums(JOB.laws)).collect()
    found = {row["fault"]: broken(row.asDict()) for row in totals}
    assert {one.name: found[one.name] for one in ALL_FAULTS if found[one.name] != one.laws} == {}
