"""Frames: sizes, limits, malformed input, and what the decoder does with good frames before a bad one."""

import pytest

from refimpl.wire import FRAME_PADDING, Frame, FrameDecoder, WireError, command, decode_frame, encode_frame, encode_payload, wrap
from refimpl.wire import pulsar_api_pb2 as pb
from tests.samples.wire import golden

PING = encode_frame(command("ping"))


def frame(body, rest=b""):
    return (4 + len(body) + len(rest)).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body + rest


def failure(data):
    """Decode malformed bytes whole and byte by byte; both must fail alike."""
    with pytest.raises(WireError) as whole:
        FrameDecoder().receive(data)
    decoder = FrameDecoder()
    with pytest.raises(WireError) as split:  # noqa: PT012
        for byte in data:
            assert decoder.receive(bytes([byte])) == []
    assert str(split.value) == str(whole.value)
    return whole.value


MALFORMED = {
    "total size 0": (bytes(4), 0, "total size 0 leaves no room"),
    "total size 3": (b"\x00\x00\x00\x03", 0, "total size 3 leaves no room"),
    "total size over the limit": (b"\x7f\xff\xff\xff", 0, "a frame of 2147483651 bytes, 5253120 are allowed"),
    "HTTP": (b"GET / HTTP/1.1\r\n\r\n", 0, "a frame of"),
    "command size 0": (frame(b""), 4, "command size 0"),
    "command size 0 with bytes behind": (frame(b"", b"abc"), 4, "command size 0"),
    "command size over total": (b"\x00\x00\x00\x05\x00\x00\x00\x02\x08", 4, "command size 2 does not fit: 1 bytes follow"),
    "command size 2^32-1": (b"\x00\x00\x00\x05\xff\xff\xff\xff\x08", 4, "command size 4294967295 does not fit"),
    "cut varint": (frame(b"\x08"), 9, "a varint is cut"),
    "long varint": (frame(b"\x08" + b"\xff" * 10 + b"\x01"), 9, "a varint is longer than ten bytes"),
    "field number 0": (frame(b"\x08\x12\x00\x00"), 10, "field number 0 is out of range"),
    "unknown wire type": (frame(b"\x08\x12\x0f"), 10, "unknown wire type 7"),
    "length over the end": (frame(b"\x08\x12\x92\x01\x05\x00"), 10, "ping needs 5 bytes, 1 are left"),
    "length over the end of the inner message": (frame(b"\x08\x0d\x6a\x02\x08\x80"), 13, "a varint is cut"),
    "group without an end": (frame(b"\x08\x12\x92\x01\x00\xa3\x9a\x01"), 16, "group 2468 is never closed"),
    "group without a start": (frame(b"\x08\x12\x92\x01\x00\x0c"), 13, "the end of group 1 without its start"),
    "no type": (frame(b"\x92\x01\x00"), 8, "BaseCommand lacks its required field type"),
    "unknown type": (frame(b"\x08\xc8\x01"), 9, "type of BaseCommand has the unknown value 200"),
    "unknown type with a message in the field of its number": (frame(b"\x08\x45\xaa\x04\x00"), 9, "the unknown value 69"),
    "type of another wire type": (frame(b"\x0a\x01\x12\x92\x01\x00"), 8, "lacks its required field type"),
    "PING without ping": (frame(b"\x08\x12"), 8, "PING without its sub-message ping"),
    "PING with the sub-message of PONG": (frame(b"\x08\x12\x9a\x01\x00"), 8, "PING without its sub-message ping"),
    "WATCH_TOPIC_LIST without a pattern": (
        frame(b"\x08\x40\x82\x04\x07\x08\x01\x10\x02\x1a\x01n"), 13, "CommandWatchTopicList lacks its required field topics_pattern",
    ),
    "a sub-message beside the right one lacks a field": (
        frame(b"\x08\x12\x92\x01\x00\x6a\x00"), 15, "CommandSuccess lacks its required field request_id",
    ),
    "unknown error code": (frame(b"\x08\x0e\x72\x07\x08\x01\x10\x63\x1a\x01x"), 15, "error of CommandError has the unknown value 99"),
    "text that is not UTF-8": (frame(b"\x08\x0e\x72\x08\x08\x01\x10\x01\x1a\x02\xffA"), 18, "message is not UTF-8 (byte 0 of the text)"),
    "a cut character": (frame(b"\x08\x0e\x72\x08\x08\x01\x10\x01\x1a\x02A\xc3"), 18, "message is not UTF-8 (byte 1 of the text)"),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name):
    data, offset, reason = MALFORMED[name]
    error = failure(data)
    assert (error.offset, reason in error.reason) == (offset, True), str(error)
    assert str(error) == f"at byte {error.offset}: {error.reason}"


