"""What policies of namespaces and topics do, and that none is taken without an effect."""

from __future__ import annotations

import json

import pytest

from refimpl.broker import bundles
from refimpl.broker.policies import STRATEGIES
from refimpl.broker.upkeep import RETENTION_CHECK_SECONDS
from refimpl.store import memory
from refimpl.wire import encode_payload
from refimpl.wire.pulsar_api_pb2 import (
    IncompatibleSchema,
    MessageMetadata,
    ProducerBlockedQuotaExceededException,
    Schema,
    TopicNotFound,
)
from tests.fakes.admin_calls import ask
from tests.fakes.broker_peer import TOPIC, Peer, make_broker

NAMESPACE = "/admin/v2/namespaces/public/default"
ADMIN_TOPIC = "/admin/v2/persistent/public/default/t"
MIB = 1024 * 1024
METADATA = MessageMetadata(producer_name="p", sequence_id=0, publish_time=0)


@pytest.fixture
def peer() -> Peer:
    return Peer(make_broker(keepAliveIntervalSeconds="1000000"))


def give(peer: Peer, path: str, value: object, method: str = "POST") -> None:
    assert ask(peer.broker, method, path, value) == (204, b"")


# Retention


@pytest.fixture
def small_ledgers(monkeypatch):
    monkeypatch.setattr(memory, "LEDGER_ENTRIES", 10)


def retention(minutes: int, mib: int) -> dict[str, int]:
    return {"retentionTimeInMinutes": minutes, "retentionSizeInMB": mib}


def read_all(peer: Peer, count: int, size: int = 1) -> int:
    """Publish messages, acknowledge them, and return the index of the first that is left."""
    peer.producer()
    peer.subscribe()
    peer.publish(*["x" * size] * count)
    peer.frames()
    peer.acknowledge(count - 1, kind="Cumulative")
    return peer.broker.loaded(TOPIC).entries.first


