"""The registers of divergences and of open questions: hand-written entries, and the fields of the profile."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from conformance.engine.parts import RELEASES
from conformance.engine.source import parse, read_source
from conformance.site.linking import linked
from conformance.site.markup import Page, clause_link, code, joined, link, plain, prose
from conformance.site.sources import REPOSITORY, Sources
from refimpl.proposals import PROPOSALS
from refimpl.proposals.profiles import choices

HOME = REPOSITORY / "docs" / "registers"
DIVERGENCES = "reference/divergences.md"
QUESTIONS = "reference/questions.md"


class Entry(BaseModel):
    """One entry.

    Attributes:
        id: The place in the page.
        title: Title, as a plain statement.
        about: The proposal, or `core`.
        text: What the proposal says, or leaves open.
        observed: What releases do.
        here: What the clauses and the reference do.
        as_written: Why the profile `as-written` does not follow the text either; empty: it does, or nothing differs.
        releases: Those that `observed` speaks of.
        clauses: Those that the entry is about.
        findings: Names of pages under docs/findings.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    title: str
    about: str
    text: str
    observed: str
    here: str
    as_written: str = ""
    releases: list[str] = []
    clauses: Annotated[list[str], Field(min_length=1)]
    findings: list[str] = []

    @field_validator("releases")
    @classmethod
    def _known_releases(cls, releases: list[str]) -> list[str]:
        unknown = set(releases) - set(RELEASES)
        if unknown:
            raise ValueError(f"unknown release {', '.join(sorted(unknown))}; known: {', '.join(RELEASES)}")
        return releases


class Entries(BaseModel):
    """A file with entries."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1]
    entries: list[Entry]


@dataclass(frozen=True)
class Difference:
    """One field of a profile: its meaning, its value in the two profiles, and its other possible values."""

    name: str
    words: str
    default: object
    as_written: object
    others: tuple[object, ...]


def load_entries(name: str, home: Path = HOME) -> list[Entry]:
    """Read one register.

    Args:
        name: `divergences` or `questions`.
        home: The folder.

    Raises:
        SourceProblem: There is an error in the file; named with its line.
    """
    return parse(Entries, read_source(home / f"{name}.yaml", f"docs/registers/{name}.yaml")).entries


def differences(profiles: Mapping[str, Any]) -> list[Difference]:
    """Return the fields of the profiles of a proposal with their documentation, and what `default` and `as-written` say of each."""
    default, written = profiles["default"], profiles["as-written"]
    words = _field_words(type(default))
    found = []
    for one in fields(default):
        values = getattr(default, one.name), getattr(written, one.name)
        others = tuple(value for value in choices(type(default), one.name) if value not in values)
        found.append(Difference(one.name, words.get(one.name, ""), *values, others))
    return found


def _field_words(cls: type[Any]) -> dict[str, str]:
    """Return the text below each field of a class, or that of its line under `Attributes:`."""
    found = {}
    tree = ast.parse(inspect.cleandoc(inspect.getsource(cls))).body[0]
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            value = text.value.value if isinstance(text.value, ast.Constant) else ""
            found[field.target.id] = " ".join(str(value).split())
    name = ""
    for line in (inspect.getdoc(cls) or "").partition("Attributes:")[2].splitlines():
        head, colon, rest = line.strip().partition(":")
        if colon and line.startswith("    ") and not line.startswith("     ") and head.isidentifier():
            name = head
            found.setdefault(name, rest.strip())
        elif name and line.strip():
            found[name] = f"{found[name]} {line.strip()}"
    return found


def register_pages(sources: Sources) -> list[Page]:
    """Return the pages of divergences and of open questions."""
    return [_divergences(sources), _questions(sources)]


def _divergences(sources: Sources) -> Page:
    lines = [
        "# Divergences",
        "",
        "Where a document and live brokers disagree. The clauses say what is right; what a release does instead is in its baseline,",
        f"and in a {link(DIVERGENCES, 'findings/README.md', 'finding')} if a client suffers from it. What the documents leave open is",
        f"under {link(DIVERGENCES, QUESTIONS, 'Open questions')}. The reference can behave either way: see",
        "[its two profiles](#two-profiles).",
        "",
    ]
    entries = load_entries("divergences")
    lines += ["## Texts and brokers", ""]
    for entry in entries:
        lines += [*_entry(sources, DIVERGENCES, entry, ("The text", "Brokers", "Here")), ""]
    lines += [
        "## Two profiles of the reference { #two-profiles }",
        "",
        "Where real peers differ from the text, the reference has both behaviours: `default` is what real peers speak, or what was",
        "settled here if no peer speaks a proposal; `as-written` follows the text. These are all differences; `pulsar-conformance broker`",
        "chooses one of them with `--set FIELD=as-written`. To choose a reading of neither profile, give its value,",
        "`--set FIELD=VALUE`.",
        "",
    ]
    for proposal in PROPOSALS:
        for one in differences(proposal.profiles):
            lines += [f"### {one.name} {{ #profile-{one.name.replace('_', '-')} }}", ""]
            lines += [f"{proposal.name}. {linked(prose(one.words), DIVERGENCES, sources)}", ""]
            lines += [f"- default: {_value(one.default)}", f"- as-written: {_value(one.as_written)}"]
            lines += [*(f"- neither: {_value(value)}" for value in one.others), ""]
    lines += ["### Clauses of one profile { #clauses-of-one-profile }", ""]
    for profile in ("default", "as-written"):
        names = [clause.id for clause in sources.suite.clauses.values() if clause.profiles == [profile]]
        lines.append(f"- {profile}: {', '.join(clause_link(sources, DIVERGENCES, name) for name in names)}")
    lines += ["", "### Where as-written is not the text { #exceptions }", ""]
    lines += ["In these points no profile follows the text.", ""]
    lines += [
        f"- {plain(entry.about)}: [{prose(entry.title)}](#{entry.id}). {prose(entry.as_written)}" for entry in entries if entry.as_written
    ]
    return Page(DIVERGENCES, "Divergences", joined(lines))


def _value(value: object) -> str:
    return code(str(value).lower() if isinstance(value, bool) else value)


def _questions(sources: Sources) -> Page:
    lines = [
        "# Open questions",
        "",
        "What the documents leave open, and how it was settled here: by what releases do if they agree, by choice otherwise.",
        "The author of a broker who has only the documents would have to guess each of these.",
        "",
    ]
    for entry in load_entries("questions"):
        lines += [*_entry(sources, QUESTIONS, entry, ("Open", "Brokers", "Settled")), ""]
    return Page(QUESTIONS, "Open questions", joined(lines))


def _entry(sources: Sources, path: str, entry: Entry, words: tuple[str, str, str]) -> Iterator[str]:
    yield f"### {entry.title} {{ #{entry.id} }}" if path == DIVERGENCES else f"## {entry.title} {{ #{entry.id} }}"
    yield ""
    facts = [plain(entry.about), *([", ".join(entry.releases)] if entry.releases else [])]
    yield f'<p class="pc-facts">{" · ".join(facts)}</p>'
    yield ""
    for word, text in zip(words, (entry.text, entry.observed, entry.here), strict=True):
        yield f"- **{word}:** {prose(text)}"
    yield f"- Clauses: {', '.join(clause_link(sources, path, clause) for clause in entry.clauses)}"
    if entry.findings:
        yield f"- Finding: {', '.join(link(path, f'findings/{name}.md', name) for name in entry.findings)}"
