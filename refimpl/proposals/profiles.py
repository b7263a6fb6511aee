"""The profiles: whether a peer follows what real peers do, or the text of each proposal as written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar, cast, get_args, get_type_hints

from refimpl.proposals.declaration import Proposal

ProfileT = TypeVar("ProfileT")


@dataclass(frozen=True)
class Profiles:
    """The profile of each proposal: `profiles[PROPOSAL]`.

    Attributes:
        name: The name of the profile that applies to every proposal.
        changed: Profiles that replace the named one, by register.
    """

    name: str
    changed: Mapping[str, object] = field(default_factory=dict)

    def __getitem__(self, proposal: Proposal[ProfileT]) -> ProfileT:
        return cast(ProfileT, self.changed.get(proposal.register, proposal.profiles[self.name]))

    def replacing(self, proposal: Proposal[ProfileT], profile: ProfileT) -> Profiles:
        """Return a copy with the profile of one proposal replaced."""
        return Profiles(self.name, {**self.changed, proposal.register: profile})


DEFAULT = Profiles("default")
"""What real peers speak; the settled readings for proposals that no release implements."""

AS_WRITTEN = Profiles("as-written")
"""The texts as written."""

PROFILES: Mapping[str, Profiles] = MappingProxyType({"default": DEFAULT, "as-written": AS_WRITTEN})
"""Both profiles, by name."""
_EARLIER_NAMES = {"letter": "as-written"}


def profile_name(text: str) -> str:
    """Return the current name of a profile. Users may still write `letter`, the earlier name of `as-written`."""
    return _EARLIER_NAMES.get(text, text)


def choices(profile: type, field: str) -> tuple[object, ...]:
    """Return the possible values of a field of a proposal's profile."""
    hint = get_type_hints(profile)[field]
    return (True, False) if hint is bool else get_args(hint)
