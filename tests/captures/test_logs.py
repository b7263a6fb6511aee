"""Event logs as rows: recordings, logs of runs, and all that can be wrong with them."""

import gzip
import json

import pytest

from conformance.captures import Origin, defect_class, log_rows
from conformance.captures.logs import _LONGEST_LINE
from conformance.engine import log
from conformance.running import recorder
from refimpl.wire import command, encode_frame
from tests.samples.captured import CONNECT, HEADER, LIST, PING, RECORDING, conversation, opened, received, sent, summary, write_log


def test_a_recording_gives_all_frames_of_its_log():
    run = recorder.load(RECORDING)
    logged = [event.data for trial_log in run.trial_logs.values() for event in trial_log.events if isinstance(event, log.Frame)]
    rows = list(log_rows(RECORDING, "r"))
    assert [row.data.hex() for row in rows if row.origin.direction == "broker"] == logged
    assert {(row.origin.target, row.origin.release) for row in rows} == {("apache-pulsar@4.2.4", "4.2.4")}
    assert {row.origin.connection for row in rows if row.command == "connected"} <= {row.origin.connection for row in rows}


def test_sends_of_a_connection_are_one_stream_whatever_they_hold(tmp_path):
    events = [opened(), sent(PING + LIST[:10]), opened("d"), sent(CONNECT, "d"), received(PING), sent(LIST[10:]), received(LIST, "d")]
    rows = list(log_rows(write_log(tmp_path / "a.jsonl", *conversation(*events)), "a"))
    assert [(row.origin.connection, row.origin.direction, row.offset, row.time, row.command) for row in rows] == [
        ("core/some/case#0 c", "client", 0, 1.0, "ping"),
        ("core/some/case#0 d", "client", 0, 3.0, "connect"),
        ("core/some/case#0 c", "broker", 0, 4.0, "ping"),
        ("core/some/case#0 c", "client", len(PING), 5.0, "watchTopicList"),
        ("core/some/case#0 d", "broker", 0, 6.0, "watchTopicList"),
    ]
    assert [row.origin.started for row in rows] == [0.0, 2.0, 0.0, 0.0, 2.0]


def test_answers_of_the_harness_were_sent_and_garbage_was_received(tmp_path):
    events = [
        opened(),
        received(PING),
        {"record": "answer", "at": "c", "octets": encode_frame(command("pong")).hex()},
        {"record": "garbage", "at": "c", "octets": bytes(4).hex(), "reason": "no frame"},
    ]
    rows = list(log_rows(write_log(tmp_path / "a.jsonl", *conversation(*events)), "a"))
    assert [(row.origin.direction, row.command or defect_class(row.corrupt)) for row in rows] == [
        ("broker", "ping"),
        ("client", "pong"),
        ("broker", "header"),
    ]


def test_a_connection_that_is_opened_again_is_another(tmp_path):
    events = [opened(), sent(PING + LIST[:5]), opened(), sent(PING)]
    rows = list(log_rows(write_log(tmp_path / "a.jsonl", *conversation(*events)), "a"))
    assert [(row.origin.connection, row.offset, row.command) for row in rows] == [
        ("core/some/case#0 c", 0, "ping"),
        ("core/some/case#0 c", len(PING), None),
        ("core/some/case#0 c (2)", 0, "ping"),
    ]


def test_a_send_that_the_log_cut_is_a_row_of_its_own_class(tmp_path):
    large = (9000).to_bytes(4, "big") + bytes(9000)
    text = f"{large[:256].hex()}..{large[-64:].hex()}"
    path = write_log(tmp_path / "a.jsonl", *conversation(opened(), sent(text, size=len(large)), sent(PING)))
    assert summary(log_rows(path, "a")) == [(0, 9004, "cut"), (9004, len(PING), "ping")]


def test_recordings_hold_cut_sends_and_damaged_frames_on_purpose():
    classes = {defect_class(row.corrupt) for row in log_rows(RECORDING.with_name("core.jsonl.gz"), "c") if row.corrupt}
    assert classes == {"cut", "header", "refused", "truncated"}


