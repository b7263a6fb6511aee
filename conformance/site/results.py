"""The results of the recorded releases, and of the recorded clients, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conformance.engine.capabilities import CLIENT_CAPABILITIES
from conformance.report.matrix import Row, build_matrix
from conformance.report.wording import VERDICT_MEANING, VERDICT_WORDS, number_of
from conformance.site.clauses import register_path, register_title
from conformance.site.markup import Page, clause_link, code, joined, level_mark, link, table, verdict_mark
from conformance.site.sources import Released, Sources

PATH = "reference/results.md"
CLIENT_PATH = "reference/client-results.md"
CLIENT_TITLE = "Results of clients"
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
        *_measured(sources.released, "release"),
        "",
        *_legend(),
        "",
        f"## Where a release differs {{ #differences }}\n\n{len(differing)} of {len(tested)} clauses. The clause leads to the reasons.",
        "",
        *_rows(sources, PATH, sources.released, differing),
        "",
        *_every_clause(sources, PATH, sources.released, tested),
    ]
    return Page(PATH, "Results of six releases", joined(lines))


def client_result_page(sources: Sources) -> Page:
    """Return the matrix of clauses by clients: what each can do, where clients differ, and every clause."""
    matrix = build_matrix([one.report for one in sources.clients])
    tested = [row for row in matrix.rows if any(cell.verdict != "EXCLUDED" for cell in row.cells)]
    differing = [row for row in tested if any(cell.verdict not in _AGREED for cell in row.cells)]
    can = [(client.name, client.report.run.header.capabilities) for client in sources.clients]
    lines = [
        "---\nhide: [toc]\n---\n",
        f"# {CLIENT_TITLE}",
        "",
        "Each column is a client as it is published, driven by the suite, which plays the broker: "
        f"{link(CLIENT_PATH, 'test-your-client.md', 'Test your client')} says how. The recorded conversations are part of the suite,",
        "and are judged again each time this page is built. The same table for a terminal: `pulsar-conformance matrix --clients`.",
        f"Defects have a page under {link(CLIENT_PATH, 'findings/README.md', 'Findings')}.",
        "",
        *_measured(sources.clients, "client"),
        "",
        *_legend(),
        "",
        "## What the clients can do { #capabilities }",
        "",
        "A clause about something that a client does not have does not apply to it.",
        "",
        *table(
            ["capability", "meaning", *(name for name, _ in can)],
            ((code(one), meaning, *("yes" if has.get(one) else "–" for _, has in can)) for one, meaning in CLIENT_CAPABILITIES.items()),
        ),
        "",
        f"## Where a client differs {{ #differences }}\n\n{len(differing)} of {len(tested)} clauses. The clause leads to the reasons.",
        "",
        *_rows(sources, CLIENT_PATH, sources.clients, differing),
        "",
        *_every_clause(sources, CLIENT_PATH, sources.clients, tested),
    ]
    return Page(CLIENT_PATH, CLIENT_TITLE, joined(lines))


def _every_clause(sources: Sources, path: str, recorded: Sequence[Released], tested: Sequence[Row]) -> list[str]:
    lines = ["## Every clause", ""]
    for name in sources.registers:
        mine = [row for row in tested if sources.register_of[row.clause] == name]
        if not mine:
            continue
        texts = link(path, register_path(name), register_title(name))
        lines += [f"### {register_title(name)}\n\n{number_of(len(mine), 'clause')}; their texts: {texts}.", ""]
        lines += [*_rows(sources, path, recorded, mine), ""]
    return lines


def _measured(recorded: Sequence[Released], what: str) -> list[str]:
    counts = [released.report.clause_counts for released in recorded]
    verdicts = [verdict for verdict in VERDICT_WORDS if verdict != "EXCLUDED" and any(one.get(verdict) for one in counts)]
    rows = [
        (released.name, released.report.run.header.started[:10], *(str(count.get(verdict, 0)) for verdict in verdicts))
        for released, count in zip(recorded, counts, strict=True)
    ]
    return table([what, "measured", *(verdict_mark(verdict) for verdict in verdicts)], rows)


def _legend() -> list[str]:
    shown = ("PASS", "XFAIL", "SPEC-GAP", "NOT-APPLICABLE", "UNTESTABLE")
    return [f"- {verdict_mark(verdict)} {VERDICT_MEANING[verdict]}" for verdict in shown]


def _rows(sources: Sources, path: str, recorded: Sequence[Released], rows: Iterable[Row]) -> list[str]:
    heads = ["clause", "level", *(released.name for released in recorded)]
    return table(
        heads,
        (
            (
                clause_link(sources, path, row.clause),
                level_mark(row.level),
                *(verdict_mark(cell.verdict, explained="; ".join(one.text for one in cell.reasons[:3] if one.text)) for cell in row.cells),
            )
            for row in rows
        ),
    )
