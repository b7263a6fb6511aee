"""PIP-145, the client's side: what a pattern consumer asks, and what it makes of the answers.

The first list comes from GET_TOPICS_OF_NAMESPACE. If the broker offers watchers, one is registered then; what it tells is checked
once in a period, since a change can get lost on the way. Otherwise the list is asked for once in a period. `TRANSITIONS` has
all of it as a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from google.protobuf.message import Message

from refimpl.backoff import delay
from refimpl.indexes.topic_patterns import compile_pattern
from refimpl.indexes.topics_hash import EMPTY_HASH, TopicSet
from refimpl.proposals.refused import Refused
from refimpl.proposals.state_machine import Table, Transition
from refimpl.proposals.topic_list.rules import DEFAULT, TopicListProfile, visible_topics, without_domain
from refimpl.wire.commands import command_name
from refimpl.wire.pulsar_api_pb2 import (
    BaseCommand,
    CommandError,
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
    FeatureFlags,
    NotAllowedError,
)

FIRST_RETRY = 0.2
"""Seconds until a request that failed is made again; they double with each failure, up to the discovery period."""


class State(Enum):
    """Where a pattern consumer's watch stands."""

    OFFLINE = "there is no connection"
    LISTING = "a list is asked for"
    REGISTERING = "a watcher is asked for"
    WATCHING = "the watcher tells of changes"
    CHECKING = "the watcher tells of changes, and the set is being compared"
    POLLING = "the broker tells nothing; a list is asked for once in a period"
    WAITING = "a request has failed and is made again soon"
    CLOSING = "nobody is interested any more, but a request for a watcher is not answered yet"
    CLOSED = "nobody is interested any more"


class Event(Enum):
    """What happens to it."""

    CONNECTED = "there is a connection"
    DISCONNECTED = "the connection is lost"
    LISTED = "GET_TOPICS_OF_NAMESPACE_RESPONSE"
    WATCHED = "WATCH_TOPIC_LIST_SUCCESS"
    DOUBTED = "WATCH_TOPIC_LIST_SUCCESS without topics but with a hash that nobody knows"
    DIFFERED = "WATCH_TOPIC_UPDATE with another hash than that of the set"
    REFUSED = "NotAllowedError for WATCH_TOPIC_LIST"
    FAILED = "another ERROR, or no answer in time"
    DUE = "time is up"
    CLOSE = "nobody is interested any more"


class Send(Enum):
    """What it sends."""

    LIST = "GET_TOPICS_OF_NAMESPACE with the known hash"
    LIST_ANEW = "GET_TOPICS_OF_NAMESPACE without a hash"
    WATCH = "WATCH_TOPIC_LIST"
    CLOSE = "WATCH_TOPIC_LIST_CLOSE if a watcher was asked for"


TRANSITIONS: tuple[Transition[State, Event, Send], ...] = (
    Transition(State.OFFLINE, Event.CONNECTED, State.REGISTERING, Send.WATCH, when="knows_topics_and_watches"),
    Transition(State.OFFLINE, Event.CONNECTED, State.LISTING, Send.LIST),
    Transition(State.OFFLINE, Event.CLOSE, State.CLOSED),
    Transition(State.LISTING, Event.LISTED, State.REGISTERING, Send.WATCH, when="watches"),
    Transition(State.LISTING, Event.LISTED, State.POLLING),
    Transition(State.LISTING, Event.FAILED, State.WAITING),
    Transition(State.LISTING, Event.DISCONNECTED, State.OFFLINE),
    Transition(State.LISTING, Event.CLOSE, State.CLOSED, Send.CLOSE),
    Transition(State.REGISTERING, Event.WATCHED, State.WATCHING),
    Transition(State.REGISTERING, Event.DOUBTED, State.CHECKING, Send.LIST_ANEW),
    Transition(State.REGISTERING, Event.REFUSED, State.LISTING, Send.LIST),
    Transition(State.REGISTERING, Event.FAILED, State.WAITING),
    Transition(State.REGISTERING, Event.DISCONNECTED, State.OFFLINE),
    Transition(State.REGISTERING, Event.CLOSE, State.CLOSING),
    Transition(State.WATCHING, Event.DIFFERED, State.CHECKING, Send.WATCH, when="reconciles"),
    Transition(State.WATCHING, Event.DIFFERED, State.CHECKING, Send.LIST),
    Transition(State.WATCHING, Event.DUE, State.CHECKING, Send.WATCH, when="reconciles"),
    Transition(State.WATCHING, Event.DUE, State.CHECKING, Send.LIST),
    Transition(State.WATCHING, Event.DISCONNECTED, State.OFFLINE),
    Transition(State.WATCHING, Event.CLOSE, State.CLOSED, Send.CLOSE),
    Transition(State.CHECKING, Event.WATCHED, State.WATCHING),
    Transition(State.CHECKING, Event.LISTED, State.WATCHING),
    Transition(State.CHECKING, Event.DOUBTED, State.CHECKING, Send.LIST_ANEW),
    Transition(State.CHECKING, Event.REFUSED, State.LISTING, Send.LIST),
    Transition(State.CHECKING, Event.FAILED, State.WAITING),
    Transition(State.CHECKING, Event.DISCONNECTED, State.OFFLINE),
    Transition(State.CHECKING, Event.CLOSE, State.CLOSED, Send.CLOSE),
    Transition(State.POLLING, Event.DUE, State.LISTING, Send.LIST),
    Transition(State.POLLING, Event.DISCONNECTED, State.OFFLINE),
    Transition(State.POLLING, Event.CLOSE, State.CLOSED, Send.CLOSE),
    Transition(State.WAITING, Event.DUE, State.LISTING, Send.LIST),
    Transition(State.WAITING, Event.DISCONNECTED, State.OFFLINE),
    Transition(State.WAITING, Event.CLOSE, State.CLOSED, Send.CLOSE),
    Transition(State.CLOSING, Event.WATCHED, State.CLOSED, Send.CLOSE),
    Transition(State.CLOSING, Event.DOUBTED, State.CLOSED, Send.CLOSE),
    Transition(State.CLOSING, Event.REFUSED, State.CLOSED),
    Transition(State.CLOSING, Event.FAILED, State.CLOSED, Send.CLOSE),
    Transition(State.CLOSING, Event.DISCONNECTED, State.CLOSED),
)
"""The client as a table. An event that a state has no row for changes nothing."""

