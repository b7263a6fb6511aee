"""PIP-145, the client's side: how a pattern consumer keeps its list of topics up to date.

The client gets the first list with GET_TOPICS_OF_NAMESPACE. If the broker supports watchers, the client then opens one, and checks
its list once per period, because an update can be lost. Otherwise it polls the list once per period. `TRANSITIONS` is the
state machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from google.protobuf.message import Message

from refimpl.backoff import delay
from refimpl.indexes.topic_patterns import compile_pattern
from refimpl.indexes.topics_hash import EMPTY_HASH, TopicSet
from refimpl.proposals.refused import Refused
from refimpl.proposals.state_machine import Table, Transition
from refimpl.proposals.topic_list.rules import DEFAULT, TopicListProfile, visible_topics, without_domain
from refimpl.proposals.watch_machine import Registration, TopicSetWatch
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
"""Seconds before a failed request is repeated; the delay doubles with each failure, up to the discovery period."""


class TopicListState(Enum):
    """The states of a pattern consumer's watch."""

    OFFLINE = "there is no connection"
    LISTING = "the client waits for a list"
    REGISTERING = "the client waits for a watcher"
    WATCHING = "the broker sends changes"
    CHECKING = "the broker sends changes, and the client checks its list"
    POLLING = "the broker sends no changes; the client asks for the list once per period"
    WAITING = "a request has failed; the client tries again soon"
    CLOSING = "the application has closed the watch, and the request for a watcher is not answered yet"
    CLOSED = "the application has closed the watch"


class TopicListEvent(Enum):
    """The events of this state machine."""

    CONNECTED = "a connection is ready"
    DISCONNECTED = "the connection is lost"
    LISTED = "GET_TOPICS_OF_NAMESPACE_RESPONSE"
    WATCHED = "WATCH_TOPIC_LIST_SUCCESS"
    DOUBTED = "WATCH_TOPIC_LIST_SUCCESS without topics, but with an unknown hash"
    DIFFERED = "WATCH_TOPIC_UPDATE whose hash is not that of the client's list"
    REFUSED = "NotAllowedError for WATCH_TOPIC_LIST"
    FAILED = "another ERROR, or no answer in time"
    DUE = "the deadline has come"
    CLOSE = "the application closes the watch"


class TopicListSend(Enum):
    """The commands that this state machine sends."""

    LIST = "GET_TOPICS_OF_NAMESPACE with the known hash"
    LIST_ANEW = "GET_TOPICS_OF_NAMESPACE without a hash"
    WATCH = "WATCH_TOPIC_LIST"
    CLOSE = "WATCH_TOPIC_LIST_CLOSE"


class TopicListOffer(Enum):
    """Which of the proposal's parts the client can use with the current broker."""

    LISTS = "requests for a list"
    WATCHERS = "requests for a list, and watchers"
    CHECKS = "requests for a list, and watchers whose list the client checks by repeating the watch request"


def knows_topics_and_watches(watch: TopicListWatch) -> bool:
    """Return whether the client can open a watcher at once, with the hash of its list: pip145.client.watch-hash-on-reconnect."""
    return watch.topics_hash is not None and watches(watch)


def watches(watch: TopicListWatch) -> bool:
    """Return whether the client can open a watcher: pip145.client.watch-needs-flag, pip145.client.list-polls-without-watch."""
    return watch.offer is not TopicListOffer.LISTS


def reconciles(watch: TopicListWatch) -> bool:
    """Return whether the client checks its list by repeating the watch request, not by a new list: pip145.client.watch-periodic."""
    return watch.offer is TopicListOffer.CHECKS


def awaits_answer(watch: TopicListWatch) -> bool:
    """Return whether a request is unanswered. The close waits for the answer: some brokers fail if the close comes first."""
    return watch.asked is not None


def may_have_watcher(watch: TopicListWatch) -> bool:
    """Return whether the broker may have a watcher, which the client then closes: pip145.client.watch-close."""
    return watch.registration is not Registration.NONE


_State, _Event, _Send = TopicListState, TopicListEvent, TopicListSend

