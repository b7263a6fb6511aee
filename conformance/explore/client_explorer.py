"""Exploration of clients: scenarios drawn by chance become cases for clients, which are run and judged like those that somebody wrote.

draw --> case --> run with the client --> verdict --> what fails is run again, shrunk, and kept as a case
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from conformance.clients.driver import Driver
from conformance.clients.in_process import MemoryDriver
from conformance.clients.known import IN_PROCESS, ClientTarget
from conformance.clients.runner import run_clients
from conformance.engine import log
from conformance.engine import model as m
from conformance.engine.source import parse, read_text
from conformance.engine.verdict import Verdict
from conformance.explore import client_actions, client_stories
from conformance.explore.client_case import ClientCase
from conformance.explore.explorer import Plan
from conformance.explore.kinds import CLIENT_KINDS
from conformance.explore.shrinking import shrink
from conformance.explore.world import Action, Scenario, World
from conformance.judging.results import judge_log
from conformance.running.runner import Options, Silent
from conformance.suite import Suite
from conformance.targets.model import TargetError
from conformance.writing import dumped, written_steps
from refimpl.net.virtual_time import VirtualTimeLoop

_AT_ONCE: Final = 8
"""Scenarios of one run."""
_LENGTHS: Final = (4, 12)
"""How few and how many actions are drawn behind those that open consumers."""
_ALWAYS: Final = ("consume", "publish")
_SHARE: Final = 0.4
"""The part of the other kinds that a scenario has: some faults show only where nothing is cut, others where little else happens."""
_BAD: Final = (Verdict.FAIL, Verdict.WARN)
_NOTHING: Final = World(1, (), ())
_REGISTERED: Final = (client_actions, client_stories)
"""The modules whose kinds are drawn."""
FALLBACK: Final = "core.client.reattaches-after-close"
"""A case cites at least one clause."""
_LITERAL: Final = re.compile(r"\"[^\"]*\"|\d+")


@dataclass(frozen=True)
class Accused:
    """A scenario in which a client does not do what it must.

    Attributes:
        name: The id of its case.
        scenario: As small as it was made.
        result: What was said of it.
        text: The case, as a file.
    """

    name: str
    scenario: Scenario
    result: log.Result
    text: str


@dataclass
class ExploredClient:
    """What an exploration of a client found.

    Attributes:
        accused: By what is wrong.
        unrepeated: What was wrong once, and not again.
        kinds: How often each kind of action was drawn.
        silent: Scenarios that said nothing: INCONCLUSIVE, ERROR, NOT-APPLICABLE.
        failed: Scenarios among them that the driver, or the suite, did not bring to their end: ERROR.
        failure: Why the first of these was not.
        stopped: Why it ended early; None: it did not.
    """

    scenarios: int = 0
    actions: int = 0
    seconds: float = 0.0
    accused: dict[str, Accused] = field(default_factory=dict)
    unrepeated: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    silent: int = 0
    failed: int = 0
    failure: str = ""
    stopped: str | None = None


def draw_for_client(chance: random.Random, kinds: Sequence[str]) -> Scenario:
    """Draw a scenario: consumers, what happens to them, and messages that show what has become of it."""

    def drawn(name: str) -> Action:
        return Action(name, tuple((key, one.draw(chance)) for key, one in CLIENT_KINDS[name].parameters.items()))

    some = [name for name in kinds if name in _ALWAYS or chance.random() < _SHARE]
    middle = [drawn(name) for name in chance.choices(some, [CLIENT_KINDS[name].weight for name in some], k=chance.randint(*_LENGTHS))]
    first = [drawn(name) for name in ("consume", "consume", "publish")[chance.randrange(2) :]]
    return Scenario(_NOTHING, (*first, *middle, drawn("publish"), drawn("publish")))


def case_of(scenario: Scenario, capabilities: frozenset[str], name: str, comment: Sequence[str] = ()) -> str:
    """Write a scenario as a case for clients.

    Args:
        scenario: Its actions are `CLIENT_KINDS`.
        capabilities: What the client offers.
        name: The id of the case.
        comment: Lines in front of it.
    """
    case = ClientCase(capabilities)
    groups: list[tuple[str, list[dict[str, Any]]]] = []
    for action in scenario.actions:
        before = len(case.steps)
        CLIENT_KINDS[action.kind].act(case, **dict(action.arguments))
        groups.append((str(action), case.steps[before:]))
    before = len(case.steps)
    case.end()
    groups.append(("what was not acknowledged comes again", case.steps[before:]))
    if not case.steps:
        groups.append(("nothing is left", [{"advance": 0.1}]))
    clauses = sorted(_clauses_of(case.steps) | case.cites) or [FALLBACK]
    head = {"format": 1, "id": name, "title": "A scenario drawn by chance", "tests": ["client"], "clauses": clauses}
    head["vars"] = {name: {"$fresh": "namespace"} for name in ("ns", "elsewhere") if name == "ns" or f"${{{name}}}" in str(case.steps)}
    lines = [*(f"# {line}" for line in comment), dumped(head), "steps:"]
    for told, steps in groups:
        if steps:
            lines += [f"  # {told}", *written_steps(steps)]
    return "\n".join(lines) + "\n"


def _clauses_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["clause"]} if isinstance(value.get("clause"), str) else set()
        return own.union(*(_clauses_of(one) for one in value.values()))
    return set().union(*(_clauses_of(one) for one in value)) if isinstance(value, list) else set()


class ClientExplorer:
    """Explores one client.

    Args:
        suite: Clauses and fragments.
        client: The client, whose driver is built.
        plan: What to explore.
        runner: Runs the conversations; its loop is in virtual time for a driver in this process.
        driver: How the driver is reached.
        note: Gets what was found so far after each run.
    """

    def __init__(
        self,
        suite: Suite,
        client: ClientTarget,
        plan: Plan,
        runner: asyncio.Runner,
        driver: type[Driver] = Driver,
        note: Callable[[ExploredClient], None] = lambda _: None,
    ) -> None:
        self._suite = suite
        self._client = client
        self._plan = plan
        self._runner = runner
        self._driver = driver
        self._note = note
        self._begun = time.monotonic()
        self._capabilities: frozenset[str] = frozenset()
        self.explored = ExploredClient()

    def explore(self) -> ExploredClient:
        """Explore until the time is over, the user interrupts, or the driver is lost; what was found until then is kept.

        Raises:
            TargetError: The driver can't be used at all.
        """
        self._capabilities = self._hello()
        kinds = [
            name
            for name, kind in CLIENT_KINDS.items()
            if set(kind.requires) <= self._capabilities and (not self._plan.proposals or kind.proposal in ("core", *self._plan.proposals))
        ]
        try:
            while self.explored.stopped is None and not self._time_is_over():
                self._round(kinds)
                self._told()
        except KeyboardInterrupt:
            self.explored.stopped = "interrupted"
        self._told()
        return self.explored

    def _hello(self) -> frozenset[str]:
        run, _ = self._runner.run(
            run_clients(self._suite, self._client, Options(select=["no/case"], seed=1), lambda _: None, Silent(), self._driver)
        )
        return frozenset(name for name, has in run.header.capabilities.items() if has)

    def _told(self) -> None:
        self.explored.seconds = time.monotonic() - self._begun
        self._note(self.explored)

    def _time_is_over(self) -> bool:
        enough = self._plan.scenarios is not None and self.explored.scenarios >= self._plan.scenarios
        return enough or time.monotonic() - self._begun >= self._plan.seconds

    def _round(self, kinds: Sequence[str]) -> None:
        left = _AT_ONCE if self._plan.scenarios is None else min(_AT_ONCE, self._plan.scenarios - self.explored.scenarios)
        first = self.explored.scenarios
        scenarios = [draw_for_client(random.Random(f"{self._plan.seed} {first + one}"), kinds) for one in range(left)]
        self.explored.scenarios += left
        self.explored.actions += sum(len(one.actions) for one in scenarios)
        self.explored.kinds.update(action.kind for one in scenarios for action in one.actions)
        for scenario, result in zip(scenarios, self._play(scenarios), strict=True):
            self.explored.silent += result.verdict not in (*_BAD, Verdict.PASS)
            if result.verdict == Verdict.ERROR:
                self.explored.failed += 1
                self.explored.failure = self.explored.failure or result.summary
            if result.verdict in _BAD and signature(result) not in {*self.explored.accused, *self.explored.unrepeated}:
                self._keep(scenario, signature(result))

    def _keep(self, scenario: Scenario, wrong: str) -> None:
        """Keep a scenario as small as it can be made, or what was wrong alone if it does not come again."""
        until = time.monotonic() + self._plan.shrinking
        smallest: tuple[Scenario, log.Result] | None = None

        def still(smaller: Scenario) -> bool:
            nonlocal smallest
            if time.monotonic() >= until:
                return False
            (result,) = self._play([smaller])
            if result.verdict not in _BAD or signature(result) != wrong:
                return False
            smallest = smaller, result
            return True

        if not still(scenario):
            self.explored.unrepeated.append(wrong)
            return
        shrink(scenario, still, CLIENT_KINDS)
        assert smallest is not None
        found, result = smallest
        digest = hashlib.sha256(wrong.encode()).hexdigest()[:8]
        comment = [f"{self._client.name}: {result.verdict}", *result.diagnosis.splitlines()]
        comment.append("The clauses are those of what is expected: keep the one that decides.")
        name = f"explored/client-{digest}"
        self.explored.accused[wrong] = Accused(name, found, result, case_of(found, self._capabilities, name, comment))

    def _play(self, scenarios: Sequence[Scenario]) -> list[log.Result]:
        """Run scenarios with the client, several at a time, and return what was said of each."""
        names = [f"explored/client-{one}" for one in range(len(scenarios))]
        texts = [case_of(one, self._capabilities, name) for one, name in zip(scenarios, names, strict=True)]
        cases = [parse(m.Transcript, read_text(text, name)) for name, text in zip(names, texts, strict=True)]
        suite = replace(self._suite, transcripts={case.id: case for case in cases})
        options = Options(seed=1, slow=self._plan.slow)
        run, stopped = self._runner.run(run_clients(suite, self._client, options, lambda _: None, Silent(), self._driver))
        if stopped is not None:
            if stopped == "interrupted":
                raise KeyboardInterrupt
            raise TargetError(stopped)
        said = {one.case: one for one in judge_log(suite, run).results}
        return [said[name] for name in names]


def signature(result: log.Result) -> str:
    """Return what makes two accusations the same: the clauses that are broken, and what was wrong, without names and numbers."""
    broken = sorted(clause for clause, verdict in result.clauses.items() if verdict in _BAD)
    return f"{result.verdict} {', '.join(broken) or 'no clause'}: {_LITERAL.sub('..', result.summary)}"


def explore_client(
    suite: Suite, client: ClientTarget, plan: Plan, note: Callable[[ExploredClient], None] = lambda _: None
) -> ExploredClient:
    """Explore a client.

    Args:
        suite: Clauses and fragments.
        client: The client; `IN_PROCESS` is the reference client in this process, in virtual time.
        plan: What to explore.
        note: Gets what was found so far, now and then.

    Raises:
        TargetError: Its driver can't be built, or not be used.
    """
    inside = client is IN_PROCESS
    with asyncio.Runner(loop_factory=VirtualTimeLoop if inside else None) as runner:
        ready = runner.run(client.ready())
        return ClientExplorer(suite, ready, plan, runner, MemoryDriver if inside else Driver, note).explore()
