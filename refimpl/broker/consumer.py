"""A consumer on a connection: what it may still receive, and what it was sent.

A consumer of a shared subscription that has too many unacknowledged messages gets no more until half of them are left; so do all consumers
of a subscription that has too many.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from refimpl.store import Entry
from refimpl.wire import without_checksum
from refimpl.wire.ack_set import ack_set
from refimpl.wire.pulsar_api_pb2 import CommandMessage

if TYPE_CHECKING:
    from refimpl.broker.session import Session
    from refimpl.broker.subscription import Subscription

CHECKSUM_VERSION = 11
"""Protocol version from which on clients get the checksums of messages: core.deliver.checksum-version."""


class Unacknowledged:
    """How many messages were sent and are unacknowledged."""

    def __init__(self) -> None:
        self.messages = 0
        self._too_many = False

    def are_too_many(self, limit: int) -> bool:
        """Return whether they are too many: from a limit on, until half of it is left; 0 is no limit."""
        self._too_many = limit > 0 and self.messages >= (limit // 2 + 1 if self._too_many else limit)
        return self._too_many


class Pending(dict[int, int]):
    """Number of messages of each sent and unacknowledged entry, by index.

    Args:
        counts: What counts these messages.
    """

    def __init__(self, *counts: Unacknowledged) -> None:
        super().__init__()
        self._counts = counts

    def __setitem__(self, index: int, messages: int) -> None:
        """Add an entry, or change the number of its messages."""
        self._count(messages - self.get(index, 0))
        super().__setitem__(index, messages)

    def __delitem__(self, index: int) -> None:
        """Take an entry away."""
        self._count(-self[index])
        super().__delitem__(index)

    def clear(self) -> None:
        """Take all entries away."""
        self._count(-sum(self.values()))
        super().clear()

    def _count(self, messages: int) -> None:
        for one in self._counts:
            one.messages += messages


@dataclass(eq=False, slots=True)
class Consumer:
    """A consumer on a connection.

    Attributes:
        permits: Messages that the broker may still send; negative after a batch that was larger than the rest.
        pending: The entries that were sent to it and are unacknowledged.
        epoch: The epoch of its last redelivery request, repeated in each MESSAGE; None: it uses no epoch.
        auto_schema: Whether it accepts any schema of the topic.
        knows_end: Whether it was told that the topic is terminated, and nothing is left.
        metadata: What it says of itself.
        since: When it came, in seconds since 1970.
    """

    consumer_id: int
    session: Session
    subscription: Subscription
    name: str
    priority_level: int = 0
    epoch: int | None = None
    permits: int = 0
    messages_out: int = 0
    bytes_out: int = 0
    auto_schema: bool = False
    knows_end: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)
    since: float = 0.0
    pending: Pending = field(init=False)
    _unacknowledged: Unacknowledged = field(default_factory=Unacknowledged, init=False)

    def __post_init__(self) -> None:
        """Count its messages, and among those of its subscription."""
        self.pending = Pending(self._unacknowledged, self.subscription.pending_messages)

    @property
    def unacknowledged(self) -> int:
        """Return the number of unacknowledged messages; counted only on shared subscriptions."""
        return self._unacknowledged.messages if self.subscription.is_shared else 0

    @property
    def is_blocked(self) -> bool:
        """Return whether it gets nothing, because it has too many unacknowledged messages."""
        limit = self.session.broker.configuration.max_unacked_messages_per_consumer
        return self.subscription.is_shared and self._unacknowledged.are_too_many(limit)

    def send(self, index: int, entry: Entry, redeliveries: int, open_messages: frozenset[int] | None) -> None:
        """Send an entry; the bytes after the command are as stored."""
        topic = self.subscription.topic
        message = CommandMessage(consumer_id=self.consumer_id, message_id=topic.message_id(index))
        if redeliveries:
            message.redelivery_count = redeliveries
        if open_messages is not None:
            message.ack_set.extend(ack_set(open_messages))
        if self.epoch is not None and not self.subscription.is_shared:
            message.consumer_epoch = self.epoch
        count = entry.messages if open_messages is None else len(open_messages)
        self.permits -= count  # core.deliver.batch-permits: one permit for each message of a batch
        self.messages_out += count
        self.bytes_out += len(entry.data)
        self.subscription.messages_out += count
        self.subscription.bytes_out += len(entry.data)
        topic.messages_out += count
        topic.bytes_out += len(entry.data)
        self.session.send(message, entry.data if self.session.speaks(CHECKSUM_VERSION) else without_checksum(entry.data))


def takes(consumer: Consumer) -> bool:
    """Return whether a consumer can receive an entry: it has permits, its connection accepts output, and it acknowledges enough."""
    if consumer.permits <= 0 or not consumer.session.takes_messages:
        return False
    if not consumer.is_blocked and not consumer.subscription.is_blocked:
        return True
    consumer.subscription.waits_for_acknowledgements = True
    return False
