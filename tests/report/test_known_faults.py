"""What failures look like: the hint rather says nothing than something wrong."""

from __future__ import annotations

from conformance.mutants.kill import published
from conformance.report.known_faults import likeness

ROWS = published().values()
FAULTS = [(row["fault"], {*row["killed_by"], *(row.get("unrelated_failures") or ())}, set(row["clauses"])) for row in ROWS]


def test_a_fault_that_is_left_out_is_not_taken_for_one_of_other_clauses():
    clauses = {fault: broken for fault, _, broken in FAULTS}
    named = [(fault, hint) for fault, failing, _ in FAULTS if (hint := likeness(failing, but=fault)) is not None]
    assert len(named) < 12
    assert [(fault, hint) for fault, hint in named if clauses[fault].isdisjoint(clauses[hint])] == []


def test_a_fault_that_is_known_is_named_if_three_cases_fail():
    telling = [(fault, failing) for fault, failing, _ in FAULTS if len(failing) > 2]
    hints = {fault: likeness(failing) for fault, failing in telling}
    of_cases = dict(telling)
    assert len(telling) > 100
    assert [fault for fault, failing in telling if of_cases.get(hints[fault] or "") != failing] == []
