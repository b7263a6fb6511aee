"""Exponential back-off: delays that double with each failure, up to a maximum."""

from __future__ import annotations

from random import Random

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 30.0
JITTER = 0.1
"""Maximum jitter: the largest part of a delay that is cut off at random, so that many clients do not reconnect at once."""

_MOST_DOUBLINGS = 64


def delay(failures: int, first: float = FIRST_SECONDS, longest: float = LONGEST_SECONDS, random: Random | None = None) -> float:
    """Return the delay before the next attempt, in seconds: `first`, twice that, four times that, ... `longest`.

    Args:
        failures: Number of failures since the last success, including this one; at least 1.
        first: The delay after the first failure, in seconds.
        longest: The maximum delay, in seconds.
        random: Source of the jitter, which shortens the delay by up to a tenth; None: no jitter.
    """
    seconds = min(first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), longest)
    return seconds if random is None else seconds * (1 - JITTER * random.random())


class Backoff:
    """The delays of one repeated operation; counts its failures.

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
        """Restart with the first delay, after a success."""
        self._failures = 0
