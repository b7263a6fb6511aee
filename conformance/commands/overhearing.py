"""Judging for commands that follow conversations: what the monitors say, and what it comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from conformance.captures.rows import Direction
from conformance.exit_codes import EXIT_CONFORMANT, EXIT_INCONCLUSIVE, EXIT_NOT_CONFORMANT
from conformance.monitors import Breach, Monitors, Side, monitors_of
from conformance.report.wording import number_of
from refimpl.wire import Frame

Sides: TypeAlias = tuple[Side | None, ...]
ALL: Final[Sides] = (None,)
EACH: Final[Sides] = ("client", "broker")
_ARROWS: Final = {"client": "->", "broker": "<-"}


class Judge:
    """Judges conversations, each of which has any number of connections.

    Args:
        show: Shows a breach when it is found: the conversation, and the breach.
    """

    def __init__(self, show: Callable[[str, Breach], None]) -> None:
        self._show = show
        self._monitors: dict[tuple[str, Side | None], Monitors] = {}
        self._breaches: Counter[tuple[str, str]] = Counter()
        self._begun: set[tuple[str, str]] = set()
        self._gaps: set[tuple[str, str]] = set()
        self._unordered: set[tuple[str, str]] = set()

    def opened(self, conversation: str, connection: str, sides: Sides = ALL) -> None:
        """Note that a connection begins.

        Args:
            conversation: The conversation.
            connection: The connection.
            sides: Who is judged, each by what it knew itself; None: both, by one order of all frames.
        """
        self._begun.add((conversation, connection))
        for side in sides:
            self._of(conversation, side).opened(connection)

    def frame(self, conversation: str, connection: str, direction: Direction, frame: Frame, time: float, side: Side | None = None) -> None:
        """Judge a frame. If it is the first one of its connection and no CONNECT, others were not seen.

        Args:
            conversation: The conversation.
            connection: The connection.
            direction: Who sent it.
            frame: The frame.
            time: Seconds.
            side: Who is judged by it, see `opened`.
        """
        key = conversation, connection
        if key not in self._begun:
            self._begun.add(key)
            if not frame.command.HasField("connect"):
                self._gaps.add(key)
        self._found(conversation, self._of(conversation, side).frame(connection, _ARROWS[direction], frame, time))  # type: ignore[arg-type]

    def gap(self, conversation: str, connection: str, sides: Sides = ALL) -> None:
        """Note that bytes of a connection were not seen."""
        self._gaps.add((conversation, connection))
        for side in sides:
            self._of(conversation, side).gap(connection)

    def unordered(self, conversation: str, connection: str) -> None:
        """Note that nothing is known of what was before the next frame of a connection."""
        self._unordered.add((conversation, connection))
        self._of(conversation, None).gap(connection)

    def closed(self, conversation: str, connection: str, time: float) -> None:
        """Note the end of a connection."""
        self._begun.discard((conversation, connection))
        self._found(conversation, self._of(conversation, None).closed(connection, time))

    def ended(self) -> None:
        """Note that nothing more is seen."""
        for (conversation, _), monitors in self._monitors.items():
            self._found(conversation, monitors.ended())

    def summary(self) -> str:
        """Say in a few words what was found."""
        judged = sum((one.judged for one in self._monitors.values()), Counter[str]())
        breaches = number_of(sum(self._breaches.values()), "breach", "breaches")
        parts = [f"{number_of(len(judged), 'clause')} judged, {number_of(sum(judged.values()), 'time')}: {breaches}"]
        parts += [f"{clause}, by the {side}: {count:,}" for (clause, side), count in sorted(self._breaches.items())]
        if self.code() == EXIT_INCONCLUSIVE:
            lacks = [f"bytes of {number_of(len(self._gaps), 'connection')} were not seen"] * bool(self._gaps)
            lacks += [f"the order of both sides of {number_of(len(self._unordered), 'connection')} is not known"] * bool(self._unordered)
            parts.append(f"inconclusive: {', '.join(lacks) if judged and lacks else 'there was nothing to judge'}")
        return "\n".join(parts)

    def code(self) -> int:
        """Return the exit code: what was not seen whole, or had nothing to judge, does not conform."""
        if self._breaches:
            return EXIT_NOT_CONFORMANT
        if self._gaps or self._unordered or not any(one.judged for one in self._monitors.values()):
            return EXIT_INCONCLUSIVE
        return EXIT_CONFORMANT

    def _of(self, conversation: str, side: Side | None) -> Monitors:
        key = conversation, side
        if key not in self._monitors:
            self._monitors[key] = Monitors(monitors_of(side))
        return self._monitors[key]

    def _found(self, conversation: str, breaches: Iterable[Breach]) -> None:
        for breach in breaches:
            self._breaches[breach.clause, breach.side] += 1
            self._show(conversation, breach)
