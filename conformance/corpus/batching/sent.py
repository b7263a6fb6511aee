"""Entries as producers of the reference send them: its `UniformBatcher` over the messages of each producer, and its encoder.

Messages arrive in pieces and entries leave in pieces; only the messages of the open batch wait. So a producer of any number of messages
takes bounded memory. What the reference lacks is added here in the way of Java clients: batches by key, and chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame

from conformance.corpus.batching.settings import Setting, Want
from conformance.corpus.batching.windows import PRODUCER
from conformance.corpus.errors import CorpusError
from refimpl.client.entry import Queued, encode_entry
from refimpl.client.messages import MessageId, OutgoingMessage
from refimpl.client.scheduler import Pending
from refimpl.proposals.extension import EntryVerdict
from refimpl.proposals.uniform_batches import Batch, UniformBatcher
from refimpl.proposals.uniform_batches.broker import PropertyEntryFilter
from refimpl.wire import compress, encode_payload, parse_payload
from refimpl.wire.pulsar_api_pb2 import NONE, KeyValue, MessageMetadata

READ = ("topic", "producer_name", "sequence_id", "publish_time", "event_time", "key", "properties", "payload")
"""The columns that it reads."""

SENT = pa.schema(
    [
        ("topic", pa.string()),
        ("producer_name", pa.string()),
        ("batch", pa.int64()),
        ("part", pa.int32()),
        ("data", pa.binary()),
        ("reason", pa.string()),
        ("accepted", pa.list_(pa.bool_())),
    ]
)
"""One row for each entry, in the order of sending: number of the batch in its producer, number of the chunk (0: it is whole), what follows
SEND on the wire, why the batch was sent, and the verdicts of the reference's entry filters on its header."""
_SENT_DDL = "topic STRING, producer_name STRING, batch LONG, part INT, data BINARY, reason STRING, accepted ARRAY<BOOLEAN>"
_ENTRIES = 512
"""Entries that leave together, unless they are large."""
_BYTES = 4 << 20


def sent(messages: DataFrame, setting: Setting, wants: Sequence[Want] = ()) -> DataFrame:
    """Send the messages of each producer.

    Args:
        messages: With the columns of `READ`.
        setting: The producers'.
        wants: Consumers whose entry filters are asked about each entry.

    Returns:
        The columns of `SENT`; the entries of a producer are in one partition, in order.
    """
    rows = messages.select(*READ)
    ordered = rows.repartition(*PRODUCER).sortWithinPartitions(*PRODUCER, "sequence_id")  # groups keep the order, which is checked
    return ordered.groupBy(*PRODUCER).applyInArrow(_sender(setting, tuple(wants)), _SENT_DDL)


