"""Views of a report that several renderers need: cases by clause, reasons, the conversation to show, the census."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from conformance.engine import log
from conformance.engine.model import Clause, Register
from conformance.engine.verdict import SEVERITY, Outcome, Verdict
from conformance.report.model import Report
from conformance.report.wording import listed, number_of, one_line, plain_value, short

BAD = ("ERROR", "FAIL", "WARN", "INCONCLUSIVE")
"""Verdicts of what did not pass, in the order in which reports tell it."""
NOT_RUN = frozenset({"UNTESTABLE", "NOT-APPLICABLE"})
_MOST_FIELDS = 12
"""Fields of a case that are told."""
_NOT_AGAIN = frozenset({"--select", "--level", "--report", "--seed"})
"""Options of a run that are left out where one case is run again, with their values."""
_RECORDING = "--record"
"""Left out, too: one case would take the place of a whole recording."""


@dataclass(frozen=True)
class Fact:
    """One line of the census: a value that was observed, how often and in which cases."""

    name: str
    value: str
    conversations: int
    cases: Sequence[str]


@dataclass(frozen=True)
class Untested:
    """Cases that were not run for the same reason, and the clauses without a result because of it."""

    verdict: str
    reason: str
    cases: int = 0
    clauses: Sequence[str] = field(default=())


def group_of(name: str) -> str:
    """Return the group of a case or a clause: `pip145` for both `pip145/watch/..` and `pip145.watch..`."""
    return re.split(r"[./]", name, maxsplit=1)[0]


def group_titles(registers: Iterable[Register]) -> dict[str, str]:
    """Return the title of each group, in the order of the registers."""
    return {register.proposal.replace("-", ""): register.source.title or register.proposal for register in registers}


def group_addresses(registers: Iterable[Register]) -> dict[str, str]:
    """Return the address of the text of each group whose text is published."""
    return {register.proposal.replace("-", ""): register.address for register in registers if register.address}


def anchor(kind: str, name: str) -> str:
    """Return an anchor in a page that is the same in every report."""
    return f"{kind}-" + re.sub(r"[^A-Za-z0-9]", lambda found: "-" if found[0] in "/.-" else f"_{ord(found[0]):x}", name)


def clauses_by_group(report: Report) -> dict[str, list[tuple[Clause, Verdict]]]:
    """Return the clauses in scope with their verdicts, by group, in the order of the registers."""
    grouped: dict[str, list[tuple[Clause, Verdict]]] = {}
    for name, verdict in report.clauses.items():
        grouped.setdefault(group_of(name), []).append((report.suite.clauses[name], verdict))
    return grouped


def results_by_group(report: Report) -> dict[str, list[log.Result]]:
    """Return the results by the group of their cases."""
    grouped: dict[str, list[log.Result]] = {}
    for result in report.results:
        grouped.setdefault(group_of(result.case), []).append(result)
    return grouped


def results_by_clause(report: Report) -> dict[str, list[log.Result]]:
    """Return the results that cite each clause."""
    citing: dict[str, list[log.Result]] = {}
    for result in report.results:
        for clause in result.clauses:
            citing.setdefault(clause, []).append(result)
    return citing


def reason_of(result: log.Result, clause: str | None = None) -> str:
    """Say why a result, or its part on one clause, is not a plain pass; empty if it is one.

    Args:
        result: A result, baseline applied.
        clause: One of its clauses.
    """
    verdict = result.verdict if clause is None else result.clauses.get(clause, result.verdict)
    if result.baseline is not None and clause is not None and verdict == Verdict.UNTESTABLE:
        return f"the case ended before it came to this clause (known failure: {short(result.baseline)})"
    if result.baseline is not None:
        return short(result.baseline)
    if verdict == Verdict.PASS:
        return ""
    if clause is not None and verdict == Verdict.UNTESTABLE and result.verdict in (Verdict.FAIL, Verdict.WARN, Verdict.SPEC_GAP):
        return "the case ended before it came to this clause"
    if result.verdict == Verdict.ERROR:
        return f"the suite could not run the case: {short(result.summary)}"
    if result.verdict == Verdict.XPASS:
        return "a known failure that did not happen"
    return short(result.summary)


def clause_reason(report: Report, clause: str, citing: Sequence[log.Result]) -> str:
    """Say why a clause is not a plain pass; empty if it is one.

    Args:
        report: The report.
        clause: Its id.
        citing: The results that cite it.
    """
    if not citing:
        monitor = report.suite.clauses[clause].observed_by
        if monitor:
            return f"checked by the monitor {monitor}; no case is about it alone"
        cases = report.suite.cases_of.get(clause, [])
        return "not part of this run" if cases else "no case tests it yet"
    if report.clauses.get(clause) == Verdict.PASS:
        return ""
    found = [reason_of(result, clause) for result in citing if result.clauses[clause] != Verdict.PASS]
    return "; ".join(dict.fromkeys(text for text in found if text))


def untested(report: Report) -> list[Untested]:
    """Group the untested cases by their reason, the most frequent reason first."""
    cases: Counter[tuple[str, str]] = Counter()
    clauses: dict[tuple[str, str], list[str]] = {}
    for result in report.results:
        if result.verdict in NOT_RUN:
            cases[result.verdict, short(result.summary)] += 1
    citing = results_by_clause(report)
    for name, verdict in report.clauses.items():
        if verdict in NOT_RUN:
            reason = clause_reason(report, name, citing.get(name, ())) or "no reason given"
            clauses.setdefault((str(verdict), reason), []).append(name)
    keys = sorted({*cases, *clauses}, key=lambda key: (-len(clauses.get(key, ())), -cases[key], key))
    return [Untested(*key, cases[key], tuple(clauses.get(key, ()))) for key in keys]


def untested_line(one: Untested) -> str:
    """Write one group of untested cases on one line."""
    numbers = [number_of(len(one.clauses), "clause")] if one.clauses else []
    numbers += [number_of(one.cases, "case")] if one.cases else []
    return f"{one.verdict}, {' and '.join(numbers)}: {one.reason}"


def census(report: Report) -> list[Fact]:
    """Return every observed fact, from all conversations, by name and value."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for key, outcome in report.outcomes.items():
        for name, value in outcome.observed.items():
            case = report.run.trial_logs[key].begin.case
            found.setdefault((name, short(plain_value(value))), Counter())[case] += 1
    return [Fact(name, value, sum(cases.values()), tuple(sorted(cases))) for (name, value), cases in sorted(found.items())]


