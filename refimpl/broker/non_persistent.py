"""Subscriptions of non-persistent topics, where nothing is stored."""

from __future__ import annotations

from refimpl.broker.consumer import Consumer, takes
from refimpl.broker.subscription import Subscription, SubType
from refimpl.proposals.extension import EntryVerdict
from refimpl.store import Cursor, Entry


class NonPersistentSubscription(Subscription):
    """A subscription of a non-persistent topic: an entry that no consumer can receive now is dropped."""

    def offer(self, entry: Entry) -> None:
        """Send an entry to a consumer that can receive it, or drop it."""
        consumer = self._taker() if self._keys is None else self._keys.owner(entry)
        if consumer is not None and self.type == SubType.Shared:
            consumer = self._chunks.owner(entry.chunk, consumer)
        if consumer is not None and takes(consumer):
            self._turn = self.consumers.index(consumer) + 1
            self._chunks.sent(entry.chunk, consumer)
            cursor = Cursor()  # for this entry only: nothing is stored
            if self.filters.judge(consumer, 0, entry, cursor) is EntryVerdict.ACCEPT:
                consumer.send(0, entry, 0, cursor.open_messages.get(0))
            self.filters.reset()

    def dispatch(self) -> None:
        """Do nothing: nothing waits."""

    def _told_of_change(self) -> list[Consumer]:
        return []
