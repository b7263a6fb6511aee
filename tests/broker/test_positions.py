"""What administrators do to the messages of topics and to the positions of subscriptions, and the end of a topic."""

from __future__ import annotations

import pytest

from refimpl.broker import upkeep
from refimpl.broker.rest import handle
from refimpl.broker.rest_arguments import PARTITIONED
from refimpl.proposals.administration import AdminRequest
from refimpl.wire import encode_payload
from refimpl.wire.pulsar_api_pb2 import MessageMetadata, NotAllowedError, ServiceNotReady, TopicTerminatedError
from tests.fakes.admin_calls import ask
from tests.fakes.broker_peer import TOPIC, Peer, make_broker

PATH = "/admin/v2/persistent/public/default/t"
SUBSCRIPTION = f"{PATH}/subscription/s"


@pytest.fixture
def peer() -> Peer:
    """A peer that has read and acknowledged five messages, published a second after each other."""
    peer = Peer(make_broker(keepAliveIntervalSeconds="1000000"))
    peer.producer()
    peer.subscribe()
    for number in range(5):
        peer.publish(str(number), at=1000 * number)
    peer.frames()
    peer.flow(5)
    peer.acknowledge(4, kind="Cumulative")
    return peer


def position(entry: int, **fields: object) -> dict[str, object]:
    return {"ledgerId": 1, "entryId": entry, "partitionIndex": -1, **fields}


def message_id(entry: int, ledger: int = 1) -> dict[str, int]:
    return {"ledgerId": ledger, "entryId": entry, "partitionIndex": -1, "batchIndex": -1, "batchSize": 0}


RESETS = [
    ("/1500", None, "234"), ("/0", None, "01234"), ("/2000", None, "234"), ("/9999", None, ""),
    ("", position(2), "234"), ("", position(2, excluded=True), "34"), ("", position(-1), "01234"), ("", position(4, excluded=True), ""),
]  # fmt: skip


@pytest.mark.parametrize(("rest", "body", "read"), RESETS)
def test_a_subscription_is_reset(peer, rest, body, read):
    assert ask(peer.broker, "POST", f"{SUBSCRIPTION}/resetcursor{rest}", body) == (204, b"")
    assert [one.DESCRIPTOR.name for one in peer.answers()] == ["CommandCloseConsumer"]
    peer.subscribe()
    assert "".join(peer.flow(9)) == read


def names(peer: Peer) -> list[str]:
    return [one.DESCRIPTOR.name.removeprefix("Command") for one in peer.answers()]


def test_a_terminated_topic_closes_producers_and_takes_no_new_ones(peer):
    assert ask(peer.broker, "POST", f"{PATH}/terminate") == (200, message_id(4))
    assert names(peer) == ["CloseProducer", "ReachedEndOfTopic"]
    refused = peer.producer()
    assert (refused.error, refused.message) == (TopicTerminatedError, "Topic was already terminated")
    assert ask(peer.broker, "POST", f"{PATH}/terminate") == (200, message_id(4))
    assert ask(make_broker(peer.broker.store), "GET", f"{PATH}/lastMessageId") == (200, message_id(4))
    assert Peer(make_broker(peer.broker.store)).producer().error == TopicTerminatedError


