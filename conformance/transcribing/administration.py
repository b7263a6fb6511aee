"""What the administration must have done for a broker to say what it said.

Topics that existed before are created at the beginning. What came later is found from what the broker told unasked, and from answers
that say more than the one before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from conformance.transcribing.recorded import TranscribeProblem

_PARTITION = re.compile(r"(.+)-partition-(\d+)", re.DOTALL)
_BEFORE = 0.5


@dataclass
class Event:
    """Something that the administration did.

    Attributes:
        calls: The calls.
        place: Between which frames of the client.
        placed: Whether that is known.
    """

    calls: list[dict[str, Any]] = field(default_factory=list)
    place: float = -1.0
    placed: bool = False


def partitioned(topic: str) -> tuple[str, int] | None:
    """Divide the name of a partition into that of its topic and its number."""
    match = _PARTITION.fullmatch(topic)
    return (match[1], int(match[2])) if match else None


class Administration:
    """Finds the calls.

    Args:
        created: The topics that producers and consumers made, with the number of the frame.
    """

    def __init__(self, created: Mapping[str, int]) -> None:
        self._created = created
        self._before = Event(place=-_BEFORE, placed=True)
        self.events: list[Event] = [self._before]
        self._known: set[str] = set()
        self._counts: dict[str, int] = {}
        self._assumed: dict[str, dict[str, Any]] = {}
        self._lists: dict[str, set[str]] = {}
        self._ended: dict[str, Event] = {}
        self._growing: dict[str, tuple[Event, int]] = {}
        self._gone: dict[str, Event] = {}
        self._unloaded: dict[str, Event] = {}

    def served(self, topic: str) -> None:
        """Take that a producer or consumer of a topic was served."""
        self._unloaded.pop(topic, None)
        base = partitioned(topic)
        if base is not None and not self._knows(topic):
            self._assumed[base[0]] = {"topic": base[0], "partitions": base[1] + 1}
            self._before.calls.append({"create_partitioned_topic": self._assumed[base[0]]})
            self._counts[base[0]] = base[1] + 1
        elif not self._knows(topic) and topic not in self._created:
            self._before.calls.append({"create_topic": topic})
        self._known.add(topic)

    def partitions(self, topic: str, count: int, number: int) -> None:
        """Take the number of partitions of a topic."""
        known = self._counts.get(topic)
        if topic in self._growing:
            self._growing[topic] = self._growing[topic][0], max(count, self._growing[topic][1])
        elif topic in self._assumed:
            self._assumed.pop(topic)["partitions"] = max(count, known or 0)
        elif count and known is None:
            self._before.calls.append({"create_partitioned_topic": {"topic": topic, "partitions": count}})
        elif count and known is not None and known < count:
            name = "update_partitioned_topic" if known else "create_partitioned_topic"
            self._now(number, {name: {"topic": topic, "partitions": count}})
        self._counts[topic] = max(count, known or 0)

    def listed(self, namespace: str, topics: Iterable[str], number: int) -> None:
        """Take a list of the topics of a namespace: those that nobody made were there."""
        seen = self._lists.get(namespace)
        for topic in sorted(topics):
            if self._knows(topic) or self._created.get(topic, number) < number:
                continue
            base = partitioned(topic)
            if base is not None:
                count = 1 + max(one[1] for each in topics if (one := partitioned(each)) is not None and one[0] == base[0])
                self.partitions(base[0], count, number)
            elif seen is None:
                self._before.calls.append({"create_topic": topic})
            else:
                self._now(number, {"create_topic": topic})
            self._known.add(topic)
        self._lists[namespace] = {*topics, *(seen or ())}

    def update(self, message: Any) -> float | Event:
        """Take an update of a watch: a producer or consumer made the topic, or the administration made or deleted it."""
        causes: list[float | Event] = [self._came(topic) for topic in message.new_topics]
        causes += [self._went(topic) for topic in message.deleted_topics]
        if not causes:
            raise TranscribeProblem("a watchTopicUpdate names no topic")
        return max(causes, key=lambda cause: cause if isinstance(cause, float) else float("inf"))

    def closed(self, topic: str | None) -> Event:
        """Take that the broker closed a producer or consumer of a topic by itself."""
        if topic is None:
            raise TranscribeProblem("the broker closes a producer that nobody opened")
        for gone in (self._gone, self._ended):
            if topic in gone:
                return gone[topic]
        if topic not in self._unloaded:
            self._unloaded[topic] = self._event({"unload_topic": topic})
        return self._unloaded[topic]

    def ended(self, topic: str) -> Event:
        """Take that a topic was terminated."""
        if topic not in self._ended:
            self._ended[topic] = self._event({"terminate_topic": topic})
        return self._ended[topic]

    def terminated(self, topic: str, number: int) -> None:
        """Take that a producer was refused since the topic has ended."""
        if topic not in self._ended:
            self._ended[topic] = self._now(number, {"terminate_topic": topic})

    def settle(self) -> None:
        """Complete the calls, once all is known; drop events without one."""
        for topic, (event, count) in self._growing.items():
            event.calls.append({"create_partitioned_topic": {"topic": topic, "partitions": count}})
        self.events = [event for event in self.events if event.calls]

    def _knows(self, topic: str) -> bool:
        base = partitioned(topic)
        return topic in self._known or (base is not None and base[1] < self._counts.get(base[0], 0))

    def _came(self, topic: str) -> float | Event:
        self._gone.pop(topic, None)
        base = partitioned(topic)
        if base is not None and base[0] in self._growing:
            event, count = self._growing[base[0]]
            self._growing[base[0]] = event, max(count, base[1] + 1)
            return event
        if topic in self._created and topic not in self._known:
            self._known.add(topic)
            return float(self._created[topic])
        self._known.add(topic)
        if base is None:
            return self._event({"create_topic": topic})
        event = self._event()
        self._growing[base[0]] = event, base[1] + 1
        return event

    def _went(self, topic: str) -> Event:
        self._known.discard(topic)
        base = partitioned(topic)
        name = base[0] if base is not None else topic
        if topic in self._gone:
            return self._gone[topic]
        event = self._gone.get(name)
        if event is None:
            event = self._unloaded.pop(topic, None) or self._event()
            event.calls[:] = [{"delete_topic" if base is None else "delete_partitioned_topic": {"topic": name, "force": True}}]
        self._gone[topic] = self._gone[name] = event
        return event

    def _event(self, *calls: dict[str, Any]) -> Event:
        self.events.append(Event(list(calls)))
        return self.events[-1]

    def _now(self, number: int, call: dict[str, Any]) -> Event:
        event = self._event(call)
        event.place, event.placed = number - _BEFORE, True
        return event
