"""Names of ordinary topics, parsed as a broker does."""

from __future__ import annotations

from refimpl.names import DOMAINS, TopicName, is_namespace, partitioned_topic_name
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import InvalidTopicName


def parse_topic(text: str) -> TopicName:
    """Parse the name of an ordinary topic.

    Raises:
        Refused: InvalidTopicName, with the messages of Apache Pulsar 4.2.4.
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
    namespace = "/".join(parts[:2])
    if len(parts) < 3 or not is_namespace(namespace):
        raise _invalid(f"Invalid topic name {text}")
    if not parts[2].strip():
        raise _invalid(f"Invalid topic name: {text}. Topic local name must not be blank.")
    full = f"{domain}://{rest}"
    partitioned = partitioned_topic_name(full)
    partition = int(full[len(partitioned) + len("-partition-") :]) if partitioned != full else -1
    return TopicName(full, domain, namespace, partitioned, partition)


def _invalid(detail: str) -> Refused:
    return Refused(InvalidTopicName, f"Invalid topic name: {detail}")
