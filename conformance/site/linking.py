"""Links in texts that are written by hand: clause and case ids become links, links into the repository lead to pages."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

from conformance.site.markup import case_link, clause_link
from conformance.site.sources import Sources

_FENCED = re.compile(r"^(```+|~~~+).*?^\1[ \t]*$", re.DOTALL | re.MULTILINE)
_ID = re.compile(r"(?<![\[`])`([a-z0-9]+[./][a-z0-9./-]+)`(?![\]`])")
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s]+)\)")


def linked(text: str, path: str, sources: Sources) -> str:
    """Turn every clause and case that is named as code into a link, outside of headings and blocks of code.

    Args:
        text: Markdown.
        path: The page that it stands on.
        sources: Whose clauses and cases they are.
    """

    def linked_id(found: re.Match[str]) -> str:
        name = found[1]
        if name in sources.register_of:
            return clause_link(sources, path, name)
        return case_link(path, name) if name in sources.suite.transcripts else found[0]

    def lines(part: str) -> str:
        return "".join(line if line.startswith("#") else _ID.sub(linked_id, line) for line in part.splitlines(keepends=True))

    return _outside_fences(text, lines)


def relocated(text: str, path: str) -> str:
    """Turn a file at the top of the repository into a page: its links to `docs/` lead to the pages.

    Args:
        text: Markdown of a file at the top.
        path: The page that it becomes.
    """

    def moved(found: re.Match[str]) -> str:
        place = found[1]
        if not place.startswith("docs/"):
            return found[0]
        return f"]({posixpath.relpath(place.removeprefix('docs/'), posixpath.dirname(path) or '.')})"

    return _outside_fences(text, lambda part: _LINK.sub(moved, part))


def with_targets(text: str, change: Callable[[str], str]) -> str:
    """Change the targets of links into the repository, outside of blocks of code.

    Args:
        text: Markdown.
        change: Returns the new target.
    """
    return _outside_fences(text, lambda part: _LINK.sub(lambda found: f"]({change(found[1])})", part))


def _outside_fences(text: str, change: Callable[[str], str]) -> str:
    parts = []
    at = 0
    for found in _FENCED.finditer(text):
        parts += [change(text[at : found.start()]), found[0]]
        at = found.end()
    return "".join([*parts, change(text[at:])])
