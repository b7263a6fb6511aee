"""Compiles a transcript to a program: inserts fragments, unrolls loops, decides roles, numbers actions.

A program is a tuple of nodes. Actions are what the harness does; everything else is what it waits for. Consecutive actions are
one group, because its results may be seen from the start of the first: a push can arrive before the admin call that caused
it has returned. Actions are numbered in the order of the file (`2.0` is the first of the third group), so that a recording
still fits after its expectations were edited.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from conformance.engine import model as m
from conformance.engine.actions import Actions, Advance, actions_first, grouped, groups
from conformance.engine.node import Node, Scope, numbered, walk
from conformance.engine.parts import BytesSpec, Soon
from conformance.engine.step import Compiler, ProgramProblem, Role
from conformance.engine.steps import UseStep
from conformance.engine.values import Environment, Value, resolve_known, variables_of

DEFAULT_CONNECTION: Final = "c"


@dataclass(frozen=True)
class Program:
    """What one cell of a case does, ready for the machine."""

    case: str
    nodes: tuple[Node, ...]
    clauses: tuple[str, ...]
    ambient: tuple[m.Ambient, ...]
    scope: Scope
    role: Role = "broker"
    """The role under test."""
    soon: tuple[tuple[str, Soon], ...] = ()
    """How soon frames come, by clause: of all clauses, since any case may show it."""

    def actions(self) -> Iterator[Actions]:
        """Return all groups of actions, in the order of the file."""
        return groups(self.nodes)

    @property
    def at_any_broker(self) -> bool:
        """Tell whether any broker of a cluster answers all that the case sends, and the case does not choose brokers itself."""
        return not any(action.for_one_broker for group in self.actions() for lane in group.lanes for action in lane)

    @property
    def speaks_of_time(self) -> bool:
        """Tell whether the case lets time pass or has a window, so that it says nothing of a peer when something else is late."""
        return any(node.timed for node in walk(self.nodes))


def cells(transcript: m.Transcript) -> list[dict[str, Value]]:
    """Return the cells of a transcript's matrix, values or their names: one empty cell if it has none."""
    names = list(transcript.matrix)
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*transcript.matrix.values())]


def cell_values(transcript: m.Transcript, cell: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values of the variables of a cell."""
    values = {}
    for name, value in cell.items():
        named = transcript.matrix.get(name)
        values[name] = named[value] if isinstance(named, dict) and value in named else value
    return values


def fresh_names(transcript: m.Transcript) -> dict[str, str]:
    """Return the variables that have a new value in each trial, with the kind of each."""
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
        ProgramProblem: An unknown fragment, a step in a place where it is not allowed, or a variable that is not set.
    """
    scope = Scope(_variables({**transcript.vars, **cell_values(transcript, cell), **fresh}, {"@seed": seed}), DEFAULT_CONNECTION)
    compiler = Compiler(fragments, transcript.role)
    compiler.awaits(scope.variables, "vars")
    nodes = [*compiler.steps(transcript.steps, scope, "steps"), *_ending(compiler, transcript, scope)]
    _check_bound(compiler, nodes)
    actions = numbered(grouped(nodes), itertools.count())
    return Program(transcript.id, actions, tuple(transcript.clauses), _ambient(transcript), scope, transcript.role)


def _check_bound(compiler: Compiler, nodes: list[Node]) -> None:
    bound = set[str]().union(*(node.binds() for node in nodes))
    for name, path in compiler.later.items():
        if name not in bound:
            raise ProgramProblem(f"{path}: the variable ${name} is not set here, and no frame binds it")


def actions_digest(program: Program, target_config: Mapping[str, str]) -> str:
    """Return the digest of everything in a cell that decides what is sent. A recording with another digest is stale.

    Args:
        program: The cell, compiled with its own names for the fresh ones.
        target_config: The settings that the case asks for.
    """
    actions = [
        [
            group.number,
            action.what,
            action.at,
            str(spec),
            {k: action.scope.variables.get(k) for k in sorted(variables_of(spec))},
        ]
        for group in program.actions()
        for lane in group.lanes
        for action in lane
        for spec in [_plain(action.spec)]
    ]
    return hashlib.sha256(json.dumps([actions, target_config], default=str).encode()).hexdigest()[:16]


def _plain(spec: Any) -> Any:
    if isinstance(spec, dict):
        return {key: _plain(value) for key, value in spec.items() if key != "expect"}
    return spec.model_dump() if isinstance(spec, BytesSpec) else spec


_PING: Final = m.Ambient(frame={"ping": {}}, answer={"pong": {}})
_PONG: Final = m.Ambient(frame={"pong": {}})
REDIRECT: Final = m.Ambient(frame={"lookupTopicResponse": {"response": "Redirect"}})
"""In every case: the runner follows it, by the same look-up once more on the same connection."""


def _ambient(transcript: m.Transcript) -> tuple[m.Ambient, ...]:
    return (*((_PING, _PONG) if transcript.ambient is None else transcript.ambient), REDIRECT)


def _variables(values: Mapping[str, Value], known: Environment) -> dict[str, Value]:
    """Resolve variables that may refer to each other, in any order; what frames are still to bind is `Later`."""
    variables, left = dict(known), dict(values)
    while left:
        ready = [name for name, value in left.items() if not variables_of(value) & set(left)]
        for name in ready or list(left):
            variables[name] = resolve_known(left.pop(name), variables)
    return variables


def _ending(compiler: Compiler, transcript: m.Transcript, scope: Scope) -> list[Node]:
    """Compile the end of a case: the steps that prove that no other frame arrived."""
    if isinstance(transcript.end, m.Quiet):
        return [Advance("end", scope, None, transcript.end.quiet)]
    if transcript.end == "none":
        return []
    nodes: list[Node] = []
    if transcript.end == "alive":
        nodes += compiler.steps([UseStep(use="lib/still-served")], Scope(scope.variables, "alive"), "end")
    for at in dict.fromkeys(compiler.open):
        if at not in compiler.gone:
            fragment = "lib/fence" if at in compiler.connected else "lib/fence-ping"
            nodes += compiler.steps([UseStep(use=fragment)], Scope(scope.variables, at), f"end.{at}")
    return actions_first(nodes)