def _sender(setting: Setting, wants: tuple[Want, ...]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def send(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return sent_batches(pieces, setting, wants)

    return send


def sent_batches(pieces: Iterator[pa.RecordBatch], setting: Setting, wants: Sequence[Want] = ()) -> Iterator[pa.RecordBatch]:
    """Send one producer's messages.

    Args:
        pieces: Its messages, in the order of their sequence_id.
        setting: The producer's.
        wants: As `sent`.

    Raises:
        CorpusError: Messages are not in order.
    """
    producer = _Producer(setting, wants)
    for piece in pieces:
        for row in zip(*(piece[column].to_pylist() for column in READ), strict=True):
            producer.add(*row)
            if len(producer.out) >= _ENTRIES or producer.size >= _BYTES:
                yield producer.take()
    producer.end()
    if producer.out:
        yield producer.take()


@dataclass(frozen=True, slots=True)
class _Item:
    """A message, and the producer's clock when it came."""

    time: int
    queued: Queued


@dataclass
class _Producer:
    """One producer: takes its messages in order, and makes the entries."""

    setting: Setting
    wants: Sequence[Want]
    topic: str = ""
    name: str = ""
    clock: int = 0
    last: int = -1
    batches: int = 0
    size: int = 0
    out: list[tuple[Any, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        setting = self.setting
        self.batcher: UniformBatcher[_Item] = UniformBatcher(
            setting.rule, max_messages=setting.max_messages, max_bytes=setting.max_bytes, delay=setting.delay, profile=setting.profile
        )
        self.filters = [cast(PropertyEntryFilter, PropertyEntryFilter.of(want.subscription_properties)) for want in self.wants]

    def add(
        self,
        topic: str,
        name: str,
        sequence_id: int,
        publish_time: int,
        event_time: int | None,
        key: str | None,
        pairs: Any,
        payload: bytes,
    ) -> None:
        """Take a message. Time is in milliseconds; the batcher does not depend on the unit."""
        if sequence_id <= self.last:
            raise CorpusError(
                f"{name}: message {sequence_id} comes after message {self.last}; give each producer's messages increasing numbers"
            )
        if min(publish_time, event_time or 0) < 0:
            raise CorpusError(f"{name}: message {sequence_id} has a time below 0, which no header can hold")
        self.topic, self.name, self.last, self.clock = topic, name, sequence_id, max(self.clock, publish_time)
        message = OutgoingMessage(payload, dict(pairs), key, event_time)
        queued = Queued(message, sequence_id, cast("Pending[MessageId]", None), 0)
        self._send(self.batcher.tick(self.clock))
        large = len(payload) > self.setting.chunk
        self._send(self.batcher.add(_Item(self.clock, queued), message.properties, queued.size, self.clock, is_chunked=large))

    def end(self) -> None:
        self._send(self.batcher.flush())

    def take(self) -> pa.RecordBatch:
        columns = [pa.array(values, kind.type) for values, kind in zip(zip(*self.out, strict=True), SENT, strict=True)]
        self.out, self.size = [], 0
        return pa.RecordBatch.from_arrays(columns, schema=SENT)

    def _send(self, batches: Sequence[Batch[_Item]]) -> None:
        for batch in batches:
            for one in _by_key(batch) if self.setting.by_key else (batch,):
                self._write(one)

    def _write(self, batch: Batch[_Item]) -> None:
        compression = self.setting.compressions[self.batches % len(self.setting.compressions)]
        items, time = tuple(item.queued for item in batch.items), batch.items[0].time
        if len(items) == 1 and len(items[0].message.payload) > self.setting.chunk:
            entries = _chunks(items[0], self.name, time, compression, self.setting.chunk)
        else:
            entries = [encode_entry(Batch(items, batch.header, batch.reason), self.name, time, compression).payload]
        for part, data in enumerate(entries):
            accepted = []
            if self.filters:
                metadata = parse_payload(data).metadata
                accepted = [one.verdict(metadata) is EntryVerdict.ACCEPT for one in self.filters]
            self.out.append((self.topic, self.name, self.batches, part, data, batch.reason.name, accepted))
            self.size += len(data)
        self.batches += 1


def _by_key(batch: Batch[_Item]) -> list[Batch[_Item]]:
    """Divide what is sent at once into a batch for each key, in the order of their first messages."""
    found: dict[str | None, list[_Item]] = {}
    for item in batch.items:
        found.setdefault(item.queued.message.key, []).append(item)
    return [Batch(tuple(items), None, batch.reason) for items in found.values()]


def _chunks(queued: Queued, name: str, time: int, compression: int, size: int) -> list[bytes]:
    """Divide a large message: it is compressed as a whole, and each chunk has its header."""
    message = queued.message
    body = compress(message.payload, compression)
    count = -(-len(body) // size)
    metadata = MessageMetadata(producer_name=name, sequence_id=queued.sequence_id, publish_time=time, partition_key=message.key)
    metadata.properties.extend(KeyValue(key=key, value=value) for key, value in message.properties.items())
    if message.event_time is not None:
        metadata.event_time = message.event_time
    metadata.uncompressed_size = len(message.payload)
    if compression != NONE:
        metadata.compression = compression  # type: ignore[assignment]
    if count > 1:
        metadata.uuid, metadata.num_chunks_from_msg, metadata.total_chunk_msg_size = f"{name}-{queued.sequence_id}", count, len(body)
    entries = []
    for part in range(count):
        if count > 1:
            metadata.chunk_id = part
        entries.append(encode_payload(metadata, body[part * size : (part + 1) * size]))
    return entries
