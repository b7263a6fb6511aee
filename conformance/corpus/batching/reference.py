"""Batches as the reference makes them: its `UniformBatcher` over the messages of each producer, in their order.

Messages arrive in pieces and leave in pieces; only those of the open batch, or in a piece with them, wait. So a producer of
any number of messages takes bounded memory.
"""

from __future__ import annotations

from collections import deque
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
from refimpl.proposals.uniform_batches import Batch, Extracted, UniformBatcher, header_bytes, write_header
from refimpl.proposals.uniform_batches.broker import PropertyEntryFilter
from refimpl.wire.pulsar_api_pb2 import NONE, KeyValue, MessageMetadata

READ = ("sequence_id", "publish_time", "key", "properties", "payload_size")
"""The columns that it looks at, beside those that name the producer."""

ADDED = pa.schema(
    [
        ("reference_batch", pa.int64()),
        ("reference_position", pa.int32()),
        ("reference_sent", pa.int64()),
        ("reference_header", pa.list_(pa.string())),
        ("reference_header_octets", pa.int32()),
        ("reference_reason", pa.string()),
        ("reference_accepted", pa.list_(pa.bool_())),
        ("wire_entry_octets", pa.int64()),
        ("wire_header_octets", pa.int64()),
    ]
)
"""The columns that it adds: number of the batch in its producer, place in the batch, number among all messages in the order in which they
go out; and of the batch the values of its header in the order of the setting (null: the header is written as without the
proposal), their bytes, why it went out, the verdicts of the entry filters, and, if it was encoded, the bytes of its entry and of
what stands there before the messages."""

_ADDED_DDL = (
    "reference_batch LONG, reference_position INT, reference_sent LONG, reference_header ARRAY<STRING>, reference_header_octets INT, "
    "reference_reason STRING, reference_accepted ARRAY<BOOLEAN>, wire_entry_octets LONG, wire_header_octets LONG"
)


def with_reference_batches(messages: DataFrame, setting: Setting, wants: Sequence[Want] = (), *, encode_every: int = 0) -> DataFrame:
    """Number the batches that the reference makes of each producer's messages.

    Args:
        messages: With the columns of `messages`; all are kept, apart from the payload.
        setting: The producer's.
        wants: Consumers whose entry filters are asked about each batch.
        encode_every: One in this many batches of a producer is encoded; 0: none.

    Returns:
        The rows with the columns of `ADDED`.
    """
    rows = messages.drop("payload")
    ordered = rows.repartition(*PRODUCER).sortWithinPartitions(*PRODUCER, "sequence_id")  # groups keep the order, which is checked
    fields = ", ".join(f"`{column.name}` {column.dataType.simpleString()}" for column in rows.schema)
    make = _maker(setting, tuple(wants), encode_every)
    return ordered.groupBy(*PRODUCER).applyInArrow(make, f"{fields}, {_ADDED_DDL}")


