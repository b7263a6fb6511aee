"""Captures as rows: event logs, raw files, and all that can be wrong with them."""

import gzip
import os
import random

import pytest

from conformance.captures import (
    MAX_FRAME_SIZE,
    RECORDINGS,
    CaptureError,
    FrameRow,
    Origin,
    Stream,
    Written,
    borders,
    capture_path,
    check_capture,
    find_pieces,
    index_flows,
    log_rows,
    part_rows,
    read_index,
    unread_files,
    write_capture,
)
from conformance.corpus.errors import CorpusError, reason_of
from conformance.corpus.sources.pulsar_capture import (
    COLUMNS,
    CaptureSource,
    batches,
    by_mode,
    divide,
)
from conformance.engine import log
from conformance.running import recorder
from refimpl.wire import FrameDecoder
from tests.samples.captured import (
    CONNECT,
    LIST,
    ORIGIN,
    PING,
    RECORDING,
    REFUSED,
    TOO_LARGE,
    conversation,
    everything,
    opened,
    raw,
    rows_of,
    sent,
    summary,
    write_log,
)

# One stream


def test_frames_have_offsets_sizes_and_commands():
    assert summary(rows_of(PING + LIST + CONNECT)) == [
        (0, len(PING), "ping"),
        (len(PING), len(LIST), "watchTopicList"),
        (len(PING) + len(LIST), len(CONNECT), "connect"),
    ]
    assert [row.data for row in rows_of(PING + LIST)] == [PING, LIST]


@pytest.mark.parametrize("end", [b"", TOO_LARGE + b"rest", bytes(7), PING[:-1], b"\x00", REFUSED])
def test_any_pieces_give_the_same_rows(end):
    data = PING + REFUSED + LIST * 3 + CONNECT + end
    whole = rows_of(data)
    assert rows_of(data, [1] * len(data)) == whole
    drawn = random.Random(1)
    for _ in range(50):
        assert rows_of(data, [drawn.randint(1, 30) for _ in range(len(data))]) == whole


def test_rows_are_those_of_the_frame_decoder():
    data = (PING + LIST + CONNECT) * 5
    assert [row.data for row in rows_of(data)] == [frame.data for frame in FrameDecoder().receive(data)]


def test_a_frame_that_is_refused_is_a_row_and_the_stream_goes_on():
    rows = rows_of(PING + REFUSED + LIST)
    assert [row.command for row in rows] == ["ping", None, "watchTopicList"]
    assert rows[1].data == REFUSED
    assert rows[1].corrupt == "refused: at byte 8: a varint is cut"


def test_from_a_wrong_header_on_all_the_rest_is_one_row():
    rows = rows_of(PING + TOO_LARGE + LIST + CONNECT)
    assert summary(rows) == [(0, len(PING), "ping"), (len(PING), 4 + len(LIST) + len(CONNECT), "header")]
    assert rows[1].corrupt == "header: a frame of 1073741828 bytes, 42024960 are allowed"
    assert rows_of(bytes(9))[0].corrupt == "header: total size 0 leaves no room for the command size"


def test_the_largest_frame_is_allowed_and_one_byte_more_is_not():
    assert [row.corrupt for row in Stream(ORIGIN, len(LIST)).feed(LIST)] == [None]
    stream = Stream(ORIGIN, len(LIST) - 1)
    assert stream.feed(LIST) == []
    assert stream.end()[0].corrupt == f"header: a frame of {len(LIST)} bytes, {len(LIST) - 1} are allowed"


def test_of_a_long_rest_the_first_bytes_are_kept():
    (row,) = rows_of(TOO_LARGE + bytes(10_000), [3, 5000, 5004])
    assert (row.size, len(row.data), row.data[:4]) == (10_004, 4096, TOO_LARGE)


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"\xd4\xc3\xb2\xa1\x02\x00", "a pcap file"),
        (b"\x0a\x0d\x0d\x0a\x00", "a pcapng file"),
        (b"\x16\x03\x01\x02\x00", "TLS"),
        (gzip.compress(PING, mtime=0), "a gzip file"),
        (b"GET / HTTP/1.1", "HTTP"),
    ],
)
def test_foreign_bytes_are_named(start, kind):
    (row,) = rows_of(start)
    assert row.corrupt.startswith("header: a frame of ")
    assert row.corrupt.endswith(f" are allowed (this looks like {kind})")
    assert "looks like" not in rows_of(PING + start)[1].corrupt


