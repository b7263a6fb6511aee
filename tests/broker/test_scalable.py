"""Scalable topics on the broker: watches, look-ups, segments, permissions, administration."""

from __future__ import annotations

import json
from urllib.parse import parse_qsl

import pytest

from refimpl.broker import AdminRefused, Broker, bundles
from refimpl.broker.rest import handle
from refimpl.proposals.administration import AdminRequest
from refimpl.proposals.scalable_topics import ScalableTopicsExtension
from refimpl.wire.pulsar_api_pb2 import AuthorizationError, InvalidTopicName, NotAllowedError, TopicNotFound
from tests.fakes.broker_peer import Peer, make_broker
from tests.samples.tokens import TOKEN_SECRET_KEY, tokens

NS = "public/default"
X = f"topic://{NS}/x"
SEGMENT = f"segment://{NS}/x/0000-ffff-0"
SCALABLE = f"/admin/v2/scalable/{NS}"


def ask(broker: Broker, method: str, path: str, body: object = None, token: str | None = None):
    place, _, query = path.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    filters = tuple(value for key, value in pairs if key == "property")
    data = b"" if body is None else json.dumps(body).encode()
    answer = handle(broker, AdminRequest(method, place, dict(pairs), data, token, filters), broker.now)
    return answer.status, json.loads(answer.body) if answer.body else None


def watch(peer: Peer, watch_id: int = 1, namespace: str = NS, **fields: object):
    peer.send("watchScalableTopics", watch_id=watch_id, namespace=namespace, **fields)
    return peer.answers()


def told(peer: Peer, seconds: float = 0.05):
    """Let time pass; return what was added and removed, for each update."""
    peer.broker.tick(peer.broker.now + seconds)
    return [(list(one.diff.added), list(one.diff.removed)) for one in peer.answers()]


@pytest.fixture
def broker() -> Broker:
    return make_broker()


# Watches


def test_the_window_does_not_hide_the_other_timers(broker: Broker) -> None:
    peer = Peer(broker)
    watch(peer)
    broker.tick(29.99)
    broker.extension(ScalableTopicsExtension).admin.create_scalable_topic(X)
    assert broker.next_deadline() == 30.0
    broker.tick(30.0)
    assert [one.DESCRIPTOR.name for one in peer.answers()] == ["CommandPing"]
    assert told(peer, 0.04) == [([X], [])]


def test_a_lost_connection_leaves_nothing(broker: Broker) -> None:
    peer, other = Peer(broker), Peer(broker)
    broker.extension(ScalableTopicsExtension).admin.create_scalable_topic(X)
    for one in (peer, other):
        watch(one)
        one.ask("scalableTopicLookup", session_id=1, topic=X)
    peer.session.eof(broker.now)
    assert (
        broker.extension(ScalableTopicsExtension).watches.watch_count(peer.session)
        == broker.extension(ScalableTopicsExtension).layouts.session_count(peer.session)
        == 0
    )
    broker.extension(ScalableTopicsExtension).admin.delete_scalable_topic(X)
    assert told(peer) == []
    assert told(other) == [([], [X])]


def test_what_is_not_built_is_refused_in_its_own_answer(broker: Broker) -> None:
    request = {"request_id": 4, "topic": X, "subscription": "s", "consumer_name": "c", "consumer_id": 1, "consumer_type": "STREAM"}
    answer = Peer(broker).ask("scalableTopicSubscribe", **request)
    assert (answer.DESCRIPTOR.name, answer.request_id, answer.error) == ("CommandScalableTopicSubscribeResponse", 4, NotAllowedError)


# Permissions