def test_a_send_under_way_is_ignored_when_the_topic_ends(peer):
    ask(peer.broker, "POST", f"{PATH}/terminate")
    peer.frames()
    peer.publish("late")
    assert (peer.frames(), peer.session.closing) == ([], False)
    assert ask(peer.broker, "GET", f"{PATH}/lastMessageId") == (200, message_id(4))
    peer.session.receive(b"", 0.0)
    other = Peer(peer.broker)
    other.publish("never opened")
    assert other.session.closing


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_who_has_acknowledged_all_is_told_of_the_end_once(peer, kind):
    for consumer_id, name in ((2, "half"), (3, "unread")):
        peer.subscribe(name=name, consumer_id=consumer_id, kind=kind)
    assert len(peer.flow(9, consumer_id=2)) == 5
    ask(peer.broker, "POST", f"{PATH}/terminate")
    assert names(peer) == ["CloseProducer", "ReachedEndOfTopic"]
    peer.acknowledge(0, 1, 2, 3, consumer_id=2)
    assert names(peer) == []
    peer.acknowledge(4, consumer_id=2)
    (told,) = peer.answers()
    assert (told.DESCRIPTOR.name, told.consumer_id) == ("CommandReachedEndOfTopic", 2)
    peer.acknowledge(4, consumer_id=2)
    peer.send("flow", consumer_id=2, messagePermits=1)
    assert names(peer) == []
    assert len(peer.flow(9, consumer_id=3)) == 5
    peer.ask("close_consumer", consumer_id=2, request_id=9)
    peer.subscribe(name="half", consumer_id=4, kind=kind)
    assert names(peer) == [], "only who wants messages is told"
    peer.send("flow", consumer_id=4, messagePermits=1)
    assert names(peer) == ["ReachedEndOfTopic"]
    peer.subscribe(name="new", consumer_id=5, initialPosition="Latest")
    peer.send("flow", consumer_id=5, messagePermits=1)
    assert names(peer) == ["ReachedEndOfTopic"]


