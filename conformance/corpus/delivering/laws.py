"""The laws of filters over entries: both formulations agree, and each message goes just to those whose filter it fits.

They speak of entries in which all readers read the same; the others are counted as `outside`, of which one law speaks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from conformance.corpus.delivering.columns import with_columns
from conformance.corpus.delivering.reference import with_reference
from conformance.corpus.delivering.subscriptions import Subscription
from conformance.corpus.laws import EXAMPLES, Law, Outcome, breaking, outcomes, sums

_SENT = "reference.goes_out AND columns.goes_out"
_JUDGED = "fits IS NOT NULL AND passes AND NOT marker"
_OF_ALL: tuple[Law, ...] = (
    Law(
        "goes-out", "Both say of each entry whether it goes out or is acknowledged.", "true", "NOT reference.goes_out <=> columns.goes_out"
    ),
    Law("ack-set", "An entry that goes out names the same open messages.", _SENT, f"{_SENT} AND NOT reference.ack_set <=> columns.ack_set"),
    Law("permits", "An entry that goes out uses the same permits; another one none.", "true", "NOT reference.permits <=> columns.permits"),
    Law(
        "counts",
        "As many messages fit, do not fit, and can't be judged.",
        "true",
        "struct(reference.accepted, reference.rejected, reference.undecidable)"
        " != struct(columns.accepted, columns.rejected, columns.undecidable)",
    ),
    Law(
        "complete",
        "Every open message that fits the filter is delivered.",
        f"IF({_JUDGED}, size(array_intersect(fitting, is_open)), 0)",
        f"IF({_JUDGED}, size(array_except(array_intersect(fitting, is_open), delivered)), 0)",
    ),
    Law(
        "exact",
        "No message is delivered that does not fit the filter, or was acknowledged.",
        f"IF({_JUDGED}, size(delivered), 0)",
        f"IF({_JUDGED}, size(array_except(delivered, array_intersect(fitting, is_open))), 0)",
    ),
    Law(
        "undecidable",
        "What can't be decided goes out, with the messages that are open.",
        "kind != 'plain' AND NOT has_want",
        "kind != 'plain' AND NOT has_want AND NOT (reference.goes_out AND reference.rejected = 0 AND delivered <=> is_open)",
    ),
)
OUTSIDE = Law("outside", "What is not compared has something that readers may read differently.", "outside", "outside AND NOT doubtful")
LAWS: tuple[Law, ...] = (
    *(
        Law(one.name, one.text, f"IF(outside, 0, CAST(({one.checked}) AS INT))", f"IF(outside, 0, CAST(({one.broken}) AS INT))")
        for one in _OF_ALL
    ),
    OUTSIDE,
)

COUNTED = ("entries", "messages", "bytes", "fit", "entries sent", "in part", "bytes sent", "permits", "undecidable", "outside")
"""What there is, the messages that fit the filters, what the reference sends, and the entries that can't be compared."""


@dataclass(frozen=True)
class Delivered:
    """What came out.

    Attributes:
        outcomes: Of the laws.
        counters: For each subscription, `COUNTED`.
    """

    outcomes: Sequence[Outcome]
    counters: Mapping[tuple[str, ...], Mapping[str, int]]

    def __add__(self, other: Delivered) -> Delivered:
        """Add what came out of other entries, for the same subscriptions."""
        outcomes = [one + two for one, two in zip(self.outcomes, other.outcomes, strict=True)]
        keys = dict.fromkeys([*self.counters, *other.counters])
        sums = {
            key: {name: self.counters.get(key, {}).get(name, 0) + other.counters.get(key, {}).get(name, 0) for name in COUNTED}
            for key in keys
        }
        return Delivered(outcomes, sums)


