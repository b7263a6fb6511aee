"""The clauses and cases that the suite ships: complete, and judged on recordings of real releases."""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from conformance.engine import log
from conformance.engine import model as m
from conformance.engine.actions import Send
from conformance.engine.capabilities import CAPABILITIES, FLAGS
from conformance.engine.matchers import MATCHERS
from conformance.engine.parts import RELEASES
from conformance.engine.program import cells, fresh_names
from conformance.engine.source import read_source
from conformance.engine.step import KINDS, StepKind, listed, walk_steps
from conformance.engine.steps import ClosedStep, FrameStep, SilenceStep, UseStep
from conformance.engine.values import EXPRESSIONS
from conformance.judging.applicability import completed, not_recorded
from conformance.judging.baseline import HOME as BASELINES
from conformance.judging.baseline import load_baseline, unknown_cases
from conformance.judging.results import judge_log
from conformance.names import file_name
from conformance.report.model import build_report
from conformance.running import recorder
from conformance.site.counts import README, counted
from conformance.suite import HOME
from conformance.targets import RELEASES as STARTED
from conformance.targets import parse_target

TODAY = date(2026, 11, 21)
"""Baselines are checked as of this day: an entry that expires later turns a run red, not this test."""


RECORDED = {name: home for home in (recorder.HOME, recorder.CLIENT_HOME) for name in recorder.targets(home)}
"""Where the recordings of each release and each client are."""


@pytest.fixture(scope="module", params=RECORDED)
def target(request):
    return request.param


@pytest.fixture(scope="module")
def run(target):
    """Load what was recorded with a release or a client, for all tests of it."""
    loaded = recorder.load_target(target, RECORDED[target])
    assert loaded is not None
    return loaded


def test_every_clause_is_tested_or_observed_or_excluded(suite):
    wrong = {}
    for name, clause in suite.clauses.items():
        states = [bool(suite.cases_of[name]), clause.observed_by is not None, clause.excluded is not None]
        if sum(states) != 1:
            wrong[name] = dict(zip(("tested", "observed", "excluded"), states, strict=True))
    assert wrong == {}


def test_every_clause_tells_what_its_text_says(suite):
    said = {clause.id: clause.says for clause in suite.clauses.values()}
    assert [name for name, says in said.items() if not re.fullmatch(r"\S.{0,198}\.", says)] == []


def test_no_level_is_said_to_come_from_a_text_that_is_silent(suite):
    silent = re.compile(r"not mentioned|left open|oes not (say|mention)|not described|not stated")
    texts = [clause for clause in suite.clauses.values() if clause.basis in ("keyword", "indicative")]
    assert [clause.id for clause in texts if silent.search(clause.says) or clause.section in ("observed", "settled")] == []


def test_a_case_applies_only_in_profiles_of_its_clauses(suite):
    for case in suite.transcripts.values():
        assert [name for name in case.clauses if not set(case.profiles) <= set(suite.clauses[name].profiles)] == [], case.id


def test_every_register_leads_to_its_text_and_no_proposal_says_twice_where_that_is(suite):
    assert [register.source.title for register in suite.registers if register.address is None] == []
    assert [register.source.title for register in suite.registers if register.source.address and register.proposal != "core"] == []


def test_a_clause_is_tested_by_cases_for_its_side(suite):
    for name, clause in suite.clauses.items():
        assert {suite.transcripts[case].role for case in suite.cases_of[name]} <= {clause.side}, name


def steps_of(item: m.Transcript | m.Fragment) -> list[StepKind]:
    return [step for _, step in walk_steps(listed(item.steps))]


def is_negative(case: m.Transcript) -> bool:
    """Tell whether a case proves only that something does not happen: nothing in it would fail on a peer that never answers well."""
    expected = [next(iter(step.broker)) for step in steps_of(case) if isinstance(step, FrameStep) and step.broker]
    closed = any(isinstance(step, ClosedStep) for step in steps_of(case))
    silent = any(isinstance(step, SilenceStep) for step in steps_of(case))
    uses = any(isinstance(step, UseStep) and step.use != "lib/handshake" for step in steps_of(case))
    good = [name for name in expected if name not in ("connected", "error", "send_error")]
    return (closed or silent or "error" in expected) and not good and not uses


