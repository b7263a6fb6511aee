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

    def expire(self, subscription: Subscription, seconds: int) -> None:
        """Let a subscription skip what was published that many seconds ago, or earlier."""
        entries, until = subscription.topic.entries, (self._broker.time_of_day - seconds) * 1000
        subscription.skip_while(lambda index: entries[index].publish_time < until)

    def _expire(self) -> None:
        for topic in self._broker.loaded_topics():
            seconds = self._broker.policies.of(topic.name, TTL)
            for subscription in topic.subscriptions.values() if seconds else ():
                self.expire(subscription, seconds)

    def _free(self) -> None:
        for topic in self._broker.loaded_topics():
            topic.free()