def test_who_comes_back_to_an_ended_subscription_is_told_later_each_time(peer):
    ask(peer.broker, "POST", f"{PATH}/terminate")
    assert names(peer) == ["CloseProducer", "ReachedEndOfTopic"]
    waited = []
    for consumer_id in range(10, 20):
        peer.ask("close_consumer", consumer_id=1 if consumer_id == 10 else consumer_id - 1, request_id=9)
        peer.subscribe(consumer_id=consumer_id)
        begun = peer.broker.now
        peer.send("flow", consumer_id=consumer_id, messagePermits=1)
        while (told := names(peer)) == []:
            peer.broker.tick(peer.broker.now + 0.5)
        assert told == ["ReachedEndOfTopic"]
        waited.append(peer.broker.now - begun)
    assert waited == [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_an_empty_topic_is_terminated(peer):
    ask(peer.broker, "PUT", f"{PATH}2")
    peer.subscribe(f"{TOPIC}2", consumer_id=7)
    assert ask(peer.broker, "POST", f"{PATH}2/terminate") == (200, message_id(-1, 2))
    assert names(peer) == ["ReachedEndOfTopic"]


def test_a_truncated_topic_has_no_backlog(peer):
    for name in ("reading", "idle"):
        peer.subscribe(name=name, consumer_id=len(name), kind="Shared")
    assert len(peer.flow(2, consumer_id=7)) == 2
    assert ask(peer.broker, "DELETE", f"{PATH}/truncate") == (204, b"")
    assert names(peer) == []
    assert [one.backlog for one in peer.broker.loaded(TOPIC).subscriptions.values()] == [0, 0, 0]
    assert peer.flow(9, consumer_id=7) == peer.flow(9, consumer_id=4) == []
    peer.publish("new")
    assert peer.texts() == ["new", "new"]
    peer.subscribe(name="earliest", consumer_id=9)
    assert len(peer.flow(9, consumer_id=9)) == 6, "as in Pulsar, what the last ledger has can still be read"
    assert ask(peer.broker, "GET", f"{PATH}/lastMessageId") == (200, message_id(5))


@pytest.mark.parametrize(("time", "entry", "ledger"), [(0, -1, -1), (1, 1, 1), (1000, 1, 1), (2500, 3, 1), (99_999, 5, 1)])
def test_the_first_message_at_a_time(peer, time, entry, ledger):
    assert ask(peer.broker, "GET", f"{PATH}/messageid/{time}") == (200, message_id(entry, ledger))


EXPIRED = [
    ("", position(2), 204, 2), ("", position(2, excluded=True), 204, 1), ("", position(9), 409, 5), ("/1", None, 204, 0), ("/997", None, 204, 1), ("/2000", None, 204, 5),
]  # fmt: skip


@pytest.mark.parametrize(("rest", "body", "status", "left"), EXPIRED)
def test_messages_expire(peer, rest, body, status, left):
    subscription = peer.broker.loaded(TOPIC).subscriptions["s"]
    peer.broker.tick(1000.5)
    ask(peer.broker, "POST", f"{SUBSCRIPTION}/resetcursor/0")
    assert ask(peer.broker, "POST", f"{SUBSCRIPTION}/expireMessages{rest}", body)[0] == status
    assert subscription.backlog == left
    if not left:
        assert ask(peer.broker, "POST", f"{SUBSCRIPTION}/expireMessages/1")[0] == 409
    if rest:
        ask(peer.broker, "POST", f"{SUBSCRIPTION}/resetcursor/0")
        assert ask(peer.broker, "POST", f"{PATH}/all_subscription/expireMessages{rest}", body) == (204, b"")
        assert subscription.backlog == left


OLD, YOUNG, NONE_LEFT = 1_000, 2_000, 0
EXPIRED_BY_AGE = [
    ("0", True, 409, 3), ("1", True, 409, 3), ("2", True, 204, 1), ("4", True, 409, 3), ("-1", True, 204, NONE_LEFT),
    ("0", False, 204, 1), ("1", False, 204, 1), ("4", False, 204, 3), ("-1", False, 204, NONE_LEFT), ("x", False, 404, 3),
]  # fmt: skip


@pytest.mark.parametrize("place", [SUBSCRIPTION, f"{PATH}/all_subscription"])
@pytest.mark.parametrize(("seconds", "read", "status", "left"), EXPIRED_BY_AGE)
def test_a_small_backlog_of_consumers_expires_late(place, seconds, read, status, left):
    """With consumers the oldest message of a small backlog has to be one and a half times as old; 0 seconds it never is."""
    if (seconds, read) == ("1", True):
        status, left = 204, 1  # one and a half seconds are one
    peer = Peer(make_broker(keepAliveIntervalSeconds="1000000"))
    peer.producer()
    peer.subscribe()
    if not read:
        peer.ask("close_consumer", consumer_id=1, request_id=9)
    for at in (OLD, OLD, 4_500):
        peer.publish("x", at=at)
    peer.broker.tick(4.5)
    assert ask(peer.broker, "POST", f"{place}/expireMessages/{seconds}")[0] == status
    assert peer.broker.loaded(TOPIC).subscriptions["s"].backlog == left


def test_a_large_backlog_expires_in_time(monkeypatch, peer):
    monkeypatch.setattr(upkeep, "_SMALL_BACKLOG", 5)
    peer.broker.tick(4.5)
    peer.subscribe(name="n", consumer_id=2)
    assert ask(peer.broker, "POST", f"{PATH}/subscription/n/expireMessages/4") == (204, b"")
    assert peer.broker.loaded(TOPIC).subscriptions["n"].backlog == 4


@pytest.mark.parametrize("rest", ["resetcursor", "expireMessages"])
def test_a_call_that_needs_a_position_does_nothing_without_one(peer, rest):
    ask(peer.broker, "POST", f"{SUBSCRIPTION}/resetcursor/0")
    assert ask(peer.broker, "POST", f"{SUBSCRIPTION}/{rest}")[0] == 500
    assert peer.broker.loaded(TOPIC).subscriptions["s"].backlog == 5


@pytest.mark.parametrize(("texts", "batch_index"), [(["a", "b", "c"], 2), (["a"], 0)])
def test_the_last_message_of_a_batch(peer, texts, batch_index):
    peer.publish_batch(*texts)
    assert ask(peer.broker, "GET", f"{PATH}/lastMessageId") == (200, {**message_id(5), "batchIndex": batch_index})


@pytest.mark.parametrize(("name", "position", "status"), [("none", 1, 200), ("none", 5, 200), ("none", 6, 404), ("s", 1, 404)])
def test_a_subscription_that_is_not_there_is_peeked_from_the_beginning(peer, name, position, status):
    assert ask(peer.broker, "GET", f"{PATH}/subscription/{name}/position/{position}")[0] == status


@pytest.mark.parametrize(("time", "status"), [(-1, 500), (0, 200), (10**18, 200), (2**63, 404)])
def test_any_time_may_be_asked_for(peer, time, status):
    assert ask(peer.broker, "GET", f"{PATH}/messageid/{time}")[0] == status


def test_messages_are_shown_with_their_metadata(peer):
    fields = {
        "event_time": 123_456, "ordering_key": b"oo", "deliver_at_time": 90_000, "partition_key": "k", "null_value": True, "schema_version": b"\1",
    }  # fmt: skip
    metadata = MessageMetadata(producer_name="p", sequence_id=5, publish_time=0, num_messages_in_batch=1, **fields)
    peer.send("send", encode_payload(metadata, b"12345"), producer_id=1, sequence_id=5)
    headers = handle(peer.broker, AdminRequest("GET", f"{PATH}/examinemessage"), 0.0).headers
    assert {name.removeprefix("X-Pulsar-"): text for name, text in headers.items()} == {
        "Message-ID": "1:5", "PROPERTY": "{}", "producer-name": "p", "sequence-id": "5", "publish-time": "1970-01-01T00:00:00.000Z",
        "event-time": "1970-01-01T00:02:03.456Z", "deliver-at-time": "1970-01-01T00:01:30.000Z", "Base64-ordering-key": "b28=", "partition-key": "k",
        "null-value": "true", "Base64-schema-version": "AQ==", "num-batch-message": "1", "batch-size": "15", "Is-Encrypted": "false", "txn-uncommitted": "false",
    }  # fmt: skip


def test_messages_are_looked_at(peer):
    earliest, latest = "initialPosition=earliest&messagePosition", "initialPosition=latest&messagePosition"
    for query, text in (
        (f"{earliest}=1", b"0"),
        (f"{earliest}=2", b"1"),
        (f"{earliest}=99", b"4"),
        (f"{latest}=1", b"4"),
        (f"{latest}=2", b"3"),
        ("", b"4"),
    ):
        assert ask(peer.broker, "GET", f"{PATH}/examinemessage?{query}") == (200, text)
    assert ask(peer.broker, "GET", f"{PATH}/ledger/1/entry/1") == (200, b"1")
    assert (
        ask(peer.broker, "GET", f"{PATH}/ledger/1/entry/9")
        == ask(peer.broker, "GET", f"{PATH}/ledger/9/entry/1")
        == (404, {"reason": "Message id not found"})
    )
    ask(peer.broker, "PUT", f"{PATH}2")
    assert ask(peer.broker, "GET", f"{PATH}2/examinemessage")[0] == 412
    assert ask(peer.broker, "GET", f"{PATH}/compaction") == (200, {"status": "NOT_RUN", "lastError": ""})
    assert ask(peer.broker, "GET", f"{PATH}/internal-info")[1]["cursors"]["s"]["markDelete"] == {"ledgerId": 1, "entryId": 4}
    assert ask(peer.broker, "GET", f"{SUBSCRIPTION}/properties") == (200, {})


ELSEWHERE = " on a partitioned topic is not allowed, please try do it on specific topic partition"
OF_PARTITIONED_TOPICS = [
    ("GET", "messageid/0", 405, f"Get message ID by timestamp{ELSEWHERE}"),
    ("GET", "examinemessage", 405, f"Examine messages{ELSEWHERE}"),
    ("POST", "terminate", 405, "Termination of a partitioned topic is not allowed"),
    ("POST", "subscription/s/resetcursor", 405, "Reset-cursor at position on a partitioned topic is not allowed"),
    ("POST", "subscription/s/expireMessages", 405, "Expire message at position on a partitioned topic is not allowed"),
    ("POST", "subscription/s/skip/1", 405, "Skip messages on a partitioned topic is not allowed"),
    ("GET", "subscription/s/position/1", 405, "Peek messages on a partitioned topic is not allowed"),
    ("POST", "subscription/none/resetcursor/0", 404, "Subscription none not found for topic persistent://public/default/p"),
    ("GET", "internalStats", 404, "Topic persistent://public/default/p not found"),
    ("GET", "lastMessageId", 404, "Topic persistent://public/default/p not found"),
    ("POST", "subscription/s/resetcursor/0", 204, None), ("POST", "subscription/s/skip_all", 204, None), ("DELETE", "truncate", 204, None), ("POST", "trim", 200, None),
    ("POST", "createMissedPartitions", 204, None), ("GET", "subscription/s/properties", 200, None), ("GET", "internal-info", 200, None), ("GET", "partitioned-internalStats", 200, None),
]  # fmt: skip
OF_OTHERS = [
    (
        "persistent",
        "POST",
        "terminate/partitions",
        405,
        "Termination of a non-partitioned topic is not allowed using partitioned-terminate",
    ),
    ("persistent", "POST", "createMissedPartitions", 404, "Topic persistent://public/default/x does not exist"),
    ("non-persistent", "POST", "terminate", 406, "Need to provide a persistent topic name"),
    ("non-persistent", "GET", "properties", 406, "Need to provide a persistent topic name"),
    ("non-persistent", "PUT", "properties", 406, "Need to provide a persistent topic name"),
    ("non-persistent", "DELETE", "truncate", 412, "unsupport truncate"),
    ("non-persistent", "POST", "trim", 405, "Trim on a non-persistent topic is not allowed"),
    ("non-persistent", "GET", "compaction", 500, "non-persistent://public/default/x is not persistent"),
    ("non-persistent", "GET", "internal-info", 500, "Request failed."),
    ("non-persistent", "POST", "subscription/s/skip_all", 500, "non-persistent://public/default/x is not persistent"),
    ("non-persistent", "POST", "subscription/s/skip/1", 500, "non-persistent://public/default/x is not persistent"),
    (
        "non-persistent",
        "POST",
        "all_subscription/expireMessages/1",
        405,
        "Expire messages for all subscriptions on a non-persistent topic is not allowed",
    ),
    ("non-persistent", "GET", "lastMessageId", 405, "GetLastMessageId on a non-persistent topic is not allowed"),
    ("non-persistent", "GET", "messageid/0", 405, "Get message ID by timestamp on a non-persistent topic is not allowed"),
    ("non-persistent", "PUT", "subscription/s", 400, "Create subscription on non-persistent topic can only be done through client"),
]


def test_messages_expire_in_all_subscriptions_that_have_some(peer):
    peer.broker.tick(1000.5)
    ask(peer.broker, "POST", f"{SUBSCRIPTION}/resetcursor/0")
    ask(peer.broker, "PUT", f"{PATH}/subscription/a-caught-up")
    status, body = ask(peer.broker, "POST", f"{PATH}/all_subscription/expireMessages/1")
    assert (status, "for subscription a-caught-up due to" in body["reason"]) == (409, True)
    assert peer.broker.loaded(TOPIC).subscriptions["s"].backlog == 0


@pytest.mark.parametrize("path", ["namespaces/public/a%20b/bundles", "persistent/public/a%20b", "namespaces/public/a%2Fb/topics"])
def test_a_name_that_no_namespace_has(peer, path):
    assert ask(peer.broker, "GET", f"/admin/v2/{path}") == (412, {"reason": "Namespace name is not valid"})


@pytest.mark.parametrize(("method", "rest", "status", "reason"), OF_PARTITIONED_TOPICS)
def test_what_partitioned_topics_can(peer, method, rest, status, reason):
    path = "/admin/v2/persistent/public/default/p"
    ask(peer.broker, "PUT", f"{path}/partitions", 2)
    ask(peer.broker, "PUT", f"{path}/subscription/s", {})
    found, body = ask(peer.broker, method, f"{path}/{rest}", {} if rest.endswith(("cursor", "expireMessages")) else None)
    assert (found, body["reason"] if reason else None) == (status, reason)


@pytest.mark.parametrize(("domain", "method", "rest", "status", "reason"), OF_OTHERS)
def test_what_other_topics_cannot(peer, domain, method, rest, status, reason):
    path = f"/admin/v2/{domain}/public/default/x"
    ask(peer.broker, "PUT", path)
    assert ask(peer.broker, method, f"{path}/{rest}", {}) == (status, {"reason": reason})


@pytest.mark.parametrize(
    ("domain", "method", "rest", "status", "reason"),
    [
        ("non-persistent", "DELETE", "truncate", 412, "unsupport truncate"),
        ("non-persistent", "POST", "trim", 405, "Trim on a non-persistent topic is not allowed"),
        ("non-persistent", "GET", "compaction", 404, "Topic non-persistent://public/default/x not found"),
        ("non-persistent", "GET", "internal-info", 500, "Request failed."),
        ("persistent", "GET", "internal-info", 500, "Request failed."),
        ("persistent", "POST", "trim", 404, "Topic persistent://public/default/x not found"),
        ("persistent", "DELETE", "truncate", 404, "Topic persistent://public/default/x not found"),
    ],
)
def test_what_is_asked_of_topics_that_do_not_exist(peer, domain, method, rest, status, reason):
    assert ask(peer.broker, method, f"/admin/v2/{domain}/public/default/x/{rest}") == (status, {"reason": reason})


def test_partitions_are_terminated_together(peer):
    path = "/admin/v2/persistent/public/default/p"
    ask(peer.broker, "PUT", f"{path}/partitions", 2)
    ids = {str(number): {**message_id(-1, 2 + number), "partitionIndex": number} for number in range(2)}
    assert ask(peer.broker, "POST", f"{path}/terminate/partitions") == (200, ids)
    assert peer.producer("persistent://public/default/p-partition-1", producer_id=5).error == TopicTerminatedError


def test_properties_of_topics(peer):
    path, part = "/admin/v2/persistent/public/default/p", "/admin/v2/persistent/public/default/p-partition-0"
    assert ask(peer.broker, "PUT", f"{PATH}2", {"a": "b"}) == (204, b"")
    assert ask(peer.broker, "PUT", f"{PATH}2/properties", {"c": "d", "a": "x"}) == (204, b"")
    assert ask(peer.broker, "GET", f"{PATH}2/properties") == (200, {"a": "x", "c": "d"})
    for key in ("a", "none"):
        assert ask(peer.broker, "DELETE", f"{PATH}2/properties?key={key}") == (204, b"")
    assert ask(peer.broker, "GET", f"{PATH}2/properties") == (200, {"c": "d"})
    assert ask(peer.broker, "GET", f"{PATH}3/properties") == (404, {"reason": f"Topic {TOPIC}3 not found"})
    for body in ([1], "x", {"a": 1}):
        assert ask(peer.broker, "PUT", f"{PATH}2/properties", body)[0] == 400
        assert ask(peer.broker, "PUT", f"{PATH}3", body)[0] == 400
    assert ask(peer.broker, "PUT", f"{path}/partitions", {"partitions": 2, "properties": {"k": "v"}}, content_type=PARTITIONED) == (
        204,
        b"",
    )
    assert ask(peer.broker, "GET", f"{path}/partitions") == (200, {"partitions": 2, "deleted": False, "properties": {"k": "v"}})
    assert ask(peer.broker, "PUT", f"{part}/properties", {"in": "part"}) == (204, b"")
    assert [ask(peer.broker, "GET", f"{one}/properties")[1] for one in (path, part)] == [{"k": "v"}, {"in": "part"}]
    assert ask(peer.broker, "DELETE", f"{path}/partitions")[0] == 204
    ask(peer.broker, "PUT", f"{path}/partitions", 2)
    assert ask(peer.broker, "GET", f"{path}/properties") == (200, {})


def test_missed_partitions_are_created(peer):
    path = "/admin/v2/persistent/public/default/p"
    ask(peer.broker, "PUT", f"{path}/partitions", 2)
    ask(peer.broker, "DELETE", f"{path}-partition-1")
    assert ask(peer.broker, "POST", f"{path}/createMissedPartitions") == (204, b"")
    assert ask(peer.broker, "GET", f"{path}-partition-1/stats")[0] == 200


def test_schemas_are_deleted(peer):
    path = "/admin/v2/schemas/public/default/t"
    body = {"type": "STRING", "schema": "", "properties": {}}
    for first, query, deletion in ((1, "", 2), (3, "", 4), (5, "?force=true", -1), (0, "", 1)):  # a deletion is a version, too
        if first == 1:
            assert ask(peer.broker, "DELETE", f"{path}/schema") == (200, {"version": 0})
        assert ask(peer.broker, "POST", f"{path}/schema", body) == (200, {"version": {"version": first}})
        assert [one["version"] for one in ask(peer.broker, "GET", f"{path}/schemas")[1]["getSchemaResponses"]] == [first]
        assert ask(peer.broker, "DELETE", f"{path}/schema{query}") == (200, {"version": deletion})
        for lacking in ("schema", f"schema/{first}", "schema/1"):
            assert ask(peer.broker, "GET", f"{path}/{lacking}") == (404, {"reason": "Schema not found"})
        assert ask(peer.broker, "GET", f"{path}/schemas") == (200, {"getSchemaResponses": []})


@pytest.mark.parametrize(
    ("path", "others", "status", "left"),
    [
        ("clearBacklog", ["persistent://public/default/without"], 204, 0),
        ("clearBacklog/s", [], 204, 0),
        ("clearBacklog/s", ["non-persistent://public/default/n"], 204, 0),
        ("clearBacklog/s", ["persistent://public/default/without"], 500, 0),
        ("clearBacklog/other", [], 500, 5),
    ],
)
def test_the_backlog_of_a_namespace_is_cleared(peer, path, others, status, left):
    for other in others:
        ask(peer.broker, "PUT", f"/admin/v2/{other.replace('://', '/')}")
    ask(peer.broker, "POST", f"{SUBSCRIPTION}/resetcursor/0")
    answer = ask(peer.broker, "POST", f"/admin/v2/namespaces/public/default/{path}")
    assert answer == (status, b"" if status == 204 else {"reason": "Cursor not found"})
    assert peer.broker.loaded(TOPIC).subscriptions["s"].backlog == left


TIMES = [
    ("", 0, 0, 0),
    ("?getEarliestTimeInBacklog=false", 0, 0, 0),
    ("?getEarliestTimeInBacklog=true", 1_002_000, 1_002_000, -1),
]


@pytest.mark.parametrize(("query", "of_topic", "behind", "caught_up"), TIMES)
def test_stats_tell_the_earliest_time_in_a_backlog_if_they_are_asked(query, of_topic, behind, caught_up):
    broker = make_broker()
    broker.wall_clock_offset = 1000.0
    peer = Peer(broker)
    peer.producer()
    for name in ("behind", "caught-up"):
        ask(broker, "PUT", f"{PATH}/subscription/{name}")
    for body, time in (("a", 1_001_000), ("b", 1_002_000), ("c", 1_003_000)):
        peer.publish(body, at=time)
    ask(broker, "POST", f"{PATH}/subscription/behind/skip/1")
    ask(broker, "POST", f"{PATH}/subscription/caught-up/skip_all")
    stats = ask(broker, "GET", f"{PATH}/stats{query}")[1]
    found = {name: one["earliestMsgPublishTimeInBacklog"] for name, one in stats["subscriptions"].items()}
    assert (stats["earliestMsgPublishTimeInBacklogs"], found) == (of_topic, {"behind": behind, "caught-up": caught_up})


# What commands ask for beside


def test_a_subscription_may_begin_some_time_ago():
    broker = make_broker()
    broker.wall_clock_offset = 1000.0
    peer = Peer(broker)
    peer.producer()
    for at in (900_000, 950_000, 999_000):
        peer.publish(str(at), at=at)
    peer.frames()
    for number, fields in enumerate(
        ({"initialPosition": "Latest"}, {}, {"durable": False, "start_message_id": {"ledgerId": 2**64 - 1, "entryId": 2**64 - 1}})
    ):
        peer.subscribe(name=f"s{number}", consumer_id=number, start_message_rollback_duration_sec=60, **fields)
        assert peer.flow(9, consumer_id=number) == ["950000", "999000"]


DIFFERENT_CLOCKS = [(999, 0), (1000, 0), (1001, 1), (2000, 1), (2001, 4), (2500, 4), (2600, 6), (3000, 6), (3001, 6), (4000, 6), (4001, 7)]
"""As observed on 4.2.4: a search that halves what is left."""


@pytest.mark.parametrize(("time", "first"), DIFFERENT_CLOCKS)
def test_a_seek_to_a_time_where_the_clocks_of_producers_differ(time, first):
    peer = Peer(make_broker())
    peer.producer()
    for at in (1000, 2000, 2000, 2000, 3000, 2500, 4000):
        peer.publish("x", at=at)
    peer.frames()
    peer.subscribe()
    peer.send("seek", consumer_id=1, request_id=3, message_publish_time=time)
    peer.frames()
    peer.subscribe(consumer_id=2)
    peer.send("flow", consumer_id=2, messagePermits=10)
    assert peer.entries() == list(range(first, 7))


def test_who_may_read_what_is_compacted(peer):
    texts = {
        ("persistent", "Shared"): "readCompacted only allowed on failover or exclusive subscriptions",
        ("non-persistent", "Exclusive"): "readCompacted only valid on persistent topics",
    }
    for (domain, kind), text in texts.items():
        answer = peer.subscribe(f"{domain}://public/default/c", consumer_id=5, kind=kind, read_compacted=True)
        assert (answer.error, answer.message) == (NotAllowedError, text)
    assert peer.subscribe(f"{TOPIC}2", consumer_id=5, read_compacted=True).DESCRIPTOR.name == "CommandSuccess"


def test_only_a_shadow_topic_takes_ids(peer):
    payload = encode_payload(MessageMetadata(producer_name="p", sequence_id=9, publish_time=0), b"x")
    answer = peer.ask("send", payload, producer_id=1, sequence_id=9, message_id={"ledgerId": 1, "entryId": 9})
    assert (answer.error, answer.message) == (NotAllowedError, "Only shadow topic supports sending messages with messageId")


def test_nothing_is_sent_or_acknowledged_in_a_transaction(peer):
    transaction = {"txnid_least_bits": 1, "txnid_most_bits": 2}
    sent = peer.ask(
        "send",
        encode_payload(MessageMetadata(producer_name="p", sequence_id=9, publish_time=0), b"x"),
        producer_id=1,
        sequence_id=9,
        **transaction,
    )
    assert (sent.error, sent.message) == (NotAllowedError, "Sending in a transaction is not supported by this broker")
    ask(peer.broker, "POST", f"{SUBSCRIPTION}/resetcursor/0")
    peer.frames()
    peer.subscribe()
    peer.flow(1)
    ids = [{"ledgerId": 1, "entryId": 0}]
    answer = peer.ask("ack", consumer_id=1, ack_type="Individual", message_id=ids, request_id=4, **transaction)
    assert (answer.error, answer.message) == (NotAllowedError, "Acknowledging in a transaction is not supported by this broker")
    peer.send("ack", consumer_id=1, ack_type="Individual", message_id=ids, **transaction)
    assert (peer.frames(), peer.broker.loaded(TOPIC).subscriptions["s"].backlog) == ([], 5)


def test_a_listener_that_is_not_there(peer):
    answer = peer.ask("lookupTopic", topic=TOPIC, request_id=1, advertised_listener_name="internal")
    assert (answer.error, answer.message) == (ServiceNotReady, "the broker do not have internal listener")
