"""PIP-145, the broker's side: it answers list requests and keeps the watchers of all connections.

`TopicListBroker` is the state machine; `TopicListExtension` connects it to a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import cast
from weakref import WeakValueDictionary

from refimpl.indexes.nested import Nested
from refimpl.indexes.topic_patterns import PatternIndex, TopicsPattern, compile_pattern
from refimpl.indexes.topics_hash import EMPTY_HASH, TopicSet, topics_hash
from refimpl.names import is_system_topic, namespace_of
from refimpl.proposals.extension import Connection, Extension, Host, anybody, send_all
from refimpl.proposals.refused import Refused
from refimpl.proposals.topic_list.rules import (
    DEFAULT,
    PATTERN_MAX_LENGTH,
    WATCHERS_PER_CONNECTION,
    TopicListProfile,
    matched_name,
    pattern_length,
    visible_topics,
    without_domain,
)
from refimpl.proposals.topic_list.sifting import FEW, Sifting
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandSuccess,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
    FeatureFlags,
    InvalidTopicName,
    MetadataError,
    NotAllowedError,
    TooManyRequests,
)


class TopicListBroker:
    """The broker's side: answers list requests and keeps the watchers of all connections.

    Listing the topics and registering the watcher is one atomic step, so no change is lost between them. Watchers with the same
    namespace and pattern share one set of topics.

    Args:
        topics_of: Returns the full names of the persistent topics of a namespace, with partitions listed individually and with
            system topics; empty if the namespace does not exist. The caller reports each later change to `created` or `deleted`.
        profile: Which reading to follow where the text and real peers differ.
        pattern_max_length: `subscriptionPatternMaxLength`, in UTF-16 code units.
        evaluation_enabled: `enableBrokerSideSubscriptionPatternEvaluation`; the text calls it enableBrokerSideTopicFiltering.
        watchers_enabled: `enableBrokerTopicListWatcher`; off, the broker does not announce watchers but still serves them.
        max_watchers: Maximum number of watchers per connection; the broker refuses more with TooManyRequests.
        may_watch: Returns whether a connection may list a namespace. If it no longer may, its watchers end silently at the next
            change. None: every connection may.
    """

    def __init__(
        self,
        topics_of: Callable[[str], Iterable[str]],
        *,
        profile: TopicListProfile = DEFAULT,
        pattern_max_length: int = PATTERN_MAX_LENGTH,
        evaluation_enabled: bool = True,
        watchers_enabled: bool = True,
        max_watchers: int = WATCHERS_PER_CONNECTION,
        may_watch: Callable[[Hashable, str], bool] | None = None,
    ) -> None:
        self._topics_of = topics_of
        self._profile = profile
        self._pattern_max_length = pattern_max_length
        self._evaluation_enabled = evaluation_enabled
        self._watchers_enabled = watchers_enabled
        self._max_watchers = max_watchers
        self._may_watch = may_watch or anybody
        self._selections: Nested[str, str, _Selection] = Nested()  # by namespace and pattern
        self._indexes: dict[str, PatternIndex] = {}  # by namespace
        self._watchers: Nested[Hashable, int, _Selection] = Nested()  # by connection and watcher_id
        self._siftings: WeakValueDictionary[tuple[str, str | None], Sifting] = WeakValueDictionary()  # those of requests that wait

    @property
    def offers_watchers(self) -> bool:
        """Whether CONNECTED announces watchers: pip145.flag.advertised, .watcher-switch, .filtering-off-keeps, .filtering-off-clears."""
        return self._watchers_enabled and not self._is_switched_off

    @property
    def _is_switched_off(self) -> bool:
        return not self._evaluation_enabled and self._profile.switch_covers == "feature"

    def advertise(self, flags: FeatureFlags) -> None:
        """Set the feature flags of this proposal; they do not depend on the client: pip145.flag.whatever-client."""
        flags.supports_topic_watchers = self.offers_watchers
        flags.supports_topic_watcher_reconcile = self.offers_watchers  # pip145.flag.reconcile

    def watcher_count(self, connection: Hashable) -> int:
        """Return the number of watchers of a connection."""
        return self._watchers.count(connection)

    def prepare(self, request: CommandGetTopicsOfNamespace | CommandWatchTopicList) -> Sifting | None:
        """Return what sifts the topics for a request in pieces; None: they are few or known, or it will be refused."""
        topics = list(self._topics_of(request.namespace))
        if len(topics) <= FEW or self._is_switched_off:
            return None
        try:
            pattern = self._watched_pattern(request) if isinstance(request, CommandWatchTopicList) else self._filter_of(request)
        except Refused:
            return None
        if isinstance(request, CommandWatchTopicList) and pattern and self._selections.find(request.namespace, pattern.text) is not None:
            return None
        sifting = self._siftings[request.namespace, pattern.text if pattern else None] = Sifting(topics, pattern)
        return sifting

    def _visible(self, namespace: str, topics: Iterable[str], pattern: TopicsPattern | None) -> list[str]:
        sifting = self._siftings.get((namespace, pattern.text if pattern else None))
        return visible_topics(topics, pattern) if sifting is None else sifting.shown(topics if isinstance(topics, list) else list(topics))

    def get_topics(self, request: CommandGetTopicsOfNamespace, topics: Iterable[str]) -> CommandGetTopicsOfNamespaceResponse:
        """Answer a request for the topics of a namespace.

        Args:
            request: The request; its namespace is valid, and the connection may list it.
            topics: Full names of the topics that match the mode of the request; the answer keeps their order.

        Raises:
            Refused: The broker can't evaluate the pattern: pip145.list.error-keeps-connection.
        """
        if self._is_switched_off:  # pip145.compat.switch-off-no-hash
            return CommandGetTopicsOfNamespaceResponse(request_id=request.request_id, topics=visible_topics(topics))
        pattern = self._filter_of(request)
        listed = self._visible(request.namespace, topics, pattern)
        current = topics_hash(listed)  # pip145.hash.of-matching, pip145.hash.of-full
        changed = not request.HasField("topics_hash") or request.topics_hash != current  # pip145.hash.equal, pip145.hash.exact-text
        return CommandGetTopicsOfNamespaceResponse(
            request_id=request.request_id,
            topics=listed if changed else (),
            filtered=pattern is not None,  # pip145.list.filtered-flag
            topics_hash=current,
            changed=changed,
        )

    def _filter_of(self, request: CommandGetTopicsOfNamespace) -> TopicsPattern | None:
        if not request.HasField("topics_pattern") or not self._evaluation_enabled:  # pip145.compat.old-client, pip145.compat.switch-off
            return None
        if self._is_too_long(request.topics_pattern):  # pip145.pattern.length-limit, pip145.pattern.length-with-domain
            return None
        try:
            text = without_domain(request.topics_pattern)
        except ValueError as error:
            raise Refused(MetadataError, f"java.lang.IllegalArgumentException: {error}") from None
        try:
            return compile_pattern(text)
        except ValueError as error:  # pip145.pattern.invalid, pip145.pattern.look-around-refused
            raise Refused(MetadataError, f"Invalid topics pattern: {error}") from None

    def _is_too_long(self, pattern: str) -> bool:
        return self._profile.pattern_length_limited and pattern_length(pattern) > self._pattern_max_length

    def watch(self, connection: Hashable, request: CommandWatchTopicList) -> CommandWatchTopicListSuccess:
        """Open a watcher. If its id is already in use on the connection, only compare the client's hash.

        Args:
            connection: The connection of the watcher; each connection has its own ids (pip145.watch.id-per-connection).
            request: The request; its namespace is valid, and the connection may list it.

        Returns:
            The answer. Send it before any update (pip145.update.after-success).

        Raises:
            Refused: The request fails and changes nothing (pip145.watch.id-free-after-error, .reconcile-refused).
        """
        pattern = self._watched_pattern(request)
        selection = self._watchers.find(connection, request.watcher_id)
        if selection is not None and not self._may_watch(connection, selection.namespace):
            self._drop(connection, request.watcher_id)
            selection = None
        if selection is None:
            if self.watcher_count(connection) >= self._max_watchers:
                raise Refused(TooManyRequests, f"This connection has {self._max_watchers} topic list watchers, which is the limit")
            selection = self._select(request.namespace, pattern)
            selection.watchers[connection, request.watcher_id] = None
            self._watchers.put(connection, request.watcher_id, selection)
        # An existing watcher keeps its namespace and pattern: pip145.watch.reconcile-keeps
        current = selection.topics.hash
        known = request.HasField("topics_hash") and request.topics_hash == current  # pip145.watch.equal-hash, pip145.watch.other-hash
        return CommandWatchTopicListSuccess(
            request_id=request.request_id, watcher_id=request.watcher_id, topic=() if known else selection.topics, topics_hash=current
        )

    def _watched_pattern(self, request: CommandWatchTopicList) -> TopicsPattern:
        """Return the pattern of a request. The checks are in the order of Apache Pulsar 4.2.4."""
        try:
            text = without_domain(request.topics_pattern)
        except ValueError:  # pip145.watch.domain-unsupported
            raise Refused(AuthorizationError, "Exception occurred while trying to handle command WatchTopicList") from None
        if not self._evaluation_enabled:  # pip145.watch.evaluation-off
            raise Refused(NotAllowedError, "Unable to create topic list watcher: Evaluating subscription patterns is disabled.")
        if self._is_too_long(text):  # pip145.watch.pattern-too-long, pip145.watch.length-without-scheme
            limit = self._pattern_max_length
            raise Refused(NotAllowedError, f"Unable to create topic list watcher: Pattern longer than maximum: {limit}")
        try:
            return compile_pattern(text, f"{request.namespace}/")
        except ValueError as error:  # pip145.watch.invalid-pattern
            raise Refused(InvalidTopicName, f"Invalid topics pattern: {error}") from None

    def close(self, connection: Hashable, request: CommandWatchTopicListClose) -> CommandSuccess | CommandWatchTopicListSuccess:
        """Close a watcher; closing an unknown watcher succeeds: pip145.close.unknown."""
        self._drop(connection, request.watcher_id)
        if self._profile.close_answer == "success":  # pip145.close.answer
            return CommandSuccess(request_id=request.request_id)
        return CommandWatchTopicListSuccess(  # pip145.close.answer-letter
            request_id=request.request_id, watcher_id=request.watcher_id, topics_hash=EMPTY_HASH
        )

    def disconnected(self, connection: Hashable) -> None:
        """Remove all watchers of a connection: pip145.watch.dropped-with-connection."""
        for watcher_id in self._watchers.keys_in(connection):
            self._drop(connection, watcher_id)

    def created(self, topic: str) -> list[tuple[Hashable, CommandWatchTopicUpdate]]:
        """Handle the creation of a topic or partition: pip145.update.on-create.

        Args:
            topic: Full name of the topic or of the partition.

        Returns:
            The connections to notify and the command for each, in the order of sending.
        """
        return self._announce(topic, is_new=True)

    def deleted(self, topic: str) -> list[tuple[Hashable, CommandWatchTopicUpdate]]:
        """Handle the deletion of a topic or partition, like `created`: pip145.update.on-delete."""
        return self._announce(topic, is_new=False)

    def _announce(self, topic: str, *, is_new: bool) -> list[tuple[Hashable, CommandWatchTopicUpdate]]:
        if not topic.startswith("persistent://") or is_system_topic(topic):  # pip145.watch.persistent-only, pip145.watch.system-topics
            return []
        namespace = namespace_of(topic)
        index = self._indexes.get(namespace)
        allowed: dict[Hashable, bool] = {}
        updates: list[tuple[Hashable, CommandWatchTopicUpdate]] = []
        for text in index.matching(matched_name(topic)) if index is not None else ():
            selection = self._selections[namespace][text]
            if not (selection.topics.add(topic) if is_new else selection.topics.remove(topic)):
                continue  # pip145.update.once
            new, gone = ((topic,), ()) if is_new else ((), (topic,))  # pip145.update.one-name
            current = selection.topics.hash  # pip145.update.hash
            for connection, watcher_id in list(selection.watchers):  # pip145.update.every-watcher
                if connection not in allowed:
                    allowed[connection] = self._may_watch(connection, namespace)
                if not allowed[connection]:  # pip145.watch.permission-revoked
                    self._drop(connection, watcher_id)
                    continue
                update = CommandWatchTopicUpdate(watcher_id=watcher_id, new_topics=new, deleted_topics=gone, topics_hash=current)
                updates.append((connection, update))
        return updates

    def _select(self, namespace: str, pattern: TopicsPattern) -> _Selection:
        """Return the set of topics for a namespace and a pattern; it exists as long as it has watchers."""
        selection = self._selections.find(namespace, pattern.text)
        if selection is None:
            selection = _Selection(namespace, pattern.text, TopicSet(self._visible(namespace, self._topics_of(namespace), pattern)))
            self._selections.put(namespace, pattern.text, selection)
            self._indexes.setdefault(namespace, PatternIndex()).add(pattern)
        return selection

    def _drop(self, connection: Hashable, watcher_id: int) -> None:
        selection = self._watchers.take(connection, watcher_id)
        if selection is None:
            return
        del selection.watchers[connection, watcher_id]
        if not selection.watchers:
            self._selections.take(selection.namespace, selection.text)
            self._indexes[selection.namespace].discard(selection.text)
            if selection.namespace not in self._selections:
                del self._indexes[selection.namespace]


class _Selection:
    """The set of topics for a namespace and a pattern, with its watchers."""

    __slots__ = ("namespace", "text", "topics", "watchers")

    def __init__(self, namespace: str, text: str, topics: TopicSet) -> None:
        self.namespace = namespace
        self.text = text
        self.topics = topics
        self.watchers: dict[tuple[Hashable, int], None] = {}


class TopicListExtension(Extension):
    """What PIP-145 adds to a broker. Unloading a namespace does not change its list: pip145.update.survives-unload.

    Attributes:
        lists: The state machine.
    """

    def __init__(self, host: Host, profile: TopicListProfile, _: object = None) -> None:
        super().__init__(host)
        settings = host.configuration
        self.lists = TopicListBroker(
            host.persistent_topics,
            profile=profile,
            pattern_max_length=settings.subscription_pattern_max_length,
            evaluation_enabled=settings.enable_broker_side_subscription_pattern_evaluation,
            watchers_enabled=settings.enable_broker_topic_list_watcher,
            may_watch=lambda connection, namespace: host.may_list(cast("Connection", connection), namespace),
        )
        self.commands = {"watchTopicList": self._watch, "watchTopicListClose": self.lists.close}
        self.preparations = dict.fromkeys(("getTopicsOfNamespace", "watchTopicList"), self.lists.prepare)

    def advertise(self, flags: FeatureFlags) -> None:
        """Set the feature flags."""
        self.lists.advertise(flags)

    def disconnected(self, connection: Connection) -> None:
        """Remove the watchers of a connection: pip145.watch.dropped-with-connection."""
        self.lists.disconnected(connection)

    def list_topics(self, request: CommandGetTopicsOfNamespace, topics: Iterable[str]) -> CommandGetTopicsOfNamespaceResponse:
        """Answer with the filtered list and its hash.

        The broker has checked namespace, permission and mode: pip145.list.malformed-namespace, .unauthorized, .mode-non-persistent.
        """
        return self.lists.get_topics(request, topics)

    def topic_created(self, topic: str) -> None:
        """Notify the watchers; each new partition counts as a topic: pip145.update.on-create, pip145.update.partitioned."""
        send_all(self.lists.created(topic))

    def topic_deleted(self, topic: str) -> None:
        """Notify the watchers: pip145.update.on-delete."""
        send_all(self.lists.deleted(topic))

    def _watch(self, connection: Connection, request: CommandWatchTopicList) -> CommandWatchTopicListSuccess:
        self.host.check_listing(request.namespace)  # pip145.watch.malformed-namespace
        if not self.host.may_list(connection, request.namespace):
            if request.namespace.partition("/")[0] not in self.host.store.tenants:
                raise Refused(AuthorizationError, "Exception occurred while trying to handle command WatchTopicList")
            raise Refused(AuthorizationError, "Proxy Client is not authorized to watchTopicList")
        return self.lists.watch(connection, request)