def test_negative_cases_name_a_control(suite):
    assert [case.id for case in suite.select([], role="broker") if is_negative(case) and case.control is None] == []


@pytest.mark.parametrize("capability", ["direct", "without-credentials"])
def test_a_case_is_not_left_out_only_because_its_control_is(suite, capability):
    controlled = [case for case in suite.transcripts.values() if case.control is not None and capability not in case.requires]
    assert [case.id for case in controlled if capability in suite.transcripts[case.control].requires] == []


def test_no_control_is_its_own_or_in_a_circle(suite):
    for case in suite.transcripts.values():
        seen = [case.id]
        while case.control is not None:
            assert case.control not in seen, seen
            seen.append(case.control)
            case = suite.transcripts[case.control]  # noqa: PLW2901


def test_every_fragment_is_used(suite):
    used = {
        step.use
        for item in (*suite.transcripts.values(), *suite.fragments.values())
        for step in steps_of(item)
        if isinstance(step, UseStep)
    }
    assert set(suite.fragments) - used - {"lib/fence", "lib/fence-ping", "lib/still-served"} == set()


NEEDS = {
    "watchTopicList": "topic-list-watch",
    "watchPartitionUpdate": "partition-watch",
    "watchScalableTopics": "scalable-topics",
    "scalableTopicLookup": "scalable-layout",
}
"""What a target must have, or must not have, if a case sends it a command."""


def sent(suite, case: m.Transcript, cell: dict[str, Any]) -> set[str]:
    """Return the commands that a cell of a case sends."""
    fresh = dict.fromkeys(fresh_names(case), "tenant/name")
    program = suite.program(log.TrialStarted(key="", case=case.id, cell=cell, actions="", fresh=fresh), None)
    actions = [action for group in program.actions() for lane in group.lanes for action in lane if isinstance(action, Send)]
    return {name for action in actions for name in action.spec.get("frame", ())}


def test_a_case_that_sends_the_command_of_a_proposal_asks_for_what_it_needs(suite):
    lacking = {
        case.id: NEEDS[name]
        for case in suite.transcripts.values()
        for cell in cells(case)
        for name in sent(suite, case, cell) & set(NEEDS)
        if case.id != "core/flags/topic-watcher-reconcile"  # whose flag implies it
        and not {NEEDS[name], f"!{NEEDS[name]}"} & set(case.requires)
    }
    assert lacking == {}


def test_names_agree_among_modules():
    assert set(FLAGS) <= set(CAPABILITIES)
    assert tuple(STARTED) == RELEASES


def test_recording_is_judged_to_the_verdicts_it_came_to(suite, target, run):
    assert recorder.stale(suite, completed(suite, run)) == [], (
        f"make recordings TARGET={run.header.target}; offline: `recorded: pending` in a new case"
    )
    judged = {(one.case, str(one.cell)): (one.verdict, one.clauses) for one in judge_log(suite, run).results}
    recorded = {(one.case, str(one.cell)): (one.verdict, one.clauses) for one in run.results}
    assert judged == recorded, "if the expectations were changed on purpose: pulsar-conformance judge --accept"


def test_what_was_not_applicable_follows_from_what_the_target_can_do(suite, target, run):
    inferred = {(one.case, str(one.cell), one.verdict) for one in completed(suite, replace(run, skipped=[])).skipped}
    told = {(one.case, str(one.cell), one.verdict) for one in run.skipped if not re.search("has no setting|does not offer", one.reason)}
    assert told <= inferred, f"their requires have changed: make recordings TARGET={run.header.target}"


