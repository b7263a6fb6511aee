"""State diagrams as SVG, drawn from a transition table: states one below the other, forward arrows to their right, backward arrows to
their left. Every arrow between states that are no neighbours has a track of its own wherever it would meet another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from conformance.notebooks.shown import Shown, aligned
from conformance.report.wording import one_line

_BOX, _HEAD, _LINE, _BEND, _EDGE, _TRACK = 150, 32, 13, 7, 8, 13
_LETTER = 7.6
"""Width of a letter of a label, rather too much than too little."""
_STYLE = (
    ".st text{font:12px ui-sans-serif,system-ui,sans-serif;fill:currentColor}.st .b{font-weight:600}"
    ".st .b,.st .m{text-anchor:middle}.st .r{text-anchor:end}.st .e{font-size:11px}"
    ".st path,.st rect{stroke:currentColor;fill:none;stroke-width:1.1}.st path{opacity:.75}"
    ".st rect{fill:rgba(66,133,244,.14)}.st .s{fill:rgba(76,175,80,.22)}.st .a{fill:currentColor;stroke:none}"
)
Event = tuple[str, str, str]
"""State, event, next state."""


@dataclass
class _Arrow:
    """A transition from one state to another; places are numbers of states, counted from the top."""

    start: int
    end: int
    labels: list[str]
    track: int = 0
    leaves: int = 0
    arrives: int = 0

    @property
    def on(self) -> bool:
        """Whether it leads on, past at least one other state."""
        return self.end > self.start + 1

    @property
    def back(self) -> bool:
        return self.end < self.start

    @property
    def height(self) -> int:
        """Room that its labels take at the state that it leaves."""
        return _LINE * len(self.labels) + 5


@dataclass
class _Box:
    name: str
    stays: list[str]
    top: int = 0
    height: int = 0


def states(events: Iterable[Event], *, title: str = "states") -> Shown:
    """Draw a transition table.

    Args:
        events: The table; states stand in the order of their first use. An event that changes no state stands in its box.
        title: Text for readers who can't see the picture.
    """
    table = list(dict.fromkeys(events))
    names = list(dict.fromkeys(name for start, _, end in table for name in (start, end)))
    boxes = [_Box(name, [event for start, event, end in table if start == end == name]) for name in names]
    arrows = _arrows(table, names)
    sides = [[arrow for arrow in arrows if arrow.back], [arrow for arrow in arrows if arrow.on]]
    left, right = (_room(side) for side in sides)
    bottom = _stack(boxes, arrows)
    x, width = _EDGE + left, left + _BOX + right + 2 * _EDGE
    size = f'viewBox="0 0 {width} {bottom}" width="{width}" height="{bottom}" style="max-width:100%;height:auto"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="st" role="img" {size}>',
        f"<title>{escape(one_line(title))}</title><style>{_STYLE}</style>",
        *(_drawn_box(box, x, first=index == 0) for index, box in enumerate(boxes)),
        *(_direct(arrow, boxes, x) for arrow in arrows if arrow.end == arrow.start + 1),
        *(_bent(arrow, x, _label_room(side)) for side in sides for arrow in side),
        "</svg>",
    ]
    text = aligned([["state", "event", "next"], *(list(event) for event in table)], [False] * 3)
    drawing = "\n".join(parts)
    return Shown(f"<div>{drawing}</div>", f"{one_line(title)}\n{text}")


def _arrows(table: Sequence[Event], names: Sequence[str]) -> list[_Arrow]:
    moves: dict[tuple[int, int], list[str]] = {}
    for start, event, end in table:
        if start != end:
            moves.setdefault((names.index(start), names.index(end)), []).append(event)
    return [_Arrow(start, end, labels) for (start, end), labels in moves.items()]


def _label_room(arrows: Sequence[_Arrow]) -> int:
    return int(max((_LETTER * len(label) for arrow in arrows for label in arrow.labels), default=0.0)) + 14


def _room(arrows: Sequence[_Arrow]) -> int:
    """Put arrows that would meet on different tracks, short ones nearest to the boxes; return the total width."""
    placed: list[_Arrow] = []
    for arrow in sorted(arrows, key=lambda one: (abs(one.end - one.start), one.start)):
        low, high = sorted((arrow.start, arrow.end))
        meeting = [one.track for one in placed if min(one.start, one.end) <= high and max(one.start, one.end) >= low]
        arrow.track = max(meeting, default=-1) + 1
        placed.append(arrow)
    return _label_room(arrows) + _TRACK * (max(one.track for one in placed) + 1) if placed else 10


def _stack(boxes: Sequence[_Box], arrows: Sequence[_Arrow]) -> int:
    """Place boxes and the ends of their arrows, nested arrows so that they do not cross; return the total height."""
    top = _EDGE
    for place, box in enumerate(boxes):
        box.top = top
        heights = [_HEAD + _LINE * len(box.stays)]
        for back in (False, True):
            bent = [arrow for arrow in arrows if (arrow.back if back else arrow.on)]
            coming = sorted((arrow for arrow in bent if arrow.end == place), key=lambda one: -one.start)
            going = sorted((arrow for arrow in bent if arrow.start == place), key=lambda one: -one.end)
            y = top + 4
            for arrow in [*going, *coming] if back else [*coming, *going]:
                if arrow.start == place:
                    y += arrow.height
                    arrow.leaves = y
                else:
                    y += _LINE + 2
                    arrow.arrives = y
            heights.append(y - top + 8)
        box.height = max(heights)
        direct = next((arrow for arrow in arrows if arrow.start == place and arrow.end == place + 1), None)
        top += box.height + (26 if direct is None else 22 + max(_LINE * len(direct.labels), 8))
    return boxes[-1].top + boxes[-1].height + _EDGE


def _drawn_box(box: _Box, x: int, *, first: bool) -> str:
    middle = x + _BOX // 2
    kind = ' class="s"' if first else ""
    stays = _labels([f"↻ {event}" for event in box.stays], middle, box.top + _HEAD + 4, "m")
    return (
        f'<rect{kind} x="{x}" y="{box.top}" width="{_BOX}" height="{box.height}" rx="8"/>'
        f'<text class="b" x="{middle}" y="{box.top + 20}">{escape(box.name)}</text>{stays}'
    )


def _direct(arrow: _Arrow, boxes: Sequence[_Box], x: int) -> str:
    start, end = boxes[arrow.start].top + boxes[arrow.start].height, boxes[arrow.end].top
    middle = x + _BOX // 2
    line = f'<path d="M{middle} {start}V{end - 7}"/><path class="a" d="M{middle} {end}l-4 -8h8z"/>'
    return line + _labels(arrow.labels, middle + 7, (start + end) // 2 + 2 - _LINE * (len(arrow.labels) - 1) // 2, "l")


def _bent(arrow: _Arrow, x: int, label_room: int) -> str:
    sign, edge = (-1, x) if arrow.back else (1, x + _BOX)
    far = edge + sign * (label_room + _TRACK * arrow.track)
    down = 1 if arrow.arrives > arrow.leaves else -1
    line = (
        f'<path d="M{edge} {arrow.leaves}H{far - sign * _BEND}Q{far} {arrow.leaves} {far} {arrow.leaves + down * _BEND}'
        f'V{arrow.arrives - down * _BEND}Q{far} {arrow.arrives} {far - sign * _BEND} {arrow.arrives}H{edge + sign * 7}"/>'
        f'<path class="a" d="M{edge} {arrow.arrives}l{sign * 8} -4v8z"/>'
    )
    first = arrow.leaves - 3 - _LINE * (len(arrow.labels) - 1)
    return line + _labels(arrow.labels, edge + sign * 7, first, "r" if arrow.back else "l")


def _labels(labels: Sequence[str], x: int, y: int, side: str) -> str:
    return "".join(f'<text class="e {side}" x="{x}" y="{y + _LINE * place}">{escape(label)}</text>' for place, label in enumerate(labels))
