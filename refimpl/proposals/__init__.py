"""The proposals, a package for each: changes on the wire, rules, the broker's side, the client's side. None of them does I/O."""

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
"""All proposals of this project. To add one, add its package and a line here."""
