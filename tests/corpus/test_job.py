"""How a job ends that can't go on."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import SparkRuntimeException
from pyspark.sql import SparkSession

from conformance.corpus.errors import EXECUTORS_LOST, JAVA_ENDED, OUT_OF_MEMORY, CorpusError, reason_of
from conformance.corpus.job import NOT_RUN, Findings, Job, Run
from tests.samples.corpus import run_job


class OutOfReach(RuntimeError):
    """An error whose text stands in Java, which has ended."""

    def __str__(self) -> str:
        raise ConnectionRefusedError(111, "Connection refused")


def ended(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def check(_run: Run) -> Findings:
        raise error

    assert run_job(Job("job", "a job", [], check), spark, folder, monkeypatch, code=NOT_RUN) == {}


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (CorpusError("a.bin, offset 3: no frame"), "a.bin, offset 3: no frame"),
        (SparkRuntimeException("Job aborted: java.lang.OutOfMemoryError: Java heap space\n\tat a.b"), OUT_OF_MEMORY),
        (SparkRuntimeException("[INVALID_DRIVER_MEMORY.SYSTEM_MEMORY] Insufficient driver memory: .."), OUT_OF_MEMORY),
        (MemoryError(), OUT_OF_MEMORY),
        (SparkRuntimeException("Job aborted: ExecutorLostFailure (executor 3 exited): Command exited with code 52"), EXECUTORS_LOST),
        (SparkRuntimeException("Job aborted: MetadataFetchFailedException: Missing an output location\n\tat a.b"), EXECUTORS_LOST),
        (Py4JNetworkError("Answer from Java side is empty"), JAVA_ENDED),
        (ConnectionRefusedError(111, "Connection refused"), JAVA_ENDED),
        (Py4JError("org.apache.spark.sql.classic.SparkSession does not exist in the JVM"), JAVA_ENDED),
        (SparkRuntimeException("Job 8 cancelled because SparkContext was shut down"), JAVA_ENDED),
    ],
)
def test_what_the_user_can_help_is_one_line(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, line: str
) -> None:
    ended(spark, tmp_path, monkeypatch, error)
    assert capsys.readouterr().err == f"job: {line}\n"


def test_java_that_ends_with_the_text_of_the_error_is_one_line(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopping = ConnectionRefusedError(111, "Connection refused")  # of the session, which is stopped because of the first error
    stopping.__context__ = OutOfReach()
    ended(spark, tmp_path, monkeypatch, stopping)
    assert capsys.readouterr().err == f"job: {JAVA_ENDED}\n"
    assert reason_of(OutOfReach()) is None


def test_a_defect_of_a_job_shows_where_it_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended(spark, tmp_path, monkeypatch, KeyError("law"))
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.endswith("job: stopped by an error of its own: KeyError\n")
