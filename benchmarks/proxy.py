"""What the proxy costs: the time that it adds to a frame, and how many bytes it carries, beside the direct connection.

A round trip is a PING until its PONG at the reference broker, alternately there and through the proxy. What is carried goes to a process
that throws it away; its figure is bytes by seconds of the proxy's own processor time, which is what one core carries.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from figures import row, spread
from peers import Peer, running

from conformance.targets.model import Endpoint
from conformance.targets.reference import ReferenceTarget
from refimpl.wire import command, encode_frame, encode_payload
from refimpl.wire.pulsar_api_pb2 import MessageMetadata

_ROUND_TRIPS = 2000
_CARRIED = 64 << 20
_SINK = """
import socket
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
buffer = bytearray(1 << 20)
while True:
    connection, _ = listening.accept()
    with connection:
        while connection.recv_into(buffer):
            pass
"""
_WAYS: Sequence[tuple[str, Sequence[str]]] = (
    ("nothing listed", ("--quiet",)),
    ("one command listed", ("--filter", "PRODUCER")),
    ("recorded", ("--quiet", "--record", "FOLDER")),
    ("a fault for another command", ("--quiet", "--fault", "drop watchTopicUpdate")),
    ("every frame listed", ()),
)


async def measure() -> None:
    """Measure both."""
    await added()
    for size in (1024, 64 * 1024):
        await carried(size)


async def added() -> None:
    """Measure what the proxy adds to a round trip, which is two frames."""
    async with running(ReferenceTarget()) as broker:
        for name, options in (_WAYS[0], _WAYS[-1]):
            async with _proxy(broker.endpoint.service_url, options) as (url, _):
                links = [await broker.link(), await Peer(Endpoint(name="proxy", service_url=url), broker.admin).link()]
                times: tuple[list[float], list[float]] = [], []
                for _ in range(_ROUND_TRIPS):
                    for link, taken in zip(links, times, strict=True):
                        link.expect(1)
                        taken.append(await link.timed("ping"))
                for link in links:
                    link.close()
            direct, through = times
            more = (statistics.median(through) - statistics.median(direct)) / 2
            row(
                "proxy",
                f"{more * 1e3:.3f} ms a frame",
                f"{name}; round trip {spread(through)}, direct {spread(direct)}; goal: under 0.3 ms",
            )


async def carried(size: int) -> None:
    """Measure how much the proxy carries in messages of one size."""
    frame = encode_frame(
        command("send", producer_id=1, sequence_id=1),
        encode_payload(MessageMetadata(producer_name="p", sequence_id=1, publish_time=1), bytes(size)),
    )
    data = frame * (_CARRIED // len(frame))
    sink = subprocess.Popen([sys.executable, "-c", _SINK], stdout=subprocess.PIPE, text=True)
    try:
        assert sink.stdout is not None
        port = int(sink.stdout.readline())
        direct = await _sent(port, data)
        for name, options in _WAYS:
            async with _proxy(f"pulsar://127.0.0.1:{port}", options) as (url, process):
                before = _processor(process)
                through = await _sent(int(url.rpartition(":")[2]), data)
                spent = _processor(process) - before
            figure = f"{len(data) / spent / 1e6:,.0f} MB/s"
            remark = f"{len(data) // len(frame) / spent:,.0f} frames/s of {size // 1024} KiB; {through:.2f} s, direct {direct:.2f} s"
            row("proxy", figure, f"{name}: {remark}; goal: 50 MB/s")
    finally:
        sink.kill()
        sink.wait()


async def _sent(port: int, data: bytes) -> float:
    """Return how long it takes until all has been taken: the end comes back when the last byte was read."""
    begin = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    view = memoryview(data)
    for place in range(0, len(data), 1 << 18):
        writer.write(view[place : place + (1 << 18)])
        await writer.drain()
    writer.write_eof()
    await reader.read()
    writer.close()
    return time.perf_counter() - begin


@contextlib.asynccontextmanager
async def _proxy(to: str, options: Sequence[str]) -> AsyncIterator[tuple[str, int]]:
    """Run the proxy in a process of its own; its listing goes nowhere."""
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "out").open("w+") as out:
        options = [str(Path(folder) / "capture") if one == "FOLDER" else one for one in options]
        words = [sys.executable, "-m", "conformance.cli", "proxy", "--to", to, *options]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        reading = subprocess.Popen(["cat"], stdin=process.stdout, stdout=out)
        try:
            yield ready["service_url"], process.pid
        finally:
            process.terminate()
            process.wait()
            reading.wait()


def _processor(process: int) -> float:
    """Return the seconds of processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
