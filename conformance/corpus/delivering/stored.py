"""Entries as a broker has stored them: payloads that are records, and entries that can't be decided, or are acknowledged in part."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from crc32c import crc32c
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from refimpl.wire.compression import MAX_UNCOMPRESSED_SIZE
from refimpl.wire.pulsar_api_pb2 import SNAPPY, ZLIB, KeyValue, MessageMetadata

STORED = pa.schema(
    [
        ("topic", pa.string()),
        ("producer_name", pa.string()),
        ("batch", pa.int64()),
        ("part", pa.int32()),
        ("data", pa.binary()),
        ("kind", pa.string()),
        ("open", pa.list_(pa.int32())),
    ]
)
"""Entries: `kind` is `plain`, or why an entry can't be decided; `open` are the messages of a batch that are not acknowledged, null: all."""
_DDL = "topic STRING, producer_name STRING, batch LONG, part INT, data BINARY, kind STRING, open ARRAY<INT>"
EVERY = 29
"""One entry in so many is of each kind that can't be decided."""
KINDS = ("encrypted", "marker", "cut", "miscounted", "unknown compression", "no header")
_ACKNOWLEDGED = 5
"""One entry in so many is acknowledged in part, if it has several messages."""


_REPEATED = 7
"""In the header of one entry in so many each name stands twice, first with another value."""


FORMS = ("as it is", "JSON", "JSON with odd values", "Avro", "text", "awkward text", "awkward JSON", "awkward Avro")
"""What payloads are made of: each has the same share. Awkward ones nearly fit what the others fit."""
_DIGITS = (
    *("NaN", "-Infinity", '{"digit":"1","region":"eu"}'),
    *("1", '"1"', "1.0", "true", '"true"', "null", '"01"', '["1"]', '{"1":"1"}', '" 1"', '"TRUE"', '"\\u0031"'),
    *('"2","digit":"1"', '"2","Digit":"1"', '"true","DIGIT":"1"'),
)
"""What the field `digit` of JSON may be: texts, and what is none but reads like one; then one that is there twice, also in another case."""


def _zigzag(number: int) -> bytes:
    """Return a number of 64 bits as Avro writes it."""
    rest, digits = (number << 1 ^ number >> 63) & (1 << 64) - 1, []
    while rest > 0x7F:
        digits.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*digits, rest])


_NUMBERS = [
    _zigzag(number)
    for number in (
        *(0, -1, (1 << 63) - 1, -1 << 63),
        *(number for bits in range(6, 63, 7) for number in ((1 << bits) - 1, 1 << bits, -1 << bits, (-1 << bits) - 1)),
    )
]
"""The numbers next to where they get longer, from 1 byte to 10, as Avro writes them."""
_TEXTS = (*[""] * 36, "text", "text " * 12, "text " * 13, "text " * 26, "text " * 1639)
"""Texts whose length takes 1, 2 and 3 bytes; most are empty."""


def with_records(messages: DataFrame, name: str = "region", forms: Sequence[str] = FORMS) -> DataFrame:
    """Make payloads that message filters can read: JSON, Avro records, and texts that begin with the value of the property, or nearly do.

    Args:
        messages: From `with_contents`.
        name: The property whose value they repeat.
        forms: Some of `FORMS`.
    """
    value = sql.try_element_at("properties", sql.lit(name))
    number = sql.col("sequence_id") % 1000
    region = sql.when(value.isNull(), _varint(sql.lit(0))).otherwise(sql.concat(_varint(sql.lit(2)), _avro_text(value)))
    made = {
        "as it is": sql.col("payload"),
        "JSON": sql.to_json(sql.struct(value.alias("region"), number.alias("number")), {"ignoreNullFields": "false"}).cast("binary"),
        "Avro": sql.concat(region, _one_of(_NUMBERS, "sequence_id"), _avro_text(_one_of(_TEXTS, "producer_name", "sequence_id"))),
        "JSON with odd values": _odd_json(value),
        "text": sql.concat_ws(";", sql.coalesce(value, sql.lit("-")), number, sql.hex("payload")).cast("binary"),
    }
    made |= {
        "awkward text": _awkward_text(made["text"]),
        "awkward JSON": _awkward_json(made["JSON"]),
        "awkward Avro": _awkward_avro(made["Avro"]),
    }
    rows = messages.withColumn("payload", _chosen([made[form] for form in forms], "producer_name", "sequence_id"))
    return rows.withColumn("payload_size", sql.octet_length("payload"))


