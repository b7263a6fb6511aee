"""Where Spark can't be used its notebooks are skipped with the reason; in CI they fail."""

from __future__ import annotations

import os

import pytest
from conformance.corpus.errors import SparkError
from conformance.corpus.session import check


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    with_spark = [
        one for one in items if one.path.suffix == ".ipynb" and one.path.name.startswith("spark_")
    ]
    if not with_spark or os.environ.get("CI"):
        return
    try:
        check()
    except SparkError as error:
        for one in with_spark:
            one.add_marker(pytest.mark.skip(reason=str(error)))
