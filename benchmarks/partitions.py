"""Measures PIP-247: how fast a changed partition count reaches its watchers, and what polling costs instead.

A change is a POST of a new number of partitions on one kept connection of the admin interface; its time runs from the start of the
call until the last PARTITION_UPDATE has arrived. Asking is one PARTITIONED_METADATA for each of as many clients.
"""

import time

from figures import against, row, spread
from peers import Peer, joined, running

from conformance.targets import ApachePulsar, parse_target

WATCHERS = 1000
_TOPIC = "persistent://public/default/{}"


async def _grow(peer: Peer, topic: str, partitions: int) -> None:
    operation = "create_partitioned_topic" if partitions == 1 else "update_partitioned_topic"
    result = await peer.admin.call(operation, {"topic": topic, "partitions": partitions})
    assert result.ok, result


async def _changes(peer: Peer, name: str, connections: int, rounds: int) -> list[float]:
    """Return how long each of some changes takes to reach all watchers, spread over connections."""
    topic, each = _TOPIC.format(name), WATCHERS // connections
    await _grow(peer, topic, 1)
    links = [await peer.link() for _ in range(connections)]
    for link in links:
        link.expect(each)
        for watcher in range(each):
            link.send("watchPartitionUpdate", request_id=watcher, watcher_id=watcher, topics=[topic])
    for link in links:
        await link.arrived()
    times = []
    for number in range(rounds + 5):
        for link in links:
            link.expect(each)
        begin = time.perf_counter()
        await _grow(peer, topic, number + 2)
        times.append(max([await link.arrived() for link in links]) - begin)
        for link in links:
            for _, command in list(link.received):
                update = command.partitionUpdate
                link.send("partitionUpdateResult", version=update.version, success=True, watcher_id=update.watcher_id)
    for link in links:
        link.close()
    return times[5:]


async def _polls(peer: Peer, name: str, rounds: int) -> list[float]:
    """Return how long it takes to answer as many clients as would have watched."""
    topic = _TOPIC.format(name)
    await _grow(peer, topic, 1)
    link, times = await peer.link(), []
    for number in range(rounds + 5):
        link.expect(WATCHERS)
        begin = time.perf_counter()
        for client in range(WATCHERS):
            link.send("partitionMetadata", topic=topic, request_id=number * WATCHERS + client)
        times.append(await link.arrived() - begin)
    return times[5:]


async def measure(version: str | None) -> None:
    """Print the figures.

    Args:
        version: Of the real broker to ask beside; None: none.
    """
    async with running(parse_target("reference")) as reference:
        for connections in (1, 100, WATCHERS):
            times = await _changes(reference, f"watched-{connections}", connections, 20)
            row("partitions", spread(times), f"to the last of {WATCHERS:,} watchers of a topic, on {connections:,} connections")
        if version is None:
            row("", spread(await _polls(reference, "asked", 10)), f"{WATCHERS:,} clients ask for the number instead, once")
            return
        async with running(ApachePulsar(version)) as real:
            pairs = [(await _polls(reference, f"asked-{n}", 5), await _polls(real, f"asked-{n}", 5)) for n in range(4)]
            against("", f"{WATCHERS:,} clients ask for the number instead, once", *joined(pairs), "none")
