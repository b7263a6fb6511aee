"""What all clients' sides of watches have in common: a broker tells of something, and of each change, as long as a connection lasts.

Each proposal that has a watch has a machine of this kind, without input and output. Whoever carries bytes drives it:

    machine.connected(flags, now)                       # a connection is ready
    machine.received(command, now)                      # a command that names it, or answers a request of its
    machine.tick(now)                                   # `next_deadline` has come
    machine.disconnected(now)                           # the connection is lost, or could not be made
    machine.close()                                     # nobody is interested any more
    for message in machine.commands_to_send(new_request_id, now): ...       # after each of these

`refimpl.client.watch_driver` does so on the connections of a client, and notebooks in virtual time. What a machine has learned is its
own: `TopicListWatch.take_changes`, `PartitionWatch.next_call`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from google.protobuf.message import Message

from refimpl.wire.pulsar_api_pb2 import BaseCommand, FeatureFlags


class Registration(Enum):
    """What a client knows of its watcher at the broker, on the present connection."""

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
        """Return whether a connection is wanted, and there is none."""

    @property
    def is_closed(self) -> bool:
        """Return whether it has ended for good: it sends nothing more, and what it is told changes nothing."""

    def connected(self, flags: FeatureFlags | None, now: float) -> None:
        """Handle a new connection, to any broker of the cluster.

        Args:
            flags: Feature flags of CONNECTED; None: it had none.
            now: Seconds.
        """

    def disconnected(self, now: float) -> None:
        """Handle the loss of the connection, or that none could be made."""

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
        """End the watch, because nobody needs it any more; what is still to be sent tells the broker."""
