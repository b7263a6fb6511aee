"""Consumers of scalable topics, one or all of a namespace, against a scripted broker: what is asked, and when."""

import pytest

from refimpl.client import BrokerRefused, ClientError, ClientOptions, ConnectionLost, ConsumerOptions, NamespaceConsumer, TimedOut
from refimpl.proposals.profiles import AS_WRITTEN
from refimpl.proposals.scalable_topics import ScalableTopicChanges, topics_hash
from refimpl.wire.pulsar_api_pb2 import NotAllowedError, UnsupportedVersionError
from tests.fakes.scripted_broker import ScriptedBroker
from tests.samples.scalable_names import NS, segment, topic

SUPPORTED = {"feature_flags": {"supports_scalable_topics": True}}


def layout(broker: ScriptedBroker, name: object, *ranges: tuple[int, int], session_id: int = 0, epoch: int = 0) -> None:
    segments = [
        {"segment_id": number, "hash_start": start, "hash_end": end, "state": "ACTIVE", "created_at_epoch": 0, "created_at_ms": 0}
        for number, (start, end) in enumerate(ranges or ((0, 0xFFFF),))
    ]
    broker.send("scalableTopicUpdate", session_id=session_id, dag={"epoch": epoch, "segments": segments}, resolved_topic_name=topic(name))


def subscribing(broker: ScriptedBroker, **choices: object):
    return broker.begin(lambda: broker.core.subscribe_namespace(NS, ConsumerOptions("s"), **choices))


# All topics of a namespace


def test_the_first_set_comes_before_anything_else_and_later_changes_come_by_themselves() -> None:
    broker, seen = ScriptedBroker(), []
    begun = subscribing(broker, property_filters={"owner": "alice"}, on_topics=seen.append)
    broker.accept(**SUPPORTED)
    request = broker.expect("watchScalableTopics")
    assert (request.watch_id, request.namespace, request.HasField("current_hash")) == (0, NS, False)
    assert [(one.key, one.value) for one in request.property_filters] == [("owner", "alice")]
    broker.send("watchScalableTopicsUpdate", watch_id=0, snapshot={"topics": [topic("a")]})
    assert not begun.done
    assert broker.answer_lookup() == topic("a")
    assert (broker.expect("scalableTopicLookup").topic) == topic("a")
    layout(broker, "a")
    assert broker.answer_lookup() == segment("a")
    assert broker.succeed("subscribe").force_topic_creation is False
    group = begun.value()
    assert (group.topics, group.topics_hash, set(group.members)) == ({topic("a")}, topics_hash([topic("a")]), {segment("a")})
    assert broker.sent() == ["flow"]
    broker.send("watchScalableTopicsUpdate", watch_id=0, diff={"added": [topic("b")], "removed": [topic("a")]})
    assert seen == [ScalableTopicChanges((topic("b"),), (topic("a"),))]
    assert broker.sent() == ["scalableTopicClose", "close_consumer", "lookupTopic"]
    assert set(group.lookups) == {topic("b")}


def test_an_empty_first_set_is_a_set() -> None:
    broker = ScriptedBroker()
    begun = subscribing(broker)
    broker.accept(**SUPPORTED)
    broker.expect("watchScalableTopics")
    broker.send("watchScalableTopicsUpdate", watch_id=0, snapshot={})
    assert begun.value().topics == frozenset()


def test_without_the_flag_nothing_is_sent() -> None:
    broker = ScriptedBroker()
    begun = subscribing(broker)
    broker.accept()
    with pytest.raises(BrokerRefused) as caught:
        begun.value()
    assert caught.value.code == UnsupportedVersionError
    assert broker.sent() == []


def test_without_the_flag_no_scalable_topic_is_looked_up() -> None:
    broker = ScriptedBroker()
    begun = broker.begin(lambda: broker.core.subscribe(topic("a"), ConsumerOptions("s")))
    broker.accept()
    broker.answer_lookup()
    with pytest.raises(BrokerRefused):
        begun.value()
    assert broker.sent() == []


