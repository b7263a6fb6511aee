"""The terminal: the progress of a run, and its results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Column
from rich.text import Text

from conformance.engine import log
from conformance.engine import model as m
from conformance.engine.verdict import Outcome, Verdict
from conformance.judging.baseline import case_name
from conformance.report.conclusion import conclude, why_incomplete
from conformance.report.model import Report
from conformance.report.views import census, fact_line, trials_text, untested, untested_line
from conformance.report.wording import counted, number_of, one_line, paragraph, short

STYLES: dict[str, str] = {
    "PASS": "green",
    "FAIL": "bold red",
    "ERROR": "bold magenta",
    "WARN": "yellow",
    "INCONCLUSIVE": "yellow",
    "XFAIL": "cyan",
    "XPASS": "yellow",
    "SPEC-GAP": "cyan",
    "NOT-APPLICABLE": "dim",
    "UNTESTABLE": "dim",
    "EXCLUDED": "dim",
}
_SENTENCE_STYLES = {"conformant": "bold green", "not conformant": "bold red", "incomplete": "bold magenta"}
_TENTH = 10
FILES = ("report.html", "junit.xml", "badge.json", "events.jsonl")
"""What a run leaves in its folder."""


class Progress:
    """Shows the progress of a run; a `Watcher` of the runner, and a context manager.

    On a terminal it is a bar at the bottom. Elsewhere it writes lines: one for each case that does not pass, when
    it happens, and one for about every tenth of the run.

    Args:
        console: Where to write; it respects NO_COLOR.
        live: Whether to show the bar; by default if the console is a terminal.
    """

    def __init__(self, console: Console, *, live: bool | None = None) -> None:
        self.console = console
        self.done = self.all = 0
        self.bad: dict[str, Verdict] = {}
        self._tenths = 0
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        if console.is_terminal if live is None else live:
            self._bar = Bar(
                TextColumn("{task.description}", table_column=Column(ratio=2, no_wrap=True)),
                BarColumn(bar_width=None, table_column=Column(ratio=1)),
                MofNCompleteColumn(),
                TextColumn("{task.fields[bad]}", style="bold red"),
                TimeElapsedColumn(),
                console=console,
                transient=True,
                expand=True,
            )
            self._task = self._bar.add_task("preparing", total=None, bad="")

    def __enter__(self) -> Progress:
        """Show the bar."""
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()

    def note(self, text: str) -> None:
        """Show that something slow has begun."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=_escaped(one_line(text)))
        else:
            self._line(Text(one_line(text)))

    def total(self, conversations: int) -> None:
        """Set how many conversations there will be."""
        self.all = conversations
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, total=conversations or None)

    def ended(self, case: m.Transcript, outcome: Outcome) -> None:
        """Count a conversation; show at once if the target failed it. One that could not be run is tried again, and is in the report."""
        again = "~" in outcome.key
        self.done += 0 if again else 1
        if outcome.verdict in (Verdict.FAIL, Verdict.WARN) and case.id not in self.bad:
            self.bad[case.id] = outcome.verdict
            summary = outcome.diagnosis.summary if outcome.diagnosis is not None else ""
            self._line(_verdict_line(outcome.verdict, outcome.key, short(summary)))
        if self._bar is not None and self._task is not None:
            bad = f"{len(self.bad)} not passed" if self.bad else ""
            self._bar.update(self._task, completed=self.done, description=_escaped(case.id), bad=bad)
        elif self.all and not again and self.done * _TENTH // self.all > self._tenths:
            self._tenths = self.done * _TENTH // self.all
            bad = f", {number_of(len(self.bad), 'case')} did not pass" if self.bad else ""
            self._line(Text(f"{self.done} of {self.all} conversations{bad}"))

    def _line(self, text: Text) -> None:
        self.console.print(text, soft_wrap=True, highlight=False)


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")


def _verdict_line(verdict: str, name: str, rest: str = "") -> Text:
    line = Text.assemble((f"{verdict:<5}", STYLES.get(str(verdict), "")), " ", one_line(name))
    return line.append(f": {rest}") if rest else line


