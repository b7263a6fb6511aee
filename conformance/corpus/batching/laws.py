"""The laws of uniform batches, and their costs and savings on a corpus."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from conformance.corpus.batching.settings import Setting, Want
from conformance.corpus.batching.windows import PRODUCER
from refimpl.proposals.uniform_batches import Reason

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Where the classes begin in which entries are counted by their messages."""

_SUMS = ("header_octets", "overhead_octets", "entry_octets")
_CONSUMER = ("wanted", "entries_accepted", "entries_decided", "messages_accepted", "messages_in_vain", "messages_lost", "octets_accepted")


@dataclass(frozen=True)
class BatchLaw:
    """A law of the entries that `entries` gives for both formulations.

    Attributes:
        name: Its name.
        text: The law, as a sentence.
        checked: Number of things in an entry that it applies to.
        broken: How many of them break it.
    """

    name: str
    text: str
    checked: Callable[[Setting, Sequence[Want]], Column]
    broken: Callable[[Setting, Sequence[Want]], Column]


def _messages(_setting: Setting, _wants: Sequence[Want]) -> Column:
    return sql.col("messages")


def _an_entry(_setting: Setting, _wants: Sequence[Want]) -> Column:
    return sql.lit(1)


def _unlike_header(setting: Setting, _wants: Sequence[Want]) -> Column:
    without = sql.lit(not setting.allowed) | ((sql.col("messages") == 1) & sql.lit(setting.batch_of_one == "java_single"))
    there = sql.col("reference_header").isNotNull()
    return sql.when(without, sql.when(there, sql.col("messages")).otherwise(0)).otherwise(sql.col("unlike_header"))


def _wrong_bytes(_setting: Setting, _wants: Sequence[Want]) -> Column:
    encoded = sql.col("wire_entry_octets").isNotNull()
    here, there = sql.struct("entry_octets", "overhead_octets"), sql.struct("wire_entry_octets", "wire_header_octets")
    return _count((sql.col("header_octets") != sql.col("reference_header_octets")) | (encoded & (here != there)))


def _over_limits(setting: Setting, _wants: Sequence[Want]) -> Column:
    late = sql.col("last_time") >= sql.col("first_time") + setting.delay
    with_others = sql.col("messages") > 1
    gap = sql.col("last") - sql.col("first") + 1 != sql.col("messages")
    return _count((sql.col("messages") > setting.max_messages) | gap | (with_others & ((sql.col("size") > setting.max_bytes) | late)))


def _wrong_verdicts(_setting: Setting, wants: Sequence[Want]) -> Column:
    return _total(_count(sql.col(f"accepted_{number}") != sql.col("reference_accepted")[number]) for number, _ in enumerate(wants))


def _wanted_of_safe(setting: Setting, wants: Sequence[Want]) -> Column:
    return _total(sql.col(f"wanted_{number}") for number, want in enumerate(wants) if want.is_safe(setting))


def _lost(setting: Setting, wants: Sequence[Want]) -> Column:
    return _total(
        sql.when(sql.col(f"accepted_{number}"), 0).otherwise(sql.col(f"wanted_{number}"))
        for number, want in enumerate(wants)
        if want.is_safe(setting)
    )


def _decided(_setting: Setting, wants: Sequence[Want]) -> Column:
    return _total(_count(sql.col(f"decided_{number}")) for number, _ in enumerate(wants))


def _decided_wrongly(_setting: Setting, wants: Sequence[Want]) -> Column:
    right = (sql.when(sql.col(f"accepted_{number}"), sql.col("messages")).otherwise(0) for number, _ in enumerate(wants))
    return _total(_count(sql.col(f"decided_{number}") & (sql.col(f"wanted_{number}") != count)) for number, count in enumerate(right))


LAWS: tuple[BatchLaw, ...] = (
    BatchLaw(
        "formulations",
        "Windows and the reference's own batcher put each message into the same batch, at the same place.",
        _messages,
        lambda *_: sql.col("differing"),
    ),
    BatchLaw(
        "reasons",
        "A batch goes out for the same reason in both.",
        _an_entry,
        lambda *_: _count(~sql.col("reason").eqNullSafe(sql.col("reference_reason"))),
    ),
    BatchLaw("order", "Messages go out in the order in which their producer sent them.", _messages, lambda *_: sql.col("reordered")),
    BatchLaw("header", "The header of a batch is the extracted set of each of its messages.", _messages, _unlike_header),
    BatchLaw(
        "octets",
        "Entries and headers have the bytes that the formulas say; entries that were encoded were measured.",
        _an_entry,
        _wrong_bytes,
    ),
    BatchLaw(
        "limits",
        "A batch has consecutive messages, and keeps within all limits unless it has one message.",
        _an_entry,
        _over_limits,
    ),
    BatchLaw(
        "verdicts",
        "The reference's entry filter judges each entry as the SQL expression does.",
        lambda _, wants: sql.lit(len(wants)),
        _wrong_verdicts,
    ),
    BatchLaw(
        "never-lost",
        "An entry that a filter rejects has no message that is wanted, if what lacks the property passes or the value is extracted.",
        _wanted_of_safe,
        _lost,
    ),
    BatchLaw(
        "decided",
        "Where the header has the property, all messages of an accepted entry are wanted, and none of a rejected one.",
        _decided,
        _decided_wrongly,
    ),
)


