"""The report as one HTML page that works offline, without a script, in light and dark, and on paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from conformance.engine import log
from conformance.engine.model import Clause
from conformance.judging.baseline import case_name
from conformance.report.conclusion import conclude, why_incomplete
from conformance.report.model import Report
from conformance.report.pages import page
from conformance.report.rows import HEX_LINES, Row, report_rows, window
from conformance.report.sequence import render_sequence_svg
from conformance.report.views import (
    NOT_RUN,
    anchor,
    census,
    clause_reason,
    clauses_by_group,
    duration,
    group_addresses,
    group_of,
    group_titles,
    reason_of,
    results_by_clause,
    results_by_group,
    seconds_of,
    shown_outcome,
    trials_text,
    untested,
)
from conformance.report.wording import VERDICT_MEANING, VERDICT_WORDS, clean, counted, one_line, paragraph, plain_value, short

WINDOW_PASSED = (30, 12, 6)
"""Lines at the start, at the end and around a fault of a conversation that passed; of one that did not, more are shown."""
HEX_LINES_PASSED = 24
HEX_BYTES = 20
PAGE_BUDGET = 6_000_000
"""Characters for conversations that passed; beyond them, only what did not pass is shown in full."""
ROW_SIZE = 260
"""Characters of markup around a line of a conversation."""
CELLS_NAMED = 3
"""So many cells of a case are named one by one where a clause lists its cases."""


@dataclass(frozen=True)
class Citation:
    """A case that cites a clause, or several of its cells with the same verdict."""

    name: str
    verdict: str
    place: str


@dataclass(frozen=True)
class RowView:
    """A row of a conversation with its decoded bytes; `same` is the place in the page where equal bytes are shown."""

    row: Row
    hexed: str
    place: str = ""
    same: str = ""


@dataclass
class _OnPage:
    """What is already on the page: bytes by their places, and the number of characters."""

    places: dict[tuple[bytes, int], str] = field(default_factory=dict)
    used: int = 0


@dataclass(frozen=True)
class ClauseView:
    """One line of the table of clauses."""

    clause: Clause
    verdict: str
    reason: str
    citations: Sequence[Citation]
    search: str


@dataclass(frozen=True)
class CaseView:
    """One case, or one cell of it."""

    name: str
    place: str
    title: str
    result: log.Result
    reason: str
    miss: Sequence[str]
    clauses: Sequence[tuple[Clause | None, str, str]]
    observed: Sequence[tuple[str, str]]
    trials: str
    seconds: float
    trial_log: str
    rows: Sequence[RowView]
    left_out: bool
    diagram: Markup
    tested: bool


def render_html(report: Report) -> str:
    """Write the report as one page.

    Args:
        report: The report. For each case, the page shows the one conversation that explains its verdict.

    Returns:
        A whole HTML document; the same report gives the same bytes.
    """
    header = report.run.header
    citing = results_by_clause(report)
    titles = group_titles(report.suite.registers)
    clauses = {
        group: [_clause_view(report, clause, str(verdict), citing.get(clause.id, ())) for clause, verdict in members]
        for group, members in clauses_by_group(report).items()
    }
    on_page = _OnPage()
    cases = {group: [_case_view(report, result, on_page) for result in results] for group, results in results_by_group(report).items()}
    every = [case for members in cases.values() for case in members]
    excluded: dict[str, list[Clause]] = {}
    for clause in report.excluded:
        excluded.setdefault(group_of(clause.id), []).append(clause)
    return page(
        "report.html.j2",
        header=header,
        seconds=duration(report),
        incomplete=None if report.run.complete else why_incomplete(report),
        conclusion=conclude(report),
        clause_counts=counted(report.clause_counts, ("EXCLUDED",)),
        case_counts=counted(report.case_counts),
        titles={**{group: group for group in cases}, **titles},
        addresses=group_addresses(report.suite.registers),
        clauses=clauses,
        cases=cases,
        bad=[case for verdict in ("ERROR", "FAIL", "WARN", "INCONCLUSIVE") for case in every if case.result.verdict == verdict],
        known=[case for case in every if case.result.verdict == "XFAIL"],
        stale=report.stale,
        untested=untested(report),
        census=census(report),
        excluded=excluded,
        levels=sorted({view.clause.level for members in clauses.values() for view in members}),
        words=VERDICT_WORDS,
        meaning=VERDICT_MEANING,
        capabilities=sorted(header.capabilities.items()),
    )


def _clause_view(report: Report, clause: Clause, verdict: str, results: Sequence[log.Result]) -> ClauseView:
    reason = clause_reason(report, clause.id, results)
    words = [clause.id, clause.text, clause.effect, clause.section, clause.says, clause.level, verdict, reason]
    for result in results:
        transcript = report.suite.transcripts.get(result.case)
        words += [case_name(result), transcript.title if transcript else "", short(result.summary)]
    return ClauseView(clause, verdict, reason, _citations(clause.id, results), clean(" ".join(dict.fromkeys(words))).lower())


def _citations(clause: str, results: Sequence[log.Result]) -> list[Citation]:
    alike: dict[tuple[str, str], list[log.Result]] = {}
    for result in results:
        alike.setdefault((result.case, result.clauses[clause]), []).append(result)
    found: list[Citation] = []
    for (case, verdict), members in alike.items():
        if len(members) > CELLS_NAMED:
            found.append(Citation(f"{case}, {len(members)} cells", verdict, anchor("case", case_name(members[0]))))
        else:
            found += [Citation(case_name(one), verdict, anchor("case", case_name(one))) for one in members]
    return found


def _case_view(report: Report, result: log.Result, on_page: _OnPage) -> CaseView:
    transcript = report.suite.transcripts.get(result.case)
    outcome = shown_outcome(report, result)
    name = case_name(result)
    bad = result.verdict != "PASS"
    views: list[RowView] = []
    diagram = Markup("")
    if outcome is not None and (bad or on_page.used < PAGE_BUDGET):
        every = report_rows(report, outcome.key)
        rows = window(every) if bad else window(every, *WINDOW_PASSED)
        # The diagram escapes all that it writes.
        diagram = Markup(render_sequence_svg(rows, title=f"Sequence diagram of {name}", standalone=False))
        views = [_row_view(row, on_page.places, HEX_LINES if bad else HEX_LINES_PASSED) for row in rows]
        on_page.used += 0 if bad else len(diagram) + sum(ROW_SIZE + len(view.row.text) + len(view.hexed) for view in views)
    return CaseView(
        name=name,
        place=anchor("case", name),
        title=transcript.title if transcript else "",
        result=result,
        reason=reason_of(result),
        miss=paragraph(result.diagnosis or ("" if result.verdict == "PASS" else result.summary)),
        observed=[(one_line(fact), short(plain_value(value))) for fact, value in result.observed.items()],
        clauses=[(report.suite.clauses.get(clause), clause, verdict) for clause, verdict in result.clauses.items()],
        trials=trials_text(result),
        seconds=seconds_of(report, result),
        trial_log=outcome.key if outcome is not None else "",
        rows=views,
        left_out=outcome is not None and not views,
        diagram=diagram,
        tested=result.verdict not in NOT_RUN,
    )


def _row_view(row: Row, places: dict[tuple[bytes, int], str], lines: int) -> RowView:
    """Decode the bytes of a row. Bytes that are already on the page are not written again."""
    if not row.data:
        return RowView(row, "")
    if (row.data, lines) in places:
        return RowView(row, "", same=places[row.data, lines])
    place = places[row.data, lines] = f"frame-{len(places) + 1}"
    return RowView(row, row.annotated(lines, HEX_BYTES), place)
