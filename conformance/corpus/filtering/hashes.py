"""topics_hash of namespaces too large for one process: sorted by Spark, hashed range by range, and combined.

Spark orders text by code point, and the hash by UTF-16 code units; so topics are sorted by their bytes in UTF-16BE. Each range of a
namespace becomes one row, so the driver gets as many rows as there are namespaces, and one more for each border between ranges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from conformance.corpus.filtering.checksums import Part, hexadecimal, joined
from conformance.corpus.filtering.sql import matched_name
from refimpl import names as names_of
from refimpl.indexes.topics_hash import EMPTY_HASH, topics_hash

_RANGES = pa.schema(
    [("namespace", pa.string()), ("first", pa.binary()), ("checksum", pa.int64()), ("length", pa.int64()), ("topics", pa.int64())]
)


_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


def utf16_order(topic: Column | str = "topic") -> Column:
    """Return the sort key of topics: their UTF-16 code units, as Java compares strings."""
    return F.encode(topic, "UTF-16BE")


def namespace_of() -> Column:
    """Return the namespace of a topic, `tenant/namespace`."""
    return F.substring_index(matched_name(), "/", 2)


def namespace_hashes(topics: DataFrame, parts: int | None = None) -> dict[str, tuple[str, int]]:
    """Hash the topics of each namespace.

    Args:
        topics: With a column `topic`, and `namespace` where it is not that of the topic; all rows count, so leave out what a list does not
            show.
        parts: Into how many ranges they are divided; None: as Spark does.

    Returns:
        By namespace its hash, as `refimpl.indexes.topics_hash` gives it, and how many topics it has.
    """
    if "namespace" not in topics.columns:
        topics = topics.withColumn("namespace", namespace_of())
    keyed = topics.select("namespace", "topic", utf16_order().alias("_order"))
    by = ("namespace", "_order")
    divided = keyed.repartitionByRange(*by) if parts is None else keyed.repartitionByRange(parts, *by)
    ranges = divided.sortWithinPartitions(*by).mapInArrow(_hash_ranges, _ddl(_RANGES)).toArrow().to_pylist()
    ranges.sort(key=lambda row: (row["namespace"], row["first"]))
    return {namespace: _whole(list(rows)) for namespace, rows in groupby(ranges, key=lambda row: row["namespace"])}


def whole_hash(topics: DataFrame, parts: int | None = None) -> str:
    """Hash all topics as those of one namespace; `EMPTY_HASH` if there are none."""
    found = namespace_hashes(topics.select("topic", F.lit("").alias("namespace")), parts)
    return found[""][0] if found else EMPTY_HASH


@contextmanager
def small_batches(spark: SparkSession, rows: int) -> Iterator[None]:
    """Let Spark give at most so many rows at once to what hashes them, for the length of a block."""
    before = spark.conf.get(_BATCH_ROWS)
    spark.conf.set(_BATCH_ROWS, rows)
    try:
        yield
    finally:
        spark.conf.set(_BATCH_ROWS, str(before))


def reference_hashes(topics: DataFrame) -> DataFrame:
    """Hash the topics of each namespace by the reference, which holds one namespace at a time: columns namespace, hash and topics."""
    named = topics.select(namespace_of().alias("namespace"), "topic")
    return named.groupBy("namespace").applyInArrow(_hash_by_reference, "namespace STRING, hash STRING, topics LONG")


def _hash_by_reference(table: pa.Table) -> pa.Table:
    """Hash topics that SQL takes for those of one namespace; which ones they are of, the reference says itself."""
    names: dict[str, list[str]] = defaultdict(list)
    for topic in table.column("topic").to_pylist():
        names[names_of.namespace_of(topic)].append(topic)
    hashes, counts = [topics_hash(some) for some in names.values()], [len(some) for some in names.values()]
    return pa.table({"namespace": list(names), "hash": hashes, "topics": counts})


def _ddl(schema: pa.Schema) -> str:
    names = {pa.string(): "STRING", pa.binary(): "BINARY", pa.int64(): "LONG"}
    return ", ".join(f"{field.name} {names[field.type]}" for field in schema)


def _whole(rows: list[dict[str, Any]]) -> tuple[str, int]:
    part = joined(Part(row["checksum"], row["length"]) for row in rows)
    assert part is not None
    return hexadecimal(part.checksum), sum(row["topics"] for row in rows)


def _hash_ranges(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Hash sorted topics. A namespace that continues in the next batch is still one range."""
    current: dict[str, Any] | None = None
    for batch in batches:
        done = []
        for namespace, first, names in _runs(batch):
            text = pc.binary_join(pa.ListArray.from_arrays([0, len(names)], names.cast(pa.binary())), b",")[0].as_buffer()
            if current is not None and current["namespace"] == namespace:
                current["checksum"] = crc32c(text, crc32c(b",", current["checksum"]))
                current["length"] += text.size + 1
                current["topics"] += len(names)
                continue
            if current is not None:
                done.append(current)
            current = {"namespace": namespace, "first": first, "checksum": crc32c(text), "length": text.size, "topics": len(names)}
        if done:
            yield pa.RecordBatch.from_pylist(done, schema=_RANGES)
    if current is not None:
        yield pa.RecordBatch.from_pylist([current], schema=_RANGES)


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[str, bytes, pa.Array]]:
    """Divide a batch into runs of one namespace: its name, the order of its first topic, and its topics."""
    if not batch.num_rows:
        return
    ends = pc.run_end_encode(batch.column("namespace"), run_end_type=pa.int32())
    start = 0
    for namespace, end in zip(ends.values.to_pylist(), ends.run_ends.to_pylist(), strict=True):
        yield namespace, batch.column("_order")[start].as_py(), batch.column("topic").slice(start, end - start)
        start = end
