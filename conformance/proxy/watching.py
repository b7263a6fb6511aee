"""What follows the conversations that a proxy passes on: what it is told, in the order in which the client lives through it.

The client's frames are told as it sent them, whatever becomes of them; the broker's as the client gets them, late, twice or changed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from conformance.captures.rows import Direction
from refimpl.wire import Frame

__all__ = ["Direction", "Passed", "Watcher"]


@dataclass(frozen=True, slots=True)
class Passed:
    """A frame.

    Attributes:
        connection: Number of the connection, from 1.
        direction: Who sent it.
        time: Seconds since the proxy was opened.
        frame: The frame, without its payload if no watcher wants that.
        payload: How many bytes the payload has.
        remark: What the proxy did to it; empty: nothing.
        dropped: The other side does not get it.
    """

    connection: int
    direction: Direction
    time: float
    frame: Frame
    payload: int
    remark: str = ""
    dropped: bool = False


class Watcher:
    """Follows all conversations of a proxy; what a watcher does not care for does nothing.

    Attributes:
        commands: The commands that it is told of, as fields of `BaseCommand`; None: all.
        whole: Whether frames have to have their payload.
    """

    commands: Collection[str] | None = ()
    whole = False

    def opened(self, connection: int, time: float, client: str, broker: str) -> None:
        """Take note of a connection: from where, and the address of the broker that it leads to."""

    def data(self, connection: int, direction: Direction, data: bytes | memoryview, time: float) -> None:
        """Take the next bytes of one direction: all that the client sent or got."""

    def frame(self, passed: Passed) -> None:
        """Take a frame."""

    def note(self, connection: int | None, time: float, text: str) -> None:
        """Take note of what is out of the ordinary; None: on no connection in particular."""

    def unseen(self, connection: int) -> None:
        """Take note that bytes of a connection have gone on that nobody could read; a note has told it."""

    def ended(self, connection: int, direction: Direction, time: float) -> None:
        """Take note that one side has ended a connection."""

    def closed(self, connection: int, time: float) -> None:
        """Take note that a connection is over, on both sides."""
