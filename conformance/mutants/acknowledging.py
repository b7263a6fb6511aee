"""Brokers that lie about what is acknowledged, what comes again, where a subscription stands, and what becomes of a topic."""

from conformance.mutants.model import Patches, mutant
from refimpl.broker import Broker, Session, consuming
from refimpl.broker.subscription import Consumer, Subscription
from refimpl.broker.topic import MAX_U64
from refimpl.names import TopicName
from refimpl.proposals.refused import Refused
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandAck,
    CommandAckResponse,
    CommandGetLastMessageId,
    CommandGetLastMessageIdResponse,
    CommandMessage,
    CommandRedeliverUnacknowledgedMessages,
    CommandSeek,
    ConsumerNotFound,
)


@mutant("core.ack.individual")
def remembers_no_single_acknowledgements_when_a_consumer_leaves(patches: Patches) -> None:
    """Only the position up to which everything is acknowledged outlives a consumer; acknowledged messages behind it come again."""
    remove = Subscription.remove

    def changed(subscription: Subscription, consumer: Consumer) -> None:
        subscription._replay_all(subscription.cursor.acknowledged)
        subscription.cursor.acknowledged.clear()
        remove(subscription, consumer)

    patches.replace(Subscription, "remove", changed)


@mutant("core.ack.cumulative")
def takes_a_cumulative_acknowledgement_for_one_message(patches: Patches) -> None:
    """A cumulative ACK acknowledges the named message only."""

    def change(_: Session, request: CommandAck) -> None:
        request.ack_type = CommandAck.Individual

    patches.incoming(CommandAck, change)


@mutant("core.ack.response-on-request")
def answers_every_acknowledgement(patches: Patches) -> None:
    """An ACK without a request_id is answered by ACK_RESPONSE without one."""

    def changed(session: Session, request: CommandAck, frame: Frame) -> None:
        consuming.ack(session, request, frame)
        if not request.HasField("request_id"):
            session.send(CommandAckResponse(consumer_id=request.consumer_id))

    patches.request("ack", lambda _: changed)


@mutant("core.redeliver.on-close")
def brings_back_only_what_follows_the_last_acknowledged_message(patches: Patches) -> None:
    """What a consumer leaves unacknowledged before a message that it acknowledged is lost when it leaves."""
    remove = Subscription.remove

    def changed(subscription: Subscription, consumer: Consumer) -> None:
        last = max(subscription.cursor.acknowledged, default=-1)
        subscription.acknowledge_up_to(consumer, last)
        remove(subscription, consumer)

    patches.replace(Subscription, "remove", changed)


@mutant("core.redeliver.on-disconnect")
def loses_what_a_lost_connection_had(patches: Patches) -> None:
    """What a consumer leaves unacknowledged is delivered to nobody if its connection ends without CLOSE_CONSUMER."""
    end = Session.end

    def changed(session: Session, reason: str) -> None:
        for consumer in session.consumers.values():
            consumer.pending.clear()
        end(session, reason)

    patches.replace(Session, "end", changed)


@mutant("core.redeliver.on-request")
def redelivers_named_messages_only(patches: Patches) -> None:
    """REDELIVER_UNACKNOWLEDGED_MESSAGES without ids is ignored."""

    def change(_: Session, request: CommandRedeliverUnacknowledgedMessages) -> bool:
        return bool(request.message_ids)

    patches.incoming(CommandRedeliverUnacknowledgedMessages, change)


@mutant("core.redeliver.named-only")
def redelivers_everything_when_some_is_named(patches: Patches) -> None:
    """REDELIVER_UNACKNOWLEDGED_MESSAGES with ids makes all unacknowledged messages come again."""

    def change(_: Session, request: CommandRedeliverUnacknowledgedMessages) -> None:
        request.ClearField("message_ids")

    patches.incoming(CommandRedeliverUnacknowledgedMessages, change)


