"""What the admin calls of policies and bundles take and refuse, and what they tell."""

from __future__ import annotations

import pytest

from refimpl.broker import bundles
from tests.fakes.admin_calls import ADMIN_TOPIC, NAMESPACE, ask, auto_creation, give, retention
from tests.fakes.broker_peer import TOPIC, Peer, make_broker


@pytest.fixture
def peer() -> Peer:
    return Peer(make_broker(keepAliveIntervalSeconds="1000000"))


# Bundles


def test_bundles_are_those_of_pulsar():
    four = bundles.divided(4)
    assert bundles.texts(four) == ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"]
    assert bundles.bundle_of("persistent://acme/n/t", four) == "0x40000000_0x80000000"
    assert bundles.parse(["0x00000000", "0xffffffff"]) == (0, 2**32 - 1)
    assert len(bundles.divided(3)) == 4


@pytest.mark.parametrize(("asked", "found"), [
    ({"boundaries": ["0x00000000", "0x80000000"]}, 4), ({"boundaries": ["0x00000000", "0x80000000", "0xffffffff"]}, 4), ({"numBundles": -1}, 4),
    ({"boundaries": ["0x00000000", "0xffffffff", "0x80000000"], "numBundles": 2}, 2),
])  # fmt: skip
def test_boundaries_count_with_a_number_only(peer, asked, found):
    assert ask(peer.broker, "PUT", NEW, {"bundles": asked})[0] == 204
    assert ask(peer.broker, "GET", f"{NEW}/bundles")[1]["numBundles"] == found


def test_a_bundle_is_unloaded_alone(peer):
    peer.broker.admin.create_namespace("public/n", {"bundles": {"numBundles": 2}})
    topics = [f"persistent://public/n/{number}" for number in range(20)]
    for number, topic in enumerate(topics):
        peer.producer(topic, producer_id=number)
    path = "/admin/v2/namespaces/public/n"
    assert ask(peer.broker, "PUT", f"{path}/0x00000000_0x80000000/unload")[0] == 204
    closed = {one.producer_id for one in peer.answers()}
    ranges = [ask(peer.broker, "GET", f"/lookup/v2/topic/persistent/public/n/{number}/bundle")[1] for number in range(20)]
    assert closed == {number for number, one in enumerate(ranges) if one == b"0x00000000_0x80000000"}
    assert 0 < len(closed) < 20


# What is taken and what is refused, as on Apache Pulsar 4.2.4


