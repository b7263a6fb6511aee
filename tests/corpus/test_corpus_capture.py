"""Captures as rows: event logs, raw files, and all that can be wrong with them."""

import gzip
import json
import random

import pytest

from conformance import recorder
from conformance.corpus.captures import (
    MAX_FRAME_SIZE,
    FrameRow,
    Origin,
    Stream,
    Written,
    borders,
    defect_class,
    index_flows,
    log_rows,
    part_rows,
    read_index,
    write_capture,
)
from conformance.corpus.captures.logs import _LONGEST_LINE
from conformance.corpus.errors import CorpusError, reason_of
from conformance.corpus.sources.pulsar_capture import (
    ARROW_SCHEMA,
    RECORDINGS,
    SCHEMA,
    CaptureSource,
    batches,
    by_mode,
    corpus_path,
    divide,
    find_pieces,
)
from conformance.engine import log
from refimpl.wire import FrameDecoder, command, encode_frame

PING = encode_frame(command("ping"))
CONNECT = encode_frame(command("connect", client_version="test", protocol_version=21))
LIST = encode_frame(command("watchTopicList", request_id=1, watcher_id=2, namespace="public/default", topics_pattern="a.*"))
REFUSED = bytes.fromhex("0000000800000004") + b"\xff\xff\xff\xff"
TOO_LARGE = (1 << 30).to_bytes(4, "big")
ORIGIN = Origin("f", "c", "client")
RECORDING = recorder.HOME / "apache-pulsar@4.2.4" / "pip247.jsonl.gz"
HEADER = {"record": "header", "suite": "0", "transcripts": "0", "target": "some", "release": "1.2", "started": "2026-01-01T00:00:00Z"}


def summary(rows):
    return [(row.offset, row.size, row.command or defect_class(row.corrupt)) for row in rows]


def rows_of(octets, pieces=None):
    stream = Stream(ORIGIN)
    rows = []
    place = 0
    for size in pieces or [len(octets)]:
        rows += stream.feed(octets[place : place + size])
        place += size
    return rows + stream.end()


def write_log(path, *records, header=HEADER):
    lines = [json.dumps(record) + "\n" for record in ([header] if header else []) + list(records)]
    path.write_text("".join(lines))
    return path


def conversation(*events, key="core/some/case#0"):
    begin = {"record": "conversation", "key": key, "case": key.partition("#")[0], "acts": "0"}
    numbered = [{"key": key, "n": number, "t": float(number), **event} for number, event in enumerate(events)]
    return [begin, *numbered, {"record": "finished", "key": key, "t": 99.0}]


def opened(at="c"):
    return {"record": "begin", "what": "open", "at": at, "step": "0.0.0"}


def sent(octets, at="c", size=None):
    text = octets if isinstance(octets, str) else octets.hex()
    return {"record": "begin", "what": "send", "at": at, "step": "0.0.1", "octets": text, "size": size or len(octets)}


def received(octets, at="c"):
    return {"record": "frame", "at": at, "octets": octets.hex()}


