"""What several tests of the corpus need."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from conformance.corpus.job import HOLD, Job
from conformance.corpus.sources.synthetic_topics import SyntheticTopics


def synthetic(rows: int, **options: object) -> pa.RecordBatch:
    """Return the first rows of a corpus, without Spark; at most one block."""
    return SyntheticTopics({"rows": str(rows), **{name: str(value) for name, value in options.items()}}).block(0, rows)


def run_job(
    job: Job, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str, code: int = HOLD
) -> dict[str, Any]:
    """Run a job in the session of the tests, and return its result."""
    monkeypatch.setattr("conformance.corpus.job.spark_session", lambda *_, **__: nullcontext(spark))
    path = folder / "result.json"
    assert job.main([*arguments, "--result", str(path)]) == code
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
