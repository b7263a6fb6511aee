"""Some hundred seeds; each failure names its seed, and `python -m tests.explore.clients SEED` shows what happened."""

from collections.abc import Callable, Iterable

import pytest

from refimpl.client.multi_topics_consumer import MultiTopicsConsumer
from refimpl.client.pattern_consumer import PatternConsumer
from refimpl.proposals.partition_watch import PartitionWatchBroker
from refimpl.proposals.scalable_topics import ScalableTopicsBroker
from refimpl.proposals.scalable_topics.rules import FoldedChanges
from refimpl.proposals.topic_list import TopicListBroker
from refimpl.store import MemoryStore
from tests.explore.clients import run
from tests.explore.growth import Growth
from tests.seeds import count_caught, run_group, shown

SEEDS = 400
GROUP = 50
GROWING = [seed for seed in range(SEEDS) if Growth.of(seed, MemoryStore()) is not None]
"""The seeds with a partitioned topic that grows."""
FOLLOWING = range(120)
"""Seeds many of which have a namespace consumer."""


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
def test_client_and_broker_agree_when_all_comes_to_rest(first: int) -> None:
    run_group(run, range(first, first + GROUP), "tests.explore.clients")


def test_a_seed_repeats_itself(capsys: pytest.CaptureFixture[str]) -> None:
    said = [shown(lambda seed: run(seed, verbose=True), 7, capsys) for _ in range(2)]
    assert said[0] == said[1] != ""


def says_everything_twice(announce: Callable) -> Callable:
    return lambda broker, topic, **kind: announce(broker, topic, **kind) * 2


def loses_what_is_deleted(announce: Callable) -> Callable:
    def lossy(broker: TopicListBroker, topic: str, *, is_new: bool) -> list:
        updates = announce(broker, topic, is_new=is_new)
        return updates if is_new else []

    return lossy


def says_nothing_of_scalable_topics(notified: Callable) -> Callable:
    return lambda broker, path, now: None


def answers_all_with_silence(watch: Callable) -> Callable:
    def silent(broker: ScalableTopicsBroker, connection: object, request: object) -> object:
        answer = watch(broker, connection, request)
        return answer if not request.HasField("current_hash") else None  # type: ignore[attr-defined]

    return silent


def takes_nothing_away(fold: Callable) -> Callable:
    return lambda changes, topic: None


def ignores_what_it_learns(apply: Callable) -> Callable:
    return lambda consumer, changes: None


def loses_changes(changed: Callable) -> Callable:
    return lambda broker, topic, now: []


def counts_no_versions(update: Callable) -> Callable:
    def unversioned(broker: PartitionWatchBroker, watcher: object, now: float) -> object:
        told = update(broker, watcher, now)
        if told is not None:
            told.version = 1
        return told

    return unversioned


def takes_partitions_as_attached(grow: Callable) -> Callable:
    async def nothing(group: MultiTopicsConsumer, topics: list[str]) -> None:
        pass

    return nothing


@pytest.mark.parametrize(
    ("owner", "name", "fault", "seeds"),
    [
        (TopicListBroker, "_announce", says_everything_twice, range(120)),
        (TopicListBroker, "_announce", loses_what_is_deleted, range(120)),
        (PatternConsumer, "_apply", ignores_what_it_learns, range(120)),
        (PartitionWatchBroker, "changed", loses_changes, GROWING[:30]),
        (PartitionWatchBroker, "_update", counts_no_versions, GROWING[:30]),
        (MultiTopicsConsumer, "grow", takes_partitions_as_attached, GROWING[:30]),
        (ScalableTopicsBroker, "notified", says_nothing_of_scalable_topics, FOLLOWING),
        (ScalableTopicsBroker, "watch", answers_all_with_silence, FOLLOWING),
        (FoldedChanges, "remove", takes_nothing_away, FOLLOWING),
    ],
)
def test_a_fault_is_caught(owner: type, name: str, fault: Callable, seeds: Iterable[int]) -> None:
    assert count_caught(run, seeds, owner, name, fault) > 2
