"""The handler of each command, and the answers to refused requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message

from refimpl.broker import consuming, credentials, lookups, publishing, schemas
from refimpl.proposals import extension
from refimpl.proposals.refused import Refused
from refimpl.wire import type_name, wrap
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandEndTxnOnPartition,
    CommandEndTxnOnPartitionResponse,
    CommandEndTxnOnSubscription,
    CommandEndTxnOnSubscriptionResponse,
    CommandError,
    CommandGetOrCreateSchema,
    CommandGetOrCreateSchemaResponse,
    CommandGetSchema,
    CommandGetSchemaResponse,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    NotAllowedError,
)

if TYPE_CHECKING:
    from refimpl.broker.session import Session

Handler = Callable[["Session", Any, Frame], None]
"""Handles a command of a session. The frame is for commands with a payload."""

NOT_BUILT = (
    "newTxn",
    "addPartitionToTxn",
    "addSubscriptionToTxn",
    "endTxn",
    "endTxnOnPartition",
    "endTxnOnSubscription",
    "tcClientConnectRequest",
)
"""The commands of transactions, by their fields in BaseCommand, which this broker does not implement."""


def not_built(session: Session, request: Any, frame: Frame) -> None:  # noqa: ARG001
    """Refuse a command that this broker does not implement.

    Raises:
        Refused: NotAllowedError.
    """
    raise Refused(NotAllowedError, f"{request.DESCRIPTOR.name.removeprefix('Command')} is not supported by this broker")


REQUESTS: dict[str, Handler] = {
    "authResponse": credentials.auth_response,
    "lookupTopic": lookups.lookup,
    "partitionMetadata": lookups.partitioned_metadata,
    "getTopicsOfNamespace": lookups.get_topics,
    "getSchema": schemas.get_schema,
    "getOrCreateSchema": schemas.get_or_create_schema,
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
"""The handlers of commands outside the proposals, by their fields in BaseCommand."""


def answering(handler: extension.CommandHandler) -> Handler:
    """Return a handler that sends the answer of a proposal's handler."""

    def carry_out(session: Session, request: Any, frame: Frame) -> None:  # noqa: ARG001
        answer = handler(session, request)
        if answer is not None:
            fields: Any = answer
            if "error" in answer.DESCRIPTOR.fields_by_name and answer.HasField("error"):
                session.log_refusal(type_name(wrap(request)), Refused(fields.error, fields.message))
            session.send(answer)

    return carry_out


def refusal(request: Any, refused: Refused) -> Message:
    """Return the answer to a refused request: the failed form of its own response if there is one, or else ERROR."""
    details: dict[str, Any] = {"request_id": request.request_id, "error": refused.code, "message": refused.message}
    if isinstance(request, CommandLookupTopic):
        return CommandLookupTopicResponse(response=CommandLookupTopicResponse.Failed, **details)
    if isinstance(request, CommandPartitionedTopicMetadata):
        return CommandPartitionedTopicMetadataResponse(response=CommandPartitionedTopicMetadataResponse.Failed, **details)
    if isinstance(request, CommandGetSchema | CommandGetOrCreateSchema):
        answer = CommandGetSchemaResponse if isinstance(request, CommandGetSchema) else CommandGetOrCreateSchemaResponse
        return answer(request_id=request.request_id, error_code=refused.code, error_message=refused.message)  # type: ignore[arg-type]
    if isinstance(request, CommandEndTxnOnPartition):
        return CommandEndTxnOnPartitionResponse(**_transaction(request), **details)
    if isinstance(request, CommandEndTxnOnSubscription):
        return CommandEndTxnOnSubscriptionResponse(**_transaction(request), **details)
    return CommandError(**details)


def _transaction(request: CommandEndTxnOnPartition | CommandEndTxnOnSubscription) -> dict[str, Any]:
    return {"txnid_most_bits": request.txnid_most_bits, "txnid_least_bits": request.txnid_least_bits}
