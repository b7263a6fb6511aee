"""Batches as window expressions.

1. Runs. Neighbours with equal extracted sets are a run: a comparison with the message before, and a running sum. A message that is too
   large for batches is a run of its own.
2. Next. If a batch began at message i of its run, the next one would begin at

       next(i) = min(i + max_messages, first j with time(j) >= time(i) + delay, first j that max_bytes leaves no room for, end of the run)

   Each term is a window: time and the sum of sizes before a message never decrease in a run, so the last message within reach is
   the maximum of the positions in a range frame that begins at the start of the run, which costs one step per message.
3. Stretches. `next` never decreases, so where next(i - 1) = i a batch begins at i, whatever the ones before: there a stretch begins.
   Most stretches are a single batch and done.
4. In the others batches begin at first, next(first), next(next(first)), ..: the only part that is sequential. Stretches are cut
   into pieces of 256 messages, and the values of `next` in each are collected (sorting puts them in order, since they never decrease). The
   function `aggregate` jumps through one piece after the other and notes where it enters each; then the pieces are gone through
   for all beginnings, each by itself.
5. A running sum over the beginnings numbers the batches.

What a task holds in memory is one stretch, a number for each of its messages that is not in the last batch; everything else is spilled
by Spark: a stretch of a million messages in batches of 7 passes with the usual memory. `aggregate` copies what it
accumulates at each step, hence the pieces: for n messages it costs 128 n + (n / 256)^2 / 2 copies.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as sql

from conformance.corpus.batching.settings import Setting
from conformance.corpus.batching.sizes import estimated_size

PRODUCER = ("topic", "producer_name")
_RUN = (*PRODUCER, "run")
_STRETCH = (*_RUN, "stretch")
_PIECE = 256


def extracted(setting: Setting) -> Column:
    """Return the extracted set of a message: for each name of the setting the value, or null if it is missing or not allowed."""
    return sql.array(*(_extracted_value(name, values) for name, values in setting.rule.items())).cast("array<string>")


def _extracted_value(name: str, values: frozenset[str]) -> Column:
    value = sql.try_element_at("properties", sql.lit(name))
    return sql.when(value.isin(sorted(values)), value) if values else sql.lit(None).cast("string")


def with_batches(messages: DataFrame, setting: Setting) -> DataFrame:
    """Number the batches that a producer with this setting makes.

    Args:
        messages: With the columns of `messages`; others are kept, except for those below and `run`, `stretch`, `place`.
            `properties` is not: rows are sorted many times, and it is what makes them long.
        setting: The producer's.

    Returns:
        The rows with, in addition: `extracted` ARRAY<STRING>, in the order of the setting; `time` LONG, the producer's clock in ms; `size`
        LONG, the bytes that it counts for; `alone` BOOLEAN, whether it is too large for batches; `number` LONG, from 0 in each producer;
        `batch` LONG, from 0 in each producer; `position` INT, from 0 in each batch; `next_time` LONG, `next_extracted` and `next_alone`,
        of the producer's next message, null for its last.
    """
    rows = _in_batches(messages, setting)
    return _by_key(rows) if setting.by_key else rows


def _in_batches(messages: DataFrame, setting: Setting) -> DataFrame:
    rows = _with_runs(messages, setting)
    pointers = _with_pointers(rows, setting)
    begins = _inner_begins(pointers).withColumn("inner", sql.lit(True))
    marked = pointers.join(begins, [*_RUN, "place"], "left")
    producer = _ordered(PRODUCER, "sequence_id")
    is_first = sql.col("border") | sql.coalesce(sql.col("inner"), sql.lit(False))
    numbered = marked.withColumns(
        {
            "batch": sql.sum(sql.when(is_first, 1).otherwise(0)).over(producer) - 1,
            "number": sql.row_number().over(producer).cast("long") - 1,
        }
    )
    position = sql.col("place") - sql.max(sql.when(is_first, sql.col("place"))).over(_ordered(_RUN, "place"))
    added = ("extracted", "time", "size", "alone", "number", "batch", "position", "next_time", "next_extracted", "next_alone")
    kept = (name for name in messages.columns if name != "properties")
    return numbered.withColumn("position", position.cast("int")).select(*kept, *added)


def _by_key(rows: DataFrame) -> DataFrame:
    """Divide each batch by the keys of its messages; the new ones are numbered by their first messages."""
    own = Window.partitionBy(*PRODUCER, "batch", "key")
    rows = rows.withColumns(
        {
            "begin": sql.min("number").over(own),
            "position": (sql.row_number().over(own.orderBy("sequence_id")) - 1).cast("int"),
        }
    )
    batch = sql.dense_rank().over(Window.partitionBy(*PRODUCER).orderBy("batch", "begin")).cast("long") - 1
    return rows.withColumn("batch", batch).drop("begin")


def _with_runs(messages: DataFrame, setting: Setting) -> DataFrame:
    producer = _ordered(PRODUCER, "sequence_id")
    by_themselves = {
        "extracted": extracted(setting),
        "size": estimated_size(sql.col("properties"), sql.col("key"), sql.col("payload_size")),
        "alone": sql.col("payload_size") > setting.chunk,
    }
    rows = messages.withColumns(by_themselves).drop("properties").withColumn("time", sql.max("publish_time").over(producer))
    before = sql.lag("extracted").over(producer)
    rows = rows.withColumns(
        {
            "other": before.isNull() | (before != sql.col("extracted")) | sql.col("alone") | sql.lag("alone").over(producer),
            "next_alone": sql.lead("alone").over(producer),
            "next_time": sql.lead("time").over(producer),
            "next_extracted": sql.lead("extracted").over(producer),
        }
    )
    return rows.withColumn("run", sql.sum(sql.when(sql.col("other"), 1).otherwise(0)).over(producer)).drop("other")


def _with_pointers(rows: DataFrame, setting: Setting) -> DataFrame:
    """Add the place in the run, from 1, where the next batch would begin, and the stretch."""
    run = _ordered(_RUN, "sequence_id")
    whole = Window.partitionBy(*_RUN)
    rows = rows.withColumns(
        {
            "place": sql.row_number().over(run).cast("long"),
            "before": sql.coalesce(sql.sum("size").over(run.rowsBetween(Window.unboundedPreceding, -1)), sql.lit(0).cast("long")),
            "end": sql.count("*").over(whole) + 1,
            "total": sql.sum("size").over(whole),
        }
    )
    first = Window.unboundedPreceding
    rows = rows.withColumns(
        {
            "late": sql.max("place").over(_ordered(_RUN, "time").rangeBetween(first, setting.delay - 1)) + 1,
            "full": sql.max("place").over(_ordered(_RUN, "before").rangeBetween(first, setting.max_bytes)),
        }
    )
    all_fit = sql.col("total") <= sql.col("before") + setting.max_bytes
    by_bytes = sql.when(all_fit, sql.col("end")).otherwise(sql.col("full"))
    after = sql.col("place") + 1
    by_delay = sql.coalesce(sql.col("late"), after)
    chosen = sql.least(sql.col("end"), sql.col("place") + setting.max_messages, sql.greatest(after, sql.least(by_delay, by_bytes)))
    rows = rows.withColumn("next", chosen)
    rows = rows.withColumn("border", sql.coalesce(sql.lag("next").over(run) <= sql.col("place"), sql.lit(True)))
    return rows.withColumn("stretch", sql.sum(sql.when(sql.col("border"), 1).otherwise(0)).over(run))


def _inner_begins(pointers: DataFrame) -> DataFrame:
    """Return the places where batches begin in stretches that have several."""
    stretch = Window.partitionBy(*_STRETCH)
    first, last = sql.min("place").over(stretch), sql.max("place").over(stretch)
    inside = pointers.select(*_STRETCH, "place", "next", first.alias("first"), last.alias("last")).where("next <= last")
    pieces = inside.withColumn("piece", sql.floor((sql.col("place") - sql.col("first")) / _PIECE)).groupBy(*_STRETCH, "first", "piece")
    collected = pieces.agg(sql.min("place").alias("begin"), sql.sort_array(sql.collect_list("next")).alias("nexts"))
    stretches = collected.groupBy(*_STRETCH, "first").agg(sql.sort_array(sql.collect_list(sql.struct("begin", "nexts"))).alias("pieces"))
    entered = stretches.select(*_RUN, sql.inline(sql.expr(_ENTERED)))  # never all pieces beside each entry, which would copy them
    return entered.select(*_RUN, sql.explode(sql.expr(_BEGINS)).alias("place"))


_NO_PLACES = "cast(array() AS array<bigint>)"
_ENTERED = f"""
    aggregate(
        pieces,
        named_struct('at', first, 'entries', {_NO_PLACES}),
        (acc, piece) -> CASE
            WHEN acc.at >= piece.begin + size(piece.nexts) THEN acc
            ELSE named_struct(
                'at', aggregate(
                    piece.nexts,
                    acc.at,
                    (at, _) -> CASE WHEN at < piece.begin + size(piece.nexts) THEN piece.nexts[cast(at - piece.begin AS int)] ELSE at END
                ),
                'entries', array_append(acc.entries, acc.at)
            )
        END,
        acc -> transform(
            array_append(acc.entries, acc.at),
            at -> named_struct('entry', at, 'piece', get(pieces, cast(floor((at - first) / {_PIECE}) AS int)))
        )
    )"""
"""Where batches begin first in each piece: what leaves a piece enters a later one, or is the beginning of the stretch's last batch."""

_BEGINS = f"""
    CASE
        WHEN piece IS NULL THEN array(entry)
        ELSE aggregate(
            piece.nexts,
            named_struct('at', entry, 'begins', array_append({_NO_PLACES}, entry)),
            (acc, _) -> CASE
                WHEN get(piece.nexts, cast(acc.at - piece.begin AS int)) < piece.begin + size(piece.nexts) THEN
                    named_struct(
                        'at', piece.nexts[cast(acc.at - piece.begin AS int)],
                        'begins', array_append(acc.begins, piece.nexts[cast(acc.at - piece.begin AS int)])
                    )
                ELSE acc
            END,
            acc -> acc.begins
        )
    END"""
"""All places of a piece where batches begin."""


def _ordered(parts: tuple[str, ...], column: str) -> WindowSpec:
    return Window.partitionBy(*parts).orderBy(column)
