"""What lets a producer or consumer grow with its partitioned topic: PIP-247 tells the counts, here its watch is kept on a connection.

connect --> watch, or poll --> counts --> attach to new partitions --> tell the application --> result --> connection lost --> connect ...
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from refimpl.backoff import Backoff
from refimpl.client.connection import Connection
from refimpl.client.errors import ClientError, Closed, ProtocolError
from refimpl.client.options import PartitionGrowthOptions
from refimpl.client.pool import MAX_PARTITIONS
from refimpl.client.requests import refusal_of
from refimpl.client.scheduler import Pending, Process, Timer
from refimpl.names import partition_name
from refimpl.proposals.partition_watch import PartitionCounts, PartitionWatch
from refimpl.wire import Frame
from refimpl.wire.pulsar_api_pb2 import BaseCommand, CommandPartitionUpdateResult

if TYPE_CHECKING:
    from refimpl.client.client import ClientCore


class PartitionUpdateWatcher:
    """Follows the number of partitions of one topic.

    Args:
        core: The client.
        topic: Full name of the partitioned topic.
        count: Its number of partitions, as far as known.
        options: Those of the producer or consumer.
        grow: Attaches to what is new among the partitions whose names it is given; raises ClientError if it could not.

    Attributes:
        watch: What is known of the topic.
    """

    def __init__(
        self,
        core: ClientCore,
        topic: str,
        count: int,
        options: PartitionGrowthOptions,
        grow: Callable[[list[str]], Coroutine[Pending[Any], None, None]],
    ) -> None:
        self.topic = topic
        self.watch = PartitionWatch(
            [topic],
            core.new_id("watcher"),
            counts={topic: count},
            profile=core.profiles.pip247,
            enabled=options.enable_notification_for_partition_update,
            poll_interval=options.auto_update_partitions_interval,
            operation_timeout=core.options.operation_timeout,
        )
        self._core = core
        self._scheduler = core.scheduler
        self._grow = grow
        self._listener = options.partitions_update_listener
        self._backoff = Backoff(core.random)
        self._connection: Connection | None = None
        self._lost: Pending[None] = Pending(self._scheduler)
        self._timer: Timer | None = None
        self._applying: Process[None] | None = None
        self._process = self._scheduler.spawn(self._stay())

    def close(self) -> None:
        """Follow it no longer; a watcher at the broker is closed."""
        self._process.cancel()
        if self._applying is not None:
            self._applying.cancel()
        self.watch.close()  # pip247.client.closes
        self._flush()
        if self._connection is not None:
            self._connection.detach("watcher_id", self.watch.watcher_id, self)
            self._connection = None

    def received(self, frame: Frame) -> None:
        """Take an update of the watcher."""
        self._take(frame.command)

    def connection_lost(self, connection: Connection) -> None:
        """Handle the end of the connection."""
        if connection is self._connection:
            self._connection = None
            self.watch.disconnected(self._scheduler.now)
            self._flush()
            self._lost.succeed(None)

    async def _stay(self) -> None:
        while True:
            try:
                connection = await self._core.pool.connection()  # any broker knows the counts: pip247.client.reconnects
            except Closed:
                return
            except ClientError:
                await self._scheduler.sleep(self._backoff.next())
                continue
            self._lost = Pending(self._scheduler)
            self._connection = connection
            connection.attach("watcher_id", self.watch.watcher_id, self)
            self.watch.connected(connection.flags, self._scheduler.now)
            if not self.watch.watches:
                self._backoff.reset()
            self._flush()
            await self._lost
            await self._scheduler.sleep(self._backoff.next())

    # What the watch wants

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._connection is not None:
            connection = self._connection
            for message in self.watch.commands_to_send(connection.new_request_id, self._scheduler.now):
                if isinstance(message, CommandPartitionUpdateResult):
                    connection.send(message)
                else:
                    connection.exchange(message).on_done(partial(self._answered, connection))
            deadline = self.watch.next_deadline()
            if deadline is not None:
                self._timer = self._scheduler.call_at(deadline, self._due)
        call = self.watch.next_call()
        if call is not None:
            self._applying = self._scheduler.spawn(self._apply(call))

    def _answered(self, connection: Connection, answer: Pending[BaseCommand]) -> None:
        if connection is self._connection and answer.error is None:
            command = answer.value()
            self._backoff.reset()
            if (refusal := refusal_of(command)) is not None:
                self._core.note(f"{self.topic}: its number of partitions is not told: {refusal}")
            self._take(command)

    def _take(self, command: BaseCommand) -> None:
        self.watch.received(command, self._scheduler.now)
        self._flush()

    def _due(self) -> None:
        self._timer = None
        self.watch.tick(self._scheduler.now)
        self._flush()

    # The listener of the proposal: first the partitions are attached to, then the application is told

    async def _apply(self, call: PartitionCounts) -> None:
        is_applied = False
        try:
            await self._attach(call)
            if self._listener is not None and (outcome := self._listener(call.topics, call.counts)) is not None:
                await outcome
            is_applied = True
        except Exception as error:  # the application's listener may raise anything: pip247.client.result
            self._core.note(f"{self.topic}: {call.counts} partitions are not applied: {type(error).__name__}: {error}")
        self.watch.called(is_applied, self._scheduler.now)
        self._flush()

    async def _attach(self, call: PartitionCounts) -> None:
        for count in call.counts:
            if count > MAX_PARTITIONS:
                raise ProtocolError(f"{self.topic} has {count} partitions, {MAX_PARTITIONS} are allowed")
            await self._grow([partition_name(self.topic, number) for number in range(count)])
