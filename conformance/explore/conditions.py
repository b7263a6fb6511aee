"""Whether a difference is in the list of freedoms. Conditions that a signature can't express look at what both sides have said."""

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
    if entry.when is not None and not all(_CONDITIONS[entry.when](difference, line) for line in (*difference.missing, *difference.extra)):
        return False
    return fnmatch.fnmatchcase(difference.signature, entry.signature)


def _other_consumers(difference: Difference, line: Line) -> bool:
    """Before this, a message of the shared subscription has gone to another consumer than on the reference."""
    here, there = (told.takers.get(line.lane, {}) for told in (difference.told, difference.other))
    return any(one != other for body in here.keys() & there.keys() for one, other in zip(here[body], there[body], strict=False))


def _beyond_permits(difference: Difference, line: Line) -> bool:
    """It is an entry to a consumer that has got more messages than permits, but not more entries."""
    told = difference.other
    return any(one.messages > one.permits >= one.entries for key, one in told.counts.items() if told.lane(*key) == line.lane)


def _shared_without_order(difference: Difference, line: Line) -> bool:
    """The shared subscription is of a non-persistent topic, and its consumers have several priorities, or one of them has a debt."""
    told = difference.other
    consumers = [key for key in told.open_consumers if told.lane(*key) == line.lane]
    priorities = {told.consumers[key].get("priority_level", 0) for key in consumers}
    in_debt = any(told.counts[key].messages > told.counts[key].permits for key in consumers)
    return " of non-persistent://" in line.lane and len(consumers) > 1 and (len(priorities) > 1 or in_debt)


def _failover(difference: Difference, line: Line) -> bool:
    """It is about a consumer of a failover subscription."""
    return difference.told.consumers.get((line.lane, line.value("consumer_id")), {}).get("subType") == "Failover"


def _acknowledged_before_unload(difference: Difference, line: Line) -> bool:
    """It is an entry that was acknowledged before its topic was unloaded."""
    if line.name != "message":
        return False
    told = difference.other
    subscription = line.lane if line.value("consumer_id") is None else told.subscription_of(line.lane, line.value("consumer_id"))
    return (subscription, ",".join(line.value("bodies"))) in told.unsafe


_CONDITIONS: Mapping[str, Callable[[Difference, Line], bool]] = {
    "other-consumers": _other_consumers,
    "beyond-permits": _beyond_permits,
    "shared-without-order": _shared_without_order,
    "failover": _failover,
    "acknowledged-before-unload": _acknowledged_before_unload,
}
"""Conditions on each line that differs, by their name in freedoms.yaml."""
