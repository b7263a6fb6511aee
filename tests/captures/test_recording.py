"""Raw captures that are written while they come, and when their bytes came."""

import json

import pytest

from conformance.captures import CaptureError, check_capture, find_pieces, unread_files
from conformance.captures.recording import Recording
from conformance.captures.times import times_of, with_times
from tests.samples.captured import LIST, ORIGIN, PING, everything, rows_of


def recorded(folder):
    recording = Recording(folder, "some", "1.2")
    recording.opened(1, 10.0)
    recording.add(1, "client", PING + LIST[:5], 10.5)
    recording.add(1, "broker", PING, 11.0)
    recording.add(1, "client", LIST[5:] + PING, 12.25)
    return recording


def test_what_was_recorded_is_read_with_its_times(tmp_path):
    recording = recorded(tmp_path / "c")
    recording.ended(1)
    rows = everything(tmp_path / "c")
    assert [(row.origin.connection, row.origin.direction, row.command, row.time) for row in rows] == [
        ("1", "client", "ping", 10.5),
        ("1", "client", "watchTopicList", 12.25),
        ("1", "client", "ping", 12.25),
        ("1", "broker", "ping", 11.0),
    ]
    assert {(row.origin.started, row.origin.target, row.origin.release) for row in rows} == {(10.0, "some", "1.2")}
    assert (recording.files, recording.size) == (2, len(PING + LIST + PING + PING))
    check_capture(str(tmp_path / "c"))
    assert unread_files(str(tmp_path / "c")) == []


def test_parts_of_a_divided_file_have_the_times_of_the_whole(tmp_path):
    recorded(tmp_path / "c").flush()
    whole, divided = everything(tmp_path / "c"), everything(tmp_path / "c", part=1)
    assert len(find_pieces(tmp_path / "c", 1, 1 << 20)[0]) > 2
    assert whole == divided


def test_a_recording_is_whole_at_any_time(tmp_path):
    recording = recorded(tmp_path / "c")
    assert everything(tmp_path / "c") == []  # what waits is not there yet, and nothing is damaged
    recording.flush()
    recording.add(1, "client", PING[:7], 13.0)
    recording.flush()
    assert [row.corrupt for row in everything(tmp_path / "c") if row.corrupt] == ["truncated: the stream ends 7 bytes into a frame of 13"]


def test_much_is_written_before_it_is_asked_for(tmp_path):
    recording = recorded(tmp_path / "c")
    recording.add(1, "broker", bytes(2 << 20), 14.0)
    assert (tmp_path / "c" / "00001.broker").stat().st_size == len(PING) + (2 << 20)


def test_a_folder_with_something_in_it_is_not_written_to(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(CaptureError, match="is not empty; a capture is written into a folder of its own"):
        Recording(tmp_path)


def test_an_index_without_a_connection_is_a_capture_without_frames(tmp_path):
    Recording(tmp_path / "c")
    assert (tmp_path / "c" / "index.jsonl").read_text() == ""


@pytest.mark.parametrize(
    ("text", "times", "words"),
    [
        ("13 1.5\n26 2.5\n", [1.5, 2.5, None], None),
        ("13 1.5\n26 2.5\n39 x\n", [1.5, 2.5, None], "line 3 is not a number of bytes and a time"),
        ("13 1.5\n26\n", [1.5, None, None], "line 2 is not a number of bytes and a time"),
        ("13 1.5\n26 1.0\n", [1.5, None, None], "line 2 goes back"),
        ("13 1.5\n6 2.0\n", [1.5, None, None], "line 2 goes back"),
        ("13 nan\n", [None, None, None], "line 1 is not a number of bytes and a time"),
        ("13 inf\n", [None, None, None], "line 1 is not a number of bytes and a time"),
        ("\xff\n", [None, None, None], "line 1 is not a number of bytes and a time"),
    ],
)
def test_times_that_can_not_be_used(tmp_path, text, times, words):
    times_of(tmp_path / "f").write_text(text, encoding="latin-1")
    rows = list(with_times(tmp_path / "f", rows_of(PING * 3)))
    assert [row.time for row in rows if row.corrupt is None] == times
    told = [(row.origin.file, row.corrupt) for row in rows if row.corrupt]
    assert told == ([] if words is None else [(f"{ORIGIN.file}.times", f"index: the times can't be used: {words}")])


def test_entries_are_lines_of_the_index(tmp_path):
    recorded(tmp_path / "c").flush()
    entries = [json.loads(line) for line in (tmp_path / "c" / "index.jsonl").read_text().splitlines()]
    assert [(one["connection"], one["direction"], one["file"], one["start"]) for one in entries] == [
        ("1", "client", "00001.client", 10.0),
        ("1", "broker", "00001.broker", 10.0),
    ]
