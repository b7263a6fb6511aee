"""Scenarios: a world of names, and actions in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

Place = tuple[int, int, int | None]
"""A topic: the numbers of its namespace, of its local name, and of a partition; None: the topic itself."""

NAMESPACES = ("${a}/n", "${a}/n-2", "${b}/n")
"""Namespaces of a scenario: the second begins with the name of the first, the third has its local name in another tenant."""


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

    def topic(self, place: Place, domain: str = "persistent") -> str:
        """Return the full name of a topic, with variables for the names of tenants."""
        namespace, name, partition = place
        end = "" if partition is None else f"-partition-{partition}"
        return f"{domain}://{self.namespace(namespace)}/{self.names[name % len(self.names)]}{end}"

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
