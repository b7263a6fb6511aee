"""Several actors at the same time, without a pause between their actions; judged by what must hold once they have stopped.

- The set that each watcher has accumulated is the one that is listed now, and its last hash is the hash of that set.
- No watcher is told a topic twice, or that one is gone which it did not have.
- A watcher of partition counts has the counts that are answered now.
- A message that was acknowledged is not delivered again, and each other one is.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from conformance.explore.player import Player, Step, clean
from conformance.explore.world import World
from conformance.targets import AdminClient, Endpoint
from refimpl.indexes.topics_hash import topics_hash
from refimpl.wire import Frame, command_name, sub_message

ACTIONS = (10, 25)
"""How few and how many actions each actor carries out."""
PAUSES = (0.0, 0.0, 0.001, 0.01)
"""Seconds between two actions of an actor."""
REST = 1.5
"""Seconds after the last action in which everything comes to rest."""
NOTICE = 0.5
"""Seconds that a change may take to reach who registers afterwards."""
ANSWER_SECONDS = 10.0
_CLOSES = {"topics": "watchTopicListClose", "partitions": "watchPartitionUpdateClose", "scalable": "watchScalableTopicsClose"}
_IDS = {"topics": "watcher_id", "partitions": "watcher_id", "scalable": "watch_id"}
WORLD = World(1, ("t-1", "t-2", "u", "m"), ("{namespace}/t-.*", "{namespace}/.*", "{namespace}/u"))
MESSAGES = (0, 3, None)
"""The topic that messages go through."""


@dataclass
class Watch:
    """What a watcher was told.

    Attributes:
        asked: What it watches.
        known: What it has accumulated; None: nothing was answered yet.
        problems: What it was told and can't be, with the topics that it is about.
        since: When it was asked for.
        until: When it was answered.
    """

    asked: Mapping[str, Any]
    since: float
    until: float = math.inf
    known: Any = None
    hash: str | None = None
    problems: list[tuple[str, frozenset[str]]] = field(default_factory=list)


@dataclass(frozen=True)
class Played:
    """What became of concurrent actions: what does not hold afterwards, and how many there were."""

    problems: list[str]
    actions: int


class Observer:
    """Follows what the actors are told.

    Args:
        player: Carries out their actions.
    """

    def __init__(self, player: Player) -> None:
        self.watches: dict[tuple[str, str, int], Watch] = {}
        self.acknowledged: set[str] = set()
        self.published: set[str] = set()
        self.changes: list[tuple[str, float, float]] = []
        self.closed_early = False
        self._player = player
        self._answers: set[asyncio.Future[None]] = set()

    def heard(self, at: str, frame: Frame) -> None:
        """Take a frame."""
        name = command_name(frame.command)
        take = {
            "watchTopicListSuccess": self._success,
            "watchTopicUpdate": self._update,
            "watchPartitionUpdateSuccess": self._counts,
            "partitionUpdate": self._counts,
            "watchScalableTopicsUpdate": self._scalable,
        }.get(name)
        if take is not None:
            take(at, sub_message(frame.command))

    def raced(self, watch: Watch, topics: Collection[str]) -> bool:
        """Tell whether topics were changed, each of them, while a watcher was being registered."""
        return bool(topics) and all(
            any(
                (topic == changed or topic.startswith(f"{changed}-partition-")) and begun <= watch.until and watch.since <= ended + NOTICE
                for changed, begun, ended in self.changes
            )
            for topic in topics
        )

    def _success(self, at: str, message: Any) -> None:
        watch = self.watches.get(("topics", at, message.watcher_id))
        if watch is not None:
            watch.known, watch.hash, watch.until = set(message.topic), message.topics_hash, asyncio.get_running_loop().time()

    def _update(self, at: str, message: Any) -> None:
        watch = self.watches.get(("topics", at, message.watcher_id))
        if watch is None:
            return
        if watch.known is None:
            watch.problems.append(("an update came before the answer", frozenset()))
            return
        gone = (topic for topic in message.deleted_topics if topic not in watch.known)
        watch.problems += ((f"{topic} was told as gone, and was not there", frozenset({topic})) for topic in gone)
        watch.known -= set(message.deleted_topics)
        twice = (topic for topic in message.new_topics if topic in watch.known)
        watch.problems += ((f"{topic} was told twice", frozenset({topic})) for topic in twice)
        watch.known |= set(message.new_topics)
        watch.hash = message.topics_hash

    def _counts(self, at: str, message: Any) -> None:
        watch = self.watches.get(("partitions", at, message.watcher_id))
        if watch is None:
            return
        watch.known = {one.topic: one.partition for one in message.topic_with_partition}
        if message.DESCRIPTOR.name == "CommandPartitionUpdate":
            result = {"version": message.version, "success": True, "watcher_id": message.watcher_id}
            self._answers.add(asyncio.ensure_future(self._player.send(at, {"partitionUpdateResult": result})))

    def _scalable(self, at: str, message: Any) -> None:
        watch = self.watches.get(("scalable", at, message.watch_id))
        if watch is None:
            return
        if message.HasField("snapshot"):
            watch.known = set(message.snapshot.topics)
        elif message.HasField("diff") and watch.known is None:
            watch.problems.append(("a diff came before the snapshot", frozenset()))
        elif message.HasField("diff"):
            watch.known -= set(message.diff.removed)
            watch.known |= set(message.diff.added)


class Actor:
    """One actor: a connection of its own, and what it does by chance.

    Args:
        at: Its connection.
        chance: The source of chance.
        player: Carries out the actions.
        observer: Follows what is told.
        capabilities: What the target can do.
    """

    def __init__(self, at: str, chance: random.Random, player: Player, observer: Observer, capabilities: Mapping[str, bool]) -> None:
        self._at = at
        self._chance = chance
        self._player = player
        self._observer = observer
        self._next_watcher = 1
        self.done = 0
        self._kinds = [self._create, self._create, self._delete, self._grow, self._publish, self._publish, self._acknowledge]
        if capabilities.get("topic-list-watch"):
            self._kinds += [self._watch, self._watch, self._close]
        if capabilities.get("partition-watch"):
            self._kinds += [self._watch_partitions]
        if capabilities.get("scalable-topics"):
            self._kinds += [self._watch_scalable, self._close, self._change_scalable, self._change_scalable]

    async def act(self) -> None:
        """Carry out some actions."""
        for _ in range(self._chance.randint(*ACTIONS)):
            await self._chance.choice(self._kinds)()
            self.done += 1
            await asyncio.sleep(self._chance.choice(PAUSES))

    def _topic(self, domain: str = "persistent") -> str:
        return WORLD.topic((0, self._chance.randrange(3), None), domain)

    def _watcher(self, kind: str, asked: Mapping[str, Any]) -> int:
        number, self._next_watcher = self._next_watcher, self._next_watcher + 1
        self._observer.watches[kind, self._at, number] = Watch(asked, asyncio.get_running_loop().time())
        return number

    async def _change(self, operation: str, topic: str, **more: Any) -> None:
        begun = asyncio.get_running_loop().time()
        await self._player.admin(operation, topic=topic, **more)
        self._observer.changes.append((self._player.concrete(topic), begun, asyncio.get_running_loop().time()))

    async def _create(self) -> None:
        await self._change("create_topic", self._topic())

    async def _delete(self) -> None:
        operation = self._chance.choice(("delete_topic", "delete_topic", "delete_partitioned_topic"))
        await self._change(operation, self._topic(), force=True)

    async def _grow(self) -> None:
        operation = self._chance.choice(("create_partitioned_topic", "update_partitioned_topic"))
        await self._change(operation, self._topic(), partitions=self._chance.randint(1, 4))

    async def _change_scalable(self) -> None:
        topic = self._topic("topic")
        if self._chance.random() < 0.6:
            await self._player.admin("create_scalable_topic", topic=topic, properties={})
        else:
            await self._player.admin("delete_scalable_topic", topic=topic, force=True)

    async def _watch(self) -> None:
        pattern = WORLD.pattern(0, self._chance.randrange(3))
        watcher = self._watcher("topics", {"pattern": pattern})
        fields = {"request_id": self._player.request(), "watcher_id": watcher, "namespace": WORLD.namespace(0)}
        await self._player.send(self._at, {"watchTopicList": {**fields, "topics_pattern": f"persistent://{pattern}"}})

    async def _close(self) -> None:
        known = [key for key in self._observer.watches if key[1] == self._at]
        if known:
            key = self._chance.choice(known)
            closed = self._observer.watches.pop(key)
            self._observer.closed_early |= key[0] == "topics" and closed.known is None
            request = {} if key[0] == "scalable" else {"request_id": self._player.request()}
            await self._player.send(self._at, {_CLOSES[key[0]]: {**request, _IDS[key[0]]: key[2]}})

    async def _watch_partitions(self) -> None:
        topics = [WORLD.topic((0, number, None)) for number in range(3)]
        watcher = self._watcher("partitions", {"topics": topics})
        fields = {"request_id": self._player.request(), "watcher_id": watcher, "topics": topics}
        await self._player.send(self._at, {"watchPartitionUpdate": fields})

    async def _watch_scalable(self) -> None:
        watch = self._watcher("scalable", {})
        await self._player.send(self._at, {"watchScalableTopics": {"watch_id": watch, "namespace": WORLD.namespace(0)}})

    async def _publish(self) -> None:
        sequence = self._player.sequence((self._at, 1))
        body = f"{self._at}{sequence}"
        self._observer.published.add(body)
        metadata = {"producer_name": self._at, "sequence_id": sequence, "publish_time": 1}
        await self._player.send(self._at, {"send": {"producer_id": 1, "sequence_id": sequence}}, {"metadata": metadata, "body": body})

    async def _acknowledge(self) -> None:
        mine = [
            one for one in self._player.told.deliveries.values() if one.at == self._at and one.order[2] not in self._observer.acknowledged
        ]
        if mine:
            delivery = self._chance.choice(sorted(mine, key=lambda one: one.order))
            self._observer.acknowledged.add(delivery.order[2])
            fields = {"consumer_id": delivery.consumer, "ack_type": "Individual", "message_id": [delivery.message_id]}
            await self._player.send(self._at, {"ack": fields})


async def play(endpoint: Endpoint, capabilities: Mapping[str, bool], seed: str, names: Mapping[str, str], slow: float = 1.0) -> Played:
    """Let three actors act at the same time on a target with an admin interface; return what does not hold afterwards."""

    async def settle(player: Player) -> None:
        await asyncio.sleep(0.2 * slow)
        player.drain()

    chance = random.Random(seed)
    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(AdminClient(endpoint))
        player = Player(endpoint, admin, WORLD, names, settle)
        observer = Observer(player)
        player.told.listener = observer.heard
        try:
            await _prepare(player)
            actors = [Actor(at, random.Random(chance.random()), player, observer, capabilities) for at in "abc"]
            async with asyncio.TaskGroup() as tasks:
                for actor in actors:
                    tasks.create_task(actor.act())
            await player.fence(all_of_them=True)
            await asyncio.sleep(REST * slow)
            player.drain()
            return Played([problem async for problem in _problems(player, observer)], sum(actor.done for actor in actors))
        finally:
            await player.end()
            if not endpoint.thrown_away:
                await clean(admin, names)


async def _prepare(player: Player) -> None:
    """Make the namespace, a topic for messages, and on each connection a producer and a consumer of one subscription."""
    player.steps.append(Step(None))
    await player.prepare()
    topic = WORLD.topic(MESSAGES)
    for at in "abc":
        await player.look_up(at, topic)
        fields = {"topic": topic, "subscription": "s", "subType": "Shared", "consumer_id": 1, "request_id": player.request()}
        player.subscribes(at, {**fields, "topic": topic})
        await player.send(at, {"subscribe": {**fields, "initialPosition": "Earliest"}})
        await player.send(at, {"producer": {"topic": topic, "producer_id": 1, "request_id": player.request()}})
        await player.settle()
        await player.send(at, {"flow": {"consumer_id": 1, "messagePermits": 100}})


async def _problems(player: Player, observer: Observer) -> AsyncIterator[str]:
    for (kind, at, number), watch in observer.watches.items():
        name = f"{kind} watcher {number} on {at}"
        for problem, topics in watch.problems:
            yield f"{name}: {problem}{_raced(observer, watch, topics)}"
        closed = " (one was closed while it was being registered)" if observer.closed_early else ""
        try:
            now = await _agreed(player, observer, kind, watch)
        except TimeoutError:
            yield f"{name}: what it ought to know gets no answer{closed}"
            continue
        if watch.known is None:
            yield f"{name} got no answer{closed}"
        elif now != watch.known:
            others = _others(watch.known, now)
            yield f"{name} was told {_shown(watch.known)}; now it is {_shown(now)}{_raced(observer, watch, others)}"
        elif kind == "topics" and watch.hash != topics_hash(watch.known):
            yield f"{name} has the hash {watch.hash}; that of {_shown(watch.known)} is {topics_hash(watch.known)}"
    for problem in await _lost_and_repeated(player, observer):
        yield problem


async def _agreed(player: Player, observer: Observer, kind: str, watch: Watch) -> Any:
    """Return what a watcher ought to know. A machine may be busy: while it knows something else, wait and ask again."""
    loop = asyncio.get_running_loop()
    until = loop.time() + ANSWER_SECONDS
    while True:
        now = await _now(player, observer, kind, watch)
        known = observer.closed_early if watch.known is None else observer.raced(watch, _others(watch.known, now))
        if now == watch.known or known or loop.time() >= until:
            return now
        await asyncio.sleep(REST)


async def _now(player: Player, observer: Observer, kind: str, watch: Watch) -> Any:
    """Ask on a new connection what a watcher ought to know."""
    heard: list[Any] = []

    def listen(at: str, frame: Frame) -> None:
        observer.heard(at, frame)
        if at == "z":
            heard.append(sub_message(frame.command))

    player.told.listener = listen
    await player.disconnect("z", "fin")
    if kind == "topics":
        fields = {
            "request_id": player.request(),
            "namespace": WORLD.namespace(0),
            "mode": "PERSISTENT",
            "topics_pattern": watch.asked["pattern"],
        }
        await player.send("z", {"getTopicsOfNamespace": fields})
        await _until(player, heard)
        return {topic for one in heard if hasattr(one, "topics") for topic in one.topics}
    if kind == "partitions":
        for topic in watch.asked["topics"]:
            fields = {"topic": topic, "request_id": player.request(), "metadata_auto_creation_enabled": False}
            count = len(heard)
            await player.send("z", {"partitionMetadata": fields})
            await _until(player, heard, count + 1)
        topics = [player.concrete(topic) for topic in watch.asked["topics"]]
        return {topic: answer.partitions for topic, answer in zip(topics, heard, strict=True)}
    await player.send("z", {"watchScalableTopics": {"watch_id": player.request(), "namespace": WORLD.namespace(0)}})
    await _until(player, heard)
    return {topic for one in heard if hasattr(one, "snapshot") for topic in one.snapshot.topics}


async def _lost_and_repeated(player: Player, observer: Observer) -> list[str]:
    """Take the subscription over with a new consumer, and compare what it gets with what is not acknowledged."""
    for at in "abc":
        await player.disconnect(at, "fin")
    await player.settle()
    player.told.deliveries.clear()
    topic = WORLD.topic(MESSAGES)
    await player.look_up("z", topic)
    fields = {"topic": topic, "subscription": "s", "subType": "Shared", "consumer_id": 1, "request_id": player.request()}
    player.subscribes("z", fields)
    await player.send("z", {"subscribe": fields})
    await player.settle()
    await player.send("z", {"flow": {"consumer_id": 1, "messagePermits": 1000}})
    due = observer.published - observer.acknowledged
    loop = asyncio.get_running_loop()
    until = loop.time() + ANSWER_SECONDS
    while not due <= _got(player) and loop.time() < until:
        await player.settle()
    await player.settle()
    got = _got(player)
    lost, repeated = sorted(due - got), sorted(got - due)
    return [f"not delivered, though nobody acknowledged it: {one}" for one in lost] + [
        f"delivered again after it was acknowledged: {one}" for one in repeated
    ]


def _got(player: Player) -> set[str]:
    return {one.order[2] for one in player.told.deliveries.values()}


async def _until(player: Player, heard: list[Any], count: int = 1) -> None:
    async with asyncio.timeout(ANSWER_SECONDS):
        while len(heard) < count:
            player.changed.clear()
            player.drain()
            if len(heard) < count:
                await player.changed.wait()


def _others(known: Any, now: Any) -> set[str]:
    """Return the topics about which two sets, or two mappings, differ."""
    if isinstance(known, dict):
        return {topic for topic, _ in known.items() ^ now.items()}
    return set(known ^ now)


def _raced(observer: Observer, watch: Watch, topics: Collection[str]) -> str:
    return " (changed while it was being registered)" if observer.raced(watch, topics) else ""


def _shown(known: Any) -> str:
    return str(dict(sorted(known.items())) if isinstance(known, dict) else sorted(known))
