"""The admin operations on tenants, namespaces and their policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from refimpl.broker import bundles
from refimpl.broker.admin.part import AdminPart
from refimpl.broker.authorization import ACTIONS
from refimpl.broker.credentials import close_unauthorized
from refimpl.broker.names import parse_topic
from refimpl.broker.policies import BACKLOG_QUOTA, POLICIES, RETENTION, Policy, exceeds
from refimpl.broker.unsupported import unsupported
from refimpl.names import TopicName, is_namespace, is_system_topic
from refimpl.proposals.refused import AdminRefused
from refimpl.store import StoredNamespace

DEFAULT_BUNDLES = 4
"""Bundles of a new namespace."""
POLICIES_LOG = "__change_events"
"""The system topic in which Pulsar keeps the policies of topics. Here nothing is in it."""
NO_POLICIES: Mapping[str, object] = {
    "deleted": False,
    "encryption_required": False,
    "subscription_auth_mode": "None",
    "offload_threshold": -1,
    "offload_threshold_in_seconds": -1,
    "schema_validation_enforced": False,
    "migrated": False,
}
"""What clients of Pulsar send for policies that are not set, besides null and empty ones."""


class NamespaceAdmin(AdminPart):
    """The operations."""

    # Tenants

    def tenants(self) -> list[str]:
        """List the tenants."""
        return sorted(self._store.tenants)

    def tenant(self, tenant: str) -> dict[str, Any]:
        """Return the admin roles of a tenant, and the clusters that it may use."""
        if tenant not in self._store.tenants:
            raise AdminRefused(404, "Tenant does not exist")
        return {"adminRoles": sorted(self._store.tenants[tenant]), "allowedClusters": [self._cluster]}

    def create_tenant(self, tenant: str, admin_roles: Iterable[str] = (), allowed_clusters: Iterable[str] | None = None) -> None:
        """Create a tenant. It may use the only cluster that there is."""
        if not is_namespace(f"{tenant}/x"):
            raise AdminRefused(412, "Tenant name is not valid")
        roles = self._admin_roles(admin_roles, allowed_clusters)
        if tenant in self._store.tenants:
            raise AdminRefused(409, "Tenant already exist")
        self._store.tenants[tenant] = roles

    def update_tenant(self, tenant: str, admin_roles: Iterable[str] = (), allowed_clusters: Iterable[str] | None = None) -> None:
        """Replace the admin roles of a tenant."""
        roles = self._admin_roles(admin_roles, allowed_clusters)
        if tenant not in self._store.tenants:
            raise AdminRefused(404, f"Tenant {tenant} not found")
        self._store.tenants[tenant] = roles

    def delete_tenant(self, tenant: str, *, force: bool = False) -> None:
        """Delete a tenant; with `force`, also its namespaces."""
        if force and not self._broker.configuration.force_delete_tenant_allowed:
            raise AdminRefused(405, "Broker doesn't allow forced deletion of tenants")
        self._check_tenant(tenant)
        owned = self.namespaces(tenant)
        if owned and not force:
            raise AdminRefused(409, "The tenant still has active namespaces")
        for namespace in owned:
            self.delete_namespace(namespace, force=True)
        del self._store.tenants[tenant]

    # Namespaces

    def namespaces(self, tenant: str) -> list[str]:
        """List the namespaces of a tenant."""
        self._check_tenant(tenant)
        return sorted(name for name in self._store.namespaces if name.startswith(f"{tenant}/"))

    def policies(self, namespace: str) -> dict[str, Any]:
        """Return the policies of a namespace."""
        stored = self._namespace(namespace)
        return {
            "auth_policies": {"namespace_auth": self.permissions(namespace)},
            "replication_clusters": [self._cluster],
            "bundles": self.bundles(namespace),
            "deleted": False,
            **{one.key: one.unset for one in POLICIES if one.unset is not None},
            **stored.policies,
        }

    def create_namespace(self, namespace: str, policies: Mapping[str, Any] | None = None) -> None:
        """Create a namespace with policies; one that this broker does not have is refused."""
        if not is_namespace(namespace):
            raise AdminRefused(412, "Namespace name is not valid")
        self._check_tenant(namespace.partition("/")[0])
        new = self._with_policies(policies or {})
        if namespace in self._store.namespaces:
            raise AdminRefused(409, "Namespace already exists")
        self._store.namespaces[namespace] = new

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
        self._broker.members.forget(namespace)
        for topic in stored.partitioned:
            self._broker.partitions_changed(topic)

    def unload_namespace(self, namespace: str) -> None:
        """Disconnect the producers and consumers of all topics of a namespace; in a cluster others get its bundles. Watchers stay open."""
        for bundle in bundles.ranges(self._namespace(namespace).bundles):
            self._broker.members.release(namespace, bundle)
        self._unload(lambda topic: topic.namespace == namespace)

    def bundles(self, namespace: str) -> dict[str, Any]:
        """Return the boundaries of the bundles of a namespace."""
        boundaries = bundles.texts(self._namespace(namespace).bundles)
        return {"boundaries": boundaries, "numBundles": len(boundaries) - 1}

    def unload_bundle(self, namespace: str, bundle: str, *, destination: str | None = None) -> None:
        """Disconnect the producers and consumers of all topics of a bundle; in a cluster another broker gets it, or the named one."""
        boundaries = self._namespace(namespace).bundles
        if bundle not in bundles.ranges(boundaries):
            raise AdminRefused(412, f"{bundle} is no bundle of {namespace}, which has {', '.join(bundles.ranges(boundaries))}")
        members = self._broker.members
        chosen = next((one for one in members.running if one.broker_id == destination), None)
        if destination and chosen is None:
            raise AdminRefused(409, "Not allowed unload namespace bundle to inactive destination broker")
        members.release(namespace, bundle)
        if chosen is not None:
            members.give(namespace, bundle, chosen)
        self._unload(lambda topic: topic.namespace == namespace and bundles.bundle_of(topic.full, boundaries) == bundle)

    def clear_backlog(self, namespace: str, subscription: str | None = None) -> None:
        """Let all subscriptions of all topics skip their messages, or only those of one name, which each persistent topic has to have."""
        lacking = False
        for name in self._all_topics(namespace):
            topic = self._broker.topic(parse_topic(name))
            for found in topic.subscriptions.values():
                if subscription in (None, found.name):
                    found.skip(None)
            lacking |= topic.name.persistent and subscription not in (None, *topic.subscriptions)
        if lacking:
            raise AdminRefused(500, "Cursor not found")

    def replication_clusters(self, namespace: str) -> list[str]:
        """Return the clusters of a namespace: this one."""
        self._namespace(namespace)
        return [self._cluster]

    def set_replication_clusters(self, namespace: str, clusters: Iterable[str]) -> None:
        """Check the clusters of a namespace: only this one can be set."""
        if namespace not in self._store.namespaces:
            raise AdminRefused(404, "Namespace does not exist")
        names = set(clusters)
        if not names:
            raise AdminRefused(412, "ClusterIds should not be null or empty")
        for unknown in sorted(names - {self._cluster}):
            raise AdminRefused(403, f"Invalid cluster id: {unknown}")

    # Permissions

    def permissions(self, namespace: str) -> dict[str, list[str]]:
        """Return the allowed actions of each role."""
        return {role: sorted(actions) for role, actions in self._namespace(namespace).permissions.items()}

    def grant_permission(self, namespace: str, role: str, actions: Iterable[str]) -> None:
        """Set the allowed actions of a role."""
        self._namespace(namespace).permissions[role] = _actions(actions)
        close_unauthorized(self._broker, namespace)

    def revoke_permission(self, namespace: str, role: str) -> None:
        """Revoke all permissions of a role."""
        self._namespace(namespace).permissions.pop(role, None)
        close_unauthorized(self._broker, namespace)

    # Policies

    def policy(self, namespace: str, policy: Policy) -> Any:
        """Return a policy of a namespace; None: it is not set."""
        return self._namespace(namespace).policies.get(policy.key, policy.unset)

    def set_policy(self, namespace: str, policy: Policy, value: object) -> None:
        """Set a policy of a namespace; null removes it."""
        policies = self._namespace(namespace).policies
        self._set(policies, policy, value, lambda one: policies.get(one.key), "namespace")

    def topic_policy(self, topic: str, policy: Policy, *, applied: bool = False) -> Any:
        """Return a policy of a topic; with `applied`, that of its namespace if it has none."""
        name = self._with_own_policies(topic)
        if applied:
            return self._broker.policies.applied(name, policy)
        own = self._namespace(name.namespace).topic_policies.get(name.partitioned, {})
        return own.get(policy.key, {} if policy.unset == {} else None)

    def set_topic_policy(self, topic: str, policy: Policy, value: object) -> None:
        """Set a policy of a topic; null removes it, except for retention, as observed."""
        name = self._with_own_policies(topic)
        if value is None and policy is RETENTION:
            return
        policies = self._namespace(name.namespace).topic_policies.setdefault(name.partitioned, {})
        self._set(policies, policy, value, lambda one: self._broker.policies.of(name, one), "topic")
        log = parse_topic(f"persistent://{name.namespace}/{POLICIES_LOG}")
        if not self._broker.exists(log):
            self._broker.create_topic(log)

    def remove_topic_policy(self, topic: str, policy: Policy, _: None = None) -> None:
        """Remove a policy of a topic."""
        name = self._with_own_policies(topic)
        self._namespace(name.namespace).topic_policies.get(name.partitioned, {}).pop(policy.key, None)

    def _with_own_policies(self, topic: str) -> TopicName:
        if not self._broker.configuration.topic_level_policies_enabled:
            raise AdminRefused(405, "Topic level policies is disabled, to enable the topic level policy and retry.")
        if self._name(topic).partition >= 0:
            raise AdminRefused(412, "Not allowed to set/get topic policy for a partition")
        return self._used(topic)

    def _set(self, policies: dict[str, Any], policy: Policy, value: object, present: Callable[[Policy], Any], place: str) -> None:
        if value is None:
            policies.pop(policy.key, None)
            return
        policy.check(value)
        new = policy.complete(value)
        if policy is BACKLOG_QUOTA and exceeds(new, present(RETENTION)):
            detail = f"configured retention quota for {place}. Please increase retention quota and retry"
            raise AdminRefused(412, f"Backlog Quota exceeds {detail}")
        if policy is RETENTION and exceeds(present(BACKLOG_QUOTA), new):
            raise AdminRefused(412, f"Retention Quota must exceed configured backlog quota for {place}.")
        policies[policy.key] = new
        self._broker.upkeep.plan()

    def _with_policies(self, policies: Mapping[str, Any]) -> StoredNamespace:
        """Return a new namespace with these policies."""
        given = {key: value for key, value in policies.items() if value not in (None, [], {}) and NO_POLICIES.get(key, ...) != value}
        new = StoredNamespace(bundles=_boundaries(given.pop("bundles", {})))
        for key in ("replication_clusters", "allowed_clusters"):
            for unknown in sorted(set(given.pop(key, ())) - {self._cluster}):
                raise AdminRefused(403, f"Cluster [{unknown}] is not in the list of allowed clusters")
        for role, actions in _permissions(given.pop("auth_policies", {})).items():
            new.permissions[role] = _actions(actions)
        for policy in POLICIES:
            if policy.key in given:
                policy.check(given[policy.key])
                new.policies[policy.key] = policy.complete(given.pop(policy.key))
        for key in given:
            raise unsupported(f"The policy {key}")
        return new

    def _admin_roles(self, roles: Iterable[str], clusters: Iterable[str] | None) -> set[str]:
        if clusters is not None:
            names = set(clusters)
            if not names:
                raise AdminRefused(412, "Clusters cannot be empty or blank")
            if names != {self._cluster}:
                raise AdminRefused(412, "Clusters do not exist")
        found = set(roles)
        if any(role != role.strip() for role in found):
            raise AdminRefused(412, "AdminRoles contains whitespace in the beginning or end.")
        return found

    def _unload(self, concerns: Callable[[TopicName], bool]) -> None:
        for topic in self._broker.loaded_topics():  # segments of scalable topics are among them
            if concerns(topic.name):
                self._broker.unload(topic.name)

    def _all_topics(self, namespace: str) -> list[str]:
        self._namespace(namespace)
        return [*self._broker.persistent_topics(namespace), *self._broker.non_persistent_topics(namespace)]


def _boundaries(value: Any) -> tuple[int, ...]:
    try:
        number = value.get("numBundles", 0)
        if number <= 0:
            return bundles.divided(DEFAULT_BUNDLES)
        if not value.get("boundaries"):
            return bundles.divided(number)
    except (AttributeError, TypeError, ValueError) as error:
        raise AdminRefused(412, f"Invalid bundles: {error}") from None
    try:
        return bundles.parse(value["boundaries"])
    except (TypeError, ValueError) as error:
        raise AdminRefused(400, str(error)) from None


def _permissions(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise AdminRefused(400, "auth_policies has to be a JSON object")
    for key, roles in value.items():
        if key != "namespace_auth" and roles:
            raise unsupported(f"The policy {key}")
    found = value.get("namespace_auth") or {}
    if not isinstance(found, dict) or not all(isinstance(actions, list) for actions in found.values()):
        raise AdminRefused(400, "namespace_auth has to have a list of actions for each role")
    return found


def _actions(actions: Iterable[str]) -> set[str]:
    granted = set(actions)
    if not granted <= ACTIONS:
        raise AdminRefused(400, f"unknown actions {', '.join(sorted(granted - ACTIONS))}")
    return granted
