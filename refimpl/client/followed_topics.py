"""A consumer of the topics that a watch lists: the common part of pattern consumers and namespace consumers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from refimpl.client.multi_topics_consumer import MultiTopicsConsumer
from refimpl.client.scheduler import Pending
from refimpl.client.watch_driver import WatchDriver
from refimpl.proposals.watch_machine import TopicSetWatch
from refimpl.timers import Timer

RETRY_SECONDS = 10.0
"""Maximum delay in seconds before the client retries a listed topic that it could not attach to."""


class FollowingConsumer(MultiTopicsConsumer, ABC):
    """Consumers of a changing set of topics.

    Attributes:
        watch: The watch.
    """

    watch: TopicSetWatch[Any, Any, Any]
    _driver: WatchDriver[Any]
    _retry_seconds = RETRY_SECONDS
    _retry_timer: Timer | None = None

    @property
    def topics(self) -> frozenset[str]:
        """Return the full names of the listed topics, with partitions listed individually."""
        return self.watch.topics

    @property
    def topics_hash(self) -> str | None:
        """Return the hash of `topics`; None before the first list."""
        return self.watch.topics_hash

    def close(self) -> Pending[None]:
        """Close the watch and all consumers; the result comes when the brokers have confirmed it, or are unreachable."""
        if self.error is None:
            if self._retry_timer is not None:
                self._retry_timer.cancel()
            self._driver.close()
        return super().close()

    def _retry_later(self) -> None:
        """Attach to the listed topics that have no consumer, after a delay."""
        if self._retry_timer is None and self.error is None:
            scheduler = self._core.scheduler
            self._retry_timer = scheduler.call_at(scheduler.now + self._retry_seconds, self._retry)

    def _retry(self) -> None:
        self._retry_timer = None
        self._attach_missing()

    @abstractmethod
    def _attach_missing(self) -> None:
        """Start to attach to the listed topics that have no consumer."""
