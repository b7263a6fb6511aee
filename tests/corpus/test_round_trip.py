"""What is decoded and encoded again is what it was: the rules, and the job."""

import json
import shutil
from contextlib import contextmanager

import pyarrow as pa
import pytest

from conformance.captures import Origin, log_rows, write_capture
from conformance.corpus import job as jobs
from conformance.corpus import round_trip as rules
from conformance.corpus.jobs import round_trip
from conformance.corpus.jobs.round_trip import JOB, count_batches
from conformance.corpus.sources.pulsar_capture import batches
from conformance.running import recorder
from refimpl.wire import SingleMessage, command, compress, encode_batch, encode_frame, encode_payload
from refimpl.wire.pulsar_api_pb2 import LZ4, ZSTD, BaseCommand, BrokerEntryMetadata, CommandAck, MessageMetadata, SingleMessageMetadata
from refimpl.wire.schema import descriptor_of
from tests.samples.captured import CONNECT, conversation, opened, raw, sent, write_log
from tests.samples.packets import Talk, pcap

PING = encode_frame(command("ping"))
LIST = encode_frame(command("watchTopicList", request_id=1, watcher_id=2, namespace="public/default", topics_pattern="a.*"))
SEND = command("send", producer_id=1, sequence_id=2)
METADATA = MessageMetadata(producer_name="p", sequence_id=2, publish_time=5)
RECORDINGS = {register: recorder.HOME / "apache-pulsar@4.2.4" / f"{register}.jsonl.gz" for register in ("core", "pip191", "pip247")}


def framed(encoded):
    return (4 + len(encoded)).to_bytes(4, "big") + len(encoded).to_bytes(4, "big") + encoded


def found(data):
    return {finding.law: finding.what for finding in rules.findings(data)}


def varint(value):
    data = b""
    while value > 127:
        data += bytes([value & 127 | 128])
        value >>= 7
    return data + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def command_of(*fields, number=64):
    return b"".join([field(1, number), field(number, b"".join(fields))])


GOOD = [field(1, 1), field(2, 2), field(3, b"ns"), field(4, b"p")]
UNKNOWN = "something that the schema does not have stands before something that it has"
ORDER = "fields are not in the order of their numbers"
LONG = "a number is written with more bytes than it needs, or with bits that do not count"


@pytest.mark.parametrize(
    ("encoded", "form"),
    [
        (command_of(*GOOD), None),
        (command_of(*GOOD) + field(500, b"x"), None),
        (command_of(*GOOD, field(500, 1)), None),
        (field(500, 1) + command_of(*GOOD), UNKNOWN),
        (command_of(field(500, 1), *GOOD), UNKNOWN),
        (command_of(*reversed(GOOD)), ORDER),
        (field(64, b"".join(GOOD)) + field(1, 64), ORDER),
        (command_of(GOOD[0], *GOOD), "a field stands twice"),
        (command_of(b"\x08\x81\x00", *GOOD[1:]), LONG),
        (command_of(b"\x88\x00\x01", *GOOD[1:]), LONG),
        (command_of(*GOOD[:2], b"\x1a\x82\x00ns", GOOD[3]), LONG),
        (field(1, 18) + b"\x92\x81\x00\x00", LONG),
    ],
)
def test_a_command_in_another_form_is_named(encoded, form):
    assert rules.other_form(descriptor_of(BaseCommand), encoded) == form
    data = framed(encoded)
    assert found(data) == {"command": form or rules.SAME, "value": rules.SAME}


def test_a_value_of_an_enum_that_is_not_known_counts_as_unknown():
    encoded = command_of(field(1, 1), field(2, b"public/default"), field(3, 7), field(4, b".*"), number=32)
    assert found(framed(encoded))["command"] == UNKNOWN


def test_numbers_that_may_be_packed_or_not():
    packed = field(1, 1) + field(3, field(1, 1) + field(2, 2) + field(5, varint(3) + varint(4)))
    single = field(1, 1) + field(3, field(1, 1) + field(2, 2) + field(5, 3) + field(5, 4))
    ack = CommandAck(consumer_id=1, ack_type=CommandAck.Individual)
    ack.message_id.add(ledgerId=1, entryId=2, ack_set=[3, 4])
    written = ack.message_id[0].SerializeToString()
    forms = {encoded: rules.other_form(ack.message_id[0].DESCRIPTOR, encoded) for encoded in (packed[4:], single[4:])}
    assert forms[written] is None
    assert sorted(map(str, forms.values()))[1] == "a repeated field is packed where the schema does not say so, or the other way round"


def test_numbers_below_zero_are_ten_bytes_and_no_other_form():
    base = command("success", request_id=1)
    batch_index = command("message", consumer_id=1, message_id={"ledgerId": 1, "entryId": 2, "partition": -1})
    assert {found(encode_frame(one))["command"] for one in (base,)} == {rules.SAME}
    assert rules.other_form(descriptor_of(BaseCommand), batch_index.SerializeToString()) is None


