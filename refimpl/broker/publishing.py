"""The commands of producers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from refimpl.broker.deduplication import is_duplicate, last_sequence_id
from refimpl.broker.topic import MAX_U64, Producer
from refimpl.proposals.refused import ProtocolViolation, Refused
from refimpl.store import Chunk, Entry
from refimpl.wire import WireError, checksum_matches, is_batch
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    ChecksumError,
    CommandCloseProducer,
    CommandProducer,
    CommandProducerSuccess,
    CommandSend,
    CommandSendError,
    CommandSendReceipt,
    CommandSuccess,
    MessageIdData,
    MessageMetadata,
    NotAllowedError,
    ProducerAccessMode,
    ServiceNotReady,
    UnknownError,
)

if TYPE_CHECKING:
    from refimpl.broker.session import Session


def producer(session: Session, request: CommandProducer, frame: Frame) -> None:  # noqa: ARG001
    """Add a producer; create the topic if allowed."""
    broker = session.broker
    name = broker.topic_name(request.topic)
    broker.authorization.check(session.role, name.namespace, "Produce", "produce")
    found = session.producers.get(request.producer_id)
    if found is not None and not found.ready:
        raise Refused(ServiceNotReady, "Producer is already present on the connection")
    if found is not None:  # core.producer.repeated
        _confirm(session, request, found, repeated=True)
        return
    session.check_owner(name)
    new = Producer(
        request.producer_id,
        session,
        broker.topic_to_use(name, create=True),
        request.producer_name if request.HasField("producer_name") else broker.new_producer_name(),
        access_mode=request.producer_access_mode,
        topic_epoch=request.topic_epoch if request.HasField("topic_epoch") else None,
        its_turn=lambda: _confirm(session, request, new),
        turned_away=lambda reason: session.refuse(request, reason),
        metadata={one.key: one.value for one in request.metadata},
        since=broker.time_of_day,
    )
    _check_topic(session, request, new)
    new.topic.access.check(new)
    old = new.topic.producers.get(new.name)
    if old is not None and old.session is not session and new.access_mode == ProducerAccessMode.Shared:
        old.session.check_liveness(lambda _: _join_late(session, request, new))
    else:
        _join(session, request, new)


def _check_topic(session: Session, request: CommandProducer, new: Producer) -> None:
    """Check what does not depend on other producers. The schema stays with the topic if one of them keeps this one out, as on 4.2.4."""
    session.broker.backlog_quota.check(new.topic)
    if request.HasField("schema"):
        new.schema_version = session.broker.schemas.add(new.topic.name, request.schema)
    else:
        session.broker.schemas.check_without(new.topic.name)


def _join(session: Session, request: CommandProducer, new: Producer) -> None:
    if request.initial_subscription_name and new.topic.name.persistent:  # core.producer.initial-subscription; also if its name is taken
        new.topic.subscribe(request.initial_subscription_name, new.topic.entries.first, durable=True, properties={})
    new.topic.add_producer(new)
    session.producers[new.producer_id] = new
    session.closed_producers.pop(new.producer_id, None)
    _confirm(session, request, new)


def _join_late(session: Session, request: CommandProducer, new: Producer) -> None:
    """Continue a PRODUCER that waited for the liveness check of the name's owner."""
    if session.closing:
        return
    try:
        session.check_owner(new.topic.name)
        new.topic = session.broker.topic_to_use(new.topic.name, create=True)
        _check_topic(session, request, new)
        _join(session, request, new)
    except Refused as refused:
        session.refuse(request, refused)


def _confirm(session: Session, request: CommandProducer, found: Producer, *, repeated: bool = False) -> None:
    answer = CommandProducerSuccess(
        request_id=request.request_id,
        producer_name=found.name,
        last_sequence_id=last_sequence_id(found.topic, found.name),
        schema_version=found.schema_version,
        producer_ready=found.ready,
    )
    epoch = found.topic.stored.epoch
    if epoch is not None and found.ready and not repeated:
        answer.topic_epoch = epoch
    session.send(answer)


def send(session: Session, request: CommandSend, frame: Frame) -> None:
    """Store a message or a batch, and send the receipt."""
    found = session.producers.get(request.producer_id)
    if found is None and session.broker.now < session.closed_producers.get(request.producer_id, -math.inf):
        return  # core.send.after-close-dropped
    if found is None or not found.ready:  # core.send.unknown-producer-closes
        raise ProtocolViolation(f"SEND for producer {request.producer_id}, which is not open")
    if frame.payload_bytes is None:  # core.send.no-payload
        raise ProtocolViolation("SEND without a payload")
    if request.HasField("txnid_most_bits"):
        _refuse(session, request, NotAllowedError, "Sending in a transaction is not supported by this broker")
        return
    if request.HasField("message_id"):
        _refuse(session, request, NotAllowedError, "Only shadow topic supports sending messages with messageId")
        return
    if checksum_matches(frame.payload_bytes) is False:  # core.send.checksum-verified
        _refuse(session, request, ChecksumError, "Checksum failed on the broker")
        return
    try:
        payload = frame.payload()
    except WireError as error:
        raise ProtocolViolation(str(error)) from None
    limit = session.broker.configuration.max_message_size
    if len(payload.body) > limit:
        _refuse(session, request, UnknownError, f"The payload has {len(payload.body)} bytes, {limit} are allowed")
        return
    metadata = payload.metadata
    times = metadata.publish_time, metadata.deliver_at_time
    entry = Entry(frame.payload_bytes, max(request.num_messages, 1), is_batch(metadata), *times, _chunk(metadata))
    duplicate = is_duplicate(found, request, metadata)
    message_id = MessageIdData(ledgerId=MAX_U64, entryId=MAX_U64) if duplicate else found.topic.append(found, entry)
    message_id.ClearField("partition")
    session.send(
        CommandSendReceipt(
            producer_id=request.producer_id,
            sequence_id=request.sequence_id,
            message_id=message_id,
            highest_sequence_id=request.highest_sequence_id,
        )
    )
    if not duplicate:
        found.topic.dispatch(entry)


def _chunk(metadata: MessageMetadata) -> Chunk | None:
    if not (metadata.HasField("uuid") and metadata.HasField("chunk_id") and metadata.HasField("num_chunks_from_msg")):
        return None
    return Chunk(metadata.uuid, metadata.chunk_id, metadata.chunk_id + 1 >= metadata.num_chunks_from_msg)


def _refuse(session: Session, request: CommandSend, code: int, message: str) -> None:
    session.log_refusal("SEND", Refused(code, message))
    session.send(
        CommandSendError(producer_id=request.producer_id, sequence_id=request.sequence_id, error=code, message=message)  # type: ignore[arg-type]
    )


def close_producer(session: Session, request: CommandCloseProducer, frame: Frame) -> None:  # noqa: ARG001
    """Close a producer; closing an unknown producer succeeds."""
    found = session.producers.get(request.producer_id)
    if found is not None:
        session.drop_producer(found)
    session.send(CommandSuccess(request_id=request.request_id))
