"""The suite on the reference over sockets, and what virtual time promises: the same run every time, and minutes in no time."""

from __future__ import annotations

import asyncio
from datetime import date

from conformance.engine import log
from conformance.exit_codes import EXIT_CONFORMANT
from conformance.judging.baseline import load_baseline
from conformance.report.model import build_report
from conformance.running.runner import Options, Silent, run_suite
from conformance.running.units import is_slow
from conformance.targets import parse_target
from refimpl.net.virtual_time import VirtualTimeLoop


def judged(suite, text, **options):
    target, records = parse_target(text), []
    work = run_suite(suite, target, Options(profile=target.profile, **options), records.append, Silent())
    with asyncio.Runner(loop_factory=VirtualTimeLoop if target.virtual_time else None) as runner:
        run, stopped = runner.run(work)
    assert stopped is None
    return build_report(suite, run, load_baseline(target.name), date.today()), records


def test_the_reference_conforms_over_sockets(suite):
    """All that is not slow; the slow cases run in virtual time, and over sockets in `.ci/run`."""
    select = [f"!{case.id}" for case in suite.transcripts.values() if is_slow(case)]
    report, records = judged(suite, "reference", select=select)
    bad = [
        f"{one.verdict} {one.case} {one.cell}: {one.summary}" for one in report.results if one.verdict in ("FAIL", "WARN", "ERROR", "XFAIL")
    ]
    assert bad == []
    assert report.exit_code == EXIT_CONFORMANT
    assert records[0].capabilities == {**records[0].capabilities, "admin": True, "config": True, "regex-look-around": False}
    assert not [one for one in report.results if one.verdict == "UNTESTABLE"]


def test_cases_in_virtual_time_are_part_of_the_run(suite):
    """They run in another process, on a broker of their own; the log shows all in one."""
    chosen = ["core/handshake/*", "core/lookup/short-name", "core/keepalive/*interval", "core/admin/partitioned"]
    report, records = judged(suite, "reference", select=chosen)
    assert {one.case for one in report.results} == {case.id for case in suite.select(chosen)}
    assert {one.verdict for one in report.results} == {"PASS"}
    assert [isinstance(one, log.Header) for one in records] == [True] + [False] * (len(records) - 1)
    assert {one.key for one in records if isinstance(one, log.Finished)} == report.run.trial_logs.keys() == report.outcomes.keys()
    assert max(one.t for one in records if isinstance(one, log.Finished)) >= 60
    names = [name for one in records if isinstance(one, log.TrialStarted) for name in one.fresh.values()]
    assert len(names) == len(set(names))
    assert {one.case for one in records if isinstance(one, log.TrialStarted) and one.virtual} == {
        "core/handshake/connection-limit",
        "core/handshake/max-message-size-set",
        "core/keepalive/default-interval",
        "core/keepalive/interval",
    }


def test_progress_counts_the_conversations_in_virtual_time_from_the_start(suite):
    class Totals(Silent):
        totals, done = [], 0

        def total(self, conversations):
            self.totals.append(conversations)

        def ended(self, case, outcome):
            self.done += 1

    watcher = Totals()
    options = Options(select=["core/handshake/*", "core/keepalive/default-interval", "core/keepalive/interval"])
    run, stopped = asyncio.run(run_suite(suite, parse_target("reference"), options, lambda _: None, watcher))
    assert stopped is None
    assert set(watcher.totals) == {watcher.done} == {len(run.trial_logs)}


def test_a_run_in_process_is_the_same_every_time(suite):
    """The times of the log, the frames and their order: all that two runs with one seed show."""
    first, second = (
        [log.dump(one) for one in judged(suite, "in-process", seed=7, select=["core/keepalive/*", "pip145/watch/*"])[1][1:]]
        for _ in range(2)
    )
    assert first == second


def test_minutes_pass_in_no_time(suite):
    _, records = judged(suite, "in-process@as-written", select=["core/keepalive/default-interval"])
    assert records[0].profile == "as-written"
    assert max(one.t for one in records if isinstance(one, log.Finished)) >= 60
