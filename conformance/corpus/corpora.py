"""Corpora by name, for the option `--corpus` of jobs: topics or messages with the columns that all of them share.

synthetic        drawn from a seed
jars             the files in PySpark's own jars; `jars:FOLDER` for others
capture:PATH     what is in a capture: event logs or raw files; `capture:` for the recordings of this suite
PATH.parquet     a file of `save`, or any other with these columns; for topics the names are enough
PATH.txt         names of topics, one on each line
PATH.jsonl       topics or messages, one JSON object on each line

Text and captures may be compressed (`.gz`). `check_topics` and `check_messages` tell what is wrong with files before Spark starts.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from conformance.captures import check_capture, unread_files
from conformance.captures.places import is_packets
from conformance.corpus import captured
from conformance.corpus.columns import MAY_HAVE, MESSAGE_COLUMNS, TOPIC_COLUMNS
from conformance.corpus.errors import CorpusError, reason_of
from conformance.corpus.inputs import counted, text
from conformance.corpus.inputs.parquet import check_parquet, parquet_files
from conformance.corpus.sources.jar_topics import MESSAGES, OF_JAR, TOPICS, jar_folder, jar_paths

NAMES = "synthetic, jars, jars:FOLDER, capture:PATH, PATH.parquet, PATH.txt or PATH.jsonl"


def add_corpus_option(parser: argparse.ArgumentParser, default: str = "synthetic") -> None:
    """Give a job the option `--corpus`."""
    parser.add_argument("--corpus", default=default, help=f"{NAMES} (%(default)s)")


def check_topics(options: argparse.Namespace) -> None:
    """Look at the corpus of a job that reads topics, before Spark starts.

    Raises:
        CorpusError: There is no such corpus, or something is wrong with its files; names file, row and column.
    """
    _check(options.corpus, TOPICS)


def check_messages(options: argparse.Namespace) -> None:
    """Look at the corpus of a job that reads messages, as `check_topics`."""
    _check(options.corpus, MESSAGES)


def _check(corpus: str, what: str) -> None:
    path = corpus.partition(":")[2]
    columns = TOPIC_COLUMNS if what == TOPICS else MESSAGE_COLUMNS
    kind = _kind(corpus, what)
    if kind == "jars":
        jar_paths(jar_folder(path))
    elif kind == "capture":
        check_capture(path)
    elif kind == "text":
        for _ in text.text_batches(Path(corpus), columns if what == TOPICS else {**columns, **MAY_HAVE}):
            pass
    elif kind == "parquet" and (local := _local(corpus)) is not None:
        required = {"topic": columns["topic"]} if what == TOPICS else columns
        check_parquet(local, required, {**columns, **OF_JAR, **MAY_HAVE})


def _kind(corpus: str, what: str) -> str:
    """Return which kind of corpus it is.

    Raises:
        CorpusError: None that is known.
    """
    name = corpus.partition(":")[0]
    if corpus == "synthetic" or name in ("jars", "capture"):
        return name
    if corpus.rstrip("/").endswith(".parquet"):
        return "parquet"
    if corpus.endswith((*text.JSON, *(text.NAMES if what == TOPICS else ()))):
        return "text"
    if corpus.endswith(text.NAMES):
        raise CorpusError(f"{corpus}: names are no messages; write those as JSON, one on each line of a file that ends in .jsonl")
    raise CorpusError(f"there is no corpus {corpus!r}; known: {NAMES}{_meant(corpus)}")


def _meant(corpus: str) -> str:
    """Return what to do with something that is there, but is no corpus by its name."""
    if not corpus or not os.path.exists(corpus):
        return ""
    if os.path.isdir(corpus) or is_packets(Path(corpus)):
        return f"; for a capture write capture:{corpus}"
    return "; a file is read by the ending of its name"


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
    path = corpus.partition(":")[2]
    try:
        match _kind(corpus, what):
            case "synthetic":
                found = spark.read.format(f"synthetic_{what}").options(**{key: str(value) for key, value in drawn.items()}).load()
            case "jars":
                found = spark.read.format("jar_topics").options(**{"as": what, "path": path}).load()
            case "capture":
                frames = spark.read.format("pulsar_capture").options(mode="drop", path=path).load()
                found = captured.topics(frames) if what == TOPICS else captured.messages(frames)
            case "text":
                lines = spark.read.format("user_text").options(**{"as": what, "path": corpus}).load()
                found = lines.repartition(spark.sparkContext.defaultParallelism)
            case _:
                found = _parquet(spark, corpus)
                found = _completed(found) if what == TOPICS else found
    except PySparkException as error:
        raise CorpusError(reason_of(error) or _first_line(error)) from None
    return check_columns(found, TOPIC_COLUMNS if what == TOPICS else MESSAGE_COLUMNS, f"{corpus}: not {what}")


def rows_written(corpus: str, what: str, drawn: int) -> int | None:
    """Count the topics or messages of a corpus, without reading it as `topics` and `messages` do; None: only these can.

    Args:
        corpus: Its name.
        what: `TOPICS` or `MESSAGES`.
        drawn: Number of rows, if they are drawn.
    """
    names = what == TOPICS
    match _kind(corpus, what):
        case "synthetic":
            return drawn
        case "jars":
            return counted.jar_rows(jar_paths(jar_folder(corpus.partition(":")[2])))
        case "text":
            return counted.text_rows(Path(corpus), names=names and corpus.endswith(text.NAMES))
        case "parquet" if (local := _local(corpus)) is not None:
            return counted.parquet_rows(parquet_files(local), names=names)
    return None


def left_out(spark: SparkSession, options: argparse.Namespace) -> dict[str, dict[str, int]]:
    """Count what the captures that options name have, and topics and messages do not: by capture and name; none if that is nothing."""
    given = {getattr(options, name, None) or "" for name in ("corpus", "messages")}
    found = {}
    for corpus in sorted(one for one in given if one.startswith("capture:")):
        path = corpus.partition(":")[2]
        counts = captured.left_out(spark.read.format("pulsar_capture").option("path", path).load())
        if unread := unread_files(path):
            counts["files that are no capture"] = len(unread)
        if counts:
            found[corpus] = counts
    return found


def _parquet(spark: SparkSession, path: str) -> DataFrame:
    local = _local(path)
    try:
        return spark.read.parquet(path if local is None else _for_hadoop(local))
    except (PySparkException, Py4JJavaError) as error:
        raise CorpusError(f"{path}: can't be read as Parquet: {_first_line(error)}") from None


def _local(path: str) -> str | None:
    """Return a path of the file system; None for one that only Spark can reach."""
    scheme, separator, rest = path.partition(":")
    if separator and scheme == "file":
        return "/" + rest.lstrip("/")
    return None if separator and rest.startswith("//") else path


def _for_hadoop(path: str) -> str:
    """Write a path so that Hadoop takes each of its characters as it is, unless it is a pattern for several files."""
    if not Path(path).exists():
        return path
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", str(Path(path).absolute()))


def _completed(topics: DataFrame) -> DataFrame:
    """Complete topics of which not all is said: with a number derived from the name, a kind and no properties."""
    lacking = {"id": F.xxhash64("topic"), "kind": F.lit(text.KIND), "properties": F.create_map().cast("map<string,string>")}
    if "topic" in topics.columns:
        topics = topics if "id" in topics.columns else topics.dropDuplicates(["topic"])
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
