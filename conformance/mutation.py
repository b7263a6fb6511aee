"""Do the expectations bite? The logs of passing runs are damaged, and each damage must be charged to the clause of its step.

A log is damaged where a step that names a clause took something of the peer: the frame is absent, comes twice, comes late, has
another value in a field that the step names, changes places with the next one; the connection closes instead; a frame comes that must not.
Where a case cites a clause about how soon frames come, one of them comes a little too late.
The damaged log is judged like any other. No code here knows a clause.

That a clause is charged shows that its expectation can fail. It does not show that the input tells right brokers from wrong ones:
for that there are the mutants of the reference broker (`conformance.mutants`).

python -m conformance.mutation            which damages charge each clause, and the clauses that none charges
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import yaml
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from conformance.engine import log
from conformance.engine.machine import Machine, Taken
from conformance.engine.matching import match_frame, see
from conformance.engine.node import Node, reached, walk
from conformance.engine.nodes import Expect, Silence
from conformance.engine.program import Program
from conformance.engine.values import ValueProblem, resolve
from conformance.engine.verdict import TrialLog, Verdict, resume
from conformance.judging.results import RunLog
from conformance.running import recorder
from conformance.running.in_process import run_in_process
from conformance.suite import Suite, load_suite
from refimpl.wire import decode_frame, encode_frame, encode_payload
from refimpl.wire import pulsar_api_pb2 as pb
from refimpl.wire.commands import sub_message, wrap
from refimpl.wire.schema import is_repeated

REASONS: Final = Path(__file__).with_name("uncharged.yaml")
CHARGES: Final = (Verdict.FAIL, Verdict.WARN, Verdict.SPEC_GAP)
"""What a clause comes to when a damage is charged to it: by its level."""
PATIENCE: Final = 60.0
"""Seconds after which the harness gives up, at the end of a damaged log."""
STEPS: Final = 3
"""A clause that many steps of a trial name is damaged at so many of the first and so many of the last."""
ATTEMPTS: Final = 8
"""A kind of damage that no attempt charges is given up after so many of one case."""


@dataclass(frozen=True)
class Damage:
    """One damaged log.

    Attributes:
        kind: What was done.
        path: The step that it touches.
        clause: What must be charged.
        index: Place of the first event that is not as it was.
        rest: The events from there on.
    """

    kind: str
    path: str
    clause: str
    index: int
    rest: tuple[log.Event, ...]


@dataclass
class Findings:
    """What became of the damages.

    Attributes:
        charged: For each clause the cases where a damage was charged to it, and the kinds of damage there.
        elsewhere: Damages that were charged to another clause: case, step, kind, clause, and which instead.
        unnoticed: Number of damages of each kind after which the case still passed.
        judged: Number of damaged logs.
    """

    charged: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    elsewhere: list[tuple[str, str, str, str, str]] = field(default_factory=list)
    unnoticed: dict[str, int] = field(default_factory=dict)
    judged: int = 0


def try_damages(suite: Suite, runs: Iterable[RunLog]) -> Findings:
    """Damage passing trials in every way, and judge each damaged log.

    One trial of each cell is damaged, and more of them as long as the case cites a clause that nothing has charged.

    Args:
        suite: All cases.
        runs: Logs of the same suite, those to prefer first.
    """
    found = Findings()
    attempts: Counter[tuple[str, str, str]] = Counter()
    cells: set[str] = set()
    for run in runs:
        frames = _frames_by_command(run)
        for trial in run.trial_logs.values():
            case = suite.transcripts.get(trial.begin.case)
            cell = trial.begin.key.partition("#")[0]
            if case is not None and (cell not in cells or not all(map(found.charged.get, case.clauses))):
                cells.add(cell)
                _try_trial(suite, run, trial, frames, attempts, found)
    return found


def passing_runs(suite: Suite) -> Iterator[RunLog]:
    """Run all cases on the reference in virtual time, in each profile and as a cluster, then yield the recordings of releases."""
    yield run_in_process(suite)
    as_written = [case.id for case in suite.transcripts.values() if "default" not in case.profiles]
    yield run_in_process(suite, as_written, "as-written")
    yield run_in_process(suite, [case.id for case in suite.transcripts.values() if "cluster" in case.requires], brokers=2)
    for target in recorder.targets():
        run = recorder.load_target(target)
        if run is not None:
            yield run


def problems(suite: Suite, found: Findings, reasons: Mapping[str, str]) -> list[str]:
    """Return what is wrong: clauses that no damage charges and nobody gave a reason for, and reasons that have lost their point."""
    tested = {clause for case in suite.transcripts.values() for clause in case.clauses if suite.clauses[clause].side == "broker"}
    return [
        *(
            f"{clause}: no damage to a passing log is charged to it, and uncharged.yaml gives no reason"
            for clause in sorted(tested - {*found.charged, *reasons})
        ),
        *(f"{clause}: it is charged, so it needs no reason in uncharged.yaml" for clause in sorted(reasons.keys() & found.charged)),
        *(f"{clause}: uncharged.yaml gives a reason, but no case cites it" for clause in sorted(reasons.keys() - tested)),
    ]


def load_reasons(path: Path = REASONS) -> dict[str, str]:
    """Return for each clause that no damage charges the reason."""
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))


def _try_trial(
    suite: Suite,
    run: RunLog,
    trial: TrialLog,
    frames: Mapping[str, Sequence[str]],
    attempts: Counter[tuple[str, str, str]],
    found: Findings,
) -> None:
    begin = trial.begin
    program = suite.program(begin, run.header.release)
    machines = [Machine(program, run.header.slow)]
    for event in trial.events:
        machines.append(machines[-1].fork())
        machines[-1].feed(event)
    if machines[-1].failure is not None or not machines[-1].done:
        return
    for damage in _damages(program, trial.events, machines, frames):
        way = begin.case, damage.clause, damage.kind
        if damage.kind in found.charged.get(damage.clause, {}).get(begin.case, ()) or attempts[way] >= ATTEMPTS:
            continue
        attempts[way] += 1
        found.judged += 1
        machine = machines[damage.index].fork()
        damaged = TrialLog(begin, [*trial.events[: damage.index], *damage.rest] if damage.kind == "slow" else [])
        outcome = resume(program, machine, _to_the_end(machine, damage.rest), damaged, suite.levels)
        if outcome.clauses[damage.clause] in CHARGES or damage.clause in outcome.late:
            found.charged.setdefault(damage.clause, {}).setdefault(begin.case, set()).add(damage.kind)
        elif outcome.verdict is Verdict.PASS:
            found.unnoticed[damage.kind] = found.unnoticed.get(damage.kind, 0) + 1
        else:
            instead = ",".join(clause for clause, verdict in outcome.clauses.items() if verdict in CHARGES) or str(outcome.verdict)
            found.elsewhere.append((begin.case, damage.path, damage.kind, damage.clause, instead))


def _to_the_end(machine: Machine, rest: Sequence[log.Event]) -> Iterator[log.Event]:
    """Yield the events; where the case still waits, the harness gives up instead of going on."""
    for event in rest:
        if isinstance(event, log.Begin):
            ahead = machine.fork()
            ahead.feed(event)
            if ahead.failure is not None:
                break
        yield event
    if not machine.done:
        yield log.Deadline(key="", n=-1, t=rest[-1].t + PATIENCE)


def _frames_by_command(run: RunLog) -> dict[str, list[str]]:
    """Collect frames that were really sent: what must not come is made from them."""
    found: dict[str, list[str]] = {}
    for trial in run.trial_logs.values():
        for event in trial.events:
            if isinstance(event, log.Frame):
                some = found.setdefault(see(event).name, [])
                if len(some) < 20:
                    some.append(event.data)
    return found


def _damages(
    program: Program, events: Sequence[log.Event], machines: Sequence[Machine], frames: Mapping[str, Sequence[str]]
) -> Iterator[Damage]:
    """Damage a passing trial at the steps that name a clause, the first ones and the last ones of each clause.

    Args:
        program: The compiled cell.
        events: Of the trial.
        machines: Before each event, and after the last.
        frames: What was sent anywhere, by command.
    """
    steps = {node.path: node for node in walk(program.nodes)}
    first = program.clauses[0]
    implied = first if first not in {node.clause for node in steps.values()} else None
    place = {event.n: index for index, event in enumerate(events)}
    touched: dict[str, list[Taken]] = {}
    for taken in next(state for state in machines[-1].states if not state.nodes).taken:
        clause = taken.clause or (None if _is_surroundings(steps[taken.path]) else implied)
        if clause is not None:
            touched.setdefault(clause, []).append(taken)
    for clause, some in touched.items():
        for taken in some[:STEPS] + some[STEPS:][-STEPS:]:
            index = place[taken.n]
            for kind, rest in _damaged_at(steps[taken.path], events, index):
                yield Damage(kind, taken.path, clause, index, rest)
    yield from _slow(program, events, next(state for state in machines[-1].states if not state.nodes).taken)
    for silence, index, bindings in _silences(machines):
        if silence.clause is not None:
            for data in _forbidden(silence, bindings, frames):
                frame = log.Frame(key="", n=-1, t=events[index - 1].t, at=silence.at, data=data)
                yield Damage("added", silence.path, silence.clause, index, (frame, *events[index:]))


def _slow(program: Program, events: Sequence[log.Event], taken: Sequence[Taken]) -> Iterator[Damage]:
    """Yield the log with a frame, and all behind it, later than a clause of the case gives it time for; not while an action runs."""
    paths = {one.n: one.path for one in taken}
    for index, event in enumerate(events):
        if isinstance(event, log.Frame) and event.n in paths:
            ends = list(takewhile(lambda one: isinstance(one, log.End), events[index + 1 :]))
            last = ends[-1].t if ends else event.t
            for clause, rule in program.soon:
                if clause in program.clauses and any(match_frame(frame, see(event), {}) for frame in rule.frames):
                    slow = [one.model_copy(update={"t": one.t + last - event.t + rule.seconds + 0.1}) for one in events[index:]]
                    yield Damage("slow", paths[event.n], clause, index, (*ends, slow[0], *slow[1 + len(ends) :]))


def _is_surroundings(step: Node) -> bool:
    """Tell whether a step belongs to no case: a handshake, or the fence at the end."""
    return step.path.startswith("end") or "connected" in (getattr(step, "frame", None) or {})


def _silences(machines: Sequence[Machine]) -> Iterator[tuple[Silence, int, Mapping[str, Any]]]:
    """Yield each silence where it has begun and where it is about to end, with the variables that are bound there."""
    found: dict[str, list[tuple[Silence, int, Mapping[str, Any]]]] = {}
    for index, machine in enumerate(machines[1:], 1):
        for silence, bindings in _open_silences(machine):
            found.setdefault(silence.path, []).append((silence, index, bindings))
    for places in found.values():
        yield from (places[0], *places[1:][-1:])


def _open_silences(machine: Machine) -> Iterator[tuple[Silence, Mapping[str, Any]]]:
    """Yield the silences that have begun, with the variables that are bound."""
    for state in machine.states[:1]:
        for node, blocked in reached(state.nodes):
            if isinstance(node, Silence) and node.at not in blocked:
                yield node, state.bindings


def _forbidden(silence: Silence, bindings: Mapping[str, Any], frames: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Make frames that a silence forbids out of frames that were sent elsewhere, with the values that the silence names."""
    for spec in silence.frames:
        ((name, _),) = spec.items()
        try:
            wanted = resolve(spec, {**silence.scope.variables, **bindings})[name]
        except ValueProblem:
            continue
        for data in frames.get(name, ()):
            frame = decode_frame(bytes.fromhex(data))
            message = sub_message(frame.command)
            _fill(message, wanted)
            made = encode_frame(frame.command, frame.payload_bytes).hex()
            seen = see(log.Frame(key="", n=0, t=0, at=silence.at, data=made))
            if match_frame({name: wanted}, seen, {}):
                yield made


