"""The part of the simulation that is PR 25648: a namespace consumer, and what its watch is told on each connection."""

from __future__ import annotations

import asyncio
from typing import Any

from refimpl.broker import Broker
from refimpl.client import ClientError
from refimpl.net.client import Client, NamespaceSubscription
from refimpl.proposals.scalable_topics import ScalableTopicsExtension, ScalableTopicsProfile, topics_hash
from refimpl.store import MemoryStore
from refimpl.wire import Frame, command_name
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe

NAMES = {"a": "pc-a", "b": "pc-b"}
"""The names of the tenants."""
NAMESPACE = f"{NAMES['a']}/n"
FILTERS = {"k": "v"}


class ScalableSpy:
    """Reads one connection, and keeps each watch's set as a client that applies all of it would.

    Args:
        by_hash: The sets that were ever seen, on all connections: what a client has that is answered by silence.
        profile: What the broker speaks.
    """

    def __init__(self, by_hash: dict[str, frozenset[str]], profile: ScalableTopicsProfile) -> None:
        self._by_hash = by_hash
        self._profile = profile
        self._asked: dict[int, str] = {}
        self._sets: dict[int, set[str]] = {}

    def sent(self, frame: Frame) -> None:
        """Take what the client sends."""
        name = command_name(frame.command)
        if name == "watchScalableTopics":
            request = frame.command.watchScalableTopics
            self._asked[request.watch_id] = request.current_hash
            self._sets.pop(request.watch_id, None)
        elif name == "watchScalableTopicsClose":
            self._asked.pop(frame.command.watchScalableTopicsClose.watch_id, None)

    def received(self, frame: Frame) -> str | None:
        """Take what the client receives; return which rule it breaks."""
        if command_name(frame.command) != "watchScalableTopicsUpdate":
            return None
        update = frame.command.watchScalableTopicsUpdate
        if update.watch_id not in self._asked:
            return None  # it was under way when the client closed the watch
        if update.HasField("error"):
            return f"an error: {update.message}"
        broken = self._snapshot(update) if update.HasField("snapshot") else self._diff(update)
        known = frozenset(self._sets.get(update.watch_id, ()))
        self._by_hash[topics_hash(known)] = known
        return broken

    def _snapshot(self, update: Any) -> str | None:
        topics = list(update.snapshot.topics)
        if update.watch_id in self._sets:
            return "a second snapshot"
        if len(set(topics)) != len(topics):
            return f"listed twice: {topics}"
        if topics_hash(topics) == self._asked[update.watch_id]:
            return f"the client had {topics} already"
        self._sets[update.watch_id] = set(topics)
        return None

    def _diff(self, update: Any) -> str | None:
        added, removed = list(update.diff.added), list(update.diff.removed)
        asked = self._asked[update.watch_id]
        if update.watch_id not in self._sets:
            if not asked:
                return "a diff before the snapshot"
            self._sets[update.watch_id] = set(self._by_hash[asked])  # silence: pr25648.hash.silence
        known = self._sets[update.watch_id]
        if not added + removed or len({*added}) != len(added) or len({*removed}) != len(removed):
            return f"an empty diff, or one that says something twice: +{added} -{removed}"
        if self._profile.coalescing == "cancels_out":
            if not known.issuperset(removed) or not (known - {*removed}).isdisjoint(added):
                return f"+{added} -{removed} makes no sense to a peer that knows {sorted(known)}"
        elif not {*added}.isdisjoint(removed):
            return f"+{added} -{removed} says two things of one topic"
        known -= {*removed}
        known |= {*added}
        return None


def selected(store: MemoryStore) -> set[str]:
    """Return the topics that the filters select, by the store."""
    return {topic for topic, record in store.kept["pr25648"].get(NAMESPACE, {}).items() if record.properties.items() >= FILTERS.items()}


class Follower:
    """A namespace consumer that begins whenever it can."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._changed = asyncio.Event()
        self.subscription: NamespaceSubscription | None = None
        self._begun = asyncio.ensure_future(self._begin())

    async def _begin(self) -> None:
        while self.subscription is None:
            try:
                self.subscription = await self._client.subscribe_namespace(
                    NAMESPACE, "s", property_filters=FILTERS, on_topics=lambda _: self._changed.set(), type=CommandSubscribe.Shared
                )
            except ClientError:
                await asyncio.sleep(1.0)

    async def agrees(self, broker: Broker) -> None:
        """Wait until client and broker agree, and a consumer is attached to each segment."""
        await self._begun
        assert self.subscription is not None
        while self.subscription.topics != selected(broker.store):
            self._changed.clear()
            await self._changed.wait()
        wanted = {name for topic in selected(broker.store) for name in segments(broker, topic)}
        while self.subscription.attached != wanted:
            await asyncio.sleep(0.5)
        assert self.subscription.topics_hash == topics_hash(selected(broker.store))


def segments(broker: Broker, topic: str) -> list[str]:
    """Return the names of a topic's segments."""
    parts = broker.extension(ScalableTopicsExtension).admin.scalable_topic(topic)["segments"].values()
    place = topic.replace("topic://", "segment://")
    return [f"{place}/{one['hashRange']['start']:04x}-{one['hashRange']['end']:04x}-{one['segmentId']}" for one in parts]
