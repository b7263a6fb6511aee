"""Several brokers over one store: who owns a bundle, what the others do, and what an unload changes."""

from __future__ import annotations

import pytest

from refimpl.broker import Broker, Configuration, Member
from refimpl.broker.rest import handle
from refimpl.proposals.administration import AdminRequest
from refimpl.wire.pulsar_api_pb2 import CommandLookupTopicResponse, ServiceNotReady
from tests.fakes.broker_peer import Peer

CONNECT, REDIRECT = CommandLookupTopicResponse.Connect, CommandLookupTopicResponse.Redirect
LEADER, SECOND, THIRD = (Member(f"pulsar://b:{number}", f"http://b:{8000 + number}") for number in (1, 2, 3))


@pytest.fixture
def broker() -> Broker:
    return Broker(Configuration(), members=[LEADER, SECOND])


def topic_of(broker: Broker, member: Member) -> str:
    """Return a topic in a namespace of its own, whose bundle it is this broker's turn to own."""
    for number in range(100):
        namespace = f"public/n{number}"
        if namespace in broker.store.namespaces:
            continue
        broker.admin.create_namespace(namespace, {"bundles": {"numBundles": 1}})
        if broker.members.release(namespace, "0x00000000_0xffffffff") == member:
            return f"persistent://{namespace}/t"
    raise AssertionError("the hash always chooses the same broker")


def look_up(broker: Broker, at: Member, topic: str, **fields: object) -> tuple[int, str, bool]:
    answer = Peer(broker, member=at).ask("lookupTopic", topic=topic, request_id=1, **fields)
    return answer.response, answer.brokerServiceUrl, answer.authoritative


def ask(broker: Broker, at: Member, method: str, path: str, **query: str) -> tuple[int, str | None]:
    answer = handle(broker, AdminRequest(method, path, query), broker.now, at)
    return answer.status, answer.headers.get("Location")


def test_a_look_up_goes_by_the_leader_and_with_authority_to_the_owner(broker: Broker):
    topic = topic_of(broker, SECOND)
    assert look_up(broker, SECOND, topic) == (REDIRECT, LEADER.service_url, False)
    assert look_up(broker, LEADER, topic) == (REDIRECT, SECOND.service_url, True)
    assert look_up(broker, SECOND, topic, authoritative=True) == (CONNECT, SECOND.service_url, True)
    for member in (LEADER, SECOND):  # every broker names an owner that there is
        assert look_up(broker, member, topic) == (CONNECT, SECOND.service_url, True)


def test_with_authority_any_broker_takes_a_bundle_that_nobody_owns(broker: Broker):
    topic = topic_of(broker, SECOND)
    assert look_up(broker, LEADER, topic, authoritative=True) == (CONNECT, LEADER.service_url, True)
    assert look_up(broker, SECOND, topic, authoritative=True) == (CONNECT, LEADER.service_url, True)


def test_only_the_owner_takes_producers_and_consumers(broker: Broker):
    topic = topic_of(broker, SECOND)
    other, owner = Peer(broker, member=LEADER), Peer(broker, member=SECOND)
    for refused in (other.producer(topic), other.subscribe(topic)):
        assert refused.error == ServiceNotReady
        assert "redo the lookup" in refused.message
    assert owner.producer(topic).producer_ready
    assert type(owner.subscribe(topic)).__name__ == "CommandSuccess"


def test_every_broker_lists_all_topics_and_tells_its_watches(broker: Broker):
    topic = topic_of(broker, SECOND)
    namespace = topic.removeprefix("persistent://").removesuffix("/t")
    other, owner = Peer(broker, member=LEADER), Peer(broker, member=SECOND)
    other.ask("watchTopicList", namespace=namespace, topics_pattern=f"{namespace}/.*", watcher_id=1, request_id=1)
    owner.producer(topic)
    (update,) = other.answers()
    assert list(update.new_topics) == [topic]
    listed = [peer.ask("getTopicsOfNamespace", namespace=namespace, request_id=2) for peer in (other, owner)]
    assert [(list(one.topics), one.topics_hash) for one in listed] == [([topic], update.topics_hash)] * 2


