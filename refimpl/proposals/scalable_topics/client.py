"""PR 25648, the client's side: one watch, kept across reconnects.

The first request has no hash, and `start()` waits for the first snapshot. After a reconnect, the client sends the hash of its set.
The broker then sends a snapshot, or nothing if the set has not changed. `TRANSITIONS` is the state machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from random import Random
from types import MappingProxyType

from google.protobuf.message import Message

from refimpl.indexes.topics_hash import TopicSet
from refimpl.proposals.refused import Refused
from refimpl.proposals.scalable_topics.rules import DEFAULT, FoldedChanges, ScalableTopicChanges, ScalableTopicsProfile, retry_delay
from refimpl.proposals.state_machine import Table, Transition
from refimpl.proposals.watch_machine import Registration, TopicSetWatch
from refimpl.wire.commands import command_name
from refimpl.wire.pulsar_api_pb2 import (
    BaseCommand,
    CommandWatchScalableTopics,
    CommandWatchScalableTopicsClose,
    CommandWatchScalableTopicsUpdate,
    FeatureFlags,
    KeyValue,
    ScalableTopicsDiff,
    ScalableTopicsSnapshot,
    ServiceNotReady,
    UnknownError,
    UnsupportedVersionError,
)


class ScalableTopicsState(Enum):
    """The states of a watch."""

    NEW = "the application has not started the watch"
    CONNECTING = "the client needs a connection"
    OPENING = "the client waits for the first set"
    WATCHING = "the client has a set, and the broker sends changes"  # pr25648.client.silence
    REFUSED = "the broker has ended the watch; the client asks again soon"
    WAITING = "there is no connection; the client needs one soon"
    FAILED = "the client could not get the first set"
    CLOSED = "the application has closed the watch"


class ScalableTopicsEvent(Enum):
    """The events of this state machine."""

    START = "the application starts the watch"
    CONNECTED = "a connection to a broker that supports the watch is ready"
    UNSUPPORTED = "a connection to a broker that does not support it is ready"
    LOST = "the connection is lost, or could not be opened"
    SNAPSHOT = "WATCH_SCALABLE_TOPICS_UPDATE with a snapshot"
    DIFF = "WATCH_SCALABLE_TOPICS_UPDATE with a diff"
    ERROR = "WATCH_SCALABLE_TOPICS_UPDATE with an error"
    DUE = "the deadline has come"
    CLOSE = "the application closes the watch"


class ScalableTopicsSend(Enum):
    """The commands that this state machine sends."""

    WATCH = "WATCH_SCALABLE_TOPICS, with the hash of the known set if there is one"
    CLOSE = "WATCH_SCALABLE_TOPICS_CLOSE"


def knows_topics(watch: ScalableTopicsWatch) -> bool:
    """Return whether the client has a set whose hash it can send: pr25648.client.hash-on-reconnect."""
    return watch.is_started


def survives_loss(watch: ScalableTopicsWatch) -> bool:
    """Return whether the client reconnects: pr25648.client.reconnects, .early-loss-fails, .early-loss-retries."""
    return watch.is_started or watch.profile.loss_before_first_set == "retries"


def may_have_watch(watch: ScalableTopicsWatch) -> bool:
    """Return whether the broker may have the watch, which the client then closes: pr25648.client.closes."""
    return watch.registration is not Registration.NONE


_State, _Event, _Send = ScalableTopicsState, ScalableTopicsEvent, ScalableTopicsSend

TRANSITIONS: tuple[Transition[ScalableTopicsState, ScalableTopicsEvent, ScalableTopicsSend], ...] = (
    Transition(_State.NEW, _Event.START, _State.CONNECTING),
    Transition(_State.NEW, _Event.CLOSE, _State.CLOSED),
    Transition(_State.CONNECTING, _Event.CONNECTED, _State.WATCHING, _Send.WATCH, when=knows_topics),
    Transition(_State.CONNECTING, _Event.CONNECTED, _State.OPENING, _Send.WATCH),
    Transition(_State.CONNECTING, _Event.UNSUPPORTED, _State.WAITING, when=knows_topics),
    Transition(_State.CONNECTING, _Event.UNSUPPORTED, _State.FAILED),
    Transition(_State.CONNECTING, _Event.LOST, _State.WAITING, when=survives_loss),
    Transition(_State.CONNECTING, _Event.LOST, _State.FAILED),
    Transition(_State.CONNECTING, _Event.CLOSE, _State.CLOSED),
    Transition(_State.OPENING, _Event.SNAPSHOT, _State.WATCHING),
    Transition(_State.OPENING, _Event.ERROR, _State.FAILED),
    Transition(_State.OPENING, _Event.LOST, _State.WAITING, when=survives_loss),
    Transition(_State.OPENING, _Event.LOST, _State.FAILED),
    Transition(_State.OPENING, _Event.DUE, _State.FAILED, _Send.CLOSE, when=may_have_watch),
    Transition(_State.OPENING, _Event.DUE, _State.FAILED),
    Transition(_State.OPENING, _Event.CLOSE, _State.CLOSED, _Send.CLOSE, when=may_have_watch),
    Transition(_State.OPENING, _Event.CLOSE, _State.CLOSED),
    Transition(_State.WATCHING, _Event.SNAPSHOT, _State.WATCHING),
    Transition(_State.WATCHING, _Event.DIFF, _State.WATCHING),
    Transition(_State.WATCHING, _Event.ERROR, _State.REFUSED),
    Transition(_State.WATCHING, _Event.LOST, _State.WAITING),
    Transition(_State.WATCHING, _Event.CLOSE, _State.CLOSED, _Send.CLOSE, when=may_have_watch),
    Transition(_State.WATCHING, _Event.CLOSE, _State.CLOSED),
    Transition(_State.REFUSED, _Event.DUE, _State.WATCHING, _Send.WATCH),
    Transition(_State.REFUSED, _Event.LOST, _State.WAITING),
    Transition(_State.REFUSED, _Event.CLOSE, _State.CLOSED),
    Transition(_State.WAITING, _Event.DUE, _State.CONNECTING),
    Transition(_State.WAITING, _Event.CLOSE, _State.CLOSED),
)
"""The transitions of the client."""

_CONNECTIONS = (_Event.CONNECTED, _Event.UNSUPPORTED)
_UPDATES = (_Event.SNAPSHOT, _Event.DIFF, _Event.ERROR)

IGNORED: Mapping[ScalableTopicsState, tuple[ScalableTopicsEvent, ...]] = MappingProxyType(
    {
        _State.NEW: (*_CONNECTIONS, _Event.LOST, *_UPDATES, _Event.DUE),
        _State.CONNECTING: (_Event.START, *_UPDATES, _Event.DUE),
        _State.OPENING: (_Event.START, *_CONNECTIONS, _Event.DIFF),  # pr25648.client.diff-before-snapshot
        _State.WATCHING: (_Event.START, *_CONNECTIONS, _Event.DUE),
        _State.REFUSED: (_Event.START, *_CONNECTIONS, *_UPDATES),
        _State.WAITING: (_Event.START, *_CONNECTIONS, _Event.LOST, *_UPDATES),
        _State.FAILED: tuple(_Event),
        _State.CLOSED: tuple(_Event),
    }
)
"""The events that a state ignores: a second start, an event of an older connection, or a command for a watch that has ended."""

_TABLE = Table(TRANSITIONS, IGNORED)


class ScalableTopicsWatch(TopicSetWatch[ScalableTopicsState, ScalableTopicsEvent, ScalableTopicsSend]):
    """Keeps the set of the scalable topics of a namespace that have certain properties; a `WatchMachine`.

    The caller opens a connection when `wants_connection` is true, and then calls `connected` or `disconnected`. `start()` has
    succeeded when `is_started` is true. It has failed when the state is FAILED; `failure` has the reason.

    Args:
        namespace: `tenant/namespace`.
        watch_id: Unique among the watches of the client; it stays the same across reconnects.
        random: Source of the jitter of retry delays.
        property_filters: Properties that a topic must have; empty: all topics match.
        profile: Which reading to follow where the text and real peers differ.
        operation_timeout: Seconds to wait for the first set.

    Attributes:
        profile: Which reading the watch follows.
    """

    def __init__(
        self,
        namespace: str,
        watch_id: int,
        random: Random,
        *,
        property_filters: Mapping[str, str] | None = None,
        profile: ScalableTopicsProfile = DEFAULT,
        operation_timeout: float = 30.0,
    ) -> None:
        super().__init__(_TABLE, ScalableTopicsState.NEW, ScalableTopicsState.CONNECTING, ("watch_id", watch_id))
        self.namespace = namespace
        self.watch_id = watch_id
        self.property_filters = dict(property_filters or {})
        self.profile = profile
        self._random = random
        self._timeout = operation_timeout
        self._changes = FoldedChanges("cancels_out")  # not taken by the caller yet
        self._pause = 0.0  # the last one
        self._opened_at: float | None = None

    @property
    def is_started(self) -> bool:
        """Whether the client has received the first set: pr25648.client.start-resolves."""
        return self._topics is not None

    def start(self) -> None:
        """Start the watch."""
        self._happened(ScalableTopicsEvent.START, None)

    def connected(self, flags: FeatureFlags | None, now: float) -> None:
        """Handle a new connection.

        Args:
            flags: Feature flags of CONNECTED; None: it had none.
            now: Seconds.
        """
        if flags is not None and flags.supports_scalable_topics:
            self._happened(ScalableTopicsEvent.CONNECTED, now)
        else:  # pr25648.client.needs-flag
            refusal = Refused(UnsupportedVersionError, "the broker does not support scalable topics")
            self._failed(ScalableTopicsEvent.UNSUPPORTED, refusal, now)

    def disconnected(self, now: float) -> None:
        """Handle the loss of the connection, or a failed attempt to open one; keep the known topics."""
        self.registration = Registration.NONE
        self._outbox.clear()
        self._failed(ScalableTopicsEvent.LOST, Refused(ServiceNotReady, "the connection is lost, or could not be opened"), now)

    def close(self) -> None:
        """Close the watch, also at the broker: pr25648.client.closes."""
        self._happened(ScalableTopicsEvent.CLOSE, None)

    def _due(self, now: float) -> None:
        if self.state is ScalableTopicsState.OPENING:  # pr25648.client.start-times-out
            self._failed(ScalableTopicsEvent.DUE, Refused(UnknownError, "the broker has not sent the first set in time"), now)
        else:
            self._happened(ScalableTopicsEvent.DUE, now)

    def _messages(self, send: ScalableTopicsSend, new_request_id: Callable[[], int], now: float) -> Iterable[Message]:  # noqa: ARG002
        if send is ScalableTopicsSend.CLOSE:
            self.registration = Registration.NONE
            yield CommandWatchScalableTopicsClose(watch_id=self.watch_id)
            return
        self.registration = Registration.ASKED
        self._opened_at = now
        yield CommandWatchScalableTopics(
            watch_id=self.watch_id,
            namespace=self.namespace,
            property_filters=[KeyValue(key=key, value=value) for key, value in self.property_filters.items()],
            current_hash=self.topics_hash,  # pr25648.client.first-without-hash
        )

    def received(self, command: BaseCommand, now: float) -> None:
        """Handle a command from the broker; ignore it if it is not for this watch, or comes out of turn."""
        if command_name(command) != "watchScalableTopicsUpdate":
            return
        update: CommandWatchScalableTopicsUpdate = command.watchScalableTopicsUpdate
        if update.watch_id != self.watch_id:  # pr25648.client.unknown-id
            return
        event = update.WhichOneof("event")  # None: pr25648.client.empty-update
        if update.HasField("error"):  # pr25648.client.error-ends-start, .error-retried
            self.registration = Registration.NONE
            self._failed(ScalableTopicsEvent.ERROR, Refused(update.error, update.message), now)
        elif event == "snapshot" and not _TABLE.ignores(self.state, ScalableTopicsEvent.SNAPSHOT):
            self._replace(update.snapshot)
            self._told(ScalableTopicsEvent.SNAPSHOT, now)
        elif event == "diff" and not _TABLE.ignores(self.state, ScalableTopicsEvent.DIFF):
            self._apply(update.diff)
            self._told(ScalableTopicsEvent.DIFF, now)

    def take_changes(self) -> ScalableTopicChanges | None:
        """Return the changes since the last call, or since the first set; None: nothing has changed.

        A caller that asks only after `start()` misses nothing: pr25648.client.late-listener.
        """
        return self._changes.take()

    def _replace(self, snapshot: ScalableTopicsSnapshot) -> None:
        """Apply a snapshot: pr25648.client.snapshot-replaces."""
        replaced, self._topics = self._topics, TopicSet(snapshot.topics)
        if replaced is None:
            return
        for topic in replaced:
            if topic not in self._topics:
                self._changes.remove(topic)
        for topic in self._topics:
            if topic not in replaced:
                self._changes.add(topic)

    def _apply(self, diff: ScalableTopicsDiff) -> None:
        """Apply a diff, removals first: pr25648.client.removed-first, .duplicates-harmless."""
        assert self._topics is not None
        for topic in diff.removed:
            if self._topics.remove(topic):
                self._changes.remove(topic)
        for topic in diff.added:
            if self._topics.add(topic):
                self._changes.add(topic)

    def _told(self, event: ScalableTopicsEvent, now: float) -> None:
        self._succeeded()
        self._happened(event, now)

    def _failed(self, event: ScalableTopicsEvent, failure: Refused, now: float) -> None:
        """Handle a failure. A watch that lasted longer than the delay before it counts as a success, even without a command."""
        if _TABLE.ignores(self.state, event):
            return
        if self._opened_at is not None and now - self._opened_at > self._pause:  # pr25648.client.backoff-reset
            self._failures = 0
        self._opened_at = None
        super()._failed(event, failure, now)

    def _new_deadline(self, event: ScalableTopicsEvent, now: float) -> float | None:  # noqa: ARG002
        if self.state is ScalableTopicsState.OPENING:
            return now + self._timeout
        if self.state in (ScalableTopicsState.WAITING, ScalableTopicsState.REFUSED):
            self._pause = retry_delay(self._failures - 1, self._random)
            return now + self._pause
        return None