def raw(folder, *streams, index=True):
    folder.mkdir(exist_ok=True)
    entries = []
    for number, (direction, octets) in enumerate(streams):
        (folder / f"{number}").write_bytes(octets)
        entries.append({"connection": f"c{number}", "direction": direction, "file": f"{number}", "start": 0.5})
    if index:
        (folder / "index.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return folder


def everything(home, part=1 << 24, limit=MAX_FRAME_SIZE):
    pieces, rows = find_pieces(home, part, limit)
    return [*rows, *(row for piece in pieces for row in piece.rows(limit))]


# One stream


def test_frames_have_offsets_sizes_and_commands():
    assert summary(rows_of(PING + LIST + CONNECT)) == [
        (0, len(PING), "ping"),
        (len(PING), len(LIST), "watchTopicList"),
        (len(PING) + len(LIST), len(CONNECT), "connect"),
    ]
    assert [row.octets for row in rows_of(PING + LIST)] == [PING, LIST]


@pytest.mark.parametrize("end", [b"", TOO_LARGE + b"rest", bytes(7), PING[:-1], b"\x00", REFUSED])
def test_any_pieces_give_the_same_rows(end):
    octets = PING + REFUSED + LIST * 3 + CONNECT + end
    whole = rows_of(octets)
    assert rows_of(octets, [1] * len(octets)) == whole
    drawn = random.Random(1)
    for _ in range(50):
        assert rows_of(octets, [drawn.randint(1, 30) for _ in range(len(octets))]) == whole


def test_rows_are_those_of_the_frame_decoder():
    octets = (PING + LIST + CONNECT) * 5
    assert [row.octets for row in rows_of(octets)] == [frame.octets for frame in FrameDecoder().receive(octets)]


def test_a_frame_that_is_refused_is_a_row_and_the_stream_goes_on():
    rows = rows_of(PING + REFUSED + LIST)
    assert [row.command for row in rows] == ["ping", None, "watchTopicList"]
    assert rows[1].octets == REFUSED
    assert rows[1].corrupt == "refused: at octet 8: a varint is cut"


def test_from_a_wrong_header_on_all_the_rest_is_one_row():
    rows = rows_of(PING + TOO_LARGE + LIST + CONNECT)
    assert summary(rows) == [(0, len(PING), "ping"), (len(PING), 4 + len(LIST) + len(CONNECT), "header")]
    assert rows[1].corrupt == "header: a frame of 1073741828 octets, 42024960 are allowed"
    assert rows_of(bytes(9))[0].corrupt == "header: total size 0 leaves no room for the command size"


def test_the_largest_frame_is_allowed_and_one_octet_more_is_not():
    assert [row.corrupt for row in Stream(ORIGIN, len(LIST)).feed(LIST)] == [None]
    stream = Stream(ORIGIN, len(LIST) - 1)
    assert stream.feed(LIST) == []
    assert stream.end()[0].corrupt == f"header: a frame of {len(LIST)} octets, {len(LIST) - 1} are allowed"


def test_of_a_long_rest_the_first_octets_are_kept():
    (row,) = rows_of(TOO_LARGE + bytes(10_000), [3, 5000, 5004])
    assert (row.size, len(row.octets), row.octets[:4]) == (10_004, 4096, TOO_LARGE)


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"\xd4\xc3\xb2\xa1\x02\x00", "a pcap file"),
        (b"\x0a\x0d\x0d\x0a\x00", "a pcapng file"),
        (b"\x16\x03\x01\x02\x00", "TLS"),
        (gzip.compress(PING), "a gzip file"),
        (b"GET / HTTP/1.1", "HTTP"),
    ],
)
def test_foreign_octets_are_named(start, kind):
    (row,) = rows_of(start)
    assert row.corrupt.startswith("header: a frame of ")
    assert row.corrupt.endswith(f" are allowed (this looks like {kind})")
    assert "looks like" not in rows_of(PING + start)[1].corrupt


def test_a_stream_that_ends_inside_a_frame():
    assert rows_of(PING + LIST[:-1])[1].corrupt == f"truncated: the stream ends {len(LIST) - 1} octets into a frame of {len(LIST)}"
    assert rows_of(PING + LIST[:3])[1].corrupt == "truncated: the stream ends 3 octets into a frame"


def test_a_frame_whose_middle_is_not_known_is_a_row_and_the_stream_goes_on():
    large = (1000).to_bytes(4, "big") + bytes(1000)
    stream = Stream(ORIGIN)
    rows = stream.feed(PING) + stream.feed_cut(large[:200], 700, large[900:]) + stream.feed(LIST) + stream.end()
    assert summary(rows) == [(0, len(PING), "ping"), (len(PING), 1004, "cut"), (len(PING) + 1004, len(LIST), "watchTopicList")]
    assert rows[1].corrupt == "cut: the log does not keep 700 of 1,004 octets"


