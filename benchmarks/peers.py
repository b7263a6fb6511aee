"""Measures the reference broker beside a real Apache Pulsar, each in its own process, alternating in one run.

A creation is a PUT of a topic on a persistent connection of the admin interface, after a warm-up. Its time runs from the start of
the call until the WATCH_TOPIC_UPDATE has arrived. Memory is the resident set of the processes of a broker.
"""

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from figures import against, row

from conformance.running.runner import Options, Silent, run_suite
from conformance.suite import Suite
from conformance.targets import AdminClient, ApachePulsar, Endpoint, Target, parse_target
from refimpl.wire import FrameDecoder, command, encode_frame
from refimpl.wire.pulsar_api_pb2 import BaseCommand

_DEADLINE = 60.0


class Link(asyncio.Protocol):
    """A raw connection: sends commands, waits for some number of answers."""

    def __init__(self) -> None:
        self._decoder = FrameDecoder(max_frame_size=1 << 28)
        self.received: list[tuple[float, BaseCommand]] = []
        self._wanted = 0
        self._done = asyncio.Event()
        self.transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        for frame in self._decoder.receive(data):
            if frame.command.type == BaseCommand.PING:
                self.send("pong")
            else:
                self.received.append((now, frame.command))
        if len(self.received) >= self._wanted:
            self._done.set()

    def send(self, name: str, **fields: object) -> None:
        assert self.transport is not None
        self.transport.write(encode_frame(command(name, **fields)))

    @staticmethod
    def now() -> float:
        """Return the time on the clock of what was received."""
        return time.perf_counter()

    async def timed(self, name: str, then: str | None = None, **fields: object) -> float:
        """Send a command, and another one behind it, and return how long it takes until what is expected has come."""
        begin = self.now()
        self.send(name, **fields)
        if then is not None:
            self.send(then)
        return await self.arrived() - begin

    def close(self) -> None:
        """End the connection."""
        assert self.transport is not None
        self.transport.close()

    def expect(self, count: int) -> None:
        self.received.clear()
        self._wanted = count
        self._done.clear()

    async def arrived(self) -> float:
        """Return when the last of the expected commands came."""
        async with asyncio.timeout(_DEADLINE):
            await self._done.wait()
        return self.received[-1][0]


@dataclass
class Peer:
    """A broker that runs."""

    endpoint: Endpoint
    admin: AdminClient

    async def link(self) -> Link:
        _, link = await asyncio.get_running_loop().create_connection(Link, self.endpoint.host, self.endpoint.port)
        link.expect(1)
        link.send("connect", client_version="bench", protocol_version=21)
        await link.arrived()
        return link

    async def create(self, topic: str) -> None:
        result = await self.admin.call("create_topic", topic)
        assert result.ok, result

    def memory(self) -> int:
        """Return the bytes that the broker's processes have in memory."""
        assert self.endpoint.log_file is not None
        folder = str(self.endpoint.log_file.parent).encode()
        total = 0
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes()
                if folder in words and b"supervise.py" not in words:
                    total += int((process / "statm").read_text().split()[1]) * 4096
        return total


@contextlib.asynccontextmanager
async def running(target: Target) -> AsyncIterator[Peer]:
    """Run a broker for the length of a block."""
    async with target.run() as endpoint, AdminClient(endpoint) as admin:
        yield Peer(endpoint, admin)


async def _starts(target: Target, rounds: int) -> list[float]:
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        async with target.run():
            times.append(time.perf_counter() - begin)
    return times


async def _creations(peer: Peer, namespace: str, watchers: int, rounds: int) -> list[float]:
    result = await peer.admin.call("create_namespace", namespace)
    assert result.ok, result
    link = await peer.link()
    link.expect(watchers)
    for watcher in range(watchers):
        link.send(
            "watchTopicList", request_id=watcher, watcher_id=watcher, namespace=namespace, topics_pattern=f"persistent://{namespace}/.*"
        )
    await link.arrived()
    times = []
    for number in range(rounds + 20):
        link.expect(watchers)
        begin = time.perf_counter()
        await peer.create(f"persistent://{namespace}/t-{number}")
        times.append(await link.arrived() - begin)
    return times[20:]


async def _lists(peer: Peer, namespace: str, rounds: int) -> list[float]:
    link = await peer.link()
    times = []
    for number in range(rounds):
        link.expect(1)
        begin = time.perf_counter()
        link.send("getTopicsOfNamespace", request_id=number, namespace=namespace, topics_pattern=f"persistent://{namespace}/t-1.*")
        times.append(await link.arrived() - begin)
    return times


async def _fill(peer: Peer, namespace: str, topics: int) -> None:
    await peer.admin.call("create_namespace", namespace)
    names = iter(range(topics))

    async def some() -> None:
        for number in names:
            await peer.create(f"persistent://{namespace}/t-{number}")

    await asyncio.gather(*(some() for _ in range(8)))


async def measure(version: str, suite: Suite) -> None:
    """Print the figures of both."""
    reference, real = parse_target("reference"), ApachePulsar(version)
    async with real.run(progress=print):
        pass  # its jars are there now
    ours, theirs = [], []
    for _ in range(3):
        ours += await _starts(reference, 1)
        theirs += await _starts(real, 1)
    against("start", "from the start of the process until CONNECT is answered", ours, theirs, "10 times faster")
    async with running(reference) as one, running(real) as other:
        row(
            "memory",
            f"{one.memory() / 1e6:.0f} MB",
            f"after the start; real: {other.memory() / 1e6:.0f} MB; {other.memory() / one.memory():.1f} times less; goal: a fifth",
        )
        pairs = [(await _creations(one, f"public/b{n}", 1, 25), await _creations(other, f"public/b{n}", 1, 25)) for n in range(4)]
        against("update", "from the creation of a topic to its update, one watcher", *joined(pairs), "no slower")
        pairs = [(await _creations(one, f"public/c{n}", 1000, 10), await _creations(other, f"public/c{n}", 1000, 10)) for n in range(2)]
        against("updates", "to the last update of 1,000 watchers", *joined(pairs), "no slower")
        await asyncio.gather(_fill(one, "public/d", 10_000), _fill(other, "public/d", 10_000))
        pairs = [(await _lists(one, "public/d", 15), await _lists(other, "public/d", 15)) for _ in range(4)]
        against("list", "GET_TOPICS_OF_NAMESPACE with a pattern, 10,000 topics", *joined(pairs), "no slower")
    times = []
    for number in range(3):
        begin = time.perf_counter()
        await run_suite(suite, reference, Options(seed=number), lambda _: None, Silent())
        times.append(time.perf_counter() - begin)
    row(
        "suite",
        f"{statistics.median(times):.1f} s",
        f"all of core and pip145 on the reference, over sockets ({', '.join(f'{t:.1f}' for t in times)}); goal: under 15 s",
    )


def joined(pairs: list[tuple[list[float], list[float]]]) -> tuple[list[float], list[float]]:
    """Join the times of the rounds, of one broker and of the other."""
    return [t for ours, _ in pairs for t in ours], [t for _, theirs in pairs for t in theirs]
