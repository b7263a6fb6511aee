"""What a broker has said, line by line, and what an actor knows from it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from conformance.explore.lines import Line, bodies_of, fields_of, without_places
from refimpl.indexes.topics_hash import topics_hash
from refimpl.wire import Frame, command_name, sub_message, type_name

UNHEARD = frozenset({"connected", "ping", "pong"})
"""Frames that say nothing of what was asked."""
CLOSED = "closed"
RIGHT_AFTER = 0.1
"""Seconds within which a consumer leaves right after it was served. Releases need 0.01 at most; a machine may be busy."""


@dataclass(frozen=True)
class Delivery:
    """A message that a consumer got."""

    order: tuple[str, str, str]
    at: str
    consumer: int
    shared: bool
    message_id: Mapping[str, Any]
    messages: int


@dataclass
class Count:
    """What a consumer was granted and got: permits, messages, and entries, of which each is a message or a batch."""

    permits: int = 0
    messages: int = 0
    entries: int = 0


@dataclass
class Told:
    """All that one broker has said in a scenario.

    Args:
        concrete: The names that stand in for variables.
    """

    concrete: Mapping[str, str]
    lines: Counter[Line] = field(default_factory=Counter)
    frames: list[tuple[str, Frame | None, Line]] = field(default_factory=list)
    deliveries: dict[tuple[str, str, str], Delivery] = field(default_factory=dict)
    takers: dict[str, dict[str, list[tuple[str, int]]]] = field(default_factory=dict)
    """The consumers that got each entry of a shared subscription, in their order."""
    watch_ids: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How often each id was used for a watch over scalable topics."""
    look_ups: dict[tuple[str, int], str] = field(default_factory=dict)
    """The topic of each look-up of a scalable topic."""
    look_ups_again: set[tuple[str, int]] = field(default_factory=set)
    """The look-ups whose id had another open one."""
    look_ups_refused: set[tuple[str, int]] = field(default_factory=set)
    """The look-ups that got an error, whatever they got later."""
    acknowledged: set[tuple[str, str, str]] = field(default_factory=set)
    """Entries that were acknowledged, as in `deliveries`."""
    unsafe: set[tuple[str, str]] = field(default_factory=set)
    """Those that were acknowledged before their topic was unloaded, by subscription and bodies."""
    abandoned: dict[str, str] = field(default_factory=dict)
    """Failover subscriptions whose active consumer left right after it was served, with their topic; a message ends it."""
    holding: dict[str, str] = field(default_factory=dict)
    """Durable subscriptions that began with the first message and were not moved since, with their topic."""
    unloaded: dict[str, tuple[int, frozenset[str]]] = field(default_factory=dict)
    """By topic that was unloaded, itself or with its partitions: how many bodies there were until then, and the durable subscriptions."""
    counts: dict[tuple[str, int], Count] = field(default_factory=dict)
    sets: dict[str, frozenset[str]] = field(default_factory=dict)
    """Sets of topics by their hash, as far as they were told."""
    consumers: dict[tuple[str, int], Mapping[str, Any]] = field(default_factory=dict)
    open_consumers: list[tuple[str, int]] = field(default_factory=list)
    open_producers: dict[tuple[str, int], str] = field(default_factory=dict)
    """The topic of each producer that is open."""
    closed_producers: list[tuple[str, int]] = field(default_factory=list)
    """Those that the broker has closed, and whose id was not used since."""
    waiting: dict[tuple[str, int], str] = field(default_factory=dict)
    """The topic of each producer that waits for it."""
    left_waiting: set[str] = field(default_factory=set)
    """Topics for which a producer waited that has left."""
    asked: dict[tuple[str, int], Mapping[str, Any]] = field(default_factory=dict)
    changed: Callable[[], None] = lambda: None
    listener: Callable[[str, Frame], None] = lambda _at, _frame: None
    """Gets each frame beside this."""
    _watched: dict[tuple[str, str, int], set[str]] = field(default_factory=dict)
    _versions: dict[tuple[str, int], int] = field(default_factory=dict)
    _lists: dict[tuple[str, str], str] = field(default_factory=dict)
    _layouts: dict[tuple[str, int], str] = field(default_factory=dict)
    """What each look-up of a scalable topic got last."""
    _list_requests: dict[int, tuple[str, str]] = field(default_factory=dict)
    _durable: set[str] = field(default_factory=set)
    _served: dict[tuple[str, int], float] = field(default_factory=dict)
    """When each consumer of a failover subscription got something last."""

    # What is asked

    def asks(self, at: str, spec: Mapping[str, Any]) -> None:
        """Remember a request, to know what its answer is about."""
        ((name, fields),) = spec.items()
        if name == "subscribe" and (at, fields["consumer_id"]) not in self.open_consumers:
            self.counts[at, fields["consumer_id"]] = Count()
            self._served.pop((at, fields["consumer_id"]), None)
        if name == "flow":
            self.counts.setdefault((at, fields["consumer_id"]), Count()).permits += fields["messagePermits"]
        if name == "close_consumer":
            self._leaves((at, fields["consumer_id"]))
        if name == "close_producer":
            self._stops_waiting((at, fields["producer_id"]))
        if name in ("close_producer", "producer"):
            self.closed_producers = [one for one in self.closed_producers if one != (at, fields["producer_id"])]
        if name == "watchScalableTopics":
            self.watch_ids[at, fields["watch_id"]] += 1
        if name == "ack":
            self._acknowledges(at, fields)
        if name in ("scalableTopicLookup", "scalableTopicClose"):
            self._looks_up(at, fields)
        if "request_id" in fields:
            self.asked[at, fields["request_id"]] = {name: fields}

    def _looks_up(self, at: str, fields: Mapping[str, Any]) -> None:
        key = (at, fields["session_id"])
        is_open = key in self.look_ups and (key not in self.look_ups_refused or key in self.look_ups_again)
        self._layouts.pop(key, None)
        self.look_ups.pop(key, None)
        self.look_ups_again.discard(key)
        self.look_ups_refused.discard(key)
        if "topic" in fields:
            self.look_ups[key] = fields["topic"]
            if is_open:
                self.look_ups_again.add(key)

    def _acknowledges(self, at: str, fields: Mapping[str, Any]) -> None:
        named = [(one["ledgerId"], one["entryId"]) for one in fields["message_id"]]
        for order, one in self.deliveries.items():
            place = (one.message_id["ledgerId"], one.message_id["entryId"])
            if place in named or (fields["ack_type"] == "Cumulative" and place <= max(named)):
                consumer = self.consumers.get((at, fields["consumer_id"]), {})
                if order[:2] == (consumer.get("topic"), consumer.get("subscription")):
                    self.acknowledged.add(order)

    def _leaves(self, key: tuple[str, int]) -> None:
        if key in self._served and time.monotonic() - self._served[key] <= RIGHT_AFTER:
            self.abandoned[self.subscription_of(*key)] = self.consumers[key]["topic"]

    def unloads(self, topic: str, drawn: int) -> None:
        """Remember that a topic, or all its partitions, are unloaded.

        Args:
            topic: The name of the topic.
            drawn: How many bodies were drawn until then; each has its number.
        """
        self.unloaded[topic] = (drawn, frozenset(self._durable))
        for name, subscription, bodies in self.acknowledged:
            if name == topic or name.startswith(f"{topic}-partition-"):
                self.unsafe.add((self.subscription(name, subscription), bodies))

    def moves(self, topic: str, name: str, created: str | None) -> None:
        """Remember that an administrator moved or deleted a subscription of a topic, or of all its partitions, or created it.

        Args:
            topic: The name of the topic.
            name: The name of the subscription.
            created: Where it begins; None: it was not created.
        """
        subscription = self.subscription(topic, name)
        if created is not None:
            self._joins(subscription, {"topic": topic, "initialPosition": created.capitalize()})
            return
        parts = self.subscription(f"{topic}-partition-", name)
        self.holding = {one: of for one, of in self.holding.items() if one != subscription and not one.startswith(parts)}

    def expects_list(self, request: int, pattern: str, mode: str) -> None:
        """Remember what a list is about."""
        self._list_requests[request] = (pattern, mode)

    def gone(self, at: str) -> None:
        """Forget what belongs to a connection."""
        for key in self.consumers:
            if key[0] == at:
                self._leaves(key)
        self.closed_producers = [one for one in self.closed_producers if one[0] != at]
        for key in [key for key in self.waiting if key[0] == at]:
            self._stops_waiting(key)
        self.open_consumers = [one for one in self.open_consumers if one[0] != at]
        self.open_producers = {key: topic for key, topic in self.open_producers.items() if key[0] != at}
        self.watch_ids = Counter({key: count for key, count in self.watch_ids.items() if key[0] != at})
        self._watched = {key: value for key, value in self._watched.items() if key[1] != at}
        self._versions = {key: value for key, value in self._versions.items() if key[0] != at}
        self._layouts = {key: value for key, value in self._layouts.items() if key[0] != at}
        self.look_ups = {key: value for key, value in self.look_ups.items() if key[0] != at}
        self.look_ups_again = {key for key in self.look_ups_again if key[0] != at}
        self.look_ups_refused = {key for key in self.look_ups_refused if key[0] != at}
        self.consumers = {key: value for key, value in self.consumers.items() if key[0] != at}

    # What is known

    def list_hash(self, pattern: str, mode: str) -> str | None:
        """Return the hash that came with the last list of a pattern."""
        return self._lists.get((pattern, mode))

    def watch_hash(self, at: str, watcher: int, kind: str = "topics") -> str | None:
        """Return the hash of what a watcher was told."""
        known = self._watched.get((kind, at, watcher))
        return None if known is None else topics_hash(known)

    def partition_update(self, number: int) -> tuple[str, int, int] | None:
        """Return connection, watcher and version of the last update of partition counts of one of the watchers; None: there was none."""
        known = sorted(self._versions)
        if not known:
            return None
        key = known[number % len(known)]
        return (*key, self._versions[key])

    # What is said

    def heard(self, at: str, frame: Frame) -> None:
        """Take a frame."""
        name = command_name(frame.command)
        if name in UNHEARD:
            return
        self.listener(at, frame)
        message: Any = sub_message(frame.command)
        fields = fields_of(message, type_name(frame.command))
        lane = at
        if name == "message":
            lane = self._delivered(at, message, frame, fields)
        elif name == "send_receipt":
            fields.pop("message_id", None)
        elif name == "getLastMessageIdResponse":
            without_places(fields)
        self._learn(at, name, message)
        if name == "scalableTopicUpdate" and self._layout_again(at, message.session_id, fields):
            return
        if name == "watchTopicUpdate" and message.topics_hash == self.watch_hash(at, message.watcher_id):
            fields["topics_hash"] = "of the topics told"  # several changes may come in any order
        self._say(Line(lane, name, self._symbolic(json.dumps(fields, sort_keys=True, ensure_ascii=False))), at, frame)

    def _layout_again(self, at: str, session: int, fields: dict[str, Any]) -> bool:
        """Tell whether a layout is the one that the look-up got last, which may come any number of times.

        Clause: pr25648.layout.epoch-repeated
        """
        key, told = (at, session), json.dumps(fields, sort_keys=True)
        again = self._layouts.get(key) == told
        self._layouts[key] = told
        if "error" in fields:
            self.look_ups_refused.add(key)
        return again

    def closed(self, at: str) -> None:
        """Take the end of a connection."""
        self.gone(at)
        self._say(Line(at, CLOSED, ""), at, None)

    def garbage(self, at: str, data: bytes, reason: str) -> None:
        """Take bytes that are no frame."""
        self.lines[Line(at, "garbage", f"{reason}: {data[:16].hex()}")] += 1
        self.changed()

    def answered(self, operation: str, status: int) -> None:
        """Take the answer of an admin call."""
        self.lines[Line("admin", operation, "ok" if 200 <= status < 300 else "refused")] += 1
        self.changed()

    def _say(self, line: Line, at: str, frame: Frame | None) -> None:
        self.lines[line] += 1
        self.frames.append((at, frame, line))
        self.changed()

    def _symbolic(self, text: str) -> str:
        for variable, name in self.concrete.items():
            text = text.replace(name, f"${{{variable}}}")
        return text

    def lane(self, at: str, consumer: int) -> str:
        """Return who hears what a consumer gets: its connection, or its shared subscription."""
        return self.subscription_of(at, consumer) if self._chosen(at, consumer) else at

    def _chosen(self, at: str, consumer: int) -> bool:
        """Tell whether the broker chooses which messages a consumer gets: those of a shared one that names no keys."""
        fields = self.consumers.get((at, consumer), {})
        named = fields.get("keySharedMeta", {}).get("keySharedMode") == "STICKY"
        return fields.get("subType") == "Shared" or (fields.get("subType") == "Key_Shared" and not named)

    def durable(self, topic: str, subscription: str) -> bool:
        """Tell whether no consumer has asked for a subscription that is not durable."""
        mine = [one for one in self.consumers.values() if (one["topic"], one["subscription"]) == (topic, subscription)]
        return all(one.get("durable", True) for one in mine)

    def alone(self, at: str, consumer: int) -> bool:
        """Tell whether a consumer has no other one beside it."""
        mine = self.subscription_of(at, consumer)
        return [key for key in self.open_consumers if self.subscription_of(*key) == mine] == [(at, consumer)]

    def subscription_of(self, at: str, consumer: int) -> str:
        """Return the subscription of a consumer."""
        fields = self.consumers.get((at, consumer), {})
        return self.subscription(fields.get("topic", "?"), fields.get("subscription", "?"))

    def subscription(self, topic: str, name: str) -> str:
        """Return how a subscription is called here."""
        return f"subscription {name} of {self._symbolic(topic)}"

    def _delivered(self, at: str, message: Any, frame: Frame, fields: dict[str, Any]) -> str:
        key = (at, message.consumer_id)
        lane = self.lane(*key)
        subscription = self.consumers.get(key, {})
        fields.pop("message_id", None)
        bodies = bodies_of(frame)
        fields["bodies"] = bodies
        count = self.counts.setdefault(key, Count())
        count.messages += len(bodies)
        count.entries += 1
        if subscription.get("subType") == "Failover":
            self._served[key] = time.monotonic()
        order = (str(subscription.get("topic")), str(subscription.get("subscription")), ",".join(bodies))
        place = {"ledgerId": message.message_id.ledgerId, "entryId": message.message_id.entryId}
        shared = subscription.get("subType") in ("Shared", "Key_Shared")
        self.deliveries[order] = Delivery(order, at, message.consumer_id, shared, place, len(bodies))
        if lane != at:
            self.takers.setdefault(lane, {}).setdefault(order[2], []).append(key)
            fields.pop("consumer_id", None)
        return lane

    def _learn(self, at: str, name: str, message: Any) -> None:
        learn = _LEARN.get(name)
        if learn is not None:
            learn(self, at, message)

    def _answer_to(self, at: str, request: int) -> tuple[str, Mapping[str, Any]]:
        asked = self.asked.pop((at, request), None)
        return next(iter(asked.items())) if asked else ("", {})

    def _success(self, at: str, message: Any) -> None:
        name, fields = self._answer_to(at, message.request_id)
        if name == "subscribe":
            key = (at, fields["consumer_id"])
            self._joins(self.subscription_of(*key), self.consumers.get(key, {}))
            if key not in self.open_consumers:
                self.open_consumers.append(key)
        elif name in ("seek", "unsubscribe"):
            self.holding.pop(self.subscription_of(at, fields["consumer_id"]), None)
        elif name in ("watchTopicListClose", "watchPartitionUpdateClose"):
            kind = "topics" if name == "watchTopicListClose" else "partitions"
            self._watched.pop((kind, at, fields["watcher_id"]), None)

    def _joins(self, subscription: str, fields: Mapping[str, Any]) -> None:
        if fields.get("durable", True) and subscription not in self._durable:
            self._durable.add(subscription)
            if fields.get("initialPosition") == "Earliest":
                self.holding[subscription] = fields.get("topic", "?")

    def _producer_success(self, at: str, message: Any) -> None:
        name, fields = self._answer_to(at, message.request_id)
        if fields and message.producer_ready:
            self.open_producers[at, fields["producer_id"]] = fields["topic"]
            self.waiting.pop((at, fields["producer_id"]), None)
        elif fields:
            self.asked[at, message.request_id] = {name: fields}  # it is answered again when the producer's turn has come
            self.waiting[at, fields["producer_id"]] = fields["topic"]

    def _error(self, at: str, message: Any) -> None:
        name, fields = self._answer_to(at, message.request_id)
        if name == "producer":
            self._stops_waiting((at, fields["producer_id"]))

    def _stops_waiting(self, key: tuple[str, int]) -> None:
        topic = self.waiting.pop(key, None)
        if topic is not None:
            self.left_waiting.add(topic)

    def _close_consumer(self, at: str, message: Any) -> None:
        self.open_consumers = [one for one in self.open_consumers if one != (at, message.consumer_id)]

    def _close_producer(self, at: str, message: Any) -> None:
        self.open_producers.pop((at, message.producer_id), None)
        self._stops_waiting((at, message.producer_id))
        self.closed_producers.append((at, message.producer_id))

    def _receipt(self, at: str, message: Any) -> None:
        told_of = self.open_producers.get((at, message.producer_id))
        self.abandoned = {subscription: topic for subscription, topic in self.abandoned.items() if topic != told_of}

    def _list(self, at: str, message: Any) -> None:  # noqa: ARG002
        about = self._list_requests.get(message.request_id)
        if about is not None and message.HasField("topics_hash"):
            self._lists[about] = message.topics_hash
        self._know(message.topics)

    def _watch_success(self, at: str, message: Any) -> None:
        key = ("topics", at, message.watcher_id)
        _, fields = self._answer_to(at, message.request_id)
        if message.topic or fields.get("topics_hash") != message.topics_hash:
            self._watched[key] = set(message.topic)
        else:
            self._watched.setdefault(key, set(self.sets.get(message.topics_hash, ())))
        self._know(message.topic)

    def _watch_update(self, at: str, message: Any) -> None:
        known = self._watched.setdefault(("topics", at, message.watcher_id), set())
        known -= set(message.deleted_topics)
        known |= set(message.new_topics)
        self._know(known)

    def _scalable_update(self, at: str, message: Any) -> None:
        key = ("scalable", at, message.watch_id)
        if message.HasField("snapshot"):
            self._watched[key] = set(message.snapshot.topics)
        elif message.HasField("diff"):
            known = self._watched.setdefault(key, set())
            known -= set(message.diff.removed)
            known |= set(message.diff.added)
        self._know(self._watched.get(key) or ())

    def _partition_update(self, at: str, message: Any) -> None:
        self._versions[at, message.watcher_id] = message.version

    def _know(self, topics: Any) -> None:
        self.sets[topics_hash(topics)] = frozenset(topics)


_LEARN: Mapping[str, Callable[[Told, str, Any], None]] = {
    "success": Told._success,
    "producer_success": Told._producer_success,
    "error": Told._error,
    "close_consumer": Told._close_consumer,
    "close_producer": Told._close_producer,
    "send_receipt": Told._receipt,
    "getTopicsOfNamespaceResponse": Told._list,
    "watchTopicListSuccess": Told._watch_success,
    "watchTopicUpdate": Told._watch_update,
    "watchScalableTopicsUpdate": Told._scalable_update,
    "partitionUpdate": Told._partition_update,
}
