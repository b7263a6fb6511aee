"""The corpora that the jobs of this package read."""

from __future__ import annotations

import argparse
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import MapType, StringType

from conformance.corpus.errors import CorpusError
from conformance.corpus.filtering.sql import is_system_topic, matched_name
from conformance.corpus.sources.topic_forms import MIXES

NAMES = 2_000
"""Patterns are drawn from so many names at most."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which corpus is read."""
    parser.add_argument("--corpus", default="synthetic", help="synthetic, jars, or a folder of Parquet with a column `topic` (%(default)s)")
    parser.add_argument("--mix", choices=tuple(MIXES), default="usual", help="classes of synthetic names (%(default)s)")
    parser.add_argument("--tenants", type=int, default=20, help="tenants of a synthetic corpus (%(default)s)")
    parser.add_argument("--namespaces", type=int, default=10, help="namespaces of each of them (%(default)s)")
    parser.add_argument("--parts", type=int, default=8, help="into how many parts Spark divides a synthetic corpus (%(default)s)")


def read_topics(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    """Read topics.

    Args:
        spark: The session.
        options: Those of `add_options`, and `rows` and `seed`.

    Returns:
        Columns id, topic, kind and properties. Where the last three are missing in Parquet, topics are numbered by their hash, have the
        kind `read` and no properties.

    Raises:
        CorpusError: The corpus is not there, or has no topics.
    """
    if options.corpus == "synthetic":
        reader = spark.read.format("synthetic_topics").option("rows", options.rows).option("seed", options.seed).option("mix", options.mix)
        reader = reader.option("tenants", options.tenants).option("namespaces", options.namespaces)
        return reader.option("partitions", options.parts).load()
    if options.corpus == "jars":
        return _completed(spark.read.format("jar_topics").load())
    if not Path(options.corpus).exists():
        raise CorpusError(f"{options.corpus} is no corpus: it is synthetic, jars, or a folder of Parquet")
    frame = spark.read.parquet(options.corpus)
    if "topic" not in frame.columns:
        raise CorpusError(f"{options.corpus} has no column `topic`; it has {', '.join(frame.columns)}")
    return _completed(frame)


def _completed(frame: DataFrame) -> DataFrame:
    kinds = {
        "id": F.xxhash64("topic"),
        "kind": F.lit("read"),
        "properties": F.create_map().cast(MapType(StringType(), StringType())),
    }
    for name, value in kinds.items():
        if name not in frame.columns:
            frame = frame.withColumn(name, value)
    return frame.select("id", "topic", "kind", "properties")


def names_to_draw_from(topics: DataFrame) -> list[str]:
    """Return names that patterns are drawn from: those of the smallest hashes, so that any division into parts gives the same."""
    named = topics.where(~is_system_topic()).select(matched_name().alias("name"))
    rows = named.orderBy(F.xxhash64("name"), "name").limit(NAMES).collect()
    return [row.name for row in rows]


def with_payload(topics: DataFrame) -> DataFrame:
    """Add payloads to topics, which makes messages of them that filters of messages can judge.

    A quarter each: the topic as text, JSON with topic and properties, octets that are no UTF-8, and the topic as ISO 8859-1.
    """
    topic = F.col("topic")
    octets: list[Column] = [
        F.encode(topic, "UTF-8"),
        F.encode(F.to_json(F.struct(topic.alias("topic"), "properties")), "UTF-8"),
        F.concat(F.lit(b"\xff\x00\xc3"), F.encode(topic, "UTF-8")),
        F.unhex(F.hex(F.encode(F.regexp_replace(topic, "[^\\x00-\\xff]", "?"), "ISO-8859-1"))),
    ]
    number = F.pmod(F.xxhash64("topic"), F.lit(4))
    payload = F.when(number == 0, octets[0]).when(number == 1, octets[1]).when(number == 2, octets[2]).otherwise(octets[3])
    return topics.withColumn("payload", payload)
