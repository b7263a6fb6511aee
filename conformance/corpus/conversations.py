"""Monitors over the frames of a capture, connection by connection.

What the client says of earlier connections can't be judged here, since a capture has no word of which connections belong to one client.
Where bytes are missing, or the order of the two sides is not known, frames are judged by what they say by themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from conformance.captures import defect_class
from conformance.captures.rows import CUT, REFUSED
from conformance.monitors import MONITORS, Breach, Monitors
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
_COLUMNS: Final = ("file", "connection", "direction", "offset", "time", "octets", "target", "_corrupt")


def of_connection(table: pa.Table) -> pa.Table:
    """Judge one connection.

    Args:
        table: All its rows in one capture, with the columns of `pulsar_capture`.

    Returns:
        Rows of `DDL`: for each clause how often it was looked at and broken, with the first breach; and the counts.
    """
    rows = table.select(_COLUMNS).to_pylist()
    monitors = Monitors()
    counts: Counter[str] = Counter()
    breaches = list(_heard(rows, monitors, counts))
    first, target = rows[0], rows[0]["target"] or ""
    unknown = [one for one in breaches if not is_explained(first["connection"], one.clause)]
    broken = Counter(one.clause for one in unknown)
    place = f"{first['file']} {first['connection']}"
    examples = {one.clause: f"{place} {one.time:.3f}: {one.text}" for one in reversed(unknown)}
    counts[EXPLAINED] = len(breaches) - len(unknown)
    found = [(OWNER[clause], clause, target, checked, broken[clause], examples.get(clause)) for clause, checked in monitors.judged.items()]
    found += [("", what, target, count, 0, None) for what, count in counts.items()]
    return pa.Table.from_pylist([dict(zip(_SCHEMA.names, one, strict=True)) for one in found], schema=_SCHEMA)


def _heard(rows: Sequence[Mapping[str, Any]], monitors: Monitors, counts: Counter[str]) -> Iterator[Breach]:
    lost = any(row["time"] is None for row in rows if row["_corrupt"] is None)
    before: tuple[float, str] | None = None
    for time, row in _in_order(rows):
        if row["_corrupt"] is not None:
            monitors.gap("")
            lost = lost or defect_class(row["_corrupt"]) not in (CUT, REFUSED)
            continue
        if lost or (before is not None and before[0] == time and before[1] != row["direction"]):
            monitors.gap("")
        before = time, row["direction"]
        counts[FRAMES] += 1
        counts[ALONE] += lost
        yield from monitors.frame("", "->" if row["direction"] == "client" else "<-", decode_frame(row["octets"]), time)
    yield from monitors.ended()


def _in_order(rows: Sequence[Mapping[str, Any]]) -> list[tuple[float, Mapping[str, Any]]]:
    """Sort rows by their time; what has none, such as bytes that are no frame, comes behind what is before it in its direction."""
    placed = []
    last: dict[str, float] = {}
    for row in sorted(rows, key=lambda row: (row["direction"] or "", row["offset"])):
        direction = row["direction"] or ""
        last[direction] = max(last.get(direction, 0.0), row["time"] or 0.0)
        placed.append((last[direction], row))
    return sorted(placed, key=lambda one: (one[0], one[1]["direction"] != "client"))