def delivered(entries: DataFrame, subscriptions: Sequence[Subscription]) -> DataFrame:
    """Judge entries in both formulations.

    Args:
        entries: From `stored`.
        subscriptions: The subscriptions.

    Returns:
        One row for each entry and subscription, as from `with_columns`, with numbers of messages: `fitting`, that fit the filter;
        `is_open`, that are not acknowledged; `delivered`, that the reference delivers.
    """
    return with_numbers(with_columns(with_reference(entries, subscriptions), subscriptions))


def with_numbers(rows: DataFrame) -> DataFrame:
    """Add `fitting`, `is_open` and `delivered`."""
    sent, count = sql.col("reference"), sql.greatest(sql.coalesce(sql.col("count"), sql.lit(1)), sql.lit(0))
    numbers = sql.transform(sql.array_repeat(sql.lit(0), count), lambda _, place: place)
    rows = rows.withColumn("is_open", sql.coalesce("open", numbers))
    places = sql.transform("fits", lambda fits, place: sql.when(fits, place).otherwise(-1))
    of_bits = sql.filter(numbers, lambda index: _is_set(sent["ack_set"], index))
    nothing = sql.array().cast("array<int>")
    return rows.withColumns(
        {
            "fitting": sql.array_remove(places, -1),
            "delivered": sql.when(~sent["goes_out"], nothing).when(sent["ack_set"].isNull(), numbers).otherwise(of_bits),
        }
    )


def _is_set(words: Any, index: Any) -> Any:
    word = sql.get(words, sql.floor(index / 64).cast("int"))
    return sql.coalesce(sql.call_function("shiftright", word, (index % 64).cast("int")).bitwiseAND(1) == 1, sql.lit(False))


def judge(entries: DataFrame, subscriptions: Sequence[Subscription], by: str = "") -> Delivered:
    """Check the laws and sum up, in one pass unless a law is broken.

    Args:
        entries: From `stored`.
        subscriptions: The subscriptions.
        by: A column by whose values counters are told apart; empty: none.
    """
    rows = delivered(entries, subscriptions)
    keys = [by, "name"] if by else ["name"]
    found = [row.asDict() for row in rows.groupBy(*keys).agg(*counters(), *sums(LAWS)).collect()]
    total: defaultdict[str, int] = defaultdict(int)
    for row in found:
        for name in row.keys() - {*keys}:
            total[name] += int(row[name] or 0)
    examples = {law.name: _examples(rows, law) for law in LAWS if total[f"broken {law.name}"]}
    order = [one.name for one in subscriptions]
    found.sort(key=lambda row: order.index(row["name"]))
    shown = {tuple(row[key] for key in keys): {name: int(row[name] or 0) for name in COUNTED} for row in found}
    return Delivered(outcomes(LAWS, total, examples), shown)


def counters() -> list[Any]:
    """Return sums: what there is, and what the reference sends."""
    sent = sql.col("reference")
    return [
        sql.count("*").alias("entries"),
        sql.sum(sql.size("is_open")).alias("messages"),
        sql.sum("bytes").alias("bytes"),
        sql.sum(sql.when(sql.col("fits").isNotNull(), sql.size(sql.array_intersect("fitting", "is_open")))).alias("fit"),
        sql.count_if(sent["goes_out"]).alias("entries sent"),
        sql.count_if(sent["goes_out"] & (sent["rejected"] > 0)).alias("in part"),
        sql.sum(sql.when(sent["goes_out"], sql.col("bytes"))).alias("bytes sent"),
        sql.sum(sent["permits"]).alias("permits"),
        sql.sum(sent["undecidable"]).alias("undecidable"),
        sql.count_if("outside").alias("outside"),
    ]


def _examples(rows: DataFrame, law: Law) -> list[dict[str, Any]]:
    columns = ("name", "topic", "producer_name", "batch", "part", "kind", "bytes", "reference", "columns")
    found = breaking(rows, law).sort("bytes", "topic", "producer_name", "batch", "part", "name").select(*columns).limit(EXAMPLES)
    return [row.asDict(recursive=True) for row in found.collect()]
