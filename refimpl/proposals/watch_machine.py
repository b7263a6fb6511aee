"""The common interface of the client's side of every watch.

A watch is a request that the broker answers with the current value and then with each change, until the connection ends. Each
proposal that has a watch has a state machine with this interface, which does no I/O. A driver calls it:

    machine.connected(flags, now)                       # a connection is ready
    machine.received(command, now)                      # a command for this watch
    machine.tick(now)                                   # `next_deadline` has come
    machine.disconnected(now)                           # the connection is lost, or could not be opened
    machine.close()                                     # nobody needs the watch any more
    for message in machine.commands_to_send(new_request_id, now): ...       # after each of these

`refimpl.client.watch_driver` drives machines on the connections of a client; notebooks drive them in virtual time. Each machine has
its own methods for what it has learned, such as `TopicListWatch.take_changes` and `PartitionWatch.next_call`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from google.protobuf.message import Message

from refimpl.wire.pulsar_api_pb2 import BaseCommand, FeatureFlags


class Registration(Enum):
    """What the client knows about its watcher at the broker, on the current connection."""

    NONE = "the broker has none"
    ASKED = "it was asked for, and the answer is not there"
    DOUBTFUL = "a request for it was given up, which the broker may still carry out"
    CONFIRMED = "the broker has it"


class WatchMachine(Protocol):
    """The client's side of a watch."""

    @property
    def address(self) -> tuple[str, int]:
        """Return by which field the broker's commands name it, and the number there: ("watcher_id", 7)."""

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
