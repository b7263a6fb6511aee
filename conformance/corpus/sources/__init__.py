"""Where the rows come from: Spark data sources, each with a fixed schema and a table of its options.

spark.read.format("synthetic_topics").option("rows", 1_000_000).load()
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from conformance.corpus.sources.jar_topics import JarSource
from conformance.corpus.sources.pulsar_capture import CaptureSource
from conformance.corpus.sources.synthetic_messages import SyntheticMessages
from conformance.corpus.sources.synthetic_topics import SyntheticTopics
from conformance.corpus.sources.user_text import UserText

SOURCES: tuple[type[DataSource], ...] = (CaptureSource, JarSource, SyntheticMessages, SyntheticTopics, UserText)


def register_all(spark: SparkSession) -> None:
    """Register the sources with a session by their names."""
    for source in SOURCES:
        spark.dataSource.register(source)
