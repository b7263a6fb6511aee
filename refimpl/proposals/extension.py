"""The interface between a broker and the proposals: `Extension` for the proposal, `Host` for the broker.

`Broker` creates an `Extension` for each proposal by `PROPOSAL.broker` and calls its methods; it names no proposal. A proposal uses
only `Host`, not the broker's modules. An extension overrides the methods that it needs:

    class Greeting(Extension):
        def __init__(self, host: Host, profile: Profile, plugins: object = None) -> None:
            super().__init__(host)
            self.commands = {"greet": lambda connection, request: CommandSuccess(request_id=request.request_id)}

        def advertise(self, flags: FeatureFlags) -> None:
            flags.supports_greetings = True
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Protocol, cast

from google.protobuf.message import Message

from refimpl.configuration import Configuration
from refimpl.names import TopicName
from refimpl.proposals.administration import ExtensionRoute
from refimpl.store import Cursor, Entry, MemoryStore, StoredTopic
from refimpl.wire.pulsar_api_pb2 import (
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandSubscribe,
    FeatureFlags,
    MessageIdData,
    Schema,
)


class Connection(Hashable, Protocol):
    """The connection of a peer."""

    @property
    def role(self) -> str | None:
        """The role of the peer; None if authentication is off."""

    def send(self, message: Message) -> None:
        """Queue a command."""


class Topic(Protocol):
    """A topic, as a filter sees it."""

    @property
    def name(self) -> TopicName:
        """The name."""

    def message_id(self, index: int) -> MessageIdData:
        """Return the id of an entry."""


class Subscription(Protocol):
    """A subscription, as a filter sees it."""

    @property
    def name(self) -> str:
        """The name, unique in the topic."""

    @property
    def topic(self) -> Topic:
        """The topic."""

    @property
    def type(self) -> CommandSubscribe.SubType:
        """The type."""

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties in the SUBSCRIBE that created it."""


class Consumer(Hashable, Protocol):
    """A consumer, as a filter sees it."""

    @property
    def consumer_id(self) -> int:
        """The id, unique on its connection."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def subscription(self) -> Subscription:
        """The subscription."""


CommandHandler = Callable[[Any, Any], Message | None]
"""Handles a command: gets the connection and the request, and returns the answer; None: the command is not answered.

`Refused` is answered with ERROR; `ProtocolViolation` closes the connection."""


class Preparation(Protocol):
    """What is done in pieces before a command, so that the command itself is quick."""

    def advance(self) -> bool:
        """Do a piece of less than a millisecond or so, and return whether it was the last one."""


Prepare = Callable[[Any], Preparation | None]
"""Gets a request that may take long, and returns what to do before it; None: nothing.

Commands of other connections are carried out between the pieces. The caller keeps the preparation until the request is carried out."""


class Host(Protocol):
    """The broker, as an extension sees it."""

    @property
    def configuration(self) -> Configuration:
        """The settings of the broker."""

    @property
    def store(self) -> MemoryStore:
        """The store of the broker; an extension keeps its own data in `store.kept`."""

    def service_urls(self, topic: str) -> tuple[str, str | None]:
        """Return where a topic is served, given by full name: the service URL, and the one over TLS; None: there is none."""

    @property
    def now(self) -> float:
        """The time of the current call, in seconds."""

    def log(self, line: str) -> None:
        """Write a line to the broker's log."""

    def persistent_topics(self, namespace: str) -> list[str]:
        """Return the persistent topics of a namespace, with partitions listed individually; empty if the namespace does not exist."""

    def partition_count(self, topic: str) -> int:
        """Return the partition count of a topic, given by full name; 0: it is not partitioned, or does not exist."""

    def ordinary_topic_name(self, text: str) -> TopicName:
        """Parse the name of an ordinary topic; refuse an invalid name with InvalidTopicName."""

    def newest_schema(self, name: TopicName) -> Schema | None:
        """Return the newest schema of a topic; None: the topic has no schema, or does not exist."""

    def schema_of_version(self, name: TopicName, version: bytes) -> Schema | None:
        """Return a schema by its version as written on the wire; None: the topic has no such version."""

    def check_listing(self, namespace: str) -> None:
        """Check a request about the topics of a namespace: the name of the namespace, and the limit of requests in flight."""

    def may_list(self, connection: Connection, namespace: str) -> bool:
        """Return whether a connection may list the topics of a namespace."""

    def may_look_up(self, connection: Connection, namespace: str) -> bool:
        """Return whether a connection may look up the topics of a namespace and their partition counts."""

    def unload(self, name: TopicName) -> None:
        """Close the producers and consumers of a topic; the topic stays."""


class EntryVerdict(Enum):
    """What the broker does with an entry."""

    ACCEPT = "it is sent to the consumer"
    REJECT = "it is acknowledged, and no consumer gets it"
    RESCHEDULE = "it is offered again later"