SINGLE_ZERO = "Invalid retention policy: both limits have to be 0 to disable retention; -1 ignores one of them"
CREATION = "Invalid configuration for autoTopicCreationOverride. the detail is "
REFUSED = [
    ("POST", "retention", retention(10, 0), 400, SINGLE_ZERO),
    ("POST", "retention", retention(0, 10), 400, SINGLE_ZERO),
    ("POST", "retention", {"retentionTimeInMinutes": 5}, 400, SINGLE_ZERO),
    ("POST", "retention", retention(-2, 10), 400, "Invalid retention policy: time limit must be >= -1"),
    ("POST", "retention", retention(10, -2), 400, "Invalid retention policy: size limit must be >= -1"),
    ("POST", "retention", 5, 400, "the value has to be a JSON object"),
    ("POST", "messageTTL", -1, 412, "Invalid value for message TTL, message TTL must >= 0"),
    ("POST", "messageTTL", "x", 400, "the body has to be a number"),
    ("POST", "messageTTL", True, 400, "the body has to be a number"),
    ("POST", "messageTTL", None, 400, "The request entity cannot be empty."),
    ("POST", "messageTTL", 2**31, 500, "Request failed."),
    ("POST", "messageTTL", 10**400, 500, "Request failed."),
    ("POST", "deduplication", "tRue", 400, "the body has to be true or false"),
    ("POST", "deduplication", None, 400, "The request entity cannot be empty."),
    ("POST", "schemaValidationEnforced", None, 400, "The request entity cannot be empty."),
    ("POST", "autoTopicCreation", auto_creation(True, "x"), 412, f"{CREATION}Unknown topic type [x]"),
    ("POST", "autoTopicCreation", auto_creation(True), 412, f"{CREATION}Unknown topic type [None]"),
    ("POST", "autoTopicCreation", auto_creation(True, "partitioned"), 412, f"{CREATION}[defaultNumPartitions] has to be between 1 and 10000 for partition type."),
    ("POST", "autoTopicCreation", auto_creation(True, "partitioned", 0), 412, f"{CREATION}[defaultNumPartitions] has to be between 1 and 10000 for partition type."),
    ("POST", "autoTopicCreation", auto_creation(True, "non-partitioned", 3), 412, f"{CREATION}[defaultNumPartitions] is not allowed to be set when the type is non-partition."),
    ("POST", "isAllowAutoUpdateSchema", None, 400, "The request entity cannot be empty."),
    ("POST", "isAllowAutoUpdateSchema", 1.5, 400, "the body has to be true or false"),
    ("POST", "replication", [], 412, "ClusterIds should not be null or empty"),
    ("POST", "replication", None, 412, "ClusterIds should not be null or empty"),
    ("POST", "replication", ["none"], 403, "Invalid cluster id: none"),
    ("POST", "backlogQuota", {"limitSize": 1}, 400, "the attribute policy cannot be null"),
    ("POST", "backlogQuota", {"limitSize": 1, "policy": "consumer_backlog_eviction"}, 405, "The backlog quota policy consumer_backlog_eviction is not supported by this broker"),
    ("POST", "backlogQuota?backlogQuotaType=message_age", {"limitTime": 1, "policy": "producer_exception"}, 405, "A backlog quota by message_age is not supported by this broker"),
    ("DELETE", "backlogQuota?backlogQuotaType=message_age", None, 405, "A backlog quota by message_age is not supported by this broker"),
    ("PUT", "0x00000000_0x30000000/unload", None, 412, "0x00000000_0x30000000 is no bundle of public/default, which has 0x00000000_0xffffffff"),
]  # fmt: skip


def test_the_clusters_of_a_namespace_are_set_to_this_one(peer):
    assert ask(peer.broker, "POST", f"{NAMESPACE}/replication", ["standalone"]) == (200, b"")
    missing = ask(peer.broker, "POST", "/admin/v2/namespaces/public/none/replication", ["standalone"])
    assert missing == (404, {"reason": "Namespace does not exist"})


@pytest.mark.parametrize(("method", "path", "body", "status", "reason"), REFUSED)
def test_values_that_no_policy_has(peer, method, path, body, status, reason):
    before = ask(peer.broker, "GET", NAMESPACE)
    assert ask(peer.broker, method, f"{NAMESPACE}/{path}", body) == (status, {"reason": reason})
    assert ask(peer.broker, "GET", NAMESPACE) == before


AS_JAVA_READS_THEM = [
    ("POST", "messageTTL", "5", 5), ("POST", "messageTTL", 1.7, 1), ("POST", "deduplication", "TRUE", True), ("POST", "deduplication", 0, False),
    ("POST", "isAllowAutoUpdateSchema", "False", False), ("PUT", "schemaCompatibilityStrategy", "backward", "UNDEFINED"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "value"), AS_JAVA_READS_THEM)
def test_values_of_other_types(peer, method, path, body, value):
    assert ask(peer.broker, method, f"{NAMESPACE}/{path}", body)[0] == 204
    assert ask(peer.broker, "GET", f"{NAMESPACE}/{path}") == (200, value)


