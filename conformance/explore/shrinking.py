"""Scenarios made simpler: with fewer actions, then with simpler values and names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from conformance.explore.actions import KINDS
from conformance.explore.drawing import LOCAL_NAMES, PATTERNS
from conformance.explore.world import Action, Scenario


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
