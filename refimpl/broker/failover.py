"""Which consumer of a failover subscription is active: found as Apache Pulsar finds it.

Consumers are ordered by priority and name; only those of the first priority count. On a partition they take turns by its index. A
non-persistent topic without partitions counts as partition 0; on a persistent one each consumer has 100 places on a ring of hashes, and
the one at or after the topic's hash is active.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from refimpl.names import TopicName

if TYPE_CHECKING:
    from refimpl.broker.subscription import Consumer

_PLACES = 100
"""Places of each consumer on the ring."""


def active_consumer(topic: TopicName, consumers: Sequence[Consumer]) -> Consumer:
    """Return the active one of these consumers, which are ordered by priority and name; there is at least one."""
    first = [one for one in consumers if one.priority_level == consumers[0].priority_level]
    if len(first) == 1:
        return first[0]
    if topic.partition >= 0 or not topic.persistent:
        return first[max(topic.partition, 0) % len(first)]
    ring = {_hash(f"{consumer.name}{place}"): consumer for consumer in first for place in range(_PLACES)}
    hashes = sorted(ring)
    return ring[hashes[bisect_left(hashes, _hash(topic.full)) % len(hashes)]]


def _hash(text: str) -> int:
    """Return 31 bits of Murmur3 (32 bits for x86, seed 0)."""
    data = text.encode()
    mixed = 0
    for start in range(0, len(data), 4):
        chunk = data[start : start + 4]
        part = int.from_bytes(chunk, "little") * 0xCC9E2D51 & 0xFFFFFFFF
        mixed ^= _rotated(part, 15) * 0x1B873593 & 0xFFFFFFFF
        if len(chunk) == 4:
            mixed = (_rotated(mixed, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    mixed ^= len(data)
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return (mixed ^ mixed >> 16) & 0x7FFFFFFF


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & 0xFFFFFFFF
