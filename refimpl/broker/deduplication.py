"""Deduplication: a message is stored once, if its producer sends it again with the same sequence id.

The broker keeps the highest sequence id of each producer's name. What is at or below it is a duplicate; its receipt has no message id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from refimpl.wire.pulsar_api_pb2 import CommandSend, MessageMetadata

if TYPE_CHECKING:
    from refimpl.broker.topic import Producer, Topic


def last_sequence_id(topic: Topic, name: str) -> int:
    """Return the highest sequence id of a producer, by name; -1: it is not kept."""
    return topic.stored.sequences.get(name, -1) if _is_on(topic) else -1


def is_duplicate(producer: Producer, request: CommandSend, metadata: MessageMetadata) -> bool:
    """Return whether a message is stored already; if not, take note of it."""
    topic = producer.topic
    if not _is_on(topic):
        topic.stored.sequences.clear()
        return False
    if metadata.num_chunks_from_msg > metadata.chunk_id + 1:  # the chunks of a message have one sequence id, and the last one counts
        return False
    if request.sequence_id <= topic.stored.sequences.get(producer.name, -1):
        return True
    topic.stored.sequences[producer.name] = max(request.sequence_id, request.highest_sequence_id)
    return False


def _is_on(topic: Topic) -> bool:
    return topic.name.persistent and topic.policies.deduplicates(topic.name)
