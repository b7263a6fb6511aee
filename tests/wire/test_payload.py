"""Payloads, batches, compression."""

import cramjam
import pytest

from refimpl.wire import (
    SingleMessage,
    WireError,
    checksum_matches,
    compress,
    crc32c,
    decode_batch,
    decompress,
    encode_batch,
    encode_payload,
    is_batch,
    parse_payload,
)
from refimpl.wire import pulsar_api_pb2 as pb

METADATA = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
COMPRESSIONS = [pb.NONE, pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY]
TEXT = b"the same again, " * 500


def single(body, **fields):
    return SingleMessage(pb.SingleMessageMetadata(**fields), body)


def test_crc32c():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0


@pytest.mark.parametrize(("checksum", "valid"), [("valid", True), ("invalid", False), (0, False), (2**32 - 1, False), ("absent", None)])
def test_checksum(checksum, valid):
    data = encode_payload(METADATA, b"body", checksum=checksum)
    payload = parse_payload(data)
    assert (payload.metadata, payload.body, payload.checksum_valid) == (METADATA, b"body", valid)
    assert checksum_matches(data) is valid
    assert (payload.checksum is None) is (checksum == "absent")
    assert data.startswith(b"\x0e\x01") is (checksum != "absent")
    if isinstance(checksum, int):
        assert payload.checksum == checksum


def test_each_turned_bit_is_seen():
    data = encode_payload(METADATA, b"body")
    for place in range(6, len(data)):
        damaged = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        assert checksum_matches(damaged) is False


def test_checksum_of_unreadable_metadata():
    data = bytearray(encode_payload(METADATA, b"body"))
    data[10] = 0xFF
    assert checksum_matches(bytes(data)) is False
    with pytest.raises(WireError):
        parse_payload(bytes(data))


def test_unknown_checksum_word():
    with pytest.raises(ValueError, match="valid, invalid, absent or a number"):
        encode_payload(METADATA, b"", checksum="wrong")


def test_metadata_must_be_complete():
    with pytest.raises(ValueError, match="producer_name"):
        encode_payload(pb.MessageMetadata(), b"")


@pytest.mark.parametrize("checksum", ["valid", "absent"])
@pytest.mark.parametrize("added", [pb.BrokerEntryMetadata(), pb.BrokerEntryMetadata(broker_timestamp=2**64 - 1, index=7)])
def test_broker_entry_metadata(added, checksum):
    data = encode_payload(METADATA, b"body", checksum=checksum, broker_entry_metadata=added)
    assert data.startswith(b"\x0e\x02")
    payload = parse_payload(data)
    assert (payload.broker_entry_metadata, payload.metadata, payload.body) == (added, METADATA, b"body")
    assert checksum_matches(data) is (True if checksum == "valid" else None)
    assert data.endswith(encode_payload(METADATA, b"body", checksum=checksum))


@pytest.mark.parametrize(("data", "offset", "reason"), [
    (b"", 100, "the size of the message metadata is cut: 0 of 4 bytes"),
    (b"\x00\x00\x00", 100, "the size of the message metadata is cut: 3 of 4 bytes"),
    (b"\x00\x00\x00\x01", 100, "the message metadata should have 1 bytes, 0 are left"),
    (b"\xff\xff\xff\xff", 100, "the message metadata should have 4294967295 bytes, 0 are left"),
    (b"\x00\x00\x00\x00", 104, "MessageMetadata lacks its required field producer_name"),
    (b"\x0e\x01", 102, "the checksum is cut: 0 of 4 bytes"),
    (b"\x0e\x01\x00\x00\x00\x00", 106, "the size of the message metadata is cut"),
    (b"\x0e\x02\x00", 102, "the size of the broker entry metadata is cut: 1 of 4 bytes"),
    (b"\x0e\x02\x00\x00\x00\x09\x08", 102, "the broker entry metadata should have 9 bytes, 1 are left"),
    (b"\x0e\x02\x00\x00\x00\x01\x08", 107, "a varint is cut"),
    (b"\x0e\x02\x00\x00\x00\x02\x08\x01", 108, "the size of the message metadata is cut"),
    (b"\x00\x00\x00\x07\x0a\x01\xff\x10\x00\x18\x01", 106, "producer_name is not UTF-8"),
])  # fmt: skip
def test_malformed_payload(data, offset, reason):
    with pytest.raises(WireError) as caught:
        parse_payload(data, 100)
    assert (caught.value.offset, reason in caught.value.reason) == (offset, True), str(caught.value)


@pytest.mark.parametrize("end", range(len(encode_payload(METADATA, b""))))
def test_cut_payload(end):
    with pytest.raises(WireError):
        parse_payload(encode_payload(METADATA, b"")[:end])


