"""What the broker does from time to time, as far as a setting or a policy asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from refimpl.broker.policies import BACKLOG_QUOTA, RETENTION, TTL

if TYPE_CHECKING:
    from refimpl.broker.broker import Broker
    from refimpl.broker.subscription import Subscription

RETENTION_CHECK_SECONDS = 120.0
"""Seconds between two checks of what retention keeps, as in Pulsar."""
_SMALL_BACKLOG = 1000
"""Entries below which messages of a subscription with consumers expire late."""
_LATE = 1.5
"""How many times the age the oldest message of such a subscription has to have."""


@dataclass(eq=False)
class _Task:
    seconds: float
    is_needed: Callable[[], bool]
    carry_out: Callable[[], None]
    waiting: bool = False


class Upkeep:
    """The tasks of a broker. A task that nothing asks for is not waited for."""

    def __init__(self, broker: Broker) -> None:
        settings, policies = broker.configuration, broker.policies
        self._broker = broker
        self._tasks = (
            _Task(RETENTION_CHECK_SECONDS, lambda: policies.is_set(RETENTION), self._free),
            _Task(60 * settings.message_expiry_check_interval_in_minutes, lambda: policies.is_set(TTL), self._expire),
            _Task(
                settings.backlog_quota_check_interval_in_seconds,
                lambda: settings.backlog_quota_default_limit_bytes > 0 or policies.is_set(BACKLOG_QUOTA),
                broker.backlog_quota.check_all,
            ),
        )
        self.plan()

    def plan(self) -> None:
        """Plan what is needed, since policies may have changed."""
        for task in self._tasks:
            if not task.waiting and task.is_needed():
                task.waiting = True
                self._broker.timers.at(self._broker.now + task.seconds, lambda task=task: self._carry_out(task))  # type: ignore[misc]

    def _carry_out(self, task: _Task) -> None:
        task.carry_out()
        task.waiting = False
        self.plan()

    def expire(self, subscription: Subscription, seconds: int) -> bool:
        """Let a subscription skip what was published more than that many seconds ago.

        Returns:
            Whether it may: not without a backlog, and with consumers and a small one only if the oldest message is old enough.
        """
        entries, now = subscription.topic.entries, self._broker.time_of_day
        oldest = next(subscription.unacknowledged(), None)
        if oldest is None:
            return False

        def is_older(index: int, age: int) -> bool:
            return entries[index].publish_time < (now - age) * 1000

        if subscription.consumers and subscription.backlog < _SMALL_BACKLOG and not (seconds and is_older(oldest, int(seconds * _LATE))):
            return False
        subscription.skip_while(lambda index: is_older(index, seconds))
        return True

    def _expire(self) -> None:
        for topic in self._broker.loaded_topics():
            seconds = self._broker.policies.of(topic.name, TTL)
            for subscription in topic.subscriptions.values() if seconds else ():
                self.expire(subscription, seconds)

    def _free(self) -> None:
        for topic in self._broker.loaded_topics():
            topic.free()
