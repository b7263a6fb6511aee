"""A subscription: dispatch, acknowledgement and redelivery of entries.

An entry is acknowledged, pending (sent and unacknowledged), waiting for replay (it was pending before), or unread. One loop serves
all subscription types: while a consumer can receive an entry, it sends the first entry to replay, or else the next unread entry.
Exclusive and Failover have one active consumer (failover.py); Shared alternates between the consumers of the first priority that can
receive something, and gives each a portion of what waits.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from refimpl.broker.failover import active_consumer
from refimpl.broker.filtering import SubscriptionFilters
from refimpl.proposals.extension import EntryVerdict
from refimpl.proposals.refused import Refused
from refimpl.store import Cursor, Entry
from refimpl.wire.pulsar_api_pb2 import (
    CommandActiveConsumerChange,
    CommandMessage,
    CommandSubscribe,
    ConsumerBusy,
)

if TYPE_CHECKING:
    from refimpl.broker.broker import Broker
    from refimpl.broker.session import Session
    from refimpl.broker.topic import Topic
    from refimpl.timers import Timer

SubType = CommandSubscribe.SubType
REJECTED_AT_ONCE = 5_000_000
"""Bytes of entries that filters may reject in one run, so that a filter that rejects a large backlog does not block other connections."""
PAUSE = 0.001
"""Seconds before the next run, in which other connections get their turn."""
PORTION = 20
"""Entries of a backlog that a shared consumer gets before the next one has its turn."""
_WORK_PER_ENTRY = 1000
"""Fixed cost of judging an entry, in bytes."""


@dataclass(eq=False, slots=True)
class Consumer:
    """A consumer on a connection.

    Attributes:
        permits: Messages that the broker may still send; negative after a batch that was larger than the rest.
        pending: Number of messages of each sent and unacknowledged entry, by index.
        epoch: The epoch of its last redelivery request, repeated in each MESSAGE; None: it uses no epoch.
        auto_schema: Whether it accepts any schema of the topic.
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

    @property
    def unacknowledged(self) -> int:
        """Return the number of unacknowledged messages; counted only on shared subscriptions."""
        return sum(self.pending.values()) if self.subscription.type == SubType.Shared else 0

    def send(self, index: int, entry: Entry, redeliveries: int, open_messages: frozenset[int] | None) -> None:
        """Send an entry; the bytes after the command are as stored."""
        topic = self.subscription.topic
        message = CommandMessage(consumer_id=self.consumer_id, message_id=topic.message_id(index))
        if redeliveries:
            message.redelivery_count = redeliveries
        if open_messages is not None:
            message.ack_set.extend(ack_set(open_messages))
        if self.epoch is not None:
            message.consumer_epoch = self.epoch
        count = entry.messages if open_messages is None else len(open_messages)
        self.permits -= count  # core.deliver.batch-permits: one permit for each message of a batch
        self.messages_out += count
        self.bytes_out += len(entry.data)
        self.session.send(message, entry.data)


