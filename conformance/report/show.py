"""One case or one clause, for a terminal; and a first baseline."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import yaml

from conformance.engine import log
from conformance.engine.model import Transcript
from conformance.engine.program import cells, compile_case, fresh_names
from conformance.engine.values import Value
from conformance.engine.verdict import Outcome, Verdict
from conformance.judging.baseline import case_name
from conformance.judging.results import RunLog, judge_trial
from conformance.report.findings import findings_of
from conformance.report.model import Report
from conformance.report.plan import program_rows
from conformance.report.rows import Row, connections, format_row, judged_rows
from conformance.report.sequence import render_sequence_text
from conformance.report.views import reason_of, results_by_clause, telling
from conformance.report.wording import listed, one_line, paragraph, section_words
from conformance.suite import Suite

_HEX_LINES = 200


def show_case(suite: Suite, case: str, form: str = "line", recorded: RunLog | None = None) -> str:
    """Show one case.

    Args:
        suite: The suite.
        case: Its id, with its cell in brackets; without them the first cell.
        form: "line" for line notation, "hex" for annotated hexadecimal, "sequence" for a diagram.
        recorded: A log. If it has a conversation of the case, that is shown, otherwise the steps of the transcript.

    Returns:
        Text without a line end at its end.

    Raises:
        KeyError: There is no such case or cell.
    """
    transcript = suite.transcripts[case.partition("[")[0]]
    cell = _cell(transcript, case)
    head = [_name(transcript, cell), f"  {transcript.title}", f"  clauses: {listed(transcript.clauses, 12)}"]
    if len(cells(transcript)) > 1:
        head.append(f"  cells: {listed((_name(transcript, one) for one in cells(transcript)), 12)}")
    found = None if recorded is None else _recorded(suite, transcript, cell, recorded)
    after: list[str] = []
    if found is not None and recorded is not None:
        outcome, rows = found
        head.append(f"  as it was on {one_line(recorded.header.target)}, {recorded.header.started}: {outcome.verdict}")
        if outcome.diagnosis is not None:
            after = ["", *paragraph(outcome.diagnosis.text())]
    else:
        release = None if recorded is None else recorded.header.release
        names = {name: name if kind == "name" else f"public/{name}" for name, kind in fresh_names(transcript).items()}
        rows = program_rows(compile_case(transcript, suite.fragments, {"@release": release, **cell}, names))
        head.append("  as the transcript says; fresh names and values chosen by the target are examples")
    forms = {
        "line": lambda: _lines(rows),
        "hex": lambda: _hexed(rows),
        "sequence": lambda: render_sequence_text(rows, peer=transcript.role),
    }
    body = forms[form]()
    if form == "hex" and not any(row.annotated(1) for row in rows):
        head.append("  no recording has this case, so there are no bytes here: those of a run of yours are in its report.html")
    return "\n".join([*head, "", body, *after])


def _name(transcript: Transcript, cell: dict[str, Value]) -> str:
    return case_name(log.Result(case=transcript.id, cell=cell, verdict=""))


def _cell(transcript: Transcript, case: str) -> dict[str, Value]:
    known = cells(transcript)
    if "[" not in case:
        return known[0]
    for cell in known:
        plain = ",".join(f"{name}={value}" for name, value in cell.items())
        if case in (_name(transcript, cell), f"{transcript.id}[{plain}]"):
            return cell
    raise KeyError(f"there is no cell {case}; there are: {listed((_name(transcript, one) for one in known), 12)}")


def _recorded(suite: Suite, transcript: Transcript, cell: dict[str, Value], run: RunLog) -> tuple[Outcome, list[Row]] | None:
    """Return the conversation of a log that shows a cell best, with its outcome; None if there is none."""
    outcomes: dict[str, Outcome] = {}
    wanted = json.dumps(cell, sort_keys=True, default=str)
    for trial_log in run.trial_logs.values():
        begin = trial_log.begin
        if begin.case == transcript.id and json.dumps(begin.cell, sort_keys=True, default=str) == wanted:
            outcome = judge_trial(suite, trial_log, run.header)
            if outcome is not None:
                outcomes[begin.key.partition("~")[0]] = outcome
    told = telling(list(outcomes.values()))
    return None if told is None else (told, judged_rows(suite, run.header, run.trial_logs[told.key], told))


def _lines(rows: Sequence[Row]) -> str:
    width = max([len(at) for at in connections(rows)] + [5 if any(row.way in ("ask", "reply") for row in rows) else 1])
    return "\n".join(format_row(row, width) for row in rows)


def _hexed(rows: Sequence[Row]) -> str:
    parts = []
    width = max([len(at) for at in connections(rows)] + [1])
    for row in rows:
        parts.append(format_row(row, width))
        text = row.annotated(_HEX_LINES)
        if text:
            known = ["    (an example: only the fields that are named)"] if row.example else []
            parts += [*known, *(f"    {line}" for line in text.splitlines()), ""]
    return "\n".join(parts).rstrip()


def explain_clause(suite: Suite, clause: str, reports: Sequence[Report] = ()) -> str:
    """Explain a clause: what must hold, where it comes from, which cases test it, and which targets satisfy it.

    Args:
        suite: The suite.
        clause: Its id, or one of its aliases.
        reports: Reports of targets.

    Raises:
        KeyError: There is no such clause.
    """
    return "\n".join(_explained(suite, clause, reports))


def _explained(suite: Suite, name: str, reports: Sequence[Report]) -> Iterator[str]:
    clause = suite.clauses.get(name) or next((one for one in suite.clauses.values() if name in one.aliases), None)
    if clause is None:
        raise KeyError(f"there is no clause {name}")
    register = next(one for one in suite.registers if clause in one.clauses)
    yield clause.id
    if clause.says:
        yield f"  the text: {one_line(clause.says)}"
    yield f"  {'-> the clause: ' if clause.says else ''}{one_line(clause.text)}"
    basis = {
        "keyword": "a keyword of the text",
        "indicative": "what the text states as a fact",
        "observed": "what real peers do",
        "settled": "how this project settled what the text leaves open",
    }
    yield f"  {clause.level} for the {clause.side}; the level comes from {basis[clause.basis]}"
    parts = (one_line(register.source.title), section_words(clause.section), register.address)
    yield f"  {', '.join(part for part in parts if part)}"
    if clause.profiles != ["default", "as-written"]:
        yield f"  only in the profile {' and '.join(clause.profiles)}"
    if clause.effect:
        yield f"  why it matters: {one_line(clause.effect)}"
    if clause.depends_on:
        yield f"  rests on {', '.join(clause.depends_on)}"
    if clause.excluded:
        yield f"  excluded: {one_line(clause.excluded)}"
    if clause.observed_by:
        yield f"  observed by the monitor {clause.observed_by}"
    if clause.soon:
        yield "  observed in every case that expects such a frame"
    cases = suite.cases_of.get(clause.id, [])
    if cases:
        yield "cases:"
        yield from (f"  {case}  {one_line(suite.transcripts[case].title)}" for case in cases)
    elif not clause.excluded and not clause.observed_by:
        yield "no case tests it yet"
    if named := findings_of(clause.id):
        yield "findings, which count for no verdict unless a case shows them:"
        yield from (f"  docs/findings/{one.page}.md  {one.title}" for one in named)
    if reports:
        yield "verdicts:"
    for report in reports:
        yield from _on_target(report, clause.id)


def _on_target(report: Report, clause: str) -> Iterator[str]:
    verdict = report.clauses.get(clause)
    results = results_by_clause(report).get(clause, [])
    target = one_line(report.run.header.target)
    if verdict is None or not results:
        yield f"  {target}: not tested"
        return
    yield f"  {target}: {verdict}" + ("" if report.run.complete else " (the run is incomplete)")
    for result in results:
        if result.clauses[clause] != Verdict.PASS:
            reason = reason_of(result, clause)
            said = f"said nothing: {reason}" if _ended_before(result, clause) else f"{result.verdict}" + (f", {reason}" if reason else "")
            yield f"    {case_name(result)}: {said}"


def _ended_before(result: log.Result, clause: str) -> bool:
    """Tell whether a case failed before it came to a clause."""
    return result.clauses[clause] == Verdict.UNTESTABLE != result.verdict


def baseline_text(report: Report, reason: str, today: date) -> str:
    """Write the failures of a report as a baseline, in YAML.

    Args:
        report: A report without a baseline.
        reason: The reason of every entry; meant to be edited.
        today: Date for the first line.
    """
    header = report.run.header
    entries = [entry for result in report.results for entry in _entries(result, reason)]
    text = yaml.safe_dump(
        {"format": 1, "target": header.target, "entries": entries}, sort_keys=False, allow_unicode=True, width=140, default_flow_style=False
    )
    return f"# Failures of {one_line(header.target)} as of {today.isoformat()}. Each entry needs a reason of its own.\n{text}".rstrip()


def _entries(result: log.Result, reason: str) -> Iterator[dict[str, Any]]:
    if result.verdict not in (Verdict.FAIL, Verdict.WARN, Verdict.ERROR):
        return
    bad = [clause for clause, verdict in result.clauses.items() if verdict in (Verdict.FAIL, Verdict.WARN, Verdict.ERROR)]
    for clause in bad or list(result.clauses)[:1]:
        entry = {"case": case_name(result), "clause": clause, "verdict": str(result.verdict)}
        diagnosis = stable_part(result.summary)
        if diagnosis:
            entry["diagnosis"] = diagnosis
        rate = {"expect_rate": round(result.failed_trials / result.trials, 3)} if 0 < result.failed_trials < result.trials else {}
        yield {**entry, "reason": reason, **rate}


def stable_part(summary: str) -> str:
    """Return the longest part of a summary that does not change from run to run: without fields, quotations and numbers."""
    marked, before = summary, ""
    while marked != before:
        marked, before = re.sub(r"\{[^{}]*\}", "\0", marked), marked
    marked = re.sub(r"\"[^\"]*\"|'[^']*'|\[[^\[\]]*\]|\S*\d\S*", "\0", marked)
    pieces = [piece.strip() for piece in marked.split("\0")]
    return max(pieces, key=len, default="")
