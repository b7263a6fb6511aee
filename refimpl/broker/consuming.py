"""The commands of consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refimpl.broker.consumer import Consumer
from refimpl.broker.filtering import Requested, SubscriptionFilters
from refimpl.broker.key_shared import check_ranges
from refimpl.broker.stats import since
from refimpl.broker.subscription import Subscription, SubType
from refimpl.broker.topic import LATEST, MAX_U64, Topic
from refimpl.names import TopicName
from refimpl.proposals.refused import ProtocolViolation, Refused
from refimpl.wire.ack_set import read_ack_set
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandAck,
    CommandAckResponse,
    CommandCloseConsumer,
    CommandConsumerStats,
    CommandConsumerStatsResponse,
    CommandFlow,
    CommandGetLastMessageId,
    CommandGetLastMessageIdResponse,
    CommandRedeliverUnacknowledgedMessages,
    CommandSeek,
    CommandSubscribe,
    CommandSuccess,
    CommandUnsubscribe,
    KeySharedMode,
    MessageIdData,
    MetadataError,
    NotAllowedError,
    ProducerBusy,
    Schema,
    UnknownError,
)

if TYPE_CHECKING:
    from refimpl.broker.broker import Broker
    from refimpl.broker.session import Session

RESERVED = ("pulsar.dedup", "pulsar.repl")
"""How the names of subscriptions begin that Pulsar keeps for itself."""


def subscribe(session: Session, request: CommandSubscribe, frame: Frame) -> None:  # noqa: ARG001
    """Add a consumer; create the topic and the subscription if allowed."""
    broker = session.broker
    name = broker.topic_name(request.topic)
    broker.authorization.check(session.role, name.namespace, "subscribe", "consume")
    if not request.subscription.strip():  # core.subscribe.empty-name
        raise Refused(ProducerBusy, "Empty subscription name")
    if request.read_compacted and not name.persistent:
        raise Refused(NotAllowedError, "readCompacted only valid on persistent topics")
    if request.read_compacted and request.subType not in (SubType.Exclusive, SubType.Failover):  # core.subscribe.compacted-in-order
        raise Refused(NotAllowedError, "readCompacted only allowed on failover or exclusive subscriptions")
    if name.persistent and request.subscription.startswith(RESERVED):  # core.subscribe.reserved-name
        raise Refused(ProducerBusy, "Subscription with reserved subscription name attempted")
    if request.consumer_id not in session.consumers:  # core.subscribe.repeated
        requested = broker.requested(request, name)
        if request.HasField("schema") and request.schema.type != Schema.AutoConsume:
            broker.schemas.check(request.schema)
        session.check_owner(name)
        filters = _new_filters(session, name, request)
        topic = broker.topic_to_use(name, create=request.force_topic_creation)
        if request.subType == SubType.Key_Shared and request.keySharedMeta.keySharedMode == KeySharedMode.STICKY:
            check_ranges(request.keySharedMeta)
        _check_topic(session, topic, request)
        owner = _owner_elsewhere(session, topic, request)
        if owner is not None:  # core.subscribe.dead-owner-replaced
            owner.check_liveness(lambda _: _join_again(session, request, requested))
            return
        _join(session, topic, request, requested, filters)
    else:
        session.send(CommandSuccess(request_id=request.request_id))


def _new_filters(session: Session, name: TopicName, request: CommandSubscribe) -> SubscriptionFilters | None:
    """Make the filters of a new subscription, before it is created.

    Returns:
        None if the subscription exists; its properties then do not change.

    Raises:
        Refused: The properties are invalid.
    """
    broker = session.broker
    if broker.exists(name) and request.subscription in broker.topic(name).subscriptions:
        return None
    return broker.filters_of(_properties(request), is_new=True)


def _properties(request: CommandSubscribe) -> dict[str, str]:
    return {one.key: one.value for one in request.subscription_properties}


def _check_topic(session: Session, topic: Topic, request: CommandSubscribe) -> None:
    """Check the schema, and then, as Apache Pulsar 4.2.4 does, whether the subscription is as durable as the one that is asked for.

    Only a subscription of a persistent topic has to be, and one that is not durable only while it is in use.

    Raises:
        Refused: IncompatibleSchema or NotAllowedError.
    """
    if request.HasField("schema"):
        session.broker.schemas.check_joins(topic, request.schema)
    found = topic.subscriptions.get(request.subscription)
    if found is None or not topic.name.persistent:
        return
    if found.durable != request.durable and (found.durable or found.consumers):
        kind = "Durable" if found.durable else "NonDurable"
        raise Refused(NotAllowedError, f"{kind} subscription with the same name already exists.")


def _owner_elsewhere(session: Session, topic: Topic, request: CommandSubscribe) -> Session | None:
    """Return the connection of the consumer that keeps this one from joining, if it could be dead; never this connection."""
    found = topic.subscriptions.get(request.subscription)
    in_the_way = None if found is None else found.in_the_way(request.subType, request.keySharedMeta)
    return None if in_the_way is None or in_the_way.session is session else in_the_way.session


def _join_again(session: Session, request: CommandSubscribe, requested: Requested) -> None:
    """Continue a SUBSCRIBE that waited for the liveness check of the subscription's owner."""
    if session.closing:
        return
    try:
        name = session.broker.topic_name(request.topic)
        session.check_owner(name)
        filters = _new_filters(session, name, request)
        topic = session.broker.topic_to_use(name, create=request.force_topic_creation)
        _check_topic(session, topic, request)
        _join(session, topic, request, requested, filters)
    except Refused as refused:
        session.refuse(request, refused)


