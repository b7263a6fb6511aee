import pytest

from refimpl.broker import AdminRefused, Broker, Configuration
from refimpl.broker.names import parse_topic
from refimpl.names import is_namespace
from refimpl.proposals.refused import Refused
from refimpl.timers import Timers
from refimpl.wire.pulsar_api_pb2 import AuthorizationError, ConsumerBusy, InvalidTopicName, NotAllowedError, ProducerBusy, TopicNotFound
from tests.fakes.broker_peer import TOPIC, Peer, make_broker
from tests.samples.tokens import tokens


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


def test_keep_alive() -> None:
    broker = make_broker()
    silent, answering, old, nobody = Peer(broker), Peer(broker), Peer(broker, version=0), Peer(broker, connect=False)
    broker.tick(30.0)
    assert nobody.session.closing
    assert [one.DESCRIPTOR.name for one in silent.answers() + answering.answers()] == ["CommandPing"] * 2
    assert old.answers() == []
    answering.send("pong")
    broker.tick(60.0)
    assert (silent.session.closing, answering.session.closing, old.session.closing) == (True, False, False)


def test_a_dead_owner_loses_its_subscription_and_a_live_one_keeps_it() -> None:
    broker = make_broker()
    owner, second = Peer(broker), Peer(broker)
    owner.subscribe()
    request = {"topic": TOPIC, "subscription": "s", "subType": "Exclusive", "consumer_id": 1, "request_id": 5}
    second.send("subscribe", **request)
    assert second.answers() == []
    owner.send("pong")
    (refused,) = second.answers()
    assert refused.error == ConsumerBusy
    second.send("subscribe", **request)
    broker.tick(5.0)
    assert owner.session.closing
    assert [one.request_id for one in second.answers()] == [5]


def test_producer_names() -> None:
    broker = make_broker()
    first, second = Peer(broker), Peer(broker)
    generated = first.producer().producer_name
    assert first.producer(producer_id=2, producer_name="mine").producer_name == "mine"
    assert first.producer(producer_id=3, producer_name="mine").error == ProducerBusy
    again = {"producer_name": generated, "user_provided_producer_name": False}
    assert first.producer(producer_id=3, epoch=0, **again).error == ProducerBusy
    assert second.producer(producer_id=3, epoch=1, **again).producer_name == generated
    assert list(first.session.producers) == [2]


def test_the_name_of_a_dead_producer_passes_on() -> None:
    broker = make_broker()
    owner, second = Peer(broker), Peer(broker)
    owner.producer(producer_name="mine")
    request = {"topic": TOPIC, "producer_id": 1, "request_id": 5, "producer_name": "mine"}
    second.send("producer", **request)
    owner.send("pong")
    assert [one.error for one in second.answers()] == [ProducerBusy]
    second.send("producer", **request)
    broker.tick(5.0)
    assert owner.session.closing
    assert [one.producer_name for one in second.answers()] == ["mine"]


def test_partitioned_topics() -> None:
    broker = make_broker(allowAutoTopicCreationType="partitioned", defaultNumPartitions="3")
    peer = Peer(broker)
    assert peer.ask("partitionMetadata", topic="p", request_id=1).partitions == 3
    assert peer.producer("persistent://public/default/p").error == NotAllowedError
    assert peer.producer("persistent://public/default/p-partition-3").error == TopicNotFound
    assert peer.producer("persistent://public/default/p-partition-2").producer_name
    assert len(broker.persistent_topics("public/default")) == 3


def test_roles() -> None:
    key = "data:;base64,a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="
    broker = make_broker(authenticationEnabled="true", authorizationEnabled="true", tokenSecretKey=key, superUserRoles="root, admin")
    token = tokens("admin", "user")

    def connect(text: str) -> Peer:
        peer = Peer(broker, connect=False)
        peer.send("connect", client_version="x", protocol_version=21, auth_method_name="token", auth_data=text.encode())
        peer.frames()
        return peer

    assert connect("nonsense").session.closing
    assert connect(token["user"]).producer().error == AuthorizationError
    assert connect(token["admin"]).producer().producer_name
    broker.admin.grant_permission("public/default", "user", ["produce"])
    user = connect(token["user"])
    assert user.producer().producer_name
    assert user.subscribe().error == AuthorizationError
    assert broker.admin.authenticate(token["user"]) == "user"
    with pytest.raises(AdminRefused) as caught:
        broker.admin.check_access("user", "public")
    assert caught.value.status == 403


def test_a_revoked_permission_ends_a_watch() -> None:
    key = "data:;base64,a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="
    broker = make_broker(authenticationEnabled="true", authorizationEnabled="true", tokenSecretKey=key)
    broker.admin.grant_permission("public/default", "user", ["consume"])
    peer = Peer(broker, connect=False)
    peer.send("connect", client_version="x", protocol_version=21, auth_method_name="token", auth_data=tokens("user")["user"].encode())
    peer.frames()
    peer.ask("watchTopicList", request_id=1, watcher_id=7, namespace="public/default", topics_pattern=".*/default/t.*")
    broker.admin.revoke_permission("public/default", "user")
    broker.admin.create_topic(TOPIC)
    broker.admin.grant_permission("public/default", "user", ["consume"])
    broker.admin.create_topic(TOPIC + "2")
    assert peer.answers() == []


def test_a_broker_from_before_the_proposal() -> None:
    broker = Broker(proposals=frozenset())
    broker.admin.create_topic(TOPIC)
    peer = Peer(broker)
    answer = peer.ask("getTopicsOfNamespace", request_id=1, namespace="public/default", topics_pattern="nothing", topics_hash="00000000")
    assert list(answer.topics) == [TOPIC]
    assert not any(answer.HasField(name) for name in ("filtered", "topics_hash", "changed"))
    peer.send("watchTopicList", request_id=1, watcher_id=7, namespace="public/default", topics_pattern=".*")
    assert peer.session.closing


@pytest.mark.parametrize("name", ["newTxn", "addPartitionToTxn"])
def test_what_is_not_built_is_refused_politely(name: str) -> None:
    answer = Peer(make_broker()).ask(name, request_id=9)
    assert (answer.request_id, answer.error if name == "newTxn" else answer.DESCRIPTOR.name) is not None


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
