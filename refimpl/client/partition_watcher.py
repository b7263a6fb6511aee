"""Lets a producer or consumer grow with its partitioned topic: applies the partition counts of PIP-247.

watch, or poll --> counts --> attach to new partitions --> tell the application --> result
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from refimpl.client.errors import ProtocolError
from refimpl.client.options import PartitionGrowthOptions
from refimpl.client.pool import MAX_PARTITIONS
from refimpl.client.scheduler import Pending, Process
from refimpl.client.watch_driver import WatchDriver
from refimpl.names import partition_name
from refimpl.proposals.partition_watch import PROPOSAL, PartitionCounts, PartitionWatch

if TYPE_CHECKING:
    from refimpl.client.client import ClientCore


class PartitionUpdateWatcher:
    """Follows the partition count of one topic.

    Args:
        core: The client.
        topic: Full name of the partitioned topic.
        count: The known partition count.
        options: The options of the producer or consumer.
        grow: Called with the names of all partitions to attach to the new ones; raises ClientError if it fails.

    Attributes:
        watch: The watch.
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
            profile=core.profiles[PROPOSAL],
            enabled=options.enable_notification_for_partition_update,
            poll_interval=options.auto_update_partitions_interval,
            operation_timeout=core.options.operation_timeout,
        )
        self._core = core
        self._scheduler = core.scheduler
        self._grow = grow
        self._listener = options.partitions_update_listener
        self._applying: Process[None] | None = None
        self._driver = WatchDriver(core, self.watch, self._follow, name=topic)  # any broker knows the counts: pip247.client.reconnects
        self._driver.start()

    def close(self) -> None:
        """Stop following the topic, and close the watcher at the broker."""
        if self._applying is not None:
            self._applying.cancel()
        self._driver.close()  # pip247.client.closes

    def _follow(self) -> None:
        if (call := self.watch.next_call()) is not None:
            self._applying = self._scheduler.spawn(self._apply(call))

    # The listener of the proposal: first attach to the partitions, then notify the application

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
        self._driver.flush()

    async def _attach(self, call: PartitionCounts) -> None:
        for count in call.counts:
            if count > MAX_PARTITIONS:
                raise ProtocolError(f"{self.topic} has {count} partitions, {MAX_PARTITIONS} are allowed")
            await self._grow([partition_name(self.topic, number) for number in range(count)])
