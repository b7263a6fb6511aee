"""What the statistics of a topic tell besides its counters."""

from __future__ import annotations

from itertools import pairwise

import pytest

from refimpl.net.embedded import EmbeddedBroker
from refimpl.wire import encode_payload
from refimpl.wire.pulsar_api_pb2 import MessageMetadata
from tests.fakes.admin_calls import ask
from tests.fakes.broker_peer import TOPIC, Peer, make_broker

pulsar = pytest.importorskip("pulsar", reason="the client of PyPI is not installed")


@pytest.fixture
def broker():
    with EmbeddedBroker() as running:
        yield running


def test_who_is_there_and_what_was_delivered(broker):
    client = pulsar.Client(broker.service_url)
    kinds = pulsar.ConsumerType
    consumers = {
        kind: client.subscribe(TOPIC, kind.name, kind, consumer_name="mine", properties={"a": "b"})
        for kind in (kinds.Failover, kinds.KeyShared)
    }
    producer = client.create_producer(TOPIC, properties={"c": "d"})
    producer.send(b"one")
    for consumer in consumers.values():
        consumer.acknowledge(consumer.receive(20_000))
    stats = broker.call(lambda one: one.admin.topic_stats(TOPIC))
    (found,) = stats["publishers"]
    assert found["metadata"] == {"c": "d"}
    assert found["clientVersion"].startswith("Pulsar-CPP")
    failover, keys = stats["subscriptions"]["Failover"], stats["subscriptions"]["KeyShared"]
    assert failover["activeConsumerName"] == "mine"
    assert (keys["keySharedMode"], keys["allowOutOfOrderDelivery"], "activeConsumerName" in keys) == ("AUTO_SPLIT", False, False)
    assert keys["consumers"][0]["metadata"] == {"a": "b"}
    assert stats["deduplicationStatus"] == "Disabled"
    consumers[kinds.Failover].close()
    after = broker.call(lambda one: one.admin.topic_stats(TOPIC))["subscriptions"]["Failover"]
    assert (after["consumers"], after["msgOutCounter"], after["bytesOutCounter"] > 0) == ([], 1, True)  # of a consumer that has left
    client.close()


def stats(peer: Peer, query: str = "", path: str = "t/stats"):
    return ask(peer.broker, "GET", f"/admin/v2/persistent/public/default/{path}{query}")[1]


@pytest.fixture
def peer() -> Peer:
    peer = Peer(make_broker())
    peer.producer()
    peer.subscribe(kind="Key_Shared")
    peer.publish("a", "b")
    peer.frames()
    return peer


OPTIONS = [
    ("", 1, 1, 36),
    ("?excludePublishers=true", 0, 1, 36),
    ("?excludeConsumers=true", 1, 0, 36),
    ("?subscriptionBacklogSize=false", 1, 1, -1),
]


@pytest.mark.parametrize(("query", "publishers", "consumers", "size"), OPTIONS)
def test_what_is_left_out(peer, query, publishers, consumers, size):
    found = stats(peer, query)
    subscription = found["subscriptions"]["s"]
    assert (len(found["publishers"]), len(subscription["consumers"]), subscription["backlogSize"]) == (publishers, consumers, size)


def test_the_type_of_a_subscription_is_that_of_its_consumers(peer):
    types = []
    for step in (
        lambda: None,
        lambda: peer.ask("close_consumer", consumer_id=1, request_id=5),
        lambda: peer.broker.admin.unload_topic(TOPIC),
    ):
        step()
        types.append(stats(peer)["subscriptions"]["s"]["type"])
    assert types == ["Key_Shared", "Key_Shared", "None"]


def test_who_has_which_keys(peer):
    (alone,) = stats(peer)["subscriptions"]["s"]["consumers"]
    assert alone["keyHashRangeArrays"] == [[1, 65535]]
    peer.subscribe(kind="Key_Shared", consumer_id=2, consumer_name="other")
    both = [one["keyHashRangeArrays"] for one in stats(peer)["subscriptions"]["s"]["consumers"]]
    ranges = sorted(one for ranges in both for one in ranges)
    assert (ranges[0][0], ranges[-1][1]) == (1, 65535)
    assert all(end + 1 == begin for (_, end), (begin, _) in pairwise(ranges))
    meta = {"keySharedMode": "STICKY", "hashRanges": [{"start": 5, "end": 9}]}
    peer.subscribe(kind="Key_Shared", consumer_id=3, name="sticky", keySharedMeta=meta)
    assert stats(peer)["subscriptions"]["sticky"]["consumers"][0]["keyHashRangeArrays"] == [[5, 9]]