def _fill(message: Message, wanted: Mapping[str, Any]) -> None:
    """Set the fields for which a pattern names a value; a pattern that is none stays for `match_frame`."""
    for name, value in wanted.items():
        descriptor = message.DESCRIPTOR.fields_by_name.get(name)
        if descriptor is None:
            continue
        if isinstance(value, Mapping):
            if descriptor.message_type is not None and not is_repeated(descriptor):
                _fill(getattr(message, name), value)
        elif is_repeated(descriptor):
            if descriptor.message_type is None and all(isinstance(one, str | int) for one in value):
                message.ClearField(name)
                getattr(message, name).extend(value)
        elif isinstance(value, str) and descriptor.enum_type is not None:
            setattr(message, name, descriptor.enum_type.values_by_name[value].number)
        elif descriptor.message_type is None:
            setattr(message, name, value)


def _damaged_at(step: Node, events: Sequence[log.Event], index: int) -> Iterator[tuple[str, tuple[log.Event, ...]]]:
    """Yield what comes instead of the event that a step took and of all behind it, damaged in each way."""
    event, after = events[index], events[index + 1 :]
    if isinstance(event, log.End):
        for kind, answer in _other_answers(event, step.spec["expect"]):  # type: ignore[attr-defined]
            yield kind, (answer, *after)
        return
    assert isinstance(event, log.Frame | log.Closed)
    blocked = next((place for place, one in enumerate(after) if isinstance(one, log.Begin)), len(after))
    yield "absent", tuple(after[:blocked]) or (log.Deadline(key="", n=event.n, t=event.t + PATIENCE),)
    window = getattr(step, "window", None)
    delay = (window.max if window is not None else step.within) + 1.0  # type: ignore[attr-defined]
    yield "late", tuple(one.model_copy(update={"t": one.t + delay}) for one in events[index:])
    if window is not None and window.min:
        yield "early", (event.model_copy(update={"t": event.t - window.min}), *after)
    if isinstance(event, log.Closed):
        return
    yield "twice", (event, event, *after)
    yield "closed", (log.Closed(key="", n=event.n, t=event.t, at=event.at, how="fin"),)
    for kind, data in _other_frames(step, event.data):
        yield kind, (event.model_copy(update={"data": data}), *after)


