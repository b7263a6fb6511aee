"""PR 25648, the client's side: one watch, kept over reconnects.

The first request has no hash, and the first snapshot is what `start()` waits for. Each later connection gets the hash of the known
set; what comes back then is a snapshot, or nothing, if nothing has changed. `TRANSITIONS` has all of it as a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from random import Random

from google.protobuf.message import Message

from refimpl.indexes.topics_hash import TopicSet
from refimpl.proposals.refused import Refused
from refimpl.proposals.scalable_topics.rules import DEFAULT, FoldedChanges, ScalableTopicChanges, ScalableTopicsProfile, retry_delay
from refimpl.proposals.state_machine import Table, Transition
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


class State(Enum):
    """Where a watch stands."""

    NEW = "nobody has started it"
    CONNECTING = "a connection is wanted"
    OPENING = "the first set is asked for"
    WATCHING = "the set is known, and changes are told"  # pr25648.client.silence
    REFUSED = "the broker has ended the watch, and is asked again soon"
    WAITING = "there is no connection, and one is wanted soon"
    FAILED = "the first set can't be had"
    CLOSED = "nobody is interested any more"


class Event(Enum):
    """What happens to it."""

    START = "somebody is interested"
    CONNECTED = "there is a connection to a broker that supports it"
    UNSUPPORTED = "there is a connection to a broker that does not"
    LOST = "the connection is lost, or can't be made"
    SNAPSHOT = "WATCH_SCALABLE_TOPICS_UPDATE with a snapshot"
    DIFF = "WATCH_SCALABLE_TOPICS_UPDATE with a diff"
    ERROR = "WATCH_SCALABLE_TOPICS_UPDATE with an error"
    DUE = "time is up"
    CLOSE = "nobody is interested any more"


class Send(Enum):
    """What it sends."""

    WATCH = "WATCH_SCALABLE_TOPICS, with the hash of the known set if there is one"
    CLOSE = "WATCH_SCALABLE_TOPICS_CLOSE"


TRANSITIONS: tuple[Transition[State, Event, Send], ...] = (
    Transition(State.NEW, Event.START, State.CONNECTING),
    Transition(State.NEW, Event.CLOSE, State.CLOSED),
    Transition(State.CONNECTING, Event.CONNECTED, State.WATCHING, Send.WATCH, when="knows_topics"),
    Transition(State.CONNECTING, Event.CONNECTED, State.OPENING, Send.WATCH),
    Transition(State.CONNECTING, Event.UNSUPPORTED, State.WAITING, when="knows_topics"),
    Transition(State.CONNECTING, Event.UNSUPPORTED, State.FAILED),
    Transition(State.CONNECTING, Event.LOST, State.WAITING, when="survives_loss"),
    Transition(State.CONNECTING, Event.LOST, State.FAILED),
    Transition(State.CONNECTING, Event.CLOSE, State.CLOSED),
    Transition(State.OPENING, Event.SNAPSHOT, State.WATCHING),
    Transition(State.OPENING, Event.ERROR, State.FAILED),
    Transition(State.OPENING, Event.LOST, State.WAITING, when="survives_loss"),
    Transition(State.OPENING, Event.LOST, State.FAILED),
    Transition(State.OPENING, Event.DUE, State.FAILED, Send.CLOSE),
    Transition(State.OPENING, Event.CLOSE, State.CLOSED, Send.CLOSE),
    Transition(State.WATCHING, Event.SNAPSHOT, State.WATCHING),
    Transition(State.WATCHING, Event.DIFF, State.WATCHING),
    Transition(State.WATCHING, Event.ERROR, State.REFUSED),
    Transition(State.WATCHING, Event.LOST, State.WAITING),
    Transition(State.WATCHING, Event.CLOSE, State.CLOSED, Send.CLOSE),
    Transition(State.REFUSED, Event.DUE, State.WATCHING, Send.WATCH),
    Transition(State.REFUSED, Event.LOST, State.WAITING),
    Transition(State.REFUSED, Event.CLOSE, State.CLOSED),
    Transition(State.WAITING, Event.DUE, State.CONNECTING),
    Transition(State.WAITING, Event.CLOSE, State.CLOSED),
)
"""The client as a table. An event that a state has no row for changes nothing."""

_TABLE = Table(TRANSITIONS)


class ScalableTopicsWatch:
    """The scalable topics of a namespace that have certain properties, as far as a broker tells.

    Whoever holds it makes a connection when `wants_connection` says so, and calls `connected` or `disconnected` with the outcome.
    `start()` is through when `is_started`, and has failed when the state is FAILED, for the reason that `failure` gives.

    Args:
        namespace: `tenant/namespace`.
        watch_id: Unique among the watches of the client's connections; it is kept over reconnects.
        random: Decides how much of a pause is cut off.
        property_filters: Properties that a topic must have; none: all topics are watched.
        profile: Whom to follow where text and peers differ.
        operation_timeout: Seconds after which the first set has to be there.

    Attributes:
        state: Where it stands.
        failure: What went wrong last; None: nothing has, since the broker told something.
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
        self.namespace = namespace
        self.watch_id = watch_id
        self.property_filters = dict(property_filters or {})
        self.state = State.NEW
        self.failure: Refused | None = None
        self._random = random
        self._profile = profile
        self._timeout = operation_timeout
        self._topics: TopicSet | None = None
        self._changes = FoldedChanges("cancels_out")  # that nobody has taken yet
        self._outbox: list[Send] = []
        self._deadline: float | None = None
        self._failures = 0
        self._pause = 0.0  # the last one
        self._opened_at: float | None = None

    @property
    def topics(self) -> frozenset[str]:
        """The known topics; empty also as long as the first set has not come."""
        return frozenset(self._topics or ())

    @property
    def topics_hash(self) -> str | None:
        """The hash of the known topics; None: the first set has not come."""
        return None if self._topics is None else self._topics.hash

    @property
    def is_started(self) -> bool:
        """Whether the first set has come: pr25648.client.start-resolves."""
        return self._topics is not None

    @property
    def wants_connection(self) -> bool:
        """Whether a connection is to be made now."""
        return self.state is State.CONNECTING

    @property
    def knows_topics(self) -> bool:
        """Whether there is a set whose hash can be sent: pr25648.client.hash-on-reconnect."""
        return self._topics is not None

    @property
    def survives_loss(self) -> bool:
        """Whether a lost connection is replaced: pr25648.client.reconnects, .early-loss-fails, .early-loss-retries."""
        return self._topics is not None or self._profile.loss_before_first_set == "retries"

    def start(self) -> None:
        """Begin."""
        self._happened(Event.START, None)

    def connected(self, flags: FeatureFlags | None, now: float) -> None:
        """Handle the connection that was wanted.

        Args:
            flags: Those of CONNECTED; None: it had none.
            now: Seconds.
        """
        if flags is not None and flags.supports_scalable_topics:
            self._happened(Event.CONNECTED, now)
        else:  # pr25648.client.needs-flag
            refusal = Refused(UnsupportedVersionError, "the broker does not support scalable topics")
            self._failed(Event.UNSUPPORTED, refusal, now)

    def disconnected(self, now: float) -> None:
        """Handle the loss of the connection, or that it could not be made; the known topics stay."""
        self._outbox.clear()
        self._failed(Event.LOST, Refused(ServiceNotReady, "the connection is lost, or could not be made"), now)

    def close(self) -> None:
        """End the watch, since nobody is interested any more; the broker is told: pr25648.client.closes."""
        unsent = Send.WATCH in self._outbox
        self._happened(Event.CLOSE, None)
        if unsent:
            self._outbox.clear()

    def next_deadline(self) -> float | None:
        """Return when `tick` has to be called, in seconds; None: never, unless something happens."""
        return self._deadline

    def tick(self, now: float) -> None:
        """Do what is due."""
        if self._deadline is None or now < self._deadline:
            return
        if self.state is State.OPENING:  # pr25648.client.start-times-out
            self._failed(Event.DUE, Refused(UnknownError, "the broker has not told the first set in time"), now)
        else:
            self._happened(Event.DUE, now)

    def commands_to_send(self) -> list[Message]:
        """Return what is to be sent now, in this order: sub-messages, each to be wrapped into its command."""
        messages = [self._message(send) for send in self._outbox]
        self._outbox.clear()
        return messages

    def _message(self, send: Send) -> Message:
        if send is Send.CLOSE:
            return CommandWatchScalableTopicsClose(watch_id=self.watch_id)
        return CommandWatchScalableTopics(
            watch_id=self.watch_id,
            namespace=self.namespace,
            property_filters=[KeyValue(key=key, value=value) for key, value in self.property_filters.items()],
            current_hash=self.topics_hash,  # pr25648.client.first-without-hash
        )

    def received(self, command: BaseCommand, now: float) -> None:
        """Take a command from the broker; one that is not for this watch, or comes out of turn, is ignored."""
        if command_name(command) != "watchScalableTopicsUpdate":
            return
        update: CommandWatchScalableTopicsUpdate = command.watchScalableTopicsUpdate
        if update.watch_id != self.watch_id:  # pr25648.client.unknown-id
            return
        event = update.WhichOneof("event")  # None: pr25648.client.empty-update
        if update.HasField("error"):  # pr25648.client.error-ends-start, .error-retried
            self._failed(Event.ERROR, Refused(update.error, update.message), now)
        elif event == "snapshot" and self.state in (State.OPENING, State.WATCHING):
            self._replace(update.snapshot)
            self._told(Event.SNAPSHOT, now)
        elif event == "diff" and self.state is State.WATCHING:  # pr25648.client.diff-before-snapshot
            self._apply(update.diff)
            self._told(Event.DIFF, now)

    def take_changes(self) -> ScalableTopicChanges | None:
        """Return how the topics have changed since they were asked for last, or since the first set; None: they have not.

        So that somebody who listens only after `start()` misses nothing: pr25648.client.late-listener.
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
        """Apply a diff, what was removed first: pr25648.client.removed-first, .duplicates-harmless."""
        assert self._topics is not None
        for topic in diff.removed:
            if self._topics.remove(topic):
                self._changes.remove(topic)
        for topic in diff.added:
            if self._topics.add(topic):
                self._changes.add(topic)

    def _told(self, event: Event, now: float) -> None:
        self._failures = 0
        self.failure = None
        self._happened(event, now)

    def _failed(self, event: Event, refusal: Refused, now: float) -> None:
        """Handle a failure. A watch that held longer than the pause before it was a success: silence is no failure."""
        if not _TABLE.knows(self.state, event):
            return
        if self._opened_at is not None and now - self._opened_at > self._pause:  # pr25648.client.backoff-reset
            self._failures = 0
        self._opened_at = None
        self.failure = refusal
        self._happened(event, now)

    def _happened(self, event: Event, now: float | None) -> None:
        """Follow the table."""
        row = _TABLE.row(self, self.state, event)
        if row is None:
            return
        self.state = row.target
        if row.send is not None:
            self._outbox.append(row.send)
            self._opened_at = now
        self._deadline = None if now is None else self._due(now)

    def _due(self, now: float) -> float | None:
        if self.state is State.OPENING:
            return now + self._timeout
        if self.state in (State.WAITING, State.REFUSED):
            self._pause = retry_delay(self._failures, self._random)
            self._failures += 1
            return now + self._pause
        return None
