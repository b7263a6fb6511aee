"""One Spark session for all tests of the corpus side; without Java they are skipped with the reason, in CI they fail."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from conformance.corpus.session import SparkError, spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    try:
        started = spark_session("tests", cores=2)
        session = started.__enter__()
    except SparkError as error:
        if os.environ.get("CI"):
            pytest.fail(f"this machine lacks what the test needs: {error}")
        pytest.skip(str(error))
    yield session
    started.__exit__(None, None, None)
