"""Notebooks in the site, and links into the repository.

Links of notebooks, and of pages that are written by hand, lead to files of the repository, where JupyterLab and viewers of repositories
follow them; in the site they lead to the pages that are made from these files. Nothing in a notebook loads anything, and cell data for
tools only is left out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from html import unescape

from conformance.site.book import TOP
from conformance.site.clauses import HOME, register_path
from conformance.site.interop import PATH as INTEROP
from conformance.site.linking import with_targets
from conformance.site.markup import case_place, clause_place
from conformance.site.pairs import PATH as PAIRS
from conformance.site.registers import DIVERGENCES, QUESTIONS
from conformance.site.results import CLIENT_PATH, PATH
from conformance.site.sources import Sources

_LINK = re.compile(r'<a\b([^>]*?)\bhref="([^"]*)"([^>]*)>(.*?)</a>', re.DOTALL)
_ID = re.compile(r"<code>([a-z0-9]+[./][a-z0-9./-]+)</code>")
_SCRIPT = re.compile(r'<script(?: src=""| type="text/x-mathjax-config"| type="module")>.*?</script>', re.DOTALL)
"""Scripts that mkdocs-jupyter adds for formulas and mermaid diagrams: the notebooks have neither, and mermaid would come from elsewhere."""
_TAGS = re.compile(r'<div class="celltoolbar">.*?</div>\s*</div>', re.DOTALL)
"""Tags of a cell, which tell the check of outputs what to leave out."""
_PAGES = {
    "docs/registers/divergences.yaml": DIVERGENCES,
    "docs/registers/questions.yaml": QUESTIONS,
    "conformance/baselines": PATH,
    "conformance/client_recordings": CLIENT_PATH,
    "conformance/clauses": HOME,
    "conformance/interop.json": INTEROP,
    "conformance/pairs.json": PAIRS,
    "conformance/transcripts": "reference/cases/index.md",
    "proto/pulsar_api.proto": "reference/schema/pulsar_api.proto",
    **{name: path for name, (path, _) in TOP.items()},
}
"""Pages by the files that they are made from."""


def settled(content: str, path: str, sources: Sources) -> str:
    """Make links of a rendered notebook lead to pages of the site, and remove tags of cells and scripts that would load something.

    Args:
        content: HTML.
        path: Where the notebook stands in the site, such as `notebooks/01_wire_format.ipynb`.
        sources: Whose clauses and cases are linked.
    """

    def linked_id(found: re.Match[str]) -> str:
        place = _place_of(found[1], sources)
        return found[0] if place is None else f'<a href="{_address(path, place)}">{found[0]}</a>'

    def moved(found: re.Match[str]) -> str:
        name = unescape(re.sub(r"<[^>]*>", "", found[4])).strip()
        place = _place_of(name, sources) or page_of(unescape(found[2]), path, sources)
        return found[0] if place is None else f'<a{found[1]}href="{_address(path, place)}"{found[3]}>{found[4]}</a>'

    def parts(text: str) -> Iterator[str]:
        at = 0
        for found in _LINK.finditer(text):
            yield _ID.sub(linked_id, text[at : found.start()])
            yield moved(found)
            at = found.end()
        yield _ID.sub(linked_id, text[at:])

    return "".join(parts(_TAGS.sub("", _SCRIPT.sub("", content))))


def in_the_site(text: str, path: str, sources: Sources) -> str:
    """Turn the links of a page that is written by hand, which lead through the repository, into links to pages.

    Args:
        text: Markdown.
        path: The page, below `docs`.
        sources: Whose clauses and cases they are.
    """
    folder = posixpath.dirname(path) or "."

    def led(target: str) -> str:
        place = page_of(target, f"docs/{path}", sources) or target
        page, hash_, anchor = place.partition("#")
        return f"{posixpath.relpath(page, folder)}{hash_}{anchor}" if place != target else target

    return with_targets(text, led)


def page_of(link: str, path: str, sources: Sources) -> str | None:
    """Return the page, with its anchor, that a relative link of a notebook leads to; None for any other link.

    Files of the repository stand for the pages that are made from them.
    """
    target, hash_, anchor = link.partition("#")
    if re.match(r"[a-z]+:", target) or not target:
        return None
    place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if place in _PAGES:
        place = _PAGES[place]
    elif place.startswith("docs/"):
        place = place.removeprefix("docs/")
    elif place.startswith("conformance/clauses/"):
        register = posixpath.basename(place).removesuffix(".yaml")
        place = register_path(register) if register in sources.registers else place
    elif place.startswith("conformance/transcripts/"):
        return _place_of(place.removeprefix("conformance/transcripts/").removesuffix(".yaml"), sources) or place
    return f"{place}{hash_}{anchor}"


def _place_of(name: str, sources: Sources) -> str | None:
    if name in sources.register_of:
        return clause_place(sources, name)
    return case_place(name) if name in sources.suite.transcripts else None


def _address(path: str, place: str) -> str:
    """Return the address of a page as a link from another page of the built site."""
    page, hash_, anchor = place.partition("#")
    head, name = posixpath.split(page)
    stem = name.rpartition(".")[0]
    file = posixpath.join(head, ("index" if stem == "README" else stem) + ".html")
    return f"{posixpath.relpath(file, posixpath.dirname(path) or '.')}{hash_}{anchor}"
