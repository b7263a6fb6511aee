"""A proxy between a client and a broker that are both the test: raw bytes on both sides, and what the watchers were told."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from conformance.proxy import Direction, Passed, Proxy, Watcher, proxying
from conformance.targets import Endpoint
from refimpl.net.faults import read_switch
from refimpl.wire import FrameDecoder, command, command_name, encode_frame, encode_payload
from refimpl.wire.pulsar_api_pb2 import BaseCommand, MessageMetadata

DEADLINE = 30.0
PING = encode_frame(command("ping"))
PONG = encode_frame(command("pong"))
RECEIPT = encode_frame(command("send_receipt", producer_id=1, sequence_id=1))
TOPIC = "persistent://public/default/t"


def send(sequence_id: int, size: int = 10) -> bytes:
    payload = encode_payload(MessageMetadata(producer_name="p", sequence_id=sequence_id, publish_time=1), bytes(size))
    return encode_frame(command("send", producer_id=1, sequence_id=sequence_id), payload)


def look_up(url: str, request_id: int = 1, **fields: Any) -> bytes:
    return encode_frame(command("lookupTopicResponse", brokerServiceUrl=url, response="Connect", request_id=request_id, **fields))


class Kept(Watcher):
    """Keeps all that a watcher is told, and lets tests wait for it."""

    def __init__(self, commands: Sequence[str] | None = None, *, whole: bool = False) -> None:
        self.commands = commands
        self.whole = whole
        self.passed: list[Passed] = []
        self.notes: list[tuple[int | None, str]] = []
        self.bytes: dict[tuple[int, Direction], bytearray] = {}
        self.over: list[int] = []
        self.unseen_on: list[int] = []
        self.ends: list[tuple[int, Direction]] = []
        self._news = asyncio.Event()

    def frame(self, passed: Passed) -> None:
        self.passed.append(passed)
        self._news.set()

    def note(self, connection: int | None, time: float, text: str) -> None:
        self.notes.append((connection, text))
        self._news.set()

    def unseen(self, connection: int) -> None:
        self.unseen_on.append(connection)

    def data(self, connection: int, direction: Direction, data: bytes | memoryview, time: float) -> None:
        self.bytes.setdefault((connection, direction), bytearray()).extend(data)

    def ended(self, connection: int, direction: Direction, time: float) -> None:
        self.ends.append((connection, direction))

    def closed(self, connection: int, time: float) -> None:
        self.over.append(connection)
        self._news.set()

    def names(self, direction: Direction | None = None) -> list[str]:
        return [command_name(one.frame.command) for one in self.passed if direction in (None, one.direction)]

    async def until(self, what: Callable[[Kept], bool]) -> None:
        while not what(self):
            self._news.clear()
            await self._news.wait()


class Peer:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._decoder = FrameDecoder(1 << 30)
        self._frames: list[BaseCommand] = []

    def write(self, *data: bytes) -> None:
        self.writer.write(b"".join(data))

    async def bytes(self, size: int) -> bytes:
        return await self.reader.readexactly(size)

    async def next(self) -> Any:
        """Return the next command; None at the end."""
        while not self._frames:
            data = await self.reader.read(1 << 16)
            if not data:
                return None
            self._frames += [frame.command for frame in self._decoder.receive(data)]
        return self._frames.pop(0)

    async def rest(self) -> bytes:
        """Read to the end, however it ends."""
        data = bytearray()
        try:
            while piece := await self.reader.read(1 << 16):
                data += piece
        except ConnectionError:
            pass
        return bytes(data)

    def close(self) -> None:
        self.writer.close()


class Broker:
    """Takes connections, in their order."""

    def __init__(self) -> None:
        self._came: asyncio.Queue[Peer] = asyncio.Queue()
        self.peers: list[Peer] = []
        self.url = ""

    async def accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.peers.append(Peer(reader, writer))
        await self._came.put(self.peers[-1])

    async def next(self) -> Peer:
        return await self._came.get()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Broker]:
        server = await asyncio.start_server(self.accepted, "127.0.0.1", 0)
        self.url = f"pulsar://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for peer in self.peers:
                peer.writer.transport.abort()
            await server.wait_closed()


class Stand:
    """A broker, the proxy in front of it, and clients."""

    def __init__(self, broker: Broker, proxy: Proxy, kept: Kept) -> None:
        self.broker, self.proxy, self.kept = broker, proxy, kept
        self.clients: list[Peer] = []

    async def client(self, url: str | None = None) -> Peer:
        host, _, port = (url or self.proxy.service_url).removeprefix("pulsar://").rpartition(":")
        self.clients.append(Peer(*await asyncio.open_connection(host, int(port))))
        return self.clients[-1]

    async def pair(self) -> tuple[Peer, Peer]:
        client = await self.client()
        return client, await self.broker.next()

    async def over(self, count: int = 1) -> None:
        await self.kept.until(lambda kept: len(kept.over) >= count)


def at_stand(
    test: Callable[[Stand], Coroutine[Any, Any, None]],
    *,
    faults: Sequence[str] = (),
    kept: Callable[[], Kept] = Kept,
    watchers: Callable[[], Sequence[Watcher]] = list,
    **endpoint: Any,
) -> None:
    """Run a test within the deadline; nothing may be left of it."""

    async def main() -> None:
        async with asyncio.timeout(DEADLINE), Broker().serving() as broker:
            told = kept()
            to = replace(Endpoint(name="broker", service_url=broker.url), **endpoint)
            async with proxying(to, [told, *watchers()], [read_switch(text) for text in faults]) as proxy:
                stand = Stand(broker, proxy, told)
                try:
                    await test(stand)
                finally:
                    for client in stand.clients:
                        client.writer.transport.abort()
            assert len(told.over) == proxy.connections
            assert proxy.collected.size == 0

    asyncio.run(main())


def pieces(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Cut bytes into pieces of sizes that come again."""
    found, place = [], 0
    for size in itertools.cycle(sizes):
        if place >= len(data):
            return found
        found.append(data[place : place + size])
        place += size
    return found
