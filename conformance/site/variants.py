"""The page of the legal variants: what they are, and what each of them does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conformance.clients.variants.run import load_client_variants
from conformance.site.markup import Page, clause_link, code, joined, link, prose, table
from conformance.site.registers import DIVERGENCES, QUESTIONS, load_entries
from conformance.site.sources import Sources
from conformance.variants.model import Variant
from conformance.variants.run import load_variants

PATH: Final = "reference/variants.md"
TITLE: Final = "Legal variants"


def variants_page(sources: Sources) -> Page:
    """Return the page."""
    variants, clients = load_variants(), load_client_variants()
    lines = [
        f"# {TITLE}",
        "",
        "A suite that accuses a right broker is not used twice. A legal variant is the reference broker, right in every clause, that",
        "uses what the texts leave open otherwise than the reference does: other ids, another order, other portions, other times. No",
        "case may fail or be an ERROR against any of them. A warning is allowed for a SHOULD that the variant says it does not keep,",
        f"and INCONCLUSIVE where it is late. {link(PATH, 'decisions/0012-legal-variants.md', 'Decision 0012')} has the reasons.",
        "",
        f"{code('python -m conformance.variants')} runs all of them, and says which cases accuse them. With names it runs these only;",
        f"{code('--select GLOB')} chooses cases, {code('--verbose')} shows why a case accuses. {code('make variants')} runs all variants.",
        f"To add one, write a function beside its neighbours in {code('conformance/variants')}; its docstring says what it does, its",
        "arguments what leaves it free.",
        "",
        f"There are {len(variants)}:",
        "",
        *_table(sources, variants),
        "",
        "## Clients",
        "",
        "In the same way, no case for clients may accuse a legal variant of the reference client.",
        f"{code('python -m conformance.clients.variants')} runs them; they are in {code('conformance/clients/variants')}.",
        f"There are {len(clients)}:",
        "",
        *_table(sources, clients),
    ]
    return Page(PATH, TITLE, joined(lines))


def _table(sources: Sources, variants: Mapping[str, Variant]) -> list[str]:
    return table(
        ["variant", "what it does", "left free by", "SHOULD that it does not keep"],
        (
            (code(one.name), prose(one.freedom), _sources_of(sources, one), _clauses(sources, sorted(one.not_kept)))
            for one in sorted(variants.values(), key=lambda one: one.name)
        ),
    )


def unknown_sources(sources: Sources, variant: Variant) -> list[str]:
    """Return what a variant names as the source of its freedom although it is neither a clause nor an entry of a register."""
    return [one for one in (*variant.left_free_by, *variant.not_kept) if one not in sources.suite.clauses and one not in _entries()]


def _entries() -> dict[str, str]:
    pages = {"questions": QUESTIONS, "divergences": DIVERGENCES}
    return {entry.id: page for name, page in pages.items() for entry in load_entries(name)}


def _sources_of(sources: Sources, variant: Variant) -> str:
    entries = _entries()
    return ", ".join(
        link(PATH, f"{entries[one]}#{one}", one) if one in entries else clause_link(sources, PATH, one) for one in variant.left_free_by
    )


def _clauses(sources: Sources, names: list[str]) -> str:
    return ", ".join(clause_link(sources, PATH, name) for name in names)
