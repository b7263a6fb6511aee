"""Scenarios made smaller: first actions are left out, then values and names become simpler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from conformance.explore.actions import KINDS
from conformance.explore.drawing import LOCAL_NAMES, PATTERNS
from conformance.explore.kinds import Kind
from conformance.explore.world import Action, Scenario


def shrink(scenario: Scenario, still: Callable[[Scenario], bool], kinds: Mapping[str, Kind] = KINDS) -> Scenario:
    """Return the smallest scenario that was found for which something still holds.

    Args:
        scenario: For which it holds.
        still: Tells whether it holds for a smaller one.
        kinds: The kinds of its actions.
    """
    before = None
    while before != scenario:
        before = scenario
        scenario = _with_simpler_values(_with_fewer_actions(scenario, still), still, kinds)
    return scenario


def _with_fewer_actions(scenario: Scenario, still: Callable[[Scenario], bool]) -> Scenario:
    size = max(1, len(scenario.actions) // 2)
    while size:
        first = len(scenario.actions) - size
        while first >= 0:
            actions = scenario.actions
            smaller = replace(scenario, actions=actions[:first] + actions[first + size :])
            if still(smaller):
                scenario = smaller
            first -= size
        size //= 2
    return scenario


def _with_simpler_values(scenario: Scenario, still: Callable[[Scenario], bool], kinds: Mapping[str, Kind]) -> Scenario:
    changes = [_change_of(number, kinds) for number in range(len(scenario.actions))]
    for simpler in (*changes, _simpler_worlds):
        found: Scenario | None = scenario
        while found is not None:
            scenario = found
            found = next((one for one in simpler(scenario) if still(one)), None)
    return scenario


def _change_of(place: int, kinds: Mapping[str, Kind]) -> Callable[[Scenario], Iterator[Scenario]]:
    def simpler(scenario: Scenario) -> Iterator[Scenario]:
        actions = scenario.actions
        return (
            replace(scenario, actions=(*actions[:place], one, *actions[place + 1 :])) for one in _simpler_actions(actions[place], kinds)
        )

    return simpler


def _simpler_actions(action: Action, kinds: Mapping[str, Kind]) -> Iterator[Action]:
    parameters = kinds[action.kind].parameters
    for place, (name, value) in enumerate(action.arguments):
        for simple in parameters[name].simpler(value):
            yield replace(action, arguments=(*action.arguments[:place], (name, simple), *action.arguments[place + 1 :]))


def _simpler_worlds(scenario: Scenario) -> Iterator[Scenario]:
    world = scenario.world
    for namespaces in range(1, world.namespaces):
        yield replace(scenario, world=replace(world, namespaces=namespaces))
    for names in _simpler_texts(world.names, LOCAL_NAMES):
        yield replace(scenario, world=replace(world, names=names))
    for patterns in _simpler_texts(world.patterns, PATTERNS):
        yield replace(scenario, world=replace(world, patterns=patterns))


def _simpler_texts(texts: tuple[str, ...], known: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if len(texts) > 1:
        yield texts[:-1]
    for place, text in enumerate(texts):
        for simple in known[: known.index(text)]:
            if simple not in texts:
                yield (*texts[:place], simple, *texts[place + 1 :])
