"""The whole rule, as the reference's broker has it: its judges, its cursor and its consumer, entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from conformance.corpus.delivering.subscriptions import Subscription
from refimpl.broker.consumer import Consumer
from refimpl.broker.filtering import SubscriptionFilters
from refimpl.broker.subscription import Subscription as BrokerSubscription
from refimpl.proposals.extension import EntryVerdict
from refimpl.proposals.message_filter.broker import MessageFilterBroker, PayloadJudge
from refimpl.proposals.message_filter.kinds import PACKAGE
from refimpl.proposals.message_filter.rules import FilterCounters
from refimpl.proposals.uniform_batches.broker import HeaderJudge, SubscriptionEntryFilters, filters_of
from refimpl.store import Cursor, Entry
from refimpl.wire import WireError, is_batch, parse_payload
from refimpl.wire.pulsar_api_pb2 import CommandMessage, CommandSubscribe, KeyValue, MessageIdData, Schema

RESULT = pa.struct(
    [
        ("goes_out", pa.bool_()),
        ("ack_set", pa.list_(pa.int64())),
        ("permits", pa.int32()),
        ("accepted", pa.int32()),
        ("rejected", pa.int32()),
        ("undecidable", pa.int32()),
    ]
)
"""What one subscription gets of an entry: whether it goes out (else it is acknowledged), the `ack_set` (null: none), the permits that it
uses,
and how many messages the message filter judged in which way."""
RESULT_DDL = "ARRAY<STRUCT<goes_out: BOOLEAN, ack_set: ARRAY<LONG>, permits: INT, accepted: INT, rejected: INT, undecidable: INT>>"


def with_reference(entries: DataFrame, subscriptions: Sequence[Subscription]) -> DataFrame:
    """Add the column `reference`: what each subscription gets.

    Args:
        entries: From `stored`.
        subscriptions: The subscriptions, in order.
    """
    wanted = tuple(subscriptions)

    def judge(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return judged_batches(pieces, wanted)

    fields = ", ".join(f"`{column.name}` {column.dataType.simpleString()}" for column in entries.schema)
    return entries.mapInArrow(judge, f"{fields}, reference {RESULT_DDL}")


def judged_batches(pieces: Iterable[pa.RecordBatch], subscriptions: Sequence[Subscription]) -> Iterator[pa.RecordBatch]:
    """Judge pieces."""
    judges = [judge_of(one) for one in subscriptions]
    for piece in pieces:
        rows = zip(piece["data"].to_pylist(), piece["open"].to_pylist(), strict=True)
        found = pa.array([[judge(data, opened) for judge in judges] for data, opened in rows], pa.list_(RESULT))
        yield pa.RecordBatch.from_arrays([*piece.columns, found], schema=piece.schema.append(pa.field("reference", pa.list_(RESULT))))


def judge_of(subscription: Subscription) -> Callable[[bytes, Sequence[int] | None], dict[str, Any]]:
    """Return the function that tells what a subscription gets of an entry, from its bytes and the messages that are not acknowledged."""
    properties = {name: value for want in subscription.wants for name, value in want.subscription_properties.items()}
    headers = HeaderJudge(SubscriptionEntryFilters(filters_of(properties)))
    payloads = PayloadJudge(MessageFilterBroker().subscription())
    filters = SubscriptionFilters({"pip191": headers, "pr7629": payloads})
    sent: list[CommandMessage] = []
    session: Any = SimpleNamespace(broker=SimpleNamespace(now=0.0), send=lambda command, _: sent.append(command), speaks=lambda _: True)
    topic: Any = SimpleNamespace(message_id=lambda index: MessageIdData(ledgerId=1, entryId=index), messages_out=0, bytes_out=0)
    consumer = Consumer(1, session, BrokerSubscription(topic, subscription.name, Cursor(), filters), subscription.name)
    filters.joined(consumer, {"pr7629": MessageFilterBroker().requested(_subscribe(subscription))})

    def judge(data: bytes, opened: Sequence[int] | None) -> dict[str, Any]:
        cursor, entry = Cursor(), Entry(data, _messages(data), batch=True, publish_time=0)
        if opened is not None:
            cursor.acknowledge_in_part(0, opened)
        payloads.message_filter.counters = counters = FilterCounters()
        consumer.permits = 0
        sent.clear()
        accepted = filters.judge(consumer, 0, entry, cursor) is EntryVerdict.ACCEPT
        if accepted:
            consumer.send(0, entry, 0, cursor.open_messages.get(0))
        return {
            "goes_out": accepted,
            "ack_set": list(sent[0].ack_set) if sent and sent[0].ack_set else None,
            "permits": -consumer.permits,
            "accepted": counters.accepted,
            "rejected": counters.rejected,
            "undecidable": counters.undecidable,
        }

    return judge


def _subscribe(subscription: Subscription) -> CommandSubscribe:
    request = CommandSubscribe(topic="t", subscription="s", subType=CommandSubscribe.Shared, consumer_id=1, request_id=1)
    if subscription.filter is not None:
        name, properties = subscription.filter
        request.filter_meta.filter_class_name = f"{PACKAGE}.{name}"
        request.filter_meta.filter_properties.extend(KeyValue(key=key, value=value) for key, value in properties.items())
        kind = Schema.Avro if subscription.schema == "avro" else Schema.Json
        request.schema.CopyFrom(Schema(name="s", schema_data=subscription.schema_data, type=kind))
    return request


def _messages(data: bytes) -> int:
    """Return the number of messages that the broker counts for an entry: that of its header, else 1."""
    try:
        metadata = parse_payload(data).metadata
    except WireError:
        return 1
    return metadata.num_messages_in_batch if is_batch(metadata) else 1
