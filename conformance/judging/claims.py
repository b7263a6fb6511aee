"""What a target claims, by flags, declarations and what was probed: which proposals a run judged, and which are not claimed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.engine import log
from conformance.engine.capabilities import CLAIMED_BY_CLIENTS, DECLARED
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
UNSERVED: Final = ("refused", "nothing comes", "the connection is closed")
"""Ways not to serve what is claimed."""
_JUDGED: Final = frozenset({Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.XFAIL, Verdict.XPASS, Verdict.SPEC_GAP})
_FAILED: Final = frozenset({Verdict.FAIL, Verdict.XFAIL})


@dataclass(frozen=True)
class Claims:
    """What a run says about the claims of its target, in the names of headlines: "core", "PIP-145", "PIP-145 watchers".

    Attributes:
        judged: What was judged.
        not_claimed: Proposals in scope of the run, or parts of one, that the target does not claim.
        unannounced: Of these, what it serves all the same.
        unjudged: Proposals in scope that it claims, and of which no case could be judged.
        unserved: What it claims and does not serve in most of the cases about it, or all, by one of the ways of `UNSERVED`.
    """

    judged: tuple[str, ...] = ()
    not_claimed: tuple[str, ...] = ()
    unannounced: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()
    unserved: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def claims_of(suite: Suite, run: RunLog, results: Sequence[log.Result], outcomes: Mapping[str, Outcome]) -> Claims:
    """Sum up what a run says about the claims of its target.

    Args:
        suite: All cases.
        run: The log.
        results: Its results, with or without a baseline.
        outcomes: The outcome of each conversation by its key.
    """
    has = capabilities_of(run)
    grouped = _grouped(suite, results)
    judged = [CORE] if any(result.verdict in _JUDGED for result in grouped.get(CORE, ())) else []
    lacking: list[str] = []
    unannounced: list[str] = []
    unjudged: list[str] = []
    unserved: dict[str, tuple[str, ...]] = {}
    for proposal in PROPOSALS:
        about = grouped.get(proposal.register)
        if about is None:
            continue
        if run.header.role == "client":  # what it offers, its driver says: a case of anything else does not apply
            has_it = any(_claims(proposal, suite.transcripts[result.case], result) for result in about)
            (judged if has_it else lacking).append(proposal.name)
            continue
        others = any(has.get(part.name) for part in proposal.parts)
        claimed = [part for part in proposal.parts if has.get(part.name, others)]  # a log may be older than a capability
        if any(_is_judged(proposal, claimed, suite.transcripts[result.case], result) for result in about):
            judged.append(proposal.name)
        elif any(part.name in suite.transcripts[result.case].requires for part in claimed for result in about):
            unjudged.append(proposal.name)
        lacking += _named(proposal, [part for part in proposal.parts if part not in claimed])
        served = {name for result in about if UNANNOUNCED in result.branches for name in suite.transcripts[result.case].requires}
        unannounced += _named(proposal, [part for part in proposal.parts if f"!{part.name}" in served])
        ways = {part: _way(part, proposal, about, suite, run, outcomes) for part in claimed}
        for way in UNSERVED:
            names = _named(proposal, [part for part in claimed if ways[part] == way])
            if names:
                unserved[way] = (*unserved.get(way, ()), *names)
    return Claims(tuple(judged), tuple(lacking), tuple(unannounced), tuple(unjudged), unserved)


def _grouped(suite: Suite, results: Iterable[log.Result]) -> dict[str, list[log.Result]]:
    """Group results by the register of their cases, without those that are there only as controls for another register."""
    cases = {result.case: suite.transcripts[result.case] for result in results}
    registers = {name: case.clauses[0].partition(".")[0] for name, case in cases.items()}
    controls = {case.control for name, case in cases.items() if case.control in cases and registers[case.control] != registers[name]}
    grouped: dict[str, list[log.Result]] = {}
    for result in results:
        if result.case not in controls:
            grouped.setdefault(registers[result.case], []).append(result)
    return grouped


def _is_judged(proposal: Proposal[Any], claimed: Sequence[Capability], case: Transcript, result: log.Result) -> bool:
    """Tell whether a result judges a proposal that the target has. A pass of a case about brokers without it does not."""
    absent = {name[1:] for name in case.requires if name.startswith("!")}
    has_it = bool(claimed) and absent.isdisjoint(one.name for one in proposal.capabilities)
    return result.verdict in _FAILED or (has_it and result.verdict in _JUDGED)


def _claims(proposal: Proposal[Any], case: Transcript, result: log.Result) -> bool:
    """Tell whether a result judges a proposal that a client has. A case that binds every client does not."""
    return result.verdict in _JUDGED and proposal.name in {CLAIMED_BY_CLIENTS.get(name) for name in case.requires}


def _named(proposal: Proposal[Any], parts: Sequence[Capability]) -> list[str]:
    """Return the name of the proposal if it is about all parts, otherwise a name for each part."""
    if len(parts) == len(proposal.parts):
        return [proposal.name]
    return [f"{proposal.name} {part.part}" for part in parts]


def _way(
    part: Capability, proposal: Proposal[Any], results: Sequence[log.Result], suite: Suite, run: RunLog, outcomes: Mapping[str, Outcome]
) -> str | None:
    """Say how a target that claims a part does not serve it in most of the cases about it; None if it does.

    A case that needs another part of the proposal, too, does not say which of them is not served.
    """
    others = {one.name for one in proposal.parts} - {part.name}
    needs = {one.case: suite.transcripts[one.case].requires for one in results}
    about = [one for one in results if one.verdict in _JUDGED and part.name in needs[one.case] and others.isdisjoint(needs[one.case])]
    ways = [_how(one, run, outcomes) for one in about if one.verdict in _FAILED]
    return next((way for way in UNSERVED if ways.count(way) * 2 > len(about)), None)


def _how(result: log.Result, run: RunLog, outcomes: Mapping[str, Outcome]) -> str | None:
    """Say how a target did not serve what a case asked for where it failed; None if it did something else."""
    outcome = next((outcomes[key] for key in result.keys if key in outcomes and outcomes[key].verdict is Verdict.FAIL), None)
    if outcome is None or outcome.diagnosis is None:
        return None
    event = next((one for one in run.trial_logs[outcome.key].events if one.n == outcome.diagnosis.event), None)
    if isinstance(event, log.Deadline):
        return "nothing comes"
    if isinstance(event, log.Closed):
        return "the connection is closed"
    frame = see(event).frame if isinstance(event, log.Frame) else None
    fields = sub_message(frame.command).ListFields() if frame is not None else ()
    return "refused" if any(field.name == "error" for field, _ in fields) else None


def explained(suite: Suite, run: RunLog, judged: Judged) -> Judged:
    """Add to each failure that a missing declaration explains how to declare it."""
    has = capabilities_of(run)
    for index, result in enumerate(judged.results):
        if result.verdict not in (Verdict.FAIL, Verdict.WARN, Verdict.SPEC_GAP):
            continue
        undeclared = [name for name in _undeclared(suite.transcripts[result.case]) if not has.get(name, False)]
        if undeclared:
            text = "; ".join(f"the target is taken for one without {name}: {claim_hint(name)}" for name in undeclared)
            told = {"summary": f"{result.summary}; {text}", "diagnosis": f"{result.diagnosis}\n  {text}" if result.diagnosis else ""}
            judged.results[index] = result.model_copy(update=told)
    return judged


def _undeclared(case: Transcript) -> Iterator[str]:
    return (name[1:] for name in case.requires if name.startswith("!") and name[1:] in DECLARED)