@pytest.mark.parametrize("broker_entry", [None, BrokerEntryMetadata(index=5)])
@pytest.mark.parametrize("checksum", ["valid", "invalid", "absent"])
def test_payloads_are_encoded_as_they_were(checksum, broker_entry):
    data = encode_frame(SEND, encode_payload(METADATA, b"body", checksum=checksum, broker_entry_metadata=broker_entry))
    assert found(data) == {"command": rules.SAME, "value": rules.SAME, "payload": rules.SAME}


def test_metadata_in_another_form_are_named():
    header = METADATA.SerializeToString()
    odd = field(500, 1) + header
    for magic in (b"", b"\x0e\x01\x00\x00\x00\x00"):
        payload = magic + len(odd).to_bytes(4, "big") + odd + b"body"
        assert found(encode_frame(SEND, payload))["payload"] == UNKNOWN
    added = field(2, 7) + field(1, 9)
    payload = b"\x0e\x02" + len(added).to_bytes(4, "big") + added + len(header).to_bytes(4, "big") + header
    assert found(encode_frame(SEND, payload))["payload"] == ORDER


def test_payloads_that_can_not_be_read_are_named():
    assert found(encode_frame(SEND, b"\x00\x00\x00\x09short"))["payload"].startswith("refused: the message metadata should have 9 bytes")
    assert found(encode_frame(SEND))["payload"] == "refused: SEND without a payload"
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, num_messages_in_batch=2)
    assert found(encode_frame(SEND, encode_payload(metadata, b"x")))["batch"].startswith("refused: the metadata size of message 0")
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, compression=ZSTD, uncompressed_size=9)
    assert found(encode_frame(SEND, encode_payload(metadata, b"x")))["compression"] == "refused: ZSTD body does not decompress to 9 bytes"


@pytest.mark.parametrize("compression", [0, LZ4, ZSTD])
def test_batches_are_encoded_as_they_were(compression):
    body = encode_batch([SingleMessage(SingleMessageMetadata(partition_key=f"k{number}"), b"x" * number) for number in range(3)])
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, num_messages_in_batch=3, uncompressed_size=len(body))
    if compression:
        metadata.compression = compression
    laws = found(encode_frame(SEND, encode_payload(metadata, compress(body, compression))))
    assert laws["batch"] == rules.SAME
    assert laws.get("compression") == (rules.SAME if compression else None)


def test_a_batch_in_another_form_is_named():
    header = SingleMessageMetadata(payload_size=1).SerializeToString()
    body = b"".join(len(one).to_bytes(4, "big") + one + b"x" for one in (header, field(500, 1) + header))
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, num_messages_in_batch=2)
    assert found(encode_frame(SEND, encode_payload(metadata, body)))["batch"] == UNKNOWN


def test_encoders_that_are_wrong_break_the_laws(monkeypatch):
    data = encode_frame(SEND, encode_payload(METADATA, b"body"))
    monkeypatch.setattr(rules, "encode_frame", lambda command, payload: LIST)
    monkeypatch.setattr(rules, "encode_payload", lambda metadata, body, **_: b"")
    assert found(data) == {"command": rules.BROKEN, "value": rules.BROKEN, "payload": rules.BROKEN}


def test_unknown_bytes_are_counted_at_any_depth():
    base = BaseCommand()
    base.ParseFromString(command_of(*GOOD, field(500, 1)) + field(501, b"xx"))
    assert rules.unknown_fields(base) == len(field(500, 1) + field(501, b"xx"))
    base.ParseFromString(command_of(*GOOD))
    assert rules.unknown_fields(base) == 0


def test_pieces_do_not_matter(monkeypatch):
    frames = [PING, LIST] * 50
    assert all(rules.any_pieces(frames, str(seed)) for seed in range(20))

    class Forgetful(rules.FrameDecoder):
        def receive(self, data):
            return super().receive(data[:-1] if len(data) > 12 else data)

    monkeypatch.setattr(rules, "FrameDecoder", Forgetful)
    assert not any(rules.any_pieces(frames, str(seed)) for seed in range(3))


def test_a_file_is_read_divided_and_whole(tmp_path, monkeypatch):
    path = tmp_path / "f"
    path.write_bytes((PING + LIST) * 20 + bytes(4))
    origin = Origin("f", "c", "client")
    assert rules.split_file(path, origin, path.stat().st_size) == rules.Splits(1, 41, 41, [])
    path.write_bytes(LIST * 3000)
    assert rules.split_file(path, origin, path.stat().st_size) == rules.Splits(1, 64, 3000, [])
    monkeypatch.setattr(rules, "borders", lambda path, length, *_: [(0, 20), (20, length)])
    assert rules.split_file(path, origin, path.stat().st_size).broken == ["f"]


def counted(rows, seed=1):
    tables = [batch for one in batches(rows) for batch in count_batches([one], seed)]
    totals = {}
    for row in pa.Table.from_batches(tables).to_pylist():
        totals[row["law"], row["what"]] = totals.get((row["law"], row["what"]), 0) + row["count"]
    return totals


