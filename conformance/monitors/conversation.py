"""All monitors before one conversation, which may have any number of connections."""

from __future__ import annotations

from collections import Counter
from typing import Final

from conformance.monitors.link import Link
from conformance.monitors.model import SENDER, Breach, Direction, Judged, Monitor, Seen
from refimpl.wire import Frame
from refimpl.wire.commands import command_name, sub_message

MONITORS: Final[tuple[type[Monitor], ...]] = ()
"""All monitors. `observed_by` of a clause names one of them."""


class Monitors:
    """Judges one conversation, frame by frame.

    A connection is known by any name. One whose first frame is not CONNECT began before the first frame that was seen.

    Attributes:
        judged: How often each clause was looked at, broken or not.
    """

    def __init__(self, kinds: tuple[type[Monitor], ...] = MONITORS) -> None:
        self.judged: Counter[str] = Counter()
        self._kinds = kinds
        self._links: dict[str, Link] = {}
        self._monitors: dict[str, list[Monitor]] = {}

    def opened(self, connection: str) -> None:
        """Note that a connection begins: its next frame is its first."""
        self._begin(connection, whole=True)

    def frame(self, connection: str, direction: Direction, frame: Frame, time: float) -> list[Breach]:
        """Judge a frame.

        Args:
            connection: The name of its connection.
            direction: `->` from the client, `<-` from the broker.
            frame: The frame.
            time: Seconds, on any clock that does not go back.

        Returns:
            What it breaks, usually nothing.
        """
        name = command_name(frame.command)
        if connection not in self._links:
            self._begin(connection, whole=name == "connect" and direction == "->")
        seen = Seen(SENDER[direction], name, sub_message(frame.command), frame, time)
        found = []
        for monitor in self._monitors[connection]:
            method = monitor.ears.get(f"{direction} {name}")
            if method is not None:
                for judged in getattr(monitor, method)(seen):
                    found += self._judge(monitor, judged, time)
        return found

    def gap(self, connection: str) -> None:
        """Note that bytes of a connection were lost or can't be read: what they said is unknown from now on."""
        self._begin(connection, whole=False)

    def closed(self, connection: str, time: float) -> list[Breach]:  # noqa: ARG002
        """Note the end of a connection, whoever ended it, and judge what it leaves open."""
        self._links.pop(connection, None)
        self._monitors.pop(connection, None)
        return []

    def ended(self) -> list[Breach]:
        """Note that nothing more was seen, and judge what the conversation leaves open."""
        return []

    def _begin(self, connection: str, *, whole: bool) -> None:
        link = self._links[connection] = Link(connection, whole)
        self._monitors[connection] = [kind(link) for kind in self._kinds]

    def _judge(self, monitor: Monitor, judged: Judged, time: float) -> list[Breach]:
        clause, text = judged
        self.judged[clause] += 1
        return [] if text is None else [Breach(clause, monitor.side, monitor.link.name, time, text, monitor.name)]
