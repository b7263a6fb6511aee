"""The declaration of a proposal. Broker, client, probe, engine, site and notebooks all read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from refimpl.proposals.extension import Extension, Host

ProfileT_co = TypeVar("ProfileT_co", covariant=True)


class MakesExtension(Protocol):
    """Makes the extension that a proposal adds to a broker."""

    def __call__(self, host: Host, profile: Any, plugins: Any = None, /) -> Extension:
        """Make the extension.

        Args:
            host: The broker.
            profile: Which reading of the proposal the broker speaks.
            plugins: Plugins for this proposal that the broker was created with, such as filters; None: none.
        """


@dataclass(frozen=True)
class Capability:
    """Something that a peer with the proposal can do, and that a case may require.

    Attributes:
        name: Its name in cases and target files.
        meaning: How to detect it, in one line.
        flag: The field of `FeatureFlags` in CONNECTED that announces it; empty: no flag does.
        declared: Whether a target may declare it. Without a flag it has to, because nothing on the wire shows it.
        part: The part of the proposal that it stands for, in one word, such as "watchers"; empty: a detail that no headline names.
    """

    name: str
    meaning: str
    flag: str = ""
    declared: bool = False
    part: str = ""


@dataclass(frozen=True)
class Command:
    """A command that the proposal adds to the protocol.

    Attributes:
        name: The name of its field in `BaseCommand`.
        number: The number of its type.
        sender: The side that sends it.
        answers: The answers to it other than ERROR, by their fields in `BaseCommand`; empty: it is not answered.
        addressed_by: For a command that the broker pushes: the field that names the watcher or session it is for.
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
        register: The name of its clause register, the first part of its clause ids.
        name: Its usual name.
        title: Its subject in a few words.
        address: The public address of its text.
        capabilities: What a peer with the proposal can do.
        commands: The commands that it adds to the protocol.
        broker: Makes its extension of the broker.
        profiles: Its two readings: `default` is what real peers speak, or else this project's reading; `as-written` follows the text.
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
    def parts(self) -> tuple[Capability, ...]:
        """Return the capabilities that a target claims the proposal with, or parts of it: all of them if none names a part."""
        return tuple(one for one in self.capabilities if one.part) or self.capabilities

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the feature flags that the proposal adds to CONNECTED."""
        return tuple(dict.fromkeys(capability.flag for capability in self.capabilities if capability.flag))
