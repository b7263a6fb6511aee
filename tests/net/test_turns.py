"""Fair turns: whoever asks little is served soon beside connections that ask much. Each command takes some virtual time."""

from __future__ import annotations

import asyncio

import pytest

from refimpl.broker import Broker, Session
from refimpl.broker.admin import Admin
from refimpl.broker.session import OUTPUT_LIMIT
from refimpl.net.driver import TURN_SECONDS
from refimpl.net.memory_link import MemoryLink
from refimpl.net.virtual_time import VirtualTimeLoop
from refimpl.wire.pulsar_api_pb2 import CommandError
from tests.fakes.broker_peer import Peer
from tests.fakes.link_peers import CONNECT, PING, LinkPeer, list_topics, metadata

COST = 0.004
MANY = 1000


@pytest.fixture
def run(monkeypatch):
    """Run a function with a link to a broker that needs some time for each command."""

    def run(main):
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            loop = runner.get_loop()
            carry_out = Session._carry_out

            def slow(session, frame):
                loop._pass(COST)
                carry_out(session, frame)

            monkeypatch.setattr(Session, "_carry_out", slow)

            async def with_link():
                link = MemoryLink(Broker())
                await main(link)
                link.close()

            runner.run(with_link())

    return run


def answers(*peers):
    return sum(peer.names.count("partitionMetadataResponse") for peer in peers)


async def peers(link, count):
    found = [LinkPeer(link) for _ in range(count)]
    for peer in found:
        peer.connection.send(CONNECT)
        await asyncio.sleep(0)
    await asyncio.sleep(1)
    return found


@pytest.mark.parametrize("attackers", [1, 50])
def test_one_request_is_served_beside_thousands_of_others(run, attackers):
    async def main(link):
        good, *bad = await peers(link, 1 + attackers)
        begin = asyncio.get_running_loop().time()
        for peer in bad:
            peer.connection.send(b"".join(map(metadata, range(MANY))))
        good.connection.send(PING)
        while "pong" not in good.names:
            await asyncio.sleep(0)
        passed = asyncio.get_running_loop().time() - begin
        assert passed < (3 + attackers) * (TURN_SECONDS + COST), "a turn of each, and little more"
        begin += passed
        good.connection.send(PING)
        while good.names.count("pong") < 2:
            await asyncio.sleep(0)
        assert asyncio.get_running_loop().time() - begin < 3 * (TURN_SECONDS + COST), "those that wait share one turn"
        await asyncio.sleep(MANY * attackers * COST)
        assert answers(*bad) == MANY * attackers, "nobody loses anything"

    run(main)


def test_connections_that_wait_take_turns(run):
    async def main(link):
        both = await peers(link, 2)
        for peer in both:
            peer.connection.send(b"".join(map(metadata, range(MANY))))
        begin = asyncio.get_running_loop().time()
        while not all(answers(peer) == MANY for peer in both):
            await asyncio.sleep(0)
            first, second = map(answers, both)
            assert abs(first - second) < 10
        assert asyncio.get_running_loop().time() > begin + MANY * COST

    run(main)


def test_a_connection_is_not_read_while_its_requests_wait(run):
    async def main(link):
        (peer,) = await peers(link, 1)
        session = next(iter(link.broker.sessions))
        for number in range(MANY):
            peer.connection.send(metadata(number) * 10)
            assert len(session._frames) < 20
        await asyncio.sleep(10 * MANY * COST)
        assert answers(peer) == 10 * MANY

    run(main)


@pytest.mark.parametrize("how", ["half", "fin", "rst"])
def test_waiting_requests_and_the_end_of_a_connection(run, how):
    async def main(link):
        (peer,) = await peers(link, 1)
        peer.connection.send(b"".join(map(metadata, range(100))))
        peer.connection.close(how)
        await asyncio.sleep(1)
        if how == "half":
            assert answers(peer) == 100, "what came before the end is answered"
        assert not link.broker.sessions
        assert not link.broker.waiting

    run(main)


def test_end_that_is_seen_while_requests_wait(run):
    """Over TLS the end may come with the last bytes."""

    async def main(link):
        (peer,) = await peers(link, 1)
        session = next(iter(link.broker.sessions))
        peer.connection.send(b"".join(map(metadata, range(100))))
        link._driver.ended(session)
        await asyncio.sleep(1)
        assert answers(peer) == 100
        assert session.closing

    run(main)


def test_pushes_to_a_peer_that_does_not_read_are_bounded_though_its_requests_wait():
    peer = Peer(Broker())
    for number in range(1000):
        Admin(peer.broker).create_topic(f"persistent://public/default/{number}")
    peer.session.receive(b"".join(map(list_topics, range(1000))), 0.0)
    assert peer.session._frames
    pushes = 0
    while not peer.session.closing:
        peer.session.send(CommandError(request_id=1, error=0, message="x" * 100_000))
        pushes += 1
        assert pushes * 100_000 <= OUTPUT_LIMIT
