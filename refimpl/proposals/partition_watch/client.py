"""PIP-247, the client's side: how a producer or consumer keeps the partition counts of its topics up to date.

If the broker supports watchers, the client opens one. It passes the counts of the success and of each update to a listener, one
call at a time, and sends the outcome of an update as its result. Otherwise it polls the counts once per interval. `TRANSITIONS` is
the state machine. The machine does not call its listener itself: `tell` calls a synchronous listener; for an asynchronous one, the
caller takes the argument from `next_call` and reports the outcome to `called`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType

from google.protobuf.message import Message

from refimpl.backoff import delay
from refimpl.proposals.partition_watch.rules import (
    DEFAULT,
    POLL_INTERVAL,
    RECONCILE_PERIOD,
    PartitionWatchProfile,
    count_in_force,
)
from refimpl.proposals.refused import Refused
from refimpl.proposals.state_machine import Table, Transition
from refimpl.proposals.watch_machine import Registration, TableWatch
from refimpl.wire.commands import command_name
from refimpl.wire.pulsar_api_pb2 import (
    BaseCommand,
    CommandError,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandPartitionUpdate,
    CommandPartitionUpdateResult,
    CommandWatchPartitionUpdate,
    CommandWatchPartitionUpdateClose,
    CommandWatchPartitionUpdateSuccess,
    FeatureFlags,
    NotAllowedError,
    TopicWithPartition,
)


class PartitionWatchState(Enum):
    """The states of a client."""

    OFFLINE = "there is no connection"
    REGISTERING = "the client waits for a watcher"
    WATCHING = "the broker sends changes"
    DOUBTING = "the broker sends changes, but the listener failed on the counts of the success"
    CHECKING = "the broker sends changes, and the client has repeated the watch request"
    POLLING = "the broker sends no changes; the client asks for the counts once per interval"
    WAITING = "the watch request has failed; the client tries again soon, and polls as in POLLING"
    CLOSED = "the application has closed the watch"


class PartitionWatchEvent(Enum):
    """The events of this state machine."""

    CONNECTED = "a connection is ready"
    DISCONNECTED = "the connection is lost"
    WATCHED = "WATCH_PARTITION_UPDATE_SUCCESS"
    REFUSED = "NotAllowedError for WATCH_PARTITION_UPDATE"
    FAILED = "another ERROR, or no answer in time"
    APPLIED = "the listener has applied the counts of a success or an update"
    UNAPPLIED = "the listener has failed on the counts of a success"
    DUE = "the deadline has come"
    POLL_DUE = "the poll interval is over"
    CLOSE = "the application closes the watch"


class PartitionWatchSend(Enum):
    """The commands that this state machine sends, other than results."""

    WATCH = "WATCH_PARTITION_UPDATE"
    POLL = "PARTITIONED_METADATA for each topic"
    CLOSE = "WATCH_PARTITION_UPDATE_CLOSE"


def watches(watch: PartitionWatch) -> bool:
    """Return whether the client can open a watcher: pip247.client.needs-flag, pip247.client.switched-off, pip247.client.refused."""
    return watch.watches


def in_doubt(watch: PartitionWatch) -> bool:
    """Return whether the broker may have a watcher that the client does not know, because a request timed out."""
    return watch.registration is Registration.DOUBTFUL


def may_have_watcher(watch: PartitionWatch) -> bool:
    """Return whether the broker may have a watcher, which the client then closes: pip247.client.closes."""
    return watch.registration is not Registration.NONE


_State, _Event, _Send = PartitionWatchState, PartitionWatchEvent, PartitionWatchSend

TRANSITIONS: tuple[Transition[PartitionWatchState, PartitionWatchEvent, PartitionWatchSend], ...] = (
    Transition(_State.OFFLINE, _Event.CONNECTED, _State.REGISTERING, _Send.WATCH, when=watches),
    Transition(_State.OFFLINE, _Event.CONNECTED, _State.POLLING),
    Transition(_State.OFFLINE, _Event.CLOSE, _State.CLOSED),
    Transition(_State.REGISTERING, _Event.WATCHED, _State.WATCHING),
    Transition(_State.REGISTERING, _Event.REFUSED, _State.POLLING, _Send.CLOSE, when=in_doubt),
    Transition(_State.REGISTERING, _Event.REFUSED, _State.POLLING),
    Transition(_State.REGISTERING, _Event.FAILED, _State.WAITING),
    Transition(_State.REGISTERING, _Event.DISCONNECTED, _State.OFFLINE),
    Transition(_State.REGISTERING, _Event.CLOSE, _State.CLOSED, _Send.CLOSE, when=may_have_watcher),
    Transition(_State.REGISTERING, _Event.CLOSE, _State.CLOSED),
    Transition(_State.WATCHING, _Event.UNAPPLIED, _State.DOUBTING),
    Transition(_State.WATCHING, _Event.DUE, _State.CHECKING, _Send.WATCH),
    Transition(_State.WATCHING, _Event.DISCONNECTED, _State.OFFLINE),
    Transition(_State.WATCHING, _Event.CLOSE, _State.CLOSED, _Send.CLOSE),
    Transition(_State.DOUBTING, _Event.APPLIED, _State.WATCHING),
    Transition(_State.DOUBTING, _Event.DUE, _State.CHECKING, _Send.WATCH),
    Transition(_State.DOUBTING, _Event.DISCONNECTED, _State.OFFLINE),
    Transition(_State.DOUBTING, _Event.CLOSE, _State.CLOSED, _Send.CLOSE),
    Transition(_State.CHECKING, _Event.WATCHED, _State.WATCHING),
    Transition(_State.CHECKING, _Event.REFUSED, _State.POLLING),
    Transition(_State.CHECKING, _Event.FAILED, _State.WAITING),
    Transition(_State.CHECKING, _Event.DISCONNECTED, _State.OFFLINE),
    Transition(_State.CHECKING, _Event.CLOSE, _State.CLOSED, _Send.CLOSE),
    Transition(_State.POLLING, _Event.POLL_DUE, _State.POLLING, _Send.POLL),
    Transition(_State.POLLING, _Event.DISCONNECTED, _State.OFFLINE),
    Transition(_State.POLLING, _Event.CLOSE, _State.CLOSED, _Send.CLOSE, when=may_have_watcher),
    Transition(_State.POLLING, _Event.CLOSE, _State.CLOSED),
    Transition(_State.WAITING, _Event.POLL_DUE, _State.WAITING, _Send.POLL),
    Transition(_State.WAITING, _Event.DUE, _State.REGISTERING, _Send.WATCH),
    Transition(_State.WAITING, _Event.DISCONNECTED, _State.OFFLINE),
    Transition(_State.WAITING, _Event.CLOSE, _State.CLOSED, _Send.CLOSE, when=may_have_watcher),
    Transition(_State.WAITING, _Event.CLOSE, _State.CLOSED),
)
"""The transitions of the client."""

_ANSWERS = (_Event.WATCHED, _Event.REFUSED, _Event.FAILED)
_OUTCOMES = (_Event.APPLIED, _Event.UNAPPLIED)

IGNORED: Mapping[PartitionWatchState, tuple[PartitionWatchEvent, ...]] = MappingProxyType(
    {
        _State.OFFLINE: (_Event.DISCONNECTED, _Event.DUE, _Event.POLL_DUE, *_ANSWERS, *_OUTCOMES),
        _State.REGISTERING: (_Event.CONNECTED, _Event.DUE, _Event.POLL_DUE, *_OUTCOMES),
        _State.WATCHING: (_Event.CONNECTED, _Event.APPLIED, _Event.POLL_DUE, *_ANSWERS),
        _State.DOUBTING: (_Event.CONNECTED, _Event.UNAPPLIED, _Event.POLL_DUE, *_ANSWERS),
        _State.CHECKING: (_Event.CONNECTED, _Event.DUE, _Event.POLL_DUE, *_OUTCOMES),
        _State.POLLING: (_Event.CONNECTED, _Event.DUE, *_ANSWERS, *_OUTCOMES),
        _State.WAITING: (_Event.CONNECTED, *_ANSWERS, *_OUTCOMES),
        _State.CLOSED: tuple(_Event),
    }
)
"""The events that a state ignores: the client will ask again anyway, or the answer belongs to no request."""

_TABLE = Table(TRANSITIONS, IGNORED)
_WITHOUT_WATCHER = (_State.POLLING, _State.WAITING)


@dataclass(frozen=True)
class PartitionCounts:
    """The argument of the listener.

    Attributes:
        topics: Topic names, as the application gave them.
        counts: The partition count of each topic, in the same order; never lower than in an earlier call that succeeded.
    """

    topics: tuple[str, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class _Told:
    """Counts from the broker that wait for the listener.

    Attributes:
        source: The type of the command that had the counts.
        epoch: The number of successes and lost connections before it. Counts of an earlier epoch need no result.
        counts: The counts, by topic.
        version: The version of an update.
    """

    source: type[CommandWatchPartitionUpdateSuccess | CommandPartitionUpdate | CommandPartitionedTopicMetadataResponse]
    epoch: int
    counts: dict[str, int]
    version: int = 0


@dataclass(frozen=True)
class _Update:
    """The newest update since the last success.

    Attributes:
        version: The version; 0: there was no update.
        is_applied: Whether the listener succeeded; None: it has not finished.
    """

    version: int = 0
    is_applied: bool | None = None


class PartitionWatch(TableWatch[PartitionWatchState, PartitionWatchEvent, PartitionWatchSend]):
    """Keeps the partition counts of some topics; a `WatchMachine`.

    Args:
        topics: Topic names; sent to the broker unchanged.
        watcher_id: Unique among the watchers of the client; it stays the same across reconnects.
        counts: The known counts, such as from the lookups of the producer or consumer.
        profile: Which reading to follow.
        enabled: `enableNotificationForPartitionUpdate` of the producer or consumer; False: always poll.
        poll_interval: Seconds between two polls (`autoUpdatePartitionsInterval`).
        reconcile_period: Seconds between two requests for the counts of a watcher, if the profile reconciles.
        operation_timeout: Seconds after which an unanswered watch request fails.

    Attributes:
        watches: Whether the client can open a watcher on this connection.
    """

    def __init__(
        self,
        topics: Iterable[str],
        watcher_id: int,
        *,
        counts: Mapping[str, int] | None = None,
        profile: PartitionWatchProfile = DEFAULT,
        enabled: bool = True,
        poll_interval: float = POLL_INTERVAL,
        reconcile_period: float = RECONCILE_PERIOD,
        operation_timeout: float = 30.0,
    ) -> None:
        super().__init__(_TABLE, PartitionWatchState.OFFLINE, PartitionWatchState.OFFLINE, ("watcher_id", watcher_id))
        self.topics = tuple(dict.fromkeys(topics))
        self.watcher_id = watcher_id
        self.watches = False
        self._counts = dict.fromkeys(self.topics, 0) | dict(counts or {})
        self._enabled = enabled
        self._poll_interval = poll_interval
        self._reconcile_period = reconcile_period if profile.reconciles else None  # pip247.client.reconciles, .no-task-beside-watch
        self._timeout = operation_timeout
        self._epoch = 0  # number of successes and lost connections
        self._update = _Update()
        self._next: _Told | None = None
        self._running: tuple[_Told, PartitionCounts] | None = None
        self._results: list[CommandPartitionUpdateResult] = []
        self._watch_request: int | None = None
        self._polls: dict[int, str] = {}  # topics by request_id
        self._poll_due: float | None = None
        self._told_at: float | None = None

    @property
    def counts(self) -> dict[str, int]:
        """The partition counts that the listener has applied, by topic; 0: unknown."""
        return dict(self._counts)

    def connected(self, flags: FeatureFlags | None, now: float) -> None:
        """Handle a new connection to any broker of the cluster: pip247.client.reconnects, pip247.client.other-broker.

        Args:
            flags: Feature flags of CONNECTED; None: it had none.
            now: Seconds.
        """
        self.disconnected(now)
        self.watches = self._enabled and flags is not None and flags.supports_partition_update_watchers
        self._failures = 0
        self._told_at = now if self._told_at is None else self._told_at
        self._happened(PartitionWatchEvent.CONNECTED, now)

    def disconnected(self, now: float) -> None:
        """Handle the loss of the connection: drop unanswered requests and pending results, keep the counts."""
        self._forget_registration()
        self.registration = Registration.NONE
        self._watch_request = None
        self._polls.clear()
        self._outbox.clear()
        self._happened(PartitionWatchEvent.DISCONNECTED, now)

    def close(self) -> None:
        """Close the watch and its watcher at the broker: pip247.client.closes."""
        self._results.clear()
        self._polls.clear()
        self._next = None
        self._happened(PartitionWatchEvent.CLOSE, None)

    def next_deadline(self) -> float | None:
        """Return when to call `tick` next, in seconds; None: no deadline is set."""
        polls = [self._poll_due] if self.state in _WITHOUT_WATCHER else []
        return min((when for when in [self._deadline, *polls] if when is not None), default=None)

    def tick(self, now: float) -> None:
        """Do what is due."""
        if self.state in _WITHOUT_WATCHER and self._poll_due is not None and now >= self._poll_due:
            self._poll_due = now + self._poll_interval  # pip247.client.polls
            self._polls.clear()
            self._happened(PartitionWatchEvent.POLL_DUE, now)  # pip247.client.polls-while-retrying
        super().tick(now)

    def _due(self, now: float) -> None:
        if self._watch_request is not None:
            self._watch_request = None
            if self.registration is Registration.ASKED:
                self.registration = Registration.DOUBTFUL
            self._failed(PartitionWatchEvent.FAILED, Refused(0, "the broker has not answered in time"), now)
        else:
            self._happened(PartitionWatchEvent.DUE, now)

    def commands_to_send(self, new_request_id: Callable[[], int], now: float) -> list[Message]:
        """Return what to send now, results first; see `WatchMachine`."""
        results, self._results = self._results, []
        return [*results, *super().commands_to_send(new_request_id, now)]

    def _messages(self, send: PartitionWatchSend, new_request_id: Callable[[], int], now: float) -> Iterable[Message]:
        if send is PartitionWatchSend.POLL:
            return self._metadata_requests(new_request_id)
        if send is PartitionWatchSend.CLOSE:
            self.registration = Registration.NONE  # the close ends any earlier request, too
            return [CommandWatchPartitionUpdateClose(request_id=new_request_id(), watcher_id=self.watcher_id)]
        if self.registration is Registration.NONE:
            self.registration = Registration.ASKED
        self._watch_request = new_request_id()
        self._deadline = now + self._timeout
        return [CommandWatchPartitionUpdate(request_id=self._watch_request, watcher_id=self.watcher_id, topics=self.topics)]

    def _metadata_requests(self, new_request_id: Callable[[], int]) -> Iterable[Message]:
        for topic in self.topics:
            request_id = new_request_id()
            self._polls[request_id] = topic
            yield CommandPartitionedTopicMetadata(topic=topic, request_id=request_id, metadata_auto_creation_enabled=False)

    # Commands of the broker

    def received(self, command: BaseCommand, now: float) -> None:
        """Handle a command from the broker; ignore it if it is not for this watcher, or comes too late."""
        name = command_name(command)
        if self.state is PartitionWatchState.CLOSED:
            return
        if name == "partitionUpdate":
            self._updated(command.partitionUpdate)
        elif name == "watchPartitionUpdateSuccess":
            self._watched(command.watchPartitionUpdateSuccess, now)
        elif name == "partitionMetadataResponse":
            self._polled(command.partitionMetadataResponse)
        elif name == "error":
            self._error(command.error, now)

    def _watched(self, answer: CommandWatchPartitionUpdateSuccess, now: float) -> None:
        if answer.watcher_id != self.watcher_id or answer.request_id != self._watch_request:
            return
        self._watch_request = None
        self._forget_registration()
        self.registration = Registration.CONFIRMED
        self._told_at, self._poll_due = now, None  # pip247.client.no-poll-beside-watch
        # pip247.client.success-calls
        self._next = _Told(CommandWatchPartitionUpdateSuccess, self._epoch, self._ours(answer.topic_with_partition))
        self._happened(PartitionWatchEvent.WATCHED, now)

    def _updated(self, update: CommandPartitionUpdate) -> None:
        if self.registration is not Registration.CONFIRMED or update.watcher_id != self.watcher_id:  # pip247.client.unknown-id
            return
        newest = self._update
        repeated = update.version == newest.version
        if update.version > newest.version or (repeated and newest.is_applied is False):  # pip247.client.update-calls, .failed-again
            self._update = _Update(update.version)
            counts = self._ours(update.topic_with_partition)
            self._next = _Told(CommandPartitionUpdate, self._epoch, counts, update.version)  # pip247.client.newest-only
        elif not repeated or newest.is_applied is not None:  # pip247.client.not-newer; else its result follows: pip247.client.one-result
            self._results.append(CommandPartitionUpdateResult(version=update.version, success=True, watcher_id=self.watcher_id))

    def _polled(self, answer: CommandPartitionedTopicMetadataResponse) -> None:
        topic = self._polls.pop(answer.request_id, None)
        if topic is None or answer.response == CommandPartitionedTopicMetadataResponse.Failed:  # pip247.client.poll-failed
            return
        if answer.partitions <= self._counts[topic]:
            return
        told = self._next or _Told(CommandPartitionedTopicMetadataResponse, self._epoch, {})
        self._next = replace(told, counts=told.counts | {topic: answer.partitions})

    def _error(self, error: CommandError, now: float) -> None:
        if self._polls.pop(error.request_id, None) is None and error.request_id == self._watch_request:
            self._watch_request = None
            if self.registration is Registration.ASKED:
                self.registration = Registration.NONE
            is_refused = error.error == NotAllowedError  # pip247.client.refused
            self.watches = self.watches and not is_refused
            event = PartitionWatchEvent.REFUSED if is_refused else PartitionWatchEvent.FAILED
            self._failed(event, Refused(error.error, error.message), now)

    def _ours(self, told: Iterable[TopicWithPartition]) -> dict[str, int]:
        return {one.topic: one.partition for one in told if one.topic in self._counts}  # pip247.client.foreign-topic

    def _forget_registration(self) -> None:
        """Restart the versions; earlier updates need no result any more: pip247.client.versions-restart."""
        self._epoch += 1
        self._update = _Update()
        self._results.clear()

    # The listener

    def next_call(self) -> PartitionCounts | None:
        """Return the argument of the next listener call; None: there is none, or a call is running (pip247.client.one-call)."""
        if self._running is not None or self._next is None:
            return None
        told, self._next = self._next, None
        counts = {topic: count_in_force(self._counts[topic], count) for topic, count in told.counts.items()}
        if told.source is CommandPartitionedTopicMetadataResponse and all(self._counts[topic] == counts[topic] for topic in counts):
            return None
        call = PartitionCounts(tuple(counts), tuple(counts.values()))
        self._running = (told, call)
        return call

    def tell(self, listener: Callable[[PartitionCounts], bool], now: float) -> None:
        """Call a synchronous listener until no counts are left; it returns whether it has applied them."""
        while (told := self.next_call()) is not None:
            self.called(listener(told), now)

    def called(self, success: bool, now: float) -> None:
        """Handle the end of a listener call.

        Args:
            success: Whether the listener has applied the counts.
            now: Seconds.

        Raises:
            ValueError: No call is running.
        """
        if self._running is None:
            raise ValueError("the listener was not called")
        (told, call), self._running = self._running, None
        if success:
            self._counts.update(zip(call.topics, call.counts, strict=True))
        if self.state is PartitionWatchState.CLOSED or told.epoch != self._epoch:  # pip247.client.no-foreign-result
            return
        if told.source is CommandPartitionUpdate:
            if told.version == self._update.version:
                self._update = _Update(told.version, success)
            # pip247.client.result
            self._results.append(CommandPartitionUpdateResult(version=told.version, success=success, watcher_id=self.watcher_id))
        if told.source is not CommandPartitionedTopicMetadataResponse and success:
            self._succeeded()
            self._happened(PartitionWatchEvent.APPLIED, now)
        elif told.source is CommandWatchPartitionUpdateSuccess:  # pip247.client.success-failed
            self._failed(PartitionWatchEvent.UNAPPLIED, Refused(0, "the listener has failed"), now)

    # The table

    def _happened(self, event: PartitionWatchEvent, now: float | None) -> None:
        """Apply the transition table, and set the time of the next poll."""
        super()._happened(event, now)
        if self.state in _WITHOUT_WATCHER and self._poll_due is None and self._told_at is not None:
            self._poll_due = self._told_at + self._poll_interval

    def _new_deadline(self, event: PartitionWatchEvent, now: float) -> float | None:
        if event is PartitionWatchEvent.POLL_DUE:  # which has its own deadline
            return self._deadline
        if self.state is PartitionWatchState.WATCHING:
            return None if self._reconcile_period is None else now + self._reconcile_period
        if self.state in (PartitionWatchState.DOUBTING, PartitionWatchState.WAITING):  # pip247.client.retries
            return now + delay(self._failures)
        return None
