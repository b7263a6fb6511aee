"""The index of the search, which every page loads: pages of people by their whole text, generated ones by the names on them."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from conformance.site.markup import clause_place
from conformance.site.sources import Sources

INDEX: Final = "search/search_index.json"
"""Where the theme looks for it."""
MOST: Final = 200_000
"""Bytes of the index, compressed as servers send it."""
_NAMES: Final = (
    "benchmarks",
    "contributing",
    "explored",
    "reference/cases/",
    "reference/clauses/",
    "reference/cli",
    "reference/corpora",
    "reference/formats",
    "reference/interop",
    "reference/pairs",
    "reference/unseen",
    "reference/variants",
)
"""Pages of which the headings are searched; of clauses their statements, too."""
_TITLES: Final = ("changelog", "decisions/", "reference/client-results", "reference/python/", "reference/results")
"""Pages of which the title is searched."""
_BEGINNINGS: Final = ("findings/", "notebooks/")
"""Pages of which the headings are searched, with the first sentence behind each."""
_REGISTERS: Final = ("reference/divergences", "reference/questions")
"""Pages that are searched without what they refer to: a clause is found by its id on its own page."""
_REFERENCES: Final = re.compile(r"\s*<li>(Clauses|Finding): .*?</li>", re.DOTALL)
_PARAGRAPH: Final = re.compile(r"<p>(.*?)</p>", re.DOTALL)
_TAG: Final = re.compile(r"<[^>]*>")
_SENTENCE: Final = re.compile(r".*?[.!?](?=\s|$)", re.DOTALL)


def thinned(text: str, sources: Sources) -> str:
    """Return the index without what makes it large: conversations, transcripts, code, tables of results.

    A case is found by its id, a clause by its id and its statement, a part of a notebook or a finding by its heading and first sentence,
    a divergence or a question by its words, not by what it refers to.

    Args:
        text: The index as the search plugin writes it, JSON.
        sources: Whose clauses they are.
    """
    statements = {clause_place(sources, one.id).replace(".md#", ".html#"): one.text for one in sources.suite.clauses.values()}
    index: dict[str, Any] = json.loads(text)
    index["docs"] = [entry for entry in index["docs"] if not (entry["location"].startswith(_TITLES) and "#" in entry["location"])]
    for entry in index["docs"]:
        place = entry["location"]
        if place.startswith((*_NAMES, *_TITLES)):
            entry["text"] = statements.get(place, "")
        elif place.startswith(_BEGINNINGS):
            entry["text"] = _first_sentence(entry["text"])
        elif place.startswith(_REGISTERS):
            entry["text"] = _REFERENCES.sub("", entry["text"])
    return json.dumps(index, ensure_ascii=False, separators=(",", ":"))


def _first_sentence(text: str) -> str:
    """Return the first sentence of the first paragraph, without its marks."""
    paragraph = _PARAGRAPH.search(text)
    if paragraph is None:
        return ""
    plain = _TAG.sub("", paragraph[1])
    sentence = _SENTENCE.match(plain)
    return f"<p>{sentence[0] if sentence else plain}</p>"
