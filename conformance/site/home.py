"""What the home page and the README show first, from the recordings: a report that fails, all releases at a glance, one finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from html import escape
from typing import Final

from conformance.engine import log
from conformance.engine.model import Baseline
from conformance.engine.verdict import Verdict
from conformance.judging.causes import groups
from conformance.report.conclusion import conclude
from conformance.report.model import Report, build_report
from conformance.report.rows import report_rows
from conformance.report.sequence import render_sequence_svg
from conformance.report.views import shown_outcome, sides, trials_text
from conformance.report.wording import counted, cut, middle_cut, number_of, one_line
from conformance.running.recorder import SHOWN_TARGET
from conformance.site.drawings import drawing_block
from conformance.site.markup import case_link, code, joined, link, plain, table
from conformance.site.sources import Released, Sources

PATH: Final = "index.md"
FINDING: Final = "pip145/race/same-id"
"""The case whose recorded conversation is the example of a finding."""
_HOLDS: Final = ("PASS", "XPASS")
_JUDGED: Final = (*_HOLDS, "XFAIL", "FAIL", "WARN")
_MOST, _WIDTH, _SIDE = 3, 150, 96


@dataclass(frozen=True)
class Failure:
    """A case that failed: the rule that does not hold, what was expected, and what came."""

    clause: str
    level: str
    text: str
    trials: str
    expected: str
    got: str


@dataclass(frozen=True)
class Glance:
    """A release or a client in a few numbers.

    Attributes:
        name: The release, or the client.
        measured: The day of its recording.
        judged: How many clauses were judged: it claims what they are about, and their text leaves nothing open.
        holding: How many of them hold.
        failing: How many do not.
    """

    name: str
    measured: str
    judged: int
    holding: int
    failing: int


def failing_report(sources: Sources) -> Report | None:
    """Judge a recorded release as if nothing were known of its failures; None if it is not recorded."""
    for released in sources.illustrating[:1]:
        run = released.report.run
        if run.header.target == SHOWN_TARGET:
            return build_report(sources.suite, run, Baseline(format=1, target=SHOWN_TARGET, entries=[]), date.fromisoformat("2000-01-01"))
    return None


def failures(report: Report) -> list[Failure]:
    """Return the failures that say most on few lines: one of each cause, first where something came, and where it never was right."""
    found = [(one.results[0], _failure(report, one.results[0])) for one in groups(report.run, report.results, report.outcomes)]
    found.sort(key=lambda each: (each[1].level != "MUST", each[1].got == "nothing", -each[0].failed_trials))
    return [failure for _, failure in found[:_MOST]]


def _failure(report: Report, result: log.Result) -> Failure:
    name = next(clause for clause, verdict in result.clauses.items() if verdict not in (Verdict.PASS, Verdict.UNTESTABLE))
    clause = report.suite.clauses[name]
    expected, got = sides(report, result)
    return Failure(
        name,
        clause.level,
        cut(one_line(clause.text), _WIDTH),
        trials_text(result),
        middle_cut(one_line(expected), _SIDE),
        middle_cut(one_line(got).partition(", in ")[0], _SIDE),
    )


def glances(recorded: Sequence[Released]) -> list[Glance]:
    """Return each recorded release or client in a few numbers.

    Args:
        recorded: The releases, or the clients.
    """
    return [_glance(one) for one in recorded]


def _glance(released: Released) -> Glance:
    counts = released.report.clause_counts
    judged, holding = (sum(counts[verdict] for verdict in verdicts) for verdicts in (_JUDGED, _HOLDS))
    return Glance(released.name, released.report.run.header.started[:10], judged, holding, judged - holding)


def home_facts(sources: Sources) -> dict[str, str]:
    """Return the parts of the home page that are made from recordings, as Markdown, by the name that stands for each."""
    report = failing_report(sources)
    drawing, words = _finding(sources)
    return {
        "report": "" if report is None else joined(_picture(report)),
        "glance": joined(bars(glances(sources.released), "Apache Pulsar ")),
        "clients": joined(bars(glances(sources.clients))),
        "finding": joined(drawing),
        "finding_words": joined(words),
    }


def readme_parts(sources: Sources) -> dict[str, str]:
    """Return the parts of the README that are made from recordings, as Markdown, by name."""
    report = failing_report(sources)
    rows = ((one.name, str(one.judged), str(one.holding), str(one.failing), one.measured) for one in glances(sources.released))
    return {
        "report": "" if report is None else joined(["```", *_lines(report), "```"]),
        "clauses": joined([_shares(sources)]),
        "releases": joined(table(["Apache Pulsar", "clauses judged", "hold", "do not hold (MUST or SHOULD)", "recorded"], rows)),
    }


def _shares(sources: Sources) -> str:
    """Say where the clauses are: with whom, and how many no report counts."""
    clauses = sources.suite.clauses.values()
    tested = [one for one in clauses if one.excluded is None]
    sides = Counter(one.side for one in tested if "default" in one.profiles)
    cases = Counter(case.partition("/")[0] for case in sources.suite.transcripts)
    excluded = len(clauses) - len(tested)
    return (
        f"{sides['broker']} clauses are about brokers, {sides['client']} about clients; "
        f"{len(tested) - sides.total()} hold only in the profile `as-written`. "
        f"The other {excluded} are excluded: no case tests them, and each says why. A report shows their number, and no verdict of theirs. "
        f"The cases: {', '.join(f'{name} {number}' for name, number in cases.most_common())}."
    )


def _counts(report: Report) -> str:
    return ", ".join(f"{number} {words}" for verdict, number, words in counted(report.clause_counts) if number and verdict != "EXCLUDED")


def _headline(report: Report) -> str:
    return one_line(conclude(report).sentence.partition(";")[0])


def _lines(report: Report) -> Iterator[str]:
    """Write the report as text."""
    yield f"{report.run.header.target}: {_headline(report)}"
    yield f"clauses: {_counts(report)}"
    for one in failures(report):
        yield ""
        yield f"FAIL  {one.clause} ({one.level}){f': {one.trials}' if one.trials else ''}"
        yield f"      {one.text}"
        yield f"      expected  {one.expected}"
        yield f"      got       {one.got}"


def _picture(report: Report) -> Iterator[str]:
    """Draw the report as a page would show it."""
    yield '<div class="pc-shot">'
    yield f'<p class="pc-shot-head"><b>{escape(report.run.header.target)}</b> <span>{escape(_headline(report))}</span></p>'
    yield f'<p class="pc-shot-counts">{escape(_counts(report))}</p>'
    for one in failures(report):
        yield '<div class="pc-shot-case">'
        trials = f" <small>{escape(one.trials)}</small>" if one.trials else ""
        yield f'<p><span class="pc-verdict pc-fail">FAIL</span> <code>{escape(one.clause)}</code>{trials}</p>'
        yield f"<p>{escape(one.text)}</p>"
        yield f"<dl><dt>expected</dt><dd>{escape(one.expected)}</dd><dt>got</dt><dd>{escape(one.got)}</dd></dl>"
        yield "</div>"
    yield "</div>"


def bars(rows: Sequence[Glance], before: str = "") -> Iterator[str]:
    """Draw a bar for each release or client: how many clauses hold, and how many do not.

    Args:
        rows: The releases or clients.
        before: What stands before their names.
    """
    most = max((one.judged for one in rows), default=1) or 1
    yield '<div class="pc-bars">'
    for one in rows:
        widths = "".join(
            f'<i class="pc-{kind}" style="width:{100 * number / most:.1f}%"></i>'
            for kind, number in (("pass", one.holding), ("fail", one.failing))
            if number
        )
        words = f"{one.holding} of {number_of(one.judged, 'clause')} hold"
        yield f'<div><b>{escape(before + one.name)}</b><span class="pc-bar">{widths}</span><span>{escape(words)}</span></div>'
    yield "</div>"


def _finding(sources: Sources) -> tuple[list[str], list[str]]:
    """Return a defect of a release: the recorded frames, and words about the case that found it."""
    for released in sources.illustrating:
        for result in released.by_case.get(FINDING, []):
            outcome = shown_outcome(released.report, result)
            if outcome is None or result.verdict == Verdict.PASS:
                continue
            transcript = sources.suite.transcripts[FINDING]
            drawing = render_sequence_svg(
                report_rows(released.report, outcome.key), title=f"Sequence diagram of {FINDING}", standalone=False
            )
            words = (
                f"The case is {case_link(PATH, FINDING)}, recorded with Apache Pulsar {released.name}: “{plain(transcript.title)}”. "
                f"{link(PATH, 'findings/same-id-empty-list.md', 'The finding')} has its clause {code('pip145.race.same-id')}, "
                "how often it happens, and what a client suffers."
            )
            return drawing_block(drawing), [words]
    return [], []


def filled(text: str, values: Mapping[str, str]) -> str:
    """Put values in the place of `{{ name }}`.

    Args:
        text: Markdown.
        values: The values by name.
    """
    for name, value in values.items():
        text = text.replace(f"{{{{ {name} }}}}", value)
    return text
