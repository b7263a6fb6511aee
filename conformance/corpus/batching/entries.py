"""From messages with batches to entries: their size on the wire, why they were sent, and the verdicts of entry filters."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from conformance.corpus.batching.reference import ADDED
from conformance.corpus.batching.settings import Setting, Want
from conformance.corpus.batching.sizes import (
    BEFORE_METADATA,
    bytes_in_batch,
    key_bytes,
    number_bytes,
    properties_bytes,
    property_bytes,
    text_bytes,
)
from conformance.corpus.batching.windows import PRODUCER

_HIGHEST_SEQUENCE_ID_TAG = 2
_OF_REFERENCE = tuple(name for name in ADDED.names if name not in ("reference_batch", "reference_position", "reference_sent"))


def entries(messages: DataFrame, setting: Setting, wants: Sequence[Want] = ()) -> DataFrame:
    """Group the messages of each batch.

    Args:
        messages: From `with_batches`. If `with_reference_batches` was there too, the two are compared.
        setting: The producer's.
        wants: Consumers.

    Returns:
        One row for each batch: `topic`, `producer_name`, `batch`, `first` and `last` sequence_id, `first_time` and `last_time`, `messages`,
        `size` (as producers estimate it), `header` ARRAY<STRING> (null: written as without the proposal), `is_batch`,
        `header_octets` of the extracted set, `entry_octets`, `overhead_octets` (of these, what stands before the messages), `reason` (a
        name of `Reason`); for consumer K `wanted_K` (messages), `decided_K` (whether the header has the property) and `accepted_K`;
        with the reference its columns, `differing` (messages that it has elsewhere), `reordered` and `unlike_header`.
    """
    grouped = _grouped(messages, wants)
    one, end = sql.col("one"), sql.col("end")
    alone_as_java = (sql.col("messages") == 1) & sql.lit(setting.batch_of_one == "java_single")
    header = sql.when(sql.lit(bool(setting.allowed)) & ~alone_as_java, one["extracted"])
    rows = grouped.withColumn("header", header).withColumns(
        {
            "is_batch": sql.col("header").isNotNull() | (sql.col("messages") > 1),
            "header_octets": _header_bytes(setting),
            "first_time": one["time"],
            "last_time": end["time"],
            "reason": _reason(setting),
        }
    )
    body = sql.when(sql.col("is_batch"), sql.col("body_octets")).otherwise(sql.col("payload_octets"))
    rows = rows.withColumn("overhead_octets", _overhead(body))
    rows = rows.withColumn("entry_octets", sql.col("overhead_octets") + body)
    for number, want in enumerate(wants):
        rows = _with_verdict(rows, setting, want, number)
    return rows.drop("one", "end", "body_octets", "payload_octets")


def _grouped(messages: DataFrame, wants: Sequence[Want]) -> DataFrame:
    place = sql.col("position")
    columns = ("properties", "key", "payload_size", "sequence_id")
    kept = ["properties", "key", "time", "extracted"]
    compared: list[Column] = []
    if "reference_batch" in messages.columns:
        here, there = sql.struct("batch", "position"), sql.struct("reference_batch", "reference_position")
        kept += _OF_REFERENCE
        compared = [
            sql.count_if(~here.eqNullSafe(there)).alias("differing"),
            sql.count_if(~sql.col("number").eqNullSafe(sql.col("reference_sent"))).alias("reordered"),
            sql.count_if(~sql.col("extracted").eqNullSafe(sql.col("reference_header"))).alias("unlike_header"),
        ]
    grouped = messages.groupBy(*PRODUCER, "batch").agg(
        sql.count("*").alias("messages"),
        sql.min("sequence_id").alias("first"),
        sql.max("sequence_id").alias("last"),
        sql.sum("size").alias("size"),
        sql.sum(bytes_in_batch(*map(sql.col, columns))).alias("body_octets"),
        sql.sum("payload_size").alias("payload_octets"),
        sql.min_by(sql.struct(*kept), place).alias("one"),
        sql.max_by(sql.struct("time", "next_time", "next_extracted"), place).alias("end"),
        *(
            sql.count_if(_property(sql.col("properties"), want.name) == want.value).alias(f"wanted_{number}")
            for number, want in enumerate(wants)
        ),
        *compared,
    )
    return grouped.select("*", *(sql.col("one")[name].alias(name) for name in _OF_REFERENCE if compared))


def _property(properties: Column, name: str) -> Column:
    return sql.try_element_at(properties, sql.lit(name))


def _header_value(setting: Setting, name: str) -> Column:
    """Return the value of a property in the header of a batch; null without one."""
    names = list(setting.rule)
    return sql.col("header")[names.index(name)] if name in names else sql.lit(None).cast("string")


def _header_bytes(setting: Setting) -> Column:
    total: Column = sql.lit(0)
    for name in setting.rule:
        value = _header_value(setting, name)
        total += sql.when(value.isNull(), 0).otherwise(property_bytes(sql.lit(name), value))
    return total


def _reason(setting: Setting) -> Column:
    one, end = sql.col("one"), sql.col("end")
    return (
        sql.when(sql.col("messages") >= setting.max_messages, "MESSAGES")
        .when(sql.col("size") >= setting.max_bytes, "OCTETS")
        .when(end["next_time"].isNull(), "FLUSH")
        .when(end["next_time"] >= one["time"] + setting.delay, "DELAY")
        .when(end["next_extracted"] != one["extracted"], "OTHER_SET")
        .otherwise("OCTETS")
    )


def _overhead(body: Column) -> Column:
    one = sql.col("one")
    in_any = (
        sql.lit(BEFORE_METADATA)
        + text_bytes(sql.octet_length("producer_name"))
        + number_bytes(sql.col("first"))
        + number_bytes(one["time"])
        + key_bytes(one["key"])
        + number_bytes(body)
    )
    in_batch = sql.col("header_octets") + number_bytes(sql.col("messages")) + number_bytes(sql.col("last"), tag=_HIGHEST_SEQUENCE_ID_TAG)
    return in_any + sql.when(sql.col("is_batch"), in_batch).otherwise(properties_bytes(one["properties"]))


def _with_verdict(rows: DataFrame, setting: Setting, want: Want, number: int) -> DataFrame:
    value = sql.when(sql.col("is_batch"), _header_value(setting, want.name)).otherwise(_property(sql.col("one")["properties"], want.name))
    return rows.withColumns(
        {
            f"decided_{number}": value.isNotNull(),
            f"accepted_{number}": sql.coalesce(value == want.value, sql.lit(want.missing == "accept")),
        }
    )
