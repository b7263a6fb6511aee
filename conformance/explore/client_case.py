"""A scenario for a client as a case: the steps so far, and what must come of them.

What a case expects is what a right client does, whatever the texts leave free:

- each message that is sent comes to each consumer of its topic, in the order in which one producer sent them; again only after a cut;
- the consumer of a pattern gets the messages of the topics that match, and no others;
- a consumer with a filter gets the messages that fit, and no others;
- what was not acknowledged comes to the next consumer of the subscription;
- and in every conversation the monitors judge.

A first attempt to attach may fail for the user if its connection is cut or its look-up is refused; so producers and consumers are opened
before such a thing can happen, and later ones are left out of the scenario. What fails to be sent behind such a thing is sent once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

CLOSED = "core.client.reattaches-after-close"
_PERMITS = "core.client.permits-returned"
_WITHIN = 40
"""Seconds for a message: back-offs and polls come before it."""
_WITHIN_A_LOOK = 90
"""Seconds for a message of a topic that only the next look at a pattern finds: some look once a minute, whatever they are asked for."""
_TOLD_SECONDS = 3
"""Seconds within which who is told of a topic that is gone has left it."""
_BACK_SECONDS = 20
"""Seconds within which who was cut off is back and told: clients wait longer from one attempt to the next."""
PERIOD = 1000
"""Milliseconds between two looks at the topics of a pattern, or at the partitions of a topic."""
LARGE = 1000
"""Messages of a queue that is large enough for any scenario."""
PLAIN, PARTITIONED, OTHER = "t", "p", "y"
MATCHING = "x-*"
MATCHING_PARTITIONED = "x-p"
_ALL_PARTITIONED = (PARTITIONED, MATCHING_PARTITIONED)


@dataclass
class _Consumer:
    """A consumer of the scenario.

    Attributes:
        over: The topic that it is attached to, or the beginning of the names of several, with a star.
        begins: With what the texts begin that it takes.
        opened: How often it has been opened.
        gone: Whether it has unsubscribed.
        got: The texts that it must have got and has not acknowledged, and the variables with the numbers of their messages.
    """

    name: str
    subscription: str
    over: str
    arguments: dict[str, Any]
    begins: str = ""
    opened: int = 1
    gone: bool = False
    got: dict[str, str] = field(default_factory=dict)

    @property
    def of_pattern(self) -> bool:
        """Tell whether it is attached to all topics that match a pattern."""
        return self.over.endswith("*")

    def hears(self, topic: str) -> bool:
        """Tell whether it gets the messages of a topic."""
        base = topic.partition("-partition-")[0]
        return not self.gone and (base.startswith(self.over[:-1]) if self.of_pattern else base == self.over)


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
        self._catches_up = False
        """A consumer was opened behind messages, which it gets when it likes."""
        self._consumers: dict[str, _Consumer] = {}
        self._producers: dict[str, str] = {}
        self._opened = 0
        self._partitions: dict[str, int] = {}
        self._topics: dict[str, str] = {}
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
        """Return the full name of a topic; what is not in the namespace of most has the variable of its own in front."""
        space, _, local = name.rpartition("/")
        return f"persistent://${{{space or 'ns'}}}/{local}"

    def create(self, topics: Sequence[str]) -> None:
        """Create topics, unless they are there."""
        for topic in topics:
            self.add(admin={"create_topic": self.topic(topic)}, status="any")

    def partitioned(self, topic: str = PARTITIONED) -> None:
        """See to it that a partitioned topic exists."""
        if topic not in self._partitions:
            self._partitions[topic] = 2
            self.add(admin={"create_partitioned_topic": {"topic": self.topic(topic), "partitions": 2}})

    def grow(self, partitions: int, topic: str = PARTITIONED) -> None:
        """Let a partitioned topic grow."""
        self.partitioned(topic)
        if partitions > self._partitions[topic]:
            self._partitions[topic] = partitions
            self.add(admin={"update_partitioned_topic": {"topic": self.topic(topic), "partitions": partitions}})

    def last_partition(self, topic: str = PARTITIONED) -> str:
        """Return the local name of the newest partition."""
        self.partitioned(topic)
        return f"{topic}-partition-{self._partitions[topic] - 1}"

    def delete(self, topic: str, *, cut: bool) -> None:
        """Delete a topic that patterns match, while all connections are cut or not; who is told of it does not come back to it.

        Its producers are closed before, because one that attaches again creates the topic anew.
        """
        told = "pattern-watch" in self.capabilities and not self._polls and any(one.hears(topic) for one in self._consumers.values())
        told = told and self.may_open
        for key in [key for key in self._producers if key.split(" ")[0] == topic]:
            self.add(drive={"close": {"name": self._producers.pop(key)}})
        if cut:
            self.disturb(first_attempts=True)
            self.add(close={"how": "fin"})
        self.add(admin={"delete_topic": {"topic": self.topic(topic), "force": True}}, status="any")
        for consumer in self._consumers.values():
            consumer.got = {text: number for text, number in consumer.got.items() if self._topics[text] != topic}
        if told:
            self.add(advance=_TOLD_SECONDS if self.calm else _BACK_SECONDS)
            self._mark()
            frames = [{"subscribe": {"topic": self.topic(topic)}}]
            clause = "pip145.client.watch-applies-list" if cut else "pip145.client.watch-applies-update"
            self.add(silence={"frames": frames}, at="c", clause=clause, until=[{"advance": _TOLD_SECONDS}])

    def _mark(self) -> None:
        """Await the message of another producer, which comes only now: a silence begins behind it, and not with the actions before."""
        self._opened += 1
        name = f"p{self._opened - 1}"
        self.add(drive={"producer": {"name": name, "topic": self.topic(f"mark-{name}")}}, within=_WITHIN)
        self.add(drive={"send": {"producer": name, "texts": ["mark"]}}, aside=f"mark-{name}")
        self.add(client={"send": {}}, within=_WITHIN)
        self.add(seen={"result": {"of": f"mark-{name}", "ok": True}}, within=_WITHIN)

    def lose_updates(self) -> bool:
        """Let updates get lost from now on, so that only looks at the topics help; return whether that may be."""
        self._polls = self._polls or self.may_lose_updates
        return self.may_lose_updates

    def alone(self, topic: str) -> _Consumer | None:
        """Return the only consumer of a topic, whose queue is large."""
        hearing = [one for one in self._consumers.values() if one.hears(topic)]
        return hearing[0] if len(hearing) == 1 and hearing[0].arguments["queue"] >= LARGE else None

    def consume(self, over: str, type_: str, queue: int, period: int, begins: str = "", **more: Any) -> None:
        """Open a consumer.

        Args:
            over: The topic, or the beginning of the names of several with a star.
            type_: The type of its subscription.
            queue: Messages of its queue.
            period: Milliseconds between two looks at the topics.
            begins: With what the texts begin that it takes.
            more: Further options.
        """
        pattern = over.endswith("*")
        if not self.may_open or len(self._consumers) == 3 or (pattern and "pattern-consumers" not in self.capabilities):
            return
        self._catches_up = self._catches_up or self._texts > 0
        number = len(self._consumers)
        name = f"c{number}"
        what: dict[str, Any] = {"topic": self.topic(over)}
        if pattern:
            period = PERIOD if self._polls or "pattern-watch" not in self.capabilities else period
            self.may_lose_updates = self.may_lose_updates and period == PERIOD
            what = {"pattern": self.topic(f"{over[:-1]}.*"), "discovery_ms": period}
        elif over == PARTITIONED:
            self.partitioned()
            what["partitions_interval_ms"] = PERIOD
        arguments = {**what, "subscription": f"s{number}", "type": type_, "position": "Earliest", "queue": queue, **more}
        self.add(drive={"consumer": {"name": name, **arguments}})
        self._consumers[name] = _Consumer(name, f"s{number}", over, arguments, begins)

    def producer(self, topic: str, options: dict[str, Any]) -> str | None:
        """Return the producer of a topic with some options, which is opened if it can be; None if it can't."""
        key = f"{topic} {options}"
        if key not in self._producers and self.may_open:
            base = topic.partition("-partition-")[0]
            if base in _ALL_PARTITIONED:
                self.partitioned(base)
            self._opened += 1
            self._producers[key] = name = f"p{self._opened - 1}"
            self.add(drive={"producer": {"name": name, "topic": self.topic(topic), **options}})
        return self._producers.get(key)

    def publish(
        self,
        topic: str,
        count: int,
        options: dict[str, Any],
        first_steps: Callable[[list[str]], list[dict[str, Any]]] | None = None,
        letters: str = "m",
        **more: Any,
    ) -> None:
        """Send messages, and await them at each consumer of the topic.

        Args:
            topic: The local name.
            count: How many messages.
            options: Options of the producer.
            first_steps: Returns the frames that the client must send for some texts, where nothing disturbs it.
            letters: With what the texts begin, one after the other.
            more: Options of `send`.
        """
        producer = self.producer(topic, options)
        if producer is None:
            return
        texts = self._new_texts(count, topic, letters)
        hearing = [one for one in self._consumers.values() if one.hears(topic)]
        sending = {"send": {"producer": producer, "texts": texts, **more}}
        in_order = topic not in _ALL_PARTITIONED  # a producer of several partitions is several producers
        came = _side_by_side([lane for one in hearing for lane in self._awaited(one, texts, in_order=in_order)])
        if first_steps is not None and self.calm:
            self.add(drive=sending, aside=texts[0])
            self.steps += [*first_steps(texts), _told(texts[0], ok=True), *came]
        elif self.calm:
            self.add(drive=sending, within=_WITHIN)
            self.steps += came
        else:  # who has no connection may be told so at once, and sends again
            self.add(drive=sending, aside=texts[0])
            again = [{"advance": _BACK_SECONDS}, {"drive": sending, "within": _WITHIN}]
            sent, refused = [_told(texts[0], ok=True), *came], [_told(texts[0], ok=False), *again, *came]
            self.add(one_of=[{"name": "sent", "steps": sent}, {"name": "refused, and sent again", "steps": refused}])
        self._not_twice(hearing, texts)
        for one in self._consumers.values():
            others = [text for text in texts if not (one.hears(topic) and text.startswith(one.begins))]
            if others:
                self._not_at(one, others)

    def _new_texts(self, count: int, topic: str, letters: str = "m") -> list[str]:
        self._texts += count
        numbers = range(self._texts - count, self._texts)
        texts = [f"{letters[one % len(letters)]}{number}" for one, number in enumerate(numbers)]
        self._topics.update(dict.fromkeys(texts, topic))
        return texts

    def publish_part(self, topic: str, count: int, open_: int) -> None:
        """Send a batch of which the broker calls one message open."""
        if self.calm and not any(one.hears(topic) for one in self._consumers.values()):
            self.consume(topic if topic != "x-1" else "x-*", "Exclusive", LARGE, PERIOD)
        consumer = self.alone(topic)
        producer = self.producer(topic, {"batch": {"messages": count}}) if consumer is not None and self.calm else None
        if consumer is None or producer is None or self._catches_up:
            return
        texts = self._new_texts(count, topic)
        clause = "pr7629.client.ack-set"
        self.rules({"broker": {"message": {}}}, {"change": {"ack_set": [1 << open_]}})
        others = [text for text in texts if text != texts[open_]]
        seen = {"message": {"consumer": consumer.name, "text": texts[open_]}}
        until = [{"drive": {"send": {"producer": producer, "texts": texts}}}, {"seen": seen, "clause": clause}, {"advance": 0.3}]
        self.add(silence={"seen": [{"message": {"consumer": consumer.name, "text": {"$in": others}}}]}, at="c", clause=clause, until=until)

    def _awaited(self, consumer: _Consumer, texts: list[str], *, in_order: bool) -> list[list[dict[str, Any]]]:
        steps = []
        for text in texts:
            if not text.startswith(consumer.begins):
                continue
            self._numbers += 1
            variable = consumer.got[text] = f"n{self._numbers}"
            seen = {"message": {"consumer": consumer.name, "text": text, "message": {"$bind": variable}}}
            full = len(texts) > consumer.arguments["queue"]
            clause = self.clause or (_PERMITS if full else None)
            waits = consumer.of_pattern and "pattern-watch" not in self.capabilities
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
        alone = consumer.over in (PLAIN, OTHER)
        cumulative = cumulative and alone and consumer.arguments["type"] != "Shared"
        arguments: dict[str, Any] = {"consumer": consumer.name, "message": f"${consumer.got[text]}"}
        self.add(drive={"acknowledge": {**arguments, "cumulative": True} if cumulative else arguments})
        for other in texts[: texts.index(text)] if cumulative else []:
            del consumer.got[other]
        del consumer.got[text]

    def give_back(self, number: int, which: int) -> None:
        """Let a consumer give one of its messages back, and get it again."""
        consumer = self._consumers.get(f"c{number}")
        if consumer is None or not consumer.got or "nack_delay_ms" not in consumer.arguments:
            return
        text = list(consumer.got)[min(which, len(consumer.got) - 1)]
        self.add(drive={"negative_acknowledge": {"consumer": consumer.name, "message": f"${consumer.got[text]}"}})
        self._come_again(consumer, [text], "core.client.negative-named")

    def seek_back(self, number: int) -> None:
        """Let a consumer go back to the first message: what it has not acknowledged comes again."""
        consumer = self._consumers.get(f"c{number}")
        if consumer is None or consumer.gone or consumer.over not in (PLAIN, OTHER) or not self.calm:
            return  # what becomes of a seek without a connection is a question of its own
        self.add(drive={"seek": {"consumer": consumer.name, "to": "Earliest"}}, within=_WITHIN)
        self._come_again(consumer, list(consumer.got), "core.client.seek-starts-anew")

    def reopen(self, number: int) -> None:
        """Close a consumer, and let the next one of its subscription get what was not acknowledged."""
        consumer = self._consumers.get(f"c{number}")
        if consumer is None or consumer.gone or not self.may_open:
            return
        self.add(drive={"close": {"name": consumer.name}}, within=_WITHIN)
        consumer.opened += 1
        consumer.name = f"c{number}-{consumer.opened}"
        self.add(drive={"consumer": {"name": consumer.name, **consumer.arguments}}, within=_WITHIN)
        self._come_again(consumer, list(consumer.got), "core.client.acks-delivered")

    def _come_again(self, consumer: _Consumer, texts: list[str], clause: str) -> None:
        lanes = []
        for text in texts:
            self._numbers += 1
            consumer.got[text] = variable = f"n{self._numbers}"
            seen = {"message": {"consumer": consumer.name, "text": text, "message": {"$bind": variable}}}
            lanes.append([{"seen": seen, "clause": clause, "within": _WITHIN}])
        self.steps += _side_by_side(lanes)

    def unsubscribe(self, number: int) -> None:
        """Let a consumer unsubscribe; it gets nothing any more."""
        consumer = self._consumers.get(f"c{number}")
        if consumer is None or consumer.gone or not self.calm:
            return
        self.add(drive={"unsubscribe": {"consumer": consumer.name}}, within=_WITHIN)
        consumer.gone, consumer.got = True, {}

    def close_producers(self, topic: str) -> None:
        """Close the producers of a topic; whoever sends to it then has another one."""
        if self.may_open:
            for key in [key for key in self._producers if key.split(" ")[0] == topic]:
                self.add(drive={"close": {"name": self._producers.pop(key)}}, within=_WITHIN)

    def rules(self, on: dict[str, Any], do: dict[str, Any], times: int | str = 1) -> None:
        """Arm a rule of the backdrop."""
        self.add(on=on, do=do, times=times)

    def end(self) -> None:
        """Close each consumer, and let the next one of its subscription get what was not acknowledged."""
        if not self.may_open:
            return
        for number, consumer in enumerate(self._consumers.values()):
            if consumer.got and not consumer.of_pattern:
                self.reopen(number)


def _told(name: str, *, ok: bool) -> dict[str, Any]:
    return {"seen": {"result": {"of": name, "ok": ok}}, "within": _WITHIN}


def _side_by_side(lanes: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [{"any_order": lanes}] if len(lanes) > 1 else [step for lane in lanes for step in lane]
