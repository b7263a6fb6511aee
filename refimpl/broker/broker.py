"""The broker, without I/O: the caller passes in bytes and the time, sends the output, and calls `tick`.

    session = broker.connect(now)
    session.receive(bytes, now)
    for session in broker.sessions_with_output(): ... session.data_to_send()
    broker.next_deadline() -> call broker.tick(now) then

Each call is atomic. Therefore a new topic is either in a list or announced by an update, never both, and none is lost between them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import TypeVar

from refimpl import proposals as known
from refimpl.broker.admin import Admin
from refimpl.broker.authorization import Authorization
from refimpl.broker.backlog_quota import BacklogQuota
from refimpl.broker.consuming import disconnect_consumers
from refimpl.broker.filtering import SubscriptionFilters
from refimpl.broker.log import Log
from refimpl.broker.members import Member, Members
from refimpl.broker.names import parse_topic
from refimpl.broker.policies import Policies
from refimpl.broker.requests import REQUESTS, Handler, answering
from refimpl.broker.schemas import Schemas
from refimpl.broker.session import Session
from refimpl.broker.topic import NonPersistentTopic, Topic
from refimpl.broker.upkeep import Upkeep
from refimpl.configuration import Configuration
from refimpl.names import DOMAINS, TopicName, is_namespace, namespace_of, partition_name
from refimpl.proposals.extension import Connection, Extension
from refimpl.proposals.profiles import DEFAULT, Profiles
from refimpl.proposals.refused import ProtocolViolation, Refused
from refimpl.store import MemoryStore, StoredNamespace, StoredTopic
from refimpl.timers import Timers
from refimpl.wire.pulsar_api_pb2 import (
    CommandSubscribe,
    FeatureFlags,
    NotAllowedError,
    Schema,
    ServiceNotReady,
    TooManyRequests,
    TopicNotFound,
)

ExtensionT = TypeVar("ExtensionT", bound=Extension)

_ROUNDING = 0.01
"""Milliseconds that a time may be short of a whole one because it is a float."""
PROPOSALS = frozenset(proposal.register for proposal in known.PROPOSALS)
"""The proposals of this broker, by the name of their clause register."""


class Broker:
    """A broker with its connections.

    Args:
        configuration: The settings.
        store: The store, for example that of an earlier broker; None: a new one.
        profiles: Which reading of each proposal the broker speaks.
        proposals: The proposals that the broker implements, by register; leave one out for a broker from before it. None: all.
        members: The brokers that it serves as, each with its addresses: one, or several for a cluster.
        log: Called with a line for each notable event.
        plugins: Plugins of the proposals, by register, such as filters.
        wall_clock_offset: Seconds to add to `now` for the seconds since 1970.

    Attributes:
        now: The time of the current call, in seconds.
        extensions: The extensions of the proposals, by register.
        turn_is_over: Asked before each command; while it says so, the commands of a connection wait. By default they never do.
        preparations: What prepares a command, by its field in `BaseCommand`.
        waiting: The connections with commands that wait for another turn, the longest waiting first; call `Session.proceed`.

    Raises:
        ValueError: Settings of the configuration contradict each other.
    """

    def __init__(
        self,
        configuration: Configuration | None = None,
        *,
        store: MemoryStore | None = None,
        profiles: Profiles = DEFAULT,
        proposals: frozenset[str] | None = None,
        members: Sequence[Member] = (Member(),),
        log: Callable[[str], None] | None = None,
        plugins: Mapping[str, object] | None = None,
        wall_clock_offset: float = 0.0,
    ) -> None:
        self.configuration = configuration or Configuration()
        self.store = store or MemoryStore()
        self.members = Members(members, self.store)
        self.server_version = f"pulsar-conformance {version('pulsar-conformance')}"
        self.authorization = Authorization(self.configuration, self.store, lambda: self.time_of_day)
        self.timers = Timers()
        self.now, self.wall_clock_offset = 0.0, wall_clock_offset
        self.policies = Policies(self)
        self.schemas = Schemas(self.store, self.policies)
        self.admin = Admin(self)
        self.log = Log(log)
        self.turn_is_over: Callable[[], bool] = lambda: False
        self.waiting: dict[Session, None] = {}
        self._sessions: dict[Session, None] = {}
        self._counts: Counter[Member | tuple[Member, str]] = Counter()  # of connections: of a broker, and of a broker from an address
        self._touched: dict[Session, None] = {}
        self._topics: dict[str, Topic] = {}
        self._producers = self._connections = 0
        self.backlog_quota = BacklogQuota(self)
        self.upkeep = Upkeep(self)
        self.extensions: dict[str, Extension] = {
            one.register: one.broker(self, profiles[one], (plugins or {}).get(one.register))
            for one in known.PROPOSALS
            if proposals is None or one.register in proposals
        }
        self.preparations = {name: call for extension in self.extensions.values() for name, call in extension.preparations.items()}
        self._commands = {name: answering(call) for extension in self.extensions.values() for name, call in extension.commands.items()}

    # Extensions

    def extension(self, kind: type[ExtensionT]) -> ExtensionT:
        """Return an extension by its class.

        Raises:
            LookupError: This broker does not implement the proposal.
        """
        for extension in self.extensions.values():
            if isinstance(extension, kind):
                return extension
        raise LookupError(f"this broker has no {kind.__name__}")

    def handler(self, command: str) -> Handler | None:
        """Return the handler of a command, by its field in `BaseCommand`; None: this broker does not handle it."""
        return self._commands.get(command) or REQUESTS.get(command)

    def _owner(self, name: TopicName) -> Extension | None:
        """Return the extension for the domain of a topic; None: it is an ordinary topic."""
        return next((one for one in self.extensions.values() if name.domain in one.domains), None)

    def requested(self, request: CommandSubscribe, name: TopicName) -> dict[str, object]:
        """Return what a SUBSCRIBE asks of each proposal, by register; nothing is created yet.

        Raises:
            Refused: A proposal refuses the request.
        """
        return {register: one.requested(request, name) for register, one in self.extensions.items()}

    def filters_of(self, properties: Mapping[str, str], *, is_new: bool = False) -> SubscriptionFilters:
        """Return the filters of a subscription with these properties.

        Args:
            properties: The properties of the subscription. They may be invalid if it exists already.
            is_new: Whether the subscription is being created.

        Raises:
            Refused: The subscription is new, and its properties are invalid.
        """
        judges = ((register, one.entry_judge(properties, is_new=is_new)) for register, one in self.extensions.items())
        return SubscriptionFilters({register: judge for register, judge in judges if judge is not None})

    @property
    def time_of_day(self) -> float:
        """The time of the current call in seconds since 1970."""
        return self.now + self.wall_clock_offset

    @property
    def delivered_until(self) -> float:
        """The time in milliseconds since 1970 until which delayed entries are due now."""
        settings = self.configuration
        if not settings.delayed_delivery_enabled:
            return math.inf
        early = 0 if settings.is_delayed_delivery_deliver_at_time_strict else settings.delayed_delivery_tick_time_millis
        return math.floor(self.time_of_day * 1000 + _ROUNDING) + early

    # Connections

    def connect(self, now: float, address: str = "", member: Member | None = None) -> Session:
        """Open a session for a new connection; beyond the limits it only has an error to send.

        Args:
            now: The time, in seconds.
            address: The address of the peer, without its port.
            member: The broker that it is opened to; None: the only one, or the first one.
        """
        self.now, self._connections = now, self._connections + 1
        session = Session(self, self._connections, address, member or self.members.leader)
        limits = self.configuration.broker_max_connections, self.configuration.broker_max_connections_per_ip
        self._sessions[session] = None
        self._counts.update(session.counted)
        for counted, limit, where in zip(session.counted, limits, ("", f" on address {address}"), strict=True):
            if 0 < limit < self._counts[counted] and not session.closing:
                session.turn_away(Refused(NotAllowedError, f"Reached the maximum number of connections{where}"))
        return session

    @property
    def sessions(self) -> Iterable[Session]:
        """Return the open connections."""
        return tuple(self._sessions)

    def touched(self, session: Session) -> None:
        """Record that a connection has output."""
        self._touched[session] = None

    def ended(self, session: Session, reason: str) -> None:
        """Handle the end of a connection."""
        del self._sessions[session]
        for counted in session.counted:
            if left := self._counts.pop(counted) - 1:
                self._counts[counted] = left
        self.waiting.pop(session, None)
        self._touched[session] = None
        for extension in self.extensions.values():
            extension.disconnected(session)
        self.log(f"{session} has ended: {reason}")

    def sessions_with_output(self) -> list[Session]:
        """Return the connections with output, and those to close."""
        found = [session for session in self._touched if session.has_output]
        self._touched.clear()
        return found

    def next_deadline(self) -> float | None:
        """Return when to call `tick` next, in seconds; None: no deadline is set."""
        deadlines = (self.timers.next_deadline(), *(extension.next_deadline() for extension in self.extensions.values()))
        return min((when for when in deadlines if when is not None), default=None)

    def tick(self, now: float) -> None:
        """Do what is due."""
        self.now = now
        self.timers.run(now)
        for extension in self.extensions.values():
            extension.tick(now)

    def feature_flags(self) -> FeatureFlags:
        """Return the feature flags for CONNECTED; flags of proposals that this broker does not implement are absent."""
        flags = FeatureFlags(supports_get_partitioned_metadata_without_auto_creation=True)
        for extension in self.extensions.values():
            extension.advertise(flags)
        return flags

    def may_list(self, connection: Connection, namespace: str) -> bool:
        """Return whether a connection may list the topics of a namespace."""
        return self.authorization.allows(connection.role, namespace, "produce", "consume")

    def may_look_up(self, connection: Connection, namespace: str) -> bool:
        """Return whether a connection may look up the topics of a namespace and their partition counts."""
        return self.authorization.allows(connection.role, namespace, "produce", "consume")

    def check_lookup_limit(self) -> None:
        """Refuse a request above the limit. Each request is answered at once, so no other request is ever in flight.

        Raises:
            Refused: TooManyRequests.
        """
        if self.configuration.max_concurrent_lookup_request < 1:
            raise Refused(TooManyRequests, "Failed due to too many pending lookup requests")

    def check_listing(self, namespace: str) -> None:
        """Check a request about the topics of a namespace: the name of the namespace, and the limit of requests in flight.

        Raises:
            Refused: TooManyRequests.
            ProtocolViolation: The name is not that of a namespace.
        """
        self.check_lookup_limit()
        if not is_namespace(namespace, lenient=True):
            raise ProtocolViolation(f"{namespace!r} is no namespace")

    # Topics

    def service_urls(self, topic: str) -> tuple[str, str | None]:
        """Return where a topic is served, given by full name: the service URL, and the one over TLS; None: there is none."""
        owner = self.members.owner_of(namespace_of(topic), topic) or self.members.leader
        return owner.service_url, owner.service_url_tls

    def topic_name(self, text: str) -> TopicName:
        """Parse a topic name.

        Raises:
            Refused: InvalidTopicName.
        """
        domain, separator, _ = text.partition("://")
        if separator:
            for extension in self.extensions.values():
                if domain in extension.domains:
                    return extension.topic_name(text)
        return parse_topic(text)

    def ordinary_topic_name(self, text: str) -> TopicName:
        """Parse the name of a topic that belongs to no proposal.

        Raises:
            Refused: InvalidTopicName.
        """
        return parse_topic(text)

    def newest_schema(self, name: TopicName) -> Schema | None:
        """Return the newest schema of a topic; None: the topic has no schema, or does not exist."""
        return self.schemas.newest(name)

    def schema_of_version(self, name: TopicName, version: bytes) -> Schema | None:
        """Return a schema by its version as written on the wire; None: the topic has no such version."""
        return self.schemas.of_version(name, version)

    def persistent_topics(self, namespace: str) -> list[str]:
        """Return the persistent topics of a namespace, with partitions listed individually; empty if the namespace does not exist."""
        stored = self.store.namespaces.get(namespace)
        return list(stored.names) if stored else []

    def non_persistent_topics(self, namespace: str, *, in_use: bool = False) -> list[str]:
        """Return the non-persistent topics of a namespace; with `in_use`, those that have a producer or a consumer."""
        found = (topic for topic in self._topics.values() if not topic.name.persistent and topic.name.namespace == namespace)
        return sorted(topic.name.full for topic in found if topic.in_use or not in_use)

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
        """Return the partition count of a topic; 0: it is not partitioned, or does not exist."""
        return self.namespace(name).partitioned.get(name.full, 0)

    def partition_count(self, topic: str) -> int:
        """Return the partition count of a topic, given by full name; 0 also if the namespace does not exist."""
        stored = self.store.namespaces.get(namespace_of(topic))
        return stored.partitioned.get(topic, 0) if stored else 0

    def partitions_changed(self, topic: str) -> None:
        """Notify the extensions of a changed partition count of a topic, given by full name."""
        for extension in self.extensions.values():
            extension.partitions_changed(topic)

    def exists(self, name: TopicName) -> bool:
        """Return whether a non-partitioned topic or a partition exists."""
        owner = self._owner(name)
        if owner is not None:
            return owner.exists(name)
        if name.persistent:
            return name.full in self.namespace(name).topics
        return name.full in self._topics or name.partition in range(self.namespace(name).partitioned.get(name.partitioned, 0))

    def loaded(self, name: str) -> Topic | None:
        """Return a loaded topic; None: it is not loaded."""
        return self._topics.get(name)

    def topic(self, name: TopicName) -> Topic:
        """Load an existing topic."""
        found = self._topics.get(name.full)
        if found is None:
            if name.persistent:
                owner = self._owner(name)
                stored = self.namespace(name).topics[name.full] if owner is None else owner.stored_topic(name)
                assert stored is not None
                found = Topic(name, stored, self.filters_of, self.policies)
            else:
                found = NonPersistentTopic(name, StoredTopic(0), self.filters_of, self.policies)
            self._topics[name.full] = found
        return found

    def takes_name(self, name: TopicName) -> bool:
        """Return whether a missing topic is not created by default, because a topic of another domain has its name."""
        return not self.exists(name) and any(extension.takes_name(name) for extension in self.extensions.values())

    def topic_to_use(self, name: TopicName, *, create: bool) -> Topic:
        """Load a topic for a producer or consumer; create it if it is missing and creation is allowed.

        Raises:
            Refused: The topic does not exist, or is partitioned.
        """
        owner = self._owner(name)
        if self.takes_name(name) if owner is None else owner.stored_topic(name) is None:
            raise Refused(TopicNotFound, f"Topic {name.full} does not exist")
        if self.partitions(name):  # core.producer.partitioned-base, core.subscribe.partitioned-base
            raise Refused(NotAllowedError, f"Found partitioned metadata for non-partitioned topic: {name.full}")
        if owner is None and not self.exists(name):
            if not create and name.persistent:  # core.subscribe.no-forced-creation
                raise Refused(TopicNotFound, f"Topic {name.full} does not exist")
            if self.policies.auto_creation(name) is None:
                raise Refused(TopicNotFound, f"Topic not found {name.full}")
            if name.partition >= 0:
                self.check_partition(name)
            self.create_topic(name)  # without partitions: these come only if somebody asks for their number
        return self.topic(name)

    def check_partition(self, name: TopicName) -> None:
        """Check that a missing partition may be created: it is one of a partitioned topic.

        Raises:
            Refused: It is not: core.producer.missing-partition.
        """
        partitions = self.namespace(name).partitioned.get(name.partitioned, 0)
        if not partitions:
            raise Refused(NotAllowedError, f"Partition metadata not found for the partitioned topic: {name.full}")
        if name.partition >= partitions:
            if name.persistent:
                raise Refused(TopicNotFound, f"Topic not found {name.full}")
            raise Refused(NotAllowedError, f"Illegal topic partition name {name.full} with max allowed {partitions} partitions")

    def is_creatable(self, name: TopicName) -> bool:
        """Return whether a missing topic is created for whoever asks for it. A partition beyond the last one is not."""
        partitions = self.partition_count(name.partitioned) if name.partition >= 0 else 0
        return self.policies.auto_creation(name) is not None and not 0 < partitions <= name.partition

    def create_by_default(self, name: TopicName) -> int:
        """Create a missing topic as a partitioned topic, if that is the type of its namespace.

        Returns:
            The partition count; 0: no topic was created.
        """
        partitions = self.policies.auto_creation(name)
        if name.domain not in DOMAINS or name.partition >= 0 or not partitions:
            return 0
        self.create_partitions(name, partitions)
        return partitions

    def create_topic(self, name: TopicName) -> None:
        """Create a non-partitioned topic or a partition, and announce it; a non-persistent one is only loaded."""
        if not name.persistent:
            self.topic(name)
            return
        self.store.create_topic(name.namespace, name.full)
        for extension in self.extensions.values():
            extension.topic_created(name.full)

    def create_partitions(self, name: TopicName, partitions: int) -> None:
        """Set the partition count of a topic; the missing partitions are created before a new count is announced.

        They have the subscriptions of the first one: core.partitions.subscriptions-of-new.
        """
        stored = self.namespace(name)
        present = stored.partitioned.get(name.full, 0)
        stored.partitioned[name.full] = partitions
        first = stored.topics.get(partition_name(name.full, 0))
        for part in (parse_topic(partition_name(name.full, number)) for number in range(partitions)):
            if part.persistent and part.full not in stored.topics:
                self.create_topic(part)
                for subscription, cursor in first.cursors.items() if first else ():
                    self.topic(part).subscribe(subscription, 0, durable=True, properties=dict(cursor.properties))
        if partitions != present:
            self.partitions_changed(name.full)

    def delete_topic(self, name: TopicName) -> None:
        """Delete a non-partitioned topic or a partition: core.push.topic-deleted."""
        self.unload(name)
        if name.partition < 0:
            self.forget(name)
        if name.persistent:
            self.store.delete_topic(name.namespace, name.full)
            for extension in self.extensions.values():
                extension.topic_deleted(name.full)

    def forget(self, name: TopicName) -> None:
        """Delete what is kept about a topic besides its messages."""
        self.schemas.forget(name)
        self.namespace(name).topic_policies.pop(name.full, None)
        self.namespace(name).properties.pop(name.full, None)

    def terminate(self, topic: Topic) -> None:
        """End a topic: its producers are closed, and consumers that have read all are told."""
        topic.stored.terminated = True
        self.close_producers(topic)
        for subscription in topic.subscriptions.values():
            subscription.tell_end()

    def unload(self, name: TopicName) -> None:
        """Close the producers and consumers of a topic; the topic stays: core.push.topic-unloaded."""
        topic = self._topics.get(name.full)
        if topic is None:
            return
        self.close_producers(topic)
        for subscription in list(topic.subscriptions.values()):
            disconnect_consumers(subscription)
        self._topics.pop(name.full, None)

    def close_producers(self, topic: Topic) -> None:
        """Close the producers of a topic from the broker's side."""
        topic.access.turn_away(Refused(ServiceNotReady, "Topic is temporarily unavailable"))  # core.access.waiting-unloaded
        for producer in list(topic.producers.values()):
            producer.session.close_producer(producer)

    def loaded_topics(self) -> list[Topic]:
        """Return the topics that are in use or were since the start."""
        return list(self._topics.values())

    def new_producer_name(self) -> str:
        """Return a unique producer name: core.producer.name-generated."""
        self._producers += 1
        return f"{self.configuration.cluster_name}-0-{self._producers - 1}"
