"""A topic that the broker serves: its producers, its subscriptions, its entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from refimpl.broker.access_modes import ProducerAccess
from refimpl.broker.filtering import FiltersOf, SubscriptionFilters
from refimpl.broker.non_persistent import NonPersistentSubscription
from refimpl.broker.policies import Policies
from refimpl.broker.subscription import Subscription
from refimpl.names import TopicName
from refimpl.proposals.refused import Refused
from refimpl.store import Cursor, Entry, StoredTopic
from refimpl.wire.pulsar_api_pb2 import MessageIdData, ProducerAccessMode, ProducerBusy, TopicTerminatedError

if TYPE_CHECKING:
    from refimpl.broker.session import Session

MAX_U64 = 2**64 - 1
LATEST = 2**63 - 1
"""Ledger id and entry id of the position after the last message."""


@dataclass(eq=False, slots=True)
class Producer:
    """A producer on a connection.

    Attributes:
        topic_epoch: The epoch that it had before it connected again; None: none.
        ready: Whether it may send; not while it waits for the topic.
        its_turn: Called when a producer that waits becomes ready.
        turned_away: Called with the reason when a producer that waits is thrown out.
        metadata: What it says of itself.
        since: When it came, in seconds since 1970.
    """

    producer_id: int
    session: Session
    topic: Topic
    name: str
    access_mode: ProducerAccessMode = ProducerAccessMode.Shared
    topic_epoch: int | None = None
    ready: bool = True
    its_turn: Callable[[], None] = lambda: None
    turned_away: Callable[[Refused], None] = lambda _: None
    messages_in: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)
    since: float = 0.0
    schema_version: bytes = b""


class Topic:
    """A persistent topic, or one partition of one."""

    def __init__(self, name: TopicName, stored: StoredTopic, filters_of: FiltersOf, policies: Policies) -> None:
        self.name = name
        self.stored = stored
        self.entries = stored.entries
        self._filters_of = filters_of
        self.policies = policies
        self.producers: dict[str, Producer] = {}
        self.access = ProducerAccess(self)
        self.subscriptions: dict[str, Subscription] = {
            subscription: self._subscription(subscription, cursor, True, filters_of(cursor.properties))
            for subscription, cursor in stored.cursors.items()
        }
        self.messages_in = 0
        self.bytes_in = 0
        self.messages_out = 0
        self.bytes_out = 0
        self._begin_ledger()

    def _begin_ledger(self) -> None:
        """Begin a ledger, as each topic does that is loaded: what all subscriptions have acknowledged is freed.

        Not so with deduplication, which in Pulsar has a subscription of its own.
        """
        if not self.policies.deduplicates(self.name):
            self.entries.close(self.policies.now)
            if self.subscriptions:
                self.free()

    @property
    def in_use(self) -> bool:
        """Return whether a producer or a consumer is connected."""
        return bool(self.producers) or any(one.consumers for one in self.subscriptions.values())

    @property
    def used_without_schema(self) -> bool:
        """Return whether the topic has data, producers or consumers, so that a consumer can't add the first schema any more."""
        consumers = [consumer for one in self.subscriptions.values() for consumer in one.consumers]
        return bool(self.producers) or self.entries.bytes > 0 or not all(one.auto_schema for one in consumers)

    # Positions

    def message_id(self, index: int) -> MessageIdData:
        """Return the id of an entry: core.deliver.partition-index."""
        return MessageIdData(ledgerId=self.stored.ledger_id, entryId=index, partition=self.name.partition)

    def index_of(self, message_id: MessageIdData) -> int:
        """Return the index of an id; -1: before the first entry. It may be after the last entry."""
        if MAX_U64 in (message_id.entryId, message_id.ledgerId):
            return -1
        if message_id.ledgerId != self.stored.ledger_id:
            return -1 if message_id.ledgerId < self.stored.ledger_id else len(self.entries)
        return min(message_id.entryId, self.entries.end)

    def index_at(self, publish_time: int) -> int:
        """Return the index of the first entry published at or after a time in milliseconds since 1970.

        It is searched for as Pulsar does, which finds another one if the clocks of producers differ.
        """
        first, end = self.entries.first, self.entries.end

        def is_earlier(index: int) -> bool:
            return self.entries[index].publish_time < publish_time

        if first == end or not is_earlier(first):
            return first
        if is_earlier(end - 1):
            return end
        least, most = 0, end - first
        while least < most:
            middle = least + max((most - least) // 2, 1)
            if is_earlier(first + middle):
                least = middle
            else:
                most = middle - 1
        return first + least + 1

    @property
    def last_batch_index(self) -> int:
        """Return the place of the last message in its batch; -1: it is none, or freed."""
        last = self.entries[-1] if self.entries.first < self.entries.end else None
        return last.messages - 1 if last is not None and last.batch else -1

    # Producers

    def add_producer(self, producer: Producer) -> None:
        """Add a producer, which may have to wait.

        Raises:
            Refused: The topic takes no messages, the name is taken, or the access mode of the producer or of another one keeps it out.
        """
        if self.stored.terminated:
            raise Refused(TopicTerminatedError, "Topic was already terminated")
        self.access.check(producer)
        producer.ready = self.access.enter(producer)
        if producer.ready:
            self._let_in(producer)

    def _let_in(self, producer: Producer) -> None:
        if producer.name in self.producers:  # core.producer.name-taken
            raise Refused(ProducerBusy, f"Producer with name '{producer.name}' is already connected to topic '{self.name.full}'")
        self.producers[producer.name] = producer

    def remove_producer(self, producer: Producer) -> None:
        """Remove a producer; one that waits for the topic may be the next: core.producer.name-freed."""
        if self.producers.get(producer.name) is producer:
            del self.producers[producer.name]
        following = self.access.left(producer)
        if following is not None:
            following.ready = True
            self._let_in(following)
            following.its_turn()

    def append(self, producer: Producer, entry: Entry) -> MessageIdData:
        """Store an entry and return its id."""
        self._count(producer, entry)
        if self.entries.append(entry, producer.session.broker.now):
            self.free()
        return self.message_id(self.entries.end - 1)

    def free(self) -> None:
        """Free the full ledgers that every subscription has acknowledged, as far as retention does not keep them."""
        acknowledged = min((one.cursor.mark_delete for one in self.subscriptions.values()), default=len(self.entries))
        self.entries.free(acknowledged, self.policies.keeps(self.name))

    def dispatch(self, entry: Entry) -> None:  # noqa: ARG002
        """Send the appended entry to waiting consumers."""
        for subscription in self.subscriptions.values():
            subscription.dispatch()

    def _count(self, producer: Producer, entry: Entry) -> None:
        producer.messages_in += entry.messages
        self.messages_in += entry.messages
        self.bytes_in += len(entry.data)

    # Subscriptions

    def subscribe(
        self, name: str, index: int, *, durable: bool, properties: dict[str, str], filters: SubscriptionFilters | None = None
    ) -> Subscription:
        """Return a subscription; create it if it does not exist.

        The first SUBSCRIBE sets properties and filters; later ones do not change them.

        Args:
            name: The name, unique in the topic.
            index: The index of the first unacknowledged entry of a new subscription.
            durable: Whether it outlives its consumers.
            properties: The properties of a new subscription; they select entry filters.
            filters: The filters for these properties, if they exist already; None: make them.
        """
        found = self.subscriptions.get(name)
        if found is None:
            cursor = Cursor(mark_delete=index, properties=properties)
            found = self.subscriptions[name] = self._subscription(name, cursor, durable, filters or self._filters_of(properties))
            if durable:
                self.stored.cursors[name] = cursor
        return found

    def _subscription(self, name: str, cursor: Cursor, durable: bool, filters: SubscriptionFilters) -> Subscription:
        return Subscription(self, name, cursor, filters, durable=durable)

    def unsubscribe(self, name: str) -> None:
        """Remove a subscription."""
        del self.subscriptions[name]
        self.stored.cursors.pop(name, None)
        self.free()


class NonPersistentTopic(Topic):
    """A topic that stores nothing. It exists until it is unloaded or deleted, and is listed while it has producers or consumers."""

    def message_id(self, index: int) -> MessageIdData:
        """Return the id of all messages."""
        return MessageIdData(ledgerId=0, entryId=index, partition=self.name.partition)

    def append(self, producer: Producer, entry: Entry) -> MessageIdData:
        """Count an entry and return its id."""
        self._count(producer, entry)
        return self.message_id(0)

    def dispatch(self, entry: Entry) -> None:
        """Send an entry to the consumers that can receive it now."""
        for subscription in self.subscriptions.values():
            assert isinstance(subscription, NonPersistentSubscription)
            subscription.offer(entry)

    def _subscription(self, name: str, cursor: Cursor, durable: bool, filters: SubscriptionFilters) -> Subscription:
        return NonPersistentSubscription(self, name, cursor, filters, durable=durable)
