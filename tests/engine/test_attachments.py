"""A client that ends a connection closes the producers and consumers that it has there."""

import pytest

from conformance.engine import log
from conformance.engine.frames import build_frame
from conformance.engine.machine import Machine
from conformance.engine.model import Transcript
from conformance.engine.program import compile_case
from conformance.engine.source import parse, read_text

CLOSES = """
format: 1
id: test/client
title: a synthetic case
tests: [client]
clauses: [test.one]
steps:
  - client: {subscribe: {topic: t, consumer_id: {$bind: c}}}
  - client: {close_consumer: {consumer_id: $c}}
    clause: test.one
"""
KEEPS = CLOSES[: CLOSES.index("  - client: {close_consumer")] + (
    "  - silence: {frames: [{close_consumer: {}}]}\n    at: c\n    clause: test.one\n    until: [{client: {ping: {}}}]\n"
)
PRODUCER = {"producer": {"topic": "t", "producer_id": 7, "request_id": 1}}


def subscribe(number):
    return {"subscribe": {"topic": "t", "subscription": "s", "subType": "Exclusive", "consumer_id": number, "request_id": 1}}


def close(number):
    return {"close_consumer": {"consumer_id": number, "request_id": 2}}


def play(text, *events):
    """Return a machine that was fed with frames, by connection; None is the end of one."""
    machine = Machine(compile_case(parse(Transcript, read_text(text, "case.yaml")), {}, {}, {}))
    for n, (link, frame) in enumerate(events):
        if frame is None:
            machine.feed(log.Closed(key="k", n=n, t=0, at="c", how="fin", link=link))
        else:
            machine.feed(log.Frame(key="k", n=n, t=0, at="c", link=link, data=build_frame(frame).hex()))
    return machine


@pytest.mark.parametrize(
    ("events", "closed"),
    [
        ([(1, subscribe(7)), (1, close(7))], True),
        ([(1, subscribe(7)), (1, None)], True),
        ([(1, PRODUCER), (1, subscribe(7)), (1, None)], True),
        ([(1, subscribe(7)), (2, subscribe(8)), (2, None)], False),  # another connection
        ([(1, subscribe(7)), (2, PRODUCER), (2, None)], False),
        ([(1, subscribe(7)), (1, {"ping": {}})], False),
    ],
)
def test_the_end_of_a_connection_closes_what_is_on_it(events, closed):
    assert play(CLOSES, *events).done is closed


def test_what_was_closed_before_is_not_closed_once_more():
    twice = CLOSES + "  - client: {close_consumer: {consumer_id: $c}}\n"
    assert not play(twice, (1, subscribe(7)), (1, close(7)), (1, None)).done


def test_a_silence_about_closes_is_broken_by_a_close_and_not_by_a_connection():
    assert play(KEEPS, (1, subscribe(7)), (1, close(7))).failure is not None
    kept = play(KEEPS, (1, subscribe(7)), (1, None), (2, {"ping": {}}))
    assert (kept.failure, kept.done) == (None, True)


def test_a_copy_of_a_machine_forgets_nothing():
    copy = play(CLOSES, (1, subscribe(7))).fork()
    copy.feed(log.Closed(key="k", n=9, t=0, at="c", how="fin", link=1))
    assert copy.done
