"""The command `read`: what there is, as far as it goes, a line for all that is lacking, and never a pass of what was not seen."""

import gzip

import pytest
from typer.testing import CliRunner

from conformance.captures.recording import Recording
from conformance.cli import app
from conformance.exit_codes import EXIT_CONFORMANT, EXIT_INCONCLUSIVE, EXIT_NOT_CONFORMANT, EXIT_USAGE
from refimpl.proposals.topic_list import topics_hash
from refimpl.wire import command, encode_frame
from tests.samples.captured import CONNECT, LIST, PING, RECORDING, TOO_LARGE, raw
from tests.samples.packets import Talk, pcap, pcapng

CONNECTED = encode_frame(command("connected", server_version="x", protocol_version=21))
PONG = encode_frame(command("pong"))
PRODUCER = encode_frame(command("producer", topic="t", producer_id=1, request_id=1))
TOPICS = [f"persistent://public/default/topic-{number}" for number in range(300)]
ANSWER = encode_frame(command("watchTopicListSuccess", request_id=1, watcher_id=2, topic=TOPICS, topics_hash=topics_hash(TOPICS)))
EVIL = encode_frame(command("producer", topic="\x1b[31m\u202e\n", producer_id=1, request_id=1))


def run(*arguments):
    """Return exit code, lines and what went to standard error."""
    done = CliRunner().invoke(app, ["read", *map(str, arguments)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout.splitlines(), done.stderr


def written(path, data):
    path.write_bytes(data)
    return path


def packets(*, opened=True, left_out=(), split=500):
    """Return the packets of a short conversation, some of them left out."""
    talk = Talk()
    made = talk.opened() if opened else []
    made.append(talk.client(CONNECT))
    made.append(talk.broker(CONNECTED))
    made += [talk.broker(ANSWER[place : place + split]) for place in range(0, len(ANSWER), split)]
    made += [talk.client(PING), talk.broker(PONG)]
    return [one for number, one in enumerate(made) if number not in left_out]


def texts(lines):
    """Return the lines without their times."""
    return [line[13:] for line in lines]


@pytest.mark.parametrize("form", [pcap, pcapng])
@pytest.mark.parametrize("packed", [False, True])
def test_a_capture_of_packets(tmp_path, form, packed):
    data = form(packets())
    path = written(tmp_path / f"a.{form.__name__}{'.gz' if packed else ''}", gzip.compress(data) if packed else data)
    code, lines, end = run(path, "--filter", "CONNECT", "--filter", "pong", "--filter", "PING")
    assert code == EXIT_CONFORMANT
    assert texts(lines) == [
        f"#1      the connection named 10.0.0.7:51000-10.0.0.1:6650, in {path.name}",
        '#1   -> CONNECT{client_version: "test", protocol_version: 21}',
        "#1   -> PING{}",
        "#1   <- PONG{}",
    ]
    assert [line[:12] for line in lines[1::2]] == ["    0.000000", f"{len(packets()) - 3:5}.000000"]
    assert "5 frames in 1 connection" in end


def test_gaps_are_lines_and_reading_goes_on(tmp_path):
    code, lines, end = run(written(tmp_path / "a.pcap", pcap(packets(left_out=(6,)))))
    assert code == EXIT_CONFORMANT
    assert any(f"<- at byte {len(CONNECTED):,}: cut: the capture lacks 500 of {len(ANSWER):,} bytes" in line for line in lines)
    assert texts(lines)[-1] == "#1   <- PONG{}"
    assert "1 piece that is no frame: cut" in end


def test_a_capture_that_begins_in_the_middle_and_ends_inside_a_packet(tmp_path):
    data = pcap(packets(opened=False, left_out=(0, 1, 2)))
    code, lines, end = run(written(tmp_path / "a.pcap", data[:-5]))
    assert code == EXIT_CONFORMANT
    assert texts(lines)[-1].startswith("        a.pcap: truncated: the file ends inside a packet")
    assert any("cut: the capture begins inside a frame" in line for line in lines)
    assert any("PING{}" in line for line in lines)
    assert "no frame" in end


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.pcap", b"", "the file is empty"),
        ("a.pcap", b"hello", "starts neither as pcap nor as pcapng"),
        ("a.pcap.gz", gzip.compress(pcap(packets()), mtime=0)[:30], "can't be decompressed further"),
        ("a.pcap", pcap([Talk(ends=(("1.1.1.1", 5), ("1.1.1.2", 80))).client(b"GET / HTTP/1.1")]), "no connection to a broker"),
        ("a.jsonl", b"{}\n", "not a record of an event log"),
        ("a.jsonl", b"\xff\xff\n", "not a record of an event log"),
        ("a.bin", PING, "is neither an event log nor a capture of packets"),
        ("index.jsonl", b'{"connection": "c", "direction": "client", "file": "gone"}\n', "the index names this file: No such file"),
        ("index.jsonl", b'{"connection": "c", "direction": "client", "file": "../x"}\n', "../x is outside the folder"),
    ],
)
def test_what_can_not_be_read_says_why(tmp_path, name, data, words):
    code, _, end = run(written(tmp_path / name, data))
    assert (code, words in end) == (EXIT_USAGE, True), end
    assert end.splitlines()[-1].count(f"{name}: ") <= 1
    assert run(tmp_path / name, "--judge")[0] == EXIT_USAGE