def _join(session: Session, topic: Topic, request: CommandSubscribe, requested: Requested, filters: SubscriptionFilters | None) -> None:
    found = topic.subscriptions.get(request.subscription)
    if found is not None:
        found.check_joins(request.subType, request.keySharedMeta)
        found.filters.check_joins(requested)
    if request.HasField("schema"):
        session.broker.schemas.join(topic, request.schema)
    subscription = topic.subscribe(
        request.subscription,
        _start(session.broker, topic, request),
        durable=request.durable,
        properties=_properties(request),
        filters=filters,
    )
    if request.HasField("replicate_subscription_state"):
        subscription.cursor.replicated = request.replicate_subscription_state
    epoch = request.consumer_epoch if request.HasField("consumer_epoch") else None
    consumer = Consumer(request.consumer_id, session, subscription, request.consumer_name, request.priority_level, epoch)
    consumer.metadata, consumer.since = {one.key: one.value for one in request.metadata}, session.broker.time_of_day
    consumer.auto_schema = request.HasField("schema") and request.schema.type == Schema.AutoConsume
    session.consumers[request.consumer_id] = consumer
    subscription.filters.joined(consumer, requested)
    subscription.add(consumer, request.subType, request.keySharedMeta)
    session.send(CommandSuccess(request_id=request.request_id))
    subscription.tell_active(consumer)


def _start(broker: Broker, topic: Topic, request: CommandSubscribe) -> int:
    """Return the index at which a new subscription starts: core.subscribe.initial-position, core.subscribe.reader-start."""
    if request.start_message_rollback_duration_sec:  # core.subscribe.rollback
        return topic.index_at(round((broker.time_of_day - request.start_message_rollback_duration_sec) * 1000))
    if request.HasField("start_message_id") and not request.durable:
        return min(max(topic.index_of(request.start_message_id), topic.entries.first), len(topic.entries))
    if request.initialPosition == CommandSubscribe.Earliest:
        return topic.entries.first
    return len(topic.entries)


def flow(session: Session, request: CommandFlow, frame: Frame) -> None:  # noqa: ARG001
    """Grant permits to a consumer."""
    if not 0 < request.messagePermits < 2**31:  # core.deliver.zero-permits-close; for Java, the others are below zero
        raise ProtocolViolation(f"FLOW of {request.messagePermits} permits")
    consumer = session.consumers.get(request.consumer_id)
    if consumer is not None:  # core.deliver.stale-consumer-ignored
        consumer.permits += request.messagePermits
        consumer.subscription.dispatch()
        consumer.subscription.tell_end()


