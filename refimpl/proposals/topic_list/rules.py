"""PIP-145, the rules that both sides share: the profiles, which topics a list shows, and how a pattern is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from refimpl.indexes.topic_patterns import TopicsPattern
from refimpl.names import is_system_topic, partitioned_topic_name

PATTERN_MAX_LENGTH = 50
"""Longest pattern that a broker evaluates, in UTF-16 code units (`subscriptionPatternMaxLength`; observed default)."""

WATCHERS_PER_CONNECTION = 20_000
"""Maximum number of watchers per connection."""

_DOMAIN_HEAD = re.compile(r"(?s)(.*?)(non-persistent|persistent)\Z")


@dataclass(frozen=True)
class TopicListProfile:
    """Which reading of PIP-145 a peer speaks, where real peers differ from the text."""

    close_answer: Literal["success", "watch_topic_list_success"]
    """The answer to WATCH_TOPIC_LIST_CLOSE. `success`: SUCCESS. `watch_topic_list_success`, as the text says:
    WATCH_TOPIC_LIST_SUCCESS without topics and with the hash of the empty list."""

    pattern_length_limited: bool
    """Whether `subscriptionPatternMaxLength` applies. The text has no limit."""

    switch_covers: Literal["patterns", "feature"]
    """What `enableBrokerSideSubscriptionPatternEvaluation=false` switches off. `patterns`: lists are not filtered but still have a
    hash, and watchers are announced but refused. `feature`, as the text says: the broker answers lists as one from before the
    proposal, without a hash, so that the client filters; and it announces no watchers."""

    filtered_by: Literal["flag", "hash"]
    """How a client recognizes a filtered list. `flag`: by the field `filtered`. `hash`, as the text says: the list has a
    hash. Real brokers answer with a hash and an unfiltered list if a pattern is too long or not evaluated; with them, such a client
    takes the whole namespace for its topics."""

    watch_hash: Literal["always", "reconnect"]
    """When WATCH_TOPIC_LIST carries the client's hash: `always`, or, as the text says, only after a `reconnect`. A client that
    follows the text checks its list with GET_TOPICS_OF_NAMESPACE, because the answer to a repeated watch request without a
    hash has all topics."""


DEFAULT = TopicListProfile(
    close_answer="success", pattern_length_limited=True, switch_covers="patterns", filtered_by="flag", watch_hash="always"
)
"""What real peers speak: Apache Pulsar 4.2.4."""

AS_WRITTEN = TopicListProfile(
    close_answer="watch_topic_list_success",
    pattern_length_limited=False,
    switch_covers="feature",
    filtered_by="hash",
    watch_hash="reconnect",
)
"""What the text says."""

PROFILES: Mapping[str, TopicListProfile] = MappingProxyType({"default": DEFAULT, "as-written": AS_WRITTEN})
"""Both profiles, by name."""


def visible_topics(topics: Iterable[str], pattern: TopicsPattern | None = None) -> list[str]:
    """Return the topics that a list shows, in the given order: pip145.list.system-hidden.

    Args:
        topics: Full names; partitions by their own names (pip145.list.partitions).
        pattern: Leave out topics that do not match it; None: keep all.
    """
    shown = (topic for topic in topics if not is_system_topic(topic))
    return [topic for topic in shown if pattern is None or pattern.matches(matched_name(topic))]


def matched_name(topic: str) -> str:
    """Return the part of a topic name that patterns match, `tenant/namespace/local-name`.

    The domain is removed (pip145.pattern.name-without-domain), and so is a partition suffix (pip145.pattern.partitioned-name).
    """
    return partitioned_topic_name(topic).partition("://")[2]


def without_domain(pattern: str) -> str:
    r"""Remove the topic domain from a pattern; keep what precedes it, such as `^` or `\Q`.

    Raises:
        ValueError: The text before `://` does not end in `persistent` or `non-persistent`, or nothing follows the `://`.

    Source: observed on Apache Pulsar 3.0.7 and later; the match ignores the domain of a pattern.
    """
    if "://" not in pattern:
        return pattern
    head, rest = pattern.split("://")[:2]  # pip145.pattern.second-separator
    found = _DOMAIN_HEAD.match(head)
    if found is None:  # pip145.pattern.unknown-domain
        raise ValueError(f"Does not support topic domain: {head}")
    if not rest:  # pip145.pattern.domain-only
        raise ValueError(f"No pattern behind the topic domain: {pattern}")
    return found[1] + rest


def pattern_length(pattern: str) -> int:
    """Return the length of a pattern in UTF-16 code units, the unit of the limit: pip145.pattern.length-unit."""
    return len(pattern.encode("utf-16-be", "surrogatepass")) // 2
