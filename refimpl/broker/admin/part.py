"""What the parts of the admin operations share: finding what a call names, and who calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refimpl.broker.names import parse_topic
from refimpl.broker.subscription import Subscription
from refimpl.broker.topic import Topic
from refimpl.names import TopicName, is_namespace, partition_name
from refimpl.proposals.refused import AdminRefused, Refused
from refimpl.store import StoredNamespace

if TYPE_CHECKING:
    from refimpl.broker.broker import Broker


class AdminPart:
    """A part of the operations."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._store = broker.store

    def authenticate(self, token: str | None) -> str | None:
        """Return the role of a caller.

        Raises:
            AdminRefused: 401.
        """
        try:
            return self._broker.authorization.authenticate("token", token or "")
        except Refused:
            raise AdminRefused(401, "HTTP 401 Authentication required") from None

    @property
    def _cluster(self) -> str:
        return self._broker.configuration.cluster_name

    def _check_tenant(self, tenant: str) -> None:
        if tenant not in self._store.tenants:
            raise AdminRefused(404, "Tenant not found")

    def _namespace(self, namespace: str) -> StoredNamespace:
        stored = self._store.namespaces.get(namespace)
        if stored is None:
            valid = is_namespace(namespace, lenient=True)
            raise AdminRefused(404, "Namespace does not exist") if valid else AdminRefused(412, "Namespace name is not valid")
        return stored

    def _name(self, topic: str) -> TopicName:
        try:
            name = parse_topic(topic)
        except Refused as refused:
            raise AdminRefused(412, refused.message) from None
        self._namespace(name.namespace)
        return name

    def _present(self, topic: str) -> TopicName:
        """Return the name of a topic that exists."""
        name = self._name(topic)
        if not self._broker.exists(name):
            raise AdminRefused(404, f"Topic {topic} not found")
        return name

    def _existing(self, topic: str) -> TopicName:
        """Do the same where Pulsar asks about the partitions of a topic, too."""
        name = self._name(topic)
        if name.partition < 0 or self._broker.exists(name):
            return self._present(topic)
        if not name.persistent:
            raise AdminRefused(409, f"Partition metadata not found for the partitioned topic: {topic}")
        if self._broker.partition_count(name.partitioned):
            raise AdminRefused(404, "Topic partitions were not yet created")
        raise AdminRefused(404, f"Partitioned Topic not found: {topic} has zero partitions")

    def _used(self, topic: str) -> TopicName:
        """Return the name of a topic that exists, partitioned or not."""
        name = self._name(topic)
        return name if self._parts(topic) else self._present(topic)

    def _topic(self, topic: str) -> Topic:
        return self._broker.topic(self._existing(topic))

    def _check_stored(self, topic: Topic) -> None:
        """Refuse what Pulsar fails at for non-persistent topics."""
        if not topic.name.persistent:
            raise AdminRefused(500, f"{topic.name.full} is not persistent")

    def _parts(self, topic: str) -> list[TopicName]:
        """Return the names of the partitions of a topic; empty if it is not partitioned."""
        name = self._name(topic)
        partitions = self._namespace(name.namespace).partitioned.get(name.full, 0)
        return [parse_topic(partition_name(name.full, number)) for number in range(partitions)]

    def _check_single(self, topic: str, what: str) -> None:
        """Refuse what partitioned topics can't do."""
        if self._parts(topic):
            raise AdminRefused(405, f"{what} on a partitioned topic is not allowed")

    def _topics(self, topic: str) -> list[Topic]:
        """Return a topic, or all its partitions."""
        return [self._topic(part.full) for part in self._parts(topic)] or [self._topic(topic)]

    def _subscriptions(self, topic: str, subscription: str, what: str | None = None) -> list[Subscription]:
        """Return a subscription of a topic, or of all partitions that have it; what is named, partitioned topics can't do."""
        if what is not None:
            self._check_single(topic, what)
        found = [one.subscriptions[subscription] for one in self._topics(topic) if subscription in one.subscriptions]
        if not found:
            raise AdminRefused(404, f"Subscription {subscription} not found for topic {topic}")
        return found
