"""The reference client and the reference broker in one process and in virtual time, on a bad network.

A seed decides everything: what is created and deleted and when, how connections are delayed, split and cut, when the broker is
restarted on the same store. When it comes to rest, the client knows the topics that the broker has. On the way each connection
is watched: nothing is announced before the answer to the watch, nothing twice, and each hash is that of the set. Beside it a
partitioned topic grows (growth.py), and with every eighth seed a watch over scalable topics on the same connections is followed
(scalable.py).

    python -m tests.simulation.watches SEED        one seed, with what happened
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from refimpl.broker import AdminRefused, Broker, Configuration
from refimpl.broker.broker import PROPOSALS
from refimpl.net.client import Client
from refimpl.net.client_memory import memory_dial
from refimpl.net.memory_link import NO_FAULTS, Faults, MemoryLink
from refimpl.net.virtual_time import VirtualTimeLoop
from refimpl.proposals import scalable_topics
from refimpl.proposals.profiles import PROFILES
from refimpl.proposals.topic_list import TopicChanges, topics_hash
from refimpl.store import MemoryStore
from refimpl.wire import FrameDecoder, command_name, sub_message
from tests.simulation.growth import Broken, CountsSpy, Growth
from tests.simulation.scalable import Follower, ScalableSpy, selected
from tests.simulation.scalable import action as act_on_scalable

NAMESPACE = "public/default"
PATTERN = f"persistent://{NAMESPACE}/t-.*"
PERIOD = 10.0
REST = 300.0
"""Virtual seconds within which everything has to be right again: a few periods and the longest backoff."""


class Spy:
    """Reads what the broker sends on one connection, and what the client asked for, and keeps each watcher's set."""

    def __init__(self, note: Callable[[str], None], scalable: ScalableSpy) -> None:
        self._scalable = scalable
        self._from_broker = FrameDecoder(max_frame_size=1 << 26)
        self._from_client = FrameDecoder(max_frame_size=1 << 26)
        self._asked: dict[tuple[int, int], str | None] = {}
        self._sets: dict[int, set[str] | None] = {}  # None: the client had the list already
        self._closing: dict[int, int] = {}
        self._counts = CountsSpy()
        self._note = note

    def sent(self, data: bytes) -> None:
        """Take what the client sends."""
        for frame in self._from_client.receive(data):
            self._counts.sent(frame.command)
            self._scalable.sent(frame)
            name = command_name(frame.command)
            if name == "watchTopicList":
                request = frame.command.watchTopicList
                self._asked[request.watcher_id, request.request_id] = request.topics_hash if request.HasField("topics_hash") else None
            elif name == "watchTopicListClose":
                request = frame.command.watchTopicListClose
                self._closing[request.request_id] = request.watcher_id
                self._sets[request.watcher_id] = None

    def received(self, data: bytes) -> None:
        """Take what the client receives."""
        for frame in self._from_broker.receive(data):
            self._counts.received(frame.command)
            if broken := self._scalable.received(frame):
                raise Broken(broken)
            name, message = command_name(frame.command), sub_message(frame.command)
            if name == "watchTopicListSuccess":
                self._success(message)
            elif name == "watchTopicUpdate":
                self._update(message)
            if name in ("success", "watchTopicListSuccess") and message.request_id in self._closing:
                self._sets.pop(self._closing.pop(message.request_id), None)

    def _success(self, answer: Any) -> None:
        self._note(f"  SUCCESS {sorted(answer.topic)} {answer.topics_hash}")
        if (answer.watcher_id, answer.request_id) not in self._asked:
            return  # the proposal as written answers a close with it
        asked = self._asked.pop((answer.watcher_id, answer.request_id))
        before = self._sets.get(answer.watcher_id)
        if not answer.topic and answer.topics_hash == asked:
            self._sets[answer.watcher_id] = before
            return
        if len(set(answer.topic)) != len(answer.topic):
            raise Broken(f"listed twice: {answer.topic}")
        if topics_hash(answer.topic) != answer.topics_hash:
            raise Broken(f"the list {answer.topic} does not have the hash {answer.topics_hash}")
        if before is not None and before != set(answer.topic):
            raise Broken(f"{before} was announced on this connection, {answer.topic} is listed")
        self._sets[answer.watcher_id] = set(answer.topic)

    def _update(self, update: Any) -> None:
        self._note(f"  UPDATE +{list(update.new_topics)} -{list(update.deleted_topics)} {update.topics_hash}")
        if update.watcher_id not in self._sets:
            raise Broken("an update before the answer to its watch, or after its close")
        known = self._sets[update.watcher_id]
        if known is None:
            return
        for topic in update.deleted_topics:
            if topic not in known:
                raise Broken(f"{topic} is announced as deleted, and was not there")
            known.remove(topic)
        for topic in update.new_topics:
            if topic in known:
                raise Broken(f"{topic} is announced as new, and was there")
            known.add(topic)
        if topics_hash(known) != update.topics_hash:
            raise Broken(f"the hash {update.topics_hash} is not that of {sorted(known)}")