def _other_frames(step: Node, data: str) -> Iterator[tuple[str, str]]:
    """Yield the frame with another value in each field that the step names, and the refusal that could have come instead."""
    frame = decode_frame(bytes.fromhex(data))
    message = sub_message(frame.command)
    named, named_payload = (step.frame, step.payload) if isinstance(step, Expect) else (None, None)
    for kind, other in _other_messages(message, None if named is None else next(iter(named.values()))):
        if other.IsInitialized():
            yield kind, encode_frame(wrap(other), frame.payload_bytes).hex()
    if not isinstance(message, pb.CommandError) and "request_id" in message.DESCRIPTOR.fields_by_name:
        refusal = pb.CommandError(request_id=message.request_id, error=pb.UnknownError, message="damaged")  # type: ignore[attr-defined]
        yield "refused", encode_frame(wrap(refusal)).hex()
    if named_payload is not None:
        for payload in _other_payloads(named_payload, frame):
            yield "another payload", encode_frame(frame.command, payload).hex()


def _other_messages(message: Message, spec: Mapping[str, Any] | None) -> Iterator[tuple[str, Message]]:
    """Yield copies of a message, each changed in one of the fields that a pattern names; all that are set without a pattern."""
    names = [field.name for field, _ in message.ListFields()] if spec is None else list(spec)
    for name in names:
        if name == "$only":
            continue
        descriptor = message.DESCRIPTOR.fields_by_name.get(name)
        if descriptor is None:
            continue
        inner = spec.get(name) if spec is not None else None
        for kind, value in _other_values(descriptor, message, inner if isinstance(inner, Mapping) else None):
            copy = type(message)()
            copy.CopyFrom(message)
            copy.ClearField(name)
            if is_repeated(descriptor):
                getattr(copy, name).extend(value)
            elif descriptor.message_type is not None and value is not None:
                getattr(copy, name).CopyFrom(value)
            elif value is not None:
                setattr(copy, name, value)
            yield kind, copy


