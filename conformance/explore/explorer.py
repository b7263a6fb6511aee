"""Plays scenarios on the reference and on a target, and compares what both said after each action.

The reference plays first, in virtual time. The target plays then, and after each action has the time to say the same; anything
else, less or more, is a difference. A scenario that differs in a new way is made as small as it can be. What was rarely covered is
drawn more often.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from conformance.explore.actions import KINDS
from conformance.explore.concurrent import play
from conformance.explore.conditions import known_problem
from conformance.explore.difference import Difference
from conformance.explore.drawing import draw
from conformance.explore.played import Met, on_reference, on_target
from conformance.explore.player import Step
from conformance.explore.said import Told
from conformance.explore.shrinking import shrink
from conformance.explore.world import Scenario
from conformance.interruption import ending_soon
from conformance.running.one_broker import see_one_broker
from conformance.running.owners import behind
from conformance.running.probe import claimed, probe
from conformance.targets import AdminClient, AdminUnreachable, Endpoint, Target, TargetError
from refimpl.net.virtual_time import VirtualTimeLoop

T = TypeVar("T")
SCENARIOS_OF_A_BROKER = 1000
"""Scenarios after which a broker that was started here is started anew: it keeps their namespaces, and 2,500 fill a release's 768 MB."""
_CLOSING = 0.3
"""Seconds for the end of a target when an exploration has not reached its own: a user who interrupts does not want to wait."""


@dataclass
class Coverage:
    """Which command met what: the last thing that was said to the one who sends it, and what was said then."""

    met: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)

    def add(self, steps: Sequence[Step], told: Told) -> None:
        """Count a scenario."""
        before, last = "nothing", 0
        for step in steps:
            if step.action is None:
                last = step.frames
                continue
            answer = ",".join(sorted({line.name for _, _, line in told.frames[last : step.frames]})) or "silence"
            self.met[before, step.action.kind, answer] += 1
            self.kinds[step.action.kind] += 1
            before, last = f"{step.action.kind}:{answer}", step.frames

    def weights(self, kinds: Iterable[str]) -> dict[str, int]:
        """Return how often to draw each kind: more often the fewer ways it has met others in, compared with its weight."""
        ways = Counter(kind for _, kind, _ in self.met)
        most = max(ways.values(), default=1)
        return {kind: KINDS[kind].weight + (3 if ways[kind] * 4 < most else 0) for kind in kinds}


@dataclass
class Explored:
    """What an exploration found.

    Attributes:
        differences: Each difference by its signature, as small as it was shrunk to.
        met: Freedoms and known defects, and what was late.
        unrepeated: Differences that did not come again when the scenario was played again.
        broken: What did not hold after concurrent actions, or had no answer of the admin interface twice, by their seed.
        unanswered: Calls of the admin interface that had no answer, and had one when their scenario was played again.
        stopped: Why the exploration ended early; None: it did not.
    """

    scenarios: int = 0
    actions: int = 0
    seconds: float = 0.0
    coverage: Coverage = field(default_factory=Coverage)
    differences: dict[str, Difference] = field(default_factory=dict)
    met: Met = field(default_factory=Met)
    unrepeated: dict[str, Difference] = field(default_factory=dict)
    broken: dict[str, list[str]] = field(default_factory=dict)
    unanswered: dict[str, Scenario] = field(default_factory=dict)
    stopped: str | None = None

    def found(self) -> list[str]:
        """Return everything that was found, in one line each."""
        return [*self.differences, *(f"seed {seed}: {problems[0]}" for seed, problems in self.broken.items())]


@dataclass(frozen=True)
class Plan:
    """What to explore.

    Attributes:
        seconds: For how long new scenarios are drawn.
        scenarios: How many at most; None: as many as the time allows.
        seed: Repeats a plan.
        proposals: Only actions of these registers, and of the core; empty: all.
        slow: Factor on the time that a target has.
        shrinking: Seconds in which a scenario that differs is made smaller.
        concurrent: Whether actors act at the same time, and are judged by what must hold afterwards.
        claims: Capabilities that the target has and no feature flag tells.
    """

    seconds: float = 600.0
    scenarios: int | None = None
    seed: int = 0
    proposals: Sequence[str] = ()
    slow: float = 1.0
    shrinking: float = 60.0
    concurrent: bool = False
    claims: Sequence[str] = ()


