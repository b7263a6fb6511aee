"""Logs of changes, and who watches: drawn from a seed, a namespace and a watcher at a time.

A log has a Poisson background of single changes, and bursts, which begin at times of another Poisson process: a deployment creates
topics, a clean-up deletes some, a redeployment deletes topics and creates them again at once, an extension grows many partitioned
topics. Some scalable topics change three times within milliseconds, each at one time of the log (`FLICKERS`). After the last change it is
quiet for a while, so that polling clients learn of every change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from conformance.corpus.errors import CorpusError
from conformance.corpus.sources.blocks import generator

REGIONS = ("eu", "us", "asia", "地区")
"""Values of the property by which watchers select scalable topics."""
_SCALABLE, _PARTITIONED, _WATCHERS, _FLICKERING = 0x6C73, 0x6C70, 0x6C77, 0x6C66
FLICKERS = ("-+-", "+-+", "-+*", "+*-")
"""What happens to a topic in one moment: it is deleted (-), created (+), or its properties change (*). There are three topics of each, and
every other one has a name that is escaped in the paths of the metadata store."""
_MOMENT = 15
"""Milliseconds at most between two of these changes."""


@dataclass(frozen=True)
class LogOptions:
    """What logs look like.

    Attributes:
        seed: Of everything that is drawn.
        namespaces: How many logs there are; watcher N watches namespace N % namespaces.
        seconds: Length of the time in which something changes.
        quiet: Seconds without a change after that.
        topics: Topics of a namespace at the beginning.
        per_second: Mean number of background changes in a second.
        bursts_per_minute: Mean number of bursts in a minute.
        burst: Mean number of changes in a burst.
        burst_ms: Milliseconds over which a burst is spread.
        topics_watched: Partitioned topics of one watcher.
    """

    seed: int = 1
    namespaces: int = 4
    seconds: int = 600
    quiet: int = 60
    topics: int = 100
    per_second: float = 0.2
    bursts_per_minute: float = 1.0
    burst: int = 20
    burst_ms: int = 200
    topics_watched: int = 5

    def __post_init__(self) -> None:
        if min(self.seed, self.quiet, self.per_second, self.bursts_per_minute, self.burst_ms) < 0:
            raise CorpusError("a log has no negative seed, length, rate or duration")
        if min(self.namespaces, self.seconds, self.topics, self.burst, self.topics_watched) < 1:
            raise CorpusError("a log has at least 1 namespace, second and topic, bursts at least 1 change, watchers at least 1 topic")

    @property
    def end(self) -> int:
        """When it ends, in milliseconds."""
        return (self.seconds + self.quiet) * 1000


@dataclass(frozen=True, slots=True)
class ScalableChange:
    """A scalable topic is created or modified, or deleted if it has no properties any more.

    Attributes:
        at: Milliseconds.
        topic: Full name.
        properties: From now on; None: it is deleted.
    """

    at: int
    topic: str
    properties: Mapping[str, str] | None


@dataclass(frozen=True)
class ScalableLog:
    """The scalable topics of a namespace: properties by full name at the beginning, and what changes."""

    namespace: str
    beginning: Mapping[str, Mapping[str, str]]
    changes: tuple[ScalableChange, ...]

    def at(self, time: int) -> dict[str, Mapping[str, str]]:
        """Return the topics with their properties after everything up to a time, which counts too."""
        topics = dict(self.beginning)
        for change in self.changes:
            if change.at > time:
                break
            if change.properties is None:
                topics.pop(change.topic, None)
            else:
                topics[change.topic] = change.properties
        return topics


@dataclass(frozen=True)
class PartitionLog:
    """The partitioned topics of a namespace: partitions by full name at the beginning; time, topic and new number of each growth."""

    beginning: Mapping[str, int]
    changes: tuple[tuple[int, str, int], ...]

    def at(self, time: int) -> dict[str, int]:
        """Return the numbers of partitions after everything up to a time, which counts too."""
        return dict(self.beginning) | {topic: count for when, topic, count in self.changes if when <= time}


@dataclass(frozen=True)
class Watcher:
    """Who watches.

    Attributes:
        number: From 0.
        namespace: Number of the log.
        opened: When it begins, in milliseconds; different for each, so that polls are spread.
        filters: Properties that scalable topics must have.
        topics: Full names of the partitioned topics.
    """

    number: int
    namespace: int
    opened: int
    filters: Mapping[str, str]
    topics: tuple[str, ...]


def namespace_name(number: int) -> str:
    """Return the name of a namespace."""
    return f"synthetic/namespace-{number}"


@lru_cache(maxsize=64)
def scalable_log(options: LogOptions, namespace: int) -> ScalableLog:
    """Draw the log of the scalable topics of a namespace."""
    random = generator(options.seed, _SCALABLE, namespace)
    name = namespace_name(namespace)
    topics = {f"topic://{name}/topic-{number}": _properties(random) for number in range(options.topics)}
    flickering, flickers = _flickering(options, namespace)
    beginning = topics | flickering
    changes: list[ScalableChange] = []
    for at, size in _times(random, options):
        kind = random.choice(4, p=(0.4, 0.2, 0.2, 0.2))
        for when in _spread(random, at, size, options):
            old = list(topics)[int(random.integers(len(topics)))] if topics else None
            if kind == 0 or old is None:  # created
                now = {f"topic://{name}/topic-{options.topics + len(changes)}": _properties(random)}
                changes += [ScalableChange(when, topic, properties) for topic, properties in now.items()]
                topics |= now
            elif kind == 1:  # deleted
                changes.append(ScalableChange(when, old, None))
                del topics[old]
            elif kind == 2:  # its properties are changed
                topics[old] = _properties(random)
                changes.append(ScalableChange(when, old, topics[old]))
            else:  # deleted, and created again
                later = when + int(random.integers(0, max(1, options.burst_ms)))
                changes += [ScalableChange(when, old, None), ScalableChange(later, old, topics[old])]
    return ScalableLog(name, beginning, _in_order([*changes, *flickers], options))


def _flickering(options: LogOptions, namespace: int) -> tuple[dict[str, dict[str, str]], list[ScalableChange]]:
    """Draw topics that nothing else happens to: which are there at the beginning, and their changes."""
    random = generator(options.seed, _FLICKERING, namespace)
    beginning, changes = {}, []
    for number, kinds in enumerate(FLICKERS * 3):
        local = f"flickering-{number}" if number % 2 else f"flickering/{number} %2F 地"
        topic, properties = f"topic://{namespace_name(namespace)}/{local}", _properties(random)
        if kinds[0] == "-":
            beginning[topic] = properties
        at = int(random.integers(0, options.seconds * 1000))
        for kind in kinds:
            properties = _properties(random) if kind == "*" else properties
            changes.append(ScalableChange(at, topic, None if kind == "-" else properties))
            at += int(random.integers(1, _MOMENT + 1))
    return beginning, changes


def _in_order(changes: list[ScalableChange], options: LogOptions) -> tuple[ScalableChange, ...]:
    """Sort by time; changes of the same instant keep their order, and none comes after the end."""
    last = options.seconds * 1000
    return tuple(sorted((ScalableChange(min(one.at, last), one.topic, one.properties) for one in changes), key=lambda one: one.at))


@lru_cache(maxsize=64)
def partition_log(options: LogOptions, namespace: int) -> PartitionLog:
    """Draw the log of the partitioned topics of a namespace: numbers only grow, by 1 to 3."""
    random = generator(options.seed, _PARTITIONED, namespace)
    names = [f"persistent://{namespace_name(namespace)}/partitioned-{number}" for number in range(options.topics)]
    beginning = {topic: int(random.integers(1, 9)) for topic in names}
    times = sorted(when for at, size in _times(random, options) for when in _spread(random, at, size, options))
    counts, changes = dict(beginning), []
    for when in times:
        topic = names[int(random.integers(len(names)))]
        counts[topic] += int(random.integers(1, 4))
        changes.append((min(when, options.seconds * 1000), topic, counts[topic]))
    return PartitionLog(beginning, tuple(changes))


def watcher(options: LogOptions, number: int) -> Watcher:
    """Draw a watcher: two in three select by one value of `region`, the others want all topics."""
    random = generator(options.seed, _WATCHERS, number)
    namespace = number % options.namespaces
    filters = {"region": REGIONS[int(random.integers(len(REGIONS)))]} if random.random() < 2 / 3 else {}
    opened = int(random.integers(0, max(1, options.seconds * 100)))
    watched = random.permutation(options.topics)[: options.topics_watched]
    topics = tuple(f"persistent://{namespace_name(namespace)}/partitioned-{topic}" for topic in watched)
    return Watcher(number, namespace, opened, filters, topics)


def _properties(random: np.random.Generator) -> dict[str, str]:
    return {"region": REGIONS[int(random.integers(len(REGIONS)))], "tier": str(int(random.integers(3)))}


def _times(random: np.random.Generator, options: LogOptions) -> list[tuple[int, int]]:
    """Draw when something happens, and how many changes it is."""
    length = options.seconds * 1000
    background = random.integers(0, length, random.poisson(options.per_second * options.seconds))
    bursts = random.integers(0, length, random.poisson(options.bursts_per_minute * options.seconds / 60))
    sizes = random.geometric(1 / options.burst, len(bursts))
    return sorted([(int(at), 1) for at in background] + [(int(at), int(size)) for at, size in zip(bursts, sizes, strict=True)])


def _spread(random: np.random.Generator, at: int, size: int, options: LogOptions) -> list[int]:
    if size == 1:
        return [at]
    return [at + int(offset) for offset in sorted(random.integers(0, max(1, options.burst_ms), size))]