TRANSITIONS: tuple[Transition[TopicListState, TopicListEvent, TopicListSend], ...] = (
    Transition(_State.OFFLINE, _Event.CONNECTED, _State.REGISTERING, _Send.WATCH, when=knows_topics_and_watches),
    Transition(_State.OFFLINE, _Event.CONNECTED, _State.LISTING, _Send.LIST),
    Transition(_State.OFFLINE, _Event.CLOSE, _State.CLOSED),
    Transition(_State.LISTING, _Event.LISTED, _State.REGISTERING, _Send.WATCH, when=watches),
    Transition(_State.LISTING, _Event.LISTED, _State.POLLING),
    Transition(_State.LISTING, _Event.FAILED, _State.WAITING),
    Transition(_State.LISTING, _Event.DISCONNECTED, _State.OFFLINE),
    Transition(_State.LISTING, _Event.CLOSE, _State.CLOSED, _Send.CLOSE, when=may_have_watcher),
    Transition(_State.LISTING, _Event.CLOSE, _State.CLOSED),
    Transition(_State.REGISTERING, _Event.WATCHED, _State.WATCHING),
    Transition(_State.REGISTERING, _Event.DOUBTED, _State.CHECKING, _Send.LIST_ANEW),
    Transition(_State.REGISTERING, _Event.REFUSED, _State.LISTING, _Send.LIST),
    Transition(_State.REGISTERING, _Event.FAILED, _State.WAITING),
    Transition(_State.REGISTERING, _Event.DISCONNECTED, _State.OFFLINE),
    Transition(_State.REGISTERING, _Event.CLOSE, _State.CLOSING, when=awaits_answer),
    Transition(_State.REGISTERING, _Event.CLOSE, _State.CLOSED, _Send.CLOSE, when=may_have_watcher),
    Transition(_State.REGISTERING, _Event.CLOSE, _State.CLOSED),
    Transition(_State.WATCHING, _Event.DIFFERED, _State.CHECKING, _Send.WATCH, when=reconciles),
    Transition(_State.WATCHING, _Event.DIFFERED, _State.CHECKING, _Send.LIST),
    Transition(_State.WATCHING, _Event.DUE, _State.CHECKING, _Send.WATCH, when=reconciles),
    Transition(_State.WATCHING, _Event.DUE, _State.CHECKING, _Send.LIST),
    Transition(_State.WATCHING, _Event.DISCONNECTED, _State.OFFLINE),
    Transition(_State.WATCHING, _Event.CLOSE, _State.CLOSED, _Send.CLOSE),
    Transition(_State.CHECKING, _Event.WATCHED, _State.WATCHING),
    Transition(_State.CHECKING, _Event.LISTED, _State.WATCHING),
    Transition(_State.CHECKING, _Event.DOUBTED, _State.CHECKING, _Send.LIST_ANEW),
    Transition(_State.CHECKING, _Event.REFUSED, _State.LISTING, _Send.LIST),
    Transition(_State.CHECKING, _Event.FAILED, _State.WAITING),
    Transition(_State.CHECKING, _Event.DISCONNECTED, _State.OFFLINE),
    Transition(_State.CHECKING, _Event.CLOSE, _State.CLOSED, _Send.CLOSE),
    Transition(_State.POLLING, _Event.DUE, _State.LISTING, _Send.LIST),
    Transition(_State.POLLING, _Event.DISCONNECTED, _State.OFFLINE),
    Transition(_State.POLLING, _Event.CLOSE, _State.CLOSED, _Send.CLOSE, when=may_have_watcher),
    Transition(_State.POLLING, _Event.CLOSE, _State.CLOSED),
    Transition(_State.WAITING, _Event.DUE, _State.LISTING, _Send.LIST),
    Transition(_State.WAITING, _Event.DISCONNECTED, _State.OFFLINE),
    Transition(_State.WAITING, _Event.CLOSE, _State.CLOSED, _Send.CLOSE, when=may_have_watcher),
    Transition(_State.WAITING, _Event.CLOSE, _State.CLOSED),
    Transition(_State.CLOSING, _Event.WATCHED, _State.CLOSED, _Send.CLOSE),
    Transition(_State.CLOSING, _Event.DOUBTED, _State.CLOSED, _Send.CLOSE),
    Transition(_State.CLOSING, _Event.REFUSED, _State.CLOSED),
    Transition(_State.CLOSING, _Event.FAILED, _State.CLOSED, _Send.CLOSE, when=may_have_watcher),
    Transition(_State.CLOSING, _Event.FAILED, _State.CLOSED),
    Transition(_State.CLOSING, _Event.DISCONNECTED, _State.CLOSED),
)
"""The transitions of the client."""

