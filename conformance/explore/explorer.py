"""Plays scenarios on the reference and on a target, and compares what both said after each action.

The reference plays first, in virtual time. The target plays then, and after each action has the time to say the same; anything
else, less or more, is a difference. A scenario that differs in a new way is made as small as it can be. What was rarely covered is drawn more
often.
"""

from __future__ import annotations

import asyncio
import fnmatch
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from conformance.explore.actions import KINDS
from conformance.explore.freedoms import load_freedoms
from conformance.explore.player import Player, Step, clean
from conformance.explore.said import Line, Told
from conformance.explore.world import Scenario, draw, simpler
from conformance.running.probe import Probed, probe
from conformance.targets import AdminClient, Endpoint, InProcessTarget, Target
from refimpl.net.virtual_time import VirtualTimeLoop

SHRINKING_SECONDS = 60.0
QUIET = 0.1
"""Virtual seconds in which the reference says all that it will after an action."""
PATIENCE = 3.0
"""Seconds that a target has to say what the reference said."""
AFTERWARDS = 0.25
"""Seconds in which a target may say too much, after the last action; and after it has said something else."""


@dataclass(frozen=True)
class Difference:
    """An action after which the target has said something else than the reference.

    Attributes:
        scenario: What was played.
        place: The number of the step; 0: the preparation.
        missing: What only the reference has said.
        extra: What only the target has said.
        steps: What the reference's player did, as the steps of a transcript.
        told: What the reference said.
    """

    scenario: Scenario
    place: int
    missing: tuple[Line, ...]
    extra: tuple[Line, ...]
    steps: Sequence[Step] = field(repr=False)
    told: Told = field(repr=False)

    @property
    def signature(self) -> str:
        """Return what makes two differences the same: the kind of action, and which fields of which commands differ."""
        action = self.steps[self.place].action
        return f"{action.kind if action else 'preparation'}: {'; '.join(sorted(set(_described(self.missing, self.extra))))}"


def _described(missing: Sequence[Line], extra: Sequence[Line]) -> Iterable[str]:
    for name in {line.name for line in (*missing, *extra)}:
        was, now = ([line for line in lines if line.name == name] for lines in (missing, extra))
        if was and now:
            yield f"{name} has other {', '.join(_fields_that_differ(was[0], now[0])) or 'lines'}"
        else:
            yield f"{'no' if was else 'a further'} {name}" + (
                f" {(was or now)[0].fields}" if name in ("error", "closed") or not (was or now)[0].fields.startswith("{") else ""
            )


