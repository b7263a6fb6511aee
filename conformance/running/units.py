"""What a run consists of: trials of cells of cases, in real or in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conformance.engine import model as m
from conformance.engine.values import Value
from conformance.suite import Suite
from conformance.targets.model import Target

SLOW_SECONDS = 2.0
"""A case that lets more time pass than this is in the group `slow`: it runs beside all others."""


@dataclass(frozen=True)
class Unit:
    """One trial of one cell of a case."""

    case: m.Transcript
    cell: Mapping[str, Value]
    trial: int
    attempt: int = 0

    @property
    def key(self) -> str:
        """Return its key in the log."""
        cell = ",".join(f"{name}={value}" for name, value in self.cell.items())
        attempt = f"~{self.attempt}" if self.attempt else ""
        return f"{self.case.id}{f'[{cell}]' if cell else ''}#{self.trial}{attempt}"


Span = tuple[float, float]
"""When a conversation began, and when it ended."""
_STALLED = 2
"""Conversations that have to show that a target stood still."""


def stood_still(span: Span, stalls: Sequence[Span]) -> bool:
    """Tell whether a target was not to blame for what it did not send: others lacked frames at that time, too, and got them later.

    Args:
        span: When the conversation was held.
        stalls: When those were that lacked a frame of which no clause speaks, and got it when they were held again.
    """
    return sum(begun < span[1] and span[0] < ended for begun, ended in stalls) >= _STALLED


def is_slow(case: m.Transcript) -> bool:
    """Tell whether a case belongs to the group `slow`."""
    return case.seconds() > SLOW_SECONDS


def divided(cases: list[m.Transcript], target: Target) -> tuple[list[m.Transcript], list[m.Transcript]]:
    """Return the cases that run in real time, and those for virtual time, if the target can be had in it.

    Over sockets go the cases of core, whose matter the connection is, and races. The other cases, and all that wait for minutes or need
    other settings, are played in virtual time. If that leaves none for sockets, only the latter are.
    """
    if target.in_virtual_time is not None:
        for is_apart in (lambda case: _needs_virtual_time(case) or not _needs_sockets(case), _needs_virtual_time):
            apart = [case for case in cases if is_apart(case)]
            if len(apart) < len(cases):
                return [case for case in cases if not is_apart(case)], apart
    return cases, []


def _needs_virtual_time(case: m.Transcript) -> bool:
    return is_slow(case) or bool(case.target_config)


def _needs_sockets(case: m.Transcript) -> bool:
    return case.id.startswith("core/") or case.trials is not None


def with_controls(suite: Suite, cases: list[m.Transcript]) -> list[m.Transcript]:
    """Return cases with the controls that they need, and those of the controls."""
    chosen = {case.id: case for case in cases}
    for case in cases:
        while case.control is not None and case.control not in chosen:
            case = suite.transcripts[case.control]  # noqa: PLW2901
            chosen[case.id] = case
    return list(chosen.values())
