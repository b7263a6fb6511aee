"""From a transcript to a program: fragments put in, loops unrolled, roles decided, actions numbered.

A program is a tuple of nodes. Actions are what the harness does; everything else is what it waits for. Consecutive actions are
one group, because what follows may be seen from the start of the first: a push can arrive before the admin call that caused
it has returned. Actions are numbered in the order of the file (`2.0` is the first of the third group), so that a recording
still fits after its expectations were edited.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatchmethod
from typing import Any, Final, Literal

from conformance.engine import model as m
from conformance.engine.values import Environment, Value, resolve, variables_of

DEFAULT_CONNECTION: Final = "c"
DEFAULT_WITHIN: Final = 10.0
"""Seconds to wait for a frame after the last action, before --slow."""


class ProgramProblem(ValueError):
    """A transcript that can't be turned into a program; the message starts with the step."""


@dataclass(frozen=True)
class Scope:
    """What the nodes of one stretch of a transcript share: variables and the default connection."""

    variables: Environment
    at: str

    def with_variables(self, more: Mapping[str, Value]) -> Scope:
        """Return the scope with more variables set."""
        return Scope({**self.variables, **more}, self.at)


@dataclass(frozen=True)
class Node:
    """A piece of a program; its path in the file is its identity."""

    path: str


@dataclass(frozen=True)
class Action(Node):
    """One thing that the harness does."""

    what: Literal["send", "open", "close", "admin", "read", "advance"] = field(compare=False)
    scope: Scope = field(compare=False)
    at: str | None = field(default=None, compare=False)
    spec: Any = field(default=None, compare=False)
    label: str | None = field(default=None, compare=False)
    clause: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Actions(Node):
    """Actions without an expectation between them; of a race, several lists that start together."""

    lanes: tuple[tuple[Action, ...], ...] = field(compare=False)
    number: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Expect(Node):
    """A frame, or the end of a connection if `frame` is None."""

    at: str = field(compare=False)
    scope: Scope = field(compare=False)
    frame: Mapping[str, Any] | None = field(default=None, compare=False)
    payload: Mapping[str, Any] | None = field(default=None, compare=False)
    clause: str | None = field(default=None, compare=False)
    within: float = field(default=DEFAULT_WITHIN, compare=False)
    window: m.Window | None = field(default=None, compare=False)
    label: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Collect(Node):
    """Frames in any number; `gathered` is the number taken so far."""

    at: str = field(compare=False)
    scope: Scope = field(compare=False)
    spec: m.CollectSpec = field(compare=False)
    clause: str | None = field(default=None, compare=False)
    within: float = field(default=DEFAULT_WITHIN, compare=False)
    gathered: int = 0


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


@dataclass(frozen=True)
class Interleave(Node):
    """Sequences of expectations in any interleaving."""

    sequences: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True)
class Silence(Node):
    """The nodes of `until`, while frames that fit are charged to `clause`."""

    at: str = field(compare=False)
    scope: Scope = field(compare=False)
    frames: tuple[Mapping[str, Any], ...] = field(compare=False)
    clause: str | None = field(compare=False)
    until: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Observe(Node):
    """Facts for the census."""

    scope: Scope = field(compare=False)
    facts: Mapping[str, Any] = field(compare=False)


@dataclass(frozen=True)
class Program:
    """What one cell of a case does, ready for the machine."""

    case: str
    nodes: tuple[Node, ...]
    clauses: tuple[str, ...]
    ambient: tuple[m.Ambient, ...]
    scope: Scope

    def actions(self) -> Iterator[Actions]:
        """Return all groups of actions, in the order of the file."""
        return _actions_of(self.nodes)


def cells(transcript: m.Transcript) -> list[dict[str, Value]]:
    """Return the cells of a transcript's matrix, values or their names: one empty cell if it has none."""
    names = list(transcript.matrix)
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*transcript.matrix.values())]


def cell_values(transcript: m.Transcript, cell: Mapping[str, Value]) -> dict[str, Value]:
    """Return what the variables of a cell stand for."""
    values = {}
    for name, value in cell.items():
        named = transcript.matrix.get(name)
        values[name] = named[value] if isinstance(named, dict) and value in named else value
    return values


def fresh_names(transcript: m.Transcript) -> dict[str, str]:
    """Return the variables that stand for something new in each trial, with the kind of each."""
    return {name: value["$fresh"] for name, value in transcript.vars.items() if isinstance(value, dict) and "$fresh" in value}


