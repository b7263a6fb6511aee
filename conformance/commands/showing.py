"""The commands `list`, `show` and `explain`."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, Final

from conformance import names
from conformance.commands.loading import report_of, suite_or_stop
from conformance.console import out, stop
from conformance.engine import model as m
from conformance.engine.program import cells
from conformance.exit_codes import EXIT_USAGE
from conformance.judging.applicability import completed
from conformance.judging.results import RunLog
from conformance.report import show
from conformance.report.wording import listed, number_of, one_line
from conformance.running import recorder
from conformance.suite import Suite

AS_WRITTEN: Final = "as-written"
_SHOWN_CASES: Final = 3
"""Cases of a clause that a list names."""


def print_list(select: Sequence[str], *, clauses: bool, as_json: bool) -> None:
    """List cases, or clauses with the cases that test them."""
    suite = suite_or_stop(checked=False)
    if clauses:
        rows: list[dict[str, Any]] = [
            {
                "clause": clause.id,
                "level": clause.level,
                "state": _state(clause),
                "cases": suite.cases_of[clause.id],
                "text": clause.text,
                "why_no_case": clause.excluded,
            }
            for clause in suite.select_clauses(select)
        ]
    else:
        rows = [{"case": case.id, "title": case.title, "clauses": case.clauses} for case in suite.select(select)]
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for row in rows:
        _print_item(row.get("case") or row["clause"], row.get("title") or f"{row['level']} {row['state']}: {row['text']}")
        if clauses:
            _print_item("   ", _tested_by(suite.clauses[row["clause"]], row["cases"]))
    out.print(number_of(len(rows), "clause") if clauses else _cases(suite, select), highlight=False)


def _tested_by(clause: m.Clause, cases: Sequence[str]) -> str:
    """Say which cases test a clause, or why none does."""
    if cases:
        return f"{'case' if len(cases) == 1 else 'cases'}: {listed(cases, _SHOWN_CASES)}"
    if clause.observed_by:
        return f"no case: the monitor {clause.observed_by} watches it in every conversation"
    return f"no case: {one_line(clause.excluded)}" if clause.excluded else "no case: every case that expects such a frame judges it"


def _cases(suite: Suite, select: Sequence[str]) -> str:
    """Say how many cases there are, in the words of a run, and what is left out."""
    found = suite.select(select)
    others = sum("default" not in one.profiles for one in suite.select(select, profile=AS_WRITTEN))
    left_out = f"; {others} more of the profile {AS_WRITTEN}" if others else ""
    return f"{number_of(len(found), 'case')}, {sum(len(cells(one)) for one in found)} with each cell counted{left_out}"


def _state(clause: m.Clause) -> str:
    return "excluded" if clause.excluded else "observed" if clause.observed_by else "tested"


def _print_item(name: str, text: str) -> None:
    out.print(f"{name}  [dim]{text}[/dim]", highlight=False, soft_wrap=True)


def print_case(suite: Suite, case: str, form: str, target: str | None) -> None:
    """Show a case, recorded if there is a recording."""
    recorded = [target] if target else sorted(recorder.targets(), key=lambda name: name != recorder.SHOWN_TARGET)
    only = {case.partition("[")[0]}
    found = next(filter(None, (_recording(name, only) for name in recorded)), None)
    try:
        print(show.show_case(suite, case, form, found))
    except KeyError as error:
        stop(EXIT_USAGE, str(error.args[0]))


def _recording(target: str, only: Collection[str]) -> RunLog | None:
    home = recorder.CLIENT_HOME if target.startswith("client:") else recorder.HOME
    return recorder.load_target(names.file_name(target), home, only)


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
    recorded = [*recorder.targets(), *map(names.target_name, recorder.targets(recorder.CLIENT_HOME))]
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
    homes = {"broker": (recorder.HOME,), "client": (recorder.CLIENT_HOME,)}
    recorded = [(home, target) for home in homes[suite.clauses[clause].side] for target in recorder.targets(home)]
    runs = (recorder.load_target(target, home, needed) for home, target in recorded)
    print(show.explain_clause(suite, clause, [report_of(suite, completed(suite, run)) for run in runs if run is not None]))
