"""What a proposal adds to a broker, and what it may ask of it.

`Broker` makes an `Extension` for each proposal that it knows, by `PROPOSAL.broker`, and calls its methods; it names no proposal. Both
stand here, below the broker, so that a proposal needs nothing of it but `Host`. An extension overrides what it uses:

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
    Schema,
)


class Connection(Hashable, Protocol):
    """A connection of a peer."""

    @property
    def role(self) -> str | None:
        """Who the peer is; None with authentication off."""

    def send(self, message: Message) -> None:
        """Queue a command."""


CommandHandler = Callable[[Any, Any], Message | None]
"""Carries out a command: connection and request to the answer; None: nothing answers.

Raises `Refused`: ERROR answers. Raises `ProtocolViolation`: the connection ends."""


class Host(Protocol):
    """The broker, as an extension sees it."""

    @property
    def configuration(self) -> Configuration:
        """Its settings."""

    @property
    def store(self) -> MemoryStore:
        """What it keeps; `store.kept` has room for what an extension keeps."""

    @property
    def service_url(self) -> str:
        """Where clients reach it."""

    @property
    def now(self) -> float:
        """The time of the call that is being carried out, in seconds."""

    def log(self, line: str) -> None:
        """Tell the person who runs it something."""

    def persistent_topics(self, namespace: str) -> list[str]:
        """Return the persistent topics of a namespace, each partition by itself; none if there is no such namespace."""

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions of a topic, by full name; 0: it is not partitioned, or there is none."""

    def ordinary_topic_name(self, text: str) -> TopicName:
        """Read the name of an ordinary topic; refuses with InvalidTopicName what can't be one."""

    def newest_schema(self, name: TopicName) -> Schema | None:
        """Return the newest schema of a topic; None: it has none, or does not exist."""

    def schema_of_version(self, name: TopicName, version: bytes) -> Schema | None:
        """Return the schema of a version as it is written on the wire; None: the topic has no such version."""

    def check_listing(self, namespace: str) -> None:
        """Let a request about the topics of a namespace pass, as far as its form and the limit of requests in flight go."""

    def may_list(self, connection: Connection, namespace: str) -> bool:
        """Return whether a connection may see which topics a namespace has."""

    def may_look_up(self, connection: Connection, namespace: str) -> bool:
        """Return whether a connection may see where the topics of a namespace are, and how many partitions they have."""

    def unload(self, name: TopicName) -> None:
        """Close the producers and consumers of a topic; it stays."""


class EntryVerdict(Enum):
    """What becomes of an entry."""

    ACCEPT = "it is sent to the consumer"
    REJECT = "it is acknowledged, and no consumer gets it"
    RESCHEDULE = "it is offered again later"


class EntryJudge:
    """What judges the entries of one subscription before they are sent; the defaults let everything pass.

    Attributes:
        opens_entries: It reads payloads. Those that look at headers only are asked before.
    """

    opens_entries = False

    def check_joins(self, requested: object) -> None:
        """Let a consumer join that has asked for something, as `Extension.requested` gave it; or refuse."""

    def joined(self, consumer: Hashable, requested: object) -> None:
        """Record a consumer that `check_joins` has passed."""

    def left(self, consumer: Hashable) -> None:
        """Record that a consumer has left."""

    def judge(self, consumer: Hashable, index: int, entry: Entry, cursor: Cursor, now: float) -> EntryVerdict:  # noqa: ARG002
        """Judge an entry that a consumer would be sent now.

        Args:
            consumer: Who would be sent it.
            index: Of the entry.
            entry: As it is stored.
            cursor: What the subscription has acknowledged; messages of a batch may be acknowledged here, and are not sent then.
            now: Seconds.

        Returns:
            REJECT: the caller acknowledges the entry. RESCHEDULE: it offers the entry again at `next_deadline`.
        """
        return EntryVerdict.ACCEPT

    def next_deadline(self) -> float | None:
        """Return when `due` has something; None: never."""
        return None

    def due(self, now: float) -> Iterable[int]:  # noqa: ARG002
        """Return the indexes of the entries that are to be offered again now."""
        return ()

    def reset(self) -> None:
        """Forget which entries are to be offered again."""

    def stats(self) -> Mapping[str, int]:
        """Return counters, as the statistics of the subscription show them."""
        return {}


