"""The producers, consumers, readers and watches of the asyncio client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from refimpl.client import (
    Closed,
    Message,
    MessageId,
    MultiTopicsConsumer,
    OutgoingMessage,
    PartitionedProducer,
    Pending,
    ProducerStats,
)
from refimpl.client.followed_topics import FollowingConsumer
from refimpl.client.producer import Producer as PartitionProducer
from refimpl.client.watch_driver import MachineT, WatchDriver
from refimpl.net.client_driver import ClientDriver

T = TypeVar("T")


class Producer:
    """Sends messages to one topic; made by `Client.create_producer`."""

    def __init__(self, driver: ClientDriver, group: PartitionedProducer) -> None:
        self._driver = driver
        self._group = group

    @property
    def topic(self) -> str:
        """Return the topic's full name."""
        return self._group.topic

    @property
    def name(self) -> str:
        """Return the producer's name; for a partitioned topic, that of the first partition."""
        return self._group.name

    @property
    def partitions(self) -> int:
        """Return the number of producers: one for each partition, or one for a non-partitioned topic."""
        return len(self._group.members)

    @property
    def stats(self) -> ProducerStats:
        """Return the stats of all partitions together: entries, bytes, and the size of headers."""
        return self._group.stats

    async def send(
        self,
        payload: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        key: str | None = None,
        event_time: int | None = None,
        deliver_at: int | None = None,
        sequence_id: int | None = None,
    ) -> MessageId:
        """Send a message and wait for its receipt; wait first if too many messages are pending.

        Args:
            payload: The payload.
            properties: The properties.
            key: Messages with the same key go to the same partition.
            event_time: Milliseconds since 1970.
            deliver_at: Milliseconds since 1970; shared subscriptions receive the message at this time or later.
            sequence_id: Above those before it; None: the next one.

        Returns:
            The message id.

        Raises:
            ClientError: The broker did not store the message, or the outcome is unknown.
        """
        message = OutgoingMessage(bytes(payload), dict(properties or {}), key, event_time, deliver_at, sequence_id=sequence_id)
        producer = self._group.route(message)
        await self._room(producer)
        _, future = self._driver.start(lambda: producer.send(message))
        return await future

    def send_async(
        self,
        payload: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        key: str | None = None,
        event_time: int | None = None,
        deliver_at: int | None = None,
        sequence_id: int | None = None,
    ) -> asyncio.Future[MessageId]:
        """Send a message without waiting, with the arguments of `send`.

        Returns:
            A future of the message id, which comes with the receipt.

        Raises:
            QueueFull: Too many messages wait for their receipts.
            ClientError: The message can't be sent.
        """
        message = OutgoingMessage(bytes(payload), dict(properties or {}), key, event_time, deliver_at, sequence_id=sequence_id)
        return self._driver.start(lambda: self._group.send(message))[1]

    async def room(self) -> None:
        """Wait until `send_async` accepts a message for any partition."""
        for producer in self._group.members:
            await self._room(producer)

    async def _room(self, producer: PartitionProducer) -> None:
        while not producer.has_room:
            await self._driver.result(producer.room)

    async def flush(self) -> None:
        """Wait until every message so far has its receipt or has failed."""
        await self._driver.result(lambda: self._driver.core.scheduler.spawn(self._group.flush()))

    async def close(self) -> None:
        """Wait for the pending receipts, and close."""
        await self._driver.result(self._group.close)

    async def __aenter__(self) -> Self:
        """Use it in a block."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it."""
        await self.close()


