"""The reference client for asyncio.

async with Client("pulsar://127.0.0.1:6650") as client:
    producer = await client.create_producer("my-topic")
    await producer.send(b"hello")
    consumer = await client.subscribe("my-topic", "my-subscription")
    message = await consumer.receive()
    await consumer.acknowledge(message)
"""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from refimpl.client import (
    LATEST,
    ClientCore,
    ClientOptions,
    Closed,
    ConsumerOptions,
    Message,
    MessageId,
    MultiTopicsConsumer,
    NamespaceConsumer,
    OutgoingMessage,
    PartitionedProducer,
    PatternConsumer,
    Pending,
    ProducerOptions,
    ProducerStats,
)
from refimpl.client.names import parse_service_url
from refimpl.client.producer import Producer as PartitionProducer
from refimpl.net.client_driver import ClientDriver, Dial, tcp_dial, with_listener
from refimpl.proposals.message_filter import BUILT_IN_REGISTRY, FilterRegistry
from refimpl.proposals.profiles import DEFAULT, Profiles
from refimpl.proposals.scalable_topics import ScalableTopicChanges
from refimpl.proposals.topic_list import TopicChanges

__all__ = ["Client", "Consumer", "Dial", "NamespaceSubscription", "PatternSubscription", "Producer", "Reader"]

T = TypeVar("T")


