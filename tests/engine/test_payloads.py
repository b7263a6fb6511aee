"""Payloads that a transcript writes as bytes, when how they are made up does not matter or must not."""

import pytest

from conformance.engine.frames import FrameProblem, build_frame, build_payload
from conformance.engine.payloads import match_payload
from refimpl.wire import decode_frame

MESSAGE = {"message": {"consumer_id": 1, "message_id": {"ledgerId": 1, "entryId": 2}}}
PARTS = {"metadata": {"producer_name": "p", "sequence_id": 0, "publish_time": 1}, "body": "hello"}


def test_bytes_are_sent_as_they_stand():
    whole = build_payload(PARTS)
    assert build_payload({"octets": {"hex": whole.hex()}}) == whole
    assert build_payload({"octets": {"hex": "0e01"}}) == b"\x0e\x01"


def test_bytes_are_compared_to_the_last_one():
    whole = build_payload(PARTS)
    frame = decode_frame(build_frame(MESSAGE, PARTS))
    assert match_payload({"octets": {"hex": whole.hex()}}, frame)
    (difference,) = match_payload({"octets": {"hex": whole[:-1].hex()}}, frame).differences
    assert difference.path == "payload.octets"
    assert not match_payload({"octets": {"hex": whole.hex()}}, decode_frame(build_frame(MESSAGE)))
    assert match_payload({"octets": {"hex": ""}}, decode_frame(build_frame(MESSAGE)))


@pytest.mark.parametrize("spec", [{"octets": "x", "body": "y"}, {"metadata": {}}, {"body": "x", "batch": []}])
def test_a_payload_that_is_written_in_two_ways_or_in_none_is_refused(spec):
    with pytest.raises(FrameProblem, match="octets alone"):
        build_payload(spec)
