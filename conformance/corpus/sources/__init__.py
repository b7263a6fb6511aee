"""Where the rows come from: Spark data sources, each with a fixed schema and a table of its options.

spark.read.format("synthetic_topics").option("rows", 1_000_000).load()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_all(spark: SparkSession) -> None:
    """Register the sources with a session by their names."""
    # a worker imports the source that it reads from, and so this package: not all the others
    from conformance.corpus.sources.jar_topics import JarSource  # noqa: PLC0415
    from conformance.corpus.sources.pulsar_capture import CaptureSource  # noqa: PLC0415
    from conformance.corpus.sources.synthetic_messages import SyntheticMessages  # noqa: PLC0415
    from conformance.corpus.sources.synthetic_topics import SyntheticTopics  # noqa: PLC0415
    from conformance.corpus.sources.user_text import UserText  # noqa: PLC0415

    for source in (CaptureSource, JarSource, SyntheticMessages, SyntheticTopics, UserText):
        spark.dataSource.register(source)
