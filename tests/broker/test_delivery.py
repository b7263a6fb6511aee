import pytest

from refimpl.broker import Broker
from refimpl.broker.session import MESSAGES_WAIT_ABOVE, REQUESTS_WAIT_ABOVE
from refimpl.wire.ack_set import ack_set, read_ack_set
from tests.fakes.broker_peer import TOPIC, Peer, make_broker


def pair(**settings: str) -> tuple[Broker, Peer, Peer]:
    broker = make_broker(**settings)
    producer, consumer = Peer(broker), Peer(broker)
    producer.producer()
    consumer.subscribe()
    return broker, producer, consumer


def test_a_second_broker_on_the_same_store_goes_on() -> None:
    broker, producer, consumer = pair()
    producer.publish("a", "b", "c", "d", "e")
    consumer.flow(10)
    consumer.acknowledge(1, kind="Cumulative")
    consumer.acknowledge(3)
    after = Peer(make_broker(store=broker.store))
    after.subscribe()
    assert after.flow(10) == ["c", "e"]
    assert "persistent://public/default/t" in after.broker.persistent_topics("public/default")


def test_shared_consumers_take_turns_and_inherit() -> None:
    broker = make_broker()
    producer, first, second = Peer(broker), Peer(broker), Peer(broker)
    producer.producer()
    for one in (first, second):
        one.subscribe(kind="Shared")
        one.flow(10)
    producer.publish("a", "b", "c", "d")
    assert (first.texts(), second.texts()) == (["a", "c"], ["b", "d"])
    first.send("close_consumer", consumer_id=1, request_id=3)
    assert second.texts() == ["a", "c"]


@pytest.mark.parametrize(("kind", "told"), [("Exclusive", True), ("Failover", True), ("Shared", False), ("Key_Shared", False)])
def test_only_consumers_that_are_served_alone_are_told_their_epoch(kind: str, told: bool) -> None:
    peer = Peer(make_broker())
    peer.producer()
    peer.send("subscribe", topic=TOPIC, subscription="s", subType=kind, consumer_id=1, request_id=2, consumer_epoch=0)
    peer.publish("a")
    peer.send("flow", consumer_id=1, messagePermits=1)
    messages = [frame.command.message for frame in peer.frames() if frame.command.HasField("message")]
    assert [(one.HasField("consumer_epoch"), one.consumer_epoch) for one in messages] == [(told, 0)]


def test_shared_consumers_of_the_first_priority_are_served_first() -> None:
    broker = make_broker()
    producer, later, first = Peer(broker), Peer(broker), Peer(broker)
    producer.producer()
    later.subscribe(kind="Shared", priority_level=1)
    later.flow(10)
    first.subscribe(kind="Shared")
    first.flow(2)
    producer.publish("a", "b", "c")
    assert (first.texts(), later.texts()) == (["a", "b"], ["c"])
    first.flow(1)
    producer.publish("d", "e")
    assert (first.texts(), later.texts()) == (["d"], ["e"])


def test_a_shared_consumer_gets_a_portion_of_a_backlog_at_once() -> None:
    broker = make_broker()
    producer, first, second, leaving = (Peer(broker) for _ in range(4))
    producer.producer()
    for one in (first, second, leaving):
        one.subscribe(kind="Shared", priority_level=0 if one is leaving else 1)
    leaving.flow(30)
    producer.publish(*map(str, range(30)))
    first.flow(100)
    second.flow(100)
    leaving.session.eof(0.0)
    assert sorted([len(first.texts()), len(second.texts())]) == [10, 20]


def join_failover(peer: Peer, priority: int) -> None:
    peer.send(
        "subscribe", topic=TOPIC, subscription="s", subType="Failover", consumer_id=1, request_id=2, priority_level=priority,
        initialPosition="Earliest",
    )  # fmt: skip
    peer.frames()


