"""The store in memory. A second broker on the same store finds the state of the first one.

An entry is the content of one SEND: a single message or a batch. The index of an entry is its position in its topic, from 0; it is
the `entryId` on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from refimpl.wire.pulsar_api_pb2 import Schema


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored SEND.

    Attributes:
        data: Checksum, metadata and body as sent.
        messages: Number of messages.
        batch: Whether it is a batch, even of one message.
        publish_time: Milliseconds since 1970, by the producer's clock.
    """

    data: bytes
    messages: int
    batch: bool
    publish_time: int


@dataclass(slots=True)
class Cursor:
    """The cursor of a subscription: what it has acknowledged.

    Attributes:
        mark_delete: Every entry below this index is acknowledged.
        acknowledged: Individually acknowledged entries from this index on.
        open_messages: For each partly acknowledged batch, the indexes of the unacknowledged messages.
        properties: The properties in the SUBSCRIBE that created the subscription.
    """

    mark_delete: int = 0
    acknowledged: set[int] = field(default_factory=set)
    open_messages: dict[int, frozenset[int]] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)

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
    """

    ledger_id: int
    epoch: int | None = None
    entries: list[Entry] = field(default_factory=list)
    cursors: dict[str, Cursor] = field(default_factory=dict)


@dataclass(slots=True)
class StoredNamespace:
    """A namespace.

    Attributes:
        topics: Persistent topics by full name; each partition is one.
        partitioned: Partition counts by full name of the partitioned topic, in both domains.
        permissions: Allowed actions by role.
        schemas: Schemas in the order of their versions, by topic name without domain and partition.
    """

    topics: dict[str, StoredTopic] = field(default_factory=dict)
    partitioned: dict[str, int] = field(default_factory=dict)
    permissions: dict[str, set[str]] = field(default_factory=dict)
    schemas: dict[str, list[Schema]] = field(default_factory=dict)


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
        stored = self.namespaces[namespace].topics[topic] = self.new_topic()
        return stored

    def new_topic(self) -> StoredTopic:
        """Return an empty topic, which the caller stores."""
        self._ledgers += 1
        return StoredTopic(self._ledgers)
