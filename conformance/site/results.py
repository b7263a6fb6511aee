"""The results of the recorded releases side by side."""

from __future__ import annotations

from collections.abc import Iterable

from conformance.report.matrix import Row, build_matrix
from conformance.report.wording import VERDICT_MEANING, VERDICT_WORDS
from conformance.site.clauses import register_path, register_title
from conformance.site.markup import Page, clause_link, joined, level_mark, link, table, verdict_mark
from conformance.site.sources import Sources

PATH = "reference/results.md"
_AGREED = frozenset({"PASS", "EXCLUDED", "NOT-APPLICABLE", "NOT-RUN"})


def result_page(sources: Sources) -> Page:
    """Return the matrix of clauses by releases: when it was measured, where releases differ, and every clause."""
    matrix = build_matrix([one.report for one in sources.released])
    tested = [row for row in matrix.rows if any(cell.verdict != "EXCLUDED" for cell in row.cells)]
    differing = [row for row in tested if any(cell.verdict not in _AGREED for cell in row.cells)]
    lines = [
        "---\nhide: [toc]\n---\n",
        "# Results of six releases" if len(sources.released) == 6 else "# Results of recorded releases",
        "",
        "Each column is a real Apache Pulsar broker, standalone, with its default settings except for those that a case names. The",
        "recorded conversations are part of the suite, and are judged again each time this page is built. The same table for a",
        f"terminal: `pulsar-conformance matrix`. The {link(PATH, 'glossary.md', 'Glossary')} defines words such as clause and profile.",
        "",
        *_measured(sources),
        "",
        *_legend(),
        "",
        f"## Where a release differs {{ #differences }}\n\n{len(differing)} of {len(tested)} clauses. The clause leads to the reasons.",
        "",
        *_rows(sources, differing),
        "",
        "## Every clause",
        "",
    ]
    for name in sources.registers:
        mine = [row for row in tested if sources.register_of[row.clause] == name]
        heading = (
            f"### {register_title(name)}\n\n{len(mine)} clauses; their texts: {link(PATH, register_path(name), register_title(name))}."
        )
        lines += [heading, "", *_rows(sources, mine), ""]
    return Page(PATH, "Results of six releases", joined(lines))


def _measured(sources: Sources) -> list[str]:
    counts = [released.report.clause_counts for released in sources.released]
    verdicts = [verdict for verdict in VERDICT_WORDS if verdict != "EXCLUDED" and any(one.get(verdict) for one in counts)]
    rows = [
        (released.name, released.report.run.header.started[:10], *(str(count.get(verdict, 0)) for verdict in verdicts))
        for released, count in zip(sources.released, counts, strict=True)
    ]
    return table(["release", "measured", *(verdict_mark(verdict) for verdict in verdicts)], rows)


def _legend() -> list[str]:
    shown = ("PASS", "XFAIL", "SPEC-GAP", "NOT-APPLICABLE", "UNTESTABLE")
    return [f"- {verdict_mark(verdict)} {VERDICT_MEANING[verdict]}" for verdict in shown]


def _rows(sources: Sources, rows: Iterable[Row]) -> list[str]:
    heads = ["clause", "level", *(released.name for released in sources.released)]
    return table(
        heads,
        (
            (
                clause_link(sources, PATH, row.clause),
                level_mark(row.level),
                *(verdict_mark(cell.verdict, explained="; ".join(one.text for one in cell.reasons[:3] if one.text)) for cell in row.cells),
            )
            for row in rows
        ),
    )