def _maker(setting: Setting, wants: tuple[Want, ...], encode_every: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def make(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return reference_batches(pieces, setting, wants, encode_every=encode_every)

    return make


def reference_batches(
    pieces: Iterator[pa.RecordBatch], setting: Setting, wants: Sequence[Want] = (), *, encode_every: int = 0
) -> Iterator[pa.RecordBatch]:
    """Make batches of one producer's messages.

    Args:
        pieces: Its messages, in the order of their sequence_id.
        setting: The producer's.
        wants: As `with_reference_batches`.
        encode_every: As there.

    Yields:
        The pieces, with the columns of `ADDED`.

    Raises:
        CorpusError: Messages are not in order.
    """
    producer = _Producer(setting, wants, encode_every)
    waiting: deque[pa.RecordBatch] = deque()
    first = 0
    for piece in pieces:
        waiting.append(piece)
        producer.add(piece)
        while waiting and producer.finished(first, waiting[0].num_rows):
            yield _joined(waiting[0], producer.take(first, waiting[0].num_rows))
            first += waiting.popleft().num_rows
    producer.flush()
    for piece in waiting:
        yield _joined(piece, producer.take(first, piece.num_rows))
        first += piece.num_rows


@dataclass(frozen=True)
class _Item:
    """A message, its number among those of its producer that came, and the producer's clock."""

    row: int
    time: int
    queued: Queued


@dataclass
class _Producer:
    """One producer: takes its messages in order, and notes for each the batch in which it goes out."""

    setting: Setting
    wants: Sequence[Want]
    encode_every: int
    name: str = ""
    rows: int = 0
    sent: int = 0
    batches: int = 0
    clock: int = 0
    last: int = -1
    done: dict[int, tuple[Any, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        setting = self.setting
        self.batcher: UniformBatcher[_Item] = UniformBatcher(
            setting.rule, max_messages=setting.max_messages, max_bytes=setting.max_bytes, delay=setting.delay, profile=setting.profile
        )
        self.filters = [cast(PropertyEntryFilter, PropertyEntryFilter.of(want.subscription_properties)) for want in self.wants]

    def add(self, piece: pa.RecordBatch) -> None:
        """Take messages. Time is in milliseconds; the batcher does not depend on the unit."""
        if piece.num_rows:
            self.name = piece["producer_name"][0].as_py()
        for sequence_id, publish_time, key, properties, size in zip(*(piece[column].to_pylist() for column in READ), strict=True):
            if sequence_id <= self.last:
                raise CorpusError(
                    f"{self.name}: message {sequence_id} comes after message {self.last}; give each producer's messages increasing numbers"
                )
            self.last, self.clock = sequence_id, max(self.clock, publish_time)
            message = OutgoingMessage(bytes(size), dict(properties), key)
            queued = Queued(message, sequence_id, cast("Pending[MessageId]", None), 0)
            for batch in self.batcher.tick(self.clock):
                self._sent(batch)
            for batch in self.batcher.add(_Item(self.rows, self.clock, queued), message.properties, queued.size, self.clock):
                self._sent(batch)
            self.rows += 1

    def flush(self) -> None:
        for batch in self.batcher.flush():
            self._sent(batch)

    def finished(self, first: int, rows: int) -> bool:
        return len(self.done) >= rows and all(row in self.done for row in range(first, first + rows))

    def take(self, first: int, rows: int) -> list[tuple[Any, ...]]:
        return [self.done.pop(row) for row in range(first, first + rows)]

    def _sent(self, batch: Batch[_Item]) -> None:
        metadata = MessageMetadata(producer_name=self.name, sequence_id=batch.items[0].queued.sequence_id, publish_time=batch.items[0].time)
        if batch.is_batch:
            write_header(metadata, batch)
        else:
            properties = batch.items[0].queued.message.properties
            metadata.properties.extend(KeyValue(key=key, value=value) for key, value in properties.items())
        accepted = [one.verdict(metadata) is EntryVerdict.ACCEPT for one in self.filters]
        header = None if batch.header is None else self._in_order(batch.header)
        data = self._encoded(batch)
        of_batch = (header, header_bytes(batch.header), batch.reason.name, accepted, *data)
        for position, item in enumerate(batch.items):
            self.done[item.row] = (self.batches, position, self.sent, *of_batch)
            self.sent += 1
        self.batches += 1

    def _in_order(self, header: Extracted) -> list[str | None]:
        values = dict(header)
        return [values.get(property_name) for property_name in self.setting.rule]

    def _encoded(self, batch: Batch[_Item]) -> tuple[int | None, int | None]:
        if not self.encode_every or self.batches % self.encode_every:
            return None, None
        items = tuple(item.queued for item in batch.items)
        entry = encode_entry(Batch(items, batch.header, batch.reason), self.name, batch.items[0].time, NONE)
        return len(entry.payload), entry.header_bytes


def _joined(piece: pa.RecordBatch, added: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [pa.array(values, kind.type) for values, kind in zip(zip(*added, strict=True), ADDED, strict=True)] if added else []
    if not added:
        columns = [pa.array([], kind.type) for kind in ADDED]
    return pa.RecordBatch.from_arrays([*piece.columns, *columns], names=[*piece.schema.names, *ADDED.names])