def test_a_consumer_that_takes_a_failover_subscription_over_gets_what_is_not_acknowledged() -> None:
    broker = make_broker()
    producer, first, better = Peer(broker), Peer(broker), Peer(broker)
    producer.producer()
    join_failover(first, 1)
    assert first.flow(10) == []
    producer.publish("a", "b")
    assert first.texts() == ["a", "b"]
    first.acknowledge(0)
    join_failover(better, 0)
    assert better.flow(10) == ["b"]
    better.session.eof(0.0)
    assert first.texts() == ["b"]


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
@pytest.mark.parametrize("setting", ["maxUnackedMessagesPerConsumer", "maxUnackedMessagesPerSubscription"])
def test_who_acknowledges_too_little_gets_no_more_until_half_of_it_is_left(kind: str, setting: str) -> None:
    peer = Peer(make_broker(**{setting: "4"}))
    peer.producer()
    for text in "abcdef":
        peer.publish_batch(text, text)
    peer.frames()
    peer.subscribe(kind=kind)
    peer.send("flow", consumer_id=1, messagePermits=100)
    assert peer.entries() == [0, 1]
    blocked = {
        "blockedConsumerOnUnackedMsgs": setting.endswith("Consumer"),
        "blockedSubscriptionOnUnackedMsgs": setting.endswith("Subscription"),
    }
    stats = peer.broker.admin.topic_stats(TOPIC)["subscriptions"]["s"]
    assert {key: {**stats, **stats["consumers"][0]}[key] for key in blocked} == blocked
    peer.send("ack", consumer_id=1, ack_type="Individual", message_id=[{"ledgerId": 1, "entryId": 0, "ack_set": [1]}])
    assert peer.entries() == []
    peer.acknowledge(0)
    assert peer.entries() == [2]
    peer.send("redeliverUnacknowledgedMessages", consumer_id=1)
    assert peer.entries() == [1, 2]


def test_who_is_served_alone_need_not_acknowledge() -> None:
    peer = Peer(make_broker(maxUnackedMessagesPerConsumer="1", maxUnackedMessagesPerSubscription="1"))
    peer.producer()
    peer.subscribe()
    peer.publish("a", "b", "c")
    assert peer.flow(10) == ["a", "b", "c"]


def test_a_reader_begins_at_its_position_and_leaves_nothing() -> None:
    broker, producer, consumer = pair()
    producer.publish("a", "b", "c")
    reader = {"durable": False, "name": "r", "start_message_id": {"ledgerId": 1, "entryId": 1}}
    consumer.subscribe(consumer_id=2, **reader)
    assert consumer.flow(10, consumer_id=2) == ["b", "c"]
    consumer.ask("close_consumer", consumer_id=2, request_id=3)
    assert broker.admin.subscriptions(TOPIC) == ["s"]


def test_messages_of_a_batch_are_acknowledged_one_by_one_if_that_is_on() -> None:
    broker, producer, consumer = pair(acknowledgmentAtBatchIndexLevelEnabled="true")
    producer.publish_batch("a", "b", "c")
    consumer.flow(10)
    part = {"ledgerId": 1, "entryId": 0, "ack_set": [0b101]}
    consumer.send("ack", consumer_id=1, ack_type="Individual", message_id=[part])
    consumer.ask("close_consumer", consumer_id=1, request_id=3)
    consumer.subscribe()
    consumer.send("flow", consumer_id=1, messagePermits=2)
    (message,) = consumer.answers()
    assert list(message.ack_set) == [0b101]
    consumer.send("ack", consumer_id=1, ack_type="Individual", message_id=[{**part, "ack_set": [0b010]}])
    assert broker.admin.topic_stats(TOPIC)["subscriptions"]["s"]["msgBacklog"] == 0


def test_ack_sets_are_signed_words() -> None:
    assert ack_set({63, 64}) == [-(2**63), 1]
    assert read_ack_set([-(2**63), 1], 65) == {63, 64}
    assert read_ack_set([-1] * 1000, 3) == {0, 1, 2}


def test_a_non_persistent_topic_keeps_nothing() -> None:
    broker = make_broker()
    peer = Peer(broker)
    topic = "non-persistent://public/default/n"
    peer.producer(topic)
    peer.subscribe(topic)
    peer.publish("lost")
    assert peer.texts() == []
    assert peer.flow(1) == []
    peer.publish("seen", "lost too")
    assert peer.texts() == ["seen"]
    assert broker.non_persistent_topics("public/default", in_use=True) == [topic]
    peer.session.eof(0.0)
    assert broker.non_persistent_topics("public/default", in_use=True) == []
    assert broker.non_persistent_topics("public/default") == [topic]
    broker.admin.unload_topic(topic)
    assert broker.non_persistent_topics("public/default") == []


def test_a_consumer_that_does_not_read_gets_no_more_messages() -> None:
    _, producer, consumer = pair()
    consumer.send("flow", consumer_id=1, messagePermits=1000)
    for _ in range(200):
        producer.publish("x" * 10_000)
        producer.frames()
    waiting = len(consumer.session._output)
    assert MESSAGES_WAIT_ABOVE < waiting < MESSAGES_WAIT_ABOVE + 20_000
    assert len(consumer.texts()) == 200, "what waited comes once it reads"


