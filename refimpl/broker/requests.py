"""Which function carries out which command, and how a refusal is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message

from refimpl.broker import consuming, lookups, publishing, scalable, schemas
from refimpl.proposals.refused import Refused
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandError,
    CommandGetOrCreateSchema,
    CommandGetOrCreateSchemaResponse,
    CommandGetSchema,
    CommandGetSchemaResponse,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandScalableTopicSubscribe,
    CommandScalableTopicSubscribeResponse,
    NotAllowedError,
)

if TYPE_CHECKING:
    from refimpl.broker.session import Session

Handler = Callable[["Session", Any, Frame], None]
"""Carries out one command of a session. The frame is for commands with a payload."""

NOT_BUILT = (
    "newTxn",
    "addPartitionToTxn",
    "addSubscriptionToTxn",
    "endTxn",
    "endTxnOnPartition",
    "endTxnOnSubscription",
    "tcClientConnectRequest",
    "scalableTopicSubscribe",
)


def not_built(session: Session, request: Any, frame: Frame) -> None:  # noqa: ARG001
    """Refuse what this broker does not do.

    Raises:
        Refused: NotAllowedError.
    """
    raise Refused(NotAllowedError, f"{request.DESCRIPTOR.name.removeprefix('Command')} is not supported by this broker")


REQUESTS: dict[str, Handler] = {
    "lookupTopic": lookups.lookup,
    "partitionMetadata": lookups.partitioned_metadata,
    "getTopicsOfNamespace": lookups.get_topics,
    "watchTopicList": lookups.watch_topic_list,
    "watchTopicListClose": lookups.watch_topic_list_close,
    "getSchema": schemas.get_schema,
    "getOrCreateSchema": schemas.get_or_create_schema,
    "watchPartitionUpdate": lookups.watch_partition_update,
    "partitionUpdateResult": lookups.partition_update_result,
    "watchPartitionUpdateClose": lookups.watch_partition_update_close,
    "scalableTopicLookup": scalable.lookup,
    "scalableTopicClose": scalable.close_lookup,
    "watchScalableTopics": scalable.watch,
    "watchScalableTopicsClose": scalable.close_watch,
    "producer": publishing.producer,
    "send": publishing.send,
    "close_producer": publishing.close_producer,
    "subscribe": consuming.subscribe,
    "flow": consuming.flow,
    "ack": consuming.ack,
    "redeliverUnacknowledgedMessages": consuming.redeliver,
    "seek": consuming.seek,
    "getLastMessageId": consuming.get_last_message_id,
    "consumerStats": consuming.consumer_stats,
    "unsubscribe": consuming.unsubscribe,
    "close_consumer": consuming.close_consumer,
    **dict.fromkeys(NOT_BUILT, not_built),
}
"""By the field of the command in BaseCommand."""


def refusal(request: Any, refused: Refused) -> Message:
    """Return what answers a request that is refused: the failed form of its own answer if it has one, else ERROR."""
    details: dict[str, Any] = {"request_id": request.request_id, "error": refused.code, "message": refused.message}
    if isinstance(request, CommandLookupTopic):
        return CommandLookupTopicResponse(response=CommandLookupTopicResponse.Failed, **details)
    if isinstance(request, CommandPartitionedTopicMetadata):
        return CommandPartitionedTopicMetadataResponse(response=CommandPartitionedTopicMetadataResponse.Failed, **details)
    if isinstance(request, CommandGetSchema | CommandGetOrCreateSchema):
        answer = CommandGetSchemaResponse if isinstance(request, CommandGetSchema) else CommandGetOrCreateSchemaResponse
        return answer(request_id=request.request_id, error_code=refused.code, error_message=refused.message)  # type: ignore[arg-type]
    if isinstance(request, CommandScalableTopicSubscribe):
        return CommandScalableTopicSubscribeResponse(**details)
    return CommandError(**details)
