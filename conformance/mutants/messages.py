"""Brokers that go wrong with producers, consumers, messages and what is acknowledged."""

from unicodedata import normalize

from conformance.mutants.model import in_place_of, on_incoming, on_outgoing, on_request
from refimpl.broker import Broker, Session
from refimpl.broker.authorization import Authorization
from refimpl.broker.consumer import Consumer
from refimpl.broker.deduplication import is_duplicate
from refimpl.broker.non_persistent import NonPersistentSubscription
from refimpl.broker.subscription import Subscription, SubType
from refimpl.broker.topic import Topic
from refimpl.proposals.refused import ProtocolViolation, Refused
from refimpl.store import Cursor
from refimpl.wire.payload import checksum_matches
from refimpl.wire.pulsar_api_pb2 import (
    CommandAck,
    CommandAckResponse,
    CommandActiveConsumerChange,
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandGetLastMessageIdResponse,
    CommandMessage,
    CommandProducer,
    CommandProducerSuccess,
    CommandReachedEndOfTopic,
    CommandRedeliverUnacknowledgedMessages,
    CommandSend,
    CommandSendReceipt,
    CommandSubscribe,
    CommandSuccess,
    CommandUnsubscribe,
    MetadataError,
    ProducerBusy,
)

# Producers


@in_place_of(is_duplicate, clause="core.dedup.stored-once")
def forgets_the_rest_of_a_batch(is_duplicate, producer, request, metadata):
    """Of a batch the first sequence id counts as the highest one."""
    copy = CommandSend()
    copy.CopyFrom(request)
    copy.ClearField("highest_sequence_id")
    return is_duplicate(producer, copy, metadata)


@in_place_of(Topic.add_producer, clause="core.producer.name-taken")
def lets_the_last_producer_of_a_name_win(add_producer, topic, producer):
    """A producer takes the name of a live one, which it throws out."""
    if producer.name in topic.producers:
        topic.producers[producer.name].session.drop_producer(topic.producers[producer.name])
    add_producer(topic, producer)


@in_place_of(Session.drop_producer, clause="core.producer.name-freed")
def reserves_a_producer_name_for_ever(drop_producer, session, producer):
    """A producer that has left keeps its name."""
    drop_producer(session, producer)
    producer.topic.producers[producer.name] = producer


@in_place_of(Topic.add_producer, clause="core.producer.name-per-topic")
def keeps_names_of_producers_for_a_namespace(add_producer, topic, producer):
    """A producer's name is taken in the whole namespace of its topic."""
    topics = producer.session.broker._topics.values()
    if any(producer.name in one.producers for one in topics if one is not topic and one.name.namespace == topic.name.namespace):
        raise Refused(ProducerBusy, "The name is taken")
    add_producer(topic, producer)


@in_place_of(Topic.add_producer, clause="core.request.refused-changes-nothing")
def keeps_the_ids_of_refused_producers(add_producer, topic, producer):
    """A producer whose name is taken has its id nevertheless: the next PRODUCER with it, for whichever topic, opens the old one."""
    if producer.name in topic.producers:
        producer.session.producers[producer.producer_id] = producer
    add_producer(topic, producer)


@on_request("close_consumer", clause="core.request.ids-per-connection")
def closes_equal_ids_of_other_connections(carry_out, session, request):
    """CLOSE_CONSUMER closes the consumers of that id on all connections."""
    for other in session.broker.sessions:
        if other is not session and request.consumer_id in other.consumers:
            other.drop_consumer(other.consumers[request.consumer_id])
    carry_out()


@on_incoming(CommandProducer, clause="core.request.ids-free")
def keeps_the_topic_of_a_producer_id(session, request):
    """A producer_id stands for the topic for which it was used first on the connection."""
    request.topic = session.__dict__.setdefault("topics_by_faults", {}).setdefault(request.producer_id, request.topic)


@in_place_of(Authorization.allows, clause="core.auth.exact-names")
def has_no_case_in_names_of_roles(allows, authorization, role, *where):
    """A role has the permissions that were granted to its name in any case."""
    return allows(authorization, role, *where) or (bool(role) and allows(authorization, role.upper(), *where))


@in_place_of(Broker.unload, clause="core.producer.topic-epoch")
def forgets_epochs_with_an_unload(unload, broker, name):
    """A topic that is loaded again counts its exclusive producers from 0."""
    if name.full in broker._topics:
        broker._topics[name.full].stored.epoch = None
    unload(broker, name)


