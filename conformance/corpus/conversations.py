"""Monitors over the frames of a capture, connection by connection.

What the client says of earlier connections can't be judged here, since a capture has no word of which connections belong to one client.
Where bytes are missing, or the order of the two sides is not known, frames are judged by what they say by themselves. In captures of
packets each side is judged by what it had got when it spoke, as TCP says: how the packets of both were recorded does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from conformance.captures import FrameRow, Origin, defect_class
from conformance.captures.causes import Order, SeenBy
from conformance.captures.places import is_packets
from conformance.captures.rows import CUT, REFUSED, Direction
from conformance.monitors import MONITORS, Breach, Monitors, monitors_of
from conformance.monitors.explained import is_explained
from refimpl.wire import decode_frame

FRAMES, ALONE, EXPLAINED = "frames", "frames that are judged by themselves", "breaches that are explained"
"""What is counted besides judgements."""
OWNER: Final[Mapping[str, str]] = {clause: kind.name for kind in MONITORS for clause in kind.clauses}
"""The monitor of each clause."""
DDL: Final = "law STRING, clause STRING, target STRING, checked BIGINT, broken BIGINT, example STRING"
_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("law", "clause", "target")]
    + [("checked", pa.int64()), ("broken", pa.int64()), ("example", pa.string())]
)
_COLUMNS: Final = ("file", "connection", "direction", "offset", "size", "time", "octets", "target", "_corrupt", "heard")
_SIDES: Final[tuple[Direction, ...]] = ("client", "broker")


def of_connection(table: pa.Table) -> pa.Table:
    """Judge one connection.

    Args:
        table: All its rows in one capture, with the columns of `pulsar_capture`.

    Returns:
        Rows of `DDL`: for each clause how often it was looked at and broken, with the first breach; and the counts.
    """
    rows = [_row(row) for row in table.select(_COLUMNS).to_pylist()]
    judged: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    breaches = list(_heard(rows, judged, counts))
    first, target = rows[0].origin, rows[0].origin.target or ""
    unknown = [one for one in breaches if not is_explained(first.connection or "", one.clause)]
    broken = Counter(one.clause for one in unknown)
    place = f"{first.file} {first.connection}"
    examples = {one.clause: f"{place} {one.time:.3f}: {one.text}" for one in reversed(unknown)}
    counts[EXPLAINED] = len(breaches) - len(unknown)
    found = [(OWNER[clause], clause, target, checked, broken[clause], examples.get(clause)) for clause, checked in judged.items()]
    found += [("", what, target, count, 0, None) for what, count in counts.items()]
    return pa.Table.from_pylist([dict(zip(_SCHEMA.names, one, strict=True)) for one in found], schema=_SCHEMA)


def _row(row: Mapping[str, Any]) -> FrameRow:
    origin = Origin(row["file"], row["connection"], row["direction"], None, row["target"])
    return FrameRow(origin, row["offset"], row["size"], row["octets"], row["time"], None, row["_corrupt"], row["heard"])


def _heard(rows: Sequence[FrameRow], judged: Counter[str], counts: Counter[str]) -> Iterator[Breach]:
    """Let monitors hear a connection: what each side knew when it spoke, or all in the order of their times, or each frame by itself."""
    placed = _in_order(rows)
    order = Order()
    for _, row in placed:
        order.take(row)
    frames = sum(row.corrupt is None for row in rows)
    known = order.acknowledged() if is_packets(Path(rows[0].origin.file)) else order.reversed is None
    lost = not known or any(row.time is None for row in rows if row.corrupt is None)
    counts[FRAMES] += frames
    if not lost and is_packets(Path(rows[0].origin.file)):
        alone = 0
        for side in _SIDES:
            view = SeenBy(side)
            seen = [one for _, row in placed for one in view.take(row)] + list(view.end())
            yield from _judged(seen, Monitors(monitors_of(side)), judged)
            alone = max(alone, sum(row.corrupt is None for row in _behind_a_gap(seen)))
        counts[ALONE] += alone
        return
    monitors = Monitors()
    before: tuple[float, str | None] | None = None
    for time, row in placed:
        if row.corrupt is not None:
            monitors.gap("")
            lost = lost or defect_class(row.corrupt) not in (CUT, REFUSED)
            continue
        if lost or (before is not None and before[0] == time and before[1] != row.origin.direction):
            monitors.gap("")
        before = time, row.origin.direction
        counts[ALONE] += lost
        yield from _of_frame(monitors, row, time)
    yield from monitors.ended()
    judged.update(monitors.judged)


def _judged(rows: Sequence[FrameRow], monitors: Monitors, judged: Counter[str]) -> Iterator[Breach]:
    """Judge a side by rows in the order in which it lived through them."""
    time, lost = 0.0, False
    for row in rows:
        lost = lost or row.corrupt is not None
        if lost:
            monitors.gap("")
        if row.corrupt is None:
            time = max(time, row.time or 0.0)
            yield from _of_frame(monitors, row, time)
    yield from monitors.ended()
    judged.update(monitors.judged)


def _of_frame(monitors: Monitors, row: FrameRow, time: float) -> list[Breach]:
    return monitors.frame("", "->" if row.origin.direction == "client" else "<-", decode_frame(row.data), time)


def _behind_a_gap(rows: Sequence[FrameRow]) -> Sequence[FrameRow]:
    return rows[next((number for number, row in enumerate(rows) if row.corrupt is not None), len(rows)) :]


def _in_order(rows: Sequence[FrameRow]) -> list[tuple[float, FrameRow]]:
    """Sort rows by their time; what has none, such as bytes that are no frame, comes behind what is before it in its direction."""
    placed = []
    last: dict[str, float] = {}
    for row in sorted(rows, key=lambda row: (row.origin.direction or "", row.offset)):
        direction = row.origin.direction or ""
        last[direction] = max(last.get(direction, 0.0), row.time or 0.0)
        placed.append((last[direction], row))
    return sorted(placed, key=lambda one: (one[0], one[1].origin.direction != "client"))
