"""Failures that say nothing of the target: a frame that it need not take, a request for which it has no room."""

import pytest

from conformance.engine import log
from conformance.engine.diagnosis import Diagnosis
from conformance.engine.frames import build_frame
from conformance.engine.unjudged import beyond, encrypts, no_room
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


@pytest.mark.parametrize(("message", "told"), [("Encryption is required in persistent://public/n/t", True), ("no", False)])
@pytest.mark.parametrize("kind", ["unexpected", "differs"])
def test_a_broker_may_take_producers_with_encryption_only(kind, message, told):
    events = [frame(9, {"error": {"request_id": 1, "error": "MetadataError", "message": message}})]
    words = "the target takes producers with encryption only (encryptionRequireOnProducer)"
    assert encrypts(Diagnosis(kind, "x", event=9), events) == (words if told else None)
