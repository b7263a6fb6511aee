"""A difference between what a target and the reference have said."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from conformance.explore.freedoms import FreeDifference
from conformance.explore.lines import Line
from conformance.explore.player import Step
from conformance.explore.said import Told
from conformance.explore.world import Scenario


@dataclass(frozen=True)
class Difference:
    """An action after which the target has said something else than the reference.

    Attributes:
        scenario: What was played.
        place: The number of the step; 0: the preparation.
        missing: What only the reference has said.
        extra: What only the target has said.
        steps: What the reference's player did, as the steps of a transcript.
        told: What the reference said in the whole scenario, after this step as well.
        other: What the target said.
        entry: What allows it; None: nothing that is listed.
    """

    scenario: Scenario
    place: int
    missing: tuple[Line, ...]
    extra: tuple[Line, ...]
    steps: Sequence[Step] = field(repr=False)
    told: Told = field(repr=False)
    other: Told = field(repr=False)
    entry: FreeDifference | None = field(default=None, repr=False)

    @property
    def signature(self) -> str:
        """Return what makes two differences the same: the kind of action, and which fields of which commands differ."""
        action = self.steps[self.place].action
        return f"{action.kind if action else 'preparation'}: {'; '.join(sorted(set(_described(self.missing, self.extra))))}"

    def parts(self) -> list[Difference]:
        """Return a difference for each command that differs."""
        return [
            replace(self, missing=_called(name, self.missing), extra=_called(name, self.extra))
            for name in sorted({_name(line) for line in (*self.missing, *self.extra)})
        ]

    @property
    def kinds(self) -> frozenset[str]:
        """Return the kinds of the actions up to the difference."""
        return frozenset(action.kind for action in self.scenario.until(self.place).actions)


_NAMED = frozenset({"error", "response", "server_error"})
"""Fields whose values tell one difference from another."""


def _described(missing: Sequence[Line], extra: Sequence[Line]) -> Iterator[str]:
    for name in sorted({_name(line) for line in (*missing, *extra)}):
        was, now = ([line for line in lines if _name(line) == name] for lines in (missing, extra))
        if not was or not now:
            line = (was or now)[0]
            yield f"{'no' if was else 'a further'} {name}" + "".join(f" {value}" for key, value in _fields(line).items() if key in _NAMED)
            continue
        for key in min((_differing(_fields(one), _fields(other)) for one in was for other in now), key=len):
            one, other = _fields(was[0]).get(key), _fields(now[0]).get(key)
            yield f"{name}.{key} {one} -> {other}" if key in _NAMED else f"{name} has another {key}"


def _called(name: str, lines: Sequence[Line]) -> tuple[Line, ...]:
    return tuple(line for line in lines if _name(line) == name)


def _name(line: Line) -> str:
    return f"{line.name} of a shared subscription" if line.lane.startswith("subscription ") else line.name


def _fields(line: Line) -> Mapping[str, Any]:
    if line.fields.startswith("{"):
        found: dict[str, Any] = json.loads(line.fields)
        return found
    return {"response": line.fields}


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key)) or ["number"]
