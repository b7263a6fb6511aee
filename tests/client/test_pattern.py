"""A pattern consumer against a scripted broker: what it asks, and how its consumers follow the list."""

import pytest

from refimpl.client import BrokerRefused, ClientOptions, ConsumerOptions, PatternConsumer
from refimpl.client.pattern_consumer import namespace_of_pattern
from refimpl.proposals.topic_list import TopicChanges, topics_hash
from tests.fakes.scripted_broker import FLAGS, ScriptedBroker

PATTERN = "persistent://public/default/rx-.*"
MAX = 2**64 - 1


def name(end: object) -> str:
    return f"persistent://public/default/rx-{end}"


def list_topics(broker: ScriptedBroker, *topics: str) -> object:
    request = broker.expect("getTopicsOfNamespace")
    answer = {"topics": topics, "filtered": True, "topics_hash": topics_hash(topics), "changed": True}
    broker.send("getTopicsOfNamespaceResponse", request_id=request.request_id, **answer)
    return request


def watch_success(broker: ScriptedBroker, request: object, *topics: str, known: tuple[str, ...] = ()) -> None:
    answer = {"watcher_id": 0, "topic": topics, "topics_hash": topics_hash(topics or known)}
    broker.send("watchTopicListSuccess", request_id=request.request_id, **answer)  # type: ignore[attr-defined]


def update(broker: ScriptedBroker, new: tuple[str, ...] = (), deleted: tuple[str, ...] = (), *, now: tuple[str, ...]) -> None:
    broker.send("watchTopicUpdate", watcher_id=0, new_topics=new, deleted_topics=deleted, topics_hash=topics_hash(now))


def attach(broker: ScriptedBroker, topic: str) -> int:
    assert broker.answer_lookup() == topic
    request = broker.succeed("subscribe")
    assert (request.topic, request.force_topic_creation) == (topic, False)
    assert broker.sent() == ["flow"]
    return int(request.consumer_id)


def watching(*topics: str, **choices: object) -> tuple[ScriptedBroker, PatternConsumer, list[TopicChanges]]:
    broker, seen = ScriptedBroker(), []
    subscribing = broker.begin(
        lambda: broker.core.subscribe_pattern(PATTERN, ConsumerOptions("s"), discovery_period=20.0, on_topics=seen.append)
    )
    broker.accept()
    assert broker.answer_lookup() == PATTERN
    request = list_topics(broker, *topics)
    assert (request.namespace, request.topics_pattern, request.mode) == ("public/default", PATTERN, 0)  # type: ignore[attr-defined]
    assert not request.HasField("topics_hash")  # type: ignore[attr-defined]
    pending = {}
    frames = {}
    broker._read()
    while broker.frames:
        frame = broker.frames.pop(0).command
        if frame.HasField("lookupTopic"):
            pending[frame.lookupTopic.topic] = frame.lookupTopic
        else:
            frames["watch"] = frame.watchTopicList
    assert sorted(pending) == sorted(topics)
    assert frames["watch"].topics_hash == topics_hash(topics)
    watch_success(broker, frames["watch"], known=topics)
    for lookup in pending.values():
        answer = {"response": "Connect", "authoritative": True, "brokerServiceUrl": "pulsar://broker:6650"}
        broker.send("lookupTopicResponse", request_id=lookup.request_id, **answer)
        broker.succeed("subscribe")
        assert broker.sent() == ["flow"]
    return broker, subscribing.value(), seen


def test_the_first_topics_are_attached_to_before_it_is_ready() -> None:
    broker, group, seen = watching(name(1), name(2))
    assert group.topics == {name(1), name(2)}
    assert group.topics_hash == topics_hash([name(1), name(2)])
    assert set(group.members) == {name(1), name(2)}
    assert [change.added for change in seen] == [(name(1), name(2))]
    assert broker.sent() == []


def test_topics_come_and_go_as_the_broker_tells() -> None:
    broker, group, seen = watching()
    update(broker, (name("p-partition-0"),), now=(name("p-partition-0"),))
    consumer_id = attach(broker, name("p-partition-0"))
    broker.message(0, b"hi", consumer_id=consumer_id)
    with broker.core.entered(0.0):
        message = group.take()
        assert message is not None
        group.acknowledge(message)
    assert (message.topic, message.id.partition) == (name("p-partition-0"), 0)
    assert broker.sent() == ["ack"]
    update(broker, (), (name("p-partition-0"),), now=())
    assert broker.expect("close_consumer").consumer_id == consumer_id
    assert (group.topics, group.topics_hash, group.members) == (frozenset(), "00000000", {})
    assert [(change.added, change.removed) for change in seen] == [((name("p-partition-0"),), ()), ((), (name("p-partition-0"),))]
    with broker.core.entered(0.0):
        group.acknowledge(message)  # too late, and no error
        assert group.take() is None
    assert group.error is None


def test_a_deleted_topic_is_not_brought_back() -> None:
    broker, group, _ = watching(name(1))
    broker.send("close_consumer", consumer_id=0, request_id=MAX)
    broker.wait(0.05)
    update(broker, (), (name(1),), now=())
    broker.wait(19.0)
    assert broker.sent() == []
    assert group.members == {}


def test_a_topic_that_is_gone_before_its_update_is_left_and_tried_again_while_it_is_listed() -> None:
    broker, group, _ = watching(name(1))
    broker.send("close_consumer", consumer_id=0, request_id=MAX)
    broker.wait(0.1)
    broker.answer_lookup()
    broker.refuse("subscribe", "TopicNotFound")
    assert group.members == {}
    assert group.error is None
    broker.wait(9.0)
    assert broker.sent() == []
    broker.wait(1.1)
    attach(broker, name(1))  # it had been created again
    assert set(group.members) == {name(1)}


