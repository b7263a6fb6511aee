"""A master and its workers, started through `bin/spark-class` of the installed PySpark, on free ports of 127.0.0.1."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pyspark

from conformance.corpus.cluster.environment import NAME, Environment
from conformance.corpus.session import LOGGING, SHARE_OF_ROWS, bounds, check
from conformance.targets.process import free_ports, poll_until, supervised

READY_SECONDS = 120.0
STOP_SECONDS = 10.0
SPARK_HOME = Path(pyspark.__file__).parent


@dataclass(frozen=True)
class Size:
    """How large a cluster is.

    Attributes:
        workers: Number of workers.
        cores: Of each worker.
        megabytes: Memory of each worker's executor, in MiB.
    """

    workers: int = 2
    cores: int = 1
    megabytes: int = 1024


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    Attributes:
        url: Of its master, `spark://127.0.0.1:PORT`.
        size: How large it is.
        environment: The variables that Spark's programs are started with.
    """

    url: str
    size: Size
    environment: Mapping[str, str] = field(repr=False)

    async def submit(self, job: Path, arguments: Sequence[str], packed: Environment) -> int:
        """Run a job through `spark-submit` in client mode: the driver is here, the rows are at the workers.

        Args:
            job: Its file.
            arguments: Its command line; paths in it have to be absolute, since the job has a working folder of its own.
            packed: The environment.

        Returns:
            Its exit code.
        """
        bounded = bounds(int(self.size.megabytes * SHARE_OF_ROWS) // self.size.cores)
        command = [
            *(str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.url, "--deploy-mode", "client"),
            *("--archives", f"{packed.archive}#{NAME}"),
            *("--executor-memory", f"{self.size.megabytes}m", "--driver-memory", f"{self.size.megabytes}m"),
            *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"),
            *("--conf", "spark.ui.showConsoleProgress=false"),
            *("--driver-java-options", LOGGING),
            *("--conf", f"spark.sql.shuffle.partitions={self.size.workers * self.size.cores}"),
            *(part for name, value in bounded.items() for part in ("--conf", f"{name}={value}")),
            *(str(job), *arguments),
        ]
        environment = {**self.environment, "PYSPARK_PYTHON": f"./{NAME}/bin/python", "PYSPARK_DRIVER_PYTHON": sys.executable}
        with tempfile.TemporaryDirectory(prefix="pulsar-conformance-driver-") as folder:
            (Path(folder) / NAME).symlink_to(packed.home)
            process = await asyncio.create_subprocess_exec(*command, cwd=folder, env=environment)
            try:
                return await process.wait()
            except asyncio.CancelledError:
                process.terminate()
                await process.wait()
                raise


@asynccontextmanager
async def standalone_cluster(size: Size = Size()) -> AsyncIterator[Cluster]:
    """Start a cluster; it is stopped when the block is left.

    Args:
        size: Its size.

    Raises:
        SparkError: Spark can't be used here.
        TargetError: A process does not start; the message has the last lines of its log.
    """
    environment = _environment(await asyncio.to_thread(check, size.workers * size.megabytes))
    work = Path(tempfile.mkdtemp(prefix="pulsar-conformance-spark-"))
    port, *web = free_ports(2 + size.workers)
    url = f"spark://127.0.0.1:{port}"
    try:
        async with AsyncExitStack() as stack:

            async def start(name: str, arguments: Sequence[str], web_port: int) -> None:
                folder = work / name
                folder.mkdir()
                command = [str(SPARK_HOME / "bin" / "spark-class"), *arguments[:1], "--webui-port", str(web_port), *arguments[1:]]
                one = supervised(command, log=folder / "log", cwd=folder, grace_seconds=STOP_SECONDS, environment=environment)
                child = await stack.enter_async_context(one)
                await poll_until(lambda: _answers(web_port), seconds=READY_SECONDS, what=f"Spark's {name}", child=child)

            await start("master", ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)], web[0])
            for number in range(size.workers):
                options = ["--host", "127.0.0.1", "--cores", str(size.cores), "--memory", f"{size.megabytes}m", "--work-dir", "."]
                await start(f"worker-{number + 1}", ["org.apache.spark.deploy.worker.Worker", *options, url], web[1 + number])
            await poll_until(lambda: _has_workers(web[0], size.workers), seconds=READY_SECONDS, what="Spark's cluster")
            yield Cluster(url, size, environment)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _environment(java: Path) -> Mapping[str, str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    own = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_JAVA_OPTS": LOGGING, "SPARK_DAEMON_MEMORY": "256m"}
    return {**inherited, **own, "JAVA_HOME": str(java.resolve().parents[1])}


async def _answers(port: int) -> bool:
    return await _state(port) is not None


async def _has_workers(port: int, count: int) -> bool:
    state = await _state(port)
    return state is not None and state.get("aliveworkers") == count


async def _state(port: int) -> Mapping[str, object] | None:
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/json/") as answer:
            found: Mapping[str, object] = await answer.json(content_type=None)
            return found
    except (aiohttp.ClientError, OSError, ValueError):
        return None
