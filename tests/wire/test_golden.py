"""Frames captured from real brokers and clients, and the computed vectors."""

import pytest

from refimpl.wire import (
    FrameDecoder,
    WireError,
    crc32c,
    decode_batch,
    decode_frame,
    decompress,
    encode_batch,
    encode_frame,
    encode_payload,
    is_batch,
    line_notation,
    sub_message,
    type_name,
)
from refimpl.wire import pulsar_api_pb2 as pb
from tests.samples.wire import GOLDEN, SINGLE, golden

OUT_OF_ORDER = {"connect-java"}
"""Written by a client that does not order its fields: the message survives, the bytes do not."""

PAYLOADS = [name for name in SINGLE if name.startswith(("message-", "send-")) or name == "vector-send-hello"]

EXAMPLE = [
    ("m1", {"region": "eu"}),
    ("m2", {"region": "eu"}),
    ("m3", {"region": "eu", "version": "1", "tag": "a"}),
    ("m4", {"region": "eu", "version": "1"}),
    ("m5", {"region": "us", "version": "1"}),
    ("m6", {"region": "us", "version": "2"}),
    ("m7", {"region": "us", "version": "5"}),
    ("m8", {"region": "us", "version": "6"}),
]


UNCLOSED = "Invalid topics pattern: Unclosed character class near index 10\npublic/w4/[\n          ^"


def command(name):
    return sub_message(decode_frame(golden(name)).command)


def plain(name):
    payload = decode_frame(golden(name)).payload()
    return decompress(payload.body, payload.metadata.compression, payload.metadata.uncompressed_size)


def singles(name):
    count = decode_frame(golden(name)).payload().metadata.num_messages_in_batch
    return [(one.body.decode(), {p.key: p.value for p in one.metadata.properties}) for one in decode_batch(plain(name), count)]


def test_nothing_is_missing():
    assert len(GOLDEN) == 41 + 26 + 17


@pytest.mark.parametrize("name", SINGLE)
def test_decodes_and_encodes_to_the_same_bytes(name):
    frame = decode_frame(golden(name))
    assert frame.data == golden(name)
    again = encode_frame(frame.command, frame.payload_bytes)
    assert decode_frame(again).command == frame.command
    assert (again == golden(name)) is (name not in OUT_OF_ORDER)


@pytest.mark.parametrize("name", SINGLE)
def test_arrives_one_byte_at_a_time(name):
    decoder = FrameDecoder()
    data = golden(name)
    for byte in data[:-1]:
        assert decoder.receive(bytes([byte])) == []
    assert decoder.pending == len(data) - 1
    assert decoder.receive(data[-1:]) == [decode_frame(data)]
    assert decoder.pending == 0
    decoder.eof()


@pytest.mark.parametrize("name", SINGLE)
def test_bytes_after_it_start_the_next_frame(name):
    decoder = FrameDecoder()
    assert decoder.receive(golden(name) + b"\x00\x00\x00") == [decode_frame(golden(name))]
    assert decoder.unread == b"\x00\x00\x00"
    with pytest.raises(WireError, match="at byte 3: the connection ends 3 bytes into a frame"):
        decoder.eof()
    with pytest.raises(WireError, match=f"at byte {len(golden(name))}: 3 bytes after the frame"):
        decode_frame(golden(name) + b"\x00\x00\x00")


def test_all_in_one_stream():
    stream = b"".join(one.data for one in GOLDEN.values())
    frames = FrameDecoder().receive(stream)
    assert b"".join(frame.data for frame in frames) == stream
    assert len(frames) == len(GOLDEN) + 2


@pytest.mark.parametrize(("name", "types"), [
    ("segment-watch-close", ["WATCH_TOPIC_LIST", "WATCH_TOPIC_LIST_CLOSE"]),
    ("segment-watch-close-3.0", ["WATCH_TOPIC_LIST", "WATCH_TOPIC_LIST_CLOSE"]),
])  # fmt: skip
def test_segments(name, types):
    frames = FrameDecoder().receive(golden(name))
    assert [type_name(frame.command) for frame in frames] == types
    assert b"".join(encode_frame(frame.command) for frame in frames) == golden(name)


@pytest.mark.parametrize("name", PAYLOADS)
def test_payloads_encode_to_the_same_bytes(name):
    frame = decode_frame(golden(name))
    payload = frame.payload()
    assert payload.checksum_valid is True
    assert payload.broker_entry_metadata is None
    assert encode_payload(payload.metadata, payload.body) == frame.payload_bytes


def test_connection():
    assert command("connected-5.0").server_version == "Pulsar Server5.0.0-M1"
    assert [f.number for f, _ in command("connected-5.0").feature_flags.ListFields()] == [4, 5, 6, 7, 8, 9]
    assert [f.number for f, _ in command("connected-2.11").feature_flags.ListFields()] == [4]
    assert command("connected-2.11").protocol_version == 19
    assert command("connected-4.2").max_message_size == 5 * 1024 * 1024
    java = command("connect-java")
    assert (java.client_version, java.auth_method_name) == ("Pulsar-Java-v4.2.4", "none")
    assert (java.HasField("auth_data"), java.auth_data) == (True, b"")
    assert command("error-bad-token").request_id == 2**64 - 1
    assert not command("connect-no-flags").HasField("feature_flags")


