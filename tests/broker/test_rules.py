from collections.abc import Callable

import pytest

from refimpl.broker import AdminRefused, Broker, Configuration, failover
from refimpl.broker.admin import Admin
from refimpl.broker.names import parse_topic
from refimpl.names import is_namespace
from refimpl.proposals.refused import Refused
from refimpl.timers import Timers
from refimpl.wire.pulsar_api_pb2 import InvalidTopicName, NotAllowedError, ProducerBusy, TopicNotFound
from tests.fakes.broker_peer import TOPIC, Peer, make_broker


@pytest.mark.parametrize(
    ("text", "full", "namespace", "partition"),
    [
        ("t", "persistent://public/default/t", "public/default", -1),
        ("a/b/c", "persistent://a/b/c", "a/b", -1),
        ("non-persistent://a/b/c-partition-7", "non-persistent://a/b/c-partition-7", "a/b", 7),
        ("persistent://a/b/c-partition-07", "persistent://a/b/c-partition-07", "a/b", -1),
        ("persistent://a/b/x y%2Fz.*", "persistent://a/b/x y%2Fz.*", "a/b", -1),
    ],
)
def test_topic_names(text: str, full: str, namespace: str, partition: int) -> None:
    name = parse_topic(text)
    assert (name.full, name.namespace, name.partition) == (full, namespace, partition)


@pytest.mark.parametrize(
    "text", ["", "a/b", "a/b/c/d", "x://a/b/c", "persistent://a/b", "persistent://a/b/", "persistent://a b/c/d", "persistent://a/b/c/d"]
)
def test_names_that_are_none(text: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_topic(text)
    assert caught.value.code == InvalidTopicName


def test_namespaces() -> None:
    assert is_namespace("a/b")
    assert is_namespace("a-1/b_2.c")
    assert is_namespace("a/b/", lenient=True)
    assert not any(is_namespace(text) for text in ("", "a", "a/", "a/b/", "/a", "a/b/c", "a/b c", "a//b", "persistent://a/b"))


def test_settings_are_checked() -> None:
    assert Configuration.from_settings({"maxMessageSize": "7"}).max_message_size == 7
    for settings, text in [
        ({"maxMesageSize": "7"}, "did you mean 'maxMessageSize'"),
        ({"maxMessageSize": "-1"}, "whole number from 1"),
        ({"authenticationEnabled": "yes"}, "true or false"),
        ({"allowAutoTopicCreationType": "x"}, "non-partitioned or partitioned"),
    ]:
        with pytest.raises(ValueError, match=text):
            Configuration.from_settings(settings)
    assert Configuration(token_secret_key="k").settings()["tokenSecretKey"] == "***"


def test_timers_run_in_order_and_can_be_cancelled() -> None:
    timers, ran = Timers(), []
    timers.at(2.0, lambda: ran.append("b"))
    timers.at(1.0, lambda: ran.append("a"))
    timers.at(1.5, lambda: ran.append("never")).cancel()
    assert timers.next_deadline() == 1.0
    timers.run(1.9)
    assert (ran, timers.next_deadline()) == (["a"], 2.0)
    timers.run(2.0)
    assert (ran, timers.next_deadline()) == (["a", "b"], None)


@pytest.mark.parametrize("epoch", [0, 1])
def test_no_epoch_takes_the_generated_name_of_a_producer_that_is_open(epoch: int) -> None:
    broker = make_broker()
    first, second = Peer(broker), Peer(broker)
    generated = first.producer().producer_name
    again = {"topic": TOPIC, "producer_id": 3, "producer_name": generated, "user_provided_producer_name": False, "epoch": epoch}
    first.send("producer", request_id=5, **again)
    assert [one.error for one in first.answers()] == [ProducerBusy]
    second.send("producer", request_id=5, **again)
    first.send("pong")
    assert [one.error for one in second.answers()] == [ProducerBusy]
    assert (list(first.session.producers), list(second.session.producers)) == ([1], [])


def test_the_name_of_a_dead_producer_passes_on_and_that_of_a_live_one_stays() -> None:
    broker = make_broker()
    owner, second = Peer(broker), Peer(broker)
    owner.producer(producer_name="mine")
    request = {"topic": TOPIC, "producer_id": 1, "request_id": 5, "producer_name": "mine"}
    second.send("producer", **request)
    owner.send("pong")
    assert [one.error for one in second.answers()] == [ProducerBusy]
    broker.tick(5.0)
    assert not owner.session.closing
    second.send("producer", **request)
    broker.tick(10.0)
    assert owner.session.closing
    assert [one.producer_name for one in second.answers()] == ["mine"]


def test_a_check_of_liveness_right_before_a_ping_of_the_keep_alive_is_none_of_its_pings() -> None:
    broker = make_broker()
    owner, second = Peer(broker), Peer(broker)
    owner.producer(producer_name="mine")
    broker.tick(29.9)
    second.send("producer", topic=TOPIC, producer_id=1, request_id=5, producer_name="mine")
    broker.tick(30.0)
    assert not owner.session.closing
    owner.send("pong")
    assert ProducerBusy in [getattr(one, "error", None) for one in second.answers()]


def test_super_users_are_listed_with_commas_and_spaces() -> None:
    authorization = make_broker(authorizationEnabled="true", superUserRoles="root, admin,").authorization
    assert [role for role in ("root", "admin", "root, admin", "", None) if authorization.is_super_user(role)] == ["root", "admin"]


def test_a_broker_from_before_the_proposal() -> None:
    broker = Broker(proposals=frozenset())
    broker.admin.create_topic(TOPIC)
    peer = Peer(broker)
    answer = peer.ask("getTopicsOfNamespace", request_id=1, namespace="public/default", topics_pattern="nothing", topics_hash="00000000")
    assert list(answer.topics) == [TOPIC]
    assert not any(answer.HasField(name) for name in ("filtered", "topics_hash", "changed"))
    peer.send("watchTopicList", request_id=1, watcher_id=7, namespace="public/default", topics_pattern=".*")
    assert peer.session.closing


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("newTxn", "CommandError"),
        ("addPartitionToTxn", "CommandError"),
        ("endTxnOnPartition", "CommandEndTxnOnPartitionResponse"),
        ("endTxnOnSubscription", "CommandEndTxnOnSubscriptionResponse"),
    ],
)
def test_what_is_not_built_is_refused_politely(name: str, form: str) -> None:
    """In the forms of a 4.2.4 without transactions."""
    peer = Peer(make_broker())
    answer = peer.ask(name, request_id=9)
    assert (answer.DESCRIPTOR.name, answer.request_id, answer.error) == (form, 9, NotAllowedError)
    assert not peer.session.closing


