"""State diagrams as SVG, drawn from a transition table: states in a row, what leads on above them, what leads back below.

Every arrow between states that are no neighbours has a track of its own wherever it would meet another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from conformance.notebooks.shown import Shown, aligned, scrolling
from conformance.report.wording import one_line

_BOX, _HEAD, _LINE, _BEND, _EDGE = 140, 34, 14, 8, 10
_LETTER = 6.1
"""Width of an average letter of a label; labels are centred, so it need not be exact."""
_STYLE = (
    ".st text{font:12px ui-sans-serif,system-ui,sans-serif;fill:currentColor;text-anchor:middle}.st .b{font-weight:600}"
    ".st .e{font-size:11px}.st path,.st rect{stroke:currentColor;fill:none;stroke-width:1.1}.st rect{fill:rgba(66,133,244,.14)}"
    ".st .s{fill:rgba(76,175,80,.22)}.st .a{fill:currentColor;stroke:none}.st path{opacity:.75}"
)
Event = tuple[str, str, str]
"""State, event, next state."""


@dataclass
class _Arrow:
    """What leads from one state to another; places are numbers of states."""

    start: int
    end: int
    labels: list[str]
    track: float = 0.0
    leaves: int = 0
    arrives: int = 0

    @property
    def forward(self) -> bool:
        return self.end > self.start

    @property
    def direct(self) -> bool:
        return self.end == self.start + 1

    @property
    def height(self) -> int:
        return _LINE * len(self.labels) + 10


def states(events: Iterable[Event], *, title: str = "states") -> Shown:
    """Draw a transition table.

    Args:
        events: The table; states stand in the order of their first use. An event that changes no state stands in its box.
        title: What a reader who can't see the picture is told.
    """
    table = list(dict.fromkeys(events))
    names = list(dict.fromkeys(name for start, _, end in table for name in (start, end)))
    stays = [[event for start, event, end in table if start == end == name] for name in names]
    arrows = _arrows(table, names)
    near = max((len(label) for arrow in arrows if arrow.direct for label in arrow.labels), default=0)
    step = _BOX + max(50, int(_LETTER * near) + 30)
    tall = _HEAD + max([_LINE * len(events) for events in stays] + [_LINE * len(a.labels) for a in arrows if a.direct] + [_LINE])
    above = _assign_tracks([arrow for arrow in arrows if arrow.forward and not arrow.direct])
    below = _assign_tracks([arrow for arrow in arrows if not arrow.forward])
    _assign_ports(arrows, step, len(names))
    top = above + _EDGE
    width, height = step * (len(names) - 1) + _BOX + 2 * _EDGE, int(top + tall + below + _EDGE)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="st" role="img" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>{escape(one_line(title))}</title><style>{_STYLE}</style>",
        *(_box(_EDGE + step * place, name, stays[place], top, tall) for place, name in enumerate(names)),
        *(_drawn(arrow, step, top, tall) for arrow in arrows),
        "</svg>",
    ]
    text = aligned([["state", "event", "next"], *(list(event) for event in table)], [False] * 3)
    return Shown(scrolling("\n".join(parts)), f"{one_line(title)}\n{text}")


def _arrows(table: Sequence[Event], names: Sequence[str]) -> list[_Arrow]:
    moves: dict[tuple[int, int], list[str]] = {}
    for start, event, end in table:
        if start != end:
            moves.setdefault((names.index(start), names.index(end)), []).append(event)
    return [_Arrow(start, end, labels) for (start, end), labels in moves.items()]


def _assign_tracks(arrows: Sequence[_Arrow]) -> int:
    """Put arrows that would meet on different tracks, short ones nearest to the boxes; return how much room they take."""
    placed: list[_Arrow] = []
    for arrow in sorted(arrows, key=lambda one: (abs(one.end - one.start), min(one.start, one.end))):
        low, high = sorted((arrow.start, arrow.end))
        meeting = [one for one in placed if min(one.start, one.end) <= high and max(one.start, one.end) >= low]
        arrow.track = max((one.track for one in meeting), default=4.0) + arrow.height
        placed.append(arrow)
    return int(max((arrow.track for arrow in placed), default=0.0)) + (_LINE if placed else 0)


def _assign_ports(arrows: Sequence[_Arrow], step: int, count: int) -> None:
    """Spread the ends of arrows over the edge of a box, so that nested arrows do not cross."""
    for place in range(count):
        left = _EDGE + step * place
        for forward in (True, False):
            bent = [arrow for arrow in arrows if arrow.forward is forward and not arrow.direct]
            coming = sorted((arrow for arrow in bent if arrow.end == place), key=lambda one: -one.start)
            going = sorted((arrow for arrow in bent if arrow.start == place), key=lambda one: -one.end)
            ordered = [*coming, *going] if forward else [*going, *coming]
            for index, arrow in enumerate(ordered, start=1):
                x = left + _BOX * index // (len(ordered) + 1)
                if arrow.end == place:
                    arrow.arrives = x
                else:
                    arrow.leaves = x


def _box(x: int, name: str, stays: Sequence[str], top: int, tall: int) -> str:
    middle = x + _BOX // 2
    kind = ' class="s"' if x == _EDGE else ""
    lines = _labels([f"↻ {event}" for event in stays], middle, top + _HEAD + 6)
    return (
        f'<rect{kind} x="{x}" y="{top}" width="{_BOX}" height="{tall}" rx="8"/>'
        f'<text class="b" x="{middle}" y="{top + 20}">{escape(name)}</text>{lines}'
    )


def _drawn(arrow: _Arrow, step: int, top: int, tall: int) -> str:
    if arrow.direct:
        start, end, y = _EDGE + step * arrow.start + _BOX, _EDGE + step * arrow.end, top + tall - 12
        line = f'<path d="M{start} {y}H{end - 7}"/><path class="a" d="M{end} {y}l-8 -4v8z"/>'
        return line + _labels(arrow.labels, (start + end) // 2, y - 5 - _LINE * (len(arrow.labels) - 1))
    sign, edge = (-1, top) if arrow.forward else (1, top + tall)
    y = int(edge + sign * (arrow.track - arrow.height + 10))
    bend = _BEND if arrow.arrives > arrow.leaves else -_BEND
    line = (
        f'<path d="M{arrow.leaves} {edge}V{y - sign * _BEND}Q{arrow.leaves} {y} {arrow.leaves + bend} {y}'
        f'H{arrow.arrives - bend}Q{arrow.arrives} {y} {arrow.arrives} {y - sign * _BEND}V{edge + sign * 7}"/>'
        f'<path class="a" d="M{arrow.arrives} {edge}l-4 {sign * 8}h8z"/>'
    )
    first = y - 4 - _LINE * (len(arrow.labels) - 1) if arrow.forward else y + 12
    return line + _labels(arrow.labels, (arrow.leaves + arrow.arrives) // 2, first)


def _labels(labels: Sequence[str], x: int, y: int) -> str:
    return "".join(f'<text class="e" x="{x}" y="{y + _LINE * place}">{escape(label)}</text>' for place, label in enumerate(labels))
