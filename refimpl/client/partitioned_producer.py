"""The producer of an application: a producer for each partition of a topic, and the routing of messages between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refimpl.client.errors import ClientError, Closed
from refimpl.client.messages import MessageId, OutgoingMessage
from refimpl.client.options import ProducerOptions
from refimpl.client.partition_watcher import PartitionUpdateWatcher
from refimpl.client.producer import Producer
from refimpl.client.producer_stats import ProducerStats
from refimpl.client.scheduler import Pending

if TYPE_CHECKING:
    from refimpl.client.client import ClientCore


def key_hash(key: str) -> int:
    """Hash a key as the Java client does by default, so that all clients agree on its partition.

    Returns:
        The hash code of `java.lang.String`, without the sign bit.
    """
    value = 0
    data = key.encode("utf-16-be", "surrogatepass")
    for place in range(0, len(data), 2):
        value = (31 * value + int.from_bytes(data[place : place + 2], "big")) & 0xFFFF_FFFF
    return value & 0x7FFF_FFFF


class PartitionedProducer:
    """The producers of the partitions of one topic; only one if it is not partitioned.

    Attributes:
        topic: Full name.
        members: The producers, by partition.
        error: Why it has ended; None while it is open.
    """

    def __init__(self, core: ClientCore, topic: str, options: ProducerOptions) -> None:
        self.topic = topic
        self.options = options
        self.members: list[Producer] = []
        self.error: ClientError | None = None
        self._core = core
        self._turn = core.random.randrange(1 << 30)
        self._watcher: PartitionUpdateWatcher | None = None

    async def add(self, topics: list[str]) -> None:
        """Attach to the next partitions.

        Raises:
            ClientError: Attaching to one of them failed; the producer is closed.
        """
        added = [Producer(self._core, topic, self.options, self._ended) for topic in topics]
        try:
            for attaching in [producer.start() for producer in added]:
                await attaching
        except BaseException:
            for producer in added:
                producer.close()
            self.close()
            raise
        self.members += added

    def follow(self, count: int) -> None:
        """Follow the partition count of the topic, if the options say so.

        Args:
            count: The partition count; 0: the topic is not partitioned, and stays so.
        """
        if count and self.options.auto_update_partitions and self.error is None:
            for producer in self.members:
                producer.outlives_topic = True  # pip247.client.shrinking
            self._watcher = PartitionUpdateWatcher(self._core, self.topic, count, self.options, self.grow)

    async def grow(self, topics: list[str]) -> None:
        """Attach to new partitions, in order, up to the first failure, because messages are routed by partition index.

        Args:
            topics: All partitions.

        Raises:
            ClientError: Attaching to one of them failed; the producer continues without it.
        """
        for producer in self.members:
            producer.retry_now()
        added = [Producer(self._core, topic, self.options, self._ended) for topic in topics[len(self.members) :]]
        try:
            for producer, attaching in [(producer, producer.start()) for producer in added]:
                await attaching
                producer.outlives_topic = True
                self.members.append(producer)
        finally:
            for producer in added:
                if producer not in self.members:
                    producer.close()

    @property
    def name(self) -> str:
        """Return the producer's name; for a partitioned topic, that of the first partition."""
        return self.members[0].name

    @property
    def stats(self) -> ProducerStats:
        """Return the stats of all partitions together."""
        return ProducerStats.total(producer.stats for producer in self.members)

    def route(self, message: OutgoingMessage) -> Producer:
        """Choose the producer for a message: by its key, or else round-robin.

        Raises:
            ClientError: The producer has ended.
        """
        if self.error is not None:
            raise self.error.with_traceback(None)
        if message.key is not None:
            return self.members[key_hash(message.key) % len(self.members)]
        self._turn += 1
        return self.members[self._turn % len(self.members)]

    def send(self, message: OutgoingMessage) -> Pending[MessageId]:
        """Accept a message; see `Producer.send`."""
        return self.route(message).send(message)

    async def flush(self) -> None:
        """Wait until every message so far has its receipt or has failed."""
        for process in [self._core.scheduler.spawn(producer.flush()) for producer in self.members]:
            await process

    def close(self) -> Pending[None]:
        """Accept no more messages, and close once the sent messages have their receipts.

        Returns:
            A result that comes when the brokers have confirmed it, or are unreachable.
        """
        first = self.error is None
        self._end(Closed("the producer is closed"))
        return self._core.scheduler.spawn(self._leave() if first else _nothing())

    async def _leave(self) -> None:
        members = list(self.members)
        for process in [self._core.scheduler.spawn(producer.flush()) for producer in members if producer.connection is not None]:
            await process
        for closing in [producer.close() for producer in members]:
            await closing

    def _ended(self, ended: Producer, error: ClientError) -> None:
        if self.error is None and ended in self.members:
            self._end(error)
            for producer in self.members:
                producer.close()

    def _end(self, error: ClientError) -> None:
        self.error = self.error or error
        if self._watcher is not None:
            self._watcher.close()
        self._core.forget(self)


async def _nothing() -> None:
    """Do nothing."""