def _other_values(descriptor: FieldDescriptor, message: Message, spec: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    """Yield other values of a field; None to leave it out."""
    value = getattr(message, descriptor.name)
    if is_repeated(descriptor):
        items = list(value)
        yield "one more", [*items, items[-1] if items else _other(descriptor, None)]
        if items:
            yield "one less", items[:-1]
            if items[::-1] != items:
                yield "another order", items[::-1]
            for index, item in enumerate(items[:4]):
                others = [one for _, one in _other_messages(item, None)] if descriptor.message_type else [_other(descriptor, item)]
                for other in others:
                    yield "another value", [*items[:index], other, *items[index + 1 :]]
    elif not message.HasField(descriptor.name):
        yield "one more", GetMessageClass(descriptor.message_type)() if descriptor.message_type else _other(descriptor, None)
    else:
        yield "one less", None
        if descriptor.message_type is None:
            yield "another value", _other(descriptor, value)
        else:
            names = None if spec is None or any(key.startswith("$") and key != "$only" for key in spec) else spec
            yield from _other_messages(value, names)


def _other(descriptor: FieldDescriptor, value: Any) -> Any:
    """Return another value of the type of a field."""
    if descriptor.message_type is not None:
        return GetMessageClass(descriptor.message_type)()
    if descriptor.enum_type is not None:
        return next(one.number for one in descriptor.enum_type.values if one.number != value)
    if descriptor.type == FieldDescriptor.TYPE_BYTES:
        return bytes([*(value or b""), 0])
    if descriptor.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return f"{value or ''}-"
    return not value if descriptor.cpp_type == FieldDescriptor.CPPTYPE_BOOL else value - 1 if value else 1


def _other_payloads(spec: Mapping[str, Any], frame: Any) -> Iterator[bytes | None]:
    yield None
    yield frame.payload_bytes + b"-"
    if "octets" in spec:
        return
    content = frame.payload()
    metadata, body, entry = content.metadata, content.body, content.broker_entry_metadata
    for _, other in _other_messages(metadata, spec.get("metadata")):
        if other.IsInitialized():
            yield encode_payload(other, body, broker_entry_metadata=entry)  # type: ignore[arg-type]
    yield encode_payload(metadata, body, checksum="invalid", broker_entry_metadata=entry)
    yield encode_payload(metadata, body, checksum="absent", broker_entry_metadata=entry)
    yield encode_payload(metadata, body + b"-", broker_entry_metadata=entry)


def _other_answers(event: log.End, expected: Any) -> Iterator[tuple[str, log.End]]:
    for body in _other_bodies(event.body, expected):
        yield "another answer", event.model_copy(update={"body": body})


def _other_bodies(body: Any, spec: Any) -> Iterator[Any]:
    """Yield an admin answer with another value in each place that a pattern names."""
    if isinstance(body, dict):
        for key in spec if isinstance(spec, Mapping) and set(spec) & set(body) else body:
            for other in _other_bodies(body.get(key), spec.get(key) if isinstance(spec, Mapping) else None):
                yield {**body, key: other}
            yield {name: value for name, value in body.items() if name != key}
    elif isinstance(body, list):
        yield from (body[:-1], [*body, *body[-1:]]) if body else ([1],)
    elif isinstance(body, bool):
        yield not body
    else:
        yield f"{body}-" if isinstance(body, str) else 1 if body is None else body + 1


def main() -> int:
    """Write for each clause the kinds of damage that charge it; return 1 if a clause is neither charged nor excused, else 0."""
    suite = load_suite()
    found = try_damages(suite, passing_runs(suite))
    for clause in suite.clauses:
        for case, kinds in sorted(found.charged.get(clause, {}).items()):
            print(f"{clause}: {', '.join(sorted(kinds))} in {case}")
    reasons = load_reasons()
    wrong = problems(suite, found, reasons)
    print("\n".join(wrong) or f"{found.judged} damaged logs, {len(found.charged)} clauses charged, {len(reasons)} with a reason")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
