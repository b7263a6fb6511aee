"""What the nodes of a program take of an event, and what they expect next: pure functions, no state of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeAlias

from conformance.engine import log
from conformance.engine.matchers import FITS, Difference, Match, match, match_message
from conformance.engine.payloads import match_payload
from conformance.engine.program import Action, Actions, Choice, Collect, Expect, Interleave, Node, Silence
from conformance.engine.values import Environment, Value, resolve
from refimpl.wire import WireError, decode_frame
from refimpl.wire.commands import command_name, sub_message
from refimpl.wire.frames import Frame as WireFrame


@dataclass(frozen=True)
class Running(Node):
    """A group of actions that has begun; `left` actions of it have not ended."""

    group: Actions = field(compare=False)
    left: int


Arrival: TypeAlias = log.Frame | log.Closed | log.Garbage
"""An event of the role under test."""


@dataclass(frozen=True)
class Seen:
    """An event of the role under test, decoded once."""

    event: Arrival
    name: str
    frame: WireFrame | None = None


@dataclass(frozen=True)
class Clock:
    """The time of an event, and of the end of the last action (None while actions run)."""

    now: float
    since: float | None
    slow: float


def see(event: Arrival) -> Seen:
    """Decode an event of the role under test."""
    if not isinstance(event, log.Frame):
        return Seen(event, "")
    try:
        frame = decode_frame(bytes.fromhex(event.data))
    except WireError:
        return Seen(event, "")
    return Seen(event, command_name(frame.command), frame)


def take(nodes: Sequence[Node], seen: Seen, bindings: Mapping[str, Value], clock: Clock) -> Iterator[tuple[tuple[Node, ...], Match, Any]]:
    """Yield every way in which the nodes can take an event: what is left, what was bound, the step."""
    blocked: set[str] = set()
    for index, node in enumerate(nodes):
        if isinstance(node, Actions):
            return
        if isinstance(node, Running):
            continue
        if seen.event.at not in blocked:
            for rest, found, step in _take_one(node, seen, bindings, clock):
                yield (*nodes[:index], *rest, *nodes[index + 1 :]), found, step
        if isinstance(node, Silence) and first_actions(node.until) is not None:
            return
        blocked |= connections(node)


def _take_one(node: Node, seen: Seen, bindings: Mapping[str, Value], clock: Clock) -> Iterator[tuple[tuple[Node, ...], Match, Any]]:
    if isinstance(node, Expect):
        found = compare(node, seen, bindings, clock)
        if found:
            yield (), found, node
    elif isinstance(node, Collect):
        found, complete = collect(node, seen, bindings)
        if found:
            yield () if complete else (replace(node, gathered=node.gathered + 1),), found, node
    elif isinstance(node, Interleave):
        for index, sequence in enumerate(node.sequences):
            for rest, found, step in take(sequence, seen, bindings, clock):
                others = (*node.sequences[:index], *([rest] if rest else []), *node.sequences[index + 1 :])
                yield ((Interleave(node.path, others),) if others else ()), found, step
    elif isinstance(node, Silence):
        for rest, found, step in take(node.until, seen, bindings, clock):
            yield ((replace(node, until=rest),) if rest else ()), found, step


def compare(node: Expect, seen: Seen, bindings: Mapping[str, Value], clock: Clock) -> Match:
    """Compare an event with one expectation: connection, frame, payload and time."""
    if seen.event.at != node.at:
        return Match((Difference("connection", node.at, seen.event.at),))
    variables = {**node.scope.variables, **bindings}
    if node.frame is None:
        fits = isinstance(seen.event, log.Closed)
        found = FITS if fits else Match((Difference("", "the end of the connection", seen.name or "bytes that are no frame"),))
    else:
        found = match_frame(node.frame, seen, variables)
        if found and node.payload is not None and seen.frame is not None:
            found += match_payload(resolve(node.payload, variables), seen.frame)
    return found + _in_time(node, bindings, clock)


def _in_time(node: Expect, bindings: Mapping[str, Value], clock: Clock) -> Match:
    if node.window is not None:
        start = bindings.get(f"@{node.window.since}")
        if start is None:
            return Match((Difference("time", f"a moment labelled {node.window.since}", "no such label was reached"),))
        after = clock.now - start
        if not node.window.min <= after <= node.window.max:
            return Match((Difference("time", f"{node.window.min:g} to {node.window.max:g} s after {node.window.since}", f"{after:.3f} s"),))
    elif clock.since is not None and clock.now > clock.since + node.within * clock.slow:
        return Match(
            (Difference("time", f"at most {node.within * clock.slow:g} s after the last action", f"{clock.now - clock.since:.3f} s"),)
        )
    return FITS


def match_frame(spec: Mapping[str, Any], seen: Seen, variables: Mapping[str, Value]) -> Match:
    """Compare a decoded frame with a frame of a transcript."""
    ((name, fields),) = spec.items()
    if seen.frame is None:
        return Match(
            (Difference("", name, "the end of the connection" if isinstance(seen.event, log.Closed) else "bytes that are no frame"),)
        )
    if seen.name != name:
        return Match((Difference("", name, seen.name),))
    return match_message(resolve(fields, variables), sub_message(seen.frame.command), name)


def collect(node: Collect, seen: Seen, bindings: Mapping[str, Value]) -> tuple[Match, bool]:
    """Compare a frame with a collecting step; tell whether it is complete with this frame."""
    if seen.event.at != node.at or seen.frame is None:
        return Match((Difference("connection", node.at, seen.event.at),)), False
    variables = {**node.scope.variables, **bindings}
    found = match_frame(node.spec.frame, seen, variables)
    if not found:
        return found, False
    message = sub_message(seen.frame.command)
    gathered = {name: [*bindings.get(name, []), *_values(message, path)] for name, path in node.spec.into.items()}
    for name, fold in node.spec.fold.items():
        gone = set(_values(message, fold.remove))
        kept = [one for one in variables.get(name, []) if one not in gone]
        gathered[name] = list(dict.fromkeys([*kept, *_values(message, fold.add)]))
    variables |= gathered
    if node.spec.each is not None:
        found += match_message(resolve(node.spec.each, variables), message, seen.name)
    complete = all(match(resolve(pattern, variables), variables[name]) for name, pattern in node.spec.until.items())
    return Match(found.differences, (*found.bindings, *gathered.items())), complete


def _values(message: Any, path: str) -> list[Value]:
    """Return what a field holds, as a list; the names in its path are joined by dots."""
    value = reduce(getattr, path.split("."), message)
    return [value] if isinstance(value, str | bytes | int | float) else list(value)


def action_outcome(action: Action, event: log.End, bindings: Mapping[str, Value]) -> Match | str:
    """Judge how an action ended: a text when the harness could not do it, differences when a read never fitted."""
    if event.problem is not None:
        return event.problem
    if action.what != "read":
        return FITS
    expected = resolve(action.spec["expect"], {**action.scope.variables, **bindings})
    return match({"status": event.status, "body": expected}, {"status": event.status, "body": event.body})


def sent_bindings(spec: Any, variables: Environment) -> dict[str, Value]:
    """Return what a send binds: every `$bind` with its example."""
    if isinstance(spec, dict):
        own = {spec["$bind"]: resolve(spec["example"], variables)} if {"$bind", "example"} <= set(spec) else {}
        return own | {k: v for inner in spec.values() for k, v in sent_bindings(inner, variables).items()}
    if isinstance(spec, list):
        return {k: v for inner in spec for k, v in sent_bindings(inner, variables).items()}
    return {}


def bound_names(nodes: Sequence[Node]) -> set[str]:
    """Return the variables that frames bind: every `$bind` in an expectation, and what a collecting step gathers."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, Expect):
            found |= set(_binds([node.frame, node.payload]))
        elif isinstance(node, Collect):
            found |= {*_binds(node.spec.frame), *_binds(node.spec.each), *node.spec.into, *node.spec.fold}
        elif isinstance(node, Interleave):
            found |= bound_names([inner for sequence in node.sequences for inner in sequence])
        elif isinstance(node, Silence):
            found |= bound_names(node.until)
        elif isinstance(node, Choice):
            found |= bound_names([inner for alternative in node.alternatives for inner in alternative.nodes])
    return found


