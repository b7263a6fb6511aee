"""Synthetic conversations: a transcript, and what happened, written as a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from conformance.engine import log
from conformance.engine.frames import build_frame
from conformance.engine.machine import Machine
from conformance.engine.model import Fragment, Transcript
from conformance.engine.program import compile_case
from conformance.engine.source import parse, read_text
from conformance.engine.verdict import Outcome, TrialLog, judge

HEAD = """
format: 1
id: test/case
title: a synthetic case
tests: [broker]
clauses: [test.one, test.two]
end: none
"""


@dataclass
class Player:
    """Plays a script against a transcript: the actions that the machine wants, and the events that the script names.

    The script: "actions" performs the group that is wanted now; "begin" and "end" do it in two halves; a dict is a frame on c;
    "closed" ends c; "deadline" gives up; "garbage" sends no frame; ("on", a, frame) is a frame on a; a number lets seconds pass; ("lag", s) is late.
    """

    fragments: Mapping[str, Fragment]

    def __call__(self, text: str, script: Sequence[Any], *, slow: float = 1.0, release: str | None = None, **levels: Any) -> Outcome:
        transcript = parse(Transcript, read_text(HEAD + text, "case.yaml"))
        program = replace(compile_case(transcript, self.fragments, {"@release": release}, {}), soon=levels.get("soon", ()))
        trial_log = TrialLog(log.TrialStarted(key="test/case#0", case="test/case", actions=""))
        machine = Machine(program, slow)
        time = 0.0

        def add(kind: type[Any], **fields: Any) -> None:
            event = kind(key="test/case#0", n=len(trial_log.events), t=time, **fields)
            trial_log.events.append(event)
            machine.feed(event)

        running: list[str] = []
        for item in script:
            if item in ("actions", "begin"):
                wanted = machine.wanted()
                assert wanted is not None, "the machine wants no actions here"
                group = wanted[0]
                steps = [f"{group.number}.{i}.{j}" for i, lane in enumerate(group.lanes) for j in range(len(lane))]
                actions = [action for lane in group.lanes for action in lane]
                for step, action in zip(steps, actions, strict=True):
                    add(log.Begin, step=step, what=action.what, at=action.at)
                running = steps
            if item in ("actions", "end"):
                for step in running:
                    add(log.End, step=step, status=200)
            elif isinstance(item, dict):
                add(log.Frame, at="c", data=build_frame(item).hex())
            elif isinstance(item, tuple) and item[0] == "on":
                add(log.Frame, at=item[1], data=build_frame(item[2]).hex())
            elif isinstance(item, int | float):
                time += item
            elif item == "closed":
                add(log.Closed, at="c", how="fin")
            elif item == "garbage":
                add(log.Garbage, at="c", data="ff", reason="not a frame")
            elif item == "deadline":
                add(log.Deadline)
            elif isinstance(item, tuple) and item[0] == "lag":
                add(log.Lag, seconds=item[1])
            elif isinstance(item, tuple) and item[0] == "read":
                group = machine.wanted()[0]  # type: ignore[index]
                add(log.Begin, step=f"{group.number}.0.0", what="read")
                add(log.End, step=f"{group.number}.0.0", status=200, body=item[1])
            elif isinstance(item, tuple) and item[0] == "refused":
                group = machine.wanted()[0]  # type: ignore[index]
                status, body = item[1:]
                action = group.lanes[0][0]
                add(log.Begin, step=f"{group.number}.0.0", what=action.what, detail=action.spec.get("calls", [action.spec])[0])
                problem = f"{status} (expected 2xx)" if action.what == "admin" else None
                add(log.End, step=f"{group.number}.0.0", status=status, body=body, problem=problem)
            elif isinstance(item, tuple) and item[0] in ("problem", "stumble"):
                group = machine.wanted()[0]  # type: ignore[index]
                add(log.Begin, step=f"{group.number}.0.0", what="admin", detail={"calls": group.lanes[0][0].spec["calls"]})
                add(log.End, step=f"{group.number}.0.0", status=409 if item[0] == "problem" else 500, problem=item[1])
        trial_log.finished = log.Finished(key="test/case#0", t=time)
        return judge(program, trial_log, levels.get("levels", {}), slow)


@pytest.fixture
def play() -> Callable[..., Outcome]:
    return Player({})
