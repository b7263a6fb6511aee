"""The producer for a scalable topic: a producer for each segment, and the routing of messages between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from refimpl.client.errors import ClientError
from refimpl.client.messages import OutgoingMessage
from refimpl.client.options import ProducerOptions
from refimpl.client.partitioned_producer import PartitionedProducer
from refimpl.client.producer import Producer
from refimpl.client.segment_lookup import SegmentLookup
from refimpl.proposals.scalable_topics import LAST_HASH, Segment
from refimpl.wire.murmur3 import murmur3

if TYPE_CHECKING:
    from refimpl.client.client import ClientCore


def segment_hash(key: str) -> int:
    """Hash a key as the Java V5 client does, so that all clients agree on its segment.

    Returns:
        The lowest 16 bits of MurmurHash3 (32 bits, seed 0) of its UTF-8 bytes.
    """
    return murmur3(key.encode()) & LAST_HASH


class ScalableProducer(PartitionedProducer):
    """Producers of the active segments of one scalable topic."""

    def __init__(self, core: ClientCore, topic: str, options: ProducerOptions) -> None:
        super().__init__(core, topic, options)
        self._segments: dict[str, tuple[Segment, Producer]] = {}
        self._lookup = SegmentLookup(core, topic, self._apply, lambda _, error: self._given_up(error))

    async def add(self, topics: Iterable[str]) -> None:  # noqa: ARG002
        """Attach to all segments.

        Raises:
            ClientError: The topic does not exist, or attaching to a segment failed; the producer is closed.
        """
        try:
            await self._lookup.start()
            for producer in list(self.members):
                await producer.attached()
        except BaseException:
            self.close()
            raise

    def route(self, message: OutgoingMessage) -> Producer:
        """Choose the producer for a message: by the hash range of its key, or else round-robin.

        Raises:
            ClientError: The producer has ended.
        """
        if self.error is None and message.key is not None:
            value = segment_hash(message.key)
            return next((one for segment, one in self._segments.values() if segment.start <= value <= segment.end), self.members[0])
        return super().route(message)

    def _apply(self, segments: Mapping[str, Segment]) -> None:
        """Attach to new segments; close the producers of removed segments once their messages have receipts."""
        gone = [self._segments.pop(name)[1] for name in list(self._segments) if name not in segments]
        for name, segment in segments.items():
            if name not in self._segments:
                producer = Producer(self._core, name, self.options, self._ended)
                self._segments[name] = segment, producer
                producer.start()
        self.members = [producer for _, producer in sorted(self._segments.values(), key=lambda one: one[0].start)]
        for producer in gone:
            self._core.scheduler.spawn(_left(producer))

    def _ended(self, producer: Producer, error: ClientError) -> None:
        if producer in self.members:
            self._given_up(error)

    def _given_up(self, error: ClientError) -> None:
        if self.error is None:
            self._end(error)
            for producer in self.members:
                producer.close()

    def _end(self, error: ClientError) -> None:
        super()._end(error)
        self._lookup.close()


async def _left(producer: Producer) -> None:
    if producer.connection is not None:
        await producer.flush()
    producer.close()
