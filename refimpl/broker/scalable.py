"""Scalable topics, PR 25648: their records, who watches them, and the commands that ask about them.

What is looked up and watched is `topic://tenant/namespace/name`; what is produced to and consumed from, as any topic, are its
segments, such as `segment://tenant/namespace/name/0000-ffff-0`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

from google.protobuf.message import Message

from refimpl.broker.names import SEGMENT, TopicName, parse_any_topic
from refimpl.proposals.scalable_topics import (
    Layout,
    LayoutBroker,
    ScalableTopicsBroker,
    first_layout,
    namespace_of,
    parse_segment_topic,
    record_path,
)
from refimpl.store import StoredScalableTopic, StoredTopic
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandScalableTopicClose,
    CommandScalableTopicLookup,
    CommandWatchScalableTopics,
    CommandWatchScalableTopicsClose,
    FeatureFlags,
)

if TYPE_CHECKING:
    from refimpl.broker.broker import Broker
    from refimpl.broker.session import Session


class ScalableTopics:
    """The scalable topics of a broker.

    Whoever changes one goes through `create`, `change` and `delete`, so that it is announced.

    Attributes:
        watches: Who watches which namespaces.
        layouts: Who has looked up which topics.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._store = broker.store
        enabled = broker.configuration.scalable_topics_enabled
        self.watches = ScalableTopicsBroker(
            self.names,
            self._properties,
            profile=broker.profiles.pr25648,
            enabled=enabled,
            may_watch=lambda connection, namespace: broker.may_list(cast("Session", connection), namespace),
        )
        self.layouts = LayoutBroker(
            self._layout,
            service_url=broker.service_url,
            enabled=enabled,
            may_look_up=lambda connection, namespace: broker.authorization.allows(
                cast("Session", connection).role, namespace, "produce", "consume"
            ),
        )

    # Records

    def names(self, namespace: str) -> Iterable[str]:
        """Return the scalable topics of a namespace, by full name; none if there is no such namespace."""
        return sorted(self._store.scalable.get(namespace, ()))

    def record(self, topic: str) -> StoredScalableTopic | None:
        """Return what is stored of a scalable topic; None: there is none of that full name."""
        return self._store.scalable.get(namespace_of(topic), {}).get(topic)

    def create(self, topic: str, properties: Mapping[str, str], segments: int) -> None:
        """Create a scalable topic that does not exist: pr25648.diff.on-create, .layout.pushed."""
        self._store.scalable.setdefault(namespace_of(topic), {})[topic] = StoredScalableTopic(dict(properties), segments)
        self._changed(topic)
        self._send(self.layouts.changed(topic))

    def change(self, topic: str, properties: Mapping[str, str]) -> None:
        """Give a scalable topic that exists other properties: pr25648.diff.on-property-change."""
        self._store.scalable[namespace_of(topic)][topic].properties = dict(properties)
        self._changed(topic)

    def delete(self, topic: str) -> None:
        """Delete a scalable topic that exists, with its segments: core.push.topic-deleted, pr25648.diff.on-delete."""
        self._unload(topic)
        namespace = namespace_of(topic)
        del self._store.scalable[namespace][topic]
        if not self._store.scalable[namespace]:
            del self._store.scalable[namespace]
        self._changed(topic)

    def unload(self, namespace: str) -> None:
        """Close the producers and consumers of all segments in a namespace; watches stay."""
        for topic in self.names(namespace):
            self._unload(topic)

    def exists(self, name: TopicName) -> bool:
        """Tell whether a scalable topic, or a segment, exists."""
        return self.segment(name) is not None if name.domain == SEGMENT else self.record(name.full) is not None

    def segment(self, name: TopicName) -> StoredTopic | None:
        """Return what a segment holds; None: there is none of that name: pr25648.layout.segment-unknown."""
        topic, segment = parse_segment_topic(name.full) or ("", None)
        record = self.record(topic)
        layout = self._layout(topic)
        if segment is None or record is None or layout is None or segment not in layout.segments:
            return None
        return self._store.segment(record, name.full)

    def _properties(self, topic: str) -> Mapping[str, str] | None:
        record = self.record(topic)
        return None if record is None else record.properties

    def _layout(self, topic: str) -> Layout | None:
        record = self.record(topic)
        return None if record is None else first_layout(topic, record.segments)

    def _unload(self, topic: str) -> None:
        record = self.record(topic)
        for segment in list(record.topics) if record else ():
            self._broker.unload(parse_any_topic(segment))

    # Who wants to know

    def advertise(self, flags: FeatureFlags) -> None:
        """Set the feature flag: pr25648.flag.advertised, .switched-off."""
        self.watches.advertise(flags)

    def disconnected(self, session: Session) -> None:
        """Forget a connection: pr25648.watch.dropped-with-connection."""
        self.watches.disconnected(session)
        self.layouts.disconnected(session)

    def next_deadline(self) -> float | None:
        """Return when `tick` has to be called, in seconds; None: never, unless something happens."""
        return self.watches.next_deadline()

    def tick(self, now: float) -> None:
        """Tell what is due: pr25648.diff.window."""
        self._send(self.watches.tick(now))

    def _changed(self, topic: str) -> None:
        self.watches.notified(record_path(topic), self._broker.now)

    def _send(self, updates: Iterable[tuple[object, Message]]) -> None:
        for connection, update in updates:
            cast("Session", connection).send(update)


def watch(session: Session, request: CommandWatchScalableTopics, frame: Frame) -> None:  # noqa: ARG001
    """Open a watch; one that has nothing to learn is answered by silence: pr25648.hash.silence."""
    update = session.broker.scalable.watches.watch(session, request)
    if update is not None:
        session.send(update)


def close_watch(session: Session, request: CommandWatchScalableTopicsClose, frame: Frame) -> None:  # noqa: ARG001
    """End a watch; nothing answers: pr25648.close.silent."""
    session.broker.scalable.watches.close(session, request)


def lookup(session: Session, request: CommandScalableTopicLookup, frame: Frame) -> None:  # noqa: ARG001
    """Answer what a topic is made of: pr25648.layout.answer."""
    session.send(session.broker.scalable.layouts.lookup(session, request))


def close_lookup(session: Session, request: CommandScalableTopicClose, frame: Frame) -> None:  # noqa: ARG001
    """End a look-up; nothing answers: pr25648.layout.close-silent."""
    session.broker.scalable.layouts.close(session, request)