def test_a_frame_whose_middle_is_not_known_may_end_in_a_later_send():
    large = (1000).to_bytes(4, "big") + bytes(1000)
    stream = Stream(ORIGIN)
    rows = stream.feed_cut(large[:200], 700, b"") + stream.feed(large[900:] + PING) + stream.end()
    assert summary(rows) == [(0, 1004, "cut"), (1004, len(PING), "ping")]


@pytest.mark.parametrize("head", [PING, PING + LIST[:2], PING + LIST[:10]])
def test_after_octets_that_are_not_known_and_hold_the_end_of_a_frame_nothing_can_be_told(head):
    stream = Stream(ORIGIN)
    rows = stream.feed_cut(head, 700, PING) + stream.feed(LIST) + stream.end()
    assert summary(rows) == [(0, len(PING), "ping"), (len(PING), len(head) + 700 + len(LIST), "cut")]


# Event logs


def test_a_recording_gives_all_frames_of_its_log():
    run = recorder.load(RECORDING)
    logged = [event.octets for talk in run.talks.values() for event in talk.events if isinstance(event, log.Frame)]
    rows = list(log_rows(RECORDING, "r"))
    assert [row.octets.hex() for row in rows if row.origin.direction == "broker"] == logged
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
    assert [row.corrupt for row in log_rows(path, "a")] == ["log: a:4: the octets of a begin are not hexadecimal"]


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
    assert len(row.octets) == 4096


# Raw captures


def test_what_is_written_as_a_raw_capture_is_read_again(tmp_path):
    rows = list(log_rows(RECORDING, "r"))
    written = write_capture(tmp_path / "c", rows)
    again = everything(tmp_path / "c")
    assert written == Written(len({row.origin for row in rows}), sum(row.corrupt is None for row in rows), 0)
    key = lambda row: (row.origin.connection, row.origin.direction, row.offset)  # noqa: E731
    first = sorted((f"r {row.origin.connection}", row.origin.direction, row.offset, row.octets, row.corrupt) for row in rows)
    assert first == sorted((*key(row), row.octets, row.corrupt) for row in again)
    assert {(row.origin.started, row.origin.release) for row in again} == {(row.origin.started, row.origin.release) for row in rows}


def test_what_is_not_known_is_left_out_of_a_raw_capture(tmp_path):
    cut = FrameRow(ORIGIN, 0, 9000, bytes(4096), corrupt="cut: ..")
    written = write_capture(
        tmp_path / "c", [cut, FrameRow(ORIGIN, 9000, len(PING), PING, command="ping"), FrameRow(Origin("f"), 0, 0, b"")]
    )
    assert written == Written(streams=1, frames=1, left_out=2)
    assert summary(everything(tmp_path / "c")) == [(0, len(PING), "ping")]


def test_a_capture_is_not_written_over_something(tmp_path):
    (tmp_path / "x").touch()
    with pytest.raises(CorpusError, match="is not empty"):
        write_capture(tmp_path, [])


@pytest.mark.parametrize("end", [b"", TOO_LARGE + LIST * 3, PING[:5]])
def test_a_file_is_divided_at_the_borders_of_frames(tmp_path, end):
    path = tmp_path / "f"
    path.write_bytes((PING + LIST) * 40 + CONNECT + REFUSED + PING + end)
    length = path.stat().st_size
    whole = list(part_rows(path, ORIGIN, 0, length))
    for size in (1, 50, 333, length - 1, length, 10 * length):
        parts = borders(path, length, size)
        assert [start for start, _ in parts[1:]] == [stop for _, stop in parts[:-1]]
        assert (parts[0][0], parts[-1][1]) == (0, length)
        assert [row for part in parts for row in part_rows(path, ORIGIN, *part)] == whole
        assert (len(parts) > 1) == (size <= 333)
    assert len(borders(path, length, 1)) == len(whole)


