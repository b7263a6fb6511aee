"""Every tested clause of the broker has a mutant or a reason to have none, and its own cases kill it.

The cases that cite a mutant's clause run here; `make mutants` runs all cases, to see that no others kill it, and writes the matrix.
"""

import json

import pytest

from conformance.mutants import kill
from conformance.suite import load_suite

MUTANTS = kill.load_mutants()


@pytest.fixture(scope="module", name="killings")
def all_killings() -> dict[str, kill.Killing]:
    return {one.mutant: one for one in kill.kill_all(MUTANTS, everything=False)}


@pytest.fixture(scope="module", name="published")
def published_matrix() -> dict:
    return json.loads(kill.MATRIX.read_text(encoding="utf-8"))


def test_each_tested_clause_has_a_mutant_or_a_reason() -> None:
    assert kill.problems(load_suite(), []) == []


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_mutant_is_killed_by_its_own_cases(name: str, killings: dict[str, kill.Killing], published: dict) -> None:
    assert killings[name].killed_by, f"{name} lives: {MUTANTS[name].lie}"
    row = published["mutants"].get(name)
    assert row is not None, "make mutants"
    assert row == {"clause": MUTANTS[name].clause, "lie": MUTANTS[name].lie, "killed_by": list(killings[name].killed_by)}, "make mutants"


def test_the_matrix_has_no_other_rows(published: dict) -> None:
    assert set(published["mutants"]) == set(MUTANTS)
    assert published["without"] == dict(sorted(kill.WITHOUT.items()))


def test_an_honest_broker_is_killed_by_nothing() -> None:
    suite = load_suite()
    honest = kill.Mutant("honest", "pip145.update.hash", "", lambda patches: None)
    assert kill.kill(suite, honest, everything=False).killed_by == ()
