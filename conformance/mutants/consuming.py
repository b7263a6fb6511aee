"""Brokers that lie to consumers: when they subscribe, while they get messages, when they leave."""

from dataclasses import replace
from typing import Any

from conformance.mutants.model import Patches, mutant
from refimpl.broker import Session, consuming, subscription
from refimpl.broker.consuming import close_consumer, flow
from refimpl.broker.subscription import Consumer, Subscription, SubType
from refimpl.broker.topic import Topic
from refimpl.names import partition_name
from refimpl.proposals.refused import ProtocolViolation, Refused
from refimpl.store import Entry
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandActiveConsumerChange,
    CommandCloseConsumer,
    CommandFlow,
    CommandMessage,
    CommandSubscribe,
    CommandSuccess,
    CommandUnsubscribe,
    MetadataError,
)


@mutant("core.subscribe.success")
def puts_off_a_subscription_to_a_missing_topic(patches: Patches) -> None:
    """SUBSCRIBE to a missing topic is answered by SUCCESS and creates the topic, but no subscription if that begins at the end."""

    def changed(session: Session, request: CommandSubscribe, frame: Frame) -> None:
        name = session.broker.topic_name(request.topic)
        missing = name.namespace in session.broker.store.namespaces and not session.broker.exists(name)
        consuming.subscribe(session, request, frame)
        if missing and request.durable and request.initialPosition == CommandSubscribe.Latest:
            consumer = session.consumers[request.consumer_id]
            session.drop_consumer(consumer)
            consumer.subscription.topic.unsubscribe(request.subscription)

    patches.request("subscribe", lambda _: changed)


@mutant("core.subscribe.initial-position")
def begins_every_subscription_at_the_first_message(patches: Patches) -> None:
    """A new subscription begins at the first message, whatever its initialPosition."""

    def change(_: Session, request: CommandSubscribe) -> None:
        request.initialPosition = CommandSubscribe.Earliest

    patches.incoming(CommandSubscribe, change)


@mutant("core.subscribe.no-forced-creation")
def creates_topics_unasked(patches: Patches) -> None:
    """SUBSCRIBE with force_topic_creation=false creates the topic as well."""

    def change(_: Session, request: CommandSubscribe) -> None:
        request.force_topic_creation = True

    patches.incoming(CommandSubscribe, change)


@mutant("core.subscribe.partitioned-base")
def lets_consumers_of_a_partitioned_topic_into_its_first_partition(patches: Patches) -> None:
    """SUBSCRIBE to the name of a partitioned topic opens a consumer of its partition 0."""

    def changed(session: Session, request: CommandSubscribe, frame: Frame) -> None:
        name = session.broker.topic_name(request.topic)
        if session.broker.partitions(name):
            request.topic = partition_name(name.full, 0)
        consuming.subscribe(session, request, frame)

    patches.request("subscribe", lambda _: changed)


@mutant("core.subscribe.exclusive-busy")
def lets_a_second_consumer_into_an_exclusive_subscription(patches: Patches) -> None:
    """A second exclusive consumer of a subscription is let in beside the first one."""
    check_joins = Subscription.check_joins

    def changed(subscription: Subscription, sub_type: SubType) -> None:
        if sub_type != subscription.type:
            check_joins(subscription, sub_type)

    patches.replace(Subscription, "check_joins", changed)


@mutant("core.subscribe.type-conflict")
def lets_the_last_consumer_choose_the_type(patches: Patches) -> None:
    """A consumer of another type than those that are connected is let in, and changes the type of the subscription."""
    check_joins = Subscription.check_joins

    def changed(subscription: Subscription, sub_type: SubType) -> None:
        if sub_type == subscription.type:
            check_joins(subscription, sub_type)

    patches.replace(Subscription, "check_joins", changed)


@mutant("core.subscribe.dead-owner-replaced")
def refuses_without_asking_whether_the_owner_lives(patches: Patches) -> None:
    """A second consumer of an exclusive subscription is refused at once, without a PING to the first one."""
    patches.replace(consuming, "_owner_elsewhere", lambda *_: None)


@mutant("core.subscribe.repeated")
def opens_a_repeated_consumer_anew(patches: Patches) -> None:
    """SUBSCRIBE for a consumer_id that is open replaces the consumer by one without permits."""

    def changed(session: Session, request: CommandSubscribe, frame: Frame) -> None:
        old = session.consumers.get(request.consumer_id)
        if old is not None:
            session.drop_consumer(old)
        consuming.subscribe(session, request, frame)

    patches.request("subscribe", lambda _: changed)


@mutant("core.subscribe.empty-name")
def takes_a_subscription_without_a_name(patches: Patches) -> None:
    """SUBSCRIBE with an empty subscription name gets a name made of the consumer's id."""

    def change(_: Session, request: CommandSubscribe) -> None:
        request.subscription = request.subscription or f"subscription-{request.consumer_id}"

    patches.incoming(CommandSubscribe, change)


@mutant("core.subscribe.reader")
def keeps_the_subscription_of_a_reader(patches: Patches) -> None:
    """A non-durable subscription stays when its consumer closes."""
    subscribe = Topic.subscribe

    def changed(topic: Topic, name: str, index: int, **others: Any) -> Subscription:
        return subscribe(topic, name, index, **{**others, "durable": True})

    patches.replace(Topic, "subscribe", changed)


@mutant("core.subscribe.active-consumer-change")
def tells_a_failover_consumer_once_whether_it_is_active(patches: Patches) -> None:
    """A failover consumer is told whether it is active when it joins, and never again."""
    told: set[tuple[Session, int]] = set()

    def change(session: Session, message: CommandActiveConsumerChange) -> bool:
        known = (session, message.consumer_id) in told
        told.add((session, message.consumer_id))
        return not known

    patches.outgoing(CommandActiveConsumerChange, change)


