"""Each law of the job `round_trip` breaks when it should: faults in encoders and decoders, and in how captures are written and read."""

import dataclasses
from math import inf

import pyarrow as pa
import pytest
from pyspark.sql import functions as sql

from conformance.captures import MAX_FRAME_SIZE, Origin, Stream, find_pieces
from conformance.captures.raw import WINDOW
from conformance.corpus import round_trip as rules
from conformance.corpus.jobs import round_trip
from conformance.corpus.jobs.round_trip import OF_FRAMES, RAW, SPLITS, WHOLE, count_batches
from conformance.corpus.sources.pulsar_capture import batches
from refimpl.wire import SingleMessage, WireError, command, compress, encode_batch, encode_frame, encode_payload
from refimpl.wire.pulsar_api_pb2 import LZ4, SNAPPY, ZLIB, ZSTD, BrokerEntryMetadata, MessageMetadata, SingleMessageMetadata
from tests.samples.captured import conversation, opened, received, sent, write_log
from tests.samples.faults import fault, planted

PONG = encode_frame(command("pong"))
pytestmark = pytest.mark.usefixtures("without_compiling")


def sends():
    """Return payloads of all kinds."""
    messages = [SingleMessage(SingleMessageMetadata(partition_key=f"k{number}"), b"x" * number) for number in range(1, 5)]
    body = encode_batch(messages)
    for number, compression in enumerate((0, LZ4, ZLIB, ZSTD, SNAPPY)):
        metadata = MessageMetadata(producer_name="p", sequence_id=number, publish_time=5, num_messages_in_batch=4)
        metadata.compression, metadata.uncompressed_size = compression, len(body)
        yield encode_payload(metadata, compress(body, compression))
    single = MessageMetadata(producer_name="p", sequence_id=9, publish_time=5)
    for checksum in ("valid", "invalid", "absent"):
        yield encode_payload(single, b"some body", checksum=checksum)
    yield encode_payload(single, b"some body", broker_entry_metadata=BrokerEntryMetadata(index=5))


def frames():
    """Return what one side sends; the second frame has a field that is not known."""
    watch = encode_frame(command("watchTopicList", request_id=1, watcher_id=2, namespace="public/default", topics_pattern="a.*"))
    size = int.from_bytes(watch[:4], "big") + 4
    unknown = size.to_bytes(4, "big") + (size - 4).to_bytes(4, "big") + watch[8:] + b"\xa2\x1f\x01x"
    sent = [encode_frame(command("send", producer_id=1, sequence_id=number), data) for number, data in enumerate(sends())]
    return [watch, unknown, encode_frame(command("ping")), *sent]


def rows(target):
    """Return two connections, each in both directions, as an event log has them."""
    for connection in ("1", "2"):
        for direction in ("client", "broker"):
            stream = Stream(Origin(f"{target}.jsonl", connection, direction, float(connection), target))
            for data in frames() if direction == "client" else frames()[::-1]:
                yield from stream.feed(data)


def type_last(right):
    """Write the type of a command behind what it says."""

    def encode(base, payload):
        data = right(base, payload)
        end = 8 + int.from_bytes(data[4:8], "big")
        return data[:8] + data[10:end] + data[8:10] + data[end:]

    return encode


def one_more_field(right):
    def encode(base, payload):
        base = type(base).FromString(base.SerializeToString() + b"\xf2\x3f\x01x")
        return right(base, payload)

    return encode


def without_unknown(right):
    def decode(data):
        frame = right(data)
        frame.command.DiscardUnknownFields()
        return frame

    return decode


def refusing(right):
    def refuse(*given, **more):
        right(*given, **more)
        raise WireError(0, "it is refused")

    return refuse


def refusing_if_compressed(right):
    return lambda body, compression, size: refusing(right)(body, compression, size) if compression else right(body, compression, size)


def receiving(change):
    """Change which frames come out of a piece."""

    def wrong(right):
        return type("Wrong", (right,), {"receive": lambda self, data: change(list(super(type(self), self).receive(data)))})

    return wrong


def written(change):
    """Write other rows into a raw capture."""
    return lambda right: lambda folder, given: right(folder, change(list(given)))


def late_byte(given):
    """Change the last byte of the longest frame."""
    at = max(range(len(given)), key=lambda place: len(given[place].data))
    data = given[at].data
    given[at] = dataclasses.replace(given[at], data=data[:-1] + bytes([data[-1] ^ 1]))
    return given


def named(**changes):
    return lambda right: lambda origin, number: right(origin, number).model_copy(update=changes)


