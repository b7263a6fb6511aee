"""What a kind of action is, and what several kinds draw from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from conformance.explore.choices import Choice, Draw, Each

CONNECTION = Choice(*"abc")
NAMESPACE = Choice(0, 0, 1, 2)
TOPIC = Each(NAMESPACE, Choice(*range(3)), Choice(None, None, None, None, None, 0, 1))
DOMAIN = Choice("persistent", "persistent", "persistent", "non-persistent")
PATTERN = Choice(*range(3))
ID = Choice(1, 1, 1, 2, 2, 0, 2**32 + 1)
"""Ids of watchers, producers and consumers."""
PARTITIONS = Choice(*(1, 2, 3, 4) * 15, 130, 600)
HASH = Choice("none", "current", "wrong")
SUBSCRIPTION = Choice("s", "r")
TYPE = Choice("Exclusive", "Shared", "Failover")


@dataclass(frozen=True)
class Kind:
    """A kind of action.

    Attributes:
        act: Carries it out; for a client, writes its steps.
        parameters: What is drawn for it.
        weight: How often it is drawn, compared with others.
        requires: The capabilities that a target needs.
        proposal: The register that it belongs to.
    """

    act: Callable[..., Any]
    parameters: Mapping[str, Draw]
    weight: int
    requires: tuple[str, ...]
    proposal: str


KINDS: dict[str, Kind] = {}
CLIENT_KINDS: dict[str, Kind] = {}
"""What is played on brokers, and what is played on clients."""
ActT = TypeVar("ActT", bound=Callable[..., Any])


def kind(proposal: str, *requires: str, weight: int = 2, kinds: dict[str, Kind] = KINDS, **parameters: Draw) -> Callable[[ActT], ActT]:
    """Make a function a kind of action."""

    def register(act: ActT) -> ActT:
        kinds[act.__name__] = Kind(act, parameters, weight, requires, proposal)
        return act

    return register
