"""The figures behind the limits of `soon` clauses."""

from conformance.lateness import delays, table
from conformance.running.in_process import run_in_process
from conformance.suite import load_suite


def test_each_frame_with_a_limit_is_measured():
    suite = load_suite()
    run = run_in_process(suite, ["core/deliver/soon", "pr25648/diff/create"])
    found = list(delays(suite, run))
    assert [one for one in found if one[0] == "core.deliver.soon"] == [("core.deliver.soon", 1.5, 0.0)] * 4
    diff = [round(seconds, 3) for clause, _, seconds in found if clause == "pr25648.diff.soon"]
    assert max(diff) == 0.05  # the window
    lines = table(suite, [run])
    assert len(lines) == 1 + len(suite.soon)
    assert next(line.split() for line in lines if "core.deliver.soon" in line) == ["core.deliver.soon", "1500", "4", "0", "0", "0", "0"]


def test_the_text_of_a_clause_names_its_limits():
    wrong = [clause.id for clause in load_suite().clauses.values() for rule in clause.soon if f"{rule.seconds:g} s" not in clause.text]
    assert wrong == []