def test_nothing_waits_for_recordings_that_are_there(suite):
    pending = {case.id for case in suite.transcripts.values() if case.recorded == "pending"}
    waiting = {case for target, home in RECORDED.items() if pending for case in not_recorded(suite, recorder.load_target(target, home))}
    assert pending == waiting, "recorded on all releases that can run it: take `recorded: pending` out"


def test_every_case_that_a_release_can_run_is_recorded(suite, target, run):
    missing = not_recorded(suite, run)
    if missing:
        text = f"not recorded yet: make recordings TARGET={run.header.target} ARGS='{' '.join(f'--select {case}' for case in missing)}'"
        pytest.fail(text) if os.environ.get("CI") else pytest.skip(text)


def test_recordings_hold_no_address_and_no_argument(run):
    assert (run.header.service_url, run.header.arguments) == ("", [])


@pytest.mark.parametrize("path", sorted(BASELINES.glob("*.yaml")), ids=lambda path: path.stem)
def test_baseline_speaks_of_cases_and_clauses_that_exist(suite, path):
    baseline = load_baseline(path.stem, path)
    assert file_name(baseline.target) == path.stem
    assert unknown_cases(baseline, suite.transcripts) == []
    assert [entry.clause for entry in baseline.entries if entry.clause not in suite.clauses] == []


def test_findings_speak_of_cases_and_clauses_that_exist(suite):
    known = {*suite.clauses, *suite.transcripts}
    for path in (HOME.parent / "docs" / "findings").glob("*.md"):
        named = re.findall(r"`((?:core|p(?:ip|r)[0-9]+)[./][a-z0-9./-]+)`", path.read_text())
        assert [name for name in named if name not in known] == [], path.name
        assert named or path.name == "README.md"


def test_baselines_link_to_findings_that_exist():
    for path in BASELINES.glob("*.yaml"):
        links = [entry.link for entry in load_baseline(path.stem, path).entries if entry.link.startswith("docs/")]
        assert [link for link in links if not (HOME.parent / link).is_file()] == [], path.name


def test_nothing_in_a_recording_is_unexplained(suite, target, run):
    report = build_report(suite, completed(suite, run), load_baseline(target), TODAY)
    assert [(one.case, one.cell, one.summary) for one in report.results if one.verdict in ("FAIL", "WARN", "ERROR", "INCONCLUSIVE")] == []
    assert report.stale == []
    assert report.whole


def test_readme_counts_right(suite):
    text = README.read_text(encoding="utf-8")
    assert f"{len(suite.clauses):,} clauses in {len(suite.transcripts):,} cases" in text, "make counts"
    assert counted(re.sub(r"\d+ clauses in", "1 clauses in", text), suite) == text


def test_target_file_of_the_documentation_is_good(tmp_path):
    text = (HOME.parent / "docs" / "test-your-broker.md").read_text()
    path = tmp_path / "my-broker.toml"
    path.write_text(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0])
    (tmp_path / "token.txt").write_text("secret")
    target = parse_target(str(path))
    assert (target.name, target.startable) == ("my-broker", True)


def test_page_on_what_a_run_does_names_every_topic_that_is_changed_outside_its_namespaces(run):
    page = (HOME.parent / "docs" / "what-a-run-does.md").read_text()
    for trial_log in run.trial_logs.values():
        for event in trial_log.events:
            if isinstance(event, log.Begin) and event.what == "admin":
                for topic in re.findall(r"public/default/([^'\"]+)", str(event.detail)):
                    assert f"`{topic}`" in page, trial_log.begin.key


def test_every_kind_of_step_matcher_and_expression_is_used_by_a_file_and_described():
    used = set(keys_of([read_source(path).data for path in (HOME / "transcripts").rglob("*.yaml")]))
    told = (Path(__file__).parents[2] / "docs" / "transcripts.md").read_text()
    for name in (*KINDS, *MATCHERS, *EXPRESSIONS):
        assert name in used, f"no transcript and no fragment uses {name}"
        assert re.search(rf"`[^`]*{re.escape(name)}\b[^`]*`", told), f"docs/transcripts.md does not tell of {name}"


def keys_of(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from keys_of(inner)