@pytest.mark.parametrize("name", [name for name in MALFORMED if "over the limit" not in name and name != "HTTP"])
def test_malformed_alone(name):
    data, offset, reason = MALFORMED[name]
    with pytest.raises(WireError) as caught:
        decode_frame(data)
    assert (caught.value.offset, reason in caught.value.reason) == (offset, True)


def test_text_deep_inside_must_be_utf8():
    good = encode_frame(command("watchScalableTopics", watch_id=1, namespace="t/n", property_filters=[{"key": "owner", "value": "é"}]))
    assert decode_frame(good).command.watchScalableTopics.property_filters[0].value == "é"
    bad = good.replace("é".encode(), b"\xff\xfe")
    error = failure(bad)
    assert bad[error.offset :] == b"\xff\xfe"


def test_messages_nested_too_deeply():
    inner = b"\x08\x01\x10\x01"
    for _ in range(120):
        length = len(inner)
        size = bytes([length]) if length < 128 else bytes([length & 0x7F | 0x80, length >> 7])
        inner = b"\x08\x01\x10\x01\x3a" + size + inner
    size = bytes([len(inner) & 0x7F | 0x80, len(inner) >> 7])
    receipt = b"\x08\x01\x10\x01\x1a" + size + inner
    size = bytes([len(receipt) & 0x7F | 0x80, len(receipt) >> 7])
    assert "nested too deeply" in failure(frame(b"\x08\x07\x3a" + size + receipt)).reason


def test_unknown_fields_and_optional_enum_values_are_accepted_and_kept():
    data = frame(b"\x08\x12\x92\x01\x00" + b"\xe2\x9a\x01\x02\x08\x01")
    assert encode_frame(decode_frame(data).command) == data
    request = frame(b"\x08\x20\x82\x02\x07\x08\x01\x12\x01n\x18\x07")
    got = decode_frame(request).command.getTopicsOfNamespace
    assert (got.mode, got.HasField("mode")) == (pb.CommandGetTopicsOfNamespace.PERSISTENT, False)


def test_bytes_after_a_command_without_payload_are_kept():
    data = frame(PING[8:], b"extra")
    got = decode_frame(data)
    assert (got.payload_bytes, got.command.type) == (b"extra", pb.BaseCommand.PING)
    assert encode_frame(got.command, got.payload_bytes) == data
    with pytest.raises(WireError, match="at byte 13: PING carries no payload"):
        got.payload()


def test_send_without_a_payload():
    got = decode_frame(encode_frame(command("send", producer_id=1, sequence_id=2)))
    assert got.payload_bytes is None
    with pytest.raises(WireError, match="SEND without a payload"):
        got.payload()


def test_a_payload_error_counts_from_the_start_of_the_frame():
    data = encode_frame(command("send", producer_id=1, sequence_id=2), b"\x0e\x01\x00\x00\x00\x00\x00\x00\x00\x09abc")
    with pytest.raises(WireError) as caught:
        decode_frame(data).payload()
    assert data[caught.value.offset :] == b"\x00\x00\x00\x09abc"
    data = encode_frame(command("send", producer_id=1, sequence_id=2), b"\x00\x00\x00\x03\x0a\x01pbody")
    with pytest.raises(WireError, match="MessageMetadata lacks its required field sequence_id") as caught:
        decode_frame(data).payload()
    assert data[caught.value.offset :] == b"\x0a\x01pbody"