class Consumer:
    """Receives the messages of one subscription; made by `Client.subscribe`. Iteration ends when it is closed."""

    def __init__(self, driver: ClientDriver, group: MultiTopicsConsumer) -> None:
        self._driver = driver
        self._group = group

    @property
    def attached(self) -> frozenset[str]:
        """Return the full names of the topics that it receives from, with partitions listed individually."""
        return frozenset(topic for topic, consumer in self._group.members.items() if consumer.connection is not None)

    @property
    def queued(self) -> int:
        """Return the number of messages in the receive queue."""
        return len(self._group.inbox)

    async def receive(self) -> Message:
        """Wait for the next message; cancelling the wait loses no message.

        Raises:
            ClientError: None will come.
        """
        while True:
            with self._driver.entered():
                message = self._group.take()
            if message is not None:
                return message
            await self._driver.result(self._group.inbox.arrival)

    async def acknowledge(self, message: Message | Iterable[Message]) -> None:
        """Acknowledge messages; a batch is acknowledged at the broker once all its messages are."""
        with self._driver.entered():
            for one in [message] if isinstance(message, Message) else message:
                self._group.acknowledge(one)

    async def acknowledge_cumulative(self, message: Message) -> None:
        """Acknowledge a message and all before it on its topic.

        Raises:
            ValueError: The subscription is shared.
        """
        with self._driver.entered():
            self._group.acknowledge_cumulative(message)

    async def negative_acknowledge(self, message: Message) -> None:
        """Request redelivery of a message after `negative_ack_delay`; on an ordered subscription, of all unacknowledged messages."""
        with self._driver.entered():
            self._group.negative_acknowledge(message)

    async def redeliver(self) -> None:
        """Request redelivery of all unacknowledged messages."""
        with self._driver.entered():
            self._group.redeliver()

    async def seek(self, position: Message | MessageId | int) -> None:
        """Seek to a position.

        Args:
            position: A message, which is the next one then; a message id if there is only one topic; `EARLIEST`, `LATEST`, or a
                publish time in milliseconds since 1970, for all topics.
        """
        await self._spawn(self._group.seek(position))

    async def last_message_id(self) -> MessageId:
        """Return the id of the last message of the topic; entry_id -1: there is none.

        Raises:
            ValueError: There are several topics: use `last_message_ids`.
        """
        ids = list((await self.last_message_ids()).values())
        if len(ids) != 1:
            raise ValueError(f"there are {len(ids)} topics: use last_message_ids")
        return ids[0]

    async def last_message_ids(self) -> dict[str, MessageId]:
        """Return the id of the last message of each topic."""
        return await self._spawn(self._group.last_message_ids())

    async def unsubscribe(self) -> None:
        """Delete the subscription, and close."""
        await self._spawn(self._group.unsubscribe())

    async def close(self) -> None:
        """Close; a durable subscription stays."""
        await self._driver.result(self._group.close)

    async def __aenter__(self) -> Self:
        """Use it in a block."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it."""
        await self.close()

    def __aiter__(self) -> AsyncIterator[Message]:
        """Iterate over the messages."""
        return self

    async def __anext__(self) -> Message:
        """Return the next message."""
        try:
            return await self.receive()
        except Closed:
            raise StopAsyncIteration from None

    async def _spawn(self, coroutine: Coroutine[Pending[Any], None, T]) -> T:
        return await self._driver.result(lambda: self._driver.core.scheduler.spawn(coroutine))


class Following(Consumer):
    """Receives the messages of a changing set of topics."""

    _group: FollowingConsumer

    def __init__(self, driver: ClientDriver, group: FollowingConsumer) -> None:
        super().__init__(driver, group)

    @property
    def topics(self) -> frozenset[str]:
        """Return the full names of the selected topics, with partitions listed individually."""
        return self._group.topics

    @property
    def topics_hash(self) -> str | None:
        """Return the hash of `topics`."""
        return self._group.topics_hash


class PatternSubscription(Following):
    """Receives the messages of all topics that match a pattern; made by `Client.subscribe_pattern`."""


class NamespaceSubscription(Following):
    """Receives the messages of all selected scalable topics; made by `Client.subscribe_namespace`."""


class Reader(Consumer):
    """Reads a topic from a given position; made by `Client.create_reader`."""

    async def receive(self) -> Message:
        """Wait for the next message, and acknowledge it.

        Raises:
            ClientError: None will come.
        """
        message = await super().receive()
        await self.acknowledge_cumulative(message)
        return message


class Watch(Generic[MachineT]):
    """Drives the machine of a watch; made by `Client.watch`.

    Attributes:
        machine: The machine.
    """

    def __init__(self, driver: ClientDriver, watch: WatchDriver[MachineT]) -> None:
        self.machine = watch.machine
        self._driver = driver
        self._watch = watch

    def flush(self) -> None:
        """Send the machine's commands, after the application has used it directly."""
        with self._driver.entered():
            self._watch.flush()

    def close(self) -> None:
        """Close the watch at the broker."""
        with self._driver.entered():
            self._watch.close()
