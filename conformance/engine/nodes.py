"""What the harness waits for: one class for each kind of expectation, and for each group of expectations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from conformance.engine import log
from conformance.engine.actions import Actions, Running
from conformance.engine.matchers import FITS, Difference, Match, match, match_message
from conformance.engine.matching import Clock, Seen, binds, in_time, match_frame, values_at
from conformance.engine.node import (
    USER,
    Branch,
    Expectation,
    Node,
    Opening,
    Plan,
    Scope,
    Taking,
    begun,
    broken,
    ended,
    expected,
    first_actions,
    numbered,
    opened,
    running,
    take,
)
from conformance.engine.parts import CollectSpec, Window
from conformance.engine.payloads import match_payload
from conformance.engine.values import Value, ValueProblem, resolve
from refimpl.wire.commands import sub_message


@dataclass(frozen=True)
class Expect(Expectation):
    """A frame, or the end of a connection if `frame` is None."""

    frame: Mapping[str, Any] | None = field(default=None, compare=False)
    payload: Mapping[str, Any] | None = field(default=None, compare=False)
    window: Window | None = field(default=None, compare=False)
    label: str | None = field(default=None, compare=False)

    def awaited(self) -> Mapping[str, Any] | None:
        """Return the frame."""
        return self.frame

    def binds(self) -> set[str]:
        """Return what the frame and its payload bind."""
        return set(binds([self.frame, self.payload], self.scope.variables))

    def certain(self) -> Iterator[Expectation]:
        """Yield itself."""
        yield self

    def compare(self, seen: Seen, bindings: Mapping[str, Value], clock: Clock) -> Match:
        """Compare an event with the expectation: connection, frame, payload and time."""
        if seen.event.at != self.at:
            return Match((Difference("connection", self.at, seen.event.at),))
        variables = {**self.scope.variables, **bindings}
        if self.frame is None:
            fits = isinstance(seen.event, log.Closed)
            found = FITS if fits else Match((Difference("", "the end of the connection", seen.name or "bytes that are no frame"),))
        else:
            found = match_frame(self.frame, seen, variables)
            if found and self.payload is not None and seen.frame is not None:
                found += match_payload(resolve(self.payload, variables), seen.frame)
        return found + in_time(self.window, self.within, bindings, clock)

    def takes(self, seen: Seen, bindings: Mapping[str, Value], clock: Clock) -> Iterator[Taking]:
        """Yield the frame if it fits; a label binds the moment."""
        found = self.compare(seen, bindings, clock)
        if found:
            yield (), found + Match((), ((f"@{self.label}", clock.now),) if self.label else ()), self

    @property
    def timed(self) -> bool:
        """Tell whether it has a window."""
        return self.window is not None

    @property
    def has_own_limit(self) -> bool:
        """Tell whether it has a window, or a time limit that is not the usual one."""
        return self.timed or super().has_own_limit

    def deadline(self, bindings: Mapping[str, Value], last_action: float, slow: float) -> float:
        """Return the end of its window, or of the usual time limit."""
        if self.window is None:
            return super().deadline(bindings, last_action, slow)
        return float(bindings.get(f"@{self.window.since}", last_action)) + self.window.max

    def show(self, plan: Plan) -> None:
        """Write the frame, with its window and its payload."""
        plan.learns(self.frame, self.scope)
        window = f"{self.window.min:g} to {self.window.max:g} s after {self.window.since}" if self.window else ""
        payload = f"with a payload that fits {plan.text(self.payload, self.scope)}" if self.payload else ""
        plan.awaits(self, ", ".join(text for text in (window, payload) if text), example=self.payload is None)


@dataclass(frozen=True)
class Collect(Expectation):
    """Frames in any number; `gathered` is the number taken so far."""

    spec: CollectSpec = field(compare=False, kw_only=True)
    gathered: int = 0

    def awaited(self) -> Mapping[str, Any]:
        """Return the frame."""
        return self.spec.frame

    def binds(self) -> set[str]:
        """Return what the frame binds, and what is gathered."""
        variables = self.scope.variables
        return {*binds(self.spec.frame, variables), *binds(self.spec.each, variables), *self.spec.into, *self.spec.fold}

    def compare(self, seen: Seen, bindings: Mapping[str, Value], _: Clock) -> Match:
        """Compare a frame with the expectation. If it fits, the result includes what was gathered from the frame."""
        return self._gathered(seen, bindings)[0]

    def _gathered(self, seen: Seen, bindings: Mapping[str, Value]) -> tuple[Match, bool]:
        """Compare a frame; tell also whether the step is complete with this frame."""
        if seen.event.at != self.at or seen.frame is None:
            return Match((Difference("connection", self.at, seen.event.at),)), False
        variables = {**self.scope.variables, **bindings}
        found = match_frame(self.spec.frame, seen, variables)
        if not found:
            return found, False
        message = sub_message(seen.frame.command)
        gathered = {name: [*bindings.get(name, []), *values_at(message, path)] for name, path in self.spec.into.items()}
        for name, fold in self.spec.fold.items():
            gone = set(values_at(message, fold.remove))
            kept = [one for one in variables.get(name, []) if one not in gone]
            gathered[name] = list(dict.fromkeys([*kept, *values_at(message, fold.add)]))
        variables |= gathered
        if self.spec.each is not None:
            found += match_message(resolve(self.spec.each, variables), message, seen.name)
        complete = all(match(resolve(pattern, variables), variables[name]) for name, pattern in self.spec.until.items())
        return Match(found.differences, (*found.bindings, *gathered.items())), complete

    def takes(self, seen: Seen, bindings: Mapping[str, Value], _: Clock) -> Iterator[Taking]:
        """Yield the frame if it fits: the step stays until it is complete."""
        found, complete = self._gathered(seen, bindings)
        if found:
            yield () if complete else (replace(self, gathered=self.gathered + 1),), found, self

    def show(self, plan: Plan) -> None:
        """Write the frame, and until when."""
        plan.awaits(self, f"any number of them, until {plan.text(self.spec.until, self.scope)}")


@dataclass(frozen=True)
class Alternative:
    """One branch of a choice."""

    name: str
    level: str
    clause: str | None
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Choice(Node):
    """Exactly one of the alternatives."""

    alternatives: tuple[Alternative, ...] = field(compare=False)

    def children(self) -> Iterable[Node]:
        """Return the nodes of all alternatives."""
        return (node for one in self.alternatives for node in one.nodes)

    def certain(self) -> Iterator[Expectation]:
        """Yield nothing: no single alternative is certain."""
        return iter(())

    def numbered(self, numbers: Iterator[int]) -> Choice:
        """Return it with numbers in its alternatives."""
        return replace(self, alternatives=tuple(replace(one, nodes=numbered(one.nodes, numbers)) for one in self.alternatives))

    def opened(self, _: Mapping[str, Value], __: bool) -> list[Opening]:
        """Return every alternative."""
        return [Opening(one.nodes, (Branch(self.path, one.name, one.level, one.clause),)) for one in self.alternatives]

    def show(self, plan: Plan) -> None:
        """Write the alternatives, each below its name."""
        for one in self.alternatives:
            level = "" if one.level == "conforms" else f" ({one.level})"
            plan.note(f"{'either' if one is self.alternatives[0] else 'or'}, {one.name}{level}:")
            plan.inside(one.nodes)


@dataclass(frozen=True)
class Interleave(Node):
    """Sequences of expectations in any interleaving."""

    sequences: tuple[tuple[Node, ...], ...]

    def children(self) -> Iterable[Node]:
        """Return the nodes of all sequences."""
        return (node for sequence in self.sequences for node in sequence)

    def opened(self, _: Mapping[str, Value], __: bool) -> list[Opening] | None:
        """Return nothing when all sequences are done."""
        return None if self.sequences else [Opening(())]

    def takes(self, seen: Seen, bindings: Mapping[str, Value], clock: Clock) -> Iterator[Taking]:
        """Yield what each of the sequences takes."""
        for index, sequence in enumerate(self.sequences):
            for rest, found, step in take(sequence, seen, bindings, clock):
                others = (*self.sequences[:index], *([rest] if rest else []), *self.sequences[index + 1 :])
                yield ((replace(self, sequences=others),) if others else ()), found, step

    def expected(self, at: str | None) -> Iterator[Expectation]:
        """Yield what each of the sequences expects."""
        for sequence in self.sequences:
            yield from expected(sequence, at)

    def show(self, plan: Plan) -> None:
        """Write the sequences, one after the other."""
        plan.note("in any order:")
        for sequence in self.sequences:
            plan.inside(sequence)


@dataclass(frozen=True)
class Silence(Node):
    """The nodes of `until`, while frames that fit are charged to `clause`."""

    at: str = field(compare=False)
    scope: Scope = field(compare=False)
    frames: tuple[Mapping[str, Any], ...] = field(compare=False)
    until: tuple[Node, ...] = ()
    told: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)

    def children(self) -> Iterable[Node]:
        """Return the nodes during which there must be silence."""
        return self.until

    def news(self) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """Yield what the user must not see."""
        yield from ((USER, what, detail) for one in self.told for what, detail in one.items())

    def numbered(self, numbers: Iterator[int]) -> Silence:
        """Return it with numbers in `until`."""
        return replace(self, until=numbered(self.until, numbers))

    def opened(self, bindings: Mapping[str, Value], _: bool) -> list[Opening] | None:
        """Return what `until` opens to; nothing when that is done."""
        if not self.until:
            return [Opening(())]
        inner = list(opened(self.until, bindings))
        if len(inner) == 1 and inner[0].nodes == self.until:
            return None
        return [replace(one, nodes=self._until(one.nodes)) for one in inner]

    def _until(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return (replace(self, until=nodes),) if nodes else ()

    def takes(self, seen: Seen, bindings: Mapping[str, Value], clock: Clock) -> Iterator[Taking]:
        """Yield what `until` takes."""
        for rest, found, step in take(self.until, seen, bindings, clock):
            yield self._until(rest), found, step

    def expected(self, at: str | None) -> Iterator[Expectation]:
        """Yield what `until` expects."""
        return expected(self.until, at)

    def broken_by(self, seen: Seen, bindings: Mapping[str, Value]) -> Node | None:
        """Return the silence itself if the event is one of the frames that must not come, else a silence in `until` that it breaks."""
        return self if self._forbids(seen, {**self.scope.variables, **bindings}) else broken(self.until, seen, bindings)

    def _forbids(self, seen: Seen, variables: Mapping[str, Value]) -> bool:
        if isinstance(seen.event, log.Told):
            detail = seen.event.detail
            return any(bool(match(resolve(one[seen.name], variables), detail)) for one in self.told if seen.name in one)
        return seen.event.at == self.at and any(match_frame(frame, seen, variables) for frame in self.frames)

    def first_actions(self) -> Actions | None:
        """Return what is next in `until`."""
        return first_actions(self.until)

    def begun(self) -> tuple[Node, ...]:
        """Return it with the group in `until` running."""
        return (replace(self, until=begun(self.until)),)

    def running(self) -> Iterator[Running]:
        """Yield the groups of `until`."""
        return running(self.until)

    def ended(self, number: int) -> tuple[Node, ...]:
        """Return it with one action less in `until`."""
        return (replace(self, until=ended(self.until, number)),)

    def show(self, plan: Plan) -> None:
        """Write what must not come, and until when."""
        texts = [plan.frame_text(frame, self.scope) for frame in (*self.frames, *self.told)]
        plan.note(f"silence: no {' and no '.join(texts)} until:", at=self.at)
        plan.inside(self.until)


@dataclass(frozen=True)
class Observe(Node):
    """Facts for the census."""

    scope: Scope = field(compare=False)
    facts: Mapping[str, Any] = field(compare=False)

    def opened(self, bindings: Mapping[str, Value], first: bool) -> list[Opening] | None:
        """Note the facts once everything before has arrived."""
        return [Opening((), observed=tuple((name, self._fact(value, bindings)) for name, value in self.facts.items()))] if first else None

    def _fact(self, value: Value, bindings: Mapping[str, Value]) -> Value:
        try:
            return self.scope.resolve(value, bindings)
        except ValueProblem as error:
            return f"not known: {error}"

    def show(self, plan: Plan) -> None:
        """Write the names of the facts."""
        plan.note("noted for the census:", ", ".join(self.facts))
