"""Synthetic logs, good and bad: what passes, what fails, and what the diagnosis says."""

from dataclasses import replace

import pytest

from conformance.engine.machine import MachineError
from conformance.engine.model import Transcript
from conformance.engine.parts import Soon
from conformance.engine.source import SourceProblem
from conformance.engine.values import ValueProblem
from conformance.engine.verdict import Verdict, sum_up
from refimpl.proposals.topic_list import topics_hash

PING, PONG = {"ping": {}}, {"pong": {}}


def success(number):
    return {"success": {"request_id": number}}


def update(*, new=(), gone=(), topics_hash="00000000", watcher=7):
    return {"watchTopicUpdate": {"watcher_id": watcher, "new_topics": list(new), "deleted_topics": list(gone), "topics_hash": topics_hash}}


ASK = """
steps:
  - client: {watchTopicListClose: {request_id: {$bind: r, example: 5}, watcher_id: 1}}
  - broker: {success: {request_id: $r}}
    clause: test.two
"""


def test_answer_passes(play):
    assert play(ASK, ["actions", success(5)]).verdict is Verdict.PASS


def test_wrong_field_is_the_nearest_miss(play):
    outcome = play(ASK, ["actions", success(6)])
    assert outcome.verdict is Verdict.FAIL
    assert outcome.clauses == {"test.one": Verdict.UNTESTABLE, "test.two": Verdict.FAIL}
    assert outcome.diagnosis.kind == "differs"
    assert outcome.diagnosis.summary == "SUCCESS{request_id: 6} is not what is expected: success.request_id: expected 5, got 6"
    assert outcome.diagnosis.step == "steps[1]"


def test_unexpected_frame_fails_the_step_that_waits(play):
    outcome = play(ASK, ["actions", update()])
    assert outcome.diagnosis.kind == "unexpected"
    assert outcome.diagnosis.clause == "test.two"
    assert "which nothing expects here; the case waits for success{request_id: 5}" in outcome.diagnosis.summary


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


def test_a_failure_beside_a_may_is_charged_to_the_must_that_was_open(play):
    text = """
steps:
  - client: {ping: {}}
  - one_of:
      - {name: a, steps: [{broker: {success: {request_id: 1}}, clause: test.one}]}
      - {name: b, steps: [{broker: {error: {request_id: 1, error: UnknownError}}, clause: test.two}]}
"""
    outcome = play(text, ["actions", success(2)], levels={"test.one": "MAY", "test.two": "MUST"})
    assert outcome.verdict is Verdict.FAIL
    assert outcome.clauses["test.two"] is Verdict.FAIL


def test_a_redirect_is_ambient_in_every_case(play):
    redirect = {"lookupTopicResponse": {"request_id": 1, "response": "Redirect"}}
    assert play(ASK + "ambient: []\n", ["actions", redirect, success(5)]).verdict is Verdict.PASS


def test_next_counts_the_steps_that_have_it(play):
    text = """
steps:
  - client: {ping: {}}
  - for: {i: [a, b]}
    do: [{broker: {send_receipt: {producer_id: 1, sequence_id: {$next: x}, highest_sequence_id: {$next: x}}}}]
"""
    receipts = [{"send_receipt": {"producer_id": 1, "sequence_id": one, "highest_sequence_id": one}} for one in (0, 1)]
    assert play(text, ["actions", *receipts]).verdict is Verdict.PASS
    assert play(text, ["actions", receipts[0], receipts[0]]).verdict is Verdict.FAIL


def test_closed_connection(play):
    outcome = play(ASK, ["actions", "closed"])
    assert outcome.diagnosis.kind == "closed"
    assert outcome.diagnosis.summary == "the peer closed connection c, the case waits for success{request_id: 5}"


@pytest.mark.parametrize(
    ("due", "number", "verdict"),
    [
        ("{closed: {}}", 2**64 - 1, Verdict.PASS),
        ("{closed: {}}", 5, Verdict.FAIL),
        ("{broker: {success: {request_id: 5}}}", 2**64 - 1, Verdict.FAIL),
        ("{one_of: [{name: answers, steps: [{broker: {success: {}}}]}, {name: ends, steps: [{closed: {}}]}]}", 2**64 - 1, Verdict.PASS),
    ],
)
def test_an_error_for_no_request_may_say_why_the_connection_ends(play, due, number, verdict):
    refusal = {"error": {"request_id": number, "error": "UnknownError", "message": "not here"}}
    text = f"steps:\n  - client: {{ping: {{}}}}\n  - {due}\nambient: []\n"
    assert play(text, ["actions", refusal, "closed"]).verdict is verdict


