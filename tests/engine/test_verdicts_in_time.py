"""What is late, who was late, and what then is judged."""

from dataclasses import replace

import pytest

from conformance.engine.model import Transcript
from conformance.engine.parts import Soon
from conformance.engine.verdict import Verdict, sum_up
from tests.engine.scripts import ASK, PONG, success, update


def test_silence_until_the_deadline(play):
    outcome = play(ASK, ["actions", 11, "deadline"])
    assert outcome.diagnosis.kind == "late"
    assert outcome.diagnosis.summary == "nothing came: the case waits for success{request_id: 5}"


def test_frame_after_its_time_does_not_count(play):
    assert play(ASK, ["actions", 9.9, success(5)]).verdict is Verdict.PASS
    late = play(ASK, ["actions", 10.1, success(5)])
    assert late.diagnosis.kind == "differs"
    assert late.diagnosis.differences[0].path == "time"
    assert play(ASK, ["actions", 15, success(5)], slow=2.0).verdict is Verdict.PASS


def test_time_that_the_harness_lost_makes_it_inconclusive(play):
    assert play(ASK, ["actions", ("lag", 3.0), 11, "deadline"]).verdict is Verdict.INCONCLUSIVE
    assert play(ASK, ["actions", ("lag", 3.0), success(6)]).verdict is Verdict.FAIL


def test_a_little_of_it_is_enough_if_a_preparation_did_not_come(play):
    script = ["actions", ("lag", 0.6), 11, "deadline"]
    assert play(ASK.replace("    clause: test.two\n", ""), script).verdict is Verdict.INCONCLUSIVE
    assert play(ASK, script).verdict is Verdict.FAIL


TIMED = """
steps:
  - admin: {create_topic: x}
  - advance: 1.0
  - broker: {watchTopicUpdate: {watcher_id: 7, new_topics: [x]}}
    clause: test.two
"""


@pytest.mark.parametrize(("seconds", "verdict"), [(0.5, Verdict.FAIL), (1.5, Verdict.INCONCLUSIVE)])
def test_a_case_that_lets_time_pass_says_nothing_after_a_late_admin_call(play, seconds, verdict):
    assert play(TIMED, ["begin", seconds, "end", update(new=["y"])]).verdict is verdict
    assert play(TIMED.replace("  - advance: 1.0\n", ""), ["begin", seconds, "end", update(new=["y"])]).verdict is Verdict.FAIL


@pytest.mark.parametrize(("seconds", "verdict"), [(0.2, Verdict.FAIL), (0.4, Verdict.INCONCLUSIVE)])
def test_nor_after_a_late_answer_to_connect(play, seconds, verdict):
    text = """
steps:
  - {client: {connect: {client_version: x}}, label: start}
  - broker: {connected: {}}
  - broker: {pong: {}}
    window: {since: start, min: 0, max: 1}
ambient: []
"""
    connected = {"connected": {"server_version": "x"}}
    assert play(text, ["actions", seconds, connected, 1, PONG]).verdict is verdict


SOON = (("test.soon", Soon(seconds=1, frames=[{"success": {}}])),)


@pytest.mark.parametrize(
    ("script", "late"),
    [
        (["actions", 0.9, success(5)], False),
        (["actions", 1.1, success(5)], True),
        (["actions", 0.9, PONG, 0.9, success(5)], True),
        (["begin", 5, success(5), "end"], False),
        (["actions", ("lag", 0.6), 1.1, success(5)], False),
    ],
)
def test_a_frame_that_comes_later_than_a_clause_says_is_noted_and_decides_nothing(play, script, late):
    outcome = play(ASK, script, soon=SOON)
    assert outcome.verdict is Verdict.PASS
    assert outcome.clauses == {"test.one": Verdict.PASS, "test.two": Verdict.PASS}
    assert list(outcome.late) == (["test.soon"] if late else [])


def test_the_time_between_two_frames_counts_and_not_that_of_all(play):
    text = ASK + "  - broker: {success: {request_id: 6}}\n"
    assert not play(text, ["actions", 0.8, success(5), 0.8, success(6)], soon=SOON).late
    late = play(text, ["actions", 0.8, success(5), 1.2, success(6)], soon=SOON).late
    assert late["test.soon"].summary == "success came 1.200 s after what it answers or announces (at most 1 s)"


