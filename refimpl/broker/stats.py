"""Topic stats for the admin interface: the counters of this broker, under Pulsar's names."""

from __future__ import annotations

from typing import Any

from refimpl.broker.subscription import Consumer, Subscription, SubType
from refimpl.broker.topic import Producer, Topic
from refimpl.wire.pulsar_api_pb2 import ProducerAccessMode


def topic_stats(topic: Topic) -> dict[str, Any]:
    """Return the counters of a topic, its producers and subscriptions."""
    subscriptions = topic.subscriptions.values()
    consumers = [consumer for one in subscriptions for consumer in one.consumers]
    return {
        "msgInCounter": topic.messages_in,
        "bytesInCounter": topic.bytes_in,
        "msgOutCounter": sum(consumer.messages_out for consumer in consumers),
        "bytesOutCounter": sum(consumer.bytes_out for consumer in consumers),
        "storageSize": sum(len(entry.data) for entry in topic.entries),
        "backlogSize": max((sum(len(topic.entries[i].data) for i in one.unacknowledged()) for one in subscriptions), default=0),
        "publishers": [_producer(one) for one in topic.producers.values()],
        "subscriptions": {one.name: _subscription(one) for one in subscriptions},
    }


def _producer(producer: Producer) -> dict[str, Any]:
    return {
        "producerId": producer.producer_id,
        "producerName": producer.name,
        "accessMode": ProducerAccessMode.Name(producer.access_mode),
        "msgInCounter": producer.messages_in,
    }


def _subscription(subscription: Subscription) -> dict[str, Any]:
    return {
        "type": SubType.Name(subscription.type),
        "isDurable": subscription.durable,
        "msgBacklog": subscription.backlog,
        "unackedMessages": sum(one.unacknowledged for one in subscription.consumers),
        "consumers": [_consumer(one) for one in subscription.consumers],
        "subscriptionProperties": dict(subscription.cursor.properties),
        **subscription.filters.stats(),
    }


def _consumer(consumer: Consumer) -> dict[str, Any]:
    return {
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": consumer.unacknowledged,
        "msgOutCounter": consumer.messages_out,
        "bytesOutCounter": consumer.bytes_out,
    }


def internal_stats(topic: Topic) -> dict[str, Any]:
    """Return the ledgers and cursors of a topic."""
    ledger, count = topic.stored.ledger_id, len(topic.entries)
    kept = count - topic.entries.first
    return {
        "entriesAddedCounter": count,
        "numberOfEntries": kept,
        "totalSize": sum(len(entry.data) for entry in topic.entries),
        "lastConfirmedEntry": f"{ledger}:{count - 1}",
        "ledgers": [{"ledgerId": ledger, "entries": kept, "offloaded": False}],
        "cursors": {
            one.name: {
                "markDeletePosition": f"{ledger}:{one.cursor.mark_delete - 1}",
                "individuallyDeletedMessages": str(sorted(one.cursor.acknowledged)),
            }
            for one in topic.subscriptions.values()
        },
    }
