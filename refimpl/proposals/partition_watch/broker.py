"""PIP-247, the broker's side: it keeps the watchers of all connections and the delivery of their updates.

`PartitionWatchBroker` is the state machine; `PartitionWatchExtension` connects it to a broker.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import cast

from refimpl.indexes.nested import Nested
from refimpl.names import namespace_of
from refimpl.proposals.extension import Connection, Extension, Host, anybody, send_all
from refimpl.proposals.partition_watch.rules import (
    DEFAULT,
    RESULT_TIMEOUT,
    TOPICS_PER_CONNECTION,
    WATCHERS_PER_CONNECTION,
    PartitionWatchProfile,
    ResultJudgement,
    judge_result,
    largest_frame,
    next_version,
    resend_delay,
)
from refimpl.proposals.refused import Refused
from refimpl.wire import DEFAULT_MAX_FRAME_SIZE, FRAME_PADDING
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    CommandPartitionUpdate,
    CommandPartitionUpdateResult,
    CommandSuccess,
    CommandWatchPartitionUpdate,
    CommandWatchPartitionUpdateClose,
    CommandWatchPartitionUpdateSuccess,
    FeatureFlags,
    NotAllowedError,
    TooManyRequests,
    TopicWithPartition,
)


class Delivery(Enum):
    """The delivery state of a watcher's last update."""

    SETTLED = "no update waits for a result"
    IN_FLIGHT = "an update waits for its result"
    WAITING = "the update has failed; the broker resends it soon"


class News(Enum):
    """The events of a watcher."""

    CHANGED = "a count has changed"
    DONE = "the client has applied the update in flight"
    FAILED = "the client has not applied it"
    DUE = "the deadline has come"


DELIVERIES: Mapping[tuple[Delivery, News], Delivery] = MappingProxyType(
    {
        (Delivery.SETTLED, News.CHANGED): Delivery.IN_FLIGHT,  # pip247.update.on-change
        (Delivery.IN_FLIGHT, News.CHANGED): Delivery.IN_FLIGHT,  # pip247.update.replaces
        (Delivery.WAITING, News.CHANGED): Delivery.IN_FLIGHT,  # pip247.update.replaces-waiting
        (Delivery.IN_FLIGHT, News.DONE): Delivery.SETTLED,  # pip247.result.success
        (Delivery.IN_FLIGHT, News.FAILED): Delivery.WAITING,  # pip247.result.failure; the first time without a delay
        (Delivery.IN_FLIGHT, News.DUE): Delivery.IN_FLIGHT,  # pip247.timeout.resend
        (Delivery.WAITING, News.DUE): Delivery.IN_FLIGHT,  # pip247.result.failure-backoff
    }
)
"""The transitions of a watcher at the broker. Each transition to IN_FLIGHT sends an update."""

IMPOSSIBLE = frozenset(
    {
        (Delivery.SETTLED, News.DONE),
        (Delivery.SETTLED, News.FAILED),
        (Delivery.SETTLED, News.DUE),
        (Delivery.WAITING, News.DONE),
        (Delivery.WAITING, News.FAILED),
    }
)
"""Pairs that can't occur: a result counts only while an update is in flight (`judge_result`), and SETTLED has no deadline."""