@pytest.mark.parametrize(("path", "kept"), [
    ("messageTTL", b""), ("retention", retention(1, 1)), ("deduplicationEnabled", b""), ("schemaCompatibilityStrategy", b""),
])  # fmt: skip
def test_what_a_call_without_a_body_does_to_a_policy_of_a_topic(peer, path, kept):
    method = "PUT" if "Compatibility" in path else "POST"
    given = {"retention": retention(1, 1), "schemaCompatibilityStrategy": "FORWARD", "deduplicationEnabled": True}.get(path)
    peer.producer()
    assert ask(peer.broker, method, f"{ADMIN_TOPIC}/{path}{'' if given else '?messageTTL=9'}", given)[0] == 204
    assert ask(peer.broker, "GET", f"{ADMIN_TOPIC}/{path}")[1] not in (b"", None)
    assert ask(peer.broker, method, f"{ADMIN_TOPIC}/{path}") == (204, b"")
    assert ask(peer.broker, "GET", f"{ADMIN_TOPIC}/{path}") == (200, kept)


@pytest.mark.parametrize(("query", "status"), [("-1", 412), ("x", 404), (str(2**31), 404), ("", 204)])
def test_a_message_ttl_of_a_topic(peer, query, status):
    peer.producer()
    assert ask(peer.broker, "POST", f"{ADMIN_TOPIC}/messageTTL?messageTTL={query}")[0] == status


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
@pytest.mark.parametrize(("method", "path"), [
    ("GET", "messageTTL"), ("POST", "messageTTL?messageTTL=9"), ("DELETE", "messageTTL"), ("GET", "backlogQuotaMap"), ("PUT", "schemaCompatibilityStrategy"),
])  # fmt: skip
def test_partitions_have_no_policies_of_their_own(peer, domain, method, path):
    answer = ask(peer.broker, method, f"/admin/v2/{domain}/public/default/p-partition-0/{path}", "FULL" if method == "PUT" else None)
    assert answer == (412, {"reason": "Not allowed to set/get topic policy for a partition"})


def test_policies_of_topics_have_a_system_topic(peer):
    peer.producer()
    place, named = "/admin/v2/persistent/public/default", "persistent://public/default/__change_events"
    assert ask(peer.broker, "GET", f"{place}?includeSystemTopic=true") == (200, [TOPIC])
    for _ in range(2):
        give(peer, f"{ADMIN_TOPIC}/messageTTL?messageTTL=9", None)
    assert ask(peer.broker, "GET", place) == (200, [TOPIC])
    assert ask(peer.broker, "GET", f"{place}?includeSystemTopic=true") == (200, [named, TOPIC])
    assert [ask(peer.broker, method, f"{place}/__change_events{rest}")[0] for method, rest in (("GET", "/stats"), ("PUT", ""))] == [
        200,
        409,
    ]


KEPT = [
    ("retention", "POST", retention(-1, -1), b""),
    ("messageTTL", "POST", 100, b""),
    ("deduplication", "POST", False, b""),
    ("autoTopicCreation", "POST", auto_creation(False), b""),
    ("schemaCompatibilityStrategy", "PUT", "FULL_TRANSITIVE", "UNDEFINED"),
    ("isAllowAutoUpdateSchema", "POST", False, True),
    ("schemaValidationEnforced", "POST", True, False),
]


@pytest.mark.parametrize(("path", "method", "value", "unset"), KEPT)
def test_a_policy_is_set_got_and_removed(peer, path, method, value, unset):
    place = f"{NAMESPACE}/{path}"
    assert ask(peer.broker, "GET", place) == (200, unset)
    give(peer, place, value, method)
    assert ask(peer.broker, "GET", place) == (200, value)
    assert value in ask(peer.broker, "GET", NAMESPACE)[1].values()
    if unset == b"":
        assert ask(peer.broker, "DELETE", place) == (204, b"")
        assert ask(peer.broker, "GET", place) == (200, unset)
    assert ask(peer.broker, "GET", f"/admin/v2/namespaces/public/none/{path}")[0] == 404


