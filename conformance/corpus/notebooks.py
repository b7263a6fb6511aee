"""Spark for notebooks: a session that writes nothing into their cells, and counts that several cells share."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from conformance.corpus.filtering.comparing import INSIDE, Comparison
from conformance.corpus.session import spark_session
from conformance.corpus.sources.jar_topics import jar_folder

_STANDARD_ERROR = 2
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Over few rows Spark compiles, and plans again, for longer than it works."""
_running = ExitStack()


def start(cores: int = 2) -> SparkSession:
    """Start Spark for the cells that follow, until `stop`.

    What Java and the workers of Spark write to standard error is kept out of the cells: it would depend on the machine, and come at any
    time. If the start fails, it is shown. What fails later is an exception, as everywhere.

    Args:
        cores: How many cores of this machine are used.

    Raises:
        SparkError: Something is missing that Spark needs.
    """
    stop()
    with _standard_error_kept():
        return _running.enter_context(spark_session("notebook", cores=cores, settings=_INTERPRETED, short=True))


def some_jars(pattern: str) -> str:
    """Return a corpus of some of PySpark's jars, which takes less time than all; it is there until `stop`.

    Args:
        pattern: For their names, with `*`.
    """
    folder = Path(_running.enter_context(tempfile.TemporaryDirectory(prefix="jars-")))
    for jar in jar_folder("").glob(pattern):
        (folder / jar.name).symlink_to(jar)
    return f"jars:{folder}"


def stop() -> None:
    """Stop what `start` started; nothing if that was done already."""
    _running.close()


def parted(comparison: Comparison, formulation: str) -> tuple[int, int]:
    """Count where a formulation differs from the reference.

    Args:
        comparison: From `compare`.
        formulation: Its name.

    Returns:
        Disagreements in the dialect, and outside of it; there a pair counts once for each class that it is of.
    """
    found = [one for one in comparison.found if one.formulation == formulation]
    within = sum(one.count for one in found if one.class_name == INSIDE)
    return within, sum(one.count for one in found) - within


@contextmanager
def _standard_error_kept() -> Iterator[None]:
    """Let what this process starts inherit a file as standard error; show what is in it if that fails."""
    sys.stderr.flush()
    before = os.dup(_STANDARD_ERROR)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), _STANDARD_ERROR)
        failed = True
        try:
            yield
            failed = False
        finally:
            os.dup2(before, _STANDARD_ERROR)
            os.close(before)
            if failed:
                kept.seek(0)
                sys.stderr.write(kept.read().decode(errors="replace"))
