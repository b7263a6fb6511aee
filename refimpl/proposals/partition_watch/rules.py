"""PIP-247, the rules behind both sides: the profiles, versions of updates, the meaning of results, and when to resend an update."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Literal

from refimpl.backoff import delay
from refimpl.wire.scan import varint_size

RESULT_TIMEOUT = 10.0
"""Seconds until an update without a result is resent (`notificationForPartitionUpdateTimeoutSeconds`; the text's default)."""

POLL_INTERVAL = 60.0
"""Seconds between two polls of a client without a watcher (`autoUpdatePartitionsInterval`)."""

RECONCILE_PERIOD = 600.0
"""Seconds between two requests of a client for the counts of its watcher."""

WATCHERS_PER_CONNECTION = 20_000
"""Maximum number of watchers per connection."""

TOPICS_PER_CONNECTION = 200_000
"""Maximum number of topics of all watchers of one connection together."""

_LARGEST_COUNT_BYTES = 5
_FRAME_AND_IDS_BYTES = 64


@dataclass(frozen=True)
class PartitionWatchProfile:
    """Which reading of PIP-247 a peer speaks, where there are two."""

    failed_result: Literal["backoff", "at_once"]
    """When the broker resends an update that the client failed to apply. `backoff`: at once the first time, then after delays
    that double. `at_once`, as the text says: always at once. A listener that always fails then keeps broker and client busy."""

    reconciles: bool
    """Whether a client with a watcher also asks for its counts periodically. The text has no such request: after a lost update,
    the counts stay wrong until the next change or reconnect."""

    resend_version: Literal["counts", "each"]
    """When the version grows. `counts`: when the counts have changed, so an update is resent with its version. `each`: with each
    sending, so the result of a listener that is slower than the time-out always comes too late. The text ("every time update")
    allows both. Both profiles use `counts`, because with `each` such a listener gets updates without end."""


DEFAULT = PartitionWatchProfile(failed_result="backoff", reconciles=True, resend_version="counts")
"""The settled reading; no release of Apache Pulsar implements PIP-247."""

AS_WRITTEN = PartitionWatchProfile(failed_result="at_once", reconciles=False, resend_version="counts")
"""What the text says."""

PROFILES: Mapping[str, PartitionWatchProfile] = MappingProxyType({"default": DEFAULT, "as-written": AS_WRITTEN})
"""Both profiles, by name."""


def largest_frame(topics: Iterable[str]) -> int:
    """Return the maximum size in bytes of a success or an update with these topics: pip247.watch.too-large.

    Args:
        topics: Topic names as they are sent.
    """
    size = _FRAME_AND_IDS_BYTES
    for topic in topics:
        name = len(topic.encode())
        entry = 1 + varint_size(name) + name + 1 + _LARGEST_COUNT_BYTES
        size += 1 + varint_size(entry) + entry
    return size


def next_version(version: int, *, is_different: bool, profile: PartitionWatchProfile = DEFAULT) -> int:
    """Return the version of the next update.

    Args:
        version: Version of the last update; 0 before the first.
        is_different: Whether a count has changed since the last update.
        profile: Which reading to follow.
    """
    # pip247.version.from-one, pip247.version.grows, pip247.version.same-counts, pip247.version.each-sending
    return version + 1 if is_different or profile.resend_version == "each" else version


class ResultJudgement(Enum):
    """What a PARTITION_UPDATE_RESULT means."""

    LATE = "it is about an update that was replaced; it is ignored"
    DONE = "the client has applied the update in flight"
    FAILED = "the client has not applied the update in flight"
    UNEXPECTED = "no such update is in flight; it is ignored and counted"


def judge_result(in_flight: int | None, version: int, *, success: bool) -> ResultJudgement:
    """Return what a result means for the update in flight.

    Args:
        in_flight: Version of the update that waits for its result; None: no update is in flight.
        version: Version that the result names.
        success: Whether the client has applied the update.
    """
    if in_flight is None or version > in_flight:  # pip247.result.nothing-in-flight, pip247.result.higher
        return ResultJudgement.UNEXPECTED
    if version < in_flight:  # pip247.result.lower
        return ResultJudgement.LATE
    return ResultJudgement.DONE if success else ResultJudgement.FAILED  # pip247.result.success, pip247.result.failure


def resend_delay(failures: int, longest: float, profile: PartitionWatchProfile = DEFAULT) -> float:
    """Return the number of seconds before a failed update is resent.

    Args:
        failures: Number of failed results since the last success, including this one.
        longest: Maximum delay, in seconds.
        profile: Which reading to follow.
    """
    if failures <= 1 or profile.failed_result == "at_once":  # pip247.result.failure, pip247.result.failure-at-once
        return 0.0
    return delay(failures - 1, longest=longest)  # pip247.result.failure-backoff


def count_in_force(known: int, told: int) -> int:
    """Return the partition count that a client uses: it grows, and never shrinks (pip247.client.shrinking)."""
    return max(known, told)
