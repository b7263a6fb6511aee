"""What a target claims, by flags, declarations and what was probed: which proposals a run judged, and which are not claimed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from conformance.engine import log
from conformance.engine.capabilities import DECLARED
from conformance.engine.matching import see
from conformance.engine.model import Transcript
from conformance.engine.verdict import Outcome, Verdict
from conformance.judging.applicability import capabilities_of, claim_hint
from conformance.judging.results import Judged, RunLog
from conformance.suite import Suite
from refimpl.proposals import PROPOSALS
from refimpl.proposals.declaration import Capability, Proposal
from refimpl.wire.commands import sub_message

CORE: Final = "core"
UNANNOUNCED: Final = "served without being announced"
"""The branch that a case takes if a target does what it did not announce."""
_JUDGED: Final = frozenset({Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.XFAIL, Verdict.XPASS, Verdict.SPEC_GAP})
_FAILED: Final = frozenset({Verdict.FAIL, Verdict.XFAIL})


@dataclass(frozen=True)
class Claims:
    """What a run says about the claims of its target, in the names of headlines: "core", "PIP-145", "PIP-145 watchers".

    Attributes:
        judged: What was judged.
        not_claimed: Proposals in scope of the run, or parts of one, that the target does not claim.
        unannounced: Of these, what it serves all the same.
        refused: What it claims and then refuses in most of the cases about it, or all.
        unanswered: The same for what it does not answer, or ends the connection for.
    """

    judged: tuple[str, ...] = ()
    not_claimed: tuple[str, ...] = ()
    unannounced: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()


def claims_of(suite: Suite, run: RunLog, results: Sequence[log.Result], outcomes: dict[str, Outcome]) -> Claims:
    """Sum up what a run says about the claims of its target.

    Args:
        suite: All cases.
        run: The log.
        results: Its results, with or without a baseline.
        outcomes: The outcome of each conversation by its key.
    """
    has = capabilities_of(run)
    judged, lacking, unannounced, refused, unanswered = [], [], [], [], []
    grouped: dict[str, list[log.Result]] = {}
    for result in results:
        grouped.setdefault(suite.transcripts[result.case].clauses[0].partition(".")[0], []).append(result)
    if any(result.verdict in _JUDGED for result in grouped.get(CORE, ())):
        judged.append(CORE)
    for proposal in PROPOSALS:
        about = grouped.get(proposal.register)
        if about is None:
            continue
        others = any(has.get(part.name) for part in proposal.parts)
        claimed = [part for part in proposal.parts if has.get(part.name, others)]  # a log may be older than a capability
        if any(
            result.verdict in _FAILED or (result.verdict in _JUDGED and _counts(proposal, claimed, suite.transcripts[result.case]))
            for result in about
        ):
            judged.append(proposal.name)
        lacking += _named(proposal, [part for part in proposal.parts if part not in claimed])
        silent = [result for result in about if UNANNOUNCED in result.branches]
        unannounced += _named(proposal, _parts(proposal, silent, suite, "!"))
        ways = {part: _way(part, about, suite, run, outcomes) for part in claimed}
        refused += _named(proposal, [part for part in claimed if ways[part] == "refused"])
        unanswered += _named(proposal, [part for part in claimed if ways[part] == "unanswered"])
    return Claims(*map(tuple, (judged, lacking, unannounced, refused, unanswered)))


def _counts(proposal: Proposal[Any], claimed: Sequence[Capability], case: Transcript) -> bool:
    """Tell whether a case speaks of a proposal that the target has: not one about brokers without it."""
    own = {one.name for one in proposal.capabilities}
    return bool(claimed) and not any(name.removeprefix("!") in own for name in case.requires if name.startswith("!"))


def _named(proposal: Proposal[Any], parts: Sequence[Capability]) -> list[str]:
    """Return the name of the proposal if it is about all parts, otherwise a name for each part."""
    if len(parts) == len(proposal.parts):
        return [proposal.name]
    return [f"{proposal.name} {part.part}" for part in parts]


def _parts(proposal: Proposal[Any], results: Iterable[log.Result], suite: Suite, mark: str = "") -> list[Capability]:
    """Return the parts of a proposal that the cases of some results require, or whose absence they do."""
    required = {name for result in results for name in suite.transcripts[result.case].requires}
    return [part for part in proposal.parts if f"{mark}{part.name}" in required]


def _way(part: Capability, results: Iterable[log.Result], suite: Suite, run: RunLog, outcomes: dict[str, Outcome]) -> str | None:
    """Say how a target that claims a part fails most of the cases about it; None if it does not, or in different ways."""
    about = [one for one in results if one.verdict in _JUDGED and part.name in suite.transcripts[one.case].requires]
    ways = [way for one in about if one.verdict in _FAILED for way in [_how(one, run, outcomes)] if way is not None]
    return next((way for way in ("refused", "unanswered") if ways.count(way) * 2 > len(about)), None)


def _how(result: log.Result, run: RunLog, outcomes: dict[str, Outcome]) -> str | None:
    """Say what a target did where it failed: refuse a request, answer nothing or end the connection, or something else."""
    failed = (outcomes[key] for key in result.keys if key in outcomes and outcomes[key].verdict is Verdict.FAIL)
    outcome = next(failed, None)
    if outcome is None or outcome.diagnosis is None or outcome.diagnosis.event is None:
        return None
    events = run.trial_logs[outcome.key].events
    event = next((one for one in events if one.n == outcome.diagnosis.event), None)
    if isinstance(event, log.Deadline | log.Closed):
        return "unanswered"
    if isinstance(event, log.Frame):
        frame = see(event).frame
        fields = sub_message(frame.command).ListFields() if frame is not None else ()
        return "refused" if any(field.name == "error" for field, _ in fields) else None
    return None


def explained(suite: Suite, run: RunLog, judged: Judged) -> Judged:
    """Add to each failure that a missing declaration explains how to declare it."""
    has = capabilities_of(run)
    for index, result in enumerate(judged.results):
        if result.verdict not in (Verdict.FAIL, Verdict.WARN, Verdict.SPEC_GAP):
            continue
        undeclared = [name for name in _undeclared(suite.transcripts[result.case]) if not has.get(name, False)]
        if undeclared:
            text = "; ".join(f"the target is taken for one without {name}: {claim_hint(name)}" for name in undeclared)
            judged.results[index] = result.model_copy(
                update={"summary": f"{result.summary}; {text}", "diagnosis": f"{result.diagnosis}\n  {text}" if result.diagnosis else ""}
            )
    return judged


def _undeclared(case: Transcript) -> Iterator[str]:
    return (name[1:] for name in case.requires if name.startswith("!") and name[1:] in DECLARED)