def test_who_may_watch_and_look_up() -> None:
    broker = make_broker(authenticationEnabled="true", authorizationEnabled="true", tokenSecretKey=TOKEN_SECRET_KEY)
    broker.extension(ScalableTopicsExtension).admin.create_scalable_topic(X)
    peers = []
    for token in tokens("reader", "stranger").values():
        peers.append(Peer(broker, connect=False))
        peers[-1].send("connect", client_version="x", protocol_version=21, auth_method_name="token", auth_data=token.encode())
        peers[-1].frames()
    reader, stranger = peers
    broker.admin.grant_permission(NS, "reader", ["consume"])
    assert watch(reader)[0].HasField("snapshot")
    (refused,) = watch(stranger)
    assert refused.error == AuthorizationError
    assert stranger.ask("scalableTopicLookup", session_id=1, topic=X).error == AuthorizationError
    assert reader.ask("scalableTopicLookup", session_id=1, topic=X).HasField("dag")
    assert stranger.ask("lookupTopic", topic=SEGMENT, request_id=1).error == AuthorizationError
    assert reader.producer(SEGMENT).error == AuthorizationError
    assert reader.subscribe(SEGMENT).DESCRIPTOR.name == "CommandSuccess"
    broker.admin.revoke_permission(NS, "reader")
    broker.extension(ScalableTopicsExtension).admin.delete_scalable_topic(X)
    reader.answers()
    assert told(reader) == []


# Segments


def test_messages_of_a_segment_outlive_the_broker(broker: Broker) -> None:
    broker.extension(ScalableTopicsExtension).admin.create_scalable_topic(X)
    peer = Peer(broker)
    assert peer.ask("lookupTopic", topic=X, request_id=1).brokerServiceUrl == broker.members.leader.service_url
    assert peer.ask("partitionMetadata", topic=SEGMENT, request_id=1).partitions == 0
    peer.producer(SEGMENT)
    peer.publish("a", "b")
    peer.answers()
    peer.subscribe(SEGMENT)
    assert broker.extension(ScalableTopicsExtension).record(X).topics[SEGMENT].cursors.keys() == {"s"}
    second = Broker(store=broker.store)
    again = Peer(second)
    again.subscribe(SEGMENT)
    assert again.flow(5) == ["a", "b"]


@pytest.mark.parametrize(
    "name",
    [f"segment://{NS}/x/0000-fffe-0", f"segment://{NS}/x/0000-ffff-1", f"segment://{NS}/y/0000-ffff-0", "segment://a/b/x/0000-ffff-0"],
)
def test_a_segment_that_does_not_exist_is_not_created_with_partitions_either(name: str) -> None:
    broker = make_broker(allowAutoTopicCreationType="partitioned")
    broker.extension(ScalableTopicsExtension).admin.create_scalable_topic(X)
    peer = Peer(broker)
    assert peer.producer(name).error == TopicNotFound
    assert peer.subscribe(name).error == TopicNotFound
    assert broker.extension(ScalableTopicsExtension).record(X).topics == {}
    assert not broker.store.namespaces[NS].topics


@pytest.mark.parametrize("name", ["segment://public/default/x", "segment://x", "topic://", "topic://public/x", "topic://a b/c/x"])
def test_names_that_are_none(broker: Broker, name: str) -> None:
    peer = Peer(broker)
    for command in ("lookupTopic", "partitionMetadata"):
        assert peer.ask(command, topic=name, request_id=1).error == InvalidTopicName
    assert peer.producer(name).error == InvalidTopicName


def test_a_scalable_topic_itself_takes_no_producers(broker: Broker) -> None:
    peer = Peer(broker)
    for missing in (True, False):
        assert peer.producer(X).error == NotAllowedError
        assert peer.subscribe(X).error == NotAllowedError
        if missing:
            assert peer.ask("partitionMetadata", topic=X, request_id=1, metadata_auto_creation_enabled=False).error == TopicNotFound
            broker.extension(ScalableTopicsExtension).admin.create_scalable_topic(X)


def test_deleting_a_topic_closes_who_uses_its_segments(broker: Broker) -> None:
    broker.extension(ScalableTopicsExtension).admin.create_scalable_topic(X)
    peer = Peer(broker)
    watch(peer)
    peer.producer(SEGMENT)
    peer.subscribe(SEGMENT)
    broker.extension(ScalableTopicsExtension).admin.delete_scalable_topic(X)
    assert [one.DESCRIPTOR.name for one in peer.answers()] == ["CommandCloseProducer", "CommandCloseConsumer"]
    assert told(peer) == [([], [X])]
    broker.extension(ScalableTopicsExtension).admin.create_scalable_topic(X)
    assert peer.flow(5) == []
    peer.subscribe(SEGMENT)
    assert peer.flow(5) == []  # the messages have gone with the topic


