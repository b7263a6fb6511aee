"""Known failures: explained, unexplained, stale, expired."""

from datetime import date
from pathlib import Path

import pytest

from conformance.engine.log import Result
from conformance.engine.model import Baseline, BaselineEntry
from conformance.engine.source import SourceProblem
from conformance.judging.baseline import apply_baseline, case_name, load_baseline, unknown_cases
from conformance.judging.results import exit_code

TODAY = date(2026, 11, 21)


def result(verdict="FAIL", case="test/ping", cell=None, clauses=None, summary="nothing came: the case waits"):
    return Result(case=case, cell=cell or {}, verdict=verdict, clauses=clauses or {"test.pong": verdict}, summary=summary)


def apply(results, *entries):
    baseline = Baseline(format=1, target="x", entries=[BaselineEntry(reason="known", **entry) for entry in entries])
    changed, stale = apply_baseline(baseline, results, TODAY)
    return [str(one.verdict) for one in changed], stale


KNOWN = {"case": "test/ping", "clause": "test.pong"}


@pytest.mark.parametrize(
    ("results", "entry", "verdicts", "stale"),
    [
        ([result()], KNOWN, ["XFAIL"], 0),
        ([result()], {**KNOWN, "case": "test/*"}, ["XFAIL"], 0),
        ([result()], {**KNOWN, "diagnosis": "nothing came"}, ["XFAIL"], 0),
        ([result()], {**KNOWN, "diagnosis": "something else"}, ["FAIL"], 1),
        ([result()], {**KNOWN, "clause": "test.other"}, ["FAIL"], 1),
        ([result("WARN")], KNOWN, ["WARN"], 1),
        ([result("WARN")], {**KNOWN, "verdict": "WARN"}, ["XFAIL"], 0),
        ([result("PASS")], KNOWN, ["XPASS"], 1),
        ([result("PASS")], {**KNOWN, "expect_rate": 0.02}, ["PASS"], 0),
        ([result("UNTESTABLE")], KNOWN, ["UNTESTABLE"], 0),
        ([result()], {**KNOWN, "until": date(2026, 11, 20)}, ["XFAIL"], 1),
        ([result(cell={"x": 1}), result(cell={"x": 2})], {**KNOWN, "case": "test/ping[x=1]"}, ["XFAIL", "FAIL"], 0),
        ([result(cell={"x": 1}), result("PASS", cell={"x": 2})], KNOWN, ["XFAIL", "XPASS"], 0),
        ([result(clauses={"test.pong": "FAIL", "test.warn": "FAIL"})], KNOWN, ["FAIL"], 0),
        ([result(case="test/other")], KNOWN, ["FAIL"], 0),
    ],
)
def test_entry(results, entry, verdicts, stale):
    found, lines = apply(results, entry)
    assert found == verdicts
    assert len(lines) == stale


def test_entries_for_cases_that_are_gone():
    baseline = Baseline(
        format=1, target="x", entries=[BaselineEntry(**KNOWN, reason="r"), BaselineEntry(case="a/*", clause="c", reason="r")]
    )
    assert unknown_cases(baseline, ["test/ping"]) == ["a/*"]


def test_case_name_shows_the_cell():
    assert case_name(result(cell={"x": "a", "y": 2})) == "test/ping[x=a,y=2]"


def test_a_baseline_is_chosen_by_the_name_of_another_target():
    chosen = load_baseline("pulsar://127.0.0.1:6650", Path("apache-pulsar@4.2.4"))
    assert chosen.target == "apache-pulsar@4.2.4"
    assert chosen.entries
    held = [result("PASS", entry.case, clauses={entry.clause: "PASS"}) for entry in chosen.entries if "*" not in entry.case]
    assert apply_baseline(chosen, held, date(2026, 1, 1)) == (held, []), "with other settings a release may not show all of them"
    assert apply_baseline(load_baseline("apache-pulsar@4.2.4"), held, date(2026, 1, 1))[1]
    with pytest.raises(SourceProblem, match="apache-pulsar@0"):
        load_baseline("x", Path("apache-pulsar@0.0.0"))


def test_baseline_is_found_by_the_name_of_the_target(tmp_path):
    assert load_baseline("no-such-target").entries == []
    path = tmp_path / "b.yaml"
    path.write_text("format: 1\ntarget: x\nentries: [{case: a, clause: b, reson: c}]\n")
    with pytest.raises(SourceProblem, match=r"b.yaml:3: entries.0..reason: Field required\nb.yaml:3: .*did you mean 'reason'"):
        load_baseline("x", path)


@pytest.mark.parametrize(
    ("verdicts", "stale", "complete", "strict", "code"),
    [
        (["PASS", "XFAIL", "NOT-APPLICABLE", "UNTESTABLE", "SPEC-GAP"], [], True, False, 0),
        (["PASS", "FAIL"], [], True, False, 1),
        (["WARN"], [], True, False, 0),
        (["WARN"], [], True, True, 1),
        (["PASS"], [], False, False, 3),
        (["ERROR", "FAIL"], [], True, False, 3),
        (["PASS", "XPASS"], ["line"], True, False, 4),
        (["INCONCLUSIVE"], [], True, False, 5),
    ],
)
def test_exit_code(verdicts, stale, complete, strict, code):
    assert exit_code([result(verdict) for verdict in verdicts], stale, complete=complete, strict=strict) == code
