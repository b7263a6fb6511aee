"""Clauses that are tested without a mutant, and why."""

from collections.abc import Mapping

WITHOUT: Mapping[str, str] = {
    "core.ack.stale-consumer-ignored": "A permission: a broker that does otherwise is a gap in the specification, not a failure.",
    "core.consumer.stats": "A permission: a broker that does otherwise is a gap in the specification, not a failure.",
    "core.deliver.zero-permits-close": "A permission: a broker that does otherwise is a gap in the specification, not a failure.",
    "core.handshake.ping-before-connect": "A permission: a broker that does otherwise is a gap in the specification, not a failure.",
    "core.handshake.version-negative-echoed": "A permission: a broker that does otherwise is a gap in the specification, not a failure.",
    "core.lookup.cluster-names": "A permission: a broker serves such a name or refuses it, and its case takes both.",
    "core.producer.lookup-first": "A permission: a broker serves the producer at once or after LOOKUP, and its case takes both.",
}
"""Reason by clause id."""