@pytest.mark.parametrize("bundle_by_bundle", [False, True])
def test_unloading_a_namespace_disconnects_segments_and_leaves_watches(broker: Broker, bundle_by_bundle: bool) -> None:
    broker.extension(ScalableTopicsExtension).admin.create_scalable_topic(X)
    peer = Peer(broker)
    watch(peer)
    peer.subscribe(SEGMENT)
    if bundle_by_bundle:
        for bundle in bundles.ranges(bundles.parse(broker.admin.bundles(NS)["boundaries"])):
            broker.admin.unload_bundle(NS, bundle)
    else:
        broker.admin.unload_namespace(NS)
    assert [one.DESCRIPTOR.name for one in peer.answers()] == ["CommandCloseConsumer"]
    assert told(peer) == []
    assert broker.extension(ScalableTopicsExtension).watches.watch_count(peer.session) == 1


# Administration


def test_life_of_a_topic(broker: Broker) -> None:
    assert ask(broker, "PUT", f"{SCALABLE}/x", {"owner": "alice"}) == (204, None)
    assert ask(broker, "PUT", f"{SCALABLE}/x") == (409, {"reason": f"Scalable topic already exists: {X}"})
    status, found = ask(broker, "GET", f"{SCALABLE}/x")
    assert (status, found["epoch"], found["nextSegmentId"], found["properties"]) == (200, 0, 1, {"owner": "alice"})
    assert found["segments"]["0"]["hashRange"] == {"start": 0, "end": 65535}
    assert ask(broker, "PUT", f"{SCALABLE}/x/properties", {"a": ""}) == (204, None)
    assert ask(broker, "GET", f"{SCALABLE}/x")[1]["properties"] == {"a": ""}
    assert ask(broker, "DELETE", f"{SCALABLE}/x?force=true") == (204, None)
    missing = (404, {"reason": f"Scalable topic not found: {X}"})
    assert ask(broker, "DELETE", f"{SCALABLE}/x") == ask(broker, "GET", f"{SCALABLE}/x") == missing
    assert ask(broker, "PUT", f"{SCALABLE}/x/properties", {}) == missing
    assert broker.store.kept["pr25648"] == {}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("x?numInitialSegments=3", {}, 204),
        ("x?numInitialSegments=0", {}, 412),
        ("x?numInitialSegments=-1", {}, 412),
        ("x?numInitialSegments=65537", {}, 412),
        ("x?numInitialSegments=10001", {}, 412),
        ("x?numInitialSegments=many", {}, 400),
        ("x", {"": "x", "a": ""}, 204),
        ("x", {"a": 1}, 400),
        ("x", ["a"], 400),
        ("x-partition-0", {}, 412),
        ("%20", {}, 412),
        ("a%2Fb%20%C3%A9", {}, 204),
    ],
)
def test_what_can_be_created(broker: Broker, path: str, body: object, status: int) -> None:
    assert ask(broker, "PUT", f"{SCALABLE}/{path}", body)[0] == status
    assert len(ask(broker, "GET", SCALABLE)[1]) == (status == 204)


def test_a_namespace_takes_its_topics_with_it(broker: Broker) -> None:
    broker.admin.create_namespace("public/n")
    topic = "topic://public/n/x"
    broker.extension(ScalableTopicsExtension).admin.create_scalable_topic(topic)
    peer = Peer(broker)
    watch(peer, namespace="public/n")
    with pytest.raises(AdminRefused) as caught:
        broker.admin.delete_namespace("public/n")
    assert caught.value.status == 409
    broker.admin.delete_namespace("public/n", force=True)
    assert told(peer) == [([], [topic])]
    assert ask(broker, "GET", "/admin/v2/scalable/public/n") == (200, [])


def test_a_namespace_need_not_exist(broker: Broker) -> None:
    peer = Peer(broker)
    watch(peer, namespace="no/such")
    assert ask(broker, "PUT", "/admin/v2/scalable/no/such/x")[0] == 204
    assert told(peer) == [(["topic://no/such/x"], [])]
    assert "no/such" not in broker.store.namespaces
    assert peer.ask("lookupTopic", topic="segment://no/such/x/0000-ffff-0", request_id=1).error == TopicNotFound
