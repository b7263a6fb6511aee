"""Sequence diagrams of a conversation: as SVG, and as plain text for a terminal. The same rows give the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap

from conformance.report.rows import Row, Way, connections
from conformance.report.wording import middle_cut, one_line

STYLE = (
    ".sq text{font:11px ui-monospace,Menlo,Consolas,monospace;fill:currentColor}"
    ".sq .h,.sq .l,.sq .s{text-anchor:middle}.sq .h{font-weight:600}.sq .l{font-weight:700;font-size:12px}"
    ".sq .s,.sq .t{opacity:.65;font-size:10px}"
    ".sq path{stroke:currentColor;fill:none;stroke-width:1.2}.sq .p{opacity:.3;stroke-dasharray:3 4}"
    ".sq .i path{stroke-dasharray:none}.sq .o path,.sq .a path{opacity:.75}"
    ".sq .x{color:#c62828}.sq .x .s,.sq .x .t{opacity:1}.sq .x path{stroke-width:2}.sq .x rect{fill:#c62828;opacity:.1}"
)
"""What the SVG needs of CSS; colours follow the page."""

_TIME, _EDGE = 56, 44
"""Room for the time at the left, and beyond the first and the last lane."""
_LANES, _ADMIN_LANES = 264, 152
"""Distance from the harness to the peer, and from the admin API to the harness."""
_LETTER, _LINE, _STEP = 6.1, 12, 24
"""Width of a letter of details, distance of their lines, and of rows besides."""
_TOP, _MOST = 60, 90
_TEXT_TIME, _TEXT_EDGE = 9, 5
"""The same for characters: columns of the time, and beyond the first and the last lane."""


@dataclass(frozen=True)
class _Lanes:
    """Where the lanes are, from left to right."""

    admin: int
    harness: int
    peer: int
    width: int

    def ends(self, way: Way) -> tuple[int, int]:
        """Return where the arrow of a row starts and ends. A note has no arrow, and is placed between harness and peer."""
        return {
            "out": (self.harness, self.peer),
            "in": (self.peer, self.harness),
            "ask": (self.harness, self.admin),
            "reply": (self.admin, self.harness),
            "note": (self.harness, self.peer),
        }[way]


def render_sequence_svg(
    rows: Sequence[Row], *, peer: str = "broker", title: str = "", standalone: bool = True, harness: str = "suite"
) -> str:
    """Draw a conversation. The drawing fits a telephone, and shrinks where a page is narrower still.

    Args:
        rows: What happened.
        peer: The name of the role under test.
        title: Text for readers who can't see the picture.
        standalone: Whether it brings its own style and namespace, so that it can be a file.
        harness: The name of the other side.

    Returns:
        One `svg` element. Text stays text, and nothing is loaded.
    """
    several = len(connections(rows)) > 1
    admin = any(row.way in ("ask", "reply") for row in rows)
    times = _times(rows)
    lanes = _lanes(admin=admin, timed=any(times))
    names = [(lanes.harness, harness), (lanes.peer, peer)]
    if admin:
        names.insert(0, (lanes.admin, "driver" if _driven(rows) else "admin API"))
    drawn, y = [], _TOP
    for row, time in zip(rows, times, strict=True):
        part, height = _drawn(row, y, lanes, time, several=several, standalone=standalone)
        drawn.append(part)
        y += height
    name_space = ' xmlns="http://www.w3.org/2000/svg"' if standalone else ""
    size = f'viewBox="0 0 {lanes.width} {y}" width="{lanes.width}" height="{y}" style="max-width:100%;height:auto"'
    parts = [f'<svg{name_space} class="sq" role="img" {size}>', f"<title>{escape(one_line(title or 'sequence diagram'))}</title>"]
    if standalone:
        parts.append(f"<style>{STYLE}</style>")
    for x, name in names:
        parts.append(f'<text class="l" x="{x}" y="16">{escape(one_line(name))}</text><path class="p" d="M{x} 24V{y - 4}"/>')
    return "".join([*parts, *drawn, "</svg>"])


def _driven(rows: Sequence[Row]) -> bool:
    """Tell whether a driver is asked, and no admin API."""
    return all(row.at for row in rows if row.way in ("ask", "reply"))


def _times(rows: Sequence[Row]) -> list[str]:
    """Return what stands before each row: its time where it differs from the row before, and nothing if all rows have the same."""
    shown, last = [], ""
    for row in rows:
        time = last if row.t is None else f"{row.t:.3f}"
        shown.append(time if time != last else "")
        last = time
    return shown if sum(map(bool, shown)) > 1 else [""] * len(rows)


def _lanes(*, admin: bool, timed: bool) -> _Lanes:
    first = _TIME if timed else _EDGE
    harness = first + _ADMIN_LANES if admin else first
    return _Lanes(first, harness, harness + _LANES, harness + _LANES + _EDGE)


def _drawn(row: Row, y: int, lanes: _Lanes, time: str, *, several: bool, standalone: bool) -> tuple[str, int]:
    """Draw one row, with its arrow at `y`; return the drawing and its height."""
    start, end = lanes.ends(row.way)
    middle, columns = (start + end) // 2, int(abs(end - start) / _LETTER)
    rest = one_line(row.rest) if row.way != "note" else one_line(f"{row.head} {row.rest}".strip())
    lines = wrap(middle_cut(rest, _MOST), columns, break_on_hyphens=False)
    below = y + (3 if row.way == "note" else 11)
    parts = [f'<text class="s" x="{middle}" y="{below + _LINE * place}">{escape(line)}</text>' for place, line in enumerate(lines)]
    if row.way != "note":
        tip = -7 if end > start else 7
        where = f"{row.at}: " if several and row.at else ""
        parts.append(f'<path d="M{start} {y}H{end}m{tip} -4l{-tip} 4l{tip} 4"/>')
        parts.append(f'<text class="h" x="{middle}" y="{y - 4}">{escape(one_line(where + row.head))}</text>')
    if time:
        parts.append(f'<text class="t" x="2" y="{y + 3}">{time} s</text>')
    if row.failing:
        parts.append(f'<text class="h" x="{middle}" y="{below + _LINE * len(lines) + 1}">fails here</text>')
    height = _STEP + _LINE * max(len(lines) + row.failing, 1)
    if row.failing:
        parts.insert(0, f'<rect x="0" y="{y - 17}" width="{lanes.width}" height="{height}"/>')
    kind = {"out": "o", "in": "i", "ask": "a", "reply": "a", "note": "n"}[row.way]
    tip_text = f"<title>{escape(row.text)}</title>" if standalone and len(rest) > _MOST else ""
    return f'<g class="{kind}{" x" if row.failing else ""}">{tip_text}{"".join(parts)}</g>', height


def render_sequence_text(rows: Sequence[Row], *, peer: str = "broker", width: int = 120, harness: str = "suite") -> str:
    """Draw a conversation with characters.

    Args:
        rows: What happened.
        peer: The name of the role under test.
        width: Columns of the drawing; the mark of a failed line follows them.
        harness: The name of the other side.
    """
    several = len(connections(rows)) > 1
    admin = any(row.way in ("ask", "reply") for row in rows)
    times = _times(rows)
    timed = any(times)
    first = _TEXT_TIME + _TEXT_EDGE if timed else _TEXT_EDGE
    lanes = {"admin": first, "harness": first + width * 3 // 10, "peer": width - _TEXT_EDGE}
    if not admin:
        lanes = {"harness": first, "peer": width - _TEXT_EDGE}
    heading = [" "] * width
    for lane, place in lanes.items():
        name = one_line({"peer": peer, "harness": harness, "admin": "driver" if _driven(rows) else "admin"}[lane])[:9]
        begin = place - len(name) // 2
        heading[begin : begin + len(name)] = name
    if timed:
        heading[:_TEXT_TIME] = f"{'time':>{_TEXT_TIME}}"
    body = [_typed(row, lanes, time, several=several) for row, time in zip(rows, times, strict=True)]
    return "\n".join(["".join(heading).rstrip(), *body])


def _typed(row: Row, lanes: Mapping[str, int], time: str, *, several: bool) -> str:
    line = [" "] * (lanes["peer"] + 1)
    if time:
        line[:_TEXT_TIME] = f"{time:>{_TEXT_TIME}}"
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
    return "".join(line) + ("  <== fails here" if row.failing else "")


def _fitting(row: Row, room: int, *, several: bool) -> str:
    """Shorten the fields of a row rather than its name."""
    head = f"{row.at}: {row.head}" if several and row.at else row.head
    gap = "" if not row.rest or row.rest.startswith("{") else " "
    head, rest = one_line(head), one_line(row.rest)
    left = room - len(head) - len(gap)
    return middle_cut(head, room) if left < 8 or not rest else f"{head}{gap}{middle_cut(rest, left)}"