def test_a_log_with_a_damaged_line_ends_there(tmp_path):
    path = write_log(tmp_path / "a.jsonl", *conversation(opened(), sent(PING)))
    good = path.stat().st_size
    with path.open("a") as file:
        file.write('{"record":"frame","key":"x"}\nmore\n')
    rows = list(log_rows(path, "a"))
    assert summary(rows) == [(0, len(PING), "ping"), (good, 34, "log")]
    assert rows[1].corrupt.startswith("log: a:6: not a record of an event log (frame.n: Field required")
    assert rows[1].origin == Origin("a", target="some", release="1.2")


def test_frames_that_are_not_hexadecimal_damage_the_log(tmp_path):
    path = write_log(tmp_path / "a.jsonl", *conversation(opened(), sent("zz"), sent(PING)))
    assert [row.corrupt for row in log_rows(path, "a")] == ["log: a:4: the bytes of a begin are not hexadecimal"]


@pytest.mark.parametrize("text", [b'{"some": "log"}\n', b"\x89PNG\r\n\x1a\n\xff\xfe", b"{}", b"\xd4\xc3\xb2\xa1" + bytes(100)])
def test_a_foreign_file_is_one_row(tmp_path, text):
    path = tmp_path / "a.jsonl"
    path.write_bytes(text)
    (row,) = log_rows(path, "a")
    assert (row.offset, row.size) == (0, len(text))
    assert defect_class(row.corrupt) in ("log", "truncated")


def test_a_log_without_its_first_line_or_of_another_format(tmp_path):
    (row,) = log_rows(write_log(tmp_path / "a.jsonl", *conversation(opened(), sent(PING)), header=None), "a")
    assert row.corrupt == "log: a: no header: this is no event log, or its first line is lost"
    (row,) = log_rows(write_log(tmp_path / "b.jsonl", header={**HEADER, "format": 7}), "b")
    assert row.corrupt == "log: b: format 7; this version reads 1"


def test_a_compressed_log_that_is_cut_gives_what_can_be_read(tmp_path):
    whole = list(log_rows(RECORDING, "r"))
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(RECORDING.read_bytes()[:4000])
    *rows, last = log_rows(path, "r")
    assert last.corrupt.startswith("truncated: the log can't be decompressed further: ")
    frames = [row for row in rows if row.corrupt is None]
    assert frames
    assert frames == whole[: len(frames)]


def test_a_log_that_grows_is_read_as_far_as_it_was(tmp_path):
    path = write_log(tmp_path / "a.jsonl", *conversation(opened(), sent(PING)))
    length = path.stat().st_size
    with path.open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in conversation(opened(), sent(LIST), key="core/some/case#1"))
    assert summary(log_rows(path, "a", length)) == [(0, len(PING), "ping")]
    rows = list(log_rows(path, "a", length - 5))
    assert summary(rows)[0] == (0, len(PING), "ping")
    assert rows[1].corrupt == "truncated: the log ends inside line 5"
    assert len(list(log_rows(path, "a"))) == 2


def test_a_log_that_is_still_written_shows_open_frames(tmp_path):
    path = write_log(tmp_path / "a.jsonl", *conversation(opened(), sent(PING + LIST[:9]))[:-1])
    assert [defect_class(row.corrupt) for row in log_rows(path, "a") if row.corrupt] == ["truncated"]


def test_a_line_without_end_does_not_fill_the_memory(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b" " * (_LONGEST_LINE + 10), 1))
    (row,) = log_rows(path, "a")
    assert row.corrupt == "truncated: the log ends inside line 1"
    assert len(row.data) == 4096


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (sent(f"{PING.hex()}..{PING.hex()}", size=3), "a send of 3 bytes of which more are there"),
        ({**sent(PING), "t": float("nan")}, "the time of a begin is no number"),
        ({**sent(PING), "t": float("inf")}, "the time of a begin is no number"),
    ],
)
def test_records_that_can_not_be_are_named(tmp_path, event, text):
    path = write_log(tmp_path / "a.jsonl", *conversation(opened(), event))
    assert [row.corrupt for row in log_rows(path, "a.jsonl")] == [f"log: a.jsonl:4: {text}"]
