"""Synthetic logs, good and bad: what passes, what fails, and what the diagnosis says."""

import pytest

from conformance.engine.machine import MachineError
from conformance.engine.source import SourceProblem
from conformance.engine.values import ValueProblem
from conformance.engine.verdict import Verdict
from refimpl.proposals.topic_list import topics_hash
from tests.engine.scripts import ASK, PING, PONG, success, update


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


def test_log_that_ends_early_is_an_error_not_a_pass(play):
    assert play(ASK, ["actions"]).verdict is Verdict.ERROR


def test_admin_call_that_fails_is_an_error_of_the_harness(play):
    outcome = play("steps: [{admin: {create_topic: x}}]", [("problem", "409 exists")])
    assert outcome.verdict is Verdict.ERROR
    assert "409 exists" in outcome.diagnosis.summary


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
    assert "came twice: steps[1] of the case took the first one" in outcome.diagnosis.summary


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
    assert outcome.diagnosis.summary.startswith('nothing came: the case waits for success{request_id: {$bind: "r"}} on connection p')


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