def _odd_json(value: Column) -> Column:
    """Return JSON with a field that is no text, or a text that nearly is the one that is asked for."""
    digit = _one_of(_DIGITS, "sequence_id")
    region = sql.to_json(sql.struct(value.alias("region")), {"ignoreNullFields": "false"})
    return sql.concat(sql.rtrim(region, sql.lit("}")), sql.lit(',"digit":'), digit, sql.lit("}")).cast("binary")


def _joined(*parts: Column | str | bytes) -> Column:
    given = (part.encode() if isinstance(part, str) else part for part in parts)
    return sql.concat(*(sql.lit(part) if isinstance(part, bytes) else part for part in given))


def _awkward_text(text: Column) -> Column:
    """Change a text where readers go wrong: in its case, at its ends, in what is no UTF-8 or not ASCII, and behind many bytes."""
    changed = [
        sql.lower(text.cast("string")).cast("binary"),
        *(_joined(text, end) for end in ("\n", b"\xff", b"\xfe", "é", "0" * 300 + ".")),
        *(_joined(start, text) for start in (" ", "x\n")),
        sql.lit(b""),
    ]
    return _chosen(changed, "sequence_id", "producer_name")


def _awkward_json(json: Column) -> Column:
    """Cut JSON where prefixes end that are asked for; or put something in front, behind or around it, or encode it otherwise."""
    changed = [
        sql.substring_index(json.cast("string"), ",", 1).cast("binary"),
        *map(sql.lit, (b'{"region":', b'{"region')),
        *(_joined(start, json) for start in ("x\n", "\ufeff")),
        *(_joined(json, end) for end in (" x", "}", "\n")),
        _joined('{"x":', json, "}"),
        sql.encode(json.cast("string"), "UTF-16"),
    ]
    return _chosen(changed, "sequence_id", "producer_name")


def _awkward_avro(avro: Column) -> Column:
    """Cut a record, or put a byte behind it; or give its union a branch that it lacks, or a branch in more bytes than it needs."""
    changed = [
        sql.substring(avro, sql.lit(1), sql.octet_length(avro) - 1),
        _joined(avro, "\0"),
        _joined("\4", avro),
        _joined(b"\x82\x00", sql.substring(avro, sql.lit(2), sql.octet_length(avro))),
    ]
    return _chosen(changed, "sequence_id", "producer_name")


def _chosen(values: Sequence[Column], *by: str) -> Column:
    """Return one of the values, chosen by columns."""
    which = sql.pmod(sql.xxhash64(*by), sql.lit(len(values)))
    return reduce(lambda found, one: sql.when(which == one[0], one[1]).otherwise(found), enumerate(values), values[0])


def _one_of(values: Sequence[str | bytes], *by: str) -> Column:
    """Return one of these values, chosen by columns."""
    return sql.get(sql.array(*map(sql.lit, values)), sql.pmod(sql.xxhash64(*by), sql.lit(len(values))).cast("int"))


def _varint(number: Column) -> Column:
    """Return a number below 2 ** 21 as varint."""

    def byte(value: Column) -> Column:
        return sql.unhex(sql.lpad(sql.hex(value.cast("long")), 2, "0"))

    low, middle, high = number.bitwiseAND(0x7F), sql.shiftright(number, 7).bitwiseAND(0x7F), sql.shiftright(number, 14)
    return (
        sql.when(number < 1 << 7, byte(low))
        .when(number < 1 << 14, sql.concat(byte(low + 0x80), byte(middle)))
        .otherwise(sql.concat(byte(low + 0x80), byte(middle + 0x80), byte(high)))
    )