def test_garbage(play):
    outcome = play(ASK, ["actions", "garbage"])
    assert outcome.diagnosis.kind == "garbage"
    assert "not a frame" in outcome.diagnosis.summary


def test_ping_is_ambient_and_pong_too(play):
    outcome = play(ASK, ["actions", PING, PONG, success(5)])
    assert outcome.verdict is Verdict.PASS
    assert outcome.ambient == 2


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


def test_log_that_ends_early_is_an_error_not_a_pass(play):
    assert play(ASK, ["actions"]).verdict is Verdict.ERROR


def test_admin_call_that_fails_is_an_error_of_the_harness(play):
    outcome = play("steps: [{admin: {create_topic: x}}]", [("problem", "409 exists")])
    assert outcome.verdict is Verdict.ERROR
    assert "409 exists" in outcome.diagnosis.summary


def test_namespace_of_which_something_is_left_makes_it_untestable(play):
    outcome = play("steps: [{admin: {delete_namespace: {namespace: x, force: true}}}]", [("problem", "409 in-flight topics")])
    assert (outcome.verdict, "in-flight" in outcome.diagnosis.summary) == (Verdict.UNTESTABLE, True)


@pytest.mark.parametrize(
    ("status", "body", "verdict"),
    [
        (405, {"reason": "create_topic is not supported by this broker"}, Verdict.UNTESTABLE),
        (501, None, Verdict.UNTESTABLE),
        (404, None, Verdict.UNTESTABLE),
        (404, {"reason": "HTTP 404 Not Found"}, Verdict.UNTESTABLE),
        (404, "<html>\n<head>\n<title>Error 404 Not Found</title>", Verdict.UNTESTABLE),
        (404, "404 page not found", Verdict.UNTESTABLE),
        (404, {"message": "Cannot PUT /admin/v2/persistent/a/b/t"}, Verdict.UNTESTABLE),
        (404, {"reason": "Topic not found"}, Verdict.ERROR),
        (409, None, Verdict.ERROR),
    ],
)
def test_an_admin_call_that_the_interface_does_not_have_makes_it_untestable(play, status, body, verdict):
    outcome = play("steps: [{admin: {create_topic: x}}]", [("refused", status, body)])
    said = outcome.diagnosis.summary == f"the admin interface of the target has no create_topic: it answers {status}"
    assert (outcome.verdict, said) == (verdict, verdict == Verdict.UNTESTABLE)


@pytest.mark.parametrize(
    ("call", "verdict"),
    [
        ("create_topic: 'persistent://a/b/t '", Verdict.UNTESTABLE),
        ('create_partitioned_topic: {topic: "persistent://a/b/t\\n", partitions: 2}', Verdict.UNTESTABLE),
        ("create_topic: persistent://a/b/t%20ü", Verdict.ERROR),
        ("delete_topic: 'persistent://a/b/t '", Verdict.ERROR),
    ],
)
def test_a_broker_may_refuse_names_with_blanks(play, call, verdict):
    assert play(f"steps: [{{admin: {{{call}}}}}]", [("refused", 412, {"reason": "Topic name is not valid"})]).verdict is verdict


@pytest.mark.parametrize(
    ("call", "status", "reason", "verdict"),
    [
        ("create_partitioned_topic", 406, "Number of partitions should be less than or equal to 4", Verdict.UNTESTABLE),
        (
            "update_partitioned_topic",
            422,
            "Desired partitions 5 can't be greater than the maximum partitions per topic 4.",
            Verdict.UNTESTABLE,
        ),
        ("update_partitioned_topic", 409, "Number of partitions is in use", Verdict.ERROR),
        ("create_partitioned_topic", 412, "Topic name is not valid", Verdict.ERROR),
    ],
)
def test_a_broker_may_limit_the_partitions_of_a_topic(play, call, status, reason, verdict):
    steps = f"steps: [{{admin: {{{call}: {{topic: 'persistent://a/b/t', partitions: 5}}}}}}]"
    outcome = play(steps, [("refused", status, {"reason": reason})])
    said = outcome.diagnosis.summary == f"the target takes no topic with 5 partitions: it answers {status} {reason}"
    assert (outcome.verdict, said) == (verdict, verdict == Verdict.UNTESTABLE)


