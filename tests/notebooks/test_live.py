"""The reference broker in virtual time, as notebooks use it."""

from __future__ import annotations

from conformance.notebooks.live import Stage
from refimpl.proposals.topic_list import TopicListWatch
from refimpl.wire import command, encode_frame, type_name, wrap

TOPIC = "persistent://public/default/order-"
WATCH = {"namespace": "public/default", "watcher_id": 1, "topics_pattern": f"{TOPIC}.*"}


def heads(stage: Stage) -> list[str]:
    return [row.head for row in stage.rows]


def test_a_client_says_something_and_is_answered() -> None:
    stage = Stage()
    flags = stage.connect()
    (answer,) = stage.say("watchTopicList", request_id=7, **WATCH)
    assert flags.supports_topic_watchers
    assert type_name(wrap(answer)) == "WATCH_TOPIC_LIST_SUCCESS"
    assert heads(stage) == ["opens a connection", "CONNECT", "CONNECTED", "WATCH_TOPIC_LIST", "WATCH_TOPIC_LIST_SUCCESS"]


def test_bytes_may_be_no_frame() -> None:
    stage = Stage()
    stage.connect("c")
    assert stage.send(bytes(4), "c") == []
    assert heads(stage)[-1] == "closes the connection"


def test_admin_calls_are_shown_with_what_they_bring_about() -> None:
    stage = Stage()
    stage.connect()
    stage.say("watchTopicList", request_id=7, **WATCH)
    assert stage.admin("create_topic", f"{TOPIC}1") is None
    assert "already exists" in stage.admin("create_topic", f"{TOPIC}1")
    assert heads(stage)[-5:] == ["create_topic", "done", "WATCH_TOPIC_UPDATE", "create_topic", "409"]


def test_time_passes_and_keep_alive_with_it() -> None:
    stage = Stage({"keepAliveIntervalSeconds": "5"})
    stage.connect()
    assert stage.wait(12) == 12
    assert [(row.head, row.t) for row in stage.rows[3:]] == [("PING", 5), ("PONG", 5), ("PING", 10), ("PONG", 10)]
    assert all(row.head not in ("PING", "PONG") for row in stage.heard())


def test_a_watch_says_what_it_has_to_by_itself() -> None:
    stage = Stage()
    stage.admin("create_topic", f"{TOPIC}1")
    watch = TopicListWatch("public/default", f"{TOPIC}.*", 0)
    stage.connect("w", watch)
    stage.admin("create_topic", f"{TOPIC}2")
    assert watch.topics == {f"{TOPIC}1", f"{TOPIC}2"}
    stage.wait(61)
    assert [row.head for row in stage.heard("w") if row.way == "out"][2:] == ["GET_TOPICS_OF_NAMESPACE", *["WATCH_TOPIC_LIST"] * 2]


def test_a_lost_connection_is_lost_for_both_sides() -> None:
    stage = Stage()
    watch = TopicListWatch("public/default", f"{TOPIC}.*", 0)
    stage.connect("w", watch)
    stage.lose("w")
    stage.admin("create_topic", f"{TOPIC}1")
    assert watch.topics == frozenset()
    stage.connect("w", watch)
    assert watch.topics == {f"{TOPIC}1"}


def test_the_broker_may_be_of_another_profile_or_from_before_the_proposal() -> None:
    stage = Stage(profile="as-written")
    stage.connect()
    (answer,) = stage.send(encode_frame(command("watchTopicListClose", request_id=2, watcher_id=1)))
    assert type_name(wrap(answer)) == "WATCH_TOPIC_LIST_SUCCESS"
    old = Stage(proposals=frozenset())
    assert not old.connect().supports_topic_watchers
    assert old.say("watchTopicList", request_id=7, **WATCH) == []
    assert heads(old)[-1] == "closes the connection"


def test_the_same_calls_give_the_same_rows() -> None:
    made = []
    for _ in range(2):
        stage = Stage()
        stage.connect()
        stage.say("watchTopicList", request_id=7, **WATCH)
        stage.admin("create_partitioned_topic", f"{TOPIC}p", 3)
        stage.wait(100)
        made.append(stage.rows)
    assert made[0] == made[1]