class _Watched:
    """A transport and a protocol that let the spy read along."""

    def __init__(self, inner: asyncio.Protocol, spy: Spy) -> None:
        self._inner = inner
        self._spy = spy
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._inner.connection_made(self)  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        self._spy.received(data)
        self._inner.data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._inner.connection_lost(error)

    def write(self, data: bytes) -> None:
        self._spy.sent(bytes(data))
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


@dataclass
class World:
    """A broker that comes and goes on one store, and what happens to it."""

    seed: int
    verbose: bool = False
    store: MemoryStore = field(default_factory=MemoryStore)

    def __post_init__(self) -> None:
        self.choice = random.Random(self.seed)
        self.follows_scalable = self.seed % 8 == 1
        self.scalable_choice = random.Random(f"{self.seed} scalable")
        self.profiles = PROFILES["as-written" if self.choice.random() < 0.15 else "default"]
        offered = self.choice.random() < 0.85
        self.configuration = Configuration(
            enable_broker_topic_list_watcher=offered, keep_alive_interval_seconds=self.choice.choice([5, 30])
        )
        self.growth = Growth.of(self.seed, self.store)
        self.broken: list[str] = []
        self.spies = 0
        self.scalable_sets: dict[str, frozenset[str]] = {}
        self.link: MemoryLink | None = None
        self.loop = asyncio.get_running_loop()
        self.loop.set_exception_handler(lambda _, context: self.broken.append(repr(context.get("exception") or context["message"])))

    def note(self, text: str) -> None:
        """Show what happens, if somebody looks."""
        if self.verbose:
            print(f"{self.loop.time():9.3f} {text}")

    def start(self, *, faults: bool = True) -> None:
        """Start a broker on the store."""
        bad = Faults(
            seed=self.choice.randrange(1 << 30),
            delay=(0.0, self.choice.choice([0.0, 0.01, 0.5])),
            largest_piece=self.choice.choice([0, 1, 40]),
            cut_after=self.choice.choice([None, (100, 3000), (1000, 20000)]),
        )
        proposals = PROPOSALS if self.growth is None or self.growth.is_offered() else PROPOSALS - {"pip247"}
        broker = Broker(
            self.configuration, store=self.store, profiles=self.profiles, proposals=proposals, service_url="pulsar://broker:6650"
        )
        self.link = MemoryLink(broker, faults=bad if faults else NO_FAULTS, log=self.broken.append)
        self.note(f"a broker starts: {bad if faults else 'no faults'}, {', '.join(sorted(proposals))}")

    def stop(self) -> None:
        """Stop the broker; its store stays."""
        if self.link is not None:
            self.note("the broker stops")
            self.link.close()
            self.link = None

    async def dial(self, host: str, port: int, factory: Callable[[], asyncio.Protocol]) -> Any:
        """Open a connection of the client."""
        if self.link is None:
            raise ConnectionRefusedError("the broker is down")
        self.spies += 1
        scalable = ScalableSpy(self.scalable_sets, self.profiles[scalable_topics.PROPOSAL])
        number, spy = self.spies, Spy(lambda text: self.note(f"{number:3} {text}"), scalable)

        def watched() -> Any:
            return _Watched(factory(), spy)

        return await memory_dial(self.link)(host, port, watched)

    def action(self) -> None:
        """Let something happen."""
        if self.link is None:
            self.start()
            return
        if self.follows_scalable and self.scalable_choice.random() < 0.6:
            self.note(act_on_scalable(self.link, self.scalable_choice))
        admin = self.link.broker.admin
        if self.growth is not None and (done := self.growth.action(admin)):
            self.note(done)
        name = f"persistent://{NAMESPACE}/{self.choice.choice(['t', 't', 't', 'x'])}-{self.choice.randrange(6)}"
        what = self.choice.choices(
            ["create", "delete", "partitions", "grow", "unpartition", "restart", "unload", "wipe"], [8, 5, 3, 2, 2, 1, 1, 0.5]
        )[0]
        self.note(f"{what} {name}")
        try:
            if what == "create":
                admin.create_topic(name)
            elif what == "delete":
                admin.delete_topic(name, force=True)
            elif what == "partitions":
                admin.create_partitioned_topic(name, self.choice.randint(1, 3))
            elif what == "grow":
                admin.update_partitioned_topic(name, self.choice.randint(2, 5))
            elif what == "unpartition":
                admin.delete_partitioned_topic(name, force=True)
            elif what == "unload":
                admin.unload_namespace(NAMESPACE)
            elif what == "wipe":
                admin.delete_namespace(NAMESPACE, force=True)
                admin.create_namespace(NAMESPACE)
            else:
                self.stop()
        except AdminRefused as refused:
            self.note(f"refused: {refused}")

    def matching(self) -> set[str]:
        """Return the topics that the pattern selects, by the store."""
        return {topic for topic in self.store.namespaces[NAMESPACE].topics if topic.startswith(f"persistent://{NAMESPACE}/t-")}

    async def follows(self, follower: Follower) -> None:
        """Wait until the namespace consumer has what the store has, and again after some changes that only a push can tell."""
        assert self.link is not None
        try:
            async with asyncio.timeout(REST):
                await follower.agrees(self.link.broker)
                for _ in range(4):
                    self.note(act_on_scalable(self.link, self.scalable_choice))
                await follower.agrees(self.link.broker)
        except TimeoutError:
            known = follower.subscription and (sorted(follower.subscription.topics), sorted(follower.subscription.attached))
            raise AssertionError(f"at rest the namespace consumer has {known}, the broker {sorted(selected(self.store))}") from None


