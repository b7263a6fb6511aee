"""Which messages of a batch are open, as `ack_set` tells it: 64 bits in each signed number, lowest first; a set bit is an open message."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence


def ack_set(open_messages: Iterable[int]) -> list[int]:
    """Encode the unacknowledged messages of a batch as an `ack_set`: 64 bits in each signed number, lowest first."""
    words: dict[int, int] = {}
    for index in open_messages:
        words[index // 64] = words.get(index // 64, 0) | 1 << (index % 64)
    row = [words.get(place, 0) for place in range(max(words, default=-1) + 1)]
    return [word - (1 << 64) if word >> 63 else word for word in row]


def read_ack_set(words: Iterable[int], messages: int) -> frozenset[int]:
    """Decode the indexes in an `ack_set`; ignore indexes beyond the batch."""
    row = list(itertools.islice(words, (messages + 63) // 64))
    named = (64 * place + bit for place, word in enumerate(row) if word for bit in range(64) if word >> bit & 1)
    return frozenset(index for index in named if index < messages)


def is_whole(words: Sequence[int], messages: int) -> bool:
    """Tell whether an `ack_set` calls each message of a batch open, and names no others; a batch may claim to have any number."""
    if len(words) != (messages + 63) // 64:
        return False
    rest = messages % 64
    return list(words) == [-1] * (messages // 64) + [(1 << rest) - 1] * (rest > 0)