_LIST_ANSWERS = (_Event.LISTED,)
_WATCH_ANSWERS = (_Event.WATCHED, _Event.DOUBTED, _Event.REFUSED)
_ANSWERS = (*_LIST_ANSWERS, *_WATCH_ANSWERS, _Event.FAILED)

IGNORED: Mapping[TopicListState, tuple[TopicListEvent, ...]] = MappingProxyType(
    {
        _State.OFFLINE: (_Event.DISCONNECTED, _Event.DIFFERED, _Event.DUE, *_ANSWERS),
        _State.LISTING: (_Event.CONNECTED, _Event.DIFFERED, _Event.DUE, *_WATCH_ANSWERS),
        _State.REGISTERING: (_Event.CONNECTED, _Event.DIFFERED, _Event.DUE, *_LIST_ANSWERS),
        _State.WATCHING: (_Event.CONNECTED, *_ANSWERS),
        _State.CHECKING: (_Event.CONNECTED, _Event.DIFFERED, _Event.DUE),
        _State.POLLING: (_Event.CONNECTED, _Event.DIFFERED, *_ANSWERS),
        _State.WAITING: (_Event.CONNECTED, _Event.DIFFERED, *_ANSWERS),
        _State.CLOSING: (_Event.CONNECTED, _Event.DIFFERED, _Event.DUE, _Event.CLOSE, *_LIST_ANSWERS),
        _State.CLOSED: tuple(_Event),
    }
)
"""The events that a state ignores: a check is already under way or planned, or the answer belongs to no request."""

_TABLE = Table(TRANSITIONS, IGNORED)


