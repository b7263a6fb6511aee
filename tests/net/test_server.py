"""The broker over real sockets: bytes split anywhere, peers that half-close, reset, never read, and many of them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import selectors
import socket
import ssl
import struct
import threading
import time

import pytest

from refimpl.configuration import Configuration
from refimpl.net.embedded import EmbeddedBroker
from refimpl.net.serving import serving
from tests.fakes.certificates import Certificates
from tests.fakes.link_peers import CONNECT, DEADLINE, PING, SocketPeer, connected, list_topics, metadata


@pytest.fixture
def broker():
    with EmbeddedBroker() as running:
        yield running


def wait_for(broker, sessions: int) -> None:
    """Wait until a broker has so many connections, by asking it."""
    end, pause = time.monotonic() + DEADLINE, threading.Event()
    while (found := broker.call(lambda one: len(one.sessions))) != sessions:
        assert time.monotonic() < end, f"the broker has {found} connections, not {sessions}"
        pause.wait(0.01)


def test_bytes_one_by_one_and_many_frames_at_once(broker):
    with connected(broker.service_url) as peer:
        peer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in PING:
            peer.send(bytes([byte]))
        assert peer.receive() == "pong"
        peer.send(b"".join(map(metadata, range(100))) + PING[:5])
        assert [peer.receive() for _ in range(100)] == ["partitionMetadataResponse"] * 100
        peer.send(PING[5:])
        assert peer.receive() == "pong"


@pytest.mark.parametrize("begun", [b"", b"\x00", PING[:5], CONNECT + PING[:-1]])
def test_end_inside_a_frame_ends_our_side_too(broker, begun):
    peer = SocketPeer(broker.service_url)
    with peer.socket:
        peer.send(begun)
        peer.socket.shutdown(socket.SHUT_WR)
        while peer.receive() is not None:
            pass
    wait_for(broker, 0)


def test_answers_to_what_came_before_the_end_still_arrive(broker):
    peer = SocketPeer(broker.service_url)
    with peer.socket:
        peer.send(CONNECT + PING)
        peer.socket.shutdown(socket.SHUT_WR)
        assert peer.receive() == "connected"
        assert peer.receive() == "pong"
        assert peer.receive() is None


def test_damaged_frame_ends_the_connection_and_no_other(broker):
    with connected(broker.service_url) as good, connected(broker.service_url) as bad:
        bad.send(b"\x7f\xff\xff\xff")
        assert bad.receive() is None
        good.send(PING)
        assert good.receive() == "pong"


def test_reset_is_noticed(broker):
    with connected(broker.service_url) as peer:
        wait_for(broker, 1)
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_for(broker, 0)


def padded(frame: bytes, size: int) -> bytes:
    """Add bytes behind the command, which brokers ignore, so that few requests fill the buffers of the system."""
    return (len(frame) - 4 + size).to_bytes(4, "big") + frame[4:] + bytes(size)


def send_until_blocked(broker: EmbeddedBroker, peer: SocketPeer, request: bytes) -> int:
    """Send requests until the broker does not read the peer any more and the buffers are full; return how many bytes went out."""
    sent, end = 0, time.monotonic() + DEADLINE
    peer.socket.setblocking(False)
    with selectors.DefaultSelector() as selector:
        selector.register(peer.socket, selectors.EVENT_WRITE)
        while selector.select(timeout=0.2) or broker.call(lambda one: all(session.reading for session in one.sessions)):
            assert time.monotonic() < end
            with contextlib.suppress(BlockingIOError):
                sent += peer.socket.send(request[sent % len(request) :])
    peer.socket.settimeout(DEADLINE)
    return sent


def test_peer_that_never_reads_is_not_read_for_ever_and_others_are_served(broker):
    for number in range(200):
        broker.call(lambda one, number=number: one.admin.create_topic(f"persistent://public/default/{number:0200}"))
    request = padded(list_topics(1), 20_000)
    with connected(broker.service_url) as peer, connected(broker.service_url) as other:
        sent = send_until_blocked(broker, peer, request)
        waiting = broker.call(lambda one: sorted((session.reading, len(session._output)) for session in one.sessions))
        assert [reading for reading, _ in waiting] == [False, True]
        assert waiting[0][1] < 4 * 1024 * 1024
        other.send(PING)
        assert other.receive() == "pong"
        for _ in range(sent // len(request)):
            assert peer.receive() == "getTopicsOfNamespaceResponse"
        peer.send(request[sent % len(request) :] + PING)
        assert (peer.receive(), peer.receive()) == ("getTopicsOfNamespaceResponse", "pong")


def test_connection_that_ended_is_dropped_though_its_peer_never_reads(broker, monkeypatch):
    monkeypatch.setattr("refimpl.net.server.LINGER_SECONDS", 0.2)
    for number in range(200):
        broker.call(lambda one, number=number: one.admin.create_topic(f"persistent://public/default/{number:0200}"))
    with connected(broker.service_url) as peer:
        send_until_blocked(broker, peer, padded(list_topics(1), 20_000))
        broker.call(lambda one: [session.end("enough") for session in one.sessions])
        with pytest.raises(ConnectionError):
            peer.send(PING * 10_000_000)


def test_many_connections(broker):
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(connected(broker.service_url)) for _ in range(200)]
        wait_for(broker, 200)
        for peer in peers:
            peer.send(PING)
        assert [peer.receive() for peer in peers] == ["pong"] * 200
    wait_for(broker, 0)


def test_restart_on_the_same_port():
    with EmbeddedBroker() as first:
        port = int(first.service_url.rpartition(":")[2])
        left_open = SocketPeer(first.service_url)
    assert left_open.receive() is None
    left_open.socket.close()

    async def again() -> str:
        async with serving(port=port) as served:
            return served.service_url

    assert asyncio.run(again()) == f"pulsar://127.0.0.1:{port}"


def test_port_in_use_is_an_error_that_names_it(broker):
    port = int(broker.service_url.rpartition(":")[2])

    async def second() -> None:
        async with serving(port=port):
            pass

    with pytest.raises(OSError, match=f"127.0.0.1:{port}") as caught:
        asyncio.run(second())
    assert caught.value.errno == errno.EADDRINUSE


def test_tls(tmp_path):
    certificates = Certificates(tmp_path)
    settings = Configuration.from_settings({**certificates.settings, "brokerServicePortTls": "0"})

    async def trial_log() -> None:
        async with serving(settings) as served, asyncio.timeout(DEADLINE):
            assert served.service_url_tls.startswith("pulsar+ssl://")
            port = int(served.service_url_tls.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=certificates.trusting())
            writer.write(CONNECT + PING * 3)
            assert len(await reader.readexactly(50)) == 50
            writer.write(b"\x00\x00\x00\x00")  # no frame: the broker ends the connection
            await reader.read(-1)
            writer.close()
            with pytest.raises(ssl.SSLError):
                await asyncio.open_connection("127.0.0.1", port, ssl=ssl.create_default_context())
            plain_reader, plain_writer = await asyncio.open_connection("127.0.0.1", port)
            plain_writer.write(CONNECT)
            await plain_reader.read(-1)  # a peer without TLS is turned away
            plain_writer.close()

    asyncio.run(trial_log())
