"""The kinds of actions of a scenario for a client: what its user does, and what the broker does out of the ordinary.

A scenario becomes a case for clients, step by step: `ClientCase` holds the steps, and knows what must come of them. What it expects is what
a right client does, whatever the texts leave free:

- each message that is sent comes to each consumer of its topic, in the order in which one producer sent them; again only after a cut;
- the consumer of a pattern gets the messages of the topics that match, and no others;
- what was not acknowledged comes to the next consumer of the subscription;
- and in every conversation the monitors judge.

A first attempt to attach may fail for the user if its connection is cut or its look-up is refused; so producers and consumers are opened
before such a thing can happen, and later ones are left out of the scenario.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from conformance.explore.choices import Choice, Draw
from conformance.explore.kinds import CLIENT_KINDS, ActT, kind

__all__ = ["CLIENT_KINDS", "ClientCase"]

_CLOSED = "core.client.reattaches-after-close"
_PERMITS = "core.client.permits-returned"
_WITHIN = 40
"""Seconds for a message: back-offs and polls come before it."""
_WITHIN_A_LOOK = 90
"""Seconds for a message of a topic that only the next look at a pattern finds: some look once a minute, whatever they are asked for."""
_PERIOD = 1000
"""Milliseconds between two looks at the topics of a pattern, or at the partitions of a topic."""
_LARGE = 1000
"""Messages of a queue that is large enough for any scenario."""
_PLAIN, _PARTITIONED, _OTHER = "t", "p", "y"
_MATCHING = ("x-1", "x-2", "x-3")
TOPIC = Choice(_PLAIN, "x-1", _PARTITIONED, "x-2", "x-3", _OTHER)
ANSWER = Choice(
    *("success", "producer_success", "send_receipt", "lookupTopicResponse", "message"),
    *("watchTopicUpdate", "watchTopicListSuccess", "getTopicsOfNamespaceResponse"),
)


def action(proposal: str, *requires: str, weight: int = 2, **parameters: Draw) -> Callable[[ActT], ActT]:
    """Make a function a kind of action for clients."""
    return kind(proposal, *requires, weight=weight, kinds=CLIENT_KINDS, **parameters)


@dataclass
class _Consumer:
    """A consumer of the scenario.

    Attributes:
        over: The topics that it is attached to, or `x-*`.
        got: The texts that it must have got and has not acknowledged, and the variables with the numbers of their messages.
    """

    name: str
    subscription: str
    over: str
    arguments: dict[str, Any]
    got: dict[str, str] = field(default_factory=dict)

    def hears(self, topic: str) -> bool:
        """Tell whether it gets the messages of a topic."""
        return topic in _MATCHING if self.over == "x-*" else topic.partition("-partition-")[0] == self.over


class ClientCase:
    """The steps of a scenario, as a case has them.

    Args:
        capabilities: What the client offers.
    """

    def __init__(self, capabilities: frozenset[str]) -> None:
        self.capabilities = capabilities
        self.steps: list[dict[str, Any]] = []
        self.calm = True
        """Nothing has happened yet that lets a message come twice."""
        self.may_open = True
        """Nothing is armed that could let a first attempt to attach fail."""
        self.may_lose_updates = True
        """No consumer of a pattern relies on what it is told."""
        self.clause: str | None = None
        self.cites: set[str] = set()
        """Clauses of which its steps speak without naming them."""
        self._polls = False
        self._consumers: dict[str, _Consumer] = {}
        self._producers: dict[str, str] = {}
        self._partitions = 0
        self._texts = 0
        self._numbers = 0

    def add(self, **step: Any) -> None:
        """Add a step, without what is None."""
        self.steps.append({key: value for key, value in step.items() if value is not None})

    def disturb(self, *, first_attempts: bool) -> None:
        """Note that messages may come twice from now on, and whether first attempts to attach may fail."""
        self.calm = False
        self.may_open = self.may_open and not first_attempts

    # What the user does

    def topic(self, name: str) -> str:
        """Return the full name of a topic."""
        return f"persistent://${{ns}}/{name}"

    def partitioned(self) -> None:
        """See to it that the partitioned topic exists."""
        if not self._partitions:
            self._partitions = 2
            self.add(admin={"create_partitioned_topic": {"topic": self.topic(_PARTITIONED), "partitions": 2}})

    def grow(self, partitions: int) -> None:
        """Let the partitioned topic grow."""
        self.partitioned()
        if partitions > self._partitions:
            self._partitions = partitions
            self.add(admin={"update_partitioned_topic": {"topic": self.topic(_PARTITIONED), "partitions": partitions}})

    def last_partition(self) -> str:
        """Return the local name of the newest partition."""
        self.partitioned()
        return f"{_PARTITIONED}-partition-{self._partitions - 1}"

    def lose_updates(self) -> bool:
        """Let updates get lost from now on, so that only looks at the topics help; return whether that may be."""
        self._polls = self._polls or self.may_lose_updates
        return self.may_lose_updates

    def alone(self, topic: str) -> _Consumer | None:
        """Return the only consumer of a topic, whose queue is large."""
        hearing = [one for one in self._consumers.values() if one.hears(topic)]
        return hearing[0] if len(hearing) == 1 and hearing[0].arguments["queue"] >= _LARGE else None

    def consume(self, over: str, type_: str, queue: int, period: int) -> None:
        """Open a consumer."""
        if not self.may_open or len(self._consumers) == 3 or (over == "x-*" and "pattern-consumers" not in self.capabilities):
            return
        number = len(self._consumers)
        name = f"c{number}"
        what: dict[str, Any] = {"topic": self.topic(over)}
        if over == "x-*":
            period = _PERIOD if self._polls or "pattern-watch" not in self.capabilities else period
            self.may_lose_updates = self.may_lose_updates and period == _PERIOD
            what = {"pattern": self.topic("x-.*"), "discovery_ms": period}
        elif over == _PARTITIONED:
            self.partitioned()
            what["partitions_interval_ms"] = _PERIOD
        arguments = {**what, "subscription": f"s{number}", "type": type_, "position": "Earliest", "queue": queue}
        self.add(drive={"consumer": {"name": name, **arguments}})
        self._consumers[name] = _Consumer(name, f"s{number}", over, arguments)

    def producer(self, topic: str, options: dict[str, Any]) -> str | None:
        """Return the producer of a topic with some options, which is opened if it can be; None if it can't."""
        key = f"{topic} {options}"
        if key not in self._producers and self.may_open:
            if topic.startswith(_PARTITIONED):
                self.partitioned()
            self._producers[key] = name = f"p{len(self._producers)}"
            self.add(drive={"producer": {"name": name, "topic": self.topic(topic), **options}})
        return self._producers.get(key)

    def publish(
        self,
        topic: str,
        count: int,
        options: dict[str, Any],
        first_steps: Callable[[list[str]], list[dict[str, Any]]] | None = None,
        **more: Any,
    ) -> None:
        """Send messages, and await them at each consumer of the topic.

        Args:
            topic: The local name.
            count: How many messages.
            options: Options of the producer.
            first_steps: Returns the frames that the client must send for some texts, where nothing disturbs it.
            more: Options of `send`.
        """
        producer = self.producer(topic, options)
        if producer is None:
            return
        texts = self._new_texts(count)
        hearing = [one for one in self._consumers.values() if one.hears(topic)]
        sending = {"send": {"producer": producer, "texts": texts, **more}}
        if first_steps is not None and self.calm:
            self.add(drive=sending, aside=texts[0])
            self.steps += first_steps(texts)
            self.add(seen={"result": {"of": texts[0], "ok": True}}, within=_WITHIN)
        else:
            self.add(drive=sending, within=_WITHIN)
        in_order = topic != _PARTITIONED  # a producer of several partitions is several producers
        lanes = [self._awaited(one, texts, in_order=in_order) for one in hearing]
        self._in_any_order([lane for some in lanes for lane in some])
        self._not_twice(hearing, texts)
        others = [one for one in self._consumers.values() if not one.hears(topic)]
        for other in others:
            self._not_at(other, texts)

    def _new_texts(self, count: int) -> list[str]:
        self._texts += count
        return [f"m{one}" for one in range(self._texts - count, self._texts)]

    def publish_part(self, topic: str, count: int, open_: int) -> None:
        """Send a batch of which the broker calls one message open."""
        if self.calm and not any(one.hears(topic) for one in self._consumers.values()):
            self.consume(topic if topic != "x-1" else "x-*", "Exclusive", _LARGE, _PERIOD)
        consumer = self.alone(topic)
        producer = self.producer(topic, {"batch": {"messages": count}}) if consumer is not None and self.calm else None
        if consumer is None or producer is None:
            return
        texts = self._new_texts(count)
        clause = "pr7629.client.ack-set"
        self.rules({"broker": {"message": {}}}, {"change": {"ack_set": [1 << open_]}})
        others = [text for text in texts if text != texts[open_]]
        seen = {"message": {"consumer": consumer.name, "text": texts[open_]}}
        until = [{"drive": {"send": {"producer": producer, "texts": texts}}}, {"seen": seen, "clause": clause}, {"advance": 0.3}]
        self.add(silence={"seen": [{"message": {"consumer": consumer.name, "text": {"$in": others}}}]}, at="c", clause=clause, until=until)

    def _in_any_order(self, lanes: list[list[dict[str, Any]]]) -> None:
        if len(lanes) > 1:
            self.add(any_order=lanes)
        else:
            self.steps += [step for lane in lanes for step in lane]

    def _awaited(self, consumer: _Consumer, texts: list[str], *, in_order: bool) -> list[list[dict[str, Any]]]:
        steps = []
        for text in texts:
            self._numbers += 1
            variable = consumer.got[text] = f"n{self._numbers}"
            seen = {"message": {"consumer": consumer.name, "text": text, "message": {"$bind": variable}}}
            full = len(texts) > consumer.arguments["queue"]
            clause = self.clause or (_PERMITS if full else None)
            waits = consumer.over == "x-*" and "pattern-watch" not in self.capabilities
            steps.append({"seen": seen, "within": _WITHIN_A_LOOK if waits else _WITHIN, **({"clause": clause} if clause else {})})
        return [steps] if in_order else [[one] for one in steps]

    def _not_twice(self, hearing: list[_Consumer], texts: list[str]) -> None:
        if self.calm and hearing:
            self._silent([{"message": {"consumer": one.name, "text": {"$in": texts}}} for one in hearing])

    def _not_at(self, consumer: _Consumer, texts: list[str]) -> None:
        self._silent([{"message": {"consumer": consumer.name, "text": {"$in": texts}}}])

    def _silent(self, seen: list[dict[str, Any]]) -> None:
        self.add(silence={"seen": seen}, at="c", clause=self.clause, until=[{"advance": 0.3}])

    def acknowledge(self, number: int, which: int, *, cumulative: bool) -> None:
        """Let a consumer acknowledge one of its messages."""
        consumer = self._consumers.get(f"c{number}")
        if consumer is None or not consumer.got:
            return
        texts = list(consumer.got)
        text = texts[min(which, len(texts) - 1)]
        alone = consumer.over in (_PLAIN, _OTHER)
        cumulative = cumulative and alone and consumer.arguments["type"] != "Shared"
        arguments: dict[str, Any] = {"consumer": consumer.name, "message": f"${consumer.got[text]}"}
        self.add(drive={"acknowledge": {**arguments, "cumulative": True} if cumulative else arguments})
        for other in texts[: texts.index(text)] if cumulative else []:
            del consumer.got[other]
        del consumer.got[text]

    def rules(self, on: dict[str, Any], do: dict[str, Any], times: int | str = 1) -> None:
        """Arm a rule of the backdrop."""
        self.add(on=on, do=do, times=times)

    def end(self) -> None:
        """Close each consumer, and let the next one of its subscription get what was not acknowledged."""
        if not self.may_open:
            return
        for consumer in self._consumers.values():
            open_ = list(consumer.got)
            if not open_ or consumer.over == "x-*":
                continue
            self.add(drive={"close": {"name": consumer.name}})
            self.add(drive={"consumer": {"name": f"{consumer.name}-next", **consumer.arguments}}, aside=f"{consumer.name}-next")
            seen = [{"message": {"consumer": f"{consumer.name}-next", "text": text}} for text in open_]
            steps = [{"seen": one, "clause": "core.client.acks-delivered", "within": _WITHIN} for one in seen]
            self._in_any_order([[step] for step in steps])