def test_an_error_before_the_first_set_is_the_applications() -> None:
    broker = ScriptedBroker()
    begun = subscribing(broker)
    broker.accept(**SUPPORTED)
    broker.expect("watchScalableTopics")
    broker.send("watchScalableTopicsUpdate", watch_id=0, error="NotAllowedError", message="no")
    with pytest.raises(BrokerRefused) as caught:
        begun.value()
    assert caught.value.code == NotAllowedError
    assert broker.sent() == []


def test_a_first_set_that_does_not_come_is_given_up() -> None:
    broker = ScriptedBroker(ClientOptions(operation_timeout=5.0))
    begun = subscribing(broker)
    broker.accept(**SUPPORTED)
    broker.expect("watchScalableTopics")
    broker.wait(5.0)
    with pytest.raises(ClientError, match="first set"):
        begun.value()
    assert broker.sent() == ["watchScalableTopicsClose"]


def test_a_connection_that_is_lost_before_the_first_set_ends_it() -> None:
    broker = ScriptedBroker()
    begun = subscribing(broker)
    broker.accept(**SUPPORTED)
    broker.cut()
    with pytest.raises(ConnectionLost):
        begun.value()
    assert broker.dialled() == []


def test_or_not_by_the_letter() -> None:
    broker = ScriptedBroker(profiles=AS_WRITTEN)
    begun = subscribing(broker)
    broker.accept(**SUPPORTED)
    broker.cut()
    broker.wait(0.1)
    broker.accept(**SUPPORTED)
    assert not broker.expect("watchScalableTopics").HasField("current_hash")
    broker.send("watchScalableTopicsUpdate", watch_id=0, snapshot={})
    assert begun.value().topics_hash == "00000000"


def started(broker: ScriptedBroker) -> NamespaceConsumer:
    begun = subscribing(broker)
    broker.accept(**SUPPORTED)
    broker.expect("watchScalableTopics")
    broker.send("watchScalableTopicsUpdate", watch_id=0, snapshot={})
    return begun.value()


def test_pauses_grow_and_each_request_has_the_hash() -> None:
    broker = ScriptedBroker()
    started(broker)
    broker.cut()
    for longest in (0.1, 0.2, 0.4):
        before = broker.now
        while not (dialled := broker.dialled()):
            broker.wait(0.001)
        assert 0.9 * longest <= broker.now - before <= longest + 0.002
        dialled[0].eof(broker.now)
    broker.wait(0.8)
    broker.accept(**SUPPORTED)
    assert broker.expect("watchScalableTopics").current_hash == "00000000"


def test_an_error_later_is_asked_again_on_the_same_connection() -> None:
    broker = ScriptedBroker()
    group = started(broker)
    broker.send("watchScalableTopicsUpdate", watch_id=0, error="ServiceNotReady", message="soon")
    assert broker.sent() == []
    broker.wait(0.1)
    assert broker.expect("watchScalableTopics").current_hash == "00000000"
    broker.send("watchScalableTopicsUpdate", watch_id=99, snapshot={"topics": [topic("x")]})  # of nobody
    assert group.topics == frozenset()


def test_a_close_ends_the_watch_and_its_attempts() -> None:
    broker = ScriptedBroker()
    group = started(broker)
    broker.begin(group.close)
    assert broker.sent() == ["watchScalableTopicsClose"]
    broker.send("watchScalableTopicsUpdate", watch_id=0, diff={"added": [topic("x")]})
    assert group.lookups == {}
    second = ScriptedBroker()
    group = started(second)
    second.cut()
    second.begin(group.close)
    second.wait(60.0)
    assert second.dialled() == []


@pytest.mark.parametrize("namespace", ["", "public", "public/default/", "a/b/c"])
def test_a_malformed_namespace_is_the_applications_mistake(namespace: str) -> None:
    broker = ScriptedBroker()
    with pytest.raises(ValueError, match="tenant/namespace"):
        broker.begin(lambda: broker.core.subscribe_namespace(namespace, ConsumerOptions("s")))


# One topic


