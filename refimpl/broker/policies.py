"""Policies: what an administrator sets for all topics of a namespace, or for a single topic, which comes first.

`POLICIES` are all policies that this broker has; what a policy does is where it is asked for with `Policies.of`. Values are kept as they
come over the admin interface, and are checked once, when they are set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from refimpl.broker.unsupported import unsupported
from refimpl.configuration import Configuration
from refimpl.names import TopicName
from refimpl.proposals.refused import AdminRefused
from refimpl.store import FullLedger

if TYPE_CHECKING:
    from refimpl.broker.broker import Broker

MOST_PARTITIONS = 10_000
"""Maximum number of partitions, so that one call can't exhaust the memory."""
MIB = 1024 * 1024
STRATEGIES = (
    "UNDEFINED", "ALWAYS_COMPATIBLE", "ALWAYS_INCOMPATIBLE",
    "BACKWARD", "FORWARD", "FULL", "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE",
)  # fmt: skip
"""How a new schema has to fit the older ones."""
NEVER_PARTITIONED = ("-DLQ", "-RETRY")
"""Endings of topics that are never created with partitions by default: those of dead and of retried messages."""
QUOTA = "destination_storage"
"""The kind of backlog quota that this broker has: by size."""


@dataclass(frozen=True)
class Policy:
    """A policy.

    Attributes:
        key: Its name among the policies of a namespace.
        check: Raises AdminRefused for a value that it can't have.
        path: The last part of its path at a namespace.
        topic_path: The last part of its path at a topic; None: there it has none.
        method: The method that sets it.
        removable: Whether there is a method that removes it from a namespace.
        unset: What a namespace without it has.
        default: What counts for a topic if nobody has set it, by the settings of the broker; None: there is no such value.
        complete: Returns a value as it is kept, with all its parts.
    """

    key: str
    check: Callable[[Any], None]
    path: str
    topic_path: str | None = None
    method: str = "POST"
    removable: bool = True
    unset: Any = None
    default: Callable[[Configuration], Any] | None = None
    complete: Callable[[Any], Any] = lambda value: value


def _check_retention(value: Any) -> None:
    time, size = _number(value, "retentionTimeInMinutes"), _number(value, "retentionSizeInMB")
    for limit, found in (("time", time), ("size", size)):
        if found < -1:
            raise AdminRefused(400, f"Invalid retention policy: {limit} limit must be >= -1")
    if (time == 0) != (size == 0):
        raise AdminRefused(400, "Invalid retention policy: both limits have to be 0 to disable retention; -1 ignores one of them")


def _check_seconds(value: Any) -> None:
    if type(value) is not int or value < 0:
        raise AdminRefused(412, "Invalid value for message TTL, message TTL must >= 0")


def _check_auto_creation(value: Any) -> None:
    allowed, kind = _table(value).get("allowAutoTopicCreation", False), value.get("topicType")
    _check_flag(allowed)
    if not allowed:
        return
    problem = None
    if kind not in ("partitioned", "non-partitioned"):
        problem = f"Unknown topic type [{kind}]"
    elif kind == "non-partitioned" and "defaultNumPartitions" in value:
        problem = "[defaultNumPartitions] is not allowed to be set when the type is non-partition."
    elif kind == "partitioned" and not 1 <= _number(value, "defaultNumPartitions") <= MOST_PARTITIONS:
        problem = f"[defaultNumPartitions] has to be between 1 and {MOST_PARTITIONS} for partition type."
    if problem is not None:
        raise AdminRefused(412, f"Invalid configuration for autoTopicCreationOverride. the detail is {problem}")


def _check_backlog_quota(value: Any) -> None:
    for kind, quota in _table(value).items():
        if kind != QUOTA:
            raise unsupported(f"A backlog quota by {kind}")
        policy = _table(quota).get("policy")
        if policy is None:
            raise AdminRefused(400, "the attribute policy cannot be null")
        if policy not in ("producer_request_hold", "producer_exception"):
            raise unsupported(f"The backlog quota policy {policy}")
        for limit in ("limitSize", "limit", "limitTime"):
            _number(quota, limit)