CONSUMED = Choice(_PLAIN, "x-*", "x-*", _PARTITIONED, _OTHER)
TYPE = Choice("Exclusive", "Shared", "Failover")


@action("core", weight=3, over=CONSUMED, type=TYPE, queue=Choice(_LARGE, _LARGE, 1, 4), period=Choice(_PERIOD, 60 * _PERIOD))
def consume(case: ClientCase, over: str, type: str, queue: int, period: int) -> None:
    """Open a consumer of a topic, or of the topics that match a pattern."""
    case.consume(over, type, queue, period)


@action("core", weight=8, topic=TOPIC, count=Choice(1, 3, 12))
def publish(case: ClientCase, topic: str, count: int) -> None:
    """Send messages, each by itself."""
    case.publish(topic, count, {})


@action("core", weight=3, topic=TOPIC, count=Choice(2, 5), compression=Choice("NONE", "LZ4", "ZLIB"))
def publish_batch(case: ClientCase, topic: str, count: int, compression: str) -> None:
    """Send messages in a batch."""
    case.publish(topic, count, {"batch": {"messages": count}, "compression": compression})


_SETTING = {"region": ["us", "eu"], "version": ["1"]}
_PROPERTIES = Choice(
    {"region": "us"},
    {"region": "eu", "version": "1"},
    {"version": "1", "region": "eu"},
    {"region": "us", "other": "x"},
    {"region": "us", "version": "2"},
    {"region": "EU", "version": "1"},
)
"""From each of them something is extracted; what becomes of the others is a question of its own."""
_IN_A_BATCH = 3


