"""The cases of a page: what each line says, and what it shows when it is opened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from conformance.engine import log
from conformance.engine.model import Clause
from conformance.engine.verdict import Outcome
from conformance.judging.baseline import case_name
from conformance.report.model import Report
from conformance.report.packing import Packed
from conformance.report.pages import fragment
from conformance.report.rows import HEX_LINES, Row, report_rows, window
from conformance.report.sequence import render_sequence_svg
from conformance.report.views import BAD, NOT_RUN, anchor, group_of, reason_of, seconds_of, shown_outcome, trials_text
from conformance.report.wording import one_line, paragraph, plain_value, short

WINDOW_PASSED = (30, 12, 6)
"""Lines at the start, at the end and around a fault of a conversation that passed; of one that did not, more are shown."""
HEX_LINES_PASSED = 24
HEX_BYTES = 20
ROOM_BAD = 4_000_000
"""Characters of the page for packed conversations of cases that did not pass. What is beyond is in the log only."""
_ONE_BY_ONE = frozenset({*BAD, "XFAIL"})
"""Verdicts of cells that have an entry each, and are shown before the others."""
MOST_DIAGRAMS = 250
"""If no more conversations than this are shown, each has a sequence diagram; otherwise only those that fail."""


@dataclass(frozen=True)
class Entry:
    """One case, or one cell of it. Cells with one verdict and one reason are told as one, unless they fail.

    Attributes:
        results: Its results.
        name: Its name; of several cells that of the case.
        place: Its id in the page.
        title: What the case is about.
        seconds: How long all of its conversations took together.
    """

    results: Sequence[log.Result]
    name: str
    place: str
    title: str
    seconds: float

    @property
    def verdict(self) -> str:
        """Return the verdict of its results."""
        return self.results[0].verdict

    @property
    def tested(self) -> bool:
        """Tell whether it was run."""
        return self.verdict not in NOT_RUN


@dataclass(frozen=True)
class RowView:
    """A row of a conversation with its decoded bytes; `same` is the place in the page where equal bytes are shown."""

    row: Row
    hexed: str
    place: str = ""
    same: str = ""


@dataclass(frozen=True)
class _Body:
    """What is shown of an entry when it is opened."""

    result: log.Result
    miss: Sequence[str]
    clauses: Sequence[tuple[Clause | None, str, str]]
    observed: Sequence[tuple[str, str]]
    cells: Sequence[tuple[str, float]]
    trials: str
    trial_log: str
    rows: Sequence[RowView] = ()
    diagram: Markup | str = ""
    left_out: bool = False


def entries_by_group(report: Report) -> dict[str, list[Entry]]:
    """Return the entries by the group of their cases, in the order of their names."""
    grouped: dict[str, list[Entry]] = {}
    for case, results in groupby(report.results, lambda result: result.case):
        grouped.setdefault(group_of(case), []).extend(_entries(report, case, list(results)))
    return grouped


def _entries(report: Report, case: str, results: Sequence[log.Result]) -> Iterator[Entry]:
    transcript = report.suite.transcripts.get(case)
    title = transcript.title if transcript else ""
    alike: dict[tuple[str, ...], list[log.Result]] = {}
    for result in results:
        own = (case_name(result),) if result.verdict in _ONE_BY_ONE else ()
        alike.setdefault((result.verdict, reason_of(result), *own), []).append(result)
    for some in alike.values():
        first = case_name(some[0])
        name = f"{case}, {len(some)} cells" if len(some) > 1 else first
        yield Entry(some, name, anchor("case", first), title, round(sum(seconds_of(report, one) for one in some), 3))


def pack(report: Report, entries: Sequence[Entry], room: int) -> Packed:
    """Pack what is shown of each entry when it is opened: those first that did not pass.

    Args:
        report: The report.
        entries: Its entries.
        room: Characters of the page for all of it. Conversations that passed are left out beyond.
    """
    packed = Packed()
    shown = {entry.place: outcome for entry in entries if (outcome := _outcome(report, entry)) is not None}
    bad = sum(entry.verdict in _ONE_BY_ONE for entry in entries if entry.place in shown)
    every = len(shown) <= MOST_DIAGRAMS
    for number, entry in enumerate(_by_need(entries)):
        passed = entry.verdict not in _ONE_BY_ONE
        fits = packed.size < (room if passed else ROOM_BAD)
        body = _body(report, entry, shown.get(entry.place), number, room=fits, drawn=every or (not passed and bad <= MOST_DIAGRAMS))
        packed.add(entry.place, fragment("case.html.j2", body=body, entry=entry))
    return packed


def _by_need(entries: Sequence[Entry]) -> list[Entry]:
    """Return those that fail before the others; of these, each group has its share of the first ones."""
    sizes = Counter(group_of(entry.name) for entry in entries)
    before: Counter[str] = Counter()
    places: dict[str, tuple[bool, float]] = {}
    for entry in entries:
        group = group_of(entry.name)
        places[entry.place] = entry.verdict not in _ONE_BY_ONE, before[group] / sizes[group]
        before[group] += 1
    return sorted(entries, key=lambda one: places[one.place])


def _outcome(report: Report, entry: Entry) -> Outcome | None:
    return next((found for result in entry.results if (found := shown_outcome(report, result)) is not None), None)


def _body(report: Report, entry: Entry, outcome: Outcome | None, number: int, *, room: bool, drawn: bool) -> _Body:
    result = entry.results[0]
    rows: list[RowView] = []
    diagram: Markup | str = ""
    if outcome is not None and room:
        passed = entry.verdict not in _ONE_BY_ONE
        every = report_rows(report, outcome.key)
        chosen = window(every, *WINDOW_PASSED) if passed else window(every)
        places: dict[bytes, str] = {}
        rows = [_row_view(row, places, number, HEX_LINES_PASSED if passed else HEX_LINES) for row in chosen]
        if drawn:  # the diagram escapes all that it writes
            diagram = Markup(
                render_sequence_svg(chosen, peer=report.run.header.role, title=f"Sequence diagram of {entry.name}", standalone=False)
            )
    return _Body(
        result=result,
        miss=paragraph(result.diagnosis or ("" if result.verdict == "PASS" else result.summary)),
        clauses=[(report.suite.clauses.get(clause), clause, verdict) for clause, verdict in result.clauses.items()],
        observed=_observed(entry.results),
        cells=[(case_name(one), seconds_of(report, one)) for one in entry.results] if len(entry.results) > 1 else [],
        trials=trials_text(result),
        trial_log=outcome.key if outcome is not None else "",
        rows=rows,
        diagram=diagram,
        left_out=outcome is not None and not rows,
    )


def _observed(results: Sequence[log.Result]) -> list[tuple[str, str]]:
    found = {(one_line(fact), short(plain_value(value))): None for result in results for fact, value in result.observed.items()}
    return list(found)


def _row_view(row: Row, places: dict[bytes, str], number: int, lines: int) -> RowView:
    """Decode the bytes of a row. Bytes that the same conversation has shown are not written again."""
    if not row.data:
        return RowView(row, "")
    if row.data in places:
        return RowView(row, "", same=places[row.data])
    place = places[row.data] = f"frame-{number}-{len(places) + 1}"
    return RowView(row, row.annotated(lines, HEX_BYTES), place)


def places_of(entries: Mapping[str, Sequence[Entry]]) -> dict[str, Entry]:
    """Return the entries by the names of the cases and cells in them."""
    return {case_name(result): entry for members in entries.values() for entry in members for result in entry.results}