def _whole_quota(value: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for kind, quota in value.items():
        limit = quota.get("limitSize", quota.get("limit", 0))
        found[kind] = {"limit": limit, "limitSize": limit, "limitTime": quota.get("limitTime", 0), "policy": quota["policy"]}
    return found


def exceeds(quota: Any, retention: Any) -> bool:
    """Return whether a backlog quota is larger than what retention keeps; 0 and -1 are no limits. Either is None if it is not set."""
    limits, kept = (quota or {}).get(QUOTA), {**_NO_RETENTION, **(retention or {})}
    size, seconds = kept["retentionSizeInMB"] * MIB, kept["retentionTimeInMinutes"] * 60
    return limits is not None and (0 < size <= limits["limitSize"] or 0 < seconds <= limits["limitTime"])


def _check_flag(value: Any) -> None:
    if not isinstance(value, bool):
        raise AdminRefused(400, "the value has to be true or false")


def _check_strategy(value: Any) -> None:
    if value not in STRATEGIES:
        raise AdminRefused(400, f"the value has to be one of {', '.join(STRATEGIES)}")


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise AdminRefused(400, "the value has to be a JSON object")
    return value


def _number(value: Any, name: str) -> int:
    found = _table(value).get(name, 0)
    if type(found) is not int:
        raise AdminRefused(400, f"{name} has to be a whole number")
    return found


def _no_quotas(settings: Configuration) -> dict[str, Any]:
    limit, policy = settings.backlog_quota_default_limit_bytes, settings.backlog_quota_default_retention_policy
    return {
        QUOTA: {"limit": limit, "limitSize": limit, "limitTime": -1, "policy": policy},
        "message_age": {"limit": -1, "limitSize": -1, "limitTime": -1, "policy": policy},
    }


_NO_RETENTION = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}
RETENTION = Policy(
    "retention_policies",
    _check_retention,
    "retention",
    "retention",
    default=lambda _: _NO_RETENTION,
    complete=lambda value: {**_NO_RETENTION, **value},
)
TTL = Policy("message_ttl_in_seconds", _check_seconds, "messageTTL", "messageTTL", default=lambda _: 0)
DEDUPLICATION = Policy(
    "deduplicationEnabled",
    _check_flag,
    "deduplication",
    "deduplicationEnabled",
    default=lambda settings: settings.broker_deduplication_enabled,
)
AUTO_CREATION = Policy("autoTopicCreationOverride", _check_auto_creation, "autoTopicCreation")
AUTO_UPDATE = Policy("is_allow_auto_update_schema", _check_flag, "isAllowAutoUpdateSchema", removable=False, unset=True)
COMPATIBILITY = Policy(
    "schema_compatibility_strategy",
    _check_strategy,
    "schemaCompatibilityStrategy",
    "schemaCompatibilityStrategy",
    method="PUT",
    removable=False,
    unset="UNDEFINED",
    default=lambda _: "FULL",
)
VALIDATION = Policy(
    "schema_validation_enforced",
    _check_flag,
    "schemaValidationEnforced",
    "schemaValidationEnforced",
    removable=False,
    unset=False,
    default=lambda _: False,
)
BACKLOG_QUOTA = Policy(
    "backlog_quota_map", _check_backlog_quota, "backlogQuota", "backlogQuota", unset={}, default=_no_quotas, complete=_whole_quota
)

POLICIES = (RETENTION, TTL, DEDUPLICATION, AUTO_CREATION, AUTO_UPDATE, COMPATIBILITY, VALIDATION, BACKLOG_QUOTA)


class Policies:
    """The policies of all topics of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def of(self, name: TopicName, policy: Policy) -> Any:
        """Return the value of a policy for a topic; None: it is not set."""
        namespace = self._broker.store.namespaces.get(name.namespace)
        if namespace is None:
            return None
        own = namespace.topic_policies.get(name.partitioned, {}).get(policy.key)
        return namespace.policies.get(policy.key) if own is None else own

    def applied(self, name: TopicName, policy: Policy) -> Any:
        """Return what counts for a topic, whoever has set it, or what the broker does by default."""
        found = self.of(name, policy)
        return policy.default(self._broker.configuration) if found is None and policy.default else found

    def auto_creation(self, name: TopicName) -> int | None:
        """Return with how many partitions a missing topic is created, 0: without any; None: it is not created."""
        settings = self._broker.configuration
        own = self.of(name, AUTO_CREATION)
        if own is None:
            partitions = settings.default_num_partitions if settings.allow_auto_topic_creation_type == "partitioned" else 0
            allowed = settings.allow_auto_topic_creation
        else:
            allowed, partitions = own.get("allowAutoTopicCreation"), own.get("defaultNumPartitions", 0)
        if not allowed:
            return None
        return 0 if name.full.endswith(NEVER_PARTITIONED) else partitions

    def deduplicates(self, name: TopicName) -> bool:
        """Return whether messages of a topic that are sent again are stored once."""
        own = self.of(name, DEDUPLICATION)
        return self._broker.configuration.broker_deduplication_enabled if own is None else bool(own)

    @property
    def now(self) -> float:
        """The time of the current call, in seconds."""
        return self._broker.now

    def is_set(self, policy: Policy) -> bool:
        """Return whether a namespace or a topic has a policy."""
        namespaces = self._broker.store.namespaces.values()
        return any(policy.key in one for namespace in namespaces for one in (namespace.policies, *namespace.topic_policies.values()))

    def keeps(self, name: TopicName) -> Callable[[FullLedger, int], bool]:
        """Return how retention decides whether an acknowledged ledger of a topic is kept, given the bytes that are left without it."""
        value = self.of(name, RETENTION) or {}
        minutes, mib = value.get("retentionTimeInMinutes", 0), value.get("retentionSizeInMB", 0)

        def keeps(ledger: FullLedger, left: int) -> bool:
            expired = minutes >= 0 and self._broker.now - ledger.closed >= 60 * minutes
            return not expired and not (mib >= 0 and left >= mib * MIB)

        return keeps