def ack(session: Session, request: CommandAck, frame: Frame) -> None:  # noqa: ARG001
    """Acknowledge messages; answer only on request: core.ack.response-on-request.

    It counts up to the first entry that does not exist yet, and is answered without an error, as on Apache Pulsar 4.2.4.
    """
    consumer = session.consumers.get(request.consumer_id)
    if consumer is None:  # core.ack.stale-consumer-ignored
        return
    if request.HasField("txnid_most_bits"):
        refused = Refused(NotAllowedError, "Acknowledging in a transaction is not supported by this broker")
        session.log_refusal("ACK", refused)
        if request.HasField("request_id"):
            answer = CommandAckResponse(consumer_id=request.consumer_id, request_id=request.request_id, error=NotAllowedError)
            answer.message = refused.message
            session.send(answer)
        return
    subscription = consumer.subscription
    entries = subscription.topic.entries
    before = subscription.cursor.mark_delete
    in_order = len(request.message_id) == 1 and not subscription.is_shared
    counts = request.ack_type != CommandAck.Cumulative or in_order  # core.ack.cumulative-in-order
    answer = CommandAckResponse(consumer_id=request.consumer_id, request_id=request.request_id)
    for message_id in request.message_id if counts else ():
        index = subscription.topic.index_of(message_id)
        if index >= entries.end:
            break
        if message_id.ack_set:
            _ack_in_part(consumer, message_id, index, cumulative=request.ack_type == CommandAck.Cumulative)
        elif request.ack_type == CommandAck.Cumulative:
            subscription.acknowledge_up_to(consumer, index)
        else:
            subscription.acknowledge(consumer, [index])
    if entries.ends_between(before, subscription.cursor.mark_delete):
        subscription.topic.free()
    subscription.tell_end()
    if request.HasField("request_id"):
        session.send(answer)


def _ack_in_part(consumer: Consumer, message_id: MessageIdData, index: int, *, cumulative: bool) -> None:
    """Acknowledge messages of a batch, if the broker's configuration allows it."""
    subscription = consumer.subscription
    if cumulative:
        subscription.acknowledge_up_to(consumer, index - 1)
    else:  # as Pulsar does, even if its configuration allows no parts
        subscription.count_anew(index)
    if index >= subscription.topic.entries.first and consumer.session.broker.configuration.acknowledgment_at_batch_index_level_enabled:
        messages = subscription.topic.entries[index].messages
        subscription.acknowledge_in_part(consumer, index, read_ack_set(message_id.ack_set, messages))


def redeliver(session: Session, request: CommandRedeliverUnacknowledgedMessages, frame: Frame) -> None:  # noqa: ARG001
    """Redeliver unacknowledged messages of a consumer: core.redeliver.on-request, core.redeliver.named-only."""
    consumer = session.consumers.get(request.consumer_id)
    if consumer is None:  # core.deliver.stale-consumer-ignored
        return
    if request.HasField("consumer_epoch"):
        consumer.epoch = max(consumer.epoch or 0, request.consumer_epoch)
    topic = consumer.subscription.topic
    named = [topic.index_of(one) for one in request.message_ids]
    consumer.subscription.redeliver(consumer, named or None)


def seek(session: Session, request: CommandSeek, frame: Frame) -> None:  # noqa: ARG001
    """Reset the position of a subscription, after closing its consumers: core.seek.sequence.

    A subscription of a non-persistent topic has no position: its consumers stay.
    """
    consumer = _consumer(session, request.consumer_id)
    subscription = consumer.subscription
    topic = subscription.topic
    if request.HasField("message_id"):
        latest = request.message_id.ledgerId == LATEST
        index = len(topic.entries) if latest else max(topic.index_of(request.message_id), topic.entries.first)
    elif request.HasField("message_publish_time"):
        index = topic.index_at(request.message_publish_time)
    else:  # core.seek.refused
        raise Refused(MetadataError, "Message id and message publish time were not present")
    if topic.name.persistent:
        disconnect_consumers(subscription)
        subscription.reset(index)
        if request.message_id.ack_set and index < topic.entries.end:  # core.seek.in-batch
            subscription.cursor.acknowledge_in_part(index, read_ack_set(request.message_id.ack_set, topic.entries[index].messages))
    session.send(CommandSuccess(request_id=request.request_id))


