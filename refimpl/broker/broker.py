"""The broker: a value. Bytes and a time go in, bytes come out; who holds it moves them and calls `tick`.

    session = broker.connect(now)
    session.receive(bytes, now)
    for session in broker.sessions_with_output(): ... session.data_to_send()
    broker.next_deadline() -> call broker.tick(now) then

Everything happens within one call, so that a topic that a list shows and a topic that an update announces are never one
and the same, and none falls between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from importlib.metadata import version
from typing import cast

from refimpl.broker.admin import Admin
from refimpl.broker.authorization import ACTIONS, Authorization
from refimpl.broker.configuration import Configuration
from refimpl.broker.filtering import SubscriptionFilters
from refimpl.broker.names import DOMAINS, SCALABLE, SEGMENT, TopicName, parse_any_topic, parse_topic, partition_name
from refimpl.broker.scalable import ScalableTopics
from refimpl.broker.schemas import Schemas
from refimpl.broker.session import Session
from refimpl.timers import Timers
from refimpl.broker.topic import MAX_U64, NonPersistentTopic, Topic
from refimpl.proposals.message_filter import BUILT_IN_REGISTRY, FilterRegistry, MessageFilterBroker
from refimpl.proposals.partition_watch import PartitionWatchBroker
from refimpl.proposals.profiles import DEFAULT, Profiles
from refimpl.proposals.refused import Refused
from refimpl.proposals.topic_list import TopicListBroker
from refimpl.proposals.topic_list.rules import namespace_of
from refimpl.proposals.uniform_batches import BUILT_IN, EntryFilterFactory, SubscriptionEntryFilters, filters_of
from refimpl.store import MemoryStore, StoredNamespace, StoredTopic
from refimpl.wire import FRAME_PADDING
from refimpl.wire.pulsar_api_pb2 import (
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandPartitionUpdate,
    CommandWatchTopicUpdate,
    FeatureFlags,
    NotAllowedError,
    TopicNotFound,
)

PROPOSALS = frozenset({"pip145", "pip191", "pip247", "pr7629", "pr25648"})
"""The proposals that this broker can speak, by the name of their clause register."""

_COMMANDS: dict[str, frozenset[str]] = {
    "pip145": frozenset({"watchTopicList", "watchTopicListClose"}),
    "pip191": frozenset(),
    "pip247": frozenset({"watchPartitionUpdate", "partitionUpdateResult", "watchPartitionUpdateClose"}),
    "pr7629": frozenset(),
    "pr25648": frozenset(
        {"watchScalableTopics", "watchScalableTopicsClose", "scalableTopicLookup", "scalableTopicClose", "scalableTopicSubscribe"}
    ),
}
"""The commands of each."""


class Broker:
    """A broker with its connections.

    Args:
        configuration: Its settings.
        store: What an earlier broker left; a new one if not given.
        profiles: Which reading of each proposal it speaks.
        proposals: What it knows; a broker from before a proposal is one without it.
        service_url: Where clients reach it: the answer to LOOKUP.
        admin_url: Where its admin interface is reached.
        log: Gets one line for what a person who runs it may want to know.
        entry_filters: What makes entry filters for subscriptions, by name; only if it knows PIP-191.
        filter_registry: The message filters that consumers may ask for.

    Attributes:
        now: The time of the call that is being carried out, in seconds.
        scalable: The scalable topics.

    Raises:
        ValueError: The configuration contradicts itself.
    """

    def __init__(
        self,
        configuration: Configuration | None = None,
        *,
        store: MemoryStore | None = None,
        profiles: Profiles = DEFAULT,
        proposals: frozenset[str] = PROPOSALS,
        service_url: str = "pulsar://127.0.0.1:6650",
        admin_url: str = "http://127.0.0.1:8080",
        log: Callable[[str], None] | None = None,
        entry_filters: Mapping[str, EntryFilterFactory] = BUILT_IN,
        filter_registry: FilterRegistry = BUILT_IN_REGISTRY,
    ) -> None:
        self.configuration = configuration or Configuration()
        self.store = store or MemoryStore()
        self.profiles = profiles
        self.proposals = proposals
        self.entry_filters = entry_filters if "pip191" in proposals else {}
        self.service_url = service_url
        self.admin_url = admin_url
        self.server_version = f"pulsar-conformance {version('pulsar-conformance')}"
        self.authorization = Authorization(self.configuration, self.store)
        self.unknown_commands = frozenset[str]().union(*(_COMMANDS[name] for name in PROPOSALS - proposals))
        self.topic_lists = TopicListBroker(
            self.persistent_topics,
            profile=profiles.pip145,
            pattern_max_length=self.configuration.subscription_pattern_max_length,
            evaluation_enabled=self.configuration.enable_broker_side_subscription_pattern_evaluation,
            watchers_enabled=self.configuration.enable_broker_topic_list_watcher,
            may_watch=lambda connection, namespace: self.may_list(cast(Session, connection), namespace),
        )
        self.partition_watches = PartitionWatchBroker(
            self.partition_count,
            lambda topic: parse_topic(topic).full,
            profile=profiles.pip247,
            enabled=self.configuration.enable_notification_for_partition_update,
            result_timeout=self.configuration.notification_for_partition_update_timeout_seconds,
            max_frame_size=self.configuration.max_message_size + FRAME_PADDING,
            may_watch=lambda connection, topic: self.may_look_up(cast(Session, connection), topic),
        )
        self.message_filters = (
            MessageFilterBroker(filter_registry, profile=profiles.pr7629, max_message_size=self.configuration.max_message_size)
            if "pr7629" in proposals
            else None
        )
        self.schemas = Schemas(self.store)
        self.scalable = ScalableTopics(self)
        self.admin = Admin(self)
        self.timers = Timers()
        self.now = 0.0
        self._log = log or (lambda _: None)
        self._sessions: dict[Session, None] = {}
        self._touched: dict[Session, None] = {}
        self._topics: dict[str, Topic] = {}
        self._producers = 0

    def filters_of(self, properties: Mapping[str, str], *, is_new: bool = False) -> SubscriptionFilters:
        """Return what judges the entries of a subscription with these properties.

        Args:
            properties: Be they good or not, if the subscription exists.
            is_new: It is about to be created.

        Raises:
            Refused: NotAllowedError: it is new, and its properties can't be used: pip191.filter.invalid.
        """
        delay = self.configuration.dispatcher_entry_filter_rescheduled_message_delay / 1000
        if is_new:
            entry_filters = SubscriptionEntryFilters(filters_of(properties, self.entry_filters), delay=delay, log=self._log)
        else:
            entry_filters = SubscriptionEntryFilters.restored(properties, self.entry_filters, delay=delay, log=self._log)
        return SubscriptionFilters(entry_filters, self.message_filters.subscription() if self.message_filters is not None else None)

    # Connections

    def connect(self, now: float) -> Session:
        """Take a new connection."""
        self.now = now
        session = Session(self)
        self._sessions[session] = None
        return session

    @property
    def sessions(self) -> Iterable[Session]:
        """Return the connections that are open."""
        return tuple(self._sessions)

    def touched(self, session: Session) -> None:
        """Record that a connection has output."""
        self._touched[session] = None

    def ended(self, session: Session, reason: str) -> None:
        """Forget a connection that has ended: pip145.watch.dropped-with-connection, pip247.watch.dropped-with-connection."""
        self._sessions.pop(session, None)
        self._touched[session] = None
        self.topic_lists.disconnected(session)
        self.partition_watches.disconnected(session)
        self.scalable.disconnected(session)
        self._log(f"a connection has ended: {reason}")

    def sessions_with_output(self) -> list[Session]:
        """Return the connections with bytes to send, and those that are to be closed."""
        found = [session for session in self._touched if session.has_output]
        self._touched.clear()
        return found

    def next_deadline(self) -> float | None:
        """Return when `tick` has to be called, in seconds; None: never, unless something happens."""
        deadlines = (self.timers.next_deadline(), self.partition_watches.next_deadline(), self.scalable.next_deadline())
        return min((when for when in deadlines if when is not None), default=None)

    def tick(self, now: float) -> None:
        """Do what is due."""
        self.now = now
        self.timers.run(now)
        self._announce(self.partition_watches.tick(now))
        self.scalable.tick(now)

    def feature_flags(self) -> FeatureFlags:
        """Return what CONNECTED says of this broker; the flags of what it does not know are absent."""
        flags = FeatureFlags(supports_get_partitioned_metadata_without_auto_creation=True)
        if "pip145" in self.proposals:
            self.topic_lists.advertise(flags)
        if "pip247" in self.proposals:
            self.partition_watches.advertise(flags)
        if self.message_filters is not None:
            self.message_filters.advertise(flags)
        if "pr25648" in self.proposals:
            self.scalable.advertise(flags)
        return flags

    def may_list(self, session: Session, namespace: str) -> bool:
        """Tell whether a connection may see which topics a namespace has."""
        return self.authorization.allows(session.role, namespace, *ACTIONS)

    def may_look_up(self, session: Session, topic: str) -> bool:
        """Tell whether a connection may see where a topic is, and how many partitions it has."""
        return self.authorization.allows(session.role, namespace_of(topic), "produce", "consume")

    # Topics

    def topic_name(self, text: str) -> TopicName:
        """Read a topic name.

        Raises:
            Refused: InvalidTopicName.
        """
        return parse_any_topic(text) if "pr25648" in self.proposals else parse_topic(text)

    def persistent_topics(self, namespace: str) -> list[str]:
        """Return the persistent topics of a namespace, each partition by itself; none if there is no such namespace."""
        stored = self.store.namespaces.get(namespace)
        return sorted(stored.topics) if stored else []

    def non_persistent_topics(self, namespace: str) -> list[str]:
        """Return the non-persistent topics of a namespace that somebody uses: pip145.list.mode-non-persistent."""
        return sorted(name for name, topic in self._topics.items() if not topic.name.persistent and topic.name.namespace == namespace)

    def namespace(self, name: TopicName) -> StoredNamespace:
        """Return the namespace of a topic.

        Raises:
            Refused: TopicNotFound.
        """
        stored = self.store.namespaces.get(name.namespace)
        if stored is None:
            raise Refused(TopicNotFound, "Namespace not found")
        return stored

    def partitions(self, name: TopicName) -> int:
        """Return the number of partitions of a topic; 0: it is not partitioned, or there is none."""
        return self.namespace(name).partitioned.get(name.full, 0)

    def partition_count(self, topic: str) -> int:
        """Return the same by full name; 0 also if there is no such namespace: pip247.watch.count."""
        stored = self.store.namespaces.get(namespace_of(topic))
        return stored.partitioned.get(topic, 0) if stored else 0

    def partitions_changed(self, topic: str) -> None:
        """Record that a topic, by its full name, has another number of partitions than before: pip247.update.on-change."""
        self._announce(self.partition_watches.changed(topic, self.now))

    def exists(self, name: TopicName) -> bool:
        """Tell whether a topic without partitions, or a partition, exists."""
        if name.domain not in DOMAINS:
            return self.scalable.exists(name)
        if name.persistent:
            return name.full in self.namespace(name).topics
        return name.full in self._topics or name.partition in range(self.namespace(name).partitioned.get(name.partitioned, 0))

    def loaded(self, name: str) -> Topic | None:
        """Return a topic that is being served."""
        return self._topics.get(name)

    def topic(self, name: TopicName) -> Topic:
        """Serve a topic that exists."""
        found = self._topics.get(name.full)
        if found is None:
            if name.persistent:
                stored = self.scalable.segment(name) if name.domain == SEGMENT else self.namespace(name).topics[name.full]
                assert stored is not None
                found = Topic(name, stored, self.filters_of)
            else:
                found = NonPersistentTopic(name, StoredTopic(0), self.filters_of)
            self._topics[name.full] = found
        return found

    def topic_to_use(self, name: TopicName, *, create: bool) -> Topic:
        """Serve a topic for a producer or consumer; create it if it is missing and that is allowed.

        Raises:
            Refused: There is none, or it is partitioned.
        """
        if name.domain == SCALABLE:
            raise Refused(NotAllowedError, f"{name.full} is a scalable topic: look up its segments, and use those")
        if self.partitions(name):  # core.producer.partitioned-base, core.subscribe.partitioned-base
            raise Refused(NotAllowedError, f"Found partitioned metadata for non-partitioned topic: {name.full}")
        if not self.exists(name):
            if not create or name.domain == SEGMENT:  # pr25648.layout.segment-unknown, core.subscribe.no-forced-creation
                raise Refused(TopicNotFound, f"Topic {name.full} does not exist")
            if name.partition >= 0 or not self.configuration.allow_auto_topic_creation:  # core.producer.missing-partition
                raise Refused(TopicNotFound, f"Topic not found {name.full}")
            if self.create_by_default(name):
                return self.topic_to_use(name, create=create)
            self.create_topic(name)
        return self.topic(name)

    def create_by_default(self, name: TopicName) -> int:
        """Create a missing topic if topics are created with partitions here.

        Returns:
            Its number of partitions; 0: nothing was created.
        """
        settings = self.configuration
        if name.domain not in DOMAINS or name.partition >= 0:
            return 0
        if not settings.allow_auto_topic_creation or settings.allow_auto_topic_creation_type != "partitioned":
            return 0
        self.create_partitions(name, settings.default_num_partitions)
        return settings.default_num_partitions

    def create_topic(self, name: TopicName) -> None:
        """Create a topic without partitions, or a partition, and announce it: pip145.update.on-create."""
        if name.persistent:
            self.store.create_topic(name.namespace, name.full)
            self._announce(self.topic_lists.created(name.full))

    def create_partitions(self, name: TopicName, partitions: int) -> None:
        """Let a topic have a number of partitions: pip145.update.partitioned, pip247.update.partitions-exist."""
        stored = self.namespace(name)
        present = stored.partitioned.get(name.full, 0)
        stored.partitioned[name.full] = partitions
        for number in range(present, partitions):
            self.create_topic(parse_topic(partition_name(name.full, number)))
        self.partitions_changed(name.full)

    def delete_topic(self, name: TopicName) -> None:
        """Delete a topic without partitions, or a partition: core.push.topic-deleted, pip145.update.on-delete."""
        self.unload(name)
        if name.partition < 0:
            self.schemas.forget(name)
        if name.persistent:
            del self.namespace(name).topics[name.full]
            self._announce(self.topic_lists.deleted(name.full))

    def unload(self, name: TopicName) -> None:
        """Close producers and consumers of a topic; it stays: core.push.topic-unloaded."""
        topic = self._topics.get(name.full)
        if topic is None:
            return
        for producer in list(topic.producers.values()):
            producer.session.send(CommandCloseProducer(producer_id=producer.producer_id, request_id=MAX_U64))
            producer.session.drop_producer(producer)
        for subscription in list(topic.subscriptions.values()):
            for consumer in list(subscription.consumers):
                consumer.session.send(CommandCloseConsumer(consumer_id=consumer.consumer_id, request_id=MAX_U64))
                consumer.session.drop_consumer(consumer)
        self._topics.pop(name.full, None)

    def released(self, topic: Topic) -> None:
        """Record that somebody has left a topic; a non-persistent one that nobody uses is gone."""
        if not topic.name.persistent and not topic.in_use:
            self._topics.pop(topic.name.full, None)

    def new_producer_name(self) -> str:
        """Return a name that no producer has: core.producer.name-generated."""
        self._producers += 1
        return f"{self.configuration.cluster_name}-0-{self._producers - 1}"

    def _announce(self, updates: Iterable[tuple[Hashable, CommandWatchTopicUpdate | CommandPartitionUpdate]]) -> None:
        for connection, update in updates:
            session = cast(Session, connection)
            session.send(update)