@pytest.mark.parametrize(("path", "method", "value"), [
    ("retention", "POST", retention(5, 6)), ("deduplicationEnabled", "POST", True), ("schemaCompatibilityStrategy", "PUT", "BACKWARD"),
])  # fmt: skip
def test_a_policy_of_a_topic(peer, path, method, value):
    place = f"{ADMIN_TOPIC}/{path}"
    assert ask(peer.broker, "GET", place) == (404, {"reason": f"Topic {TOPIC} not found"})
    assert ask(peer.broker, method, place, value)[0] == 404
    ask(peer.broker, "PUT", ADMIN_TOPIC)
    assert ask(peer.broker, "GET", place) == (200, b"")
    give(peer, place, value, method)
    assert ask(peer.broker, "GET", place) == ask(peer.broker, "GET", f"{place}?applied=true") == (200, value)
    assert ask(peer.broker, "DELETE", place) == (204, b"")
    assert ask(peer.broker, "GET", place) == (200, b"")


# The body that creates a namespace

NOTHING = {
    "auth_policies": {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}}, "replication_clusters": [], "allowed_clusters": [],
    "bundles": {"numBundles": 4}, "backlog_quota_map": {}, "clusterDispatchRate": {}, "topicDispatchRate": {}, "subscriptionDispatchRate": {},
    "replicatorDispatchRate": {}, "clusterSubscribeRate": {}, "publishMaxMessageRate": {}, "latency_stats_sample_rate": {}, "deleted": False,
    "encryption_required": False, "subscription_auth_mode": "None", "offload_threshold": -1, "offload_threshold_in_seconds": -1,
    "schema_compatibility_strategy": "UNDEFINED", "schema_validation_enforced": False, "subscription_types_enabled": [], "properties": {}, "migrated": False,
}  # fmt: skip
"""What pulsar-admin of 4.2.4 sends without any option."""
NEW = "/admin/v2/namespaces/public/n"


@pytest.mark.parametrize("body", [None, {}, NOTHING, {"replication_clusters": ["standalone"]}])
def test_a_namespace_without_policies(peer, body):
    give(peer, NEW, body, "PUT")
    found = ask(peer.broker, "GET", NEW)[1]
    assert found["bundles"] == {"boundaries": bundles.texts(bundles.divided(4)), "numBundles": 4}
    assert ask(peer.broker, "GET", f"{NEW}/schemaCompatibilityStrategy") == (200, "UNDEFINED")


QUOTAS = {
    kind: {"limit": size, "limitSize": size, "limitTime": -1, "policy": "producer_exception"}
    for kind, size in (("destination_storage", 5), ("message_age", -1))
}
SMALL = {"limit": 1, "limitSize": 1, "limitTime": 0, "policy": "producer_request_hold"}