@pytest.mark.parametrize(
    ("local", "status"),
    [
        *((f"a-partition-{number}", 412) for number in ("0", "01", "00", "+1", "-1", "2147483648", "99999999999", "\u0663")),
        *((f"a-partition-{text}", None) for text in ("", "1x", " 1", "1-partition-02")),
        ("A-Partition-0", None),
        ("p-partition-01", None),
        ("p-partition-1", 409),
        ("p-partition-5", 412),
    ],
)
def test_a_topic_that_ends_like_a_partition_can_be_created_only_where_it_may_be_one(local, status):
    """Observed on Apache Pulsar 2.10.5 and 4.2.4."""
    broker = Broker(Configuration())
    broker.admin.create_partitioned_topic("persistent://public/default/p", 2)
    topic = f"persistent://public/default/{local}"
    if status is None:
        broker.admin.create_topic(topic)
        assert topic in broker.admin.topics("public/default", "persistent")
    else:
        with pytest.raises(AdminRefused) as caught:
            broker.admin.create_topic(topic)
        assert caught.value.status == status


def test_a_name_of_a_partition_needs_its_partitioned_topic() -> None:
    broker = make_broker()
    peer = Peer(broker)
    for domain in ("persistent", "non-persistent"):
        part = f"{domain}://public/default/p-partition-"
        assert peer.producer(f"{part}0").error == NotAllowedError
        assert peer.subscribe(f"{part}0").error == NotAllowedError
        broker.admin.create_partitioned_topic(f"{domain}://public/default/p", 1)
        assert peer.producer(f"{part}1").error == (TopicNotFound if domain == "persistent" else NotAllowedError)
        assert peer.subscribe(f"{part}0", consumer_id=9).request_id == 2
        peer.ask("close_consumer", consumer_id=9, request_id=3)


def test_a_deleted_partition_is_created_again() -> None:
    broker = make_broker()
    broker.admin.create_partitioned_topic(TOPIC, 2)
    for again in (lambda: Peer(broker).producer(f"{TOPIC}-partition-0"), lambda: broker.admin.update_partitioned_topic(TOPIC, 2)):
        broker.admin.delete_topic(f"{TOPIC}-partition-0", force=True)
        with pytest.raises(AdminRefused, match="Topic partitions were not yet created"):
            broker.admin.unload_topic(TOPIC)
        assert broker.persistent_topics("public/default") == [f"{TOPIC}-partition-1"]
        again()
        assert broker.persistent_topics("public/default") == [f"{TOPIC}-partition-0", f"{TOPIC}-partition-1"]


