"""A subscription: dispatch, acknowledgement and redelivery of entries.

An entry is acknowledged, pending (sent and unacknowledged), waiting for replay (it was pending before), or unread. One loop serves
all subscription types: while a consumer can receive an entry, it sends the first entry to replay, or else the next unread entry.
Exclusive and Failover have one active consumer (failover.py); Shared alternates between the consumers of the first priority that can
receive something, and gives each a portion of what waits; with Key_Shared the entry chooses its consumer (key_shared.py).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from refimpl.broker.chunks import ChunkOwners
from refimpl.broker.consumer import Consumer, Unacknowledged, takes
from refimpl.broker.delayed import DelayedEntries
from refimpl.broker.failover import active_consumer
from refimpl.broker.filtering import SubscriptionFilters
from refimpl.broker.key_shared import KeyShared
from refimpl.proposals.extension import EntryVerdict
from refimpl.proposals.refused import Refused
from refimpl.store import Cursor
from refimpl.wire.pulsar_api_pb2 import (
    CommandActiveConsumerChange,
    CommandReachedEndOfTopic,
    CommandSubscribe,
    ConsumerBusy,
    KeySharedMeta,
    KeySharedMode,
)

if TYPE_CHECKING:
    from refimpl.broker.broker import Broker
    from refimpl.broker.topic import Topic
    from refimpl.timers import Timer

SubType = CommandSubscribe.SubType
REJECTED_AT_ONCE = 5_000_000
"""Bytes of entries that filters may reject in one run, so that a filter that rejects a large backlog does not block other connections."""
PAUSE = 0.001
"""Seconds before the next run, in which other connections get their turn."""
ACTIVE_CHANGE_VERSION = 12
"""Protocol version from which on they get ACTIVE_CONSUMER_CHANGE."""
PORTION = 20
"""Entries of a backlog that a shared consumer gets before the next one has its turn."""
_MOST_END_PAUSE = 60.0
"""Seconds that a consumer of a terminated topic waits at most to be told of the end, if others were told before it."""
_WORK_PER_ENTRY = 1000
"""Fixed cost of judging an entry, in bytes."""


class Subscription:
    """A subscription of a topic, with its cursor and its consumers.

    Args:
        topic: The topic.
        name: The name, unique in the topic.
        cursor: The cursor; it belongs to the store if the subscription is durable.
        filters: The filters that judge entries before they are sent.
        durable: Whether it outlives its consumers.

    Attributes:
        was_used: Whether it had a consumer since it was loaded, which its type is from.
        pending_messages: What counts the unacknowledged messages of its consumers.
        waits_for_acknowledgements: Whether a consumer got nothing, because too many messages are unacknowledged.
    """

    def __init__(self, topic: Topic, name: str, cursor: Cursor, filters: SubscriptionFilters, *, durable: bool = True) -> None:
        self.topic = topic
        self.name = name
        self.cursor = cursor
        self.filters = filters
        self.durable = durable
        self.type: SubType = SubType.Exclusive
        self.was_used = False
        self.consumers: list[Consumer] = []
        self.messages_out = self.bytes_out = 0
        self.delayed = DelayedEntries()
        self.pending_messages = Unacknowledged()
        self.waits_for_acknowledgements = False
        self._keys: KeyShared | None = None
        self._chunks: ChunkOwners[Consumer] = ChunkOwners()
        self._replay: list[int] = []
        self._redeliveries: dict[int, int] = {}
        self._read = cursor.mark_delete
        self._turn = 0
        self._last_active: Consumer | None = None
        self._offer_timer: Timer | None = None
        self._turn_timer: Timer | None = None
        self._end_timer: Timer | None = None
        self._end_pause = self._end_due = 0.0
        self._delayed_until = math.inf

    @property
    def properties(self) -> Mapping[str, str]:
        """Return the properties in the SUBSCRIBE that created it."""
        return self.cursor.properties

    @property
    def read_position(self) -> int:
        """Return the index of the first entry that was never read."""
        return self._read

    @property
    def is_shared(self) -> bool:
        """Return whether several consumers get messages at the same time."""
        return self.type in (SubType.Shared, SubType.Key_Shared)

    @property
    def is_blocked(self) -> bool:
        """Return whether its consumers get nothing, because they have too many unacknowledged messages together."""
        if not self.is_shared or not self.consumers:
            return False
        return self.pending_messages.are_too_many(self.consumers[0].session.broker.configuration.max_unacked_messages_per_subscription)

    @property
    def key_shared_meta(self) -> KeySharedMeta | None:
        """Return what the first consumer of a Key_Shared subscription asked for."""
        return self._keys.meta if self._keys is not None and self.type == SubType.Key_Shared else None

    def key_ranges(self, consumer: Consumer) -> list[list[int]] | None:
        """Return the ranges of hashes that a consumer of a Key_Shared subscription has; None: it is none."""
        return self._keys.ranges(consumer) if self._keys is not None and self.type == SubType.Key_Shared else None

    # Consumers

    def check_joins(self, sub_type: SubType, meta: KeySharedMeta) -> None:
        """Check whether a consumer may join.

        Raises:
            Refused: ConsumerBusy, or ConsumerAssignError.
        """
        if not self.consumers:
            return
        if sub_type != self.type:  # core.subscribe.type-conflict
            is_now, wanted = SubType.Name(self.type), SubType.Name(sub_type)
            detail = f"Active subscription type of '{is_now}' is different than the connecting consumer's type '{wanted}'."
            raise Refused(ConsumerBusy, f"Subscription is of different type. {detail}")
        if self.type == SubType.Exclusive:  # core.subscribe.exclusive-busy
            raise Refused(ConsumerBusy, "Exclusive consumer is already connected")
        if self._keys is not None:
            self._keys.check_joins(meta)

    def in_the_way(self, sub_type: SubType, meta: KeySharedMeta) -> Consumer | None:
        """Return the consumer that keeps one from joining, if it could be dead: the exclusive one, or one whose hash ranges overlap."""
        if not self.consumers or sub_type != self.type:
            return None
        if sub_type == SubType.Exclusive:
            return self.consumers[0]
        return None if self._keys is None else self._keys.overlapping(meta)

    def add(self, consumer: Consumer, sub_type: SubType, meta: KeySharedMeta) -> None:
        """Add a consumer that `check_joins` has accepted."""
        if not self.consumers:
            self._keys = self._keys_for(sub_type, meta)
        self.type, self.was_used = sub_type, True
        self.consumers.append(consumer)
        self.consumers.sort(key=lambda one: (one.priority_level, one.name if sub_type == SubType.Failover else ""))
        if self._keys is not None:
            self._replay_all(self._keys.joined(consumer, meta))

    def _keys_for(self, sub_type: SubType, meta: KeySharedMeta) -> KeyShared | None:
        """Return what chooses consumers by keys. An exclusive consumer that names ranges gets nothing else: core.key-shared.exclusive."""
        if sub_type == SubType.Key_Shared:
            return KeyShared(meta, self.topic.entries)
        if sub_type == SubType.Exclusive and meta.hashRanges:
            return KeyShared(KeySharedMeta(keySharedMode=KeySharedMode.STICKY), self.topic.entries)
        return None

    def tell_active(self, joined: Consumer | None = None) -> None:
        """Tell all failover consumers of a new active consumer, or only the one that joined: core.subscribe.active-consumer-change.

        What the old one has not acknowledged goes to the new one. An active consumer whose connection is ending is not announced: it
        leaves as well.
        """
        active, old = self.active, self._last_active
        self._last_active = active
        if self.type != SubType.Failover or active is None:
            return
        if not active.session.closing:
            for consumer in self._told_of_change() if active is not old else [joined] if joined else []:
                if consumer.session.speaks(ACTIVE_CHANGE_VERSION):  # core.subscribe.active-change-version
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
        self._replay_all(self._chunks.left(consumer))
        if self._keys is not None:
            self._replay_all(self._keys.left(consumer))
        self.tell_active()
        self.dispatch()

    def take_consumers(self) -> list[Consumer]:
        """Remove all consumers at once, so that none inherits from another, and return them."""
        taken, self.consumers = self.consumers, []
        for consumer in taken:
            self.filters.left(consumer)
            self._replay_all(consumer.pending)
            consumer.pending.clear()
            self._replay_all(self._chunks.left(consumer))
            if self._keys is not None:
                self._replay_all(self._keys.left(consumer))
        self.tell_active()
        return taken

    @property
    def active(self) -> Consumer | None:
        """Return the only consumer that gets messages, on an exclusive or failover subscription."""
        return active_consumer(self.topic.name, self.consumers) if self.consumers else None

    # Dispatch

    def dispatch(self) -> None:
        """Send what consumers can receive now; continue a little later if filters reject many entries."""
        work, self.waits_for_acknowledgements = 0, False
        for consumer, index in self._deliveries():
            entry = self.topic.entries[index]
            verdict = self.filters.judge(consumer, index, entry, self.cursor)
            if verdict is EntryVerdict.ACCEPT:
                self._deliver(consumer, index)
            elif verdict is EntryVerdict.REJECT:
                self._redeliveries.pop(index, None)
                work += len(entry.data) + _WORK_PER_ENTRY
                if work >= REJECTED_AT_ONCE:
                    self.topic.free()
                    self._dispatch_later(consumer.session.broker)
                    return
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

    def _deliveries(self) -> Iterator[tuple[Consumer, int]]:
        """Yield an entry and the consumer that receives it, as long as there are both; each consumer gets up to a portion at once."""
        if self._keys is not None:
            yield from self._deliveries_by_key(self._keys)
            return
        self._replay_all(self._chunks.served(takes))
        while (consumer := self._taker()) is not None:
            for _ in range(PORTION):
                if (index := self._next(consumer.session.broker)) is None:
                    return
                self._turn = self.consumers.index(consumer) + 1
                yield from self._to_owner(consumer, index)
                if not takes(consumer):
                    break

    def _to_owner(self, consumer: Consumer, index: int) -> Iterator[tuple[Consumer, int]]:
        """Yield an entry and the consumer that receives it, unless it is a chunk that waits for another consumer."""
        chunk = self.topic.entries[index].chunk if self.is_shared else None
        owner = self._chunks.owner(chunk, consumer)
        if takes(owner):
            self._chunks.sent(chunk, owner)
            yield owner, index
        else:
            self._chunks.wait(index, owner)

    def _deliveries_by_key(self, keys: KeyShared) -> Iterator[tuple[Consumer, int]]:
        self._replay_all(keys.served(takes))
        while any(map(takes, self.consumers)):
            broker = self.consumers[0].session.broker
            if (index := self._next(broker, unread=keys.may_read or self.type == SubType.Exclusive)) is None:
                return
            if (consumer := keys.taker(index, takes)) is not None:
                yield consumer, index

    def _taker(self) -> Consumer | None:
        """Return a consumer that can receive an entry: it has permits (core.deliver.needs-permits), and its connection accepts output."""
        if self.type != SubType.Shared:
            active = self.active
            return active if active is not None and takes(active) else None
        takers = [place for place, one in enumerate(self.consumers) if takes(one)]
        if not takers:
            return None
        first = [place for place in takers if self.consumers[place].priority_level == self.consumers[takers[0]].priority_level]
        place = next((one for one in first if one >= self._turn), first[0])
        return self.consumers[place]

    def _next(self, broker: Broker, *, unread: bool = True) -> int | None:
        """Return the next entry to deliver; None: there is none, or only such that are delayed.

        Args:
            broker: The broker, for its time.
            unread: Whether unread entries count.
        """
        until = broker.delivered_until if self.is_shared else math.inf
        self._replay_all(self.delayed.take(until))
        for index in self._candidates(unread=unread):
            if not self.cursor.is_acknowledged(index) and not self.delayed.keep(index, self.topic.entries[index].deliver_at, until):
                return index
        self._await_delayed(broker)
        return None

    def _candidates(self, *, unread: bool) -> Iterator[int]:
        while self._replay:
            yield heapq.heappop(self._replay)
        while unread and self._read < self.topic.entries.end:
            self._read += 1
            yield self._read - 1

    def _await_delayed(self, broker: Broker) -> None:
        time = self.delayed.next_time
        if time is not None and time < self._delayed_until:
            self._delayed_until = time
            broker.timers.at(time / 1000 - broker.wall_clock_offset, lambda: self._deliver_delayed(time))

    def _deliver_delayed(self, time: int) -> None:
        if time == self._delayed_until:
            self._delayed_until = math.inf
            self.dispatch()

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
        self._dispatch_drained()

    def acknowledge_in_part(self, consumer: Consumer, index: int, open_messages: Iterable[int]) -> None:
        """Acknowledge some messages of a batch."""
        self.cursor.acknowledge_in_part(index, open_messages)
        if self.cursor.is_acknowledged(index):
            self._forget(consumer, index)
        for one in self.consumers:
            if index in one.pending:
                one.pending[index] = len(self.cursor.open_messages[index])
        self._dispatch_drained()

    def count_anew(self, index: int) -> None:
        """Forget how often an entry was redelivered."""
        self._redeliveries.pop(index, None)

    def acknowledge_up_to(self, consumer: Consumer, index: int) -> None:
        """Acknowledge an entry and all before it: core.ack.cumulative."""
        self.cursor.acknowledge_up_to(index)
        for one in [one for holder in self.consumers for one in holder.pending if one <= index]:
            self._forget(consumer, one)
        self._dispatch_drained()
        for one in [one for one in self._redeliveries if one <= index]:  # of rescheduled entries
            del self._redeliveries[one]

    def redeliver(self, consumer: Consumer, indexes: Iterable[int] | None) -> None:
        """Redeliver pending entries of a consumer: all of them, or on a shared subscription the named ones."""
        if not self.is_shared and consumer is not self.active:
            return
        named = indexes if self.is_shared else None
        chosen = [i for i in (consumer.pending if named is None else dict.fromkeys(named)) if i in consumer.pending]
        for index in chosen:
            del consumer.pending[index]
            if self._keys is not None:
                self._replay_all(self._keys.settled(consumer, index))
            if self.is_shared:  # core.redeliver.counted
                self._redeliveries[index] = self._redeliveries.get(index, 0) + 1
        self._replay_all(chosen)
        self.dispatch()

    def reset(self, index: int) -> None:
        """Reset the cursor to an index; no consumer may be connected."""
        self.cursor.reset(index)
        self._read = index
        self._replay.clear()
        self._redeliveries.clear()
        self.delayed.clear()
        self.filters.reset()
        self.topic.free()

    def skip(self, count: int | None) -> None:
        """Acknowledge the next unacknowledged entries: a number of them, or all."""
        for index in list(self.unacknowledged())[:count]:
            self.cursor.acknowledge(index)
            for consumer in self.consumers:
                self._forget(consumer, index)
        if count is None:
            self.delayed.clear()
        self.topic.free()

    def skip_while(self, passes: Callable[[int], bool]) -> None:
        """Acknowledge the entries up to the first one that does not pass."""
        self.skip(sum(1 for _ in itertools.takewhile(passes, self.unacknowledged())))

    def tell_end(self) -> None:
        """Tell the consumers once that nothing of a terminated topic is unacknowledged.

        Those that come later wait longer each time: clients that do not know the command close the connection, and come back at once.
        """
        waiting = [one for one in self.consumers if not one.knows_end]
        if not self.topic.stored.terminated or not waiting or next(self.unacknowledged(), None) is not None:
            return
        broker = waiting[0].session.broker
        if broker.now < self._end_due:
            if self._end_timer is None:
                self._end_timer = broker.timers.at(self._end_due, self._tell_end_again)
            return
        self._end_due = broker.now + self._end_pause
        self._end_pause = min(2 * self._end_pause, _MOST_END_PAUSE) or 1.0
        for consumer in waiting:
            consumer.knows_end = True
            consumer.session.send(CommandReachedEndOfTopic(consumer_id=consumer.consumer_id))

    def _tell_end_again(self) -> None:
        self._end_timer = None
        self.tell_end()

    def unacknowledged(self) -> Iterator[int]:
        """Yield the indexes of all unacknowledged entries, in order."""
        return (i for i in range(self.cursor.mark_delete, len(self.topic.entries)) if not self.cursor.is_acknowledged(i))

    @property
    def backlog(self) -> int:
        """Return the number of unacknowledged entries, as Pulsar counts: a batch is one, even if it is acknowledged in part."""
        return sum(1 for _ in self.unacknowledged())

    def _forget(self, consumer: Consumer, index: int) -> None:
        self._redeliveries.pop(index, None)
        for one in (consumer, *self.consumers):
            if index in one.pending:
                del one.pending[index]
                if self._keys is not None:
                    self._replay_all(self._keys.settled(one, index))
                return

    def _dispatch_drained(self) -> None:
        """Send what waited for acknowledgements: of other entries with its key, or of so many that were too many."""
        if (self._keys is not None and self._replay) or self.waits_for_acknowledgements:
            self.dispatch()

    def _replay_all(self, indexes: Iterable[int]) -> None:
        for index in indexes:
            heapq.heappush(self._replay, index)
