"""Drives the state machine of a watch, of any proposal, on a connection of the client.

locate --> attach --> exchange commands, handle deadlines --> connection lost --> back off --> locate ...
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from google.protobuf.message import Message

from refimpl.backoff import Backoff
from refimpl.client.connection import Connection
from refimpl.client.errors import ClientError, Closed
from refimpl.client.requests import refusal_of
from refimpl.client.scheduler import Pending, Process
from refimpl.proposals.watch_machine import WatchMachine
from refimpl.timers import Timer
from refimpl.wire import Frame
from refimpl.wire.pulsar_api_pb2 import BaseCommand

if TYPE_CHECKING:
    from refimpl.client.client import ClientCore

MachineT = TypeVar("MachineT", bound=WatchMachine)


def no_news() -> None:
    """Do nothing."""


class WatchDriver(Generic[MachineT]):
    """Drives a machine on a connection until it is closed.

    Args:
        core: The client.
        machine: The machine.
        on_news: Called after each event of the machine, before its commands are sent.
        locate: Finds the connection; None: use the service URL, because any broker can answer.
        name: Its name in the log.

    Attributes:
        machine: The machine.
        reason: Why there is no connection; None while there is one, or before the first attempt.
        lost: Why the last connection ended, or could not be made; None: none has so far.
    """

    def __init__(
        self,
        core: ClientCore,
        machine: MachineT,
        on_news: Callable[[], None] = no_news,
        *,
        locate: Callable[[], Coroutine[Pending[Any], None, Connection]] | None = None,
        name: str = "a watch",
    ) -> None:
        self.machine = machine
        self.reason: ClientError | None = None
        self.lost: ClientError | None = None
        self._core = core
        self._scheduler = core.scheduler
        self._on_news = on_news
        self._locate = locate or core.pool.connection
        self._name = name
        self._backoff = Backoff(core.random)
        self._connection: Connection | None = None
        self._wanted: Pending[None] = Pending(self._scheduler)
        self._left: Pending[None] = Pending(self._scheduler)
        self._timer: Timer | None = None
        self._process: Process[None] | None = None

    def start(self) -> None:
        """Start driving; if the machine has a `start`, call that first."""
        self._process = self._scheduler.spawn(self._stay())

    def close(self) -> None:
        """Close the machine, and send its remaining commands."""
        if self._process is not None:
            self._process.cancel()
        self.machine.close()
        self.flush()

    def flush(self) -> None:
        """Send the machine's commands and set its deadline; call this after using the machine directly."""
        self._on_news()
        self._send()
        if self.machine.is_closed:
            self._leave()
        elif self.machine.wants_connection:
            self._leave()
            self._wanted.succeed(None)
        if self._timer is not None:
            self._timer.cancel()
        deadline = self.machine.next_deadline()
        self._timer = None if deadline is None else self._scheduler.call_at(deadline, self._due)

    def received(self, frame: Frame) -> None:
        """Handle a command for the watch."""
        self._take(frame.command)

    def connection_lost(self, connection: Connection) -> None:
        """Handle the end of the connection."""
        if connection is self._connection:
            self._lose(connection.reason)

    async def _stay(self) -> None:
        while not self.machine.is_closed:
            if not self.machine.wants_connection:
                self._wanted = Pending(self._scheduler)
                await self._wanted
            try:
                connection = await self._locate()
            except ClientError as error:
                self._lose(error)
                if isinstance(error, Closed):
                    return
            else:
                self._attach(connection)
                await self._left
            if self.reason is not None and self.machine.wants_connection:  # otherwise the machine has its own delays
                await self._scheduler.sleep(self._backoff.next())

    def _attach(self, connection: Connection) -> None:
        self._left = Pending(self._scheduler)
        self._connection = connection
        self.reason = None
        connection.attach(*self.machine.address, self)
        self.machine.connected(connection.flags, self._scheduler.now)
        if not self._send():
            self._backoff.reset()  # it sends no request that the broker could refuse
        self.flush()

    def _lose(self, reason: ClientError | None) -> None:
        self._connection = None
        self.reason = reason
        self.lost = reason or self.lost
        self.machine.disconnected(self._scheduler.now)
        self.flush()
        self._left.succeed(None)

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.detach(*self.machine.address, self)
            self._connection = None
            self._left.succeed(None)

    def _send(self) -> bool:
        """Send the machine's commands; return whether there were any."""
        connection = self._connection
        if connection is None:
            return False
        messages = self.machine.commands_to_send(connection.new_request_id, self._scheduler.now)
        for message in messages:
            if connection.is_answered(message):
                connection.exchange(message).on_done(partial(self._answered, connection, message))
            else:
                connection.send(message)
        return bool(messages)

    def _answered(self, connection: Connection, request: Message, answer: Pending[BaseCommand]) -> None:
        if connection is not self._connection or answer.error is not None:
            return
        self._backoff.reset()
        command = answer.value()
        if (refusal := refusal_of(command)) is not None:
            self._core.note(f"{self._name}: {type(request).__name__} is refused: {refusal}")
        self._take(command)

    def _take(self, command: BaseCommand) -> None:
        self.machine.received(command, self._scheduler.now)
        self.flush()

    def _due(self) -> None:
        self._timer = None
        self.machine.tick(self._scheduler.now)
        self.flush()
