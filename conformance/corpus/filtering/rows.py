"""The rows for filters: topics of a corpus, names to draw patterns from, and messages made of topics."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.storagelevel import StorageLevel

from conformance.corpus.columns import TOPIC_COLUMNS
from conformance.corpus.corpora import add_corpus_option, topics
from conformance.corpus.filtering.sql import is_system_topic, matched_name
from conformance.corpus.sources.topic_forms import MIXES

NAMES = 2_000
"""Patterns are drawn from so many names at most."""
_CONTROL = r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f]"
"""What no pattern is made of: patterns hold these characters as they are."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which corpus is read."""
    add_corpus_option(parser)
    parser.add_argument("--mix", choices=tuple(MIXES), default="usual", help="classes of synthetic names (%(default)s)")
    parser.add_argument("--tenants", type=int, default=20, help="tenants of a synthetic corpus (%(default)s)")
    parser.add_argument("--namespaces", type=int, default=10, help="namespaces of each of them (%(default)s)")
    parser.add_argument("--parts", type=int, default=8, help="into how many parts Spark divides a synthetic corpus (%(default)s)")


@contextmanager
def topics_at_hand(spark: SparkSession, options: argparse.Namespace) -> Iterator[DataFrame]:
    """Read topics once, and keep them on disk for the length of a block that reads them many times.

    Args:
        spark: The session.
        options: Those of `add_options`, and `rows` and `seed`.

    Yields:
        Columns id, topic, kind and properties.

    Raises:
        CorpusError: The corpus is not there, or has no topics.
    """
    drawn = {"mix": options.mix, "tenants": options.tenants, "namespaces": options.namespaces, "partitions": options.parts}
    kept = topics(spark, options.corpus, options.rows, options.seed, **drawn).select(*TOPIC_COLUMNS).persist(StorageLevel.DISK_ONLY)
    try:
        yield kept
    finally:
        kept.unpersist()


def names_to_draw_from(frame: DataFrame) -> list[str]:
    """Return names that patterns are drawn from: those of the smallest hashes, so that any division into parts gives the same."""
    named = frame.where(~is_system_topic()).select(matched_name().alias("name"))
    usable = named.where((F.col("name") != "") & ~F.col("name").rlike(_CONTROL))
    return [row.name for row in usable.orderBy(F.xxhash64("name"), "name").limit(NAMES).collect()]


def with_payload(frame: DataFrame) -> DataFrame:
    """Add payloads to topics, which makes messages of them that filters of messages can judge.

    Nearly a quarter each: the topic as text, JSON with topic and properties, bytes that are not UTF-8, and the topic as ISO 8859-1. One in
    32 each: the topic up to its tenant, which may be just the prefix that is asked for; no bytes; and no payload.
    """
    topic = F.col("topic")
    payloads: list[Column] = [
        F.encode(topic, "UTF-8"),
        F.encode(F.to_json(F.struct(topic.alias("topic"), "properties")), "UTF-8"),
        F.concat(F.lit(b"\xff\x00\xc3"), F.encode(topic, "UTF-8")),
        F.unhex(F.hex(F.encode(F.regexp_replace(topic, "[^\\x00-\\xff]", "?"), "ISO-8859-1"))),
    ]
    rare = [F.encode(F.substring_index(topic, "/", 3), "UTF-8"), F.lit(b""), F.lit(None).cast("binary")]
    number = F.pmod(F.xxhash64("topic"), F.lit(32)).cast("int")
    usual = F.get(F.array(*payloads), number % 4)
    return frame.withColumn("payload", F.when(number < len(rare), F.get(F.array(*rare), number)).otherwise(usual))
