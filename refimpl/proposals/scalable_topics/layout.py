"""PR 25648, layouts: how a client finds the segments of a scalable topic, with the commands 70 to 72.

    SCALABLE_TOPIC_LOOKUP     session_id, topic: look up the layout of the topic
    SCALABLE_TOPIC_UPDATE     dag: epoch, segments with their hash ranges, and their brokers; or an error
    SCALABLE_TOPIC_CLOSE      no more updates; not answered

The hash of a message's key, 0 to 65535, selects its segment. Each segment is a topic that clients produce to and consume from with
the ordinary commands:

    topic://tenant/namespace/name                          the scalable topic
    segment://tenant/namespace/name/0000-ffff-0            its segment 0, with the hashes 0000 to ffff

Splitting and merging of segments is not part of the proposal: here, a layout changes only when a topic is deleted and created again.
Source: observed on Apache Pulsar 5.0.0-M1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from refimpl.indexes.nested import Nested
from refimpl.names import TopicName, is_namespace, namespace_of
from refimpl.proposals.extension import anybody
from refimpl.proposals.refused import Refused
from refimpl.proposals.scalable_topics.rules import WATCHES_PER_CONNECTION
from refimpl.wire.pulsar_api_pb2 import (
    ACTIVE,
    AuthorizationError,
    CommandScalableTopicClose,
    CommandScalableTopicLookup,
    CommandScalableTopicUpdate,
    InvalidTopicName,
    NotAllowedError,
    ScalableTopicDAG,
    SegmentBrokerAddress,
    SegmentInfoProto,
    TooManyRequests,
    TopicNotFound,
)

SCALABLE, SEGMENT = "topic", "segment"
"""The domains of topic names."""

LAST_HASH = 0xFFFF
"""The highest hash of a key."""

_SEGMENT = re.compile(r"segment://(?P<topic>.+)/(?P<start>[0-9a-f]{4})-(?P<end>[0-9a-f]{4})-(?P<number>0|[1-9][0-9]{0,18})", re.DOTALL)


@dataclass(frozen=True)
class Segment:
    """A segment of a scalable topic.

    Attributes:
        number: Unique within the topic, from 0.
        start: The lowest hash in its range.
        end: The highest hash in its range.
        created_at_ms: Milliseconds since 1970.
        legacy_topic: The ordinary topic that serves as this segment; empty: it has its own topic, see `segment_topic`.
    """

    number: int
    start: int
    end: int
    created_at_ms: int = 0
    legacy_topic: str = ""


@dataclass(frozen=True)
class Layout:
    """The layout of a scalable topic.

    Attributes:
        topic: Full name, `topic://tenant/namespace/name`.
        segments: The segments; their ranges cover each hash once.
        epoch: The version of the layout, from 0; it grows with each change.
    """

    topic: str
    segments: tuple[Segment, ...]
    epoch: int = 0


def first_layout(topic: str, segments: int = 1, created_at_ms: int = 0) -> Layout:
    """Return the layout of a new topic: equal ranges, the last one with the remainder (pr25648.layout.covers-hashes).

    Args:
        topic: Full name.
        segments: The number of segments; at least 1.
        created_at_ms: Milliseconds since 1970.

    Raises:
        ValueError: The number is out of range. If it is too low, the text is that of Apache Pulsar 5.0.0-M1.
    """
    if segments < 1:
        raise ValueError("numInitialSegments must be >= 1")
    if segments > LAST_HASH + 1:
        raise ValueError(f"numInitialSegments must be <= {LAST_HASH + 1}")
    width = (LAST_HASH + 1) // segments
    starts = [number * width for number in range(segments)]
    ends = [start - 1 for start in starts[1:]] + [LAST_HASH]
    parts = (Segment(number, start, end, created_at_ms) for number, (start, end) in enumerate(zip(starts, ends, strict=True)))
    return Layout(topic, tuple(parts))


def segment_topic(topic: str, segment: Segment) -> str:
    """Return the topic of a segment, which clients produce to and consume from: pr25648.layout.segment-name."""
    return segment.legacy_topic or f"segment://{topic.removeprefix('topic://')}/{segment.start:04x}-{segment.end:04x}-{segment.number}"


def parse_segment_topic(name: str) -> tuple[str, Segment] | None:
    """Return the scalable topic and the segment of a `segment://` name; None: the name is not a segment's."""
    found = _SEGMENT.fullmatch(name)
    if found is None:
        return None
    topic = f"topic://{found['topic']}"
    segment = Segment(int(found["number"]), int(found["start"], 16), int(found["end"], 16))
    return (topic, segment) if is_scalable_topic(topic) and segment.start <= segment.end else None


