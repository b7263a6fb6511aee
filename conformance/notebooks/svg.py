"""Make the SVG of matplotlib small, and safe in a page with other pictures: same picture, a third of the characters."""

from __future__ import annotations

import hashlib
import re
from collections import Counter

_STYLE = re.compile(r' style="([^"]*)"')


def compact(svg: str) -> str:
    """Rewrite one picture.

    Args:
        svg: What matplotlib wrote, with `svg.fonttype` none.

    Returns:
        One `svg` element: no prolog, no comments and no metadata, nothing that styles the page around it, no ids but those
        that are referred to, numbers with two decimals. Styles that recur become classes; equal styles have equal names.
    """
    svg = svg[svg.index("<svg ") :]
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' transform="rotate\(-0 [^"]*\)"| clip-path="[^"]*"(?=[^>]*style="fill: none; opacity: 0")', "", svg)
    svg = re.sub(r"<g id=\"[^\"]*\"", "<g", svg)
    svg = re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}".rstrip("0").removesuffix("."), svg)
    svg = re.sub(r"\s+", " ", svg)
    svg = re.sub(r"> <", "><", svg).replace(" />", "/>").strip()
    return _one_element_a_line(_with_classes(svg))


def _with_classes(svg: str) -> str:
    counted = Counter(_STYLE.findall(svg))
    names = {style: f"m{hashlib.sha256(style.encode()).hexdigest()[:6]}" for style, number in counted.items() if number > 2}
    rules = "".join(f".{name}{{{re.sub(r': ', ':', style)}}}" for style, name in sorted(names.items()))
    svg = _STYLE.sub(lambda found: f' class="{names[found[1]]}"' if found[1] in names else found[0], svg)
    end = svg.index(">") + 1
    return f"{svg[:end]}<style>{rules}</style>{svg[end:]}"


def _one_element_a_line(svg: str) -> str:
    """Break lines where a difference between two versions should be seen, and drop groups that group nothing."""
    before = ""
    while before != svg:
        before, svg = svg, re.sub(r"<g>((?:<(?:path|use|text|rect)\b[^>]*/>|<text\b[^>]*>[^<]*</text>)*)</g>", r"\1", svg)
    return re.sub(r"(?<=>)(?=<(?:text|path|use|g|style|/svg)\b)", "\n", svg)
