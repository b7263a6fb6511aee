"""The clause registers: one page for each register, one section for each clause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from conformance.engine.model import Clause, Register
from conformance.engine.step import Role
from conformance.report.findings import findings_of
from conformance.report.matrix import Cell, build_matrix
from conformance.report.wording import number_of, section_words
from conformance.site.families import family_words
from conformance.site.markup import (
    Page,
    case_link,
    clause_link,
    code,
    joined,
    level_mark,
    link,
    plain,
    prose,
    table,
    verdict_mark,
)
from conformance.site.sources import Released, Sources
from refimpl.proposals import PROPOSALS

HOME = "reference/clauses/index.md"
BASIS = {
    "keyword": "the level is a keyword of the text",
    "indicative": "the text states it as a fact",
    "observed": "observed on real peers",
    "settled": "settled by this project, where the text leaves it open",
}
_QUIET = ("PASS", "NOT-APPLICABLE", "NOT-RUN", "EXCLUDED")


def register_title(name: str) -> str:
    """Return the title of a register in the site: `pip145_watch` is `PIP-145, watch`."""
    head, _, rest = name.partition("_")
    shown = next((proposal.name for proposal in PROPOSALS if proposal.register == head), head.capitalize())
    return f"{shown}, {rest.replace('_', ' ')}" if rest else shown


def register_path(name: str) -> str:
    """Return the page of a register."""
    return f"reference/clauses/{name.replace('_', '-')}.md"


def clause_pages(sources: Sources) -> list[Page]:
    """Return the page that lists the registers, and one page for each."""
    sides: tuple[Role, ...] = ("broker", "client")
    rows = {side: build_matrix([one.report for one in sources.recorded(side)]).rows for side in sides}
    cells = {row.clause: row.cells for side in sides for row in rows[side] if sources.suite.clauses[row.clause].side == side}
    return [_index(sources), *(_register(sources, name, cells) for name in sources.registers)]


def _index(sources: Sources) -> Page:
    rows = []
    for name, register in sources.registers.items():
        tested = sum(clause.excluded is None for clause in register.clauses)
        page = register_path(name)
        families = " · ".join(link(HOME, f"{page}#{family.replace('.', '-')}", family_words(family)) for family in sources.families(name))
        rows.append(
            (
                link(HOME, page, register_title(name)),
                _source(register),
                str(len(register.clauses)),
                str(tested),
                families,
            )
        )
    text = [
        "# Clauses",
        "",
        "What must hold, one checkable statement at a time, in our own words. Each clause says where it comes from, what a peer",
        "suffers without it, which cases test it, and what six recorded releases of Apache Pulsar, or six recorded clients, do.",
        "",
        *table(["register", "source", "clauses", "tested", "about"], rows),
        "",
        *_two_tiers(sources),
        "The level says how severe a failure is: a MUST fails a run, a SHOULD gives a warning, a MAY is a free choice that a peer must",
        "make consistently. The verdicts are explained in "
        + link(HOME, "test-your-broker.md#what-a-verdict-means", "Test your broker")
        + ".",
    ]
    return Page(HOME, "Overview", joined(text))


def _source(register: Register) -> str:
    title = plain(register.source.title)
    return f"[{title}]({register.address})" if register.address else title


def _register(sources: Sources, name: str, cells: Mapping[str, Sequence[Cell]]) -> Page:
    register = sources.registers[name]
    path = register_path(name)
    lines = [f"# Clauses: {register_title(name)}", ""]
    excluded = sum(clause.excluded is not None for clause in register.clauses)
    lines += [
        f"{number_of(len(register.clauses), 'clause')}, {excluded} of them not tested, each with its reason. "
        f"Source: {_source(register)}. File: {code(f'conformance/clauses/{name}.yaml')}.",
        "",
    ]
    for family, clauses in sources.families(name).items():
        lines += [f"## {family_words(family)} {{ #{family.replace('.', '-')} }}", ""]
        for clause in clauses:
            lines += [*_clause(sources, path, clause, cells), ""]
    return Page(path, register_title(name), joined(lines))


def _clause(sources: Sources, path: str, clause: Clause, cells: Mapping[str, Sequence[Cell]]) -> Iterator[str]:
    yield f"### {clause.id} {{ #{clause.id} .pc-id }}"
    yield ""
    facts = [level_mark(clause.level), f"for the {clause.side}"]
    if section := section_words(clause.section):
        facts.append(plain(section))
    facts.append(BASIS[clause.basis])
    if clause.profiles != ["default", "as-written"]:
        facts.append(f"only in the profile {' and '.join(clause.profiles)}")
    yield f'<p class="pc-facts" markdown>{" · ".join(facts)}</p>'
    yield ""
    if clause.says:
        yield f"The text: {prose(clause.says)}"
        yield ""
    yield f"{'→ ' if clause.says else ''}{prose(clause.text)}"
    yield ""
    if clause.effect:
        yield f"**Without it:** {prose(clause.effect)}"
        yield ""
    row = cells.get(clause.id)
    if clause.excluded:
        yield f"**Not tested:** {prose(clause.excluded)}"
    elif row is not None:
        yield from verdict_row(sources.recorded(clause.side), path, row)
    elif clause.profiles == ["as-written"]:
        yield "**Results:** none; real releases are judged in the profile default."
    yield ""
    yield from _relations(sources, path, clause)
    doubts = list(_doubt(sources, path, clause))
    if doubts:
        yield from ("", '<details markdown class="pc-more"><summary>How its cases were tested</summary>', "", *doubts, "", "</details>")


def _relations(sources: Sources, path: str, clause: Clause) -> Iterator[str]:
    cases = sources.suite.cases_of.get(clause.id, [])
    if cases:
        yield f"- Cases: {', '.join(case_link(path, case) for case in cases)}"
    if clause.observed_by:
        yield f"- Checked in every conversation, by the monitor {code(clause.observed_by)}; no case is about it alone"
    if clause.soon:
        yield f"- Judged in every case that expects such a frame: {link(path, 'how-soon.md', 'how soon frames come')}"
    if clause.depends_on:
        yield f"- Depends on: {', '.join(clause_link(sources, path, name) for name in clause.depends_on)}"
    if clause.id in sources.resting:
        yield f"- Needed by: {', '.join(clause_link(sources, path, name) for name in sources.resting[clause.id])}"
    if found := findings_of(clause.id):
        yield f"- Findings: {', '.join(link(path, f'findings/{one.page}.md', one.title) for one in found)}"
    if clause.aliases:
        yield f"- Also called: {', '.join(map(code, clause.aliases))}"


def _two_tiers(sources: Sources) -> Iterator[str]:
    """Say how the cases themselves were tested, and what that does not show."""
    if sources.doubt is None:
        return
    charged, faults = number_of(len(sources.doubt.charged), "clause"), number_of(len(sources.doubt.mutants), "broker")
    yield (
        "The cases are tested in two ways. **Damaged logs:** the log of a passing run is damaged at each step that names a clause, and the "
        f"clause must fail. That holds for {charged}; {len(sources.doubt.uncharged)} have a reason instead. It shows that an expectation "
        "can fail. It does not show that the input of a case tells a right broker from a wrong one. "
        f"**Faulty brokers:** {faults} with one plausible fault each must fail a case that cites the clause. They show that for these "
        "faults. They do not show that there are no others: a clause without a faulty broker is tested only as far as its damages go."
    )
    yield ""


def _doubt(sources: Sources, path: str, clause: Clause) -> Iterator[str]:
    """Say which damages to a log are charged to a clause, and which faults of a broker its cases find."""
    if sources.doubt is None:
        return
    damages = sorted({kind for kinds in sources.doubt.charged.get(clause.id, {}).values() for kind in kinds})
    if damages:
        yield f"- Its expectation fails when a log is damaged: {', '.join(damages)}"
    if clause.id in sources.doubt.uncharged:
        yield f"- No damage to a log is charged to it. {prose(sources.doubt.uncharged[clause.id])}"
    for name, mutant in sources.mutants_of.get(clause.id, ()):
        killers = ", ".join(case_link(path, case) for case in mutant.killed_by if case in sources.suite.transcripts)
        count = len(mutant.unrelated_failures)
        others = f"; {'one other case fails' if count == 1 else f'{count} other cases fail'}, too" if count else ""
        yield f"- A broker with a fault, {code(name)}: {prose(mutant.fault.rstrip('.'))}. Found by {killers}{others}"


def verdict_row(recorded: Sequence[Released], path: str, cells: Sequence[Cell]) -> Iterator[str]:
    """Write the verdict of each release or client on one clause: a row of marks, then the reasons, equal ones together.

    The reason of a NOT-APPLICABLE is only in a tool tip.

    Args:
        recorded: Whose columns the cells belong to.
        path: The page.
        cells: One for each column.
    """
    marks = [
        verdict_mark(cell.verdict, released.name, "; ".join(dict.fromkeys(one.text for one in cell.reasons if one.text)))
        for released, cell in zip(recorded, cells, strict=True)
    ]
    yield f'<p class="pc-verdicts">{" ".join(marks)}</p>'
    yield ""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for released, cell in zip(recorded, cells, strict=True):
        if cell.verdict in _QUIET:
            continue
        for text in dict.fromkeys(one.text for one in cell.reasons if one.text):
            link_ = next((entry.link for entry in released.baseline.entries if entry.link and entry.reason == text), "")
            alike.setdefault((cell.verdict, text, link_), []).append(released.name)
    for (verdict, text, target), names in alike.items():
        yield f"- {', '.join(names)}, {_WORDS.get(verdict, verdict.lower())}: {plain(text)}{_source_of(path, target)}"
    if not recorded:
        yield "**Results:** none are recorded."


_WORDS = {"XFAIL": "known to fail", "SPEC-GAP": "left open"}


def _source_of(path: str, target: str) -> str:
    """Write a link to the explanation of a known failure: a finding, or an issue elsewhere."""
    if not target:
        return ""
    if target.startswith("docs/"):
        return f" ({link(path, target.removeprefix('docs/'), 'finding')})"
    if "/issues/" in target or "/pull/" in target:
        owner = "/".join(target.split("/")[3:5])
        return f" ([{owner}#{target.rsplit('/', 1)[-1]}]({target}))"
    return f" ([source]({target}))"
