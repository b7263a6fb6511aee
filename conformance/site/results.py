"""The results of the recorded releases side by side, and those of the clients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from conformance.engine.capabilities import CLIENT_CAPABILITIES
from conformance.report.matrix import Cell, Row, build_matrix
from conformance.report.wording import VERDICT_MEANING, VERDICT_WORDS
from conformance.site.clauses import register_path, register_title
from conformance.site.home import bars, glances
from conformance.site.markup import SHORT_VERDICTS, Page, address_from, clause_place, code, joined, level_mark, link, table, verdict_mark
from conformance.site.sources import Released, Sources

PATH: Final = "reference/results.md"
TITLE: Final = "Results of six releases"
CLIENT_PATH: Final = "reference/client-results.md"
CLIENT_TITLE: Final = "Results of clients"
_AGREED: Final = frozenset({"PASS", "EXCLUDED", "NOT-APPLICABLE", "NOT-RUN"})
HOLDS: Final = "Holds: no recorded case broke it. Findings from exploration, and races that did not show, are not counted."
_WIDE: Final = "---\nhide: [toc]\n---\n"


def result_pages(sources: Sources) -> list[Page]:
    """Return the matrices of clauses by releases and by clients: a page each with where they differ, and one for each register."""
    released, clients = _tested(sources.released), _tested(sources.clients)
    return [
        Page(PATH, TITLE, joined(_of_releases(sources, released))),
        *_registers(sources, PATH, sources.released, released),
        Page(CLIENT_PATH, CLIENT_TITLE, joined(_of_clients(sources, clients))),
        *_registers(sources, CLIENT_PATH, sources.clients, clients),
    ]


def _tested(recorded: Sequence[Released]) -> list[Row]:
    rows = build_matrix([one.report for one in recorded]).rows
    return [row for row in rows if any(cell.verdict != "EXCLUDED" for cell in row.cells)]


def _of_releases(sources: Sources, tested: Sequence[Row]) -> Iterator[str]:
    yield _WIDE
    yield f"# {TITLE}" if len(sources.released) == 6 else "# Results of recorded releases"
    yield ""
    yield "Each column is a real Apache Pulsar broker, standalone, with its default settings except for those that a case names. The"
    yield "recorded conversations are part of the suite, and are judged again each time this page is built. The same table for a"
    yield "terminal: `pulsar-conformance matrix`; what changed between two of them: "
    yield "`pulsar-conformance compare apache-pulsar@4.0.0 apache-pulsar@4.2.4`."
    yield f"The {link(PATH, 'glossary.md', 'Glossary')} defines words such as clause and profile."
    yield f"{link(PATH, 'findings/README.md', 'Findings')} explain what does not hold."
    yield f"Clients have a page of their own: {link(PATH, CLIENT_PATH, CLIENT_TITLE)}."
    yield ""
    yield HOLDS
    yield ""
    yield from _numbers(sources.released, "release")
    yield from _differences(sources, PATH, sources.released, tested, "release")


def _of_clients(sources: Sources, tested: Sequence[Row]) -> Iterator[str]:
    can = [(client.name, client.report.run.header.capabilities) for client in sources.clients]
    rows = ((code(one), meaning, *("yes" if has.get(one) else "–" for _, has in can)) for one, meaning in CLIENT_CAPABILITIES.items())
    yield _WIDE
    yield f"# {CLIENT_TITLE}"
    yield ""
    yield "Each column is a client as it is published, driven by the suite, which plays the broker: "
    yield f"{link(CLIENT_PATH, 'test-your-client.md', 'Test your client')} says how. The recorded conversations are part of the suite,"
    yield "and are judged again each time this page is built. The same table for a terminal: `pulsar-conformance matrix --clients`."
    yield f"Defects have a page under {link(CLIENT_PATH, 'findings/README.md', 'Findings')}."
    yield ""
    yield HOLDS
    yield ""
    yield from _numbers(sources.clients, "client")
    yield "## What the clients can do { #capabilities }"
    yield ""
    yield "A clause about something that a client does not have does not apply to it."
    yield ""
    yield from table(["capability", "meaning", *(name for name, _ in can)], rows)
    yield ""
    yield from _differences(sources, CLIENT_PATH, sources.clients, tested, "client")


def _numbers(recorded: Sequence[Released], what: str) -> Iterator[str]:
    """Show how much holds, as bars and as numbers, and what the words mean."""
    counts = [one.report.clause_counts for one in recorded]
    verdicts = [verdict for verdict in VERDICT_WORDS if verdict != "EXCLUDED" and any(one.get(verdict) for one in counts)]
    rows = (
        (
            one.name,
            one.report.run.header.started[:10],
            ", ".join(f"{count[verdict]} {VERDICT_WORDS[verdict]}" for verdict in verdicts if count[verdict]),
        )
        for one, count in zip(recorded, counts, strict=True)
    )
    yield from bars(glances(recorded))
    yield ""
    yield from table([what, "recorded", "clauses"], rows)
    yield ""
    for verdict in ("PASS", "XFAIL", "SPEC-GAP", "NOT-APPLICABLE", "UNTESTABLE"):
        yield f"- {verdict_mark(verdict)} {VERDICT_MEANING[verdict]}"
    yield ""


def _differences(sources: Sources, path: str, recorded: Sequence[Released], tested: Sequence[Row], what: str) -> Iterator[str]:
    """Show the clauses on which they differ, and where every clause stands."""
    differing = [row for row in tested if _differs(row)]
    registers = (
        (link(path, _part(path, name), register_title(name)), str(len(rows)), str(sum(map(_differs, rows))))
        for name, rows in _by_register(sources, tested).items()
    )
    yield f"## Where a {what} differs {{ #differences }}"
    yield ""
    yield f"{len(differing)} of {len(tested)} clauses. The clause leads to the reasons."
    yield ""
    yield from _rows(sources, path, recorded, differing)
    yield ""
    yield "## Every clause"
    yield ""
    yield from table(["clauses of", "tested", f"where a {what} differs"], registers)


def _differs(row: Row) -> bool:
    return any(cell.verdict not in _AGREED for cell in row.cells)


def _by_register(sources: Sources, rows: Sequence[Row]) -> dict[str, list[Row]]:
    found = {name: [row for row in rows if sources.register_of[row.clause] == name] for name in sources.registers}
    return {name: mine for name, mine in found.items() if mine}


def _part(path: str, register: str) -> str:
    return f"{path.removesuffix('.md')}/{register.replace('_', '-')}.md"


def _registers(sources: Sources, home: str, recorded: Sequence[Released], tested: Sequence[Row]) -> Iterator[Page]:
    """Yield a page for each register, with all of its clauses."""
    for name, rows in _by_register(sources, tested).items():
        path, title = _part(home, name), register_title(name)
        lines = [
            _WIDE,
            f"# Results: {title}",
            "",
            f"The clauses that are tested; their texts and the reasons: {link(path, register_path(name), title)}.",
            f"What the words mean: {link(path, home, 'results')}.",
            "",
            *_rows(sources, path, recorded, rows),
        ]
        yield Page(path, title, joined(lines))


def _rows(sources: Sources, path: str, recorded: Sequence[Released], rows: Iterable[Row]) -> Iterator[str]:
    """Write the verdicts: a table on a wide screen; on a narrow one each clause is a block, where each verdict says whose it is."""
    names = [one.name for one in recorded]
    yield '<table class="pc-matrix"><thead><tr>'
    yield "".join(f"<th>{escape(head)}</th>" for head in ("clause", "level", *names))
    yield "</tr></thead><tbody>"
    for row in rows:
        address = escape(address_from(path, clause_place(sources, row.clause)))
        cells = "".join(_cell(name, cell) for name, cell in zip(names, row.cells, strict=True))
        yield f'<tr><td><a href="{address}"><code>{escape(row.clause)}</code></a></td><td>{level_mark(row.level)}</td>{cells}</tr>'
    yield "</tbody></table>"


def _cell(name: str, cell: Cell) -> str:
    reasons = "; ".join(one.text for one in cell.reasons[:3] if one.text)
    title = f' title="{escape(reasons, quote=True)}"' if reasons and cell.verdict not in _AGREED else ""
    words = SHORT_VERDICTS.get(cell.verdict, cell.verdict.lower())
    return f'<td data-of="{escape(name)}"><span class="pc-verdict pc-{cell.verdict.lower()}"{title}>{words}</span></td>'
