"""Synthetic rows in blocks: each block is drawn by itself, so that rows depend on the seed alone and not on how Spark divides them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from conformance.corpus.sources.options import Option, read_options

BLOCK = 16_384
"""Rows of one block."""
COMMON = (
    Option("rows", 100_000, "how many rows", least=0),
    Option("seed", 1, "seed of everything that is generated", least=0),
    Option("partitions", 8, "number of Spark partitions; it does not change the rows", least=1),
)


@dataclass
class BlockRange(InputPartition):
    """Some blocks, from `first` to the one before `last`."""

    first: int
    last: int


def generator(seed: int, stream: int, block: int) -> np.random.Generator:
    """Return the generator of one block of one stream: the same on every machine and in every order."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, stream << 40 | block], dtype=np.uint64)))


class BlockSource(DataSource):
    """A source of synthetic rows; a subclass says what a block holds."""

    OPTIONS: ClassVar[Sequence[Option]] = COMMON

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self.chosen = read_options(self.name(), self.OPTIONS, options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what Spark reads from."""
        return _BlockReader(self, schema)

    @abstractmethod
    def block(self, number: int, rows: int) -> pa.RecordBatch:
        """Draw a block.

        Args:
            number: Which one, from 0; its first row is `number * BLOCK`.
            rows: How many rows it has: `BLOCK`, or fewer if it is the last.
        """


class _BlockReader(DataSourceReader):
    def __init__(self, source: BlockSource, schema: StructType) -> None:
        self._source = source
        self._columns = schema.fieldNames()

    def partitions(self) -> Sequence[InputPartition]:
        blocks = -(-self._source.chosen["rows"] // BLOCK)
        parts = max(1, min(blocks, self._source.chosen["partitions"]))
        borders = [blocks * part // parts for part in range(parts + 1)]
        return [BlockRange(first, last) for first, last in pairwise(borders)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        rows = self._source.chosen["rows"]
        for number in range(partition.first, partition.last):
            yield self._source.block(number, min(BLOCK, rows - number * BLOCK)).select(self._columns)
