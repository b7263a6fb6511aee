"""Whole runs against a peer."""

import asyncio

from conformance.judging.results import judge_log
from conformance.running.runner import Options, Silent, run_suite
from conformance.suite import load_suite
from tests.fakes.peers import PLAIN, running


def judged(home, peer, endpoint=PLAIN, tls=None, **options):
    suite = load_suite(home)
    records = []

    async def go():
        async with running(peer, endpoint, tls) as target:
            return await run_suite(suite, target, Options(**options), records.append, Silent())

    run, stopped = asyncio.run(go())
    return judge_log(suite, run).results, records, stopped
