"""Bundles: the ranges of hashes of topic names that a namespace is divided into, as in Apache Pulsar.

    boundaries 00000000 80000000 ffffffff   two bundles: 0x00000000_0x80000000 and 0x80000000_0xffffffff

They can be asked for and unloaded. In a cluster each has an owner: see members.py.
"""

from __future__ import annotations

import itertools
import zlib
from bisect import bisect_right

FIRST, LAST = 0, 2**32 - 1
MOST_BUNDLES = 1024
"""Maximum number of bundles, so that one call can't exhaust the memory."""


def divided(bundles: int) -> tuple[int, ...]:
    """Return the boundaries of bundles of equal size.

    Raises:
        ValueError: There can't be so many.
    """
    if not 1 <= bundles <= MOST_BUNDLES:
        raise ValueError(f"the number of bundles has to be between 1 and {MOST_BUNDLES}")
    size = 2**32 // bundles
    return (*(size * number for number in range(bundles)), LAST)


def texts(boundaries: tuple[int, ...]) -> list[str]:
    """Return boundaries as Pulsar writes them."""
    return [f"0x{one:08x}" for one in boundaries]


def parse(boundaries: list[str]) -> tuple[int, ...]:
    """Parse boundaries.

    Raises:
        ValueError: They are not those of bundles.
    """
    found = tuple(sorted({int(one, 16) for one in boundaries}))
    if found[:1] != (FIRST,) or found[-1:] != (LAST,):
        first, last = (f"0x{found[place]:08x}" for place in (0, -1))
        raise ValueError(f"Input bundles do not cover the whole hash range. first:{first}, last:{last}")
    return found


def ranges(boundaries: tuple[int, ...]) -> list[str]:
    """Return the names of the bundles."""
    return ["_".join(pair) for pair in itertools.pairwise(texts(boundaries))]


def bundle_of(topic: str, boundaries: tuple[int, ...]) -> str:
    """Return the bundle of a topic, given by full name."""
    return ranges(boundaries)[min(bisect_right(boundaries, zlib.crc32(topic.encode())), len(boundaries) - 1) - 1]
