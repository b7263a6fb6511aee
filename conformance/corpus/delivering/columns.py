"""The whole rule in columns: entries are read by a path of its own, and SQL judges them. It shares no code with the reference.

read        header, compression and messages of an entry, by `batching.opened`; the fields of Avro records by `avro`
judged      in SQL, for each subscription: by the header first, then each open message by the filter, then what goes out
outside     what can't be compared, since readers read it differently: see `dialect`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from conformance.corpus.batching.opened import Unreadable, decompressed, header_of, read_messages
from conformance.corpus.delivering.avro import texts
from conformance.corpus.delivering.dialect import END, json_outside, may_be_json
from conformance.corpus.delivering.subscriptions import RECORD, Subscription, asked_fields
from conformance.corpus.filtering.sql import payload_text, regex_of
from refimpl.wire.pulsar_api_pb2 import MessageMetadata

MAX_SIZE = 5 << 20
"""A larger body is not opened, in bytes."""
READ = pa.schema(
    [
        ("readable", pa.bool_()),
        ("marker", pa.bool_()),
        ("count", pa.int32()),
        ("values", pa.list_(pa.string())),
        ("payloads", pa.list_(pa.binary())),
        ("records", pa.list_(pa.list_(pa.string()))),
    ]
)
"""Of an entry: whether its header can be read, whether it is a marker, its number of messages (null: no batch), the properties that are
asked
for, and its payloads and the Avro fields of each (null: only the consumer can read them; of one message: readers differ)."""
_READ_DDL = "readable BOOLEAN, marker BOOLEAN, count INT, values ARRAY<STRING>, payloads ARRAY<BINARY>, records ARRAY<ARRAY<STRING>>"
_CHECKSUM, _BROKER_ENTRY = b"\x0e\x01", b"\x0e\x02"


def with_columns(entries: DataFrame, subscriptions: Sequence[Subscription]) -> DataFrame:
    """Judge entries.

    Args:
        entries: With `data`, which is dropped, `open`, and `reference`, a result for each subscription.
        subscriptions: The subscriptions, in order.

    Returns:
        One row for each entry and subscription: `name`, `has_want` and `has_filter` of the subscription; `passes`, whether the header
        lets the
        entry pass; `fits`, which messages fit the filter (null: nobody can tell); `outside`, whether readers read one of them
        differently, and `doubtful`, whether that may be;
        `reference`; and `columns`, what the subscription gets.
    """
    names = sorted({want.name for one in subscriptions for want in one.wants})
    fields = asked_fields(subscriptions, "avro")

    def read(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return read_batches(pieces, names, fields)

    kept = [column for column in entries.schema if column.name != "data"]
    ddl = ", ".join(f"`{column.name}` {column.dataType.simpleString()}" for column in kept)
    rows = entries.mapInArrow(read, f"{ddl}, bytes INT, {_READ_DDL}")
    asked = [
        sql.struct(
            sql.lit(one.name).alias("name"),
            sql.lit(one.want is not None).alias("has_want"),
            sql.lit(one.filter is not None).alias("has_filter"),
            _by_header(one, names).alias("passes"),
            sql.when(sql.col("payloads").isNotNull(), _fits(one, fields)).alias("fits"),
            _outside(one).alias("outside"),
            _doubtful(one).alias("doubtful"),
            sql.col("reference")[place].alias("reference"),
        )
        for place, one in enumerate(subscriptions)
    ]
    left_out = {"reference", "payloads", "records", "values"}
    return rows.select(*(name for name in rows.columns if name not in left_out), sql.inline(sql.array(*asked))).withColumn(
        "columns", _judged()
    )


def read_batches(pieces: Iterable[pa.RecordBatch], names: Sequence[str], fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read pieces.

    Args:
        pieces: Entries.
        names: Properties of headers that are asked for.
        fields: Fields of Avro records that are asked for.
    """
    for piece in pieces:
        data = piece["data"].to_pylist()
        read = [_read(one, names) for one in data]
        columns = [pa.array([row[place] for row in read], READ.field(place).type) for place in range(4)]
        counts = [None if payloads is None else len(payloads) for *_, payloads in read]
        flat = pa.array([payload for *_, payloads in read for payload in payloads or ()], pa.binary())
        offsets = _offsets(counts)
        records = _records(flat, fields)
        columns += [pa.ListArray.from_arrays(offsets, values) for values in (flat, records)]
        kept = [name for name in piece.schema.names if name != "data"]
        sizes = pa.array([len(one) for one in data], pa.int32())
        yield pa.RecordBatch.from_arrays([*(piece[name] for name in kept), sizes, *columns], names=[*kept, "bytes", *READ.names])


