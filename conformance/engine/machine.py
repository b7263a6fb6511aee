"""The matching machine: advances a set of live states over the events of one conversation.

A state is the rest of the program and the variables bound so far. An event moves every state that can take it; states that
can't are dropped. When none is left, the case has failed at that event. There is no backtracking: alternatives are states.

How a state takes an event:
- expectations are ordered on each connection, not among connections;
- a pending group of actions blocks everything behind it; a running one blocks only the next group;
- a choice is opened as soon as only expectations precede it;
- a frame for a step that speaks of a variable which another connection's frame is still to bind is kept until that has come, and so is
  everything behind it on its connection;
- a client that ends a connection closes what it has there (attachments.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from conformance.engine import log
from conformance.engine.actions import Action, Actions
from conformance.engine.attachments import Attachments, Implied
from conformance.engine.matchers import Difference, Match
from conformance.engine.matching import Arrival, Clock, Seen, match_frame, see
from conformance.engine.node import Branch, Node, begun, broken, ended, expected, first_actions, opened, running, take
from conformance.engine.program import Program
from conformance.engine.values import NotSet, Value

STATE_LIMIT: Final = 2000
LINK: Final = "@link"
"""The variable with the connection of the last frame of a client under test that a step took; `@link NAME` has that of the frame which
bound a variable."""

ERROR_FOR_NONE: Final = {"error": {"request_id": 2**64 - 1}}
"""What a peer sends that refuses something which has no request_id: as -1, Pulsar's own code writes it."""


@dataclass(frozen=True)
class Taken:
    """A step that took an event.

    `delay` has the seconds since the last action, or since the last event on the connection that a step took if that came later: how long
    the peer said nothing although this was due. It is 0 while actions run, and for a step that says by itself when its event must come.
    """

    path: str
    n: int
    clause: str | None
    delay: float = 0.0


@dataclass(frozen=True)
class State:
    """The rest of the program, the bound variables, and the way to this state."""

    nodes: tuple[Node, ...]
    bindings: Mapping[str, Value]
    taken: tuple[Taken, ...] = ()
    branches: tuple[Branch, ...] = ()
    observed: tuple[tuple[str, Value], ...] = ()

    def key(self) -> tuple[tuple[Node, ...], str]:
        """Return what makes two states equal: the rest of the program and the bound variables."""
        return self.nodes, json.dumps([self.bindings, self.observed], sort_keys=True, default=repr)


@dataclass(frozen=True)
class Failure:
    """Why no state is left."""

    event: log.Event
    states: tuple[State, ...]
    problem: str | None = None
    action: Action | None = None
    differences: tuple[Difference, ...] = ()


class MachineError(RuntimeError):
    """The transcript can't be run: too many live states, or states that want different actions."""


