"""When the bytes of a raw capture came: a file beside each file of bytes, if that was noted. It has a line for each piece that came.

1.client            the bytes
1.client.times      80 1767225600.012345678         by then there were 80 bytes
                    160 1767225600.013000000
"""

from __future__ import annotations

import math
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from conformance.captures.rows import BAD_INDEX, FrameRow, Origin

ENDING = ".times"
UNUSABLE = "the times can't be used"
_LONGEST_LINE = 100


def times_of(path: Path) -> Path:
    """Return where the times of a file of bytes are, if they were noted."""
    return path.with_name(path.name + ENDING)


def written_time(end: int, time: float) -> str:
    """Write one line: by this time, there were so many bytes."""
    return f"{end} {time:.9f}\n"


def times_defect(path: Path) -> str | None:
    """Return what is wrong with the times of a file of bytes; None: nothing, or they were not noted."""
    if not times_of(path).exists():
        return None
    try:
        with closing(_pieces(times_of(path))) as pieces:
            for _ in pieces:
                pass
    except (OSError, ValueError) as error:
        return f"{UNUSABLE}: {error}"
    return None


def with_times(path: Path, rows: Iterable[FrameRow]) -> Iterator[FrameRow]:
    """Add to rows when their last byte came.

    Args:
        path: The file of bytes that they were read from.
        rows: In their order.

    Yields:
        The rows. Those behind the last time have none. If the times can't be used, a row says so, and those behind it have no time, either.
    """
    if not times_of(path).is_file():
        yield from rows
        return
    end, time = 0, None
    with closing(_pieces(times_of(path))) as pieces:
        for row in rows:
            try:
                while end < row.offset + (row.size or len(row.data)):
                    end, time = next(pieces, (sys.maxsize, None))
            except (OSError, ValueError) as error:
                end, time = sys.maxsize, None
                corrupt = f"{BAD_INDEX}: {UNUSABLE}: {error}"
                yield FrameRow(Origin(row.origin.file + ENDING), 0, None, b"", corrupt=corrupt)
            yield replace(row, time=time)


def _pieces(path: Path) -> Generator[tuple[int, float | None], None, None]:
    before, last = 0, -math.inf
    with path.open("rb") as file:
        for number in range(1, 1 << 62):
            line = file.readline(_LONGEST_LINE)
            if not line:
                return
            try:
                size, _, text = line.decode("ascii").partition(" ")
                end, time = int(size), float(text)
                if not math.isfinite(time):
                    raise ValueError(text)
            except ValueError:
                raise ValueError(f"line {number} is not a number of bytes and a time") from None
            if end < before or time < last:
                raise ValueError(f"line {number} goes back")
            before, last = end, time
            yield end, time
