"""What the pages over watches count and play: the frames are those that peers send, and each helper tells both outcomes apart."""

from __future__ import annotations

import pytest

from conformance.notebooks import partition_updates as pip247
from conformance.notebooks import scalable_topics as pr25648
from conformance.notebooks.judging import found_faults
from conformance.notebooks.live import Stage
from refimpl.proposals.scalable_topics.rules import AS_WRITTEN, DEFAULT
from refimpl.wire import decode_frame

TOPIC = "persistent://public/default/t"


def test_what_the_broker_announces_is_returned() -> None:
    stage = Stage()
    stage.connect()
    stage.say("watchPartitionUpdate", request_id=1, watcher_id=1, topics=[TOPIC])
    (update,) = stage.announced("create_partitioned_topic", TOPIC, 3)
    assert (update.version, update.topic_with_partition[0].partition) == (1, 3)
    assert stage.announced("unload_namespace", "public/default") == []
    assert [one.version for one in stage.announced("update_partitioned_topic", TOPIC, 4, wait=10)] == [2, 2]


def test_an_hour_of_partition_updates_costs_what_its_frames_cost() -> None:
    of = pip247.sizes(2)
    hour = pip247.an_hour(2, growths=3)
    growths = 3 * (of["update"] + of["result"])
    assert hour["polls"] == (240, 120 * (of["poll"] + of["its answer"]))
    assert hour["one watcher, as-written"] == (8, of["watch request"] + of["success"] + growths)
    assert hour["one watcher, default"] == (20, 7 * (of["watch request"] + of["success"]) + growths)


def test_sizes_are_those_of_frames_that_are_sent() -> None:
    topic = "persistent://shop/eu/orders-00000"
    stage = Stage()
    stage.admin("create_partitioned_topic", topic, 4)
    stage.connect()
    stage.say("watchPartitionUpdate", request_id=9, watcher_id=0, topics=[topic])
    asked, told = stage.rows[-2:]
    assert (len(asked.data or b""), len(told.data or b"")) == (pip247.sizes(1)["watch request"], pip247.sizes(1)["success"])


def test_a_client_calls_its_listener_only_for_a_watcher_that_is_confirmed() -> None:
    update = pip247.updated(1, topic=TOPIC, partition=3)
    client = pip247.watching(TOPIC, 2)
    assert pip247.handle(client, update) == (False, 0, 2)
    assert pip247.handle(client, pip247.confirmed(topic=TOPIC, partition=2)) == (True, 0, 2)
    assert pip247.handle(client, update, fails=True) == (True, 1, 2)
    assert pip247.handle(client, update) == (True, 1, 3)


def test_a_refusal_has_its_reason() -> None:
    assert "TooManyRequests" in pip247.refusal(TOPIC, "t", max_topics=1)
    assert pip247.refusal(TOPIC).startswith("WATCH_PARTITION_UPDATE_SUCCESS")


def test_a_bad_client_is_told_again_and_again() -> None:
    assert pip247.sent_to_bad_client("default", fails=False, topic=TOPIC, seconds=25) == [0, 10, 20]
    failing = pip247.sent_to_bad_client("as-written", fails=True, topic=TOPIC, seconds=2)
    assert len(failing) > len(pip247.sent_to_bad_client("default", fails=True, topic=TOPIC, seconds=2))


def test_a_late_result_fits_if_the_version_stays() -> None:
    assert pip247.sent_to_slow_client("counts", answers_after=25, topic=TOPIC, seconds=60) == {0: 1, 10: 1, 20: 1}
    assert list(pip247.sent_to_slow_client("each", answers_after=25, topic=TOPIC, seconds=30).values()) == [1, 2, 3, 4]


def test_a_client_polls_where_it_cannot_watch() -> None:
    assert pip247.polls(61, TOPIC, {}) == [True, "WATCHING", 0]
    assert pip247.polls(61, TOPIC, {}, old=True) == [False, "POLLING", 1]
    assert pip247.polls(61, TOPIC, {}, enabled=False) == [True, "POLLING", 1]


