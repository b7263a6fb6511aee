"""The store in memory. A second broker on the same store finds the state of the first one.

An entry is the content of one SEND: a single message or a batch. The index of an entry is its position in its topic, from 0; it is
the `entryId` on the wire.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, overload

from refimpl.wire.pulsar_api_pb2 import Schema

LEDGER_BYTES = 16 * 1024 * 1024
"""Bytes of data after which a ledger is full."""
LEDGER_ENTRIES = 50_000
"""Entries after which a ledger is full, as in Pulsar."""


class Chunk(NamedTuple):
    """Which part of a message an entry is.

    Attributes:
        uuid: What all chunks of the message have in common.
        number: The number of the chunk, from 0.
        last: Whether it is the last one.
    """

    uuid: str
    number: int
    last: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored SEND.

    Attributes:
        data: Checksum, metadata and body as sent.
        messages: Number of messages.
        batch: Whether it is a batch, even of one message.
        publish_time: Milliseconds since 1970, by the producer's clock.
        deliver_at: Milliseconds since 1970 before which a shared subscription does not deliver it; 0: at once.
        chunk: Which part of a message it is; None: a whole one, or a batch.
    """

    data: bytes
    messages: int
    batch: bool
    publish_time: int
    deliver_at: int = 0
    chunk: Chunk | None = None


class FullLedger(NamedTuple):
    """A ledger that takes no more entries: it was full, or its topic was unloaded.

    Attributes:
        end: The index after its last entry.
        bytes: The bytes of its entries.
        closed: When it was closed, in seconds.
    """

    end: int
    bytes: int
    closed: float


