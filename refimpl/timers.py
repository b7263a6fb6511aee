"""Timers without a clock: the caller passes in the time."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Timer:
    """A function that is called once, unless `cancel` is called before."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Cancel the call."""
        self.call = None


class Timers:
    """Timers, ordered by time."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()

    def at(self, when: float, call: Callable[[], None]) -> Timer:
        """Set a timer.

        Args:
            when: The time of the call in seconds, on the clock of `run`.
            call: The function to call.
        """
        timer = Timer(call)
        heapq.heappush(self._heap, (when, next(self._numbers), timer))
        return timer

    def next_deadline(self) -> float | None:
        """Return the time of the next timer; None if there is none."""
        while self._heap and self._heap[0][2].call is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: float) -> Callable[[], None] | None:
        """Remove the next due timer and return its function; None: no timer is due."""
        when = self.next_deadline()
        return heapq.heappop(self._heap)[2].call if when is not None and when <= now else None

    def run(self, now: float) -> None:
        """Call everything that is due."""
        while (call := self.take_due(now)) is not None:
            call()