@pytest.mark.parametrize(
    ("call", "status"),
    [
        (lambda admin: admin.create_partitioned_topic(f"{TOPIC}-partition-x", 1), 412),
        (lambda admin: admin.update_partitioned_topic(f"{TOPIC}-partition-0", 1), 412),
        (lambda admin: admin.create_topic(f"{TOPIC}-partition-0-partition-0"), 409),
        (lambda admin: admin.delete_partitioned_topic(f"{TOPIC}-partition-0"), 412),
        (lambda admin: admin.delete_topic(TOPIC), 409),
        (lambda admin: admin.delete_partitioned_topic(f"{TOPIC}-plain"), 409),
        (lambda admin: admin.delete_partitioned_topic(f"{TOPIC}-missing"), 404),
    ],
)
def test_topics_with_and_without_partitions_are_told_apart(call: Callable[[Admin], None], status: int) -> None:
    admin = make_broker().admin
    admin.create_partitioned_topic(TOPIC, 1)
    admin.create_topic(f"{TOPIC}-plain")
    with pytest.raises(AdminRefused) as caught:
        call(admin)
    assert caught.value.status == status


def test_a_subscription_is_durable_or_not_for_all_consumers() -> None:
    first, second = Peer(broker := make_broker()), Peer(broker)
    first.subscribe()
    assert second.subscribe(durable=False).error == NotAllowedError
    first.subscribe(consumer_id=2, kind="Shared", name="r", durable=False)
    assert second.subscribe(kind="Shared", name="r").error == NotAllowedError
    topic = f"non-{TOPIC}"
    first.subscribe(topic, consumer_id=3, kind="Shared")
    assert second.subscribe(topic, kind="Shared", durable=False).request_id == 2


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "Empty subscription name"),
        (" \n", "Empty subscription name"),
        ("pulsar.dedup", "Subscription with reserved subscription name attempted"),
        ("pulsar.repl.other", "Subscription with reserved subscription name attempted"),
    ],
)
def test_names_that_no_subscription_has(name: str, reason: str) -> None:
    answer = Peer(make_broker()).subscribe(name=name)
    assert (answer.error, answer.message) == (ProducerBusy, reason)


@pytest.mark.parametrize(("permits", "closes"), [(0, True), (1, False), (2**31 - 1, False), (2**31, True), (2**32 - 1, True)])
def test_permits_are_a_number_above_zero_for_java(permits: int, closes: bool) -> None:
    peer = Peer(make_broker())
    peer.subscribe()
    peer.send("flow", consumer_id=1, messagePermits=permits)
    assert peer.session.closing == closes


def test_an_empty_name_of_a_producer_is_a_name() -> None:
    peer = Peer(make_broker())
    assert peer.producer(producer_name="").producer_name == ""
    assert peer.producer(producer_id=2, producer_name="").error == ProducerBusy
    assert peer.producer(producer_id=3).producer_name != ""


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_who_does_not_ask_for_partitions_gets_a_topic_without(kind: str) -> None:
    broker = make_broker(allowAutoTopicCreationType="partitioned", defaultNumPartitions="2")
    peer = Peer(broker)
    answer = peer.producer() if kind == "producer" else peer.subscribe()
    assert answer.DESCRIPTOR.name in ("CommandProducerSuccess", "CommandSuccess")
    assert broker.admin.topics("public/default", "persistent") == [TOPIC]


def test_a_partition_beyond_the_last_one_has_no_partitions() -> None:
    peer = Peer(make_broker())
    peer.broker.admin.create_partitioned_topic(TOPIC, 2)
    ask = [peer.ask("partitionMetadata", topic=f"{TOPIC}-partition-{number}", request_id=number) for number in (1, 2)]
    assert [answer.error for answer in ask] == [0, TopicNotFound]


def test_a_client_asks_who_a_consumer_is() -> None:
    peer = Peer(make_broker())
    peer.subscribe()
    stats = peer.ask("consumerStats", consumer_id=1, request_id=3)
    assert (stats.address, stats.connectedSince) == ("/", "1970-01-01T00:00:00Z")


def test_a_seek_without_stored_messages_leaves_the_consumer_open() -> None:
    peer = Peer(make_broker())
    peer.subscribe(f"non-{TOPIC}")
    assert peer.ask("seek", consumer_id=1, request_id=5, message_id={"ledgerId": 0, "entryId": 0}).request_id == 5
    assert list(peer.session.consumers) == [1]


def changes(*peers: Peer) -> list[list[bool]]:
    return [[one.is_active for one in peer.answers() if one.DESCRIPTOR.name == "CommandActiveConsumerChange"] for peer in peers]


def join(peer: Peer, topic: str, name: str, consumer_id: int = 1) -> None:
    peer.send("subscribe", topic=topic, subscription="s", subType="Failover", consumer_id=consumer_id, consumer_name=name, request_id=1)