def test_batch_round_trip():
    messages = [
        single(b"one", payload_size=3, sequence_id=7),
        single(b"", payload_size=0),
        single(b"x" * 300, payload_size=300, partition_key="é"),
    ]
    body = encode_batch(messages)
    assert decode_batch(body, 3) == messages
    assert encode_batch(decode_batch(body, 3)) == body
    assert (decode_batch(b"", 0), encode_batch([])) == ([], b"")


def test_payload_size_is_filled_in_but_never_corrected():
    message = single(b"one")
    body = encode_batch([message])
    assert not message.metadata.HasField("payload_size")
    assert decode_batch(body, 1)[0].metadata.payload_size == 3
    with pytest.raises(WireError, match="1 bytes after the last of 1 messages"):
        decode_batch(encode_batch([single(b"one", payload_size=2)]), 1)


@pytest.mark.parametrize(("body", "count", "offset", "reason"), [
    (b"", 1, 0, "the metadata size of message 0 should have 4 bytes, 0 are left"),
    (b"", -1, 0, "a batch of -1 messages"),
    (b"", 2**31 - 1, 0, "the metadata size of message 0"),
    (b"\x00\x00\x00\x02\x18", 1, 4, "the metadata of message 0 should have 2 bytes, 1 are left"),
    (b"\x00\x00\x00\x00", 1, 4, "SingleMessageMetadata lacks its required field payload_size"),
    (b"\x00\x00\x00\x02\x18\x05abcd", 1, 6, "message 0 should have 5 bytes, 4 are left"),
    (b"\x00\x00\x00\x02\x18\x01abc", 1, 7, "2 bytes after the last of 1 messages"),
    (b"\x00\x00\x00\x02\x18\x01abc", 2, 7, "the metadata size of message 1 should have 4 bytes, 2 are left"),
    (b"\x00\x00\x00\x0b\x18" + b"\xff" * 9 + b"\x01", 1, 15, "message 0 has -1 bytes"),
])  # fmt: skip
def test_malformed_batch(body, count, offset, reason):
    with pytest.raises(WireError) as caught:
        decode_batch(body, count)
    assert (caught.value.offset, reason in caught.value.reason) == (offset, True), str(caught.value)


def test_is_batch():
    assert not is_batch(METADATA)
    assert is_batch(pb.MessageMetadata(num_messages_in_batch=1))


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("body", [b"", b"x", TEXT, bytes(range(256))])
def test_compression_round_trip(compression, body):
    packed = compress(body, compression)
    assert decompress(packed, compression, len(body)) == body
    if body == TEXT and compression != pb.NONE:
        assert len(packed) < len(body) / 5


@pytest.mark.parametrize("compression", COMPRESSIONS[1:])
@pytest.mark.parametrize("wrong", [-1, 1, -len(TEXT), 100_000])
def test_uncompressed_size_must_be_right(compression, wrong):
    with pytest.raises(WireError):
        decompress(compress(TEXT, compression), compression, len(TEXT) + wrong)


@pytest.mark.parametrize("compression", COMPRESSIONS[1:])
def test_damaged_bodies(compression):
    packed = compress(TEXT, compression)
    for damaged in (b"", packed[:-3], b"\xff" * 40):
        with pytest.raises(WireError, match=pb.CompressionType.Name(compression)):
            decompress(damaged, compression, len(TEXT))


@pytest.mark.parametrize("compression", COMPRESSIONS[1:])
def test_no_size_asks_for_more_memory_than_the_limit(compression):
    bomb = compress(bytes(50_000_000), compression)
    with pytest.raises(WireError, match="50000000 bytes uncompressed, 5242880 are allowed"):
        decompress(bomb, compression, 50_000_000)
    with pytest.raises(WireError, match="does not decompress to 1000 bytes"):
        decompress(bomb, compression, 1000)
    assert len(decompress(bomb, compression, 50_000_000, limit=50_000_000)) == 50_000_000


def test_none_ignores_the_size():
    assert decompress(b"abc", pb.NONE, 0) == b"abc"
    assert decompress(b"abc", pb.NONE, 2**32 - 1) == b"abc"


def test_unknown_compression():
    with pytest.raises(ValueError, match="unknown compression 9"):
        compress(b"", 9)
    with pytest.raises(WireError, match="unknown compression 9"):
        decompress(b"", 9, 0)


def test_formats():
    assert compress(TEXT, pb.LZ4) == bytes(cramjam.lz4.compress_block(TEXT, store_size=False))
    assert compress(TEXT, pb.ZLIB).startswith(b"\x78")
    assert compress(TEXT, pb.ZSTD).startswith(b"\x28\xb5\x2f\xfd")
    assert compress(TEXT, pb.SNAPPY).startswith(b"\xc0\x3e")
