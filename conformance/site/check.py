"""Checks a built site: broken links, elements that are not SVG inside a drawing, and anything that a reader would
fetch from elsewhere.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import unquote

from conformance.report.wording import listed, number_of

_ID = re.compile(r'<[^>]*\s(?:id|name)="([^"]*)"')
_HREF = re.compile(r'<a\b[^>]*?\shref="([^"]*)"')
_LOADED = re.compile(r'<(?:script|img|iframe|source|video|audio|embed|object|link)\b[^>]*?\s(?:src|href|data)="((?:https?:)?//[^"]*)"')
_IMPORTED = re.compile(r"""(?:\bimport\s*\(\s*|@import\s+|\burl\(\s*)["']?((?:https?:)?//[^"')\s]*)""")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//")
_SVG = re.compile(r"<svg\b.*?</svg\s*>", re.DOTALL)
_ELEMENT = re.compile(r"</?([a-z][a-z0-9:-]*)")
_DRAWN = frozenset({"clippath", "defs", "g", "path", "rect", "style", "svg", "text", "title", "use"})
"""What drawings consist of, in small letters; a link is not among them, since it would not have been drawn."""
_NOT_A_PAGE = "404.html"
"""The page for missing pages: where it is shown is not known, so its links begin at the top."""


def problems(site: Path) -> list[str]:
    """Return the errors, one line each.

    Args:
        site: The folder that holds the built site.
    """
    pages = {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    anchors = {name: {unescape(found) for found in _ID.findall(text)} for name, text in pages.items()}
    dead: dict[str, list[str]] = {}
    for name, text in pages.items():
        for place in _dead_links(site, name, text, anchors) if name != _NOT_A_PAGE else ():
            dead.setdefault(place, []).append(name)
    wrong = [f"there is no {place}, linked from {listed(names, 3)}" for place, names in dead.items()]
    for name, text in pages.items():
        wrong += _foreign(name, text)
        wrong += [f"{name}: would load {url}" for url in (*_LOADED.findall(text), *_IMPORTED.findall(text))]
    for path in sorted(site.rglob("*.css")):
        found = _IMPORTED.findall(path.read_text(encoding="utf-8"))
        wrong += [f"{path.relative_to(site).as_posix()}: would load {url}" for url in found]
    return list(dict.fromkeys(wrong))


def _foreign(name: str, text: str) -> Iterator[str]:
    """Yield the elements inside the drawings of a page that can't be part of one, each once."""
    foreign = Counter(element for drawing in _SVG.findall(text) for element in set(_ELEMENT.findall(drawing.lower())) - _DRAWN)
    for element, count in sorted(foreign.items()):
        yield f"{name}: <{element}> inside {number_of(count, 'drawing')}"


def _dead_links(site: Path, name: str, text: str, anchors: dict[str, set[str]]) -> Iterator[str]:
    """Return the targets of broken links of a page, each once."""
    for link in dict.fromkeys(map(unescape, _HREF.findall(text))):
        if _ELSEWHERE.match(link):
            continue
        target, _, anchor = link.partition("#")
        place = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(target))) if target else name
        if place not in anchors:
            if not (site / place).is_file():
                yield place
        elif anchor and unquote(anchor) not in anchors[place]:
            yield f"{place}#{anchor}"