def test_sizes_are_found_wherever_they_lie(tmp_path):
    path = tmp_path / "f"
    large = (70_000).to_bytes(4, "big") + bytes(70_000)
    path.write_bytes((PING * 9 + large) * 20)
    length = path.stat().st_size
    assert [start for start, _ in borders(path, length, 1)] == [row.offset for row in part_rows(path, ORIGIN, 0, length)]


def test_a_file_that_grows_is_read_as_far_as_it_was(tmp_path):
    folder = raw(tmp_path / "c", ("client", PING + LIST))
    pieces, _ = find_pieces(folder, 5, MAX_FRAME_SIZE)
    with (folder / "0").open("ab") as file:
        file.write(CONNECT * 9)
    assert summary(row for piece in pieces for row in piece.rows(MAX_FRAME_SIZE)) == summary(rows_of(PING + LIST))


def test_a_file_that_is_cut_short_while_it_is_read(tmp_path):
    folder = raw(tmp_path / "c", ("client", PING + LIST))
    pieces, _ = find_pieces(folder, 1 << 20, MAX_FRAME_SIZE)
    (folder / "0").write_bytes(PING)
    rows = list(pieces[0].rows(MAX_FRAME_SIZE))
    text = f"shrunk: {len(PING + LIST)} octets were there when the read began, and {len(PING)} are left"
    assert [row.corrupt for row in rows] == [None, text]
    (folder / "0").unlink()
    assert [row.corrupt for row in pieces[0].rows(MAX_FRAME_SIZE)] == ["missing: No such file or directory"]


def test_of_a_long_rest_little_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("conformance.corpus.captures.raw._PIECE", 64)
    path = tmp_path / "f"
    path.write_bytes(PING + TOO_LARGE + bytes(1 << 20))
    rows = list(part_rows(path, ORIGIN, 0, path.stat().st_size))
    assert summary(rows) == [(0, len(PING), "ping"), (len(PING), (1 << 20) + 4, "header")]


def test_files_that_are_missing_and_lines_that_are_wrong(tmp_path):
    folder = raw(tmp_path / "c", ("client", PING))
    good = (folder / "index.jsonl").read_text()
    (folder / "1").mkdir()
    lines = [
        '{"connection": "a", "direction": "client", "file": "gone"}',
        '{"connection": "a", "direction": "broker", "file": "1"}',
        '{"connection": "a", "direction": "both", "file": "0"}',
        '{"connection": "b", "direction": "client", "file": "../0"}',
        '{"connection": "b", "direction": "client", "file": "/etc/passwd"}',
        '{"connection": "c0", "direction": "client", "file": "0"}',
        '{"connection": "b", "direction": "client", "fiel": "0"}',
        "nothing",
    ]
    (folder / "index.jsonl").write_text(good + "\n".join(lines) + "\n")
    rows = everything(folder)
    found = {row.corrupt for row in rows if row.corrupt}
    assert found == {
        "missing: the index names this file: No such file or directory",
        "missing: Is a directory",
        "index: line 4: direction: Input should be 'client' or 'broker'",
        "index: line 5: ../0 is outside the folder",
        "index: line 6: /etc/passwd is outside the folder",
        "index: line 7: the client of c0 has a file already",
        "index: line 8: file: Field required",
        "index: line 9: Invalid JSON: expected ident at line 1 column 2",
    }
    assert [row.command for row in rows if row.corrupt is None] == ["ping"]
    offsets = {row.offset for row in rows if row.corrupt and row.corrupt.startswith("index: line 4")}
    assert offsets == {len(good) + len(lines[0]) + len(lines[1]) + 2}


