"""What a proposal says of itself, once: broker, client, probe, engine, site and notebooks read it here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from refimpl.proposals.extension import Extension, Host

ProfileT_co = TypeVar("ProfileT_co", covariant=True)


class MakesExtension(Protocol):
    """Makes what a proposal adds to a broker."""

    def __call__(self, host: Host, profile: Any, plugins: Any = None, /) -> Extension:
        """Make it.

        Args:
            host: The broker.
            profile: Which reading of the proposal it speaks.
            plugins: What else whoever made the broker gave for this proposal; None: nothing.
        """


@dataclass(frozen=True)
class Capability:
    """Something that a peer can do since the proposal, and that cases may require.

    Attributes:
        name: As cases and target files name it.
        meaning: How it is found out, in one line.
        flag: The field of `FeatureFlags` in CONNECTED that tells it; empty: no flag does.
        declared: A target has to declare it, since nothing on the wire tells.
    """

    name: str
    meaning: str
    flag: str = ""
    declared: bool = False


@dataclass(frozen=True)
class Command:
    """A command that the proposal adds to the protocol.

    Attributes:
        name: Its field in `BaseCommand`.
        number: Of its type.
        sender: Who sends it.
        answers: The fields in `BaseCommand` of what answers it, besides ERROR; empty: nothing does.
        addressed_by: Of a command that the broker sends unasked, the field that names whose it is.
    """

    name: str
    number: int
    sender: Literal["client", "broker"]
    answers: tuple[str, ...] = ()
    addressed_by: str = ""


@dataclass(frozen=True)
class Proposal(Generic[ProfileT_co]):
    """A proposal.

    Attributes:
        register: Its clause register, which begins each of its clause ids.
        name: How people call it.
        title: What it is about, in a few words.
        address: Where its text can be read.
        capabilities: What a peer can do that knows it.
        commands: What it adds to the protocol.
        broker: Makes what it adds to a broker.
        profiles: Its two readings: `default` is what real peers speak or what is settled, `as-written` follows the text.
    """

    register: str
    name: str
    title: str
    address: str
    capabilities: tuple[Capability, ...]
    commands: tuple[Command, ...]
    broker: MakesExtension
    profiles: Mapping[str, ProfileT_co]

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the feature flags that it adds to CONNECTED."""
        return tuple(capability.flag for capability in self.capabilities if capability.flag)
