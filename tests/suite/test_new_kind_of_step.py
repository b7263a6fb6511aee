"""A new kind of step is a class, registered at one point: it is read, checked, run, judged, shown and published, and no module changes."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import Field

import conformance
from conformance.engine.matchers import Match
from conformance.engine.matching import Clock, Seen, match_frame
from conformance.engine.model import Transcript
from conformance.engine.node import Expectation, Node, Plan, Scope, Taking
from conformance.engine.parts import FrameSpec
from conformance.engine.source import SourceProblem, read_text
from conformance.engine.step import KINDS, Compiler, Place, Step, StepKind, connection, listed, step_kind
from conformance.engine.values import Value
from conformance.judging.results import judge_log
from conformance.report.show import show_case
from conformance.running.runner import Options, Silent, run_suite
from conformance.suite import load_suite
from tests.fakes.peers import Peer, PongTwice, running

FILE = """\
format: 1
id: test/twice
title: A frame that must come so many times
tests: [broker]
clauses: [test.pong, test.warn]
steps:
  - open: c
  - client: {ping: {}}
  - times: 2
    frame: {pong: {}}
    clause: test.warn
    then:
      - client: {ping: {}}
end: none
ambient: []
"""


@dataclass(frozen=True)
class Times(Expectation):
    """A frame that must come `left` more times."""

    frame: Mapping[str, Any] = field(compare=False, kw_only=True)
    left: int = field(kw_only=True)

    def awaited(self) -> Mapping[str, Any]:
        return self.frame

    def compare(self, seen: Seen, bindings: Mapping[str, Value], _: Clock) -> Match:
        return match_frame(self.frame, seen, {**self.scope.variables, **bindings})

    def takes(self, seen: Seen, bindings: Mapping[str, Value], clock: Clock) -> Iterator[Taking]:
        found = self.compare(seen, bindings, clock)
        if found:
            yield (replace(self, left=self.left - 1),) if self.left > 1 else (), found, self

    def show(self, plan: Plan) -> None:
        plan.awaits(self, f"{self.left} times")


class TimesStep(StepKind):
    """A frame that must come so many times, and what follows then."""

    times: int
    frame: FrameSpec
    at: str | None = None
    clause: str | None = None
    then: list[Step] = Field(default_factory=list)

    def children(self) -> Iterable[tuple[Place, StepKind]]:
        return listed(self.then, "then")

    def frames(self) -> Iterable[tuple[Place, FrameSpec]]:
        return [(("frame",), self.frame)]

    def clauses(self) -> Iterable[tuple[Place, str]]:
        return [(("clause",), self.clause)] if self.clause else []

    def compile(self, compiler: Compiler, scope: Scope, path: str) -> list[Node]:
        waiting = Times(path, connection(self.at, scope), scope, 0.3, frame=self.frame, left=self.times, clause=self.clause)
        return [waiting, *compiler.steps(self.then, scope, f"{path}.then")]


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    step_kind("times")(TimesStep)
    yield
    del KINDS["times"]


@pytest.mark.parametrize(
    ("peer", "verdict", "clauses"), [(PongTwice(), "PASS", ["PASS", "PASS"]), (Peer(), "WARN", ["UNTESTABLE", "WARN"])]
)
def test_it_runs_and_is_judged(add, peer, verdict, clauses):
    suite = load_suite(add(FILE, "test/twice"))

    async def go():
        async with running(peer) as target:
            return await run_suite(suite, target, Options(), lambda _: None, Silent())

    run, stopped = asyncio.run(go())
    (result,) = judge_log(suite, run).results
    assert (stopped, result.verdict, list(result.clauses.values())) == (None, verdict, clauses), result.diagnosis
    assert verdict == "PASS" or result.summary == "nothing came: the case waits for pong{}"


def test_it_is_shown(add):
    assert show_case(load_suite(add(FILE, "test/twice")), "test/twice").splitlines()[-4:] == [
        "> c opens a connection",
        "> c PING{}",
        "< c PONG{}  [test.warn] (2 times)",
        "> c PING{}",
    ]


@pytest.mark.parametrize(
    ("good", "bad", "problem"),
    [
        ("frame: {pong: {}}", "frame: {pung: {}}", "10: steps[2].frame.pung: unknown command 'pung'; did you mean 'pong'?"),
        ("clause: test.warn", "clause: test.no", "11: steps[2].clause: test.no is not among the clauses of test/twice: add it there"),
        (
            "      - client: {ping: {}}",
            "      - client: {ping: {x: 1}}",
            "13: steps[2].then[0].client.ping.x: unknown field 'x' of CommandPing",
        ),
        ("times: 2", "times: two", "9: steps[2].times: Input should be a valid integer, unable to parse string as an integer"),
        ("times: 2", "time: 2", "9: steps[2]: not a step: it needs one of "),
        ("    frame:", "    frome:", "10: steps[2].frome: unknown key 'frome'; did you mean 'frame'?"),
    ],
)
def test_it_is_checked_with_file_and_line(add, good, bad, problem):
    with pytest.raises(SourceProblem) as caught:
        load_suite(add(FILE.replace(good, bad), "test/twice"))
    assert any(line.startswith(f"transcripts/test/twice.yaml:{problem}") for line in caught.value.problems), caught.value.problems


def test_it_is_published():
    validator = jsonschema.Draft202012Validator(Transcript.model_json_schema())
    assert not list(validator.iter_errors(read_text(FILE, "x").data))
    assert list(validator.iter_errors(read_text(FILE.replace("times: 2", "times: two"), "x").data))


def kinds_of(base: type) -> set[str]:
    return {base.__name__}.union(*map(kinds_of, base.__subclasses__()))


def test_nobody_asks_for_the_class_of_a_step_or_node():
    home = Path(conformance.__file__).parent
    own = {home / "engine" / f"{name}.py" for name in ("node", "nodes", "actions", "step", "steps")}
    kinds = kinds_of(Node) | kinds_of(StepKind)
    asking = []
    for path in set(home.rglob("*.py")) - own:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                names = {getattr(one, "id", getattr(one, "attr", "")) for one in ast.walk(node.args[1])}
                asking += [path.relative_to(home).as_posix()] if names & kinds else []
    assert asking == ["mutation.py"] * 2, "a method of the node, instead"
