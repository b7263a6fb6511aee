"""The reference broker answers the whole suite, and answers the acts of real conversations as the real broker did."""

import asyncio

import pytest

from conformance import likeness
from conformance.engine.verdict import Verdict
from conformance.recorder import load_target
from conformance.results import judge_log
from conformance.runner import Options, Silent, run_suite
from conformance.suite import Suite, load_suite
from conformance.targets import parse_target
from refimpl.net.virtual_time import VirtualTimeLoop

GOOD = {Verdict.PASS, Verdict.NOT_APPLICABLE, Verdict.SPEC_GAP}


@pytest.fixture(scope="module", name="suite")
def whole_suite() -> Suite:
    return load_suite()


@pytest.mark.parametrize(("target", "profile"), [("in-process", "default"), ("in-process@letter", "letter")])
def test_the_reference_passes_the_whole_suite_in_virtual_time(suite: Suite, target: str, profile: str) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        run, stopped = runner.run(run_suite(suite, parse_target(target), Options(profile=profile), lambda _: None, Silent()))
    assert stopped is None
    results = judge_log(suite, run).results
    assert [(one.case, one.cell, one.summary) for one in results if one.verdict not in GOOD] == []
    judged = {one.case for one in results if one.verdict != Verdict.NOT_APPLICABLE}
    assert len(judged) > 250


def test_the_reference_answers_the_recorded_acts_of_4_2_4_as_the_real_broker_did(suite: Suite) -> None:
    recorded = load_target("apache-pulsar@4.2.4")
    assert recorded is not None
    differences = likeness.load_differences()
    answered = likeness.answer_like(suite, recorded)
    compared = [key for key, talk in recorded.talks.items() if not talk.begin.trial and key in answered.talks]
    assert len(compared) > 500
    unlike, unused = likeness.unlisted(likeness.compare(recorded, answered, differences.fields), differences)
    assert unlike == []
    assert unused == []