@pytest.mark.parametrize(
    ("policy", "default", "value"),
    [
        ("retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}, {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1}),
        ("messageTTL", 0, 60),
        ("deduplication", True, False),
        ("schemaCompatibilityStrategy", "FULL", "BACKWARD"),
        ("schemaValidationEnforced", False, True),
        ("backlogQuota", QUOTAS, {"destination_storage": SMALL}),
    ],
)
def test_what_counts_for_a_topic_is_told(policy, default, value):
    settings = {"backlogQuotaDefaultLimitBytes": "5", "backlogQuotaDefaultRetentionPolicy": "producer_exception"}
    broker = make_broker(brokerDeduplicationEnabled="true", **settings)
    ask(broker, "PUT", ADMIN_TOPIC)
    place = f"{ADMIN_TOPIC}/{'deduplicationEnabled' if policy == 'deduplication' else policy}{'Map' * (policy == 'backlogQuota')}"
    assert ask(broker, "GET", f"{place}?applied=true") == (200, default)
    method = "PUT" if policy == "schemaCompatibilityStrategy" else "POST"
    body = {"limit": 1, "policy": SMALL["policy"]} if policy == "backlogQuota" else value
    assert ask(broker, method, f"{NAMESPACE}/{policy}", body)[0] == 204
    assert ask(broker, "GET", f"{place}?applied=true") == (200, value)
    if policy == "backlogQuota":
        assert ask(broker, "GET", f"{NAMESPACE}/backlogQuotaMap") == (200, value)
        assert ask(broker, "DELETE", f"{NAMESPACE}/backlogQuota")[0] == 204
        assert ask(broker, "GET", f"{NAMESPACE}/backlogQuotaMap") == (200, {})


@pytest.mark.parametrize(("number", "bundles"), [(-1, 4), (0, 4), (1, 1), (3, 3)])
def test_a_namespace_has_as_many_bundles_as_it_is_given(peer, number, bundles):
    give(peer, "/admin/v2/namespaces/public/n", {"bundles": {"numBundles": number}}, "PUT")
    assert ask(peer.broker, "GET", "/admin/v2/namespaces/public/n/bundles")[1]["numBundles"] == bundles


def test_a_namespace_is_created_with_its_policies(peer):
    policies = {
        "retention_policies": retention(1, 2), "message_ttl_in_seconds": 5, "deduplicationEnabled": True, "is_allow_auto_update_schema": False,
        "autoTopicCreationOverride": auto_creation(True, "partitioned", 3), "schema_compatibility_strategy": "BACKWARD",
        "backlog_quota_map": {"destination_storage": {"limitSize": 10, "policy": "producer_exception"}},
    }  # fmt: skip
    body = {**NOTHING, **policies, "bundles": {"numBundles": 3}, "auth_policies": {"namespace_auth": {"r": ["consume"]}}}
    give(peer, NEW, body, "PUT")
    found = ask(peer.broker, "GET", NEW)[1]
    limits = {"limit": 10, "limitSize": 10, "limitTime": 0, "policy": "producer_exception"}
    assert found | policies | {"backlog_quota_map": {"destination_storage": limits}} == found
    assert found["bundles"] == {"boundaries": ["0x00000000", "0x55555555", "0xaaaaaaaa", "0xffffffff"], "numBundles": 3}
    assert found["auth_policies"] == {"namespace_auth": {"r": ["consume"]}}
    answer = peer.ask("partitionMetadata", topic="persistent://public/n/t", request_id=1, metadata_auto_creation_enabled=True)
    assert answer.partitions == 3


@pytest.mark.parametrize(("body", "status", "reason"), [
    ({"max_producers_per_topic": 3}, 405, "The policy max_producers_per_topic is not supported by this broker"),
    ({"encryption_required": True}, 405, "The policy encryption_required is not supported by this broker"),
    ({"persistence": {"bookkeeperEnsemble": 3}}, 405, "The policy persistence is not supported by this broker"),
    ({"offload_threshold": 0}, 405, "The policy offload_threshold is not supported by this broker"),
    ({"unknown": 1}, 405, "The policy unknown is not supported by this broker"),
    ({"auth_policies": {"destination_auth": {"t": {}}}}, 405, "The policy destination_auth is not supported by this broker"),
    ({"auth_policies": {"namespace_auth": {"r": ["fly"]}}}, 400, "unknown actions fly"),
    ({"auth_policies": 5}, 400, "auth_policies has to be a JSON object"),
    ({"retention_policies": retention(1, 0)}, 400, SINGLE_ZERO),
    ({"message_ttl_in_seconds": -5}, 412, "Invalid value for message TTL, message TTL must >= 0"),
    ({"replication_clusters": ["none"]}, 403, "Cluster [none] is not in the list of allowed clusters"),
    ({"allowed_clusters": ["none"]}, 403, "Cluster [none] is not in the list of allowed clusters"),
    ({"bundles": {"numBundles": 1025}}, 412, "Invalid bundles: the number of bundles has to be between 1 and 1024"),
    ({"bundles": {"boundaries": ["0x00000000", "0x00000010"], "numBundles": 1}}, 400, "Input bundles do not cover the whole hash range. first:0x00000000, last:0x00000010"),
    ([], 400, "the body has to be a JSON object"),
])  # fmt: skip
def test_a_body_that_is_not_applied_is_refused(peer, body, status, reason):
    assert ask(peer.broker, "PUT", NEW, body or [1]) == (status, {"reason": reason})
    assert ask(peer.broker, "GET", NEW)[0] == 404
