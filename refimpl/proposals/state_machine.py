"""The shape of the tables that the clients' machines follow."""

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
    """A state and an event for which a table does not say what happens, or says it twice."""


@dataclass(frozen=True)
class Transition(Generic[StateT, EventT, SendT]):
    """One row of a table.

    Attributes:
        state: Where the machine stands.
        event: What happens to it.
        target: Where it stands then.
        send: What it sends.
        when: A condition, which is asked about the machine; None: in any case. The first row that applies counts.
    """

    state: StateT
    event: EventT
    target: StateT
    send: SendT | None = None
    when: Callable[[Any], bool] | None = None

    @property
    def condition(self) -> str:
        """Return the name of the condition; empty: there is none."""
        return "" if self.when is None else self.when.__name__


class Table(Generic[StateT, EventT, SendT]):
    """A table, to be followed. It says of each state and event what happens.

    Args:
        rows: Those of one state and event stand together; the last of them has no condition.
        ignored: The events that change nothing, by state.

    Raises:
        IncompleteTable: A state and an event are in neither, or in both, or only have rows with conditions.
    """

    def __init__(self, rows: Iterable[Transition[StateT, EventT, SendT]], ignored: Mapping[StateT, Collection[EventT]]) -> None:
        self._rows: dict[tuple[StateT, EventT], tuple[Transition[StateT, EventT, SendT], ...]] = {}
        for key, found in groupby(rows, key=lambda row: (row.state, row.event)):
            if key in self._rows:
                raise IncompleteTable(f"the rows of {_named(*key)} do not stand together")
            self._rows[key] = tuple(found)
        for (state, event), of_pair in self._rows.items():
            if [row.when is None for row in of_pair] != [False] * (len(of_pair) - 1) + [True]:
                raise IncompleteTable(f"the last row of {_named(state, event)}, and no other, has no condition")
        self._ignored = frozenset((state, event) for state, events in ignored.items() for event in events)
        self._check()

    def _check(self) -> None:
        some_state, some_event = next(iter(self._rows))
        for state in type(some_state):
            for event in type(some_event):
                if ((state, event) in self._rows) == ((state, event) in self._ignored):
                    raise IncompleteTable(f"{_named(state, event)} has to have a row, or else to be ignored")

    def row(self, machine: object, state: StateT, event: EventT) -> Transition[StateT, EventT, SendT] | None:
        """Return the row that applies to a machine; None: the event is ignored.

        Raises:
            IncompleteTable: They are not a state and an event of this table.
        """
        if (state, event) in self._ignored:
            return None
        if (state, event) not in self._rows:
            raise IncompleteTable(f"{_named(state, event)} is not in the table")
        return next(row for row in self._rows[state, event] if row.when is None or row.when(machine))

    def ignores(self, state: StateT, event: EventT) -> bool:
        """Return whether an event changes nothing in a state."""
        return (state, event) in self._ignored


def _named(state: Enum, event: Enum) -> str:
    return f"{event.name} in {state.name}"