class Client:
    """A client of one Pulsar cluster; to be used as an asynchronous context manager.

    Args:
        service_url: "pulsar://host:port" or "pulsar+ssl://host:port".
        token: The credential, or what returns it anew for each connection; None: none.
        tls: Trusted certificates and more for pulsar+ssl; None: those of the system.
        options: Choices for the whole client; `token` above wins over the one in them.
        dial: Opens connections instead of TCP; see `refimpl.net.client_memory` for brokers inside the process.
        seed: Decides the jitter of delays and the names that are made up; None: the operating system does.
        wall_clock_offset: What to add to the event loop's time to get seconds since 1970; None: asked of the system once.
        profiles: Which reading of each proposal it speaks.
        message_filters: What it can filter by itself where brokers don't.
        log: Gets one line for each thing worth noting.

    Raises:
        ValueError: The service URL is none.
    """

    def __init__(
        self,
        service_url: str,
        *,
        token: str | Callable[[], str] | None = None,
        tls: ssl.SSLContext | None = None,
        options: ClientOptions | None = None,
        dial: Dial | None = None,
        seed: int | None = None,
        wall_clock_offset: float | None = None,
        profiles: Profiles = DEFAULT,
        message_filters: FilterRegistry = BUILT_IN_REGISTRY,
        log: Callable[[str], None] | None = None,
    ) -> None:
        options = options or ClientOptions()
        if token is not None:
            options = replace(options, token=token if callable(token) else lambda: token)
        self._dial = dial or tcp_dial(tls, parse_service_url(service_url).tls)
        self._core = partial(ClientCore, service_url, options, profiles=profiles, message_filters=message_filters, log=log)
        self._seed = seed
        self._offset = wall_clock_offset
        self._driver: ClientDriver | None = None

    async def __aenter__(self) -> Self:
        """Begin; no connection is made before one is needed."""
        loop = asyncio.get_running_loop()
        offset = self._offset if self._offset is not None else time.time() - loop.time()
        self._driver = ClientDriver(self._core(random=random.Random(self._seed), wall_clock_offset=offset), self._dial)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """Close all producers, consumers and connections."""
        driver = self._driver
        if driver is None:
            return
        self._driver = None
        try:
            await driver.result(driver.core.close)
        finally:
            with driver.entered():
                driver.core.pool.close()
            await driver.close()

    async def create_producer(self, topic: str, options: ProducerOptions | None = None, **choices: Any) -> Producer:
        """Produce to a topic, on all partitions or segments that it has.

        Args:
            topic: Its name, in full or local.
            options: What was chosen.
            choices: The fields of `ProducerOptions`, instead.

        Raises:
            ClientError: It can't be.
            ValueError: The name or a choice is wrong.
        """
        driver = self._open()
        chosen = with_listener(driver, options or ProducerOptions(**choices))
        group = await driver.result(lambda: driver.core.create_producer(topic, chosen), PartitionedProducer.close)
        return Producer(driver, group)

    async def subscribe(self, topic: str, subscription: str, **choices: Any) -> Consumer:
        """Subscribe to a topic, with all partitions or segments that it has.

        Args:
            topic: Its name, in full or local.
            subscription: The subscription's name.
            choices: The other fields of `ConsumerOptions`.

        Raises:
            ClientError: It can't be.
            ValueError: The name or a choice is wrong.
        """
        return Consumer(self._open(), await self._subscribe(topic, ConsumerOptions(subscription, **choices)))

    async def subscribe_pattern(
        self,
        pattern: str,
        subscription: str,
        *,
        discovery_period: float = 60.0,
        on_topics: Callable[[TopicChanges], None] | None = None,
        **choices: Any,
    ) -> PatternSubscription:
        r"""Subscribe to all persistent topics whose names match a pattern, now and later.

        Args:
            pattern: Such as `persistent://public/default/orders-.*`; tenant and namespace are literal.
            subscription: The subscription's name, on each of them.
            discovery_period: Seconds between two checks of the list.
            on_topics: Is called, by the event loop, after each change of the list.
            choices: The other fields of `ConsumerOptions`.

        Raises:
            ClientError: It can't be.
            ValueError: The pattern or a choice is wrong.
        """
        driver, options = self._open(), ConsumerOptions(subscription, **choices)

        def announce(changes: TopicChanges) -> None:
            if on_topics is not None:
                driver.loop.call_soon(on_topics, changes)

        def begin() -> Pending[PatternConsumer]:
            return driver.core.subscribe_pattern(pattern, options, discovery_period=discovery_period, on_topics=announce)

        group = await driver.result(begin, PatternConsumer.close)
        return PatternSubscription(driver, group)

    async def subscribe_namespace(
        self,
        namespace: str,
        subscription: str,
        *,
        property_filters: Mapping[str, str] | None = None,
        on_topics: Callable[[ScalableTopicChanges], None] | None = None,
        **choices: Any,
    ) -> NamespaceSubscription:
        """Subscribe to all scalable topics in a namespace that have certain properties, now and later: PR 25648.

        Args:
            namespace: "tenant/namespace".
            subscription: The subscription's name, on each of them.
            property_filters: What topics must have, all of it exactly; none: all topics are wanted.
            on_topics: Is called, by the event loop, after each change of the set.
            choices: The other fields of `ConsumerOptions`.

        Raises:
            ClientError: It can't be, such as with a broker that has no scalable topics.
            ValueError: The namespace or a choice is wrong.
        """
        driver, options = self._open(), ConsumerOptions(subscription, **choices)

        def announce(changes: ScalableTopicChanges) -> None:
            if on_topics is not None:
                driver.loop.call_soon(on_topics, changes)

        def begin() -> Pending[NamespaceConsumer]:
            return driver.core.subscribe_namespace(namespace, options, property_filters=property_filters, on_topics=announce)

        group = await driver.result(begin, NamespaceConsumer.close)
        return NamespaceSubscription(driver, group)

    async def create_reader(self, topic: str, start: MessageId = LATEST, **choices: Any) -> Reader:
        """Read a topic without a subscription that stays.

        Args:
            topic: Its name, in full or local.
            start: After which message to begin; `EARLIEST` and `LATEST` are the ends of the topic.
            choices: Other fields of `ConsumerOptions`.

        Raises:
            ClientError: It can't be.
            ValueError: The name or a choice is wrong.
        """
        driver = self._open()
        name = f"reader-{driver.core.random.getrandbits(40):010x}"
        options = ConsumerOptions(**{"subscription": name, **choices, "durable": False, "start_message_id": start})
        return Reader(driver, await self._subscribe(topic, options))

    async def _subscribe(self, topic: str, options: ConsumerOptions) -> MultiTopicsConsumer:
        driver = self._open()
        chosen = with_listener(driver, options)
        return await driver.result(lambda: driver.core.subscribe(topic, chosen), MultiTopicsConsumer.close)

    def _open(self) -> ClientDriver:
        if self._driver is None:
            raise Closed("the client is not open: use it in `async with`")
        return self._driver


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
        """Return the producer's name; with partitions, that of the first."""
        return self._group.name

    @property
    def partitions(self) -> int:
        """Return the number of producers: one for each partition, or just one."""
        return len(self._group.members)

    @property
    def stats(self) -> ProducerStats:
        """Return what was sent, on all partitions together: entries, bytes, and what their headers cost."""
        return self._group.stats

    async def send(
        self,
        payload: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        key: str | None = None,
        event_time: int | None = None,
        deliver_at: int | None = None,
    ) -> MessageId:
        """Send a message and wait for its receipt, before that for room if too many wait already.

        Args:
            payload: The message itself.
            properties: What to say about it.
            key: Messages with the same key go to the same partition.
            event_time: Milliseconds since 1970.
            deliver_at: Milliseconds since 1970 before which shared subscriptions do not get it.

        Returns:
            Where it stands.

        Raises:
            ClientError: It was not stored, or there is no telling.
        """
        message = OutgoingMessage(bytes(payload), dict(properties or {}), key, event_time, deliver_at)
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
    ) -> asyncio.Future[MessageId]:
        """Send a message without waiting; the arguments are those of `send`.

        Returns:
            Gets the message's place with its receipt.

        Raises:
            QueueFull: Too many wait for their receipts.
            ClientError: It can't be sent.
        """
        message = OutgoingMessage(bytes(payload), dict(properties or {}), key, event_time, deliver_at)
        return self._driver.start(lambda: self._group.send(message))[1]

    async def room(self) -> None:
        """Wait until `send_async` takes a message, whichever partition it goes to."""
        for producer in self._group.members:
            await self._room(producer)

    async def _room(self, producer: PartitionProducer) -> None:
        while not producer.has_room:
            await self._driver.result(producer.room)

    async def flush(self) -> None:
        """Wait until every message so far has its receipt or has failed."""
        await self._driver.result(lambda: self._driver.core.scheduler.spawn(self._group.flush()))

    async def close(self) -> None:
        """Wait for the receipts of what was sent, and leave."""
        await self._driver.result(self._group.close)

    async def __aenter__(self) -> Self:
        """Use it in a block."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it."""
        await self.close()