class Entries(Sequence[Entry]):
    """The entries of a topic, by index. The length counts those that are freed, too: an index never changes.

    As in Pulsar, entries fill one ledger after the other, and are freed by whole ledgers, but never those of the last one. So a new
    subscription finds what was published a while ago, even if all others have acknowledged it. The ledgers have one id on the wire.

    Attributes:
        first: The index of the first entry that is not freed.
        end: The index of the next entry, which is the length.
        bytes: The bytes of the entries that are not freed.
    """

    def __init__(self) -> None:
        self.first = 0
        self.end = 0
        self.bytes = 0
        self._kept: list[Entry] = []
        self._full: list[FullLedger] = []
        self._began = 0
        self._bytes = 0  # of the last ledger

    def __len__(self) -> int:
        return self.end

    @overload
    def __getitem__(self, index: int) -> Entry: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Entry]: ...

    def __getitem__(self, index: int | slice) -> Entry | Sequence[Entry]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        if 0 <= index < self.first:
            raise IndexError(f"entry {index} is freed")
        return self._kept[index - self.first if index >= 0 else index]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._kept)

    def append(self, entry: Entry, now: float = 0.0) -> bool:
        """Append an entry, and return whether a new ledger begins with it."""
        full = self._bytes >= LEDGER_BYTES or self.end - self._began >= LEDGER_ENTRIES
        if full:
            self.close(now)
        self._kept.append(entry)
        self._bytes += len(entry.data)
        self.bytes += len(entry.data)
        self.end += 1
        return full

    def close(self, now: float) -> None:
        """Close the last ledger, if it has entries, as if it were full."""
        if self._began < self.end:
            self._full.append(FullLedger(self.end, self._bytes, now))
            self._began, self._bytes = self.end, 0

    @property
    def last_ledger(self) -> tuple[int, int]:
        """Return the number of entries of the last ledger, and their bytes."""
        return self.end - self._began, self._bytes

    def ends_between(self, before: int, after: int) -> bool:
        """Return whether a full ledger ends between two indexes, or at the first: with the second, its successor is begun."""
        return bool(self._full) and self._before(before - 1) < self._before(after - 1)

    def free(self, index: int, keeps: Callable[[FullLedger, int], bool] = lambda *_: False) -> None:
        """Free the full ledgers that end before or at an index.

        Args:
            index: The index.
            keeps: Whether retention keeps a ledger, given the bytes that are left without it; then it keeps all later ones, too.
        """
        count, left = 0, self.bytes
        for ledger in self._full[: self._before(index)]:
            if keeps(ledger, left - ledger.bytes):
                break
            left -= ledger.bytes
            count += 1
        if count:
            end = self._full[count - 1].end
            del self._kept[: end - self.first], self._full[:count]
            self.first, self.bytes = end, left

    def estimated_bytes_from(self, index: int) -> int:
        """Return about how many bytes there are from an index on, as Pulsar estimates them: each entry of a ledger has its average size."""
        begin, found = self.first, 0
        for end, size in (*((one.end, one.bytes) for one in self._full), (self.end, self._bytes)):
            passed, entries = max(index - begin, 0), end - begin
            if passed < entries:
                found += size - passed * (size // entries)
            begin = end
        return found

    def _before(self, index: int) -> int:
        return bisect_right(self._full, index, key=lambda ledger: ledger.end)


@dataclass(slots=True)
class Cursor:
    """The cursor of a subscription: what it has acknowledged.

    Attributes:
        mark_delete: Every entry below this index is acknowledged.
        acknowledged: Individually acknowledged entries from this index on.
        open_messages: For each partly acknowledged batch, the indexes of the unacknowledged messages.
        properties: The properties in the SUBSCRIBE that created the subscription.
        replicated: Whether other clusters should have the subscription, which is only told.
    """

    mark_delete: int = 0
    acknowledged: set[int] = field(default_factory=set)
    open_messages: dict[int, frozenset[int]] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    replicated: bool = False

    def is_acknowledged(self, index: int) -> bool:
        """Return whether an entry is acknowledged as a whole."""
        return index < self.mark_delete or index in self.acknowledged

    def acknowledge(self, index: int) -> None:
        """Acknowledge one entry."""
        if index < self.mark_delete:
            return
        self.acknowledged.add(index)
        self.open_messages.pop(index, None)
        while self.mark_delete in self.acknowledged:
            self.acknowledged.remove(self.mark_delete)
            self.mark_delete += 1

    def acknowledge_up_to(self, index: int) -> None:
        """Acknowledge an entry and all before it."""
        self.mark_delete = max(self.mark_delete, index + 1)
        self.acknowledged = {one for one in self.acknowledged if one >= self.mark_delete}
        self.open_messages = {one: left for one, left in self.open_messages.items() if one >= self.mark_delete}
        while self.mark_delete in self.acknowledged:
            self.acknowledged.remove(self.mark_delete)
            self.mark_delete += 1

    def acknowledge_in_part(self, index: int, open_messages: Iterable[int]) -> None:
        """Acknowledge messages of a batch: a message stays open only if it was open before and is in `open_messages`."""
        left = frozenset(open_messages)
        if index in self.open_messages:
            left &= self.open_messages[index]
        if not left:
            self.acknowledge(index)
        elif not self.is_acknowledged(index):
            self.open_messages[index] = left

    def reset(self, index: int) -> None:
        """Reset to an index: exactly the entries before it are acknowledged."""
        self.mark_delete = index
        self.acknowledged.clear()
        self.open_messages.clear()


@dataclass(slots=True)
class StoredTopic:
    """A persistent topic, or one partition of one.

    Attributes:
        ledger_id: The ledger id of all its messages.
        epoch: The number of exclusive producers so far, counted from 0; None: there was none.
        terminated: Whether it takes no more messages.
        sequences: The highest sequence id of each producer, by name, where messages are deduplicated.
    """

    ledger_id: int
    epoch: int | None = None
    terminated: bool = False
    sequences: dict[str, int] = field(default_factory=dict)
    entries: Entries = field(default_factory=Entries)
    cursors: dict[str, Cursor] = field(default_factory=dict)


@dataclass(slots=True)
class StoredNamespace:
    """A namespace.

    Attributes:
        topics: Persistent topics by full name; each partition is one.
        names: Their names, sorted, since a namespace with many topics is often listed.
        partitioned: Partition counts by full name of the partitioned topic, in both domains.
        permissions: Allowed actions by role.
        schemas: Schemas in the order of their versions, None for those deleted, by topic name without domain and partition.
        policies: What administrators have set for all topics, by Pulsar's names.
        topic_policies: The same for single topics, by full name of the topic or partitioned topic.
        properties: Properties of topics, by full name of the topic or partitioned topic.
        bundles: The boundaries of its bundles: ranges of hashes of topic names.
    """

    topics: dict[str, StoredTopic] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    partitioned: dict[str, int] = field(default_factory=dict)
    permissions: dict[str, set[str]] = field(default_factory=dict)
    schemas: dict[str, list[Schema | None]] = field(default_factory=dict)
    policies: dict[str, Any] = field(default_factory=dict)
    topic_policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    properties: dict[str, dict[str, str]] = field(default_factory=dict)
    bundles: tuple[int, ...] = (0, 2**32 - 1)


class MemoryStore:
    """The whole state of a broker.

    Attributes:
        tenants: Admin roles, by tenant.
        namespaces: Namespaces, by "tenant/namespace".
        kept: The state of each proposal, by register.
    """

    def __init__(self) -> None:
        self.tenants: dict[str, set[str]] = {"public": set(), "pulsar": set()}
        self.namespaces: dict[str, StoredNamespace] = {"public/default": StoredNamespace(), "pulsar/system": StoredNamespace()}
        self.kept: dict[str, Any] = {}
        self._ledgers = 0

    def create_topic(self, namespace: str, topic: str) -> StoredTopic:
        """Create an empty topic in an existing namespace."""
        within = self.namespaces[namespace]
        if topic not in within.topics:
            insort(within.names, topic)
        within.topics[topic] = stored = self.new_topic()
        return stored

    def delete_topic(self, namespace: str, topic: str) -> None:
        """Delete an existing topic."""
        within = self.namespaces[namespace]
        del within.topics[topic], within.names[bisect_left(within.names, topic)]

    def new_topic(self) -> StoredTopic:
        """Return an empty topic, which the caller stores."""
        self._ledgers += 1
        return StoredTopic(self._ledgers)
