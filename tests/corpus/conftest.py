"""One Spark session for all tests of the corpus; where Spark can't be used they are skipped with the reason, in CI they fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from conformance.corpus.errors import SparkError
from conformance.corpus.session import spark_session
from tests.conftest import skip_for


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    try:
        with spark_session("tests", cores=2, short=True) as session:
            yield session
    except SparkError as error:
        skip_for(str(error))


@pytest.fixture(scope="module")
def without_compiling(spark: SparkSession) -> Iterator[None]:
    """Plans are long and rows are few: compiling takes longer than running."""
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    yield
    spark.conf.unset("spark.sql.codegen.wholeStage")
