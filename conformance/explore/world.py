"""Scenarios: a world of names, and actions in it; how they are drawn, and made simpler."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from conformance.explore.actions import KINDS, NAMESPACES

LOCAL_NAMES = (
    "t", "u", "t-1", "T", "t-10", "tt", "t.1", "t+1", "t%2F1", "t 1", "t$", "ü", "t-partition-0", "t-partition-x", "x" * 200,
)  # fmt: skip
"""Local names of topics. There are twins by case, by a prefix, by an end that looks like a partition's, and by percent-encoding."""
PATTERNS = (
    "{namespace}/t.*", "{namespace}/.*", "{namespace}/t", "{namespace}/[tu]", "{namespace}/T.*", "{namespace}/.*1",
    "{namespace}/t|{namespace}/u", "{namespace}/(?:t|tt)", "{namespace}/t-\\d+", "{namespace}/\\w+", "{namespace}/(?i)t.*", "{namespace}/x*",
)  # fmt: skip
"""Patterns of topic names, for each namespace."""
LENGTHS = (12, 30)
"""How few and how many actions are drawn."""


@dataclass(frozen=True)
class World:
    """The names of a scenario.

    Attributes:
        namespaces: How many of the namespaces it has.
        names: Local names of topics.
        patterns: Patterns, with `{namespace}` for the name of a namespace.
    """

    namespaces: int
    names: tuple[str, ...]
    patterns: tuple[str, ...]

    def namespace(self, number: int) -> str:
        """Return the name of a namespace, with variables for the names of tenants."""
        return NAMESPACES[number % self.namespaces]

    def topic(self, place: tuple[int, int], domain: str = "persistent") -> str:
        """Return the full name of a topic, with variables for the names of tenants."""
        namespace, name = place
        return f"{domain}://{self.namespace(namespace)}/{self.names[name % len(self.names)]}"

    def pattern(self, namespace: int, number: int) -> str:
        """Return a pattern over one namespace."""
        return self.patterns[number % len(self.patterns)].format(namespace=self.namespace(namespace))


@dataclass(frozen=True)
class Action:
    """One action of a scenario: its kind, and what the kind needs to know."""

    kind: str
    arguments: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        """Write it in one line."""
        return f"{self.kind}({', '.join(f'{name}={value}' for name, value in self.arguments)})"


@dataclass(frozen=True)
class Scenario:
    """A world, and what happens in it."""

    world: World
    actions: tuple[Action, ...]

    def until(self, step: int) -> Scenario:
        """Return the scenario up to a step; step 0 is the preparation."""
        return replace(self, actions=self.actions[:step])


def draw(chance: random.Random, weights: Mapping[str, int]) -> Scenario:
    """Draw a scenario. Most of them have one proposal for their theme, and leave some kinds of actions out, so that the others meet more often.

    Args:
        chance: The source of chance.
        weights: How often each kind of action is drawn, compared with the others.
    """
    names = chance.sample(LOCAL_NAMES, chance.choice((1, 1, 2, 3, 4)))
    world = World(chance.choice((1, 1, 2, 3)), tuple(names), tuple(chance.sample(PATTERNS, chance.choice((1, 2, 3)))))
    registers = sorted({KINDS[kind].proposal for kind in weights})
    theme = chance.choice(registers)
    left_out = {kind for kind in weights if KINDS[kind].proposal not in ("core", theme) and chance.random() < 0.8}
    left_out |= {kind for kind in weights if chance.random() < 0.2}
    kept = {kind: weight for kind, weight in weights.items() if kind not in left_out} or weights
    kinds = chance.choices(tuple(kept), tuple(kept.values()), k=chance.randint(*LENGTHS))
    return Scenario(world, tuple(_drawn(kind, chance) for kind in kinds))


def _drawn(kind: str, chance: random.Random) -> Action:
    return Action(kind, tuple((name, values.draw(chance)) for name, values in KINDS[kind].parameters.items()))


def simpler(scenario: Scenario) -> Iterator[Scenario]:
    """Yield simpler scenarios: first with fewer actions, many at a time, then with simpler values and names."""
    actions = scenario.actions
    size = len(actions) // 2
    while size:
        for first in range(len(actions) - size, -1, -size):
            yield replace(scenario, actions=actions[:first] + actions[first + size :])
        size //= 2
    for place, action in enumerate(actions):
        for changed in _simpler_action(action):
            yield replace(scenario, actions=(*actions[:place], changed, *actions[place + 1 :]))
    for namespaces in range(1, scenario.world.namespaces):
        yield replace(scenario, world=replace(scenario.world, namespaces=namespaces))
    for names in _simpler_texts(scenario.world.names, LOCAL_NAMES):
        yield replace(scenario, world=replace(scenario.world, names=names))
    for patterns in _simpler_texts(scenario.world.patterns, PATTERNS):
        yield replace(scenario, world=replace(scenario.world, patterns=patterns))


def _simpler_action(action: Action) -> Iterator[Action]:
    parameters = KINDS[action.kind].parameters
    for place, (name, value) in enumerate(action.arguments):
        for simple in parameters[name].simpler(value):
            yield replace(action, arguments=(*action.arguments[:place], (name, simple), *action.arguments[place + 1 :]))


def _simpler_texts(texts: tuple[str, ...], known: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if len(texts) > 1:
        yield texts[:-1]
    for place, text in enumerate(texts):
        for simple in known[: known.index(text)]:
            if simple not in texts:
                yield (*texts[:place], simple, *texts[place + 1 :])
