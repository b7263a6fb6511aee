"""The command `explore`."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import typer

from conformance.clients.known import ClientTarget
from conformance.commands.ending import stop_by
from conformance.commands.loading import alone_or_stop, suite_or_stop
from conformance.console import out, stop
from conformance.exit_codes import EXIT_CONFORMANT, EXIT_COULD_NOT_RUN, EXIT_INCONCLUSIVE, EXIT_NOT_CONFORMANT
from conformance.explore import report
from conformance.explore.client_explorer import ExploredClient, explore_client
from conformance.explore.explorer import Explored, Plan, explore
from conformance.explore.written import name_of, transcript
from conformance.interruption import deaf
from conformance.report.wording import number_of
from conformance.suite import Suite
from conformance.targets import Target, TargetError

_NOTE_SECONDS = 30.0


class _Progress:
    """Writes a line now and then, and one for each difference when it is found."""

    def __init__(self) -> None:
        self._next = _NOTE_SECONDS
        self._known = 0

    def __call__(self, explored: Explored) -> None:
        for signature in list(explored.found())[self._known :]:
            out.print(f"differs: {signature}", highlight=False, markup=False, soft_wrap=True)
        self._known = len(explored.found())
        if explored.seconds >= self._next:
            self._next = explored.seconds + _NOTE_SECONDS
            out.print(report.progress(explored), highlight=False)


class _ClientProgress:
    """The same for clients."""

    def __init__(self) -> None:
        self._next = _NOTE_SECONDS
        self._known = 0

    def __call__(self, explored: ExploredClient) -> None:
        for wrong in list(explored.accused)[self._known :]:
            out.print(f"wrong: {wrong}", highlight=False, markup=False, soft_wrap=True)
        self._known = len(explored.accused)
        if explored.seconds >= self._next:
            self._next = explored.seconds + _NOTE_SECONDS
            out.print(report.client_progress(explored), highlight=False)


def explore_and_report(target: Target | ClientTarget, plan: Plan, folder: Path) -> NoReturn:
    """Explore a target, leave what differs as transcripts and a page in a folder, and end with the exit code."""
    suite = suite_or_stop()
    minutes = f"{plan.seconds / 60:g} minutes"
    how_much = f"for {minutes}" if plan.scenarios is None else f"with {number_of(plan.scenarios, 'scenario')}, {minutes} at most"
    out.print(f"exploring {target.name} {how_much}, seed {plan.seed}", highlight=False)
    if isinstance(target, ClientTarget):
        _explore_client(target, plan, folder, suite)
    with alone_or_stop(folder):
        try:
            explored = explore(target, plan, _Progress())
        except TargetError as error:
            stop_by(error)
        try:
            with deaf():
                written, page = _written(explored, target, plan, folder, suite)
        except OSError as error:
            stop(EXIT_COULD_NOT_RUN, f"{error.filename}: {error.strerror}: free some space or choose another --report folder")
    report.print_summary(explored, target.name, written, page, concurrent=plan.concurrent)
    if explored.differences or explored.broken:
        raise typer.Exit(EXIT_NOT_CONFORMANT)
    if explored.stopped is not None:
        raise typer.Exit(EXIT_COULD_NOT_RUN)
    raise typer.Exit(EXIT_INCONCLUSIVE if explored.unrepeated or explored.unanswered else EXIT_CONFORMANT)


def _explore_client(client: ClientTarget, plan: Plan, folder: Path, suite: Suite) -> NoReturn:
    """Explore a client, leave a case for each accusation in a folder, and end with the exit code."""
    written = {}
    with alone_or_stop(folder):
        try:
            explored = explore_client(suite, client, plan, _ClientProgress())
        except TargetError as error:
            stop(EXIT_COULD_NOT_RUN, str(error))
        try:
            with deaf():
                for wrong, one in explored.accused.items():
                    written[wrong] = path = folder / f"{one.name}.yaml"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(one.text, encoding="utf-8")
        except OSError as error:
            stop(EXIT_COULD_NOT_RUN, f"{error.filename}: {error.strerror}: free some space or choose another --report folder")
    report.print_client_summary(explored, client.name, written)
    if explored.accused:
        raise typer.Exit(EXIT_NOT_CONFORMANT)
    if explored.stopped is not None or explored.failed:
        raise typer.Exit(EXIT_COULD_NOT_RUN)
    nothing = explored.silent == explored.scenarios
    raise typer.Exit(EXIT_INCONCLUSIVE if explored.unrepeated or nothing else EXIT_CONFORMANT)


def _written(explored: Explored, target: Target, plan: Plan, folder: Path, suite: Suite) -> tuple[dict[str, Path], Path]:
    """Write a transcript for each difference, and the page; return where they are."""
    written = {}
    for signature, difference in explored.differences.items():
        path = folder / f"{name_of(difference)}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(transcript(difference, target.name, suite), encoding="utf-8")
        written[signature] = path
    page = folder / "explore.html"
    page.write_text(report.page_of(explored, target.name, plan, written), encoding="utf-8")
    return written, page
