"""The cases for clients in front of a client that somebody else wrote: Apache Pulsar's own for Python."""

import asyncio

from conformance.clients.known import parse_client
from conformance.clients.runner import run_clients
from conformance.engine.verdict import Verdict
from conformance.judging.results import judge_log
from conformance.running.runner import Options, Silent
from conformance.suite import Suite


def test_apache_pulsars_python_client_does_what_applies_to_it(suite: Suite) -> None:
    run, stopped = asyncio.run(run_clients(suite, parse_client("client:python"), Options(seed=1), lambda _: None, Silent()))
    assert stopped is None
    results = judge_log(suite, run).results
    assert [one for one in results if one.verdict not in (Verdict.PASS, Verdict.NOT_APPLICABLE)] == []
    assert {"core/client/permits", "core/client/producer-closed"} <= {one.case for one in results if one.verdict == Verdict.PASS}
