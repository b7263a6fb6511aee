"""Jobs that are given what they can't use: one line and exit code 2, before Spark starts."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conformance.captures import MAX_FRAME_SIZE, find_pieces
from conformance.corpus import job as jobs
from conformance.corpus.corpora import NAMES
from conformance.corpus.job import NOT_RUN
from conformance.corpus.jobs import batches_agree, filtering_agrees, hashes_agree, replay_watches, round_trip
from tests.samples.captured import CONNECT, PING, RECORDING, raw

HOME = Path(__file__).parents[1] / "samples" / "captures"


class Started(BaseException):
    """Spark would have been started."""


@pytest.fixture(autouse=True)
def started(monkeypatch):
    """Let no job start Spark; give what would have been started."""
    found = []

    def refuse(name, **_):
        found.append(name)
        raise Started

    monkeypatch.setattr(jobs, "spark_session", refuse)
    return found


def line(job, capsys, *options, folder):
    assert job.JOB.main([*options, "--result", str(folder / "r.json")]) == NOT_RUN
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    name, _, text = shown.err.strip().partition(": ")
    assert name == job.JOB.name
    return text


def write(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


FILES = {
    "names.txt": "orders\na/b\n",
    "names.csv": "topic\norders\n",
    "topics.jsonl": '{"topic": "a"}\n{"topic": "b", "properties": {"x": "1", "x": "2"}}\n',
    "messages.jsonl": '{"topic": "a"}\n{"topic": "b", "publish_time": -1}\n',
    "cut.jsonl.gz": RECORDING.read_bytes()[:4000],
    "text.parquet": "no parquet",
    "tls.pcap": b"\x16\x03\x01\x02\x00\x01",
    "gz.pcap.gz": gzip.compress(b"\xd4\xc3\xb2\xa1" + bytes(20))[:-5],
    "frames.bin": CONNECT,
}


@pytest.mark.parametrize(
    ("job", "corpus", "expected"),
    [
        (filtering_agrees, "names.txt", "names.txt, line 2, column topic: 'a/b' is no name of a topic: "),
        (hashes_agree, "names.txt", "names.txt, line 2, column topic: 'a/b' is no name of a topic: "),
        (
            batches_agree,
            "names.txt",
            "names.txt: names are no messages; write those as JSON, one on each line of a file that ends in .jsonl",
        ),
        (hashes_agree, "topics.jsonl", "topics.jsonl, line 2, column properties: the key 'x' is there more than once"),
        (batches_agree, "messages.jsonl", "messages.jsonl, line 2, column publish_time: is negative: -1"),
        (filtering_agrees, "messages.jsonl", "messages.jsonl, line 2: column publish_time is unknown"),
        (batches_agree, "cut.jsonl.gz", "cut.jsonl.gz, line "),
        (round_trip, "cut.jsonl.gz", "cut.jsonl.gz: the log can't be decompressed further: "),
        (hashes_agree, "capture:cut.jsonl.gz", "cut.jsonl.gz: the log can't be decompressed further: "),
        (filtering_agrees, "text.parquet", "text.parquet: can't be read as Parquet: "),
        (batches_agree, "null.parquet", "null.parquet, row 2 of 2, column topic: is null"),
        (hashes_agree, "null.parquet", "null.parquet: column producer_name is unknown"),
        (hashes_agree, "gone.parquet", "gone.parquet: can't be read as Parquet: there is no such file or folder"),
        (hashes_agree, "gone.txt", "gone.txt: No such file or directory"),
        (round_trip, "gone", "gone: there is no such file or folder"),
        (round_trip, "tls.pcap", "tls.pcap: at byte 0: the file starts neither as pcap nor as pcapng"),
        (batches_agree, "capture:gz.pcap.gz", "gz.pcap.gz: at byte 0: the file can't be decompressed further: "),
        (batches_agree, "frames.bin", "there is no corpus 'frames.bin'; known: "),
        (filtering_agrees, "names.csv", f"there is no corpus 'names.csv'; known: {NAMES}; a file is read by the ending of its name"),
        (filtering_agrees, "tls.pcap", f"there is no corpus 'tls.pcap'; known: {NAMES}; for a capture write capture:tls.pcap"),
        (round_trip, "frames.bin", "frames.bin: is neither an event log nor a capture of packets"),
        (round_trip, "capture", "capture/index.jsonl: line 2: ../1 is outside the folder (and 1 more)"),
        (batches_agree, "capture:capture", "capture/index.jsonl: line 2: ../1 is outside the folder (and 1 more)"),
        (round_trip, "empty", "empty: no capture to read: it is empty"),
        (hashes_agree, "jars:empty", "empty: no *.jar in this folder"),
        (hashes_agree, "jars:gone", "gone: there is no such folder"),
        (hashes_agree, "", f"there is no corpus ''; known: {NAMES}"),
        (hashes_agree, "tls.pcap", "there is no corpus 'tls.pcap'; known: "),
    ],
)
def test_a_corpus_that_can_not_be_used_is_one_line(tmp_path, monkeypatch, capsys, started, job, corpus, expected):
    monkeypatch.chdir(tmp_path)
    for name, data in FILES.items():
        write(tmp_path / name, data)
    row = {"id": 0, "topic": "t", "producer_name": "p", "sequence_id": 0, "publish_time": 0, "key": None}
    table = {**row, "properties": {}, "payload": b"", "payload_size": 0}
    rows = [table, {**table, "topic": None}]
    schema = pa.schema(
        [
            *((name, pa.int64() if isinstance(value, int) else pa.string()) for name, value in row.items()),
            ("properties", pa.map_(pa.string(), pa.string())),
            ("payload", pa.binary()),
            ("payload_size", pa.int32()),
        ]
    )
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), "null.parquet")
    (tmp_path / "empty").mkdir()
    folder = raw(tmp_path / "capture", ("client", PING))
    with (folder / "index.jsonl").open("a") as index:
        index.write('{"connection": "c1", "direction": "client", "file": "../1"}\n')
        index.write(json.dumps({"connection": "c0", "direction": "client", "file": "2"}) + "\n")
    text = line(job, capsys, "--corpus", corpus, folder=tmp_path)
    assert text.startswith(expected)
    assert len(text) < 500
    assert started == []


@pytest.mark.parametrize(
    ("job", "options", "expected"),
    [
        (hashes_agree, ["--rows", "-1"], "--rows is at least 0, not -1"),
        (hashes_agree, ["--seed", "-1"], "--seed is at least 0, not -1"),
        (hashes_agree, ["--cores", "0"], "--cores is at least 1, not 0"),
        (round_trip, ["--max-frame-size", "7"], "--max-frame-size is at least 8, not 7"),
        (filtering_agrees, ["--patterns", "0"], "--patterns is at least 1, not 0"),
        (filtering_agrees, ["--pattern-file", "gone"], "gone can't be read as a list of patterns: "),
        (filtering_agrees, ["--formulations", "reference,sq"], "there is no formulation 'sq'; known: "),
        (filtering_agrees, ["--property", "region"], "a property filter is written key=value, not 'region'"),
        (filtering_agrees, ["--payload-regex", "("], "the message filter '(' can't be used: "),
        (batches_agree, ["--values", "0"], "--values is at least 1, not 0"),
        (batches_agree, ["--settings", "0"], "--settings is at least 1, not 0"),
        (batches_agree, ["--distributions", "-1"], "--distributions is at least 0, not -1"),
        (hashes_agree, ["--changed", "1"], "--changed is at least 2, and --ranges at least 1"),
        (replay_watches, ["--watchers", "0"], "--watchers is at least 1, not 0"),
        (replay_watches, ["--latency", "-1"], "--latency is at least 0, not -1"),
        (replay_watches, ["--compare-every", "-1"], "--compare-every is at least 0, not -1"),
        (replay_watches, ["--namespaces", "0"], "a log has at least 1 namespace"),
        (replay_watches, ["--windows", "1,x"], "intervals and windows are whole milliseconds, separated by commas, not '1,x'"),
        (replay_watches, ["--quiet", "5"], "a poll each 60000 ms needs as long a time without changes at the end, not 5 s; choose more"),
    ],
)
def test_an_option_that_can_not_be_used_is_one_line(tmp_path, capsys, started, job, options, expected):
    assert line(job, capsys, *options, folder=tmp_path).startswith(expected)
    assert started == []


def test_names_of_files_may_hold_anything(tmp_path, monkeypatch, capsys, started):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a\nb.txt", "a/b")
    assert line(hashes_agree, capsys, "--corpus", "a\nb.txt", folder=tmp_path).startswith(
        "a\\nb.txt, line 1, column topic: 'a/b' is no name"
    )
    assert line(hashes_agree, capsys, "--corpus", "\udcff.txt", folder=tmp_path) == "--corpus \\udcff.txt: is not UTF-8, which Spark needs"
    table = pa.table({"topic": ["a"], "a\nb\x1b[0m": ["x"]})
    pq.write_table(table, "x.parquet")
    assert line(hashes_agree, capsys, "--corpus", "x.parquet", folder=tmp_path) == "x.parquet: column a\\nb\\x1b[0m is unknown"
    assert line(round_trip, capsys, "--corpus", "/dev/null", folder=tmp_path) == "/dev/null: is neither a file nor a folder"
    folder = tmp_path / "\udcff"
    folder.mkdir()
    write(folder / "a.jsonl", b"x\n")
    raw(folder / "c", ("client", PING))
    assert [piece.origin.file for piece in find_pieces(tmp_path, 1, MAX_FRAME_SIZE)[0]] == ["\\xff/c/0", "\\xff/a.jsonl"]
    assert "a.jsonl: a.jsonl:1: not a record" in line(round_trip, capsys, "--corpus", str(folder.parent), folder=tmp_path).replace(
        "\\xff/", ""
    )


def test_a_result_that_can_not_be_written_is_one_line(tmp_path, capsys, started):
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "r.json", tmp_path / "file" / "deep" / "r.json"):
        assert hashes_agree.JOB.main(["--result", str(path)]) == NOT_RUN
        assert capsys.readouterr().err == f"hashes_agree: --result {path}: no file can be written there\n"
    assert started == []


@pytest.mark.parametrize("corpus", [str(HOME), f"capture:{HOME / 'java'}", ""])
def test_what_can_be_used_starts_spark(tmp_path, started, corpus):
    with pytest.raises(Started):
        round_trip.JOB.main(["--corpus", corpus, "--result", str(tmp_path / "deep" / "r.json")])
    assert started == ["round_trip"]
