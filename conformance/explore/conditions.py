"""Whether a difference is a freedom of the list. Conditions that a signature can't express look at what both sides have said."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping

from conformance.explore.difference import Difference
from conformance.explore.freedoms import FreeDifference
from conformance.explore.said import Line


def allows(entry: FreeDifference, difference: Difference, release: str | None) -> bool:
    """Tell whether a difference is one of the list.

    Args:
        entry: The entry of the list.
        difference: The difference.
        release: The release of Apache Pulsar that it was met with; None: another broker.
    """
    if (entry.only and release not in entry.only) or (entry.after and difference.kinds.isdisjoint(entry.after)):
        return False
    if entry.when is not None and not _CONDITIONS[entry.when](difference):
        return False
    return fnmatch.fnmatchcase(difference.signature, entry.signature)


def _other_consumers(difference: Difference) -> bool:
    """Tell whether only shared subscriptions differ, of which a message has gone to another consumer before."""
    return all(_is_assigned_otherwise(difference, line.lane) for line in (*difference.missing, *difference.extra))


def _is_assigned_otherwise(difference: Difference, lane: str) -> bool:
    here, there = (told.takers.get(lane, {}) for told in (difference.told, difference.other))
    return any(took != there[message][: len(took)] and there[message] != took[: len(there[message])] for message, took in here.items() if message in there)


def _beyond_permits(difference: Difference) -> bool:
    """Tell whether all that is too much are entries to consumers that have got more messages than permits, but not more entries."""
    told = difference.other

    def is_beyond(line: Line) -> bool:
        return line.name == "message" and any(
            one.messages > one.permits >= one.entries for key, one in told.counts.items() if told.lane(*key) == line.lane
        )

    return not difference.missing and all(is_beyond(line) for line in difference.extra)


_CONDITIONS: Mapping[str, Callable[[Difference], bool]] = {
    "other-consumers": _other_consumers,
    "beyond-permits": _beyond_permits,
}