@on_outgoing(CommandProducerSuccess, clause="core.producer.name-generated")
def has_one_name_for_all_nameless_producers(_, answer):
    """Every producer that brings no name is told the same one."""
    if answer.producer_name.startswith("standalone-0-"):
        answer.producer_name = "standalone-0-0"


@on_outgoing(CommandProducerSuccess, clause="core.producer.name-generated")
def numbers_nameless_producers_by_connection(session, answer):
    """The generated name of a producer is its number on its connection."""
    if answer.producer_name.startswith("standalone-0-"):
        answer.producer_name = f"standalone-0-{len(session.producers)}"


@on_incoming(CommandProducer, clause="core.producer.initial-subscription")
def makes_no_subscription_for_a_producer(_, request):
    """PRODUCER ignores initial_subscription_name."""
    request.ClearField("initial_subscription_name")


@on_incoming(CommandAck, clause="core.ack.validation-error")
def ignores_acknowledgements_with_an_error(_, request):
    """An ACK with a validation_error acknowledges nothing."""
    return not request.HasField("validation_error")


@on_request("unsubscribe", clause="core.consumer.unsubscribe-forced")
def removes_nothing_by_force(carry_out, session, request):
    """UNSUBSCRIBE with force is answered by SUCCESS, and the other consumers stay."""
    if request.force:
        session.send(CommandSuccess(request_id=request.request_id))
    else:
        carry_out()


@in_place_of(Session.data_to_send, clause="core.deliver.slow-reader")
def forgets_who_did_not_read(data_to_send, session, limit=65536):
    """What waits for a consumer that does not read is not taken up when it reads again."""
    taken = bytes(session._output[:limit])
    del session._output[:limit]
    return taken


@on_request("producer", clause="core.producer.repeated")
def opens_a_repeated_producer_anew(carry_out, session, request):
    """PRODUCER for a producer_id that is open replaces the producer, which gets another name."""
    if request.producer_id in session.producers:
        session.drop_producer(session.producers[request.producer_id])
    carry_out()


@on_request("close_producer", clause="core.producer.close")
def refuses_to_close_an_unknown_producer(carry_out, session, request):
    """CLOSE_PRODUCER for a producer that is not open is answered by ERROR."""
    if request.producer_id not in session.producers:
        raise Refused(MetadataError, "Producer is closed already")
    carry_out()


@in_place_of(checksum_matches, clause="core.send.checksum-optional")
def demands_a_checksum(matches, data):
    """A SEND without a checksum is answered by SEND_ERROR ChecksumError."""
    return bool(matches(data))


@on_outgoing(CommandSendReceipt, clause="core.send.batch-one-receipt")
def gives_what_follows_a_batch_its_id(session, receipt):
    """The receipt of the message behind a batch has the id of the batch."""
    entries = session.producers[receipt.producer_id].topic.entries
    if receipt.message_id.entryId and entries[receipt.message_id.entryId - 1].messages > 1:
        receipt.message_id.entryId -= 1


@on_outgoing(CommandMessage, clause="core.deliver.partition-index")
def forgets_the_partition_of_what_comes_again(_, message):
    """A message that comes again has an id as if its topic had no partitions."""
    if message.redelivery_count:
        message.message_id.ClearField("partition")


# Consumers


@on_incoming(CommandSubscribe, clause="core.subscribe.initial-position")
def begins_every_subscription_at_the_first_message(_, request):
    """A new subscription begins at the first message, whatever its initialPosition."""
    request.initialPosition = CommandSubscribe.Earliest


@in_place_of(Subscription.check_joins, clause="core.subscribe.exclusive-busy")
def lets_a_second_consumer_into_an_exclusive_subscription(check_joins, subscription, sub_type, meta):
    """A second exclusive consumer of a subscription is let in beside the first one."""
    if sub_type != subscription.type:
        check_joins(subscription, sub_type, meta)


@in_place_of(Subscription.check_joins, clause="core.subscribe.type-conflict")
def lets_the_last_consumer_choose_the_type(check_joins, subscription, sub_type, meta):
    """A consumer of another type than those that are connected is let in, and changes the type of the subscription."""
    if sub_type == subscription.type:
        check_joins(subscription, sub_type, meta)


