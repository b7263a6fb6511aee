"""Uniform batches (PIP-191) over large corpora: which messages share an entry, what that costs, and what an entry filter can see.

settings   the variants: extracted properties, limits, and consumers that want one value
windows    batches as window expressions
reference  batches as the reference's own `UniformBatcher` makes them, of each producer's messages in order
sizes      the size of messages and entries on the wire, as SQL expressions
entries    from messages to entries, and what entry filters make of them
laws       the laws of entries, and what a setting costs and saves

Both formulations take the columns of `messages` and number each producer's batches from 0. Time is the producer's clock: the
latest `publish_time` so far, since a clock that is set back closes no batch. A batch whose time is up closes before a message of
that instant is added, so with a delay of 0 each message goes alone.
"""
