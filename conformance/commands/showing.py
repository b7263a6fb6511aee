"""The commands `list`, `show` and `explain`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from conformance import names
from conformance.commands.loading import report_of, suite_or_stop
from conformance.console import out, stop
from conformance.engine import model as m
from conformance.engine.program import cells
from conformance.exit_codes import EXIT_USAGE
from conformance.judging.applicability import completed
from conformance.report import show
from conformance.running import recorder
from conformance.suite import Suite


def print_list(select: Sequence[str], *, clauses: bool, as_json: bool) -> None:
    """List cases, or clauses with the cases that test them."""
    suite = suite_or_stop(checked=False)
    if clauses:
        rows: list[dict[str, Any]] = [
            {"clause": clause.id, "level": clause.level, "state": _state(clause), "cases": suite.cases_of[clause.id], "text": clause.text}
            for clause in suite.select_clauses(select)
        ]
    else:
        rows = [{"case": case.id, "title": case.title, "clauses": case.clauses} for case in suite.select(select)]
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for row in rows:
        _print_item(row.get("case") or row["clause"], row.get("title") or f"{row['level']} {row['state']}: {row['text']}")
    out.print(f"{len(rows)} clauses" if clauses else _cases(suite.select(select)), highlight=False)


def _cases(transcripts: Sequence[m.Transcript]) -> str:
    """Say how many cases there are, in the words of a run."""
    return f"{len(transcripts)} cases, {sum(len(cells(one)) for one in transcripts)} with each cell counted"


def _state(clause: m.Clause) -> str:
    return "excluded" if clause.excluded else "observed" if clause.observed_by else "tested"


def _print_item(name: str, text: str) -> None:
    out.print(f"{name}  [dim]{text}[/dim]", highlight=False, soft_wrap=True)


def print_case(suite: Suite, case: str, form: str, target: str | None) -> None:
    """Show a case, recorded if there is a recording."""
    recorded = [target] if target else sorted(recorder.targets(), key=lambda name: name != recorder.SHOWN_TARGET)
    only = {case.partition("[")[0]}
    found = next(filter(None, (recorder.load_target(name, only=only) for name in recorded)), None)
    try:
        print(show.show_case(suite, case, form, found))
    except KeyError as error:
        stop(EXIT_USAGE, str(error.args[0]))


def print_cases_of(suite: Suite, clause: str, form: str, target: str | None) -> None:
    """Show the case of a clause, or list its cases if there are several."""
    cases = suite.cases_of[clause]
    if not cases:
        stop(EXIT_USAGE, f"{clause} is a clause that no case tests: `explain {clause}`")
    if len(cases) == 1:
        print_case(suite, cases[0], form, target)
        return
    out.print(f"{clause} is a clause; these cases test it:", highlight=False, soft_wrap=True)
    for case in cases:
        _print_item(f"  {case}", suite.transcripts[case].title)


def print_show(name: str, form: str, target: str | None) -> None:
    """Show a case, or lead from a clause to its cases."""
    recorded = recorder.targets()
    if target is not None and target not in recorded:
        hint = names.did_you_mean(target, recorded) or f": there are {', '.join(recorded)}"
        stop(EXIT_USAGE, f"there is no recording of {target}{hint}")
    suite = suite_or_stop(checked=False)
    if name in suite.clauses:
        print_cases_of(suite, name, form, target)
    else:
        print_case(suite, name, form, target)


def print_clause(clause: str) -> None:
    """Explain a clause, with the verdicts of its cases on every target that was recorded."""
    suite = suite_or_stop(checked=False)
    cases = suite.cases_of[clause]
    needed = {*cases, *(control for case in cases if (control := suite.transcripts[case].control) is not None)}
    runs = (recorder.load_target(target, only=needed) for target in recorder.targets())
    print(show.explain_clause(suite, clause, [report_of(suite, completed(suite, run)) for run in runs if run is not None]))
