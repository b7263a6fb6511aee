"""Sequence diagrams: who sends what to whom, as SVG and as characters. The same rows give the same picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from conformance.notebooks.shown import Shown
from conformance.report.rows import Row, notation
from conformance.report.sequence import render_sequence_svg, render_sequence_text


def sequence(rows: Sequence[Row], *, title: str = "", client: str = "client", broker: str = "broker") -> Shown:
    """Draw a conversation.

    Args:
        rows: What happened, for instance from `Recorded.conversation` or `Stage.rows`.
        title: Text for readers who can't see the picture.
        client: The name of the left side.
        broker: The name of the right side.
    """
    svg = render_sequence_svg(rows, peer=broker, title=title, harness=client)
    text = render_sequence_text(rows, peer=broker, harness=client)
    return Shown(f"<div>{svg}</div>", "\n".join(line.rstrip() for line in text.splitlines()))


def said(way: Literal["out", "in"], data: bytes, at: str = "", t: float | None = None) -> Row:
    """Return the row of a frame.

    Args:
        way: `out` for what the client sends, `in` for what the broker sends.
        data: The frame.
        at: The name of its connection.
        t: Seconds since the conversation began.
    """
    return Row(way, *notation(data), at, t=t, data=data)
