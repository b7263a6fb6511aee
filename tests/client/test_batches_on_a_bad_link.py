"""Some hundred seeds; each failure names its seed, and `python -m tests.client.batches_on_a_bad_link SEED` shows what happened."""

from collections.abc import Callable

import pytest

from refimpl.proposals.uniform_batches import EntryVerdict, PropertyEntryFilter, SubscriptionEntryFilters, UniformBatcher
from tests.client.batches_on_a_bad_link import run
from tests.seeds import count_caught, run_group, shown

SEEDS = 300
GROUP = 50


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
def test_every_message_is_stored_and_delivered_as_its_header_says(first: int) -> None:
    run_group(run, range(first, first + GROUP), "tests.client.batches_on_a_bad_link")


def test_a_seed_repeats_itself(capsys: pytest.CaptureFixture[str]) -> None:
    said = [shown(lambda seed: run(seed, verbose=True), 7, capsys) for _ in range(2)]
    assert said[0] == said[1] != ""


def joins_whatever_comes(against: Callable) -> Callable:
    return lambda batcher, extracted, size, kind: against(batcher, batcher._extracted, size, kind)


def forgets_what_was_put_off(due: Callable) -> Callable:
    return lambda filters, now: due(filters, now)[:0]


def rejects_what_it_should_accept(judge: Callable) -> Callable:
    return lambda one, metadata: EntryVerdict.REJECT if metadata.sequence_id == 2 else judge(one, metadata)


@pytest.mark.parametrize(
    ("owner", "name", "fault"),
    [
        (UniformBatcher, "_against", joins_whatever_comes),
        (SubscriptionEntryFilters, "due", forgets_what_was_put_off),
        (PropertyEntryFilter, "verdict", rejects_what_it_should_accept),
    ],
)
def test_a_fault_is_caught(owner: type, name: str, fault: Callable) -> None:
    assert count_caught(run, range(20), owner, name, fault) > 2