def test_frames_of_a_recording_are_counted():
    rows = list(log_rows(RECORDINGS["core"], "core"))
    good = [row for row in rows if row.corrupt is None]
    totals = counted(rows)
    assert totals["frames", "client"] + totals["frames", "broker"] == len(good)
    assert totals["pieces", rules.SAME] == totals["value", rules.SAME] == len(good)
    assert totals["command", rules.SAME] == len(good) - 1
    assert totals["command", UNKNOWN] == 1
    assert sum(count for (law, _), count in totals.items() if law == "corrupt") == len(rows) - len(good)
    assert totals["corrupt", "refused: at byte N: PING without its sub-message ping"] == 1
    assert not [key for key in totals if key[1] == rules.BROKEN]


def test_the_smallest_frame_that_breaks_a_law_is_kept(monkeypatch):
    rows = [row for row in log_rows(RECORDINGS["pip247"], "r") if row.command in ("connect", "connected")]
    monkeypatch.setattr(rules, "encode_frame", lambda command, payload: PING)
    broken = [row for batch in count_batches(batches(rows), 1) for row in batch.to_pylist() if row["what"] == rules.BROKEN]
    assert {(row["law"], row["command"]) for row in broken} == {
        (law, name) for law in ("command", "value") for name in ("connect", "connected")
    }
    for row in broken:
        assert row["example"] in [one.data for one in rows if one.command == row["command"]]
        assert len(row["example"]) == min(len(one.data) for one in rows if one.command == row["command"])
    law = round_trip._outcome(round_trip.OF_FRAMES[0], broken)
    assert (law.holds, law.checked, law.broken) == (False, len(rows), len(rows))
    assert [example["command"] for example in law.examples] == ["connect", "connected"]
    assert not round_trip._outcome(round_trip.OF_FRAMES[0], []).holds


# The job


@pytest.fixture
def run(spark, monkeypatch, tmp_path):
    @contextmanager
    def started(name, **_):
        yield spark

    monkeypatch.setattr(jobs, "spark_session", started)

    def main(*arguments):
        code = JOB.main(["--result", str(tmp_path / "result.json"), "--scratch", str(tmp_path / "scratch"), *arguments])
        path = tmp_path / "result.json"
        return code, json.loads(path.read_text()) if path.exists() else None

    return main


def test_the_job_on_recordings_and_on_a_raw_capture(run, tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    for register, path in RECORDINGS.items():
        shutil.copy(path, logs / f"{register}.jsonl.gz")
    code, result = run("--corpus", str(logs))
    assert (code, result["holds"]) == (0, True)
    assert [law["name"] for law in result["laws"]] == [law.name for law in JOB.laws]
    rows = [row for path in RECORDINGS.values() for row in log_rows(path, path.name)]
    good = sum(row.corrupt is None for row in rows)
    checked = {law["name"]: law["checked"] for law in result["laws"]}
    assert checked["command"] == checked["value"] == checked["pieces"] == checked["raw"] == good
    assert result["counters"]["frames by release"] == {"4.2.4": good}
    assert result["counters"]["raw capture"]["frames written"] == good
    assert list((tmp_path / "scratch").iterdir()) == []

    write_capture(tmp_path / "raw", rows)
    code, result = run("--corpus", f"capture:{tmp_path / 'raw'}")
    assert code == 0
    assert {law["name"]: law["checked"] for law in result["laws"]}["command"] == good


def test_captures_of_packets_have_no_log_to_compare_with(run, tmp_path):
    talk = Talk()
    (tmp_path / "a.pcap").write_bytes(pcap([*talk.opened(), talk.client(CONNECT), talk.client(LIST)]))
    code, result = run("--corpus", str(tmp_path / "a.pcap"))
    assert code == 0
    assert {law["name"] for law in result["laws"]} == {"command", "value", "pieces", "splits"}


def test_a_file_of_bytes_that_is_called_like_a_log_is_none(run, tmp_path):
    folder = raw(tmp_path / "c")
    (folder / "x.jsonl").write_bytes(CONNECT + LIST)
    (folder / "index.jsonl").write_text('{"connection": "a", "direction": "client", "file": "x.jsonl"}\n')
    write_log(tmp_path / "c" / "events.jsonl", *conversation(opened(), sent(LIST)))
    code, result = run("--corpus", str(folder))
    assert code == 0
    assert {law["name"]: law["checked"] for law in result["laws"]}["raw"] == 1


def test_the_job_names_what_it_can_not_read(run, tmp_path, capsys):
    assert run("--corpus", str(tmp_path / "gone")) == (2, None)
    assert capsys.readouterr().err.splitlines()[-1] == f"round_trip: {tmp_path}/gone: there is no such file or folder"
    (tmp_path / "empty").mkdir()
    assert run("--corpus", str(tmp_path / "empty")) == (2, None)
    assert capsys.readouterr().err.splitlines()[-1].endswith("empty: no capture to read: it is empty")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "a.jsonl").write_text("{}\n")
    assert run("--corpus", str(tmp_path / "foreign")) == (2, None)
    assert "a.jsonl:1: not a record of an event log" in capsys.readouterr().err.splitlines()[-1]
