"""All laws on all corpora, one job after the other: `python -m conformance.corpus.jobs --rows 10000000`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.corpus.job import BROKEN, HOLD, NOT_RUN
from conformance.corpus.session import MEGABYTES


@dataclass(frozen=True)
class Planned:
    """A run.

    Attributes:
        options: Of the job.
        part: It gets one in this many rows: a job that reads them very often would take days.
    """

    options: Sequence[str] = ()
    part: int = 1


RUNS: Mapping[str, Planned] = {
    "round_trip": Planned(),
    "conversations_hold": Planned(),
    "filtering_agrees-jars": Planned(["--corpus", "jars"]),
    "filtering_agrees-synthetic": Planned(["--corpus", "synthetic", "--patterns", "30"]),
    "hashes_agree-jars": Planned(["--corpus", "jars"]),
    "hashes_agree-synthetic": Planned(["--corpus", "synthetic"]),
    "batches_agree-jars": Planned(["--corpus", "jars"]),
    "batches_agree-synthetic": Planned(["--corpus", "synthetic", "--settings", "2", "--distributions", "0"]),
    "batches_agree-sweep": Planned(["--corpus", "synthetic"], part=10),
    "replay_watches": Planned(),
}
"""The runs: the name of a job, and behind a hyphen what it is run on."""


def main() -> int:
    """Run them; return 0 if every law holds, 1 if one is broken, 2 if one could not be checked."""
    parser = argparse.ArgumentParser(prog="python -m conformance.corpus.jobs", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the synthetic corpora (%(default)s)")
    parser.add_argument("--memory", type=int, default=MEGABYTES, help="MiB for Spark's driver (%(default)s)")
    parser.add_argument("--results", type=Path, default=Path("reports/corpus"), help="folder for the results (%(default)s)")
    parser.add_argument("runs", nargs="*", choices=[*RUNS, []], metavar="RUN", help=f"which; all if none is named: {', '.join(RUNS)}")
    options = parser.parse_args()
    codes = []
    for name in options.runs or RUNS:
        result = options.results / f"{name}.json"
        result.unlink(missing_ok=True)
        planned = RUNS[name]
        common = ["--rows", str(max(1, options.rows // planned.part)), "--memory", str(options.memory), "--result", str(result)]
        print(f"== {name}", flush=True)
        began = time.monotonic()
        job = f"conformance.corpus.jobs.{name.partition('-')[0]}"
        done = subprocess.run([sys.executable, "-m", job, *planned.options, *common], check=False)
        codes.append(done.returncode)
        print(f"   {_outcome(done.returncode, result)}, {time.monotonic() - began:.0f} s", flush=True)
    return NOT_RUN if set(codes) - {HOLD, BROKEN} else max(codes)


def _outcome(code: int, result: Path) -> str:
    if code not in (HOLD, BROKEN):
        return f"could not be run (exit code {code})"
    laws = json.loads(result.read_text(encoding="utf-8"))["laws"]
    silent = ", ".join(law["name"] for law in laws if not law["checked"])
    return f"{sum(law['holds'] for law in laws)} of {len(laws)} laws hold" + (f", nothing to check for {silent}" if silent else "")


if __name__ == "__main__":
    sys.exit(main())
