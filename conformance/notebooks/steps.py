"""In which order to implement each proposal: the steps of `to_implement`, each with globs for the clauses that check it."""

from __future__ import annotations

from conformance.engine.step import Role

STEPS: dict[tuple[str, Role], tuple[tuple[str, str], ...]] = {
    ("pip145", "broker"): (
        ("answers requests without a pattern as before", "compat.*"),
        ("filters by a pattern", "list.* pattern.*"),
        ("computes the hash, and leaves out lists that are known", "hash.*"),
        ("sets the flag, answers a watch with the list", "flag.* watch.*"),
        ("announces each change", "update.*"),
        ("ends watches", "close.*"),
        ("loses and doubles nothing when things happen at once", "race.*"),
    ),
    ("pip145", "client"): (
        ("sends pattern and hash, and believes the answer", "client.list-*"),
        ("watches, reconnects, and checks its set", "client.watch-* client.attaches-again client.deleted-while-starting"),
    ),
    ("pr7629", "broker"): (
        ("serves consumers without a filter as before, and sets the flag", "flag.* compat.*"),
        ("builds the filter of a SUBSCRIBE, or refuses it", "subscribe.* class.* properties.*"),
        ("matches payloads by pattern and by prefix", "regex.* prefix.*"),
        ("judges entries, and delivers what matches", "judge.* deliver.* permits.*"),
        ("acknowledges what does not match", "ack.* stats.*"),
        ("has one filter for a subscription", "scope.*"),
        ("decodes messages by their schema", "avro.*"),
    ),
    ("pr7629", "client"): (("sends its filter where the flag allows it", "compat.* client.*"),),
    ("pip247", "broker"): (
        ("answers clients that poll, and sets the flag", "flag.* compat.*"),
        ("registers watchers, and answers with the counts", "watch.*"),
        ("sends an update for each change", "update.* version.*"),
        ("takes results, and sends again after a failure", "result.*"),
        ("sends again without a result", "timeout.*"),
        ("ends watches", "close.*"),
    ),
    ("pip247", "client"): (
        ("polls where it can't watch", "client.needs-flag client.poll* client.switched-off"),
        ("registers where it can", "client.registers client.no-poll* client.success-*"),
        ("calls the listener, and sends the result", "client.*update* client.*result client.*call"),
        ("takes updates that come again", "client.not-newer client.failed-again"),
        ("takes odd updates", "client.shrinking client.foreign-topic client.unknown-id"),
        ("uses new partitions from their first message on", "client.from-first client.new-alike client.routes-anew client.attaches-*"),
        ("comes back, and ends", "client.re* client.versions-restart client.other-broker client.closes client.ended-closes"),
    ),
    ("pr25648", "broker"): (
        ("has scalable topics, and sets the flag", "admin.* flag.*"),
        ("answers a request with a snapshot", "watch.* namespace.* filter.*"),
        ("says nothing where the hash is equal", "hash.*"),
        ("sends diffs", "diff.*"),
        ("refuses in an update, and ends watches", "error.* close.*"),
        ("answers look-ups of single topics", "layout.*"),
    ),
    ("pr25648", "client"): (
        ("asks, and keeps its set", "client.*first* client.start-* client.late-listener client.snapshot-replaces client.needs-flag"),
        ("takes updates that are repeated or odd", "client.d* client.empty-update client.unknown-id"),
        ("comes back with its hash", "client.hash-on-reconnect client.silence client.reconnects client.backoff"),
        ("fails and ends as its user expects", "client.e* client.closes"),
        ("attaches to the segments of a layout", "layout.client-* client.attaches-again client.removed-while-attaching"),
    ),
    ("pip191", "client"): (
        ("has the setting, which does nothing while it is empty", "setting.*"),
        ("extracts what the setting lists", "extract.*"),
        ("closes a batch when the extracted set changes, or for another reason", "batch.* trigger.*"),
        ("writes the set into the header, and reads none of it", "header.*"),
    ),
    ("pip191", "broker"): (
        ("delivers entries with their headers, as they were sent", "carry.*"),
        ("asks its entry filters, which look at headers only", "filter.*"),
        ("counts what it rejects", "stats.*"),
    ),
}
"""By register and side: what to do, and globs for the ids of clauses without their register, separated by blanks."""
