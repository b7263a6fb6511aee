"""The reference broker answers the whole suite, and answers the actions of real conversations as the real broker did."""

import asyncio
import fnmatch
from dataclasses import replace

import pytest

from conformance.engine.verdict import Verdict
from conformance.judging import likeness
from conformance.judging.results import judge_log
from conformance.running.in_process import answer_like
from conformance.running.recorder import load_target
from conformance.running.runner import Options, Silent, run_suite
from conformance.suite import Suite
from conformance.targets import parse_target
from refimpl.net.virtual_time import VirtualTimeLoop

GOOD = {Verdict.PASS, Verdict.NOT_APPLICABLE, Verdict.SPEC_GAP}


@pytest.mark.parametrize(("target", "profile"), [("in-process", "default"), ("in-process@as-written", "as-written")])
def test_the_reference_passes_the_whole_suite_in_virtual_time(suite: Suite, target: str, profile: str) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        run, stopped = runner.run(run_suite(suite, parse_target(target), Options(profile=profile), lambda _: None, Silent()))
    assert stopped is None
    results = judge_log(suite, run).results
    assert [(one.case, one.cell, one.summary) for one in results if one.verdict not in GOOD] == []
    judged = {one.case for one in results if one.verdict != Verdict.NOT_APPLICABLE}
    assert len(judged) > 250


def test_a_cluster_of_the_reference_passes_what_one_broker_passes(suite: Suite) -> None:
    selected = ("core/lookup/*", "core/push/*", "core/cluster/*", "pip145/watch/*")
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        target, options = parse_target("in-process?brokers=2"), Options(select=selected)
        run, stopped = runner.run(run_suite(suite, target, options, lambda _: None, Silent()))
    assert stopped is None
    assert [(one.case, one.summary) for one in judge_log(suite, run).results if one.verdict not in GOOD] == []
    assert len({trial_log.begin.broker for trial_log in run.trial_logs.values()} - {None}) == 2


COMPARED = {"apache-pulsar@4.2.4": ("*", 500), "apache-pulsar@5.0.0-M1": ("pr25648/*", 100)}
"""The releases that the reference is compared with, by which cases, and how many conversations there are at least."""


def test_the_reference_answers_the_recorded_actions_as_the_real_brokers_did(suite: Suite) -> None:
    differences = likeness.load_differences()
    found: list[likeness.Unlike] = []
    for target, (pattern, fewest) in COMPARED.items():
        recorded = load_target(target)
        assert recorded is not None
        trial_logs = {
            key: trial_log for key, trial_log in recorded.trial_logs.items() if fnmatch.fnmatchcase(trial_log.begin.case, pattern)
        }
        recorded = replace(recorded, trial_logs=trial_logs)
        answered = answer_like(suite, recorded)
        assert len([key for key, trial_log in trial_logs.items() if not trial_log.begin.trial and key in answered.trial_logs]) > fewest
        found += likeness.compare(recorded, answered, differences.fields)
    unlike, unused = likeness.unlisted(found, differences)
    assert unlike == []
    assert unused == []


def test_of_a_conversation_that_was_tried_again_only_what_counts_is_compared(suite: Suite) -> None:
    recorded = load_target("apache-pulsar@4.2.4")
    assert recorded is not None
    key = "core/handshake/connected#0"
    whole = recorded.trial_logs[key]
    cut = replace(whole, events=whole.events[:3])
    answered = replace(recorded, trial_logs={key: whole})
    assert [one.key for one in likeness.compare(replace(recorded, trial_logs={key: cut}), answered, ())] == [key]
    assert list(likeness.compare(replace(recorded, trial_logs={key: cut, f"{key}~1": whole}), answered, ())) == []
