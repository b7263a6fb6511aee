"""The laws of uniform batches, and their costs and savings on a corpus."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from conformance.corpus.batching.entries import entries
from conformance.corpus.batching.settings import Setting, Want
from conformance.corpus.batching.windows import PRODUCER
from conformance.corpus.laws import EXAMPLES, Law, Outcome, breaking, outcomes, sums
from refimpl.proposals.uniform_batches import Reason

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Where the classes begin in which entries are counted by their messages."""

_SUMS = ("header_bytes", "overhead_bytes", "entry_bytes")
_CONSUMER = ("wanted", "entries_accepted", "entries_decided", "messages_accepted", "messages_in_vain", "messages_lost", "bytes_accepted")


_BOTH = "plan IS NOT NULL AND times = 1"
_FOUND = "found IS NOT NULL AND sequence_id IS NOT NULL"
_SAME = "batch IS NOT NULL AND elsewhere = 0 AND found.held = messages"
OF_MESSAGES: tuple[Law, ...] = (
    Law("none-lost", "Every message that was sent is in an entry.", "plan IS NOT NULL", "plan IS NOT NULL AND times = 0"),
    Law(
        "none-twice",
        "No message is in two entries, and none that was not sent.",
        _FOUND,
        f"IF({_FOUND}, times - IF(plan IS NULL, 0, 1), 0)",
    ),
    Law(
        "order",
        "Messages of a producer come in the order in which they were sent; in batches by key, those of a key.",
        _FOUND,
        f"{_FOUND} AND found.after > sequence_id",
    ),
    Law(
        "payload",
        "A message has the payload that was sent.",
        _BOTH,
        f"{_BOTH} AND (plan.content, plan.payload_size) != (found.content, found.payload_size)",
    ),
    Law("key", "It has the key that was sent.", _BOTH, f"{_BOTH} AND NOT plan.key <=> found.key"),
    Law("properties", "It has the properties that were sent, in their order.", _BOTH, f"{_BOTH} AND plan.properties != found.properties"),
    Law("event-time", "It has the event time that was sent.", _BOTH, f"{_BOTH} AND NOT plan.event_time <=> found.event_time"),
    Law(
        "nothing-else",
        "The headers have no field that was not sent, such as an ordering key.",
        _BOTH,
        f"{_BOTH} AND found.others IS NOT NULL",
    ),
    Law(
        "sums",
        "An entry can be opened: its checksum is right, and its body has the size that the header says.",
        "found IS NOT NULL AND (found.problem IS NOT NULL OR found.position = 0)",
        "CASE WHEN found.problem IS NOT NULL THEN times WHEN found.position = 0 AND found.body != found.said THEN 1 ELSE 0 END",
    ),
    Law(
        "header",
        "The header of a batch is the extracted set of each of its messages; that of a single message has all its properties.",
        _BOTH,
        f"{_BOTH} AND found.header != IF(found.count IS NULL, plan.properties, plan.set)",
    ),
    Law(
        "formulations",
        "Windows and the reference's own batcher put each message into the same batch, at the same place.",
        _BOTH,
        f"{_BOTH} AND (plan.batch, plan.position) != (found.batch, found.position)",
    ),
)
"""Laws of the rows of `compared`."""
OF_ENTRIES: tuple[Law, ...] = (
    Law(
        "envelope",
        "The header says who sent the entry and when, its ids, number of messages and key, as both formulations have them.",
        _SAME,
        f"""{_SAME} AND NOT (
            (found.name, found.time, found.first) = (producer_name, first_time, first) AND found.header_key <=> key
            AND found.count <=> IF(is_batch, messages, NULL) AND (NOT is_batch OR found.last <=> last)
        )""",
    ),
    Law(
        "reasons",
        "A batch goes out for the same reason in both.",
        f"{_SAME} AND NOT setting.by_key",
        f"{_SAME} AND NOT setting.by_key AND NOT reason <=> found.reason",
    ),
    Law(
        "bytes",
        "Header and body of an entry that is whole have the bytes that the formulas say.",
        f"{_SAME} AND found.parts = 1",
        f"{_SAME} AND found.parts = 1 AND (overhead_bytes, entry_bytes - overhead_bytes) != (found.before_body, found.body)",
    ),
    Law(
        "limits",
        "A batch has consecutive messages, and keeps within all limits unless it has one message.",
        "batch IS NOT NULL",
        """batch IS NOT NULL AND (
            messages > setting.max_messages OR (NOT setting.by_key AND last - first + 1 != messages)
            OR (messages > 1 AND (size > setting.max_bytes OR last_time >= first_time + setting.delay))
        )""",
    ),
    Law(
        "verdicts",
        "The reference's entry filter judges each entry as the SQL expression does.",
        f"IF({_SAME}, size(consumers), 0)",
        f"IF({_SAME}, size(filter(consumers, one -> NOT one.accepted <=> one.reference)), 0)",
    ),
    Law(
        "never-lost",
        "An entry that a filter rejects has no message that is wanted, if what lacks the property passes or the value is extracted.",
        "aggregate(filter(consumers, one -> one.safe), 0L, (all, one) -> all + one.wanted)",
        "aggregate(filter(consumers, one -> one.safe AND NOT one.accepted), 0L, (all, one) -> all + one.wanted)",
    ),
    Law(
        "decided",
        "Where the header has the property, all messages of an accepted entry are wanted, and none of a rejected one.",
        "size(filter(consumers, one -> one.decided))",
        "size(filter(consumers, one -> one.decided AND one.wanted != IF(one.accepted, messages, 0)))",
    ),
)
"""Laws of the rows of `entries`."""
LAWS = (*OF_MESSAGES, *OF_ENTRIES)
_OF_LAWS = [f"{kind} {law.name}" for law in OF_MESSAGES for kind in ("checked", "broken")]