class Extension:
    """What a proposal adds to a broker; the defaults add nothing.

    Args:
        host: The broker.

    Attributes:
        commands: What carries out the commands that it adds, by their fields in `BaseCommand`.
        domains: Of topic names, such as `segment` of `segment://...`.
        routes: What it adds to the admin interface.
        admin: The same as methods; None: it adds nothing.
    """

    commands: Mapping[str, CommandHandler] = MappingProxyType({})
    domains: tuple[str, ...] = ()
    routes: tuple[ExtensionRoute, ...] = ()
    admin: object = None

    def __init__(self, host: Host) -> None:
        self.host = host

    def advertise(self, flags: FeatureFlags) -> None:
        """Set its feature flags in CONNECTED."""

    def disconnected(self, connection: Connection) -> None:
        """Forget a connection that has ended."""

    def next_deadline(self) -> float | None:
        """Return when to call `tick` next, in seconds; None: no deadline is set."""
        return None

    def tick(self, now: float) -> None:
        """Do what is due."""

    # What has changed

    def topic_created(self, topic: str) -> None:
        """Record a new persistent topic or partition, by its full name."""

    def topic_deleted(self, topic: str) -> None:
        """Record that a persistent topic or partition is gone, by its full name."""

    def partitions_changed(self, topic: str) -> None:
        """Record that a topic, by its full name, has another number of partitions than before."""

    # Requests that are older than the proposal

    def list_topics(
        self,
        request: CommandGetTopicsOfNamespace,  # noqa: ARG002
        topics: Iterable[str],  # noqa: ARG002
    ) -> CommandGetTopicsOfNamespaceResponse | None:
        """Answer GET_TOPICS_OF_NAMESPACE in place of the broker; None: the broker answers.

        Args:
            request: Its namespace is valid and may be listed.
            topics: Full names of the topics that have the mode of the request.
        """
        return None

    def requested(self, request: CommandSubscribe, name: TopicName) -> object:  # noqa: ARG002
        """Read what a SUBSCRIBE asks of the proposal, before anything is created for it; or refuse."""
        return None

    def entry_judge(self, properties: Mapping[str, str], *, is_new: bool) -> EntryJudge | None:  # noqa: ARG002
        """Return what judges the entries of a subscription; None: nothing does.

        Args:
            properties: Those of the subscription.
            is_new: It is about to be created, and may be refused. If not, the properties are what they are.
        """
        return None

    # Topics of its own domains

    def topic_name(self, text: str) -> TopicName:
        """Read a name of one of its domains; refuses with InvalidTopicName what can't be one."""
        raise NotImplementedError

    def exists(self, name: TopicName) -> bool:
        """Return whether one of its topics exists."""
        raise NotImplementedError

    def stored_topic(self, name: TopicName) -> StoredTopic | None:
        """Return what holds the messages of one of its topics; None: it does not exist. Refuses if it holds none."""
        raise NotImplementedError

    def topics_of(self, namespace: str) -> Iterable[str]:  # noqa: ARG002
        """Return its topics in a namespace, by full name."""
        return ()

    def delete_topics(self, namespace: str) -> None:
        """Delete its topics in a namespace, which goes."""

    def unload_topics(self, namespace: str) -> None:
        """Close the producers and consumers of its topics in a namespace."""


def send_all(updates: Iterable[tuple[Hashable, Message]]) -> None:
    """Send what the state machine of a proposal has to tell: to each connection its command, in order."""
    for connection, update in updates:
        cast("Connection", connection).send(update)
