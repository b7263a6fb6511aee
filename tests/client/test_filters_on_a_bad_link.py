"""PR 7629 on a bad network: brokers with and without filters take turns on one store, connections are delayed, split and cut.

Whoever filters at the time: everything that matches arrives, nothing else ever does, and when it comes to rest nothing is left over.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from refimpl.broker import Broker, Member
from refimpl.broker.broker import PROPOSALS
from refimpl.client import MessageFilterPolicy
from refimpl.net.client import Client, Consumer
from refimpl.net.client_memory import memory_dial
from refimpl.net.memory_link import Faults, MemoryLink
from refimpl.net.virtual_time import VirtualTimeLoop
from refimpl.proposals.message_filter.kinds import RegexFilter
from refimpl.store import Cursor, MemoryStore
from refimpl.wire.pulsar_api_pb2 import LZ4, NONE, CommandSubscribe
from tests.seeds import count_caught, run_group

URL = "pulsar://broker:6650"
TOPIC = "persistent://public/default/t"
POLICY = MessageFilterPolicy.regex_filter_policy("[0-9]*[3-5][0-9]")
MESSAGES = 150
MATCHING = {str(number).encode() for number in range(MESSAGES) if number % 100 in range(30, 60)}
REST = 600.0
"""Virtual seconds within which everything has to have arrived and been acknowledged."""
SEEDS, GROUP = 80, 20


class World:
    """A broker that is replaced by another one now and then."""

    def __init__(self, seed: int) -> None:
        self.choice = random.Random(seed)
        self.store = MemoryStore()
        self._faults = Faults(seed=seed, delay=(0.0, 0.05), largest_piece=100, cut_after=(2000, 12_000))
        self._start(self._faults)

    def replace(self, *, quiet: bool = False) -> None:
        self.link.close()
        self._start(Faults() if quiet else self._faults)

    def _start(self, faults: Faults) -> None:
        proposals = PROPOSALS if self.choice.random() < 0.6 else PROPOSALS - {"pr7629"}
        self.broker = Broker(store=self.store, proposals=proposals, members=[Member(URL)])
        self.link = MemoryLink(self.broker, faults=faults)

    async def dial(self, host: str, port: int, protocol_factory: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        return await memory_dial(self.link)(host, port, protocol_factory)

    @property
    def backlog(self) -> int:
        cursor = self.store.namespaces["public/default"].topics[TOPIC].cursors["s"]
        return len(self.store.namespaces["public/default"].topics[TOPIC].entries) - cursor.mark_delete


async def take(consumer: Consumer, seen: set[bytes]) -> None:
    while True:
        message = await consumer.receive()
        assert message.payload in MATCHING, f"{message.payload!r} does not match"
        seen.add(message.payload)
        await consumer.acknowledge(message)


async def produce(world: World, client: Client) -> None:
    choice = world.choice
    compression = choice.choice([NONE, LZ4])
    producer = await client.create_producer(
        TOPIC, batching=choice.random() < 0.7, batch_messages=choice.randint(1, 9), batch_delay=0.5, compression=compression
    )
    sending = [asyncio.ensure_future(producer.send(str(number).encode())) for number in range(MESSAGES)]
    for _ in range(choice.randint(0, 4)):
        await asyncio.sleep(choice.uniform(0.0, 3.0))
        world.replace()
    await asyncio.gather(*sending)


async def story(seed: int) -> None:
    world = World(seed)
    kind = world.choice.choice([CommandSubscribe.Exclusive, CommandSubscribe.Shared])
    seen: set[bytes] = set()
    async with Client(URL, dial=world.dial, seed=seed, wall_clock_offset=1_700_000_000.0) as client:
        choices: dict[str, Any] = {"type": kind, "queue_size": world.choice.randint(1, 50), "initial_position": CommandSubscribe.Earliest}
        consumer = await client.subscribe(TOPIC, "s", message_filter_policy=POLICY, without_message_filters="filter", **choices)
        taking = asyncio.ensure_future(take(consumer, seen))
        await produce(world, client)
        world.replace(quiet=True)
        for _ in range(int(REST)):
            if taking.done() or (seen == MATCHING and not world.backlog):
                break
            await asyncio.sleep(1.0)
        if taking.done():
            taking.result()
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
    world.link.close()
    assert seen == MATCHING, f"lost: {sorted(MATCHING - seen)}"
    assert not world.backlog, f"{world.backlog} entries are left"


def run(seed: int) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(story(seed))


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
def test_whoever_filters_nothing_that_matches_is_lost(first: int) -> None:
    run_group(run, range(first, first + GROUP))


def finds_anywhere(matches: Callable) -> Callable:
    return lambda self, message: matches(self, message) or b"3" in message.payload


def rejects_some(matches: Callable) -> Callable:
    return lambda self, message: matches(self, message) and message.payload != b"44"


def keeps_what_is_rejected(acknowledge: Callable) -> Callable:
    return lambda self, index: acknowledge(self, index) if index % 5 else None


@pytest.mark.parametrize(
    ("owner", "name", "fault"),
    [(RegexFilter, "matches", finds_anywhere), (RegexFilter, "matches", rejects_some), (Cursor, "acknowledge", keeps_what_is_rejected)],
    ids=["matches too much", "matches too little", "does not acknowledge"],
)
def test_a_fault_is_caught(owner: type, name: str, fault: Callable) -> None:
    assert count_caught(run, range(5), owner, name, fault) == 5
