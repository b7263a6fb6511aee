"""Entries, opened again by a path of its own: the format, the checksum and the compressions are read without the reference's code.

Of the project it shares nothing with the reference but the generated protobuf classes. Compressed bodies are decompressed by pyarrow's
codecs
and by zlib.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from crc32c import crc32c
from google.protobuf.message import DecodeError
from pyspark.sql import DataFrame

from refimpl.wire.pulsar_api_pb2 import MessageMetadata, SingleMessageMetadata

CODECS = {1: pa.Codec("lz4_raw"), 3: pa.Codec("zstd"), 4: pa.Codec("snappy")}
"""By the number of a compression; 0 is none, and 2 is zlib."""
LARGEST = 64 << 20
"""No body is larger, in bytes; a header that says so is wrong."""
_PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
MESSAGE = pa.struct(
    [
        ("sequence_id", pa.int64()),
        ("position", pa.int32()),
        ("after", pa.int64()),
        ("key", pa.string()),
        ("properties", _PAIRS),
        ("event_time", pa.int64()),
        ("payload", pa.binary()),
        ("others", pa.string()),
    ]
)
"""A message of an entry; `after` is the message before it of the same producer (and, in batches by key, of the same key), -1: none;
`others` names fields of its headers that nothing is compared with (null: there are none)."""
_COMPARED = frozenset({"properties", "partition_key", "event_time", "payload_size", "sequence_id"})
"""Fields of a message in a batch that are compared with what was sent."""
_OF_ANY = frozenset({"producer_name", "sequence_id", "publish_time", "properties", "partition_key", "compression", "uncompressed_size"})
_OF_BATCH = _OF_ANY | {"num_messages_in_batch", "highest_sequence_id"}
_OF_SINGLE = _OF_ANY | {"event_time"}
_OF_CHUNK = frozenset({"uuid", "num_chunks_from_msg", "total_chunk_msg_size", "chunk_id"})
"""Fields of the header of an entry that are: of any, of a batch, of a single message, and of one in chunks besides."""
OPENED = pa.schema(
    [
        ("topic", pa.string()),
        ("producer_name", pa.string()),
        ("batch", pa.int64()),
        ("parts", pa.int32()),
        ("reason", pa.string()),
        ("accepted", pa.list_(pa.bool_())),
        ("name", pa.string()),
        ("time", pa.int64()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("count", pa.int32()),
        ("header_key", pa.string()),
        ("header", _PAIRS),
        ("compression", pa.int32()),
        ("before_body", pa.int64()),
        ("body", pa.int64()),
        ("said", pa.int64()),
        ("wire", pa.int64()),
        ("problem", pa.string()),
        ("messages", pa.list_(MESSAGE)),
    ]
)
"""One row for each batch, single message or message in chunks: what the header says (`count`: null if it is no batch; `last`: null if
there is none), bytes before the body, of the body uncompressed (`said`: as the header says) and of all entries as sent, and why it can't
be opened (null: it can)."""
_PAIRS_DDL = "ARRAY<STRUCT<key: STRING, value: STRING>>"
OPENED_DDL = (
    "topic STRING, producer_name STRING, batch LONG, parts INT, reason STRING, accepted ARRAY<BOOLEAN>, "
    "name STRING, time LONG, first LONG, last LONG, count INT, header_key STRING, "
    f"header {_PAIRS_DDL}, compression INT, before_body LONG, body LONG, said LONG, wire LONG, problem STRING, "
    f"messages ARRAY<STRUCT<sequence_id: LONG, position: INT, after: LONG, key: STRING, properties: {_PAIRS_DDL}, "
    "event_time: LONG, payload: BINARY, others: STRING>>"
)


class Unreadable(ValueError):
    """An entry that can't be read; the text says why."""


