"""The cases for clients in front of a client that somebody else wrote: Apache Pulsar's own for Python."""

import asyncio
from datetime import date

from conformance.clients.known import parse_client
from conformance.clients.runner import run_clients
from conformance.engine.verdict import Verdict
from conformance.judging.baseline import load_baseline
from conformance.report.model import build_report
from conformance.running.runner import Options, Silent
from conformance.suite import Suite

GOOD = (Verdict.PASS, Verdict.XFAIL, Verdict.NOT_APPLICABLE)


def test_apache_pulsars_python_client_does_what_applies_to_it(suite: Suite) -> None:
    run, stopped = asyncio.run(run_clients(suite, parse_client("client:python"), Options(seed=1), lambda _: None, Silent()))
    assert stopped is None
    report = build_report(suite, run, load_baseline("client:python"), date.today())
    assert [one for one in report.results if one.verdict not in GOOD] == []
    assert report.stale == []
    assert {"core/client/permits", "core/client/producer-closed"} <= {one.case for one in report.results if one.verdict == Verdict.PASS}
