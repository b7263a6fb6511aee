"""The reference client beside an exploration of the reference broker, in one process and in virtual time, on a bad network.

A seed decides everything: what an administrator does and with which names, as `explore` draws it; how connections are delayed, split and
cut; when the broker is restarted on the same store. When it comes to rest, the client knows the topics that the broker has. On the way
each connection is watched: nothing is announced before the answer to the watch, nothing twice, and each hash is that of the set. Beside
it a partitioned topic grows (growth.py), and a watch over scalable topics on the same connections is followed (scalable.py).

    python -m tests.explore.clients SEED        one seed, with what happened
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from conformance.explore.actions import KINDS
from conformance.explore.drawing import draw
from conformance.explore.player import Player, Step
from conformance.explore.world import NAMESPACES, Action
from conformance.running.connection import Allowance
from conformance.targets import AdminClient, Endpoint
from refimpl.broker import Broker, Configuration, Member
from refimpl.broker.broker import PROPOSALS
from refimpl.net.client import Client
from refimpl.net.client_memory import memory_dial
from refimpl.net.memory_link import NO_FAULTS, Faults, MemoryConnection, MemoryLink
from refimpl.net.virtual_time import VirtualTimeLoop
from refimpl.proposals import scalable_topics
from refimpl.proposals.administration import AdminRequest, AdminResponse
from refimpl.proposals.profiles import PROFILES
from refimpl.proposals.topic_list import TopicChanges, topics_hash
from refimpl.store import MemoryStore
from refimpl.wire import Frame, FrameDecoder, command_name, sub_message
from tests.explore.growth import Broken, CountsSpy, Growth
from tests.explore.scalable import NAMES, Follower, ScalableSpy, selected

URL = "pulsar://broker:6650"
NAMESPACE = NAMESPACES[0]
"""The namespace of the client's pattern."""
ADMINISTRATION = {name: kind.weight for name, kind in KINDS.items() if "admin" in kind.requires}
"""What an administrator can do."""
PERIOD = 10.0
REST = 300.0
"""Virtual seconds within which everything has to be right again: a few periods and the longest backoff."""
TOLD = 1.0
"""Virtual seconds within which a client has what it is told, without asking."""


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
    """A broker that comes and goes on one store, and what an exploration does to it.

    What happens is drawn as for `explore`, of what an administrator can do; the names and patterns are those of its scenarios.
    """

    seed: int
    verbose: bool = False
    store: MemoryStore = field(default_factory=MemoryStore)

    def __post_init__(self) -> None:
        self.choice = random.Random(self.seed)
        self.scenario = draw(random.Random(f"{self.seed} scenario"), ADMINISTRATION)
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

    @property
    def pattern(self) -> str:
        """Return the pattern of the client."""
        return f"persistent://{self.scenario.world.pattern(0, 0).replace('${a}', NAMES['a'])}"

    @property
    def follows_scalable(self) -> bool:
        """Tell whether scalable topics come and go."""
        return any(action.kind == "create_scalable_topic" for action in self.scenario.actions)

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
            self.configuration, store=self.store, profiles=self.profiles, proposals=proposals, members=[Member("pulsar://broker:6650")]
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

    @property
    def _present(self) -> MemoryLink:
        if self.link is None:
            self.start()
        assert self.link is not None
        return self.link

    def connect(self, *callbacks: Any) -> MemoryConnection:
        """Open a connection to the broker of this moment, as a link does."""
        return self._present.connect(*callbacks)

    def admin(self, request: AdminRequest, _: str | None = None) -> AdminResponse:
        """Answer an admin call, as a link does."""
        return self._present.admin(request)

    @asynccontextmanager
    async def administrator(self) -> AsyncIterator[Player]:
        """Make the namespaces of the scenario; return what carries out its actions."""

        async def settle(_: Player) -> None:
            await asyncio.sleep(0)

        endpoint = Endpoint(name="comes and goes", service_url=URL, admin_url="http://broker:8080", in_process=self)  # type: ignore[arg-type]
        async with AdminClient(endpoint) as admin:
            player = Player(endpoint, admin, self.scenario.world, NAMES, settle, Allowance(1 << 40))  # it asks for weeks
            player.steps.append(Step(None))
            await player.prepare()
            yield player

    async def goes_on(self, player: Player, actions: Sequence[Action]) -> None:
        """Carry out actions; the namespace is unloaded or deleted, and the broker away for a while."""
        for action in actions:
            await asyncio.sleep(self.choice.choice([0.0, 0.001, 0.05, 1.0, 7.0]) * self.choice.random())
            self.note(str(action))
            await KINDS[action.kind].act(player, **dict(action.arguments))
            if self.growth is not None and self.link is not None and (done := self.growth.action(self.link.broker.admin)):
                self.note(done)
            what = self.choice.choices(["nothing", "stop", "unload", "wipe"], [40, 2, 2, 1])[0]
            self.note(what)
            if what == "stop":
                self.stop()
            elif what == "unload":
                await player.admin("unload_namespace", namespace=NAMESPACE)
            elif what == "wipe":
                await player.admin("delete_namespace", namespace=NAMESPACE, force=True)
                await player.admin("create_namespace", namespace=NAMESPACE)

    async def listed(self, player: Player) -> set[str]:
        """Return the topics that the broker lists for the pattern."""
        heard: asyncio.Future[Any] = self.loop.create_future()

        def listen(_: str, frame: Frame) -> None:
            if command_name(frame.command) == "getTopicsOfNamespaceResponse" and not heard.done():
                heard.set_result(set(frame.command.getTopicsOfNamespaceResponse.topics))

        player.told.listener = listen
        fields = {"request_id": player.request(), "namespace": NAMESPACE, "mode": "PERSISTENT", "topics_pattern": self.pattern}
        await player.send("a", {"getTopicsOfNamespace": fields})
        return set(await heard)

    async def agrees(self, player: Player, subscription: Any, heard: set[str]) -> None:
        """Wait until the client has what the broker lists."""
        while (listed := await self.listed(player)) != subscription.topics or listed != heard:
            await asyncio.sleep(0.1)

    async def follows(self, follower: Follower, player: Player) -> None:
        """Wait until the namespace consumer has what the store has, and again after some changes that only a push can tell."""
        assert self.link is not None
        changes = [action for action in self.scenario.actions if "scalable" in action.kind]
        try:
            async with asyncio.timeout(REST):
                await follower.agrees(self.link.broker)
                for action in changes:
                    await KINDS[action.kind].act(player, **dict(action.arguments))
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
    heard: set[str] = set()

    def on_topics(changes: TopicChanges) -> None:
        world.note(f"the client: +{list(changes.added)} -{list(changes.removed)}")
        for topic in changes.removed:
            heard.remove(topic)
        for topic in changes.added:
            assert topic not in heard, f"{topic} was told twice"
            heard.add(topic)

    world.start(faults=False)
    async with (
        world.administrator() as administrator,
        Client(URL, dial=world.dial, seed=seed, wall_clock_offset=0.0, profiles=world.profiles) as client,
    ):
        world.stop()
        world.start(faults=world.choice.random() < 0.8)
        follower = Follower(client) if world.follows_scalable else None
        subscribing = asyncio.ensure_future(client.subscribe_pattern(world.pattern, "s", discovery_period=PERIOD, on_topics=on_topics))
        consuming = asyncio.ensure_future(world.growth.subscribe(client)) if world.growth is not None else None
        await world.goes_on(administrator, world.scenario.actions)
        world.stop()
        world.start(faults=False)
        assert world.link is not None
        subscription = None
        try:
            async with asyncio.timeout(REST):
                subscription = await _subscribed(subscribing, client, world, on_topics, heard)
                await world.agrees(administrator, subscription, heard)
                if world.growth is not None and consuming is not None:
                    await world.growth.rest(world.link.broker, consuming)
            await asyncio.sleep(6 * PERIOD)  # until now it may have agreed without being connected
            for action in world.scenario.actions:
                await KINDS[action.kind].act(administrator, **dict(action.arguments))
                async with asyncio.timeout(TOLD if world.configuration.enable_broker_topic_list_watcher else REST):
                    await world.agrees(administrator, subscription, heard)
        except TimeoutError:
            known = None if subscription is None else sorted(subscription.topics)
            listed = sorted(await world.listed(administrator))
            raise AssertionError(f"at rest the client knows {known}, the broker lists {listed}; {world.growth}") from None
        assert subscription.topics_hash == topics_hash(heard)
        if follower is not None:
            await world.follows(follower, administrator)
    world.stop()
    assert not world.broken, world.broken


async def _subscribed(
    subscribing: asyncio.Future[Any], client: Client, world: World, on_topics: Callable[[TopicChanges], None], heard: set[str]
) -> Any:
    """Return the subscription; if it was given up while the broker was away, subscribe again."""
    try:
        return await subscribing
    except Exception:
        heard.clear()
        return await client.subscribe_pattern(world.pattern, "s", discovery_period=PERIOD, on_topics=on_topics)


def run(seed: int, *, verbose: bool = False) -> None:
    """Run one seed on a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(simulate(seed, verbose=verbose))


if __name__ == "__main__":
    run(int(sys.argv[1]), verbose=True)
