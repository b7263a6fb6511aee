"""From messages to entries, by both formulations: what was sent beside what was opened, message by message and entry by entry.

The columns of the windows and what was opened of the reference's entries meet by `sequence_id`, not by place, so that a message that is
elsewhere is still compared. Contents meet as digests (xxhash64) and sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from conformance.corpus.batching.opened import opened
from conformance.corpus.batching.sent import sent
from conformance.corpus.batching.settings import Setting, Want
from conformance.corpus.batching.sizes import (
    BEFORE_METADATA,
    bytes_in_batch,
    event_time_bytes,
    key_bytes,
    number_bytes,
    properties_bytes,
    property_bytes,
    text_bytes,
)
from conformance.corpus.batching.windows import PRODUCER, with_batches

_HIGHEST_SEQUENCE_ID_TAG = 2
_CONSUMERS = "array<struct<wanted: bigint, decided: boolean, accepted: boolean, reference: boolean, safe: boolean>>"
_OF_ENTRY = (
    *("batch", "parts", "reason", "accepted", "name", "time", "first", "last", "count", "header_key", "compression"),
    *("before_body", "body", "said", "wire", "problem"),
)


def both(messages: DataFrame, setting: Setting, wants: Sequence[Want] = ()) -> DataFrame:
    """Batch messages by windows, let the reference send them, open what it sent, and bring both together.

    Args:
        messages: With the columns of `messages` and `event_time`.
        setting: The producers'.
        wants: Consumers.

    Returns:
        From `compared`.
    """
    return compared(planned(messages, setting, wants), digested(opened(sent(messages, setting, wants), by_key=setting.by_key)))


def planned(messages: DataFrame, setting: Setting, wants: Sequence[Want] = ()) -> DataFrame:
    """Return what windows say of each message, and the digests of what it contains.

    Returns:
        The columns of the producer, `sequence_id` and a struct `plan`: the columns that `with_batches` adds, with `key`, `event_time`,
        `payload_size`; `content`, `properties` and `set` (the extracted one), which are digests; `own_bytes` and `properties_bytes`, its
        size in a batch and that of its
        properties; `values`, of the properties that consumers look at.
    """
    sized = bytes_in_batch(*map(sql.col, ("properties", "key", "payload_size", "sequence_id", "event_time")))
    values = sql.array(*(_property(sql.col("properties"), want.name) for want in wants)).cast("array<string>")
    before = messages.select(
        *(*PRODUCER, "sequence_id", "publish_time", "event_time", "key", "properties", "payload_size"),
        sql.xxhash64("payload").alias("content"),
        sql.xxhash64(sql.map_entries("properties")).alias("digest"),
        sized.alias("own_bytes"),
        properties_bytes(sql.col("properties")).alias("properties_bytes"),
        values.alias("values"),
    )
    plan = sql.struct(
        *("batch", "position", "number", "extracted", "time", "size", "alone", "next_time", "next_extracted", "next_alone"),
        *("key", "event_time", "payload_size", "content"),
        sql.col("digest").alias("properties"),
        sql.xxhash64(_set(setting)).alias("set"),
        *("own_bytes", "properties_bytes", "values"),
    )
    rows = with_batches(before, setting)
    return rows.select(*PRODUCER, "sequence_id", plan.alias("plan"))


def _set(setting: Setting) -> Column:
    """Return the extracted set as pairs."""
    pairs = (sql.struct(sql.lit(name).alias("key"), sql.col("extracted")[place].alias("value")) for place, name in enumerate(setting.rule))
    return sql.filter(sql.array(*pairs), lambda pair: pair["value"].isNotNull()) if setting.rule else sql.array()


def digested(found: DataFrame) -> DataFrame:
    """Return what was opened, one row for each message, as `planned`: a struct `found`.

    Of an entry that can't be opened there is one row without `sequence_id`.
    """
    rows = found.select(
        *PRODUCER,
        sql.struct(*_OF_ENTRY).alias("entry"),
        sql.xxhash64("header").alias("header"),
        sql.size("messages").alias("held"),
        sql.explode_outer("messages").alias("m"),
    )
    own = sql.col("m")
    contents = sql.struct(
        *(sql.col("entry")[name].alias(name) for name in _OF_ENTRY),
        "header",
        "held",
        own["position"].alias("position"),
        own["after"].alias("after"),
        own["key"].alias("key"),
        own["event_time"].alias("event_time"),
        sql.octet_length(own["payload"]).alias("payload_size"),
        sql.xxhash64(own["payload"]).alias("content"),
        sql.xxhash64(own["properties"]).alias("properties"),
        own["others"].alias("others"),
    )
    return rows.select(*PRODUCER, own["sequence_id"].alias("sequence_id"), contents.alias("found"))


def compared(plans: DataFrame, contents: DataFrame) -> DataFrame:
    """Bring both together.

    Returns:
        One row for each message of a producer that was planned or opened: `plan` and `found`, null if it was not; `times`, how often it
        was opened.
    """
    no_plan, no_content = (
        sql.lit(None).cast(frame.schema[name].dataType).alias(name) for frame, name in ((plans, "plan"), (contents, "found"))
    )
    rows = plans.select("*", no_content).unionByName(contents.select("*", no_plan))
    return rows.groupBy(*PRODUCER, "sequence_id").agg(
        sql.any_value("plan", sql.lit(True)).alias("plan"),
        sql.any_value("found", sql.lit(True)).alias("found"),
        sql.count("found").alias("times"),
    )


def entries(messages: DataFrame, setting: Setting, wants: Sequence[Want] = (), sums: Sequence[Column] = ()) -> DataFrame:
    """Group the messages of each batch of the windows.

    Args:
        messages: From `compared`; `found` may be null throughout.
        setting: The producer's.
        wants: Consumers.
        sums: Columns of messages that are summed up by entry; each has a name.

    Returns:
        One row for each batch: `topic`, `producer_name`, `batch` (null: messages that were not planned), `first` and `last` sequence_id,
        `first_time` and `last_time`, `messages`, `size` (as producers estimate it), `header` ARRAY<STRING> (null: written as without the
        proposal), `is_batch`, `header_bytes` of the extracted set, `entry_bytes`, `overhead_bytes` (of these, what stands before the
        messages),
        `reason` (a name of `Reason`; null: by key); `found`, what was opened of the first message; `elsewhere`, how many messages are not
        at the same place there;
        `consumers`, a struct for each: `wanted` (messages), `decided` (whether the header has the property), `accepted`, `reference`
        (whether
        the reference's filter accepts it) and `safe` (whether the filter must not lose messages); `setting`, a struct of numbers.
    """
    rows = _grouped(messages, wants, sums)
    one, end = sql.col("one"), sql.col("end")
    alone_as_java = (sql.col("messages") == 1) & sql.lit(setting.batch_of_one == "java_single")
    header = sql.when(sql.lit(bool(setting.allowed)) & ~alone_as_java & ~one["alone"], one["extracted"])
    rows = rows.withColumn("header", header).withColumns(
        {
            "is_batch": sql.col("header").isNotNull() | (sql.col("messages") > 1),
            "header_bytes": _header_bytes(setting),
            "first_time": one["time"],
            "last_time": end["time"],
            "reason": sql.lit(None).cast("string") if setting.by_key else _reason(setting),
            "key": one["key"],
        }
    )
    body = sql.when(sql.col("is_batch"), sql.col("body_bytes")).otherwise(sql.col("payload_bytes"))
    rows = rows.withColumn("overhead_bytes", _overhead(setting, body))
    rows = rows.withColumn("entry_bytes", sql.col("overhead_bytes") + body)
    consumers = sql.array(*(_consumer(setting, want, number) for number, want in enumerate(wants))).cast(_CONSUMERS)
    numbers = sql.struct(*(sql.lit(getattr(setting, name)).alias(name) for name in ("max_messages", "max_bytes", "delay", "by_key")))
    rows = rows.withColumns({"consumers": consumers, "setting": numbers})
    return rows.drop("one", "end", "body_bytes", "payload_bytes", *(f"wanted_{number}" for number, _ in enumerate(wants)))


def _grouped(messages: DataFrame, wants: Sequence[Want], sums: Sequence[Column]) -> DataFrame:
    plan, found = sql.col("plan"), sql.col("found")
    here, there = (sql.struct(one["batch"], one["position"]) for one in (plan, found))
    place = sql.coalesce(plan["position"], sql.lit(0))
    return messages.groupBy(*PRODUCER, plan["batch"].alias("batch")).agg(
        sql.count("plan").alias("messages"),
        sql.min("sequence_id").alias("first"),
        sql.max("sequence_id").alias("last"),
        sql.sum(plan["size"]).alias("size"),
        sql.sum(plan["own_bytes"]).alias("body_bytes"),
        sql.sum(plan["payload_size"]).alias("payload_bytes"),
        sql.min_by("plan", place).alias("one"),
        sql.max_by("plan", place).alias("end"),
        sql.min_by("found", place).alias("found"),
        sql.count_if((sql.col("times") != 1) | ~here.eqNullSafe(there)).alias("elsewhere"),
        *(sql.count_if(plan["values"][number].isin(*want.values)).alias(f"wanted_{number}") for number, want in enumerate(wants)),
        *sums,
    )


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
        sql.when(one["alone"], "UNBATCHABLE")
        .when(sql.col("messages") >= setting.max_messages, "MESSAGES")
        .when(sql.col("size") >= setting.max_bytes, "OCTETS")
        .when(end["next_time"].isNull(), "FLUSH")
        .when(end["next_time"] >= one["time"] + setting.delay, "DELAY")
        .when(end["next_alone"], "UNBATCHABLE")
        .when(end["next_extracted"] != one["extracted"], "OTHER_SET")
        .otherwise("OCTETS")
    )


def _overhead(setting: Setting, body: Column) -> Column:
    one = sql.col("one")
    compression = sql.element_at(
        sql.array(*map(sql.lit, setting.compressions)), (sql.col("batch") % len(setting.compressions) + 1).cast("int")
    )
    in_any = (
        sql.lit(BEFORE_METADATA)
        + text_bytes(sql.octet_length("producer_name"))
        + number_bytes(sql.col("first"))
        + number_bytes(one["time"])
        + key_bytes(one["key"])
        + number_bytes(body)
        + sql.when(compression == 0, 0).otherwise(number_bytes(compression))
    )
    in_batch = sql.col("header_bytes") + number_bytes(sql.col("messages")) + number_bytes(sql.col("last"), tag=_HIGHEST_SEQUENCE_ID_TAG)
    in_single = one["properties_bytes"] + event_time_bytes(one["event_time"])
    return in_any + sql.when(sql.col("is_batch"), in_batch).otherwise(in_single)


def _consumer(setting: Setting, want: Want, number: int) -> Column:
    value = sql.when(sql.col("is_batch"), _header_value(setting, want.name)).otherwise(sql.col("one")["values"][number])
    return sql.struct(
        sql.col(f"wanted_{number}").alias("wanted"),
        value.isNotNull().alias("decided"),
        sql.coalesce(value.isin(*want.values), sql.lit(want.missing == "accept")).alias("accepted"),
        sql.get(sql.col("found")["accepted"], number).alias("reference"),
        sql.lit(want.is_safe(setting)).alias("safe"),
    )
