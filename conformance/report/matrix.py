"""Clauses by implementations: several reports side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from conformance.engine import log
from conformance.engine.verdict import Verdict
from conformance.judging.baseline import case_name
from conformance.report.model import Report
from conformance.report.pages import page
from conformance.report.views import group_of, group_titles, reason_of, results_by_clause
from conformance.report.wording import VERDICT_MEANING, VERDICT_WORDS, number_of, one_line

FORMAT: Final = 1
UNEXPLAINED: Final = frozenset({"ERROR", "FAIL", "WARN"})
"""Verdicts of cells that need an explanation; a baseline that gives one turns them into XFAIL."""
NOT_RUN: Final = "NOT-RUN"
_SHORT: Final = {"NOT-APPLICABLE": "n/a", "UNTESTABLE": "untested", "INCONCLUSIVE": "unclear", NOT_RUN: "-", "EXCLUDED": "excluded"}


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


def render_matrix_text(reports: Sequence[Report]) -> str:
    """Write the matrix for a terminal: numbers first, then the table, then every cell that is not a pass, with its cases and reasons."""
    matrix = build_matrix(reports)
    lines = [f"unexplained: {number_of(matrix.unexplained(), 'cell')} of {len(matrix.rows) * len(matrix.columns)}"]
    for index, column in enumerate(matrix.columns):
        incomplete = "; INCOMPLETE RUN" if not column.complete else ""
        lines.append(f"  {index + 1}  {one_line(column.name)}: {matrix.unexplained(index)} unexplained{incomplete}")
    width = max((len(row.clause) for row in matrix.rows), default=6)
    lines += ["", f"{'clause':<{width}}  level   " + "  ".join(f"{index + 1:<8}" for index in range(len(matrix.columns))).rstrip()]
    for row in matrix.rows:
        cells = "  ".join(f"{_SHORT.get(cell.verdict, cell.verdict.lower()):<8}" for cell in row.cells)
        lines.append(f"{row.clause:<{width}}  {row.level:<6}  {cells}".rstrip())
    details = [line for row in matrix.rows for line in _details(row, matrix.columns)]
    return "\n".join([*lines, *(["", "why:"] if details else []), *details]) + "\n"


def _details(row: Row, columns: Sequence[Column]) -> list[str]:
    lines: list[str] = []
    for column, cell in zip(columns, row.cells, strict=True):
        if cell.verdict in ("PASS", NOT_RUN):
            continue
        mark = "  UNEXPLAINED" if cell.unexplained else ""
        lines.append(f"{row.clause} on {one_line(column.name)}: {cell.verdict}{mark}")
        lines += [f"    {f'{one.case} ({one.verdict}): ' if one.case else ''}{one.text or 'no reason given'}" for one in cell.reasons]
    return lines


def render_matrix_html(reports: Sequence[Report]) -> str:
    """Write the matrix as one page that needs nothing else."""
    return page("matrix.html.j2", matrix=build_matrix(reports), words={**VERDICT_WORDS, NOT_RUN: "not run"}, meaning=VERDICT_MEANING)


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
