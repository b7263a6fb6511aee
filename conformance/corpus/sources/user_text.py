"""The data source `user_text`: names, topics or messages that a user wrote down, one on each line; see `inputs.text`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from conformance.corpus.columns import MAY_HAVE, MESSAGE_COLUMNS, TOPIC_COLUMNS, ddl
from conformance.corpus.inputs.text import text_batches
from conformance.corpus.sources.jar_topics import MESSAGES, TOPICS
from conformance.corpus.sources.options import Option, read_options

OPTIONS = (
    Option("path", None, "the file"),
    Option("as", TOPICS, "what its lines are", choices=(TOPICS, MESSAGES)),
)


class UserText(DataSource):
    """Lines as rows. They are one partition, since the number of a line is known only once all before it are read."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        chosen = read_options(self.name(), OPTIONS, options)
        self._path = Path(chosen["path"])
        self._columns = TOPIC_COLUMNS if chosen["as"] == TOPICS else {**MESSAGE_COLUMNS, **MAY_HAVE}

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.read.format`."""
        return "user_text"

    def schema(self) -> str:
        """Return the columns."""
        return ddl(self._columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what Spark reads from."""
        return _TextReader(self._path, self._columns, schema.fieldNames())


class _TextReader(DataSourceReader):
    def __init__(self, path: Path, columns: Mapping[str, str], wanted: Sequence[str]) -> None:
        self._path = path
        self._columns = columns
        self._wanted = wanted

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        for batch in text_batches(self._path, self._columns):
            yield batch.select(self._wanted)
