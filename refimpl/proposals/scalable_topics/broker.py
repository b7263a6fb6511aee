"""PR 25648, the broker's side: it keeps the watches of all connections and their pending changes.

`ScalableTopicsBroker` is the state machine of the watches. `ScalableTopicsExtension` keeps the records of scalable topics, and
connects the state machines of watches and lookups to a broker. Clients look up and watch `topic://tenant/namespace/name`. They
produce to and consume from its segments, such as `segment://tenant/namespace/name/0000-ffff-0`, like any other topic.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from refimpl.indexes.nested import Nested
from refimpl.indexes.topics_hash import TopicSet
from refimpl.names import DOMAINS, TopicName, is_namespace, namespace_of
from refimpl.proposals.extension import Connection, Extension, Host, anybody, send_all
from refimpl.proposals.refused import Refused
from refimpl.proposals.scalable_topics.admin import ScalableTopicsAdmin
from refimpl.proposals.scalable_topics.layout import (
    SCALABLE,
    SEGMENT,
    Layout,
    LayoutBroker,
    first_layout,
    parse_scalable_topic,
    parse_segment_topic,
)
from refimpl.proposals.scalable_topics.rules import (
    COALESCING_SECONDS,
    DEFAULT,
    WATCHES_PER_CONNECTION,
    FoldedChanges,
    ScalableTopicsProfile,
    filters_of,
    fits,
    record_path,
    topic_of_path,
)
from refimpl.store import StoredTopic
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    CommandScalableTopicSubscribe,
    CommandScalableTopicSubscribeResponse,
    CommandWatchScalableTopics,
    CommandWatchScalableTopicsClose,
    CommandWatchScalableTopicsUpdate,
    FeatureFlags,
    InvalidTopicName,
    NotAllowedError,
    ScalableTopicsDiff,
    ScalableTopicsSnapshot,
    TooManyRequests,
)


class ScalableTopicsBroker:
    """The broker's side: keeps the watches of all connections.

    Watches with the same namespace and filters share one set of topics; each watch has its own window.

    Args:
        topics_of: Returns the full names of the scalable topics of a namespace; empty if the namespace does not exist
            (pr25648.namespace.only, .unknown).
        properties_of: Returns the properties of a scalable topic; None: there is no such topic.
        profile: Which reading to follow where the text and real peers differ.
        enabled: `scalableTopicsEnabled`.
        max_watches: Maximum number of watches per connection; the broker refuses more with TooManyRequests.
        may_watch: Returns whether a connection may list a namespace, or raises `Refused`. If it no longer may, its watches end
            silently at the next diff. None: every connection may.

    The `now` of successive calls must not decrease.
    """

    def __init__(
        self,
        topics_of: Callable[[str], Iterable[str]],
        properties_of: Callable[[str], Mapping[str, str] | None],
        *,
        profile: ScalableTopicsProfile = DEFAULT,
        enabled: bool = True,
        max_watches: int = WATCHES_PER_CONNECTION,
        may_watch: Callable[[Hashable, str], bool] | None = None,
    ) -> None:
        self._topics_of = topics_of
        self._properties_of = properties_of
        self._profile = profile
        self._enabled = enabled
        self._max_watches = max_watches
        self._may_watch = may_watch or anybody
        self._selections: Nested[str, frozenset[tuple[str, str]], _Selection] = Nested()  # by namespace and filters
        self._sessions: Nested[Hashable, int, _Session] = Nested()  # by connection and watch_id
        self._armed: OrderedDict[_Session, float] = OrderedDict()  # end of each window; all windows have the same length

    def advertise(self, flags: FeatureFlags) -> None:
        """Set the feature flag of this proposal: pr25648.flag.advertised, .switched-off."""
        flags.supports_scalable_topics = self._enabled

    def watch_count(self, connection: Hashable) -> int:
        """Return the number of watches of a connection: pr25648.watch.several."""
        return self._sessions.count(connection)

    def watch(self, connection: Hashable, request: CommandWatchScalableTopics) -> CommandWatchScalableTopicsUpdate | None:
        """Open a watch; it replaces one with the same id on the connection: pr25648.watch.repeated-id.

        Args:
            connection: The connection of the watch; each connection has its own ids (pr25648.watch.id-per-connection).
            request: The request, unchecked; the update carries errors (pr25648.error.in-update).

        Returns:
            The whole set or an error. Send it before the updates of `tick` (pr25648.watch.snapshot-first). None: the client
            already has the set, send nothing (pr25648.hash.silence).
        """
        known = self.watch_count(connection) - self._drop(connection, request.watch_id)  # even if refused: pr25648.error.ends-watch
        try:
            self._check(connection, request, known)
            current = self._open(connection, request)
        except Refused as refused:
            self._drop(connection, request.watch_id)  # pr25648.error.id-free, .nothing-follows
            error = CommandWatchScalableTopicsUpdate(watch_id=request.watch_id, message=refused.message)  # pr25648.error.without-event
            error.error = refused.code  # type: ignore[assignment]
            return error
        if request.current_hash == current.hash:  # pr25648.hash.of-filtered, .exact-text; the empty text is no hash
            return None
        # pr25648.watch.snapshot, .id-echoed, .empty-snapshot, pr25648.hash.other
        return CommandWatchScalableTopicsUpdate(watch_id=request.watch_id, snapshot=ScalableTopicsSnapshot(topics=current))

    def _check(self, connection: Hashable, request: CommandWatchScalableTopics, known: int) -> None:
        """Check a request, in the order of Apache Pulsar 5.0.0-M1."""
        if not self._enabled:  # pr25648.error.switched-off
            raise Refused(NotAllowedError, "Scalable topics are disabled on this broker")
        if not is_namespace(request.namespace):
            raise Refused(InvalidTopicName, f"Invalid namespace: {request.namespace}")
        if not self._may_watch(connection, request.namespace):  # pr25648.error.unauthorized
            raise Refused(AuthorizationError, "Client is not authorized to WatchScalableTopics")
        if known >= self._max_watches:  # pr25648.error.too-many
            raise Refused(TooManyRequests, f"This connection has {self._max_watches} scalable topics watches, which is the limit")

    def close(self, connection: Hashable, request: CommandWatchScalableTopicsClose) -> None:
        """Close a watch. There is no answer; an unknown watch is ignored: pr25648.close.silent, .unknown, .id-free."""
        self._drop(connection, request.watch_id)

    def disconnected(self, connection: Hashable) -> None:
        """Remove all watches of a connection: pr25648.watch.dropped-with-connection."""
        for watch_id in self._sessions.keys_in(connection):
            self._drop(connection, watch_id)

    def notified(self, path: str, now: float) -> None:
        """Handle a notification that a node of the metadata store was created, modified or deleted.

        The record is read now, so that the diff shows the current state: pr25648.diff.on-create, .on-delete, .on-property-change.

        Args:
            path: The path of the node; paths other than those of `record_path` are ignored.
            now: Seconds.
        """
        topic = topic_of_path(path)
        if topic is None:
            return
        selections = self._selections.get(namespace_of(topic))
        if not selections:
            return
        properties = self._properties_of(topic)
        for selection in selections.values():
            if selection.topics is None:  # pr25648.watch.listener-first
                selection.raced[topic] = None
                continue
            selected = properties is not None and fits(properties, selection.filters)
            if selection.topics.add(topic) if selected else selection.topics.remove(topic):  # pr25648.diff.flips-only
                for session in selection.sessions:  # pr25648.diff.every-watch
                    session.changed(topic, selected)
                    self._armed.setdefault(session, now + COALESCING_SECONDS)  # pr25648.diff.window, .window-fixed

    def next_deadline(self) -> float | None:
        """Return when to call `tick` next, in seconds; None: no deadline is set."""
        return next(iter(self._armed.values()), None)

    def tick(self, now: float) -> list[tuple[Hashable, CommandWatchScalableTopicsUpdate]]:
        """Close the windows that have ended.

        Returns:
            The connections to notify and the command for each, in the order of sending.
        """
        updates: list[tuple[Hashable, CommandWatchScalableTopicsUpdate]] = []
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            session, _ = self._armed.popitem(last=False)
            changes = session.changes.take()
            if changes is None:
                continue
            if not self._still_may(session):  # pr25648.watch.permission-revoked
                self._drop(session.connection, session.watch_id)
                continue
            diff = ScalableTopicsDiff(added=changes.added, removed=changes.removed)  # pr25648.diff.one-frame
            updates.append((session.connection, CommandWatchScalableTopicsUpdate(watch_id=session.watch_id, diff=diff)))
        return updates

    def _still_may(self, session: _Session) -> bool:
        try:
            return self._may_watch(session.connection, session.selection.namespace)
        except Refused:
            return False

    def _open(self, connection: Hashable, request: CommandWatchScalableTopics) -> TopicSet:
        filters = filters_of(request.property_filters)
        key = frozenset(filters.items())
        selection = self._selections.find(request.namespace, key)
        if selection is None:
            selection = _Selection(request.namespace, filters)
            self._selections.put(request.namespace, key, selection)
        session = _Session(connection, request.watch_id, selection, FoldedChanges(self._profile.coalescing))
        selection.sessions[session] = None
        self._sessions.put(connection, request.watch_id, session)
        if selection.topics is None:
            selection.topics = self._listed(selection)
        return selection.topics

    def _listed(self, selection: _Selection) -> TopicSet:
        """List the matching topics. Changes during the listing are read again afterwards: pr25648.watch.listener-first."""
        topics = TopicSet(topic for topic in self._topics_of(selection.namespace) if self._selects(selection, topic))
        while selection.raced:
            topic, _ = selection.raced.popitem()
            if self._selects(selection, topic):
                topics.add(topic)
            else:
                topics.remove(topic)
        return topics

    def _selects(self, selection: _Selection, topic: str) -> bool:
        properties = self._properties_of(topic)
        return properties is not None and fits(properties, selection.filters)

    def _drop(self, connection: Hashable, watch_id: int) -> bool:
        """Remove a watch and its pending changes; False: there was none."""
        session = self._sessions.take(connection, watch_id)
        if session is None:
            return False
        self._armed.pop(session, None)  # pr25648.close.nothing-follows
        selection = session.selection
        del selection.sessions[session]
        if not selection.sessions:
            self._selections.take(selection.namespace, frozenset(selection.filters.items()))
        return True


class _Selection:
    """The set of topics for a namespace and filters, with its watches; `topics` is None while the topics are listed."""

    __slots__ = ("filters", "namespace", "raced", "sessions", "topics")

    def __init__(self, namespace: str, filters: Mapping[str, str]) -> None:
        self.namespace = namespace
        self.filters = filters
        self.topics: TopicSet | None = None
        self.raced: dict[str, None] = {}
        self.sessions: dict[_Session, None] = {}


class _Session:
    """A watch and its pending changes."""

    __slots__ = ("changes", "connection", "selection", "watch_id")

    def __init__(self, connection: Hashable, watch_id: int, selection: _Selection, changes: FoldedChanges) -> None:
        self.connection = connection
        self.watch_id = watch_id
        self.selection = selection
        self.changes = changes

    def changed(self, topic: str, selected: bool) -> None:
        if selected:
            self.changes.add(topic)
        else:
            self.changes.remove(topic)


@dataclass(slots=True)
class StoredScalableTopic:
    """The record of a scalable topic.

    Attributes:
        properties: The properties that filters compare.
        segment_count: The number of segments.
        topics: The stored topics of the segments that have been used, by full name.
    """

    properties: dict[str, str] = field(default_factory=dict)
    segment_count: int = 1
    topics: dict[str, StoredTopic] = field(default_factory=dict)


class ScalableTopicsExtension(Extension):
    """What PR 25648 adds to a broker. All changes of scalable topics go through `create`, `change` and `delete`.

    Attributes:
        watches: The watches.
        layouts: The open lookups.
        admin: The admin operations.
    """

    domains = (SCALABLE, SEGMENT)

    def __init__(self, host: Host, profile: ScalableTopicsProfile, _: object = None) -> None:
        super().__init__(host)
        enabled = host.configuration.scalable_topics_enabled
        # by "tenant/namespace" and full name; as on Apache Pulsar 5.0.0-M1, the namespace need not exist
        self._records: dict[str, dict[str, StoredScalableTopic]] = host.store.kept.setdefault("pr25648", {})
        self.watches = ScalableTopicsBroker(
            self.topics_of,
            self._properties,
            profile=profile,
            enabled=enabled,
            may_watch=lambda connection, namespace: host.may_list(cast("Connection", connection), namespace),
        )
        self.layouts = LayoutBroker(
            self._layout,
            service_urls=host.service_urls,
            enabled=enabled,
            may_look_up=lambda connection, namespace: host.may_look_up(cast("Connection", connection), namespace),
        )
        self.commands = {
            "watchScalableTopics": self.watches.watch,
            "watchScalableTopicsClose": self.watches.close,
            "scalableTopicLookup": self.layouts.lookup,
            "scalableTopicClose": self.layouts.close,
            "scalableTopicSubscribe": _refuse_subscribe,
        }
        self.admin = ScalableTopicsAdmin(self)
        self.routes = self.admin.routes

    def advertise(self, flags: FeatureFlags) -> None:
        """Set the feature flag: pr25648.flag.advertised, .switched-off."""
        self.watches.advertise(flags)

    def disconnected(self, connection: Connection) -> None:
        """Remove the watches and lookups of a connection: pr25648.watch.dropped-with-connection."""
        self.watches.disconnected(connection)
        self.layouts.disconnected(connection)

    def next_deadline(self) -> float | None:
        """Return when the next window ends, in seconds."""
        return self.watches.next_deadline()

    def tick(self, now: float) -> None:
        """Send the diffs of the windows that have ended: pr25648.diff.window."""
        send_all(self.watches.tick(now))

    # Records

    def record(self, topic: str) -> StoredScalableTopic | None:
        """Return the record of a scalable topic, given by full name; None: there is no such topic."""
        return self._records.get(namespace_of(topic), {}).get(topic)

    def create(self, topic: str, properties: Mapping[str, str], segments: int) -> None:
        """Create a scalable topic, which must not exist: pr25648.diff.on-create, .layout.pushed."""
        self._records.setdefault(namespace_of(topic), {})[topic] = StoredScalableTopic(dict(properties), segments)
        self._changed(topic)
        send_all(self.layouts.changed(topic))

    def change(self, topic: str, properties: Mapping[str, str]) -> None:
        """Replace the properties of an existing scalable topic: pr25648.diff.on-property-change."""
        self._records[namespace_of(topic)][topic].properties = dict(properties)
        self._changed(topic)

    def delete(self, topic: str) -> None:
        """Delete an existing scalable topic with its segments: core.push.topic-deleted, pr25648.diff.on-delete."""
        self._unload(topic)
        namespace = namespace_of(topic)
        del self._records[namespace][topic]
        if not self._records[namespace]:
            del self._records[namespace]
        self._changed(topic)

    def _changed(self, topic: str) -> None:
        self.watches.notified(record_path(topic), self.host.now)

    # Topics of the two domains

    def topic_name(self, text: str) -> TopicName:
        """Parse the name of a scalable topic or of a segment."""
        return parse_scalable_topic(text)

    def exists(self, name: TopicName) -> bool:
        """Return whether a scalable topic or a segment exists."""
        return self.segment(name.full) is not None if name.domain == SEGMENT else self.record(name.full) is not None

    def takes_name(self, name: TopicName) -> bool:
        """Return whether a scalable topic has the name of a persistent topic, or of that of a partition, as on Apache Pulsar 5.0.0-M1."""
        domain, mark, rest = name.partitioned.partition("://")
        return domain == DOMAINS[0] and self.record(f"{SCALABLE}{mark}{rest}") is not None

    def stored_topic(self, name: TopicName) -> StoredTopic | None:
        """Return the stored topic of a segment; refuse a scalable topic, which holds no messages itself."""
        if name.domain == SCALABLE:
            raise Refused(NotAllowedError, f"{name.full} is a scalable topic: look up its segments, and use those")
        return self.segment(name.full)

    def segment(self, name: str) -> StoredTopic | None:
        """Return the stored topic of a segment; None: there is no such segment: pr25648.layout.segment-unknown."""
        topic, segment = parse_segment_topic(name) or ("", None)
        record = self.record(topic)
        layout = self._layout(topic)
        if segment is None or record is None or layout is None or segment not in layout.segments:
            return None
        if name not in record.topics:
            record.topics[name] = self.host.store.new_topic()
        return record.topics[name]

    def topics_of(self, namespace: str) -> Iterable[str]:
        """Return the full names of the scalable topics of a namespace; empty if the namespace does not exist."""
        return sorted(self._records.get(namespace, ()))

    def delete_topics(self, namespace: str) -> None:
        """Delete the scalable topics of a namespace."""
        for topic in self.topics_of(namespace):
            self.delete(topic)

    def _properties(self, topic: str) -> Mapping[str, str] | None:
        record = self.record(topic)
        return None if record is None else record.properties

    def _layout(self, topic: str) -> Layout | None:
        record = self.record(topic)
        return None if record is None else first_layout(topic, record.segment_count)

    def _unload(self, topic: str) -> None:
        record = self.record(topic)
        for segment in list(record.topics) if record else ():
            self.host.unload(self.topic_name(segment))


def _refuse_subscribe(_: Connection, request: CommandScalableTopicSubscribe) -> CommandScalableTopicSubscribeResponse:
    """Refuse to assign segments to a consumer, which is not part of the proposal."""
    answer = CommandScalableTopicSubscribeResponse(request_id=request.request_id, error=NotAllowedError)
    answer.message = "ScalableTopicSubscribe is not supported by this broker"
    return answer
