"""Names of topics and namespaces, read as a broker reads them.

persistent://tenant/namespace/local-name        a topic
persistent://tenant/namespace/local-name-partition-3    one partition of a partitioned topic
local-name                                      short for persistent://public/default/local-name
topic://tenant/namespace/local-name             a scalable topic
segment://tenant/namespace/local-name/0000-ffff-0       one segment of a scalable topic
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from refimpl.proposals.refused import Refused
from refimpl.proposals.scalable_topics import is_scalable_topic, namespace_of, parse_segment_topic
from refimpl.proposals.topic_list import partitioned_topic_name
from refimpl.wire.pulsar_api_pb2 import InvalidTopicName

DOMAINS = ("persistent", "non-persistent")
"""Those of ordinary topics."""
SCALABLE, SEGMENT = "topic", "segment"
"""Those of PR 25648."""
_NAMESPACE_PART = re.compile(r"[-=:.\w]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class TopicName:
    """A topic's full name, and its parts.

    Attributes:
        full: With domain, as it stands on the wire.
        namespace: "tenant/namespace".
        partitioned: Name of the partitioned topic if this is a partition, else the same as `full`.
        partition: Number of the partition, from 0; -1: this is none.
    """

    full: str
    domain: str
    namespace: str
    partitioned: str
    partition: int

    @property
    def persistent(self) -> bool:
        """Tell whether messages are stored."""
        return self.domain in (DOMAINS[0], SEGMENT)


def parse_topic(text: str) -> TopicName:
    """Read the name of an ordinary topic.

    Raises:
        Refused: InvalidTopicName; the texts are those of Apache Pulsar 4.2.4.
    """
    domain, separator, rest = text.partition("://")
    if not separator:
        parts = text.split("/")
        if len(parts) not in (1, 3):
            raise _invalid(f"Invalid short topic name '{text}', it should be in the format of <tenant>/<namespace>/<topic> or <topic>")
        domain, rest = "persistent", text if len(parts) == 3 else f"public/default/{text}"
    if domain not in DOMAINS:
        raise _invalid(f"Invalid topic domain: '{domain}'")
    parts = rest.split("/")
    if len(parts) > 3:
        detail = "V1 topic names (with cluster component) are no longer supported. Please use the V2 format: "
        raise _invalid(f"{detail}'<domain>://tenant/namespace/topic'. Got: {text}")
    if len(parts) < 3 or not all(_NAMESPACE_PART.fullmatch(part) for part in parts[:2]):
        raise _invalid(f"Invalid topic name {text}")
    if not parts[2].strip():
        raise _invalid(f"Invalid topic name: {text}. Topic local name must not be blank.")
    full = f"{domain}://{rest}"
    partitioned = partitioned_topic_name(full)
    partition = int(full[len(partitioned) + len("-partition-") :]) if partitioned != full else -1
    return TopicName(full, domain, "/".join(parts[:2]), partitioned, partition)


def parse_any_topic(text: str) -> TopicName:
    """Read a topic name, also that of a scalable topic or of a segment.

    Raises:
        Refused: InvalidTopicName.
    """
    domain, separator, _ = text.partition("://")
    if not separator or domain not in (SCALABLE, SEGMENT):
        return parse_topic(text)
    if not (is_scalable_topic(text) if domain == SCALABLE else parse_segment_topic(text)):
        raise _invalid(f"Invalid topic name {text}")
    return TopicName(text, domain, namespace_of(text), text, -1)


def partition_name(partitioned: str, partition: int) -> str:
    """Return the full name of one partition."""
    return f"{partitioned}-partition-{partition}"


def is_namespace(text: str) -> bool:
    """Tell whether a text has the form tenant/namespace.

    Slashes at its end are let through, as brokers do: such a name belongs to no namespace that could exist.
    """
    parts = text.rstrip("/").split("/")
    return len(parts) == 2 and all(_NAMESPACE_PART.fullmatch(part) for part in parts)


def _invalid(detail: str) -> Refused:
    return Refused(InvalidTopicName, f"Invalid topic name: {detail}")