def compile_case(
    transcript: m.Transcript, fragments: Mapping[str, m.Fragment], cell: Mapping[str, Value], fresh: Mapping[str, str], seed: int = 0
) -> Program:
    """Turn one cell of a transcript into a program.

    Args:
        transcript: The case.
        fragments: All fragments by id.
        cell: Values of the matrix variables.
        fresh: The names chosen for the `$fresh` variables of this trial.
        seed: Seed of the trial, for `$random`.

    Raises:
        ProgramProblem: An unknown fragment, a step that can't stand where it is, a variable that is not set.
    """
    scope = Scope(_variables({**transcript.vars, **cell_values(transcript, cell), **fresh}, {"@seed": seed}), DEFAULT_CONNECTION)
    compiler = _Compiler(fragments)
    nodes = [*compiler.steps(transcript.steps, scope, "steps"), *compiler.ending(transcript, scope)]
    return Program(transcript.id, _numbered(_grouped(nodes)), tuple(transcript.clauses), _ambient(transcript), scope)


def actions_digest(transcript: m.Transcript, fragments: Mapping[str, m.Fragment], cell: Mapping[str, Value]) -> str:
    """Return the digest of everything in a cell that decides what is sent: a recording with another one is stale."""
    program = compile_case(transcript, fragments, cell, {name: f"<{name}>" for name in fresh_names(transcript)})
    actions = [
        [
            group.number,
            action.what,
            action.at,
            str(_plain(action.spec)),
            {k: action.scope.variables.get(k) for k in sorted(variables_of(_plain(action.spec)))},
        ]
        for group in program.actions()
        for lane in group.lanes
        for action in lane
    ]
    return hashlib.sha256(json.dumps([actions, transcript.target_config], default=str).encode()).hexdigest()[:16]


def _plain(spec: Any) -> Any:
    if isinstance(spec, dict):
        return {key: _plain(value) for key, value in spec.items() if key != "expect"}
    return spec.model_dump() if isinstance(spec, m.BytesSpec) else spec


_PING: Final = m.Ambient(frame={"ping": {}}, answer={"pong": {}})
_PONG: Final = m.Ambient(frame={"pong": {}})


def _ambient(transcript: m.Transcript) -> tuple[m.Ambient, ...]:
    return (_PING, _PONG) if transcript.ambient is None else tuple(transcript.ambient)


def _variables(values: Mapping[str, Value], known: Environment) -> dict[str, Value]:
    """Resolve variables that may speak of each other, in any order."""
    variables, left = dict(known), dict(values)
    while left:
        ready = [name for name, value in left.items() if not variables_of(value) & set(left)]
        for name in ready or list(left):
            variables[name] = resolve(left.pop(name), variables)
    return variables


