"""Topic stats for the admin interface: the counters of this broker, under Pulsar's names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

from refimpl.broker.backlog_quota import estimated_backlog
from refimpl.broker.consumer import Consumer
from refimpl.broker.subscription import Subscription, SubType
from refimpl.broker.topic import Producer, Topic
from refimpl.wire.pulsar_api_pb2 import KeySharedMode, ProducerAccessMode


def topic_stats(
    topic: Topic,
    *,
    earliest: bool = False,
    backlog_sizes: bool = True,
    publishers_left_out: bool = False,
    consumers_left_out: bool = False,
) -> dict[str, Any]:
    """Return the counters of a topic, its producers and subscriptions.

    Args:
        topic: The topic.
        earliest: Whether to tell when the first message of each backlog was published, in milliseconds; -1: there is none.
        backlog_sizes: Whether to tell the bytes that each subscription has before it, or -1.
        publishers_left_out: Whether to leave out the producers.
        consumers_left_out: Whether to leave out the consumers.
    """
    subscriptions = topic.subscriptions.values()
    times = {one.name: _earliest_time(one) if earliest and topic.name.persistent else 0 for one in subscriptions}
    return {
        "msgInCounter": topic.messages_in,
        "bytesInCounter": topic.bytes_in,
        "msgOutCounter": topic.messages_out,
        "bytesOutCounter": topic.bytes_out,
        "storageSize": topic.entries.bytes,
        "backlogSize": estimated_backlog(topic),
        "earliestMsgPublishTimeInBacklogs": min((time for time in times.values() if time > 0), default=0),
        "deduplicationStatus": "Enabled" if topic.policies.deduplicates(topic.name) else "Disabled",
        "publishers": [] if publishers_left_out else [_producer(one) for one in topic.producers.values()],
        "waitingPublishers": len(topic.access.waiting),
        "subscriptions": {
            one.name: {
                **_subscription(one),
                "backlogSize": topic.entries.estimated_bytes_from(one.cursor.mark_delete) if backlog_sizes else -1,
                "consumers": [] if consumers_left_out else [_consumer(consumer) for consumer in one.consumers],
                "earliestMsgPublishTimeInBacklog": times[one.name],
            }
            for one in subscriptions
        },
        "replication": {},
    }


def total_stats(stats: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the counters of a partitioned topic, given those of its partitions."""
    found = _total(stats)
    subscriptions = [one["subscriptions"] for one in stats]
    names = dict.fromkeys(name for one in subscriptions for name in one)
    found["subscriptions"] = {name: _total([one[name] for one in subscriptions if name in one]) for name in names}
    return found


