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
from refimpl.wire.murmur3 import murmur3

if TYPE_CHECKING:
    from refimpl.broker.consumer import Consumer

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
    return murmur3(text.encode()) & 0x7FFF_FFFF