@pytest.mark.parametrize(("data", "offset"), [(b"", 0), (b"\x00\x00\x00", 0), (PING[:4], 4), (PING[:-1], len(PING) - 1)])
def test_a_cut_frame_alone(data, offset):
    with pytest.raises(WireError, match="cut") as caught:
        decode_frame(data)
    assert caught.value.offset == offset


def test_frame_limit_counts_the_whole_frame():
    size = 100 + FRAME_PADDING
    fits = frame(PING[8:], bytes(size - len(PING)))
    assert len(fits) == size
    decoder = FrameDecoder(max_frame_size=size)
    assert [one.data for one in decoder.receive(fits)] == [fits]
    with pytest.raises(WireError, match=f"a frame of {size + 1} bytes, {size} are allowed"):
        decoder.receive((size - 3).to_bytes(4, "big"))


def test_frame_limit_can_be_raised_later():
    decoder = FrameDecoder(max_frame_size=20)
    assert decoder.receive(PING + b"\x00") == [decode_frame(PING)]
    decoder.max_frame_size = 1000
    decoder.receive(b"\x00\x00\x20")
    assert decoder.pending == 4


def test_good_frames_before_a_malformed_one_are_not_lost():
    decoder = FrameDecoder()
    bad = frame(b"\x08\x12")
    assert decoder.receive(PING + PING + bad + PING) == [decode_frame(PING)] * 2
    assert decoder.error is not None
    assert decoder.error.offset == 8
    assert decoder.unread == bad + PING
    for _ in range(2):
        with pytest.raises(WireError, match="PING without"):
            decoder.receive(PING)
    with pytest.raises(WireError, match="PING without"):
        decoder.eof()
    assert decoder.pending == len(bad + PING)


def test_a_malformed_frame_alone_is_raised_at_once():
    decoder = FrameDecoder()
    with pytest.raises(WireError):
        decoder.receive(bytes(4))
    assert decoder.error is not None


def test_eof():
    decoder = FrameDecoder()
    decoder.eof()
    decoder.receive(PING)
    decoder.eof()
    decoder.receive(PING[:5])
    with pytest.raises(WireError, match="at byte 5"):
        decoder.eof()
    with pytest.raises(WireError, match="at byte 5"):
        decoder.receive(PING[5:])


def test_empty_receive():
    decoder = FrameDecoder()
    assert decoder.receive(b"") == []
    decoder.receive(PING[:3])
    assert decoder.receive(b"") == []
    assert decoder.receive(memoryview(bytearray(PING[3:]))) == [decode_frame(PING)]


def test_encode_refuses_what_no_peer_can_read():
    with pytest.raises(ValueError, match="no type"):
        encode_frame(pb.BaseCommand())
    with pytest.raises(ValueError, match="PING without its sub-message ping"):
        encode_frame(pb.BaseCommand(type=pb.BaseCommand.PING))
    with pytest.raises(ValueError, match=r"ERROR can't be encoded: .*message"):
        encode_frame(wrap(pb.CommandError(request_id=1, error=pb.MetadataError)))


def test_payload_round_trip():
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    data = encode_frame(command("send", producer_id=1, sequence_id=0), encode_payload(metadata, b"hello"))
    assert data == golden("vector-send-hello")
    got = decode_frame(data)
    assert isinstance(got, Frame)
    assert (got.payload().metadata, got.payload().body) == (metadata, b"hello")


def test_large_frames_in_small_pieces():
    big = frame(PING[8:], bytes(3_000_000))
    stream = big + big
    decoder = FrameDecoder()
    frames = [one for start in range(0, len(stream), 4096) for one in decoder.receive(stream[start : start + 4096])]
    assert [len(one.data) for one in frames] == [len(big)] * 2