_TABLE = Table(TRANSITIONS)


@dataclass(frozen=True)
class TopicChanges:
    """How the set of topics has changed; full names, partitions by their own names, in the order of the hash."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True)
class _Asked:
    """A request that is not answered yet.

    Attributes:
        topics_hash: What it carries; None: nothing.
    """

    send: Send
    topics_hash: str | None


class TopicListWatch:
    """The topics of a namespace that match a pattern, as far as a broker tells.

    Args:
        namespace: `tenant/namespace`.
        topics_pattern: RE2 syntax, with or without a topic domain; it goes to the broker as it is.
        watcher_id: Unique among the watchers of the client's connections; it is kept over reconnects.
        profile: Whom to follow where text and peers differ.
        discovery_period: Seconds between two lists, or two checks of what the watcher told (`patternAutoDiscoveryPeriod`).
        operation_timeout: Seconds after which an unanswered request has failed.
        mode: Kind of topics to list; only persistent ones can be watched.
        polling_only: Register no watcher, as for a client that uses HTTP for look-ups.

    Raises:
        ValueError: The pattern does not compile.
    """

    def __init__(
        self,
        namespace: str,
        topics_pattern: str,
        watcher_id: int,
        *,
        profile: TopicListProfile = DEFAULT,
        discovery_period: float = 60.0,
        operation_timeout: float = 30.0,
        mode: CommandGetTopicsOfNamespace.Mode = CommandGetTopicsOfNamespace.PERSISTENT,
        polling_only: bool = False,
    ) -> None:
        self.namespace = namespace
        self.topics_pattern = topics_pattern
        self.watcher_id = watcher_id
        self.state = State.OFFLINE
        self.failure: Refused | None = None
        self._profile = profile
        self._period = discovery_period
        self._timeout = operation_timeout
        self._mode = mode
        self._polling_only = polling_only or mode != CommandGetTopicsOfNamespace.PERSISTENT
        self._pattern = compile_pattern(without_domain(topics_pattern), f"{namespace}/")
        self._topics: TopicSet | None = None
        self._list_hash: str | None = None  # of the last list, if that was not filtered by the broker
        self._flags = FeatureFlags()
        self._refused = False
        self._was_registered = False  # on an earlier connection
        self._registered = False  # updates are for this watcher
        self._asked_to_watch = False  # the broker may have a watcher
        self._outbox: list[Send] = []
        self._asked: dict[tuple[str, int], _Asked] = {}
        self._deadline: float | None = None
        self._failures = 0

    @property
    def topics(self) -> frozenset[str]:
        """The known topics; empty also as long as there was no list yet."""
        return frozenset(self._topics or ())

    @property
    def topics_hash(self) -> str | None:
        """The hash of the known topics; None: there was no list yet."""
        return None if self._topics is None else self._topics.hash

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self.state in (State.CLOSING, State.CLOSED)

    @property
    def watches(self) -> bool:
        """Whether a watcher can be asked for: pip145.client.watch-needs-flag, pip145.client.list-polls-without-watch."""
        return self._flags.supports_topic_watchers and not self._polling_only and not self._refused

    @property
    def knows_topics_and_watches(self) -> bool:
        """Whether a watcher can be asked for at once, with the hash of what is known: pip145.client.watch-hash-on-reconnect."""
        return self._topics is not None and self.watches

    @property
    def reconciles(self) -> bool:
        """Whether the set is checked by a repeated request for the watcher, and not by a list: pip145.client.watch-periodic."""
        return self._flags.supports_topic_watcher_reconcile and self._profile.watch_hash == "always" and self.watches

    def connected(self, flags: FeatureFlags | None, now: float) -> None:
        """Handle a new connection.

        Args:
            flags: Those of CONNECTED; None: it had none.
            now: Seconds.
        """
        self.disconnected(now)
        self._flags = flags if flags is not None else FeatureFlags()
        self._refused = False
        self._failures = 0
        self._happened(Event.CONNECTED, now)

    def disconnected(self, now: float) -> None:
        """Handle the loss of the connection; what it still owed is void, and the known topics stay."""
        self._was_registered |= self._registered
        self._registered = self._asked_to_watch = False
        self._asked.clear()
        self._outbox.clear()
        self._happened(Event.DISCONNECTED, now)

    def close(self) -> None:
        """End the watch, since nobody is interested any more; a watcher is closed: pip145.client.watch-close.

        If a request for a watcher is not answered yet, the close follows its answer: some brokers suffer from one that overtakes.
        """
        if self.is_closed:
            return
        unsent = Send.WATCH in self._outbox
        self._outbox.clear()
        self._happened(Event.CLOSE, None)
        if self.state is State.CLOSING and unsent:
            self._happened(Event.FAILED, None)
        if self.state is State.CLOSED:
            self._asked.clear()

    def next_deadline(self) -> float | None:
        """Return when `tick` has to be called, in seconds; None: never, unless something happens."""
        return self._deadline

    def tick(self, now: float) -> None:
        """Do what is due."""
        if self._deadline is None or now < self._deadline:
            return
        self._deadline = None
        if self.state in (State.WATCHING, State.POLLING, State.WAITING):
            self._happened(Event.DUE, now)
        else:
            self._asked.clear()
            self._failed(Refused(0, "the broker has not answered in time"), Event.FAILED, now)

    def commands_to_send(self, new_request_id: Callable[[], int], now: float) -> list[Message]:
        """Return what is to be sent now, in this order.

        Args:
            new_request_id: Gives a number that no other request of the connection has.
            now: Seconds.

        Returns:
            Sub-messages, each to be wrapped into its command.
        """
        messages = [self._message(send, new_request_id()) for send in self._outbox]
        if self._asked and self._outbox:
            self._deadline = now + self._timeout
        self._outbox.clear()
        return messages

    def _message(self, send: Send, request_id: int) -> Message:
        if send is Send.CLOSE:
            return CommandWatchTopicListClose(request_id=request_id, watcher_id=self.watcher_id)
        if send is Send.WATCH:
            self._asked_to_watch = True
            with_hash = self._profile.watch_hash == "always" or self._was_registered  # pip145.client.watch-hash-first
            known = self.topics_hash if with_hash else None
            self._asked["watch", request_id] = _Asked(send, known)
            return CommandWatchTopicList(
                request_id=request_id,
                watcher_id=self.watcher_id,
                namespace=self.namespace,
                topics_pattern=self.topics_pattern,
                topics_hash=known,
            )
        known = None if send is Send.LIST_ANEW else self._list_hash or self.topics_hash  # pip145.client.list-returns-hash
        self._asked["list", request_id] = _Asked(send, known)
        return CommandGetTopicsOfNamespace(
            request_id=request_id,
            namespace=self.namespace,
            mode=self._mode,  # pip145.client.list-mode
            topics_pattern=self.topics_pattern,  # pip145.client.list-sends-pattern
            topics_hash=known,
        )

    def received(self, command: BaseCommand, now: float) -> TopicChanges | None:
        """Take a command from the broker; one that is not for this watcher, or comes too late, is ignored.

        Returns:
            How the topics have changed; None: they have not.
        """
        name = command_name(command)
        if name == "watchTopicUpdate":
            return self._updated(command.watchTopicUpdate, now)
        if name == "watchTopicListSuccess":
            return self._watched(command.watchTopicListSuccess, now)
        if name == "getTopicsOfNamespaceResponse":
            return self._listed(command.getTopicsOfNamespaceResponse, now)
        if name == "error":
            self._error(command.error, now)
        return None

    def _listed(self, answer: CommandGetTopicsOfNamespaceResponse, now: float) -> TopicChanges | None:
        asked = self._asked.pop(("list", answer.request_id), None)
        if asked is None:  # the request of another, or of an older connection
            return None
        if not answer.changed and asked.topics_hash is None:
            self._failed(Refused(0, "the broker says that a list has not changed which it has never given"), Event.FAILED, now)
            return None
        changes = None
        if answer.changed:  # pip145.client.list-unchanged
            has_hash = answer.HasField("topics_hash")
            filtered = answer.filtered if self._profile.filtered_by == "flag" else has_hash
            # pip145.client.list-whole-set, pip145.client.list-no-hash-filters, pip145.client.list-unfiltered-filters
            changes = self._replace(answer.topics if filtered else visible_topics(answer.topics, self._pattern))
            self._list_hash = answer.topics_hash if has_hash else None
        self._answered(Event.LISTED, now)
        return changes

    def _watched(self, answer: CommandWatchTopicListSuccess, now: float) -> TopicChanges | None:
        if answer.watcher_id != self.watcher_id:
            return None
        asked = self._asked.pop(("watch", answer.request_id), None)
        if asked is None:
            return None
        self._registered = True
        changes = None
        if answer.topics_hash not in (asked.topics_hash, self.topics_hash):  # pip145.client.watch-applies-list
            if not answer.topic and answer.topics_hash != EMPTY_HASH:
                self._happened(Event.DOUBTED, now)
                return None
            changes = self._replace(answer.topic)
        self._answered(Event.WATCHED, now)
        return changes

    def _updated(self, update: CommandWatchTopicUpdate, now: float) -> TopicChanges | None:
        if not self._registered or update.watcher_id != self.watcher_id or self._topics is None:  # pip145.client.watch-unknown-id
            return None
        before = {name: name in self._topics for name in (*update.deleted_topics, *update.new_topics)}
        for topic in update.deleted_topics:  # pip145.client.watch-applies-update
            self._topics.remove(topic)
        for topic in update.new_topics:
            self._topics.add(topic)
        self._list_hash = None
        if update.topics_hash != self._topics.hash:  # pip145.client.watch-mismatch
            self._happened(Event.DIFFERED, now)
        return _changes(
            (name for name, known in before.items() if not known and name in self._topics),
            (name for name, known in before.items() if known and name not in self._topics),
        )

    def _error(self, error: CommandError, now: float) -> None:
        refusal = Refused(error.error, error.message)
        if self._asked.pop(("list", error.request_id), None) is not None:
            self._failed(refusal, Event.FAILED, now)
        elif self._asked.pop(("watch", error.request_id), None) is not None:
            self._asked_to_watch = self._registered  # a refused check leaves the watcher as it was
            self._refused = error.error == NotAllowedError  # pip145.client.watch-refused
            self._failed(refusal, Event.REFUSED if self._refused else Event.FAILED, now)

    def _replace(self, topics: Iterable[str]) -> TopicChanges | None:
        replaced, self._topics, self._list_hash = self._topics or TopicSet(), TopicSet(topics), None
        return _changes(
            (topic for topic in self._topics if topic not in replaced), (topic for topic in replaced if topic not in self._topics)
        )

    def _answered(self, event: Event, now: float) -> None:
        self._happened(event, now)
        if self.state in (State.WATCHING, State.POLLING):
            self._failures = 0
            self.failure = None

    def _failed(self, refusal: Refused, event: Event, now: float) -> None:
        self.failure = refusal
        self._failures += 1
        self._happened(event, now)

    def _happened(self, event: Event, now: float | None) -> None:
        """Follow the table."""
        row = _TABLE.row(self, self.state, event)
        if row is None:
            return
        self.state = row.target
        if row.send is not None and (row.send is not Send.CLOSE or self._asked_to_watch):
            self._outbox.append(row.send)
        if now is not None:
            self._deadline = self._due(now)
        elif self.state is not State.CLOSING:  # which still waits for an answer
            self._deadline = None

    def _due(self, now: float) -> float | None:
        if self.state in (State.WATCHING, State.POLLING):
            return now + self._period
        if self.state is State.WAITING:
            return now + delay(self._failures, FIRST_RETRY, self._period)
        return None


def _changes(added: Iterable[str], removed: Iterable[str]) -> TopicChanges | None:
    changes = TopicChanges(tuple(added), tuple(removed))
    return changes if changes.added or changes.removed else None
