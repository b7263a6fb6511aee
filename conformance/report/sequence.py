"""Sequence diagrams of a conversation: as SVG, and as plain text for a terminal. Same rows, same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from conformance.report.rows import Row, connections
from conformance.report.wording import middle_cut, one_line

STYLE = (
    ".sq text{font:11px ui-monospace,Menlo,Consolas,monospace;fill:currentColor}"
    ".sq .h,.sq .l,.sq .s{text-anchor:middle}.sq .h{font-weight:600}.sq .l{font-weight:700;font-size:12px}"
    ".sq .s,.sq .t{opacity:.65;font-size:10px}.sq .e{text-anchor:end}"
    ".sq path{stroke:currentColor;fill:none;stroke-width:1.2}.sq .p{opacity:.3;stroke-dasharray:3 4}"
    ".sq .i path{stroke-dasharray:none}.sq .o path,.sq .a path{opacity:.75}"
    ".sq .x{color:#c62828}.sq .x .s,.sq .x .t{opacity:1}.sq .x path{stroke-width:2}.sq .x rect{fill:#c62828;opacity:.1}"
)
"""What the SVG needs of CSS; colours follow the page."""

_ADMIN, _HARNESS, _PEER, _WIDTH = 150, 400, 820, 896
_TOP, _STEP = 34, 34


def render_sequence_svg(
    rows: Sequence[Row], *, peer: str = "broker", title: str = "", standalone: bool = True, harness: str = "harness"
) -> str:
    """Draw a conversation.

    Args:
        rows: What happened.
        peer: The name of the role under test.
        title: What a reader who can't see the picture is told.
        standalone: Whether it brings its own style and namespace, so that it can be a file.
        harness: The name of the other side.

    Returns:
        One `svg` element. All text is text, and nothing is loaded.
    """
    several = len(connections(rows)) > 1
    admin = any(row.way in ("ask", "reply") for row in rows)
    left = 0 if admin else _HARNESS - 120
    height = _TOP + 26 + _STEP * len(rows) + 10
    name_space = ' xmlns="http://www.w3.org/2000/svg"' if standalone else ""
    parts = [
        f'<svg{name_space} class="sq" role="img" viewBox="{left} 0 {_WIDTH - left} {height}" width="{_WIDTH - left}" height="{height}">',
        f"<title>{escape(one_line(title or 'sequence diagram'))}</title>",
    ]
    if standalone:
        parts.append(f"<style>{STYLE}</style>")
    lanes = [(_HARNESS, one_line(harness)), (_PEER, one_line(peer))]
    if admin:
        lanes.insert(0, (_ADMIN, "admin API"))
    for x, name in lanes:
        parts.append(f'<text class="l" x="{x}" y="16">{escape(name)}</text>')
        parts.append(f'<path class="p" d="M{x} 24V{height - 4}"/>')
    for index, row in enumerate(rows):
        parts.append(_drawn(row, _TOP + 26 + _STEP * index, left, several=several, standalone=standalone))
    return "".join([*parts, "</svg>"])


def _drawn(row: Row, y: int, left: int, *, several: bool, standalone: bool) -> str:
    """Draw one row; `y` is that of its arrow."""
    parts = []
    if row.failing:
        parts.append(f'<rect x="{left}" y="{y - 19}" width="{_WIDTH - left}" height="{_STEP}"/>')
    if row.t is not None:
        x = left + 4 if left else 4
        parts.append(f'<text class="t" x="{x}" y="{y + 3}">{row.t:.3f} s</text>')
    rest = one_line(row.rest)
    if row.way == "note":
        text = middle_cut(one_line(f"{row.head} {row.rest}".strip()), 90)
        parts.append(f'<text class="s" x="{(_HARNESS + _PEER) // 2}" y="{y + 3}">{escape(text)}</text>')
    else:
        start, end = {"out": (_HARNESS, _PEER), "in": (_PEER, _HARNESS), "ask": (_HARNESS, _ADMIN), "reply": (_ADMIN, _HARNESS)}[row.way]
        tip = -7 if end > start else 7
        narrow = row.way in ("ask", "reply")
        shown = middle_cut(rest, 36 if narrow else 66)
        middle = (start + end) // 2
        where = f"{row.at}: " if several and row.at else ""
        parts.append(f'<path d="M{start} {y}H{end}m{tip} -4l{-tip} 4l{tip} 4"/>')
        parts.append(f'<text class="h" x="{middle}" y="{y - 4}">{escape(one_line(where + row.head))}</text>')
        if shown:
            parts.append(f'<text class="s" x="{middle}" y="{y + 11}">{escape(shown)}</text>')
    if row.failing:
        parts.append(f'<text class="h e" x="{_WIDTH - 4}" y="{y - 8}">fails here</text>')
    kind = {"out": "o", "in": "i", "ask": "a", "reply": "a", "note": "n"}[row.way]
    title = f"<title>{escape(row.text)}</title>" if standalone and len(rest) > 36 else ""
    return f'<g class="{kind}{" x" if row.failing else ""}">{title}{"".join(parts)}</g>'


def render_sequence_text(rows: Sequence[Row], *, peer: str = "broker", width: int = 120, harness: str = "harness") -> str:
    """Draw a conversation with characters.

    Args:
        rows: What happened.
        peer: The name of the role under test.
        width: Columns of the drawing; a mark at the line that failed comes after them.
        harness: The name of the other side.
    """
    several = len(connections(rows)) > 1
    admin = any(row.way in ("ask", "reply") for row in rows)
    lanes = {"admin": 14, "harness": 14 + width * 3 // 10, "peer": width - 5} if admin else {"harness": 14, "peer": width - 5}
    heading = [" "] * width
    for lane, place in lanes.items():
        name = one_line({"peer": peer, "harness": harness}.get(lane, lane))[:9]
        begin = place - len(name) // 2
        heading[begin : begin + len(name)] = name
    return "\n".join([f"{'time':>9}{''.join(heading)[9:].rstrip()}", *(_typed(row, lanes, several=several) for row in rows)])


def _typed(row: Row, lanes: Mapping[str, int], *, several: bool) -> str:
    line = [" "] * (lanes["peer"] + 1)
    for place in lanes.values():
        line[place] = "|"
    narrow = row.way in ("ask", "reply")
    start, end = (lanes["admin"], lanes["harness"]) if narrow else (lanes["harness"], lanes["peer"])
    room = end - start - 1
    if row.way == "note":
        body = middle_cut(row.text, room - 2).center(room)
    elif row.way in ("out", "reply"):
        body = f"- {_fitting(row, room - 6, several=several)} ".ljust(room - 1, "-") + ">"
    else:
        body = f"<- {_fitting(row, room - 6, several=several)} ".ljust(room, "-")
    line[start + 1 : end] = body
    time = "" if row.t is None else f"{row.t:9.3f}"
    drawn = f"{time:<9}{''.join(line)[9:]}"
    return drawn + ("  <== fails here" if row.failing else "")


def _fitting(row: Row, room: int, *, several: bool) -> str:
    """Shorten the fields of a row before its name."""
    head = f"{row.at}: {row.head}" if several and row.at else row.head
    gap = "" if not row.rest or row.rest.startswith("{") else " "
    head, rest = one_line(head), one_line(row.rest)
    left = room - len(head) - len(gap)
    return middle_cut(head, room) if left < 8 or not rest else f"{head}{gap}{middle_cut(rest, left)}"
