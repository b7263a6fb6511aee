"""Drives a client: opens its connections, moves bytes between them and asyncio transports, and sets one timer.

application, bytes, end of a connection, the timer -> ClientDriver -> ClientCore
ClientCore -> ClientDriver -> Link.pump() of each connection

The clock is the event loop's, so a client runs in real or in virtual time.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from refimpl.client import ClientCore, Closed, Connection, Pending
from refimpl.client.options import PartitionGrowthOptions
from refimpl.net.alarm import Alarm

T = TypeVar("T")
OptionsT = TypeVar("OptionsT", bound=PartitionGrowthOptions)

CLOSE_SECONDS = 1.0
"""Seconds for a transport to send the remaining bytes and to close."""


class Transport(Protocol):
    """The part of an asyncio transport that a connection uses."""

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def close(self) -> None:
        """Close after sending what was written."""

    def abort(self) -> None:
        """Close at once."""


Dial = Callable[[str, int, Callable[[], asyncio.Protocol]], Awaitable[Any]]
"""Opens a connection to host and port. The callable makes the protocol; its `connection_made` gets a `Transport`."""


class Link(asyncio.Protocol):
    """Connects a connection of the client to a transport.

    Attributes:
        gone: A future that is done when the transport has ended, or could not be opened.
    """

    def __init__(self, driver: ClientDriver, connection: Connection) -> None:
        self._driver = driver
        self._connection = connection
        self._transport: Transport | None = None
        self._paused = False
        self._abort_timer: asyncio.TimerHandle | None = None
        self.gone: asyncio.Future[None] = driver.loop.create_future()
        self._dialling = driver.loop.create_task(self._dial(), name=f"dial {connection.target}")

    async def _dial(self) -> None:
        target = self._connection.target
        try:
            await self._driver.dial(target.host, target.port, lambda: self)
        except Exception as error:
            self._end(f"{type(error).__name__}: {error}")
        except asyncio.CancelledError:
            self._end("given up")  # by pump(); nothing else has the task

    def connection_made(self, transport: Any) -> None:
        """Store the transport."""
        self._transport = transport
        self._connection.opened(self._driver.loop.time())
        self._driver.settle()

    def data_received(self, data: bytes) -> None:
        """Pass bytes to the connection."""
        self._connection.receive(data, self._driver.loop.time())
        self._driver.settle()

    def pause_writing(self) -> None:
        """Pause sending."""
        self._paused = True

    def resume_writing(self) -> None:
        """Resume sending."""
        self._paused = False
        self.pump()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the transport."""
        self._end("the broker has ended the connection" if exc is None else f"{type(exc).__name__}: {exc}")

    def pump(self) -> None:
        """Send the connection's output, and close when it has ended."""
        if self.gone.done():
            return
        while self._transport is not None and not self._paused and (data := self._connection.data_to_send()):
            self._transport.write(data)
        if not self._connection.closing:
            return
        if self._transport is None:
            self._dialling.cancel()
        elif self._abort_timer is None:
            self._abort_timer = self._driver.loop.call_later(CLOSE_SECONDS, self._transport.abort)
            self._transport.close()

    def _end(self, reason: str) -> None:
        if self.gone.done():
            return
        self.gone.set_result(None)
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        self._connection.eof(self._driver.loop.time(), reason)
        self._driver.forget(self)


class ClientDriver:
    """Drives one client on the running event loop.

    Args:
        core: The client.
        dial: Opens connections.
    """

    def __init__(self, core: ClientCore, dial: Dial) -> None:
        self.core = core
        self.dial = dial
        self.loop = asyncio.get_running_loop()
        self._links: list[Link] = []
        self._alarm = Alarm(self.loop, self._tick)
        self._tasks: set[asyncio.Future[object]] = set()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Use the client in a block; at the end, start what it wants to do."""
        try:
            with self.core.entered(self.loop.time()):
                yield
        finally:
            self.settle()

    def start(self, begin: Callable[[], Pending[T]]) -> tuple[Pending[T], asyncio.Future[T]]:
        """Start an operation, and return it together with a future of its result."""
        future: asyncio.Future[T] = self.loop.create_future()
        with self.entered():
            pending = begin()
            pending.on_done(partial(_settle, future))
        return pending, future

    async def result(self, begin: Callable[[], Pending[T]], undo: Callable[[T], object] | None = None) -> T:
        """Start an operation and return its result; if the caller is cancelled, cancel or undo the operation."""
        pending, future = self.start(begin)
        try:
            return await future
        except asyncio.CancelledError:
            with self.entered():
                if not pending.done:
                    pending.cancel()
                elif undo is not None and pending.error is None:
                    undo(pending.value())
            raise

    def awaited(self, awaitable: Awaitable[object]) -> Pending[None]:
        """Return a pending result that completes or fails with an awaitable of the event loop."""
        pending: Pending[None] = Pending(self.core.scheduler)
        task = asyncio.ensure_future(awaitable)
        self._tasks.add(task)
        task.add_done_callback(partial(self._came, pending))
        return pending

    def settle(self) -> None:
        """Open the client's new connections, send its output, and set the timer for its next deadline."""
        self._links += [Link(self, connection) for connection in self.core.connections_to_open()]
        for link in list(self._links):
            link.pump()
        self._alarm.set(self.core.next_deadline())

    def forget(self, link: Link) -> None:
        """Handle the end of a transport."""
        self._links.remove(link)
        self.settle()

    async def close(self) -> None:
        """Stop the timer, and wait for all transports to close after the client has ended its connections."""
        self.settle()
        own = asyncio.current_task()
        for task in [task for task in self._tasks if task is not own]:
            task.cancel()
        while waited := [link.gone for link in self._links] + [task for task in self._tasks if task is not own]:
            await asyncio.wait(waited)
        self._alarm.set(None)

    def _came(self, pending: Pending[None], task: asyncio.Future[object]) -> None:
        self._tasks.discard(task)
        error = Closed("given up") if task.cancelled() else task.exception()
        if self.core.pool.closed:
            return
        with self.entered():
            if isinstance(error, Exception):
                pending.fail(error)
            else:
                pending.succeed(None)

    def _tick(self, now: float) -> None:
        try:
            self.core.tick(now)
        finally:
            self.settle()


def _settle(future: asyncio.Future[T], pending: Pending[T]) -> None:
    if future.done():
        return
    if pending.error is None:
        future.set_result(pending.value())
    else:
        future.set_exception(pending.error)


def tcp_dial(tls: ssl.SSLContext | None, wanted: bool) -> Dial:
    """Return a `Dial` for TCP.

    Args:
        tls: The TLS context; None: the system's defaults.
        wanted: Whether to use TLS.
    """
    context = (tls or ssl.create_default_context()) if wanted else None

    async def dial(host: str, port: int, protocol_factory: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        transport, _ = await asyncio.get_running_loop().create_connection(protocol_factory, host, port, ssl=context)
        return transport

    return dial


def with_listener(driver: ClientDriver, options: OptionsT) -> OptionsT:
    """Run the application's listener on the event loop; it may be a coroutine function."""
    listener = options.partitions_update_listener
    if listener is None:
        return options

    async def call(topics: tuple[str, ...], counts: tuple[int, ...]) -> None:
        outcome = listener(topics, counts)
        if outcome is not None:
            await outcome

    return replace(options, partitions_update_listener=lambda topics, counts: driver.awaited(call(topics, counts)))
