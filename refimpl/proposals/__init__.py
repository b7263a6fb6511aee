"""The proposals, one package each: what changes on the wire, the rules, the side of the broker and that of the client; all without I/O."""

from typing import Any

from refimpl.proposals import message_filter, partition_watch, scalable_topics, topic_list, uniform_batches
from refimpl.proposals.declaration import Proposal

PROPOSALS: tuple[Proposal[Any], ...] = (
    topic_list.PROPOSAL,
    message_filter.PROPOSAL,
    partition_watch.PROPOSAL,
    scalable_topics.PROPOSAL,
    uniform_batches.PROPOSAL,
)
"""All that this project implements; another one is a package, and a line here."""
