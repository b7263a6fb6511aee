"""The tables that the clients' machines follow: each says of every state and event what happens."""

from enum import Enum

import pytest

from refimpl.proposals import message_filter, partition_watch, scalable_topics, topic_list
from refimpl.proposals.state_machine import IncompleteTable, Table, Transition

PACKAGES = [topic_list, message_filter, partition_watch, scalable_topics]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.PROPOSAL.register)
def test_every_event_matters_somewhere_and_every_state_can_be_reached(package):
    first = package.TRANSITIONS[0]
    reached = {first.state}
    while more := {row.target for row in package.TRANSITIONS if row.state in reached} - reached:
        reached |= more
    assert reached == set(type(first.state))
    assert {row.event for row in package.TRANSITIONS} == set(type(first.event))


@pytest.mark.parametrize(
    ("package", "event", "ignoring"),
    [
        (topic_list, "CLOSE", {"CLOSING", "CLOSED"}),
        (topic_list, "DISCONNECTED", {"OFFLINE", "CLOSED"}),
        (partition_watch, "CLOSE", {"CLOSED"}),
        (partition_watch, "DISCONNECTED", {"OFFLINE", "CLOSED"}),
        (scalable_topics, "CLOSE", {"FAILED", "CLOSED"}),
        (message_filter, "DISCONNECTED", {"OFFLINE"}),
        (message_filter, "OFFERED", {"BROKER", "CLIENT", "REFUSED"}),
        (message_filter, "NOT_OFFERED", {"BROKER", "CLIENT", "REFUSED"}),
    ],
    ids=lambda value: value.PROPOSAL.register if hasattr(value, "PROPOSAL") else value if isinstance(value, str) else "",
)
def test_which_states_a_close_or_a_connection_leaves_as_they_are(package, event, ignoring):
    states = {row.state for row in package.TRANSITIONS if row.event.name == event}
    assert {state.name for state in type(package.TRANSITIONS[0].state)} - {state.name for state in states} == ignoring


@pytest.mark.parametrize(
    ("package", "final"),
    [(topic_list, {"CLOSED"}), (partition_watch, {"CLOSED"}), (scalable_topics, {"CLOSED", "FAILED"}), (message_filter, set())],
)
def test_a_state_that_ignores_every_event_is_final(package, final):
    table = Table(package.TRANSITIONS, package.IGNORED)
    assert {state.name for state in type(package.TRANSITIONS[0].state) if table.is_final(state)} == final


class Door(Enum):
    OPEN = 1
    SHUT = 2


class Hand(Enum):
    PUSH = 1
    PULL = 2


class Bell(Enum):
    RING = 1


def locked(machine):
    return machine


PUSHED = Transition(Door.OPEN, Hand.PUSH, Door.SHUT, Bell.RING)
REFUSED = Transition(Door.SHUT, Hand.PULL, Door.SHUT, when=locked)
PULLED = Transition(Door.SHUT, Hand.PULL, Door.OPEN)
ELSE = {Door.OPEN: [Hand.PULL], Door.SHUT: [Hand.PUSH]}


def test_the_first_row_that_applies_counts():
    table = Table([PUSHED, REFUSED, PULLED], ELSE)
    assert table.row(True, Door.SHUT, Hand.PULL) is REFUSED
    assert table.row(False, Door.SHUT, Hand.PULL) is PULLED
    assert table.row(True, Door.OPEN, Hand.PULL) is None
    assert [table.ignores(Door.OPEN, event) for event in Hand] == [False, True]
    assert [row.condition for row in (PUSHED, REFUSED)] == ["", "locked"]


@pytest.mark.parametrize(
    ("rows", "ignored", "complaint"),
    [
        ([PUSHED, PULLED], {Door.OPEN: [Hand.PULL]}, "PUSH in SHUT needs a row, or has to be ignored, but not both"),
        ([PULLED], ELSE, "PUSH in OPEN needs a row, or has to be ignored, but not both"),
        ([PUSHED, PULLED], {Door.OPEN: list(Hand), Door.SHUT: [Hand.PUSH]}, "PUSH in OPEN needs a row, or has to be ignored, but not both"),
        ([PUSHED, REFUSED], ELSE, "of the rows of PULL in SHUT, only the last must be without a condition"),
        ([PUSHED, PULLED, REFUSED], ELSE, "of the rows of PULL in SHUT, only the last must be without a condition"),
        ([REFUSED, PUSHED, PULLED], ELSE, "PULL in SHUT"),
    ],
)
def test_a_table_that_is_not_complete_is_none(rows, ignored, complaint):
    with pytest.raises(IncompleteTable, match=complaint):
        Table(rows, ignored)


def test_what_is_not_in_a_table_is_an_error():
    with pytest.raises(IncompleteTable, match="RING in OPEN is not in the table"):
        Table([PUSHED, PULLED], ELSE).row(None, Door.OPEN, Bell.RING)
