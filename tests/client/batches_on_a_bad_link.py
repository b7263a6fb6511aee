"""Producers of uniform batches and a filtered subscription (PIP-191), in one process and in virtual time, on a bad network.

A seed decides everything: what is sent and when, how connections are delayed, split and cut, when the broker is restarted on the
same store, which entries a filter puts off or fails at. When it comes to rest, every message is stored, in the order of its producer
and under its extracted set, and the consumer has got those that pass the filter, and no others.

    python -m tests.client.batches_on_a_bad_link SEED        one seed, with what happened
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from refimpl.broker import Broker, Configuration, Member
from refimpl.broker.policies import RETENTION
from refimpl.net.client import Client, Consumer, Producer
from refimpl.net.client_memory import memory_dial
from refimpl.net.memory_link import NO_FAULTS, Faults, MemoryLink
from refimpl.net.virtual_time import VirtualTimeLoop
from refimpl.proposals.uniform_batches import BUILT_IN, EntryVerdict, FilterContext, allowed_values, extracted_set
from refimpl.store import Entry, MemoryStore
from refimpl.wire import decode_batch, decompress, is_batch, parse_payload
from refimpl.wire.pulsar_api_pb2 import LZ4, NONE, CommandSubscribe

TOPIC = "persistent://public/default/t"
REST = 300.0
"""Virtual seconds within which everything has to be right."""

VALUES = {"region": ["eu", "us", "asia"], "version": ["1", "2", "5"], "tag": ["a", "b"]}


class Moody:
    """A filter that puts off some entries, each a few times, and fails at others."""

    def __init__(self) -> None:
        self.times: defaultdict[tuple[str, int], int] = defaultdict(int)

    def of(self, properties: Mapping[str, str]) -> Moody | None:
        """Return itself, whatever the subscription: the times outlive a broker."""
        return self if "moody" in properties else None

    def judge(self, context: FilterContext) -> EntryVerdict:
        """Look at the number of the entry."""
        metadata = context.metadata
        mood = metadata.sequence_id % 7
        if mood == 4:
            raise RuntimeError("moody")
        self.times[metadata.producer_name, metadata.sequence_id] += 1
        late = mood == 3 and self.times[metadata.producer_name, metadata.sequence_id] <= 3
        return EntryVerdict.RESCHEDULE if late else EntryVerdict.ACCEPT


class World:
    """A broker that comes and goes on one store, and all that is sent to it."""

    def __init__(self, seed: int, verbose: bool) -> None:
        self.choice = random.Random(seed)
        self.verbose = verbose
        self.store = MemoryStore()
        self.moody = Moody()
        self.partitions = self.choice.choice([0, 0, 2])
        self.setting = {name: self.choice.sample(values, 2) for name, values in list(VALUES.items())[: self.choice.randint(1, 2)]}
        self.wanted = {name: set(self.choice.sample(values, 2)) for name, values in VALUES.items() if self.choice.random() < 0.5}
        self.strict = self.choice.random() < 0.3
        self.sent: dict[bytes, Mapping[str, str]] = {}
        self.received: list[bytes] = []
        self.broken: list[str] = []
        self.link: MemoryLink | None = None
        self.loop = asyncio.get_running_loop()
        self.loop.set_exception_handler(lambda _, context: self.broken.append(repr(context.get("exception") or context["message"])))

    def note(self, text: str) -> None:
        """Show what happens, if somebody looks."""
        if self.verbose:
            print(f"{self.loop.time():9.3f} {text}")

    @property
    def topics(self) -> list[str]:
        """Return the topic, or its partitions."""
        return [f"{TOPIC}-partition-{index}" for index in range(self.partitions)] or [TOPIC]

    def restart(self, *, faults: bool) -> None:
        """Stop the broker, if there is one, and start another on the store."""
        if self.link is not None:
            self.link.close()
        bad = Faults(
            seed=self.choice.randrange(1 << 30),
            delay=(0.0, self.choice.choice([0.0, 0.01, 0.3])),
            largest_piece=self.choice.choice([0, 7, 100]),
            cut_after=self.choice.choice([None, (500, 5000), (2000, 20000)]),
        )
        self.note(f"a broker starts: {bad if faults else 'no faults'}")
        filters = {**BUILT_IN, "Moody": self.moody.of}
        broker = Broker(Configuration(), store=self.store, members=[Member("pulsar://broker:6650")], plugins={"pip191": filters})
        self.link = MemoryLink(broker, faults=bad if faults else NO_FAULTS, log=self.broken.append)

    async def dial(self, host: str, port: int, factory: Any) -> Any:
        """Open a connection of the client."""
        assert self.link is not None
        return await memory_dial(self.link)(host, port, factory)

    def send(self, producer: Producer) -> None:
        """Send a few messages."""
        for _ in range(self.choice.randint(1, 6)):
            text = b"%d" % len(self.sent)
            properties = {name: self.choice.choice(values) for name, values in VALUES.items() if self.choice.random() < 0.6}
            self.sent[text] = properties
            self.note(f"{producer.name} sends {text.decode()} {properties}")
            producer.send_async(text, properties=properties, key=self.choice.choice(["k", "l", None]))

    async def consume(self, consumer: Consumer) -> None:
        """Receive until cancelled; now and then ask for everything again."""
        async for message in consumer:
            self.note(f"received {message.payload.decode()}, delivered {message.redelivery_count} times before")
            assert dict(message.properties) == self.sent[message.payload]
            if self.choice.random() < 0.05:
                await consumer.redeliver()
            else:
                self.received.append(message.payload)
                await consumer.acknowledge(message)

    # At rest

    def passing(self) -> set[bytes]:
        """Return what the subscription has to get; check on the way that it is stored as it should be."""
        found: set[bytes] = set()
        stored: set[bytes] = set()
        for topic in self.topics:
            last: defaultdict[str, int] = defaultdict(lambda: -1)
            for entry in self.store.namespaces["public/default"].topics[topic].entries:
                producer, first, header, texts = self._read(entry)
                if set(texts) <= stored:
                    continue  # sent again after a connection was lost before its receipt
                assert first > last[producer], f"{texts} of {producer} came after number {last[producer]}"
                last[producer] = first + len(texts) - 1
                assert not set(texts) & stored
                stored |= set(texts)
                if all(header[name] in values if name in header else not self.strict for name, values in self.wanted.items()):
                    found |= set(texts)
        assert stored == set(self.sent)
        return found

    def _read(self, entry: Entry) -> tuple[str, int, dict[str, str], list[bytes]]:
        payload = parse_payload(entry.data)
        metadata = payload.metadata
        assert is_batch(metadata)
        header = {one.key: one.value for one in metadata.properties}
        body = decompress(payload.body, metadata.compression, metadata.uncompressed_size)
        singles = decode_batch(body, metadata.num_messages_in_batch)
        for single in singles:
            assert header == dict(extracted_set(self.sent[single.body], allowed_values(self.setting)))
        return metadata.producer_name, metadata.sequence_id, header, [single.body for single in singles]

    def stats(self) -> list[Mapping[str, Any]]:
        """Return what the broker counted on each partition."""
        assert self.link is not None
        return [self.link.broker.admin.topic_stats(topic)["subscriptions"]["s"] for topic in self.topics]


async def simulate(seed: int, *, verbose: bool = False) -> None:
    """Run one seed.

    Raises:
        AssertionError: Something is lost, twice, out of order, or under a wrong header.
    """
    world = World(seed, verbose)
    choice = world.choice
    world.restart(faults=False)
    assert world.link is not None
    kept = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}  # what is acknowledged is looked at, too
    world.link.broker.admin.set_policy("public/default", RETENTION, kept)
    if world.partitions:
        world.link.broker.admin.create_partitioned_topic(TOPIC, world.partitions)
    properties = {"moody": "yes", **{f"entry-filter.{name}": ",".join(values) for name, values in world.wanted.items()}}
    properties |= {"entry-filter-missing": "reject"} if world.strict else {}
    kind = choice.choice([CommandSubscribe.Exclusive, CommandSubscribe.Shared, CommandSubscribe.Failover])
    options: dict[str, Any] = {
        "restrict_same_values_in_batch_properties": world.setting,
        "send_timeout": 0.0,
        "max_pending_messages": 10_000,
        "batch_messages": choice.choice([2, 1000]),
        "batch_delay": choice.choice([0.001, 0.5]),
        "compression": choice.choice([NONE, LZ4]),
    }
    async with Client("pulsar://broker:6650", dial=world.dial, seed=seed, wall_clock_offset=0.0) as client:
        consumer = await client.subscribe("t", "s", type=kind, subscription_properties=properties, queue_size=choice.choice([3, 1000]))
        producers = [await client.create_producer("t", name=name, **options) for name in ("p", "q")]
        consuming = asyncio.ensure_future(world.consume(consumer))
        for _ in range(choice.randint(3, 15)):
            world.send(choice.choice(producers))
            await asyncio.sleep(choice.choice([0.0, 0.001, 0.3, 2.0]) * choice.random())
            if choice.random() < 0.1:
                world.restart(faults=choice.random() < 0.8)
        world.restart(faults=False)
        try:
            async with asyncio.timeout(REST):
                for producer in producers:
                    await producer.flush()
                passing = world.passing()
                while set(world.received) != passing or any(one["msgBacklog"] for one in world.stats()):
                    await asyncio.sleep(1.0)
        except TimeoutError:
            missing, wrong = world.passing() - set(world.received), set(world.received) - world.passing()
            raise AssertionError(f"at rest {missing} have not come, {wrong} should not have, {world.stats()}") from None
        for one in world.stats():
            kinds = ("Accepted", "Rejected", "Rescheduled")
            assert one["filterProcessedMsgCount"] == sum(one[f"filter{name}MsgCount"] for name in kinds)
        assert sum(producer.stats.messages for producer in producers) == len(world.sent)
        consuming.cancel()
    assert world.link is not None
    world.link.close()
    assert not world.broken, world.broken


def run(seed: int, *, verbose: bool = False) -> None:
    """Run one seed on a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(simulate(seed, verbose=verbose))


if __name__ == "__main__":
    run(int(sys.argv[1]), verbose=True)