def opened(entries: DataFrame, *, by_key: bool = False) -> DataFrame:
    """Open entries.

    Args:
        entries: From `sent`: the entries of a producer are in one partition, in order.
        by_key: Whether messages are in order only with those of the same key.
    """

    def open_all(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return opened_batches(pieces, by_key=by_key)

    return entries.mapInArrow(open_all, OPENED_DDL)


def opened_batches(pieces: Iterable[pa.RecordBatch], *, by_key: bool = False) -> Iterator[pa.RecordBatch]:
    """Open entries in their order; chunks of a message become one."""
    opener = _Opener(by_key)
    for piece in pieces:
        rows = _Rows()
        for entry in piece.to_pylist():
            opener.add(entry, rows)
        yield rows.batch()
    rows = _Rows()
    opener.end(rows)
    yield rows.batch()


class _Pairs:
    """Lists of pairs, one list after the other."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.keys: list[str] = []
        self.values: list[str] = []

    def add(self, properties: Any) -> None:
        self.counts.append(len(properties))
        for pair in properties:
            self.keys.append(pair.key)
            self.values.append(pair.value)

    def array(self) -> pa.Array:
        pairs = pa.StructArray.from_arrays(
            [pa.array(self.keys, pa.string()), pa.array(self.values, pa.string())], fields=_PAIRS.value_type.fields
        )
        return pa.ListArray.from_arrays(_offsets(self.counts), pairs)


@dataclass
class _Rows:
    """Rows that leave together: columns of batches, and flat columns of their messages and properties."""

    batches: list[tuple[Any, ...]] = field(default_factory=list)
    headers: _Pairs = field(default_factory=_Pairs)
    counts: list[int] = field(default_factory=list)
    messages: list[tuple[Any, ...]] = field(default_factory=list)
    properties: _Pairs = field(default_factory=_Pairs)

    def batch(self) -> pa.RecordBatch:
        columns = dict(zip(_FLAT, zip(*self.batches, strict=True) if self.batches else [()] * len(_FLAT), strict=True))
        flat = dict(zip(_OF_MESSAGE, zip(*self.messages, strict=True) if self.messages else [()] * len(_OF_MESSAGE), strict=True))
        children = [self.properties.array() if one.name == "properties" else pa.array(flat[one.name], one.type) for one in MESSAGE.fields]
        messages = pa.ListArray.from_arrays(_offsets(self.counts), pa.StructArray.from_arrays(children, fields=MESSAGE.fields))
        arrays = {"header": self.headers.array(), "messages": messages}
        return pa.RecordBatch.from_arrays(
            [arrays[one.name] if one.name in arrays else pa.array(columns[one.name], one.type) for one in OPENED], schema=OPENED
        )


_FLAT = [one.name for one in OPENED if one.name not in ("header", "messages")]
_OF_MESSAGE = [one.name for one in MESSAGE.fields if one.name != "properties"]


def _offsets(counts: list[int]) -> pa.Array:
    offsets = [0]
    for count in counts:
        offsets.append(offsets[-1] + count)
    return pa.array(offsets, pa.int32())


@dataclass
class _Opener:
    """Opens entries one after the other, and remembers which message came before and the chunks that wait."""

    by_key: bool
    producer: tuple[str, str] | None = None
    before: dict[str | None, int] = field(default_factory=dict)
    waiting: list[dict[str, Any]] = field(default_factory=list)
    uuid: str = ""
    """Of the last chunk."""
    header: MessageMetadata | None = None
    """Of the first chunk that waits, without its number."""
    body: bytes = b""

    def add(self, entry: dict[str, Any], rows: _Rows) -> None:
        if (entry["topic"], entry["producer_name"]) != self.producer:
            self.end(rows)
            self.producer, self.before = (entry["topic"], entry["producer_name"]), {}
        try:
            metadata, body = read_entry(entry["data"])
            count = metadata.num_chunks_from_msg
            if self.waiting and (count < 2 or metadata.chunk_id == 0):
                self.end(rows)
            if count > 1:
                if metadata.chunk_id != len(self.waiting) or entry["part"] != len(self.waiting):
                    raise Unreadable(f"chunk {metadata.chunk_id} of {count} comes after {len(self.waiting)} chunks")
                if (metadata.uuid == self.uuid) is not bool(self.waiting):
                    raise Unreadable(f"chunk {metadata.chunk_id} has the uuid of another message")
                self._same_header(metadata)
                self.uuid = metadata.uuid
                self.waiting.append(entry)
                self.body += body
                if len(self.waiting) < count:
                    return
                if len(self.body) != metadata.total_chunk_msg_size:
                    raise Unreadable(f"the chunks have {len(self.body)} bytes, not {metadata.total_chunk_msg_size}")
                body = self.body
            whole = decompressed(metadata, body)
            messages = read_messages(metadata, whole)
        except Unreadable as error:
            self._fail(entry, rows, str(error))
            return
        entries = self.waiting or [entry]
        self.waiting, self.body = [], b""
        self._found(entries, metadata, (len(entry["data"]) - len(body), len(whole)), messages, rows)

    def _same_header(self, metadata: MessageMetadata) -> None:
        """Compare the header of a chunk with that of the first: they differ in the number of the chunk only."""
        header = MessageMetadata()
        header.CopyFrom(metadata)
        header.ClearField("chunk_id")
        if not self.waiting:
            self.header = header
        elif header != self.header:
            raise Unreadable(f"the header of chunk {metadata.chunk_id} says something else than that of chunk 0")

    def end(self, rows: _Rows) -> None:
        if self.waiting:
            self._fail(self.waiting[-1], rows, "chunks are missing")

    def _fail(self, entry: dict[str, Any], rows: _Rows, problem: str) -> None:
        self.waiting, self.body = [], b""
        rows.headers.add(())
        rows.counts.append(0)
        start = entry["topic"], entry["producer_name"], entry["batch"], 0, entry["reason"], entry["accepted"]
        rows.batches.append((*start, *[None] * 10, len(entry["data"]), problem))

    def _found(
        self, entries: list[dict[str, Any]], metadata: MessageMetadata, sizes: tuple[int, int], messages: list[Any], rows: _Rows
    ) -> None:
        entry = entries[0]
        is_batch = metadata.HasField("num_messages_in_batch")
        of_entry = _others(metadata, (_OF_BATCH if is_batch else _OF_SINGLE) | (_OF_CHUNK if len(entries) > 1 else frozenset()))
        for position, (own, payload) in enumerate(messages):
            key = own.partition_key if own.HasField("partition_key") else None
            line = key if self.by_key else None
            number = own.sequence_id
            time = own.event_time if own.HasField("event_time") else None
            others = (_others(own, _COMPARED) if is_batch else []) + (of_entry if position == 0 else [])
            rows.messages.append((number, position, self.before.get(line, -1), key, time, payload, ", ".join(others) or None))
            rows.properties.add(own.properties)
            self.before[line] = number
        rows.counts.append(len(messages))
        rows.headers.add(metadata.properties)
        rows.batches.append(
            (
                *(entry["topic"], entry["producer_name"], entry["batch"], len(entries), entry["reason"], entry["accepted"]),
                *(metadata.producer_name, metadata.publish_time, metadata.sequence_id),
                metadata.highest_sequence_id if metadata.HasField("highest_sequence_id") else None,
                metadata.num_messages_in_batch if is_batch else None,
                metadata.partition_key if metadata.HasField("partition_key") else None,
                *(metadata.compression, *sizes, metadata.uncompressed_size, sum(len(one["data"]) for one in entries), None),
            )
        )


def _others(header: MessageMetadata | SingleMessageMetadata, compared: frozenset[str]) -> list[str]:
    """Return the names of fields of a header that are not among these."""
    return [one.name for one, _ in header.ListFields() if one.name not in compared]


def read_entry(data: bytes) -> tuple[MessageMetadata, bytes]:
    """Read what follows SEND: checksum, header and body as sent.

    Raises:
        Unreadable: A size does not fit, the header is damaged, or the checksum is absent or wrong.
    """
    if data[:2] != b"\x0e\x01" or len(data) < 10:
        raise Unreadable("there is no checksum")
    checksum, size = struct.unpack_from(">II", data, 2)
    if crc32c(memoryview(data)[6:]) != checksum:
        raise Unreadable("the checksum is wrong")
    return header_of(data[10 : 10 + size], size), data[10 + size :]


def header_of(data: bytes, size: int) -> MessageMetadata:
    """Read a header of some bytes.

    Raises:
        Unreadable: It is cut or damaged.
    """
    if len(data) < size:
        raise Unreadable("the header is cut")
    try:
        return MessageMetadata.FromString(data)
    except DecodeError:
        raise Unreadable("the header is damaged") from None


def decompressed(metadata: MessageMetadata, body: bytes) -> bytes:
    """Return a body as it was before it was compressed.

    Raises:
        Unreadable: It is damaged, or has another size than the header says (of what is not compressed, not all clients say it).
    """
    size, number = metadata.uncompressed_size, metadata.compression
    if number == 0:
        return body
    if size > LARGEST:
        raise Unreadable("the body would be too large")
    try:
        whole = zlib.decompress(body) if number == 2 else CODECS[number].decompress(body, size, asbytes=True)
    except (zlib.error, pa.ArrowException, OSError, KeyError) as error:
        raise Unreadable(f"the body can't be decompressed: {error}") from None
    if len(whole) != size:
        raise Unreadable(f"the body has {len(whole)} bytes, not {size}")
    return whole


def read_messages(metadata: MessageMetadata, body: bytes) -> list[tuple[MessageMetadata | SingleMessageMetadata, bytes]]:
    """Read the messages of a body: header of each, and payload.

    Raises:
        Unreadable: A size does not fit, or a header is damaged.
    """
    if not metadata.HasField("num_messages_in_batch"):
        return [(metadata, body)]
    found: list[tuple[MessageMetadata | SingleMessageMetadata, bytes]] = []
    place, end = 0, len(body)
    parse = SingleMessageMetadata.FromString
    for _ in range(metadata.num_messages_in_batch):
        start = place + 4
        middle = start + int.from_bytes(body[place:start], "big")
        if start > end or middle > end:
            raise Unreadable("a message of the batch is cut")
        try:
            own = parse(body[start:middle])
        except DecodeError:
            raise Unreadable("the header of a message is damaged") from None
        place = middle + own.payload_size
        if own.payload_size < 0 or place > end:
            raise Unreadable("a message of the batch is cut")
        found.append((own, body[middle:place]))
    if place != end:
        raise Unreadable("there are bytes behind the last message of the batch")
    return found
