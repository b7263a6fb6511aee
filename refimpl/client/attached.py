"""The common part of producers and consumers: it keeps them attached to the broker that serves the topic.

look up --> register --> attached --> connection lost, or closed by the broker --> back off --> look up ...

core.client.reattaches-after-close
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random
from typing import TYPE_CHECKING

from google.protobuf.message import Message

from refimpl.backoff import Backoff
from refimpl.client.connection import Connection
from refimpl.client.errors import ClientError, Closed, ConnectionLost, TimedOut
from refimpl.client.scheduler import Pending, Process, Scheduler
from refimpl.wire import Frame
from refimpl.wire.pulsar_api_pb2 import BaseCommand, ProducerFenced, TopicNotFound, TopicTerminatedError

if TYPE_CHECKING:
    from refimpl.client.client import ClientCore

_ENDS = frozenset({TopicNotFound, TopicTerminatedError, ProducerFenced})
"""Errors after which a producer or consumer that was attached before does not reconnect; all others may be temporary."""


class Attached(ABC):
    """A producer, consumer or lookup that stays attached to a topic.

    Attributes:
        topic: Full name.
        connection: The connection that it is attached to; None while it is not attached.
        error: Why it has ended permanently; None while it has not.
        patient: Whether its first attempts go on for longer than the operation time-out.
        outlives_topic: Whether it reattaches to a topic that was deleted and created again.
    """

    kind: str
    """The field of its id on a connection."""

    def __init__(self, core: ClientCore, topic: str, number: int) -> None:
        self.topic = topic
        self.number = number
        self.connection: Connection | None = None
        self.error: ClientError | None = None
        self.patient = False
        self.outlives_topic = False
        self._core = core
        self._scheduler: Scheduler = core.scheduler
        self._random: Random = core.random
        self._place: Connection | None = None
        self._attaching: Pending[Connection] = Pending(self._scheduler)
        self._lost: Pending[bool] = Pending(self._scheduler)
        self._pause: Pending[None] = Pending(self._scheduler)
        self._process: Process[None] | None = None
        self._was_attached = False

    def start(self) -> Pending[Connection]:
        """Start to attach.

        Returns:
            A result that comes with the first success, or fails when the attempts are given up.
        """
        first = self._attaching
        self._process = self._scheduler.spawn(self._stay())
        return first

    def retry_now(self) -> None:
        """Retry now instead of waiting for the back-off."""
        self._pause.succeed(None)

    async def attached(self) -> Connection:
        """Return the connection as soon as it is attached.

        Raises:
            TimedOut: It is not attached within the operation time-out.
            ClientError: It has ended permanently.
        """
        seconds = self._core.options.operation_timeout
        return await self._scheduler.limit(self._attaching, seconds, f"{self.topic} could not be attached to")

    def close(self) -> Process[None]:
        """Close it at the broker; the result comes when the broker has confirmed it, or is unreachable."""
        place = self._place
        self.end(Closed(f"{self._called} of {self.topic} is closed"))
        return self._scheduler.spawn(self._send_close_request(place))

    def end(self, error: ClientError) -> None:
        """End permanently without telling the broker."""
        if self.error is not None:
            return
        self.error = error
        if self._process is not None:
            self._process.cancel()
        self._leave()
        self._attaching.fail(error)
        self._on_end(error)

    def lose(self, *, at_once: bool = False) -> None:
        """Handle the loss of the attachment; it reattaches at once or after a delay."""
        self._leave()
        self._lost.succeed(at_once)

    def connection_lost(self, connection: Connection) -> None:
        """Handle the end of the connection."""
        if connection is self._place:
            self.lose()

    @abstractmethod
    def received(self, frame: Frame) -> None:
        """Handle a command that is addressed to it."""

    @abstractmethod
    async def _register(self, connection: Connection) -> None:
        """Create it at the broker.

        Raises:
            ClientError: The broker refused, or did not answer.
        """

    @abstractmethod
    def _close_request(self) -> Message:
        """Return the request that closes it."""

    @abstractmethod
    def _on_attached(self, connection: Connection) -> None:
        """Resume its work on a new connection."""

    @abstractmethod
    def _on_end(self, error: ClientError) -> None:
        """Fail everything that still waits, because it has ended."""

    @property
    def _called(self) -> str:
        return type(self).__name__.lower()

    async def _stay(self) -> None:
        give_up_at = self._scheduler.now + self._core.options.operation_timeout
        backoff = Backoff(self._random)
        while True:
            try:
                connection = await self._attach()
            except ClientError as error:
                self._leave()
                if self._gives_up(error, give_up_at):
                    self.end(error)
                    return
                await self._wait(backoff.next())
                continue
            backoff.reset()
            self._was_attached = True
            self.connection = connection
            self._on_attached(connection)
            self._attaching.succeed(connection)
            if not await self._lost:
                await self._wait(backoff.next())

    async def _wait(self, seconds: float) -> None:
        self._pause = self._scheduler.sleep(seconds)
        await self._pause

    async def _attach(self) -> Connection:
        connection = await self._core.pool.locate(self.topic)
        self._lost = Pending(self._scheduler)
        self._place = connection
        connection.attach(self.kind, self.number, self)
        try:
            await self._register(connection)
        except TimedOut:
            self._scheduler.spawn(self._send_close_request(connection))
            raise
        if self._lost.done:
            raise ConnectionLost(f"the broker closed the {self._called} of {self.topic} while it was created")
        return connection

    def _gives_up(self, error: ClientError, give_up_at: float) -> bool:
        if self._was_attached:
            returns = self.outlives_topic and error.code == TopicNotFound
            return isinstance(error, Closed) or (error.code in _ENDS and not returns)
        return not error.retriable or (self._scheduler.now >= give_up_at and not self.patient)

    def _leave(self) -> None:
        if self._place is not None:
            self._place.detach(self.kind, self.number, self)
        self._place = self.connection = None
        if self._attaching.done:
            self._attaching = Pending(self._scheduler)

    async def _send_close_request(self, place: Connection | None) -> None:
        """Close it at the broker."""
        if place is not None and not place.closing:
            try:
                await place.request(self._close_request())
            except ClientError:
                return  # the connection is lost, so the broker has forgotten it

    async def _ask(self, request: Message) -> BaseCommand:
        """Send a request once attached, and resend it if the connection is lost."""

        async def attempt() -> BaseCommand:
            return await (await self.attached()).request(request)

        return await self._core.with_retries(attempt, only=ConnectionLost)
