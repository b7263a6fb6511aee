"""An event loop in virtual time: time stands still while callbacks are ready, and then jumps to the next timer.

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())        # sleeps of minutes take no time, in the right order, the same in every run

Tasks on it may wait only for timers and for each other: the loop supports neither sockets nor other threads.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Callable
from typing import Any

LIMIT_SECONDS = 7 * 24 * 3600.0
"""Virtual seconds after which the loop gives up, because it probably never ends."""


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that never waits: when the loop asks it to wait for the next timer, it advances the time."""

    def __init__(self, passed: Callable[[float | None], None]) -> None:
        super().__init__()
        self._passed = passed

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Accept only the loop's own wake-up pipe."""
        if self.get_map():
            raise RuntimeError("a loop in virtual time takes no sockets: connect through a MemoryLink")
        return super().register(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; if nothing is, advance the time."""
        ready = super().select(0)
        if not ready and timeout != 0:
            self._passed(timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time, which starts at 0.

    Args:
        limit: Virtual seconds after which the loop gives up.
    """

    def __init__(self, *, limit: float = LIMIT_SECONDS) -> None:
        self._virtual_time = 0.0
        self._limit = limit
        super().__init__(_JumpingSelector(self._pass))
        self._clock_resolution = math.ulp(0.0)

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._virtual_time

    def _pass(self, seconds: float | None) -> None:
        if seconds is None:
            raise RuntimeError(f"no timer is set at {self._virtual_time:g} s of virtual time, and no task can continue: {self._waiting()}")
        self._virtual_time += seconds
        self._clock_resolution = math.ulp(self._virtual_time)  # a timer is due at its time, not a nanosecond before
        if self._virtual_time > self._limit:
            raise RuntimeError(f"{self._limit:g} s of virtual time have passed without an end: {self._waiting()}")

    def _waiting(self) -> str:
        names = sorted(task.get_name() for task in asyncio.all_tasks(self))
        return f"{len(names)} tasks ({', '.join(names[:5])}{', ..' if len(names) > 5 else ''})"
