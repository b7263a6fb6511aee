"""Drawings on Markdown pages: a fence carries the SVG past Markdown, which would take `*` and `_` in it for emphasis."""

from __future__ import annotations

from typing import Any

from conformance.site.markup import fenced


def drawing_block(svg: str) -> list[str]:
    """Return the lines of Markdown that show a drawing.

    Args:
        svg: One `svg` element.
    """
    return fenced(svg, "drawing")


def embedded(source: str, language: str, css_class: str, options: Any, md: Any, **rest: Any) -> str:
    """Return the HTML of a fence named `drawing`, character by character; `pymdownx.superfences` calls it."""
    del language, css_class, options, md, rest
    return f'<div class="pc-drawing" data-search-exclude>{source}</div>'
