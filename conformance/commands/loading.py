"""Loads the suite, logs and baselines for commands. An error in them ends the command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from conformance.console import err, stop
from conformance.engine import log
from conformance.engine.model import Baseline
from conformance.engine.source import SourceProblem
from conformance.exit_codes import EXIT_COULD_NOT_RUN, EXIT_USAGE
from conformance.files import alone_in
from conformance.judging.baseline import load_baseline
from conformance.judging.results import RunLog
from conformance.report.model import Report, build_report
from conformance.report.wording import number_of
from conformance.running import recorder
from conformance.suite import Suite, load_suite


@contextlib.contextmanager
def alone_or_stop(folder: Path) -> Iterator[None]:
    """Hold a folder for a report; see `alone_in`."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(alone_in(folder))
        except (FileExistsError, NotADirectoryError):
            found = _file_in_the_way(folder)
            what = "a link that leads nowhere" if found.is_symlink() and not found.exists() else "a file"
            stop(EXIT_USAGE, f"--report: {found} is {what}, and reports need a folder: choose another one")
        except OSError as error:
            stop(EXIT_COULD_NOT_RUN, f"{folder}: {error.strerror}: choose another --report folder")
        yield


def _file_in_the_way(folder: Path) -> Path:
    return next((one for one in (folder, *folder.parents) if (one.exists() or one.is_symlink()) and not one.is_dir()), folder)


def suite_or_stop(*, checked: bool = True, more: Sequence[Path] = ()) -> Suite:
    """Load the suite; see `load_suite`."""
    try:
        return load_suite(checked=checked, more=more)
    except SourceProblem as error:
        stop(EXIT_USAGE, str(error))


def baseline_or_stop(target: str, path: Path | None = None) -> Baseline:
    """Load a baseline; see `load_baseline`."""
    try:
        return load_baseline(target, path)
    except SourceProblem as error:
        stop(EXIT_USAGE, str(error))


def log_or_stop(path: Path) -> RunLog:
    """Read a recording or an event log."""
    try:
        return recorder.load(path)
    except log.LogError as error:
        stop(EXIT_USAGE, str(error))


def report_of(suite: Suite, run: RunLog, baseline: Path | None = None) -> Report:
    """Judge a log by the baseline of its target, or by another one. What no run can have written ends the command."""
    known = baseline_or_stop(run.header.target, baseline)
    _tell_unknown(suite, run)
    try:
        return build_report(suite, run, known, date.today())
    except ValueError as error:
        stop(EXIT_USAGE, f"the log of {run.header.target!r} can't be judged: {error}")


def _tell_unknown(suite: Suite, run: RunLog) -> None:
    """Say which cases of a log the suite does not have: it can't judge them."""
    cases = dict.fromkeys([*(one.begin.case for one in run.trial_logs.values()), *(one.case for one in run.skipped)])
    unknown = [case for case in cases if case not in suite.transcripts]
    if unknown:
        what = f"{number_of(len(unknown), 'case')} that this version of the suite does not have, such as {unknown[0]}"
        err.print(f"{run.header.target}: left out: {what}", highlight=False, markup=False, soft_wrap=True)
