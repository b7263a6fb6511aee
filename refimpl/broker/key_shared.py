"""Which consumer of a Key_Shared subscription gets which entry: found as Apache Pulsar 4.2 finds it.

The key of an entry has a hash, and each hash belongs to one consumer. With AUTO_SPLIT each consumer has 100 places on a ring of hashes,
and a hash belongs to the one whose place is at it or next after it. With STICKY each consumer names ranges of hashes.

Entries that can't be sent yet wait, while those behind them with other hashes are sent. They wait for a consumer of their hash, for its
permits, or until their hash is drained. A hash drains when it passes to another consumer while entries with it are pending with the one
before: until these are settled, nothing else with that hash is sent. So the entries of a key stay in order.
"""

from __future__ import annotations

import base64
import binascii
import itertools
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from refimpl.proposals.refused import Refused
from refimpl.store import Entry
from refimpl.wire.murmur3 import murmur3
from refimpl.wire.payload import parse_payload
from refimpl.wire.pulsar_api_pb2 import ConsumerAssignError, ConsumerBusy, KeySharedMeta, KeySharedMode, MessageMetadata

if TYPE_CHECKING:
    from refimpl.broker.consumer import Consumer

LOOK_AHEAD = 2000
"""Entries for each consumer that may wait before no further ones are read: keySharedLookAheadMsgInReplayThresholdPerConsumer."""
_PLACES = 100
"""Places of each consumer on the ring: subscriptionKeySharedConsistentHashingReplicaPoints."""
_HASHES = 65536


def key_of(metadata: MessageMetadata) -> bytes:
    """Return what keeps entries together: the ordering key, or else the partition key. Without either, an entry goes by itself."""
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if not metadata.HasField("partition_key"):
        return f"{metadata.producer_name}-{metadata.sequence_id}".encode()
    if not metadata.partition_key_b64_encoded:
        return metadata.partition_key.encode()
    try:
        return base64.b64decode(metadata.partition_key, validate=True)
    except binascii.Error:
        return b"NONE_KEY"


def check_ranges(meta: KeySharedMeta) -> None:
    """Check the ranges of a STICKY consumer by themselves.

    Raises:
        Refused: ConsumerAssignError: core.key-shared.sticky-invalid.
    """
    ranges = sorted((one.start, one.end) for one in meta.hashRanges)
    if not ranges:
        raise Refused(ConsumerAssignError, "Ranges for KeyShared policy must not be empty.")
    if wrong := next(((start, end) for start, end in ranges if start > end), None):
        raise Refused(ConsumerAssignError, f"Fixed hash range start > end: {wrong[0]} > {wrong[1]}")
    for (start, end), (next_start, next_end) in itertools.pairwise(ranges):
        if next_start <= end:
            detail = f"[{start},{end}] overlaps with [{next_start},{next_end}]"
            raise Refused(ConsumerAssignError, f"Consumer's own ranges conflict: {detail}")


class Assignment(Protocol):
    """Which hash belongs to which consumer."""

    def hash_of(self, key: bytes) -> int:
        """Return the hash of a key."""
        ...

    def add(self, consumer: Consumer, meta: KeySharedMeta) -> None:
        """Add a consumer."""
        ...

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        ...

    def owner(self, hash_: int) -> Consumer | None:
        """Return the consumer to which a hash belongs."""
        ...

    def ranges(self, consumer: Consumer) -> list[list[int]]:
        """Return the first and last hashes of the ranges of a consumer."""
        ...


