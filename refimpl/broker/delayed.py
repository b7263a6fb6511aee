"""Delayed delivery: the entries of a shared subscription whose time has not come.

A producer may ask for an entry not to be delivered before a time: `deliver_at_time`, in milliseconds since 1970. Shared and Key_Shared
subscriptions keep to it; the other types deliver in order and ignore it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator


class DelayedEntries:
    """The indexes of the entries of one subscription that wait, by their time. Times are in milliseconds since 1970."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def keep(self, index: int, deliver_at: int, until: float) -> bool:
        """Keep an entry, if it is due only after `until`, and return whether it waits now: core.delay.held."""
        if deliver_at <= until:
            return False
        heapq.heappush(self._heap, (deliver_at, index))
        return True

    def take(self, until: float) -> Iterator[int]:
        """Remove the entries that are due until a time, and yield them."""
        while self._heap and self._heap[0][0] <= until:
            yield heapq.heappop(self._heap)[1]

    @property
    def next_time(self) -> int | None:
        """The time of the first entry that waits; None: none waits."""
        return self._heap[0][0] if self._heap else None

    def clear(self) -> None:
        """Forget all entries."""
        self._heap.clear()
