"""Which clause speaks of a frame of a broker."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.transcribing.recorded import Said
from refimpl.wire.pulsar_api_pb2 import TopicTerminatedError

ANSWERS: Mapping[tuple[str, str], str] = {
    ("producer", "producer_success"): "core.producer.success",
    ("subscribe", "success"): "core.subscribe.success",
    ("close_producer", "success"): "core.producer.close",
    ("close_consumer", "success"): "core.consumer.close",
    ("unsubscribe", "success"): "core.consumer.unsubscribe",
    ("seek", "success"): "core.seek.sequence",
    ("seek", "close_consumer"): "core.seek.sequence",
    ("ack", "ackResponse"): "core.ack.response-on-request",
    ("lookupTopic", "lookupTopicResponse"): "core.lookup.connect",
    ("consumerStats", "consumerStatsResponse"): "core.consumer.stats",
    ("getTopicsOfNamespace", "getTopicsOfNamespaceResponse"): "pip145.list.answered",
    ("watchTopicList", "watchTopicListSuccess"): "pip145.watch.success",
    ("getSchema", "getSchemaResponse"): "core.schema.of-version",
    ("getOrCreateSchema", "getOrCreateSchemaResponse"): "core.schema.get-or-create",
}
"""Clauses of answers, by request and answer."""
ADMINISTRATION: Mapping[tuple[str, str], str] = {
    ("unload_topic", "close_consumer"): "core.push.topic-unloaded",
    ("unload_topic", "close_producer"): "core.push.topic-unloaded",
    ("delete_topic", "close_consumer"): "core.push.topic-deleted",
    ("delete_topic", "close_producer"): "core.push.topic-deleted",
    ("terminate_topic", "close_producer"): "core.terminate.producers-closed",
    ("terminate_topic", "reachedEndOfTopic"): "core.terminate.end-told",
}
"""Clauses of what follows from calls of the administration, by call and frame."""
OTHERS = frozenset(
    {
        *("core.handshake.connected", "core.partitions.count", "core.position.last-message", "core.position.last-of-empty"),
        *("core.send.receipt", "core.send.batch-one-receipt", "core.terminate.producers-refused", "core.request.error-echoes-id"),
        *("core.deliver.chunks", "core.delay.held", "core.redeliver.on-request", "core.redeliver.on-close", "core.deliver.content"),
        *("pip145.update.on-create", "pip145.update.on-delete"),
    }
)
"""Clauses that depend on more than that."""
NOTHING_STORED = 2**64 - 1


def clause_of(cause: Said | str, one: Said) -> str | None:
    """Return the clause that a frame is cited for.

    Args:
        cause: What it follows: a frame of the client, or the name of a call of the administration.
        one: The frame.
    """
    if isinstance(cause, str):
        return ADMINISTRATION.get((cause, one.name)) or _of_itself(one)
    return ANSWERS.get((cause.name, one.name)) or _of_itself(one, cause)


def _of_itself(one: Said, cause: Said | None = None) -> str | None:
    message = one.message
    if one.name == "partitionMetadataResponse":
        return "core.partitions.count" if message.partitions else None
    if one.name == "getLastMessageIdResponse":
        return "core.position.last-of-empty" if message.last_message_id.entryId == NOTHING_STORED else "core.position.last-message"
    if one.name == "send_receipt":
        return "core.send.batch-one-receipt" if cause is not None and cause.message.num_messages > 1 else "core.send.receipt"
    if one.name == "error":
        return "core.terminate.producers-refused" if message.error == TopicTerminatedError else "core.request.error-echoes-id"
    if one.name == "watchTopicUpdate":
        return "pip145.update.on-create" if message.new_topics else "pip145.update.on-delete"
    if one.name == "message":
        return _of_message(one, cause)
    return None


def _of_message(one: Said, cause: Said | None) -> str:
    payload = one.frame.payload()
    assert payload is not None
    if payload.metadata.num_chunks_from_msg > 1:
        return "core.deliver.chunks"
    if cause is not None and cause.name == "redeliverUnacknowledgedMessages":
        return "core.redeliver.on-request"
    if cause is not None and cause.name == "close_consumer":
        return "core.redeliver.on-close"
    return "core.delay.held" if payload.metadata.HasField("deliver_at_time") else "core.deliver.content"
