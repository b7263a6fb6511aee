"""Conversations as lines, one for each frame: when, on which connection, in which direction, and what in line notation.

       0.012 #1 -> CONNECT{client_version: "x", protocol_version: 21}
       0.013 #1 <- CONNECTED{server_version: "y"}
       0.020 #1    the connection is cut

Text of peers is made safe for terminals, and is cut where it is long.
"""

from __future__ import annotations

from typing import Final

from conformance.captures.rows import Direction
from conformance.report.wording import cut, one_line
from refimpl.wire import Frame, line_notation, type_name

LONGEST: Final = 4000
"""Characters of a line that are shown: a peer chooses how long its texts are."""
_WRITTEN: Final = 64 << 10
"""Bytes of the largest command that is written out."""
_ARROWS: Final[dict[Direction | None, str]] = {"client": "->", "broker": "<-", None: "  "}


def line(time: float | None, connection: int | None, direction: Direction | None, text: str) -> str:
    """Write a line.

    Args:
        time: Seconds from some beginning; None: it is not known.
        connection: Its number; None: on no connection in particular.
        direction: Who sent it; None: nobody.
        text: What.
    """
    when = " " * 12 if time is None else f"{time:12.6f}"
    where = "" if connection is None else f"#{connection}"
    return f"{when} {where:<4} {_ARROWS[direction]} {cut(one_line(text), LONGEST)}".rstrip()


def frame_text(frame: Frame, payload: int, remark: str = "") -> str:
    """Write a frame in line notation, without its payload.

    Args:
        frame: The frame.
        payload: How many bytes of payload it has.
        remark: What else there is to say.
    """
    if frame.command.ByteSize() > _WRITTEN:
        text = f"{type_name(frame.command)} of {frame.command.ByteSize():,} bytes"
    else:
        text = line_notation(frame.command) + (f" + {payload} bytes" if payload else "")
    return f"{text}  ({remark})" if remark else text


def breach_text(clause: str, text: str) -> str:
    """Write what breaks a clause."""
    return f"BREACH of {clause}: {text}"
