"""Failures that say nothing of the target: a frame that it need not take, a request for which it has no room, a call that it does not have."""

import pytest

from conformance.engine import log
from conformance.engine.diagnosis import Diagnosis
from conformance.engine.frames import build_frame
from conformance.engine.unjudged import beyond, limited, no_room
from conformance.engine.verdict import Verdict
from refimpl.wire import FRAME_PADDING

LIMIT = 65536


def begin(n, data, at="c"):
    return log.Begin(key="k", n=n, t=0, step=f"{n}.0.0", what="send", at=at, data=data.hex()[:8192], size=len(data))


def frame(n, spec, at="c"):
    return log.Frame(key="k", n=n, t=0, at=at, data=build_frame(spec).hex())


def sent(size):
    return (size - 4).to_bytes(4, "big") + bytes(size - 4)


CONNECTED = frame(1, {"connected": {"server_version": "x", "max_message_size": LIMIT}})
CLOSED = log.Closed(key="k", n=9, t=0, at="c", how="fin")
AT_IT = LIMIT + FRAME_PADDING


@pytest.mark.parametrize(("data", "told"), [(sent(AT_IT + 1), True), (sent(AT_IT), False), (sent(1000) * 100, False)])
def test_a_broker_may_close_on_a_frame_beyond_the_limit_that_it_announced(data, told):
    found = beyond(Diagnosis("closed", "x", event=9), [CONNECTED, begin(2, data), CLOSED])
    words = f"the target announces max_message_size {LIMIT} in CONNECTED, and closes the connection on a frame of {AT_IT + 1} bytes"
    assert found == (words if told else None)


def test_the_limit_is_that_of_the_connection():
    large = begin(2, sent(AT_IT + 1), at="other")
    assert beyond(Diagnosis("closed", "x", event=9), [CONNECTED, large, CLOSED]) is None
    assert (
        beyond(Diagnosis("closed", "x", event=9), [frame(1, {"connected": {"server_version": "x"}}), begin(2, sent(AT_IT + 1)), CLOSED])
        is None
    )


def test_another_failure_is_judged_whatever_was_sent():
    late = log.Deadline(key="k", n=9, t=0)
    assert beyond(Diagnosis("late", "x", event=9), [CONNECTED, begin(2, sent(AT_IT + 1)), late]) is None


@pytest.mark.parametrize(
    ("kind", "error", "message", "none"),
    [
        ("unexpected", "TooManyRequests", "Failed due to too many pending lookup requests", True),
        ("unexpected", "NotAllowedError", "Reached the maximum number of connections on address 127.0.0.1", True),
        ("unexpected", "NotAllowedError", "Subscribe limited by subscribe rate limit per consumer.", True),
        ("differs", "NotAllowedError", "Subscribe limited by subscribe rate limit per consumer.", True),
        ("unexpected", "NotAllowedError", "no", False),
        ("differs", "TooManyRequests", "a case that asks for another error judges this one", False),
    ],
)
def test_no_room_beside_others_says_nothing(kind, error, message, none):
    events = [frame(9, {"error": {"request_id": 1, "error": error, "message": message}})]
    assert no_room(Diagnosis(kind, "x", event=9), events) is none


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
    words = f" {body['reason']}" if status == 405 else ""
    said = outcome.diagnosis.summary == f"the admin interface of the target has no create_topic: it answers {status}{words}"
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


@pytest.mark.parametrize(
    ("call", "verdict"),
    [
        ("unload_bundle: {namespace: a/b, bundle: 0x00000000_0x40000000}", Verdict.UNTESTABLE),
        ("unload_namespace: a/b", Verdict.ERROR),
    ],
)
def test_a_broker_may_have_no_such_bundle(play, call, verdict):
    assert play(f"steps: [{{admin: {{{call}}}}}]", [("refused", 412, {"reason": "no such bundle"})]).verdict is verdict


@pytest.mark.parametrize("status", [401, 403])
def test_an_admin_call_that_the_user_may_not_make_accuses_nobody(play, status):
    outcome = play("steps: [{admin: {create_topic: x}}]", [("refused", status, {"reason": "Need to be a super user"})])
    assert outcome.verdict is Verdict.UNTESTABLE
    assert outcome.diagnosis.summary == f"the user may not call create_topic: the admin interface answers {status}"


@pytest.mark.parametrize(("status", "verdict"), [(404, Verdict.FAIL), (403, Verdict.FAIL), (501, Verdict.UNTESTABLE)])
def test_where_a_clause_speaks_of_it_404_is_an_answer(play, status, verdict):
    outcome = play("steps: [{read: {namespace_exists: x}, expect: {reason: gone}, clause: test.two}]", [("refused", status, None)])
    assert outcome.verdict is verdict


@pytest.mark.parametrize(
    ("answer", "message", "setting"),
    [
        ("error", "Encryption is required in persistent://public/n/t", "encryptionRequireOnProducer"),
        ("error", "Topic reached max same address consumers limit", "maxSameAddressConsumersPerTopic"),
        ("error", "x: Topic 't' reached max same address producers limit", "maxSameAddressProducersPerTopic"),
        ("send_error", "Exceeds max allowed delivery delay of 2000 milliseconds", "delayedDeliveryMaxDelayInMillis"),
        ("error", "Topic reached max consumers limit", None),  # a policy lifts this one
        ("error", "no", None),
    ],
)
@pytest.mark.parametrize("kind", ["unexpected", "differs"])
def test_a_refusal_that_tells_of_a_setting_accuses_nobody(kind, answer, message, setting):
    ids = {"request_id": 1} if answer == "error" else {"producer_id": 1, "sequence_id": 0}
    events = [frame(9, {answer: {**ids, "error": "MetadataError", "message": message}})]
    said = limited(Diagnosis(kind, "x", event=9), events)
    assert said is None if setting is None else said.endswith(f"({setting})")
