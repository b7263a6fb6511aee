"""The client's side of every watch: its interface, and what the state machines have in common.

A watch is a request that the broker answers with the current value and then with each change, until the connection ends. Each
proposal that has a watch has a state machine with this interface, which does no I/O. A driver calls it:

    machine.connected(flags, now)                       # a connection is ready
    machine.received(command, now)                      # a command for this watch
    machine.tick(now)                                   # `next_deadline` has come
    machine.disconnected(now)                           # the connection is lost, or could not be opened
    machine.close()                                     # the application closes the watch
    for message in machine.commands_to_send(new_request_id, now): ...       # after each of these

`refimpl.client.watch_driver` drives machines on the connections of a client; notebooks drive them in virtual time. Each machine has
its own methods for what it has learned, such as `TopicListWatch.take_changes` and `PartitionWatch.next_call`. `TableWatch` is the
common part of machines that follow a transition table; a machine may also be written without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Generic, Protocol

from google.protobuf.message import Message

from refimpl.indexes.topics_hash import TopicSet
from refimpl.proposals.refused import Refused
from refimpl.proposals.state_machine import EventT, SendT, StateT, Table
from refimpl.wire.pulsar_api_pb2 import BaseCommand, FeatureFlags


class Registration(Enum):
    """What the client knows about its watcher at the broker, on the current connection."""

    NONE = "the broker has none"
    ASKED = "the client has asked for it, and has no answer yet"
    DOUBTFUL = "a request for it has timed out; the broker may still carry it out"
    CONFIRMED = "the broker has it"


class WatchMachine(Protocol):
    """The client's side of a watch."""

    @property
    def address(self) -> tuple[str, int]:
        """Return the field by which the broker's commands address it, and its value there: ("watcher_id", 7)."""

    @property
    def wants_connection(self) -> bool:
        """Return whether the watch needs a connection and has none."""

    @property
    def is_closed(self) -> bool:
        """Return whether the watch has ended: it sends nothing more, and further events change nothing."""

    def connected(self, flags: FeatureFlags | None, now: float) -> None:
        """Handle a new connection to any broker of the cluster.

        Args:
            flags: Feature flags of CONNECTED; None: it had none.
            now: Seconds.
        """

    def disconnected(self, now: float) -> None:
        """Handle the loss of the connection, or a failed attempt to open one."""

    def received(self, command: BaseCommand, now: float) -> None:
        """Handle a command from the broker; ignore it if it is not for this watch, or comes too late."""

    def commands_to_send(self, new_request_id: Callable[[], int], now: float) -> list[Message]:
        """Return what to send now, in this order.

        Args:
            new_request_id: Returns an id that no other request of the connection has.
            now: Seconds.

        Returns:
            Sub-messages; the caller wraps each one into a BaseCommand.
        """

    def next_deadline(self) -> float | None:
        """Return when to call `tick` next, in seconds; None: no deadline is set."""

    def tick(self, now: float) -> None:
        """Do what is due."""

    def close(self) -> None:
        """Close the watch; `commands_to_send` then returns the close command."""


class TableWatch(ABC, Generic[StateT, EventT, SendT]):
    """The common part of the machines that follow a transition table.

    Args:
        table: The transitions.
        first: The first state.
        offline: The state in which the watch needs a connection.
        address: As in `WatchMachine`.

    Attributes:
        address: As in `WatchMachine`.
        state: The current state.
        registration: The state of the watcher at the broker.
        failure: Why the last request failed; None: it succeeded.
    """

    def __init__(self, table: Table[StateT, EventT, SendT], first: StateT, offline: StateT, address: tuple[str, int]) -> None:
        self.address = address
        self.state = first
        self.registration = Registration.NONE
        self.failure: Refused | None = None
        self._table = table
        self._offline = offline
        self._outbox: list[SendT] = []
        self._deadline: float | None = None
        self._failures = 0

    @property
    def wants_connection(self) -> bool:
        """Return whether the watch needs a connection and has none."""
        return self.state is self._offline

    @property
    def is_closed(self) -> bool:
        """Return whether the watch has ended and will not start again."""
        return self._table.is_final(self.state)

    def commands_to_send(self, new_request_id: Callable[[], int], now: float) -> list[Message]:
        """Return what to send now, in this order; see `WatchMachine`."""
        outbox, self._outbox = self._outbox, []
        return [message for send in outbox for message in self._messages(send, new_request_id, now)]

    def next_deadline(self) -> float | None:
        """Return when to call `tick` next, in seconds; None: no deadline is set."""
        return self._deadline

    def tick(self, now: float) -> None:
        """Do what is due."""
        if self._deadline is not None and now >= self._deadline:
            self._deadline = None
            self._due(now)

    @abstractmethod
    def _messages(self, send: SendT, new_request_id: Callable[[], int], now: float) -> Iterable[Message]:
        """Return the commands of a row of the table."""

    @abstractmethod
    def _due(self, now: float) -> None:
        """Handle the deadline, which has come."""

    @abstractmethod
    def _new_deadline(self, event: EventT, now: float) -> float | None:
        """Return the deadline of the state that an event has led to; None: it has none."""

    def _happened(self, event: EventT, now: float | None) -> None:
        """Apply the transition table.

        Args:
            event: The event.
            now: Seconds; None: the event sets no deadline.
        """
        row = self._table.row(self, self.state, event)
        if row is None:
            return
        self.state = row.target
        if self.is_closed:
            self._outbox.clear()
            self._deadline = None
        elif now is not None:
            self._deadline = self._new_deadline(event, now)
        if row.send is not None:
            self._outbox.append(row.send)

    def _failed(self, event: EventT, failure: Refused, now: float) -> None:
        self.failure = failure
        self._failures += 1
        self._happened(event, now)

    def _succeeded(self) -> None:
        self.failure = None
        self._failures = 0


class TopicSetWatch(TableWatch[StateT, EventT, SendT]):
    """A watch over a set of topics."""

    _topics: TopicSet | None = None

    @property
    def topics(self) -> frozenset[str]:
        """Return the full names of the known topics; empty before the first set."""
        return frozenset(self._topics or ())

    @property
    def topics_hash(self) -> str | None:
        """Return the hash of the known topics; None before the first set."""
        return None if self._topics is None else self._topics.hash
