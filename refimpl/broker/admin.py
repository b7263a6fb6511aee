"""The admin operations: tenants, namespaces, topics, subscriptions. Each operation of Pulsar's admin interface is a method.

Errors have the HTTP status observed on Apache Pulsar 4.2.4.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from refimpl.broker.authorization import ACTIONS
from refimpl.broker.consuming import disconnect_consumers
from refimpl.broker.names import parse_topic
from refimpl.broker.schemas import described, posted
from refimpl.broker.stats import internal_stats, topic_stats
from refimpl.broker.subscription import Subscription
from refimpl.broker.topic import LATEST, Topic
from refimpl.names import DOMAINS, TopicName, is_namespace, is_system_topic, partition_name
from refimpl.proposals.refused import AdminRefused, Refused
from refimpl.store import Entry, StoredNamespace

if TYPE_CHECKING:
    from refimpl.broker.broker import Broker

MOST_PARTITIONS = 10_000
"""Maximum number of partitions, so that one call can't exhaust the memory."""
_NUMBER = re.compile(r"[+-]?\d{1,18}")
"""What Java parses as a number: a sign, leading zeros and any Unicode digits. Observed on Apache Pulsar 2.10.5 and 4.2.4."""


class Admin:
    """The operations. Topics are given by full name, namespaces as "tenant/namespace".

    Raises:
        AdminRefused: In every method: the status and the reason.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._store = broker.store

    def check_access(self, role: str | None, tenant: str | None = None) -> None:
        """Check that a role may administer a tenant, or the whole cluster if the tenant is None.

        Raises:
            AdminRefused: 403.
        """
        authorization = self._broker.authorization
        if not (authorization.is_super_user(role) if tenant is None else authorization.administers(role, tenant)):
            raise AdminRefused(403, "Unauthorized to perform this operation")

    def authenticate(self, token: str | None) -> str | None:
        """Return the role of a caller.

        Raises:
            AdminRefused: 401.
        """
        try:
            return self._broker.authorization.authenticate("token", token or "")
        except Refused:
            raise AdminRefused(401, "HTTP 401 Authentication required") from None

    # The cluster and its tenants

    def clusters(self) -> list[str]:
        """List the clusters: this one."""
        return [self._broker.configuration.cluster_name]

    def tenants(self) -> list[str]:
        """List the tenants."""
        return sorted(self._store.tenants)

    def create_tenant(self, tenant: str, admin_roles: Iterable[str] = ()) -> None:
        """Create a tenant."""
        if not is_namespace(f"{tenant}/x"):
            raise AdminRefused(412, "Tenant name is not valid")
        if tenant in self._store.tenants:
            raise AdminRefused(409, "Tenant already exist")
        self._store.tenants[tenant] = set(admin_roles)

    def delete_tenant(self, tenant: str, *, force: bool = False) -> None:
        """Delete a tenant; with `force`, also its namespaces."""
        self._check_tenant(tenant)
        owned = self.namespaces(tenant)
        if owned and not force:
            raise AdminRefused(409, "The tenant still has active namespaces")
        for namespace in owned:
            self.delete_namespace(namespace, force=True)
        del self._store.tenants[tenant]

    def runtime_configuration(self) -> dict[str, str]:
        """Return the broker's settings."""
        return self._broker.configuration.settings()

    def health(self) -> str:
        """Return that the broker is healthy."""
        return "ok"

    # Namespaces

    def namespaces(self, tenant: str) -> list[str]:
        """List the namespaces of a tenant."""
        self._check_tenant(tenant)
        return sorted(name for name in self._store.namespaces if name.startswith(f"{tenant}/"))

    def policies(self, namespace: str) -> dict[str, Any]:
        """Return the policies of a namespace."""
        self._namespace(namespace)
        return {"auth_policies": {"namespace_auth": self.permissions(namespace)}, "replication_clusters": self.clusters(), "deleted": False}

    def create_namespace(self, namespace: str) -> None:
        """Create a namespace."""
        if not is_namespace(namespace):
            raise AdminRefused(412, "Namespace name is not valid")
        self._check_tenant(namespace.partition("/")[0])
        if namespace in self._store.namespaces:
            raise AdminRefused(409, "Namespace already exists")
        self._store.namespaces[namespace] = StoredNamespace()

    def delete_namespace(self, namespace: str, *, force: bool = False) -> None:
        """Delete a namespace; with `force`, also its topics, each announced as deleted."""
        stored = self._namespace(namespace)
        if force and not self._broker.configuration.force_delete_namespace_allowed:
            raise AdminRefused(405, "Broker doesn't allow forced deletion of namespaces")
        extensions = self._broker.extensions.values()
        has_others = any(topic for extension in extensions for topic in extension.topics_of(namespace))
        if not force and (stored.partitioned or has_others or any(not is_system_topic(topic) for topic in stored.topics)):
            raise AdminRefused(409, "Cannot delete non empty namespace")
        for topic in [*stored.topics, *self._broker.non_persistent_topics(namespace)]:
            self._broker.delete_topic(parse_topic(topic))
        for extension in extensions:
            extension.delete_topics(namespace)
        del self._store.namespaces[namespace]
        for topic in stored.partitioned:
            self._broker.partitions_changed(topic)

    def unload_namespace(self, namespace: str) -> None:
        """Disconnect the producers and consumers of all topics of a namespace; watchers stay open."""
        self._namespace(namespace)
        for topic in [*self._broker.persistent_topics(namespace), *self._broker.non_persistent_topics(namespace)]:
            self._broker.unload(parse_topic(topic))
        for extension in self._broker.extensions.values():
            extension.unload_topics(namespace)

    def permissions(self, namespace: str) -> dict[str, list[str]]:
        """Return the allowed actions of each role."""
        return {role: sorted(actions) for role, actions in self._namespace(namespace).permissions.items()}

    def grant_permission(self, namespace: str, role: str, actions: Iterable[str]) -> None:
        """Set the allowed actions of a role."""
        granted = set(actions)
        if not granted <= ACTIONS:
            raise AdminRefused(400, f"unknown actions {', '.join(sorted(granted - ACTIONS))}")
        self._namespace(namespace).permissions[role] = granted

    def revoke_permission(self, namespace: str, role: str) -> None:
        """Revoke all permissions of a role."""
        self._namespace(namespace).permissions.pop(role, None)

    # Topics

    def topics(self, namespace: str, domain: str, *, include_system: bool = False) -> list[str]:
        """List the topics of a namespace, with partitions listed individually."""
        self._namespace(namespace)
        broker = self._broker
        found = broker.persistent_topics(namespace) if domain == DOMAINS[0] else broker.non_persistent_topics(namespace)
        return [topic for topic in found if include_system or not is_system_topic(topic)]

    def partitioned_topics(self, namespace: str, domain: str, *, include_system: bool = False) -> list[str]:
        """List the partitioned topics of a namespace."""
        found = sorted(self._namespace(namespace).partitioned)
        return [topic for topic in found if topic.startswith(f"{domain}://") and (include_system or not is_system_topic(topic))]

    def create_topic(self, topic: str) -> None:
        """Create a non-partitioned topic."""
        name = self._name(topic)
        self._check_new(name)
        base, mark, number = name.full.partition("-partition-")
        if mark and _NUMBER.fullmatch(number):
            partitions = self._namespace(name.namespace).partitioned.get(base)
            if partitions is None:
                raise AdminRefused(412, f"Can't create topic {topic}: it ends like a partition, and {base} has no partitions")
            if int(number) >= partitions:
                raise AdminRefused(412, f"Can't create topic {topic}: {base} has {partitions} partitions")
        if name.partition >= 0:
            try:
                self._broker.check_partition(name)
            except Refused as refused:
                raise AdminRefused(409, refused.message) from None
        self._broker.create_topic(name)

    def delete_topic(self, topic: str, *, force: bool = False) -> None:
        """Delete a non-partitioned topic or a partition; with `force`, even if it is in use."""
        name = self._name(topic)
        if self._broker.partitions(name):
            raise AdminRefused(
                409, f"{topic} is a partitioned topic, instead of calling delete topic, please call delete-partitioned-topic."
            )
        self._existing(topic)
        self._check_unused(name, force=force)
        self._broker.delete_topic(name)

    def unload_topic(self, topic: str) -> None:
        """Disconnect the producers and consumers of a topic, or of all its partitions."""
        names = self._parts(topic) or [self._existing(topic)]
        missing = [name for name in names if not self._broker.exists(name)]
        for name in names:
            self._broker.unload(name)
        for name in missing:
            self._existing(name.full)

    def create_partitioned_topic(self, topic: str, partitions: int) -> None:
        """Create a partitioned topic."""
        name = self._name(topic)
        if "-partition-" in name.full:
            raise _no_partitioned_name()
        self._check_partitions(partitions)
        self._check_new(name)
        self._broker.create_partitions(name, partitions)

    def update_partitioned_topic(self, topic: str, partitions: int) -> None:
        """Increase the partition count of a topic; partitions that were deleted are created again."""
        name = self._partitioned_name(topic)
        present = self._namespace(name.namespace).partitioned.get(name.full)
        if present is None:
            raise AdminRefused(409, f"Topic {topic} is not the partitioned topic.")
        self._check_partitions(partitions)
        if partitions < present:
            raise AdminRefused(422, f"Desired partitions {partitions} can't be less than the current partitions {present}.")
        self._broker.create_partitions(name, partitions)

    def delete_partitioned_topic(self, topic: str, *, force: bool = False) -> None:
        """Delete a partitioned topic; with `force`, even if it is in use. If it is refused, the partitions that are not in use are gone."""
        name = self._partitioned_name(topic)
        parts = self._parts(topic)
        if not parts and self._broker.exists(name):
            raise AdminRefused(409, f"{topic} is a non-partitioned topic. Instead of calling delete-partitioned-topic please call delete.")
        if not parts:
            raise AdminRefused(404, f"Partitioned Topic not found: {topic} has zero partitions")
        used = [part for part in parts if not force and self._in_use(part)]
        for part in parts:
            if part not in used and self._broker.exists(part):
                self._broker.delete_topic(part)
        for part in used:
            self._check_unused(part, force=force)
        del self._namespace(name.namespace).partitioned[name.full]
        self._broker.schemas.forget(name)
        self._broker.partitions_changed(name.full)

    def partitioned_metadata(self, topic: str) -> dict[str, Any]:
        """Return the partition count of a topic; 0: it is not partitioned."""
        name = self._name(topic)
        partitions = self._namespace(name.namespace).partitioned.get(name.full, 0)
        if not partitions:
            self._existing(topic)
        return {"partitions": partitions, "deleted": False}

    def lookup(self, topic: str) -> dict[str, str]:
        """Return the service URL of the broker that serves a topic."""
        self._namespace(self._name(topic).namespace)
        broker = self._broker
        return {"brokerUrl": broker.service_url, "httpUrl": broker.admin_url, "nativeUrl": broker.service_url, "brokerUrlSsl": ""}

    def topic_stats(self, topic: str) -> dict[str, Any]:
        """Return the counters of a topic, its producers and subscriptions."""
        return topic_stats(self._topic(topic))

    def partitioned_stats(self, topic: str, *, per_partition: bool = False) -> dict[str, Any]:
        """Return the counters of a partitioned topic."""
        parts = self._parts(topic)
        if not parts:
            raise AdminRefused(404, f"Partitioned Topic not found: {topic} has zero partitions")
        stats = {part.full: topic_stats(self._broker.topic(part)) for part in parts}
        sums = {
            key: sum(one[key] for one in stats.values()) for key in ("msgInCounter", "bytesInCounter", "msgOutCounter", "bytesOutCounter")
        }
        backlogs: Counter[str] = Counter()
        for one in stats.values():
            backlogs.update({name: subscription["msgBacklog"] for name, subscription in one["subscriptions"].items()})
        return {
            **sums,
            "subscriptions": {name: {"msgBacklog": backlog} for name, backlog in backlogs.items()},
            "metadata": {"partitions": len(parts), "deleted": False},
            "partitions": stats if per_partition else {},
        }

    def internal_stats(self, topic: str) -> dict[str, Any]:
        """Return the ledgers and cursors of a topic."""
        return internal_stats(self._topic(topic))

    # Schemas

    def schema(self, topic: str, version: int | None) -> dict[str, Any]:
        """Return a schema of a topic: a given version, or the newest."""
        return described(self._broker.schemas.versions(self._name(topic)), version)

    def add_schema(self, topic: str, kind: str, definition: str, properties: Mapping[str, str]) -> dict[str, Any]:
        """Add a compatible schema to a topic, which need not exist."""
        schema = posted(kind, definition, properties)
        name = self._name(topic)
        try:
            self._broker.schemas.check(schema)
        except Refused as refused:
            raise AdminRefused(422, refused.message) from None
        try:
            version = self._broker.schemas.add(name, schema)
        except Refused as refused:
            raise AdminRefused(409, refused.message) from None
        return {"version": {"version": int.from_bytes(version, "big")}}

    # Subscriptions

    def subscriptions(self, topic: str) -> list[str]:
        """List the subscriptions of a topic, or of all its partitions."""
        topics = [self._broker.topic(part) for part in self._parts(topic)] or [self._topic(topic)]
        return sorted({name for one in topics for name in one.subscriptions})

    def create_subscription(
        self, topic: str, subscription: str, position: tuple[int, int], properties: Mapping[str, str] | None = None
    ) -> None:
        """Create a subscription.

        Args:
            topic: The topic.
            subscription: Its name.
            position: The ledger id and entry id after which it starts; (2^63-1, 2^63-1) is the end, (-1, -1) the beginning.
            properties: The properties of the subscription; they select entry filters.
        """
        try:
            self._broker.filters_of(properties or {}, is_new=True)
        except Refused as refused:
            raise AdminRefused(412, refused.message) from None
        topics = [self._broker.topic(part) for part in self._parts(topic)] or [self._topic(topic)]
        if any(subscription in one.subscriptions for one in topics):
            raise AdminRefused(409, "Subscription already exists for topic")
        ledger, entry = position
        for one in topics:
            first, end = one.entries.first, len(one.entries)
            index = end if ledger == LATEST else min(max(entry + 1, first), end) if ledger == one.stored.ledger_id else first
            one.subscribe(subscription, index, durable=True, properties=dict(properties or {}))

    def delete_subscription(self, topic: str, subscription: str, *, force: bool = False) -> None:
        """Delete a subscription; with `force`, even if it has consumers."""
        for found in self._subscriptions(topic, subscription):
            if found.consumers and not force:
                raise AdminRefused(412, "Subscription has active connected consumers")
            disconnect_consumers(found)
            found.topic.unsubscribe(subscription)

    def skip_messages(self, topic: str, subscription: str, count: int | None) -> None:
        """Acknowledge the next entries of a subscription: a number of them, or all."""
        for found in self._subscriptions(topic, subscription):
            found.skip(count)

    def peek_message(self, topic: str, subscription: str, position: int) -> tuple[Topic, int, Entry]:
        """Return the n-th unacknowledged entry of a subscription, counted from 1, with its topic and index."""
        (found,) = self._subscriptions(topic, subscription)[:1]
        waiting = list(found.unacknowledged())
        if not 1 <= position <= len(waiting):
            raise AdminRefused(404, "Message not found")
        index = waiting[position - 1]
        return found.topic, index, found.topic.entries[index]

    # Helpers of the operations

    def _check_tenant(self, tenant: str) -> None:
        if tenant not in self._store.tenants:
            raise AdminRefused(404, "Tenant not found")

    def _namespace(self, namespace: str) -> StoredNamespace:
        stored = self._store.namespaces.get(namespace)
        if stored is None:
            raise AdminRefused(404, "Namespace not found" if is_namespace(namespace, lenient=True) else "Namespace does not exist")
        return stored

    def _name(self, topic: str) -> TopicName:
        try:
            name = parse_topic(topic)
        except Refused as refused:
            raise AdminRefused(412, refused.message) from None
        self._namespace(name.namespace)
        return name

    def _partitioned_name(self, topic: str) -> TopicName:
        name = self._name(topic)
        if name.partition >= 0:
            raise _no_partitioned_name()
        return name

    def _existing(self, topic: str) -> TopicName:
        name = self._name(topic)
        if not self._broker.exists(name):
            raise AdminRefused(404, f"Topic {topic} not found")
        return name

    def _topic(self, topic: str) -> Topic:
        return self._broker.topic(self._existing(topic))

    def _parts(self, topic: str) -> list[TopicName]:
        name = self._name(topic)
        partitions = self._namespace(name.namespace).partitioned.get(name.full, 0)
        return [parse_topic(partition_name(name.full, number)) for number in range(partitions)]

    def _subscriptions(self, topic: str, subscription: str) -> list[Subscription]:
        topics = [self._broker.topic(part) for part in self._parts(topic)] or [self._topic(topic)]
        found = [one.subscriptions[subscription] for one in topics if subscription in one.subscriptions]
        if not found:
            raise AdminRefused(404, f"Subscription {subscription} not found")
        return found

    def _check_new(self, name: TopicName) -> None:
        if self._broker.exists(name) or name.full in self._namespace(name.namespace).partitioned:
            raise AdminRefused(409, "This topic already exists")

    def _check_partitions(self, partitions: int) -> None:
        if not 1 <= partitions <= MOST_PARTITIONS:
            raise AdminRefused(406, f"Number of partitions should be between 1 and {MOST_PARTITIONS}")

    def _check_unused(self, name: TopicName, *, force: bool) -> None:
        if not force and self._in_use(name):
            raise AdminRefused(412, "Topic has active producers/subscriptions")

    def _in_use(self, name: TopicName) -> bool:
        topic = self._broker.loaded(name.full)
        return topic is not None and topic.in_use


def _no_partitioned_name() -> AdminRefused:
    return AdminRefused(412, "Partitioned Topic Name should not contain '-partition-'")
