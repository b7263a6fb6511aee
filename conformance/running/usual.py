"""Settings that cases take for granted, and the policies by which namespaces of the suite have them where the broker has others.

A broker that creates no topics by itself, or limits them, is a right broker. Its settings can be read, and namespaces may have policies of
their own, so that most cases can judge it all the same.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from conformance.engine.model import Transcript
from conformance.running.namespaces import NAMESPACE_PREFIX
from conformance.targets.admin import AdminClient, AdminUnreachable, listed_settings
from conformance.targets.model import Endpoint, as_settings

AUTO_CREATION = "autoTopicCreationOverride"
CREATING = ("allowAutoTopicCreation", "allowAutoTopicCreationType", "allowAutoSubscriptionCreation")
"""Settings by which a producer or consumer creates its topic, without partitions, and its subscription."""
_CREATES = {"allowAutoTopicCreation": True, "topicType": "non-partitioned"}
_TYPES = ["Exclusive", "Failover", "Key_Shared", "Shared"]
_STAYS = {"inactiveTopicDeleteMode": "delete_when_no_subscriptions", "maxInactiveDurationSeconds": 86400, "deleteWhileInactive": False}

_MOST = {"ratePeriodInSecond": 1, "relativeToPublishRate": False}
_PUBLISHED = {"publishThrottlingRateInMsg": 10**9, "publishThrottlingRateInByte": 10**12}
_DISPATCHED = {"dispatchThrottlingRateInMsg": 10**9, "dispatchThrottlingRateInByte": 10**12, **_MOST}
_SUBSCRIBED = {"subscribeThrottlingRatePerConsumer": 10**9, "ratePeriodInSecond": 1}
"""Rates that nobody reaches: for brokers of Apache Pulsar, a namespace without a limit has that of the broker."""
_OF_CLUSTERS = ("publishMaxMessageRate", "topicDispatchRate", "subscriptionDispatchRate", "clusterSubscribeRate")
"""Policies that have a value for each cluster."""

USUAL: Mapping[str, tuple[str, str, object]] = MappingProxyType(
    {
        "allowAutoTopicCreation": ("true", AUTO_CREATION, _CREATES),
        "allowAutoTopicCreationType": ("non-partitioned", AUTO_CREATION, _CREATES),
        "allowAutoSubscriptionCreation": ("true", "autoSubscriptionCreationOverride", {"allowAutoSubscriptionCreation": True}),
        "subscriptionTypesEnabled": ("[Exclusive, Shared, Failover, Key_Shared]", "subscription_types_enabled", _TYPES),
        "schemaCompatibilityStrategy": ("FULL", "schema_compatibility_strategy", "FULL"),
        "isAllowAutoUpdateSchemaEnabled": ("true", "is_allow_auto_update_schema", True),
        "brokerDeleteInactiveTopicsEnabled": ("false", "inactive_topic_policies", _STAYS),
        "brokerDeduplicationEnabled": ("false", "deduplicationEnabled", False),
        "maxConsumersPerSubscription": ("0", "max_consumers_per_subscription", 0),
        "maxConsumersPerTopic": ("0", "max_consumers_per_topic", 0),
        "maxProducersPerTopic": ("0", "max_producers_per_topic", 0),
        "maxSubscriptionsPerTopic": ("0", "max_subscriptions_per_topic", 0),
        "maxTopicsPerNamespace": ("0", "max_topics_per_namespace", 0),
        "maxUnackedMessagesPerConsumer": ("50000", "max_unacked_messages_per_consumer", 50000),
        "maxUnackedMessagesPerSubscription": ("200000", "max_unacked_messages_per_subscription", 200000),
        "maxPublishRatePerTopicInMessages": ("0", "publishMaxMessageRate", _PUBLISHED),
        "maxPublishRatePerTopicInBytes": ("0", "publishMaxMessageRate", _PUBLISHED),
        "dispatchThrottlingRatePerTopicInMsg": ("0", "topicDispatchRate", _DISPATCHED),
        "dispatchThrottlingRatePerTopicInByte": ("0", "topicDispatchRate", _DISPATCHED),
        "dispatchThrottlingRatePerSubscriptionInMsg": ("0", "subscriptionDispatchRate", _DISPATCHED),
        "dispatchThrottlingRatePerSubscriptionInByte": ("0", "subscriptionDispatchRate", _DISPATCHED),
        "subscribeThrottlingRatePerConsumer": ("0", "clusterSubscribeRate", _SUBSCRIBED),
    }
)
"""For each setting its usual value, and the policy of a namespace that has the same effect, with its value, as Pulsar has it in JSON."""


_EVALUATES = ("enableBrokerSideSubscriptionPatternEvaluation", "true")
_NEEDED = MappingProxyType(dict.fromkeys(("topic-list-filter", "topic-list-watch", "topic-watch-reconcile"), _EVALUATES))
"""For each capability the setting, with its value, without which no case can judge it."""
_LONGEST, _LENGTH = "subscriptionPatternMaxLength", 50
"""A setting, and the number that cases of these capabilities need at least: most patterns are that of a whole name."""

_ENABLED = MappingProxyType({"persistent": "enablePersistentTopics", "non-persistent": "enableNonPersistentTopics"})
"""For each domain the setting without which a broker has no topics of it."""


async def with_usual_policies(endpoint: Endpoint, but: Collection[str] = ()) -> Endpoint:
    """Return an endpoint that knows its settings, and whose new namespaces have the usual policies where these are others.

    Args:
        endpoint: The broker.
        but: Settings that a case asks for: they stay as they are.
    """
    settings = {**as_settings(await listed_settings(endpoint)), **endpoint.config}
    chosen = {USUAL[key][1] for key in USUAL.keys() & but}
    wanted = {policy: value for key, (_, policy, value) in USUAL.items() if policy not in chosen and not _is_usual(key, settings)}
    return replace(endpoint, listed_config=settings, namespace_policies=await _taken(endpoint, wanted) if wanted else {})


def given(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings that are not the usual ones, with the policies by which namespaces of the suite make up for them."""
    return {key: policy for key, (_, policy, _) in USUAL.items() if not _is_usual(key, settings)}