@pytest.mark.parametrize("limit", ["within: 12", "window: {since: start, min: 0, max: 12}"])
def test_a_step_that_says_when_its_frame_comes_is_left_alone(play, limit):
    text = ASK.replace("    clause: test.two", f"    {limit}").replace("watcher_id: 1}}", "watcher_id: 1}}\n    label: start")
    assert not play(text, ["actions", 11, success(5)], soon=SOON).late


def test_a_case_about_lateness_says_nothing_if_the_harness_was_late(play):
    cited = [("test.two", SOON[0][1])]
    outcome = play(ASK, ["actions", ("lag", 0.6), 1.1, success(5)], soon=cited)
    assert outcome.verdict is outcome.clauses["test.two"] is Verdict.INCONCLUSIVE
    assert play(ASK, ["actions", ("lag", 0.6), 0.5, success(5)], soon=cited).verdict is Verdict.PASS


@pytest.mark.parametrize(("stood_still", "verdict"), [(0.5, "FAIL"), (4, "INCONCLUSIVE")])
def test_a_rule_of_time_is_not_judged_if_the_peer_stood_still_before(play, stood_still, verdict):
    """A broker that was stopped for a moment answers late what needs no waiting; what is told by the age of a message is then another."""
    text = """
steps:
  - client: {ping: {}}
  - broker: {pong: {}}
  - client: {watchTopicListClose: {request_id: 5, watcher_id: 1}}
    label: asked
  - broker: {success: {request_id: 5}}
    window: {since: asked, min: 2, max: 4}
"""
    outcome = play(text, ["actions", stood_still, PONG, "actions", 0.1, success(5)])
    assert outcome.verdict == verdict


def test_a_late_answer_is_judged_itself(play):
    text = """
steps:
  - client: {lookupTopic: {topic: t, request_id: 1}}
    label: asked
  - broker: {lookupTopicResponse: {request_id: 1}}
    window: {since: asked, max: 3}
"""
    assert play(text, ["actions", 4, {"lookupTopicResponse": {"request_id": 1}}]).verdict is Verdict.FAIL


@pytest.mark.parametrize(("late", "verdict"), [("no", "PASS"), ("yes no", "PASS"), ("yes yes", "PASS"), ("yes yes yes", "WARN")])
def test_frames_that_come_late_count_if_they_do_in_each_of_three_runs(play, late, verdict):
    case = Transcript(format=1, id="test/case", title="x", tests=["broker"], clauses=["test.one", "test.two"], steps=[{"open": "c"}])
    runs = [play(ASK, ["actions", 1.1 if one == "yes" else 0.1, success(5)], soon=SOON) for one in late.split()]
    result = sum_up(case, {}, [replace(one, key=f"test/case#0~{number}") for number, one in enumerate(runs)])
    assert (result.verdict, result.clauses.get("test.soon")) == (verdict, "WARN" if verdict == "WARN" else None)
    assert result.summary.startswith("success came 1.100 s after") == (verdict == "WARN")


@pytest.mark.parametrize(("seconds", "verdict"), [(30.0, Verdict.INCONCLUSIVE), (3.0, Verdict.FAIL)])
def test_a_broker_may_close_a_connection_whose_harness_slept(play, seconds, verdict):
    assert play(ASK, ["actions", ("lag", seconds), "closed"]).verdict is verdict


@pytest.mark.parametrize(("seconds", "verdict"), [(14.0, Verdict.INCONCLUSIVE), (3.0, Verdict.FAIL)])
def test_a_broker_may_send_again_what_a_harness_that_slept_did_not_answer(play, seconds, verdict):
    assert play(ASK, ["actions", ("lag", seconds), success(6)]).verdict is verdict


@pytest.mark.parametrize(("seconds", "verdict"), [(14.0, Verdict.INCONCLUSIVE), (3.0, Verdict.FAIL)])
def test_a_broker_may_send_again_what_waited_for_a_slow_admin_call(play, seconds, verdict):
    """A case that grows a topic answers the update when the call has returned."""
    text = """
steps:
  - admin: {update_partitioned_topic: {topic: x, partitions: 4}}
  - broker: {watchTopicUpdate: {watcher_id: 7}}
  - client: {watchTopicListClose: {request_id: 5, watcher_id: 7}}
  - broker: {success: {request_id: 5}}
"""
    outcome = play(text, ["begin", update(), seconds, "end", "actions", update(), success(5)])
    assert (outcome.verdict, outcome.diagnosis.kind) == (verdict, "twice")
