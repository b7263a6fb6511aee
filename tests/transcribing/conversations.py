"""Conversations made of commands, as captures of a folder, with and without times."""

from __future__ import annotations

import json
from pathlib import Path

from refimpl.wire import command, encode_frame, encode_payload
from refimpl.wire.pulsar_api_pb2 import MessageMetadata

TOPIC = "persistent://acme/shop/t"
CONNECT = ("->", "connect", {"client_version": "Some-Client-v1", "protocol_version": 21})
CONNECTED = ("<-", "connected", {"server_version": "Some Broker", "protocol_version": 21})
SUBSCRIBE = ("->", "subscribe", {"topic": TOPIC, "subscription": "s", "subType": 0, "consumer_id": 7, "request_id": 40})
FLOW = ("->", "flow", {"consumer_id": 7, "messagePermits": 10})
PRODUCER = ("->", "producer", {"topic": TOPIC, "producer_id": 3, "request_id": 41})
PRODUCER_SUCCESS = ("<-", "producer_success", {"request_id": 41, "producer_name": "made-0-9"})
OPEN = (CONNECT, CONNECTED, SUBSCRIBE, ("<-", "success", {"request_id": 40}), FLOW, PRODUCER, PRODUCER_SUCCESS)


def send(sequence_id, body="hello", **metadata):
    fields = {"producer_name": "made-0-9", "sequence_id": sequence_id, "publish_time": 1_700_000_000_000, **metadata}
    return ("->", "send", {"producer_id": 3, "sequence_id": sequence_id}, encode_payload(MessageMetadata(**fields), body.encode()))


def receipt(sequence_id, entry):
    return ("<-", "send_receipt", {"producer_id": 3, "sequence_id": sequence_id, "message_id": {"ledgerId": 55, "entryId": entry}})


def message(sequence_id, entry, body="hello", consumer_id=7, **fields):
    sent = send(sequence_id, body)
    return ("<-", "message", {"consumer_id": consumer_id, "message_id": {"ledgerId": 55, "entryId": entry}, **fields}, sent[3])


def octets(one):
    _, name, fields, *payload = one
    return encode_frame(command(name, **fields), *payload)


def capture(folder: Path, *connections, timed=False) -> Path:
    """Write a raw capture of connections; with times, each frame comes a second after the one before, in the order given."""
    folder.mkdir()
    index = []
    time = 0.0
    for number, said in enumerate(connections, 1):
        for direction, sign in (("client", "->"), ("broker", "<-")):
            (folder / f"{number}.{direction}").write_bytes(b"".join(octets(one) for one in said if one[0] == sign))
            index.append({"connection": f"client {number}", "direction": direction, "file": f"{number}.{direction}"})
        sizes = {"->": 0, "<-": 0}
        lines = {"->": "", "<-": ""}
        for one in said:
            time += 1.0
            sizes[one[0]] += len(octets(one))
            lines[one[0]] += f"{sizes[one[0]]} {time:.9f}\n"
        if timed:
            (folder / f"{number}.client.times").write_text(lines["->"])
            (folder / f"{number}.broker.times").write_text(lines["<-"])
    (folder / "index.jsonl").write_text("".join(json.dumps(one) + "\n" for one in index))
    return folder