def _avro_text(text: Column) -> Column:
    return sql.concat(_varint(2 * sql.octet_length(text)), text.cast("binary"))


_AS_LARGE, _SENDERS_OF_LARGE = 41, ("0", "3")
"""Which entry is a message of as many bytes as are decompressed, of producers whose names end so; the next one has one byte more."""


def stored(entries: DataFrame) -> DataFrame:
    """Turn some entries into such that can't be decided, and acknowledge messages of others.

    Args:
        entries: From `sent`.
    """
    return entries.mapInArrow(stored_batches, _DDL)


def plain(entries: DataFrame) -> DataFrame:
    """Return entries as `stored` does, all of them as they were sent."""
    return entries.select(*STORED.names[:5], sql.lit("plain").alias("kind"), sql.lit(None).cast("array<int>").alias("open"))


def stored_batches(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do it for pieces; which entries they are depends only on their numbers."""
    for piece in pieces:
        rows = [_row(row) for row in piece.select(STORED.names[:5]).to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, STORED)


def _large(metadata: MessageMetadata, size: int) -> tuple[MessageMetadata, bytes]:
    """Return a message of so many bytes, none of which fits a filter: its header and its body."""
    header = MessageMetadata(producer_name=metadata.producer_name, sequence_id=metadata.sequence_id, publish_time=metadata.publish_time)
    header.compression, header.uncompressed_size = ZLIB, size
    header.properties.extend(metadata.properties)
    return header, zlib.compress(bytes(size), 1)


def _row(row: dict[str, Any]) -> dict[str, Any]:
    number, size = row["batch"], struct.unpack_from(">I", row["data"], 6)[0]
    metadata, body = MessageMetadata.FromString(row["data"][10 : 10 + size]), row["data"][10 + size :]
    if number in (_AS_LARGE, _AS_LARGE + 1) and row["producer_name"].endswith(_SENDERS_OF_LARGE):
        metadata, body = _large(metadata, MAX_UNCOMPRESSED_SIZE + number - _AS_LARGE)
    count = metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else 0
    which = (number + 7) % EVERY
    too_large = metadata.uncompressed_size > MAX_UNCOMPRESSED_SIZE
    as_sent = "too large" if too_large else "chunk" if metadata.num_chunks_from_msg > 1 else "plain"
    kind = KINDS[which] if which < len(KINDS) else as_sent
    if number % _ACKNOWLEDGED == 1 and count > 1 and kind != "no header":
        row["open"] = [index for index in range(count) if (index + number) % 3]
    if number % _REPEATED == 3:
        pairs = [(pair.key, pair.value) for pair in metadata.properties]
        del metadata.properties[:]
        metadata.properties.extend(
            KeyValue(key=key, value=value) for key, value in [*((key, f"not {value}") for key, value in pairs), *pairs]
        )
    if kind == "encrypted":
        metadata.encryption_keys.add(key="key", value=b"secret")
        if number % 2:  # else it could be read, and must not be
            body = body[::-1]
    elif kind == "marker":
        metadata.marker_type = 10
    elif kind == "cut":
        if metadata.compression or count:
            body = body[:-1]
        else:
            kind = "plain"
    elif kind == "miscounted":
        if count:
            metadata.num_messages_in_batch = count + 1
        else:
            kind = "plain"
    elif kind == "unknown compression":
        metadata.compression = SNAPPY
        metadata.uncompressed_size = (1 << 31) - 1
    header = metadata.SerializeToString()
    if kind == "no header":
        header = header[:-1]
    covered = struct.pack(">I", len(header)) + header + body
    return {**row, "data": b"\x0e\x01" + struct.pack(">I", crc32c(covered)) + covered, "kind": kind}
