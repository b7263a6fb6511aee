"""Drawings on Markdown pages: a fence protects the SVG from Markdown, which would take `*` and `_` in it for emphasis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from conformance.site.markup import fenced


def drawing_block(svg: str) -> list[str]:
    """Return the lines of Markdown that show a drawing.

    Args:
        svg: One `svg` element.
    """
    return fenced(svg, FENCE["name"])


def _embedded(source: str, *_: Any, **__: Any) -> str:
    """Return the HTML of a drawing; every character stays as it is."""
    return f'<div class="pc-drawing" data-search-exclude>{source}</div>'


FENCE: Final[Mapping[str, Any]] = {"name": "drawing", "class": "", "format": _embedded}
"""What `pymdownx.superfences` needs to know."""