@pytest.mark.parametrize("status", [401, 403])
def test_an_admin_call_that_the_user_may_not_make_accuses_nobody(play, status):
    outcome = play("steps: [{admin: {create_topic: x}}]", [("refused", status, {"reason": "Need to be a super user"})])
    assert outcome.verdict is Verdict.UNTESTABLE
    assert outcome.diagnosis.summary == f"the user may not call create_topic: the admin interface answers {status}"


@pytest.mark.parametrize(("status", "verdict"), [(404, Verdict.FAIL), (403, Verdict.FAIL), (501, Verdict.UNTESTABLE)])
def test_where_a_clause_speaks_of_it_404_is_an_answer(play, status, verdict):
    outcome = play("steps: [{read: {namespace_exists: x}, expect: {reason: gone}, clause: test.two}]", [("refused", status, None)])
    assert outcome.verdict is verdict


def test_admin_interface_that_stumbles_makes_it_inconclusive(play):
    assert play("steps: [{admin: {create_topic: x}}]", [("stumble", "500 closed channel")]).verdict is Verdict.INCONCLUSIVE


TWO = """
steps:
  - client: {watchTopicListClose: {request_id: 1, watcher_id: 1}}
  - broker: {success: {request_id: 1}}
  - admin: {create_topic: x}
  - broker: {watchTopicUpdate: {watcher_id: 7, new_topics: [x]}}
    clause: test.two
"""


def test_push_before_the_admin_call_returns(play):
    assert play(TWO, ["actions", success(1), "begin", update(new=["x"]), "end"]).verdict is Verdict.PASS


def test_nothing_after_an_action_matches_an_event_from_before_it(play):
    outcome = play(TWO, ["actions", success(1), update(new=["x"])])
    assert outcome.diagnosis.kind == "too-early"
    assert outcome.diagnosis.clause == "test.two"


def test_frame_that_came_before_is_named(play):
    outcome = play(TWO, ["actions", success(1), success(1)])
    assert outcome.diagnosis.kind == "twice"
    assert "came twice: steps[1] took it before" in outcome.diagnosis.summary


ORDER = """
steps:
  - client: {ping: {}}
  - {broker: {success: {request_id: 1}}, at: a}
  - {broker: {success: {request_id: 2}}, at: a}
  - {broker: {success: {request_id: 3}}, at: b}
"""


def test_expectations_are_ordered_on_a_connection_and_free_among_connections(play):
    assert play(ORDER, ["actions", ("on", "b", success(3)), ("on", "a", success(1)), ("on", "a", success(2))]).verdict is Verdict.PASS
    assert play(ORDER, ["actions", ("on", "a", success(1)), ("on", "b", success(3)), ("on", "a", success(2))]).verdict is Verdict.PASS
    assert play(ORDER, ["actions", ("on", "a", success(2))]).diagnosis.kind == "differs"
    assert play(ORDER, ["actions", ("on", "b", success(1))]).verdict is Verdict.FAIL


CHOICE = """
steps:
  - client: {ping: {}}
  - one_of:
      - {name: refused, steps: [{broker: {error: {request_id: 1, error: NotAllowedError}}}]}
      - {name: done, level: warn, clause: test.two, steps: [{broker: {success: {request_id: 1}}}, {broker: {success: {request_id: 2}}}]}
      - {name: cut, level: fails, only: ["2.11.0"], steps: [{closed: {}}]}
"""


def test_branch_that_is_taken_is_recorded_with_its_level(play):
    refused = {"error": {"request_id": 1, "error": "NotAllowedError", "message": ""}}
    assert play(CHOICE, ["actions", refused]).branches == ("refused",)
    warned = play(CHOICE, ["actions", success(1), success(2)])
    assert (warned.verdict, warned.branches, warned.clauses["test.two"]) == (Verdict.WARN, ("done",), Verdict.WARN)
    assert play(CHOICE, ["actions", success(1), refused]).verdict is Verdict.FAIL
    assert play(CHOICE, ["actions", "closed"], release="4.2.4").diagnosis.kind == "closed"
    cut = play(CHOICE, ["actions", "closed"], release="2.11.0")
    assert (cut.verdict, cut.branches) == (Verdict.FAIL, ("cut",))


ANY = """
steps:
  - client: {ping: {}}
  - any_order:
      - [{broker: {success: {request_id: 1}}}, {broker: {success: {request_id: 2}}}]
      - [{broker: {pong: {}}}]
  - broker: {success: {request_id: 3}}
"""


