"""Clients that only connect, connect twice, end at once or talk nonsense: each case comes to its end, and none passes, whatever the driver says."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from conformance.clients.in_process import MemoryDriver
from conformance.clients.known import IN_PROCESS
from conformance.clients.runner import run_clients
from conformance.engine import log
from conformance.engine.verdict import Verdict
from conformance.judging.results import RunLog, judge_log
from conformance.running.runner import Options, Silent
from conformance.suite import Suite
from refimpl.net.virtual_time import VirtualTimeLoop
from tests.fakes.raw_client import WAYS, RawDriver

SELECTED = [
    *("core/client/producer-closed", "core/client/highest-sequence", "core/client/no-flags", "core/client/unknown-flags"),
    *(
        "core/client/send-timeout",
        "pip145/client/closes*",
        "pip191/client/refused*",
        "pr7629/client/needs-flag",
        "pr7629/client/refused",
        "pr25648/client/needs-flag",
    ),
]
"""Cases that look for what does not come, or may not come: whoever does nothing could pass them."""
LONGEST = 600.0
"""Virtual seconds within which all of them have come to their end."""


@pytest.mark.parametrize("way", WAYS)
def test_who_only_connects_passes_no_case(suite: Suite, way: str) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        options = Options(select=SELECTED, seed=1, jobs=8)
        run, stopped = runner.run(run_clients(suite, IN_PROCESS, options, lambda _: None, Silent(), partial(RawDriver, way)))
        assert runner.get_loop().time() < LONGEST * len(run.trial_logs)
    assert stopped is None
    results = judge_log(suite, run).results
    assert len(results) >= len(SELECTED)
    assert [f"{one.verdict} {one.case} {one.cell}" for one in results if one.verdict in (Verdict.PASS, Verdict.WARN)] == []


def test_an_interrupted_run_accuses_no_client(suite: Suite) -> None:
    """What its client sends when its driver is ended breaks a silence, and is not what it does by itself."""

    async def interrupted() -> RunLog:
        options = Options(select=["pip145/client/poll-failed"], seed=1)
        client = replace(IN_PROCESS, name="client:reference")
        running = asyncio.create_task(run_clients(suite, client, options, begun, Silent(), MemoryDriver))
        await asyncio.wait([running, asyncio.create_task(sent.wait())], return_when=asyncio.FIRST_COMPLETED)
        running.cancel()
        run, stopped = await running
        assert stopped == "interrupted"
        return run

    def begun(record: object) -> None:
        if isinstance(record, log.Frame):
            sent.set()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        sent = asyncio.Event()
        run = runner.run(interrupted())
    assert judge_log(suite, run).results == []
    assert run.footer is not None
    assert run.footer.in_flight