def test_topic_lists():
    assert line_notation(decode_frame(golden("watch"))) == (
        'WATCH_TOPIC_LIST{request_id: 7, watcher_id: 13, namespace: "public/w3", topics_pattern: "public/w3/t.*"}'
    )
    assert line_notation(decode_frame(golden("update-deleted-t1"))) == (
        'WATCH_TOPIC_UPDATE{watcher_id: 13, deleted_topics: ["persistent://public/w3/t1"], topics_hash: "bb2679de"}'
    )
    assert command("watch-success-empty").topics_hash == "00000000"
    assert command("update-created-t1").topics_hash == "4fd529cd"
    unchanged = command("get-topics-unchanged")
    assert (list(unchanged.topics), unchanged.changed, unchanged.filtered, unchanged.topics_hash) == ([], False, True, "d7e85fdf")
    assert command("get-topics-changed").HasField("changed")
    old = command("get-topics-answer-before-pip145")
    assert not any(old.HasField(name) for name in ("filtered", "topics_hash", "changed"))
    assert old.changed is True
    assert command("get-topics-all").mode == pb.CommandGetTopicsOfNamespace.ALL


def test_unicode():
    answer = command("watch-success-unicode")
    assert list(answer.topic) == ["persistent://public/w3v/～", "persistent://public/w3v/\U00010000"]
    by_utf16 = sorted(answer.topic, key=lambda name: name.encode("utf-16-be"))
    assert answer.topics_hash == crc32c(",".join(by_utf16).encode()).to_bytes(4, "little").hex() == "b4adb558"


@pytest.mark.parametrize(("name", "error", "message"), [
    ("error-invalid-regex", pb.InvalidTopicName, UNCLOSED),
    ("error-topic-scheme", pb.AuthorizationError, "Exception occurred while trying to handle command WatchTopicList"),
    ("error-topic-scheme-3.0", pb.MetadataError, "java.lang.IllegalArgumentException: Does not support topic domain: topic"),
    ("error-too-long", pb.NotAllowedError, "Unable to create topic list watcher: Pattern longer than maximum: 50"),
    ("error-no-permission", pb.AuthorizationError, "Proxy Client is not authorized to watchTopicList"),
    ("scalable-watch-refused", pb.NotAllowedError, "Scalable topics are disabled on this broker"),
])  # fmt: skip
def test_errors(name, error, message):
    assert (command(name).error, command(name).message) == (error, message)


def test_scalable_topics():
    empty = command("scalable-snapshot-empty")
    assert (empty.WhichOneof("event"), list(empty.snapshot.topics)) == ("snapshot", [])
    both = command("scalable-diff-both")
    assert (list(both.diff.added), list(both.diff.removed)) == (["topic://public/a4/mx00"], ["topic://public/a4/dr00"])
    assert command("scalable-watch-refused").WhichOneof("event") is None
    dag = command("scalable-topic-update").dag
    assert [(segment.hash_start, segment.hash_end) for segment in dag.segments] == [(0, 0x7FFF), (0x8000, 0xFFFF)]


@pytest.mark.parametrize("client", ["python", "java"])
def test_batch_of_three(client):
    assert singles(f"message-{client}-batch-of-3") == [("a1", {"region": "eu", "n": "1"}), ("a2", {"region": "us"}), ("a3", {})]
    assert not decode_frame(golden(f"message-{client}-batch-of-3")).payload().metadata.properties


def test_batch_of_one_depends_on_the_client():
    assert singles("message-python-batch-of-1") == [("solo", {"region": "eu"})]
    java = decode_frame(golden("message-java-batch-of-1")).payload()
    assert (is_batch(java.metadata), java.body, java.metadata.properties[0].value) == (False, b"solo", "eu")
    assert java.metadata.uncompressed_size == 4


@pytest.mark.parametrize(("name", "compression"), [
    ("message-python-8-lz4", pb.LZ4), ("message-python-8-zstd", pb.ZSTD), ("message-java-8-plain", pb.NONE),
])  # fmt: skip
def test_example_of_eight_messages(name, compression):
    assert decode_frame(golden(name)).payload().metadata.compression == compression
    assert singles(name) == EXAMPLE


def test_compressed_and_plain_bodies_are_the_same():
    assert plain("message-python-8-lz4") == plain("message-python-8-zstd") == plain("message-java-8-plain")
    assert plain("message-java-3-lz4") == plain("message-java-3-zstd")
    batch = decode_batch(plain("message-java-3-lz4"), 3)
    assert [(len(one.body), one.body[:3]) for one in batch] == [(2002, b"b1x"), (2002, b"b2x"), (2002, b"b3x")]
    assert encode_batch(batch) == plain("message-java-3-lz4")


def test_key_based_batch():
    metadata = decode_frame(golden("message-java-key-k1-k3")).payload().metadata
    assert (metadata.sequence_id, metadata.highest_sequence_id, metadata.partition_key) == (2, 2, "A")
    batch = decode_batch(decode_frame(golden("message-java-key-k1-k3")).payload().body, 2)
    assert [(one.body, one.metadata.sequence_id) for one in batch] == [(b"k1", 0), (b"k3", 2)]


def test_send_fields_of_the_clients():
    assert command("send-python-batch-of-1").HasField("num_messages")
    assert not command("send-python-single").HasField("num_messages")
    assert command("send-java-batch-of-2").highest_sequence_id == 2
    assert decode_frame(golden("vector-send-hello")).payload().checksum == 0x92CD300C
