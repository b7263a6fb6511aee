"""The part of the simulation that PIP-247 has: a consumer of one partitioned topic that is extended, deleted and created again.

On the way each connection is watched: no command of the proposal without its flag, nothing before the answer to a watch, versions
that only grow, an update for each change of a count and for nothing else. At rest both sides have the same partitions.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Self

from refimpl.broker import Broker
from refimpl.broker.admin import Admin
from refimpl.client import ClientError
from refimpl.net.client import Client, Consumer
from refimpl.proposals.partition_watch import PartitionWatchExtension
from refimpl.store import MemoryStore
from refimpl.wire import command_name, sub_message
from refimpl.wire.pulsar_api_pb2 import BaseCommand

TOPIC = "persistent://public/default/g"
INTERVAL = 10.0
"""Seconds between two looks at the partitions, where the broker does not tell their number."""

_ASKED = ("watchPartitionUpdate", "watchPartitionUpdateClose", "partitionUpdateResult")


class Broken(AssertionError):
    """A rule that was broken on the way."""


class CountsSpy:
    """Reads both directions of one connection, and keeps what each watcher was told."""

    def __init__(self) -> None:
        self._offered = False
        self._told: dict[int, tuple[int, dict[str, int]]] = {}  # version and counts by watcher
        self._closing: dict[int, int] = {}

    def sent(self, command: BaseCommand) -> None:
        """Take what the client sends."""
        name = command_name(command)
        if name in _ASKED and not self._offered:
            raise Broken(f"the client sends {name} to a broker that does not offer it")
        if name == "watchPartitionUpdateClose":
            self._closing[command.watchPartitionUpdateClose.request_id] = command.watchPartitionUpdateClose.watcher_id

    def received(self, command: BaseCommand) -> None:
        """Take what the client receives."""
        name, message = command_name(command), sub_message(command)
        if name == "connected":
            self._offered = message.feature_flags.supports_partition_update_watchers
        elif name == "watchPartitionUpdateSuccess":
            version = self._told.get(message.watcher_id, (0, {}))[0]
            self._told[message.watcher_id] = version, _counts(message)
        elif name == "partitionUpdate":
            self._update(message)
        elif name == "success" and message.request_id in self._closing:
            self._told.pop(self._closing.pop(message.request_id), None)

    def _update(self, update: Any) -> None:
        if update.watcher_id not in self._told:
            raise Broken("partitions are told before the answer to a watch, or after its close")
        version, counts = self._told[update.watcher_id]
        if update.version != version + (_counts(update) != counts):
            raise Broken(f"version {version} told {counts}, version {update.version} tells {_counts(update)}")
        self._told[update.watcher_id] = update.version, _counts(update)


class Growth:
    """The topic and its consumer.

    Args:
        store: Has the topic.
        choice: Decides what happens; none of the decisions of the rest of the simulation.
    """

    SHARE = 0.1
    """The part of all seeds that have it."""

    def __init__(self, store: MemoryStore, choice: random.Random) -> None:
        self._store = store
        self._choice = choice
        self._heard = 0
        self.consumer: Consumer | None = None

    @classmethod
    def of(cls, seed: int, store: MemoryStore) -> Self | None:
        """Return it for a seed that has it."""
        choice = random.Random(f"growth {seed}")
        return cls(store, choice) if choice.random() < cls.SHARE else None

    def is_offered(self) -> bool:
        """Decide whether the next broker knows the proposal."""
        return self._choice.random() < 0.8

    @property
    def count(self) -> int:
        """Return the number of partitions, by the store."""
        return self._store.namespaces["public/default"].partitioned.get(TOPIC, 0)

    def action(self, admin: Admin, *, now: bool = False) -> str:
        """Let an administrator do something, or nothing; return what."""
        if not now and self._choice.random() < 0.6:
            return ""
        if not self.count:
            admin.create_partitioned_topic(TOPIC, self._choice.randint(1, 3))
        elif self.count > 5 or self._choice.random() < 0.2:
            admin.delete_partitioned_topic(TOPIC, force=True)
        else:
            admin.update_partitioned_topic(TOPIC, self.count + self._choice.randint(1, 2))
        return f"{TOPIC} has {self.count} partitions"

    async def subscribe(self, client: Client) -> None:
        """Begin to consume, as soon as there is something to be consumed."""
        choices = {"auto_update_partitions_interval": INTERVAL, "partitions_update_listener": self._listen}
        while self.consumer is None:
            try:
                self.consumer = await client.subscribe(TOPIC, "s", force_topic_creation=False, **choices)
            except ClientError:  # there is no topic, or no broker for long
                await asyncio.sleep(self._choice.random())

    def _listen(self, _: tuple[str, ...], counts: tuple[int, ...]) -> None:
        assert counts[0] >= self._heard, f"{counts[0]} partitions after {self._heard}"
        if self._choice.random() < 0.2:
            raise ValueError("the application is not ready")
        self._heard = counts[0]

    async def rest(self, broker: Broker, consuming: asyncio.Future[None]) -> None:
        """Wait until the client is attached to the partitions that there are, and the broker has the results of all updates."""
        if not self.count:
            self.action(broker.admin, now=True)
        await consuming
        await self._come_to_rest(broker)
        for _ in range(2):  # what a client reads after a restart is no proof that it was told
            self.action(broker.admin, now=True)
            await self._come_to_rest(broker)

    async def _come_to_rest(self, broker: Broker) -> None:
        while not self._at_rest(broker):
            await asyncio.sleep(0.5)

    def _at_rest(self, broker: Broker) -> bool:
        wanted = {f"{TOPIC}-partition-{number}" for number in range(self.count)}
        told = [one for one in broker.extensions.values() if isinstance(one, PartitionWatchExtension)]
        return self.consumer is not None and self.consumer.attached == wanted and all(one.watches.next_deadline() is None for one in told)

    def __str__(self) -> str:
        attached = None if self.consumer is None else sorted(self.consumer.attached)
        return f"the growing topic has {self.count} partitions, the client is attached to {attached}"


def _counts(told: Any) -> dict[str, int]:
    return {one.topic: one.partition for one in told.topic_with_partition}