@pytest.mark.parametrize(
    ("frames", "verdict"),
    [
        ([success(1), success(2), PONG, success(3)], Verdict.PASS),
        ([success(1), PONG, success(2), success(3)], Verdict.PASS),
        ([PONG, success(1), success(2), success(3)], Verdict.PASS),
        ([success(2), success(1), PONG, success(3)], Verdict.FAIL),
        ([success(1), success(3)], Verdict.FAIL),
        ([success(1), success(1)], Verdict.FAIL),
    ],
)
def test_any_order(play, frames, verdict):
    assert play(ANY, ["actions", *frames]).verdict is verdict


def test_any_order_for_each_value(play):
    text = """
steps:
  - client: {ping: {}}
  - {any_order: null, each: {i: {$range: [0, 50]}}, do: [{broker: {success: {request_id: $i}}}]}
"""
    assert play(text, ["actions", *map(success, reversed(range(50)))]).verdict is Verdict.PASS
    assert play(text, ["actions", *map(success, range(49)), success(3)]).verdict is Verdict.FAIL


OPTIONAL = """
steps:
  - client: {ping: {}}
  - optional: [{broker: {success: {request_id: 1}}}, {broker: {success: {request_id: 2}}}]
  - broker: {success: {request_id: 3}}
"""


def test_optional_steps_come_whole_or_not_at_all(play):
    assert play(OPTIONAL, ["actions", success(3)]).verdict is Verdict.PASS
    assert play(OPTIONAL, ["actions", success(1), success(2), success(3)]).verdict is Verdict.PASS
    assert play(OPTIONAL, ["actions", success(1), success(3)]).verdict is Verdict.FAIL


COLLECT = """
vars: {all: [a, b, c]}
steps:
  - client: {ping: {}}
  - collect:
      frame: {watchTopicUpdate: {watcher_id: 7, deleted_topics: {$len: 1}}}
      into: {gone: deleted_topics}
      each: {topics_hash: {$topics_hash: {$minus: [$all, $gone]}}}
      until: {gone: {$bag: $all}}
    clause: test.two
  - observe: {order: $gone}
"""


def test_collect_folds_and_checks_each(play):
    left = [topics_hash(["a", "c"]), topics_hash(["a"]), topics_hash([])]
    good = [update(gone=[t], topics_hash=h) for t, h in zip("bca", left, strict=True)]
    outcome = play(COLLECT, ["actions", *good])
    assert outcome.verdict is Verdict.PASS
    assert outcome.observed == {"order": ["b", "c", "a"]}
    bad = play(COLLECT, ["actions", good[0], update(gone=["c"], topics_hash=left[0])])
    assert bad.diagnosis.clause == "test.two"
    assert "topics_hash" in bad.diagnosis.summary


FOLD = """
vars: {known: [a, b], topics: $known}
steps:
  - client: {ping: {}}
  - collect:
      frame: {watchScalableTopicsUpdate: {watch_id: 7}}
      into: {names: diff.added}
      fold: {topics: {remove: diff.removed, add: diff.added}}
      until: {topics: {$bag: [b, c]}}
    clause: test.two
  - observe: {order: $topics, names: $names}
"""


def diff(*, added=(), removed=()):
    return {"watchScalableTopicsUpdate": {"watch_id": 7, "diff": {"added": list(added), "removed": list(removed)}}}


def test_collect_applies_fields_of_a_frame_to_a_set(play):
    outcome = play(FOLD, ["actions", diff(added=["b", "d"], removed=["b"]), diff(removed=["a", "d", "x"], added=["c", "c"])])
    assert outcome.verdict is Verdict.PASS
    assert outcome.observed == {"order": ["b", "c"], "names": ["b", "d", "c", "c"]}
    missed = play(FOLD, ["actions", diff(added=["c"]), "deadline"])
    assert missed.diagnosis.clause == "test.two"


@pytest.mark.parametrize(
    ("into", "fold"), [("{names: diff.added}", "{}"), ("{topics: diff.added}", "{topics: {remove: diff.removed, add: diff.added}}")]
)
def test_collect_gathers_each_variable_in_one_way(play, into, fold):
    text = FOLD.replace("into: {names: diff.added}", f"into: {into}").replace(
        "fold: {topics: {remove: diff.removed, add: diff.added}}", f"fold: {fold}"
    )
    with pytest.raises(SourceProblem, match="by into or by fold"):
        play(text, [])


