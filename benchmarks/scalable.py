"""Measures PR 25648: a watch over 100,000 scalable topics without sockets, and one over fewer beside a real Apache Pulsar.

Without sockets, a time is that of the broker's own code: from the bytes of a request, or an admin call, to the bytes of the answer.
Beside the real broker, it is the time until the answer, or the resulting update, has arrived.
"""

import asyncio
import gc
import statistics
import tracemalloc

from figures import against, row, seconds
from peers import Peer, joined, running

from conformance.targets import ApachePulsar, parse_target
from refimpl.broker import Broker, Session
from refimpl.proposals.scalable_topics import ScalableTopicsExtension, topics_hash
from refimpl.wire import command, encode_frame

TOPICS = 100_000
BESIDE = 2_000
"""Topics beside the real broker: it takes some 25 ms to create each."""
RELEASE = "5.0.0-M1"
_NS = "public/default"


def alone() -> None:
    """Snapshot, hash skip and diff over many topics, and what they cost in memory."""
    broker = Broker()
    names = [f"topic://{_NS}/orders-{number:06}" for number in range(TOPICS)]
    filling = seconds(
        lambda: [
            broker.extension(ScalableTopicsExtension).admin.create_scalable_topic(name, {"shard": str(n % 100)})
            for n, name in enumerate(names)
        ]
    )
    row("scalable", f"{TOPICS / filling:,.0f} topics/s", f"created on a broker without sockets, {TOPICS:,} in all")
    session, known = _connected(broker), topics_hash(names)
    first = seconds(lambda: _watch(session, 0))
    row("snapshot", f"{first * 1e3:.3g} ms", f"the first watch over {TOPICS:,} topics: listed, hashed, {len(_taken(session)) / 1e6:.1f} MB")
    times = [seconds(lambda n=n: (_watch(session, n), _taken(session))) for n in range(1, 8)]
    row("snapshot", f"{statistics.median(times) * 1e3:.3g} ms", "each further one with the same filters")
    times = [seconds(lambda n=n: (_watch(session, n, shard="7"), _taken(session))) for n in range(10, 11)]
    row("snapshot", f"{times[0] * 1e3:.3g} ms", f"the first with a filter that selects {TOPICS // 100:,}")
    times = [seconds(lambda n=n: _watch(session, n, known)) for n in range(20, 40)]
    assert not _taken(session)
    row("hash skip", f"{statistics.median(times) * 1e6:.3g} us", f"{TOPICS:,} topics, the set is kept: nothing is sent")
    times = [seconds(lambda n=n: _change(broker, n)) for n in range(50)]
    watches = _taken(session).count(b"/new-49")
    row("diff", f"{statistics.median(times) * 1e6:.3g} us", f"one creation told to {watches} watches on one connection")
    row(
        "memory",
        f"{_memory(broker) / 1e6:.3g} MB",
        f"what the first watch over {TOPICS:,} topics costs; the set is shared by all with its filters",
    )


def _connected(broker: Broker) -> Session:
    session = broker.connect(broker.now)
    session.receive(encode_frame(command("connect", client_version="bench", protocol_version=21)), broker.now)
    _taken(session)
    return session


def _watch(session: Session, watch_id: int, current_hash: str | None = None, **filters: str) -> None:
    pairs = [{"key": key, "value": value} for key, value in filters.items()]
    request = command("watchScalableTopics", watch_id=watch_id, namespace=_NS, current_hash=current_hash, property_filters=pairs)
    session.receive(encode_frame(request), session.broker.now)


def _taken(session: Session) -> bytes:
    taken = b""
    while data := session.data_to_send(1 << 26):
        taken += data
    return taken


def _change(broker: Broker, number: int) -> None:
    broker.extension(ScalableTopicsExtension).admin.create_scalable_topic(f"topic://{_NS}/new-{number}")
    broker.tick(broker.now + 0.05)


def _memory(broker: Broker) -> int:
    for session in list(broker.sessions):
        session.eof(broker.now)
    session = _connected(broker)
    gc.collect()
    tracemalloc.start()
    _watch(session, 0)
    _taken(session)
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept


async def beside() -> None:
    """The same of both brokers, with fewer topics."""
    async with running(parse_target("reference")) as one, running(ApachePulsar(RELEASE)) as other:
        await asyncio.gather(_fill(one), _fill(other))
        pairs = [(await _snapshots(one, 15), await _snapshots(other, 15)) for _ in range(4)]
        against("snapshot", f"a watch over {BESIDE:,} scalable topics", *joined(pairs), "no slower")
        pairs = [(await _skips(one, 15), await _skips(other, 15)) for _ in range(4)]
        against(
            "hash skip", f"a watch with the hash of {BESIDE:,} topics, until the PING after it is answered", *joined(pairs), "no slower"
        )
        pairs = [(await _diffs(one, number), await _diffs(other, number)) for number in range(4)]
        against("diff", "from the creation of a topic to its diff, of which 50 ms are the window", *joined(pairs), "no slower")


async def _fill(peer: Peer) -> None:
    numbers = iter(range(BESIDE))

    async def some() -> None:
        for number in numbers:
            await _create(peer, f"orders-{number:06}")

    await asyncio.gather(*(some() for _ in range(8)))


async def _create(peer: Peer, name: str) -> None:
    result = await peer.admin.call("create_scalable_topic", f"topic://{_NS}/{name}")
    assert result.ok, result


async def _snapshots(peer: Peer, rounds: int) -> list[float]:
    link, times = await peer.link(), []
    for number in range(rounds):
        link.expect(1)
        times.append(await link.timed("watchScalableTopics", watch_id=number, namespace=_NS))
        assert len(link.received[0][1].watchScalableTopicsUpdate.snapshot.topics) >= BESIDE
    link.close()
    return times


async def _skips(peer: Peer, rounds: int) -> list[float]:
    link = await peer.link()
    link.expect(1)
    await link.timed("watchScalableTopics", watch_id=0, namespace=_NS)
    known = topics_hash(link.received[0][1].watchScalableTopicsUpdate.snapshot.topics)
    times = []
    for number in range(1, rounds + 1):
        link.expect(1)
        times.append(await link.timed("watchScalableTopics", then="ping", watch_id=number, namespace=_NS, current_hash=known))
        assert link.received[0][1].HasField("pong")
    link.close()
    return times


async def _diffs(peer: Peer, number: int) -> list[float]:
    link = await peer.link()
    link.expect(1)
    await link.timed("watchScalableTopics", watch_id=0, namespace=_NS)
    times = []
    for place in range(30):
        link.expect(1)
        begin = link.now()
        await _create(peer, f"later-{number}-{place}")
        times.append(await link.arrived() - begin)
    link.close()
    return times[5:]