def test_a_folder_without_an_index_is_named(tmp_path):
    with pytest.raises(CorpusError, match=r"index\.jsonl: No such file or directory; a raw capture needs an index"):
        list(read_index(tmp_path))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda home: home, r"no capture to read: it is empty"),
        (lambda home: raw(home, ("client", PING), index=False), r"no capture to read: there is no index\.jsonl and no event log"),
        (
            lambda home: raw(home, ("client", PING)) / "0",
            r"0: is no event log \(\.jsonl or \.jsonl\.gz\); a file of octets needs a folder with",
        ),
    ],
)
def test_what_can_not_be_read_is_named(tmp_path, make, message):
    with pytest.raises(CorpusError, match=message):
        find_pieces(make(tmp_path), 1, MAX_FRAME_SIZE)


def test_an_empty_index_and_empty_files_give_no_rows_or_are_named(tmp_path):
    assert everything(raw(tmp_path / "a", ("client", b""))) == []
    with pytest.raises(CorpusError, match="no capture to read"):
        everything(raw(tmp_path / "b"))


def test_folders_may_hold_captures_of_all_kinds(tmp_path):
    raw(tmp_path / "b", ("client", PING))
    (tmp_path / "a").mkdir()
    write_log(tmp_path / "a" / "events.jsonl", *conversation(opened(), sent(LIST)))
    assert [(row.origin.file, row.command) for row in everything(tmp_path)] == [("b/0", "ping"), ("a/events.jsonl", "watchTopicList")]
    assert [row.origin.file for row in everything(tmp_path / "b" / "index.jsonl")] == ["0"]
    assert [row.origin.file for row in everything(tmp_path / "a" / "events.jsonl")] == ["events.jsonl"]


def test_a_file_of_octets_is_no_log_whatever_it_is_called(tmp_path):
    folder = raw(tmp_path / "c")
    (folder / "x.jsonl").write_bytes(PING)
    (folder / "index.jsonl").write_text('{"connection": "a", "direction": "client", "file": "x.jsonl"}\n')
    assert [row.command for row in everything(folder)] == ["ping"]


def test_other_file_systems_are_refused():
    assert str(corpus_path("file:///tmp")) == "/tmp"
    assert corpus_path("") == RECORDINGS == recorder.HOME
    with pytest.raises(CorpusError, match=r"/gone/x: there is no such file or folder"):
        corpus_path("/gone/x")
    with pytest.raises(CorpusError, match=r"s3://bucket/x: captures are read from the file system"):
        corpus_path("s3://bucket/x")


def test_modes(tmp_path):
    rows = rows_of(PING + REFUSED + LIST + TOO_LARGE)
    assert [row.command for row in by_mode(rows, "keep", tmp_path)] == ["ping", None, "watchTopicList", None]
    assert [row.command for row in by_mode(rows, "drop", tmp_path)] == ["ping", "watchTopicList"]
    with pytest.raises(CorpusError) as caught:
        list(by_mode(rows, "fail", tmp_path))
    assert str(caught.value) == (
        f"{tmp_path}/f: at octet {len(PING)} of the client in c: refused: at octet 8: a varint is cut; mode keep shows it"
    )


def test_pieces_are_put_together_in_their_order(tmp_path):
    folder = raw(tmp_path / "c", *[("client", PING * number) for number in range(1, 8)])
    pieces, _ = find_pieces(folder, 1 << 20, MAX_FRAME_SIZE)
    known = [FrameRow(ORIGIN, 0, 0, b"", corrupt="missing: x")]
    partitions = divide(pieces, known, 3 * len(PING))
    assert [piece for partition in partitions for piece in partition.pieces] == pieces
    assert [len(partition.pieces) for partition in partitions] == [2, 1, 1, 1, 1, 1]
    assert [len(partition.rows) for partition in partitions] == [1, 0, 0, 0, 0, 0]


