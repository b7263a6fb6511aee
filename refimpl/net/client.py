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
from collections.abc import Callable, Mapping
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
    MessageId,
    MultiTopicsConsumer,
    NamespaceConsumer,
    PartitionedProducer,
    PatternConsumer,
    Pending,
    ProducerOptions,
)
from refimpl.client.names import parse_service_url
from refimpl.client.watch_driver import MachineT
from refimpl.net.client_driver import ClientDriver, Dial, tcp_dial, with_listener
from refimpl.net.handles import Consumer, NamespaceSubscription, PatternSubscription, Producer, Reader, Watch
from refimpl.proposals.message_filter import BUILT_IN_REGISTRY, FilterRegistry
from refimpl.proposals.profiles import DEFAULT, Profiles
from refimpl.proposals.scalable_topics import ScalableTopicChanges
from refimpl.proposals.topic_list import TopicChanges

__all__ = ["Client", "Consumer", "Dial", "NamespaceSubscription", "PatternSubscription", "Producer", "Reader", "Watch"]

T = TypeVar("T")


class Client:
    """A client of one Pulsar cluster. Use it as an asynchronous context manager.

    Args:
        service_url: "pulsar://host:port" or "pulsar+ssl://host:port".
        token: The authentication token, or a function that returns it for each connection; None: no authentication.
        tls: The TLS context for pulsar+ssl; None: the system's defaults.
        options: Options of the client; `token` overrides theirs.
        dial: Opens connections instead of TCP; see `refimpl.net.client_memory` for brokers inside the process.
        seed: Seed for jitter and generated names; None: a random one.
        wall_clock_offset: Offset from the event loop's time to seconds since 1970; None: from the system clock.
        profiles: Which reading of each proposal the client speaks.
        message_filters: The message filters that the client can run if the broker does not.
        log: Called with a line for each notable event.

    Raises:
        ValueError: The service URL is invalid.
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
        """Start the client; it connects only when needed."""
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
        """Create a producer for a topic, with all its partitions or segments.

        Args:
            topic: The topic's full or local name.
            options: The options.
            choices: Fields of `ProducerOptions`, instead of `options`.

        Raises:
            ClientError: The operation failed.
            ValueError: The name or an option is invalid.
        """
        driver = self._open()
        chosen = with_listener(driver, options or ProducerOptions(**choices))
        group = await driver.result(lambda: driver.core.create_producer(topic, chosen), PartitionedProducer.close)
        return Producer(driver, group)

    async def subscribe(self, topic: str, subscription: str, **choices: Any) -> Consumer:
        """Subscribe to a topic, with all its partitions or segments.

        Args:
            topic: The topic's full or local name.
            subscription: The subscription's name.
            choices: The other fields of `ConsumerOptions`.

        Raises:
            ClientError: The operation failed.
            ValueError: The name or an option is invalid.
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
        r"""Subscribe to all current and future persistent topics whose names match a pattern.

        Args:
            pattern: Such as `persistent://public/default/orders-.*`; tenant and namespace are literal.
            subscription: The subscription's name, on each of them.
            discovery_period: Seconds between two checks of the list.
            on_topics: Called by the event loop after each change of the list.
            choices: The other fields of `ConsumerOptions`.

        Raises:
            ClientError: The operation failed.
            ValueError: The pattern or an option is invalid.
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
        """Subscribe to all current and future scalable topics of a namespace that have certain properties: PR 25648.

        Args:
            namespace: "tenant/namespace".
            subscription: The subscription's name, on each of them.
            property_filters: The properties that a topic must have, with equal values; empty: all topics match.
            on_topics: Called by the event loop after each change of the set.
            choices: The other fields of `ConsumerOptions`.

        Raises:
            ClientError: The operation failed, for example because the broker does not support scalable topics.
            ValueError: The namespace or an option is invalid.
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
        """Create a reader, which reads a topic without a durable subscription.

        Args:
            topic: The topic's full or local name.
            start: The message after which to start; `EARLIEST` and `LATEST` are the ends of the topic.
            choices: Other fields of `ConsumerOptions`.

        Raises:
            ClientError: The operation failed.
            ValueError: The name or an option is invalid.
        """
        driver = self._open()
        name = f"reader-{driver.core.random.getrandbits(40):010x}"
        options = ConsumerOptions(**{"subscription": name, **choices, "durable": False, "start_message_id": start})
        return Reader(driver, await self._subscribe(topic, options))

    def watch(self, machine: MachineT, on_news: Callable[[], None] | None = None) -> Watch[MachineT]:
        """Drive a watch on a connection to the service URL, until the watch or the client is closed.

        Args:
            machine: The client's side of a watch, see `refimpl.proposals.watch_machine`.
            on_news: Called by the event loop after each event of the machine.

        Raises:
            Closed: The client is not open.
        """
        driver = self._open()

        def announce() -> None:
            if on_news is not None:
                driver.loop.call_soon(on_news)

        with driver.entered():
            return Watch(driver, driver.core.watch(machine, announce))

    async def _subscribe(self, topic: str, options: ConsumerOptions) -> MultiTopicsConsumer:
        driver = self._open()
        chosen = with_listener(driver, options)
        return await driver.result(lambda: driver.core.subscribe(topic, chosen), MultiTopicsConsumer.close)

    def _open(self) -> ClientDriver:
        if self._driver is None:
            raise Closed("the client is not open: use it in `async with`")
        return self._driver
