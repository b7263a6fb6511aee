"""Attacks on the reference broker, one by one: how long a well-behaved client waits beside each.

The broker, the attacker and the client are a process each. The client sends a PING, a look-up or a message every ten milliseconds, and
waits for the answer. An attack goes on while it is measured. Those that need no topics are also tried on a real broker. On a machine with
other work the waits say little; the longest turn of the broker, in processor time, does not depend on that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import random
import resource
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from urllib.parse import urlsplit

from figures import row
from peers import Peer, running

from conformance.targets import ApachePulsar, Endpoint
from conformance.targets.serve import serve
from refimpl.wire import command, encode_frame, encode_payload
from refimpl.wire.pulsar_api_pb2 import MessageMetadata

SECONDS = 4.0
PAUSE = 0.01
STEPS = 20
"""Steps of an attack before it is measured."""
NAMESPACE = "public/default"
MANY = 100_000
Attack = Callable[[str, str], Iterator[None]]
"""Gets both URLs, and does a bit with each step; it goes on until it is stopped."""


# Attacks


def _connection(url: str, *, small: bool = False, connected: bool = True) -> socket.socket:
    parts = urlsplit(url)
    found = socket.socket()
    if small:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    found.settimeout(20)
    found.connect((parts.hostname, parts.port))
    if connected:
        found.sendall(encode_frame(command("connect", client_version="attack", protocol_version=21)))
        found.recv(65536)
    found.setblocking(False)
    return found


def _send(peer: socket.socket, data: bytes) -> None:
    with contextlib.suppress(BlockingIOError):
        peer.send(data)


def _drain(peer: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while peer.recv(1 << 20):
            pass


def _flood(url: str, *frames: bytes) -> Iterator[None]:
    """Send frames as fast as the broker reads them, and read the answers."""
    peer, left = _connection(url), b""
    for data in cycle(frames):
        left += data
        while left:
            sent = 0
            with contextlib.suppress(BlockingIOError):
                sent = peer.send(left)
            left = left[sent:]
            _drain(peer)
            yield


def _frame(name: str, **fields: object) -> bytes:
    return encode_frame(command(name, **fields))


def pings(service: str, _: str) -> Iterator[None]:
    """PING without end"""
    yield from _flood(service, _frame("ping") * 1000)


def lookups(service: str, _: str) -> Iterator[None]:
    """pipelined partition requests"""
    yield from _flood(service, b"".join(_frame("partitionMetadata", topic="t", request_id=number) for number in range(1000)))


def _list(pattern: str | None = None) -> bytes:
    fields = {} if pattern is None else {"topics_pattern": f"persistent://{NAMESPACE}/{pattern}"}
    return _frame("getTopicsOfNamespace", request_id=1, namespace=NAMESPACE, **fields)


def lists(service: str, _: str) -> Iterator[None]:
    """pipelined GET_TOPICS over 100,000 topics"""
    yield from _flood(service, _list() * 100)


def hostile_patterns(service: str, _: str) -> Iterator[None]:
    """the same with hostile patterns"""
    yield from _flood(service, *map(_list, (r"[\w-]{1,40}", "((a+)+)+$.*", "(.*)(.*)(.*)(.*)(.*)(.*)[0-9]", r"(?i)TOPIC.*\d{5}")))


def first_watches(service: str, _: str) -> Iterator[None]:
    """watches over 100,000 topics, each with another pattern"""
    watches = (
        _frame("watchTopicList", request_id=n, watcher_id=n, namespace=NAMESPACE, topics_pattern=f"persistent://{NAMESPACE}/.*{n}.*")
        + _frame("watchTopicListClose", request_id=n, watcher_id=n)
        for n in range(1_000_000)
    )
    yield from _flood(service, *(next(watches) for _ in range(10_000)))


def watchers(service: str, _: str) -> Iterator[None]:
    """10,000 watchers of topics that come and go"""
    pattern = f"persistent://{NAMESPACE}/new.*"
    frames = (_frame("watchTopicList", request_id=n, watcher_id=n, namespace=NAMESPACE, topics_pattern=pattern) for n in range(10_000))
    producers = (_frame("producer", topic=f"new-{os.getpid()}-{n}", producer_id=n, request_id=n) for n in range(1_000))
    yield from _flood(service, *frames, *producers)


def subscriptions(service: str, _: str) -> Iterator[None]:
    """consumers that come and go"""
    frames = (
        _frame("subscribe", topic="t", subscription=f"s{n}", subType="Shared", consumer_id=n, request_id=n)
        + _frame("unsubscribe", consumer_id=n, request_id=n)
        for n in range(2000)
    )
    yield from _flood(service, *frames)


def new_topics(service: str, _: str) -> Iterator[None]:
    """a new topic with each PRODUCER"""
    yield from _flood(service, *(_frame("producer", topic=f"p{os.getpid()}-{n}", producer_id=n, request_id=n) for n in range(20_000)))


def large_messages(service: str, _: str) -> Iterator[None]:
    """messages of 5 MB"""
    data = encode_payload(MessageMetadata(producer_name="p", sequence_id=0, publish_time=0), bytes(5_000_000))
    send = encode_frame(command("send", producer_id=1, sequence_id=0), data)
    yield from _flood(service, _frame("producer", topic="large", producer_id=1, request_id=1), *[send] * 1000)


def unread_answers(service: str, _: str) -> Iterator[None]:
    """20 peers that ask and never read"""
    peers = [_connection(service, small=True) for _ in range(20)]
    while True:
        for peer in peers:
            _send(peer, _list() * 10)
        yield


def broken_frames(service: str, _: str) -> Iterator[None]:
    """connections with frames that are damaged"""
    chosen = random.Random(1)
    frames = [bytearray(_list(".*") + _frame("ping")) for _ in range(50)]
    while True:
        peer = _connection(service)
        for data in frames:
            data[chosen.randrange(len(data))] = chosen.randrange(256)
            with contextlib.suppress(OSError):
                peer.send(data)
        peer.close()
        yield


def silent(service: str, _: str) -> Iterator[None]:
    """1,500 silent connections, each for a second"""
    while True:
        peers = []
        for _ in range(1500):
            peers.append(_connection(service, connected=False))
            yield
        for peer in peers:
            peer.close()


def half_requests(_: str, admin: str) -> Iterator[None]:
    """800 half-sent HTTP requests, a byte now and then"""
    peers = [_connection(admin, connected=False) for _ in range(800)]
    for peer in peers:
        _send(peer, b"GET /admin/v2/clusters HTTP/1.1\r\nHost: localhost\r\nX: ")
    while True:
        for peer in peers:
            with contextlib.suppress(OSError):
                peer.send(b"x")
            yield


def _http(url: str, data: bytes) -> Iterator[None]:
    while True:
        peer = _connection(url, connected=False)
        with contextlib.suppress(OSError):
            for _ in range(200):
                _send(peer, data)
                _drain(peer)
                yield
        peer.close()


def _get(path: str) -> bytes:
    return f"GET /admin/v2/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def http_requests(_: str, admin: str) -> Iterator[None]:
    """pipelined HTTP requests"""
    yield from _http(admin, _get("clusters") * 100)


def http_lists(_: str, admin: str) -> Iterator[None]:
    """lists of 100,000 topics over HTTP"""
    yield from _http(admin, _get(f"persistent/{NAMESPACE}") * 5)


def http_bodies(_: str, admin: str) -> Iterator[None]:
    """HTTP bodies without end"""
    head = b"POST /admin/v2/namespaces/public/default/permissions/x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    while True:
        peer = _connection(admin, connected=False)
        with contextlib.suppress(OSError):
            _send(peer, head + b"Transfer-Encoding: chunked\r\n\r\n")
            for _ in range(200):
                _send(peer, b"10000\r\n" + b"[" * 65536 + b"\r\n")
                yield
        peer.close()


EVERYWHERE = (
    pings,
    lookups,
    subscriptions,
    new_topics,
    large_messages,
    unread_answers,
    broken_frames,
    silent,
    half_requests,
    http_requests,
    http_bodies,
)
WITH_TOPICS = (lists, hostile_patterns, first_watches, watchers, http_lists)


# The client beside


async def _waits(endpoint: Endpoint, seconds: float) -> list[float]:
    """Return how long each request of a well-behaved client takes."""
    peer = Peer(endpoint, None)
    link = await peer.link()
    link.expect(1)
    await link.timed("producer", topic="beside", producer_id=1, request_id=1)
    data = encode_payload(MessageMetadata(producer_name="p", sequence_id=0, publish_time=0), b"x" * 100)
    assert link.transport is not None
    found, ends = [], time.monotonic() + seconds
    for number in cycle(range(3)):
        if time.monotonic() > ends:
            break
        link.expect(1)
        begin = link.now()
        if number == 0:
            link.send("ping")
        elif number == 1:
            link.send("lookupTopic", topic="beside", request_id=1)
        else:
            link.transport.write(encode_frame(command("send", producer_id=1, sequence_id=0), data))
        found.append(await link.arrived() - begin)
        await asyncio.sleep(PAUSE)
    link.close()
    return found


def _attack(attack: Attack, service: str, admin: str, begun: Event) -> None:
    with contextlib.suppress(OSError, KeyboardInterrupt):
        for step, _ in enumerate(attack(service, admin)):
            if step == STEPS:
                begun.set()


async def _beside(attack: Attack | None, endpoint: Endpoint) -> list[float]:
    assert endpoint.admin_url is not None
    if attack is None:
        return await _waits(endpoint, SECONDS)
    context = get_context("spawn")
    begun = context.Event()
    process = context.Process(target=_attack, args=(attack, endpoint.service_url, endpoint.admin_url, begun), daemon=True)
    process.start()
    try:
        assert await asyncio.to_thread(begun.wait, 60.0), f"{attack.__name__} has not begun"
        waits = await _waits(endpoint, SECONDS)
        assert process.exitcode is None, f"{attack.__name__} has ended"
        return waits
    finally:
        process.kill()
        await asyncio.to_thread(process.join)


def p99(values: list[float]) -> float:
    """Return the 99th percentile."""
    return statistics.quantiles(values, n=100)[98] if len(values) > 1 else math.inf


def _told(values: list[float]) -> str:
    return f"p50 {statistics.median(values) * 1e3:.1f} ms, p99 {p99(values) * 1e3:.0f} ms"


async def _fill(endpoint: Endpoint) -> None:
    """Create topics by PRODUCER, since that is fast."""
    peer = Peer(endpoint, None)
    for start in range(0, MANY, 10_000):
        link = await peer.link()
        link.expect(10_000)
        for number in range(start, start + 10_000):
            link.send("producer", topic=f"topic-{number:06}", producer_id=number, request_id=number)
        await link.arrived()
        link.close()


@dataclass
class Measured:
    """A reference broker in a process of its own that times its turns.

    Attributes:
        endpoint: Where it is.
        process: Its process.
        longest: Seconds of processor time of its longest turn since `begin`, during which nobody else is served; once it has ended.
    """

    endpoint: Endpoint
    process: subprocess.Popen[str]
    longest: float = 0.0

    def megabytes(self) -> float:
        """Return what it has in memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * resource.getpagesize() / 1e6

    def begin(self) -> None:
        """Forget the turns until now."""
        self.process.send_signal(signal.SIGUSR1)

    def end(self) -> None:
        """End it."""
        self.process.terminate()
        assert self.process.stdout is not None
        self.longest = json.loads(self.process.stdout.readline())
        self.process.wait()