def test_delayed_messages_that_are_skipped_are_not_waited_for(peer):
    peer.send("flow", consumer_id=1, messagePermits=10)
    metadata = MessageMetadata(producer_name="p", sequence_id=2, publish_time=0, deliver_at_time=9_000_000_000_000)
    peer.send("send", encode_payload(metadata, b"late"), producer_id=1, sequence_id=2)
    counted = ("msgBacklog", "msgBacklogNoDelayed", "msgDelayed")
    assert [stats(peer)["subscriptions"]["s"][key] for key in counted] == [3, 2, 1]
    ask(peer.broker, "POST", "/admin/v2/persistent/public/default/t/subscription/s/skip_all")
    assert [stats(peer)["subscriptions"]["s"][key] for key in counted] == [0, 0, 0]


@pytest.mark.parametrize("kind", ["Failover", "Key_Shared"])
def test_the_sums_of_partitions(peer, kind):
    peer.broker.admin.create_partitioned_topic(f"{TOPIC}s", 2)
    for number in range(2):
        part = f"{TOPIC}s-partition-{number}"
        peer.producer(part, producer_id=10 + number)
        fields = {"subscription": "s", "subType": kind, "consumer_id": 10 + number, "request_id": 2, "consumer_name": "c"}
        peer.send("subscribe", topic=part, **fields)
        peer.send("flow", consumer_id=10 + number, messagePermits=10)
        peer.publish("x", producer_id=10 + number, at=1000 * (number + 1))
        peer.frames()
    found = stats(peer, path="ts/partitioned-stats")
    (subscription,), (consumer,) = found["subscriptions"].values(), found["subscriptions"]["s"]["consumers"]
    assert (found["msgInCounter"], found["storageSize"], found["backlogSize"]) == (2, 38, 38)
    assert found["publishers"] == [{"accessMode": "Shared", "msgInCounter": 2}]
    assert (subscription["type"], subscription["msgBacklog"], subscription["isDurable"]) == (kind, 2, True)
    assert (consumer["consumerName"], consumer["msgOutCounter"]) == ("c", 2)
    assert not {"ownerBroker", "deduplicationStatus", "activeConsumerName", "address", "producerName"} & {*found, *subscription, *consumer}
    times = stats(peer, "?getEarliestTimeInBacklog=true", "ts/partitioned-stats")
    assert (times["earliestMsgPublishTimeInBacklogs"], times["subscriptions"]["s"]["earliestMsgPublishTimeInBacklog"]) == (1000, 1000)
    left = stats(peer, "?perPartition=false&excludeConsumers=true&excludePublishers=true", "ts/partitioned-stats")
    assert (left["partitions"], left["publishers"], left["subscriptions"]["s"]["consumers"]) == ({}, [], [])
    assert [one["ownerBroker"] for one in found["partitions"].values()] == [peer.broker.members.leader.broker_id] * 2


def test_whether_other_clusters_should_have_a_subscription():
    peer = Peer(make_broker())
    peer.subscribe(name="both", replicate_subscription_state=True)
    peer.send("close_consumer", consumer_id=1, request_id=3)
    peer.frames()
    path = "/admin/v2/persistent/public/default/t"
    assert ask(peer.broker, "PUT", f"{path}/subscription/admin?replicated=true")[0] == 204
    assert ask(peer.broker, "PUT", f"{path}/subscription/none")[0] == 204

    def told():
        return {name: one["isReplicated"] for name, one in ask(peer.broker, "GET", f"{path}/stats")[1]["subscriptions"].items()}

    assert told() == {"both": True, "admin": True, "none": False}
    peer.subscribe(name="both")
    peer.subscribe(name="admin", consumer_id=2, replicate_subscription_state=False)
    assert told() == {"both": True, "admin": False, "none": False}


def test_positions_are_told_in_the_form_of_pulsar():
    peer = Peer(make_broker())
    peer.producer()
    peer.publish(*"abcdefghi")
    peer.frames()
    peer.subscribe(kind="Shared")
    peer.flow(8)
    peer.acknowledge(1, 2, 4, 7)
    stats = ask(peer.broker, "GET", "/admin/v2/persistent/public/default/t/internalStats")[1]
    cursor = stats["cursors"]["s"]
    assert cursor["individuallyDeletedMessages"] == "[(1:0..1:2],(1:3..1:4],(1:6..1:7]]"
    assert (cursor["markDeletePosition"], cursor["readPosition"], cursor["totalNonContiguousDeletedMessagesRange"]) == ("1:-1", "1:8", 3)
    assert (stats["currentLedgerEntries"], stats["currentLedgerSize"], stats["state"]) == (9, stats["totalSize"], "LedgerOpened")
    assert [(one["entries"], one["size"]) for one in stats["ledgers"]] == [(0, 0)]
    peer.acknowledge(0, 3, 5, 6)
    ask(peer.broker, "POST", "/admin/v2/persistent/public/default/t/terminate")
    stats = ask(peer.broker, "GET", "/admin/v2/persistent/public/default/t/internalStats")[1]
    assert (stats["cursors"]["s"]["individuallyDeletedMessages"], stats["state"]) == ("[]", "Terminated")
