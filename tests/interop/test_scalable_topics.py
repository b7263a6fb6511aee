"""Scalable topics with the Maven client for them: the namespace consumer is told of topics by WATCH_SCALABLE_TOPICS (PR 25648)."""

from __future__ import annotations

import pytest

from conformance.targets import Endpoint
from refimpl.client.scalable_producer import segment_hash
from refimpl.proposals.scalable_topics import topics_hash
from tests.fakes.frame_proxy import FrameProxy
from tests.interop.stock_clients import Admin, Client, texts

pytestmark = [pytest.mark.interop, pytest.mark.parametrize("client", ["java_v5"], indirect=True)]


@pytest.fixture(scope="session")
def broker(scalable_broker: Endpoint) -> Endpoint:
    return scalable_broker


@pytest.fixture
def topics(namespace: str) -> list[str]:
    """Name three topics that do not exist yet."""
    return [f"topic://{namespace}/orders-{number}" for number in range(3)]


def create(admin: Admin, topic: str, segments: int = 1, **properties: str) -> None:
    admin("create_scalable_topic", {"topic": topic, "segments": segments, "properties": properties})


def attached(proxy: FrameProxy, topic: str, since: int = 0) -> None:
    """Wait until a consumer is subscribed to the one segment of a topic."""
    proxy.wait_for_answer("success", proxy.wait("subscribe", since, topic=segment(topic)))


def segment(topic: str) -> str:
    return f"segment://{topic.removeprefix('topic://')}/0000-ffff-0"


@pytest.mark.parametrize("segments", [1, 3])
def test_produce_and_consume(client: Client, proxy: FrameProxy, admin: Admin, topics: list[str], segments: int) -> None:
    create(admin, topics[0], segments)
    consumer = client.consumer(topics[0])
    producer = client.producer(topics[0])
    sent = [f"key-{number}" for number in range(12)]
    producer.send(*sent, keyed=True)
    messages = consumer.receive_all(12)
    assert sorted(texts(messages)) == sorted(sent)
    lookup = proxy.wait("scalableTopicLookup", topic=topics[0])
    update = proxy.wait("scalableTopicUpdate", session_id=lookup.session_id)
    assert (update.resolved_topic_name, len(update.dag.segments)) == (topics[0], segments)
    places = {request.producer_id: request.topic for request in proxy.seen("producer")}
    for frame in proxy.frames("send"):
        start, end, _ = places[frame.command.send.producer_id].rsplit("/", 1)[1].split("-")
        assert int(start, 16) <= segment_hash(frame.payload().metadata.partition_key) <= int(end, 16)
    consumer.ack(messages)
    mark = proxy.mark
    consumer.close()
    proxy.wait("scalableTopicClose", mark, session_id=lookup.session_id)


def test_a_topic_that_does_not_exist(client: Client, proxy: FrameProxy, topics: list[str]) -> None:
    with pytest.raises(AssertionError, match="not found"):
        client.producer(topics[0])
    assert proxy.wait("scalableTopicUpdate").message == f"Scalable topic not found: {topics[0]}"


def test_topics_are_pushed(client: Client, proxy: FrameProxy, admin: Admin, namespace: str, topics: list[str]) -> None:
    create(admin, topics[0], owner="alice")
    consumer = client.consumer(namespace=namespace, filters={"owner": "alice"})
    watch = proxy.wait("watchScalableTopics")
    assert (watch.namespace, watch.HasField("current_hash")) == (namespace, False)
    assert [(one.key, one.value) for one in watch.property_filters] == [("owner", "alice")]
    assert list(proxy.wait("watchScalableTopicsUpdate").snapshot.topics) == topics[:1]
    create(admin, topics[1], owner="bob")
    create(admin, topics[2], owner="alice")
    update = proxy.wait("watchScalableTopicsUpdate", count=2)
    assert (update.watch_id, list(update.diff.added), list(update.diff.removed)) == (watch.watch_id, topics[2:], [])
    attached(proxy, topics[2])
    for topic in topics:
        client.producer(topic).send(f"to {topic}")
    assert sorted(texts(consumer.receive_all(2))) == [f"to {topics[0]}", f"to {topics[2]}"]
    assert not proxy.seen("subscribe", topic=segment(topics[1]))
    mark = proxy.mark
    consumer.close()
    proxy.wait("watchScalableTopicsClose", mark, watch_id=watch.watch_id)


def test_a_deleted_topic_is_left(client: Client, proxy: FrameProxy, admin: Admin, namespace: str, topics: list[str]) -> None:
    for topic in topics[:2]:
        create(admin, topic)
    consumer = client.consumer(namespace=namespace)
    for topic in topics[:2]:
        attached(proxy, topic)
    mark = proxy.mark
    admin("delete_scalable_topic", {"topic": topics[0], "force": True})
    proxy.wait("watchScalableTopicsUpdate", mark)
    proxy.wait("scalableTopicClose", mark)
    client.producer(topics[1]).send("still there")
    assert texts(consumer.receive_all(1)) == ["still there"]


@pytest.mark.parametrize("created", [True, False], ids=["topic-created", "nothing-changed"])
def test_a_cut_is_survived_with_the_hash(
    client: Client, proxy: FrameProxy, admin: Admin, namespace: str, topics: list[str], created: bool
) -> None:
    create(admin, topics[0])
    consumer = client.consumer(namespace=namespace)
    attached(proxy, topics[0])
    first = proxy.wait("watchScalableTopics")
    lookup = proxy.wait("scalableTopicLookup")
    existing = topics[:1]
    with proxy.cut():
        mark = proxy.mark
        if created:
            create(admin, topics[1])
            existing = topics[:2]
    again = proxy.wait("watchScalableTopics", mark)
    assert (again.watch_id, again.namespace, again.current_hash) == (first.watch_id, namespace, topics_hash(topics[:1]))
    proxy.wait("scalableTopicLookup", mark, session_id=lookup.session_id, topic=topics[0])
    for topic in existing:
        attached(proxy, topic, mark)
    for topic in existing:
        client.producer(topic).send(f"to {topic}")
    assert sorted(texts(consumer.receive_all(len(existing)))) == [f"to {topic}" for topic in existing]
    updates = proxy.seen("watchScalableTopicsUpdate", mark)
    assert [sorted(one.snapshot.topics) for one in updates] == ([existing] if created else [])  # nothing: the client is up to date
    create(admin, topics[2])  # the watch lives on
    told = proxy.wait("watchScalableTopicsUpdate", mark, count=len(updates) + 1)
    assert (told.watch_id, list(told.diff.added)) == (first.watch_id, topics[2:])
    attached(proxy, topics[2], mark)