@mutant("core.redeliver.counted")
def counts_only_the_first_redelivery(patches: Patches) -> None:
    """The redelivery_count is 1 with each redelivery, however many there were."""

    def change(_: Session, message: CommandMessage) -> None:
        if message.redelivery_count:
            message.redelivery_count = 1

    patches.outgoing(CommandMessage, change)


@mutant("core.position.last-message")
def knows_no_batch_at_the_end_of_a_topic(patches: Patches) -> None:
    """GET_LAST_MESSAGE_ID answers batch_index -1 also if the last entry is a batch."""

    def change(_: Session, answer: CommandGetLastMessageIdResponse) -> None:
        answer.last_message_id.batch_index = -1

    patches.outgoing(CommandGetLastMessageIdResponse, change)


@mutant("core.position.last-of-empty")
def says_that_an_empty_topic_ends_with_entry_0(patches: Patches) -> None:
    """GET_LAST_MESSAGE_ID of a topic without messages answers entryId 0."""

    def change(_: Session, answer: CommandGetLastMessageIdResponse) -> None:
        if answer.last_message_id.entryId == MAX_U64:
            answer.last_message_id.entryId = 0

    patches.outgoing(CommandGetLastMessageIdResponse, change)


@mutant("core.position.last-unknown-consumer")
def calls_an_unknown_consumer_not_found(patches: Patches) -> None:
    """GET_LAST_MESSAGE_ID for a consumer_id that is not open is refused with ConsumerNotFound."""

    def changed(session: Session, request: CommandGetLastMessageId, frame: Frame) -> None:
        if request.consumer_id not in session.consumers:
            raise Refused(ConsumerNotFound, "Consumer not found")
        consuming.get_last_message_id(session, request, frame)

    patches.request("getLastMessageId", lambda _: changed)


@mutant("core.seek.sequence")
def takes_consumers_off_for_a_seek_without_a_word(patches: Patches) -> None:
    """SEEK is answered by SUCCESS alone, although the consumer is closed."""

    def changed(subscription: Subscription) -> None:
        for consumer in list(subscription.consumers):
            consumer.session.drop_consumer(consumer)

    patches.replace(consuming, "disconnect_consumers", changed)


@mutant("core.seek.position")
def goes_on_behind_what_a_seek_names(patches: Patches) -> None:
    """After SEEK the message that it leads to is left out."""
    reset = Subscription.reset

    def changed(subscription: Subscription, index: int) -> None:
        reset(subscription, min(index + 1, len(subscription.topic.entries)))

    patches.replace(Subscription, "reset", changed)


@mutant("core.seek.refused")
def takes_a_seek_to_nowhere_for_one_to_the_beginning(patches: Patches) -> None:
    """SEEK without a position goes to the first message."""

    def change(_: Session, request: CommandSeek) -> None:
        if not request.HasField("message_id") and not request.HasField("message_publish_time"):
            request.message_publish_time = 0

    patches.incoming(CommandSeek, change)


@mutant("core.push.topic-deleted")
def deletes_a_topic_without_a_word_to_its_consumers(patches: Patches) -> None:
    """When a topic is deleted, its producers get CLOSE_PRODUCER and its consumers nothing."""
    delete_topic = Broker.delete_topic

    def changed(broker: Broker, name: TopicName) -> None:
        topic = broker.loaded(name.full)
        for subscription in list(topic.subscriptions.values()) if topic is not None else ():
            for consumer in list(subscription.consumers):
                consumer.session.drop_consumer(consumer)
        delete_topic(broker, name)

    patches.replace(Broker, "delete_topic", changed)


@mutant("core.push.topic-unloaded")
def unloads_a_topic_without_a_word(patches: Patches) -> None:
    """Producers and consumers of a topic that is unloaded are told nothing."""
    unload, delete_topic = Broker.unload, Broker.delete_topic

    def silent(broker: Broker, name: TopicName) -> None:
        broker._topics.pop(name.full, None)

    def delete(broker: Broker, name: TopicName) -> None:
        unload(broker, name)
        delete_topic(broker, name)

    patches.replace(Broker, "unload", silent)
    patches.replace(Broker, "delete_topic", delete)
