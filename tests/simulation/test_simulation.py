"""A thousand seeds; each failure names its seed, and `python tests/simulation/simulation.py SEED` shows what happened."""

from collections.abc import Callable

import pytest
from simulation import run

from conformance.mutants import Patches
from refimpl.client.pattern_consumer import PatternConsumer
from refimpl.proposals.topic_list import TopicListBroker

SEEDS = 1000
GROUP = 50


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
def test_client_and_broker_agree_when_all_comes_to_rest(first: int) -> None:
    for seed in range(first, first + GROUP):
        try:
            run(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}: python tests/simulation/simulation.py {seed}")
            raise


def test_a_seed_repeats_itself(capsys: pytest.CaptureFixture[str]) -> None:
    seen = []
    for _ in range(2):
        run(7, verbose=True)
        seen.append(capsys.readouterr().out)
    assert seen[0] == seen[1] != ""


def says_everything_twice(announce: Callable) -> Callable:
    return lambda broker, topic, **kind: announce(broker, topic, **kind) * 2


def loses_what_is_deleted(announce: Callable) -> Callable:
    def lossy(broker: TopicListBroker, topic: str, *, is_new: bool) -> list:
        updates = announce(broker, topic, is_new=is_new)
        return updates if is_new else []

    return lossy


@pytest.mark.parametrize("lie", [says_everything_twice, loses_what_is_deleted])
def test_a_broker_that_lies_is_caught(lie: Callable) -> None:
    patches = Patches()
    patches.wrap(TopicListBroker, "_announce", lie)
    try:
        caught = 0
        for seed in range(20):
            try:
                run(seed)
            except AssertionError:
                caught += 1
    finally:
        patches.undo()
    assert caught > 3


def test_a_client_that_forgets_its_watch_is_caught() -> None:
    patches = Patches()
    patches.wrap(PatternConsumer, "_apply", lambda received: lambda *arguments: None)
    try:
        with pytest.raises(AssertionError):
            for seed in range(20):
                run(seed)
    finally:
        patches.undo()
