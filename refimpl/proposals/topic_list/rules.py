"""PIP-145, the rules that both sides share: where text and peers differ, which topics count, and what a pattern fits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from refimpl.indexes.topic_patterns import TopicsPattern

PATTERN_MAX_LENGTH = 50
"""Longest pattern that a broker evaluates, in UTF-16 code units (`subscriptionPatternMaxLength`; observed default)."""

WATCHERS_PER_CONNECTION = 20_000
"""Most watchers that one connection may have."""

_PARTITION_SUFFIX = re.compile(r"-partition-(0|[1-9][0-9]*)\Z")
SYSTEM_LOCAL_NAMES = (
    "__change_events",
    "__transaction_buffer_snapshot",
    "__transaction_buffer_snapshot_segments",
    "__transaction_buffer_snapshot_indexes",
)
"""Local names of system topics."""
SYSTEM_PREFIXES = ("persistent://pulsar/system/transaction_coordinator_assign", "persistent://pulsar/system/__transaction_log_")
"""Beginnings of full names of system topics."""
SYSTEM_ENDING = "__transaction_pending_ack"
"""The end of full names of system topics, in front of a partition's number."""


@dataclass(frozen=True)
class Profile:
    """What is spoken where real peers do otherwise than the text of PIP-145."""

    close_answer: Literal["success", "watch_topic_list_success"]
    """What answers WATCH_TOPIC_LIST_CLOSE: SUCCESS, or, as the text has it, WATCH_TOPIC_LIST_SUCCESS without topics and with
    the hash of the empty list."""

    pattern_length_limited: bool
    """Whether `subscriptionPatternMaxLength` holds. The text knows no limit."""

    switch_clears_flag: bool
    """Whether the broker stops announcing watchers when the evaluation of patterns is switched off. Real brokers go on
    announcing them, and refuse each watch."""

    filtered_by: Literal["flag", "hash"]
    """What tells a client that a list was filtered: the field `filtered`, or, as the text has it, that there is a hash. Real
    brokers answer a pattern that is too long with a hash and an unfiltered list."""

    watch_hash: Literal["always", "reconnect"]
    """When WATCH_TOPIC_LIST carries the client's hash: always, or, as the text has it, only after a reconnect; a client of
    the text checks its set by GET_TOPICS_OF_NAMESPACE, as a repeated watch request without a hash would be answered in full."""


DEFAULT = Profile(close_answer="success", pattern_length_limited=True, switch_clears_flag=False, filtered_by="flag", watch_hash="always")
"""What real peers speak: Apache Pulsar 4.2.4."""

AS_WRITTEN = Profile(
    close_answer="watch_topic_list_success",
    pattern_length_limited=False,
    switch_clears_flag=True,
    filtered_by="hash",
    watch_hash="reconnect",
)
"""What the text says."""

PROFILES: Mapping[str, Profile] = MappingProxyType({"default": DEFAULT, "as-written": AS_WRITTEN})
"""Both, by name."""


def partitioned_topic_name(topic: str) -> str:
    """Return the name of the partitioned topic that a partition belongs to; any other name unchanged.

    Only a canonical number counts: `x-partition-01` and `x-partition--1` are ordinary names (pip145.pattern.ordinary-suffix).
    """
    return _PARTITION_SUFFIX.sub("", topic)


def is_system_topic(topic: str) -> bool:
    """Tell whether a topic is one of the broker's own, which lists and watches leave out: pip145.list.system-hidden.

    Other names that begin with two underscores are ordinary topics.
    """
    if "__" not in topic and not topic.startswith(SYSTEM_PREFIXES):
        return False
    name = partitioned_topic_name(topic)
    local = name.rsplit("/", 1)[-1]
    return local in SYSTEM_LOCAL_NAMES or name.startswith(SYSTEM_PREFIXES) or name.endswith(SYSTEM_ENDING)


def matched_name(topic: str) -> str:
    """Return what a pattern is compared with, `tenant/namespace/local-name`.

    The domain is left out (pip145.pattern.name-without-domain), and so is a partition's number (pip145.pattern.partitioned-name).
    """
    return partitioned_topic_name(topic).partition("://")[2]


def namespace_of(topic: str) -> str:
    """Return the namespace, `tenant/namespace`, of a full topic name."""
    return "/".join(topic.partition("://")[2].split("/", 2)[:2])


def visible_topics(topics: Iterable[str], pattern: TopicsPattern | None = None) -> list[str]:
    """Return the topics that a list shows, in their order.

    Args:
        topics: Full names; partitions by their own names (pip145.list.partitions).
        pattern: Those that it does not fit are left out.
    """
    shown = (topic for topic in topics if not is_system_topic(topic))
    return [topic for topic in shown if pattern is None or pattern.matches(matched_name(topic))]
