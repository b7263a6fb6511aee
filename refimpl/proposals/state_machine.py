"""Transition tables for the clients' state machines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Any, Generic, TypeVar

StateT = TypeVar("StateT", bound=Enum)
EventT = TypeVar("EventT", bound=Enum)
SendT = TypeVar("SendT", bound=Enum)


class IncompleteTable(ValueError):
    """A pair of state and event that a table does not cover, or covers twice."""


@dataclass(frozen=True)
class Transition(Generic[StateT, EventT, SendT]):
    """One row of a transition table.

    Attributes:
        state: The state before the event.
        event: The event.
        target: The state after the event.
        send: The command to send; None: nothing.
        when: A condition on the machine; None: always. The first row whose condition holds applies.
    """

    state: StateT
    event: EventT
    target: StateT
    send: SendT | None = None
    when: Callable[[Any], bool] | None = None

    @property
    def condition(self) -> str:
        """Return the name of the condition; empty if there is none."""
        return "" if self.when is None else self.when.__name__


class Table(Generic[StateT, EventT, SendT]):
    """A transition table. It covers every pair of state and event.

    Args:
        rows: The transitions. Rows of one state and event are adjacent; only the last of them has no condition.
        ignored: The events that each state ignores.

    Raises:
        IncompleteTable: A pair is in neither argument or in both, or has only rows with conditions.
    """

    def __init__(self, rows: Iterable[Transition[StateT, EventT, SendT]], ignored: Mapping[StateT, Collection[EventT]]) -> None:
        self._rows: dict[tuple[StateT, EventT], tuple[Transition[StateT, EventT, SendT], ...]] = {}
        for key, found in groupby(rows, key=lambda row: (row.state, row.event)):
            if key in self._rows:
                raise IncompleteTable(f"the rows of {_named(*key)} are not adjacent")
            self._rows[key] = tuple(found)
        for (state, event), of_pair in self._rows.items():
            if [row.when is None for row in of_pair] != [False] * (len(of_pair) - 1) + [True]:
                raise IncompleteTable(f"of the rows of {_named(state, event)}, only the last must be without a condition")
        self._ignored = frozenset((state, event) for state, events in ignored.items() for event in events)
        self._left = frozenset(state for state, _ in self._rows)
        self._check()

    def _check(self) -> None:
        some_state, some_event = next(iter(self._rows))
        for state in type(some_state):
            for event in type(some_event):
                if ((state, event) in self._rows) == ((state, event) in self._ignored):
                    raise IncompleteTable(f"{_named(state, event)} needs a row, or has to be ignored, but not both")

    def row(self, machine: object, state: StateT, event: EventT) -> Transition[StateT, EventT, SendT] | None:
        """Return the row that applies to a machine; None: the state ignores the event.

        Raises:
            IncompleteTable: The table does not cover this pair.
        """
        if (state, event) in self._ignored:
            return None
        if (state, event) not in self._rows:
            raise IncompleteTable(f"{_named(state, event)} is not in the table")
        return next(row for row in self._rows[state, event] if row.when is None or row.when(machine))

    def ignores(self, state: StateT, event: EventT) -> bool:
        """Return whether a state ignores an event."""
        return (state, event) in self._ignored

    def is_final(self, state: StateT) -> bool:
        """Return whether a state ignores every event."""
        return state not in self._left


def _named(state: Enum, event: Enum) -> str:
    return f"{event.name} in {state.name}"