def disconnect_consumers(subscription: Subscription) -> None:
    """Close all consumers of a subscription from the broker's side; the subscription stays, even if it is not durable."""
    for consumer in subscription.take_consumers():
        consumer.session.close_consumer(consumer)


def get_last_message_id(session: Session, request: CommandGetLastMessageId, frame: Frame) -> None:  # noqa: ARG001
    """Answer with the id of the last message: core.position.last-message.

    Raises:
        Refused: UnknownError: the topic is not persistent, as releases from 3.0.7 on answer.
    """
    consumer = _consumer(session, request.consumer_id)
    topic = consumer.subscription.topic
    if not topic.name.persistent:
        raise Refused(UnknownError, f"{topic.name.full} does not keep messages, so there is no last one")
    if topic.entries.first < topic.entries.end:
        last = topic.message_id(len(topic.entries) - 1)
        last.batch_index = topic.last_batch_index
    else:  # core.position.last-of-empty, also if all is freed
        last = MessageIdData(ledgerId=MAX_U64, entryId=MAX_U64, partition=topic.name.partition, batch_index=-1)
    position = consumer.subscription.cursor.mark_delete - 1
    session.send(
        CommandGetLastMessageIdResponse(
            request_id=request.request_id,
            last_message_id=last,
            consumer_mark_delete_position=MessageIdData(ledgerId=topic.stored.ledger_id, entryId=position % 2**64),
        )
    )


def consumer_stats(session: Session, request: CommandConsumerStats, frame: Frame) -> None:  # noqa: ARG001
    """Answer with the counters of a consumer."""
    consumer = _consumer(session, request.consumer_id)
    subscription = consumer.subscription
    session.send(
        CommandConsumerStatsResponse(
            request_id=request.request_id,
            consumerName=consumer.name,
            availablePermits=consumer.permits % 2**64,
            unackedMessages=consumer.unacknowledged,
            blockedConsumerOnUnackedMsgs=consumer.is_blocked,
            address=f"/{consumer.session.address}",
            connectedSince=since(consumer),
            type=SubType.Name(subscription.type),
            msgBacklog=subscription.backlog,
        )
    )


def unsubscribe(session: Session, request: CommandUnsubscribe, frame: Frame) -> None:  # noqa: ARG001
    """Delete a subscription on behalf of its only consumer."""
    consumer = _consumer(session, request.consumer_id)
    subscription = consumer.subscription
    if len(subscription.consumers) > 1 and not request.force:  # core.consumer.unsubscribe-refused
        raise Refused(MetadataError, "Unconnected or shared consumer attempting to unsubscribe")
    for one in subscription.take_consumers():  # at once: none takes over from another
        if one is consumer:
            session.drop_consumer(one)
        else:
            one.session.close_consumer(one)
    subscription.topic.unsubscribe(subscription.name)
    session.send(CommandSuccess(request_id=request.request_id))


def close_consumer(session: Session, request: CommandCloseConsumer, frame: Frame) -> None:  # noqa: ARG001
    """Close a consumer; closing an unknown consumer succeeds."""
    consumer = session.consumers.get(request.consumer_id)
    if consumer is not None:
        session.drop_consumer(consumer)
    session.send(CommandSuccess(request_id=request.request_id))


def _consumer(session: Session, consumer_id: int) -> Consumer:
    """Return an open consumer.

    Raises:
        Refused: MetadataError: core.position.last-unknown-consumer, core.seek.refused, core.consumer.unsubscribe-refused.
    """
    consumer = session.consumers.get(consumer_id)
    if consumer is None:
        raise Refused(MetadataError, "Consumer not found")
    return consumer
