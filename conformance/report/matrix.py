"""Clauses by implementations: several reports side by side."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Final

from conformance.engine import log
from conformance.engine.verdict import Verdict
from conformance.judging.baseline import case_name
from conformance.report.model import Report
from conformance.report.pages import page
from conformance.report.views import group_of, group_titles, reason_of, results_by_clause
from conformance.report.wording import VERDICT_MEANING, VERDICT_WORDS, middle_cut, one_line

FORMAT: Final = 1
UNEXPLAINED: Final = frozenset({"ERROR", "FAIL", "WARN"})
"""Verdicts of cells that need an explanation; a baseline that gives one turns them into XFAIL."""
NOT_RUN: Final = "NOT-RUN"
_SHORT: Final = {"NOT-APPLICABLE": "n/a", "UNTESTABLE": "none", "INCONCLUSIVE": "?", NOT_RUN: "-", "EXCLUDED": "excl", "SPEC-GAP": "gap"}
_MEANING: Final = {**VERDICT_MEANING, NOT_RUN: "It is not part of this run."}
_CELL, _LEVEL, _NARROWEST = 5, 6, 16
"""Columns of a terminal for a verdict, a level, and a clause at least."""
_FORMULA: Final = ("=", "+", "-", "@")
"""How texts begin that a spreadsheet would calculate."""


@dataclass(frozen=True)
class Reason:
    """A case that contributes to a cell."""

    case: str
    verdict: str
    text: str


@dataclass(frozen=True)
class Cell:
    """The verdict of one implementation on one clause."""

    verdict: str
    reasons: Sequence[Reason] = ()

    @property
    def unexplained(self) -> bool:
        """Tell whether the cell fails or warns without an entry in a baseline."""
        return self.verdict in UNEXPLAINED


@dataclass(frozen=True)
class Column:
    """One implementation."""

    name: str
    version: str
    started: str
    complete: bool


@dataclass(frozen=True)
class Row:
    """One clause."""

    clause: str
    level: str
    text: str
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Matrix:
    """Rows are clauses in the order of the registers, columns are targets in the order given."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    titles: dict[str, str]

    def unexplained(self, column: int | None = None) -> int:
        """Count the cells that no baseline explains, of one column or of all."""
        return sum(cell.unexplained for row in self.rows for index, cell in enumerate(row.cells) if column in (None, index))

    def groups(self) -> dict[str, list[Row]]:
        """Return the rows by group."""
        grouped: dict[str, list[Row]] = {}
        for row in self.rows:
            grouped.setdefault(group_of(row.clause), []).append(row)
        return grouped


def build_matrix(reports: Sequence[Report]) -> Matrix:
    """Put reports side by side.

    Args:
        reports: One for each column; two of the same target are numbered.
    """
    columns: list[Column] = []
    for report in reports:
        header = report.run.header
        again = sum(one.name.partition(" #")[0] == header.target for one in columns)
        name = header.target + (f" #{again + 1}" if again else "")
        columns.append(Column(name, header.server_version, header.started, report.run.complete))
    clauses = {name: clause for report in reports for name, clause in report.suite.clauses.items()}
    wanted = [name for name in clauses if any(name in report.clauses for report in reports)]
    citing = [results_by_clause(report) for report in reports]
    rows = [
        Row(
            name,
            clauses[name].level,
            clauses[name].text,
            [_cell(report, name, by_clause.get(name, [])) for report, by_clause in zip(reports, citing, strict=True)],
        )
        for name in wanted
    ]
    titles = {group: title for report in reports for group, title in group_titles(report.suite.registers).items()}
    return Matrix(columns, rows, titles)


def _cell(report: Report, clause: str, results: Sequence[log.Result]) -> Cell:
    if clause not in report.clauses:
        excluded = next((one.excluded for one in report.excluded if one.id == clause), None)
        return Cell("EXCLUDED", [Reason("", "EXCLUDED", one_line(excluded))]) if excluded else Cell(NOT_RUN)
    if not results:
        return Cell(NOT_RUN)
    verdict = str(report.clauses[clause])
    if verdict != Verdict.FAIL and any(result.verdict == Verdict.ERROR for result in results):
        verdict = str(Verdict.ERROR)
    reasons = [
        Reason(case_name(result), str(result.verdict), reason_of(result, clause))
        for result in results
        if result.clauses[clause] != Verdict.PASS
    ]
    return Cell(verdict, reasons if verdict != Verdict.PASS else ())


