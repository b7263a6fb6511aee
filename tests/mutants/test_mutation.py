"""Expectations bite: damage to the log of a passing run is charged to the clause of the step that it touches."""

import pytest

from conformance import mutation
from conformance.suite import load_suite


@pytest.fixture(scope="module", name="suite")
def whole_suite():
    return load_suite()


@pytest.fixture(scope="module", name="found")
def all_findings(suite):
    return mutation.try_damages(suite, mutation.passing_runs(suite))


def test_each_tested_clause_is_charged_or_has_a_reason(suite, found):
    assert mutation.problems(suite, found, mutation.load_reasons()) == []


def test_a_clause_that_nothing_charges_is_named(suite, found):
    reasons = mutation.load_reasons()
    lacking = next(iter(reasons))
    assert mutation.problems(suite, found, {name: text for name, text in reasons.items() if name != lacking}) == [
        f"{lacking}: no damage to a passing log is charged to it, and uncharged.yaml gives no reason"
    ]


def test_a_reason_for_a_clause_that_is_charged_is_named(suite, found):
    assert mutation.problems(suite, found, {**mutation.load_reasons(), "core.ack.individual": "it is hard"}) == [
        "core.ack.individual: it is charged, so it needs no reason in uncharged.yaml"
    ]


def test_hardly_any_damage_is_charged_to_another_clause(found):
    assert len(found.elsewhere) < found.judged / 50
