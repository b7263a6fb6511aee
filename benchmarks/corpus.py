"""Measures the filters of the Spark side: rows per second and core of each formulation, beside a pipeline without Spark and a plain UDF.

All read the column `topic` of the same Parquet, and count the topics that a subscription's pattern fits: domain, partition's number and
system topics are dealt with, too. Spark has one core, then two; in a cluster one worker with one core, then two of them. Everything is
kept to so many processors, since Java and Python would share the work of one task between two. The start of Spark is not counted, that of
its Python workers is. Each part has a process of its own, for Java ends with it, and not before.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil
import pyarrow.compute as pc
import pyarrow.parquet as pq
from figures import row, seconds
from matplotlib.figure import Figure
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from conformance.corpus.cluster.environment import ROOT, pack
from conformance.corpus.cluster.standalone import Size, standalone_cluster
from conformance.corpus.filtering import arrow
from conformance.corpus.filtering.dialect import ARROW, REFERENCE, SQL
from conformance.corpus.filtering.formulations import FORMULATIONS
from conformance.corpus.filtering.patterns import pattern_set
from conformance.corpus.filtering.rules import MatchesAny
from conformance.corpus.session import spark_session
from refimpl.names import is_system_topic
from refimpl.proposals.topic_list.rules import matched_name

MILLION = 1_000_000
SIZES = (MILLION, 10 * MILLION)
LARGE = 50 * MILLION
WARM_UP = 3
"""Warm-up rounds over a million rows, in which Java compiles the code."""
ROUNDS = 4
"""Measured rounds; row by row, ten million rows take only one."""
ENVIRONMENTS = ROOT / "build" / "spark"
ON_WORKERS = " on workers"
"""Suffix of the names of measurements in a cluster."""
PATTERN = "tenant-0/ns-[0-3]/.*order.*-\\d*[05]"
RULE = MatchesAny(pattern_set([PATTERN]))

Files = dict[int, Path]
"""Parquet by number of rows."""
Measured = dict[tuple[str, int, int], list[float]]
"""Seconds by what was measured, number of rows and number of cores."""


def measure(large: bool, plot: Path | None) -> None:
    """Measure everything.

    Args:
        large: The fastest formulation over 50 million rows as well.
        plot: The file for the plot of time against rows, an SVG; None: no plot.
    """
    folder = Path(tempfile.mkdtemp(prefix="pulsar-conformance-bench-"))
    try:
        sizes = [*SIZES, LARGE] if large else list(SIZES)
        files = {size: folder / f"{size}.parquet" for size in sizes}
        _alone(_write, files)
        measured: Measured = _alone(_without_spark, files)
        for cores in (1, 2):
            measured |= _alone(_with_spark, files, cores)
        for workers in (1, 2):
            measured |= _alone(_with_workers, files, workers)
        _print(measured)
        if large:
            fastest = min((SQL, ARROW), key=lambda name: measured[name, SIZES[-1], 2][0])
            took, megabytes = _alone(_largest, files[LARGE], fastest)
            measured[fastest, LARGE, 2] = [took]
            remark = f"rows/s/core, 50 million rows, 2 cores, at most {megabytes:,.0f} MiB in all processes"
            row("corpus", f"{LARGE / took / 2:,.0f}", f"{fastest}: {remark}")
        if plot is not None:
            _plot(measured, plot)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _alone(work: Callable[..., Any], *arguments: object) -> Any:
    """Run a function in a new process, and return its result."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def _keep_to(cores: int) -> None:
    """Restrict this process and its children to a number of processors."""
    process = psutil.Process()
    process.cpu_affinity(process.cpu_affinity()[:cores])


