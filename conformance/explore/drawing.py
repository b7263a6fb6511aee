"""Scenarios drawn by chance. Each begins with something that works (consumers of one topic, watchers of one namespace), goes on with
what is drawn around it, and ends with actions that show what has become of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from conformance.explore.actions import KINDS
from conformance.explore.kinds import CONNECTION, ID
from conformance.explore.world import Action, Place, Scenario, World

LOCAL_NAMES = (
    "t", "u", "t-1", "T", "t-10", "tt", "t.1", "t+1", "t%2F1", "t/1", "t 1", "t$", "\u00fc", "u\u0308", "\u540d",
    "t-partition-0", "t-partition-x", "t-partition-01", "x" * 200,
)  # fmt: skip
"""Local names of topics: twins by case, by prefix, by an end like that of a partition, by percent-encoding, by composed letters."""
PATTERNS = (
    "{namespace}/t.*", "{namespace}/.*", "{namespace}/t", "{namespace}/[tu]", "{namespace}/T.*", "{namespace}/.*1",
    "{namespace}/t|{namespace}/u", "{namespace}/(?:t|tt)", "{namespace}/t-\\d+", "{namespace}/\\w+", "{namespace}/(?i)t.*",
    "{namespace}/x*", "{namespace}/u.*", "{namespace}/tt?",
)  # fmt: skip
"""Patterns of topic names, for each namespace."""
LENGTHS = (3, 14)
"""How few and how many actions are drawn between the beginning and the end."""
_RARE = (
    "acknowledge_some", "acknowledge_part", "ask_statistics", "publish_chunks", "publish_encrypted", "publish_late", "read_from",
    "seek_part", "seek_time", "terminate_topic", "create_subscription", "delete_subscription", "skip_all_messages", "reset_cursor",
    "redeliver_of_another",
)  # fmt: skip
"""Kinds of actions around messages, of which each scenario prefers a few."""
_SUBSCRIBING = ("subscribe", "subscribe_with_filter", "subscribe_with_properties")


class _Drawing:
    """Draws one scenario.

    Args:
        chance: The source of chance.
        weights: How often each kind of action is drawn, compared with the others.
    """

    def __init__(self, chance: random.Random, weights: Mapping[str, int]) -> None:
        self._chance = chance
        self._weights = weights
        self.world = World(
            chance.choice((1, 1, 2, 3)),
            tuple(chance.sample(LOCAL_NAMES, chance.choice((1, 2, 2, 3)))),
            tuple(chance.sample(PATTERNS, chance.choice((1, 1, 2, 3)))),
        )

    def act(self, kind: str, **given: Any) -> Iterator[Action]:
        """Yield an action of a kind, with what is given and the rest by chance; nothing if the target can't do it."""
        if kind in self._weights:
            parameters = KINDS[kind].parameters.items()
            drawn = ((name, one.draw(self._chance) if given.get(name) is None else given[name]) for name, one in parameters)
            yield Action(kind, tuple(drawn))

    def some(self, favourites: tuple[str, ...], count: tuple[int, int] = LENGTHS) -> Iterator[Action]:
        """Yield actions by chance, most of them of some kinds, and without some others, so that those that are left meet more often."""
        kept = {kind: weight * (5 if kind in favourites else 1) for kind, weight in self._weights.items() if self._chance.random() < 0.7}
        for kind in self._chance.choices(tuple(kept), tuple(kept.values()), k=self._chance.randint(*count)) if kept else ():
            yield from self.act(kind)

    def repeated(self, least: int, most: int) -> range:
        """Return a range with a length by chance."""
        return range(self._chance.randint(least, most))

    def places(self, most: int) -> list[tuple[str, int]]:
        """Return some places for watchers or consumers, each a connection and an id."""
        drawn = [(CONNECTION.draw(self._chance), ID.draw(self._chance)) for _ in self.repeated(1, most)]
        return list(dict.fromkeys(drawn))

    def messages(self) -> Iterator[Action]:
        """Consumers of one topic, messages, and a bystander; at the end all of them come back."""
        kind = self._chance.choice([one for one in _SUBSCRIBING if one in self._weights])
        partition = self._chance.choice((None,) * 6 + (0, 10))
        topic, base = (0, 0, partition), (0, 0, None)
        domain = self._chance.choice(("persistent", "persistent", "persistent", "persistent", "non-persistent"))
        how = {name: one.draw(self._chance) for name, one in KINDS[kind].parameters.items()}
        fixed = {"topic": topic, "subscription": "s", "position": "Earliest", "domain": domain}
        how |= {name: value for name, value in fixed.items() if name in how}
        yield from (
            self.act("create_topic", topic=base)
            if partition is None
            else self.act("create_partitioned_topic", topic=base, partitions=partition + 2)
        )
        places = self.places(3)
        for at, consumer in places:
            yield from self.act(kind, **{**how, "at": at, "consumer": consumer, "priority": self._chance.choice((0, 0, 1))})
            yield from self.act("flow", number=self._chance.randrange(3))
        bystander = {
            "at": "c",
            "consumer": 7,
            "type": "Exclusive",
            "position": "Earliest",
            "durable": True,
            "domain": domain,
            "priority": 0,
        }
        bystander |= self._chance.choice(({"topic": topic, "subscription": "r"}, {"topic": (0, 1, None), "subscription": "s"}))
        yield from self.act("subscribe", **bystander)
        producers = self.places(2)
        for at, producer in producers:
            yield from self.act("produce", at=at, producer=producer, topic=topic, domain=domain)
        yield from self.act("produce", at="a", producer=7, topic=bystander["topic"], domain=domain)
        for _ in self.repeated(1, 4):
            yield from self.act(self._publishing())
        usual = ("publish", "flow", "acknowledge", "redeliver", "close_consumer", "disconnect", "seek", "unload_topic", "publish_batch")
        around = (*usual, *self._chance.sample(_RARE, 2))
        for action in self.some(around):
            given = dict(action.arguments)
            if action.kind == kind and self._chance.random() < 0.8:
                yield from self.act(kind, **{**how, "at": given["at"], "consumer": given["consumer"], "position": given.get("position")})
            elif "topic" in given and self._chance.random() < 0.7:
                yield from self.act(action.kind, **{**given, "topic": topic})
            else:
                yield action
        if self._chance.random() < 0.15:
            yield from self._unsubscribed(topic)
        yield from self._shown(kind, how)
        if self._chance.random() < 0.3:
            yield from self._deleted(topic, [*producers, ("a", 7)])

    def by_key(self) -> Iterator[Action]:
        """Consumers that share a topic by keys; at the end others come, perhaps without keys."""
        topic = (0, 0, None)
        domain = self._chance.choice(("persistent",) * 5 + ("non-persistent",))
        modes = self._chance.choice((("auto",), ("auto",), ("lower", "upper"), ("all",), ("ends", "lower", "upper", "all")))
        unordered = self._chance.random() < 0.2
        fixed: dict[str, Any] = {"topic": topic, "domain": domain, "subscription": "s", "unordered": unordered}
        keys = self._chance.choice((("k", "l"), ("k", "l", "m"), (None,)))
        yield from self.act("create_topic", topic=topic)
        yield from self.act("produce", at="a", producer=7, topic=topic, domain=domain)
        for number, (at, consumer) in enumerate(self.places(3)):  # what is sent to one is pending when the next one joins
            yield from self.act("subscribe_by_key", **fixed, at=at, consumer=consumer, ranges=modes[number % len(modes)])
            yield from self.act("flow", number=number, permits=self._chance.choice((1, 2, 10, 10)))
            for _ in self.repeated(1, 5):
                yield from self.act("publish_by_key", key=self._chance.choice(keys))
        for number in range(3):
            yield from self.act("flow", number=number)
        for _ in self.repeated(0, 3):
            yield from self.act("acknowledge")
        around = ("publish_by_key", "flow", "flow", "acknowledge", "redeliver", "close_consumer", "disconnect", "subscribe_by_key")
        for action in self.some(around):
            given = dict(action.arguments)
            if action.kind == "subscribe_by_key" and self._chance.random() < 0.9:
                yield from self.act("subscribe_by_key", **{**given, **fixed, "ranges": self._chance.choice(modes)})
            elif "topic" in given and self._chance.random() < 0.7:
                yield from self.act(action.kind, **{**given, "topic": topic})
            else:
                yield action
        for number in range(3):
            yield from self.act("flow", number=number, permits=10)
        for _ in self.repeated(0, 4):
            yield from self.act("acknowledge")
        for _ in self.repeated(1, 3):
            yield from self.act("publish_by_key", key=self._chance.choice(keys))
        for _ in self.repeated(0, 4):
            yield from self.act(self._chance.choice(("acknowledge", "redeliver")))
        if self._chance.random() < 0.6:
            yield from self._all_gone()
            for at in "ab":
                how = {"topic": topic, "domain": domain, "subscription": "s", "type": "Shared", "position": "Earliest", "durable": True}
                yield from self.act("subscribe", **how, at=at, consumer=1, priority=0)
            yield from self.act("flow", number=0, permits=10)
            yield from self.act("produce", at="c", producer=7, topic=topic, domain=domain)
            for _ in range(3):
                yield from self.act("publish_by_key")

    def _all_gone(self) -> Iterator[Action]:
        """End all connections."""
        for at in "abc":
            yield from self.act("disconnect", at=at, how="fin")

    def alone(self) -> Iterator[Action]:
        """Producers that want a topic alone, and such as do not; at the end one sends, and one comes anew."""
        topic = (0, 0, None)
        yield from self.act("create_topic", topic=topic)
        for at, producer in self.places(3):
            yield from self.act("produce_alone", at=at, producer=producer, topic=topic)
        around = ("produce_alone", "produce_alone", "produce", "close_producer", "disconnect", "unload_topic", "publish")
        for action in self.some(around):
            given = dict(action.arguments)
            more = {"topic": topic, "domain": "persistent"} if "topic" in given and self._chance.random() < 0.9 else {}
            yield from self.act(action.kind, **{**given, **{name: value for name, value in more.items() if name in given}})
        yield from self.act("publish")
        for at, producer in self.places(2):
            yield from self.act("close_producer", at=at, producer=producer)
        yield from self.act("produce_alone", at="c", producer=7, topic=topic, access="WaitForExclusive")
        yield from self.act("publish")

    def delayed(self) -> Iterator[Action]:
        """Messages that are delivered later, to consumers of one subscription and to another one."""
        topic = (0, 0, None)
        how = {"topic": topic, "domain": "persistent", "subscription": "s", "position": "Earliest", "durable": True, "priority": 0}
        how["type"] = self._chance.choice(("Shared", "Shared", "Shared", "Exclusive", "Failover"))
        yield from self.act("create_topic", topic=topic)
        for at, consumer in self.places(2):
            yield from self.act("subscribe", **how, at=at, consumer=consumer)
            yield from self.act("flow", number=0, permits=10)
        yield from self.act("subscribe", **{**how, "subscription": "r"}, at="c", consumer=7)
        yield from self.act("produce", at="c", producer=7, topic=topic, domain="persistent")
        for _ in self.repeated(1, 3):
            yield from self.act("publish_delayed", number=0)
            yield from self.act("publish", number=0)
        around = ("publish_delayed", "flow", "acknowledge", "redeliver", "close_consumer", "disconnect", "seek", "ask_statistics")
        for action in self.some(around, (1, 6)):
            yield from self.act(
                action.kind, **{**dict(action.arguments), **({"topic": topic} if "topic" in dict(action.arguments) else {})}
            )
        yield from self.act("subscribe", **how, at="a", consumer=1)
        yield from self.act("flow", number=0, permits=10)
        if self._chance.random() < 0.3:
            yield from self.act("wait_for_delayed")
            yield from self.act("flow", number=1, permits=10)

    def schemas(self) -> Iterator[Action]:
        """Producers and consumers with schemas of one topic, or of its partitions."""
        yield from self.act(self._chance.choice(("create_topic", "create_partitioned_topic")), topic=(0, 0, None), partitions=2)
        around = ("produce_with_schema", "subscribe_with_schema", "bring_schema", "ask_schema", "ask_schema")
        for action in self.some((*around, "delete_topic", "delete_partitioned_topic", "close_consumer", "close_producer"), (8, 16)):
            given = dict(action.arguments)
            place = (0, 0, self._chance.choice((None, None, 0, 1)))
            yield from self.act(action.kind, **{**given, **({"topic": place} if "topic" in given else {})})
        yield from self.act("create_partitioned_topic", topic=(0, 0, None), partitions=2)
        yield from self.act("ask_schema", topic=(0, 0, None), version=None)

    def records(self) -> Iterator[Action]:
        """Records of several versions of a schema, and consumers that filter them."""
        topic = (0, 0, None)
        yield from self.act("create_topic", topic=topic)
        yield from self.act("produce_records", at="a", producer=1, topic=topic)
        for action in self.some(("subscribe_with_field", "publish_record", "produce_records", "flow", "close_consumer"), (6, 14)):
            given = dict(action.arguments)
            yield from self.act(action.kind, **{**given, **({"topic": topic} if "topic" in given else {})})
        yield from self.act("subscribe_with_field", at="b", consumer=7, topic=topic, subscription="r")
        for number in range(2):
            yield from self.act("flow", number=number, permits=10)
            yield from self.act("publish_record")

    def _deleted(self, topic: Place, producers: list[tuple[str, int]]) -> Iterator[Action]:
        """Delete a topic without force, while somebody may use it, and when nobody does any more; at the end it is made again."""
        whole = (*topic[:2], None)
        delete = ("delete_topic", "delete_partitioned_topic")[topic[2] is not None]
        yield from self.act(delete, topic=whole, force=False)
        for at, producer in producers:
            yield from self.act("close_producer", at=at, producer=producer)
        for _ in range(4):
            yield from self.act("close_consumer", number=0)
        yield from self.act(delete, topic=whole, force=False)
        yield from self.act("subscribe", at="a", consumer=1, topic=topic, domain="persistent", subscription="s", position="Earliest")
        yield from self.act("flow", number=0, permits=10)

    def _unsubscribed(self, topic: Place) -> Iterator[Action]:
        """Delete a subscription, and unload its topic."""
        for number in (2, 1):
            yield from self.act("close_consumer", number=number)
        yield from self.act("unsubscribe", number=0)
        yield from self.act("unload_topic", topic=topic)

    def _shown(self, kind: str, how: Mapping[str, Any]) -> Iterator[Action]:
        """Show what has become of consumers: who gets what now, and what is delivered to those who come back."""
        for number in range(3):
            yield from self.act("flow", number=number, permits=10)
        for number in range(3):
            yield from self.act("publish", number=number)
        if self._chance.random() < 0.3:
            yield from self.act(self._publishing(), number=0)
            yield from self.act("ask_last_message", number=0)
        for _ in self.repeated(0, 2):
            yield from self.act("acknowledge")
        if self._chance.random() < 0.7:
            yield from self._all_gone()
            yield from self.act(kind, **{**how, "at": "a", "consumer": 1})
            yield from self.act("flow", number=0, permits=10)

    def _publishing(self) -> str:
        return self._chance.choice(
            [one for one in ("publish", "publish", "publish_batch", "publish_uniform_batch") if one in self._weights]
        )

    def topic_watches(self) -> Iterator[Action]:
        """Watchers of topics; at the end topics come and go."""
        for at, watcher in self.places(3):
            yield from self.act("watch_topics", at=at, watcher=watcher, which="none")
        if self._chance.random() < 0.3:
            yield from self._deleted_in_part()
        around = (
            "create_topic",
            "delete_topic",
            "create_partitioned_topic",
            "update_partitioned_topic",
            "watch_topics",
            "close_topic_watch",
        )
        yield from self.some((*around, "disconnect", "list_topics"))
        for name in range(2):
            yield from self.act("create_topic", topic=(self._chance.randrange(3), name, None))
            yield from self.act("create_topic", topic=(0, name, None))
        yield from self.act("delete_topic", topic=(0, 0, None), force=True)
        yield from self.act("list_topics", at="a", which="none", mode="ALL")

    def _deleted_in_part(self) -> Iterator[Action]:
        """A topic that can't be deleted, since one of its partitions is in use."""
        partitions = self._chance.randint(2, 4)
        yield from self.act("create_partitioned_topic", topic=(0, 0, None), partitions=partitions)
        used = (0, 0, self._chance.randrange(partitions))
        yield from self.act("produce", at="b", producer=7, topic=used, domain="persistent")
        yield from self.act("delete_partitioned_topic", topic=(0, 0, None), force=False)

    def partition_watches(self) -> Iterator[Action]:
        """Watchers of partition counts; at the end topics grow."""
        for _ in self.repeated(1, 2):
            yield from self.act("create_partitioned_topic", partitions=1)
        for at, watcher in self.places(3):
            both = ((0, 0, None), (0, 1, None)) if self._chance.random() < 0.4 else None
            yield from self.act("watch_partitions", at=at, watcher=watcher, topics=both)
        around = (
            "create_partitioned_topic",
            "update_partitioned_topic",
            "delete_partitioned_topic",
            "watch_partitions",
            "close_partition_watch",
            "wait",
        )
        yield from self.some((*around, "answer_partition_update", "disconnect"))
        if self._chance.random() < 0.3:
            yield from self._left_unsettled()
        for partitions in (4, 5):
            for number in range(3):
                yield from self.act("answer_partition_update", number=number, of=0, success=True)
            for name in range(2):
                yield from self.act("create_partitioned_topic", topic=(0, name, None), partitions=1)
                yield from self.act("update_partitioned_topic", topic=(0, name, None), partitions=partitions)

    def _left_unsettled(self) -> Iterator[Action]:
        """An update that failed or has no result yet, a watcher that is repeated or closed then, and time."""
        yield from self.act("create_partitioned_topic", topic=(0, 0, None), partitions=1)
        yield from self.act("watch_partitions", at="a", watcher=1, topics=((0, 0, None),), domain="persistent", valid=True)
        yield from self.act("update_partitioned_topic", topic=(0, 0, None), partitions=2)
        if self._chance.random() < 0.7:
            for number in range(3):
                yield from self.act("answer_partition_update", number=number, of=0, success=False)
        after = self._chance.choice(("close_partition_watch", "watch_partitions", "answer_partition_update", "wait"))
        yield from self.act(after, at="a", watcher=1, valid=self._chance.random() < 0.5)
        yield from self.act("wait")

    def scalable_watches(self) -> Iterator[Action]:
        """Watches over scalable topics; at the end topics come and go."""
        for _ in self.repeated(0, 2):
            yield from self.act("create_scalable_topic")
        for at, watch in self.places(3):
            yield from self.act("watch_scalable_topics", at=at, watch=watch, which="none")
        for at, session in self.places(2):
            yield from self.act("look_up_scalable_topic", at=at, session=session)
        around = ("create_scalable_topic", "delete_scalable_topic", "watch_scalable_topics", "close_scalable_watch")
        yield from self.some((*around, "look_up_scalable_topic", "close_scalable_look_up", "disconnect"))
        for name in range(2):
            yield from self.act("create_scalable_topic", topic=(self._chance.randrange(3), name, None))
        for segments in (1, 2):
            yield from self.act("delete_scalable_topic", topic=(0, 0, None))
            yield from self.act("create_scalable_topic", topic=(0, 0, None), segments=segments)

    def anything(self) -> Iterator[Action]:
        """Actions without a beginning or an end."""
        yield from self.some((), (10, 24))