def parse_scalable_topic(text: str) -> TopicName:
    """Parse the name of a scalable topic or of a segment.

    Raises:
        Refused: InvalidTopicName.
    """
    domain = text.partition("://")[0]
    if not (domain == SCALABLE and is_scalable_topic(text)) and not (domain == SEGMENT and parse_segment_topic(text)):
        raise Refused(InvalidTopicName, f"Invalid topic name: Invalid topic name {text}")
    return TopicName(text, domain, namespace_of(text), text, -1)


def active_segments(update: CommandScalableTopicUpdate) -> dict[str, Segment]:
    """Return the segments that a client attaches to, by topic name: pr25648.layout.client-attaches."""
    active = (one for one in update.dag.segments if one.state == ACTIVE)
    segments = (Segment(one.segment_id, one.hash_start, one.hash_end, legacy_topic=one.legacy_topic_name) for one in active)
    return {segment_topic(update.resolved_topic_name, segment): segment for segment in segments}


def supersedes(update: CommandScalableTopicUpdate, known_epoch: int | None) -> bool:
    """Return whether a client applies an update; brokers may push the same epoch again: pr25648.layout.client-epoch.

    Args:
        update: An update without an error.
        known_epoch: The epoch of the client's layout; None: it has none.
    """
    return update.HasField("dag") and (known_epoch is None or update.dag.epoch >= known_epoch)


