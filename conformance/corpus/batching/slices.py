"""A corpus in slices: all messages of some producers each, one slice after the other.

What is known producer by producer needs no more at a time. So memory depends on the size of a slice, not on that of the corpus.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.storagelevel import StorageLevel

from conformance.corpus.batching.windows import PRODUCER
from conformance.corpus.laws import Law, Outcome

WHOLE = Law("whole", "All rows of the corpus were looked at: as many as its files have, whatever it was divided into.")
ROWS = 1_000_000
"""About so many messages are in a slice for each core of the session."""


@dataclass(frozen=True)
class Slices:
    """A corpus that is kept on disk.

    Attributes:
        whole: All its messages.
        count: Number of slices.
    """

    whole: DataFrame
    count: int

    def __iter__(self) -> Iterator[DataFrame]:
        for number in range(self.count):
            yield self.whole.where(sql.col("slice") == number).drop("slice")

    def unpersist(self) -> None:
        """Give the disk back."""
        self.whole.unpersist()


def slices(messages: DataFrame, count: int) -> Slices:
    """Divide a corpus.

    Args:
        messages: With the columns of `PRODUCER`.
        count: Number of slices, from 1 on; `number_of_slices` tells how many are good.
    """
    cores = messages.sparkSession.sparkContext.defaultParallelism
    if count > 1:  # a slice has partitions of its own: what reads one skips the others by their statistics
        place = sql.pmod(sql.xxhash64(*PRODUCER), sql.lit(count * cores)).cast("int")
        messages = messages.withColumn("place", place).repartitionById(count * cores, "place")
        messages = messages.withColumn("slice", sql.expr(f"place DIV {cores}")).drop("place")
    else:
        messages = messages.withColumn("slice", sql.lit(0))
    return Slices(messages.persist(StorageLevel.DISK_ONLY), count)


def is_whole(rows: int, looked_at: Sequence[int]) -> Outcome:
    """Judge whether slices lack nothing.

    Args:
        rows: Of the corpus, counted without slices, and of files without those who read them.
        looked_at: Those of each slice, or of all of them together.
    """
    return WHOLE.outcome(rows, abs(rows - sum(looked_at)), [{"rows": rows, "looked at": list(looked_at)}] * (rows != sum(looked_at)))


def number_of_slices(messages: DataFrame, rows: int, least: int = 1) -> int:
    """Return how many slices this number of messages should have: at least so many."""
    return max(least, -(-rows // (ROWS * messages.sparkSession.sparkContext.defaultParallelism)))
