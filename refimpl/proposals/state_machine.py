"""The shape of the tables that the clients' machines follow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Generic, TypeVar

StateT = TypeVar("StateT", bound=Enum)
EventT = TypeVar("EventT", bound=Enum)
SendT = TypeVar("SendT", bound=Enum)


@dataclass(frozen=True)
class Transition(Generic[StateT, EventT, SendT]):
    """One row of a table.

    Attributes:
        state: Where the machine stands.
        event: What happens to it.
        target: Where it stands then.
        send: What it sends.
        when: A condition, the name of a property of the machine; empty: in any case. The first row that applies counts.
    """

    state: StateT
    event: EventT
    target: StateT
    send: SendT | None = None
    when: str = ""


class Table(Generic[StateT, EventT, SendT]):
    """A table, to be followed. An event that a state has no row for changes nothing."""

    def __init__(self, rows: Iterable[Transition[StateT, EventT, SendT]]) -> None:
        self._rows = {key: tuple(found) for key, found in groupby(rows, key=lambda row: (row.state, row.event))}

    def knows(self, state: StateT, event: EventT) -> bool:
        """Tell whether a state has a row for an event."""
        return (state, event) in self._rows

    def row(self, machine: object, state: StateT, event: EventT) -> Transition[StateT, EventT, SendT] | None:
        """Return the row that applies to a machine; None: nothing changes."""
        for row in self._rows.get((state, event), ()):
            if not row.when or getattr(machine, row.when):
                return row
        return None
