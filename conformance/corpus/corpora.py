"""Corpora by name, for the option `--corpus` of jobs: topics or messages with the columns that all of them share.

synthetic        drawn from a seed
jars             the files in PySpark's own jars; `jars:FOLDER` for others
capture:PATH     what is in a capture: event logs or raw files; `capture:` for the recordings of this suite
PATH.parquet     a file of `save`, or any other with these columns; for topics the names are enough
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from conformance.corpus import captured
from conformance.corpus.errors import CorpusError, reason_of
from conformance.corpus.sources.jar_topics import MESSAGES, TOPICS

TOPIC_COLUMNS: Mapping[str, str] = {"id": "bigint", "topic": "string", "kind": "string", "properties": "map<string,string>"}
"""Columns of topics with their types in Spark; more may follow them."""
MESSAGE_COLUMNS: Mapping[str, str] = {
    "id": "bigint",
    "topic": "string",
    "producer_name": "string",
    "sequence_id": "bigint",
    "publish_time": "bigint",
    "key": "string",
    "properties": "map<string,string>",
    "payload": "binary",
    "payload_size": "int",
}
"""Columns of messages with their types in Spark; more may follow them."""
NAMES = "synthetic, jars, jars:FOLDER, capture:PATH or PATH.parquet"


def add_corpus_option(parser: argparse.ArgumentParser, default: str = "synthetic") -> None:
    """Give a job the option `--corpus`."""
    parser.add_argument("--corpus", default=default, help=f"{NAMES} (%(default)s)")


def topics(spark: SparkSession, corpus: str = "synthetic", rows: int = 100_000, seed: int = 1, **drawn: object) -> DataFrame:
    """Read the topics of a corpus.

    Args:
        spark: A session with the sources of this package.
        corpus: Its name.
        rows: Number of rows, if they are drawn.
        seed: Seed of the draw.
        drawn: Further options of the source that draws them; ignored by other corpora.

    Returns:
        At least the columns of `TOPIC_COLUMNS`, in the order of these.

    Raises:
        CorpusError: There is no such corpus, or a Parquet has other columns.
    """
    return _read(spark, corpus, TOPICS, {"rows": rows, "seed": seed, **drawn})


def messages(spark: SparkSession, corpus: str = "synthetic", rows: int = 100_000, seed: int = 1, **drawn: object) -> DataFrame:
    """Read the messages of a corpus.

    Args:
        spark: A session with the sources of this package.
        corpus: Its name.
        rows: Number of rows, if they are drawn.
        seed: Seed of the draw.
        drawn: Further options of the source that draws them; ignored by other corpora.

    Returns:
        At least the columns of `MESSAGE_COLUMNS`, in the order of these.

    Raises:
        CorpusError: There is no such corpus, or a Parquet has other columns.
    """
    return _read(spark, corpus, MESSAGES, {"rows": rows, "seed": seed, **drawn})


def _read(spark: SparkSession, corpus: str, what: str, drawn: Mapping[str, object]) -> DataFrame:
    name, _, path = corpus.partition(":")
    try:
        if corpus == "synthetic":
            found = spark.read.format(f"synthetic_{what}").options(**{key: str(value) for key, value in drawn.items()}).load()
        elif name == "jars":
            found = spark.read.format("jar_topics").options(**{"as": what, "path": path}).load()
        elif name == "capture":
            frames = spark.read.format("pulsar_capture").options(mode="drop", path=path).load()
            found = captured.topics(frames) if what == TOPICS else captured.messages(frames)
        elif corpus.rstrip("/").endswith(".parquet"):
            found = _parquet(spark, corpus)
            found = _completed(found) if what == TOPICS else found
        else:
            raise CorpusError(f"there is no corpus {corpus!r}; known: {NAMES}")
    except PySparkException as error:
        raise CorpusError(reason_of(error) or _first_line(error)) from None
    return check_columns(found, TOPIC_COLUMNS if what == TOPICS else MESSAGE_COLUMNS, f"{corpus}: not {what}")


def _parquet(spark: SparkSession, path: str) -> DataFrame:
    try:
        return spark.read.parquet(path)
    except (PySparkException, Py4JJavaError) as error:
        raise CorpusError(f"{path}: can't be read as Parquet: {_first_line(error)}") from None


def _completed(topics: DataFrame) -> DataFrame:
    """Complete topics that have only names: with a number derived from the name, a kind and no properties."""
    lacking = {"id": F.xxhash64("topic"), "kind": F.lit("read"), "properties": F.create_map().cast("map<string,string>")}
    if "topic" in topics.columns:
        topics = topics.withColumns({name: value for name, value in lacking.items() if name not in topics.columns})
    return topics


def _first_line(error: Exception) -> str:
    text = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else str(error)
    return str(text).strip().partition("\n")[0].rstrip(":. ")


def check_columns(frame: DataFrame, columns: Mapping[str, str], what: str) -> DataFrame:
    """Check that a frame has certain columns, and put them first.

    Args:
        frame: Any.
        columns: Name and type of each, as Spark writes types.
        what: How a message about it starts.

    Raises:
        CorpusError: One is missing or has another type; all that are wrong are named.
    """
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    wrong = [
        f"{name} {f'is {types[name]}, not {kind}' if name in types else f'({kind}) is missing'}"
        for name, kind in columns.items()
        if types.get(name) != kind
    ]
    if wrong:
        raise CorpusError(f"{what}: {'; '.join(wrong)}")
    return frame.select(*columns, *(name for name in types if name not in columns))


def save(frame: DataFrame, path: str) -> None:
    """Write a frame as Parquet, completely or not at all.

    Args:
        frame: Topics or messages.
        path: Path that ends in `.parquet`; an existing file is replaced. On a cluster, each node must see its folder.

    Raises:
        CorpusError: The path has another ending.
    """
    target = Path(path.rstrip("/"))
    if target.suffix != ".parquet":
        raise CorpusError(f"{path}: a corpus that is written ends in .parquet")
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        frame.write.mode("overwrite").parquet(str(new.absolute()))
        if target.is_dir():
            shutil.rmtree(target)
        new.replace(target)
    finally:
        shutil.rmtree(new, ignore_errors=True)
