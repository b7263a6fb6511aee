"""Starts Spark, or says in one line what is missing.

Under `spark-submit` master, memory and environment are the cluster's; otherwise it runs in this process, on as many cores as asked for.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.corpus.errors import SparkError
from conformance.java import JavaError, find_java

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MEGABYTES = 2048
"""What the driver gets if nothing else is said, in MiB: enough for all jobs over 10 million rows on two cores."""
SHARE_OF_ROWS = 0.4
"""So much of it is for rows that are sorted, joined or grouped, outside of Java's heap: only there they can't crowd out what Java needs."""
OVERHEAD_MEGABYTES = 512
"""What Java and the Python workers take besides, in MiB."""
PACKAGES: Mapping[str, str] = {"pyspark": "PySpark", "pyarrow": "pyarrow", "pandas": "pandas", "numpy": "NumPy"}
"""What the extra `spark` installs, as it is imported and as it is called."""
INSTALL = "pip install 'pulsar-conformance[spark]'"
LOGGING = f"-Dlog4j2.configurationFile=file:{Path(__file__).parent / 'log4j2.properties'}"
"""Tells Java where it reads what Spark may log."""
REGIONS = "-XX:G1HeapRegionSize=4m"
"""Tells Java to divide its heap so that buffers of 1 MiB take no more than that: sorts have one for each file that they spilled."""
SHORT = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""Tells Java to compile quickly, not well: in sessions of a minute or two it compiles for longer than it works. Without the better compiler
the room for compiled code would be 48 MiB, and when that is full Java says so in the output. Nor are the classes of Spark's own jars
verified when they are loaded: thousands are, before the first row is seen."""
_SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.variant.allowDuplicateKeys": "true",  # the last one counts, as for other readers of JSON
}
_LOCAL: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.daemon.module": "conformance.corpus.daemon",
    "spark.unsafe.sorter.spill.read.ahead.enabled": "false",  # its buffers are not counted as memory of the sort
    "spark.memory.offHeap.enabled": "true",
    "spark.io.compression.codec": "lzf",  # all Java: while native ones work, Java can't collect, and says too soon that memory is out
}


@contextmanager
def spark_session(
    name: str, *, cores: int | None = None, megabytes: int = MEGABYTES, settings: Mapping[str, str] | None = None, short: bool = False
) -> Iterator[SparkSession]:
    """Start Spark for the length of a block, with the data sources of this package.

    Args:
        name: Name of the run.
        cores: How many cores are used in this process; None: all. Ignored on a cluster.
        megabytes: Memory of the driver in MiB. Ignored on a cluster.
        settings: Spark's own settings, on top of those that suit this package.
        short: Whether little is done in the session, so that it should get going quickly. A cluster decides by itself.

    Raises:
        SparkError: Spark is not installed, Java is missing or too old, or there is not enough memory.
    """
    java = check(megabytes)
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from conformance.corpus.sources import register_all  # noqa: PLC0415

    builder: SparkSession.Builder = SparkSession.builder.appName(name)
    chosen = {**_SETTINGS, **(settings or {})}
    if not is_submitted():
        os.environ["JAVA_HOME"] = str(java.resolve().parents[1])
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise the workers are whatever python3 is on the path
        outside = int(megabytes * SHARE_OF_ROWS)
        cores = cores or os.cpu_count() or 1
        chosen = {
            **_LOCAL,
            "spark.driver.memory": f"{megabytes - outside}m",
            "spark.memory.offHeap.size": f"{outside}m",
            "spark.driver.extraJavaOptions": " ".join((LOGGING, REGIONS, *([SHORT] if short else ()))),
            "spark.sql.shuffle.partitions": str(cores),
            **bounds(outside // cores),
            **chosen,
        }
        builder = builder.master(f"local[{cores}]")
    for key, value in chosen.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        register_all(spark)
        yield spark
    finally:
        spark.stop()


def bounds(megabytes: int) -> dict[str, str]:
    """Return settings that bound what sorts and windows take, so that several of them fit into one task.

    Spark can't make a sort spill that still takes rows. Without a bound it takes all there is, and the window that it reads from fails.

    Args:
        megabytes: What a task has for rows, in MiB.
    """
    return {
        "spark.buffer.pageSize": "1m",
        "spark.shuffle.spill.maxSizeInBytesForSpillThreshold": f"{max(4, megabytes // 4)}m",
        "spark.sql.windowExec.buffer.spill.size.threshold": f"{max(2, megabytes // 16)}m",
    }


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a table as a frame, with all its rows: behind a chunk without rows `createDataFrame` loses rows, or its memory."""
    batches = [batch for batch in table.to_batches() if batch.num_rows]
    return spark.createDataFrame(table.from_batches(batches) if batches else table.schema.empty_table())


def is_submitted() -> bool:
    """Tell whether `spark-submit` started this program."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def check(megabytes: int = MEGABYTES) -> Path:
    """Look for what Spark needs.

    Args:
        megabytes: Memory of the driver in MiB.

    Returns:
        The Java that it will use.

    Raises:
        SparkError: Something is missing.
    """
    check_installed()
    try:
        with ThreadPoolExecutor(1) as thread:  # in a notebook this thread has an event loop already
            java = thread.submit(lambda: asyncio.run(find_java("Spark"))).result()
    except JavaError as error:
        raise SparkError(error.message, hint=error.hint) from None
    free = available_megabytes()
    if free is not None and not is_submitted() and free < megabytes + OVERHEAD_MEGABYTES:
        raise SparkError(
            f"Spark needs {megabytes + OVERHEAD_MEGABYTES} MiB of memory, and {free} MiB are free",
            hint="free some, or give less with --memory",
        )
    return java.program


def check_installed() -> None:
    """Look for the packages of the extra `spark`, without importing them.

    Raises:
        SparkError: One is missing.
    """
    missing = [name for package, name in PACKAGES.items() if find_spec(package) is None]
    if missing:
        raise SparkError(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed", hint=INSTALL)


def end_without_packages() -> None:
    """End a program of this package with one line, before it imports what is not there; what is imported otherwise goes on."""
    if sys.argv[0] != "-m":  # which it is while the packages around a program are imported
        return
    try:
        check_installed()
    except SparkError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


def available_megabytes() -> int | None:
    """Return the free memory in MiB; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    free = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if free is None else int(free) // 1024