def test_after_a_cut_it_registers_with_its_hash_and_everything_comes_back() -> None:
    broker, group, _ = watching(name(1))
    known = group.topics_hash
    broker.cut()
    broker.wait(0.1)
    broker.accept()
    lookups = [broker.expect("lookupTopic") for _ in range(2)]
    for lookup in lookups:
        answer = {"response": "Connect", "authoritative": True, "brokerServiceUrl": "pulsar://broker:6650"}
        broker.send("lookupTopicResponse", request_id=lookup.request_id, **answer)
    frames = {}
    broker._read()
    while broker.frames:
        frame = broker.frames.pop(0).command
        frames[frame.type] = frame
    watch = frames[64].watchTopicList
    assert (watch.watcher_id, watch.topics_hash) == (0, known)
    broker.send("success", request_id=frames[4].subscribe.request_id)
    assert broker.sent() == ["flow"]
    watch_success(broker, watch, name(1), name(2))
    attach(broker, name(2))
    assert group.topics == {name(1), name(2)}


def test_the_set_is_checked_once_in_a_period_and_after_a_hash_that_differs() -> None:
    broker, group, _ = watching(name(1))
    broker.wait(20.1)
    request = broker.expect("watchTopicList")
    assert request.topics_hash == group.topics_hash
    watch_success(broker, request, known=(name(1),))
    update(broker, (name(3),), now=(name(1), name(2), name(3)))
    broker._read()
    kinds = {frame.command.type: frame.command for frame in broker.frames}
    assert set(kinds) == {23, 64}  # LOOKUP of the new topic, and a check
    assert kinds[64].watchTopicList.topics_hash == topics_hash([name(1), name(3)])


def test_without_the_flag_it_polls() -> None:
    broker = ScriptedBroker()
    subscribing = broker.begin(lambda: broker.core.subscribe_pattern(PATTERN, ConsumerOptions("s"), discovery_period=5.0))
    broker.accept(feature_flags={})
    broker.answer_lookup()
    list_topics(broker)
    group = subscribing.value()
    assert broker.sent() == []
    broker.wait(5.0)
    request = list_topics(broker, name(1))
    assert request.topics_hash == "00000000"  # type: ignore[attr-defined]
    attach(broker, name(1))
    broker.begin(group.close)
    assert broker.sent() == ["close_consumer"]


def test_closing_closes_the_watcher_and_leaves_the_topics() -> None:
    broker, group, _ = watching(name(1))
    closing = broker.begin(group.close)
    broker.succeed("watchTopicListClose")
    broker.succeed("close_consumer")
    assert closing.done
    update(broker, (name(2),), now=(name(1), name(2)))
    broker.wait(60.0)
    assert set(broker.sent()) <= {"ping"}


def test_a_close_waits_for_the_watcher_that_is_being_created() -> None:
    broker = ScriptedBroker()
    subscribing = broker.begin(lambda: broker.core.subscribe_pattern(PATTERN, ConsumerOptions("s")))
    broker.accept()
    broker.answer_lookup()
    list_topics(broker)
    group = subscribing.value()
    request = broker.expect("watchTopicList")
    broker.begin(group.close)
    assert broker.sent() == []
    watch_success(broker, request, name(1))
    assert broker.sent() == ["watchTopicListClose"]
    assert group.members == {}


def test_no_permission_to_list_is_an_error() -> None:
    broker = ScriptedBroker()
    subscribing = broker.begin(lambda: broker.core.subscribe_pattern(PATTERN, ConsumerOptions("s")))
    broker.accept()
    request = broker.expect("lookupTopic")
    failed = {"response": "Failed", "error": "AuthorizationError", "message": "no"}
    broker.send("lookupTopicResponse", request_id=request.request_id, **failed)
    broker.refuse("getTopicsOfNamespace", "AuthorizationError")
    with pytest.raises(BrokerRefused, match="AuthorizationError"):
        subscribing.value()
    broker.wait(30.0)
    assert set(broker.sent()) <= {"ping"}


def test_no_list_in_time_is_an_error() -> None:
    broker = ScriptedBroker(ClientOptions(operation_timeout=2.0))
    subscribing = broker.begin(lambda: broker.core.subscribe_pattern(PATTERN, ConsumerOptions("s")))
    broker.accept(feature_flags=FLAGS)
    broker.answer_lookup()
    broker.wait(2.1)
    assert subscribing.done
    assert "no list" in str(subscribing.error)


def test_a_first_topic_that_can_not_be_attached_to_is_an_error() -> None:
    broker = ScriptedBroker()
    subscribing = broker.begin(lambda: broker.core.subscribe_pattern(PATTERN, ConsumerOptions("s")))
    broker.accept(feature_flags={})
    broker.answer_lookup()
    list_topics(broker, name(1))
    broker.answer_lookup()
    broker.refuse("subscribe", "ConsumerBusy")
    assert isinstance(subscribing.error, BrokerRefused)


@pytest.mark.parametrize(
    ("pattern", "namespace", "full"),
    [
        ("persistent://a/b/.*", "a/b", None),
        ("a/b/x/y.*", "a/b", None),
        ("^persistent://a/b/x", "a/b", None),
        ("^\\Qa/b/x\\E", "a/b", None),
        ("rx.*", "public/default", "persistent://public/default/rx.*"),
    ],
)
def test_the_namespace_of_a_pattern(pattern: str, namespace: str, full: str | None) -> None:
    assert namespace_of_pattern(pattern) == (namespace, full or pattern)


@pytest.mark.parametrize("pattern", ["persistent://a/b", "a/b", ".*/b/c", "topic://a/b/c", "persistent://a.*b/[x]/c"])
def test_a_pattern_without_a_literal_namespace_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"pattern|domain"):
        namespace_of_pattern(pattern)
