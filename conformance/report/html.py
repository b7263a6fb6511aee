"""The report as one HTML page that works offline, in light and dark, and on paper. Conversations are packed, and its script opens them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conformance.engine import log
from conformance.engine.model import Clause
from conformance.judging.baseline import case_name
from conformance.judging.causes import groups
from conformance.report.conclusion import conclude, why_incomplete
from conformance.report.entries import Entry, entries_by_group, pack, places_of
from conformance.report.model import Report
from conformance.report.pages import page
from conformance.report.timeline import render_timeline_svg, timeline
from conformance.report.views import (
    BAD,
    Miss,
    again,
    census,
    clause_reason,
    clauses_by_group,
    duration,
    group_addresses,
    group_of,
    group_titles,
    misses,
    reason_of,
    results_by_clause,
    untested,
)
from conformance.report.wording import (
    VERDICT_MEANING,
    VERDICT_WORDS,
    cases_counted,
    conversations_counted,
    counted,
    given_policies,
    one_line,
)

PAGE = 1_800_000
"""Characters of a page up to which conversations that passed are put into it."""
_LEAST = 200_000
_EMPTY = 'id="packed"></script>'


@dataclass(frozen=True)
class ClauseView:
    """One line of the table of clauses; `citations` are the entries that cite it, with what each says of it."""

    clause: Clause
    verdict: str
    reason: str
    citations: Sequence[tuple[Entry, str]]


@dataclass(frozen=True)
class FailedView:
    """A case that did not pass, as far as it is told before it is opened."""

    entry: Entry
    result: log.Result
    reason: str
    clauses: Sequence[tuple[Clause | None, str]]
    misses: Sequence[Miss]
    again: str


@dataclass(frozen=True)
class CauseView:
    """Failures with one cause; one that could not be run, or judged, stands alone."""

    words: str
    clauses: Sequence[str]
    cases: Sequence[FailedView]


def render_html(report: Report) -> str:
    """Write the report as one page.

    Args:
        report: The report. For each case, the page has the one conversation that explains its verdict, as far as there is room.

    Returns:
        A whole HTML document; the same report gives the same bytes.
    """
    header = report.run.header
    citing = results_by_clause(report)
    titles = group_titles(report.suite.registers)
    entries = entries_by_group(report)
    places = places_of(entries)
    clauses = {
        group: [_clause_view(report, clause, str(verdict), citing.get(clause.id, ()), places) for clause, verdict in members]
        for group, members in clauses_by_group(report).items()
    }
    excluded: dict[str, list[Clause]] = {}
    for clause in report.excluded:
        excluded.setdefault(group_of(clause.id), []).append(clause)
    times = timeline(report)
    text = page(
        "report.html.j2",
        header=header,
        seconds=duration(report),
        incomplete=None if report.run.complete else why_incomplete(report),
        conclusion=conclude(report),
        clause_counts=counted(report.clause_counts, ("EXCLUDED",)),
        case_counts=counted(report.case_counts),
        cases_counted=cases_counted(len(report.results), report.transcripts),
        conversations=conversations_counted(report.conversations, report.repetitions),
        titles={**{group: group for group in entries}, **titles},
        addresses=group_addresses(report.suite.registers),
        clauses=clauses,
        cases=entries,
        packed="",
        bad=_causes(report, places),
        known=[(places[case_name(result)], reason_of(result)) for result in report.results if result.verdict == "XFAIL"],
        stale=report.stale,
        untested=untested(report),
        census=census(report),
        excluded=excluded,
        levels=sorted({view.clause.level for members in clauses.values() for view in members}),
        words=VERDICT_WORDS,
        meaning=VERDICT_MEANING,
        capabilities=sorted(header.capabilities.items()),
        policies=given_policies(header.namespace_policies) if header.namespace_policies else "",
        times=times,
        strips=[render_timeline_svg(one) for one in times],
    )
    packed = pack(report, [entry for members in entries.values() for entry in members], max(_LEAST, PAGE - len(text)))
    return text.replace(_EMPTY, _EMPTY.replace("><", f">{packed.text()}<"), 1)  # text of a peer has no quotation marks


def _causes(report: Report, places: Mapping[str, Entry]) -> list[CauseView]:
    """Return what did not pass, by cause."""
    found = groups(report.run, report.results, report.outcomes)
    causes = [CauseView(one.words, one.clauses, [_failed_view(report, result, places) for result in one.results]) for one in found]
    told = {case_name(case.result) for cause in causes for case in cause.cases}
    bad = [result for verdict in BAD for result in report.results if result.verdict == verdict and case_name(result) not in told]
    return [*causes, *(CauseView("", (), [_failed_view(report, result, places)]) for result in bad)]


def _failed_view(report: Report, result: log.Result, places: Mapping[str, Entry]) -> FailedView:
    charged = [(report.suite.clauses.get(clause), clause) for clause, verdict in result.clauses.items() if verdict in ("FAIL", "WARN")]
    again_ = one_line(again(report, result))
    return FailedView(places[case_name(result)], result, reason_of(result), charged, misses(report, result), again_)


def _clause_view(report: Report, clause: Clause, verdict: str, results: Sequence[log.Result], places: Mapping[str, Entry]) -> ClauseView:
    cited = {places[case_name(result)].place: (places[case_name(result)], result.clauses[clause.id]) for result in results}
    return ClauseView(clause, verdict, clause_reason(report, clause.id, results), list(cited.values()))