class _Compiler:
    """Walks the steps once; remembers which connections can still be fenced at the end."""

    def __init__(self, fragments: Mapping[str, m.Fragment]) -> None:
        self.fragments = fragments
        self.open: list[str] = []
        self.connected: set[str] = set()
        self.gone: set[str] = set()

    def steps(self, steps: Sequence[Any], scope: Scope, path: str) -> list[Node]:
        """Compile a list of steps."""
        nodes: list[Node] = []
        for index, step in enumerate(steps):
            nodes += self.step(step, scope, f"{path}[{index}]")
        return nodes

    @singledispatchmethod
    def step(self, step: Any, scope: Scope, path: str) -> list[Node]:  # noqa: ARG002
        """Compile one step, each kind in its own way."""
        raise TypeError(f"{path}: {type(step).__name__} is no step")

    @step.register
    def _(self, step: m.FrameStep, scope: Scope, path: str) -> list[Node]:
        at = _connection(step.at, scope)
        if step.client is not None:
            return [Action(path, "send", scope, at, {"frame": step.client, "payload": step.payload}, step.label)]
        if "connected" in (step.broker or {}):
            self.connected.add(at)
        within = DEFAULT_WITHIN if step.within is None else step.within
        return [Expect(path, at, scope, step.broker, step.payload, step.clause, within, step.window, step.label)]

    @step.register
    def _(self, step: m.OneWriteStep, scope: Scope, path: str) -> list[Node]:
        return [Action(path, "send", scope, _connection(step.at, scope), {"frames": step.one_write}, step.label)]

    @step.register
    def _(self, step: m.BytesStep, scope: Scope, path: str) -> list[Node]:
        return [Action(path, "send", scope, _connection(step.at, scope), {"bytes": step.bytes}, step.label)]

    @step.register
    def _(self, step: m.OpenStep, scope: Scope, path: str) -> list[Node]:
        at = resolve(step.open, scope.variables)
        self.open.append(at)
        return [Action(path, "open", scope, at, None, step.label)]

    @step.register
    def _(self, step: m.CloseStep, scope: Scope, path: str) -> list[Node]:
        at = _connection(step.close.at, scope)
        self.gone.add(at)
        return [Action(path, "close", scope, at, step.close.how, step.label)]

    @step.register
    def _(self, step: m.ClosedStep, scope: Scope, path: str) -> list[Node]:
        at = _connection(step.closed.at or step.at, scope)
        self.gone.add(at)
        within = DEFAULT_WITHIN if step.within is None else step.within
        return [Expect(path, at, scope, None, None, step.clause, within, step.window, step.label)]

    @step.register
    def _(self, step: m.AdminStep, scope: Scope, path: str) -> list[Node]:
        calls = step.admin if isinstance(step.admin, list) else [step.admin]
        if step.each is None:
            spec = {"calls": calls, "status": step.status, "parallel": step.parallel}
            return [Action(path, "admin", scope, None, spec, step.label)]
        ((name, values),) = step.each.items()
        repeated = [resolve(call, {**scope.variables, name: value}) for value in resolve(values, scope.variables) for call in calls]
        return [Action(path, "admin", scope, None, {"calls": repeated, "status": step.status, "parallel": step.parallel}, step.label)]

    @step.register
    def _(self, step: m.ReadStep, scope: Scope, path: str) -> list[Node]:
        spec = {"call": step.read, "expect": step.expect, "within": step.within or DEFAULT_WITHIN}
        return [Action(path, "read", scope, None, spec, None, step.clause)]

    @step.register
    def _(self, step: m.AdvanceStep, scope: Scope, path: str) -> list[Node]:
        return [Action(path, "advance", scope, None, step.advance)]

    @step.register
    def _(self, step: m.ForStep, scope: Scope, path: str) -> list[Node]:
        ((name, values),) = step.for_.items()
        nodes: list[Node] = []
        for index, value in enumerate(resolve(values, scope.variables)):
            nodes += self.steps(step.do, scope.with_variables({name: value}), f"{path}#{index}.do")
        return nodes

    @step.register
    def _(self, step: m.OneOfStep, scope: Scope, path: str) -> list[Node]:
        release = scope.variables.get("@release")
        usable = [b for b in step.one_of if b.only is None or release is None or release in b.only]
        return [
            Choice(
                path,
                tuple(Alternative(b.name, b.level, b.clause, _grouped(self.steps(b.steps, scope, f"{path}.{b.name}"))) for b in usable),
            )
        ]

    @step.register
    def _(self, step: m.AnyOrderStep, scope: Scope, path: str) -> list[Node]:
        if step.any_order is not None:
            lists = [self.steps(one, scope, f"{path}.any_order[{i}]") for i, one in enumerate(step.any_order)]
        else:
            ((name, values),) = (step.each or {}).items()
            lists = [
                self.steps(step.do or [], scope.with_variables({name: value}), f"{path}#{i}.do")
                for i, value in enumerate(resolve(values, scope.variables))
            ]
        for one in lists:
            for node in one:
                if not isinstance(node, Expect | Collect):
                    raise ProgramProblem(f"{node.path}: any_order holds expectations only")
        return [Interleave(path, tuple(tuple(one) for one in lists if one))]

    @step.register
    def _(self, step: m.OptionalStep, scope: Scope, path: str) -> list[Node]:
        nodes = _grouped(self.steps(step.optional, scope, f"{path}.optional"))
        return [Choice(path, (Alternative("present", "conforms", None, nodes), Alternative("left out", "conforms", None, ())))]

    @step.register
    def _(self, step: m.CollectStep, scope: Scope, path: str) -> list[Node]:
        within = DEFAULT_WITHIN if step.within is None else step.within
        return [Collect(path, _connection(step.at, scope), scope, step.collect, step.clause, within)]

    @step.register
    def _(self, step: m.SilenceStep, scope: Scope, path: str) -> list[Node]:
        until = _grouped(self.steps(step.until, scope, f"{path}.until"))
        return [Silence(path, _connection(step.at, scope), scope, tuple(step.silence.frames), step.clause, until)]

    @step.register
    def _(self, step: m.RaceStep, scope: Scope, path: str) -> list[Node]:
        lanes = []
        for name, steps in step.race.items():
            lane = self.steps(steps, scope, f"{path}.{name}")
            if not all(isinstance(node, Action) and node.what != "read" for node in lane):
                raise ProgramProblem(f"{path}.{name}: a race holds actions only; what must come back is written after it")
            lanes.append(tuple(node for node in lane if isinstance(node, Action)))
        return [Actions(path, tuple(lanes))]

    @step.register
    def _(self, step: m.ObserveStep, scope: Scope, path: str) -> list[Node]:
        return [Observe(path, scope, step.observe)]

    @step.register
    def _(self, step: m.UseStep, scope: Scope, path: str) -> list[Node]:
        fragment = self.fragments.get(step.use)
        if fragment is None:
            raise ProgramProblem(f"{path}: there is no fragment {step.use!r}; known: {', '.join(sorted(self.fragments))}")
        unknown = set(step.with_) - set(fragment.params)
        if unknown:
            raise ProgramProblem(f"{path}: {step.use} has no parameter {', '.join(sorted(unknown))}; it has {', '.join(fragment.params)}")
        given = resolve({**fragment.params, **step.with_}, scope.variables)
        at = _connection(step.at, scope)
        inner = Scope({**scope.variables, **given, "at": at}, at)
        return self.steps(fragment.steps, inner, f"{path}.{fragment.id}")

    def ending(self, transcript: m.Transcript, scope: Scope) -> list[Node]:
        """Compile the end of a case: the steps that prove that nothing else came."""
        if isinstance(transcript.end, m.Quiet):
            return [Action("end", "advance", scope, None, transcript.end.quiet)]
        if transcript.end == "none":
            return []
        nodes: list[Node] = []
        if transcript.end == "alive":
            nodes += self.steps([m.UseStep(use="lib/still-served")], Scope(scope.variables, "alive"), "end")
        for at in dict.fromkeys(self.open):
            if at not in self.gone:
                fragment = "lib/fence" if at in self.connected else "lib/fence-ping"
                nodes += self.steps([m.UseStep(use=fragment)], Scope(scope.variables, at), f"end.{at}")
        return _actions_first(nodes)


