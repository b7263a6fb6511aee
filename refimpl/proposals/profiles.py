"""Which reading of each proposal is spoken: what real peers do, or the texts as written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_args, get_type_hints

from refimpl.proposals import message_filter, partition_watch, scalable_topics, topic_list, uniform_batches


@dataclass(frozen=True)
class Profiles:
    """The profile of each proposal, by the name of its clause register."""

    pip145: topic_list.Profile = topic_list.DEFAULT
    pip191: uniform_batches.Profile = uniform_batches.DEFAULT
    pip247: partition_watch.Profile = partition_watch.DEFAULT
    pr7629: message_filter.Profile = message_filter.DEFAULT
    pr25648: scalable_topics.Profile = scalable_topics.DEFAULT


DEFAULT = Profiles()
"""What real peers speak, and the settled readings of what no release has."""

AS_WRITTEN = Profiles(
    topic_list.AS_WRITTEN, uniform_batches.AS_WRITTEN, partition_watch.AS_WRITTEN, message_filter.AS_WRITTEN, scalable_topics.AS_WRITTEN
)
"""What the texts say."""

PROFILES: Mapping[str, Profiles] = MappingProxyType({"default": DEFAULT, "as-written": AS_WRITTEN})
"""Both, by name."""
_EARLIER_NAMES = {"letter": "as-written"}


def profile_name(text: str) -> str:
    """Return the name of a profile as it is now: `as-written` was called `letter`, which users may still write."""
    return _EARLIER_NAMES.get(text, text)


def choices(profile: type, field: str) -> tuple[object, ...]:
    """Return the values that a field of a proposal's profile can have."""
    hint = get_type_hints(profile)[field]
    return (True, False) if hint is bool else get_args(hint)