class Machine:
    """Matches one conversation against a program.

    Args:
        program: The compiled cell.
        slow: Factor on every `within`.
    """

    def __init__(self, program: Program, slow: float = 1.0) -> None:
        self.program = program
        self.slow = slow
        self.last_action = 0.0
        self.failure: Failure | None = None
        self.ambient: list[log.Frame] = []
        self._kept: list[Arrival] = []
        self._attachments = Attachments()
        self._last_taken: dict[str, float] = {}
        self.states: list[State] = self._settled([State(program.nodes, {})])

    def fork(self) -> Machine:
        """Return an independent copy of the machine in the same state."""
        other = copy(self)
        other.ambient, other._kept, other.states = list(self.ambient), list(self._kept), list(self.states)
        other._last_taken = dict(self._last_taken)
        other._attachments = self._attachments.copy()
        return other

    @cached_property
    def _bindable(self) -> set[str]:
        """What frames can bind."""
        return set[str]().union(*(node.binds() for node in self.program.nodes))

    @property
    def done(self) -> bool:
        """Tell whether some state has completed the program."""
        return any(not state.nodes for state in self.states)

    def wanted(self) -> tuple[Actions, Mapping[str, Value]] | None:
        """Return the group of actions to begin now, and the variables bound so far; None to wait for events.

        Raises:
            MachineError: Live states want different actions.
        """
        wanting = [(first, state.bindings) for state in self.states if (first := first_actions(state.nodes)) is not None]
        if len(wanting) > 1:
            different = {(first.path, repr(sorted(bindings.items(), key=str))) for first, bindings in wanting}
            if len(different) > 1:
                paths = ", ".join(sorted(path for path, _ in different))
                raise MachineError(f"the transcript is ambiguous: live states want different actions: {paths}")
        return wanting[-1] if wanting else None

    def deadline(self) -> float | None:
        """Return the time when the last live state gives up; None while actions run or no state waits."""
        if self.failure or self._acting():
            return None
        return max((_deadline(state, self.last_action, self.slow) for state in self.states if state.nodes), default=None)

    def feed(self, event: log.Event) -> None:
        """Advance over one event."""
        if self.failure is not None:
            return
        if isinstance(event, log.Begin):
            self._begin(event)
        elif isinstance(event, log.End):
            self._end(event)
        elif isinstance(event, log.Deadline):
            self.failure = Failure(event, tuple(self.states))
        elif isinstance(event, Arrival):
            self._kept += [*self._implied(event), event]
        self._take_kept()

    def _implied(self, event: Arrival) -> Iterable[Implied]:
        if self.program.role == "client" and isinstance(event, log.Closed):
            return self._attachments.closed(event)
        if self.program.role == "client" and isinstance(event, log.Frame):
            self._attachments.frame(event)
        return ()

    def _begin(self, event: log.Begin) -> None:
        number, lane, place = event.place()
        moved = [
            replace(state, nodes=begun(state.nodes))
            for state in self.states
            if (first := first_actions(state.nodes)) is not None and first.number == number
        ]
        if moved:
            self.states = self._settled(moved)
        action = self._action(number, lane, place)
        if action is None:
            self.failure = Failure(event, tuple(self.states), f"the log holds action {event.step}, which the transcript does not want here")
            return
        bound: dict[str, Value] = {f"@{action.label}": event.t} if action.label else {}
        if self.states:
            bound |= action.bound(self.states[0].bindings)
        if bound:
            self.states = [replace(state, bindings={**state.bindings, **bound}) for state in self.states]

    def _action(self, number: int, lane: int, place: int) -> Action | None:
        for state in self.states:
            for one in running(state.nodes):
                lanes = one.group.lanes
                if one.group.number == number and lane < len(lanes) and place < len(lanes[lane]):
                    return lanes[lane][place]
        return None

    def _end(self, event: log.End) -> None:
        self.last_action = event.t
        number, lane, place = event.place()
        action = self._action(number, lane, place)
        if action is None:
            self.failure = Failure(event, tuple(self.states), f"the log ends action {event.step}, which has not begun")
            return
        moved = []
        for state in self.states:
            found = action.outcome(event, state.bindings)
            if not isinstance(found, Match) or not found:
                problem = None if isinstance(found, Match) else found
                self.failure = Failure(event, tuple(self.states), problem, action, () if problem else found.differences)  # type: ignore[union-attr]
                return
            taken = (*state.taken, Taken(action.path, event.n, action.clause)) if action.judges else state.taken
            bound = {**state.bindings, **dict(found.bindings)}
            moved.append(State(ended(state.nodes, number), bound, taken, state.branches, state.observed))
        self.states = self._settled(moved)

    def _take_kept(self) -> None:
        """Take the events that have arrived, in order on each connection. One that can't be judged yet stays, with all after it."""
        waiting: set[str] = set()
        for event in tuple(self._kept):
            if self.failure is not None:
                return
            if event.at in waiting:
                continue
            try:
                self._take(event)
            except NotSet as problem:
                if problem.name not in self._bindable:
                    raise
                waiting.add(event.at)
            else:
                self._kept.remove(event)
                if waiting:
                    self._take_kept()
                    return

    def _take(self, event: Arrival) -> None:
        seen = see(event)
        before = tuple(self.states)
        moved = [new for state in before for new in self._taken_by(state, seen)]
        if moved:
            self._last_taken[event.at] = event.t
            self.states = self._settled(moved)
        elif isinstance(event, Implied):
            pass
        elif isinstance(event, log.Frame) and self.ambient_rule(seen) is not None:
            self.ambient.append(event)
        elif isinstance(event, log.Frame) and (ending := self._ending(seen)):
            self.states = ending
            self.ambient.append(event)
        elif self.program.role == "client" and (quiet := self._undisturbed(seen)):
            self.states = quiet
            if isinstance(event, log.Frame):
                self.ambient.append(event)
        else:
            self.failure = Failure(event, before)
            self.states = []

    def _undisturbed(self, seen: Seen) -> list[State]:
        """Return the states that an event of a client passes by: a case names some of what a client does; the backdrop sees to the rest."""
        if isinstance(seen.event, log.Garbage):
            return []
        return [state for state in self.states if broken(state.nodes, seen, state.bindings) is None]

    def _ending(self, seen: Seen) -> list[State]:
        """Return the states in which the connection is about to end, if an ERROR for no request says why it does."""
        if not match_frame(ERROR_FOR_NONE, seen, {}):
            return []
        due = ((state, next(expected(state.nodes, seen.event.at), None)) for state in self.states)
        return [state for state, one in due if one is not None and one.awaited() is None]

    def would_take(self, event: log.Frame) -> bool:
        """Tell whether a step, rather than an ambient rule, takes the frame."""
        seen = see(event)
        try:
            return any(True for state in self.states for _ in self._taken_by(state, seen))
        except NotSet:
            return True

    def ambient_rule(self, seen: Seen) -> Any:
        """Return the ambient rule that a frame fits; None if there is none, or if a silence forbids the frame."""
        if self.states and all(broken(state.nodes, seen, state.bindings) is not None for state in self.states):
            return None
        release = self.program.scope.variables.get("@release")
        for rule in self.program.ambient:
            here = seen.name in rule.frame and (rule.only is None or release in rule.only)
            if here and match_frame(rule.frame, seen, self.program.scope.variables):
                return rule
        return None

    def _taken_by(self, state: State, seen: Seen) -> Iterator[State]:
        since = None if self._acting() else self.last_action
        due = None if since is None else max(since, self._last_taken.get(seen.event.at, since))
        for nodes, found, step in take(state.nodes, seen, state.bindings, Clock(seen.event.t, since, self.slow)):
            delay = 0.0 if due is None or step.has_own_limit else seen.event.t - due
            taken = Taken(step.path, seen.event.n, step.clause, delay)
            bound = {**state.bindings, **dict(found.bindings), **_links(seen.event, dict(found.bindings))}
            yield State(nodes, bound, (*state.taken, taken), state.branches, state.observed)

    def _acting(self) -> bool:
        return any(True for state in self.states for _ in running(state.nodes))

    def _settled(self, states: Iterable[State]) -> list[State]:
        opened = [one for state in states for one in _opened(state)]
        if len(opened) < 2:
            return opened
        merged: dict[tuple[tuple[Node, ...], str], State] = {}
        for state in opened:
            merged.setdefault(state.key(), state)
        if len(merged) > STATE_LIMIT:
            raise MachineError(f"more than {STATE_LIMIT} live states: make the alternatives differ earlier")
        return list(merged.values())


def _links(event: log.Event, bindings: Mapping[str, Value]) -> dict[str, Value]:
    """Return the connection of a client's frame: as that of the last one, and as that of each variable that it has bound."""
    if not isinstance(event, log.Frame | log.Opened) or event.link is None:
        return {}
    return {LINK: event.link, **{f"{LINK} {name}": event.link for name in bindings if not name.startswith("@")}}


def _deadline(state: State, last_action: float, slow: float) -> float:
    return min((node.deadline(state.bindings, last_action, slow) for node in expected(state.nodes)), default=last_action)


def _opened(state: State) -> Iterator[State]:
    """Open choices, drop empty nodes, note observations: every step that needs no event."""
    for one in opened(state.nodes, state.bindings):
        if one.nodes is state.nodes:
            yield state
        else:
            observed = (*state.observed, *one.observed)
            yield replace(state, nodes=one.nodes, branches=(*state.branches, *one.branches), observed=observed)