def _connection(at: str | None, scope: Scope) -> str:
    return scope.at if at is None else str(resolve(at, scope.variables))


def _actions_first(nodes: Iterable[Node]) -> list[Node]:
    """Put all sends of the end fences into one group, so that they wait for their answers together."""
    listed = list(nodes)
    if any(isinstance(node, Action) and node.what == "open" for node in listed):
        return listed
    return [n for n in listed if isinstance(n, Action)] + [n for n in listed if not isinstance(n, Action)]


def _grouped(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Join consecutive actions into groups; a read stands alone, because it is an action and an expectation at once."""
    result: list[Node] = []
    for node in nodes:
        last = result[-1] if result else None
        if not isinstance(node, Action):
            result.append(node)
        elif node.what != "read" and isinstance(last, Actions) and len(last.lanes) == 1 and last.lanes[0][0].what != "read":
            result[-1] = Actions(last.path, ((*last.lanes[0], node),))
        else:
            result.append(Actions(node.path, ((node,),)))
    return tuple(result)


def _numbered(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    counter = itertools.count()

    def walk(some: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(number(node) for node in some)

    def number(node: Node) -> Node:
        if isinstance(node, Actions):
            return Actions(node.path, node.lanes, next(counter))
        if isinstance(node, Choice):
            return Choice(node.path, tuple(Alternative(a.name, a.level, a.clause, walk(a.nodes)) for a in node.alternatives))
        if isinstance(node, Silence):
            return Silence(node.path, node.at, node.scope, node.frames, node.clause, walk(node.until))
        return node

    return walk(nodes)


def _actions_of(nodes: Iterable[Node]) -> Iterator[Actions]:
    for node in nodes:
        if isinstance(node, Actions):
            yield node
        elif isinstance(node, Choice):
            for alternative in node.alternatives:
                yield from _actions_of(alternative.nodes)
        elif isinstance(node, Silence):
            yield from _actions_of(node.until)