class Explorer:
    """Explores one target that is ready.

    Args:
        reference: Runs the reference's side, in virtual time.
        runner: Runs the target's side; its loop is in virtual time if the target is.
        target: What is explored. In virtual time it is started anew for each scenario.
        endpoint: Where it is, if it has been started already.
        capabilities: What it can do.
        plan: What to explore.
        note: Gets what was found so far after each scenario.
        fault: Holds while the target plays: makes a reference with a fault of the target.
        renew: Starts the target anew, now and then; None: it runs as long as it is explored.
    """

    def __init__(
        self,
        reference: asyncio.Runner,
        runner: asyncio.Runner,
        target: Target,
        endpoint: Endpoint | None,
        capabilities: Mapping[str, bool],
        plan: Plan,
        note: Callable[[Explored], None] = lambda _: None,
        fault: Callable[[], AbstractContextManager[object]] = nullcontext,
        renew: Callable[[], Endpoint] | None = None,
    ) -> None:
        self._reference = reference
        self._runner = runner
        self._target = target
        self._endpoint = endpoint
        self._fault = fault
        self._renew = renew
        self._capabilities = capabilities
        self._plan = plan
        self._note = note
        self._kinds = [
            name
            for name, kind in KINDS.items()
            if all(capabilities.get(one, False) for one in kind.requires)
            and (not plan.proposals or kind.proposal in ("core", *plan.proposals))
        ]
        self._numbers = itertools.count(1)
        self._begun = time.monotonic()
        self.explored = Explored()

    def explore(self) -> Explored:
        """Explore until the time is over, the user interrupts, or the target is lost; what was found until then is kept."""
        step = self._at_the_same_time if self._plan.concurrent else self._beside_the_reference
        try:
            while not self._time_is_over():
                number = self.explored.scenarios
                self.explored.scenarios += 1
                if self._renew is not None and number and number % SCENARIOS_OF_A_BROKER == 0:
                    self._endpoint = self._renew()
                step(f"{self._plan.seed} {number}")
                self._told()
        except KeyboardInterrupt:
            self.explored.stopped = "interrupted"
        except TargetError as error:
            self.explored.stopped = str(error)
        if self.explored.stopped is not None:
            self._told()
        return self.explored

    def _told(self) -> None:
        self.explored.seconds = time.monotonic() - self._begun
        self._note(self.explored)

    def _beside_the_reference(self, seed: str) -> None:
        scenario = draw(random.Random(seed), self.explored.coverage.weights(self._kinds))
        self.explored.actions += len(scenario.actions)
        try:
            difference = self._play(scenario, self.explored.coverage)
        except AdminUnreachable as error:
            difference = self._play_again(seed, scenario, error)
        if difference is not None and self._is_new(difference):
            self._keep(difference)

    def _play_again(self, seed: str, scenario: Scenario, error: AdminUnreachable) -> Difference | None:
        """Play a scenario again in which a call had no answer, if the target still answers others.

        Raises:
            AdminUnreachable: It does not.
        """
        self._runner.run(self._with_target(_answers))
        try:
            difference = self._play(scenario)
        except AdminUnreachable as again:
            self.explored.broken[seed] = [str(error), str(again)]
            return None
        self.explored.unanswered[str(error)] = scenario
        return difference

    def _at_the_same_time(self, seed: str) -> None:
        with self._fault():
            played = self._runner.run(
                ending_soon(self._with_target(lambda endpoint: play(endpoint, self._capabilities, seed, self._names(), self._plan.slow)))
            )
        self.explored.actions += played.actions
        known = {problem: known_problem(problem, self._release) for problem in played.problems}
        self.explored.met.free.update(entry for entry in known.values() if entry is not None)
        if unknown := [problem for problem, entry in known.items() if entry is None]:
            self.explored.broken[seed] = unknown

    @property
    def _release(self) -> str | None:
        return self._endpoint.release if self._endpoint else None

    def _time_is_over(self) -> bool:
        enough = self._plan.scenarios is not None and self.explored.scenarios >= self._plan.scenarios
        return enough or time.monotonic() - self._begun >= self._plan.seconds

    def _is_new(self, difference: Difference) -> bool:
        if difference.entry is not None:
            self.explored.met.free[difference.entry] += 1
            return False
        return difference.signature not in {*self.explored.differences, *self.explored.unrepeated}

    def _keep(self, difference: Difference) -> None:
        """Keep a difference as small as it can be made, or apart if it does not come again."""
        signature = difference.signature
        again = self._play(difference.scenario.until(difference.place))
        if again is None or again.entry is not None or again.signature != signature:
            self.explored.unrepeated[signature] = difference
            return
        until = time.monotonic() + self._plan.shrinking
        smallest = again

        def still(scenario: Scenario) -> bool:
            nonlocal smallest
            other = self._play(scenario) if time.monotonic() < until else None
            if other is None or other.entry is not None or other.signature != signature:
                return False
            smallest = other
            return True

        shrink(again.scenario, still)
        self.explored.differences[signature] = smallest

    def _play(self, scenario: Scenario, coverage: Coverage | None = None) -> Difference | None:
        names = self._names()
        said = self._reference.run(on_reference(scenario, names))
        if coverage is not None:
            coverage.add(said.player.steps, said.player.told)
        met, slow = self.explored.met, self._plan.slow
        patient = coverage is not None

        def work(endpoint: Endpoint) -> Awaitable[Difference | None]:
            return on_target(endpoint, scenario, names, said, met, slow, patient=patient)

        with self._fault():
            return self._runner.run(ending_soon(self._with_target(work)))

    def _names(self) -> dict[str, str]:
        number = next(self._numbers)
        first = f"pc-{self._plan.seed % 46656:x}-{number:x}a"
        return {"b": f"{first}b", "a": first}  # the longer one first: where names are replaced, it holds the other one

    async def _with_target(self, work: Callable[[Endpoint], Awaitable[T]]) -> T:
        if self._endpoint is not None:
            return await work(self._endpoint)
        async with self._target.run() as endpoint:
            return await work(endpoint)


