"""The admin operations on subscriptions: their positions, and the messages that they have before them."""

from __future__ import annotations

from collections.abc import Mapping

from refimpl.broker.admin.part import AdminPart
from refimpl.broker.consuming import disconnect_consumers
from refimpl.broker.subscription import Subscription
from refimpl.broker.topic import Topic
from refimpl.proposals.refused import AdminRefused, Refused
from refimpl.store import Entry
from refimpl.wire.pulsar_api_pb2 import NotAllowedError


class SubscriptionAdmin(AdminPart):
    """The operations. A topic may be a partitioned one."""

    def subscriptions(self, topic: str) -> list[str]:
        """List the subscriptions of a topic, or of all its partitions."""
        topics = self._topics(topic)
        return sorted({name for one in topics for name in one.subscriptions})

    def create_subscription(
        self,
        topic: str,
        subscription: str,
        position: tuple[int, int],
        properties: Mapping[str, str] | None = None,
        *,
        replicated: bool = False,
    ) -> None:
        """Create a subscription, of a partitioned topic on the partitions that lack it.

        Args:
            topic: The topic.
            subscription: Its name.
            position: The ledger id and entry id with which it starts; (2^63-1, 2^63-1) is the end, (-1, -1) the beginning.
            properties: The properties of the subscription; they select entry filters.
            replicated: Whether other clusters should have it.
        """
        try:
            self._broker.filters_of(properties or {}, is_new=True)
        except Refused as refused:
            raise AdminRefused(412, refused.message) from None
        if not self._name(topic).persistent:
            raise AdminRefused(400, "Create subscription on non-persistent topic can only be done through client")
        lacking = [one for one in self._made_topics(topic) if subscription not in one.subscriptions]
        if not lacking:
            raise AdminRefused(409, "Subscription already exists for topic")
        for one in lacking:
            made = one.subscribe(subscription, _index(one, position), durable=True, properties=dict(properties or {}))
            made.cursor.replicated = replicated

    def _made_topics(self, topic: str) -> list[Topic]:
        """Return a topic, or all its partitions; what is missing is created as for a consumer, as on Apache Pulsar 4.2.4."""
        name = self._name(topic)
        is_missing = not self._parts(topic) and not self._broker.exists(name)
        if is_missing and not self._broker.is_creatable(name):
            raise AdminRefused(412, "Topic does not exist and cannot be auto-created")
        try:
            if is_missing and not self._broker.takes_name(name):
                self._broker.create_by_default(name)
            for part in self._parts(topic) or [name]:
                self._broker.topic_to_use(part, create=True)
        except Refused as refused:
            raise AdminRefused(409 if refused.code == NotAllowedError else 404, refused.message) from None
        return self._topics(topic)

    def delete_subscription(self, topic: str, subscription: str, *, force: bool = False) -> None:
        """Delete a subscription; with `force`, even if it has consumers."""
        for found in self._subscriptions(topic, subscription):
            if found.consumers and not force and found.topic.name.persistent:
                raise AdminRefused(412, "Subscription has active connected consumers")
            disconnect_consumers(found)
            found.topic.unsubscribe(subscription)

    def skip_messages(self, topic: str, subscription: str, count: int | None) -> None:
        """Acknowledge the next entries of a subscription: a number of them, or all."""
        if count is not None:
            self._check_single(topic, "Skip messages")
        for one in self._topics(topic):
            self._check_stored(one)
        for found in self._subscriptions(topic, subscription):
            found.skip(None if count is None else max(count, 0))

    def expire_messages(self, topic: str, subscription: str, position: tuple[int, int], *, excluded: bool = False) -> None:
        """Acknowledge all entries up to a position, which can't be after the last one, or with `excluded`, as observed, one more."""
        for found in self._subscriptions(topic, subscription, "Expire message at position"):
            if position[0] >= found.topic.stored.ledger_id and _index(found.topic, position) == found.topic.entries.end:
                raise AdminRefused(
                    409,
                    f"Expire message by position not issued on topic {topic} for subscription {subscription} "
                    "due to ongoing message expiration not finished or invalid message position provided.",
                )
            end = _index(found.topic, position, after=True) + excluded
            found.skip_while(lambda index, end=end: index < end)  # type: ignore[misc]

    def expire_old_messages(self, topic: str, subscription: str, seconds: int) -> None:
        """Acknowledge what was published more than that many seconds ago."""
        self._expire(self._subscriptions(topic, subscription), seconds)

    def expire_in_all_subscriptions(self, topic: str, seconds: int) -> None:
        """Do the same in all subscriptions."""
        if not self._name(topic).persistent:
            raise AdminRefused(405, "Expire messages for all subscriptions on a non-persistent topic is not allowed")
        self._expire([one for part in self._topics(topic) for one in part.subscriptions.values()], seconds)

    def _expire(self, subscriptions: list[Subscription], seconds: int) -> None:
        """Let messages expire in subscriptions. One that is refused does not keep others from it."""
        for found in [one for one in subscriptions if not self._broker.upkeep.expire(one, seconds)]:
            raise AdminRefused(
                409,
                f"Expire message by timestamp not issued on topic {found.topic.name.full} for subscription {found.name} "
                "due to ongoing message expiration not finished or subscription almost catch  up. If it's performed on "
                "a partitioned topic operation might succeeded on other partitions, please check stats of individual partition.",
            )

    def reset_cursor(
        self, topic: str, subscription: str, position: tuple[int, int], *, batch_index: int = -1, excluded: bool = False
    ) -> None:
        """Close the consumers of a subscription, and let it begin at a position, or with `excluded` after it.

        Args:
            topic: The topic.
            subscription: The subscription.
            position: A ledger id and entry id.
            batch_index: The place of the message in its batch; -1: the whole entry is meant.
            excluded: Whether the message at the position does not come.
        """
        for found in self._subscriptions(topic, subscription, "Reset-cursor at position"):
            index = _index(found.topic, position)
            messages = found.topic.entries[index].messages if index < found.topic.entries.end else 1
            is_part = messages > 1 and 0 <= batch_index < messages
            _reset(found, index if is_part else _index(found.topic, position, after=excluded))
            if is_part and (behind := batch_index + excluded):
                found.cursor.acknowledge_in_part(index, range(behind, messages))

    def reset_cursor_to_time(self, topic: str, subscription: str, timestamp: int) -> None:
        """Do the same with what was published at a time or later, in milliseconds since 1970."""
        for found in self._subscriptions(topic, subscription):
            _reset(found, found.topic.index_at(timestamp))

    def subscription_properties(self, topic: str, subscription: str) -> dict[str, str]:
        """Return the properties of a subscription."""
        return dict(self._subscriptions(topic, subscription)[0].properties)

    def peek_message(self, topic: str, subscription: str, position: int) -> tuple[Topic, int, Entry]:
        """Return the n-th unacknowledged entry of a subscription, counted from 1, with its topic and index.

        A subscription that does not exist has acknowledged nothing.
        """
        self._check_single(topic, "Peek messages")
        found = self._topic(topic)
        self._check_stored(found)
        known = found.subscriptions.get(subscription)
        waiting = list(range(found.entries.first, found.entries.end) if known is None else known.unacknowledged())
        if not 1 <= position <= len(waiting):
            raise AdminRefused(404, "Message not found")
        index = waiting[position - 1]
        return found, index, found.entries[index]


def _index(topic: Topic, position: tuple[int, int], *, after: bool = False) -> int:
    """Return the index of the first entry at a position, given by ledger id and entry id, or after it."""
    ledger, entry = position
    first, end = topic.entries.first, topic.entries.end
    if ledger != topic.stored.ledger_id:
        return first if ledger < topic.stored.ledger_id else end
    return min(max(entry + after, first), end)


def _reset(subscription: Subscription, index: int) -> None:
    disconnect_consumers(subscription)
    subscription.reset(max(index, subscription.topic.entries.first))