async def simulate(seed: int, *, verbose: bool = False) -> None:
    """Run one seed.

    Raises:
        AssertionError: The client's set is wrong at the end, or a rule was broken on the way.
    """
    world = World(seed, verbose)
    changed = asyncio.Event()
    heard: set[str] = set()

    def on_topics(changes: TopicChanges) -> None:
        world.note(f"the client: +{list(changes.added)} -{list(changes.removed)}")
        for topic in changes.removed:
            heard.remove(topic)
        for topic in changes.added:
            assert topic not in heard, f"{topic} was told twice"
            heard.add(topic)
        changed.set()

    world.start(faults=world.choice.random() < 0.8)
    async with Client("pulsar://broker:6650", dial=world.dial, seed=seed, wall_clock_offset=0.0, profiles=world.profiles) as client:
        follower = Follower(client) if world.follows_scalable else None
        subscribing = asyncio.ensure_future(client.subscribe_pattern(PATTERN, "s", discovery_period=PERIOD, on_topics=on_topics))
        consuming = asyncio.ensure_future(world.growth.subscribe(client)) if world.growth is not None else None
        for _ in range(world.choice.randint(5, 25)):
            await asyncio.sleep(world.choice.choice([0.0, 0.001, 0.05, 1.0, 7.0]) * world.choice.random())
            world.action()
        world.stop()
        world.start(faults=False)
        subscription = None
        try:
            async with asyncio.timeout(REST):
                subscription = await _subscribed(subscribing, client, on_topics, heard)
                while subscription.topics != world.matching() or heard != world.matching():
                    changed.clear()
                    await changed.wait()
                if world.growth is not None and consuming is not None:
                    await world.growth.rest(world.link.broker, consuming)
        except TimeoutError:
            known = None if subscription is None else sorted(subscription.topics)
            raise AssertionError(f"at rest the client knows {known}, the broker has {sorted(world.matching())}; {world.growth}") from None
        assert subscription.topics_hash == topics_hash(world.matching())
        if follower is not None:
            await world.follows(follower)
    world.stop()
    assert not world.broken, world.broken


async def _subscribed(subscribing: asyncio.Future[Any], client: Client, on_topics: Callable[[TopicChanges], None], heard: set[str]) -> Any:
    """Return the subscription; if it was given up while the broker was away, subscribe again."""
    try:
        return await subscribing
    except Exception:
        heard.clear()
        return await client.subscribe_pattern(PATTERN, "s", discovery_period=PERIOD, on_topics=on_topics)


def run(seed: int, *, verbose: bool = False) -> None:
    """Run one seed on a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(simulate(seed, verbose=verbose))


if __name__ == "__main__":
    run(int(sys.argv[1]), verbose=True)
