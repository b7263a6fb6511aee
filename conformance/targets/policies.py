"""The policies that the suite sets: those of namespaces and topics that change what clients see.

A policy has a path below its namespace, another one below a topic, or none there; how its value travels is a matter of each.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from conformance.names import did_you_mean
from conformance.targets.model import TargetError


@dataclass(frozen=True)
class Policy:
    """A policy.

    Attributes:
        namespace: The last part of its path at a namespace.
        topic: The last part of its path at a topic; None: topics have none of their own.
        method: The method that sets it.
        query: The parameter that carries the value at a topic; None: it is the body there, too.
        ending: What its path has at the end when it is read.
    """

    namespace: str
    topic: str | None = None
    method: Literal["POST", "PUT"] = "POST"
    query: str | None = None
    ending: str = ""


POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        "auto_topic_creation": Policy("autoTopicCreation"),
        "backlog_quota": Policy("backlogQuota", "backlogQuota", ending="Map"),
        "deduplication": Policy("deduplication", "deduplicationEnabled"),
        "message_ttl": Policy("messageTTL", "messageTTL", query="messageTTL"),
        "retention": Policy("retention", "retention"),
        "schema_auto_update": Policy("isAllowAutoUpdateSchema"),
        "schema_compatibility": Policy("schemaCompatibilityStrategy", "schemaCompatibilityStrategy", method="PUT"),
        "schema_validation": Policy("schemaValidationEnforced", "schemaValidationEnforced"),
    }
)
"""The policies by name."""


@dataclass(frozen=True)
class PolicyRequest:
    """A request about a policy: what to do below the path of its namespace or topic."""

    method: str
    path: str
    query: Mapping[str, str]
    body: object = None


def policy_named(name: object) -> Policy:
    """Return a policy.

    Args:
        name: Its name.

    Raises:
        TargetError: There is no such policy.
    """
    found = POLICIES.get(str(name))
    if found is None:
        raise TargetError(f"there is no policy {name!r}{did_you_mean(str(name), POLICIES)}", hint=f"there are: {', '.join(POLICIES)}")
    return found


def read_policy(name: object, *, of_topic: bool) -> PolicyRequest:
    """Build the request that reads a policy.

    Args:
        name: Its name.
        of_topic: Whether it is that of a topic.

    Raises:
        TargetError: There is no such policy.
    """
    policy = policy_named(name)
    return PolicyRequest("GET", _place(str(name), policy, of_topic) + policy.ending, {})


def change_policy(name: object, value: object, *, of_topic: bool) -> PolicyRequest:
    """Build the request that sets a policy.

    Args:
        name: Its name.
        value: What it is set to, as Pulsar has it in JSON; None removes it.
        of_topic: Whether it is that of a topic.

    Raises:
        TargetError: There is no such policy.
    """
    policy = policy_named(name)
    place = _place(str(name), policy, of_topic)
    if value is None:
        return PolicyRequest("DELETE", place, {})
    if of_topic and policy.query is not None:
        return PolicyRequest(policy.method, place, {policy.query: str(value)})
    return PolicyRequest(policy.method, place, {}, value)


def _place(name: str, policy: Policy, of_topic: bool) -> str:
    place = policy.topic if of_topic else policy.namespace
    if place is None:
        raise TargetError(f"topics have no policy {name}: it is one of namespaces")
    return place
