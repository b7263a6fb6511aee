"""What is left in memory of messages that were produced, consumed and acknowledged.

    python benchmarks/memory.py [--gigabytes 1] [--size 1024] [--without-subscription]

A broker without sockets gets SEND, sends MESSAGE, gets ACK. The script prints the resident memory of the process before and after.
"""

from __future__ import annotations

import argparse
import resource
from pathlib import Path

from refimpl.broker import Broker, Session
from refimpl.wire import command, encode_frame, encode_payload
from refimpl.wire.pulsar_api_pb2 import MessageMetadata

TOPIC = "persistent://public/default/t"
ON_THE_WAY = 10_000_000
"""Bytes of messages that are sent before they are acknowledged."""


def resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def drain(session: Session) -> None:
    while session.data_to_send():
        pass


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--gigabytes", type=float, default=1.0)
    options.add_argument("--size", type=int, default=1024, help="bytes of a message")
    options.add_argument("--without-subscription", action="store_true")
    chosen = options.parse_args()
    session = Broker().connect(0.0)

    def send(name: str, payload: bytes | None = None, **fields: object) -> None:
        session.receive(encode_frame(command(name, **fields), payload), 0.0)

    send("connect", client_version="benchmark", protocol_version=21)
    send("producer", topic=TOPIC, producer_id=1, request_id=1)
    if not chosen.without_subscription:
        send("subscribe", topic=TOPIC, subscription="s", subType="Exclusive", consumer_id=1, request_id=2)
    drain(session)
    before = resident_megabytes()
    count = int(chosen.gigabytes * 1e9 / chosen.size)
    at_once = max(1, min(100, ON_THE_WAY // chosen.size))
    for begin in range(0, count, at_once):
        send("flow", consumer_id=1, messagePermits=at_once)
        for number in range(begin, begin + at_once):
            metadata = MessageMetadata(producer_name="p", sequence_id=number, publish_time=0)
            send("send", encode_payload(metadata, bytes(chosen.size)), producer_id=1, sequence_id=number)
            drain(session)
        send("ack", consumer_id=1, ack_type="Cumulative", message_id=[{"ledgerId": 1, "entryId": begin + at_once - 1}])
    after = resident_megabytes()
    print(f"{count} messages of {chosen.size} bytes: {before:.0f} MB before, {after:.0f} MB after, {after - before:.0f} MB left behind")


if __name__ == "__main__":
    main()