@dataclass(frozen=True)
class TopicChanges:
    """A change of the set of topics: full names, with partitions listed individually, in the order of the hash."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True)
class _Asked:
    """An unanswered request.

    Attributes:
        send: The kind of request.
        request_id: The id of the request.
        topics_hash: The hash in the request; None: it has no hash.
    """

    send: TopicListSend
    request_id: int
    topics_hash: str | None


class TopicListWatch(TopicSetWatch[TopicListState, TopicListEvent, TopicListSend]):
    """Keeps the list of the topics of a namespace that match a pattern; a `WatchMachine`.

    Args:
        namespace: `tenant/namespace`.
        topics_pattern: RE2 syntax, with or without a topic domain; sent to the broker unchanged.
        watcher_id: Unique among the watchers of the client; it stays the same across reconnects.
        profile: Which reading to follow where the text and real peers differ.
        discovery_period: Seconds between two polls, or two checks of a watched list (`patternAutoDiscoveryPeriod`).
        operation_timeout: Seconds after which an unanswered request fails.
        mode: The kind of topics to list; only persistent topics can be watched.
        polling_only: Open no watcher, like a client that uses HTTP for lookups.

    Attributes:
        offer: What the broker supports.
        registrations: Number of earlier connections that had a confirmed watcher.
        asked: The unanswered request; None: there is none.

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
        super().__init__(_TABLE, TopicListState.OFFLINE, TopicListState.OFFLINE, ("watcher_id", watcher_id))
        self.namespace = namespace
        self.topics_pattern = topics_pattern
        self.watcher_id = watcher_id
        self.offer = TopicListOffer.LISTS
        self.registrations = 0
        self.asked: _Asked | None = None
        self._profile = profile
        self._period = discovery_period
        self._timeout = operation_timeout
        self._mode = mode
        self._polling_only = polling_only or mode != CommandGetTopicsOfNamespace.PERSISTENT
        self._pattern = compile_pattern(without_domain(topics_pattern), f"{namespace}/")
        self._list_hash: str | None = None  # of the last list, if the broker did not filter it
        self._changes: deque[TopicChanges] = deque()

    def connected(self, flags: FeatureFlags | None, now: float) -> None:
        """Handle a new connection.

        Args:
            flags: Feature flags of CONNECTED; None: it had none.
            now: Seconds.
        """
        self.disconnected(now)
        self.offer = self._offer_of(flags or FeatureFlags())
        self._failures = 0
        self._happened(TopicListEvent.CONNECTED, now)

    def _offer_of(self, flags: FeatureFlags) -> TopicListOffer:
        if self._polling_only or not flags.supports_topic_watchers:
            return TopicListOffer.LISTS
        checks = flags.supports_topic_watcher_reconcile and self._profile.watch_hash == "always"
        return TopicListOffer.CHECKS if checks else TopicListOffer.WATCHERS

    def disconnected(self, now: float) -> None:
        """Handle the loss of the connection: drop the unanswered request, keep the known topics."""
        self.registrations += self.registration is Registration.CONFIRMED
        self.registration = Registration.NONE
        self.asked = None
        self._outbox.clear()
        self._happened(TopicListEvent.DISCONNECTED, now)

    def close(self) -> None:
        """Close the watch and its watcher at the broker: pip145.client.watch-close."""
        self._happened(TopicListEvent.CLOSE, None)  # in CLOSING, the deadline of the unanswered request stays
        if self.is_closed:
            self.asked = None

    def _due(self, now: float) -> None:
        if self.asked is None:
            self._happened(TopicListEvent.DUE, now)
        else:
            self.asked = None
            self._failed(TopicListEvent.FAILED, Refused(0, "the broker has not answered in time"), now)

    def _messages(self, send: TopicListSend, new_request_id: Callable[[], int], now: float) -> Iterable[Message]:
        request_id = new_request_id()
        if send is TopicListSend.CLOSE:
            return [CommandWatchTopicListClose(request_id=request_id, watcher_id=self.watcher_id)]
        self._deadline = now + self._timeout
        return [self._watch(request_id) if send is TopicListSend.WATCH else self._list(send, request_id)]

    def _watch(self, request_id: int) -> Message:
        if self.registration is Registration.NONE:
            self.registration = Registration.ASKED
        with_hash = self._profile.watch_hash == "always" or self.registrations  # pip145.client.watch-hash-first
        known = self.topics_hash if with_hash else None
        self.asked = _Asked(TopicListSend.WATCH, request_id, known)
        return CommandWatchTopicList(
            request_id=request_id,
            watcher_id=self.watcher_id,
            namespace=self.namespace,
            topics_pattern=self.topics_pattern,
            topics_hash=known,
        )

    def _list(self, send: TopicListSend, request_id: int) -> Message:
        known = None if send is TopicListSend.LIST_ANEW else self._list_hash or self.topics_hash  # pip145.client.list-returns-hash
        self.asked = _Asked(send, request_id, known)
        return CommandGetTopicsOfNamespace(
            request_id=request_id,
            namespace=self.namespace,
            mode=self._mode,  # pip145.client.list-mode
            topics_pattern=self.topics_pattern,  # pip145.client.list-sends-pattern
            topics_hash=known,
        )

    def received(self, command: BaseCommand, now: float) -> None:
        """Handle a command from the broker; ignore it if it is not for this watcher, or comes too late."""
        name = command_name(command)
        if name == "watchTopicUpdate":
            self._updated(command.watchTopicUpdate, now)
        elif name == "watchTopicListSuccess":
            self._watched(command.watchTopicListSuccess, now)
        elif name == "getTopicsOfNamespaceResponse":
            self._listed(command.getTopicsOfNamespaceResponse, now)
        elif name == "error":
            self._error(command.error, now)

    def take_changes(self) -> TopicChanges | None:
        """Return the oldest change that the caller has not taken yet; None: there is none."""
        return self._changes.popleft() if self._changes else None

    def _answered(self, request_id: int, *, is_watch: bool) -> _Asked | None:
        """Return the request that an answer belongs to; None: it is for another watch, or an older connection."""
        asked = self.asked
        if asked is None or asked.request_id != request_id or (asked.send is TopicListSend.WATCH) is not is_watch:
            return None
        self.asked = None
        return asked

    def _listed(self, answer: CommandGetTopicsOfNamespaceResponse, now: float) -> None:
        asked = self._answered(answer.request_id, is_watch=False)
        if asked is None:
            return
        if not answer.changed and asked.topics_hash is None:
            refusal = Refused(0, "the broker says that the list has not changed, but has not sent one yet")
            self._failed(TopicListEvent.FAILED, refusal, now)
            return
        if answer.changed:  # pip145.client.list-unchanged
            has_hash = answer.HasField("topics_hash")
            filtered = answer.filtered if self._profile.filtered_by == "flag" else has_hash
            # pip145.client.list-whole-set, pip145.client.list-no-hash-filters, pip145.client.list-unfiltered-filters
            self._replace(answer.topics if filtered else visible_topics(answer.topics, self._pattern))
            self._list_hash = answer.topics_hash if has_hash else None
        self._accepted(TopicListEvent.LISTED, now)

    def _watched(self, answer: CommandWatchTopicListSuccess, now: float) -> None:
        asked = self._answered(answer.request_id, is_watch=True) if answer.watcher_id == self.watcher_id else None
        if asked is None:
            return
        self.registration = Registration.CONFIRMED
        if answer.topics_hash not in (asked.topics_hash, self.topics_hash):  # pip145.client.watch-applies-list
            if not answer.topic and answer.topics_hash != EMPTY_HASH:
                self._happened(TopicListEvent.DOUBTED, now)
                return
            self._replace(answer.topic)
        self._accepted(TopicListEvent.WATCHED, now)

    def _updated(self, update: CommandWatchTopicUpdate, now: float) -> None:
        is_ours = self.registration is Registration.CONFIRMED and update.watcher_id == self.watcher_id
        if not is_ours or self._topics is None:  # pip145.client.watch-unknown-id
            return
        before = {name: name in self._topics for name in (*update.deleted_topics, *update.new_topics)}
        for topic in update.deleted_topics:  # pip145.client.watch-applies-update
            self._topics.remove(topic)
        for topic in update.new_topics:
            self._topics.add(topic)
        self._list_hash = None
        self._changed(
            (name for name, known in before.items() if not known and name in self._topics),
            (name for name, known in before.items() if known and name not in self._topics),
        )
        if update.topics_hash != self._topics.hash:  # pip145.client.watch-mismatch
            self._happened(TopicListEvent.DIFFERED, now)

    def _error(self, error: CommandError, now: float) -> None:
        refusal = Refused(error.error, error.message)
        if self._answered(error.request_id, is_watch=False) is not None:
            self._failed(TopicListEvent.FAILED, refusal, now)
        elif self._answered(error.request_id, is_watch=True) is not None:
            if self.registration is Registration.ASKED:  # after a refused check, the watcher still exists
                self.registration = Registration.NONE
            if error.error == NotAllowedError:  # pip145.client.watch-refused
                self.offer = TopicListOffer.LISTS
                self._failed(TopicListEvent.REFUSED, refusal, now)
            else:
                self._failed(TopicListEvent.FAILED, refusal, now)

    def _replace(self, topics: Iterable[str]) -> None:
        replaced, found = self._topics or TopicSet(), TopicSet(topics)
        self._topics, self._list_hash = found, None
        self._changed((topic for topic in found if topic not in replaced), (topic for topic in replaced if topic not in found))

    def _changed(self, added: Iterable[str], removed: Iterable[str]) -> None:
        changes = TopicChanges(tuple(added), tuple(removed))
        if changes.added or changes.removed:
            self._changes.append(changes)

    def _accepted(self, event: TopicListEvent, now: float) -> None:
        self._happened(event, now)
        if self.state in (TopicListState.WATCHING, TopicListState.POLLING):
            self._succeeded()

    def _new_deadline(self, event: TopicListEvent, now: float) -> float | None:  # noqa: ARG002
        if self.state in (TopicListState.WATCHING, TopicListState.POLLING):
            return now + self._period
        if self.state is TopicListState.WAITING:
            return now + delay(self._failures, FIRST_RETRY, self._period)
        return None