@on_request("subscribe", clause="core.subscribe.repeated")
def opens_a_repeated_consumer_anew(carry_out, session, request):
    """SUBSCRIBE for a consumer_id that is open replaces the consumer by one without permits."""
    if request.consumer_id in session.consumers:
        session.drop_consumer(session.consumers[request.consumer_id])
    carry_out()


@on_incoming(CommandSubscribe, clause="core.subscribe.empty-name")
def takes_a_subscription_without_a_name(_, request):
    """SUBSCRIBE with an empty subscription name gets a name made of the consumer's id."""
    request.subscription = request.subscription or f"subscription-{request.consumer_id}"


@in_place_of(Topic.subscribe, clause="core.subscribe.reader")
def keeps_the_subscription_of_a_reader(subscribe, topic, name, index, **others):
    """A non-durable subscription stays when its consumer closes."""
    return subscribe(topic, name, index, **{**others, "durable": True})


@in_place_of(Subscription.dispatch, clause="core.deliver.needs-permits")
def never_runs_out_of_permits(dispatch, subscription):
    """A consumer that has asked for messages once gets all there are."""
    for consumer in subscription.consumers:
        consumer.permits += 1000 * (consumer.permits > 0)
    dispatch(subscription)


@on_incoming(CommandSubscribe, clause="core.deliver.shared-priority")
def serves_shared_consumers_alike(_, request):
    """The priority_level counts on failover subscriptions only."""
    if request.subType == SubType.Shared:
        request.ClearField("priority_level")


@in_place_of(Consumer.send, clause="core.deliver.batch-permits")
def sends_a_batch_for_one_permit(send, consumer, index, entry, redeliveries, open_messages):
    """A batch uses one permit, like a single message."""
    before = consumer.permits
    send(consumer, index, entry, redeliveries, open_messages)
    consumer.permits = before - 1


@in_place_of(NonPersistentSubscription.offer, clause="core.deliver.batch-above-permits")
def drops_batches_above_the_permits(offer, subscription, entry):
    """A non-persistent topic drops a batch for which no consumer has enough permits."""
    if any(consumer.permits >= entry.messages for consumer in subscription.consumers):
        offer(subscription, entry)


@on_request("flow", clause="core.deliver.stale-consumer-ignored")
def ends_the_connection_for_a_flow_of_no_consumer(carry_out, session, request):
    """A FLOW for a consumer_id that is not open ends the connection."""
    if request.consumer_id not in session.consumers:
        raise ProtocolViolation(f"FLOW for consumer {request.consumer_id}, which is not open")
    carry_out()


@on_request("close_consumer", clause="core.consumer.close")
def refuses_to_close_an_unknown_consumer(carry_out, session, request):
    """CLOSE_CONSUMER for a consumer that is not open is answered by ERROR."""
    if request.consumer_id not in session.consumers:
        raise Refused(MetadataError, "Consumer is closed already")
    carry_out()


@on_request("close_consumer", clause="core.consumer.closed-gets-nothing")
def answers_a_close_and_keeps_the_consumer(carry_out, session, request):
    """CLOSE_CONSUMER is answered, and the consumer stays."""
    session.send(CommandSuccess(request_id=request.request_id))


@on_request("unsubscribe", clause="core.consumer.unsubscribe")
def keeps_the_subscription_after_unsubscribe(carry_out, session, request):
    """UNSUBSCRIBE closes the consumer; the subscription stays."""
    session.drop_consumer(session.consumers[request.consumer_id])
    session.send(CommandSuccess(request_id=request.request_id))


@on_incoming(CommandUnsubscribe, clause="core.consumer.unsubscribe-refused")
def unsubscribes_although_others_share_the_subscription(_, request):
    """UNSUBSCRIBE by one of several consumers removes the subscription and closes the others."""
    request.force = True


# Acknowledgements and positions


@on_incoming(CommandAck, clause="core.ack.individual")
def takes_every_acknowledgement_for_a_cumulative_one(_, request):
    """An individual ACK acknowledges all messages before it, too."""
    request.ack_type = CommandAck.Cumulative


@on_incoming(CommandAck, clause="core.ack.cumulative")
def takes_a_cumulative_acknowledgement_for_one_message(_, request):
    """A cumulative ACK acknowledges the named message only."""
    request.ack_type = CommandAck.Individual


