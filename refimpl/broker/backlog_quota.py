"""The backlog quota: how much the slowest subscription of a topic may leave unacknowledged before producers have to stop.

A new producer is refused. Those that are there are closed by a check from time to time, as in Pulsar; whether they come back is up to
the client, which the policy tells what to do: wait (`producer_request_hold`) or fail (`producer_exception`).

What is left is estimated as in Pulsar: an acknowledged entry counts as one of the average size of its ledger. So when the slowest
subscription acknowledges a small entry, a new producer may be let in right after a check, although the large ones are still there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from refimpl.broker.policies import BACKLOG_QUOTA, QUOTA
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import ProducerBlockedQuotaExceededError, ProducerBlockedQuotaExceededException

if TYPE_CHECKING:
    from refimpl.broker.broker import Broker
    from refimpl.broker.topic import Topic


class BacklogQuota:
    """The quotas of all topics of a broker.

    Args:
        broker: The broker; its configuration has the limit, unless a policy has another one.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def check(self, topic: Topic) -> None:
        """Check that a topic takes a producer.

        Raises:
            Refused: Its backlog exceeds the quota.
        """
        limit, policy = self._quota(topic)
        if _is_exceeded(topic, limit):
            code = ProducerBlockedQuotaExceededError if policy == "producer_request_hold" else ProducerBlockedQuotaExceededException
            raise Refused(code, "Cannot create producer on topic with backlog quota exceeded")

    def check_all(self) -> None:
        """Close the producers of all topics beyond their quota."""
        for topic in self._broker.loaded_topics():
            if topic.producers and _is_exceeded(topic, self._quota(topic)[0]):
                self._broker.close_producers(topic)

    def _quota(self, topic: Topic) -> tuple[int, str]:
        """Return the limit in bytes, and the policy."""
        settings = self._broker.configuration
        own = (self._broker.policies.of(topic.name, BACKLOG_QUOTA) or {}).get(QUOTA)
        if own is None:
            return settings.backlog_quota_default_limit_bytes, settings.backlog_quota_default_retention_policy
        return own["limitSize"], own["policy"]


def estimated_backlog(topic: Topic) -> int:
    """Return about how many bytes the slowest subscription has before it."""
    if not topic.subscriptions:
        return 0
    return topic.entries.estimated_bytes_from(min(one.cursor.mark_delete for one in topic.subscriptions.values()))


def _is_exceeded(topic: Topic, limit: int) -> bool:
    return 0 <= limit <= estimated_backlog(topic)