class AutoSplit:
    """A ring of hashes. Consumers of one name are numbered, and have places of their own. A place is for the first one that came."""

    def __init__(self) -> None:
        self._places: dict[Consumer, tuple[int, list[int]]] = {}
        self._ring: dict[int, Consumer] = {}
        self._sorted: list[int] = []

    def hash_of(self, key: bytes) -> int:
        """Return the hash of a key, from 1 to 65535."""
        return (murmur3(key) & 0x7FFF_FFFF) % (_HASHES - 1) + 1

    def add(self, consumer: Consumer, meta: KeySharedMeta) -> None:  # noqa: ARG002
        """Give a consumer its places."""
        taken = {number for one, (number, _) in self._places.items() if one.name == consumer.name}
        number = next(one for one in range(len(taken) + 1) if one not in taken)
        places = [self.hash_of(f"{consumer.name}\0{number}\0{place}".encode()) for place in range(_PLACES)]
        self._places[consumer] = number, places
        self._arrange()

    def remove(self, consumer: Consumer) -> None:
        """Take the places of a consumer away."""
        del self._places[consumer]
        self._arrange()

    def owner(self, hash_: int) -> Consumer | None:
        """Return the consumer at a hash or next after it."""
        return self._ring[self._sorted[bisect_left(self._sorted, hash_) % len(self._sorted)]] if self._sorted else None

    def ranges(self, consumer: Consumer) -> list[list[int]]:
        """Return the first and last hashes of the ranges of a consumer."""
        found: list[list[int]] = []
        for before, last in itertools.pairwise([0, *self._sorted, _HASHES - 1]):
            if before < last and self.owner(last) is consumer:
                if found and found[-1][1] == before:
                    found[-1][1] = last
                else:
                    found.append([before + 1, last])
        return found

    def _arrange(self) -> None:
        self._ring = {}
        for consumer, (_, places) in self._places.items():
            for place in places:
                self._ring.setdefault(place, consumer)
        self._sorted = sorted(self._ring)


class Sticky:
    """Ranges of hashes, each with the consumer that has named it; both ends belong to a range."""

    def __init__(self) -> None:
        self._ranges: dict[Consumer, list[range]] = {}

    def hash_of(self, key: bytes) -> int:
        """Return the hash of a key, as the clients compute it. Only 0 is never used: such keys count as 1."""
        return (murmur3(key) & 0x7FFF_FFFF) % _HASHES or 1

    def add(self, consumer: Consumer, meta: KeySharedMeta) -> None:
        """Give a consumer its ranges."""
        self._ranges[consumer] = _ranges(meta)

    def remove(self, consumer: Consumer) -> None:
        """Take the ranges of a consumer away."""
        del self._ranges[consumer]

    def owner(self, hash_: int) -> Consumer | None:
        """Return the consumer that has named a hash."""
        return next((consumer for consumer, ranges in self._ranges.items() if any(hash_ in one for one in ranges)), None)

    def ranges(self, consumer: Consumer) -> list[list[int]]:
        """Return the first and last hashes that a consumer has named."""
        return [[one.start, one.stop - 1] for one in self._ranges[consumer]]

    def overlapping(self, meta: KeySharedMeta) -> Consumer | None:
        """Return a consumer whose ranges overlap with those of another one."""
        wanted = _ranges(meta)
        return next((consumer for consumer, ranges in self._ranges.items() if any(_overlap(a, b) for a in ranges for b in wanted)), None)


def _ranges(meta: KeySharedMeta) -> list[range]:
    return [range(one.start, one.end + 1) for one in meta.hashRanges]


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