def test_a_stream_that_ends_inside_a_frame():
    assert rows_of(PING + LIST[:-1])[1].corrupt == f"truncated: the stream ends {len(LIST) - 1} bytes into a frame of {len(LIST)}"
    assert rows_of(PING + LIST[:3])[1].corrupt == "truncated: the stream ends 3 bytes into a frame"


def test_a_frame_whose_middle_is_not_known_is_a_row_and_the_stream_goes_on():
    large = (1000).to_bytes(4, "big") + bytes(1000)
    stream = Stream(ORIGIN)
    rows = stream.feed(PING) + stream.feed_cut(large[:200], 700, large[900:]) + stream.feed(LIST) + stream.end()
    assert summary(rows) == [(0, len(PING), "ping"), (len(PING), 1004, "cut"), (len(PING) + 1004, len(LIST), "watchTopicList")]
    assert rows[1].corrupt == "cut: the capture lacks 700 of 1,004 bytes"


def test_a_frame_whose_middle_is_not_known_may_end_in_a_later_send():
    large = (1000).to_bytes(4, "big") + bytes(1000)
    stream = Stream(ORIGIN)
    rows = stream.feed_cut(large[:200], 700, b"") + stream.feed(large[900:] + PING) + stream.end()
    assert summary(rows) == [(0, 1004, "cut"), (1004, len(PING), "ping")]


@pytest.mark.parametrize("head", [PING, PING + LIST[:2], PING + LIST[:10]])
def test_after_bytes_that_are_not_known_and_hold_the_end_of_a_frame_nothing_can_be_told(head):
    stream = Stream(ORIGIN)
    rows = stream.feed_cut(head, 700, PING) + stream.feed(LIST) + stream.end()
    assert summary(rows) == [(0, len(PING), "ping"), (len(PING), len(head) + 700 + len(LIST), "cut")]


# Raw captures


def test_what_is_written_as_a_raw_capture_is_read_again(tmp_path):
    rows = list(log_rows(RECORDING, "r"))
    written = write_capture(tmp_path / "c", rows)
    again = everything(tmp_path / "c")
    assert written == Written(len({row.origin for row in rows}), sum(row.corrupt is None for row in rows), 0)
    key = lambda row: (row.origin.connection, row.origin.direction, row.offset)  # noqa: E731
    first = sorted((f"r {row.origin.connection}", row.origin.direction, row.offset, row.data, row.corrupt) for row in rows)
    assert first == sorted((*key(row), row.data, row.corrupt) for row in again)
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
    with pytest.raises(CaptureError, match="is not empty"):
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
    text = f"shrunk: {len(PING + LIST)} bytes were there when the read began, and {len(PING)} are left"
    assert [row.corrupt for row in rows] == [None, text]
    (folder / "0").unlink()
    assert [row.corrupt for row in pieces[0].rows(MAX_FRAME_SIZE)] == ["missing: No such file or directory"]