def test_damage_in_the_middle_of_a_file_is_told_behind_what_is_before_it(tmp_path):
    data = pcap(packets()) + b"\xff" * 16 + b"more"
    code, lines, end = run(written(tmp_path / "a.pcap", data))
    assert (code, texts(lines)[-1]) == (EXIT_USAGE, "        a.pcap: packets: a packet of 4,294,967,295 bytes")
    assert any("PONG{}" in line for line in lines)
    assert "a packet of 4,294,967,295 bytes" in end


def test_paths_and_commands_that_are_none(tmp_path):
    assert run(tmp_path / "gone")[0] == EXIT_USAGE
    assert run(tmp_path)[0] == EXIT_USAGE
    code, _, end = run(RECORDING, "--filter", "SENT")
    assert (code, end.strip()) == (EXIT_USAGE, "--filter: no command is called 'SENT'; did you mean 'SEND'?")


def test_a_raw_capture_without_times_is_listed_side_by_side_and_not_judged(tmp_path):
    folder = raw(tmp_path / "c", ("client", CONNECT + TOO_LARGE + PING), ("broker", CONNECTED + PONG[:5]))
    code, lines, _ = run(folder)
    assert code == EXIT_CONFORMANT
    assert [line.strip() for line in texts(lines)] == [
        "#1      the connection named c0",
        '#1   -> CONNECT{client_version: "test", protocol_version: 21}',
        f"#1   -> at byte {len(CONNECT)}: header: a frame of 1073741828 bytes, 42024960 are allowed (17 bytes)",
        "#2      the connection named c1",
        '#2   <- CONNECTED{server_version: "x", protocol_version: 21}',
        f"#2   <- at byte {len(CONNECTED)}: truncated: the stream ends 5 bytes into a frame of 13 (5 bytes)",
    ]
    code, lines, end = run(folder, "--judge")
    assert (code, lines) == (EXIT_USAGE, [])
    assert "can't be judged: when its bytes came was not noted in 0.times" in end


def recorded(folder, *talk):
    recording = Recording(folder)
    for connection in {one[0] for one in talk}:
        recording.opened(connection, 0.0)
    for time, (connection, direction, data) in enumerate(talk):
        recording.add(connection, direction, data, float(time))
    recording.flush()
    return folder


def test_a_recording_is_listed_in_the_order_of_its_times_across_connections(tmp_path):
    talk = [(1, "client", CONNECT), (2, "client", CONNECT), (2, "broker", CONNECTED), (1, "broker", CONNECTED), (1, "client", PING)]
    code, lines, end = run(recorded(tmp_path / "c", *talk))
    assert code == EXIT_CONFORMANT
    assert [(line[:12].strip(), line[13:].split("{")[0]) for line in lines if "the connection named " not in line] == [
        ("0.000000", "#1   -> CONNECT"),
        ("1.000000", "#2   -> CONNECT"),
        ("2.000000", "#2   <- CONNECTED"),
        ("3.000000", "#1   <- CONNECTED"),
        ("4.000000", "#1   -> PING"),
    ]
    assert "5 frames in 2 connections" in end


def test_what_is_right_is_judged_so(tmp_path):
    talk = [(1, "client", CONNECT), (1, "broker", CONNECTED), (1, "client", PING), (1, "broker", PONG)]
    code, _, end = run(recorded(tmp_path / "c", *talk), "--judge")
    assert code == EXIT_CONFORMANT, end
    assert "times: 0 breaches" in end


def test_a_breach_is_a_line_and_the_exit_code(tmp_path):
    talk = [(1, "client", PRODUCER), (1, "client", CONNECT), (1, "broker", CONNECTED)]
    code, lines, end = run(recorded(tmp_path / "c", *talk), "--judge", "--filter", "SEND")
    assert code == EXIT_NOT_CONFORMANT, end
    assert any("#1   -> BREACH of core." in line for line in lines)
    assert "core.client.connect-first, by the client: 2" in end


