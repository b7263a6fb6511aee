"""The lookup of a scalable topic's segments, kept up to date across reconnects: PR 25648, commands 70 to 72."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from google.protobuf.message import Message as Command

from refimpl.client.attached import Attached
from refimpl.client.connection import Connection
from refimpl.client.errors import BrokerRefused, ClientError, ConnectionLost, ProtocolError
from refimpl.client.pool import MAX_PARTITIONS
from refimpl.client.scheduler import Pending
from refimpl.proposals.scalable_topics import Segment, active_segments, supersedes
from refimpl.wire import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandScalableTopicClose,
    CommandScalableTopicLookup,
    CommandScalableTopicUpdate,
    UnsupportedVersionError,
)

if TYPE_CHECKING:
    from refimpl.client.client import ClientCore

OnSegments = Callable[[dict[str, Segment]], None]
"""Called with the active segments, by the names of their topics."""


class SegmentLookup(Attached):
    """A lookup that stays open.

    Args:
        core: The client.
        topic: Full name of a scalable or an ordinary topic.
        on_segments: Called with each layout, even if nothing has changed.
        on_end: Called when the lookup has ended permanently.
    """

    kind = "session_id"

    def __init__(self, core: ClientCore, topic: str, on_segments: OnSegments, on_end: Callable[[SegmentLookup, ClientError], None]) -> None:
        super().__init__(core, topic, core.new_id("session"))
        self._on_segments = on_segments
        self._report_end = on_end
        self._epoch: int | None = None
        self._answer: Pending[CommandScalableTopicUpdate] = Pending(self._scheduler)

    def lose(self, *, at_once: bool = False) -> None:
        """Handle the end of its connection."""
        self._answer.fail(ConnectionLost(f"the connection was lost while {self.topic} was looked up"))
        super().lose(at_once=at_once)

    def received(self, frame: Frame) -> None:
        """Handle an update; the first one on a connection is the answer."""
        update = frame.command.scalableTopicUpdate
        if not self._answer.done:
            self._answer.succeed(update)
        elif update.HasField("error"):
            self.lose()
        else:
            self._apply(update)

    async def _register(self, connection: Connection) -> None:
        if not connection.flags.supports_scalable_topics:  # pr25648.client.needs-flag
            raise BrokerRefused(UnsupportedVersionError, "the broker does not support scalable topics")
        self._answer = Pending(self._scheduler)
        connection.send(CommandScalableTopicLookup(session_id=self.number, topic=self.topic))
        seconds = self._core.options.operation_timeout
        update = await self._scheduler.limit(self._answer, seconds, f"the broker did not answer the lookup of {self.topic}")
        if update.HasField("error"):
            raise BrokerRefused(update.error, update.message)
        self._epoch = None  # the next broker may count differently
        if not self._apply(update):
            raise ProtocolError(f"{connection.target} answered the lookup of {self.topic} without a usable layout")

    def _apply(self, update: CommandScalableTopicUpdate) -> bool:
        """Apply an update, unless it is outdated or invalid."""
        if not supersedes(update, self._epoch) or len(update.dag.segments) > MAX_PARTITIONS:  # pr25648.layout.client-epoch
            return False
        segments = active_segments(update)  # pr25648.layout.client-attaches
        if segments:
            self._epoch = update.dag.epoch
            self._on_segments(segments)
        return bool(segments)

    @property
    def _called(self) -> str:
        return "lookup"

    async def _send_close_request(self, place: Connection | None) -> None:
        """Send the close, which the broker does not answer: pr25648.layout.close-silent."""
        if place is not None:
            place.send(self._close_request())

    def _close_request(self) -> Command:
        return CommandScalableTopicClose(session_id=self.number)

    def _on_attached(self, connection: Connection) -> None:
        """Do nothing: there is nothing to resume."""

    def _on_end(self, error: ClientError) -> None:
        self._answer.fail(error)
        self._report_end(self, error)
