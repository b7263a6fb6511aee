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
    "pr25648.diff.last-wins": "A permission: a broker tells the last change, all of them or none, and its cases take each.",
    "pr25648.flag.absent-costs-connection": "A permission: a broker that does otherwise is a gap in the specification, not a failure.",
    "pr25648.layout.deletion-silent": "A permission: a broker that tells it is a gap in the specification, not a failure.",
    "pr25648.layout.not-created": "A permission: a broker refuses the look-up or creates the topic, and its case takes both.",
    "pr25648.layout.ordinary-topic": "A permission: a broker that refuses the look-up is a gap in the specification, not a failure.",
}
"""Reason by clause id."""