@pytest.mark.parametrize("talk", [[], [(1, "client", CONNECT), (1, "broker", CONNECTED + TOO_LARGE)]])
def test_what_was_not_seen_is_no_pass(tmp_path, talk):
    code, _, end = run(recorded(tmp_path / "c", *talk), "--judge")
    assert (code, "inconclusive: " in end) == (EXIT_INCONCLUSIVE if talk else EXIT_USAGE, bool(talk)), end


@pytest.mark.parametrize("left_out", [(6,), (0, 1, 2, 3)])
def test_packets_that_are_lacking_are_no_pass(tmp_path, left_out):
    code, _, end = run(written(tmp_path / "a.pcap", pcap(packets(left_out=left_out))), "--judge")
    assert (code, "bytes of 1 connection were not seen" in end) == (EXIT_INCONCLUSIVE, True), end


def test_a_capture_that_lacks_any_packet_accuses_nobody(tmp_path):
    """What follows a lost packet waits for it: answers then come before the requests that were not lost."""
    talk = Talk()
    made = [*talk.opened(), talk.client(CONNECT), talk.broker(CONNECTED)]
    for number in range(1, 6):
        made.append(talk.client(encode_frame(command("partitionMetadata", topic="t", request_id=number))))
        made.append(talk.broker(encode_frame(command("partitionMetadataResponse", request_id=number, response="Success", partitions=0))))
    for left_out in range(len(made)):
        rest = [one for number, one in enumerate(made) if number != left_out]
        code, lines, end = run(written(tmp_path / "a.pcap", pcap(rest)), "--judge")
        assert code in (EXIT_CONFORMANT, EXIT_INCONCLUSIVE), (left_out, lines, end)
        # without a packet that had bytes it never passes, unless nothing shows that there was one: it was the last of all
        assert code == EXIT_INCONCLUSIVE or left_out in (0, 1, len(made) - 1), left_out


@pytest.mark.parametrize("side", ["client", "broker"])
def test_a_capture_of_one_side_only_accuses_nobody(tmp_path, side):
    talk = Talk()
    said = [(CONNECT, CONNECTED)]
    for number in range(1, 4):
        asked = encode_frame(command("partitionMetadata", topic="t", request_id=number))
        said.append((asked, encode_frame(command("partitionMetadataResponse", request_id=number, response="Success", partitions=0))))
    made = [*talk.opened(), *(talk.client(asked) if side == "client" else talk.broker(answer) for asked, answer in said)]
    code, _, end = run(written(tmp_path / "a.pcap", pcap(made)), "--judge")
    assert code == EXIT_INCONCLUSIVE, end


def test_text_of_peers_does_nothing_to_a_terminal(tmp_path):
    _, lines, _ = run(recorded(tmp_path / "c", (1, "client", EVIL), (1, "client", LIST)))
    assert len(lines) == 3
    assert '"\\u001b[31m\\u202e\\n"' in lines[1]


def test_a_large_command_is_a_short_line(tmp_path):
    topics = [f"persistent://public/default/topic-{number}" for number in range(5000)]
    large = encode_frame(command("watchTopicListSuccess", request_id=1, watcher_id=2, topic=topics, topics_hash="0"))
    _, lines, _ = run(recorded(tmp_path / "c", (1, "broker", large), (1, "broker", ANSWER)))
    assert lines[1].endswith(f"WATCH_TOPIC_LIST_SUCCESS of {len(large) - 8:,} bytes")
    assert len(lines[2]) < 4200


def test_two_captures_in_a_folder_have_connections_of_their_own(tmp_path):
    for name in ("a", "b"):
        recorded(tmp_path / name, (1, "client", CONNECT))
    _, lines, _ = run(tmp_path)
    assert [line[13:] for line in lines if "the connection " in line] == [
        "#1      the connection named 1, in a",
        "#2      the connection named 1, in b",
    ]


def test_a_file_in_a_folder_of_a_raw_capture_is_of_the_same_connection(tmp_path):
    folder = raw(tmp_path / "c", ("client", CONNECT), ("broker", CONNECTED))
    index = (folder / "index.jsonl").read_text().replace('"c1"', '"c0"').replace('"file": "0"', '"file": "in/ner/0"')
    (folder / "in" / "ner").mkdir(parents=True)
    (folder / "0").rename(folder / "in" / "ner" / "0")
    (folder / "index.jsonl").write_text(index)
    _, lines, end = run(folder)
    assert [line[13:] for line in lines if "the connection " in line] == ["#1      the connection named c0"]
    assert "2 frames in 1 connection" in end


def test_a_log_of_the_suite_is_listed():
    code, lines, _ = run(RECORDING, "--filter", "watchPartitionUpdate")
    assert code == EXIT_CONFORMANT
    assert any("WATCH_PARTITION_UPDATE{" in line for line in lines)