def render_matrix_text(reports: Sequence[Report], width: int | None = None) -> str:
    """Write the matrix for a terminal: numbers, what the words mean, the table, then the cases and reasons of what is judged and no pass.

    Args:
        reports: One for each column.
        width: Columns of the terminal; None: lines may have any length.
    """
    matrix = build_matrix(reports)
    lines = [
        f"unexplained: {matrix.unexplained():,} of {len(matrix.rows) * len(matrix.columns):,} verdicts "
        "(those that fail, warn or could not be run, and that no baseline explains)"
    ]
    for index, column in enumerate(matrix.columns):
        incomplete = "; INCOMPLETE RUN" if not column.complete else ""
        lines.append(f"  {index + 1}  {one_line(column.name)}: {matrix.unexplained(index)} unexplained{incomplete}")
    lines += ["", *_legend(matrix), "", *_table(matrix, width)]
    details = [line for row in matrix.rows for line in _details(row, matrix.columns)]
    lines += ["", "why (what is not applicable is explained in the forms html, csv and json):", *details] if details else []
    return "\n".join(piece for line in lines for piece in _wrapped(line, width)) + "\n"


def _mark(verdict: str) -> str:
    return _SHORT.get(verdict, verdict.lower())


def _legend(matrix: Matrix) -> list[str]:
    """Say what the words in the table mean."""
    used = {cell.verdict for row in matrix.rows for cell in row.cells}
    return [f"  {_mark(verdict):<{_CELL}}  {verdict}: {meaning}" for verdict, meaning in _MEANING.items() if verdict in used]


def _table(matrix: Matrix, width: int | None) -> list[str]:
    room = max((len(row.clause) for row in matrix.rows), default=6)
    if width is not None:
        room = max(_NARROWEST, min(room, width - _LEVEL - 1 - len(matrix.columns) * (_CELL + 1)))
    lines = [f"{'clause':<{room}} level  " + " ".join(f"{index + 1:<{_CELL}}" for index in range(len(matrix.columns)))]
    for row in matrix.rows:
        cells = " ".join(f"{_mark(cell.verdict):<{_CELL}}" for cell in row.cells)
        lines.append(f"{middle_cut(row.clause, room):<{room}} {row.level:<{_LEVEL}} {cells}")
    return [line.rstrip() for line in lines]


def _wrapped(line: str, width: int | None) -> list[str]:
    """Break a line that is longer than the terminal is wide, behind its own indentation."""
    if width is None or len(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return wrap(line, max(width, _NARROWEST), subsequent_indent=indent, break_on_hyphens=False)


def _details(row: Row, columns: Sequence[Column]) -> list[str]:
    lines: list[str] = []
    for column, cell in zip(columns, row.cells, strict=True):
        if cell.verdict in (Verdict.PASS, Verdict.NOT_APPLICABLE, NOT_RUN):
            continue
        mark = "  UNEXPLAINED" if cell.unexplained else ""
        lines.append(f"{row.clause} on {one_line(column.name)}: {cell.verdict}{mark}")
        lines += [f"    {f'{one.case} ({one.verdict}): ' if one.case else ''}{one.text or 'no reason given'}" for one in cell.reasons]
    return lines


def render_matrix_html(reports: Sequence[Report]) -> str:
    """Write the matrix as one page that needs nothing else."""
    return page("matrix.html.j2", matrix=build_matrix(reports), words={**VERDICT_WORDS, NOT_RUN: "not run"}, meaning=_MEANING)


def render_matrix_csv(reports: Sequence[Report]) -> str:
    """Write the matrix as comma-separated values: a line for each clause, the verdicts of all columns, then the reasons of each."""
    matrix = build_matrix(reports)
    names = [one_line(column.name) for column in matrix.columns]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["clause", "level", "text", *map(_plain, names), *(f"why: {name}" for name in names)])
    for row in matrix.rows:
        why = ("; ".join(f"{one.case}: {one.text}" if one.case else one.text for one in cell.reasons) for cell in row.cells)
        writer.writerow([row.clause, row.level, row.text, *(cell.verdict for cell in row.cells), *map(_plain, why)])
    return text.getvalue()


def _plain(text: str) -> str:
    """Keep a text from being a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def matrix_json(reports: Sequence[Report]) -> dict[str, Any]:
    """Return the matrix, ready for `json.dumps`; the keys are a public contract."""
    matrix = build_matrix(reports)
    return {
        "format": FORMAT,
        "unexplained": matrix.unexplained(),
        "columns": [
            {
                "name": column.name,
                "version": column.version,
                "started": column.started,
                "complete": column.complete,
                "unexplained": matrix.unexplained(index),
            }
            for index, column in enumerate(matrix.columns)
        ],
        "rows": [
            {
                "clause": row.clause,
                "level": row.level,
                "text": row.text,
                "cells": [
                    {
                        "verdict": cell.verdict,
                        "unexplained": cell.unexplained,
                        "cases": [{"case": one.case, "verdict": one.verdict, "reason": one.text} for one in cell.reasons],
                    }
                    for cell in row.cells
                ],
            }
            for row in matrix.rows
        ],
    }
