"""Annotated bytes: each byte once, damage named where it is."""

import pytest

from refimpl.wire import annotate, command, decode_frame, encode_frame, encode_payload, format_lines
from refimpl.wire import pulsar_api_pb2 as pb
from tests.samples.wire import GOLDEN, SINGLE, golden
from tests.wire.tiling import tiles

METADATA = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)


def complaints(data):
    tiles(data)
    return [(line.offset, line.text.strip()) for line in annotate(data) if line.text.strip().startswith("!")]


def send(payload):
    return encode_frame(command("send", producer_id=1, sequence_id=0), payload)


@pytest.mark.parametrize("name", SINGLE)
def test_golden_frames_without_complaints(name):
    assert complaints(golden(name)) == []


@pytest.mark.parametrize("name", GOLDEN)
def test_every_cut_is_annotated(name):
    data = golden(name)
    for end in range(0, len(data), 1 if len(data) < 100 else 7):
        tiles(data[:end])


def test_table():
    assert format_lines(annotate(golden("watch-close"))) == "\n".join(
        [
            "0000  0000000d  total size 13",
            "0004  00000009  command size 9",
            "0008  0843      type = WATCH_TOPIC_LIST_CLOSE (67)",
            "0010  9a0404    watchTopicListClose (4 bytes)",
            "0013  0808        request_id = 8",
            "0015  100d        watcher_id = 13",
        ]
    )


def test_payload():
    texts = [line.text for line in annotate(golden("message-python-batch-of-1"))]
    assert texts[9:] == [
        "checksum follows",
        "crc32c 46edc82b, valid",
        "metadata size 15",
        'producer_name = "py"',
        "sequence_id = 0",
        "publish_time = 1795220725055",
        "num_messages_in_batch = 1",
        "message 0: metadata size 18",
        "properties (12 bytes)",
        '  key = "region"',
        '  value = "eu"',
        "payload_size = 4",
        "sequence_id = 0",
        "message 0: 4 bytes",
    ]
    compressed = list(annotate(golden("message-python-8-lz4")))
    assert compressed[-1].text == "payload, 132 bytes"
    assert compressed[-1].hex.endswith("..")


def test_broker_entry_metadata():
    data = send(encode_payload(METADATA, b"x", broker_entry_metadata=pb.BrokerEntryMetadata(index=3)))
    texts = [line.text for line in annotate(data)]
    assert texts[6:10] == ["broker entry metadata follow", "broker entry metadata size 2", "index = 3", "checksum follows"]


@pytest.mark.parametrize(("data", "offset", "text"), [
    (b"\x00\x00", 0, "! the total size is cut"),
    (b"\x00\x00\x00\x09\x00", 4, "! the command size is cut"),
    (bytes(8), 0, "! total size 0 leaves no room"),
    (golden("watch-close")[:-1], 0, "! total size 13, but 12 bytes follow"),
    (b"\x00\x00\x00\x04\x00\x00\x00\x00", 4, "! command size 0, but 0 bytes follow"),
    (b"\x00\x00\x00\x06\x00\x00\x00\x02\x08\x12", 10, "! the sub-message ping is missing"),
    (b"\x00\x00\x00\x07\x00\x00\x00\x03\x08\xc8\x01", 11, "! type of BaseCommand has the unknown value 200"),
    (b"\x00\x00\x00\x08\x00\x00\x00\x04\x08\x0d\x6a\x00", 12, "! CommandSuccess lacks its required field request_id"),
    (b"\x00\x00\x00\x0b\x00\x00\x00\x07\x08\x12\x92\x01\x05\x00\x00", 10, "! ping needs 5 bytes, 2 are left"),
    (send(b""), 16, "! the payload is missing"),
    (send(b"\x0e\x01\x00"), 18, "! the checksum is cut"),
    (send(encode_payload(METADATA, b"x", checksum=1)), 18, "! crc32c 00000001, but that of these bytes is"),
    (send(b"\x00\x00"), 16, "! the size of the metadata is cut"),
    (send(b"\x00\x00\x00\x09\x00"), 16, "! metadata size 9, but 1 bytes are left"),
    (send(encode_payload(pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=2),
                         b"\x00\x00\x00\x02\x18\x01x")), None, "! message 1 of 2 is missing"),
    (send(encode_payload(pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=1),
                         b"\x00\x00\x00\x02\x18\x05x")), None, "! message 0: 5 bytes can't be, 1 are left"),
    (send(encode_payload(pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=0), b"x")),
     None, "! 1 bytes after the last message"),
])  # fmt: skip
def test_damage_is_named_where_it_is(data, offset, text):
    found = complaints(data)
    assert any(complaint.startswith(text) and offset in (None, place) for place, complaint in found), found


def test_unknown_fields_and_rest():
    data = b"\x00\x00\x00\x0e\x00\x00\x00\x08\x08\x12\x92\x01\x00\xf8\x06\x05ab" + b"next"
    texts = [line.text for line in annotate(data)]
    assert texts[2:] == [
        "type = PING (18)", "ping (0 bytes)", "unknown field 111 = 5", "2 bytes after the command, ignored", "4 bytes after the frame",
    ]  # fmt: skip


def test_groups():
    data = b"\x00\x00\x00\x0f\x00\x00\x00\x0b\x08\x12\x92\x01\x00\xfb\x06\x08\x01\xfc\x06"
    assert decode_frame(data).command.type == pb.BaseCommand.PING
    assert [line.text for line in annotate(data)][4:] == ["start of group 111", "unknown field 1 = 1", "end of group 111"]
    assert complaints(data) == []


def test_packed_and_other_values():
    ack_set = command("message", consumer_id=1, message_id={"ledgerId": 1, "entryId": 2}, ack_set=[-1])
    plain = encode_frame(ack_set)
    assert "ack_set = -1" in [line.text.strip() for line in annotate(plain)]
    data = plain[:3] + bytes([plain[3] - 7]) + plain[4:7] + bytes([plain[7] - 7])
    data += b"\x08\x09\x4a\x0c\x08\x01\x12\x04\x08\x01\x10\x02\x22\x02\x05\x07"
    assert list(decode_frame(data).command.message.ack_set) == [5, 7]
    assert "ack_set = [5, 7] (packed)" in [line.text.strip() for line in annotate(data)]
    stats = encode_frame(command("consumerStatsResponse", request_id=1, msgRateOut=0.5, blockedConsumerOnUnackedMsgs=True))
    assert [line.text.strip() for line in annotate(stats)][4:] == [
        "request_id = 1",
        "msgRateOut = 0.5",
        "blockedConsumerOnUnackedMsgs = true",
    ]
    auth = encode_frame(command("connect", client_version="x", auth_data=bytes(100)))
    assert "auth_data = 100 bytes" in [line.text.strip() for line in annotate(auth)]
    mode = b"\x00\x00\x00\x10\x00\x00\x00\x0c\x08\x20\x82\x02\x07\x08\x01\x12\x01n\x18\x07"
    assert "mode = unknown value 7" in [line.text.strip() for line in annotate(mode)]