@mutant("core.deliver.needs-permits")
def sends_one_message_more_than_permitted(patches: Patches) -> None:
    """A consumer that has had a message gets another one for its last permit."""

    def takes(consumer: Consumer) -> bool:
        least = 0 if consumer.messages_out else 1
        return consumer.permits >= least and consumer.session.takes_messages

    patches.replace(subscription, "_takes", takes)


@mutant("core.deliver.batch-permits")
def sends_a_batch_for_one_permit(patches: Patches) -> None:
    """A batch uses one permit, like a single message."""
    send = Consumer.send

    def changed(consumer: Consumer, index: int, entry: Entry, redeliveries: int, open_messages: frozenset[int] | None) -> None:
        before = consumer.permits
        send(consumer, index, entry, redeliveries, open_messages)
        consumer.permits = before - 1

    patches.replace(Consumer, "send", changed)


@mutant("core.deliver.content")
def takes_the_checksum_off(patches: Patches) -> None:
    """MESSAGE comes without the checksum that the message was sent with."""
    send = Consumer.send

    def changed(consumer: Consumer, index: int, entry: Entry, redeliveries: int, open_messages: frozenset[int] | None) -> None:
        octets = entry.data[6:] if entry.data.startswith(b"\x0e\x01") else entry.data
        send(consumer, index, replace(entry, data=octets), redeliveries, open_messages)

    patches.replace(Consumer, "send", changed)


@mutant("core.deliver.order")
def holds_every_32nd_message_back_until_the_next_one(patches: Patches) -> None:
    """The message with entry id 31 comes after that with entry id 32, and so on."""
    send = Consumer.send

    def changed(consumer: Consumer, index: int, entry: Entry, redeliveries: int, open_messages: frozenset[int] | None) -> None:
        if index % 32 != 31:
            send(consumer, index, entry, redeliveries, open_messages)
            if index and index % 32 == 0:
                send(consumer, index - 1, consumer.subscription.topic.entries[index - 1], 0, None)

    patches.replace(Consumer, "send", changed)


@mutant("core.deliver.partition-index")
def leaves_the_partition_out_of_message_ids(patches: Patches) -> None:
    """The message ids of a partition have no index of it."""

    def change(_: Session, message: CommandMessage) -> None:
        message.message_id.ClearField("partition")

    patches.outgoing(CommandMessage, change)


@mutant("core.deliver.stale-consumer-ignored")
def ends_the_connection_for_a_flow_of_no_consumer(patches: Patches) -> None:
    """A FLOW for a consumer_id that is not open ends the connection."""

    def changed(session: Session, request: CommandFlow, frame: Frame) -> None:
        if request.consumer_id not in session.consumers:
            raise ProtocolViolation(f"FLOW for consumer {request.consumer_id}, which is not open")
        flow(session, request, frame)

    patches.request("flow", lambda _: changed)


@mutant("core.consumer.close")
def refuses_to_close_a_consumer_twice(patches: Patches) -> None:
    """CLOSE_CONSUMER for a consumer that was closed before is answered by ERROR."""
    closed: set[tuple[Session, int]] = set()

    def changed(session: Session, request: CommandCloseConsumer, frame: Frame) -> None:
        if request.consumer_id in session.consumers:
            closed.add((session, request.consumer_id))
        elif (session, request.consumer_id) in closed:
            raise Refused(MetadataError, "Consumer is closed already")
        close_consumer(session, request, frame)

    patches.request("close_consumer", lambda _: changed)


@mutant("core.consumer.closed-gets-nothing")
def closes_a_waiting_consumer_after_its_first_message(patches: Patches) -> None:
    """A consumer that has permits and has had no message yet still gets one after SUCCESS for CLOSE_CONSUMER."""
    send = Consumer.send
    closed: set[Consumer] = set()

    def changed(session: Session, request: CommandCloseConsumer, frame: Frame) -> None:
        consumer = session.consumers.get(request.consumer_id)
        if consumer is not None and consumer.permits and not consumer.messages_out:
            closed.add(consumer)
            session.send(CommandSuccess(request_id=request.request_id))
        else:
            close_consumer(session, request, frame)

    def send_and_close(consumer: Consumer, index: int, entry: Entry, redeliveries: int, open_messages: frozenset[int] | None) -> None:
        send(consumer, index, entry, redeliveries, open_messages)
        if consumer in closed:
            consumer.session.drop_consumer(consumer)

    patches.request("close_consumer", lambda _: changed)
    patches.replace(Consumer, "send", send_and_close)


@mutant("core.consumer.unsubscribe")
def keeps_the_subscription_after_unsubscribe(patches: Patches) -> None:
    """UNSUBSCRIBE by the only consumer closes the consumer; the subscription stays."""

    def changed(session: Session, request: CommandUnsubscribe, frame: Frame) -> None:
        consumer = session.consumers.get(request.consumer_id)
        if consumer is not None and len(consumer.subscription.consumers) == 1:
            session.drop_consumer(consumer)
            session.send(CommandSuccess(request_id=request.request_id))
        else:
            consuming.unsubscribe(session, request, frame)

    patches.request("unsubscribe", lambda _: changed)


@mutant("core.consumer.unsubscribe-refused")
def unsubscribes_although_others_share_the_subscription(patches: Patches) -> None:
    """UNSUBSCRIBE by one of several consumers removes the subscription and closes the others."""

    def change(_: Session, request: CommandUnsubscribe) -> None:
        request.force = True

    patches.incoming(CommandUnsubscribe, change)
