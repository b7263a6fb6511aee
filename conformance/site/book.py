"""All generated pages and files of the site."""

from __future__ import annotations

from pathlib import Path

from conformance import __version__
from conformance.engine import log
from conformance.report.sequence import STYLE
from conformance.site.cases import case_pages
from conformance.site.clauses import clause_pages
from conformance.site.commands import command_page
from conformance.site.corpora import corpora_page
from conformance.site.findings import read_findings
from conformance.site.formats import format_page, schemas
from conformance.site.interop import interop_page
from conformance.site.linking import linked, relocated
from conformance.site.markup import Page
from conformance.site.pairs import pairs_page
from conformance.site.programming import programming_pages
from conformance.site.registers import register_pages
from conformance.site.results import result_pages
from conformance.site.sources import REPOSITORY, Sources, load_mutants
from conformance.site.unseen import unseen_page
from conformance.site.variants import variants_page

TOP = {
    "CONTRIBUTING.md": ("contributing.md", "Add a case or a proposal"),
    "CHANGELOG.md": ("changelog.md", "Changelog"),
    "SECURITY.md": ("security.md", "Security"),
}
"""Texts at the top of the repository that become pages: their paths and what the navigation calls them."""
_CREATING = ("create_topic", "create_partitioned_topic", "create_scalable_topic")


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
        format_page(sources.suite),
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
        "clauses": f"{len(sources.suite.clauses):,}",
        "cases": f"{len(sources.suite.transcripts):,}",
        "releases": ", ".join(one.name for one in sources.released),
        "mutants": str(len(load_mutants())),
        "findings": str(len(read_findings(sources.suite.clauses))),
        "recorded_clients": str(len(sources.clients)),
        "version": __version__,
        **_load(sources),
    }


def _load(sources: Sources) -> dict[str, str]:
    """Count what a run does to a broker, by the recording that serves for examples: to hundreds, since some of it is chance."""
    run = sources.illustrating[0].report.run if sources.illustrating else None
    events = [event for trial in run.trial_logs.values() for event in trial.events] if run else []
    begun = [event for event in events if isinstance(event, log.Begin)]
    called = [one.detail for one in begun if one.what == "admin"]
    calls = [name for detail in called for call in detail.get("calls", [detail]) for name in call]
    fresh = {name for trial in run.trial_logs.values() for name in trial.begin.fresh.values()} if run else set()
    counted = {
        "namespaces": sum(name.startswith("public/") for name in fresh),
        "connections": sum(one.what == "open" for one in begun),
        "frames_sent": sum(one.what == "send" for one in begun),
        "frames_received": sum(isinstance(one, log.Frame) for one in events),
        "topics_created": sum(name in _CREATING for name in calls),
    }
    minutes = max(1, round(run.seconds / 60)) if run else 0
    return {"minutes": str(minutes), **{name: f"{round(number, -2):,}" for name, number in counted.items()}}