class LayoutBroker:
    """The broker's side: answers lookups of scalable topics, and keeps the lookups to notify of changes.

    Args:
        layout_of: Returns the layout of a scalable topic, given by full name; None: there is no such topic.
        service_urls: Returns where a segment is served, given by the full name of its topic: the service URL, and the one over TLS or
            None.
        enabled: `scalableTopicsEnabled`.
        max_sessions: Maximum number of open lookups per connection; the broker refuses more with TooManyRequests.
        may_look_up: Returns whether a connection may look up topics of a namespace. None: every connection may.
    """

    def __init__(
        self,
        layout_of: Callable[[str], Layout | None],
        *,
        service_urls: Callable[[str], tuple[str, str | None]],
        enabled: bool = True,
        max_sessions: int = WATCHES_PER_CONNECTION,
        may_look_up: Callable[[Hashable, str], bool] | None = None,
    ) -> None:
        self._layout_of = layout_of
        self._service_urls = service_urls
        self._enabled = enabled
        self._max_sessions = max_sessions
        self._may_look_up = may_look_up or anybody
        self._sessions: Nested[Hashable, int, str] = Nested()  # by connection and session_id: the scalable topic
        self._interested: Nested[str, tuple[Hashable, int], None] = Nested()  # by scalable topic: connection and session_id

    def session_count(self, connection: Hashable) -> int:
        """Return the number of open lookups of a connection."""
        return self._sessions.count(connection)

    def lookup(self, connection: Hashable, request: CommandScalableTopicLookup) -> CommandScalableTopicUpdate:
        """Answer with the layout of a topic, and push later changes; the lookup replaces one with the same id.

        An ordinary topic has one segment, the topic itself: pr25648.layout.ordinary-topic. A lookup creates no topic:
        pr25648.layout.not-created.
        """
        self._drop(connection, request.session_id)
        try:
            layout = self._checked_layout(connection, request.topic)
        except Refused as refused:  # pr25648.layout.error-in-update
            error = CommandScalableTopicUpdate(session_id=request.session_id, message=refused.message)
            error.error = refused.code  # type: ignore[assignment]
            return error
        self._sessions.put(connection, request.session_id, layout.topic)
        self._interested.put(layout.topic, (connection, request.session_id), None)
        return self._update(request.session_id, layout)

    def close(self, connection: Hashable, request: CommandScalableTopicClose) -> None:
        """Close a lookup. There is no answer; an unknown lookup is ignored: pr25648.layout.close-silent."""
        self._drop(connection, request.session_id)

    def disconnected(self, connection: Hashable) -> None:
        """Remove all lookups of a connection."""
        for session_id in self._sessions.keys_in(connection):
            self._drop(connection, session_id)

    def changed(self, topic: str) -> list[tuple[Hashable, CommandScalableTopicUpdate]]:
        """Handle a change of a layout: pr25648.layout.pushed. A deleted topic causes no update.

        Args:
            topic: Full name, `topic://tenant/namespace/name`.

        Returns:
            The connections to notify, and the command for each.
        """
        layout = self._layout_of(topic)
        if layout is None:  # pr25648.layout.deletion-silent
            return []
        return [
            (connection, self._update(session_id, layout))
            for connection, session_id in self._interested.keys_in(topic)
            if self._may_look_up(connection, namespace_of(topic))
        ]

    def _checked_layout(self, connection: Hashable, text: str) -> Layout:
        if not self._enabled:
            raise Refused(NotAllowedError, "Scalable topics are disabled on this broker")
        topic, legacy_topic = _names_of(text)
        if not self._may_look_up(connection, namespace_of(topic)):
            raise Refused(AuthorizationError, "Client is not authorized to ScalableTopicLookup")
        layout = Layout(topic, (Segment(0, 0, LAST_HASH, legacy_topic=legacy_topic),)) if legacy_topic else self._layout_of(topic)
        if layout is None:
            raise Refused(TopicNotFound, f"Scalable topic not found: {topic}")
        if self.session_count(connection) >= self._max_sessions:
            raise Refused(TooManyRequests, f"This connection has {self._max_sessions} open look-ups of scalable topics, which is the limit")
        return layout

    def _update(self, session_id: int, layout: Layout) -> CommandScalableTopicUpdate:
        """Return the update with a layout: pr25648.layout.answer, .brokers, .resolved-name."""
        dag = ScalableTopicDAG(
            epoch=layout.epoch,
            segments=[_segment_info(one) for one in layout.segments],
            segment_brokers=[
                SegmentBrokerAddress(segment_id=one.number, broker_url=url, broker_url_tls=url_tls)
                for one in layout.segments
                for url, url_tls in (self._service_urls(segment_topic(layout.topic, one)),)
            ],
        )
        return CommandScalableTopicUpdate(session_id=session_id, dag=dag, resolved_topic_name=layout.topic)

    def _drop(self, connection: Hashable, session_id: int) -> None:
        topic = self._sessions.take(connection, session_id)
        if topic is not None:
            self._interested.take(topic, (connection, session_id))


def _segment_info(segment: Segment) -> SegmentInfoProto:
    return SegmentInfoProto(
        segment_id=segment.number,
        hash_start=segment.start,
        hash_end=segment.end,
        state=ACTIVE,
        created_at_epoch=0,  # segments are never split or merged
        created_at_ms=segment.created_at_ms,
        legacy_topic_name=segment.legacy_topic or None,
    )


def _names_of(text: str) -> tuple[str, str]:
    """Return the scalable topic of a name, and the ordinary topic that it stands for; empty if it stands for none.

    Raises:
        Refused: InvalidTopicName: pr25648.layout.invalid-name.
    """
    domain, separator, rest = text.partition("://")
    if not separator:
        domain, rest = "persistent", text if "/" in text else f"public/default/{text}"
    topic = f"topic://{rest}"
    if domain not in ("topic", "persistent") or not is_scalable_topic(topic) or (domain == "persistent" and rest.count("/") > 2):
        raise Refused(InvalidTopicName, f"Invalid topic name: {text}")
    return topic, f"persistent://{rest}" if domain == "persistent" else ""


def is_scalable_topic(topic: str) -> bool:
    """Return whether a text that starts with topic:// is a valid full name of a scalable topic."""
    parts = topic.removeprefix("topic://").split("/", 2)
    return len(parts) == 3 and is_namespace("/".join(parts[:2])) and bool(parts[2].strip())