def header_of_one_window(right):
    """Read the size of a frame from one window alone, also where it goes on in the next one."""

    def found(path, length, part, *_):
        data, place, window, starts = path.read_bytes(), 0, 0, [0]
        while place + 4 <= length:
            window = place if place >= window + WINDOW else window
            place += 4 + int.from_bytes(data[place : min(place + 4, window + WINDOW)], "big")
            if place - starts[-1] >= part and place < length:
                starts.append(place)
        return list(zip(starts, [*starts[1:], length], strict=True))

    return found


def doubled(bases):
    return [*bases, *bases[-1:]]


def without_last(right):
    return lambda *given: iter(list(right(*given))[:-1])


RULES, JOB, READ = "conformance.corpus.round_trip", "conformance.corpus.jobs.round_trip", "conformance.captures.places"
NAMED = "conformance.captures.raw:_named"
ALL_FAULTS = (
    fault("nothing is wrong", f"{RULES}:encode_frame", lambda right: right),
    fault("fields in another order", f"{RULES}:encode_frame", type_last, "command"),
    fault("a field more", f"{RULES}:encode_frame", one_more_field, "command", "value"),
    fault("no payload", f"{RULES}:encode_frame", lambda right: lambda base, _: right(base, None), "command", "value"),
    fault("unknown fields are lost", f"{RULES}:decode_frame", without_unknown, "command"),
    fault("checksums are made right", f"{RULES}:encode_payload", lambda right: lambda *given, **more: right(*given, **{**more, "checksum": "valid"}), "payload"),
    fault("bodies are cut", f"{RULES}:encode_payload", lambda right: lambda header, body, **more: right(header, body[:-1], **more), "payload"),
    fault("what the broker added is lost", f"{RULES}:encode_payload", lambda right: lambda *given, **more: right(*given, **{**more, "broker_entry_metadata": None}), "payload"),
    fault("messages of a batch upside down", f"{RULES}:encode_batch", lambda right: lambda messages: right(messages[::-1]), "batch"),
    fault("the last message of a batch is lost", f"{RULES}:decode_batch", lambda right: lambda *given: right(*given)[:-1], "batch"),
    fault("the last message of a batch is there twice", f"{RULES}:decode_batch", lambda right: lambda *given: doubled(right(*given)), "batch"),
    fault("bodies are turned before they are compressed", f"{RULES}:compress", lambda right: lambda body, *given: right(body[::-1], *given), "compression"),
    fault("no headers can be read", "refimpl.wire:Frame.payload", refusing, "payload"),
    fault("no batch can be read", f"{RULES}:decode_batch", refusing, "batch"),
    fault("compressed bodies can't be read", f"{RULES}:decompress", refusing_if_compressed, "compression"),
    fault("frames of a piece upside down", f"{RULES}:FrameDecoder", receiving(lambda found: found[::-1]), "pieces"),
    fault("the last frame of a piece is lost", f"{RULES}:FrameDecoder", receiving(lambda found: found[:-1]), "pieces"),
    fault("the last frame of a piece is there twice", f"{RULES}:FrameDecoder", receiving(doubled), "pieces"),
    fault("frames are written upside down", f"{JOB}:write_capture", written(lambda given: given[::-1]), "raw"),
    fault("the last frame is not written", f"{JOB}:write_capture", written(lambda given: given[:-1]), "raw"),
    fault("the last frame is written twice", f"{JOB}:write_capture", written(doubled), "raw"),
    fault("a frame is written with another last byte", f"{JOB}:write_capture", written(late_byte), "raw"),
    fault("a frame is written into another connection", f"{JOB}:write_capture", written(lambda given: [dataclasses.replace(given[0], origin=given[-1].origin), *given[1:]]), "raw"),
    fault("directions are turned", NAMED, lambda right: lambda origin, number: right(dataclasses.replace(origin, direction={"client": "broker", "broker": "client"}[origin.direction]), number), "raw"),
    fault("nobody says when a connection was opened", NAMED, named(start=None), "raw"),
    fault("parts that are read in Spark lose their first frame", f"{READ}:part_rows", lambda right: lambda *given: iter(list(right(*given))[1:]), "raw", "whole"),
    fault("the last lines of logs are not read", "conformance.captures.logs:_Lines.__iter__", lambda right: lambda self: iter(list(right(self))[:-2]), "whole"),
    fault("what a log lists last is not read", f"{READ}:log_rows", without_last, "whole"),
    fault("what a log lists is there twice", f"{READ}:log_rows", lambda right: lambda *given: doubled(list(right(*given))), "whole"),
    fault("files are divided within frames in Spark", f"{READ}:borders", lambda right: lambda path, length, *_: [(0, 20), (20, length)], "raw"),
    fault("files are divided within frames", f"{RULES}:borders", lambda right: lambda path, length, *_: [(0, 20), (20, length)], "splits"),
    fault("files are divided with a gap", f"{RULES}:borders", lambda right: lambda *given: right(*given)[:-1], "splits"),
    fault("files are divided in another order", f"{RULES}:borders", lambda right: lambda *given: right(*given)[::-1], "splits"),
    fault("a size that lies across two windows is read from one", f"{RULES}:borders", header_of_one_window, "splits"),
    fault("each part loses its last frame", f"{RULES}:part_rows", lambda right: lambda *given: iter(list(right(*given))[:-1]), "splits"),
)  # fmt: skip
"""Faults of the reference's wire format, and of captures."""