_THEMES: Mapping[str, tuple[Callable[[_Drawing], Iterator[Action]], int]] = {
    "subscribe": (_Drawing.messages, 4),
    "watch_topics": (_Drawing.topic_watches, 3),
    "watch_partitions": (_Drawing.partition_watches, 2),
    "watch_scalable_topics": (_Drawing.scalable_watches, 2),
    "create_topic": (_Drawing.anything, 2),
    "subscribe_by_key": (_Drawing.by_key, 2),
    "produce_alone": (_Drawing.alone, 1),
    "publish_delayed": (_Drawing.delayed, 1),
    "produce_with_schema": (_Drawing.schemas, 1),
    "publish_record": (_Drawing.records, 1),
}
"""The themes of scenarios, by the kind of action that they need, and how often each is drawn."""


def draw(chance: random.Random, weights: Mapping[str, int]) -> Scenario:
    """Draw a scenario.

    Args:
        chance: The source of chance.
        weights: How often each kind of action is drawn, compared with the others.
    """
    themes = [theme for kind, theme in _THEMES.items() if kind in weights] or [(_Drawing.anything, 1)]
    drawing = _Drawing(chance, weights)
    (theme,) = chance.choices([one for one, _ in themes], [weight for _, weight in themes])
    return Scenario(drawing.world, tuple(theme(drawing)))
