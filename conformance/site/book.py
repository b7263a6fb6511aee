"""All generated pages and files of the site."""

from __future__ import annotations

from pathlib import Path

from conformance.report.sequence import STYLE
from conformance.site.cases import case_pages
from conformance.site.clauses import clause_pages
from conformance.site.commands import command_page
from conformance.site.corpora import corpora_page
from conformance.site.formats import format_page, schemas
from conformance.site.interop import interop_page
from conformance.site.linking import linked, relocated
from conformance.site.markup import Page
from conformance.site.pairs import pairs_page
from conformance.site.programming import programming_pages
from conformance.site.registers import register_pages
from conformance.site.results import result_pages
from conformance.site.sources import REPOSITORY, Sources
from conformance.site.unseen import unseen_page
from conformance.site.variants import variants_page

TOP = {"CONTRIBUTING.md": ("contributing.md", "Add a case or a proposal"), "CHANGELOG.md": ("changelog.md", "Changelog")}
"""Texts at the top of the repository that become pages: their paths and what the navigation calls them."""


def pages(sources: Sources, home: Path = REPOSITORY) -> list[Page]:
    """Return every generated page, in the order of the navigation.

    Args:
        sources: What they are made from.
        home: The repository.
    """
    tops = [
        Page(path, title, linked(relocated((home / name).read_text(encoding="utf-8"), path), path, sources))
        for name, (path, title) in TOP.items()
    ]
    return [
        *clause_pages(sources),
        *case_pages(sources),
        *result_pages(sources),
        corpora_page(),
        interop_page(),
        pairs_page(),
        *register_pages(sources),
        unseen_page(sources),
        variants_page(sources),
        format_page(),
        command_page(),
        *programming_pages(home),
        *tops,
    ]


def other_files() -> dict[str, str]:
    """Return the generated files that are not pages, by path."""
    return {"assets/sequence.css": STYLE + "\n", **schemas()}


def facts(sources: Sources) -> dict[str, str]:
    """Return the values for `{{ name }}` in hand-written pages: numbers that change with the suite."""
    return {
        "clauses": str(len(sources.suite.clauses)),
        "cases": str(len(sources.suite.transcripts)),
        "releases": ", ".join(one.name for one in sources.released),
    }
