"""How long to wait before the next attempt: delays that double with each failure, up to a longest one."""

from __future__ import annotations

from random import Random

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 30.0
JITTER = 0.1
"""The largest part of a delay that is cut off at random, so that many clients do not come back at once."""

_MOST_DOUBLINGS = 64


def delay(failures: int, first: float = FIRST_SECONDS, longest: float = LONGEST_SECONDS, random: Random | None = None) -> float:
    """Return how long to wait, in seconds: `first`, twice that, four times that, ... `longest`.

    Args:
        failures: How often it has failed since the last success, this time included; at least 1.
        first: Seconds after the first failure.
        longest: Most seconds.
        random: Decides how much is cut off, up to a tenth; None: nothing is.
    """
    seconds = min(first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), longest)
    return seconds if random is None else seconds * (1 - JITTER * random.random())


class Backoff:
    """The delays of one thing that is tried again and again: it counts its failures.

    Args:
        random: As for `delay`.
        first: As for `delay`.
        longest: As for `delay`.
    """

    def __init__(self, random: Random | None = None, first: float = FIRST_SECONDS, longest: float = LONGEST_SECONDS) -> None:
        self._random = random
        self._first = first
        self._longest = longest
        self._failures = 0

    def next(self) -> float:
        """Return the next delay in seconds."""
        self._failures += 1
        return delay(self._failures, self._first, self._longest, self._random)

    def reset(self) -> None:
        """Begin with the first delay again, after a success."""
        self._failures = 0