class Subscription:
    """A subscription of a topic, with its cursor and its consumers.

    Args:
        topic: The topic.
        name: The name, unique in the topic.
        cursor: The cursor; it belongs to the store if the subscription is durable.
        filters: The filters that judge entries before they are sent.
        durable: Whether it outlives its consumers.
    """

    def __init__(self, topic: Topic, name: str, cursor: Cursor, filters: SubscriptionFilters, *, durable: bool = True) -> None:
        self.topic = topic
        self.name = name
        self.cursor = cursor
        self.filters = filters
        self.durable = durable
        self.type: SubType = SubType.Exclusive
        self.consumers: list[Consumer] = []
        self._replay: list[int] = []
        self._redeliveries: dict[int, int] = {}
        self._read = cursor.mark_delete
        self._turn = 0
        self._last_active: Consumer | None = None
        self._offer_timer: Timer | None = None
        self._turn_timer: Timer | None = None

    @property
    def properties(self) -> Mapping[str, str]:
        """Return the properties in the SUBSCRIBE that created it."""
        return self.cursor.properties

    # Consumers

    def check_joins(self, sub_type: SubType) -> None:
        """Check whether a consumer may join.

        Raises:
            Refused: ConsumerBusy.
        """
        if not self.consumers:
            return
        if sub_type != self.type:  # core.subscribe.type-conflict
            is_now, wanted = SubType.Name(self.type), SubType.Name(sub_type)
            detail = f"Active subscription type of '{is_now}' is different than the connecting consumer's type '{wanted}'."
            raise Refused(ConsumerBusy, f"Subscription is of different type. {detail}")
        if self.type == SubType.Exclusive:  # core.subscribe.exclusive-busy
            raise Refused(ConsumerBusy, "Exclusive consumer is already connected")

    def add(self, consumer: Consumer, sub_type: SubType) -> None:
        """Add a consumer that `check_joins` has accepted."""
        self.type = sub_type
        self.consumers.append(consumer)
        self.consumers.sort(key=lambda one: (one.priority_level, one.name if sub_type == SubType.Failover else ""))

    def tell_active(self, joined: Consumer | None = None) -> None:
        """Tell all failover consumers of a new active consumer, or only the one that joined: core.subscribe.active-consumer-change.

        What the old one has not acknowledged goes to the new one. An active consumer whose connection is ending is not announced: it
        leaves as well.
        """
        active, old = self._active(), self._last_active
        self._last_active = active
        if self.type != SubType.Failover or active is None:
            return
        if not active.session.closing:
            for consumer in self._told_of_change() if active is not old else [joined] if joined else []:
                consumer.session.send(CommandActiveConsumerChange(consumer_id=consumer.consumer_id, is_active=consumer is active))
        if old is not None and old is not active:
            self._replay_all(old.pending)
            old.pending.clear()
            self.dispatch()

    def _told_of_change(self) -> list[Consumer]:
        return self.consumers

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer; its unacknowledged messages go to the others: core.redeliver.on-close."""
        self.consumers.remove(consumer)
        if not self.consumers:
            self._redeliveries.clear()
        self.filters.left(consumer)
        self._replay_all(consumer.pending)
        consumer.pending.clear()
        self.tell_active()
        self.dispatch()

    def take_consumers(self) -> list[Consumer]:
        """Remove all consumers at once, so that none inherits from another, and return them."""
        taken, self.consumers = self.consumers, []
        for consumer in taken:
            self.filters.left(consumer)
            self._replay_all(consumer.pending)
            consumer.pending.clear()
        self.tell_active()
        return taken

    def _active(self) -> Consumer | None:
        return active_consumer(self.topic.name, self.consumers) if self.consumers else None

    # Dispatch

    def dispatch(self) -> None:
        """Send what consumers can receive now; continue a little later if filters reject many entries."""
        work = 0
        for consumer in self._takers():
            if work >= REJECTED_AT_ONCE:
                self.topic.free()
                self._dispatch_later(consumer.session.broker)
                return
            index = self._next()
            if index is None:
                return
            self._turn = self.consumers.index(consumer) + 1
            entry = self.topic.entries[index]
            verdict = self.filters.judge(consumer, index, entry, self.cursor)
            if verdict is EntryVerdict.ACCEPT:
                self._deliver(consumer, index)
            elif verdict is EntryVerdict.REJECT:
                self._redeliveries.pop(index, None)
                work += len(entry.data) + _WORK_PER_ENTRY
            else:
                self._await_offer(consumer.session.broker)

    def _dispatch_later(self, broker: Broker) -> None:
        if self._turn_timer is None:
            self._turn_timer = broker.timers.at(broker.now + PAUSE, self._dispatch_again)

    def _dispatch_again(self) -> None:
        self._turn_timer = None
        self.dispatch()

    def _await_offer(self, broker: Broker) -> None:
        deadline = self.filters.next_deadline()
        if deadline is not None and self._offer_timer is None:
            self._offer_timer = broker.timers.at(deadline, lambda: self._offer_again(broker))

    def _offer_again(self, broker: Broker) -> None:
        self._offer_timer = None
        due = [index for index in self.filters.due(broker.now) if not self.cursor.is_acknowledged(index)]
        for index in due:
            self._redeliveries[index] = self._redeliveries.get(index, 0) + 1
        self._replay_all(due)
        self._await_offer(broker)
        self.dispatch()

    def _takers(self) -> Iterator[Consumer]:
        """Yield the consumer that receives the next entry, as long as there is one; each gets up to a portion at once."""
        while (consumer := self._taker()) is not None:
            for _ in range(PORTION):
                yield consumer
                if not _takes(consumer):
                    break

    def _taker(self) -> Consumer | None:
        """Return a consumer that can receive an entry: it has permits (core.deliver.needs-permits), and its connection accepts output."""
        if self.type != SubType.Shared:
            active = self._active()
            return active if active is not None and _takes(active) else None
        takers = [place for place, one in enumerate(self.consumers) if _takes(one)]
        if not takers:
            return None
        first = [place for place in takers if self.consumers[place].priority_level == self.consumers[takers[0]].priority_level]
        place = next((one for one in first if one >= self._turn), first[0])
        return self.consumers[place]

    def _next(self) -> int | None:
        while self._replay:
            index = heapq.heappop(self._replay)
            if not self.cursor.is_acknowledged(index):
                return index
        while self._read < self.topic.entries.end:
            self._read += 1
            if not self.cursor.is_acknowledged(self._read - 1):
                return self._read - 1
        return None

    def _deliver(self, consumer: Consumer, index: int) -> None:
        entry = self.topic.entries[index]
        open_messages = self.cursor.open_messages.get(index)
        consumer.pending[index] = entry.messages if open_messages is None else len(open_messages)
        consumer.send(index, entry, self._redeliveries.get(index, 0), open_messages)

    # Requests of consumers

    def acknowledge(self, consumer: Consumer, indexes: Iterable[int]) -> None:
        """Acknowledge entries individually: core.ack.individual."""
        for index in indexes:
            if index >= 0:
                self.cursor.acknowledge(index)
                self._forget(consumer, index)

    def acknowledge_in_part(self, consumer: Consumer, index: int, open_messages: Iterable[int]) -> None:
        """Acknowledge some messages of a batch."""
        self.cursor.acknowledge_in_part(index, open_messages)
        if self.cursor.is_acknowledged(index):
            self._forget(consumer, index)

    def acknowledge_up_to(self, consumer: Consumer, index: int) -> None:
        """Acknowledge an entry and all before it: core.ack.cumulative."""
        self.cursor.acknowledge_up_to(index)
        for one in [one for one in consumer.pending if one <= index]:
            self._forget(consumer, one)
        for one in [one for one in self._redeliveries if one <= index]:  # of rescheduled entries
            del self._redeliveries[one]

    def redeliver(self, consumer: Consumer, indexes: Iterable[int] | None) -> None:
        """Redeliver pending entries of a consumer: all of them, or on a shared subscription the named ones."""
        if self.type != SubType.Shared and consumer is not self._active():
            return
        named = None if self.type != SubType.Shared else indexes
        chosen = [i for i in (consumer.pending if named is None else dict.fromkeys(named)) if i in consumer.pending]
        for index in chosen:
            del consumer.pending[index]
            if self.type == SubType.Shared:  # core.redeliver.counted
                self._redeliveries[index] = self._redeliveries.get(index, 0) + 1
        self._replay_all(chosen)
        self.dispatch()

    def reset(self, index: int) -> None:
        """Reset the cursor to an index; no consumer may be connected."""
        self.cursor.reset(index)
        self._read = index
        self._replay.clear()
        self._redeliveries.clear()
        self.filters.reset()
        self.topic.free()

    def skip(self, count: int | None) -> None:
        """Acknowledge the next unacknowledged entries: a number of them, or all."""
        for index in list(self.unacknowledged())[:count]:
            self.cursor.acknowledge(index)
            for consumer in self.consumers:
                self._forget(consumer, index)
        self.topic.free()

    def unacknowledged(self) -> Iterator[int]:
        """Yield the indexes of all unacknowledged entries, in order."""
        return (i for i in range(self.cursor.mark_delete, len(self.topic.entries)) if not self.cursor.is_acknowledged(i))

    @property
    def backlog(self) -> int:
        """Return the number of messages in unacknowledged entries."""
        entries = self.topic.entries
        return sum(len(self.cursor.open_messages.get(i, ())) or entries[i].messages for i in self.unacknowledged())

    def _forget(self, consumer: Consumer, index: int) -> None:
        self._redeliveries.pop(index, None)
        for one in (consumer, *self.consumers):
            if one.pending.pop(index, None) is not None:
                return

    def _replay_all(self, indexes: Iterable[int]) -> None:
        for index in indexes:
            heapq.heappush(self._replay, index)


class NonPersistentSubscription(Subscription):
    """A subscription of a non-persistent topic: an entry that no consumer can receive now is dropped."""

    def offer(self, entry: Entry) -> None:
        """Send an entry to a consumer that can receive it, or drop it."""
        consumer = self._taker()
        if consumer is not None:
            self._turn = self.consumers.index(consumer) + 1
            cursor = Cursor()  # for this entry only: nothing is stored
            if self.filters.judge(consumer, 0, entry, cursor) is EntryVerdict.ACCEPT:
                consumer.send(0, entry, 0, cursor.open_messages.get(0))
            self.filters.reset()

    def dispatch(self) -> None:
        """Do nothing: nothing waits."""

    def _told_of_change(self) -> list[Consumer]:
        return []


def _takes(consumer: Consumer) -> bool:
    return consumer.permits > 0 and consumer.session.takes_messages


def ack_set(open_messages: Iterable[int]) -> list[int]:
    """Encode the unacknowledged messages of a batch as an `ack_set`: 64 bits in each signed number, lowest first."""
    words: dict[int, int] = {}
    for index in open_messages:
        words[index // 64] = words.get(index // 64, 0) | 1 << (index % 64)
    row = [words.get(place, 0) for place in range(max(words, default=-1) + 1)]
    return [word - (1 << 64) if word >> 63 else word for word in row]


def read_ack_set(words: Iterable[int], messages: int) -> frozenset[int]:
    """Decode the indexes in an `ack_set`; ignore indexes beyond the batch."""
    row = list(itertools.islice(words, (messages + 63) // 64))
    named = (64 * place + bit for place, word in enumerate(row) if word for bit in range(64) if word >> bit & 1)
    return frozenset(index for index in named if index < messages)
