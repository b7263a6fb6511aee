"""The law that a corpus is looked at as a whole breaks when it should: faults in how it is divided."""

import pytest

from conformance.corpus.batching.slices import is_whole, slices
from conformance.corpus.jobs.batches_agree import DISTRIBUTIONS, SLICED
from conformance.corpus.sources.synthetic_messages import SyntheticMessages
from tests.samples.faults import fault, planted

pytestmark = pytest.mark.usefixtures("without_compiling")
SLICES = "conformance.corpus.batching.slices"


def without_last(right):
    return lambda self: iter(list(right(self))[:-1])


def first_twice(right):
    return lambda self: iter([*list(right(self))[:1], *right(self)])


def of_one_core(right):
    """Divide by the number of cores as if there were one, so that most numbers are beyond the last slice."""
    return lambda text: right("place DIV 1")


ALL_FAULTS = (
    fault("nothing is wrong", f"{SLICES}:Slices.__iter__", lambda right: right),
    fault("the last slice is not looked at", f"{SLICES}:Slices.__iter__", without_last, "whole"),
    fault("the first slice is looked at twice", f"{SLICES}:Slices.__iter__", first_twice, "whole"),
    fault("what a producer's hash is below zero for is in no slice", f"{SLICES}:sql.pmod", lambda right: lambda one, other: one % other, "whole"),
    fault("places are numbered beyond the last slice", f"{SLICES}:sql.expr", of_one_core, "whole"),
)  # fmt: skip


@pytest.fixture(scope="module")
def messages(spark):
    block = (
        SyntheticMessages({"rows": "4000", **{name: str(value) for name, value in DISTRIBUTIONS[SLICED].items()}})
        .block(0, 4000)
        .select(["topic", "producer_name", "sequence_id"])
    )
    return spark.createDataFrame(block.to_pylist(), "topic STRING, producer_name STRING, sequence_id LONG").localCheckpoint()


@pytest.mark.parametrize("one", ALL_FAULTS, ids=lambda one: one.name)
def test_each_fault_breaks_the_law(messages, one):
    with planted(one):
        cut = slices(messages, 2)
        outcome = is_whole(4000, [part.count() for part in cut])
        cut.unpersist()
    assert {outcome.name for _ in range(outcome.broken > 0)} == one.laws
    assert outcome.checked == 4000
