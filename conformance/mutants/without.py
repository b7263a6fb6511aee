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
    "pip145.flag.absent-costs-connection": "A permission: a broker that does otherwise is a gap in the specification, not a failure.",
    "pip145.flag.filtering-off-keeps": "A permission: the flag stays or is cleared, and its case takes both.",
    "pip145.flag.switched-off-still-serves": "A permission: a broker serves the watch or refuses it, and its case takes both.",
    "pip145.list.flags-written": "A permission: a broker that leaves out default values is a gap in the specification, not a failure.",
    "pip145.list.inactive-non-persistent": "A permission: a broker that lists such a topic is a gap in the specification, not a failure.",
    "pip145.list.mode-all-order": "A permission: a broker that lists in another order is a gap in the specification, not a failure.",
    "pip145.list.properties": "A permission: a broker whose list depends on properties is a gap in the specification, not a failure.",
    "pip145.list.three-part-namespace": "A permission: a broker lists nothing or ends the connection, and its case takes both.",
    "pip145.list.trailing-slash": "A permission: a broker that does otherwise is a gap in the specification, not a failure.",
    "pip145.pattern.java-reading": "A permission: a broker that reads as RE2 does, like this one, is a gap, not a failure.",
    "pip145.pattern.look-around": "A permission: a broker may refuse it, like this one, and its case does not run then.",
    "pip145.pattern.second-separator": "A permission: a broker that does otherwise is a gap in the specification, not a failure.",
    "pip145.watch.look-around": "A permission: a broker may refuse it, like this one, and its case does not run then.",
    "pip145.watch.odd-namespace": "A permission: a broker watches such a namespace or refuses it, and its case takes both.",
    "pip247.flag.absent-costs-connection": "A permission: a broker that does otherwise is a gap in the specification, not a failure.",
    "pip191.filter.stock-batches": "A permission: a broker that does otherwise is a gap in the specification, not a failure.",
    "pr7629.avro.schema-safe": "A permission: a broker refuses such a schema or serves it, and its case takes both.",
    "pr7629.avro.trailing-octets": "A permission: a broker reads such a record or does not, and its case takes both.",
    "pr7629.compat.field-ignored": "A permission: a broker from before the proposal that refuses the field breaks no rule of it.",
    "pr7629.prefix.empty": "A permission: a broker serves an empty prefix or refuses it, and its case takes both.",
    "pr7629.stats.again": "A permission: a broker counts such a message again or does not, and its case takes both.",
}
"""Reason by clause id."""
