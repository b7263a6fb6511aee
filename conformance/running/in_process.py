"""Cases against the reference broker inside this process, in virtual time: minutes of protocol take seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from conformance.judging.results import RunLog
from conformance.running.runner import Options, Silent, run_suite
from conformance.suite import Suite
from conformance.targets import parse_target
from refimpl.net.virtual_time import VirtualTimeLoop


def run_in_process(suite: Suite, select: Sequence[str] = (), profile: str = "default", brokers: int = 1) -> RunLog:
    """Run cases against the reference broker.

    Args:
        suite: All cases.
        select: Globs for the names of cases; none: all.
        profile: Of the broker and of the cases.
        brokers: Of how many brokers the cluster is.

    Returns:
        The log of the run, with the same names and the same order of events every time.
    """
    run, _ = _run(suite, profile, brokers, Options(select=select, profile=profile, seed=1))
    return run


def answer_like(suite: Suite, recorded: RunLog) -> RunLog:
    """Replay the actions of a recording against the reference broker, with the names and seeds of the recording.

    Raises:
        RuntimeError: The run ended early, and why.
    """
    cases = sorted({trial_log.begin.case for trial_log in recorded.trial_logs.values()})
    run, stopped = _run(suite, "default", 1, Options(select=cases, seed=recorded.header.seed, like=recorded))
    if stopped is not None:
        raise RuntimeError(stopped)
    return run


def _run(suite: Suite, profile: str, brokers: int, options: Options) -> tuple[RunLog, str | None]:
    name = "in-process" if profile == "default" else f"in-process@{profile}"
    target = parse_target(name if brokers == 1 else f"{name}?brokers={brokers}")
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(run_suite(suite, target, options, lambda _: None, Silent()))