@action("pip191", "uniform-batches", weight=5, topic=Choice(_PLAIN, "x-1"), first=_PROPERTIES, second=_PROPERTIES, third=_PROPERTIES)
def publish_uniform(case: ClientCase, topic: str, first: dict[str, str], second: dict[str, str], third: dict[str, str]) -> None:
    """Send messages in batches of equal property values."""
    each = [first, second, third, first]
    case.cites |= {"pip191.batch.same-set", "pip191.header.extracted-set"}
    options = {"batch": {"messages": _IN_A_BATCH}, "uniform": _SETTING}
    case.publish(topic, 4, options, first_steps=lambda texts: _batches(texts, each), properties=each)


def _batches(texts: list[str], each: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Return the batches that must be sent: consecutive messages with the same pairs of the setting, at most three of them."""
    batches: list[tuple[list[dict[str, str]], list[tuple[str, dict[str, str]]]]] = []
    for text, properties in zip(texts, each, strict=True):
        pairs = [{"key": key, "value": properties[key]} for key in sorted(_SETTING) if properties.get(key) in _SETTING[key]]
        if not batches or batches[-1][0] != pairs or len(batches[-1][1]) == _IN_A_BATCH:
            batches.append((pairs, []))
        batches[-1][1].append((text, properties))
    return [_batch(pairs, messages) for pairs, messages in batches]


def _batch(pairs: list[dict[str, str]], messages: list[tuple[str, dict[str, str]]]) -> dict[str, Any]:
    owns = [[{"key": key, "value": value} for key, value in properties.items()] for _, properties in messages]
    if len(messages) == 1:
        return {"use": "lib/client-batch-of-one", "with": {"properties": pairs, "own": owns[0], "text": messages[0][0]}}
    singles = [{"metadata": {"properties": {"$bag": own}}, "body": text} for own, (text, _) in zip(owns, messages, strict=True)]
    return {"use": "lib/client-batch", "with": {"properties": pairs, "singles": singles}}


@action("pr7629", weight=4, topic=Choice(_PLAIN, "x-1", _OTHER), open=Choice(0, 1, 2))
def publish_partly_acknowledged(case: ClientCase, topic: str, open: int) -> None:
    """Send a batch that comes with the bit of a single message in its ack_set."""
    case.publish_part(topic, 3, open)


@action("pip247", "partition-polling", weight=2, partitions=Choice(3, 4))
def grow(case: ClientCase, partitions: int) -> None:
    """Let the partitioned topic grow, and send to the newest partition."""
    case.grow(partitions)
    case.publish(case.last_partition(), 2, {})


@action("core", weight=4, consumer=Choice(0, 1, 2), which=Choice(0, 1, 5), cumulative=Choice(False, True))
def acknowledge(case: ClientCase, consumer: int, which: int, cumulative: bool) -> None:
    """Acknowledge a message."""
    case.acknowledge(consumer, which, cumulative=cumulative)


@action("core", how=Choice("fin", "rst"))
def cut(case: ClientCase, how: str) -> None:
    """End all connections."""
    case.disturb(first_attempts=True)
    case.add(close={"how": how})


@action("core", answer=ANSWER, how=Choice("fin", "rst"))
def cut_instead(case: ClientCase, answer: str, how: str) -> None:
    """End a connection in place of an answer."""
    case.disturb(first_attempts=True)
    case.rules({"broker": {answer: {}}}, {"cut": how})


@action("core", answer=ANSWER, seconds=Choice(0.1, 0.7))
def delay(case: ClientCase, answer: str, seconds: float) -> None:
    """Delay an answer."""
    case.rules({"broker": {answer: {}}}, {"delay": seconds})


@action("core", weight=3, topic=Choice(_PLAIN, "x-1", "x-2", f"{_PARTITIONED}-partition-0"))
def unload(case: ClientCase, topic: str) -> None:
    """Close the producers and consumers of a topic."""
    case.disturb(first_attempts=False)
    case.clause = _CLOSED
    case.add(admin={"unload_topic": case.topic(topic)}, status="any")


@action("core", topic=Choice(_PLAIN, "x-1"), times=Choice(1, 2))
def refuse_look_ups(case: ClientCase, topic: str, times: int) -> None:
    """Refuse to look a topic up while it moves, after its producers and consumers were closed."""
    case.disturb(first_attempts=True)
    case.clause = _CLOSED
    refusal = {"request_id": "$refused", "response": "Failed", "error": "ServiceNotReady", "message": "the topic is moving"}
    case.rules({"client": {"lookupTopic": {"request_id": {"$bind": "refused"}}}}, {"instead": [{"lookupTopicResponse": refusal}]}, times)
    case.add(admin={"unload_topic": case.topic(topic)}, status="any")


@action("core", times=Choice(1, 3))
def redirect(case: ClientCase, times: int) -> None:
    """Let a look-up be asked once more."""
    case.rules({"broker": {"lookupTopicResponse": {}}}, {"change": {"response": "Redirect", "authoritative": True}}, times)


@action("core", highest=Choice(0, (1 << 64) - 1, {"$absent": True}))
def answer_without_highest(case: ClientCase, highest: Any) -> None:
    """Put what some brokers put into the highest sequence id of receipts for single messages."""
    single = {"highest_sequence_id": {"$in": [0, (1 << 64) - 1, {"$absent": True}]}}
    case.rules({"broker": {"send_receipt": single}}, {"change": {"highest_sequence_id": highest}}, "all")


FLAGS = Choice(
    {"supports_message_filter": True},
    {"supports_scalable_topics": True},
    {"supports_topic_watchers": False},
    {"supports_topic_watcher_reconcile": False},
    {"supports_partition_update_watchers": False},
)


@action("core", weight=1, which=FLAGS)
def announce(case: ClientCase, which: dict[str, bool]) -> None:
    """Announce other features from now on."""
    if "supports_topic_watchers" in which and not case.lose_updates():
        return
    case.rules({"broker": {"connected": {}}}, {"change": {"feature_flags": which}}, "all")


@action("core", weight=2)
def ping(case: ClientCase) -> None:
    """Send a PING to the connection of a producer."""
    producer = case.producer(_PLAIN, {}) if case.calm else None
    if producer is not None:
        case.add(drive={"send": {"producer": producer, "texts": ["before the ping"]}}, aside="pinged")
        case.add(client={"send": {}})
        case.add(seen={"result": {"of": "pinged", "ok": True}})
        for _ in range(2):
            case.add(broker={"ping": {}})
            case.add(client={"pong": {}}, clause="core.client.answers-ping")


@action("pip145", "pattern-watch", weight=3, what=Choice("twice", "drop"), times=Choice(1, 2))
def harm_update(case: ClientCase, what: str, times: int) -> None:
    """Repeat an update of the topics of a pattern, or lose it."""
    if what == "drop" and not case.lose_updates():
        return
    case.rules({"broker": {"watchTopicUpdate": {}}}, {what: True}, times)


@action("pip145", "pattern-consumers", weight=3, changed=Choice({"topics_hash": {"$absent": True}, "filtered": False}, {"filtered": False}))
def list_everything(case: ClientCase, changed: dict[str, Any]) -> None:
    """Answer requests for the list of a pattern with all topics, as brokers do that do not filter."""
    case.rules(
        {"client": {"getTopicsOfNamespace": {}}}, {"change": {"topics_pattern": {"$absent": True}, "topics_hash": {"$absent": True}}}, "all"
    )
    case.rules({"broker": {"getTopicsOfNamespaceResponse": {}}}, {"change": changed}, "all")
