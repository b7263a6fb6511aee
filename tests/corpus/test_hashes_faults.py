"""Each law of the job `hashes_agree` breaks when it should: faults in ranges, in what joins them, in the reference, and in diffs."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as sql

from conformance.corpus.filtering.checksums import Part
from conformance.corpus.job import Run
from conformance.corpus.jobs import hashes_agree
from conformance.corpus.jobs.hashes_agree import COMES, GOES, JOB
from refimpl.indexes.topics_hash import TopicSet
from tests.samples.faults import fault, planted

pytestmark = pytest.mark.usefixtures("without_compiling")
NAMES = [
    *(f"before-{number:03}" for number in range(300)),
    "a",
    "a,b",
    "b",
    "é",
    "\uff5e",
    "\U00010000",
    "\U0010ffff",
    *(f"topic-{number}" for number in range(900)),
]
TOPICS = [f"persistent://t/{space}/{name}" for space in ("n", "n-2", "m") for name in NAMES]


def two_as_one(right):
    return lambda: sql.when(right() == "t/n-2", "t/n").otherwise(right())


def without_first(right):
    """Lose the first topic of each range."""
    return lambda batches: right(batch.slice(1) for batch in batches)


def without_one(right):
    return lambda table: right(table.slice(1))


def nothing_goes(right):
    """Give topics that go another number, by which they stay."""
    return lambda table: right(table.set_column(2, "_number", pc.if_else(pc.equal(table["_number"], GOES), 2, table["_number"])))


def nothing_comes(right):
    return lambda table: right(table.filter(pc.not_equal(table["_number"], COMES)))


def without_a_comma(right):
    """Count the bytes of a range as if its batches were joined by nothing: as many commas less as it has batches more than one."""

    def hashed(batches):
        seen = list(batches)
        for batch in right(iter(seen)):
            rows = batch.to_pylist()
            rows[-1]["length"] -= max(0, len(seen) - 1)
            yield pa.RecordBatch.from_pylist(rows, schema=batch.schema)

    return hashed


def with_set(**wrong):
    """Change the set of the reference where a diff is applied, which is in a worker."""

    def planted_there(right):
        def apply(table):
            with pytest.MonkeyPatch.context() as patch:
                for name, change in wrong.items():
                    patch.setattr(TopicSet, name, change(getattr(TopicSet, name)))
                return right(table)

        return apply

    return planted_there


def stale_block(right):
    """Keep the checksum of a block that has changed, if another one follows."""

    def changed(self, index):
        valid = self._valid
        right(self, index)
        self._valid = max(self._valid, min(valid, len(self._blocks) - 1))

    return changed


def stale_if_emptied(right):
    """Keep all checksums as they were if a block is emptied."""

    def remove(self, topic):
        valid, blocks = self._valid, len(self._blocks)
        was_there = right(self, topic)
        if len(self._blocks) < blocks:
            self._valid = min(valid, max(0, len(self._blocks) - 1))
        return was_there

    return remove


def lost_if_divided(right):
    """Lose a topic by which a block is divided."""

    def add(self, topic):
        blocks = len(self._blocks)
        is_new = right(self, topic)
        if len(self._blocks) > blocks > 0:
            self.remove(topic)
        return is_new

    return add


def wrong_at_first(right):
    """Give a wrong hash the first time that it is asked for."""
    asked = []

    def found(self):
        asked.append(self)
        return right.fget(self)[::-1] if len(asked) == 1 else right.fget(self)

    return property(found)


HASHES, OF_JOB = "conformance.corpus.filtering.hashes", "conformance.corpus.jobs.hashes_agree"
OF_REFERENCE = ("distributed-hash", "diff-applied-stepwise")
"""Laws that compare hashed ranges with the reference."""
ALL_FAULTS = (
    fault("nothing is wrong", f"{HASHES}:hexadecimal", lambda right: right),
    fault("topics are in the order of UTF-8", f"{HASHES}:utf16_order", lambda right: lambda: sql.encode("topic", "UTF-8"), *OF_REFERENCE),
    fault("bytes of the hash upside down", f"{HASHES}:hexadecimal", lambda right: lambda checksum: checksum.to_bytes(4, "big").hex(), *OF_REFERENCE),
    fault("ranges are joined without a comma", "conformance.corpus.filtering.checksums:_COMMA", lambda right: Part(0, 0), *OF_REFERENCE, "any-division"),
    fault("ranges are joined from behind", f"{HASHES}:joined", lambda right: lambda parts: right(list(parts)[::-1]), *OF_REFERENCE, "any-division"),
    fault("each range loses a topic", f"{HASHES}:_hash_ranges", without_first, *OF_REFERENCE, "any-division"),
    fault("a range lacks the commas between its batches", f"{HASHES}:_hash_ranges", without_a_comma, "any-division"),
    fault("a set keeps the checksum of a block that has changed", f"{OF_JOB}:_apply_diff", with_set(_changed=stale_block), "diff-applied-stepwise"),
    fault("a set has a wrong hash at first", f"{OF_JOB}:_apply_diff", with_set(hash=wrong_at_first), "diff-applied-stepwise"),
    fault("a block of a set that is emptied leaves the others as they were", f"{OF_JOB}:_apply_diff", with_set(remove=stale_if_emptied), "diff-applied-stepwise"),
    fault("a set loses the topic that divides a block", f"{OF_JOB}:_apply_diff", with_set(add=lost_if_divided), "diff-applied-stepwise"),
    fault("a namespace is lost", f"{OF_JOB}:namespace_hashes", lambda right: lambda *given: dict(list(right(*given).items())[:-1]), "distributed-hash"),
    fault("two namespaces are one", f"{HASHES}:namespace_of", two_as_one, *OF_REFERENCE),
    fault("the reference loses a topic", f"{HASHES}:_hash_by_reference", without_one, "distributed-hash"),
    fault("one range is hashed without a topic", f"{OF_JOB}:whole_hash", lambda right: lambda topics, parts: right(topics.where(f"topic != '{TOPICS[0]}'") if parts == 1 else topics, parts), "any-division"),
    fault("a diff does not tell what goes", f"{OF_JOB}:_diff", lambda right: lambda *given: (right(*given)[0], right(*given)[1].limit(0)), "diff-applied"),
    fault("a diff tells what comes as what goes", f"{OF_JOB}:_diff", lambda right: lambda *given: right(*given)[::-1], "diff-applied"),
    fault("what comes is there twice", f"{OF_JOB}:_with_diff", lambda right: lambda topics, added, removed: right(topics, added.union(added), removed), "diff-applied"),
    fault("nothing goes from the reference's set", f"{OF_JOB}:_apply_diff", nothing_goes, "diff-applied-stepwise"),
    fault("nothing comes into the reference's set", f"{OF_JOB}:_apply_diff", nothing_comes, "diff-applied-stepwise"),
)  # fmt: skip
"""Faults of one side of a law, or of both where another law looks at them."""


@pytest.fixture
def few_parts(spark):
    """Divide equal listings into equal ranges: Spark looks at all topics, not at a sample, to find their borders."""
    settings = {"spark.sql.shuffle.partitions": "2", "spark.sql.execution.rangeExchange.sampleSizePerPartition": "10000"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name in settings:
        spark.conf.unset(name)


def test_each_fault_breaks_just_the_laws_that_speak_of_it(spark, few_parts):
    topics = spark.createDataFrame([(topic,) for topic in TOPICS], "topic STRING").coalesce(1).localCheckpoint()
    run = Run(spark, JOB.parser().parse_args(["--ranges", "4", "--changed", "5"]))
    found = {}
    for one in ALL_FAULTS:
        with planted(one):
            found[one.name] = {law.name for law in hashes_agree._check(run, topics).laws if law.broken}
    assert {one.name: found[one.name] for one in ALL_FAULTS if found[one.name] != one.laws} == {}
