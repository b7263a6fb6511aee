"""Plots as SVG whose text has the colour of the page: fixed sizes and fonts, no date, the same input gives the same characters."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from conformance.notebooks.shown import Shown, aligned
from conformance.notebooks.svg import compact
from conformance.report.wording import one_line

_INK = "#010203"
"""Stands for the colour of the page's text until the picture is written."""
_COLORS = ("#4285d6", "#e07b39", "#3fa36b", "#a06cd5", "#d0567a", "#8a8a3a")
_MARKERS = ("o", "s", "^", "D", "v", "x")
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "pulsar-conformance",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.18,
    "legend.frameon": False,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), _INK),
}
Series = Mapping[str, Sequence[tuple[float, float]]]


def lines(series: Series, *, x: str, y: str, title: str = "", log: str = "") -> Shown:
    """Plot lines.

    Args:
        series: Points by the name of their line.
        x: What the horizontal axis counts, with its unit.
        y: What the vertical axis counts, with its unit.
        title: What the plot shows.
        log: The axes that are logarithmic: `x`, `y` or `xy`.
    """
    with mpl.rc_context(_SETTINGS):
        figure, axes = _axes(x, y, title, 3.5)
        for index, (name, points) in enumerate(series.items()):
            color, marker = _COLORS[index % len(_COLORS)], _MARKERS[index % len(_MARKERS)]
            places, values = [at for at, _ in points], [value for _, value in points]
            axes.plot(places, values, label=name, linewidth=1.6, color=color, marker=marker, markersize=4)
        if "x" in log:
            axes.set_xscale("log")
            _plain_ticks(axes.xaxis)
        if "y" in log:
            axes.set_yscale("log")
            _plain_ticks(axes.yaxis)
        if len(series) > 1:
            axes.legend()
        rows = [[name, f"{at:g}", f"{value:,.6g}"] for name, points in series.items() for at, value in points]
        return _shown(figure, title or y, [["line", x, y], *rows])


def bars(values: Mapping[str, float], *, x: str, title: str = "", log: bool = False) -> Shown:
    """Plot horizontal bars, each with its number.

    Args:
        values: Lengths by name, the first on top.
        x: What they count, with its unit.
        title: What the plot shows.
        log: Whether the axis is logarithmic.
    """
    with mpl.rc_context({**_SETTINGS, "axes.grid.axis": "x"}):
        figure, axes = _axes(x, "", title, 0.9 + 0.24 * len(values))
        drawn = axes.barh(list(values), list(values.values()), color=_COLORS[0], height=0.62)
        axes.bar_label(drawn, [f"{value:,.6g}" for value in values.values()], padding=3)
        axes.invert_yaxis()
        axes.margins(x=0.12)
        if log:
            axes.set_xscale("log")
            _plain_ticks(axes.xaxis)
        return _shown(figure, title or x, [["", x], *([name, f"{value:,.6g}"] for name, value in values.items())])


def _plain_ticks(axis: Axis) -> None:
    """Write 1000, not 10 to the power of 3, and nothing between the powers."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.15g}"))
    axis.set_minor_formatter(NullFormatter())


def _axes(x: str, y: str, title: str, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.6, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axisbelow(True)
    axes.set(xlabel=x, ylabel=y, title=title)
    axes.patch.set_alpha(0)
    figure.patch.set_alpha(0)
    return figure, axes


def _shown(figure: Figure, title: str, rows: Sequence[Sequence[str]]) -> Shown:
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = compact(written.getvalue()).replace(_INK, "currentColor")
    look = f'role="img" aria-label="{escape(one_line(title), quote=True)}" style="max-width:100%;height:auto;stroke-linejoin:round"'
    html = f"<div>{svg.replace('<svg ', f'<svg {look} ', 1)}</div>"
    return Shown(html, f"{one_line(title)}\n{aligned(rows, [False] + [True] * (len(rows[0]) - 1))}")
