"""Random commands survive the wire, any split gives the same frames, and no bytes raise anything but WireError."""

import contextlib
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refimpl.wire import (
    FrameDecoder,
    SingleMessage,
    WireError,
    decode_batch,
    decode_frame,
    decompress,
    encode_batch,
    encode_frame,
    encode_payload,
    line_notation,
    parse_payload,
)
from refimpl.wire import pulsar_api_pb2 as pb
from tests.samples.wire import GOLDEN, SINGLE, commands, golden, messages
from tests.wire.tiling import tiles

few = settings(max_examples=60)
many = settings(max_examples=300)
STREAM = b"".join(one.data for one in GOLDEN.values())
MALFORMED = b"\x00\x00\x00\x06\x00\x00\x00\x02\x08\x12"


def run(pieces):
    """Feed pieces; return the frames and what stopped them."""
    decoder, data = FrameDecoder(), []
    try:
        for piece in pieces:
            data += [frame.data for frame in decoder.receive(piece)]
        decoder.eof()
    except WireError as error:
        return data, str(error)
    return data, None


def split(data, cuts):
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(places)]


@few
@given(st.lists(st.integers(0, len(STREAM)), max_size=60), st.sampled_from([b"", MALFORMED, MALFORMED + STREAM, b"\x00\x00", bytes(9)]))
def test_any_split_gives_the_same_frames(cuts, tail):
    whole = STREAM + tail
    assert run(split(whole, cuts)) == run([whole])


@settings(max_examples=200)
@given(commands(), st.binary(max_size=20))
def test_random_commands_survive(command, rest):
    data = encode_frame(command, rest)
    frame = decode_frame(data)
    assert (frame.command, frame.payload_bytes or b"", frame.data) == (command, rest, data)
    assert encode_frame(frame.command, rest) == data
    assert "\n" not in line_notation(frame)
    tiles(data)


@few
@given(
    messages(pb.MessageMetadata),
    st.binary(max_size=20),
    st.sampled_from(["valid", "invalid", "absent", 0, 2**32 - 1]),
    st.none() | messages(pb.BrokerEntryMetadata),
)
def test_random_payloads_survive(metadata, body, checksum, added):
    data = encode_payload(metadata, body, checksum=checksum, broker_entry_metadata=added)
    payload = parse_payload(data)
    assert (payload.metadata, payload.body, payload.broker_entry_metadata) == (metadata, body, added)


@few
@given(st.lists(st.tuples(messages(pb.SingleMessageMetadata), st.binary(max_size=9)), max_size=5))
def test_random_batches_survive(pairs):
    singles = []
    for metadata, body in pairs:
        metadata.payload_size = len(body)
        singles.append(SingleMessage(metadata, body))
    assert decode_batch(encode_batch(singles), len(singles)) == singles


def harmless(data):
    """Nothing but WireError may come out of any bytes."""
    run([data])
    tiles(data)
    try:
        frame = decode_frame(data)
        line_notation(frame)
        data = b""  # offsets inside a decompressed body count there
        payload = frame.payload()
        metadata = payload.metadata
        body = decompress(payload.body, metadata.compression, metadata.uncompressed_size)
        decode_batch(body, min(metadata.num_messages_in_batch, 1000))
    except WireError as error:
        offset = error.offset
    else:
        offset = 0
    assert offset >= 0
    assert not data or offset <= len(data)


@many
@given(st.binary(max_size=80))
def test_random_bytes(data):
    harmless(data)


@many
@given(st.binary(min_size=1, max_size=60), st.binary(max_size=20))
def test_random_bytes_in_a_frame(command, rest):
    harmless((4 + len(command) + len(rest)).to_bytes(4, "big") + len(command).to_bytes(4, "big") + command + rest)


@many
@given(st.sampled_from(sorted(SINGLE)), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4))
def test_golden_frames_with_bytes_changed(name, changes):
    data = bytearray(golden(name))
    for place, value in changes:
        data[place % len(data)] = value
    harmless(bytes(data))


@many
@given(st.sampled_from(sorted(SINGLE)), st.integers(8, 400), st.integers(0, 30), st.binary(max_size=10))
def test_golden_frames_with_bytes_cut_out_and_put_in(name, place, size, added):
    data = golden(name)
    place %= len(data)
    data = data[:place] + added + data[place + size :]
    data = max(len(data) - 4, 0).to_bytes(4, "big") + data[4:]
    harmless(data)


@few
@given(st.sampled_from([pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY]), st.binary(max_size=60), st.integers(-1, 10_000))
def test_random_bytes_never_decompress_to_another_size(compression, body, size):
    with contextlib.suppress(WireError):
        assert len(decompress(body, compression, size)) == size


@pytest.mark.parametrize("name", sorted(SINGLE))
def test_every_byte_of_a_golden_frame_turned(name):
    data = golden(name)
    for place in range(0, len(data), 1 if len(data) < 60 else 5):
        harmless(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
