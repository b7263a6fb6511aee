"""Cases for clients tell right from wrong: the reference client passes them all, and a case of each clause that a fault breaks fails."""

import pytest

from conformance.clients.faults.find import Finding, find_all, load_faults
from conformance.clients.in_process import run_clients_in_process
from conformance.engine.verdict import Verdict
from conformance.judging.results import judge_log
from conformance.suite import Suite

FAULTS = load_faults()


@pytest.fixture(scope="module", name="findings")
def all_findings() -> dict[str, Finding]:
    return {one.fault: one for one in find_all(FAULTS)}


def test_the_reference_client_passes_every_case(suite: Suite) -> None:
    results = judge_log(suite, run_clients_in_process(suite)).results
    assert {one.case for one in results} == {case.id for case in suite.select([], role="client")}
    assert [one for one in results if one.verdict not in (Verdict.PASS, Verdict.NOT_APPLICABLE)] == []


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_case_of_each_clause_that_a_fault_breaks_finds_it(name: str, findings: dict[str, Finding]) -> None:
    assert not findings[name].missed, f"{name}: {FAULTS[name].fault}"


def test_each_fault_breaks_clauses_of_clients_that_cases_cite_or_monitors_observe(suite: Suite) -> None:
    cited = {clause for case in suite.select([], role="client") for clause in case.clauses}
    assert {clause for one in FAULTS.values() for clause in one.clauses} <= cited | suite.observed


def test_each_clause_that_only_monitors_judge_is_broken_by_a_fault(suite: Suite) -> None:
    assert suite.observed <= {clause for one in FAULTS.values() for clause in one.clauses}