def _records(payloads: pa.Array, fields: Sequence[str]) -> pa.Array:
    """Return the fields of each payload; null of those that are disputed."""
    if not fields or not len(payloads):
        return pa.array([()] * len(payloads), pa.list_(pa.string()))
    found, disputed = texts(payloads, RECORD, fields)
    rows = zip(*(found[name].to_pylist() for name in fields), strict=True)
    return pa.array([None if wrong else row for row, wrong in zip(rows, disputed.tolist(), strict=True)], pa.list_(pa.string()))


def _offsets(counts: Sequence[int | None]) -> pa.Array:
    """Return where lists begin; a list that is null has no place."""
    offsets, at = [], 0
    for count in counts:
        offsets.append(None if count is None else at)
        at += count or 0
    return pa.array([*offsets, at], pa.int32())


def _read(data: bytes, names: Sequence[str]) -> tuple[Any, ...]:
    try:
        metadata, body = _header(data)
    except Unreadable:
        return False, False, None, None, None
    values = {pair.key: pair.value for pair in metadata.properties}
    count = metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else None
    start = True, metadata.HasField("marker_type"), count, [values.get(name) for name in names]
    if metadata.encryption_keys or metadata.num_chunks_from_msg > 1:
        return *start, None
    try:
        if metadata.compression and metadata.uncompressed_size > MAX_SIZE:
            return *start, None
        return *start, [payload for _, payload in read_messages(metadata, decompressed(metadata, body))]
    except Unreadable:
        return *start, None


def _header(data: bytes) -> tuple[MessageMetadata, bytes]:
    """Read the header of an entry, whatever its checksum."""
    place = 6 + int.from_bytes(data[2:6], "big") if data[:2] == _BROKER_ENTRY else 0
    place += 6 if data[place : place + 2] == _CHECKSUM else 0
    if len(data) < place + 4:
        raise Unreadable("the header is cut")
    size = int.from_bytes(data[place : place + 4], "big")
    return header_of(data[place + 4 : place + 4 + size], size), data[place + 4 + size :]


def _fits(one: Subscription, fields: Sequence[str]) -> Column:
    """Return which messages fit the filter of a subscription, in their order."""
    payloads = sql.col("payloads")
    if one.regex is not None:
        pattern = regex_of(one.regex)
        return sql.transform(payloads, lambda payload: payload_text(payload).rlike(pattern))
    if one.prefix is not None:
        size, prefix = len(one.prefix), sql.lit(one.prefix)
        return sql.transform(payloads, lambda payload: sql.substring(payload, 1, size) == prefix)
    if one.fields and one.schema == "json":
        return sql.transform(payloads, lambda payload: _json_fits(payload, one))
    if one.fields:

        def record_fits(record: Column) -> Column:
            fitting = sql.lit(True)
            for name, text in one.fields.items():
                fitting &= sql.coalesce(sql.get(record, fields.index(name)) == text, sql.lit(False))
            return fitting

        return sql.transform("records", record_fits)
    return sql.transform(payloads, lambda _: sql.lit(True))


def _outside(one: Subscription) -> Column:
    """Tell whether one of the messages is outside of the dialect in which formulations can be compared."""
    if not one.fields:
        return sql.lit(False)
    found = sql.exists("payloads", json_outside) if one.schema == "json" else sql.exists("records", lambda record: record.isNull())
    return sql.coalesce(found, sql.lit(False))