def test_two_new_peers_know_at_once() -> None:
    assert pip247.hour_of("new", "new", "as-written", topics=[TOPIC], grows_after=90)[::2] == [4, 0.0]
    assert pip247.hour_of("new", "old", "default", topics=[TOPIC], grows_after=90)[::2] == [120, 30.0]


def test_a_recorded_release_closes_on_commands_that_it_does_not_know() -> None:
    assert pip247.unknown_commands("2.10.5") == ["2.10.5", "without flags", *["ends the connection"] * 3]
    assert pip247.unknown_commands("4.2.4")[1] is True


def test_an_hour_of_scalable_topics_costs_what_its_frames_cost() -> None:
    of = pr25648.sizes(10)
    hour = pr25648.an_hour(10, created=0, losses=2)
    assert hour["watch"] == of["request"] + of["snapshot"] + 2 * of["with hash"]
    assert hour["list once a minute"] == 60 * (of["request"] + of["snapshot"] + of["close"])
    assert hour["list with the hash"] == 60 * (of["with hash"] + of["close"])


def test_a_window_saves_frames() -> None:
    assert pr25648.frames_of_burst(20, every=10, window=0) == 20
    assert pr25648.frames_of_burst(20, every=10, window=1_000) == 1


@pytest.mark.parametrize(
    ("filters", "properties", "selected"),
    [("", "a=1", True), ("a=1", "a=1 b=2", True), ("a=1", "a=12", False), ("a=1 b=2", "a=1", False), ("a=", "a=", True)],
)
def test_filters_select(filters: str, properties: str, selected: bool) -> None:
    assert pr25648.selects(filters, properties) is selected


def test_changes_of_a_window_are_folded_by_the_profile() -> None:
    assert pr25648.folded("add remove", AS_WRITTEN) == ""
    assert pr25648.folded("add remove", DEFAULT) == "removed=['t']"


def test_a_switched_off_broker_refuses_everything() -> None:
    asked = [(1, "shop/eu"), (1, "secret/ns"), (2, "shop")]
    assert pr25648.answers(asked, enabled=True) == [["served", 1], ["AuthorizationError", 0], ["InvalidTopicName", 0]]
    assert pr25648.answers(asked, enabled=False) == [["NotAllowedError", 0]] * 3


def test_a_client_has_started_with_its_first_snapshot() -> None:
    assert not pr25648.started({"diff": {"added": ["t"]}}).is_started
    assert set(pr25648.started({"snapshot": {"topics": ["t"]}}).topics) == {"t"}


def test_pauses_grow_and_differ_between_clients() -> None:
    one, other = pr25648.pauses(10, seed=1), pr25648.pauses(10, seed=2)
    assert one != other
    assert one == sorted(one)
    assert 0.09 <= one[0] <= 0.1


def test_peers_meet_in_four_pairs() -> None:
    assert pr25648.met("new", "new")[:3] == (True, 3, "topic://public/default/t")
    assert pr25648.met("new", "old")[:3] == (False, 0, "none")
    assert pr25648.met("old", "new") == (True, 0, "none", "has never heard of them")


def test_three_topics_have_two_owners() -> None:
    stage = pr25648.three_topics()
    stage.connect()
    stage.say("watchScalableTopics", watch_id=1, namespace="shop/eu", property_filters=[{"key": "owner", "value": "bob"}])
    told = decode_frame(stage.rows[-1].data or b"").command.watchScalableTopicsUpdate
    assert list(told.snapshot.topics) == ["topic://shop/eu/b"]


def test_a_fault_is_found_and_the_reference_is_not_accused() -> None:
    shown = found_faults({"pr25648/watch/repeated-id": "keeps_the_first_watch_of_an_id"}, "5.0.0-M1")
    assert shown.text.splitlines()[-1].split() == ["pr25648/watch/repeated-id", "keeps_the_first_watch_of_an_id", "PASS", "FAIL", "FAIL"]
