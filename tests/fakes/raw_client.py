"""A driver in virtual time whose client is a connection and nothing else: what it sends, and when it ends, is one of `WAYS`.

It keeps to the protocol of drivers, and says of everything that it is done, so that only the wire shows what it is worth.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from conformance.clients import in_process
from conformance.clients.driver import Hello
from conformance.drivers import reference
from refimpl.wire import FrameDecoder, command_name, encode_frame
from refimpl.wire.pulsar_api_pb2 import BaseCommand, CommandConnect, CommandPing, CommandPong

CONNECT = encode_frame(BaseCommand(type=BaseCommand.CONNECT, connect=CommandConnect(client_version="raw", protocol_version=21)))
PING = encode_frame(BaseCommand(type=BaseCommand.PING, ping=CommandPing()))
PONG = encode_frame(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))


class Raw(asyncio.Protocol):
    """One connection, which answers a PING or does not."""

    def __init__(self, *, answers: bool = False) -> None:
        self._answers = answers
        self._frames = FrameDecoder(8 << 20)
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self._answers:
            for frame in self._frames.receive(data):
                if command_name(frame.command) == "ping":
                    self.transport.write(PONG)


async def _dialled(url: str, *pieces: bytes, answers: bool = False) -> Raw:
    host, _, port = url.removeprefix("pulsar://").rpartition(":")
    raw = Raw(answers=answers)
    await in_process._dial(host, int(port), lambda: raw)
    for piece in pieces:
        raw.transport.write(piece)
    return raw


async def _ends(url: str, *pieces: bytes, how: str) -> None:
    raw = await _dialled(url, *pieces)
    await asyncio.sleep(0.1)
    getattr(raw.transport, how)()


async def _again(url: str, how: str) -> None:
    for _ in range(8):
        await _ends(url, CONNECT, how=how)


async def _floods(url: str) -> None:
    raw = await _dialled(url, CONNECT)
    for _ in range(300):
        raw.transport.write(PING)
        await asyncio.sleep(0.001)


WAYS: dict[str, Callable[[str], Any]] = {
    "sends nothing": _dialled,
    "connects and no more": lambda url: _dialled(url, CONNECT, answers=True),
    "says CONNECT twice": lambda url: _dialled(url, CONNECT, CONNECT, answers=True),
    "connects twice": lambda url: asyncio.gather(_dialled(url, CONNECT), _dialled(url, CONNECT)),
    "begins with PING": lambda url: _dialled(url, PING, answers=True),
    "half a CONNECT": lambda url: _dialled(url, CONNECT[: len(CONNECT) // 2]),
    "half a CONNECT and the end": lambda url: _ends(url, CONNECT[: len(CONNECT) // 2], how="close"),
    "the end behind CONNECT": lambda url: _ends(url, CONNECT, how="close"),
    "a reset behind CONNECT": lambda url: _ends(url, CONNECT, how="abort"),
    "comes and goes": partial(_again, how="close"),
    "is reset again and again": partial(_again, how="abort"),
    "another protocol": lambda url: _dialled(url, b"GET /lookup/v2/topic/persistent/public/default/t HTTP/1.1\r\nHost: broker\r\n\r\n"),
    "TLS": lambda url: _dialled(url, bytes.fromhex("160301020001000001fc0303") + bytes(500)),
    "zeros": lambda url: _dialled(url, bytes(4096)),
    "a frame without end": lambda url: _dialled(url, CONNECT, (1 << 30).to_bytes(4, "big") + bytes(1000)),
    "garbage behind CONNECT": lambda url: _dialled(url, CONNECT, bytes(range(256)) * 4, CONNECT),
    "an unknown command": lambda url: _dialled(
        url, CONNECT, bytes.fromhex("0000000a00000006") + bytes.fromhex("08a713ba0900"), answers=True
    ),
    "floods": _floods,
}
"""What the client does at the first thing that it is asked, and never again."""


class RawDriver(in_process.MemoryDriver):
    """A driver whose client does one of `WAYS`, and which says of everything that it is done.

    Args:
        way: What the client does.
    """

    def __init__(self, way: str, name: str, command: Sequence[str], log: Path) -> None:
        super().__init__(name, command, log)
        self.hello = Hello.model_validate({**reference.HELLO, "verbs": []})
        self._way = WAYS[way]
        self._url: str | None = None
        self._held: list[Any] = []

    def _write(self, line: str) -> None:
        request = json.loads(line)
        if request["do"] == "begin":
            self._url = request["service_url"]
        elif request["do"] != "end" and self._url is not None:
            url, self._url = self._url, None
            task: asyncio.Task[None] = asyncio.get_running_loop().create_task(self._act(url))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._said({"id": request["id"], "ok": True})

    async def _act(self, url: str) -> None:
        with suppress(ConnectionRefusedError):  # the case is over
            self._held.append(await self._way(url))
