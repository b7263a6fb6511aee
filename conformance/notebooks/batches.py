"""Batches, for notebooks: how the reference producer batches messages, and how a consumer reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from conformance.notebooks.live import Stage
from conformance.report.rows import Row
from refimpl.client.entry import Entry, Queued, encode_entry
from refimpl.client.messages import Message, OutgoingMessage
from refimpl.client.producer_stats import ProducerStats
from refimpl.client.scheduler import Pending, Scheduler
from refimpl.client.unpack import unpack
from refimpl.proposals.uniform_batches import (
    DEFAULT,
    EntryVerdict,
    SubscriptionEntryFilters,
    UniformBatcher,
    UniformBatchesProfile,
    allowed_values,
)
from refimpl.store import Entry as StoredEntry
from refimpl.wire import DEFAULT_MAX_MESSAGE_SIZE, command, decode_frame, encode_frame
from refimpl.wire.pulsar_api_pb2 import NONE, MessageIdData

PUBLISH_TIME = 1_700_000_000_000
"""Milliseconds since 1970, of every entry: as many bytes as a real time has."""
TOPIC = "persistent://public/default/messages"
MANY = 1 << 30
"""Bytes: no limit."""


def produced(
    messages: Iterable[tuple[str, Mapping[str, str]]],
    setting: Mapping[str, Iterable[str]],
    *,
    profile: UniformBatchesProfile = DEFAULT,
    max_messages: int = 1000,
) -> tuple[list[Entry], ProducerStats]:
    """Let the reference producer batch messages that follow each other immediately.

    Args:
        messages: Text and properties of each.
        setting: Allowed values by property name; empty: batches as without PIP-191.
        profile: How a batch of one is written.
        max_messages: Most messages in a batch; 1: none is batched without a setting.

    Returns:
        What it sends, in order, and its own account of the batches.
    """
    batcher: UniformBatcher[Queued] = UniformBatcher(allowed_values(setting), max_messages=max_messages, max_bytes=MANY, profile=profile)
    batches, scheduler = [], Scheduler()
    for number, (text, properties) in enumerate(messages):
        queued = Queued(OutgoingMessage(text.encode(), properties), number, Pending(scheduler), 0.0)
        batches += batcher.add(queued, properties, queued.size, 0.0)
    made, stats = [], ProducerStats()
    for batch in [*batches, *batcher.flush()]:
        made.append(encode_entry(batch, "p", PUBLISH_TIME, NONE))
        stats = stats.with_entry(made[-1], batch)
    return made, stats


def received(rows: Iterable[Row], at: str) -> list[Message]:
    """Return the messages that a connection received, as its client reads them.

    Args:
        rows: All rows, such as `Stage.rows`.
        at: The connection.
    """
    frames = [decode_frame(row.data) for row in rows if row.head == "MESSAGE" and row.at == at and row.data is not None]
    return [message for frame in frames for message in unpack(frame, "", -1, DEFAULT_MAX_MESSAGE_SIZE)]


def meet(stage: Stage, properties: Mapping[str, str]) -> Stage:
    """Open a producer on connection p, and on connection c a consumer without permits of the new subscription s.

    Args:
        stage: Where.
        properties: Of the subscription.

    Returns:
        The same stage.
    """
    stage.connect("p")
    stage.say("producer", "p", topic=TOPIC, producer_id=1, request_id=1, producer_name="p")
    stage.connect("c")
    asked = [{"key": key, "value": value} for key, value in properties.items()]
    consumer = {"topic": TOPIC, "subscription": "s", "subType": "Exclusive", "consumer_id": 1, "initialPosition": "Earliest"}
    stage.say("subscribe", "c", **consumer, request_id=1, subscription_properties=asked)
    return stage


def send(stage: Stage, entries: Iterable[Entry]) -> None:
    """Let the producer of `meet` send entries."""
    for entry in entries:
        head = command("send", producer_id=1, sequence_id=entry.sequence_id, num_messages=len(entry.queued))
        stage.send(encode_frame(head, entry.payload), "p")


def verdict(filters: SubscriptionEntryFilters, index: int, entry: Entry) -> EntryVerdict:
    """Let filters judge an entry at 0 s, for a consumer of a subscription that is not on any broker."""
    topic = SimpleNamespace(name=TOPIC, message_id=lambda place: MessageIdData(ledgerId=1, entryId=place))
    consumer: Any = SimpleNamespace(consumer_id=1, name="c", subscription=SimpleNamespace(name="s", topic=topic, properties={}))
    messages = len(entry.queued)
    return filters.judge(consumer, index, StoredEntry(entry.payload, messages, messages > 1, PUBLISH_TIME), 0.0)
