"""The conclusion of a run, as one plain sentence, which every report has in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from conformance.engine.verdict import Verdict
from conformance.judging.baseline import case_name
from conformance.report.model import Report
from conformance.report.wording import clean, number_of, one_line, short

Kind: TypeAlias = Literal["conformant", "not conformant", "stale", "inconclusive", "incomplete", "nothing claimed", "nothing tested"]


@dataclass(frozen=True)
class Conclusion:
    """A kind for machines and colours, and a sentence for people."""

    kind: Kind
    sentence: str


def conclude(report: Report) -> Conclusion:
    """Sum up a report: what was judged, the most serious problem, how much could not be tested, and what was not claimed.

    It is never `conformant` for a run that did not reach its end, or in which nothing was judged that the target claims.
    """
    kind, text = _verdict(report)
    judged = ", ".join(report.claims.judged)
    if judged:
        text = f"{text}; judged so far: {judged}" if kind == "incomplete" else f"{judged}: {text}"
    return Conclusion(kind, "; ".join([text, *_notes(report)]))


def _verdict(report: Report) -> tuple[Kind, str]:
    cases, clauses = report.case_counts, report.clause_counts
    failed = clauses["FAIL"] + (clauses["WARN"] if report.strict else 0)
    bad = cases["FAIL"] + (cases["WARN"] if report.strict else 0)
    what = f"{number_of(failed, 'clause') if failed else number_of(bad, 'case')} failed" if bad else ""
    if not report.run.complete:
        return "incomplete", f"incomplete: {why_incomplete(report)}" + (f"; before that, {what}" if bad else "")
    if cases["ERROR"]:
        first = next(result for result in report.results if result.verdict == Verdict.ERROR)
        text = f"incomplete: {number_of(cases['ERROR'], 'case')} could not be run by the suite; see {one_line(case_name(first))}"
        text += f" ({short(first.summary)})" if first.summary else ""
        return "incomplete", text + (f"; of the rest, {what}" if bad else "")
    if bad:
        return "not conformant", f"not conformant, {what}" + (" (warnings count)" if report.strict else "")
    if report.stale:
        entries = number_of(len(report.stale), "entry", "entries")
        return "stale", f"stale baseline, nothing failed that is not known, but {entries} of the baseline must be taken out"
    if cases["INCONCLUSIVE"]:
        return "inconclusive", f"inconclusive, {number_of(cases['INCONCLUSIVE'], 'case')} could not be judged"
    if not any(cases[verdict] for verdict in ("PASS", "WARN", "XFAIL", "XPASS", "SPEC-GAP")):
        return "nothing tested", "nothing tested: no case could be run against this target"
    if report.claims.judged and report.claims.unjudged:
        return "inconclusive", "inconclusive, nothing of what is claimed besides could be judged"
    if not report.claims.judged:
        return "nothing claimed", f"nothing claimed: only cases for a {report.run.header.role} without these proposals were judged"
    but = [
        number_of(clauses[verdict], one, many)
        for verdict, one, many in (("XFAIL", "known failure", "known failures"), ("WARN", "warning", "warnings"))
        if clauses[verdict]
    ]
    text = "conformant" + (" to the letter" if report.run.header.profile == "as-written" else "")
    text += "" if report.whole else " in the selected cases"
    return "conformant", f"{text}, apart from {' and '.join(but)}" if but else text


def _notes(report: Report) -> Iterator[str]:
    if untestable := report.clause_counts["UNTESTABLE"]:
        yield f"{number_of(untestable, 'clause')} untested"
    claims = report.claims
    not_claimed = [name for name in claims.not_claimed if name not in claims.unannounced]
    unserved = [(f"claimed but {way}", names) for way, names in claims.unserved.items()]
    unserved.append(("claimed but not judged", claims.unjudged))
    for words, names in (*unserved, ("served but not announced", claims.unannounced), ("not claimed", not_claimed)):
        if names:
            yield f"{words}: {', '.join(names)}"


def why_incomplete(report: Report) -> str:
    """Say why a run is not complete."""
    footer = report.run.footer
    if footer is None:
        return "the log ends before the end of the run"
    return clean(footer.stopped or "the run was stopped")
