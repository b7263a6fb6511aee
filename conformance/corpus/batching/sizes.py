"""The size of messages and entries on the wire, as SQL expressions over the columns of `messages`.

    field        1 byte of tag (2 from number 16 on), for a text or a message its length as varint, the value
    property     a field of a message with two texts, both written even if empty
    entry        [2 bytes magic][4 checksum][4 size][MessageMetadata][body]
    body         of a batch: for each message [4 size][SingleMessageMetadata][payload]; else the payload

`size` is something else: the estimate by which producers of the reference fill batches (`Queued.size`).
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sql

BEFORE_METADATA = 2 + 4 + 4
"""Bytes of an entry before its MessageMetadata: magic, checksum, size."""
_ESTIMATED_OVERHEAD = 16
_ESTIMATED_PER_PROPERTY = 6


def varint_bytes(number: Column) -> Column:
    """Return the bytes of a number from 0 to 2 ** 63 - 1 as varint."""
    return sql.floor((sql.char_length(sql.bin(number)) + 6) / 7)


def number_bytes(number: Column, *, tag: int = 1) -> Column:
    """Return the bytes of a field that is a number.

    Args:
        number: From 0 on.
        tag: Bytes of the tag.
    """
    return sql.lit(tag) + varint_bytes(number)


def text_bytes(length: Column) -> Column:
    """Return the bytes of a field that is a text or a message, by the bytes of its value."""
    return sql.lit(1) + varint_bytes(length) + length


def property_bytes(name: Column, value: Column) -> Column:
    """Return the bytes of a property in a header."""
    return text_bytes(text_bytes(sql.octet_length(name)) + text_bytes(sql.octet_length(value)))


def properties_bytes(properties: Column) -> Column:
    """Return the bytes of all properties of a message."""
    each = sql.transform(sql.map_entries(properties), lambda pair: property_bytes(pair["key"], pair["value"]).cast("long"))
    return sql.aggregate(each, sql.lit(0).cast("long"), lambda total, size: total + size)


def key_bytes(key: Column) -> Column:
    """Return the bytes of a message's key; 0 without one."""
    return sql.when(key.isNull(), 0).otherwise(text_bytes(sql.octet_length(key)))


def event_time_bytes(event_time: Column) -> Column:
    """Return the bytes of the time of an event; 0 without one."""
    return sql.when(event_time.isNull(), 0).otherwise(number_bytes(event_time))


def bytes_in_batch(properties: Column, key: Column, payload_size: Column, sequence_id: Column, event_time: Column) -> Column:
    """Return the bytes that a message adds to the body of a batch."""
    single = properties_bytes(properties) + key_bytes(key) + number_bytes(payload_size) + number_bytes(sequence_id)
    single += event_time_bytes(event_time)
    return sql.lit(4) + single + payload_size


def estimated_size(properties: Column, key: Column, payload_size: Column) -> Column:
    """Return the size of a message for filling a batch: `Queued.size`."""
    each = sql.transform(
        sql.map_entries(properties),
        lambda pair: (sql.char_length(pair["key"]) + sql.char_length(pair["value"]) + _ESTIMATED_PER_PROPERTY).cast("long"),
    )
    total = sql.aggregate(each, sql.lit(0).cast("long"), lambda total, size: total + size)
    return total + payload_size + sql.coalesce(sql.char_length(key), sql.lit(0)) + _ESTIMATED_OVERHEAD