class KeyShared:
    """Which consumer gets which entry, and which entries wait.

    Args:
        meta: What the first consumer asked for. An exclusive consumer may name hash ranges, too, and gets nothing else.
        entries: The entries of the topic, by index.
    """

    def __init__(self, meta: KeySharedMeta, entries: Sequence[Entry]) -> None:
        self.meta = meta
        self._entries = entries
        self._assignment: Assignment = Sticky() if meta.keySharedMode == KeySharedMode.STICKY else AutoSplit()
        self._drains = meta.keySharedMode == KeySharedMode.AUTO_SPLIT and not meta.allowOutOfOrderDelivery
        self._consumers: list[Consumer] = []
        self._hashes: dict[int, int] = {}  # of the entries that wait
        self._waiting: dict[Consumer | int | None, list[int]] = {}  # for permits of a consumer, a draining hash, or a consumer
        self._draining: Counter[int] = Counter()  # by hash: entries pending with a consumer to which it no longer belongs

    @property
    def may_read(self) -> bool:
        """Return whether further entries are read: not if too many wait."""
        return sum(map(len, self._waiting.values())) < LOOK_AHEAD * len(self._consumers)

    # Consumers

    def check_joins(self, meta: KeySharedMeta) -> None:
        """Check whether a consumer may join those that are there.

        Raises:
            Refused: ConsumerBusy: it asks for another mode or order; ConsumerAssignError: its ranges overlap with those of another one.
        """
        detail = ""
        if meta.keySharedMode != self.meta.keySharedMode:  # core.key-shared.mode-conflict
            mode, wanted = (f"'{KeySharedMode.Name(one.keySharedMode)}'" for one in (self.meta, meta))
            differs = f"is different than the connecting consumer's key_shared mode {wanted}."
            detail = f"Active subscription key_shared mode of {mode} {differs}"
        elif meta.allowOutOfOrderDelivery != self.meta.allowOutOfOrderDelivery:
            mode, wanted = ("allows", "does not allow") if self.meta.allowOutOfOrderDelivery else ("does not allow", "allows")
            detail = f"Active subscription {mode} out of order delivery while the connecting consumer {wanted} it."
        if detail:
            raise Refused(ConsumerBusy, f"Subscription is of different type. {detail}")
        if (other := self.overlapping(meta)) is not None:  # core.key-shared.sticky-overlap
            raise Refused(ConsumerAssignError, f"Range conflict with consumer {other.name}")

    def ranges(self, consumer: Consumer) -> list[list[int]]:
        """Return the first and last hashes of the ranges of a consumer."""
        return self._assignment.ranges(consumer)

    def overlapping(self, meta: KeySharedMeta) -> Consumer | None:
        """Return a consumer whose ranges overlap with those of another one."""
        return self._assignment.overlapping(meta) if isinstance(self._assignment, Sticky) else None

    def joined(self, consumer: Consumer, meta: KeySharedMeta) -> list[int]:
        """Add a consumer, and return the entries that wait no longer."""
        self._consumers.append(consumer)
        self._assignment.add(consumer, meta)
        return self._changed()

    def left(self, consumer: Consumer) -> list[int]:
        """Remove a consumer whose entries are no longer pending, and return the entries that wait no longer."""
        self._consumers.remove(consumer)
        self._assignment.remove(consumer)
        return self._changed()

    def _changed(self) -> list[int]:
        self._draining.clear()
        if self._drains:
            pending = [(consumer, self._hash_of(self._entries[index])) for consumer in self._consumers for index in consumer.pending]
            self._draining.update(hash_ for consumer, hash_ in pending if self._assignment.owner(hash_) is not consumer)
        return self._released(list(self._waiting))

    # Entries

    def taker(self, index: int, takes: Callable[[Consumer], bool]) -> Consumer | None:
        """Return the consumer that gets an entry now; None: the entry waits.

        Args:
            index: The index of the entry.
            takes: Whether a consumer can receive an entry now.
        """
        hash_ = self._hashes.pop(index, None) or self._hash_of(self._entries[index])
        owner = self._assignment.owner(hash_)
        drains = hash_ in self._draining
        if owner is not None and not drains and takes(owner):
            return owner
        self._hashes[index] = hash_
        self._waiting.setdefault(hash_ if drains else owner, []).append(index)
        return None

    def owner(self, entry: Entry) -> Consumer | None:
        """Return the consumer to which the hash of an entry belongs."""
        return self._assignment.owner(self._hash_of(entry))

    def served(self, takes: Callable[[Consumer], bool]) -> list[int]:
        """Return the entries that wait no longer, because their consumers can receive something now."""
        return self._released([one for one in self._consumers if one in self._waiting and takes(one)])

    def settled(self, consumer: Consumer, index: int) -> list[int]:
        """Handle that an entry is no longer pending with a consumer, and return the entries that wait no longer."""
        if not self._draining:
            return []
        hash_ = self._hash_of(self._entries[index])
        if hash_ not in self._draining or self._assignment.owner(hash_) is consumer:
            return []
        self._draining[hash_] -= 1
        if self._draining[hash_]:
            return []
        del self._draining[hash_]
        return self._released([hash_])

    def _released(self, reasons: Iterable[Consumer | int | None]) -> list[int]:
        return [index for reason in reasons for index in self._waiting.pop(reason, ())]

    def _hash_of(self, entry: Entry) -> int:
        return self._assignment.hash_of(key_of(parse_payload(entry.data).metadata))
