"""Bytes and permits that filters save, by match rate, size of batches and number of values, with and without uniform batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from conformance.corpus.batching.contents import with_contents
from conformance.corpus.batching.sent import sent
from conformance.corpus.batching.settings import Setting, Want, frequent_values, wanted_values
from conformance.corpus.corpora import messages
from conformance.corpus.delivering.laws import Delivered, judge
from conformance.corpus.delivering.stored import plain, with_records
from conformance.corpus.delivering.subscriptions import Subscription

VALUES = (2, 16, 128)
"""Numbers of values of the property that are tried."""
BATCHES = (1, 10, 100, 1000)
"""Most messages of a batch that are tried."""
DELAY = 1000
"""Milliseconds that a batch waits at most."""


def savings(
    spark: SparkSession, rows: int, seed: int = 1, *, values: Sequence[int] = VALUES, batches: Sequence[int] = BATCHES
) -> tuple[Delivered, list[dict[str, Any]]]:
    """Try filters on corpora with different numbers of values, batches of different sizes, mixed and uniform.

    Args:
        spark: The session.
        rows: Messages of each corpus.
        seed: Seed of the corpora.
        values: Numbers of values.
        batches: Most messages of a batch.

    Returns:
        The laws; and for each corpus, size, kind of batch and subscription what is sent, as shares of what is sent without a filter.
    """
    corpora = {count: _corpus(spark, rows, seed, count) for count in values}
    frequent = {count: wanted_values(frequent_values(corpus, ["region"], count)["region"]) for count, corpus in corpora.items()}
    often = frequent[values[0]][0]  # the values of few are those of many, too
    rarest = {count: some[-1] for count, some in frequent.items()}
    entries = [
        _named(sent(corpora[count], setting), f"{count} {most} {setting.name}")
        for count, most in product(values, batches)
        for setting in _settings(frequent[count], most)
    ]
    asked = [Subscription("often", prefix=f"{often};".encode()), Subscription("often, by the header", want=Want("region", often))]
    for count in values:
        rare = rarest[count]
        asked.append(Subscription(f"rare {count}", prefix=f"{rare};".encode()))
        asked.append(Subscription(f"rare {count}, by the header", want=Want("region", rare)))
    found = judge(plain(reduce(DataFrame.unionAll, entries)), asked, by="topic")
    for corpus in corpora.values():
        corpus.unpersist()
    return found, list(_told(found))


def _corpus(spark: SparkSession, rows: int, seed: int, values: int) -> DataFrame:
    drawn = {"producers": 1, "topics": 1, "values": values, "absent": 0, "burst": 16, "payload_median": 100, "rare": 0}
    return with_records(with_contents(messages(spark, "synthetic", rows, seed, **drawn)), forms=("text",)).persist()


def _settings(values: Sequence[str], most: int) -> list[Setting]:
    return [Setting("mixed", max_messages=most, delay=DELAY), Setting("uniform", {"region": tuple(values)}, max_messages=most, delay=DELAY)]


def _named(entries: DataFrame, name: str) -> DataFrame:
    return entries.withColumn("topic", sql.lit(name))


def _told(found: Delivered) -> Iterator[dict[str, Any]]:
    for (topic, name), one in sorted(found.counters.items()):
        count, most, kind = topic.split()
        if name.startswith("rare ") and name.split(",")[0] != f"rare {count}":
            continue
        fit = found.counters[topic, name.partition(",")[0]]["fit"]  # the messages that are wanted, by whichever filter
        yield {
            "values": int(count),
            "batch": int(most),
            "batches": kind,
            "filter": "header" if name.endswith("by the header") else "message",
            "wanted": name.split()[0].rstrip(","),
            "messages_per_entry": round(one["messages"] / one["entries"], 2),
            "match_rate": round(fit / one["messages"], 4),
            "bytes_sent": round(one["bytes sent"] / one["bytes"], 4),
            "permits": round(one["permits"] / one["messages"], 4),
            "entries_in_part": round(one["in part"] / one["entries"], 4),
        }