class PartitionWatchBroker:
    """The broker's side: keeps the watchers of all connections and delivers their updates.

    Registering a watcher and reading its counts is one atomic step, so no change is lost between them: pip247.watch.listener-first.

    Args:
        count_of: Returns the partition count of a topic, given by full name; 0: it is not partitioned, or does not exist. The caller
            reports each change to `changed`.
        full_name: Returns the full name of a topic in a request; refuses an invalid name with InvalidTopicName.
        profile: Which reading to follow.
        enabled: `enableNotificationForPartitionUpdate`.
        result_timeout: `notificationForPartitionUpdateTimeoutSeconds`.
        max_watchers: Maximum number of watchers per connection.
        max_topics: Maximum number of topics of all watchers of one connection together.
        max_frame_size: Maximum size of a frame that clients accept, in bytes.
        may_watch: Returns whether a connection may look up a topic, given by full name. If it no longer may for one of a watcher's
            topics, the watcher ends silently at its next update. None: every connection may.

    Attributes:
        unexpected_results: Number of results for unknown updates or unknown watchers.

    Raises:
        ValueError: The time-out is not above 0.
    """

    def __init__(
        self,
        count_of: Callable[[str], int],
        full_name: Callable[[str], str],
        *,
        profile: PartitionWatchProfile = DEFAULT,
        enabled: bool = True,
        result_timeout: float = RESULT_TIMEOUT,
        max_watchers: int = WATCHERS_PER_CONNECTION,
        max_topics: int = TOPICS_PER_CONNECTION,
        max_frame_size: int = DEFAULT_MAX_FRAME_SIZE,
        may_watch: Callable[[Hashable, str], bool] | None = None,
    ) -> None:
        if not result_timeout > 0:
            raise ValueError(f"result_timeout is a number of seconds above 0, not {result_timeout!r}")
        self.unexpected_results = 0
        self._count_of = count_of
        self._full_name = full_name
        self._profile = profile
        self._enabled = enabled
        self._result_timeout = result_timeout
        self._max_watchers = max_watchers
        self._max_topics = max_topics
        self._max_frame_size = max_frame_size
        self._may_watch = may_watch or anybody
        self._watchers: Nested[Hashable, int, _Watcher] = Nested()  # by connection and watcher_id
        self._topics: dict[Hashable, int] = {}  # number of topics of all watchers of a connection
        self._by_topic: Nested[str, _Watcher, None] = Nested()  # by full name
        self._alarms: list[tuple[float, int, _Watcher]] = []
        self._numbers = itertools.count()

    def advertise(self, flags: FeatureFlags) -> None:
        """Set the feature flag of this proposal: pip247.flag.advertised, pip247.flag.switched-off, pip247.flag.whatever-client."""
        flags.supports_partition_update_watchers = self._enabled

    def watcher_count(self, connection: Hashable) -> int:
        """Return the number of watchers of a connection."""
        return self._watchers.count(connection)

    # Requests

    def watch(self, connection: Hashable, request: CommandWatchPartitionUpdate) -> CommandWatchPartitionUpdateSuccess:
        """Open a watcher. It replaces one with the same id on the connection, whose last update needs no result any more.

        Args:
            connection: The connection of the watcher; each connection has its own ids (pip247.watch.id-per-connection).
            request: The request, unchecked.

        Returns:
            The answer. Send it before any update (pip247.watch.success-first).

        Raises:
            Refused: The request fails and changes nothing (pip247.watch.nothing-after-error, .repeat-refused).
        """
        if not self._enabled:  # pip247.watch.switched-off
            raise Refused(NotAllowedError, "Notifications for partition updates are switched off at this broker")
        old = self._watchers.find(connection, request.watcher_id)
        names = self._names(request)
        self._check_room(connection, old, len(names))
        if not all(self._may_watch(connection, topic) for topic in names):  # pip247.watch.unauthorized
            raise Refused(AuthorizationError, "Client is not authorized to WatchPartitionUpdate")
        counts = self._counts(names)
        if old is not None:
            self._drop(old)  # pip247.watch.repeat-replaces, pip247.watch.repeat-clears
        version = old.version if old is not None else 0  # pip247.watch.repeat-version, pip247.version.per-watcher
        watcher = _Watcher(connection, request.watcher_id, names, counts, version)
        self._watchers.put(connection, request.watcher_id, watcher)
        self._topics[connection] = self._topics.get(connection, 0) + len(names)
        for topic in names:
            self._by_topic.put(topic, watcher, None)
        return CommandWatchPartitionUpdateSuccess(  # pip247.watch.success, pip247.watch.success-counts
            request_id=request.request_id, watcher_id=request.watcher_id, topic_with_partition=watcher.topics_with_partitions()
        )

    def _names(self, request: CommandWatchPartitionUpdate) -> dict[str, str]:
        """Return the topic names of a request as the client wrote them, by full name."""
        names: dict[str, str] = {}
        for topic in request.topics:  # pip247.watch.invalid-name
            names.setdefault(self._full_name(topic), topic)  # pip247.watch.order, pip247.watch.duplicates, pip247.watch.names-echoed
        if largest_frame(names.values()) > self._max_frame_size:  # pip247.watch.too-large
            raise Refused(NotAllowedError, f"An update for these topics could have more than {self._max_frame_size} bytes")
        return names

    def _check_room(self, connection: Hashable, old: _Watcher | None, topic_count: int) -> None:
        if old is None and self.watcher_count(connection) >= self._max_watchers:  # pip247.watch.limits
            raise Refused(TooManyRequests, f"This connection has {self._max_watchers} partition update watchers, which is the limit")
        others = self._topics.get(connection, 0) - (len(old.names) if old is not None else 0)
        if others + topic_count > self._max_topics:
            raise Refused(TooManyRequests, f"The partition update watchers of one connection may have {self._max_topics} topics")

    def result(self, connection: Hashable, result: CommandPartitionUpdateResult, now: float) -> CommandPartitionUpdate | None:
        """Handle the result of an update.

        Args:
            connection: The connection that sent the result.
            result: The result, unchecked.
            now: Seconds.

        Returns:
            The update to send to the connection; None: nothing.
        """
        watcher = self._watchers.find(connection, result.watcher_id)  # pip247.result.unknown-watcher
        judgement = judge_result(watcher.in_flight if watcher is not None else None, result.version, success=result.success)
        if judgement is ResultJudgement.UNEXPECTED:
            self.unexpected_results += 1
        if watcher is None or judgement in (ResultJudgement.UNEXPECTED, ResultJudgement.LATE):
            return None
        if judgement is ResultJudgement.DONE:
            watcher.failures = 0  # pip247.result.success-resets
            return self._happened(watcher, News.DONE, now)
        watcher.failures += 1
        return self._happened(watcher, News.FAILED, now)

    def close(self, connection: Hashable, request: CommandWatchPartitionUpdateClose) -> CommandSuccess:
        """Close a watcher; closing an unknown watcher succeeds: pip247.close.answer, pip247.close.unknown, pip247.close.silence."""
        watcher = self._watchers.find(connection, request.watcher_id)
        if watcher is not None:
            self._drop(watcher)
        return CommandSuccess(request_id=request.request_id)

    def disconnected(self, connection: Hashable) -> None:
        """Remove all watchers of a connection: pip247.watch.dropped-with-connection."""
        for watcher in list(self._watchers.get(connection, {}).values()):
            self._drop(watcher)

    # Changes and time

    def changed(self, topic: str, now: float) -> list[tuple[Hashable, CommandPartitionUpdate]]:
        """Handle a possible change of a topic's partition count.

        Args:
            topic: Full name of the partitioned topic.
            now: Seconds.

        Returns:
            The connections to notify and the command for each, in the order of sending.
        """
        updates: list[tuple[Hashable, CommandPartitionUpdate]] = []
        for watcher in self._by_topic.keys_in(topic):  # pip247.update.every-watcher
            if self._count_of(topic) != watcher.counts[topic]:  # pip247.update.only-changes
                update = self._happened(watcher, News.CHANGED, now)
                if update is not None:
                    updates.append((watcher.connection, update))
        return updates

    def next_deadline(self) -> float | None:
        """Return when to call `tick` next, in seconds; None: no deadline is set."""
        while self._alarms:
            when, number, watcher = self._alarms[0]
            if watcher.deadline == when:
                return when
            heapq.heappop(self._alarms)
            if watcher.alarm != number:  # a later alarm with an earlier deadline replaced this one
                continue
            watcher.alarm = None
            if watcher.deadline is not None:
                self._set_alarm(watcher)
        return None

    def tick(self, now: float) -> list[tuple[Hashable, CommandPartitionUpdate]]:
        """Do what is due.

        Returns:
            The connections to notify and the command for each, in the order of sending.
        """
        updates: list[tuple[Hashable, CommandPartitionUpdate]] = []
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            watcher = heapq.heappop(self._alarms)[2]
            watcher.alarm = None
            update = self._happened(watcher, News.DUE, now)
            if update is not None:
                updates.append((watcher.connection, update))
        return updates

    def _happened(self, watcher: _Watcher, news: News, now: float) -> CommandPartitionUpdate | None:
        """Apply the transition table."""
        watcher.delivery = DELIVERIES[watcher.delivery, news]
        if watcher.delivery is Delivery.SETTLED:
            watcher.deadline = None
            return None
        if watcher.delivery is Delivery.WAITING:
            delay = resend_delay(watcher.failures, self._result_timeout, self._profile)
            if delay > 0:
                self._wake(watcher, now + delay)
                return None
            watcher.delivery = DELIVERIES[Delivery.WAITING, News.DUE]
        return self._update(watcher, now)

    def _update(self, watcher: _Watcher, now: float) -> CommandPartitionUpdate | None:
        """Return an update with the current counts: pip247.timeout.reads-again, pip247.result.failure-reads-again."""
        if not all(self._may_watch(watcher.connection, topic) for topic in watcher.names):  # pip247.watch.permission-revoked
            self._drop(watcher)
            return None
        counts = self._counts(watcher.names)
        watcher.version = next_version(watcher.version, is_different=counts != watcher.counts, profile=self._profile)
        watcher.counts = counts
        self._wake(watcher, now + self._result_timeout)  # pip247.timeout.until-connection-ends
        return CommandPartitionUpdate(
            version=watcher.version,
            watcher_id=watcher.watcher_id,
            topic_with_partition=watcher.topics_with_partitions(),  # pip247.update.all-topics
        )

    def _counts(self, topics: Iterable[str]) -> dict[str, int]:
        return {topic: self._count_of(topic) for topic in topics}

    def _wake(self, watcher: _Watcher, when: float) -> None:
        """Set the deadline of a watcher. An alarm that fires too early is set again, so that a result costs no new alarm."""
        earlier = watcher.deadline is not None and when < watcher.deadline
        watcher.deadline = when
        if watcher.alarm is None or earlier:
            self._set_alarm(watcher)

    def _set_alarm(self, watcher: _Watcher) -> None:
        assert watcher.deadline is not None
        watcher.alarm = next(self._numbers)
        heapq.heappush(self._alarms, (watcher.deadline, watcher.alarm, watcher))

    def _drop(self, watcher: _Watcher) -> None:
        watcher.deadline = None
        self._watchers.take(watcher.connection, watcher.watcher_id)
        self._topics[watcher.connection] -= len(watcher.names)
        if watcher.connection not in self._watchers:
            del self._topics[watcher.connection]
        for topic in watcher.names:
            self._by_topic.take(topic, watcher)


