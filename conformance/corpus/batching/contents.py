"""The contents of messages, as batches need them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from conformance.corpus.batching.sent import READ


def with_contents(messages: DataFrame) -> DataFrame:
    """Return the columns that batches need; of a corpus that knows only the size of payloads, each is made of its sequence_id.

    Args:
        messages: With the columns of `messages`; `event_time` is null if there is none.
    """
    number = sql.hex(sql.col("sequence_id"))
    made = sql.substring(sql.repeat(number, (sql.col("payload_size") / sql.length(number) + 1).cast("int")), 1, sql.col("payload_size"))
    if "event_time" not in messages.columns:
        messages = messages.withColumn("event_time", sql.lit(None).cast("long"))
    rows = messages.withColumn("payload", sql.coalesce("payload", made.cast("binary")))
    return rows.select(*READ, sql.octet_length("payload").alias("payload_size"))
