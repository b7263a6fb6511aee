"""Brokers that go wrong with what a client may ask for besides: versions, positions, options of acknowledgements and look-ups."""

from conformance.mutants.model import in_place_of, on_incoming, on_request
from refimpl.broker import Broker, Session
from refimpl.broker.subscription import SubType
from refimpl.store import Cursor
from refimpl.wire import without_checksum
from refimpl.wire.pulsar_api_pb2 import (
    CommandAck,
    CommandLookupTopic,
    CommandMessage,
    CommandRedeliverUnacknowledgedMessages,
    CommandSeek,
    CommandSubscribe,
)


@on_incoming(CommandAck, clause="core.ack.cumulative-in-order")
def acknowledges_the_last_of_several_ids(_, request):
    """A cumulative ACK of several ids counts for the last of them."""
    if request.ack_type == CommandAck.Cumulative:
        del request.message_id[:-1]


@on_request("ack", clause="core.ack.cumulative-in-order")
def acknowledges_cumulatively_for_shared_consumers(carry_out, session, request):
    """A cumulative ACK of a shared consumer acknowledges all before it, those of other consumers, too."""
    consumer = session.consumers.get(request.consumer_id)
    if consumer is not None and request.ack_type == CommandAck.Cumulative and consumer.subscription.type == SubType.Shared:
        for one in request.message_id:
            consumer.subscription.acknowledge_up_to(consumer, consumer.subscription.topic.index_of(one))
    carry_out()


@in_place_of(Session.speaks, clause=("core.deliver.checksum-version", "core.subscribe.active-change-version"))
def takes_every_client_for_a_new_one(*_):
    """Clients of older versions get what those of today get."""
    return True


@in_place_of(Session.send, clause="core.deliver.checksum-version")
def sends_no_checksums(send, session, message, payload=None):
    """Nobody gets the checksum of a message."""
    send(session, message, without_checksum(payload) if isinstance(message, CommandMessage) else payload)


@on_incoming(CommandSeek, clause="core.seek.in-batch")
def seeks_whole_entries(_, request):
    """SEEK ignores the ack_set of its id."""
    del request.message_id.ack_set[:]


@in_place_of(Cursor.acknowledge_in_part, clause="core.ack.batch-index")
def believes_the_last_ack_set(acknowledge_in_part, cursor, index, open_messages):
    """The last acknowledgement of messages of a batch says which are open, whatever was acknowledged before."""
    cursor.open_messages.pop(index, None)
    acknowledge_in_part(cursor, index, open_messages)


@in_place_of(Cursor.acknowledge_in_part, clause="core.seek.in-batch")
def begins_behind_a_batch_that_is_open_in_part(acknowledge_in_part, cursor, index, open_messages):
    """A batch of which only a part is asked for is skipped as a whole."""
    cursor.acknowledge(index)


@in_place_of(Broker.create_partitions, clause="core.partitions.subscriptions-of-new")
def makes_new_partitions_with_one_subscription(create_partitions, broker, name, partitions):
    """New partitions of a topic have only the oldest of its subscriptions."""
    first = broker.namespace(name).topics.get(f"{name.full}-partition-0")
    kept = dict(first.cursors) if first else {}
    for one in list(kept)[1:]:
        del first.cursors[one]
    create_partitions(broker, name, partitions)
    if first:
        first.cursors.update(kept)


@on_incoming(CommandLookupTopic, clause="core.lookup.missing-namespace")
def looks_for_the_namespace_on_the_first_way_only(session, request):
    """An authoritative LOOKUP is answered by this broker, whether or not the namespace exists."""
    missing = session.broker.topic_name(request.topic).namespace not in session.broker.store.namespaces
    if request.authoritative and missing:
        request.topic = "persistent://public/default/t"


@in_place_of(Broker.create_partitions, clause="core.partitions.subscriptions-of-new")
def makes_new_partitions_without_subscriptions(create_partitions, broker, name, partitions):
    """New partitions of a topic have no subscriptions until somebody subscribes."""
    first = broker.namespace(name).topics.get(f"{name.full}-partition-0")
    kept = dict(first.cursors) if first else {}
    if first:
        first.cursors.clear()
    create_partitions(broker, name, partitions)
    if first:
        first.cursors.update(kept)


@in_place_of(Session.close_producer, clause="core.send.after-close-dropped")
def forgets_at_once_whom_it_has_closed(close_producer, session, producer):
    """A SEND that crosses CLOSE_PRODUCER ends the connection."""
    close_producer(session, producer)
    session.closed_producers.clear()


@on_incoming(CommandSubscribe, clause="core.subscribe.compacted-in-order")
def ignores_that_compacted_messages_are_asked_for(_, request):
    """read_compacted is ignored, for shared subscriptions, too."""
    request.read_compacted = False


@on_incoming(CommandSubscribe, clause="core.subscribe.reserved-name")
def has_no_reserved_names(_, request):
    """Any name of a subscription is free."""
    if request.subscription == "pulsar.dedup":
        request.subscription = "pulsar-dedup"


@on_incoming(CommandSubscribe, clause="core.subscribe.rollback")
def goes_back_by_nothing(_, request):
    """start_message_rollback_duration_sec is ignored."""
    request.ClearField("start_message_rollback_duration_sec")


@on_incoming(CommandSubscribe, clause="core.subscribe.rollback")
def goes_back_by_milliseconds(_, request):
    """start_message_rollback_duration_sec is taken for milliseconds."""
    if request.start_message_rollback_duration_sec:
        request.start_message_rollback_duration_sec //= 1000


@on_incoming(CommandLookupTopic, clause="core.lookup.unknown-listener")
def has_one_address_for_all_listeners(_, request):
    """advertised_listener_name is ignored."""
    request.ClearField("advertised_listener_name")


@on_incoming(CommandRedeliverUnacknowledgedMessages, clause="core.deliver.consumer-epoch")
def keeps_the_first_epoch(_, request):
    """The epoch of a consumer stays that of its SUBSCRIBE."""
    request.ClearField("consumer_epoch")


@on_request("redeliverUnacknowledgedMessages", clause="core.redeliver.older-epoch")
def goes_back_to_an_older_epoch(carry_out, session, request):
    """The epoch of a consumer is that of its last request, even if it is older."""
    consumer = session.consumers.get(request.consumer_id)
    if consumer is not None and request.HasField("consumer_epoch"):
        consumer.epoch = request.consumer_epoch
    carry_out()


@on_incoming(CommandLookupTopic, clause="core.lookup.unknown-listener")
def asks_for_the_listener_on_the_first_way_only(_, request):
    """An authoritative LOOKUP is answered by this broker, whichever listener it names."""
    if request.authoritative:
        request.ClearField("advertised_listener_name")