class _Watcher:
    """A watcher and its last update.

    Attributes:
        names: Topic names as the client wrote them, by full name, in the order of the request.
        counts: The counts in the last update, by full name, in the same order.
        version: The version of the last update; 0 before the first.
        failures: Number of failed results since the last success.
        deadline: When the next action is due, in seconds; None: never.
        alarm: The number of the alarm that fires at the deadline or before; None: no alarm is set.
    """

    __slots__ = ("alarm", "connection", "counts", "deadline", "delivery", "failures", "names", "version", "watcher_id")

    def __init__(self, connection: Hashable, watcher_id: int, names: dict[str, str], counts: dict[str, int], version: int) -> None:
        self.connection = connection
        self.watcher_id = watcher_id
        self.names = names
        self.counts = counts
        self.version = version
        self.delivery = Delivery.SETTLED
        self.failures = 0
        self.deadline: float | None = None
        self.alarm: int | None = None

    @property
    def in_flight(self) -> int | None:
        """The version of the update in flight; None: there is none."""
        return self.version if self.delivery is Delivery.IN_FLIGHT else None

    def topics_with_partitions(self) -> list[TopicWithPartition]:
        """Return the topics in the order of the request, each with the count in the last update."""
        return [TopicWithPartition(topic=spelling, partition=self.counts[topic]) for topic, spelling in self.names.items()]