def _doubtful(one: Subscription) -> Column:
    """Tell whether a message has what all that is outside has; it tells that without reading JSON or Avro.

    JSON is long, or has an escape or the mark of the end. Avro has eleven bytes in a row that could be one number, or a byte that could be
    that of branch -1 or -2.
    """
    text = sql.col("payloads")
    if one.schema == "json":
        found = sql.exists(text, lambda payload: payload.cast("string").rlike(rf"(?s)\\u|{END}|.{{400}}"))
    else:
        found = sql.exists(text, lambda payload: sql.hex(payload).rlike("^(?:..)*?(?:(?:[89A-F].){10}|[08][13])"))
    return _outside(one) & sql.coalesce(found, sql.lit(False))


def _json_fits(payload: Column, one: Subscription) -> Column:
    """Tell whether a JSON object has some texts; Spark does not look at what follows a value, so it gets a list with an end.

    What is outside is not parsed: a value that is nested deep would end Java.
    """
    text = payload.cast("string")
    ended = sql.concat(sql.lit("["), text, sql.lit(f',"{END}"]'))
    found = sql.when(may_be_json(payload) & ~json_outside(payload), sql.try_parse_json(ended))
    fitting = sql.coalesce(sql.try_variant_get(found, "$[1]", "string") == END, sql.lit(False))
    for name, value in one.fields.items():
        path = f"$[0]['{name}']"
        is_text = sql.schema_of_variant(sql.try_variant_get(found, path, "variant")) == "STRING"
        fitting &= sql.coalesce(is_text & (sql.try_variant_get(found, path, "string") == value), sql.lit(False))
    return fitting


def _by_header(one: Subscription, names: Sequence[str]) -> Column:
    """Tell whether the header lets an entry pass."""
    passes = sql.lit(True)
    for want in one.wants:
        value = sql.col("values")[names.index(want.name)]
        passes &= sql.coalesce(value.isin(*want.values), sql.lit(want.missing == "accept"))
    return ~sql.col("readable") | passes if one.wants else passes


def _judged() -> Column:
    opened, passes, fits = sql.col("open"), sql.col("passes"), sql.col("fits")
    messages = sql.coalesce(sql.col("count"), sql.lit(1))
    asked = passes & sql.col("has_filter") & ~sql.col("marker")
    decided = asked & fits.isNotNull()
    numbers = sql.transform(fits, lambda _, index: index)
    indexes = sql.when(opened.isNull(), numbers).otherwise(sql.filter(numbers, lambda index: sql.array_contains(opened, index)))
    fitting = sql.filter(indexes, lambda index: sql.get(fits, index))
    accepted, all_open = sql.size(fitting), sql.size(indexes)
    goes_out = passes & (~decided | (accepted > 0))
    left = sql.when(decided & (accepted < all_open), fitting).otherwise(opened)
    all_undecidable = sql.when(opened.isNull(), sql.greatest(messages, sql.lit(1))).otherwise(sql.size(opened))
    undecidable = sql.when(sql.col("readable"), all_undecidable).otherwise(1)
    return sql.struct(
        goes_out.alias("goes_out"),
        sql.when(goes_out & left.isNotNull(), ack_set(left)).alias("ack_set"),
        sql.when(~goes_out, 0).when(left.isNull(), messages).otherwise(sql.size(left)).alias("permits"),
        sql.when(decided, accepted).otherwise(0).alias("accepted"),
        sql.when(decided, all_open - accepted).otherwise(0).alias("rejected"),
        sql.when(asked & ~decided, undecidable).otherwise(0).alias("undecidable"),
    )


def ack_set(indexes: Column) -> Column:
    """Return the words of 64 bits in which these indexes are set."""

    def word(number: Column) -> Column:
        bits = sql.filter(indexes, lambda index: sql.floor(index / 64) == number)
        shifted = sql.transform(bits, lambda index: sql.call_function("shiftleft", sql.lit(1).cast("long"), (index % 64).cast("int")))
        return sql.aggregate(shifted, sql.lit(0).cast("long"), lambda some, bit: some.bitwiseOR(bit))

    return sql.transform(sql.sequence(sql.lit(0), sql.floor(sql.array_max(indexes) / 64).cast("int")), word)