async def _answers(endpoint: Endpoint) -> None:
    async with AdminClient(endpoint) as admin:
        await admin.call("clusters")


def explore(target: Target, plan: Plan, note: Callable[[Explored], None] = lambda _: None) -> Explored:
    """Explore a target.

    Raises:
        TargetError: It can't be used.
    """
    with (
        asyncio.Runner(loop_factory=VirtualTimeLoop if target.virtual_time else None) as runner,
        asyncio.Runner(loop_factory=VirtualTimeLoop) as reference,
    ):
        stack = AsyncExitStack()

        def start() -> Endpoint:
            return runner.run(behind(runner.run(stack.enter_async_context(target.run()))))

        def renew() -> Endpoint:
            runner.run(_close(stack, None))
            return start()

        endpoint = start()
        ended = False
        try:
            probed = runner.run(probe(claimed(endpoint, plan.claims)))
            if not probed.capabilities["admin"]:
                raise TargetError(f"{target.name} has no admin URL, which makes the topics of a scenario", hint="give one with --admin-url")
            if not target.startable:
                runner.run(see_one_broker(endpoint))
            explorer = Explorer(
                reference,
                runner,
                target,
                None if target.virtual_time else endpoint,
                probed.capabilities,
                plan,
                note,
                renew=renew if endpoint.thrown_away and not target.virtual_time else None,
            )
            explored = explorer.explore()
            ended = explored.stopped is None
            return explored
        finally:
            runner.run(_close(stack, None if ended else _CLOSING))


async def _close(stack: AsyncExitStack, seconds: float | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stack.aclose()