def test_requests_of_a_peer_that_does_not_read_wait() -> None:
    broker = make_broker()
    for number in range(1000):
        broker.admin.create_topic(f"persistent://public/default/{'n' * 100}-{number}")
    peer = Peer(broker)
    for number in range(100):
        peer.send("getTopicsOfNamespace", request_id=number, namespace="public/default")
    assert not peer.session.reading
    assert len(peer.session._output) < REQUESTS_WAIT_ABOVE + 300_000
    assert [one.request_id for one in peer.answers()] == list(range(100))
    assert peer.session.reading


def test_updates_that_nobody_reads_end_the_connection() -> None:
    broker = make_broker()
    deaf, other = Peer(broker), Peer(broker)
    for number in range(2000):
        deaf.send("watchTopicList", request_id=number, watcher_id=number, namespace="public/default", topics_pattern=".*")
        deaf.frames()
    for number in range(400):
        broker.admin.create_topic(f"persistent://public/default/t-{number}")
    assert deaf.session.closing
    assert other.ask("ping") is not None


def test_consumers_that_are_closed_together_inherit_nothing() -> None:
    broker = make_broker()
    producer, first, second = Peer(broker), Peer(broker), Peer(broker)
    producer.producer()
    producer.publish("a")
    for disconnect in (
        lambda: first.send("seek", consumer_id=1, request_id=3, message_id={"ledgerId": 2**64 - 1, "entryId": 2**64 - 1}),
        lambda: broker.admin.unload_topic(TOPIC),
    ):
        for one in (first, second):
            one.subscribe(kind="Shared")
            one.send("flow", consumer_id=1, messagePermits=1)
        assert first.texts() == ["a"]
        disconnect()
        assert [one.DESCRIPTOR.name for one in second.answers()] == ["CommandCloseConsumer"]
        first.answers()


def test_redeliveries_are_forgotten_when_the_last_consumer_leaves() -> None:
    broker, counts = make_broker(), []
    producer = Peer(broker)
    producer.producer()
    producer.publish("a")
    for _ in range(2):
        peer = Peer(broker)
        peer.subscribe(kind="Shared")
        for again in ("flow", "redeliverUnacknowledgedMessages"):
            peer.send(again, consumer_id=1, **({"messagePermits": 2} if again == "flow" else {}))
            counts += [one.redelivery_count for one in peer.answers()]
        peer.session.eof(0.0)
    assert counts == [0, 1, 0, 1]


def test_an_entry_that_is_named_twice_is_redelivered_once() -> None:
    broker = make_broker()
    producer, peer = Peer(broker), Peer(broker)
    producer.producer()
    producer.publish("a")
    peer.subscribe(kind="Shared")
    peer.send("flow", consumer_id=1, messagePermits=5)
    (message,) = peer.answers()
    peer.send("redeliverUnacknowledgedMessages", consumer_id=1, message_ids=[message.message_id, message.message_id])
    assert [one.redelivery_count for one in peer.answers()] == [1]


@pytest.mark.parametrize("setting", ["true", "false"])
def test_redeliveries_are_counted_anew_after_an_acknowledgement_of_a_part(setting) -> None:
    broker = make_broker(acknowledgmentAtBatchIndexLevelEnabled=setting)
    producer, peer = Peer(broker), Peer(broker)
    producer.producer()
    producer.publish_batch("a", "b", "c")
    peer.subscribe(kind="Shared")
    peer.send("flow", consumer_id=1, messagePermits=50)
    counts = [one.redelivery_count for one in peer.answers()]
    for ack in (False, False, True, False):
        if ack:
            peer.send("ack", consumer_id=1, ack_type="Individual", message_id=[{"ledgerId": 1, "entryId": 0, "ack_set": [0b110]}])
        peer.send("redeliverUnacknowledgedMessages", consumer_id=1)
        counts += [one.redelivery_count for one in peer.answers()]
    assert counts == [0, 1, 2, 1, 2]


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
@pytest.mark.parametrize(("named", "left"), [([9, 1], ["a", "b", "c"]), ([1, 9], ["a", "c"]), ([1, 9, 2], ["a", "c"])])
def test_an_acknowledgement_counts_up_to_an_entry_that_is_not_there_yet(kind, named, left) -> None:
    broker = make_broker()
    producer, peer = Peer(broker), Peer(broker)
    producer.producer()
    producer.publish("a", "b", "c")
    peer.subscribe(kind=kind)
    peer.flow(10)
    ids = [{"ledgerId": 1, "entryId": entry} for entry in named]
    answer = peer.ask("ack", consumer_id=1, ack_type="Individual", message_id=ids, request_id=1)
    assert not answer.HasField("error")
    peer.send("redeliverUnacknowledgedMessages", consumer_id=1)
    assert peer.texts() == left
