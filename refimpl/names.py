"""Names of topics and namespaces, for the broker, the client and the proposals.

persistent://tenant/namespace/local-name                a topic
persistent://tenant/namespace/local-name-partition-3    one partition of a partitioned topic
non-persistent://tenant/namespace/local-name            a topic that stores nothing
local-name                                              short for persistent://public/default/local-name
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DOMAINS = ("persistent", "non-persistent")
"""The domains of ordinary topics."""

SYSTEM_LOCAL_NAMES = (
    "__change_events",
    "__transaction_buffer_snapshot",
    "__transaction_buffer_snapshot_segments",
    "__transaction_buffer_snapshot_indexes",
)
"""Local names of system topics."""
SYSTEM_PREFIXES = ("persistent://pulsar/system/transaction_coordinator_assign", "persistent://pulsar/system/__transaction_log_")
"""Prefixes of full names of system topics."""
SYSTEM_ENDING = "__transaction_pending_ack"
"""Suffix of full names of system topics, before the partition suffix."""

_NAMESPACE_PART = r"[-=:.\w]+"
_NAMESPACE = re.compile(rf"{_NAMESPACE_PART}/{_NAMESPACE_PART}", re.ASCII)
_PARTITION_SUFFIX = re.compile(r"-partition-(0|[1-9][0-9]*)\Z")
_DIGITS = 10
"""Number of digits from which a number is not a partition index."""


@dataclass(frozen=True, slots=True)
class TopicName:
    """A full topic name and its parts.

    Attributes:
        full: The full name with domain, as on the wire.
        domain: One of `DOMAINS`, or a domain of a proposal.
        namespace: "tenant/namespace".
        partitioned: The full name of the partitioned topic if this is a partition, otherwise `full`.
        partition: The partition index, from 0; -1: this is not a partition.
    """

    full: str
    domain: str
    namespace: str
    partitioned: str
    partition: int

    @property
    def local(self) -> str:
        """Return the last part of the name."""
        return self.full.rpartition("/")[2]

    @property
    def persistent(self) -> bool:
        """Return whether messages are stored."""
        return self.domain != DOMAINS[1]


def is_namespace(text: str, *, lenient: bool = False) -> bool:
    """Return whether a text has the form tenant/namespace.

    Args:
        text: Any.
        lenient: Accept trailing slashes, as brokers do in list requests. No namespace with such a name can exist.
    """
    return _NAMESPACE.fullmatch(text.rstrip("/") if lenient else text) is not None


def namespace_of(topic: str) -> str:
    """Return the namespace, `tenant/namespace`, of a full topic name."""
    return "/".join(topic.partition("://")[2].split("/", 2)[:2])


def partition_name(partitioned: str, partition: int) -> str:
    """Return the full name of one partition."""
    return f"{partitioned}-partition-{partition}"


def partitioned_topic_name(topic: str) -> str:
    """Return the partitioned topic of a partition; return any other name unchanged.

    Only a canonical index counts: `x-partition-01` and `x-partition--1` are ordinary names (pip145.pattern.ordinary-suffix).
    """
    return _PARTITION_SUFFIX.sub("", topic)


def partition_index(topic: str) -> int:
    """Return the partition index in a topic name; -1 if it has none, or an invalid one."""
    base = partitioned_topic_name(topic)
    digits = topic[len(base) + len("-partition-") :]
    return int(digits) if 0 < len(digits) < _DIGITS else -1


def full_topic_name(topic: str) -> str:
    """Return the full name of a topic: core.lookup.short-name.

    Raises:
        ValueError: The name is not a valid topic name.
    """
    if "://" in topic:
        return topic
    parts = topic.split("/")
    if len(parts) not in (1, 3) or not all(parts):
        raise ValueError(f"{topic!r} is neither a local name nor tenant/namespace/local-name")
    return f"persistent://{topic}" if len(parts) == 3 else f"persistent://public/default/{topic}"


def is_system_topic(topic: str) -> bool:
    """Return whether a topic is a system topic, which lists and watches leave out: pip145.list.system-hidden.

    Other names that start with two underscores are ordinary topics.
    """
    if "__" not in topic and not topic.startswith(SYSTEM_PREFIXES):
        return False
    name = partitioned_topic_name(topic)
    local = name.rsplit("/", 1)[-1]
    return local in SYSTEM_LOCAL_NAMES or name.startswith(SYSTEM_PREFIXES) or name.endswith(SYSTEM_ENDING)
