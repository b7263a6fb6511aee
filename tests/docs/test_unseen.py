"""The page on what remains unseen says what is so."""

import re

import pytest

from conformance.engine.step import listed, walk_steps
from conformance.explore.freedoms import ignored_fields, load_freedoms
from conformance.explore.kinds import CONNECTION
from conformance.explore.played import LONGER, PATIENCE
from conformance.explore.world import NAMESPACES
from conformance.site.sources import REPOSITORY
from conformance.site.unseen import PATH, unused_commands

PAGE = (REPOSITORY / "docs" / "unseen.md").read_text()


def test_the_clauses_that_it_names_have_no_case(sources):
    named = re.findall(r"`((?:core|pip\d+|pr\d+)\.[a-z0-9.-]+)`", PAGE)
    assert named
    assert [name for name in named if name not in sources.suite.clauses or sources.suite.cases_of[name]] == []


def test_its_figures_are_those_of_the_suite(sources):
    cases = sources.suite.select((), role="broker")
    waits = [step.seconds() for case in cases for _, step in walk_steps(listed(case.steps))]
    assert f"longer than {max(waits):.0f} seconds" in PAGE
    assert f"up to {max(case.trials.count for case in cases if case.trials)} times" in PAGE
    assert f"after {PATIENCE * (1 + LONGER):.0f} seconds of silence" in PAGE
    assert f"at most {len(NAMESPACES)} namespaces" in PAGE
    assert f"{len(set(CONNECTION.simpler(None)))} connections" in PAGE


def test_the_lists_are_whole(sources, generated):
    text = generated[PATH].text
    for clause in sources.suite.clauses.values():
        if clause.side == "broker" and clause.excluded:
            assert f"`{clause.id}`" in text, clause.id
    for name in (*ignored_fields(), *(one.signature for one in load_freedoms().differences)):
        assert f"`{name}`" in text, name


@pytest.mark.parametrize(("command", "is_used"), [("NEW_TXN", False), ("AUTH_CHALLENGE", True), ("WATCH_TOPIC_LIST", True), ("PONG", True)])
def test_commands_without_a_case_are_listed(sources, command, is_used):
    assert (command not in unused_commands(sources.suite)) is is_used


def test_readers_of_exploration_are_led_to_it():
    assert "](unseen.md)" in (REPOSITORY / "docs" / "explore.md").read_text()
    assert "](docs/unseen.md)" in (REPOSITORY / "README.md").read_text()
