"""What a job is, and what all jobs have in common: command line, progress, result and exit code.

A job checks laws. Its module in `jobs` says, in this order: its laws, options of its own (`add_options`), what can be seen to be wrong with
them before Spark starts (`look`), and what it does (`check`); then `JOB`, which is what is started.

It exits with 0 if none is broken, with 1 if one is, and with 2 if it could not be run or nothing was checked. A corpus need not have what
each law speaks of: one without encrypted messages says nothing of them, and the law is shown as `nothing`. The result is one JSON
file, which appears when it is complete and never in part.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance import __version__
from conformance.corpus.errors import CorpusError, SparkError, reason_of
from conformance.corpus.laws import Law, Outcome
from conformance.corpus.session import MEGABYTES, is_submitted, spark_session
from conformance.files import write_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOLD, BROKEN, NOT_RUN = 0, 1, 2


@dataclass(frozen=True)
class Findings:
    """The result of a job: what came out for its laws, and further numbers (`counters`: any JSON)."""

    laws: Sequence[Outcome]
    counters: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Run:
    """The context of a job.

    Attributes:
        spark: The session.
        options: The command line.
        timings: Seconds of each part that was timed.
    """

    spark: SparkSession
    options: argparse.Namespace
    timings: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Announce that a part has begun, and time it."""
        print(f"{name} ..", file=sys.stderr, flush=True)
        began = time.perf_counter()
        yield
        self.timings[name] = round(time.perf_counter() - began, 3)
        print(f"{name}: {self.timings[name]:.1f} s", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Job:
    """One job.

    Attributes:
        name: Its module's, which is how it is started.
        text: What it checks, for the help.
        laws: All that it may check, in the order of the result.
        check: Does it.
        add_options: Adds options of its own to the common ones.
        look: Looks at the files that the options name, before Spark starts; raises `CorpusError`.
        reads_frames: Whether it reads captures frame by frame, and so leaves nothing of them out.
    """

    name: str
    text: str
    laws: Sequence[Law]
    check: Callable[[Run], Findings]
    add_options: Callable[[argparse.ArgumentParser], None] = lambda _: None
    look: Callable[[argparse.Namespace], None] = lambda _: None
    reads_frames: bool = False

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run it as a program; return the exit code."""
        options = self.parser().parse_args(arguments)
        try:
            check_common(options)
            self.look(options)
            with spark_session(self.name, cores=options.cores, megabytes=options.memory) as spark:
                run = Run(spark, options)
                began = time.perf_counter()
                findings = self.check(run)
                without = self._left_out(run)
                result = self._result(run, findings, time.perf_counter() - began, without)
        except SparkError as error:
            print(f"{self.name}: {error}", file=sys.stderr)
            return NOT_RUN
        except Exception as error:
            reason = reason_of(error)
            if reason is None:
                traceback.print_exc()  # a defect of the job, which must not be taken for a broken law
            print(f"{self.name}: {reason or f'stopped by an error of its own: {type(error).__name__}'}", file=sys.stderr)
            return NOT_RUN
        write_result(options.result, result)
        for law in findings.laws:
            print(f"{law.verdict:7} {law.name}: {law.broken:,} of {law.checked:,} break it. {law.text}")
            for example in law.examples[:3]:
                print(f"       {json.dumps(example, ensure_ascii=False)}")
        for corpus, counts in without.items():
            print(f"left out of {corpus}: {', '.join(f'{count:,} {what}' for what, count in counts.items())}")
        print(f"result {options.result}")
        if not any(law.checked for law in findings.laws):
            print(f"{self.name}: nothing was checked: the corpus has nothing of which a law speaks", file=sys.stderr)
            return NOT_RUN
        return BROKEN if any(law.broken for law in findings.laws) else HOLD

    def parser(self) -> argparse.ArgumentParser:
        """Return the parser of its command line."""
        parser = argparse.ArgumentParser(prog=f"python -m conformance.corpus.jobs.{self.name}", description=self.text)
        parser.add_argument("--rows", type=int, default=100_000, help="rows of a synthetic corpus (%(default)s)")
        parser.add_argument("--seed", type=int, default=1, help="of everything that is drawn (%(default)s)")
        parser.add_argument("--cores", type=int, help="cores of this machine to use; a cluster decides by itself")
        parser.add_argument("--memory", type=int, default=MEGABYTES, help="MiB for the driver (%(default)s); a cluster decides by itself")
        parser.add_argument(
            "--result", type=Path, default=Path("reports/corpus") / f"{self.name}.json", help="where the result goes (%(default)s)"
        )
        self.add_options(parser)
        return parser

    def _left_out(self, run: Run) -> dict[str, dict[str, int]]:
        """Count what captures have besides the topics and messages in them."""
        if self.reads_frames or not any(str(value).startswith("capture:") for value in vars(run.options).values()):
            return {}
        from conformance.corpus.corpora import left_out  # noqa: PLC0415

        with run.part("count what is left out"):
            return left_out(run.spark, run.options)

    def _result(self, run: Run, findings: Findings, seconds: float, without: Mapping[str, Any]) -> dict[str, Any]:
        options = {name: value for name, value in vars(run.options).items() if name not in ("result", "seed")}
        return {
            "job": self.name,
            "holds": any(law.holds for law in findings.laws) and not any(law.broken for law in findings.laws),
            "laws": [{**asdict(law), "holds": law.holds} for law in findings.laws],
            "counters": findings.counters,
            **({"left out": without} if without else {}),
            "options": {name: str(value) if isinstance(value, Path) else value for name, value in options.items()},
            "seed": run.options.seed,
            "versions": {
                "suite": __version__,
                "spark": run.spark.version,
                "python": platform.python_version(),
                "cluster": is_submitted(),
                "cores": run.spark.sparkContext.defaultParallelism,
            },
            "seconds": {**run.timings, "all": round(seconds, 3)},
        }


def check_common(options: argparse.Namespace) -> None:
    """Check the options of all jobs before there is anything to lose.

    Raises:
        CorpusError: One can't be used.
    """
    for name, least in (("rows", 0), ("seed", 0), ("cores", 1)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise CorpusError(f"--{name} is at least {least}, not {value}")
    for name, value in vars(options).items():
        if isinstance(value, str | Path) and not str(value).isprintable() and any("\ud800" <= one <= "\udfff" for one in str(value)):
            raise CorpusError(f"--{name.replace('_', '-')} {value}: is not UTF-8, which Spark needs")
    folder = next(one for one in (options.result, *options.result.parents) if one.exists())
    if options.result.is_dir() or (folder != options.result and not folder.is_dir()) or not os.access(folder, os.W_OK):
        raise CorpusError(f"--result {options.result}: no file can be written there")


def write_result(path: Path, result: Mapping[str, Any]) -> None:
    """Write a result atomically: a reader sees the old one, or all of the new one."""
    write_whole(path, (json.dumps(result, indent=1, ensure_ascii=False) + "\n").encode())
