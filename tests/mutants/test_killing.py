"""Inputs tell right from wrong: each mutant of the reference broker is killed by a case that cites its clause, by one of each if it breaks several.

Only these cases run here. `make mutants` runs those of its whole register, and writes the rows that the site shows.
"""

import re

import pytest

from conformance.mutants import in_place_of, kill
from conformance.mutants.model import Patches
from conformance.suite import load_suite
from refimpl.broker import Broker
from refimpl.names import is_system_topic
from refimpl.proposals.partition_watch import rules as partition_rules
from refimpl.proposals.topic_list import rules

MUTANTS = kill.load_mutants()


@pytest.fixture(scope="module", name="killings")
def all_killings() -> dict[str, kill.Killing]:
    return {one.mutant: one for one in kill.kill_all(MUTANTS, register=False)}


@pytest.fixture(scope="module", name="published")
def published_rows() -> dict:
    return kill.published()


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_mutant_is_killed_by_a_case_that_cites_its_clause(name: str, killings: dict[str, kill.Killing], published: dict) -> None:
    assert not killings[name].missed, f"{name} lives: {MUTANTS[name].fault}"
    row = published.get(name)
    assert row is not None, f"python -m conformance.mutants {name}"
    shown = {key: row[key] for key in ("clauses", "fault", "killed_by")}
    wanted = kill.row(killings[name])
    assert shown == {key: wanted[key] for key in shown}, f"python -m conformance.mutants {name}"


def test_nothing_is_published_of_mutants_that_are_no_more(published: dict) -> None:
    assert set(published) == set(MUTANTS)


def test_each_mutant_breaks_a_clause_of_the_broker_that_a_case_cites() -> None:
    suite = load_suite()
    tested = {clause for case in suite.transcripts.values() for clause in case.clauses if suite.clauses[clause].side == "broker"}
    assert {clause for one in MUTANTS.values() for clause in one.clauses} <= tested


def test_a_broker_without_a_fault_is_killed_by_nothing() -> None:
    suite = load_suite()
    honest = kill.Mutant("honest", ("pip145.update.hash",), "", lambda patches: None)
    assert kill.kill(suite, honest, register=True) == kill.Killing("honest", (), ("pip145.update.hash",), ())


def test_rows_are_written_one_by_one(tmp_path) -> None:
    first, second = list(MUTANTS)[:2]
    kill.publish([kill.Killing(first, ("a",)), kill.Killing(second, ("b",))], tmp_path)
    kill.publish([kill.Killing(second, ("c",), (), ("d",))], tmp_path)
    assert {name: row["killed_by"] for name, row in kill.published(tmp_path).items()} == {first: ["a"], second: ["c"]}


def test_a_fault_is_put_in_and_taken_out_again() -> None:
    before, seen = rules.is_system_topic, Broker.__dict__["create_topic"]
    patches = Patches()
    patches.function(is_system_topic, lambda _: True)
    patches.function(Broker.create_topic, lambda *_: None)
    assert rules.is_system_topic("anything")
    patches.undo()
    assert rules.is_system_topic is before
    assert Broker.__dict__["create_topic"] is seen


def test_a_mutant_needs_a_docstring_and_a_name_of_its_own() -> None:
    taken = next(iter(MUTANTS))

    def silent(*_):
        pass

    with pytest.raises(ValueError, match="no docstring"):
        in_place_of(Broker.create_topic, clause="core.ack.individual")(silent)
    silent.__name__ = taken
    silent.__doc__ = "Something."
    with pytest.raises(ValueError, match=re.escape(f"{taken}: the name is taken")):
        in_place_of(Broker.create_topic, clause="core.ack.individual")(silent)


def test_a_mutant_takes_the_arguments_of_its_original() -> None:
    def stale(create_topic, broker):
        """A topic is created by a broker from before."""

    with pytest.raises(TypeError, match=r"stale does not take the arguments of .*too many positional"):
        in_place_of(Broker.create_topic, clause="core.ack.individual")(stale)

    def without_options(next_version, version):
        """The options are forgotten."""

    with pytest.raises(TypeError, match="without_options does not take the arguments of next_version"):
        in_place_of(partition_rules.next_version, clause="core.ack.individual")(without_options)
    assert not {"stale", "without_options"} & set(MUTANTS)