def test_of_a_long_rest_little_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("conformance.captures.raw._PIECE", 64)
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
        '{"connection": "b", "direction": "client", "file": "0"}',
        '{"connection": "b", "direction": "client", "file": "./0"}',
        r'{"connection": "b", "direction": "client", "file": "0\u0000"}',
        '{"connection": "b", "direction": "client", "file": "a/../0"}',
        f'{{"connection": "d", "direction": "client", "file": "{"x" * 300}"}}',
    ]
    (folder / "index.jsonl").write_text(good + "\n".join(lines) + "\n")
    rows = everything(folder)
    found = {row.corrupt for row in rows if row.corrupt}
    assert found == {
        "missing: the index names this file: No such file or directory",
        "missing: the index names this file: it is no ordinary file",
        "missing: the index names this file: File name too long",
        "index: line 10: 0 is the file of another direction",
        "index: line 11: ./0 is the file of another direction",
        "index: line 12: '0\\x00' is no name of a file",
        "index: line 13: a/../0 is outside the folder",
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


def test_links_out_of_the_folder_are_refused(tmp_path):
    (tmp_path / "outside").write_bytes(PING)
    folder = raw(tmp_path / "c", ("client", PING), ("broker", PING))
    (folder / "0").unlink()
    (folder / "0").symlink_to(tmp_path / "outside")
    (folder / "1").rename(folder / "inside")
    (folder / "1").symlink_to("inside")
    rows = everything(folder)
    assert [row.corrupt or row.command for row in rows] == ["missing: the index names this file: it is a link out of the folder", "ping"]


def test_what_may_not_be_read_is_named(tmp_path, monkeypatch):
    for closed in ("c", "c/0", "b"):
        folder = raw(tmp_path / "c", ("client", PING))
        (tmp_path / "b").mkdir(exist_ok=True)
        monkeypatch.setattr("os.access", lambda path, _, closed=tmp_path / closed: path != closed)
        with pytest.raises(CaptureError, match=f"{closed}: .*Permission denied$"):
            check_capture(str(tmp_path))
        assert (folder / "0").exists()


@pytest.mark.parametrize(("start", "right"), [('"1.5"', False), ("true", False), ("1", True), ("1.5", True)])
def test_the_start_of_a_connection_is_a_number(tmp_path, start, right):
    folder = raw(tmp_path / "c")
    (folder / "index.jsonl").write_text(f'{{"connection": "c", "direction": "client", "file": "0", "start": {start}}}\n')
    (found,) = read_index(folder)
    assert isinstance(found, FrameRow) is not right


def test_a_folder_without_an_index_is_named(tmp_path):
    with pytest.raises(CaptureError, match=r"index\.jsonl: No such file or directory; a raw capture needs an index"):
        list(read_index(tmp_path))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda home: home, r"no capture to read: it is empty"),
        (lambda home: raw(home, ("client", PING), index=False), r"no capture to read: there is no index\.jsonl with entries, no event log"),
        (
            lambda home: raw(home, ("client", PING)) / "0",
            r"0: is neither an event log nor a capture of packets \(\.jsonl, .*\); a file of bytes needs a folder with",
        ),
    ],
)
def test_what_can_not_be_read_is_named(tmp_path, make, message):
    with pytest.raises(CaptureError, match=message):
        find_pieces(make(tmp_path), 1, MAX_FRAME_SIZE)


def test_an_empty_index_and_empty_files_give_no_rows_or_are_named(tmp_path):
    assert everything(raw(tmp_path / "a", ("client", b""))) == []
    with pytest.raises(CaptureError, match="no capture to read"):
        everything(raw(tmp_path / "b"))


def test_folders_may_hold_captures_of_all_kinds(tmp_path):
    raw(tmp_path / "b", ("client", PING))
    (tmp_path / "a").mkdir()
    write_log(tmp_path / "a" / "events.jsonl", *conversation(opened(), sent(LIST)))
    assert [(row.origin.file, row.command) for row in everything(tmp_path)] == [("b/0", "ping"), ("a/events.jsonl", "watchTopicList")]
    assert [row.origin.file for row in everything(tmp_path / "b" / "index.jsonl")] == ["0"]
    assert [row.origin.file for row in everything(tmp_path / "a" / "events.jsonl")] == ["events.jsonl"]


def test_a_file_of_bytes_is_no_log_whatever_it_is_called(tmp_path):
    folder = raw(tmp_path / "c")
    (folder / "x.jsonl").write_bytes(PING)
    (folder / "index.jsonl").write_text('{"connection": "a", "direction": "client", "file": "x.jsonl"}\n')
    assert [row.command for row in everything(folder)] == ["ping"]


def test_other_file_systems_are_refused():
    assert str(capture_path("file:///tmp")) == "/tmp"
    assert capture_path("") == RECORDINGS == recorder.HOME
    with pytest.raises(CaptureError, match=r"/gone/x: there is no such file or folder"):
        capture_path("/gone/x")
    with pytest.raises(CaptureError, match=r"s3://bucket/x: captures are read from the file system"):
        capture_path("s3://bucket/x")