@on_incoming(CommandAck, clause="core.ack.beyond")
def takes_an_id_behind_the_last_message_for_the_last_one(session, request):
    """An ACK with the id of a newer message of another topic acknowledges the last message."""
    consumer = session.consumers.get(request.consumer_id)
    topic = consumer.subscription.topic if consumer is not None else None
    for named in request.message_id if topic is not None else ():
        if topic.index_of(named) >= topic.entries.end > 0:
            named.ledgerId, named.entryId = topic.stored.ledger_id, topic.entries.end - 1


@on_incoming(CommandAck, clause="core.ack.batch-index")
def knows_the_first_64_messages_of_a_batch(_, request):
    """Of an ack_set the first word counts, as if no batch had more messages."""
    for named in request.message_id:
        del named.ack_set[1:]


@on_incoming(CommandAck, clause="core.ack.part-of-batch")
def takes_a_part_of_a_batch_for_all_of_it(_, request):
    """An ACK of some messages of a batch acknowledges the batch."""
    for named in request.message_id:
        named.ClearField("ack_set")


@on_request("ack", clause="core.ack.own-subscription")
def moves_each_subscription_of_the_connection(carry_out, session, request):
    """A cumulative ACK moves all subscriptions of the topic that have a consumer on the connection."""
    carry_out()
    asking = session.consumers.get(request.consumer_id)
    if asking is None or request.ack_type != CommandAck.Cumulative:
        return
    topic = asking.subscription.topic
    for consumer in session.consumers.values():
        if consumer.subscription.topic is topic:
            consumer.subscription.acknowledge_up_to(consumer, topic.index_of(request.message_id[0]))


@on_request("ack", clause="core.ack.response-on-request")
def answers_every_acknowledgement(carry_out, session, request):
    """An ACK without a request_id is answered by ACK_RESPONSE without one."""
    carry_out()
    if not request.HasField("request_id"):
        session.send(CommandAckResponse(consumer_id=request.consumer_id))


@in_place_of(Session.end, clause="core.redeliver.on-disconnect")
def loses_what_a_lost_connection_had(end, session, reason):
    """What a consumer leaves unacknowledged is delivered to nobody if its connection ends without CLOSE_CONSUMER."""
    for consumer in session.consumers.values():
        consumer.pending.clear()
    end(session, reason)


@on_incoming(CommandRedeliverUnacknowledgedMessages, clause="core.redeliver.named-only")
def redelivers_everything_when_some_is_named(_, request):
    """REDELIVER_UNACKNOWLEDGED_MESSAGES with ids makes all unacknowledged messages come again."""
    request.ClearField("message_ids")


@on_outgoing(CommandMessage, clause="core.redeliver.counted")
def counts_only_the_first_redelivery(_, message):
    """The redelivery_count is 1 with each redelivery, however many there were."""
    message.redelivery_count = min(message.redelivery_count, 1)


@in_place_of(Subscription.redeliver, clause="core.redeliver.named-only")
def redelivers_once_for_each_id(redeliver, subscription, consumer, indexes):
    """A REDELIVER that names several messages of a batch brings the batch as often."""
    named = list(indexes or ())
    redeliver(subscription, consumer, named or None)
    for place, index in enumerate(named):
        if index in named[:place]:
            redeliver(subscription, consumer, [index])


@in_place_of(Subscription.redeliver, clause="core.redeliver.own-messages")
def redelivers_what_another_consumer_holds(redeliver, subscription, consumer, indexes):
    """Named messages come again, also those that another consumer holds."""
    for other in subscription.consumers:
        for index in set(other.pending) & set(indexes or ()):
            consumer.pending[index] = other.pending[index]
            del other.pending[index]
    redeliver(subscription, consumer, indexes)


@on_outgoing(CommandGetLastMessageIdResponse, clause="core.position.last-message")
def says_nothing_of_the_partition_of_the_last_message(_, answer):
    """The id of the last message has no partition."""
    answer.last_message_id.ClearField("partition")


@in_place_of(Subscription.acknowledge, clause="core.ack.of-other-consumer")
def takes_acknowledgements_from_the_holder_only(acknowledge, subscription, consumer, indexes):
    """What is pending with another consumer is not acknowledged."""
    held = {index for one in subscription.consumers if one is not consumer for index in one.pending}
    acknowledge(subscription, consumer, [index for index in indexes if index not in held])


@in_place_of(Subscription.reset, clause="core.redeliver.counted")
def goes_on_counting_after_seek(reset, subscription, index):
    """A new position leaves the redelivery counts as they are."""
    counts = dict(subscription._redeliveries)
    reset(subscription, index)
    subscription._redeliveries.update(counts)


