"""Loads the suite, logs and baselines for commands. An error in them ends the command."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from conformance.console import stop
from conformance.engine import log
from conformance.engine.model import Baseline
from conformance.engine.source import SourceProblem
from conformance.exit_codes import EXIT_USAGE
from conformance.judging.baseline import load_baseline
from conformance.judging.results import RunLog
from conformance.report.model import Report, build_report
from conformance.running import recorder
from conformance.suite import Suite, load_suite


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
    """Judge a log by the baseline of its target, or by another one."""
    return build_report(suite, run, baseline_or_stop(run.header.target, baseline), date.today())