def counts_of(given):
    return pa.Table.from_batches(one for batch in batches(given) for one in count_batches([batch], 1)).to_pylist()


def laws_of_frames(given):
    table = counts_of(given)
    outcomes = [round_trip._outcome(law, table) for law in OF_FRAMES]
    return {outcome.name for outcome in outcomes if outcome.broken}


def read_again(folder, given):
    """Write a raw capture, and read it in parts."""
    round_trip.write_capture(folder, given)
    pieces, defects = find_pieces(folder, 200, MAX_FRAME_SIZE)
    assert len(pieces) >= 8
    return [*defects, *(row for piece in pieces for row in piece.rows(MAX_FRAME_SIZE))]


def is_whole(folder):
    """Tell whether rows have all bytes of a log and of a raw capture."""
    pieces = find_pieces(folder, 200, MAX_FRAME_SIZE)[0]
    found = (row for piece in pieces for row in piece.rows(MAX_FRAME_SIZE))
    return round_trip._whole(str(folder), counts_of(found), inf).holds


def divided(*folders):
    """Tell whether the files of captures give other rows in parts."""
    pieces = [piece for folder in folders for piece in find_pieces(folder, MAX_FRAME_SIZE, MAX_FRAME_SIZE)[0]]
    return any(rules.split_file(piece.path, piece.origin, piece.end).broken for piece in pieces)


def frame_of(spark, given):
    return spark.createDataFrame(pa.Table.from_batches(batches(given)).combine_chunks())


def test_each_fault_breaks_just_the_laws_that_speak_of_it(spark, tmp_path):
    round_trip.write_capture(tmp_path / "right", rows("right"))
    (tmp_path / "both").mkdir()
    round_trip.write_capture(tmp_path / "both" / "raw", rows("right"))
    rules.write_unaligned(tmp_path / "unaligned")
    write_log(
        tmp_path / "both" / "log.jsonl",
        *conversation(opened(), sent(PONG), received(PONG), sent(f"{PONG.hex()[:8]}..{PONG.hex()[8:]}", size=60)),
    )
    found, logged, read = {}, [], []
    for number, one in enumerate(ALL_FAULTS):
        given = list(rows(one.name))
        with planted(one):
            found[one.name] = laws_of_frames(given) | ({SPLITS.name} if divided(tmp_path / "right", tmp_path / "unaligned") else set())
            read += read_again(tmp_path / str(number), given)
            if not is_whole(tmp_path / "both"):
                found[one.name].add(WHOLE.name)
        logged += given
    places = sql.concat_ws(" ", "file", "connection"), sql.col("connection")
    logs, files = (round_trip._signatures(frame_of(spark, some), place) for some, place in zip((logged, read), places, strict=True))
    for key in logs.keys() | files.keys():
        if logs.get(key) != files.get(key):
            found[key[0]].add(RAW.name)
    assert {one.name: found[one.name] for one in ALL_FAULTS if found[one.name] != one.laws} == {}


def test_what_is_the_same_is_one_outcome(spark, tmp_path):
    given = list(rows("t"))
    right = frame_of(spark, given), frame_of(spark, read_again(tmp_path / "c", given))
    outcome = round_trip._same_frames(*right)
    assert (outcome.checked, outcome.broken) == (len(given), 0)
    turned = [dataclasses.replace(row, data=PONG) if row.command == "ping" else row for row in given]
    outcome = round_trip._same_frames(frame_of(spark, turned), right[1])
    assert (outcome.broken, outcome.examples) == (4, [{"target": "t", "command": "ping"}])
