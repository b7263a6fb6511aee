"""Measures message filters (PR 7629): decisions alone, and what they save on the way to a consumer."""

from __future__ import annotations

import io
import json
import statistics
from collections.abc import Callable
from functools import partial

from fastavro import parse_schema, schemaless_writer
from figures import row, seconds

from refimpl.broker import Broker
from refimpl.proposals.message_filter import (
    BASIC_AVRO_FILTER,
    BYTES_PREFIX_FILTER,
    PREFIX_KEY,
    REGEX_FILTER,
    REGEX_KEY,
    EntryJudgement,
    MessageFilter,
    MessageFilterBroker,
    SchemaAccess,
    judge,
)
from refimpl.wire import SingleMessage, command, encode_batch, encode_frame, encode_payload
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, FilterMeta, KeyValue, MessageMetadata, Schema, SingleMessageMetadata

MESSAGES = 10_000
BATCH = 100
ROUNDS = 5
TOPIC = "persistent://public/default/t"
RECORD = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "state", "type": "string"}, {"name": "amount", "type": "long"}, {"name": "note", "type": "string"}],
}
SCHEMA = Schema(name="", type=Schema.Avro, schema_data=json.dumps(RECORD).encode())
STATES = ("paid", "open", "sent", "lost", "back", "held", "late", "kept", "done", "void")
PADDING = "x" * 1000

_Written = Callable[[int], bytes]


def _text(number: int) -> bytes:
    return f"{STATES[number % 10]} {number} {PADDING}".encode()


def _avro(number: int) -> bytes:
    written = io.BytesIO()
    schemaless_writer(written, parse_schema(RECORD), {"state": STATES[number % 10], "amount": number, "note": PADDING})
    return written.getvalue()


_KINDS: tuple[tuple[str, FilterMeta, _Written], ...] = (
    ("regex", FilterMeta(filter_class_name=REGEX_FILTER, filter_properties=[KeyValue(key=REGEX_KEY, value="(paid|open|sent) .*")]), _text),
    ("prefix", FilterMeta(filter_class_name=BYTES_PREFIX_FILTER, filter_properties=[KeyValue(key=PREFIX_KEY, value="paid ")]), _text),
    ("Avro", FilterMeta(filter_class_name=BASIC_AVRO_FILTER, filter_properties=[KeyValue(key="state", value="paid")]), _avro),
)


def decisions() -> None:
    """Judge messages of one kilobyte, each in an entry of its own and a hundred together."""
    for name, meta, written in _KINDS:
        request = CommandSubscribe(topic=TOPIC, subscription="s", subType="Exclusive", consumer_id=1, request_id=1, filter_meta=meta)
        requested = MessageFilterBroker().requested(request, SchemaAccess(SCHEMA))
        assert requested is not None
        for size in (1, BATCH):
            entries = _entries(written, size)
            accepted = sum(judge(requested.filter, data).accepted for data in entries)
            work = partial(_judge_all, requested.filter, entries)
            times = [seconds(work) for _ in range(ROUNDS)]
            row(
                "filters",
                f"{MESSAGES / statistics.median(times):,.0f} decisions/s",
                f"{name}, messages of 1 KB, {size} in an entry, {accepted / MESSAGES:.0%} match",
            )


def saved_bytes() -> None:
    """Deliver a whole topic from a broker without sockets, and then only the messages that match."""
    for name, meta, written in _KINDS:
        for size, alike, said in ((1, 1, "1 in an entry"), (BATCH, 1, f"{BATCH} in a batch"), (BATCH, BATCH, f"{BATCH} alike in a batch")):
            entries = _entries(written, size, alike)
            all_bytes, all_time = _delivered(entries, size, None)
            data, time = _delivered(entries, size, meta)
            row(
                "filters",
                f"{data / all_bytes:.1%} of the bytes",
                f"{name}, {said}: {data:,} instead of {all_bytes:,} bytes to the consumer;"
                f" {MESSAGES / time:,.0f} messages/s instead of {MESSAGES / all_time:,.0f}",
            )


def _judge_all(message_filter: MessageFilter, entries: list[bytes]) -> list[EntryJudgement]:
    return [judge(message_filter, data) for data in entries]


def _entries(written: _Written, size: int, alike: int = 1) -> list[bytes]:
    """Return the messages as entries; `alike` successive messages have the same state."""
    payloads = [written(number // alike) for number in range(MESSAGES)]
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=0)
    if size == 1:
        return [encode_payload(metadata, payload) for payload in payloads]
    metadata.num_messages_in_batch = size
    groups = [payloads[begin : begin + size] for begin in range(0, MESSAGES, size)]
    return [encode_payload(metadata, encode_batch(SingleMessage(SingleMessageMetadata(), one) for one in group)) for group in groups]


def _delivered(entries: list[bytes], size: int, meta: FilterMeta | None) -> tuple[int, float]:
    """Return the number of bytes that a consumer receives of a backlog, and the seconds that it takes."""
    broker = Broker()
    session = broker.connect(0.0)
    subscribe = {"topic": TOPIC, "subscription": "s", "subType": "Exclusive", "consumer_id": 1, "request_id": 2, "filter_meta": meta}
    opening = [
        command("connect", client_version="bench", protocol_version=21),
        command("producer", topic=TOPIC, producer_id=1, request_id=1, schema=SCHEMA),
        command("subscribe", **{key: value for key, value in subscribe.items() if value is not None}),
    ]
    session.receive(b"".join(map(encode_frame, opening)), 0.0)
    for data in entries:
        session.receive(encode_frame(command("send", producer_id=1, sequence_id=0, num_messages=size), data), 0.0)
    while session.data_to_send(1 << 20):
        pass
    sent = 0

    def work() -> None:
        nonlocal sent
        session.receive(encode_frame(command("flow", consumer_id=1, messagePermits=10 * MESSAGES)), 0.0)
        while data := session.data_to_send(1 << 20):
            sent += len(data)

    took = seconds(work)
    return sent, took
