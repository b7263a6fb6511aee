"""The command `run`."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path

import typer
from pydantic import BaseModel

from conformance.clients.known import MANUAL, ClientTarget
from conformance.clients.manual import DEFAULT_PATIENCE, ManualDriver, ManualWatcher, Terminal
from conformance.clients.runner import run_clients
from conformance.commands.ending import stop_by
from conformance.commands.loading import alone_or_stop, suite_or_stop
from conformance.console import out, stop
from conformance.engine import log
from conformance.engine.model import Baseline
from conformance.engine.source import read_source
from conformance.engine.step import Role
from conformance.exit_codes import EXIT_COULD_NOT_RUN, EXIT_USAGE
from conformance.interruption import deaf, ending_soon
from conformance.judging.results import RunLog, judge_log
from conformance.names import file_name, is_file_name
from conformance.report import badge, html, junit, terminal
from conformance.report.model import Report, build_report
from conformance.running import recorder
from conformance.running.runner import Options, Watcher, run_suite
from conformance.suite import Suite
from conformance.targets import Target, TargetError
from refimpl.net.virtual_time import VirtualTimeLoop


def run_and_report(
    target: Target | ClientTarget,
    options: Options,
    baseline: Baseline,
    folder: Path,
    *,
    strict: bool,
    record: bool,
    verbose: bool = False,
    more: Sequence[Path] = (),
    patience: float | None = None,
) -> None:
    """Run the cases, leave events and reports in a folder, and end with the exit code.

    Args:
        target: What is judged.
        options: The user's options.
        baseline: Known failures.
        folder: For events and reports.
        strict: Whether warnings count as failures.
        record: Whether the conversations are kept as the recordings of the target.
        verbose: Whether the terminal shows every failure in full.
        more: Transcripts outside the suite: they run alone, unless the options select cases.
        patience: Seconds that a person has for each step of client:manual; None: as many as are usual.
    """
    suite = suite_or_stop(more=more)
    if more and not options.select:
        options = replace(options, select=tuple(read_source(path).data["id"] for path in more))
    role: Role = "client" if isinstance(target, ClientTarget) else "broker"
    if not suite.select(options.select, options.level, options.profile, role):
        stop(EXIT_USAGE, f"nothing is selected by {' '.join(options.select) or 'these options'}: `list` shows the cases")
    if record and not is_file_name(file_name(target.name)):
        stop(EXIT_USAGE, f"--record: {target.name!r} can't name a folder of recordings: give the target another name, in a target file")
    with alone_or_stop(folder), _events(folder) as write:
        try:
            if target == MANUAL:
                finished, _ = _run_with_person(suite, options, write, patience)
            else:
                with terminal.Progress(out) as progress:
                    finished, _ = _run(suite, target, options, write, progress)
        except TargetError as error:
            stop_by(error)
        with deaf():
            judged = build_report(suite, finished, baseline, date.today(), strict=strict)
            for result in judged.results:
                write(result)
            assert finished.footer is not None
            write(finished.footer.model_copy(update={"seconds": finished.seconds, "counts": dict(judged.case_counts)}))
            _write_reports(judged, folder)
    if record:
        for path in recorder.save(finished, judge_log(suite, finished)):
            out.print(f"recorded {path.name} of {finished.header.target}", highlight=False)
    terminal.render_text(judged, out, folder, verbose=verbose)
    raise typer.Exit(judged.exit_code)


def _run(
    suite: Suite, target: Target | ClientTarget, options: Options, write: Callable[[BaseModel], None], watcher: Watcher
) -> tuple[RunLog, str | None]:
    """Run to the end, or to the first signal that asks to end. Then everything is stopped, and the results so far are kept."""
    gc.freeze()  # the suite stays, and so does most of what a run makes
    gc.set_threshold(20_000, 50, 50)
    if isinstance(target, ClientTarget):
        with asyncio.Runner() as runner:
            return runner.run(ending_soon(run_clients(suite, target, options, write, watcher)))
    with asyncio.Runner(loop_factory=VirtualTimeLoop if target.virtual_time else None) as runner:
        return runner.run(ending_soon(run_suite(suite, target, options, write, watcher)))


def _run_with_person(
    suite: Suite, options: Options, write: Callable[[BaseModel], None], patience: float | None
) -> tuple[RunLog, str | None]:
    """Run cases with a client that a person at the terminal lets do what they ask."""
    person = Terminal()
    titles = {case.id: case.title for case in suite.transcripts.values()}
    seconds = DEFAULT_PATIENCE if patience is None else patience

    def driver(name: str, _: Sequence[str], __: Path) -> ManualDriver:
        return ManualDriver(name, person, options.claims, seconds, titles)

    client = replace(MANUAL, built=None)
    with asyncio.Runner() as runner:
        return runner.run(ending_soon(run_clients(suite, client, options, write, ManualWatcher(person), driver)))


@contextmanager
def _events(folder: Path) -> Iterator[Callable[[BaseModel], None]]:
    try:
        with (folder / "events.jsonl").open("w", encoding="utf-8") as file:

            def write(record: BaseModel) -> None:
                file.write(log.dump(record) + "\n")
                file.flush()

            yield write
    except OSError as error:
        stop(EXIT_COULD_NOT_RUN, f"{folder / 'events.jsonl'}: {error.strerror or error}: free some space or choose another --report folder")


def _write_reports(report: Report, folder: Path) -> None:
    try:
        (folder / "report.html").write_text(html.render_html(report), encoding="utf-8")
        (folder / "junit.xml").write_text(junit.render_junit(report), encoding="utf-8")
        (folder / "results.json").write_text(json.dumps(badge.to_json(report)), encoding="utf-8")
        (folder / "badge.json").write_text(json.dumps(badge.badge(report)), encoding="utf-8")
    except OSError as error:
        where = error.filename or folder
        stop(EXIT_COULD_NOT_RUN, f"{where}: {error.strerror or error}: the events are kept, `report` makes the rest again")
