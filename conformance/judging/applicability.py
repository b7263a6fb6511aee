"""Which cases apply to a target, by its capabilities: known from the header of its log alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from conformance.engine import log
from conformance.engine.capabilities import DECLARED, FLAGS, MEANINGS
from conformance.engine.model import Transcript
from conformance.engine.program import cells
from conformance.judging.results import RunLog
from conformance.suite import Suite
from refimpl.wire.frames import decode_frame
from refimpl.wire.pulsar_api_pb2 import FeatureFlags

Lack: TypeAlias = tuple[Literal["NOT-APPLICABLE", "UNTESTABLE"], str]
NOT_RECORDED = "not recorded yet"
_HARNESS = ("admin", "config")
"""Capabilities of whoever runs the suite: without them a case says nothing of the target."""


def lack(case: Transcript, capabilities: Mapping[str, bool]) -> Lack | None:
    """Tell why a case does not apply to a target; None if no reason is known.

    Args:
        case: The case.
        capabilities: What the target can do. A capability that is not named decides nothing.

    Returns:
        The verdict of the case, and the reason.
    """
    for name in case.requires:
        wanted = not name.startswith("!")
        known = name.removeprefix("!")
        if capabilities.get(known, wanted) == wanted:
            continue
        if not wanted:
            return "NOT-APPLICABLE", f"for targets without {known}"
        lacking = f"the target has no {name} (needed: {MEANINGS[name]})"
        if name in _HARNESS:
            return "UNTESTABLE", lacking
        return "NOT-APPLICABLE", lacking + (f"; {claim_hint(name)}" if name in DECLARED else "")
    return None


def claim_hint(capability: str) -> str:
    """Say how to declare a capability that nothing on the wire need tell."""
    return f"if it has, declare it with --claim {capability}"


def capabilities_of(run: RunLog) -> dict[str, bool]:
    """Return the capabilities of the target of a log: from its header, and from its CONNECTED for flags that are newer than the log."""
    younger = [name for name in FLAGS if name not in run.header.capabilities]
    flags = _flags(run, younger) if younger else {}
    return dict.fromkeys(DECLARED, False) | flags | run.header.capabilities


def _flags(run: RunLog, names: list[str]) -> dict[str, bool]:
    told = {FLAGS[name]: has for name, has in run.header.capabilities.items() if name in FLAGS}
    found = list(_feature_flags(run)) if any(FLAGS[name] not in told for name in names) else []
    told |= {FLAGS[name]: any(getattr(flags, FLAGS[name]) for flags in found) for name in names if found and FLAGS[name] not in told}
    return {name: told[FLAGS[name]] for name in names if FLAGS[name] in told}


def _feature_flags(run: RunLog) -> Iterator[FeatureFlags]:
    for trial in run.trial_logs.values():
        first = next((event for event in trial.events if isinstance(event, log.Frame)), None)
        if first is not None:
            command = decode_frame(bytes.fromhex(first.data)).command
            if command.HasField("connected"):
                yield command.connected.feature_flags


def completed(suite: Suite, run: RunLog) -> RunLog:
    """Complete a recording with the cases that it lacks: NOT-APPLICABLE by its header, or not recorded yet.

    Args:
        suite: All cases.
        run: Everything that was recorded of it.
    """
    recorded = {trial.begin.case for trial in run.trial_logs.values()}
    skipped = {one.case for one in run.skipped}
    capabilities = capabilities_of(run)
    inferred = []
    for case in suite.select([], profile=run.header.profile, role=run.header.role):
        lacking = lack(case, capabilities) if case.id not in recorded else None
        if lacking is None and case.recorded == "pending" and case.id not in recorded | skipped:
            lacking = "UNTESTABLE", NOT_RECORDED
        if lacking is not None:
            inferred += [log.Skipped(case=case.id, cell=cell, verdict=lacking[0], reason=lacking[1]) for cell in cells(case)]
    known = {one.case for one in inferred}
    return replace(run, skipped=sorted([*(one for one in run.skipped if one.case not in known), *inferred], key=lambda one: one.case))


def not_recorded(suite: Suite, run: RunLog) -> list[str]:
    """Return the cases that apply to the target and that a completed recording marks as not recorded yet."""
    return sorted({one.case for one in completed(suite, run).skipped if one.reason == NOT_RECORDED})