@pytest.mark.usefixtures("small_ledgers")
@pytest.mark.parametrize(("minutes", "mib", "first"), [(0, 0, 30), (-1, -1, 0), (5, -1, 0), (-1, 5, 0), (-1, 1, 20), (5, 1, 20)])
@pytest.mark.parametrize("path", [NAMESPACE, ADMIN_TOPIC])
def test_retention_keeps_what_is_acknowledged(peer, path, minutes, mib, first):
    ask(peer.broker, "PUT", ADMIN_TOPIC)
    give(peer, f"{path}/retention", retention(minutes, mib))
    assert read_all(peer, 35, MIB // 12) == first


@pytest.mark.usefixtures("small_ledgers")
def test_retention_ends_with_time_and_with_the_policy(peer):
    broker = peer.broker
    give(peer, f"{NAMESPACE}/retention", retention(5, -1))
    assert read_all(peer, 25) == 0
    broker.tick(299.0)
    assert broker.loaded(TOPIC).entries.first == 0
    broker.tick(300.0 + RETENTION_CHECK_SECONDS)
    assert broker.loaded(TOPIC).entries.first == 20
    give(peer, f"{NAMESPACE}/retention", retention(-1, -1))
    peer.publish(*"abcdefghijklmno")
    peer.acknowledge(39, kind="Cumulative")
    assert broker.loaded(TOPIC).entries.first == 20
    assert ask(broker, "DELETE", f"{NAMESPACE}/retention")[0] == 204
    assert ask(broker, "POST", f"{ADMIN_TOPIC}/trim")[0] == 200
    assert broker.loaded(TOPIC).entries.first == 30
    broker.tick(10_000.0)
    assert broker.next_deadline() is None or broker.next_deadline() > 10_000.0


def test_a_policy_outlasts_a_restart_and_ends_with_its_topic(peer):
    give(peer, f"{NAMESPACE}/retention", retention(7, 8))
    ask(peer.broker, "PUT", ADMIN_TOPIC)
    give(peer, f"{ADMIN_TOPIC}/retention", retention(1, 2))
    broker = make_broker(peer.broker.store)
    assert ask(broker, "GET", f"{ADMIN_TOPIC}/retention") == (200, retention(1, 2))
    assert ask(broker, "DELETE", ADMIN_TOPIC)[0] == 204
    ask(broker, "PUT", ADMIN_TOPIC)
    assert ask(broker, "GET", f"{ADMIN_TOPIC}/retention") == (200, b"")
    assert ask(broker, "GET", f"{ADMIN_TOPIC}/retention?applied=true") == (200, retention(7, 8))


# Creation of topics by default


def auto_creation(allowed: bool, kind: str | None = None, count: int | None = None) -> dict[str, object]:
    found = {"allowAutoTopicCreation": allowed, "topicType": kind, "defaultNumPartitions": count}
    return {key: value for key, value in found.items() if value is not None}


def test_missing_topics_are_not_created(peer):
    give(peer, f"{NAMESPACE}/autoTopicCreation", auto_creation(False))
    assert peer.producer().error == TopicNotFound
    assert peer.subscribe().error == TopicNotFound
    assert peer.ask("partitionMetadata", topic=TOPIC, request_id=1, metadata_auto_creation_enabled=True).error == TopicNotFound
    assert ask(peer.broker, "PUT", ADMIN_TOPIC)[0] == 204
    assert peer.producer().producer_ready


CREATION_QUERY = "partitions?checkAllowAutoCreation=true"


@pytest.mark.parametrize(("topic", "allowed", "call", "status"), [
    ("t", False, "look-up", 404), ("t", False, CREATION_QUERY, 404), ("t", False, "subscription/s", 412),
    ("t-partition-0", False, "look-up", 404), ("t-partition-0", False, CREATION_QUERY, 404), ("t-partition-0", False, "subscription/s", 412),
    ("p-partition-2", False, "look-up", 404), ("p-partition-2", False, CREATION_QUERY, 404), ("p-partition-2", False, "subscription/s", 412),
    ("p", False, "look-up", 200), ("p", False, CREATION_QUERY, 200), ("p", False, "subscription/s", 204),
    ("p-partition-1", False, "look-up", 200), ("p-partition-1", False, CREATION_QUERY, 200), ("p-partition-1", False, "subscription/s", 204),
    ("t", True, "look-up", 200), ("t", True, CREATION_QUERY, 200), ("t", True, "subscription/s", 204),
    ("t-partition-0", True, "look-up", 200), ("t-partition-0", True, CREATION_QUERY, 200), ("t-partition-0", True, "subscription/s", 409),
    ("p-partition-2", True, "look-up", 404), ("p-partition-2", True, CREATION_QUERY, 404), ("p-partition-2", True, "subscription/s", 412),
])  # fmt: skip
def test_who_asks_for_a_missing_topic_over_http(peer, topic, allowed, call, status):
    give(peer, "/admin/v2/persistent/public/default/p/partitions", 2, "PUT")
    if not allowed:
        give(peer, f"{NAMESPACE}/autoTopicCreation", auto_creation(False))
    path = (
        f"/lookup/v2/topic/persistent/public/default/{topic}"
        if call == "look-up"
        else f"/admin/v2/persistent/public/default/{topic}/{call}"
    )
    assert ask(peer.broker, "PUT" if call == "subscription/s" else "GET", path)[0] == status


def test_a_non_persistent_topic_is_looked_up_although_none_is_created(peer):
    give(peer, f"{NAMESPACE}/autoTopicCreation", auto_creation(False))
    assert ask(peer.broker, "GET", "/lookup/v2/topic/non-persistent/public/default/t")[0] == 200
    assert ask(peer.broker, "GET", f"/admin/v2/non-persistent/public/default/t/{CREATION_QUERY}")[0] == 404
    assert ask(peer.broker, "PUT", "/admin/v2/non-persistent/public/default/t/subscription/s")[0] == 400


@pytest.mark.parametrize(
    ("topic", "partitions"), [("t", 3), ("DLQ", 3), ("t-dlq", 3), ("t-DLQ-t", 3), ("t-DLQ", 0), ("t-RETRY", 0), ("-DLQ", 0)]
)
def test_topics_of_dead_and_retried_messages_get_no_partitions(peer, topic, partitions):
    give(peer, f"{NAMESPACE}/autoTopicCreation", auto_creation(True, "partitioned", 3))
    path = f"/admin/v2/persistent/public/default/{topic}"
    assert ask(peer.broker, "GET", f"{path}/{CREATION_QUERY}")[1]["partitions"] == partitions
    assert ask(peer.broker, "GET", f"{path}/partitions")[0] == (200 if partitions else 404)
    assert ask(peer.broker, "PUT", f"{path}/subscription/s")[0] == 204
    assert len(peer.broker.admin.topics("public/default", "persistent")) == max(partitions, 1)
    assert ask(peer.broker, "GET", f"{path}/subscriptions") == (200, ["s"])


@pytest.mark.parametrize(("setting", "policy", "partitions"), [
    ("partitioned", auto_creation(True, "non-partitioned"), 0),
    ("non-partitioned", auto_creation(True, "partitioned", 3), 3),
    ("non-partitioned", auto_creation(True, "partitioned", 1), 1),
    ("partitioned", None, 2),
])  # fmt: skip
def test_missing_topics_are_created_as_the_policy_says(setting, policy, partitions):
    peer = Peer(make_broker(allowAutoTopicCreationType=setting, defaultNumPartitions="2"))
    if policy is not None:
        give(peer, f"{NAMESPACE}/autoTopicCreation", policy)
    answer = peer.ask("partitionMetadata", topic=TOPIC, request_id=1, metadata_auto_creation_enabled=True)
    assert answer.partitions == partitions
    assert ask(peer.broker, "DELETE", f"{NAMESPACE}/autoTopicCreation")[0] == 204


# Schemas


def record(*fields: str) -> bytes:
    listed = [{"name": one.rstrip("?"), "type": "string", **({"default": ""} if one.endswith("?") else {})} for one in fields]
    return json.dumps({"type": "record", "name": "R", "fields": listed}).encode()


# the order of versions, and the strategies that take them
FITS = [
    (["a b", "a"], {"BACKWARD", "BACKWARD_TRANSITIVE"}),
    (["a", "a b"], {"FORWARD", "FORWARD_TRANSITIVE"}),
    (["a", "a b?"], {"BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "UNDEFINED"}),
    (["a", "a b?", "a b"], {"FORWARD", "FORWARD_TRANSITIVE", "BACKWARD", "FULL", "UNDEFINED"}),
    (["a b", "a b?", "a"], {"BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FULL", "UNDEFINED"}),
]


@pytest.mark.parametrize(("versions", "taken_by"), FITS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_how_a_new_schema_has_to_fit(peer, strategy, versions, taken_by):
    give(peer, f"{NAMESPACE}/schemaCompatibilityStrategy", strategy, "PUT")
    for number, fields in enumerate(versions):
        schema = Schema(name="s", type=Schema.Avro, schema_data=record(*fields.split()))
        answer = peer.producer(producer_id=number, schema=schema)
    taken = strategy in taken_by | {"ALWAYS_COMPATIBLE"}
    assert answer.schema_version == (len(versions) - 1).to_bytes(8, "big") if taken else answer.error == IncompatibleSchema


def test_clients_may_be_forbidden_to_bring_schemas(peer):
    give(peer, f"{NAMESPACE}/isAllowAutoUpdateSchema", False)
    schema = Schema(name="s", type=Schema.String, schema_data=b"")
    assert peer.producer(schema=schema).message == "Schema not found and schema auto updating is disabled."
    assert peer.subscribe(schema=schema).error == IncompatibleSchema
    body = {"type": "STRING", "schema": "", "properties": {}}
    assert ask(peer.broker, "POST", "/admin/v2/schemas/public/default/t/schema", body)[0] == 200
    assert peer.producer(schema=schema).producer_ready


def test_producers_may_need_a_schema(peer):
    schema = Schema(name="s", type=Schema.String, schema_data=b"")
    give(peer, f"{NAMESPACE}/schemaValidationEnforced", True)
    assert peer.producer(producer_id=7).producer_ready
    assert peer.producer(producer_id=8, schema=schema).producer_ready
    refused = peer.producer(producer_id=9)
    assert (refused.error, "without a schema" in refused.message) == (IncompatibleSchema, True)
    give(peer, f"{ADMIN_TOPIC}/schemaValidationEnforced", False)
    assert peer.producer(producer_id=9).producer_ready


def test_topics_may_have_no_policies_of_their_own():
    broker = make_broker(topicLevelPoliciesEnabled="false")
    ask(broker, "PUT", ADMIN_TOPIC)
    reason = "Topic level policies is disabled, to enable the topic level policy and retry."
    assert ask(broker, "POST", f"{ADMIN_TOPIC}/deduplicationEnabled", True) == (405, {"reason": reason})
    assert ask(broker, "GET", f"{ADMIN_TOPIC}/deduplicationEnabled") == (405, {"reason": reason})


# The backlog quota


def test_a_backlog_quota(peer):
    give(peer, f"{NAMESPACE}/backlogQuota", {"limitSize": 100, "policy": "producer_exception"})
    peer.subscribe()
    peer.producer()
    peer.publish("x" * 101)
    peer.frames()
    assert peer.producer(producer_id=2).error == ProducerBlockedQuotaExceededException
    give(peer, f"{ADMIN_TOPIC}/backlogQuota", {"limitSize": 1000, "policy": "producer_exception"})
    assert peer.producer(producer_id=2).producer_ready
    assert ask(peer.broker, "DELETE", f"{ADMIN_TOPIC}/backlogQuota")[0] == 204
    peer.broker.tick(60.0)
    assert [one.DESCRIPTOR.name for one in peer.answers()] == ["CommandCloseProducer"] * 2
    assert ask(peer.broker, "DELETE", f"{NAMESPACE}/backlogQuota")[0] == 204
    assert peer.producer().producer_ready


@pytest.mark.parametrize(("kept", "quota", "fits"), [
    ((10, 1), {"limitSize": 1048576}, False),
    ((10, 1), {"limitSize": 1048575, "limitTime": 599}, True),
    ((10, 1), {"limitSize": 1048575, "limitTime": 600}, False),
    ((10, 1), {"limitSize": -1}, True),
    ((-1, 1), {"limitSize": 1048576}, False),
    ((-1, 1), {"limitTime": 600}, True),
    ((10, -1), {"limitSize": 10000000}, True),
    ((10, -1), {"limitTime": 600}, False),
    ((0, 0), {"limitSize": 10000000, "limitTime": 600}, True),
])  # fmt: skip
@pytest.mark.parametrize("place", [NAMESPACE, ADMIN_TOPIC])
def test_retention_keeps_more_than_the_backlog_quota(peer, kept, quota, fits, place):
    where, quota = "namespace" if place == NAMESPACE else "topic", {**quota, "policy": "producer_exception"}
    broker = peer.broker
    ask(broker, "PUT", ADMIN_TOPIC)
    wide = f"Backlog Quota exceeds configured retention quota for {where}. Please increase retention quota and retry"
    small = f"Retention Quota must exceed configured backlog quota for {where}."
    give(peer, f"{NAMESPACE}/retention", retention(*kept))
    assert ask(broker, "POST", f"{place}/backlogQuota", quota) == ((204, b"") if fits else (412, {"reason": wide}))
    for policy in ("retention", "backlogQuota"):
        ask(broker, "DELETE", f"{NAMESPACE}/{policy}")
    give(peer, f"{NAMESPACE}/backlogQuota", quota)
    assert ask(broker, "POST", f"{place}/retention", retention(*kept)) == ((204, b"") if fits else (412, {"reason": small}))


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


# Message TTL and deduplication


@pytest.mark.parametrize("place", [f"{NAMESPACE}/messageTTL", f"{ADMIN_TOPIC}/messageTTL?messageTTL=100"])
def test_old_messages_are_acknowledged(place):
    peer = Peer(make_broker(keepAliveIntervalSeconds="1000000", messageExpiryCheckIntervalInMinutes="1"))
    peer.producer()
    peer.subscribe()
    give(peer, place, None if "?" in place else 100)
    peer.publish("a", at=1000)
    peer.publish("b", at=90_000)
    peer.publish("c", at=1000)
    peer.frames()
    for minute in range(1, 3):
        peer.broker.tick(60.0 * minute)
        assert peer.broker.loaded(TOPIC).subscriptions["s"].backlog == 3, "a small backlog of consumers expires late"
    peer.broker.tick(180.0)
    assert peer.flow(5) == ["b", "c"], "messages go in order"


def test_deduplication(peer):
    give(peer, f"{NAMESPACE}/deduplication", True)
    assert peer.producer(producer_name="x").last_sequence_id == -1
    peer.subscribe()
    sent = [0, 1, 1, 0, 2]
    for number in sent:
        peer.send("send", encode_payload(METADATA, b"%d" % number), producer_id=1, sequence_id=number)
    peer.send("send", encode_payload(METADATA, b"3-5"), producer_id=1, sequence_id=3, highest_sequence_id=5, num_messages=3)
    for number in (4, 5, 6):
        peer.send("send", encode_payload(METADATA, b"%d" % number), producer_id=1, sequence_id=number)
    ids = [one.message_id for one in peer.answers()]
    assert [one.entryId == one.ledgerId == 2**64 - 1 for one in ids] == [False, False, True, True, False, False, True, True, False]
    assert peer.flow(20) == ["0", "1", "2", "3-5", "6"]
    assert peer.producer(producer_id=2, producer_name="y").last_sequence_id == -1
    peer.send("close_producer", producer_id=1, request_id=3)
    peer.frames()
    assert peer.producer(producer_name="x").last_sequence_id == 6
    again = Peer(make_broker(peer.broker.store))
    assert again.producer(producer_name="x").last_sequence_id == 6
    give(again, f"{NAMESPACE}/deduplication", False)
    again.publish("a")
    assert again.answers()[0].message_id.entryId == 5
    give(again, f"{NAMESPACE}/deduplication", True)
    assert again.producer(producer_id=2, producer_name="x2").last_sequence_id == -1


def test_chunks_have_one_sequence_id():
    peer = Peer(make_broker(brokerDeduplicationEnabled="true"))
    peer.producer(producer_name="x")
    for chunk in (0, 1, 2, 0, 1, 2):
        metadata = MessageMetadata(producer_name="x", sequence_id=7, publish_time=0, uuid="u", num_chunks_from_msg=3, chunk_id=chunk)
        peer.send("send", encode_payload(metadata, b"c"), producer_id=1, sequence_id=7)
    assert [one.message_id.entryId for one in peer.answers()] == [0, 1, 2, 3, 4, 2**64 - 1]