def consuming(broker: ScriptedBroker, *ranges: tuple[int, int]):
    begun = broker.begin(lambda: broker.core.subscribe(topic("a"), ConsumerOptions("s")))
    broker.accept(**SUPPORTED)
    assert broker.answer_lookup() == topic("a")
    assert broker.expect("scalableTopicLookup").session_id == 0
    layout(broker, "a", *ranges)
    return begun


def attach(broker: ScriptedBroker) -> str:
    """Let one consumer attach."""
    name = broker.answer_lookup()
    assert broker.succeed("subscribe").topic == name
    assert broker.sent() == ["flow"]
    return name


def test_a_layout_that_comes_again_changes_nothing_and_another_one_is_followed() -> None:
    broker = ScriptedBroker()
    begun = consuming(broker)
    attach(broker)
    group = begun.value()
    layout(broker, "a")
    assert broker.sent() == []
    layout(broker, "a", (0, 0x7FFF), (0x8000, 0xFFFF), epoch=1)
    assert broker.sent() == ["close_consumer", "lookupTopic", "lookupTopic"]
    assert set(group.members) == {segment("a", "0000-7fff-0"), segment("a", "8000-ffff-1")}
    layout(broker, "a", epoch=0)  # an old one
    assert len(group.members) == 2


def test_a_layout_that_comes_while_its_first_segments_are_attached_is_followed() -> None:
    broker = ScriptedBroker()
    begun = consuming(broker)
    assert broker.answer_lookup() == segment("a")
    broker.expect("subscribe")
    layout(broker, "a", (0, 0x7FFF), (0x8000, 0xFFFF), epoch=1)
    broker.expect("close_consumer")
    names = {broker.answer_lookup() for _ in range(2)}
    assert not begun.done
    assert {broker.succeed("subscribe").topic for _ in range(2)} == names == set(begun.value().members)


def test_the_look_up_is_repeated_with_its_id_on_the_next_connection() -> None:
    broker = ScriptedBroker()
    begun = consuming(broker)
    attach(broker)
    begun.value()
    broker.cut()
    broker.wait(0.1)
    broker.accept(**SUPPORTED)
    broker._read()
    topics = [frame.command.lookupTopic.topic for frame in broker.frames]
    assert sorted(topics) == sorted([topic("a"), segment("a")])
    for _ in topics:
        broker.answer_lookup()
    broker._read()
    asked = [frame.command.scalableTopicLookup for frame in broker.frames if frame.command.HasField("scalableTopicLookup")]
    assert [one.session_id for one in asked] == [0]


SEGMENT = {"segment_id": 0, "hash_start": 0, "hash_end": 9, "created_at_epoch": 0, "created_at_ms": 0}


@pytest.mark.parametrize(
    "dag",
    [
        None,
        {"epoch": 0},
        {"epoch": 0, "segments": [{**SEGMENT, "state": "SEALED"}]},
        {"epoch": 0, "segments": [{**SEGMENT, "state": "ACTIVE"}] * 10_001},
    ],
    ids=["nothing", "no-segments", "none-active", "too-many"],
)
def test_an_answer_without_use_is_a_defect_of_the_broker(dag: object) -> None:
    broker = ScriptedBroker(ClientOptions(operation_timeout=1.0))
    begun = broker.begin(lambda: broker.core.subscribe(topic("a"), ConsumerOptions("s")))
    broker.accept(**SUPPORTED)
    for _ in range(20):
        if begun.done:
            break
        broker.answer_lookup()
        broker.expect("scalableTopicLookup")
        broker.send("scalableTopicUpdate", session_id=0, dag=dag, resolved_topic_name=topic("a"))
        broker.wait(1.0)
    with pytest.raises(ConnectionLost, match="without a usable layout"):
        begun.value()


def test_no_answer_to_a_look_up_is_a_time_out() -> None:
    broker = ScriptedBroker(ClientOptions(operation_timeout=1.0))
    begun = broker.begin(lambda: broker.core.subscribe(topic("a"), ConsumerOptions("s")))
    broker.accept(**SUPPORTED)
    broker.answer_lookup()
    broker.expect("scalableTopicLookup")
    broker.wait(1.0)
    with pytest.raises(TimedOut):
        begun.value()
    assert broker.sent() == ["scalableTopicClose"]
