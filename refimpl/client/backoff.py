"""How long to wait before the next attempt."""

from __future__ import annotations

from random import Random

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 30.0
JITTER = 0.1
"""The largest part of a delay that is cut off at random, so that many clients do not come back at once."""


class Backoff:
    """Delays that double with each attempt: 100 ms, 200 ms, ... 30 s, each shortened by up to a tenth.

    Args:
        random: Decides how much is cut off.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._next = FIRST_SECONDS

    def next(self) -> float:
        """Return the next delay in seconds."""
        delay = self._next
        self._next = min(2 * delay, LONGEST_SECONDS)
        return delay * (1 - JITTER * self._random.random())

    def reset(self) -> None:
        """Begin with the first delay again, after a success."""
        self._next = FIRST_SECONDS