class Consumer:
    """Receives the messages of one subscription; made by `Client.subscribe`. Iterating over it ends when it is closed."""

    def __init__(self, driver: ClientDriver, group: MultiTopicsConsumer) -> None:
        self._driver = driver
        self._group = group

    @property
    def attached(self) -> frozenset[str]:
        """Return the full names of the topics that it receives from now, partitions by their own names."""
        return frozenset(topic for topic, consumer in self._group.members.items() if consumer.connection is not None)

    @property
    def queued(self) -> int:
        """Return how many messages wait to be received."""
        return len(self._group.inbox)

    async def receive(self) -> Message:
        """Wait for the next message; a cancelled wait loses none.

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
        """Acknowledge messages; the broker hears of a batch when all of it is."""
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
        """Have a message delivered again after `negative_ack_delay`; on an ordered subscription all that are not acknowledged."""
        with self._driver.entered():
            self._group.negative_acknowledge(message)

    async def redeliver(self) -> None:
        """Have everything that is not acknowledged delivered again."""
        with self._driver.entered():
            self._group.redeliver()

    async def seek(self, position: Message | MessageId | int) -> None:
        """Go on elsewhere.

        Args:
            position: A message, which comes next then; a message id if there is but one topic; `EARLIEST`, `LATEST`, or a
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
        """Leave; the subscription stays, if it is durable."""
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
    """Receives the messages of topics that come and go."""

    _group: PatternConsumer | NamespaceConsumer

    def __init__(self, driver: ClientDriver, group: PatternConsumer | NamespaceConsumer) -> None:
        super().__init__(driver, group)

    @property
    def topics(self) -> frozenset[str]:
        """Return the full names of the topics that are followed, as the broker says; partitions by their own names."""
        return self._group.topics

    @property
    def topics_hash(self) -> str | None:
        """Return the hash of that set."""
        return self._group.topics_hash


class PatternSubscription(Following):
    """Receives the messages of all topics that match a pattern; made by `Client.subscribe_pattern`."""


class NamespaceSubscription(Following):
    """Receives the messages of all scalable topics that were selected; made by `Client.subscribe_namespace`."""


class Reader(Consumer):
    """Reads a topic from a chosen place; made by `Client.create_reader`."""

    async def receive(self) -> Message:
        """Wait for the next message; it is acknowledged at once.

        Raises:
            ClientError: None will come.
        """
        message = await super().receive()
        await self.acknowledge_cumulative(message)
        return message
