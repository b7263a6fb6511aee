"""The backlog quota: how much the slowest subscription of a topic may leave unacknowledged before producers have to stop.

A new producer is refused. Those that are there are closed by a check from time to time, as in Pulsar; whether they come back is up to
the client, which the policy tells what to do: wait (`producer_request_hold`) or fail (`producer_exception`).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import ProducerBlockedQuotaExceededError, ProducerBlockedQuotaExceededException

if TYPE_CHECKING:
    from refimpl.broker.broker import Broker
    from refimpl.broker.topic import Topic


class BacklogQuota:
    """The quota of all topics of a broker.

    Args:
        broker: The broker; its configuration has the limit.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._limit = broker.configuration.backlog_quota_default_limit_bytes
        if self._limit > 0:
            self._check_later()

    def check(self, topic: Topic) -> None:
        """Check that a topic takes a producer.

        Raises:
            Refused: Its backlog exceeds the quota.
        """
        if self._is_exceeded(topic):
            hold = self._broker.configuration.backlog_quota_default_retention_policy == "producer_request_hold"
            code = ProducerBlockedQuotaExceededError if hold else ProducerBlockedQuotaExceededException
            raise Refused(code, "Cannot create producer on topic with backlog quota exceeded")

    def _is_exceeded(self, topic: Topic) -> bool:
        if self._limit <= 0 or not topic.subscriptions:
            return False
        entries = topic.entries
        begin = min(one.cursor.mark_delete for one in topic.subscriptions.values())
        return sum(len(entry.data) for entry in islice(entries, begin - entries.first, None)) > self._limit

    def _check_later(self) -> None:
        seconds = self._broker.configuration.backlog_quota_check_interval_in_seconds
        self._broker.timers.at(self._broker.now + seconds, self._check_all)

    def _check_all(self) -> None:
        for topic in self._broker.loaded_topics():
            if topic.producers and self._is_exceeded(topic):
                self._broker.close_producers(topic)
        self._check_later()
