"""Run jobs on a standalone cluster of this machine: `python -m conformance.corpus.cluster [--workers 2] JOB [options of the job]`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from conformance.corpus.cluster.environment import ROOT, pack
from conformance.corpus.cluster.standalone import Size, standalone_cluster
from conformance.corpus.errors import SparkError
from conformance.corpus.job import NOT_RUN
from conformance.targets import TargetError

JOBS = Path(__file__).parents[1] / "jobs"


def main() -> int:
    """Pack the environment, start the cluster, run one job; return its exit code."""
    known = sorted(path.stem for path in JOBS.glob("[!_]*.py"))
    parser = argparse.ArgumentParser(prog="python -m conformance.corpus.cluster", description=__doc__)
    parser.add_argument("--workers", type=int, default=Size.workers, help="number of workers (%(default)s)")
    parser.add_argument("--worker-cores", type=int, default=Size.cores, help="cores of each worker (%(default)s)")
    parser.add_argument("--worker-memory", type=int, default=Size.megabytes, help="MiB of each worker (%(default)s)")
    parser.add_argument("--environments", type=Path, default=ROOT / "build" / "spark", help="where packed environments are kept")
    parser.add_argument("job", choices=known, help="what to run")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="of the job")
    arguments = parser.parse_args()
    size = Size(arguments.workers, arguments.worker_cores, arguments.worker_memory)
    try:
        return asyncio.run(_run(JOBS / f"{arguments.job}.py", _absolute(arguments.job, arguments.options), size, arguments.environments))
    except (SparkError, TargetError) as error:
        print(f"cluster: {error}", file=sys.stderr)
        return NOT_RUN


def _absolute(job: str, options: list[str]) -> list[str]:
    """Make paths absolute: existing files, and the path of the result."""
    given = options if "--result" in options else [*options, "--result", f"reports/corpus/{job}.json"]
    before = ["", *given[:-1]]
    return [str(Path(one).absolute()) if flag == "--result" or Path(one).exists() else one for flag, one in zip(before, given, strict=True)]


async def _run(job: Path, options: list[str], size: Size, environments: Path) -> int:
    environments.mkdir(parents=True, exist_ok=True)
    print("packing the environment ..", file=sys.stderr)
    packed = await asyncio.to_thread(pack, environments)
    print(f"starting a master and {size.workers} workers ..", file=sys.stderr)
    async with standalone_cluster(size) as cluster:
        return await cluster.submit(job, options, packed)


if __name__ == "__main__":
    sys.exit(main())