@dataclass(frozen=True)
class Found:
    """What was found under one setting.

    Attributes:
        counters: What it costs and saves.
        outcomes: Of the laws.
    """

    counters: Mapping[str, Any]
    outcomes: Sequence[Outcome]


def find(slices: Iterable[DataFrame], setting: Setting, wants: Sequence[Want]) -> Found:
    """Check the laws and sum up, in one pass over each slice unless it breaks a law.

    Args:
        slices: From `compared`; a producer is in one of them.
        setting: The producer's.
        wants: The consumers.
    """
    sizes: Counter[int] = Counter()
    total: Counter[str] = Counter()
    examples: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for messages in slices:
        rows = entries(messages, setting, wants, sums(OF_MESSAGES))
        found = _sums(rows, wants)
        sizes.update({row["messages"]: row["entries"] for row in found if row["entries"]})
        here = Counter({name: sum(int(row[name] or 0) for row in found) for name in (found[0] if found else ()) if name != "messages"})
        for law in LAWS:
            if here[f"broken {law.name}"]:
                examples[law.name] += _examples(messages, rows, law, setting)
        total.update(here)
    return Found(_counters(sizes, total, wants), outcomes(LAWS, total, examples))


def _sums(rows: DataFrame, wants: Sequence[Want]) -> list[dict[str, Any]]:
    """Sum up entries by their number of messages, of which there are few: that tells the distribution, too."""
    columns = {name: sql.sum(name) for name in (*_SUMS, *_OF_LAWS)} | {"wire_bytes": sql.sum(sql.col("found")["wire"])}
    columns |= {f"reason {reason.name}": sql.count_if(sql.col("reason") == reason.name) for reason in Reason}
    for number, _ in enumerate(wants):
        columns |= {f"{name} {number}": sql.sum(column) for name, column in _of_consumer(number).items()}
    listed = [*(column.alias(name) for name, column in columns.items()), *sums(OF_ENTRIES)]
    return [row.asDict() for row in rows.groupBy("messages").agg(sql.count("batch").alias("entries"), *listed).collect()]


def _of_consumer(number: int) -> dict[str, Column]:
    one = sql.col("consumers")[number]
    wanted, accepted = one["wanted"], one["accepted"]
    columns = (
        wanted,
        _count(accepted),
        _count(one["decided"]),
        sql.when(accepted, sql.col("messages")).otherwise(0),
        sql.when(accepted, sql.col("messages") - wanted).otherwise(0),
        sql.when(accepted, 0).otherwise(wanted),
        sql.when(accepted, sql.col("entry_bytes")).otherwise(0),
    )
    return dict(zip(_CONSUMER, columns, strict=True))


def _counters(sizes: Mapping[int, int], total: Mapping[str, int], wants: Sequence[Want]) -> dict[str, Any]:
    messages, count = sum(size * times for size, times in sizes.items()), sum(sizes.values())
    return {
        "messages": messages,
        "entries": count,
        "messages_per_entry": distribution(sizes),
        **{name: total[name] for name in _SUMS},
        "wire_bytes": total["wire_bytes"],
        "overhead_bytes_per_message": round(total["overhead_bytes"] / messages, 3) if messages else 0.0,
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


def _examples(messages: DataFrame, rows: DataFrame, law: Law, setting: Setting) -> list[dict[str, Any]]:
    if law in OF_MESSAGES:
        columns = (
            *PRODUCER,
            "sequence_id",
            *(f"{side}.{name} AS {side}_{name}" for side in ("plan", "found") for name in ("batch", "position")),
        )
        broken = breaking(messages, law).sort(*PRODUCER, "sequence_id").selectExpr(*columns, "found.problem", "found.others", "times")
    else:
        columns = (*PRODUCER, "batch", "first", "last", "messages", "size", "header", "reason", "found.reason AS reference_reason")
        broken = breaking(rows, law).sort("messages", *PRODUCER, "batch").selectExpr(*columns)
    return [{"setting": setting.name, **row.asDict()} for row in broken.limit(EXAMPLES).collect()]


def _count(condition: Column) -> Column:
    return sql.when(condition, 1).otherwise(0)
