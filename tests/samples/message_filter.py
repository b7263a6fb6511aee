"""Short ways to write entries, requests and filters of PR 7629 in tests, and a subscription that does what a broker has to."""

import io
import json
from collections import deque

from fastavro import parse_schema, schemaless_writer

from refimpl.proposals.message_filter import (
    BASIC_AVRO_FILTER,
    BUILT_IN_REGISTRY,
    BYTES_PREFIX_FILTER,
    REGEX_FILTER,
    REGEX_KEY,
    EntryOutcome,
    MessageFilterBroker,
    SchemaAccess,
)
from refimpl.store import Cursor
from refimpl.wire import SingleMessage, compress, encode_batch, encode_payload
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, FilterMeta, KeyValue, MessageMetadata, Schema, SingleMessageMetadata

EXAMPLE = "[3-5][0-9]"
RECORD = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "state", "type": "string"},
        {"name": "amount", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["BUY", "SELL"]}},
        {"name": "items", "type": {"type": "array", "items": {"type": "map", "values": "int"}}},
    ],
}
ORDER = {"state": "paid", "amount": 7, "note": "vip", "kind": "BUY", "items": [{"a": 1}, {}]}


def avro(definition=RECORD, kind=Schema.Avro):
    return Schema(name="s", type=kind, schema_data=definition if isinstance(definition, bytes) else json.dumps(definition).encode())


def avro_payload(value, definition=RECORD):
    written = io.BytesIO()
    schemaless_writer(written, parse_schema(definition), value)
    return written.getvalue()


def entry(payload, compression=0, **metadata):
    """Return the bytes of a single message."""
    return _entry(payload, compression, MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **metadata))


def batch(*payloads, compression=0, count=None, **metadata):
    """Return the bytes of a batch."""
    body = encode_batch(SingleMessage(SingleMessageMetadata(), payload) for payload in payloads)
    size = len(payloads) if count is None else count
    header = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=size, **metadata)
    return _entry(body, compression, header)


def _entry(body, compression, metadata):
    if compression:
        metadata.compression = compression
        metadata.uncompressed_size = len(body)
    return encode_payload(metadata, compress(body, compression))


def meta(class_name=REGEX_FILTER, /, *pairs, **properties):
    if not pairs and not properties and class_name == REGEX_FILTER:
        properties = {REGEX_KEY: EXAMPLE}
    return FilterMeta(filter_class_name=class_name, filter_properties=[KeyValue(key=k, value=v) for k, v in (*pairs, *properties.items())])


def subscribe(filter_meta=None, schema=None, **fields):
    return CommandSubscribe(
        topic="t", subscription="s", subType=0, consumer_id=1, request_id=1, filter_meta=filter_meta, schema=schema, **fields
    )


def regex(pattern):
    return BUILT_IN_REGISTRY.build(REGEX_FILTER, {REGEX_KEY: pattern}, SchemaAccess())


def prefix(**properties):
    return BUILT_IN_REGISTRY.build(BYTES_PREFIX_FILTER, properties, SchemaAccess())


def by_fields(properties, schema=None, of_version=lambda _: None):
    return BUILT_IN_REGISTRY.build(BASIC_AVRO_FILTER, properties, SchemaAccess(avro() if schema is None else schema, of_version))


class Subscription:
    """Entries, a cursor, consumers with permits: as a broker dispatches with a filter."""

    def __init__(self, filters=None, **arguments):
        self.broker = filters or MessageFilterBroker(**arguments)
        self.filter = self.broker.subscription()
        self.entries = []
        self.cursor = Cursor()
        self.permits = {}
        self.sent = {}
        self.waiting = deque()

    def subscribe(self, consumer, request):
        requested = self.broker.requested(request)
        self.filter.check_joins(requested)
        self.filter.joined(consumer, requested)
        self.permits[consumer] = 0
        self.sent[consumer] = []

    def leave(self, consumer):
        self.filter.left(consumer)
        del self.permits[consumer]
        self.waiting.extendleft(
            index for index, _ in reversed(self.sent.pop(consumer)) if not self.cursor.is_acknowledged(index) and index not in self.waiting
        )
        self.dispatch()

    def publish(self, data):
        self.entries.append(data)
        self.waiting.append(len(self.entries) - 1)
        self.dispatch()

    def flow(self, consumer, permits):
        self.permits[consumer] += permits
        self.dispatch()

    def dispatch(self):
        while self.waiting:
            consumer = next((one for one, left in self.permits.items() if left > 0), None)
            if consumer is None:
                return
            index = self.waiting.popleft()
            if self.cursor.is_acknowledged(index):
                continue
            judgement = self.filter.judge(consumer, self.entries[index], self.cursor.open_messages.get(index))
            if judgement.outcome is EntryOutcome.REJECT:
                self.cursor.acknowledge(index)
                continue
            if judgement.outcome is EntryOutcome.PARTIAL:
                self.cursor.acknowledge_in_part(index, judgement.open_messages)
            open_messages = self.cursor.open_messages.get(index)
            self.permits[consumer] -= judgement.accepted + judgement.undecidable or 1
            self.sent[consumer].append((index, open_messages))

    def acknowledge(self, index):
        self.cursor.acknowledge(index)

    @property
    def backlog(self):
        return [index for index in range(len(self.entries)) if not self.cursor.is_acknowledged(index)]
