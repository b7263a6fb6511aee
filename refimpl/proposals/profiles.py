"""Which reading of each proposal is spoken: what real peers do, or the texts as written."""

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
        name: Of the reading that every proposal declares.
        changed: Profiles that are others than the declared ones, by register.
    """

    name: str
    changed: Mapping[str, object] = field(default_factory=dict)

    def __getitem__(self, proposal: Proposal[ProfileT]) -> ProfileT:
        return cast(ProfileT, self.changed.get(proposal.register, proposal.profiles[self.name]))

    def replacing(self, proposal: Proposal[ProfileT], profile: ProfileT) -> Profiles:
        """Return these profiles, one of them replaced."""
        return Profiles(self.name, {**self.changed, proposal.register: profile})


DEFAULT = Profiles("default")
"""What real peers speak, and the settled readings of what no release has."""

AS_WRITTEN = Profiles("as-written")
"""What the texts say."""

PROFILES: Mapping[str, Profiles] = MappingProxyType({"default": DEFAULT, "as-written": AS_WRITTEN})
"""Both profiles, by name."""
_EARLIER_NAMES = {"letter": "as-written"}


def profile_name(text: str) -> str:
    """Return the name of a profile as it is now: `as-written` was called `letter`, which users may still write."""
    return _EARLIER_NAMES.get(text, text)


def choices(profile: type, field: str) -> tuple[object, ...]:
    """Return the values that a field of a proposal's profile can have."""
    hint = get_type_hints(profile)[field]
    return (True, False) if hint is bool else get_args(hint)
