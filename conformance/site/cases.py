"""The cases: one page for each group, one section for each case, with a recorded conversation and the transcript."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.engine import log
from conformance.engine.capabilities import MEANINGS
from conformance.engine.model import Transcript
from conformance.engine.verdict import SEVERITY, Verdict
from conformance.judging.baseline import case_name
from conformance.report.rows import report_rows, window
from conformance.report.sequence import render_sequence_svg
from conformance.report.views import reason_of, shown_outcome
from conformance.report.wording import number_of
from conformance.site.clauses import register_title
from conformance.site.drawings import drawing_block
from conformance.site.markup import (
    Page,
    case_link,
    case_place,
    clause_link,
    code,
    fenced,
    indented,
    joined,
    link,
    plain,
    prose,
    table,
    verdict_mark,
)
from conformance.site.sources import Released, Sources

HOME = "reference/cases/index.md"
WINDOW = (24, 10, 6)
"""Lines at the start, at the end and around a fault of a conversation that are drawn."""


def case_pages(sources: Sources) -> list[Page]:
    """Return the page that lists all cases, and one page for each group."""
    return [_index(sources), *(_group(sources, group, cases) for group, cases in sources.groups.items())]


def _group_path(group: str) -> str:
    return f"reference/cases/{group.replace('/', '-')}.md"


def _index(sources: Sources) -> Page:
    lines = [
        "# Cases",
        "",
        "What is sent and what must come back: one file for each case, under `conformance/transcripts/`. The language is described in",
        link(HOME, "transcripts.md", "Transcripts")
        + "; cases that a release can run have a recorded conversation. "
        + f"{link(HOME, 'glossary.md', 'Glossary')}: case, cell, trial, fence.",
        "The search finds a case by its id and its title; the page of a group has all of its cases.",
        "",
    ]
    for register in dict.fromkeys(group.partition("/")[0] for group in sources.groups):
        lines += [
            f"## {register_title(register)} {{ #{register} }}",
            "",
            *table(["group", "cases", "the first one says"], _groups(sources, register)),
            "",
        ]
    return Page(HOME, "Overview", joined(lines))


def _groups(sources: Sources, register: str) -> Iterator[tuple[str, str, str]]:
    for group, cases in sources.groups.items():
        if group.partition("/")[0] == register:
            yield link(HOME, _group_path(group), group), str(len(cases)), plain(sources.suite.transcripts[cases[0]].title)


def _group(sources: Sources, group: str, cases: Sequence[str]) -> Page:
    register, _, name = group.partition("/")
    title = f"{register_title(register)}, {name}"
    path = _group_path(group)
    lines = [f"# Cases: {title}", ""]
    for case in cases:
        lines += [*_case(sources, path, sources.suite.transcripts[case]), ""]
    return Page(path, title, joined(lines))


def _case(sources: Sources, path: str, case: Transcript) -> Iterator[str]:
    yield f"## {case.id} {{ #{case_place(case.id).partition('#')[2]} .pc-id }}"
    yield ""
    yield prose(case.title)
    yield ""
    yield f"- Clauses: {', '.join(clause_link(sources, path, clause) for clause in case.clauses)}"
    yield from _conditions(path, case)
    yield ""
    results = [(released, released.by_case.get(case.id, [])) for released in sources.recorded(case.role)]
    if results:
        marks = (verdict_mark(*_worst(members, released)) for released, members in results)
        yield f'<p class="pc-verdicts">{" ".join(marks)}</p>'
        yield ""
    drawn = _conversation(sources, case)
    if drawn is not None:
        yield f'=== "{drawn[0]}"'
        yield ""
        yield from indented(drawn[1])
        yield ""
    yield '=== "Transcript"'
    yield ""
    # Without a language: colours would be twenty thousand elements on a page, which a browser lays out for a second.
    yield from indented(fenced(sources.texts[case.id]))


def _conditions(path: str, case: Transcript) -> Iterator[str]:
    if case.requires:
        needed = (f'<span title="{MEANINGS[name.removeprefix("!")]}">{code(name)}</span>' for name in case.requires)
        yield f"- Requires: {', '.join(needed)}"
    if case.control is not None:
        yield f"- Control: {case_link(path, case.control)} must pass in the same run"
    if case.assumes:
        yield f"- Takes for granted: {', '.join(code(f'{key}={value}') for key, value in case.assumes.items())}"
    if case.target_config:
        yield f"- Settings: {', '.join(code(f'{key}={value}') for key, value in case.target_config.items())}"
    if case.profiles != ["default", "as-written"]:
        yield f"- Profile: {' and '.join(case.profiles)}"
    if case.matrix:
        yield f"- Cells: one for each {' and '.join(code(name) for name in case.matrix)}"
    if case.trials is not None:
        yield f"- Trials: {case.trials.count}, of which {case.trials.fail_over} may fail"


def _worst(results: Sequence[log.Result], released: Released) -> tuple[str, str, str]:
    """Return the verdict that counts most among the cells of a case, the release, and why."""
    if not results:
        return "NOT-RUN", released.name, ""
    worst = max(results, key=lambda one: SEVERITY[Verdict(one.verdict)])
    return str(worst.verdict), released.name, reason_of(worst)


def _conversation(sources: Sources, case: Transcript) -> tuple[str, list[str]] | None:
    """Draw the conversation that shows a case best.

    Returns:
        Its title, and lines of Markdown; None if no release was recorded with one.
    """
    for released in sources.illustrating:
        results = released.by_case.get(case.id, [])
        for result in results:
            outcome = shown_outcome(released.report, result)
            if outcome is None:
                continue
            every = report_rows(released.report, outcome.key)
            name = case_name(result)
            drawing = render_sequence_svg(window(every, *WINDOW), title=f"Sequence diagram of {name}", standalone=False)
            several = len(results) > 1
            caption = f"The cell {code(name)}, one of {len(results)}. " if several else ""
            trials = f"The trial shown is one of {number_of(result.trials, 'trial')}. " if result.trials > 1 else ""
            shown = [caption + trials, ""] if caption or trials else []
            return f"With Apache Pulsar {released.name}", [*shown, *drawing_block(drawing)]
    return None