@dataclass(frozen=True)
class Found:
    """What was found under one setting.

    Attributes:
        counters: What it costs and saves.
        checked: By law.
        broken: By law.
        examples: Entries that break a law, by law, smallest first.
    """

    counters: Mapping[str, Any]
    checked: Mapping[str, int]
    broken: Mapping[str, int]
    examples: Mapping[str, Sequence[Mapping[str, Any]]]


def find(rows: DataFrame, setting: Setting, wants: Sequence[Want], most_examples: int) -> Found:
    """Check the laws and sum up, in one pass unless a law is broken.

    Args:
        rows: From `entries`, with the reference's columns.
        setting: The producer's.
        wants: The consumers.
        most_examples: Number of entries that are kept for each broken law.
    """
    sums = {name: sql.sum(name) for name in _SUMS}
    sums |= {f"checked {law.name}": sql.sum(law.checked(setting, wants)) for law in LAWS}
    sums |= {f"broken {law.name}": sql.sum(law.broken(setting, wants)) for law in LAWS}
    sums |= {f"reason {reason.name}": sql.count_if(sql.col("reason") == reason.name) for reason in Reason}
    for number, _ in enumerate(wants):
        sums |= {f"{name} {number}": sql.sum(column) for name, column in _of_consumer(number).items()}
    listed = list(sums.items())
    # Sums by the number of messages, of which there are few, tell the distribution too.
    totals = rows.groupBy("messages").agg(
        sql.count("*").alias("entries"), *(column.alias(f"c{place}") for place, (_, column) in enumerate(listed))
    )
    found = [row.asDict() for row in totals.collect()]
    total = {name: sum(int(row[f"c{place}"] or 0) for row in found) for place, (name, _) in enumerate(listed)}
    broken = {law.name: total[f"broken {law.name}"] for law in LAWS}
    return Found(
        _counters({row["messages"]: row["entries"] for row in found}, total, wants),
        {law.name: total[f"checked {law.name}"] for law in LAWS},
        broken,
        {law.name: _examples(rows, law, setting, wants, most_examples) for law in LAWS if broken[law.name]},
    )


def _of_consumer(number: int) -> dict[str, Column]:
    wanted, accepted = sql.col(f"wanted_{number}"), sql.col(f"accepted_{number}")
    columns = (
        wanted,
        _count(accepted),
        _count(sql.col(f"decided_{number}")),
        sql.when(accepted, sql.col("messages")).otherwise(0),
        sql.when(accepted, sql.col("messages") - wanted).otherwise(0),
        sql.when(accepted, 0).otherwise(wanted),
        sql.when(accepted, sql.col("entry_octets")).otherwise(0),
    )
    return dict(zip(_CONSUMER, columns, strict=True))


def _counters(sizes: Mapping[int, int], total: Mapping[str, int], wants: Sequence[Want]) -> dict[str, Any]:
    messages, count = sum(size * times for size, times in sizes.items()), sum(sizes.values())
    return {
        "messages": messages,
        "entries": count,
        "messages_per_entry": distribution(sizes),
        **{name: total[name] for name in _SUMS},
        "overhead_octets_per_message": round(total["overhead_octets"] / messages, 3) if messages else 0.0,
        "reasons": {reason.name: times for reason in Reason if (times := total[f"reason {reason.name}"])},
        "consumers": [
            {"property": want.name, "value": want.value, "missing": want.missing, **{name: total[f"{name} {number}"] for name in _CONSUMER}}
            for number, want in enumerate(wants)
        ],
    }


def distribution(sizes: Mapping[int, int]) -> dict[str, Any]:
    """Describe how many messages entries have.

    Args:
        sizes: Number of entries by number of messages.

    Returns:
        Mean, percentiles (the least number that this percentage of entries does not exceed), the largest, and entries in classes.
    """
    count = sum(sizes.values())
    if not count:
        return {"mean": 0.0, "p50": 0, "p90": 0, "p99": 0, "max": 0, "classes": {}}
    ends = (*SIZES[1:], max(sizes) + 1)
    classes = {str(first): sum(sizes[size] for size in sizes if first <= size < end) for first, end in zip(SIZES, ends, strict=True)}
    return {
        "mean": round(sum(size * times for size, times in sizes.items()) / count, 3),
        **{f"p{percent}": percentile(sizes, percent) for percent in (50, 90, 99)},
        "max": max(sizes),
        "classes": {first: times for first, times in classes.items() if times},
    }


def percentile(counts: Mapping[int, int], percent: float) -> int:
    """Return the least value that this percentage does not exceed.

    Args:
        counts: How often there is each value; not empty.
        percent: Above 0, up to 100.
    """
    needed, seen = percent * sum(counts.values()), 0
    for value in sorted(counts):
        seen += counts[value]
        if seen * 100 >= needed:
            return value
    return max(counts)


def _examples(rows: DataFrame, law: BatchLaw, setting: Setting, wants: Sequence[Want], most: int) -> list[dict[str, Any]]:
    columns = (*PRODUCER, "batch", "first", "last", "messages", "size", "header", "reference_header", "reason", "reference_reason")
    found = rows.where(law.broken(setting, wants) > 0).sort("messages", *PRODUCER, "batch").select(*columns).limit(most).collect()
    return [{"setting": setting.name, **row.asDict()} for row in found]


def _count(condition: Column) -> Column:
    return sql.when(condition, 1).otherwise(0)


def _total(columns: Any) -> Column:
    return reduce(add, columns, sql.lit(0))
