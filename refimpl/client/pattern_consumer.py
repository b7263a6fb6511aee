"""A consumer of all topics whose names match a pattern: it attaches to the topics that PIP-145 lists, and closes the others.

watch --> topics come and go --> consumers come and go
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from refimpl.client.connection import Connection
from refimpl.client.consumer import Consumer
from refimpl.client.errors import BrokerRefused, ClientError
from refimpl.client.followed_topics import FollowingConsumer
from refimpl.client.options import ConsumerOptions
from refimpl.client.scheduler import Pending
from refimpl.client.watch_driver import WatchDriver
from refimpl.names import is_namespace
from refimpl.proposals.topic_list import PROPOSAL, TopicChanges, TopicListWatch, without_domain
from refimpl.wire.pulsar_api_pb2 import TopicNotFound

if TYPE_CHECKING:
    from refimpl.client.client import ClientCore


def namespace_of_pattern(pattern: str) -> tuple[str, str]:
    r"""Return the namespace of a pattern, and the full pattern.

    Args:
        pattern: A pattern without a namespace means public/default. `^` and `\Q` may precede the namespace.

    Raises:
        ValueError: Its domain is not supported, or it has no namespace.
    """
    plain = without_domain(pattern).removeprefix("^").removeprefix("\\Q")
    if "/" not in plain and "://" not in pattern:
        return "public/default", f"persistent://public/default/{pattern.removeprefix('^')}"
    namespace = "/".join(plain.split("/", 2)[:2])
    if plain.count("/") < 2 or not is_namespace(namespace):
        raise ValueError(f"the pattern {pattern!r} does not begin with a tenant and a namespace")
    return namespace, pattern


class PatternConsumer(FollowingConsumer):
    """Consumers of all topics that match a pattern.

    Args:
        core: The client.
        pattern: The pattern of the topic names.
        options: Options of each consumer; consumers do not create topics.
        discovery_period: Seconds between two checks of the list.
        on_topics: Called with each change of the list.

    Attributes:
        watch: The watch.
    """

    watch: TopicListWatch

    def __init__(
        self,
        core: ClientCore,
        pattern: str,
        options: ConsumerOptions,
        discovery_period: float,
        on_topics: Callable[[TopicChanges], None] | None,
    ) -> None:
        super().__init__(core, replace(options, force_topic_creation=False))
        namespace, self.pattern = namespace_of_pattern(pattern)
        self.watch = TopicListWatch(
            namespace,
            self.pattern,
            core.new_id("watcher"),
            profile=core.profiles[PROPOSAL],
            discovery_period=discovery_period,
            operation_timeout=core.options.operation_timeout,
        )
        self._scheduler = core.scheduler
        self._retry_seconds = min(self._retry_seconds, discovery_period)
        self._on_topics = on_topics
        self._driver = WatchDriver(core, self.watch, self._follow, locate=self._locate, name=self.pattern)
        self._listed: Pending[None] = Pending(self._scheduler)
        self._attaching: dict[str, Pending[Connection]] = {}

    async def open(self) -> None:
        """Start, and wait until the consumers of the first list are attached.

        Raises:
            ClientError: The client can't get the list, or attaching to one of the topics failed; the consumer is closed.
        """
        seconds = self._core.options.operation_timeout
        try:
            self._driver.start()
            complaint = f"no list of the topics that match {self.pattern} came"
            await self._scheduler.limit(self._listed, seconds, complaint, lambda: self._driver.lost)
            first, self._attaching = self._attaching, {}
            for topic, attaching in first.items():
                await self._unless_gone(topic, attaching)
        except BaseException:
            self.close()
            raise

    async def _locate(self) -> Connection:
        """Look up the broker with the pattern as a topic name; if that is refused, use the broker that was asked."""
        try:
            return await self._core.pool.locate(self.pattern)
        except BrokerRefused as error:
            if error.retriable:
                raise
            return await self._core.pool.connection()

    def _follow(self) -> None:
        while self.error is None and (changes := self.watch.take_changes()) is not None:
            self._apply(changes)
        if self.watch.topics_hash is not None:
            self._listed.succeed(None)
        elif (error := self._failure()) is not None and not error.retriable and not self._listed.done:
            self._listed.fail(error)
            self._driver.close()

    def _failure(self) -> ClientError | None:
        """Return why there is no list; None: nothing has failed so far."""
        refused = self.watch.failure
        return self._driver.reason or (None if refused is None else BrokerRefused(refused.code, refused.message))

    # Members

    def _apply(self, changes: TopicChanges) -> None:
        for topic in changes.removed:
            if (consumer := self.members.pop(topic, None)) is not None:
                consumer.close()
        for topic in changes.added:
            self._attach(topic)
        if self._on_topics is not None:
            self._on_topics(changes)

    def _attach(self, topic: str) -> None:
        if topic not in self.members:
            attaching = self._start(topic)
            if not self._listed.done:
                self._attaching[topic] = attaching

    async def _unless_gone(self, topic: str, attaching: Pending[Connection]) -> None:
        try:
            await attaching
        except ClientError as error:  # pip145.client.deleted-while-starting
            if self.error is not None or (topic in self.watch.topics and error.code != TopicNotFound):
                raise

    def _ended(self, consumer: Consumer, error: ClientError) -> None:
        """Do nothing if the topic is no longer listed; otherwise retry after a delay."""
        if self.members.get(consumer.topic) is consumer:
            del self.members[consumer.topic]
            self._core.note(f"{consumer.topic} is left: {error}")
            self._retry_later()

    def _attach_missing(self) -> None:
        for topic in sorted(self.watch.topics - self.members.keys()):
            self._attach(topic)
