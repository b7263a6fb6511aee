"""Exploration finds faults that it was not made for, says nothing of a right broker, and repeats itself."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from conformance.cli import app
from conformance.engine.capabilities import CAPABILITIES
from conformance.explore import explorer as exploring
from conformance.explore.actions import KINDS
from conformance.explore.difference import Difference
from conformance.explore.drawing import draw
from conformance.explore.explorer import Explored, Explorer, Plan, explore
from conformance.explore.freedoms import load_freedoms
from conformance.explore.played import Met, on_reference, on_target
from conformance.explore.shrinking import shrink
from conformance.explore.world import Action, Scenario, World
from conformance.explore.written import name_of, transcript
from conformance.judging.results import judge_log
from conformance.mutants.model import patched
from conformance.running.in_process import run_in_process
from conformance.suite import Suite, load_suite
from conformance.targets import AdminClient, AdminResult, AdminUnreachable, Endpoint, InProcessTarget, TargetError, parse_target
from conformance.targets.reference import ReferenceTarget
from refimpl.broker.admin import Admin
from refimpl.broker.subscription import Subscription
from refimpl.net.virtual_time import VirtualTimeLoop
from refimpl.proposals.message_filter.broker import MessageFilterExtension
from refimpl.proposals.partition_watch import PartitionWatchBroker
from refimpl.proposals.topic_list import TopicListBroker

ALL = dict.fromkeys(CAPABILITIES, True)
PLAN = Plan(seconds=600, scenarios=400, seed=5, shrinking=20)


class Found(Exception):
    """Ends an exploration that has found something."""


def faulty(owner: type, name: str, make: Callable[..., object]) -> AbstractContextManager[None]:
    return patched(lambda patches: patches.wrap(owner, name, make))


def explored_with(owner: type, name: str, make: object, plan: Plan = PLAN) -> Explored:
    """Explore the reference with a fault until something is found."""

    def note(explored: Explored) -> None:
        if explored.found():
            raise Found

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as reference, asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        target = parse_target("in-process")
        explorer = Explorer(reference, runner, target, None, ALL, plan, note, lambda: faulty(owner, name, make))
        with suppress(Found):
            explorer.explore()
        return explorer.explored


def loses_calls(times: int) -> Callable[..., object]:
    """Make a client that gets no answer to the first so many of some calls."""
    left = iter(range(times))

    def make(call: Callable[..., Awaitable[AdminResult]]) -> Callable[..., Awaitable[AdminResult]]:
        async def lost(client: AdminClient, op: str, args: object = None) -> AdminResult:
            if op == "unload_topic" and next(left, None) is not None:
                raise AdminUnreachable("PUT unload: no answer in 30 s")
            return await call(client, op, args)

        return lost

    return make


@pytest.mark.parametrize(("times", "found", "unanswered"), [(1, [], 1), (99, ["PUT unload: no answer in 30 s"] * 2, 0)])
def test_a_call_without_an_answer_is_found_if_there_is_none_again(times: int, found: list[str], unanswered: int) -> None:
    explored = explored_with(AdminClient, "call", loses_calls(times), Plan(seconds=600, scenarios=30, seed=2))
    assert [*explored.broken.values()] == ([found] if found else [])
    assert len(explored.unanswered) == unanswered
    assert explored.stopped is None


def test_a_target_that_answers_no_call_any_more_ends_an_exploration(monkeypatch: pytest.MonkeyPatch) -> None:
    async def gone(_: Endpoint) -> None:
        raise AdminUnreachable("GET clusters: no answer (gone)")

    monkeypatch.setattr(exploring, "_answers", gone)
    explored = explored_with(AdminClient, "call", loses_calls(1), Plan(seconds=600, scenarios=30, seed=2))
    assert explored.stopped == "GET clusters: no answer (gone)"
    assert explored.scenarios < 30


def never_tells_of_deletions(announce):
    return lambda broker, topic, *, is_new: announce(broker, topic, is_new=is_new) if is_new else []


FAULTS = {
    "deletions": (TopicListBroker, "_announce", never_tells_of_deletions),
    "changes of counts": (PartitionWatchBroker, "changed", lambda _: lambda broker, topic, now: []),
    "filters": (MessageFilterExtension, "requested", lambda _: lambda extension, request, name: None),
    "acknowledgements": (Subscription, "acknowledge", lambda _: lambda subscription, *args, **more: None),
}


def test_the_reference_says_what_it_says() -> None:
    explored = explore(parse_target("in-process"), Plan(seconds=600, scenarios=120, seed=3))
    assert explored.scenarios == 120
    assert not explored.found()
    assert not explored.unrepeated
    assert {kind for kind in KINDS if explored.coverage.kinds[kind] == 0} <= {"publish_many"}


def test_a_seed_repeats_an_exploration() -> None:
    once, twice = (explore(parse_target("in-process"), Plan(seconds=600, scenarios=20, seed=4)) for _ in range(2))
    assert once.coverage.met == twice.coverage.met


def test_a_broker_that_was_started_is_started_anew_before_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []

    class Counted(ReferenceTarget):
        def run(self) -> AbstractAsyncContextManager[Endpoint]:
            starts.append(self)
            return super().run()

    monkeypatch.setattr(exploring, "SCENARIOS_OF_A_BROKER", 2)
    explored = explore(Counted(), Plan(seconds=600, scenarios=5, seed=4))
    assert (explored.scenarios, explored.stopped, len(starts)) == (5, None, 3)


@pytest.mark.parametrize("producing", [True, False])
@pytest.mark.parametrize(("revived", "finding"), [(True, "failover-takeover"), (False, None)])
def test_a_takeover_that_brings_nothing_is_known_only_if_the_next_message_ends_it(
    revived: bool, finding: str | None, producing: bool
) -> None:
    def tells(tell: Callable[..., None]) -> Callable[..., None]:
        def told(subscription: Any, *joined: object) -> None:
            old = subscription._last_active
            if old is not None and subscription.active not in (None, old):
                subscription.stuck_at = len(subscription.topic.entries)
            tell(subscription, *joined)

        return told

    def dispatches(dispatch: Callable[..., None]) -> Callable[..., None]:
        def served(subscription: Any) -> None:
            stuck_at = getattr(subscription, "stuck_at", None)
            if stuck_at is None or (revived and len(subscription.topic.entries) > stuck_at):
                dispatch(subscription)

        return served

    def acts(kind: str, **given: object) -> Action:
        drawn = {name: one.draw(random.Random(1)) for name, one in KINDS[kind].parameters.items()}
        return Action(kind, tuple((drawn | given).items()))

    topic = (0, 0, 0)
    consumers = [acts("subscribe", at=at, consumer=1, topic=topic, type="Failover", domain="persistent", priority=0) for at in "ab"]
    before = (
        acts("create_partitioned_topic", topic=(0, 0, None), partitions=1),
        *consumers,
        *(acts("flow", number=number, permits=10) for number in range(2)),
        acts("produce", at="c", topic=topic, domain="persistent", producer=1),
        acts("publish"),
        *(() if producing else (acts("close_producer", at="c", producer=1),)),
    )

    async def difference(last: Action) -> Difference | None:
        scenario = Scenario(World(1, ("t",), ()), (*before, last))
        names = {"a": "pc", "b": "pd"}
        said = await on_reference(scenario, names)
        async with InProcessTarget().run() as endpoint:
            with faulty(Subscription, "tell_active", tells), faulty(Subscription, "dispatch", dispatches):
                return await on_target(replace(endpoint, release="4.2.4"), scenario, names, said, Met())

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        found = [runner.run(difference(acts("disconnect", at=at))) for at in "ab"]
    (one,) = (one for one in found if one is not None)
    assert (one.entry.finding if one.entry else None) == finding


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_made_small(fault: str) -> None:
    explored = explored_with(*FAULTS[fault])
    (difference,) = explored.differences.values()
    assert len(difference.scenario.actions) <= 12
    assert difference.missing or difference.extra


def test_a_difference_becomes_a_transcript_that_tells_a_right_broker_from_a_faulty_one(suite: Suite, tmp_path) -> None:
    fault = FAULTS["deletions"]
    (difference,) = explored_with(*fault).differences.values()
    path = tmp_path / "explored.yaml"
    path.write_text(transcript(difference, "faulty", suite), encoding="utf-8")
    with_it = load_suite(more=[path])
    name = name_of(difference)

    def verdict() -> str:
        return str(judge_log(with_it, run_in_process(with_it, [name])).results[0].verdict)

    assert verdict() == "PASS"
    with faulty(*fault):
        assert verdict() == "FAIL"


def test_a_difference_in_an_admin_call_becomes_a_transcript_too(suite: Suite, tmp_path: Path) -> None:
    def note(explored: Explored) -> None:
        if explored.found():
            raise Found

    def deletes_nothing() -> AbstractContextManager[None]:
        return patched(lambda patches: patches.function(Admin.delete_partitioned_topic, lambda *_, **__: None))

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as reference, asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        explorer = Explorer(
            reference, runner, parse_target("in-process"), None, ALL, replace(PLAN, proposals=("pr7629",)), note, deletes_nothing
        )
        with pytest.raises(Found):
            explorer.explore()
    (difference,) = explorer.explored.differences.values()
    assert any(line.lane == "admin" for line in (*difference.missing, *difference.extra))
    path = tmp_path / "explored.yaml"
    path.write_text(transcript(difference, "faulty", suite), encoding="utf-8")
    assert name_of(difference) in load_suite(more=[path]).transcripts


def test_what_was_found_is_kept_when_the_target_is_lost() -> None:
    @contextmanager
    def lost() -> Iterator[None]:
        if explorer.explored.scenarios > 3:
            raise TargetError("the target takes no connection")
        yield

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as reference, asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        explorer = Explorer(reference, runner, parse_target("in-process"), None, ALL, PLAN, fault=lost)
        explored = explorer.explore()
    assert (explored.scenarios, explored.stopped) == (4, "the target takes no connection")
    assert explored.coverage.met


def test_a_target_without_an_admin_interface_is_refused_with_what_to_do() -> None:
    class Bare(InProcessTarget):
        @asynccontextmanager
        async def run(self, *args: Any, **options: Any) -> AsyncIterator[Endpoint]:
            async with super().run(*args, **options) as endpoint:
                yield replace(endpoint, admin_url=None)

    with pytest.raises(TargetError, match=r"no admin URL.*--admin-url"):
        explore(Bare(), PLAN)


class Undeclared(InProcessTarget):
    """A right broker that declares nothing."""

    @asynccontextmanager
    async def run(self, *args: Any, **options: Any) -> AsyncIterator[Endpoint]:
        async with super().run(*args, **options) as endpoint:
            yield replace(endpoint, capabilities={})


def test_what_no_flag_tells_is_drawn_if_it_is_claimed() -> None:
    plan = Plan(seconds=600, scenarios=30, seed=6)
    kinds = [explore(Undeclared(), replace(plan, claims=claims)).coverage.kinds for claims in ((), ("property-entry-filter",))]
    assert [one["subscribe_with_properties"] > 0 for one in kinds] == [False, True]


@pytest.mark.parametrize(
    ("options", "words"), [((), "says what the reference says"), (("--concurrent",), "all that must hold did, after each scenario")]
)
def test_the_last_line_says_what_was_judged(options: tuple[str, ...], words: str, tmp_path: Path) -> None:
    given = ["explore", "in-process", "--scenarios", "2", "--seed", "1", "--report", str(tmp_path), *options]
    said = CliRunner().invoke(app, given).output
    assert said.startswith("exploring in-process with 2 scenarios, 10 minutes at most, seed 1\n")
    assert said.rstrip().endswith(f"in-process: {words}")
    assert (" situations, " in said) is not bool(options)
    assert words in (tmp_path / "explore.html").read_text()


@pytest.mark.parametrize("concurrent", [False, True])
def test_a_cluster_is_asked_at_the_broker_that_owns_the_scenario(concurrent) -> None:
    explored = explore(
        parse_target("in-process?brokers=2"), Plan(seconds=600, scenarios=6, seed=1, proposals=["pip145"], concurrent=concurrent)
    )
    assert (explored.found(), explored.stopped, explored.unrepeated) == ([], None, {})


def test_concurrent_actors_see_what_is_lost() -> None:
    explored = explored_with(*FAULTS["deletions"], Plan(seconds=600, scenarios=30, seed=1, concurrent=True))
    assert "was told" in explored.found()[0]


def test_after_concurrent_actions_all_holds_on_the_reference() -> None:
    assert not explore(parse_target("in-process"), Plan(seconds=600, scenarios=40, seed=1, concurrent=True)).broken


def test_what_comes_late_after_concurrent_actions_holds_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.explore.concurrent.REST", 0.01)  # diffs come after 0.05
    assert not explore(parse_target("in-process"), Plan(seconds=600, scenarios=20, seed=1, concurrent=True)).broken


def test_a_target_at_an_address_is_explored() -> None:
    explored = explore(parse_target("reference"), Plan(seconds=600, scenarios=8, seed=2, slow=5))
    assert (explored.scenarios, explored.found()) == (8, [])


@given(st.integers(0, 1000), st.data())
def test_what_is_left_after_shrinking_still_holds(seed: int, data: st.DataObject) -> None:
    scenario = draw(random.Random(seed), {name: kind.weight for name, kind in KINDS.items()})
    needed = data.draw(st.sampled_from([action.kind for action in scenario.actions]))
    smallest = shrink(scenario, lambda one: any(action.kind == needed for action in one.actions))
    assert [action.kind for action in smallest.actions] == [needed]
    assert (smallest.world.namespaces, smallest.world.names, len(smallest.world.patterns)) == (1, ("t",), 1)


def test_each_freedom_names_what_leaves_it_free(suite: Suite) -> None:
    freedoms = load_freedoms()
    for entry in [*freedoms.fields, *freedoms.differences]:
        assert entry.free == "question" or entry.free in suite.clauses, entry
