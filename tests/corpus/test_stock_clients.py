"""Captures of stock clients with Apache Pulsar 4.2.4, made by `tests.interop.captures`: every frame goes in, and every message comes out."""

from collections import Counter
from pathlib import Path

import pytest

from conformance.captures import MAX_FRAME_SIZE, check_capture, find_pieces
from conformance.corpus import captured, round_trip
from refimpl.wire import decode_frame
from refimpl.wire.pulsar_api_pb2 import CompressionType

HOME = Path(__file__).parents[1] / "samples" / "captures"


def frames(client, direction):
    pieces, defects = find_pieces(HOME / client, 1 << 24, MAX_FRAME_SIZE)
    assert defects == []
    rows = [row for piece in pieces for row in piece.rows(MAX_FRAME_SIZE)]
    assert {row.corrupt for row in rows} == {None}
    assert {row.origin.release for row in rows} == {"4.2.4"}
    return [row.data for row in rows if row.origin.direction == direction]


@pytest.mark.parametrize("client", ["python", "java"])
def test_no_byte_is_lost(client):
    check_capture(str(HOME / client))
    for direction in ("client", "broker"):
        assert b"".join(frames(client, direction)) == (HOME / client / f"00001.{direction}").read_bytes()


@pytest.mark.parametrize(("client", "topics"), [("python", {"single": 4, "batched": 50, "by key": 10, "订单": 10}), ("java", {"java": 33})])
def test_the_messages_of_a_client(client, topics):
    found = list(captured.messages_of(frames(client, "client"), frames(client, "broker"), "c"))
    assert Counter(row["topic"].rpartition("/")[2] for row in found) == topics
    sequences = {}
    for row in found:
        producer = row["topic"], row["producer_name"]
        assert row["sequence_id"] == sequences.get(producer, -1) + 1
        sequences[producer] = row["sequence_id"]
        assert row["payload_size"] == len(row["payload"])
        assert row["properties"].get("region", "eu") in ("eu", "us", "", "地区")
    if client == "python":
        assert [row["payload"] for row in found[:4]] == [b"", b"plain", "é".encode(), b"x" * 3000]
        assert {row["key"] for row in found} == {"k0", "k1", "k2"}


def test_all_compressions_and_a_batch_of_each_key_are_there():
    sent = [decode_frame(data) for client in ("python", "java") for data in frames(client, "client")]
    metadata = [frame.payload().metadata for frame in sent if frame.command.HasField("send")]
    assert {one.compression for one in metadata} == set(CompressionType.values())
    assert {one.partition_key for one in metadata if one.num_messages_in_batch > 1} >= {"k0", "k1", "k2"}


@pytest.mark.parametrize("client", ["python", "java"])
def test_frames_of_stock_clients_are_the_same_when_they_are_encoded_again(client):
    for direction in ("client", "broker"):
        data = frames(client, direction)
        assert [found for one in data for found in round_trip.findings(one) if found.what == round_trip.BROKEN] == []
        assert round_trip.any_pieces(data, direction)
