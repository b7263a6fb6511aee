"""Connections inside the process: as over a socket, in virtual time too, with faults that a seed reproduces."""

from __future__ import annotations

import asyncio

import pytest

from refimpl.broker import Broker
from refimpl.net.memory_link import BUFFERED, Faults, MemoryLink
from refimpl.net.virtual_time import VirtualTimeLoop
from refimpl.proposals.administration import AdminRequest
from refimpl.wire import command, encode_frame
from tests.fakes.link_peers import CONNECT, DEADLINE, PING, LinkPeer, list_topics, metadata

WATCH = encode_frame(command("watchTopicList", request_id=1, watcher_id=1, namespace="public/default", topics_pattern="public/default/.*"))


def run(main, *, virtual=True):
    with asyncio.Runner(loop_factory=VirtualTimeLoop if virtual else None) as runner:
        return runner.run(main)


async def turn():
    await asyncio.sleep(0)
    await asyncio.sleep(0)


@pytest.mark.parametrize("virtual", [True, False])
def test_requests_admin_calls_and_pushes(virtual):
    async def main():
        link = MemoryLink(Broker())
        peer = LinkPeer(link)
        peer.connection.send(CONNECT + PING[:3])
        assert peer.names == []  # nothing arrives inside a call
        await turn()
        assert peer.names == ["connected"]
        peer.connection.send(PING[3:] + WATCH)
        peer.connection.drain()
        assert peer.names[1:] == ["pong", "watchTopicListSuccess"]
        assert link.admin(AdminRequest("PUT", "/admin/v2/persistent/public/default/t")).status == 204
        await turn()
        assert peer.names[-1] == "watchTopicUpdate"
        link.close()
        assert peer.closed == "rst"

    run(main(), virtual=virtual)


def test_keep_alive_in_virtual_time():
    async def main():
        link = MemoryLink(Broker())
        silent, never = LinkPeer(link), LinkPeer(link)
        silent.connection.send(CONNECT)
        await asyncio.sleep(29.9)
        assert never.closed is None
        await asyncio.sleep(0.2)
        assert (never.closed, silent.names) == ("fin", ["connected", "ping"])
        await asyncio.sleep(30)
        assert silent.closed == "fin"
        link.close()

    run(main())


@pytest.mark.parametrize(("how", "answered"), [("fin", False), ("rst", False), ("half", True)])
def test_ends_from_the_peer(how, answered):
    async def main():
        broker = Broker()
        link = MemoryLink(broker)
        peer = LinkPeer(link)
        peer.connection.send(CONNECT)
        peer.connection.close(how)
        peer.connection.close(how)
        peer.connection.send(PING)
        await turn()
        assert list(broker.sessions) == []
        assert (peer.names, peer.closed) == ((["connected"], "fin") if answered else ([], None))
        assert not peer.connection.open
        link.close()

    run(main())


def test_broker_that_ends_a_connection():
    async def main():
        link = MemoryLink(Broker())
        peer = LinkPeer(link)
        peer.connection.send(CONNECT + b"\x00\x00\x00\x00" + PING)
        await turn()
        assert (peer.names, peer.closed) == (["connected"], "fin")
        peer.connection.send(PING)
        peer.connection.close()
        link.close()

    run(main())


def test_peer_that_does_not_read():
    async def main():
        broker = Broker()
        for number in range(200):
            broker.admin.create_topic(f"persistent://public/default/{number:0200}")
        link = MemoryLink(broker)
        peer = LinkPeer(link)
        peer.connection.reading = False
        peer.connection.send(CONNECT + list_topics(1) * 100)
        peer.connection.send(list_topics(2) * 100)
        await turn()
        (session,) = broker.sessions
        assert not session.reading
        assert BUFFERED < len(session._output) < 4 * 1024 * 1024
        peer.connection.reading = True
        await asyncio.sleep(1)
        assert peer.names == ["connected"] + ["getTopicsOfNamespaceResponse"] * 200
        link.close()

    run(main())


def conversation(faults: Faults) -> tuple:
    """Talk with a broker over a bad line, reconnecting until 50 requests are answered; return everything that could be seen."""

    async def main():
        link, seen = MemoryLink(Broker(), faults=faults), []
        loop = asyncio.get_running_loop()
        while sum(names.count("partitionMetadataResponse") for names, _, _ in seen) < 50:
            peer = LinkPeer(link)
            peer.connection.send(CONNECT)
            for number in range(50):
                peer.connection.send(metadata(number))
            while peer.closed is None and len(peer.names) < 51:
                await asyncio.sleep(0.01)
            seen.append((peer.names, peer.data, loop.time()))
            peer.connection.close()
        link.close()
        return tuple(seen)

    return run(main())


@pytest.mark.parametrize(
    "faults",
    [
        Faults(seed=1, delay=(0.0, 0.5)),
        Faults(seed=2, largest_piece=3),
        Faults(seed=3, delay=(0.01, 0.02), largest_piece=100, cut_after=(1, 5000)),
    ],
)
def test_faults_are_those_of_the_seed(faults):
    first = conversation(faults)
    assert conversation(faults) == first
    assert conversation(Faults(faults.seed + 10, faults.delay, faults.largest_piece, faults.cut_after)) != first or not faults.delay[1]


def test_cuts_lose_bytes_and_pieces_stay_in_order():
    seen = conversation(Faults(seed=3, largest_piece=7, cut_after=(1, 3000)))
    assert len(seen) > 1
    whole = conversation(Faults())[0][1]
    for _, data, _ in seen:
        assert whole.startswith(data)


def test_real_loop_with_delays():
    async def main():
        link = MemoryLink(Broker(), faults=Faults(seed=1, delay=(0.001, 0.003), largest_piece=5))
        peer = LinkPeer(link)
        peer.connection.send(CONNECT + PING)
        async with asyncio.timeout(DEADLINE):
            while len(peer.names) < 2:
                await asyncio.sleep(0.001)
        assert peer.names == ["connected", "pong"]
        link.close()

    run(main(), virtual=False)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_in_flight_arrives_though_the_broker_has_ended_the_connection(seed):
    async def main():
        link = MemoryLink(Broker(), faults=Faults(seed=seed, largest_piece=5, delay=(0, 0.003)))
        peer = LinkPeer(link)
        peer.connection.send(CONNECT + CONNECT)  # the second one is answered by the end of the connection
        await asyncio.sleep(2)
        assert (peer.names, peer.closed) == (["connected"], "fin")

    run(main())