@contextlib.contextmanager
def _reference(descriptors: int = 8192) -> Iterator[Measured]:
    """Start a reference broker that may have so many file descriptors."""
    command = [sys.executable, __file__, str(descriptors)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        yield Measured(Endpoint(name="reference", service_url=ready["service_url"], admin_url=ready["admin_url"]), process)
        if process.poll() is None:
            process.kill()


def _serve(descriptors: int) -> None:
    """Serve a reference broker until SIGTERM, and print the processor time of its longest turn."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    longest, run = 0.0, asyncio.Handle._run

    def forget(*_: object) -> None:
        nonlocal longest
        longest = 0.0

    signal.signal(signal.SIGUSR1, forget)

    def timed(handle: asyncio.Handle) -> None:
        nonlocal longest
        begin = time.thread_time()
        run(handle)
        longest = max(longest, time.thread_time() - begin)

    asyncio.Handle._run = timed  # type: ignore[method-assign]
    serve((0, 0), (), None, "default", (), verbose=False)
    print(longest, flush=True)


async def measure(version: str | None) -> None:
    """Print a line for each attack.

    Args:
        version: The release to try beside the reference; None: none.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    theirs: dict[Attack | None, str] = {}
    if version is not None:
        async with running(ApachePulsar(version)) as real:
            for attack in (None, *EVERYWHERE):
                try:
                    theirs[attack] = _told(await _beside(attack, real.endpoint))
                except (TimeoutError, AssertionError, OSError) as error:
                    theirs[attack] = f"not served ({type(error).__name__})"
    for attack in (None, *WITH_TOPICS, *EVERYWHERE):
        with _reference() as broker:
            if attack in WITH_TOPICS:
                await _fill(broker.endpoint)
            broker.begin()
            waits = await _beside(attack, broker.endpoint)
            memory = broker.megabytes()
            broker.end()
        what = (attack.__doc__ or "") if attack else "no attack"
        beside = f"; real: {theirs[attack]}" if attack in theirs else ""
        row("attack", _told(waits), f"{what}; longest turn {broker.longest * 1e3:.0f} ms of processor; {memory:.0f} MB{beside}")
    await _without_descriptors()


async def _without_descriptors() -> None:
    """Let silent connections use up the file descriptors of a broker that has few."""
    with _reference(256) as broker:
        link = await Peer(broker.endpoint, None).link()
        waits, silent_ones = [], []
        for _ in range(400):
            with contextlib.suppress(OSError):
                silent_ones.append(_connection(broker.endpoint.service_url, connected=False))
            link.expect(1)
            waits.append(await link.timed("ping"))
        link.close()
        broker.end()
    row("attack", _told(waits), f"400 silent connections, 256 file descriptors; longest turn {broker.longest * 1e3:.0f} ms of processor")


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