def creates_by_itself(settings: Mapping[str, str], policies: Collection[str] = ()) -> bool:
    """Tell whether topics and subscriptions are created by those who need them.

    Args:
        settings: Those that the broker lists.
        policies: Those of the namespace.
    """
    return all(_is_usual(key, settings) or USUAL[key][1] in policies for key in CREATING)


def _is_usual(key: str, settings: Mapping[str, str]) -> bool:
    """Tell whether a setting is not listed, empty, or what is usual; the members of a list may have any order."""
    usual = USUAL[key][0]
    found = settings.get(key) or usual
    return sorted(found.strip("[]").split(", ")) == sorted(usual.strip("[]").split(", "))


def unusual(case: Transcript, settings: Mapping[str, str]) -> str | None:
    """Tell which setting keeps a case from judging a broker; None if none does.

    Args:
        case: The case.
        settings: Those that the broker lists. One that is not listed has its usual value.
    """
    taken = {**dict(_NEEDED[name] for name in case.requires if name in _NEEDED), **case.assumes}
    for key, wanted in taken.items():
        found = settings.get(key, wanted)
        if found != wanted and key not in case.target_config:
            return f"the target has {key}={found}, and the case takes {wanted} for granted"
    longest = settings.get(_LONGEST, "")
    if (
        longest.isdecimal()
        and int(longest) < _LENGTH
        and _LONGEST not in case.target_config
        and not _NEEDED.keys().isdisjoint(case.requires)
    ):
        return f"the target has {_LONGEST}={longest}, and the case takes {_LENGTH} or more for granted"
    return None


def switched_off(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return the domains of which a broker has no topics, each with the setting that says so."""
    return {domain: key for domain, key in _ENABLED.items() if settings.get(key) == "false"}


async def _taken(endpoint: Endpoint, wanted: Mapping[str, object]) -> Mapping[str, object]:
    """Create a namespace with policies, and see which of them it has; another broker may not know them, or refuse them."""
    namespace = f"public/{NAMESPACE_PREFIX}{secrets.token_hex(4)}"
    try:
        async with AdminClient(endpoint) as plain:
            wanted = await _of_clusters(plain, wanted)
        async with AdminClient(replace(endpoint, namespace_policies=wanted)) as admin:
            if not (await admin.call("create_namespace", namespace)).ok:
                return {}
            read = await admin.call("namespace_exists", namespace)
            await admin.remove_namespace(namespace)
    except AdminUnreachable:
        return {}
    has = read.body if read.ok and isinstance(read.body, dict) else {}
    return {name: value for name, value in wanted.items() if _covers(has.get(name), value)}


async def _of_clusters(admin: AdminClient, wanted: Mapping[str, object]) -> Mapping[str, object]:
    """Return policies with their values for each cluster, where they have such; without those if nobody tells the clusters."""
    if wanted.keys().isdisjoint(_OF_CLUSTERS):
        return wanted
    listed = await admin.call("clusters")
    clusters = [name for name in listed.body if isinstance(name, str)] if listed.ok and isinstance(listed.body, list) else []
    each = {name: dict.fromkeys(clusters, value) for name, value in wanted.items() if name in _OF_CLUSTERS and clusters}
    return {name: value for name, value in wanted.items() if name not in _OF_CLUSTERS} | each


def _covers(found: object, wanted: object) -> bool:
    if isinstance(found, dict) and isinstance(wanted, dict):
        return all(_covers(found.get(key), value) for key, value in wanted.items())
    return sorted(found) == wanted if isinstance(found, list) else found == wanted