def render_text(report: Report, console: Console, folder: Path | None = None) -> None:
    """Write the results of a run: numbers first, then everything that needs attention, the conclusion last.

    Args:
        report: The report.
        console: Where to write.
        folder: Where the events and reports were written.
    """
    _Printer(report, console).all(folder)


class _Printer:
    def __init__(self, report: Report, console: Console) -> None:
        self.report = report
        self.console = console

    def all(self, folder: Path | None) -> None:
        """Write all parts."""
        self.numbers()
        self.failures()
        self.known()
        self.section("Stale baseline entries", [Text(f"  {one_line(entry)}") for entry in self.report.stale])
        self.section("Not tested", [Text(f"  {untested_line(one)}") for one in untested(self.report)])
        self.section("Observed", [Text(f"  {fact_line(fact)}") for fact in census(self.report)])
        self.section("Reports", [Text(f"  {folder / name}") for name in FILES] if folder is not None else [])
        conclusion = conclude(self.report)
        self.line(Text())
        self.line(Text(f"{one_line(self.report.run.header.target)}: {conclusion.sentence}", _SENTENCE_STYLES.get(conclusion.kind, "bold")))

    def line(self, text: Text) -> None:
        """Write one line."""
        self.console.print(text, soft_wrap=True, highlight=False)

    def section(self, title: str, lines: list[Text]) -> None:
        """Write a part of the report, unless it is empty."""
        if lines:
            self.line(Text())
            self.line(Text(title, "bold"))
            for line in lines:
                self.line(line)

    def numbers(self) -> None:
        """Write the numbers: clauses, then cases, then what was tested."""
        report, header = self.report, self.report.run.header
        if not report.run.complete:
            self.line(Text(f"INCOMPLETE RUN: {why_incomplete(report)}; the numbers below are of a part only", STYLES["ERROR"]))
        self.line(_numbers("clauses", report.clause_counts, ("EXCLUDED",)))
        self.line(_numbers("cases", report.case_counts, ()))
        version = f" ({one_line(header.server_version)})" if header.server_version else ""
        what = f"{one_line(header.target)}{version}, profile {header.profile}, suite {header.suite}, {header.started}"
        self.line(Text(f"target   {what}", "dim"))

    def failures(self) -> None:
        """Write each case that did not pass, with its nearest miss."""
        order = ("ERROR", "FAIL", "WARN", "INCONCLUSIVE")
        for verdict in order:
            for result in self.report.results:
                if result.verdict == verdict:
                    self.line(Text())
                    self.failure(result)

    def failure(self, result: log.Result) -> None:
        """Write one case that did not pass."""
        transcript = self.report.suite.transcripts.get(result.case)
        self.line(_verdict_line(result.verdict, case_name(result), transcript.title if transcript else ""))
        hit = [clause for clause, verdict in result.clauses.items() if verdict not in (Verdict.PASS, Verdict.UNTESTABLE)]
        for clause in hit or list(result.clauses)[:1]:
            known = self.report.suite.clauses.get(clause)
            self.line(Text(f"      {clause}" + (f" ({known.level}): {one_line(known.text)}" if known else "")))
        if trials_text(result):
            self.line(Text(f"      {trials_text(result)}"))
        for text in paragraph(result.diagnosis or result.summary):
            self.line(Text(f"    | {text}"))

    def known(self) -> None:
        """Write known failures and what the text leaves open, one line each."""
        found = [result for result in self.report.results if result.verdict == Verdict.XFAIL]
        lines = [Text(f"  {one_line(case_name(result))}: {one_line(result.baseline or 'no reason given')}") for result in found]
        self.section("Known failures", lines)
        gaps = [result for result in self.report.results if result.verdict == Verdict.SPEC_GAP]
        lines = [Text(f"  {one_line(case_name(result))}: {short(result.summary)}") for result in gaps]
        self.section("Left open by the text", lines)


def _numbers(what: str, counts: Mapping[str, int], always: tuple[str, ...]) -> Text:
    line = Text(f"{what:<9}", "bold")
    for index, (verdict, number, words) in enumerate(counted(counts, always)):
        style = STYLES.get(verdict, "") if number else "dim"
        line.append(", " if index else "")
        line.append(f"{number} {words}", style)
    return line