def _write(files: Files) -> None:
    with spark_session("bench") as spark:
        for size, path in files.items():
            topics = spark.read.format("synthetic_topics").option("rows", size).option("partitions", max(2, size // MILLION)).load()
            topics.select("topic").write.parquet(str(path))


def _without_spark(files: Files) -> Measured:
    _keep_to(1)
    return {("pipeline", size, 1): [seconds(lambda size=size: _pipeline(files[size])) for _ in range(ROUNDS)] for size in SIZES}


def _with_spark(files: Files, cores: int) -> Measured:
    """Measure each formulation in turn, round after round."""
    _keep_to(cores)
    measured: Measured = {}
    expected = {size: _pipeline(files[size]) for size in SIZES}
    works: dict[str, Callable[[DataFrame], int]] = {name: partial(_count, formulation=name) for name in (SQL, ARROW, REFERENCE)}
    with spark_session("bench", cores=cores) as spark:
        for size in SIZES:
            warm_up = WARM_UP if size == MILLION else 0
            for number in range(warm_up + ROUNDS):
                for name, work in (works | ({"plain UDF": _with_udf} if size == MILLION else {})).items():
                    if name == REFERENCE and size > MILLION and number:
                        continue
                    begin = time.perf_counter()
                    found = work(spark.read.parquet(str(files[size])))
                    took = time.perf_counter() - begin
                    assert found == expected[size], f"{name} counts {found}, the pipeline {expected[size]}"
                    if number >= warm_up:
                        measured.setdefault((name, size, cores), []).append(took)
    return measured


def _with_workers(files: Files, workers: int) -> Measured:
    """Measure the same in a cluster, whose workers have one core each; `spark-submit` starts this file, see `_submitted`."""
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    packed = pack(ENVIRONMENTS)
    _keep_to(workers)
    result = files[MILLION].with_name(f"{workers}-workers.json")
    arguments = [str(workers), str(result), *(f"{size}={path}" for size, path in files.items())]

    async def submit() -> int:
        async with standalone_cluster(Size(workers=workers)) as cluster:
            return await cluster.submit(Path(__file__).absolute(), arguments, packed)

    code = asyncio.run(submit())
    assert code == 0, f"spark-submit ended with {code}"
    measured = json.loads(result.read_text(encoding="utf-8"))
    return {(name + ON_WORKERS, size, workers): times for name, size, times in measured}


def _submitted(workers: str, result: str, *files: str) -> None:
    """Measure where `spark-submit` says, and write a list of name, rows and seconds."""
    measured = _with_spark({int(size): Path(path) for size, _, path in (one.partition("=") for one in files)}, int(workers))
    Path(result).write_text(json.dumps([(name, size, times) for (name, size, _), times in measured.items()]), encoding="utf-8")


def _largest(path: Path, formulation: str) -> tuple[float, float]:
    """Count in many rows, with two cores; return the seconds, and the most memory that was taken, in MiB."""
    _keep_to(2)
    with spark_session("bench", cores=2) as spark, _largest_memory() as peak:
        took = seconds(lambda: _count(spark.read.parquet(str(path)), formulation))
    return took, max(peak)


def _count(frame: DataFrame, formulation: str) -> int:
    return FORMULATIONS[formulation](frame, RULE, "fits").where("fits").count()


def _with_udf(frame: DataFrame) -> int:
    """Count with a plain UDF."""
    pattern = re.compile(PATTERN)

    @F.udf("boolean", useArrow=False)
    def fits(topic: str) -> bool:
        return not is_system_topic(topic) and pattern.fullmatch(matched_name(topic)) is not None

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
        for name, of_what in ((fastest, "cores"), (fastest + ON_WORKERS, "workers")):
            scaled = statistics.median(measured[name, size, 1]) / statistics.median(measured[name, size, 2])
            remark = f"two {of_what} against one, {fastest}, {size // MILLION} million rows (goal: at least 1.7)"
            row("corpus", f"{scaled:.2f} times", remark)
    for cores in (1, 2):
        ratio = per_core[ARROW, MILLION, cores] / per_core["plain UDF", MILLION, cores]
        row("corpus", f"{ratio:.1f} times", f"{ARROW} against a plain UDF, {cores} cores (goal: at least 5)")
    for name in (SQL, ARROW, REFERENCE):
        small, big = (statistics.median(measured[name, size, 2]) for size in SIZES)
        row("corpus", f"{big / small:.1f} times", f"{name}: time of ten times the rows, two cores (10 is linear; less: the start weighs)")


def _plot(measured: Measured, path: Path) -> None:
    """Draw how the time grows with the rows: a line that is as steep as the dotted one is linear."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    for name, cores in ((REFERENCE, 2), (ARROW, 2), (SQL, 2), ("pipeline", 1)):
        points = sorted((size, statistics.median(times)) for (one, size, on), times in measured.items() if (one, on) == (name, cores))
        axes.loglog(*zip(*points, strict=True), marker="o", label=f"{name}, {cores} {'core' if cores == 1 else 'cores'}")
    axes.loglog([MILLION, LARGE], [0.1, 0.1 * LARGE / MILLION], ":", color="grey", label="linear")
    axes.set(xlabel="rows", ylabel="seconds", title="One pattern against the names of topics")
    axes.legend()
    figure.savefig(path, metadata={"Date": None, "Creator": None})


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


if __name__ == "__main__":
    _submitted(*sys.argv[1:])
