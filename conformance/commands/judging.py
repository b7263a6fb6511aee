"""The commands `judge`, `report`, `matrix` and `baseline`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import typer

from conformance.commands.loading import log_or_stop, report_of, suite_or_stop
from conformance.console import err, out, stop
from conformance.engine.model import Baseline
from conformance.engine.source import SourceProblem
from conformance.exit_codes import EXIT_USAGE
from conformance.judging.baseline import HOME, load_baseline, unknown_cases
from conformance.report import badge, html, junit, matrix, show, terminal
from conformance.report.model import Report, build_report
from conformance.running import recorder


def judge_again(recordings: Sequence[Path], *, accept: bool, as_json: bool) -> None:
    """Judge recordings again; all of the suite's if none is named."""
    given = [log_or_stop(path) for path in recordings]
    suite = suite_or_stop()
    homes = (recorder.HOME, recorder.CLIENT_HOME)
    for path in sorted(path for home in homes for path in home.glob("*/*.jsonl.gz")) if accept else ():
        recorder.accept(suite, path)
    runs = given or [run for home in homes for run in recorder.load_completed(suite, home)]
    if not runs:
        stop(EXIT_USAGE, "there is nothing to judge: no recordings")
    reports = []
    for run in runs:
        old = [] if recordings else recorder.stale(suite, run)
        for name in old:
            err.print(f"stale: {name} on {run.header.target}: make recordings TARGET={run.header.target}", highlight=False, markup=False)
        reports.append(report_of(suite, recorder.without(run, old)))
    if as_json:
        out.print_json(json.dumps([badge.to_json(report) for report in reports]))
    else:
        for report in reports:
            terminal.render_text(report, out)
    raise typer.Exit(max(report.exit_code for report in reports))


def print_report(events: Path, form: str, baseline: Path | None, *, verbose: bool = False) -> None:
    """Render a log again."""
    run = log_or_stop(events)
    report = report_of(suite_or_stop(), run, baseline)
    if form == "text":
        terminal.render_text(report, out, verbose=verbose)
    else:
        renderers: dict[str, Callable[[Report], str]] = {
            "junit": junit.render_junit,
            "html": html.render_html,
            "json": lambda one: json.dumps(badge.to_json(one), indent=2),
            "badge": lambda one: json.dumps(badge.badge(one)),
        }
        print(renderers[form](report))
    raise typer.Exit(report.exit_code)


def print_matrix(events: Sequence[Path], form: str, *, clients: bool = False) -> None:
    """Set logs side by side; all recordings of brokers in the suite if none is named, or of clients."""
    given = [log_or_stop(path) for path in events]
    suite = suite_or_stop()
    runs = given or recorder.load_completed(suite, recorder.CLIENT_HOME if clients else recorder.HOME)
    reports = [report_of(suite, run) for run in runs]
    renderers: dict[str, Callable[[Sequence[Report]], str]] = {
        "text": lambda some: matrix.render_matrix_text(some, out.width if out.is_terminal else None),
        "html": matrix.render_matrix_html,
        "csv": matrix.render_matrix_csv,
        "json": lambda some: json.dumps(matrix.matrix_json(some), indent=2),
    }
    print(renderers[form](reports))


def print_baseline(events: Path, reason: str) -> None:
    """Write the failures of a run as a new baseline."""
    run = log_or_stop(events)
    report = build_report(suite_or_stop(), run, Baseline(format=1, target="none"), date.today())
    print(show.baseline_text(report, reason, datetime.now(UTC).date()))


def check_baselines() -> None:
    """Check every baseline of the suite against its cases and its recordings."""
    suite = suite_or_stop()
    problems = []
    for path in sorted(HOME.glob("*.yaml")):
        try:
            known = load_baseline(path.stem, path)
        except SourceProblem as error:
            problems += error.problems
            continue
        problems += [f"{path.name}: there is no case {name}" for name in unknown_cases(known, suite.transcripts)]
        home = recorder.CLIENT_HOME if known.target.startswith("client:") else recorder.HOME
        recorded = recorder.load_target(path.stem, home)
        if recorded is not None:
            problems += [f"{path.name}: {line}" for line in report_of(suite, recorded, path).stale]
    if problems:
        stop(EXIT_USAGE, "\n".join(problems))
    out.print("every entry of every baseline explains a failure")