class EntryJudge:
    """Judges the entries of one subscription before they are sent; by default it accepts every entry.

    Attributes:
        opens_entries: Whether it reads payloads. Judges that read only headers run first.
    """

    opens_entries = False

    def check_joins(self, requested: object) -> None:
        """Accept or refuse a consumer, given the result of `Extension.requested` for its SUBSCRIBE."""

    def joined(self, consumer: Consumer, requested: object) -> None:
        """Add a consumer that `check_joins` has accepted."""

    def left(self, consumer: Consumer) -> None:
        """Remove a consumer."""

    def judge(self, consumer: Consumer, index: int, entry: Entry, cursor: Cursor, now: float) -> EntryVerdict:  # noqa: ARG002
        """Judge an entry before it is sent to a consumer.

        Args:
            consumer: The consumer that would receive the entry.
            index: The index of the entry in its topic.
            entry: The entry as stored.
            cursor: The cursor of the subscription. The judge may acknowledge messages of a batch here, which are then not sent.
            now: Seconds.

        Returns:
            REJECT: the caller acknowledges the entry. RESCHEDULE: the caller asks again at `next_deadline`.
        """
        return EntryVerdict.ACCEPT

    def next_deadline(self) -> float | None:
        """Return when to call `due` next, in seconds; None: no entry is waiting."""
        return None

    def due(self, now: float) -> Iterable[int]:  # noqa: ARG002
        """Return the indexes of the rescheduled entries whose delay is over."""
        return ()

    def reset(self) -> None:
        """Forget the rescheduled entries."""

    def stats(self) -> Mapping[str, int]:
        """Return counters for the stats of the subscription."""
        return {}


class Extension:
    """What a proposal adds to a broker; by default nothing.

    Args:
        host: The broker.

    Attributes:
        commands: The handlers of the commands that it adds, by their fields in `BaseCommand`.
        preparations: What prepares a command, by its field in `BaseCommand`.
        domains: The topic domains that it adds, such as `segment` for `segment://...`.
        routes: The routes that it adds to the admin interface.
        admin: An object with the admin operations as methods; None: it adds none.
    """

    commands: Mapping[str, CommandHandler] = MappingProxyType({})
    preparations: Mapping[str, Prepare] = MappingProxyType({})
    domains: tuple[str, ...] = ()
    routes: tuple[ExtensionRoute, ...] = ()
    admin: object = None

    def __init__(self, host: Host) -> None:
        self.host = host

    def advertise(self, flags: FeatureFlags) -> None:
        """Set the feature flags of the proposal for CONNECTED."""

    def disconnected(self, connection: Connection) -> None:
        """Handle the end of a connection."""

    def next_deadline(self) -> float | None:
        """Return when to call `tick` next, in seconds; None: no deadline is set."""
        return None

    def tick(self, now: float) -> None:
        """Do what is due."""

    # Notifications about topics

    def topic_created(self, topic: str) -> None:
        """Handle the creation of a persistent topic or partition, given by full name."""

    def topic_deleted(self, topic: str) -> None:
        """Handle the deletion of a persistent topic or partition, given by full name."""

    def partitions_changed(self, topic: str) -> None:
        """Handle a change of the partition count of a topic, given by full name."""

    # Hooks into existing requests

    def list_topics(
        self,
        request: CommandGetTopicsOfNamespace,  # noqa: ARG002
        topics: Iterable[str],  # noqa: ARG002
    ) -> CommandGetTopicsOfNamespaceResponse | None:
        """Answer GET_TOPICS_OF_NAMESPACE in place of the broker; None: the broker answers.

        Args:
            request: The request; its namespace is valid, and the connection may list it.
            topics: Full names of the topics that have the mode of the request.
        """
        return None

    def requested(self, request: CommandSubscribe, name: TopicName) -> object:  # noqa: ARG002
        """Parse what a SUBSCRIBE asks of this proposal, or refuse it; nothing has been created yet."""
        return None

    def entry_judge(self, properties: Mapping[str, str], *, is_new: bool) -> EntryJudge | None:  # noqa: ARG002
        """Return the judge of a subscription's entries; None: no judge is needed.

        Args:
            properties: The properties of the subscription.
            is_new: Whether the subscription is being created. Only then may the properties be refused.
        """
        return None

    # Topics of the extension's own domains

    def topic_name(self, text: str) -> TopicName:
        """Parse a topic name of one of these domains; refuse an invalid name with InvalidTopicName."""
        raise NotImplementedError

    def exists(self, name: TopicName) -> bool:
        """Return whether a topic of these domains exists."""
        raise NotImplementedError

    def takes_name(self, name: TopicName) -> bool:  # noqa: ARG002
        """Return whether a missing ordinary topic is not created by default, because a topic of these domains has its name."""
        return False

    def stored_topic(self, name: TopicName) -> StoredTopic | None:
        """Return the stored topic; None: it does not exist. Refuse a topic that can't hold messages."""
        raise NotImplementedError

    def topics_of(self, namespace: str) -> Iterable[str]:  # noqa: ARG002
        """Return the full names of these topics in a namespace."""
        return ()

    def delete_topics(self, namespace: str) -> None:
        """Delete these topics in a namespace that is being deleted."""


def anybody(connection: Hashable, what: str) -> bool:  # noqa: ARG001
    """Return that a connection may do something, whatever it is."""
    return True


def send_all(updates: Iterable[tuple[Hashable, Message]]) -> None:
    """Send each command to its connection, in order."""
    for connection, update in updates:
        cast("Connection", connection).send(update)