def test_batches_have_limited_sizes():
    rows = rows_of(PING * 10_000)
    found = list(batches(rows))
    assert [batch.num_rows for batch in found] == [4096, 4096, 1808]
    large = [FrameRow(ORIGIN, 0, 5 << 20, bytes(5 << 20))] * 5
    assert [batch.num_rows for batch in batches(large)] == [2, 2, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mod": "keep"}, "pulsar_capture: there is no option mod, did you mean mode"),
        ({"mode": "permissive"}, "pulsar_capture: mode is one of fail, drop, keep, not 'permissive'"),
        ({"max_frame_size": "7"}, "pulsar_capture: max_frame_size is at least 8, not 7"),
        ({"partition_size": "much"}, "pulsar_capture: partition_size is a number"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(CorpusError, match=message):
        CaptureSource(options)


# tcpflow


def test_the_index_of_a_folder_of_tcpflow(tmp_path):
    client, again = "010.000.000.007.51000-010.000.000.001.06650", "010.000.000.007.51000-010.000.000.001.06650c1"
    for name, octets in {
        client: CONNECT + PING,
        again: CONNECT,
        "010.000.000.001.06650-010.000.000.007.51000": PING,
        "010.000.000.007.51000-010.000.000.001.00443": b"GET /",
        "report.xml": b"<x/>",
    }.items():
        (tmp_path / name).write_bytes(octets)
    assert index_flows(tmp_path) == 3
    assert sorted((row.origin.connection, row.origin.direction, row.command) for row in everything(tmp_path)) == [
        ("010.000.000.007:51000", "broker", "ping"),
        ("010.000.000.007:51000", "client", "connect"),
        ("010.000.000.007:51000", "client", "ping"),
        ("010.000.000.007:51000c1", "client", "connect"),
    ]
    with pytest.raises(CorpusError, match="no file of a connection to port 6651"):
        index_flows(tmp_path, 6651)
    with pytest.raises(CorpusError, match="there is no such folder"):
        index_flows(tmp_path / "gone")


# Spark


def test_spark_reads_the_rows(spark, tmp_path):
    folder = raw(tmp_path / "c", ("client", (CONNECT + LIST) * 50 + TOO_LARGE), ("broker", PING * 30 + REFUSED))
    expected = sorted((row.origin.file, row.offset, row.octets, row.corrupt) for row in everything(folder))
    for options in ({}, {"partition_size": 500}):
        frame = spark.read.format("pulsar_capture").options(path=str(folder), **options).load()
        assert sorted(tuple(row) for row in frame.select("file", "offset", "octets", "_corrupt").collect()) == expected
        assert (frame.rdd.getNumPartitions() > 5) == bool(options)
    assert frame.schema.simpleString() == f"struct<{SCHEMA.replace(' ', ':').replace(',:', ',').lower()}>"
    assert frame.columns == ARROW_SCHEMA.names
    dropped = spark.read.format("pulsar_capture").options(mode="drop").load(str(folder))
    assert dropped.count() == len([row for row in expected if row[3] is None])


def test_spark_reads_the_recordings_of_all_releases(spark):
    rows = spark.read.format("pulsar_capture").load().groupBy("release", "direction").count().collect()
    assert {row["release"] for row in rows} == {target.partition("@")[2] for target in recorder.targets()}
    loaded = [recorder.load_target(target) for target in recorder.targets()]
    frames = sum(isinstance(event, log.Frame) for run in loaded for talk in run.talks.values() for event in talk.events)
    assert sum(row["count"] for row in rows if row["direction"] == "broker") == frames


def test_errors_come_back_from_spark_in_one_line(spark, tmp_path):
    folder = raw(tmp_path / "c", ("client", PING + TOO_LARGE))
    for options, message in (
        ({"path": str(tmp_path / "gone")}, "gone: there is no such file or folder"),
        ({"pth": "x"}, "pulsar_capture: there is no option pth, did you mean path?"),
        (
            {"path": str(folder), "mode": "fail"},
            f"{folder}/0: at octet {len(PING)} of the client in c0: header: a frame of 1073741828 octets",
        ),
    ):
        with pytest.raises(Exception, match=r"CorpusError") as caught:
            spark.read.format("pulsar_capture").options(**options).load().collect()
        assert message in reason_of(caught.value)
        assert "\n" not in reason_of(caught.value)
