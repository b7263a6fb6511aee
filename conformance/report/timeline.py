"""When the conversations of a run were held, beside each other as they were, and which took longest."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from conformance.engine.verdict import TrialLog, Verdict
from conformance.report.model import Report
from conformance.report.wording import number_of

_WIDTH, _HEIGHT = 1000, 160
"""Units of the strip; its rows share the height."""
_THICKEST, _AXIS = 10, 16
_LONGEST = 8
_PASSED = frozenset({Verdict.PASS, Verdict.NOT_APPLICABLE, Verdict.SPEC_GAP})


@dataclass(frozen=True)
class Bar:
    """One conversation: its key, its row, when it began and ended in seconds, and whether it passed."""

    key: str
    row: int
    begin: float
    end: float
    passed: bool

    @property
    def seconds(self) -> float:
        """Return how long it took."""
        return self.end - self.begin

    @property
    def case(self) -> str:
        """Return its case, with its cell."""
        return self.key.partition("#")[0]


@dataclass(frozen=True)
class Timeline:
    """The conversations that share a clock, by their begin."""

    virtual: bool
    bars: Sequence[Bar]

    @property
    def seconds(self) -> float:
        """Return when the last one ended."""
        return max(bar.end for bar in self.bars)

    @property
    def rows(self) -> int:
        """Return how many were held at the same time."""
        return 1 + max(bar.row for bar in self.bars)

    @property
    def longest(self) -> list[Bar]:
        """Return those that took longest."""
        return heapq.nlargest(_LONGEST, self.bars, key=lambda bar: bar.seconds)

    @property
    def words(self) -> str:
        """Say how much there is."""
        time = "of virtual time, which takes no time" if self.virtual else ""
        return f"{number_of(len(self.bars), 'conversation')} in {self.seconds:.1f} s {time}".rstrip() + f", {self.rows} at a time at most"


def timeline(report: Report) -> list[Timeline]:
    """Return the timelines of a report: of what ran in real time, and of what ran in virtual time; none if nothing was run."""
    both = [[one for one in report.run.trial_logs.values() if one.begin.virtual is virtual] for virtual in (False, True)]
    made = [(virtual, _bars(report, some)) for virtual, some in zip((False, True), both, strict=True)]
    return [Timeline(virtual, bars) for virtual, bars in made if bars]


def _bars(report: Report, trial_logs: Sequence[TrialLog]) -> list[Bar]:
    """Put conversations into rows: each into the first that is free when it begins."""
    bars: list[Bar] = []
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    for one in sorted(trial_logs, key=lambda one: one.begin.t):
        if one.finished is None:
            continue
        while busy and busy[0][0] <= one.begin.t:
            heapq.heappush(free, heapq.heappop(busy)[1])
        row = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (one.finished.t, row))
        outcome = report.outcomes.get(one.begin.key)
        passed = outcome is not None and outcome.verdict in _PASSED
        bars.append(Bar(one.begin.key, row, one.begin.t, one.finished.t, passed))
    return bars


def render_timeline_svg(times: Timeline) -> Markup:
    """Draw a timeline as one strip: time goes to the right, and each row is one conversation after the other.

    Args:
        times: The timeline.
    """
    step = min(_THICKEST, _HEIGHT / times.rows)
    height = round(step * times.rows) + _AXIS
    scale = _WIDTH / max(times.seconds, 1e-9)
    drawn = []
    for name, passed in (("tp", True), ("tb", False)):
        bars = [bar for bar in times.bars if bar.passed is passed]
        if bars:
            path = "".join(_stroke(bar, scale, step) for bar in bars)
            drawn.append(f'<path class="{name}" stroke-width="{max(step - 1, 0.8):.1f}" d="{path}"/>')
    for part, where in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        drawn.append(f'<text x="{_WIDTH * part:.0f}" y="{height - 3}" text-anchor="{where}">{times.seconds * part:.1f} s</text>')
    title = f"<title>Timeline: {times.words}</title>"
    # All of it was made here, from numbers.
    return Markup(f'<svg class="tl" role="img" viewBox="0 0 {_WIDTH} {height}">{title}{"".join(drawn)}</svg>')


def _stroke(bar: Bar, scale: float, step: float) -> str:
    begin, end = round(bar.begin * scale), round(bar.end * scale)
    return f"M{begin} {step * (bar.row + 0.5):.1f}h{max(1, end - begin)}"