def _fields_that_differ(was: Line, now: Line) -> list[str]:
    try:
        one, two = json.loads(was.fields), json.loads(now.fields)
    except ValueError:
        return [f"{was.fields} -> {now.fields}"]
    return sorted(key for key in {*one, *two} if one.get(key) != two.get(key))


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
        free: How often a difference that is none was met, by its entry in the list of freedoms.
        unrepeated: Differences that did not come again when the scenario was played again.
    """

    scenarios: int = 0
    actions: int = 0
    seconds: float = 0.0
    coverage: Coverage = field(default_factory=Coverage)
    differences: dict[str, Difference] = field(default_factory=dict)
    free: Counter[str] = field(default_factory=Counter)
    unrepeated: dict[str, Difference] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """What to explore.

    Attributes:
        seconds: For how long new scenarios are drawn.
        scenarios: How many at most; None: as many as the time allows.
        seed: Repeats a plan.
        proposals: Only actions of these registers, and of the core; empty: all.
        slow: Factor on the time that a target has.
    """

    seconds: float = 600.0
    scenarios: int | None = None
    seed: int = 0
    proposals: Sequence[str] = ()
    slow: float = 1.0


class Explorer:
    """Explores one target that is ready.

    Args:
        reference: Runs the reference's side, in virtual time.
        runner: Runs the target's side; its loop is in virtual time if the target is.
        endpoint: Where the target is.
        capabilities: What it can do.
        plan: What to explore.
        note: Gets a line about what was found.
    """

    def __init__(
        self,
        reference: asyncio.Runner,
        runner: asyncio.Runner,
        endpoint: Endpoint,
        capabilities: Mapping[str, bool],
        plan: Plan,
        note: Callable[[Explored], None],
    ) -> None:
        self._reference_runner = reference
        self._runner = runner
        self._endpoint = endpoint
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
        self._reference = InProcessTarget()
        self.explored = Explored()

    def explore(self) -> Explored:
        """Explore until the time is over."""
        while not self._time_is_over():
            number = self.explored.scenarios
            scenario = draw(random.Random(f"{self._plan.seed} {number}"), self.explored.coverage.weights(self._kinds))
            self.explored.scenarios += 1
            self.explored.actions += len(scenario.actions)
            difference = self._play(scenario, self.explored.coverage)
            if difference is not None and self._is_new(difference.signature):
                self._keep(difference)
            self._note(self.explored)
        self.explored.seconds = time.monotonic() - self._begun
        return self.explored

    def _time_is_over(self) -> bool:
        enough = self._plan.scenarios is not None and self.explored.scenarios >= self._plan.scenarios
        return enough or time.monotonic() - self._begun >= self._plan.seconds

    def _is_new(self, signature: str) -> bool:
        for entry in load_freedoms().differences:
            if fnmatch.fnmatchcase(signature, entry.signature):
                self.explored.free[entry.signature] += 1
                return False
        return signature not in self.explored.differences and signature not in self.explored.unrepeated

    def _keep(self, difference: Difference) -> None:
        """Keep a difference as small as it can be made, or apart if it does not come again."""
        signature = difference.signature
        again = self._play(difference.scenario.until(difference.place))
        if again is None or again.signature != signature:
            self.explored.unrepeated[signature] = difference
            return
        until = time.monotonic() + SHRINKING_SECONDS
        found: Difference | None = again
        while found is not None:
            smallest, found = found, None
            for scenario in simpler(smallest.scenario):
                if time.monotonic() > until:
                    break
                other = self._play(scenario)
                if other is not None and other.signature == signature:
                    found = other
                    break
        self.explored.differences[signature] = smallest

    def _play(self, scenario: Scenario, coverage: Coverage | None = None) -> Difference | None:
        number = next(self._numbers)
        names = {variable: f"pc-{self._plan.seed % 46656:x}-{number:x}{variable}" for variable in "ab"}
        said = self._reference_runner.run(_on_reference(self._reference, scenario, names))
        if coverage is not None:
            coverage.add(said.steps, said.player.told)
        return self._runner.run(_on_target(self._endpoint, scenario, names, said, self._plan.slow))


@dataclass(frozen=True)
class Said:
    """What the reference said.

    Attributes:
        player: Its player.
        after: All lines so far, each time that its player waited until all was said.
    """

    player: Player
    after: Sequence[Counter[Line]]

    @property
    def steps(self) -> Sequence[Step]:
        """Return what was done."""
        return self.player.steps


async def _on_reference(target: Target, scenario: Scenario, names: Mapping[str, str]) -> Said:
    after: list[Counter[Line]] = []

    async def settle(player: Player) -> None:
        await asyncio.sleep(QUIET)
        player.drain()
        after.append(Counter(player.told.lines))

    async def between(_: Player) -> bool:
        return True

    async with target.run() as endpoint, AdminClient(endpoint) as admin:
        player = Player(endpoint, admin, scenario.world, names, settle)
        await player.play(scenario, between)
        await player.end()
    return Said(player, after)


async def _on_target(endpoint: Endpoint, scenario: Scenario, names: Mapping[str, str], said: Said, slow: float) -> Difference | None:
    difference: list[Difference] = []

    place = -1

    async def settle(player: Player) -> None:
        nonlocal place
        place += 1
        await _until_said(player, said.after[place], slow)

    async def between(player: Player) -> bool:
        expected = said.after[place]
        missing, extra = expected - player.told.lines, player.told.lines - expected
        if not missing and not extra:
            return True
        difference.append(
            Difference(
                scenario,
                len(player.steps) - 1,
                tuple(sorted(missing.elements())),
                tuple(sorted(extra.elements())),
                said.steps,
                said.player.told,
            )
        )
        return False

    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(AdminClient(endpoint)) if endpoint.admin_url is not None else None
        player = Player(endpoint, admin, scenario.world, names, settle)
        try:
            await player.play(scenario, between)
            if not difference:
                await player.ping()
                await asyncio.sleep(AFTERWARDS)
                player.drain()
                await between(player)
        finally:
            await player.end()
            if admin is not None and not endpoint.thrown_away:
                await clean(admin, names)
    return difference[0] if difference else None


async def _until_said(player: Player, expected: Counter[Line], slow: float) -> None:
    """Wait until a target has said what is expected; not much longer once it has said something else."""
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE * slow
    other_until = None
    while True:
        player.changed.clear()
        player.drain()
        if player.told.lines == expected:
            return
        if player.told.lines - expected:
            other_until = other_until or loop.time() + AFTERWARDS * slow
        left = min(until, other_until or until) - loop.time()
        if left <= 0:
            return
        try:
            await asyncio.wait_for(player.changed.wait(), left)
        except TimeoutError:
            continue


def explore(target: Target, plan: Plan, note: Callable[[Explored], None] = lambda _: None) -> tuple[Explored, Probed]:
    """Explore a target.

    Raises:
        TargetError: It can't be used.
    """
    with (
        asyncio.Runner(loop_factory=VirtualTimeLoop if target.virtual_time else None) as runner,
        asyncio.Runner(loop_factory=VirtualTimeLoop) as reference,
    ):
        stack = AsyncExitStack()
        endpoint = runner.run(stack.enter_async_context(target.run()))
        try:
            probed = runner.run(probe(endpoint))
            explorer = Explorer(reference, runner, endpoint, probed.capabilities, plan, note)
            return explorer.explore(), probed
        finally:
            runner.run(stack.aclose())