def fact_line(fact: Fact) -> str:
    """Write one line of the census."""
    return f"{fact.name} = {fact.value}  ({number_of(fact.conversations, 'conversation')}: {listed(fact.cases, 3)})"


def final_outcomes(report: Report, result: log.Result) -> list[Outcome]:
    """Return the outcome of the last attempt of each trial of a result."""
    last: dict[str, Outcome] = {}
    for key in result.keys:
        if key in report.outcomes:
            last[key.partition("~")[0]] = report.outcomes[key]
    return list(last.values())


def shown_outcome(report: Report, result: log.Result) -> Outcome | None:
    """Return the conversation that explains a result best."""
    return telling(final_outcomes(report, result))


def telling(outcomes: Sequence[Outcome]) -> Outcome | None:
    """Return the most telling outcome: the first of the most serious failures, otherwise the first."""
    bad = [one for one in outcomes if one.verdict not in (Verdict.PASS, Verdict.NOT_APPLICABLE)]
    return max(bad, key=lambda one: SEVERITY[one.verdict]) if bad else next(iter(outcomes), None)


def seconds_of(report: Report, result: log.Result) -> float:
    """Return how long all conversations of a result took together."""
    total = 0.0
    for key in result.keys:
        trial_log = report.run.trial_logs.get(key)
        if trial_log is not None and trial_log.finished is not None:
            total += trial_log.finished.t - trial_log.begin.t
    return round(total, 3)


def duration(report: Report) -> float:
    """Return how long the run took, in seconds, as far as the log says."""
    return (report.run.footer.seconds if report.run.footer is not None else 0.0) or report.run.seconds


def trials_text(result: log.Result) -> str:
    """Say how many trials there were and how many did not pass; empty for a single one."""
    if result.trials <= 1:
        return ""
    return f"{result.failed_trials} of {result.trials} trials did not pass"


def sides(report: Report, result: log.Result) -> tuple[str, str]:
    """Return what a case expected where it failed, and what came.

    Args:
        report: The report.
        result: One of its results that is no pass.
    """
    outcome = shown_outcome(report, result)
    diagnosis = outcome.diagnosis if outcome is not None else None
    if diagnosis is None or diagnosis.kind in ("harness", "branch", "monitor", "prevented"):
        return "", result.summary
    if diagnosis.differences:
        one = diagnosis.differences[0]
        return f"{one.path or 'the frame'}: {one.expected}", f"{one.actual}" + (f", in {diagnosis.came}" if diagnosis.came else "")
    expected = "silence" if diagnosis.kind == "silence" else diagnosis.waiting[0] if diagnosis.waiting else "nothing more"
    return expected, diagnosis.came or "nothing" + (f"; {diagnosis.meanwhile}" if diagnosis.meanwhile else "")


@dataclass(frozen=True)
class Miss:
    """One field that is not as expected: what both values begin with, what was expected and what came in the middle, what both end with."""

    field: str
    begin: str
    expected: str
    got: str
    end: str


def misses(report: Report, result: log.Result) -> list[Miss]:
    """Return what a case that did not pass expected and got, field by field.

    Args:
        report: The report.
        result: One of its results that is no pass.
    """
    outcome = shown_outcome(report, result)
    diagnosis = outcome.diagnosis if outcome is not None else None
    if diagnosis is not None and diagnosis.differences:
        told = [(one.path or "the frame", one.expected, one.actual) for one in diagnosis.differences[:_MOST_FIELDS]]
    else:
        told = [("", *sides(report, result))]
    return [_miss(one_line(field), short(expected), short(got)) for field, expected, got in told]


def _miss(field: str, expected: str, got: str) -> Miss:
    if not field:
        return Miss("the frame", "", expected, got, "")
    begin = _alike(expected, got)
    end = _alike(expected[begin:][::-1], got[begin:][::-1])
    return Miss(field, expected[:begin], expected[begin : len(expected) - end], got[begin : len(got) - end], got[len(got) - end :])


def _alike(one: str, other: str) -> int:
    """Return with how many equal characters two texts begin."""
    return next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def again(report: Report, result: log.Result) -> str:
    """Return the command that runs a case once more: as the run was called, with this case only."""
    given = list(report.run.header.arguments) or ["run", report.run.header.target]
    kept: list[str] = []
    for place, word in enumerate(given):
        before = given[place - 1] if place else ""
        if word == _RECORDING:
            continue
        if word not in _NOT_AGAIN and before not in _NOT_AGAIN and not word.startswith(tuple(f"{one}=" for one in _NOT_AGAIN)):
            kept.append(word)
    return shlex.join(["pulsar-conformance", *kept, "--select", result.case])