def test_a_new_active_consumer_is_told_to_all_and_an_old_one_to_who_joins() -> None:
    broker = make_broker()
    broker.admin.create_partitioned_topic(TOPIC, 2)
    first, second, third = peers = [Peer(broker) for _ in range(3)]
    told = []
    for peer, name in zip(peers, "bac", strict=True):
        join(peer, f"{TOPIC}-partition-0", name)
        told.append(changes(*peers))
    assert told == [[[True], [], []], [[False], [True], []], [[], [], [False]]]
    second.session.eof(0.0)
    assert changes(first, third) == [[True], [False]]


def test_only_who_joins_a_non_persistent_topic_is_told_of_another_active_consumer() -> None:
    first, second = peers = [Peer(broker := make_broker()), Peer(broker)]
    for peer, name in zip(peers, "ab", strict=True):
        join(peer, f"non-{TOPIC}", name)
    assert changes(first, second) == [[], [False]]
    first.session.eof(0.0)
    assert changes(second) == [[]]


def test_consumers_that_leave_together_are_not_made_active() -> None:
    leaving = Peer(broker := make_broker())
    broker.admin.create_partitioned_topic(TOPIC, 1)
    for number, name in enumerate("ab"):
        join(leaving, f"{TOPIC}-partition-0", name, number)
    staying = Peer(broker)
    join(staying, f"{TOPIC}-partition-0", "c")
    assert changes(staying) == [[False]]
    leaving.session.eof(0.0)
    assert changes(staying) == [[True]]


@pytest.mark.parametrize(("text", "hashed"), [("", 0), ("hello", 0x248BFA47), ("hello, world", 0x149BBB7F)])
def test_the_hash_of_the_ring(text: str, hashed: int) -> None:
    assert failover._hash(text) == hashed


def test_without_partitions_a_ring_of_hashes_finds_the_active_consumer() -> None:
    broker = make_broker()
    found = set()
    for number in range(20):
        peer = Peer(broker)
        for consumer, name in enumerate("abc"):
            join(peer, f"{TOPIC}-{number}", name, consumer)
        last = [one for one in peer.answers() if one.DESCRIPTOR.name == "CommandActiveConsumerChange" and one.is_active][-1]
        found.add(last.consumer_id)
    assert found == {0, 1, 2}


def test_a_reader_that_seeks_leaves_its_subscription_to_others() -> None:
    peer = Peer(make_broker())
    peer.subscribe(durable=False)
    peer.send("seek", consumer_id=1, request_id=5, message_id={"ledgerId": 2**64 - 1, "entryId": 2**64 - 1})
    peer.answers()
    assert peer.subscribe().request_id == 2


def test_a_persistent_topic_is_not_created_by_default_beside_a_scalable_one_of_its_name() -> None:
    broker = make_broker()
    broker.extensions["pr25648"].admin.create_scalable_topic("topic://public/default/t", {})
    peer = Peer(broker)
    assert peer.producer().error == peer.subscribe().error == peer.producer(f"{TOPIC}-partition-0").error == TopicNotFound
    for create in (True, False):
        answer = peer.ask("partitionMetadata", topic=TOPIC, request_id=3, metadata_auto_creation_enabled=create)
        assert answer.error == TopicNotFound
    assert peer.producer(f"non-{TOPIC}").request_id == 1
    broker.admin.create_topic(TOPIC)
    assert peer.producer(producer_id=2).request_id == 1


def test_a_topic_counts_its_exclusive_producers() -> None:
    broker = make_broker()
    epochs = []
    for mode in ("Shared", "Exclusive", "Shared", "Exclusive"):
        peer = Peer(broker)
        answer = peer.producer(producer_access_mode=mode)
        epochs.append(answer.topic_epoch if answer.HasField("topic_epoch") else None)
        peer.session.eof(0.0)
        broker.admin.unload_topic(TOPIC)
    assert epochs == [None, 0, 0, 1]


def test_a_refused_deletion_takes_the_partitions_that_are_not_in_use() -> None:
    broker = make_broker()
    broker.admin.create_partitioned_topic(TOPIC, 3)
    Peer(broker).producer(f"{TOPIC}-partition-1")
    with pytest.raises(AdminRefused):
        broker.admin.delete_partitioned_topic(TOPIC)
    assert broker.admin.topics("public/default", "persistent") == [f"{TOPIC}-partition-1"]
    broker.admin.update_partitioned_topic(TOPIC, 3)
    assert len(broker.admin.topics("public/default", "persistent")) == 3


def test_the_answer_to_a_repeated_producer_has_no_topic_epoch() -> None:
    peer = Peer(make_broker())
    assert [peer.producer(producer_access_mode="Exclusive").HasField("topic_epoch") for _ in range(2)] == [True, False]
