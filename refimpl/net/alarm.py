"""The timer of a driver."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarm:
    """A timer that a driver sets to its next deadline after each step.

    Args:
        loop: The event loop.
        call: Called with the time in seconds, which is never before the deadline.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Callable[[float], None]) -> None:
        self._loop = loop
        self._call = call
        self._timer: asyncio.TimerHandle | None = None

    def set(self, deadline: float | None) -> None:
        """Set the deadline on the clock of the loop, in seconds; None: stop the timer."""
        if self._timer is not None and self._timer.when() != deadline:
            self._timer.cancel()
            self._timer = None
        if deadline is not None and self._timer is None:
            self._timer = self._loop.call_at(deadline, self._ring, deadline)

    def _ring(self, deadline: float) -> None:
        self._timer = None
        self._call(max(self._loop.time(), deadline))  # a loop may call a hair too early
