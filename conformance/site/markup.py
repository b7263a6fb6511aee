"""Markdown for the site: pages, links that are checked, tables, and the small marks that show a verdict."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from conformance.report.wording import VERDICT_MEANING, one_line
from conformance.site.sources import Sources

SHORT_VERDICTS = {
    "PASS": "pass",
    "FAIL": "fail",
    "WARN": "warn",
    "ERROR": "error",
    "XFAIL": "known fail",
    "XPASS": "passes",
    "SPEC-GAP": "open",
    "NOT-APPLICABLE": "n/a",
    "UNTESTABLE": "untested",
    "INCONCLUSIVE": "unclear",
    "EXCLUDED": "excluded",
    "NOT-RUN": "not run",
}
"""Verdicts as a narrow column shows them; the class of the mark is the verdict in lower case."""


@dataclass(frozen=True)
class Page:
    """One page of the site.

    Attributes:
        path: Its place below the pages that are written by hand, ending in `.md`.
        title: Its title in the navigation.
        text: Markdown; begins with the heading.
    """

    path: str
    title: str
    text: str


def plain(text: object) -> str:
    """Escape text of a file or a peer, so that Markdown and HTML take every character literally."""
    return re.sub(r"([\\`*_{}\[\]<>#|~^$])", r"\\\1", one_line(text).replace("&", "&amp;")).replace("\\<", "&lt;").replace("\\>", "&gt;")


def prose(text: str) -> str:
    """Escape text of this project, except for code between backticks."""
    parts = text.split("`")
    return "".join(code(part) if index % 2 else plain(part) for index, part in enumerate(parts)) if len(parts) % 2 else plain(text)


def code(text: object) -> str:
    """Write text as code in a line, also in a cell of a table."""
    shown = one_line(text).replace("|", "&#124;")
    if "`" in shown or "&#124;" in shown:
        return f"<code>{escape(one_line(text)).replace('|', '&#124;').replace('`', '&#96;')}</code>"
    return f"`{shown}`"


def link(origin: str, target: str, text: str) -> str:
    """Write a link from one page to another.

    Args:
        origin: Path of the page that the link stands on.
        target: Path of a page, with `#` and an anchor if it leads to a place in it.
        text: Markdown.
    """
    return f"[{text}]({_from(origin, target)})"


def address_from(origin: str, target: str) -> str:
    """Return the address of a place in the site as HTML names it, seen from a page.

    Args:
        origin: Path of the page that the link stands on.
        target: Path of a page, with `#` and an anchor if it leads to a place in it.
    """
    return re.sub(r"\.md(?=#|$)", ".html", _from(origin, target))


def _from(origin: str, target: str) -> str:
    page, hash_, anchor = target.partition("#")
    relative = "" if page == origin else posixpath.relpath(page, posixpath.dirname(origin) or ".")
    return f"{relative}{hash_}{anchor}"


def clause_place(sources: Sources, clause: str) -> str:
    """Return page and anchor of a clause."""
    return f"reference/clauses/{sources.register_of[clause].replace('_', '-')}.md#{clause}"


def case_place(case: str) -> str:
    """Return page and anchor of a case."""
    group = "-".join(case.split("/")[:2])
    return f"reference/cases/{group}.md#{case.replace('/', '-')}"


def clause_link(sources: Sources, origin: str, clause: str) -> str:
    """Write a link to a clause."""
    return link(origin, clause_place(sources, clause), code(clause))


def case_link(origin: str, case: str) -> str:
    """Write a link to a case."""
    return link(origin, case_place(case), code(case))


def verdict_mark(verdict: str, before: str = "", explained: str = "") -> str:
    """Write a verdict as a coloured word, the meaning in its tool tip.

    Args:
        verdict: Its name.
        before: The subject of the verdict, shown in front of it.
        explained: Why; without it what the verdict means.
    """
    title = escape(explained or VERDICT_MEANING.get(verdict, "Nothing was recorded."), quote=True).replace("|", "&#124;")
    label = f"<i>{escape(before)}</i> " if before else ""
    return f'<span class="pc-verdict pc-{verdict.lower()}" title="{title}">{label}{SHORT_VERDICTS.get(verdict, verdict.lower())}</span>'


def level_mark(level: str) -> str:
    """Write a level as a mark."""
    return f'<span class="pc-level pc-{level.lower()}">{level}</span>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Write a table; cells are Markdown in which a vertical bar is escaped already."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return [*lines, *("| " + " | ".join(cell or " " for cell in row) + " |" for row in rows)]


def indented(lines: Iterable[str], by: int = 4) -> list[str]:
    """Indent lines, as Markdown requires for nested content; empty lines stay empty."""
    return [" " * by + line if line else "" for line in lines]


def fenced(text: str, language: str = "") -> list[str]:
    """Write text as a block of code, behind a fence that the text does not contain."""
    fence = "```"
    while fence in text:
        fence += "`"
    return [f"{fence}{language}", *text.rstrip("\n").splitlines(), fence]


def joined(parts: Iterable[str]) -> str:
    """Write the lines of a page."""
    return "\n".join(parts).rstrip() + "\n"