def test_modes(tmp_path):
    rows = rows_of(PING + REFUSED + LIST + TOO_LARGE)
    assert [row.command for row in by_mode(rows, "keep", tmp_path)] == ["ping", None, "watchTopicList", None]
    assert [row.command for row in by_mode(rows, "drop", tmp_path)] == ["ping", "watchTopicList"]
    with pytest.raises(CorpusError) as caught:
        list(by_mode(rows, "fail", tmp_path))
    assert str(caught.value) == (
        f"{tmp_path}/f: at byte {len(PING)} of the client in c: refused: at byte 8: a varint is cut; mode keep shows it"
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


# What a job says before it begins


def timed(folder, text):
    (folder / "0.times").write_text(text)
    return folder


def packed(folder, name, data):
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda home: home / "gone", "/gone: there is no such file or folder"),
        (lambda home: home / ("x" * 300), "x: File name too long"),
        (lambda home: home, ": no capture to read: it is empty"),
        (lambda home: raw(home / "c"), "/c: no capture to read: there is no index.jsonl with entries"),
        (lambda home: packed(home, "x.bin", PING) / "x.bin", "/x.bin: is neither an event log nor a capture of packets"),
        (lambda home: packed(home, "index.jsonl", b"[]\n"), "/index.jsonl: line 1: Input should be an object"),
        (lambda home: packed(home, "index.jsonl", b"\xff\n"), "/index.jsonl: line 1: Invalid JSON: "),
        (
            lambda home: packed(home, "index.jsonl", b'{"connection": "a", "direction": "client", "file": "../0"}\n' * 3),
            "/index.jsonl: line 1: ../0 is outside the folder (and 2 more)",
        ),
        (
            lambda home: packed(home, "index.jsonl", b'{"connection": "a", "direction": "client", "file": "0", "file": "1"}\n'),
            "/index.jsonl: line 1: file is there 2 times",
        ),
        (
            lambda home: packed(home, "index.jsonl", b'{"connection": "a", "direction": "client", "file": "0", "start": NaN}\n'),
            "/index.jsonl: line 1: start: Input should be a finite number",
        ),
        (
            lambda home: packed(home, "index.jsonl", b'{"connection": "a", "direction": "client", "file": "0"}\n'),
            "/0: the index names this file: No such file or directory",
        ),
        (
            lambda home: timed(raw(home / "c", ("client", PING * 2)), "13 2.0\n26 1.0\n"),
            "/c/0.times: the times can't be used: line 2 goes back",
        ),
        (
            lambda home: timed(raw(home / "c", ("client", PING * 2)), "13 nan\n"),
            "/c/0.times: the times can't be used: line 1 is not a number of bytes",
        ),
        (lambda home: packed(home, "a.jsonl.gz", RECORDING.read_bytes()[:4000]), "/a.jsonl.gz: the log can't be decompressed further: "),
        (lambda home: packed(home, "a.jsonl.gz", RECORDING.read_bytes()[:-1]), "/a.jsonl.gz: the log can't be decompressed further: "),
        (lambda home: packed(home, "a.jsonl.gz", b"\x1f\x8b"), "/a.jsonl.gz: the log can't be decompressed further: "),
        (lambda home: packed(home, "a.jsonl", b""), "/a.jsonl: the log is empty"),
        (lambda home: packed(home, "a.jsonl", PING), "/a.jsonl: the log ends inside line 1"),
        (lambda home: packed(home, "a.jsonl", b'{"topic": "a"}\n'), "/a.jsonl: a.jsonl:1: not a record of an event log"),
        (lambda home: packed(home, "a.pcap", b""), "/a.pcap: at byte 0: the file is empty"),
        (lambda home: packed(home, "a.pcapng.gz", gzip.compress(PING)), "/a.pcapng.gz: at byte 0: the file starts neither as"),
    ],
)
def test_what_is_wrong_with_files_is_one_line(tmp_path, make, message):
    with pytest.raises(CaptureError) as caught:
        check_capture(str(make(tmp_path)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_index_may_begin_with_the_mark_of_utf_8(tmp_path):
    raw(tmp_path / "c", ("client", PING))
    index = tmp_path / "c" / "index.jsonl"
    index.write_bytes(b"\xef\xbb\xbf" + index.read_bytes())
    check_capture(str(tmp_path / "c"))


def test_what_is_not_read_is_known(tmp_path):
    raw(tmp_path / "c", ("client", PING))
    (tmp_path / "c" / "more").write_bytes(PING)
    (tmp_path / "c" / "folder").symlink_to(tmp_path)
    (tmp_path / "c" / "gone.pcap").symlink_to(tmp_path / "gone")
    os.mkfifo(tmp_path / "c" / "pipe.pcap")
    assert [path.name for path in unread_files(str(tmp_path / "c"))] == ["folder", "gone.pcap", "more", "pipe.pcap"]


def test_streams_may_hold_anything(tmp_path):
    check_capture("")
    check_capture(str(RECORDING))
    check_capture(str(raw(tmp_path / "c", ("client", PING + TOO_LARGE), ("broker", b""), ("broker", PING[:5]))))


# tcpflow


def test_the_index_of_a_folder_of_tcpflow(tmp_path):
    client, again = "010.000.000.007.51000-010.000.000.001.06650", "010.000.000.007.51000-010.000.000.001.06650c1"
    for name, data in {
        client: CONNECT + PING,
        again: CONNECT,
        "010.000.000.001.06650-010.000.000.007.51000": PING,
        "010.000.000.007.51000-010.000.000.001.00443": b"GET /",
        "report.xml": b"<x/>",
    }.items():
        (tmp_path / name).write_bytes(data)
    assert index_flows(tmp_path) == 3
    assert sorted((row.origin.connection, row.origin.direction, row.command) for row in everything(tmp_path)) == [
        ("010.000.000.007:51000", "broker", "ping"),
        ("010.000.000.007:51000", "client", "connect"),
        ("010.000.000.007:51000", "client", "ping"),
        ("010.000.000.007:51000c1", "client", "connect"),
    ]
    with pytest.raises(CaptureError, match="no file of a connection to port 6651"):
        index_flows(tmp_path, 6651)
    with pytest.raises(CaptureError, match="there is no such folder"):
        index_flows(tmp_path / "gone")


# Spark


def test_spark_reads_the_rows(spark, tmp_path):
    folder = raw(tmp_path / "c", ("client", (CONNECT + LIST) * 50 + TOO_LARGE), ("broker", PING * 30 + REFUSED))
    expected = sorted((row.origin.file, row.offset, row.data, row.corrupt) for row in everything(folder))
    for options in ({}, {"partition_size": 500}):
        frame = spark.read.format("pulsar_capture").options(path=str(folder), **options).load()
        assert sorted(tuple(row) for row in frame.select("file", "offset", "octets", "_corrupt").collect()) == expected
        assert (frame.rdd.getNumPartitions() > 5) == bool(options)
    assert {field.name: field.dataType.simpleString() for field in frame.schema.fields} == COLUMNS
    assert frame.columns == list(COLUMNS)
    dropped = spark.read.format("pulsar_capture").options(mode="drop").load(str(folder))
    assert dropped.count() == len([row for row in expected if row[3] is None])


def test_spark_reads_the_recordings_of_all_releases(spark):
    rows = spark.read.format("pulsar_capture").load().groupBy("release", "direction").count().collect()
    assert {row["release"] for row in rows} == {target.partition("@")[2] for target in recorder.targets()}
    loaded = [recorder.load_target(target) for target in recorder.targets()]
    frames = sum(isinstance(event, log.Frame) for run in loaded for trial_log in run.trial_logs.values() for event in trial_log.events)
    assert sum(row["count"] for row in rows if row["direction"] == "broker") == frames


def test_errors_come_back_from_spark_in_one_line(spark, tmp_path):
    folder = raw(tmp_path / "c", ("client", PING + TOO_LARGE))
    for options, message in (
        ({"path": str(tmp_path / "gone")}, "gone: there is no such file or folder"),
        ({"pth": "x"}, "pulsar_capture: there is no option pth, did you mean path?"),
        (
            {"path": str(folder), "mode": "fail"},
            f"{folder}/0: at byte {len(PING)} of the client in c0: header: a frame of 1073741828 bytes",
        ),
    ):
        with pytest.raises(Exception, match=r"(Corpus|Capture)Error") as caught:
            spark.read.format("pulsar_capture").options(**options).load().collect()
        assert message in reason_of(caught.value)
        assert "\n" not in reason_of(caught.value)