def _binds(spec: Any) -> Iterator[str]:
    if isinstance(spec, Mapping):
        for key, value in spec.items():
            yield from [value] if key == "$bind" else _binds(value)
    elif isinstance(spec, list):
        for value in spec:
            yield from _binds(value)


def connections(node: Node) -> set[str]:
    """Return the connections on which a node expects something."""
    if isinstance(node, Expect | Collect):
        return {node.at}
    if isinstance(node, Interleave):
        return {at for sequence in node.sequences for inner in sequence for at in connections(inner)}
    if isinstance(node, Silence):
        return {at for inner in node.until for at in connections(inner)}
    if isinstance(node, Choice):
        return {at for alternative in node.alternatives for inner in alternative.nodes for at in connections(inner)}
    return set()


def expected(nodes: Sequence[Node], at: str | None = None) -> Iterator[Expect | Collect]:
    """Yield the expectations that can be met now, on one connection or on all."""
    blocked: set[str] = set()
    for node in nodes:
        if isinstance(node, Actions):
            return
        if isinstance(node, Expect | Collect) and node.at not in blocked and at in (None, node.at):
            yield node
        elif isinstance(node, Interleave):
            for sequence in node.sequences:
                yield from (one for one in expected(sequence, at) if one.at not in blocked)
        elif isinstance(node, Silence):
            yield from (one for one in expected(node.until, at) if one.at not in blocked)
            if first_actions(node.until) is not None:
                return
        blocked |= connections(node)


def first_actions(nodes: Sequence[Node]) -> Actions | None:
    """Return the group of actions that is next, if nothing before it is still open."""
    for node in nodes:
        if isinstance(node, Actions):
            return node
        if isinstance(node, Silence):
            return first_actions(node.until)
        return None
    return None


def actions_begun(nodes: Sequence[Node], group: Actions) -> tuple[Node, ...]:
    """Return the nodes after the group that is next has begun."""
    first, *rest = nodes
    if isinstance(first, Silence):
        return (replace(first, until=actions_begun(first.until, group)), *rest)
    return (Running(group.path, group, sum(map(len, group.lanes))), *rest)


def running_groups(nodes: Sequence[Node]) -> Iterator[Running]:
    """Yield the groups of actions that have begun and not ended."""
    for node in nodes:
        if isinstance(node, Running):
            yield node
        elif isinstance(node, Silence):
            yield from running_groups(node.until)


def actions_ended(nodes: Sequence[Node], number: int) -> tuple[Node, ...]:
    """Return the nodes after one action of a running group has ended."""
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Running) and node.group.number == number:
            result += [replace(node, left=node.left - 1)] if node.left > 1 else []
        else:
            result.append(replace(node, until=actions_ended(node.until, number)) if isinstance(node, Silence) else node)
    return tuple(result)