def _total(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return sums and earliest times; who is on several partitions is told by the place there; of all else the last value."""
    values: dict[str, list[Any]] = {}
    for key, value in ((key, value) for part in parts for key, value in part.items() if key not in _OF_ONE_PARTITION):
        values.setdefault(key, []).append(value)
    return {key: _sum(key, found) for key, found in values.items()}


def _sum(key: str, values: Sequence[Any]) -> Any:
    if isinstance(values[0], list):
        return [_total(one for one in place if one is not None) for place in zip_longest(*values)]
    if key.startswith("earliest"):
        return min((time for time in values if time > 0), default=max(values))
    return sum(values) if type(values[0]) is int else values[-1]


_OF_ONE_PARTITION = (
    "activeConsumerName", "address", "clientVersion", "connectedSince", "deduplicationStatus", "keyHashRangeArrays",
    "metadata", "ownerBroker", "producerId", "producerName",
)  # fmt: skip
"""What is not told of a partitioned topic."""


def _earliest_time(subscription: Subscription) -> int:
    first = next(subscription.unacknowledged(), None)
    return -1 if first is None else subscription.topic.entries[first].publish_time


def _producer(producer: Producer) -> dict[str, Any]:
    return {
        "producerId": producer.producer_id,
        "producerName": producer.name,
        "accessMode": ProducerAccessMode.Name(producer.access_mode),
        "msgInCounter": producer.messages_in,
        **_client(producer),
    }


def _subscription(subscription: Subscription) -> dict[str, Any]:
    single = subscription.type in (SubType.Exclusive, SubType.Failover)
    active, meta = subscription.active if single else None, subscription.key_shared_meta
    found = {
        "type": SubType.Name(subscription.type) if subscription.was_used else "None",
        "isDurable": subscription.durable,
        "isReplicated": subscription.cursor.replicated,
        "msgBacklog": subscription.backlog,
        "msgBacklogNoDelayed": subscription.backlog - len(subscription.delayed),
        "msgDelayed": len(subscription.delayed),
        "unackedMessages": sum(one.unacknowledged for one in subscription.consumers),
        "blockedSubscriptionOnUnackedMsgs": subscription.is_blocked,
        "msgOutCounter": subscription.messages_out,
        "bytesOutCounter": subscription.bytes_out,
        "allowOutOfOrderDelivery": meta is not None and meta.allowOutOfOrderDelivery,
        "subscriptionProperties": dict(subscription.cursor.properties),
        **subscription.filters.stats(),
    }
    if active is not None:
        found["activeConsumerName"] = active.name
    if meta is not None:
        found["keySharedMode"] = KeySharedMode.Name(meta.keySharedMode)
    return found


def _consumer(consumer: Consumer) -> dict[str, Any]:
    ranges = consumer.subscription.key_ranges(consumer)
    return {
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": consumer.unacknowledged,
        "blockedConsumerOnUnackedMsgs": consumer.is_blocked,
        "msgOutCounter": consumer.messages_out,
        "bytesOutCounter": consumer.bytes_out,
        **({} if ranges is None else {"keyHashRangeArrays": ranges}),
        **_client(consumer),
    }


def since(one: Producer | Consumer) -> str:
    """Return when a producer or a consumer came."""
    return datetime.fromtimestamp(one.since, UTC).isoformat().replace("+00:00", "Z")


def _client(one: Producer | Consumer) -> dict[str, Any]:
    """Return what a producer or a consumer says of itself, and when it came."""
    return {
        "address": f"/{one.session.address}",
        "clientVersion": one.session.client_version,
        "connectedSince": since(one),
        "metadata": dict(one.metadata),
    }


def internal_info(topic: Topic) -> dict[str, Any]:
    """Return what is stored about the ledgers and cursors of a topic."""
    ledger = topic.stored.ledger_id
    return {
        "version": 0,
        "ledgers": [{"ledgerId": ledger, "entries": len(topic.entries) - topic.entries.first, "size": topic.entries.bytes}],
        "cursors": {
            name: {"version": 0, "markDelete": {"ledgerId": ledger, "entryId": cursor.mark_delete - 1}, "properties": cursor.properties}
            for name, cursor in topic.stored.cursors.items()
        },
    }


def internal_stats(topic: Topic) -> dict[str, Any]:
    """Return the ledgers and cursors of a topic. As in Pulsar, what the last ledger has is told apart."""
    ledger, count = topic.stored.ledger_id, len(topic.entries)
    kept, (entries, size) = count - topic.entries.first, topic.entries.last_ledger
    full = {"ledgerId": ledger, "entries": kept - entries, "size": topic.entries.bytes - size}
    return {
        "entriesAddedCounter": count,
        "numberOfEntries": kept,
        "totalSize": topic.entries.bytes,
        "currentLedgerEntries": entries,
        "currentLedgerSize": size,
        "lastConfirmedEntry": f"{ledger}:{count - 1}",
        "state": "Terminated" if topic.stored.terminated else "LedgerOpened",
        "ledgers": [{**full, "offloaded": False, "underReplicated": False}],
        "cursors": {one.name: _cursor(one, ledger) for one in topic.subscriptions.values()},
    }


def _cursor(subscription: Subscription, ledger: int) -> dict[str, Any]:
    """Return the positions of a subscription. What it has acknowledged out of order is told in ranges, without their first position."""
    cursor = subscription.cursor
    begins = [one for one in sorted(cursor.acknowledged) if one - 1 not in cursor.acknowledged]
    ends = [one for one in sorted(cursor.acknowledged) if one + 1 not in cursor.acknowledged]
    ranges = [f"({ledger}:{begin - 1}..{ledger}:{end}]" for begin, end in zip(begins, ends, strict=True)]
    return {
        "markDeletePosition": f"{ledger}:{cursor.mark_delete - 1}",
        "readPosition": f"{ledger}:{subscription.read_position}",
        "individuallyDeletedMessages": f"[{','.join(ranges)}]",
        "totalNonContiguousDeletedMessagesRange": len(ranges),
        "state": "Open",
    }
