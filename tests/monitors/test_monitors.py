"""Each monitor keeps quiet where all is right or was not seen, and finds each planted breach, and no other."""

from __future__ import annotations

import random
from collections.abc import Set

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.monitors import MONITORS, Monitors
from conformance.monitors.handshake import ANSWER_TIME
from conformance.monitors.link import Entries
from conformance.suite import Suite
from tests.samples.conversation import Line, conversation
from tests.samples.conversation_faults import BREACHES, broken

LENGTH = len(conversation().lines)
JUDGED = {clause for kind in MONITORS for clause in kind.clauses}


def test_the_conversation_keeps_all_that_monitors_judge_and_has_something_to_say_of_each() -> None:
    monitors = Monitors(whole=True)
    assert conversation().judged(monitors) == []
    assert set(monitors.judged) == JUDGED


@pytest.mark.parametrize("name", BREACHES)
def test_a_planted_breach_breaks_its_clause_and_no_other(name: str, suite: Suite) -> None:
    clause = BREACHES[name][0]
    found = broken(name).judged()
    assert {one.clause for one in found} == {clause}
    assert {one.side for one in found} == {suite.clauses[clause].side}
    [kind] = {kind for kind in MONITORS if kind.name == found[0].monitor}
    assert clause in kind.clauses
    assert all(one.text and one.connection in "12" for one in found)


def test_each_clause_of_each_monitor_is_broken_by_a_breach() -> None:
    assert {clause for clause, _ in BREACHES.values()} == JUDGED


def test_monitors_have_names_of_their_own_and_clauses_of_their_side(suite: Suite) -> None:
    assert len({kind.name for kind in MONITORS}) == len(MONITORS)
    assert len(JUDGED) == sum(len(kind.clauses) for kind in MONITORS)
    assert {(kind.side, suite.clauses[clause].side) for kind in MONITORS for clause in kind.clauses} == {
        ("client", "client"),
        ("broker", "broker"),
    }


def test_each_clause_that_a_monitor_observes_names_one_that_judges_it(suite: Suite) -> None:
    kinds = {kind.name: kind for kind in MONITORS}
    observed = {clause.id: clause.observed_by for clause in suite.clauses.values() if clause.observed_by}
    assert set(observed.values()) <= set(kinds)
    assert [clause for clause, name in observed.items() if clause not in kinds[name].clauses] == []
    assert [clause.id for clause in suite.clauses.values() if clause.observed_by and clause.side == "broker"] == []  # no run hears them


def hear(lines: list[Line], gap_before: Set[int] = frozenset(), *, whole: bool = False) -> list[str]:
    monitors = Monitors(whole=whole)
    found = []
    for number, line in enumerate(lines):
        if number in gap_before:
            for connection in ("1", "2"):
                monitors.gap(connection)
        found += monitors.frame(line.connection, line.direction, line.frame(), line.time)  # type: ignore[arg-type]
    return [f"{one.clause}: {one.text}" for one in found + monitors.ended()]


@pytest.mark.parametrize("begin", range(LENGTH))
def test_a_conversation_that_begins_in_the_middle_accuses_nobody(begin: int) -> None:
    assert hear(conversation().timed()[begin:]) == []


@pytest.mark.parametrize("begin", range(LENGTH))
def test_a_conversation_with_a_gap_accuses_nobody(begin: int) -> None:
    lines = conversation().timed()
    for end in range(begin + 1, LENGTH, 5):
        assert hear(lines[:begin] + lines[end:], {begin}, whole=True) == [], end


def test_a_conversation_that_is_cut_accuses_nobody() -> None:
    lines = conversation().timed()
    assert [end for end in range(LENGTH) if hear(lines[:end], whole=True)] == []


@given(st.sets(st.integers(0, LENGTH - 1)))
def test_whatever_is_lost_accuses_nobody_if_each_loss_is_told(lost: set[int]) -> None:
    lines = [(number, line) for number, line in enumerate(conversation().timed()) if number not in lost]
    gaps = {place for place, (number, _) in enumerate(lines) if number - 1 in lost}
    assert hear([line for _, line in lines], gaps, whole=True) == []


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, (clause, _) in BREACHES.items()
        if clause in ("core.client.checksum-right", "core.client.batch-well-formed", "core.deliver.content")
    ],
)
def test_what_a_frame_says_by_itself_is_judged_even_if_nothing_else_was_seen(name: str) -> None:
    lines = broken(name).timed()
    assert {one.partition(":")[0] for one in hear(lines, set(range(len(lines))))} == {BREACHES[name][0]}


@given(st.randoms(use_true_random=False))
def test_conversations_beside_each_other_do_not_matter_to_each_other(draw: random.Random) -> None:
    talks = [conversation().timed(), conversation().timed()]
    for line in talks[1]:
        line.connection += " of another client"
    order = [0] * LENGTH + [1] * LENGTH
    draw.shuffle(order)
    nexts = [iter(talk) for talk in talks]
    mixed = [next(nexts[number]) for number in order]
    for number, line in enumerate(mixed):
        line.time = number / 100
    assert hear(mixed) == []


def test_a_connection_that_was_seen_to_open_has_to_begin_with_connect() -> None:
    lines = conversation().timed()[2:]
    monitors = Monitors()
    monitors.opened("1")
    found = [one for line in lines[:1] for one in monitors.frame("1", "->", line.frame(), 0.0)]
    assert [(one.clause, one.text) for one in found] == [("core.client.connect-first", "partitionMetadata before CONNECT")]


@pytest.mark.parametrize(("end", "broken"), [(1.0, []), (ANSWER_TIME + 2, ["core.client.answers-ping"])])
def test_a_ping_that_is_left_at_the_end_counts_if_the_end_came_late(end: float, broken: list[str]) -> None:
    talk = conversation()
    monitors = Monitors()
    for line in talk.timed()[: talk.lines.index(talk.find("Ping")) + 1]:
        assert monitors.frame(line.connection, line.direction, line.frame(), line.time) == []  # type: ignore[arg-type]
    assert [one.clause for one in monitors.closed("1", end)] == broken
    assert monitors.ended() == []


def test_a_ping_may_take_its_time() -> None:
    talk = conversation()
    talk.find("Pong", 0).time = ANSWER_TIME - 1
    assert talk.judged() == []


def test_a_name_of_a_connection_may_be_used_again() -> None:
    monitors = Monitors()
    for _ in range(2):
        for line in conversation().timed():
            assert monitors.frame(line.connection, line.direction, line.frame(), line.time) == []  # type: ignore[arg-type]
        assert monitors.closed("1", 1.0) + monitors.closed("2", 1.0) == []


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12))), st.integers(0, 2), st.integers(0, 13))
def test_entries_are_those_that_were_added(added: list[tuple[int, int]], ledger: int, entry: int) -> None:
    entries = Entries()
    for one in added:
        entries.add(*one)
    assert entries.has(ledger, entry) == ((ledger, entry) in added)
    assert entries.reach(ledger, entry) == any(one >= (ledger, entry) for one in added)
