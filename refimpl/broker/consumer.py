"""A consumer on a connection: what it may still receive, and what it was sent."""

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


@dataclass(eq=False, slots=True)
class Consumer:
    """A consumer on a connection.

    Attributes:
        permits: Messages that the broker may still send; negative after a batch that was larger than the rest.
        pending: Number of messages of each sent and unacknowledged entry, by index.
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
    pending: dict[int, int] = field(default_factory=dict)
    messages_out: int = 0
    bytes_out: int = 0
    auto_schema: bool = False
    knows_end: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)
    since: float = 0.0

    @property
    def unacknowledged(self) -> int:
        """Return the number of unacknowledged messages; counted only on shared subscriptions."""
        return sum(self.pending.values()) if self.subscription.is_shared else 0

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
    """Return whether a consumer can receive an entry: it has permits, and its connection accepts output."""
    return consumer.permits > 0 and consumer.session.takes_messages
