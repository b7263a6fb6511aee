"""A client: its connections, its producers and consumers, and their common clock."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from random import Random
from typing import Any, TypeVar

from refimpl.backoff import Backoff
from refimpl.client.connection import Connection
from refimpl.client.errors import ClientError
from refimpl.client.multi_topics_consumer import MultiTopicsConsumer
from refimpl.client.names import is_scalable
from refimpl.client.options import ClientOptions, ConsumerOptions, ProducerOptions
from refimpl.client.partitioned_producer import PartitionedProducer
from refimpl.client.pattern_consumer import PatternConsumer
from refimpl.client.pool import Pool
from refimpl.client.scalable_consumer import NamespaceConsumer, ScalableConsumer
from refimpl.client.scalable_producer import ScalableProducer
from refimpl.client.scheduler import Pending, Process, Scheduler
from refimpl.client.watch_driver import MachineT, WatchDriver, no_news
from refimpl.names import full_topic_name, partition_name
from refimpl.proposals.message_filter import BUILT_IN_REGISTRY, FilterRegistry
from refimpl.proposals.profiles import DEFAULT, Profiles
from refimpl.proposals.scalable_topics import ScalableTopicChanges
from refimpl.proposals.topic_list import TopicChanges

Part = PartitionedProducer | MultiTopicsConsumer
T = TypeVar("T")
OpenedT = TypeVar("OpenedT", PatternConsumer, NamespaceConsumer)


class ClientCore:
    """A client without I/O.

    Args:
        service_url: "pulsar://host:port" or "pulsar+ssl://host:port".
        options: Options of the client.
        random: Source of jitter and of generated names.
        wall_clock_offset: Offset from the time given to `entered` to seconds since 1970.
        profiles: Which reading of each proposal the client speaks.
        message_filters: The message filters that the client can run if the broker does not.
        log: Called with a line for each notable event.

    Raises:
        ValueError: The service URL is invalid.
    """

    def __init__(
        self,
        service_url: str,
        options: ClientOptions | None = None,
        *,
        random: Random,
        wall_clock_offset: float = 0.0,
        profiles: Profiles = DEFAULT,
        message_filters: FilterRegistry = BUILT_IN_REGISTRY,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self.options = options or ClientOptions()
        self.random = random
        self.profiles = profiles
        self.message_filters = message_filters
        self.scheduler = Scheduler()
        self.pool = Pool(self.scheduler, service_url, self.options, log)
        self._wall_clock_offset = wall_clock_offset
        self._log = log
        self._ids: dict[str, Iterator[int]] = {}
        self._parts: dict[Part, None] = {}
        self._watches: list[WatchDriver[Any]] = []

    # For the driver

    def entered(self, now: float) -> AbstractContextManager[None]:
        """Set the time for a block that uses the client."""
        return self.scheduler.entered(now)

    def connections_to_open(self) -> list[Connection]:
        """Return the connections to open; each is returned once."""
        return self.pool.take_to_open()

    def next_deadline(self) -> float | None:
        """Return when to call `tick` next, in seconds; None: no timer is set."""
        return self.scheduler.next_deadline()

    def tick(self, now: float) -> None:
        """Do what is due."""
        self.scheduler.tick(now)

    # For the application, in a block of `entered`

    def create_producer(self, topic: str, options: ProducerOptions | None = None) -> Process[PartitionedProducer]:
        """Create a producer for a topic, with all its partitions or segments.

        Raises:
            ValueError: The name is not a valid topic name.
        """
        return self.scheduler.spawn(self._create_producer(full_topic_name(topic), options or ProducerOptions()))

    def subscribe(self, topic: str, options: ConsumerOptions) -> Process[MultiTopicsConsumer]:
        """Subscribe to a topic, with all its partitions or segments.

        Raises:
            ValueError: The name is not a valid topic name.
        """
        return self.scheduler.spawn(self._subscribe(full_topic_name(topic), options))

    def subscribe_pattern(
        self,
        pattern: str,
        options: ConsumerOptions,
        *,
        discovery_period: float = 60.0,
        on_topics: Callable[[TopicChanges], None] | None = None,
    ) -> Process[PatternConsumer]:
        """Subscribe to all current and future persistent topics whose names match a pattern.

        Args:
            pattern: The pattern of the names; tenant and namespace are literal.
            options: Options of each consumer.
            discovery_period: Seconds between two checks of the list.
            on_topics: Called with each change of the list.

        Raises:
            ValueError: The pattern has no namespace, or does not compile.
        """
        group = PatternConsumer(self, pattern, options, discovery_period, on_topics)
        self._parts[group] = None
        return self.scheduler.spawn(self._opened(group))

    def subscribe_namespace(
        self,
        namespace: str,
        options: ConsumerOptions,
        *,
        property_filters: Mapping[str, str] | None = None,
        on_topics: Callable[[ScalableTopicChanges], None] | None = None,
    ) -> Process[NamespaceConsumer]:
        """Subscribe to all current and future scalable topics of a namespace that have certain properties.

        Args:
            namespace: "tenant/namespace".
            options: Options of each consumer.
            property_filters: The properties that a topic must have; empty: all topics match.
            on_topics: Called with each change of the set.

        Raises:
            ValueError: The name is not that of a namespace.
        """
        group = NamespaceConsumer(self, namespace, options, property_filters or {}, on_topics)
        self._parts[group] = None
        return self.scheduler.spawn(self._opened(group))

    def watch(self, machine: MachineT, on_news: Callable[[], None] = no_news) -> WatchDriver[MachineT]:
        """Drive a watch on a connection to the service URL, until the watch or the client is closed.

        Args:
            machine: The client's side of a watch; if it has a `start`, call that first.
            on_news: Called after each event of the machine.
        """
        driver = WatchDriver(self, machine, on_news)
        self._watches = [one for one in self._watches if not one.machine.is_closed] + [driver]
        driver.start()
        return driver

    def close(self) -> Process[None]:
        """Close all producers and consumers, then all connections; the result comes when that is done."""
        return self.scheduler.spawn(self._close())

    # For the parts of the client

    def new_id(self, kind: str) -> int:
        """Return the next id of a kind."""
        return next(self._ids.setdefault(kind, itertools.count()))

    def wall_clock_ms(self) -> int:
        """Return the time in milliseconds since 1970."""
        return max(0, int((self.scheduler.now + self._wall_clock_offset) * 1000))

    async def with_retries(self, attempt: Callable[[], Coroutine[Pending[Any], None, T]], only: type[ClientError] = ClientError) -> T:
        """Retry an operation until the operation time-out, while its failures are retriable.

        Args:
            attempt: The operation.
            only: Which retriable failures to retry.

        Raises:
            ClientError: The last failure.
        """
        give_up_at = self.scheduler.now + self.options.operation_timeout
        backoff = Backoff(self.random)
        while True:
            try:
                return await attempt()
            except only as error:
                if not error.retriable or self.scheduler.now >= give_up_at:
                    raise
                await self.scheduler.sleep(backoff.next())

    def note(self, line: str) -> None:
        """Write a line to the log."""
        if self._log is not None:
            self._log(line)

    def forget(self, part: Part) -> None:
        """Remove a producer or consumer that has ended."""
        self._parts.pop(part, None)

    async def _create_producer(self, topic: str, options: ProducerOptions) -> PartitionedProducer:
        scalable = is_scalable(topic)
        count = 0 if scalable else await self._partitions(topic)
        group = ScalableProducer(self, topic, options) if scalable else PartitionedProducer(self, topic, options)
        self._parts[group] = None
        await group.add(_names(topic, count))
        group.follow(count)
        return group

    async def _subscribe(self, topic: str, options: ConsumerOptions) -> MultiTopicsConsumer:
        scalable = is_scalable(topic)
        count = 0 if scalable else await self._partitions(topic)
        group = ScalableConsumer(self, options) if scalable else MultiTopicsConsumer(self, options)
        self._parts[group] = None
        await group.add(_names(topic, count))
        group.follow(topic, count)
        return group

    async def _partitions(self, topic: str) -> int:
        return await self.with_retries(lambda: self.pool.partitions(topic))

    async def _opened(self, group: OpenedT) -> OpenedT:
        await group.open()
        return group

    async def _close(self) -> None:
        for watch in self._watches:
            watch.close()
        closings = [part.close() for part in list(self._parts)]
        give_up = self.scheduler.sleep(self.options.operation_timeout)
        for closing in closings:
            give_up.on_done(partial(_give_up, closing))
            try:
                await closing
            except ClientError as error:
                self.note(f"not closed in time: {error}")
        self.pool.close()


def _names(topic: str, count: int) -> list[str]:
    """Return the names of all partitions of a topic, or its own name if it is not partitioned."""
    return [partition_name(topic, index) for index in range(count)] or [topic]


def _give_up(pending: Pending[None], _: object) -> None:
    pending.cancel()
