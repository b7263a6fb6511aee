"""What failures have in common, in words; and who is not to blame for them."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from conformance.engine import log
from conformance.engine.diagnosis import Diagnosis
from conformance.engine.matchers import Difference
from conformance.engine.verdict import Outcome, TrialLog, Verdict
from conformance.judging.causes import attributed, cause_of, groups, relation
from conformance.judging.results import RunLog
from conformance.report import known_faults as module
from conformance.report import views
from conformance.report.known_faults import likeness
from conformance.report.terminal import render_text
from conformance.report.views import again, sides
from refimpl.wire import command, encode_frame, encode_payload
from refimpl.wire.pulsar_api_pb2 import MessageIdData, MessageMetadata
from tests.samples.report import bad_records, report

META = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
HEADER = log.Header(suite="", transcripts="", target="t", started="")


def trial(key, *sent, came=None):
    """A conversation: what was sent, then what came, or the end of the wait."""
    events = [
        log.Begin(key=key, n=n, t=0.0, step=f"{n}.0.0", what="send", at="c", data=encode_frame(command(name, **fields)).hex())
        for n, (name, fields) in enumerate(sent)
    ]
    last = {"key": key, "n": len(events), "t": 1.0}
    events.append(log.Deadline(**last) if came is None else log.Frame(**last, at="c", data=encode_frame(came).hex()))
    return TrialLog(log.TrialStarted(key=key, case=key, actions=""), events)


def run_of(*rows):
    """A run of cases: (name, diagnosis, verdict, what was sent)."""
    trial_logs, outcomes, results = {}, {}, []
    for name, diagnosis, verdict, *sent in rows:
        trial_logs[name] = trial(name, *sent)
        outcomes[name] = Outcome(name, verdict, {}, replace(diagnosis, event=len(sent)))
        clauses = {f"core.{name}": str(verdict)}
        results.append(log.Result(case=name, verdict=verdict, summary=diagnosis.summary, clauses=clauses, keys=[name]))
    return RunLog(HEADER, trial_logs), results, outcomes


def wrong(path, expected, actual, clause="core.x", command="watchTopicUpdate"):
    return Diagnosis("differs", "", "steps[1]", clause, (Difference(path, expected, actual),), event=1, command=command)


def silent(clause="core.x", name="message"):
    return Diagnosis("late", "", "steps[1]", clause, waiting=(name,), event=1, command=name)


SEND = ("send", {"producer_id": 1, "sequence_id": 0})
SENT = command("send", producer_id=1, sequence_id=0)
FLOW = ("flow", {"consumer_id": 1, "messagePermits": 1})
SEEK = ("seek", {"consumer_id": 1, "request_id": 1})
SUBSCRIBE = ("subscribe", {"topic": "t", "subscription": "s", "subType": 0, "consumer_id": 1, "request_id": 1})


@pytest.mark.parametrize(
    ("expected", "actual", "words"),
    [
        ('"0a1b2c3d"', '"3d2c1b0a"', "has its bytes reversed"),
        ('"0a1b2c3d"', '"f5e4d3c2"', "has its bits inverted"),
        ('"abc"', '"ABC"', "has other capitals"),
        ('"abc"', '"cba"', "is reversed"),
        ('"abc"', '"ab"', "is cut"),
        ('"abc"', '"xabc"', "is longer than it should be"),
        ('"abc"', '""', "is empty"),
        ('"abc"', '"x"', "is another one"),
        ('"ConsumerBusy"', '"UnknownError"', "is UnknownError instead of ConsumerBusy"),
        ("2 items [..]", '1 items ["a"]', "lacks items"),
        ("0 items []", '1 items ["a"]', "has items too many"),
        ("1 items [..]", '1 items ["a"]', "has other items, or another order"),
        ("3", "4", "is one too high"),
        ("3", "2", "is one too low"),
        ("3", "0", "is 0"),
        ("3", "30", "is too high"),
        ("true", "false", "is false"),
        ("anything", "nothing (the field is absent)", "is missing"),
        ("nothing (the field is absent)", "1", "is there, and must not be"),
    ],
)
def test_how_a_value_is_wrong(expected, actual, words):
    assert relation(expected, actual) == words


def test_one_wrong_line_is_one_cause_whatever_the_command():
    rows = [
        (f"c{n}", wrong(f"{command}.topics_hash", '"0a1b2c3d"', '"3d2c1b0a"', command=command), Verdict.FAIL, FLOW)
        for n, command in enumerate(["watchTopicUpdate", "watchTopicListSuccess"])
    ]
    (group,) = groups(*run_of(*rows))
    assert group.words == "topics_hash of WATCH_TOPIC_LIST_SUCCESS, WATCH_TOPIC_UPDATE has its bytes reversed"
    assert group.clauses == ("core.c0", "core.c1")


@pytest.mark.parametrize(
    ("permits", "words"),
    [
        (0, "MESSAGE comes without permits, which FLOW grants"),
        (1, "MESSAGE comes where nothing expects it after FLOW"),
    ],
)
def test_a_message_beyond_all_permits_is_told_as_such(permits, words):
    diagnosis = Diagnosis("unexpected", "", "steps[1]", "core.x", event=2, command="message")
    flow = ("flow", {"consumer_id": 1 if permits else 2, "messagePermits": 1})
    run, results, outcomes = run_of(("c", diagnosis, Verdict.FAIL, SUBSCRIBE, flow))
    message = command("message", consumer_id=1, message_id=MessageIdData(ledgerId=1, entryId=0))
    trial_logs = {"c": trial("c", SUBSCRIBE, flow, came=message)}
    (group,) = groups(replace(run, trial_logs=trial_logs), results, outcomes)
    assert group.words == words


def test_permits_are_used_by_each_message_of_a_batch():
    batch = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=2)
    diagnosis = Diagnosis("unexpected", "", "steps[1]", "core.x", event=3, command="message")
    flow = ("flow", {"consumer_id": 1, "messagePermits": 2})
    _, results, outcomes = run_of(("c", diagnosis, Verdict.FAIL, SUBSCRIBE, flow))
    message = command("message", consumer_id=1, message_id=MessageIdData(ledgerId=1, entryId=0))
    found = trial("c", SUBSCRIBE, flow, came=message)
    first = log.Frame(key="c", n=2, t=0.5, at="c", data=encode_frame(message, encode_payload(batch, b"")).hex())
    found.events[2:] = [first, found.events[2].model_copy(update={"n": 3})]
    outcomes = {"c": replace(outcomes["c"], diagnosis=diagnosis)}
    (group,) = groups(RunLog(HEADER, {"c": found}), results, outcomes)
    assert group.words == "MESSAGE comes without permits, which FLOW grants"


def test_numbers_that_are_too_high_by_more_or_less_are_one_cause():
    found = {got: wrong("producer_success.request_id", "2", got, command="producer_success") for got in ("3", "9")}
    rows = [(f"c{got}", diagnosis, Verdict.FAIL, FLOW) for got, diagnosis in found.items()]
    (group,) = groups(*run_of(*rows))
    assert (group.words, group.example) == ("request_id of PRODUCER_SUCCESS is too high", "expected 2, got 3")


def test_what_comes_where_nothing_is_expected_is_one_cause_whatever_the_case_waits_for():
    kinds = (("silence", SEND), ("unexpected", SEND), ("too-early", FLOW))
    rows = [(kind, Diagnosis(kind, "", clause="core.x", command="message"), Verdict.FAIL, sent) for kind, sent in kinds]
    (group,) = groups(*run_of(*rows))
    assert group.words == "MESSAGE comes where nothing expects it after FLOW, SEND"


@pytest.mark.parametrize(
    ("expected", "got", "how"),
    [("m0", "m1", "is that of a message that was sent later"), ("m1", "m0", "is that of a message that was sent earlier")],
)
def test_a_message_in_the_place_of_another_one_is_recognized(expected, got, how):
    conversation = trial("c", came=command("message", consumer_id=1, message_id={"ledgerId": 1, "entryId": 1}))
    sends = [
        log.Begin(key="c", n=n, t=0.0, step="1.0.0", what="send", at="c", data=encode_frame(SENT, encode_payload(META, body)).hex())
        for n, body in enumerate((b"m0", b"m1"))
    ]
    diagnosis = replace(wrong("payload.body", f'"{expected}"', f'"{got}"', command="message"), event=2)
    found = cause_of(diagnosis, replace(conversation, events=[*sends, *conversation.events]))
    assert found.words() == f"body of MESSAGE {how}"


def test_the_cause_is_in_the_first_lines():
    out = io.StringIO()
    render_text(report(bad_records()), Console(file=out, width=100))
    first, *rest = out.getvalue().splitlines()
    assert first.startswith("Why")
    assert rest[0].startswith("  1 clause, 1 case: ")


def test_what_does_not_come_is_told_with_what_was_done():
    (group,) = groups(*run_of(("c", silent(), Verdict.FAIL, SUBSCRIBE, SEEK)))
    assert group.words == "MESSAGE does not come after SEEK"


def test_what_never_comes_is_one_cause():
    rows = [(sent[0], silent(), Verdict.FAIL, sent) for sent in (FLOW, SEEK, SUBSCRIBE, ("lookupTopic", {"topic": "t", "request_id": 1}))]
    (group,) = groups(*run_of(*rows))
    assert group.words == "MESSAGE does not come"
    assert len(group.results) == 4


def test_a_long_frame_of_which_the_log_keeps_the_beginning_is_named():
    run, results, outcomes = run_of(("c", silent(), Verdict.FAIL, SUBSCRIBE, SEND))
    events = run.trial_logs["c"].events
    events[1] = events[1].model_copy(update={"data": f"{events[1].data}..00"})
    (group,) = groups(run, results, outcomes)
    assert group.words == "MESSAGE does not come after SEND"


def test_a_refusal_is_told_by_what_is_refused():
    refused = trial("c", SUBSCRIBE, came=command("error", request_id=1, error=6, message="no"))
    found = cause_of(Diagnosis("unexpected", "", clause="core.x", event=1, command="error"), refused)
    assert found.words() == "SUBSCRIBE is refused with ServiceNotReady"


def test_preparation_that_fails_is_not_charged_to_its_case():
    run, results, outcomes = run_of(("guilty", silent(), Verdict.FAIL, SEEK), ("victim", silent(clause=None), Verdict.FAIL, SEEK))
    guilty, victim = attributed(run, results, outcomes)
    assert (guilty.verdict, victim.verdict) == ("FAIL", "UNTESTABLE")
    assert victim.summary == "it did not get so far, since MESSAGE does not come after SEEK: core.guilty, which fails in guilty"


@pytest.mark.parametrize(
    "other",
    [
        ("other", silent(), Verdict.FAIL, FLOW),
        ("other", silent(), Verdict.WARN, SEEK),
        ("other", silent(clause=None), Verdict.FAIL, SEEK),
    ],
    ids=["another cause", "a warning", "preparation, too"],
)
def test_without_a_clause_that_fails_for_the_same_cause_a_case_is_charged(other):
    run, results, outcomes = run_of(other, ("victim", silent(clause=None), Verdict.FAIL, SEEK))
    assert attributed(run, results, outcomes)[1].verdict == "FAIL"


def test_a_known_failure_counts_as_one():
    run, results, outcomes = run_of(("known", silent(), Verdict.FAIL, SEEK), ("victim", silent(clause=None), Verdict.FAIL, SEEK))
    known = results[0].model_copy(update={"verdict": "XFAIL"})
    assert [one.verdict for one in attributed(run, [known, results[1]], outcomes)] == ["XFAIL", "UNTESTABLE"]
    also_known = results[1].model_copy(update={"verdict": "XFAIL"})
    assert [one.verdict for one in attributed(run, [known, also_known], outcomes)] == ["XFAIL", "XFAIL"]


def test_failures_like_those_of_a_known_fault_are_told(monkeypatch):
    nine = frozenset("abcdefghi")
    monkeypatch.setattr(module, "_known", lambda: (("forgets", nine), ("repeats", frozenset("xy"))))
    assert likeness({*nine, "k"}) == "forgets"
    assert likeness({*nine, "k"}, but="forgets") is None
    assert likeness({*nine, "k", "l"}) is None
    assert likeness({"x", "y"}) is None


def test_the_command_that_runs_a_case_again_has_the_options_of_the_run():
    made = report(bad_records())
    arguments = ["run", "pulsar://h", "--record", "--select", "core/**", "--admin-url", "http://h", "--report=x", "--seed", "3"]
    header = made.run.header.model_copy(update={"arguments": arguments})
    object.__setattr__(made.run, "header", header)
    assert again(made, made.results[0]).startswith("pulsar-conformance run pulsar://h --admin-url http://h --select ")


def test_no_broker_gets_more_than_a_hundred_lines():
    made = report(bad_records())
    bad = [one for one in made.results if one.verdict == "FAIL"]
    object.__setattr__(made, "results", [*made.results, *(bad * 300)])
    out = io.StringIO()
    render_text(made, Console(file=out, width=100))
    assert len(out.getvalue().splitlines()) <= 100


def test_what_a_monitor_saw_is_told_in_its_own_words(monkeypatch):
    made = report(bad_records())
    failed = next(one for one in made.results if one.verdict == "FAIL")
    outcome = replace(made.outcomes[failed.keys[0]], diagnosis=Diagnosis("monitor", "a close without a watch"))
    monkeypatch.setattr(views, "shown_outcome", lambda *_: outcome)
    assert sides(made, failed) == ("", failed.summary)