def test_an_unload_moves_a_bundle_with_what_is_unacknowledged(broker: Broker):
    topic = topic_of(broker, LEADER)
    namespace = topic.removeprefix("persistent://").removesuffix("/t")
    first = Peer(broker, member=LEADER)
    first.producer(topic)
    first.subscribe(topic)
    first.publish("a", "b")
    assert first.flow(2) == ["a", "b"]
    first.acknowledge(0)
    assert ask(broker, SECOND, "PUT", f"/admin/v2/namespaces/{namespace}/unload")[0] == 204
    assert {type(one).__name__ for one in first.answers()} == {"CommandCloseProducer", "CommandCloseConsumer"}
    assert look_up(broker, LEADER, topic) == (REDIRECT, SECOND.service_url, True)
    second = Peer(broker, member=SECOND)
    second.subscribe(topic)
    assert second.flow(2) == ["b"]
    assert first.subscribe(topic).error == ServiceNotReady


@pytest.mark.parametrize("destination", [LEADER, SECOND])
def test_a_bundle_is_unloaded_to_a_broker_that_is_named(broker: Broker, destination: Member):
    topic = topic_of(broker, SECOND)
    path = f"/admin/v2/namespaces/{topic.removeprefix('persistent://').removesuffix('/t')}/0x00000000_0xffffffff/unload"
    producer = Peer(broker, member=SECOND)
    producer.producer(topic)
    assert ask(broker, SECOND, "PUT", path, destinationBroker="nowhere:1")[0] == 409
    assert producer.answers() == []
    assert ask(broker, SECOND, "PUT", path, destinationBroker=destination.broker_id)[0] == 204
    assert [type(one).__name__ for one in producer.answers()] == ["CommandCloseProducer"]
    assert look_up(broker, LEADER, topic) == (CONNECT, destination.service_url, True)


@pytest.mark.parametrize(
    ("method", "rest", "moved"),
    [
        ("GET", "persistent/{}/t/stats", True),
        ("PUT", "persistent/{}/t", True),
        ("GET", "schemas/{}/t/schema", True),
        ("PUT", "namespaces/{}/0x00000000_0xffffffff/unload", True),
        ("PUT", "namespaces/{}/0x00000000_0x12345678/unload", False),
        ("PUT", "namespaces/{}x/0x00000000_0xffffffff/unload", False),
        ("GET", "persistent/{}/t/partitions", False),
        ("GET", "persistent/{}", False),
        ("GET", "namespaces/{}/bundles", False),
        ("PUT", "persistent/{}x/t", False),
    ],
)
def test_what_only_the_owner_administers_is_redirected(broker: Broker, method: str, rest: str, moved: bool):
    namespace = topic_of(broker, SECOND).removeprefix("persistent://").removesuffix("/t")
    path = f"/admin/v2/{rest.format(namespace)}"
    status, location = ask(broker, LEADER, method, path, a="b c")
    assert (status, location) == (307, f"{SECOND.admin_url}{path}?a=b+c&authoritative=false") if moved else status != 307
    assert ask(broker, SECOND, method, path)[0] != 307


def test_brokers_are_listed_and_have_limits_of_their_own():
    broker = Broker(Configuration.from_settings({"brokerMaxConnections": "1"}), members=[LEADER, SECOND])
    assert broker.admin.brokers() == ["b:8001", "b:8002"]
    assert broker.admin.leader_broker() == {"brokerId": "b:8001", "serviceUrl": "http://b:8001"}
    sessions = [broker.connect(0.0, "", member) for member in (LEADER, SECOND, SECOND)]
    assert [one.closing for one in sessions] == [False, False, True]


def test_a_namespace_that_is_created_again_has_no_owner_left(broker: Broker):
    topic = topic_of(broker, SECOND)
    namespace = topic.removeprefix("persistent://").removesuffix("/t")
    assert look_up(broker, SECOND, topic, authoritative=True)[0] == CONNECT
    broker.admin.delete_namespace(namespace)
    broker.admin.create_namespace(namespace, {"bundles": {"numBundles": 1}})
    assert look_up(broker, SECOND, topic)[0] == REDIRECT
