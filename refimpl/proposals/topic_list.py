"""PIP-145, topic list filter, hash and watchers: the pure rules that both sides share.

Source: the text of PIP-145, and Apache Pulsar 2.11.0 to 5.0.0-M1 as observed, which settles what the text leaves open.
The machines of the broker side and the client side stand on these rules.
"""

import re
from collections.abc import Iterable

from refimpl.wire.checksum import crc32c

PATTERN_MAX_LENGTH = 50
"""Longest pattern that a broker evaluates, in UTF-16 code units (`subscriptionPatternMaxLength`; observed default)."""

_PARTITION_SUFFIX = re.compile(r"-partition-(0|[1-9][0-9]*)\Z")
_DOMAIN_HEAD = re.compile(r"(?s)(.*?)(non-persistent|persistent)\Z")

_SYSTEM_LOCAL_NAMES = frozenset(
    {
        "__change_events",
        "__transaction_buffer_snapshot",
        "__transaction_buffer_snapshot_segments",
        "__transaction_buffer_snapshot_indexes",
    }
)
_SYSTEM_PREFIXES = (
    "persistent://pulsar/system/transaction_coordinator_assign",
    "persistent://pulsar/system/__transaction_log_",
)


def topics_hash(topics: Iterable[str]) -> str:
    """Hash a list of topics as `topics_hash` carries it.

    Args:
        topics: Full topic names as they stand on the wire, with domain and with `-partition-N`; any order.

    Returns:
        Eight lower-case hexadecimal digits: the CRC32C of the names, sorted by UTF-16 code units and joined by commas,
        its four octets in little-endian order. The empty list has the hash `00000000`.

    Source: observed on Apache Pulsar 2.11.0 to 5.0.0-M1; the text of PIP-145 names no function.
    """
    ordered = sorted(topics, key=utf16_order)
    return crc32c(",".join(ordered).encode()).to_bytes(4, "little").hex()


def utf16_order(name: str) -> bytes:
    """Return the sort key that orders names by UTF-16 code units, as Java compares strings."""
    return name.encode("utf-16-be", "surrogatepass")


def partitioned_topic_name(topic: str) -> str:
    """Return the name of the partitioned topic that a partition belongs to; any other name unchanged.

    Only a canonical number counts: `x-partition-01` and `x-partition--1` are ordinary names.
    """
    return _PARTITION_SUFFIX.sub("", topic)


def without_domain(pattern: str) -> str:
    r"""Remove the topic domain from a pattern, keeping what stands before it, such as `^` or `\Q`.

    Raises:
        ValueError: The pattern has a `://` whose head does not end in `persistent` or `non-persistent`.

    Source: observed on Apache Pulsar 3.0.7 and later; the domain of a pattern takes no part in the match.
    """
    if "://" not in pattern:
        return pattern
    head, rest = pattern.split("://")[:2]
    found = _DOMAIN_HEAD.match(head)
    if found is None:
        raise ValueError(f"topic domain {head!r} is not supported in a pattern: use persistent:// or non-persistent://, or none")
    return found[1] + rest


def pattern_length(pattern: str) -> int:
    """Return the length of a pattern in the unit of the limit: UTF-16 code units."""
    return len(pattern.encode("utf-16-be", "surrogatepass")) // 2


def is_system_topic(topic: str) -> bool:
    """Tell whether a topic is one of the broker's own, which lists and watches leave out.

    Other names that begin with two underscores are ordinary topics.
    """
    name = partitioned_topic_name(topic)
    local = name.rsplit("/", 1)[-1]
    return local in _SYSTEM_LOCAL_NAMES or name.startswith(_SYSTEM_PREFIXES) or name.endswith("__transaction_pending_ack")
