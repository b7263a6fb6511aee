"""Consumers of scalable topics (PR 25648): of one topic, or of all topics of a namespace with certain properties.

namespace --> watch --> topics come and go --> look up each --> its segments come and go --> a consumer for each segment
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from refimpl.client.connection import Connection
from refimpl.client.consumer import Consumer
from refimpl.client.errors import BrokerRefused, ClientError
from refimpl.client.followed_topics import FollowingConsumer
from refimpl.client.multi_topics_consumer import MultiTopicsConsumer
from refimpl.client.options import ConsumerOptions
from refimpl.client.scheduler import Pending, Process
from refimpl.client.segment_lookup import SegmentLookup
from refimpl.client.watch_driver import WatchDriver
from refimpl.names import is_namespace
from refimpl.proposals.scalable_topics import PROPOSAL, ScalableTopicChanges, ScalableTopicsState, ScalableTopicsWatch, Segment
from refimpl.wire.pulsar_api_pb2 import TopicNotFound

if TYPE_CHECKING:
    from refimpl.client.client import ClientCore


class ScalableConsumer(MultiTopicsConsumer):
    """Consumers of the segments of scalable topics.

    Args:
        core: The client.
        options: Options of each consumer; consumers do not create topics.

    Attributes:
        lookups: The open lookups, by the full name of the scalable topic.
    """

    def __init__(self, core: ClientCore, options: ConsumerOptions) -> None:
        super().__init__(core, replace(options, force_topic_creation=False))
        self.lookups: dict[str, SegmentLookup] = {}
        self._segments: dict[str, dict[str, Pending[Connection]]] = {}  # by scalable topic and segment

    def close(self) -> Pending[None]:
        """Close all consumers; the result comes when the brokers have confirmed it, or are unreachable."""
        lookups, self.lookups, self._segments = self.lookups, {}, {}
        for lookup in lookups.values():
            lookup.close()
        return super().close()

    def _add(self, topic: str) -> Process[None]:
        """Start to attach to a scalable topic; the result comes with the first consumers of all its segments."""
        lookup = SegmentLookup(self._core, topic, partial(self._apply_segments, topic), self._lookup_ended)
        self.lookups[topic] = lookup
        self._segments[topic] = {}
        return self._core.scheduler.spawn(self._attached(lookup))

    async def _attached(self, lookup: SegmentLookup) -> None:
        """Wait for the consumers of all segments, of those too that come meanwhile; those that go meanwhile do not matter."""
        await lookup.start()
        waited: list[Pending[Connection]] = []
        while new := [one for one in self._segments.get(lookup.topic, {}).items() if one[1] not in waited]:
            for name, attaching in new:
                waited.append(attaching)
                try:
                    await attaching
                except ClientError:
                    if self._segments.get(lookup.topic, {}).get(name) is attaching:
                        raise

    def _remove(self, topic: str) -> None:
        lookup = self.lookups.pop(topic, None)
        if lookup is not None:
            lookup.close()
        self._apply_segments(topic, {})
        self._segments.pop(topic, None)

    def _apply_segments(self, topic: str, segments: Mapping[str, Segment]) -> None:
        """Attach to new segments, and close the consumers of removed segments."""
        known = self._segments.get(topic, {})
        for name in [name for name in known if name not in segments]:
            del known[name]
            if (consumer := self.members.pop(name, None)) is not None:
                consumer.close()
        for name in segments:
            if name not in known:
                known[name] = self._start(name)

    def _lookup_ended(self, lookup: SegmentLookup, error: ClientError) -> None:
        if self.lookups.get(lookup.topic) is lookup:
            self._lost(lookup.topic, error)

    def _ended(self, consumer: Consumer, error: ClientError) -> None:
        if self.members.get(consumer.topic) is consumer:
            del self.members[consumer.topic]
            for topic in [topic for topic, segments in self._segments.items() if consumer.topic in segments]:
                self._lost(topic, error)

    def _lost(self, topic: str, error: ClientError) -> None:
        """Remove a topic that is lost; the consumer ends with the last topic."""
        self._remove(topic)
        if not self.lookups:
            self._end(error)


class NamespaceConsumer(FollowingConsumer, ScalableConsumer):
    """Consumers of all scalable topics of a namespace with certain properties.

    Args:
        core: The client.
        namespace: "tenant/namespace".
        options: Options of each consumer.
        property_filters: The properties that a topic must have; empty: all topics match.
        on_topics: Called with each change of the set.

    Attributes:
        watch: The watch.

    Raises:
        ValueError: The name is not that of a namespace.
    """

    watch: ScalableTopicsWatch

    def __init__(
        self,
        core: ClientCore,
        namespace: str,
        options: ConsumerOptions,
        property_filters: Mapping[str, str],
        on_topics: Callable[[ScalableTopicChanges], None] | None,
    ) -> None:
        super().__init__(core, options)
        if not is_namespace(namespace):
            raise ValueError(f"{namespace!r} is not of the form tenant/namespace")
        self.watch = ScalableTopicsWatch(
            namespace,
            core.new_id("watch"),
            core.random,
            property_filters=property_filters,
            profile=core.profiles[PROPOSAL],
            operation_timeout=core.options.operation_timeout,
        )
        self._scheduler = core.scheduler
        self._on_topics = on_topics
        self._driver = WatchDriver(core, self.watch, self._follow, name=namespace)  # any broker can answer
        self._first: Pending[None] = Pending(self._scheduler)
        self._adding: dict[str, Pending[None]] = {}

    async def open(self) -> None:
        """Start, and wait until the consumers of the first set are attached.

        Raises:
            ClientError: The client can't get the set, or attaching to one of the topics failed; the consumer is closed.
        """
        try:
            self.watch.start()
            self._driver.start()
            await self._first
            first, self._adding = self._adding, {}
            for topic, attaching in first.items():
                await self._unless_gone(topic, attaching)
        except BaseException:
            self.close()
            raise

    def _follow(self) -> None:
        """Apply the changes of the watch: pr25648.client.late-listener."""
        if self.watch.state is ScalableTopicsState.FAILED:
            self._first.fail(self._failure())
        if not self.watch.is_started or self.error is not None:
            return
        if not self._first.done:
            self._adding = {topic: self._add(topic) for topic in sorted(self.watch.topics)}
            self._first.succeed(None)
        changes = self.watch.take_changes()
        if changes is None:
            return
        for topic in changes.removed:
            self._remove(topic)
        for topic in changes.added:
            self._add(topic)
        if self._on_topics is not None:
            self._on_topics(changes)

    def _failure(self) -> ClientError:
        refused = self.watch.failure
        assert refused is not None
        return self._driver.reason or BrokerRefused(refused.code, refused.message)

    # Topics

    def _lost(self, topic: str, error: ClientError) -> None:
        """Do nothing if the topic is no longer listed; otherwise retry after a delay."""
        self._remove(topic)
        self._core.note(f"{topic} is left: {error}")
        self._retry_later()

    def _attach_missing(self) -> None:
        for topic in sorted(self.watch.topics - self.lookups.keys()):
            self._add(topic)

    async def _unless_gone(self, topic: str, attaching: Pending[None]) -> None:
        try:
            await attaching
        except ClientError as error:
            if self.error is not None or (topic in self.watch.topics and error.code != TopicNotFound):
                raise