SILENCE = """
steps:
  - client: {ping: {}}
  - broker: {success: {request_id: 1}}
  - silence: {frames: [{watchTopicUpdate: {watcher_id: 7}}]}
    clause: test.two
    until:
      - admin: {create_topic: x}
      - broker: {watchTopicUpdate: {watcher_id: 7, new_topics: [fence]}}
"""


def test_silence_is_proved_by_what_comes_later(play):
    assert play(SILENCE, ["actions", success(1), "actions", update(new=["fence"])]).verdict is Verdict.PASS


def test_broken_silence_is_charged_to_its_clause(play):
    outcome = play(SILENCE, ["actions", success(1), "actions", update(new=["other"])])
    assert outcome.diagnosis.kind == "silence"
    assert outcome.clauses["test.two"] is Verdict.FAIL


def test_a_silence_holds_for_what_any_case_allows(play):
    text = SILENCE.replace("watchTopicUpdate: {watcher_id: 7}}]", "pong: {}}]") + "ambient: [{frame: {pong: {}}}]\n"
    assert play(text, ["actions", PONG, success(1), "actions", update(new=["fence"])]).verdict is Verdict.PASS
    assert play(text, ["actions", success(1), "actions", PONG, update(new=["fence"])]).diagnosis.kind == "silence"


def test_a_silence_in_a_silence_holds_too(play):
    text = """
ambient: [{frame: {pong: {}}}]
steps:
  - client: {ping: {}}
  - broker: {success: {request_id: 1}}
  - silence: {frames: [{watchTopicUpdate: {watcher_id: 8}}]}
    clause: test.one
    until:
      - silence: {frames: [{pong: {}}]}
        clause: test.two
        until: [{broker: {watchTopicUpdate: {watcher_id: 7, new_topics: [fence]}}}]
"""
    assert play(text, ["actions", PONG, success(1), update(new=["fence"])]).verdict is Verdict.PASS
    outcome = play(text, ["actions", success(1), PONG, update(new=["fence"])])
    assert outcome.diagnosis.kind == "silence"
    assert outcome.clauses["test.two"] is Verdict.FAIL


def test_quiet_window(play):
    text = """
steps:
  - client: {ping: {}}
  - silence: {frames: [{success: {}}]}
    clause: test.two
    until: [{advance: 1.0}]
"""
    assert play(text, ["actions", "begin", 1.0, "end"]).verdict is Verdict.PASS
    assert play(text, ["actions", "begin", 0.5, success(1), "end"]).diagnosis.kind == "silence"


WINDOW = """
steps:
  - {client: {ping: {}}, label: start}
  - broker: {pong: {}}
    window: {since: start, min: 1.0, max: 2.0}
"""


@pytest.mark.parametrize(("after", "verdict"), [(0.5, Verdict.FAIL), (1.5, Verdict.PASS), (2.5, Verdict.FAIL)])
def test_window(play, after, verdict):
    assert play(WINDOW + "ambient: []\n", ["actions", after, PONG]).verdict is verdict


def test_read_is_matched_with_its_answer(play):
    text = """
steps:
  - read: {topic_stats: x}
    expect: {backlog: 0}
    clause: test.two
"""
    assert play(text, [("read", {"backlog": 0, "more": 1})]).verdict is Verdict.PASS
    bad = play(text, [("read", {"backlog": 3})])
    assert bad.diagnosis.kind == "read"
    assert str(bad.diagnosis.differences[0]) == "body.backlog: expected 0, got 3"


def test_levels_decide_what_a_failure_is_worth(play):
    assert play(ASK, ["actions", success(6)], levels={"test.two": "SHOULD"}).verdict is Verdict.WARN
    assert play(ASK, ["actions", success(6)], levels={"test.two": "MAY"}).verdict is Verdict.SPEC_GAP


def test_ambiguous_actions_are_an_error_of_the_transcript(play):
    text = """
steps:
  - client: {ping: {}}
  - optional: [{broker: {success: {request_id: 1}}}]
  - one_of:
      - {name: a, steps: [{client: {ping: {}}}]}
      - {name: b, steps: [{client: {pong: {}}}]}
"""
    with pytest.raises(MachineError, match="want different actions"):
        play(text, ["actions", "actions"])


def test_race_counts_as_begun_with_its_first_action(play):
    text = """
steps:
  - race:
      a: [{admin: {create_topic: x}}]
      b: [{advance: 0.1}, {client: {ping: {}}}]
  - broker: {watchTopicUpdate: {watcher_id: 7}}
  - admin: {create_topic: y}
  - broker: {success: {request_id: 2}}
"""
    assert play(text, ["begin", update(), "end", "actions", success(2)]).verdict is Verdict.PASS


