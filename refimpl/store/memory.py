"""The store in memory. A second broker on the same store finds everything that the first one left.

Messages are counted in entries: an entry is what one SEND brought, a single message or a batch. An index is the place
of an entry in its topic, from 0; it is the `entryId` on the wire.
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
        data: Checksum, metadata and body as they were sent.
        messages: How many messages it holds.
        batch: It is a batch, perhaps of one message.
        publish_time: Milliseconds since 1970, by the producer's clock.
    """

    data: bytes
    messages: int
    batch: bool
    publish_time: int


@dataclass(slots=True)
class Cursor:
    """What a subscription has acknowledged.

    Attributes:
        mark_delete: Every entry below this index is acknowledged.
        acknowledged: Acknowledged entries from this index on.
        open_messages: Of batches that are acknowledged in part, the indexes of the messages that are not.
        properties: Given by the SUBSCRIBE that created the subscription.
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
        """Acknowledge messages of a batch: only those that were open before and are open in this report stay open."""
        left = frozenset(open_messages)
        if index in self.open_messages:
            left &= self.open_messages[index]
        if not left:
            self.acknowledge(index)
        elif not self.is_acknowledged(index):
            self.open_messages[index] = left

    def reset(self, index: int) -> None:
        """Go to an index: what is before it counts as acknowledged, nothing else does."""
        self.mark_delete = index
        self.acknowledged.clear()
        self.open_messages.clear()


@dataclass(slots=True)
class StoredTopic:
    """A persistent topic, or one partition of one.

    Attributes:
        ledger_id: The first half of the id of each of its messages.
    """

    ledger_id: int
    entries: list[Entry] = field(default_factory=list)
    cursors: dict[str, Cursor] = field(default_factory=dict)


@dataclass(slots=True)
class StoredNamespace:
    """A namespace.

    Attributes:
        topics: Persistent topics by full name; each partition is one.
        partitioned: Number of partitions by full name of the partitioned topic, of both domains.
        permissions: Allowed actions by role.
        schemas: Schemas in the order of their versions, by topic: without domain and partition.
    """

    topics: dict[str, StoredTopic] = field(default_factory=dict)
    partitioned: dict[str, int] = field(default_factory=dict)
    permissions: dict[str, set[str]] = field(default_factory=dict)
    schemas: dict[str, list[Schema]] = field(default_factory=dict)


class MemoryStore:
    """Everything, by name.

    Attributes:
        tenants: Roles that administer a tenant, by tenant.
        namespaces: By "tenant/namespace".
        kept: What a proposal keeps, by its register.
    """

    def __init__(self) -> None:
        self.tenants: dict[str, set[str]] = {"public": set(), "pulsar": set()}
        self.namespaces: dict[str, StoredNamespace] = {"public/default": StoredNamespace(), "pulsar/system": StoredNamespace()}
        self.kept: dict[str, Any] = {}
        self._ledgers = 0

    def create_topic(self, namespace: str, topic: str) -> StoredTopic:
        """Create an empty topic in a namespace that exists."""
        stored = self.namespaces[namespace].topics[topic] = self.new_topic()
        return stored

    def new_topic(self) -> StoredTopic:
        """Return an empty topic, which whoever asks for it keeps."""
        self._ledgers += 1
        return StoredTopic(self._ledgers)
