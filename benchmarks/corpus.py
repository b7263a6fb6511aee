"""Measures the filters of the Spark side: rows per second and core of each formulation, beside a pipeline without Spark and a plain UDF.

All read the column `topic` of the same Parquet, and count the topics that a subscription's pattern fits: domain, partition's number and
system topics are dealt with, too. Spark has one core, then two; its start is not counted, the start of its Python workers is.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow.compute as pc
import pyarrow.parquet as pq
from figures import row, seconds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from conformance.corpus.filtering import arrow
from conformance.corpus.filtering.dialect import ARROW, REFERENCE, SQL
from conformance.corpus.filtering.formulations import FORMULATIONS
from conformance.corpus.filtering.patterns import pattern_set
from conformance.corpus.filtering.rules import MatchesAny
from conformance.corpus.session import spark_session
from refimpl.proposals.topic_list_rules import is_system_topic, matched_name
from refimpl.proposals.topic_patterns import compile_pattern

MILLION = 1_000_000
SIZES = (MILLION, 10 * MILLION)
LARGE = 50 * MILLION
ROUNDS = 3
PATTERN = "tenant-0/ns-[0-3]/.*order.*-\\d*[05]"
RULE = MatchesAny(pattern_set([PATTERN]))

Measured = dict[tuple[str, int, int], list[float]]
"""Seconds by what was measured, number of rows and number of cores."""


def measure(large: bool) -> None:
    """Measure everything; `large`: the fastest formulation over 50 million rows as well."""
    folder = Path(tempfile.mkdtemp(prefix="pulsar-conformance-bench-"))
    try:
        sizes = [*SIZES, LARGE] if large else list(SIZES)
        files = _written(folder, sizes)
        measured: Measured = {}
        for cores in (1, 2):
            with spark_session("bench", cores=cores) as spark:
                _with_spark(spark, files, cores, measured)
        for size in SIZES:
            measured["pipeline", size, 1] = [seconds(lambda size=size: _pipeline(files[size])) for _ in range(ROUNDS)]
        _print(measured)
        if large:
            _print_large(files[LARGE], measured)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _written(folder: Path, sizes: list[int]) -> dict[int, Path]:
    files = {size: folder / f"{size}.parquet" for size in sizes}
    with spark_session("bench", cores=2) as spark:
        for size, path in files.items():
            topics = spark.read.format("synthetic_topics").option("rows", size).option("partitions", max(2, size // MILLION)).load()
            topics.select("topic").write.parquet(str(path))
    return files


def _with_spark(spark: SparkSession, files: dict[int, Path], cores: int, measured: Measured) -> None:
    """Measure each formulation in turn, round after round; the first round of each is not counted."""
    expected = {size: _pipeline(files[size]) for size in SIZES}
    for size in SIZES:
        rounds = ROUNDS if size == MILLION else 1
        works: dict[str, Callable[[DataFrame], int]] = {
            SQL: lambda frame: _count(frame, SQL),
            ARROW: lambda frame: _count(frame, ARROW),
            REFERENCE: lambda frame: _count(frame, REFERENCE),
        }
        if size == MILLION:
            works["plain UDF"] = _with_udf
        for number in range(rounds + (size == MILLION)):
            for name, work in works.items():
                found = 0

                def run(work: Callable[[DataFrame], int] = work, size: int = size) -> None:
                    nonlocal found
                    found = work(spark.read.parquet(str(files[size])))

                took = seconds(run)
                assert found == expected[size], f"{name} counts {found}, the pipeline {expected[size]}"
                if number or size > MILLION:
                    measured.setdefault((name, size, cores), []).append(took)


def _count(frame: DataFrame, formulation: str) -> int:
    return FORMULATIONS[formulation](frame, RULE, "fits").where("fits").count()


def _with_udf(frame: DataFrame) -> int:
    pattern = compile_pattern(PATTERN)

    @F.udf("boolean", useArrow=False)
    def fits(topic: str) -> bool:
        return not is_system_topic(topic) and pattern.matches(matched_name(topic))

    return frame.where(fits("topic")).count()


def _pipeline(path: Path) -> int:
    """Count with pyarrow alone, in one thread: what the hardware allows."""
    evaluate = arrow.column(RULE)
    found = 0
    for part in sorted(path.glob("*.parquet")):
        for batch in pq.ParquetFile(part).iter_batches(batch_size=65_536, columns=["topic"], use_threads=False):
            found += pc.sum(evaluate(batch)).as_py() or 0
    return found


def _print(measured: Measured) -> None:
    per_core = {key: key[1] / statistics.median(times) / key[2] for key, times in measured.items()}
    for (name, size, cores), rate in sorted(per_core.items(), key=lambda one: (one[0][1], one[0][2], -one[1])):
        remark = f"rows/s/core, {size // MILLION} million rows, {cores} {'core' if cores == 1 else 'cores'}"
        row("corpus", f"{rate:,.0f}", f"{name}: {remark}")
    for size in SIZES:
        fastest = max((name for name in (SQL, ARROW)), key=lambda name: per_core[name, size, 1])
        ratio = per_core["pipeline", size, 1] / per_core[fastest, size, 1]
        row("corpus", f"{ratio:.1f} times", f"the pipeline against {fastest}, one core, {size // MILLION} million rows (goal: at most 3)")
        scaled = statistics.median(measured[fastest, size, 1]) / statistics.median(measured[fastest, size, 2])
        row("corpus", f"{scaled:.2f} times", f"two cores against one, {fastest}, {size // MILLION} million rows (goal: at least 1.7)")
    for cores in (1, 2):
        ratio = per_core[ARROW, MILLION, cores] / per_core["plain UDF", MILLION, cores]
        row("corpus", f"{ratio:.1f} times", f"{ARROW} against a plain UDF, {cores} cores (goal: at least 5)")
    for name in (SQL, ARROW, REFERENCE):
        small, big = (statistics.median(measured[name, size, 2]) for size in SIZES)
        row("corpus", f"{big / small:.1f} times", f"{name}: time of ten times the rows, two cores (10 is linear; less: the start weighs)")


def _print_large(path: Path, measured: Measured) -> None:
    fastest = min((SQL, ARROW), key=lambda name: measured[name, SIZES[-1], 2][0])
    with spark_session("bench", cores=2) as spark, _largest_memory() as peak:
        took = seconds(lambda: _count(spark.read.parquet(str(path)), fastest))
    remark = f"rows/s/core, 50 million rows, 2 cores, at most {max(peak):,.0f} MiB in all processes"
    row("corpus", f"{LARGE / took / 2:,.0f}", f"{fastest}: {remark}")


@contextmanager
def _largest_memory() -> Iterator[list[float]]:
    """Watch the memory of this process and all below it, in MiB."""
    seen, ended = [0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.5):
            total = 0
            for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            seen.append(total / 2**20)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()
