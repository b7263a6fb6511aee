"""The consumer of an application: a consumer for each topic or partition, with one inbox."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from refimpl.client.connection import Connection
from refimpl.client.consumer import Consumer
from refimpl.client.errors import ClientError, Closed
from refimpl.client.inbox import Inbox
from refimpl.client.messages import EARLIEST, LATEST, Message, MessageId
from refimpl.client.options import ConsumerOptions
from refimpl.client.partition_watcher import PartitionUpdateWatcher
from refimpl.client.scheduler import Pending
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe

if TYPE_CHECKING:
    from refimpl.client.client import ClientCore


class MultiTopicsConsumer:
    """Consumers with one subscription and one inbox.

    Attributes:
        options: The options.
        members: The consumers, by the full names of their topics.
        inbox: The queue of their messages.
        error: Why it has ended; None while it is open.
    """

    def __init__(self, core: ClientCore, options: ConsumerOptions) -> None:
        self.options = options
        self.members: dict[str, Consumer] = {}
        self.inbox = Inbox(core.scheduler)
        self.error: ClientError | None = None
        self._core = core
        self._watcher: PartitionUpdateWatcher | None = None

    async def add(self, topics: list[str]) -> None:
        """Attach to topics.

        Raises:
            ClientError: Attaching to one of them failed; the consumer is closed.
        """
        try:
            for attaching in [self._add(topic) for topic in topics]:
                await attaching
        except BaseException:
            self.close()
            raise

    def follow(self, topic: str, count: int) -> None:
        """Follow the partition count of a topic, if the options say so.

        Args:
            topic: Full name of the partitioned topic.
            count: The partition count; 0: the topic is not partitioned, and stays so.
        """
        if count and self.options.auto_update_partitions and self.error is None:
            for consumer in self.members.values():
                consumer.outlives_topic = True  # pip247.client.shrinking
            self._watcher = PartitionUpdateWatcher(self._core, topic, count, self.options, self.grow)

    async def grow(self, topics: list[str]) -> None:
        """Attach to new partitions, from their first message on, because they are newer than the consumer.

        Args:
            topics: All partitions.

        Raises:
            ClientError: Attaching to one of them failed; the consumer continues without it.
        """
        for consumer in self.members.values():
            consumer.retry_now()
        options = replace(self.options, initial_position=CommandSubscribe.Earliest, start_message_id=EARLIEST)
        added = [Consumer(self._core, topic, options, self.inbox, self._ended) for topic in topics if topic not in self.members]
        self.members.update({consumer.topic: consumer for consumer in added})
        failure: ClientError | None = None
        for consumer, attaching in [(consumer, consumer.start()) for consumer in added]:
            try:
                await attaching
                consumer.outlives_topic = True
            except ClientError as error:
                failure = error
        if failure is not None:
            raise failure

    def take(self) -> Message | None:
        """Return the next message; None if there is none yet.

        Raises:
            ClientError: There is none and none will come.
        """
        return self.inbox.take()

    def acknowledge(self, message: Message) -> None:
        """Acknowledge one message."""
        if consumer := self._consumer(message):
            consumer.acknowledge(message.id)

    def acknowledge_cumulative(self, message: Message) -> None:
        """Acknowledge a message and all before it on its topic.

        Raises:
            ValueError: The subscription is shared, so other consumers have some of these messages.
        """
        if not self.options.ordered:
            raise ValueError("messages of a shared subscription can't be acknowledged cumulatively")
        if consumer := self._consumer(message):
            consumer.acknowledge_cumulative(message.id)

    def negative_acknowledge(self, message: Message) -> None:
        """Request redelivery of a message after a delay; on an ordered subscription, of all unacknowledged messages."""
        if consumer := self._consumer(message):
            consumer.negative_acknowledge(message.id)

    def redeliver(self) -> None:
        """Request redelivery of all unacknowledged messages."""
        self._check_open()
        for consumer in self.members.values():
            consumer.redeliver()

    async def seek(self, position: Message | MessageId | int) -> None:
        """Seek to a position, inclusive.

        Args:
            position: A message, which seeks in its topic only; a message id if there is only one topic; `EARLIEST`, `LATEST` or a
                publish time in milliseconds since 1970 for all topics.

        Raises:
            ValueError: The position does not identify a topic.
            ClientError: The broker refused, or did not answer.
        """
        self._check_open()
        members = list(self.members.values())
        if isinstance(position, Message):
            members = [consumer for consumer in members if consumer.topic == position.topic]
            position = position.id
        elif isinstance(position, MessageId) and position not in (EARLIEST, LATEST) and len(members) != 1:
            raise ValueError("a message id does not name its topic, and there are several: pass the message")
        for process in [self._core.scheduler.spawn(consumer.seek(position)) for consumer in members]:
            await process

    async def last_message_ids(self) -> dict[str, MessageId]:
        """Return the id of the last message of each topic; entry_id -1: there is none."""
        self._check_open()
        asked = {topic: self._core.scheduler.spawn(consumer.last_message_id()) for topic, consumer in self.members.items()}
        return {topic: await process for topic, process in asked.items()}

    async def unsubscribe(self) -> None:
        """Delete the subscription on each topic, and close.

        Raises:
            ClientError: The broker refused, for example because other consumers share the subscription.
        """
        self._check_open()
        watcher = self._watcher
        if watcher is not None:
            watcher.close()  # otherwise it would subscribe again
        try:
            for process in [self._core.scheduler.spawn(consumer.unsubscribe()) for consumer in self.members.values()]:
                await process
        except ClientError:
            if watcher is not None:
                self.follow(watcher.topic, watcher.watch.counts[watcher.topic])
            raise
        self.close()

    def close(self) -> Pending[None]:
        """Close all consumers; the result comes when the brokers have confirmed it, or are unreachable."""
        self._end(Closed("the consumer is closed"))
        closings = [consumer.close() for consumer in list(self.members.values())]
        self.members = {}
        return self._core.scheduler.spawn(_all(closings))

    def _add(self, topic: str) -> Pending[Any]:
        """Start to attach to a topic; the result comes when it is attached."""
        return self._start(topic)

    def _start(self, topic: str) -> Pending[Connection]:
        consumer = Consumer(self._core, topic, self.options, self.inbox, self._ended)
        self.members[topic] = consumer
        return consumer.start()

    def _ended(self, consumer: Consumer, error: ClientError) -> None:
        if self.members.get(consumer.topic) is consumer:
            del self.members[consumer.topic]
        if not self.members:
            self._end(error)

    def _end(self, error: ClientError) -> None:
        self.error = self.error or error
        self.inbox.close(self.error)
        if self._watcher is not None:
            self._watcher.close()
        self._core.forget(self)

    def _consumer(self, message: Message) -> Consumer | None:
        """Return the consumer that received a message; None if its topic was removed meanwhile."""
        self._check_open()
        return self.members.get(message.topic)

    def _check_open(self) -> None:
        if self.error is not None:
            raise self.error.with_traceback(None)


async def _all(pendings: Sequence[Pending[None]]) -> None:
    for pending in pendings:
        await pending