def test_bindings_reach_later_steps(play):
    text = """
steps:
  - client: {ping: {}}
  - broker: {producer_success: {request_id: {$bind: r}, producer_name: {$bind: p}}}
  - broker: {success: {request_id: $r}}
  - observe: {name: "name ${p}"}
"""
    answer = {"producer_success": {"request_id": 9, "producer_name": "x"}}
    assert play(text, ["actions", answer, success(9)]).observed == {"name": "name x"}
    assert play(text, ["actions", answer, success(8)]).verdict is Verdict.FAIL


TOLD_ELSEWHERE = """
steps:
  - client: {ping: {}}
  - {at: p, broker: {success: {request_id: {$bind: r}}}}
  - {broker: {watchTopicListSuccess: {request_id: $r, watcher_id: 7, topic: [], topics_hash: "00000000"}}, clause: test.two}
  - {broker: {success: {request_id: 9}}}
"""


def listed(number):
    return {"watchTopicListSuccess": {"request_id": number, "watcher_id": 7, "topic": [], "topics_hash": "00000000"}}


@pytest.mark.parametrize(
    "script",
    [
        [("on", "p", success(5)), listed(5), success(9)],
        [listed(5), ("on", "p", success(5)), success(9)],
        [listed(5), success(9), ("on", "p", success(5))],
        [listed(5), success(9), 9, ("on", "p", success(5))],
    ],
)
def test_connections_may_overtake_each_other_even_if_one_tells_what_the_other_is_compared_with(play, script):
    assert play(TOLD_ELSEWHERE, ["actions", *script]).verdict is Verdict.PASS


def test_what_was_kept_is_judged_once_the_variable_is_set(play):
    outcome = play(TOLD_ELSEWHERE, ["actions", listed(6), success(9), ("on", "p", success(5))])
    assert outcome.verdict is Verdict.FAIL
    assert outcome.diagnosis.clause == "test.two"
    assert "watchTopicListSuccess.request_id: expected 5, got 6" in outcome.diagnosis.summary
    late = play(TOLD_ELSEWHERE, ["actions", 11, listed(5), ("on", "p", success(5))])
    assert late.diagnosis.differences[0].path == "time"


def test_a_variable_that_never_comes_is_waited_for(play):
    outcome = play(TOLD_ELSEWHERE, ["actions", listed(5), success(9), 10, "deadline"])
    assert outcome.verdict is Verdict.FAIL
    assert outcome.diagnosis.summary.startswith('nothing came: the case waits for success{request_id: {$bind: "r"}} on p')


def test_a_frame_that_fits_nothing_is_not_kept(play):
    outcome = play(TOLD_ELSEWHERE, ["actions", update(), ("on", "p", success(5))])
    assert outcome.diagnosis.kind == "unexpected"


def test_the_end_of_a_connection_stays_behind_what_is_kept(play):
    text = TOLD_ELSEWHERE.replace("{broker: {success: {request_id: 9}}}", "closed: {}")
    assert play(text, ["actions", listed(5), "closed", ("on", "p", success(5))]).verdict is Verdict.PASS


def test_a_variable_that_nothing_binds_is_an_error_of_the_case(play):
    with pytest.raises(ValueProblem, match=r"the variable \$r is not set here"):
        play(ASK.replace("$bind: r, example: 5", "$bind: s, example: 5"), ["actions", success(5)])


@pytest.mark.parametrize(
    ("addresses", "verdict"),
    [
        ({"brokerServiceUrl": "pulsar://b:1", "brokerServiceUrlTls": "pulsar+ssl://b:2"}, Verdict.PASS),
        ({"brokerServiceUrlTls": "pulsar://b:1"}, Verdict.PASS),
        ({"brokerServiceUrlTls": "pulsar+ssl://b:2"}, Verdict.FAIL),
        ({}, Verdict.FAIL),
    ],
)
def test_a_broker_with_tls_only_is_known_by_its_address_with_tls(play, addresses, verdict):
    steps = """
steps:
  - client: {lookupTopic: {topic: "persistent://public/default/t", request_id: 1}}
  - broker: {lookupTopicResponse: {request_id: 1, response: Connect, brokerServiceUrl: "pulsar://b:1"}}
    clause: test.two
"""
    answer = {"lookupTopicResponse": {"request_id": 1, "response": "Connect", **addresses}}
    assert play(steps, ["actions", answer]).verdict is verdict