class PartitionWatchExtension(Extension):
    """What PIP-247 adds to a broker.

    Attributes:
        watches: The state machine.
    """

    def __init__(self, host: Host, profile: PartitionWatchProfile, _: object = None) -> None:
        super().__init__(host)
        settings = host.configuration
        self.watches = PartitionWatchBroker(
            host.partition_count,
            self._full_name,
            profile=profile,
            enabled=settings.enable_notification_for_partition_update,
            result_timeout=settings.notification_for_partition_update_timeout_seconds,
            max_frame_size=settings.max_message_size + FRAME_PADDING,
            may_watch=lambda connection, topic: host.may_look_up(cast("Connection", connection), namespace_of(topic)),
        )
        self.commands = {
            "watchPartitionUpdate": self.watches.watch,
            "partitionUpdateResult": lambda connection, result: self.watches.result(connection, result, host.now),
            "watchPartitionUpdateClose": self.watches.close,
        }

    def advertise(self, flags: FeatureFlags) -> None:
        """Set the feature flag."""
        self.watches.advertise(flags)

    def disconnected(self, connection: Connection) -> None:
        """Remove the watchers of a connection: pip247.watch.dropped-with-connection."""
        self.watches.disconnected(connection)

    def next_deadline(self) -> float | None:
        """Return when the next update times out or is due for resending, in seconds."""
        return self.watches.next_deadline()

    def tick(self, now: float) -> None:
        """Resend the updates that are due."""
        send_all(self.watches.tick(now))

    def partitions_changed(self, topic: str) -> None:
        """Notify the watchers; the new partitions already exist: pip247.update.on-change, pip247.update.partitions-exist."""
        send_all(self.watches.changed(topic, self.host.now))

    def _full_name(self, topic: str) -> str:
        return self.host.ordinary_topic_name(topic).full
