"""Why a conversation failed, for a person: the nearest miss, and the frames around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from conformance.engine import log
from conformance.engine.machine import Failure, Machine, State, Taken
from conformance.engine.matchers import Difference, show
from conformance.engine.matching import Clock, Seen, see
from conformance.engine.node import Expectation, Node, broken, expected
from conformance.engine.program import Program
from conformance.engine.refusals import refusals
from conformance.engine.values import Environment, Value, ValueProblem, resolve
from refimpl.wire import FrameDecoder, WireError, annotate, format_lines, line_notation
from refimpl.wire.pulsar_api_pb2 import ServerError

FRAMES_SHOWN = 4
_CLOSES = frozenset({"close_producer", "close_consumer"})
"""What a broker may send at any time: it unloads topics to spread its load."""
_SOON_OVER = (
    "Producer is already failed to register present",
    "Consumer that failed is already present",
    "was aborted because the cached state was cleared",
)
"""What Apache Pulsar says for a moment: it has just refused an attempt with this id, or unloaded a namespace."""


@dataclass(frozen=True)
class Diagnosis:
    """The nearest miss.

    `kind` says which rule found it: differs, too-early, twice, unexpected, silence, late, closed, garbage, read, branch, prevented
    (the target broke a clause outside of the steps), harness.
    `missing` is a command that did not come in its time, for which the target may not be to blame: no clause was at stake yet,
    such as CONNECTED, or it came at another time than a window allows, when a machine that stands still for a second is enough, or
    a look-up or a request failed as it may for a moment, or the broker closed a producer or consumer, as it may to spread its load.
    """

    kind: str
    summary: str
    step: str = ""
    clause: str | None = None
    differences: tuple[Difference, ...] = ()
    waiting: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    event: int | None = None
    timed: bool = False
    missing: str | None = None
    taken: tuple[Taken, ...] = ()
    left: tuple[Node, ...] = ()
    observed: tuple[tuple[str, Any], ...] = ()
    command: str = ""
    """The command that came, or did not come, as in BaseCommand; of an admin call its operation."""
    came: str = ""
    """What came, in one line; empty if nothing did."""
    meanwhile: str = ""
    """If nothing came: what the backdrop refused to the client, which may be why; empty if it refused nothing."""

    def text(self) -> str:
        """Write it in full: the summary first, then differences, what was waited for, and the last frames."""
        lines = [self.summary]
        lines += [f"  {self.meanwhile}"] if self.meanwhile else []
        lines += [f"  {difference}" for difference in self.differences]
        lines += [f"  waiting for {one}" for one in self.waiting if one not in self.summary]
        if self.step:
            lines.append(f"  at {self.step}" + (f" (clause {self.clause})" if self.clause else ""))
        if self.frames:
            lines += ["  the last frames:", *(f"    {line}" for one in self.frames for line in one.splitlines())]
        return "\n".join(lines)


def diagnose(program: Program, machine: Machine, events: Sequence[log.Event], begin: float = 0.0) -> Diagnosis:
    """Explain a conversation that failed.

    Args:
        program: The compiled cell.
        machine: The machine, after all events.
        events: The events.
        begin: When the conversation began, in seconds of the log. The times of shown frames count from there.
    """
    failure = machine.failure
    if failure is None:
        return Diagnosis("harness", "the log ends in the middle of the case", waiting=_waiting(machine.states))
    if failure.problem is not None:
        return Diagnosis("harness", failure.problem, step=failure.action.path if failure.action else "")
    state = max(failure.states, key=lambda one: len(one.taken))
    common: dict[str, Any] = {
        "taken": state.taken,
        "left": state.nodes,
        "observed": state.observed,
        "event": failure.event.n,
        "frames": _last_frames(events, failure.event, begin),
    }
    if isinstance(failure.event, log.End):
        assert failure.action is not None
        what = next(iter(failure.action.spec["call"]))
        summary = f"the answer of {what} did not come to what is expected"
        return Diagnosis(
            "read", summary, failure.action.path, failure.action.clause, failure.differences, timed=True, command=what, **common
        )
    if isinstance(failure.event, log.Deadline):
        return _late(failure, meanwhile=refusals(events), **common)
    return _nearest(program, failure, see(failure.event), common)  # type: ignore[arg-type]


def _late(failure: Failure, **common: Any) -> Diagnosis:
    waiting = _waiting(failure.states)
    step = next((one for state in failure.states for one in expected(state.nodes)), None)
    summary = f"nothing came: the case waits for {waiting[0] if waiting else 'nothing'}"
    where = (step.path, step.clause) if step else ("", None)
    command = waiting[0].partition("{")[0] if waiting else ""
    missing = command if step and (step.clause is None or step.timed) and command else None
    return Diagnosis("late", summary, *where, waiting=waiting, timed=True, missing=missing, command=command, **common)


def _nearest(program: Program, failure: Failure, seen: Seen, common: dict[str, Any]) -> Diagnosis:
    what = _what(seen)
    common |= {"command": seen.name if seen.frame is not None else "", "came": what}
    waiting = _waiting(failure.states)
    silence = next(filter(None, (broken(state.nodes, seen, state.bindings) for state in failure.states)), None)
    if silence is not None:
        return Diagnosis("silence", f"{what} came, where there must be silence", silence.path, silence.clause, **common)
    if isinstance(seen.event, log.Garbage):
        step = next((one for state in failure.states for one in expected(state.nodes)), None)
        summary = f"bytes that are no frame: {seen.event.reason}"
        return Diagnosis("garbage", summary, step.path if step else "", step.clause if step else None, waiting=waiting, **common)
    near = _fewest_differences(failure.states, seen)
    if near is not None:
        step, differences = near
        times = [difference.path == "time" for difference in differences]
        missing = seen.name if (step.timed and all(times)) or _may_pass(seen) else None
        summary = f"{what} is not what is expected: {differences[0]}"
        return Diagnosis("differs", summary, step.path, step.clause, differences, timed=any(times), missing=missing, **common)
    first = next((one for state in failure.states for one in expected(state.nodes, seen.event.at)), None) or next(
        (one for state in failure.states for one in expected(state.nodes)), None
    )
    where = (first.path, first.clause) if first else ("", None)
    missing = seen.name if program.role == "broker" and (seen.name in _CLOSES or _may_pass(seen)) else None
    later = _later(failure.states, seen)
    if later is not None:
        summary = f"{what} came too early: it is expected at {later.path}, after {waiting[0] if waiting else 'the actions before it'}"
        return Diagnosis("too-early", summary, later.path, later.clause or where[1], waiting=waiting, missing=missing, **common)
    again = _again(program, failure.states, seen)
    if again is not None:
        summary = f"{what} came twice: {again.path} of the case took the first one"
        return Diagnosis("twice", summary, again.path, again.clause, waiting=waiting, **common)
    kind = "closed" if isinstance(seen.event, log.Closed) else "unexpected"
    rest = f"the case waits for {waiting[0]}" if waiting else "the case waits for nothing more"
    summary = f"{what}, {rest}" if kind == "closed" else f"{what} came, which nothing expects here; {rest}"
    return Diagnosis(kind, summary, *where, waiting=waiting, missing=missing, **common)


def _may_pass(seen: Seen) -> bool:
    """Tell whether a request failed for a moment: brokers of a cluster that take a bundle at the same time ask to look it up again."""
    if seen.frame is not None and seen.frame.command.HasField("error"):
        error = seen.frame.command.error
        return error.error == ServerError.ServiceNotReady or any(words in error.message for words in _SOON_OVER)
    if seen.frame is None or not seen.frame.command.HasField("lookupTopicResponse"):
        return False
    answer = seen.frame.command.lookupTopicResponse
    return answer.response == answer.Failed and answer.error in (ServerError.ServiceNotReady, ServerError.MetadataError)


def _what(seen: Seen) -> str:
    if isinstance(seen.event, log.Closed):
        return f"the peer closed connection {seen.event.at}" + (" with a reset" if seen.event.how == "rst" else "")
    if isinstance(seen.event, log.Told):
        return f"{seen.event.at}: {seen.event.what}{show(seen.event.detail)}"
    return line_notation(seen.frame) if seen.frame is not None else "bytes that are no frame"


def _waiting(states: Sequence[State]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(describe(one, state) for state in states for one in expected(state.nodes)))


def describe(node: Expectation, state: State) -> str:
    """Say in a few words what a step waits for, with the variables that are bound at that point."""
    spec = node.awaited()
    if spec is None:
        return f"the end of connection {node.at}"
    ((name, fields),) = spec.items()
    variables = {**node.scope.variables, **state.bindings}
    where = "" if node.at == "c" else f" on connection {node.at}"
    return f"{name}{show({key: _known(value, variables) for key, value in fields.items()})}{where}"


def _known(value: Value, variables: Environment) -> Value:
    try:
        return resolve(value, variables)
    except ValueProblem:
        return value


def _fewest_differences(states: Sequence[State], seen: Seen) -> tuple[Expectation, tuple[Difference, ...]] | None:
    """Find the open expectation of the same command on the same connection that is closest to the frame."""
    best: tuple[Expectation, tuple[Difference, ...]] | None = None
    for state in states:
        for node in expected(state.nodes, seen.event.at):
            spec = node.awaited()
            if spec is None or seen.frame is None or next(iter(spec)) != seen.name:
                continue
            try:
                found = node.compare(seen, state.bindings, Clock(seen.event.t, None, 1.0))
            except ValueProblem:
                continue
            if found.differences and (best is None or len(found.differences) < len(best[1])):
                best = node, found.differences
            elif not found.differences and best is None:
                best = node, (Difference("time", "an earlier arrival", "too late"),)
    return best


def _fits(node: Expectation, state: State, seen: Seen) -> bool:
    try:
        return node.awaited() is not None and bool(node.compare(seen, state.bindings, Clock(seen.event.t, None, 1.0)))
    except ValueProblem:
        return False


def _certain(nodes: Sequence[Node]) -> list[Expectation]:
    return [one for node in nodes for one in node.certain()]


def _later(states: Sequence[State], seen: Seen) -> Expectation | None:
    if seen.frame is None:
        return None
    return next((node for state in states for node in _certain(state.nodes) if _fits(node, state, seen)), None)


def _again(program: Program, states: Sequence[State], seen: Seen) -> Expectation | None:
    if seen.frame is None:
        return None
    for state in states:
        paths = {step.path for step in state.taken}
        for node in _certain(program.nodes):
            if node.path in paths and _fits(node, state, seen):
                return node
    return None


def _last_frames(events: Sequence[log.Event], last: log.Event, begin: float) -> tuple[str, ...]:
    """Show the last frames of the connection in annotated hexadecimal, and what was sent as one line."""
    at = getattr(last, "at", None)
    shown: list[str] = []
    for event in events:
        if event.n > last.n:
            break
        if at is not None and getattr(event, "at", at) != at:
            continue
        if isinstance(event, log.Begin) and event.data:
            shown.append(f"> {event.t - begin:8.3f} {event.at} {_line(event.data)}")
        elif isinstance(event, log.Frame):
            data = bytes.fromhex(event.data)
            hexed = "\n".join(f"    {line}" for line in format_lines(islice(annotate(data), 24)).splitlines())
            shown.append(f"< {event.t - begin:8.3f} {event.at} {_line(event.data)}\n{hexed}")
        elif isinstance(event, log.Closed):
            shown.append(f"< {event.t - begin:8.3f} {event.at} closed ({event.how})")
    return tuple(shown[-FRAMES_SHOWN:])


def _line(data: str) -> str:
    try:
        return " ".join(map(line_notation, FrameDecoder().receive(bytes.fromhex(data))))
    except (WireError, ValueError):
        return f"{len(data) // 2} bytes: {data[:80]}"
