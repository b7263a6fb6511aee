"""Frames, logs and raw captures to read, for the tests of captures."""

import json

from conformance.captures import MAX_FRAME_SIZE, Origin, Stream, defect_class, find_pieces
from conformance.running import recorder
from refimpl.wire import command, encode_frame

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


def rows_of(data, pieces=None):
    stream = Stream(ORIGIN)
    rows = []
    place = 0
    for size in pieces or [len(data)]:
        rows += stream.feed(data[place : place + size])
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


def sent(data, at="c", size=None):
    text = data if isinstance(data, str) else data.hex()
    return {"record": "begin", "what": "send", "at": at, "step": "0.0.1", "octets": text, "size": size or len(data)}


def received(data, at="c"):
    return {"record": "frame", "at": at, "octets": data.hex()}


def raw(folder, *streams, index=True):
    folder.mkdir(exist_ok=True)
    entries = []
    for number, (direction, data) in enumerate(streams):
        (folder / f"{number}").write_bytes(data)
        entries.append({"connection": f"c{number}", "direction": direction, "file": f"{number}", "start": 0.5})
    if index:
        (folder / "index.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return folder


def everything(home, part=1 << 24, limit=MAX_FRAME_SIZE):
    pieces, rows = find_pieces(home, part, limit)
    return [*rows, *(row for piece in pieces for row in piece.rows(limit))]
