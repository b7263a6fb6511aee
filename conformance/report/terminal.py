"""The terminal: the progress of a run, and its results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
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
from conformance.judging.baseline import case_name, release_of
from conformance.judging.causes import FAILED, groups
from conformance.report.conclusion import conclude, why_incomplete
from conformance.report.known_faults import likeness
from conformance.report.model import Report
from conformance.report.views import BAD, again, census, fact_line, results_by_clause, sides, trials_text, untested, untested_line
from conformance.report.wording import (
    cases_counted,
    conversations_counted,
    counted,
    cut,
    given_policies,
    number_of,
    one_line,
    paragraph,
    sentence_cut,
    short,
)

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
_MOST_CAUSES, _MOST_FAILURES, _MOST_CLAUSES, _MOST_LINES = 6, 6, 16, 8
"""How much of each part is shown, so that no broker gets more than a hundred lines."""
_WIDTH = 240
_EXAMPLE = 100
"""Characters of what was expected and came, behind a cause."""
_FIRST_PAUSE = 5.0
"""Seconds between the first two lines of progress. Each later pause is twice as long, so that an hour has ten lines."""
FILES = ("report.html", "results.json", "junit.xml", "badge.json", "events.jsonl")
"""What a run leaves in its folder."""


class Progress:
    """Shows the progress of a run; a `Watcher` of the runner, and a context manager.

    On a terminal it is a bar at the bottom. Elsewhere it writes lines, fewer and fewer: what failed is told at the end, by cause.

    Args:
        console: Where to write; it respects NO_COLOR.
        live: Whether to show the bar; by default if the console is a terminal.
        clock: The time, in seconds.
    """

    def __init__(self, console: Console, *, live: bool | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self.done = self.all = 0
        self.bad: dict[str, Verdict] = {}
        self._clock = clock
        self._next, self._pause = clock(), _FIRST_PAUSE
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
            self._now_and_then(one_line(text))

    def total(self, conversations: int) -> None:
        """Set how many conversations there will be."""
        self.all = conversations
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, total=conversations or None)

    def ended(self, case: m.Transcript, outcome: Outcome) -> None:
        """Count a conversation. One that could not be run is tried again, and is in the report."""
        again = "~" in outcome.key
        self.done += 0 if again else 1
        if outcome.verdict in (Verdict.FAIL, Verdict.WARN) and case.id not in self.bad:
            self.bad[case.id] = outcome.verdict
        if self._bar is not None and self._task is not None:
            bad = f"{len(self.bad)} not passed" if self.bad else ""
            self._bar.update(self._task, completed=self.done, description=_escaped(case.id), bad=bad)
        elif self.all and not again:
            bad = f", {number_of(len(self.bad), 'case')} did not pass" if self.bad else ""
            self._now_and_then(f"{self.done} of {self.all} conversations{bad}")

    def _now_and_then(self, text: str) -> None:
        """Write a line, unless there was one a moment ago."""
        now = self._clock()
        if now >= self._next:
            self._next, self._pause = now + self._pause, 2 * self._pause
            self.console.print(Text(text), soft_wrap=True, highlight=False)


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")


def _verdict_line(verdict: str, name: str, rest: str = "") -> Text:
    line = Text.assemble((f"{verdict:<5}", STYLES.get(str(verdict), "")), " ", one_line(name))
    return line.append(f": {rest}") if rest else line


def render_text(report: Report, console: Console, folder: Path | None = None, *, verbose: bool = False) -> None:
    """Write the results of a run: causes first, then numbers and failures, the conclusion last; a hundred lines at most.

    Args:
        report: The report.
        console: Where to write.
        folder: Where the events and reports were written.
        verbose: Whether every failure is written in full, with the last frames, and what was seen but not judged.
    """
    _Printer(report, console, verbose).all(folder)


class _Printer:
    def __init__(self, report: Report, console: Console, verbose: bool) -> None:
        self.report = report
        self.console = console
        self.verbose = verbose
        self.groups = groups(report.run, report.results, report.outcomes)

    def all(self, folder: Path | None) -> None:
        """Write all parts."""
        if not self.report.run.complete:
            self.line(Text(f"INCOMPLETE RUN: {why_incomplete(self.report)}; what follows is of a part only", STYLES["ERROR"]))
        self.causes()
        self.numbers()
        self.failures()
        self.known()
        self.hint()
        self.section("Stale baseline entries", [one_line(entry) for entry in self.report.stale])
        self.section("Not tested", [untested_line(one) for one in untested(self.report)])
        if self.verbose:
            self.section("Seen, not judged", [fact_line(fact) for fact in census(self.report)])
        self.section("Clauses that do not hold", list(self.broken()), _MOST_CLAUSES)
        self.section("Reports", [str(folder / name) for name in FILES] if folder is not None else [])
        conclusion = conclude(self.report)
        self.line(Text())
        self.line(Text(f"{one_line(self.report.run.header.target)}: {conclusion.sentence}", _SENTENCE_STYLES.get(conclusion.kind, "bold")))

    def line(self, text: Text) -> None:
        """Write one line."""
        self.console.print(text, soft_wrap=True, highlight=False)

    def section(self, title: str, lines: list[str], most: int = _MOST_LINES) -> None:
        """Write a part of the report, unless it is empty; of many lines the first ones."""
        if not lines:
            return
        shown = lines if self.verbose or len(lines) <= most else lines[: most - 1]
        self.line(Text())
        self.line(Text(title, "bold"))
        for text in shown:
            self.line(Text(f"  {text if self.verbose else sentence_cut(text, _WIDTH)}"))
        if len(shown) < len(lines):
            self.line(Text(f"  … and {len(lines) - len(shown)} more: --verbose shows them, and report.html", "dim"))

    def numbers(self) -> None:
        """Write the numbers: clauses, then cases, then what was tested."""
        report, header = self.report, self.report.run.header
        self.line(_numbers("clauses", f"{sum(report.clause_counts.values()):,}", report.clause_counts, ("EXCLUDED",)))
        self.line(_numbers("cases", cases_counted(len(report.results), report.transcripts), report.case_counts, ()))
        self.line(Text(f"held     {conversations_counted(report.conversations, report.repetitions)}", "dim"))
        version = f" ({one_line(header.server_version)})" if header.server_version else ""
        what = f"{one_line(header.target)}{version}, profile {header.profile}, suite {header.suite}, {header.started}"
        self.line(Text(f"target   {what}", "dim"))
        if header.namespace_policies:
            self.line(Text(f"policies {one_line(given_policies(header.namespace_policies))}", "dim"))

    def causes(self) -> None:
        """Write what failures have in common: how many clauses and cases, the cause, a rule that it breaks, and a case with its title."""
        shown = self.groups[:_MOST_CAUSES]
        if not shown:
            return
        rest = len(self.groups) - len(shown)
        self.line(Text("Why" + (f", the {_MOST_CAUSES} causes that break most, of {len(self.groups)}" if rest else ""), "bold"))
        for one in shown:
            numbers = f"{number_of(len(one.clauses), 'clause')}, {number_of(len(one.results), 'case')}"
            example = f" ({cut(one_line(one.example), _EXAMPLE)})" if one.example else ""
            self.line(Text.assemble(f"  {numbers}: ", (short(one.words), "bold"), example))
            self.line(Text(f"      {cut(self.rule(one.clauses[0]), _WIDTH)}"))
            self.line(Text(f"      {cut(self.scene(one.results[0]), _WIDTH)}", "dim"))
        looks = likeness({result.case for one in self.groups for result in one.results})
        if looks is not None:
            self.line(Text(f"  looks like a broker with this fault: {looks}"))
        self.line(Text())

    def failures(self) -> None:
        """Write cases that did not pass: of each cause the first one, then others."""
        bad = [result for verdict in BAD for result in self.report.results if result.verdict == verdict]
        first = [one.results[0] for one in self.groups]
        chosen = [*(one for one in bad if one in first), *(one for one in bad if one not in first)]
        for result in bad if self.verbose else chosen[:_MOST_FAILURES]:
            self.line(Text())
            self.failure(result)
        if not self.verbose and len(chosen) > _MOST_FAILURES:
            self.line(Text())
            more = number_of(len(chosen) - _MOST_FAILURES, "more case")
            self.line(Text(f"{more} did not pass: --verbose shows them, and report.html", "dim"))

    def hint(self) -> None:
        """Name the baseline of the release that a broker says it is, if none was used."""
        release = release_of(self.report.run.header.server_version)
        if (
            release is not None
            and not any(one.baseline for one in self.report.results)
            and any(one.verdict in BAD for one in self.report.results)
        ):
            self.line(Text())
            self.line(
                Text(f"The broker says that it is {release}: with --baseline {release} the known failures of that release are not counted")
            )

    def failure(self, result: log.Result) -> None:
        """Write one case that did not pass: the rule, what was expected, what came, how to run it again."""
        hit = [clause for clause, verdict in result.clauses.items() if verdict not in (Verdict.PASS, Verdict.UNTESTABLE)]
        rules = [self.rule(clause) for clause in hit or list(result.clauses)[:1]]
        if self.verbose:
            self.line(_verdict_line(result.verdict, self.scene(result)))
            for rule in rules:
                self.line(Text(f"      {rule}"))
        else:
            self.line(_verdict_line(result.verdict, case_name(result), cut(rules[0], _WIDTH) if rules else ""))
        if trials_text(result):
            self.line(Text(f"      {trials_text(result)}"))
        if self.verbose:
            for text in paragraph(result.diagnosis or result.summary):
                self.line(Text(f"    | {text}"))
        else:
            expected, got = sides(self.report, result)
            for name, text in (("expected", expected), ("got", got)):
                if text:
                    self.line(Text(f"      {name:<9} {cut(one_line(text), _WIDTH)}"))
        self.line(Text(f"      {'again':<9} {one_line(again(self.report, result))}"))

    def rule(self, clause: str) -> str:
        """Return a clause with its level and its text."""
        known = self.report.suite.clauses.get(clause)
        return f"{clause} ({known.level}): {one_line(known.text)}" if known else clause

    def scene(self, result: log.Result) -> str:
        """Return the case of a result with its title, which says what goes on in it."""
        transcript = self.report.suite.transcripts.get(result.case)
        return f"{case_name(result)}: {transcript.title}" if transcript else case_name(result)

    def broken(self) -> Iterator[str]:
        """Yield the clauses that do not hold, with the number of cases that say so."""
        citing = results_by_clause(self.report)
        for verdict in FAILED:
            for clause, found in self.report.clauses.items():
                if found == verdict:
                    cases = sum(result.clauses[clause] == verdict for result in citing.get(clause, ()))
                    yield f"{verdict:<5} {clause} ({number_of(cases, 'case')})"

    def known(self) -> None:
        """Write known failures, and how much the text leaves open; with `verbose` one line each."""
        found = [result for result in self.report.results if result.verdict == Verdict.XFAIL]
        lines = [f"{one_line(case_name(result))}: {one_line(result.baseline or 'no reason given')}" for result in found]
        self.section("Known failures", lines)
        if self.verbose:
            gaps = [result for result in self.report.results if result.verdict == Verdict.SPEC_GAP]
            self.section("Left open by the text", [f"{one_line(case_name(result))}: {short(result.summary)}" for result in gaps])


def _numbers(what: str, total: str, counts: Mapping[str, int], always: tuple[str, ...]) -> Text:
    line = Text(f"{what:<9}{total}: ", "bold")
    for index, (verdict, number, words) in enumerate(counted(counts, always)):
        style = STYLES.get(verdict, "") if number else "dim"
        line.append(", " if index else "")
        line.append(f"{number:,} {words}", style)
    return line
