"""What policies of namespaces and topics do, and that none is taken without an effect."""

from __future__ import annotations

import json

import pytest

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
from tests.fakes.admin_calls import ADMIN_TOPIC, NAMESPACE, ask, auto_creation, give, retention
from tests.fakes.broker_peer import TOPIC, Peer, make_broker

MIB = 1024 * 1024
METADATA = MessageMetadata(producer_name="p", sequence_id=0, publish_time=0)


@pytest.fixture
def peer() -> Peer:
    return Peer(make_broker(keepAliveIntervalSeconds="1000000"))


# Retention


@pytest.fixture
def small_ledgers(monkeypatch):
    monkeypatch.setattr(memory, "LEDGER_ENTRIES", 10)


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
