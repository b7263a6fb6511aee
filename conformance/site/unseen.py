"""The lists behind the page on what remains unseen, made from the suite."""

from __future__ import annotations

from typing import Final, cast

from conformance.engine.model import Fragment, Transcript
from conformance.engine.step import listed, walk_steps
from conformance.explore.freedoms import load_freedoms
from conformance.judging.likeness import load_differences
from conformance.site.markup import Page, clause_link, code, joined, level_mark, link, plain, prose, table
from conformance.site.sources import Sources
from conformance.suite import Suite
from refimpl.broker.requests import NOT_BUILT
from refimpl.wire.commands import TYPE_BY_FIELD
from refimpl.wire.pulsar_api_pb2 import BaseCommand

PATH: Final = "reference/unseen.md"
TITLE: Final = "Lists of what is not tested"


def unseen_page(sources: Sources) -> Page:
    """Return the page."""
    clauses = sources.suite.clauses.values()
    untested = sorted((clause for clause in clauses if clause.excluded), key=lambda one: one.side)
    freedoms, fields = load_freedoms(), load_differences().fields
    lines = [
        f"# {TITLE}",
        "",
        f"The suite does not test everything: {link(PATH, 'unseen.md', 'What remains unseen')}. These are the lists behind that page.",
        "",
        "## Clauses without a case",
        "",
        *table(
            ["clause", "side", "level", "why"],
            ((clause_link(sources, PATH, one.id), one.side, level_mark(one.level), prose(one.excluded or "")) for one in untested),
        ),
        "",
        "## Commands that no case sends or expects",
        "",
        f"{', '.join(code(name) for name in unused_commands(sources.suite))}.",
        "",
        f"The reference refuses those of transactions: {', '.join(code(_type(name)) for name in NOT_BUILT)}.",
        "",
        "## What exploration does not compare",
        "",
        *table(
            ["field", "why"],
            (
                *((code(one.field), prose(one.reason)) for one in fields),
                *((code(one.field), prose(one.reason)) for one in freedoms.fields),
            ),
        ),
        "",
        "These differences are none:",
        "",
        *table(
            ["difference", "of", "why"],
            ((code(one.signature), plain(", ".join(one.only) or "any broker"), prose(one.reason)) for one in freedoms.differences),
        ),
    ]
    return Page(PATH, TITLE, joined(lines))


def unused_commands(suite: Suite) -> list[str]:
    """Return the commands of the schema that no case sends or expects, as texts name them."""
    used: set[str] = set()
    items: list[Transcript | Fragment] = [*suite.transcripts.values(), *suite.fragments.values()]
    for item in items:
        for _, step in walk_steps(listed(item.steps, "steps")):
            used.update(name for _, frame in step.frames() for name in frame)
    return [_type(name) for name in TYPE_BY_FIELD if name not in used]


def _type(name: str) -> str:
    return BaseCommand.Type.Name(cast("BaseCommand.Type", TYPE_BY_FIELD[name]))