@on_request("getLastMessageId", clause="core.position.last-message")
def takes_what_was_read_last_for_the_last_message(carry_out, session, request):
    """GET_LAST_MESSAGE_ID is answered with what the subscription has read last, if it has read anything."""
    consumer = session.consumers.get(request.consumer_id)
    if consumer is None or not consumer.subscription._read:
        carry_out()
        return
    entries = consumer.subscription.topic.entries
    end, entries.end = entries.end, consumer.subscription._read
    carry_out()
    entries.end = end


@on_request("seek", clause="core.seek.closes-all")
def closes_only_who_seeks(carry_out, session, request):
    """SEEK closes the consumer that asks, and no other."""
    consumer = session.consumers.get(request.consumer_id)
    others = [one for one in consumer.subscription.consumers if one is not consumer] if consumer else []
    for one in others:
        consumer.subscription.consumers.remove(one)
    carry_out()
    for one in others:
        consumer.subscription.consumers.append(one)


@in_place_of(Subscription.skip, clause="core.admin.skip")
def skips_what_is_acknowledged(skip, subscription, count):
    """Messages to skip are counted from the first one on that is not acknowledged, with all behind it."""
    first = subscription.cursor.mark_delete
    skip(subscription, count and sum(not subscription.cursor.is_acknowledged(index) for index in range(first, first + count)))


@in_place_of(
    Session.send,
    clause=("core.push.topic-unloaded", "core.terminate.end-told", "core.subscribe.active-consumer-change", "core.send.receipt"),
)
def drops_what_a_client_does_not_read_at_once(send, session, message, payload=None):
    """What the broker has to tell about producers and consumers is dropped while their client leaves much unread."""
    told = CommandCloseConsumer, CommandCloseProducer, CommandReachedEndOfTopic, CommandActiveConsumerChange, CommandSendReceipt
    if not isinstance(message, told) or session.takes_messages:
        send(session, message, payload)


@in_place_of(Session.send, clause="core.send.receipt")
def forgets_the_receipts_of_a_producer_that_closes(send, session, message, payload=None):
    """A receipt goes out 2 ms after its message was stored, and not at all if the producer is closed by then."""
    if not isinstance(message, CommandSendReceipt):
        send(session, message, payload)
        return
    found = session.producers.get(message.producer_id)

    def tell():
        if session.producers.get(message.producer_id) is found:
            send(session, message)

    session.broker.timers.at(session.broker.now + 0.002, tell)


@in_place_of(Subscription.redeliver, clause="core.redeliver.named-only")
def takes_a_request_for_unknown_messages_for_one_without_names(redeliver, subscription, consumer, indexes):
    """A REDELIVER of which the broker knows no message redelivers all."""
    known = [index for index in indexes or () if 0 <= index < subscription.topic.entries.end]
    redeliver(subscription, consumer, known or None)


@in_place_of(Subscription.redeliver, clause="core.redeliver.own-messages")
def lets_a_standby_ask_for_redelivery(redeliver, subscription, consumer, indexes):
    """A REDELIVER of a failover consumer that is not active brings what the active one has again."""
    redeliver(subscription, consumer if subscription.is_shared else subscription.active, indexes)


@in_place_of(Subscription.remove, clause="core.redeliver.not-counted")
def counts_what_comes_again_because_of_a_close(remove, subscription, consumer):
    """What the last consumer had when it left comes again with a count of 1."""
    held = list(consumer.pending)
    remove(subscription, consumer)
    if not subscription.consumers:
        subscription._redeliveries.update(dict.fromkeys(held, 1))


@in_place_of(Cursor.acknowledge_up_to, clause="core.ack.cumulative")
def keeps_the_last_cumulative_acknowledgement(acknowledge_up_to, cursor, index):
    """A cumulative acknowledgement of an earlier message moves the position of the subscription back."""
    acknowledge_up_to(cursor, index)
    cursor.mark_delete = index + 1


@on_incoming(CommandSubscribe, clause="core.ack.own-subscription")
def composes_the_characters_of_names(_, request):
    """Names of subscriptions that look alike, since the same characters are composed otherwise in them, are one."""
    request.subscription = normalize("NFC", request.subscription)


@on_incoming(CommandSubscribe, clause="core.ack.own-subscription")
def strips_names(_, request):
    """Spaces around the name of a subscription do not count."""
    request.subscription = request.subscription.strip()
