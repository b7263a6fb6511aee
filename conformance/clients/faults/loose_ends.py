"""Clients with a fault in what is open at the wrong moment: a receipt, an acknowledgement, a permit, a question, a size limit."""

from dataclasses import replace

import refimpl.client.entry
from conformance.clients.faults.model import fault, in_place_of, instead_of, on_incoming, on_outgoing
from refimpl.client.attached import Attached
from refimpl.client.client import ClientCore
from refimpl.client.connection import Connection
from refimpl.client.consumer import Consumer
from refimpl.client.errors import BrokerRefused
from refimpl.client.inbox import Inbox
from refimpl.client.partitioned_producer import PartitionedProducer
from refimpl.client.producer import Producer
from refimpl.client.requests import RequestTable
from refimpl.client.scheduler import Pending
from refimpl.proposals.partition_watch.client import PartitionWatch
from refimpl.proposals.scalable_topics.client import ScalableTopicsWatch
from refimpl.wire.pulsar_api_pb2 import (
    BaseCommand,
    CommandCloseProducer,
    CommandLookupTopic,
    CommandPartitionedTopicMetadataResponse,
    CommandSendReceipt,
    NotAllowedError,
    PersistenceError,
    ServiceNotReady,
    TopicTerminatedError,
)

# Receipts and refusals


@in_place_of(Producer._confirmed, clause="core.client.receipt-confirms")
def confirms_what_was_sent_before(confirmed, producer, receipt):
    """A receipt confirms all messages up to its sequence_id."""
    for number in [number for number in producer._unconfirmed if number <= receipt.sequence_id]:
        confirmed(producer, CommandSendReceipt(producer_id=receipt.producer_id, sequence_id=number, message_id=receipt.message_id))


@on_incoming(CommandSendReceipt, clause="core.client.receipt-confirms")
def confirms_for_all_producers(connection, receipt):
    """A receipt counts for each producer of the connection that has such a sequence_id open."""
    for (kind, _), producer in list(connection._peers.items()):
        if kind == "producer_id" and next(iter(producer._unconfirmed), None) == receipt.sequence_id:
            producer._confirmed(receipt)
    return False


@in_place_of(Producer._refused, clause="core.client.refused-told")
def knows_few_errors(refused, producer, refusal):
    """A SEND_ERROR counts only if it says that something is not allowed, or that the topic is terminated."""
    if refusal.error in (NotAllowedError, TopicTerminatedError):
        refused(producer, refusal)


@in_place_of(Attached._gives_up, clause="core.client.refused-told")
def waits_at_a_terminated_topic(gives_up, one, error, give_up_at):
    """A producer whose topic is terminated attaches again and again."""
    return error.code != TopicTerminatedError and gives_up(one, error, give_up_at)


@in_place_of(Producer._refused, clause="core.client.persists-again")
def fails_what_could_not_be_written(refused, producer, refusal):
    """PersistenceError fails its message, and the producer goes on with the next one."""
    if refusal.error == PersistenceError and refusal.sequence_id in producer._unconfirmed:
        producer._unconfirmed.pop(refusal.sequence_id).fail(BrokerRefused(refusal.error, refusal.message))
    else:
        refused(producer, refusal)


@in_place_of(Producer._refused, clause=("core.client.sends-again", "core.client.refused-one"))
def fails_the_oldest(refused, producer, refusal):
    """SEND_ERROR fails the oldest message without a receipt, whatever its sequence_id says."""
    if refusal.error == NotAllowedError and producer._unconfirmed:
        refusal.sequence_id = min(producer._unconfirmed)
    refused(producer, refusal)


@on_incoming(CommandCloseProducer, clause="core.client.sends-again")
def forgets_what_waits_when_the_broker_closes(connection, close):
    """What has no receipt when the broker closes its producer is forgotten."""
    connection._peers["producer_id", close.producer_id]._unconfirmed.clear()
    return True


@in_place_of(Producer._on_attached, clause="core.client.sends-again")
def forgets_what_has_become_too_large(on_attached, producer, connection):
    """What has no receipt, and is larger than the next connection takes, is forgotten."""
    for entry in list(producer._unconfirmed.values()):
        if len(entry.payload) > connection.max_message_size:
            del producer._unconfirmed[entry.sequence_id]
    on_attached(producer, connection)


@in_place_of(PartitionedProducer._leave, clause="pip191.trigger.flush")
async def drops_open_batches_after_a_reconnect(leave, producer):
    """A producer that has attached again drops its open batch when it is closed."""
    for member in producer.members:
        if member._epoch > 1:
            member._batcher.flush()
    await leave(producer)


@in_place_of(PartitionedProducer._leave, clause="core.client.close-tells")
async def forgets_what_waits_when_it_is_closed(leave, producer):
    """What has no receipt when its producer is closed is forgotten."""
    for member in producer.members:
        member._unconfirmed.clear()
    await leave(producer)


# While there is no connection


@in_place_of(Consumer._acknowledge, clause="core.client.acks-kept")
def keeps_the_last_acknowledgement(acknowledge, consumer, kind, message_id, validation_error=None):
    """Of what is acknowledged while there is no connection only the last one is sent."""
    if consumer.connection is None:
        consumer._unsent_acks.clear()
    acknowledge(consumer, kind, message_id, validation_error)


@in_place_of(Consumer._unpack, Consumer._on_attached, clause="core.client.acks-kept")
def leaves_out_what_it_has_not_acknowledged(original, consumer, given):
    """What is acknowledged while there is no connection is never sent, and left out when it comes again."""
    done = consumer.__dict__.setdefault("was_done", set())
    if isinstance(given, Connection):
        done |= {(each.ledgerId, each.entryId) for ack in consumer._unsent_acks for each in ack.message_id}
        consumer._unsent_acks.clear()
        original(consumer, given)
    elif (given.command.message.message_id.ledgerId, given.command.message.message_id.entryId) not in done:
        original(consumer, given)


@in_place_of(Consumer._acknowledge, clause="core.client.acks-kept")
def gathers_acknowledgements_until_it_is_closed(acknowledge, consumer, kind, message_id, validation_error=None):
    """Acknowledgements wait for a moment, to be sent in groups, and those that wait when the consumer is closed are never sent."""

    def later():
        if consumer.error is None:
            acknowledge(consumer, kind, message_id, validation_error)

    consumer._scheduler.call_at(consumer._scheduler.now + 0.1, later)


@in_place_of(ClientCore._partitions, clause="core.client.asks-again")
async def asks_for_partitions_once(partitions, core, topic):
    """A question for partitions that is not answered fails the producer or consumer."""
    return await core.pool.partitions(topic)


@in_place_of(PartitionWatch._polled, clause="core.client.polls-on")
def stops_to_poll_when_it_is_refused(polled, watch, answer):
    """The first look for new partitions that is refused is the last one."""
    if answer.response == CommandPartitionedTopicMetadataResponse.Failed:
        watch._poll_due = watch._poll_interval = float("inf")
    polled(watch, answer)


@in_place_of(PartitionWatch.disconnected, clause="core.client.polls-on")
def waits_for_the_answer_to_a_lost_poll(disconnected, watch, now):
    """If the connection ends before a look for new partitions is answered, no other one follows."""
    if watch._polls:
        watch._poll_due = watch._poll_interval = float("inf")
    disconnected(watch, now)


@in_place_of(Attached._wait, clause="core.client.asks-again")
async def waits_after_its_first_attempt(wait, one, seconds):
    """A producer or consumer that could not be attached at once waits for ever."""
    await wait(one, seconds if one._was_attached else 1e9)


@in_place_of(Attached._attach, clause="core.client.tries-again")
async def tries_again_where_it_was_refused(attach, one):
    """After ServiceNotReady it tries again on the same connection, without a look-up."""
    pool, refused_by = one._core.pool, one.__dict__.pop("refused_by", None)
    if refused_by is not None and not refused_by.closing:
        one._lost = Pending(one._scheduler)
        one._place = refused_by
        refused_by.attach(one.kind, one.number, one)
        await one._register(refused_by)
        return refused_by
    try:
        return await attach(one)
    except BrokerRefused as error:
        if error.code == ServiceNotReady and one._place in pool.connections:
            one.refused_by = one._place
        raise


# Limits


@in_place_of(Consumer._acknowledge, clause="core.client.permits-returned")
def keeps_the_permit_of_what_is_damaged(acknowledge, consumer, kind, message_id, validation_error=None):
    """The permit of a message that can't be read is not given back."""
    acknowledge(consumer, kind, message_id, validation_error)
    if validation_error is not None:
        consumer._permits.returned -= 1


@in_place_of(Producer._on_attached, clause="core.client.size-limit")
def keeps_the_largest_limit(attached, producer, connection):
    """The largest max_message_size that any connection had counts for ever."""
    attached(producer, connection)
    producer.largest = producer._max_message_size = max(connection.max_message_size, getattr(producer, "largest", 0))


@in_place_of(Producer._fits, clause="core.client.size-limit")
def sends_what_is_too_large(fits, producer, entry):
    """Nobody looks at max_message_size."""
    return True


@fault("core.client.size-limit")
def counts_no_bytes_of_a_batch(patches):
    """A batch may be larger than max_message_size."""

    def unlimited(original):
        def changed(producer, argument):
            limit = producer._max_message_size
            if producer.options.batching:
                producer._max_message_size = producer._batcher.max_bytes = 1 << 30
            original(producer, argument)
            producer._max_message_size = limit
            producer._batcher.max_bytes = 1 << 30

        return changed

    for name in ("_on_attached", "_put"):
        patches.wrap(Producer, name, unlimited)


# What the user has not taken yet


@in_place_of(Consumer._register, clause="core.client.reader-continues")
async def goes_on_behind_what_it_has_received(register, consumer, connection):
    """A reader that comes back begins behind the last message that it has received, taken or not."""
    waiting = [message for one, message in consumer._inbox._messages if one is consumer]
    if waiting and not consumer.options.durable:
        consumer.taken(waiting[-1])
    await register(consumer, connection)


@in_place_of(Consumer._moved, clause="core.client.seek-starts-anew")
def forgets_a_seek_when_it_comes_back(moved, consumer, position):
    """A reader that comes back begins behind what it had got before a seek, as if there had been none."""
    start = consumer._start
    moved(consumer, position)
    consumer._start = start


@fault("core.client.seek-starts-anew")
def keeps_its_queue_over_a_seek(patches):
    """What a client received before a seek is given to its user after it."""

    def moving(original):
        def moved(consumer, position):
            consumer.kept = [one for one in consumer._inbox._messages if one[0] is consumer]
            original(consumer, position)

        return moved

    def attaching(original):
        def attached(consumer, connection):
            original(consumer, connection)
            consumer._inbox._messages.extend(consumer.__dict__.pop("kept", ()))

        return attached

    patches.wrap(Consumer, "_moved", moving)
    patches.wrap(Consumer, "_on_attached", attaching)


@in_place_of(Inbox.drop, clause="core.client.permits-returned")
def counts_nothing_that_it_drops(drop, inbox, consumer):
    """Permits of messages that the client drops because they come again are not given back."""
    drop(inbox, consumer)
    return 0


@in_place_of(ScalableTopicsWatch._failed, clause="pr25648.client.backoff")
def asks_again_after_the_first_delay(failed, watch, event, failure, now):
    """The delay before a watch that has failed is asked for again does not grow."""
    watch._failures = 0
    failed(watch, event, failure, now)


# Turns, names and times


@in_place_of(RequestTable.answered, clause="core.client.waits-for-turn")
def takes_a_place_in_line_for_its_turn(answered, table, answer):
    """A producer that waits for exclusive access is ready with the first answer to PRODUCER."""
    if answer.type == BaseCommand.PRODUCER_SUCCESS:
        answer.producer_success.producer_ready = True
    return answered(table, answer)


@in_place_of(Consumer._on_attached, clause="core.client.attaches-alike")
def takes_a_new_name_each_time(on_attached, consumer, connection):
    """A consumer without a name of its user's has another one each time that it attaches."""
    on_attached(consumer, connection)
    if consumer.options.name is None:
        consumer.name = f"{consumer.name}-again"


@in_place_of(Producer.send, clause="core.client.deliver-at")
def says_delivery_times_in_seconds(send, producer, message):
    """deliver_at_time has the seconds since 1970."""
    if message.deliver_at is not None:
        message = replace(message, deliver_at=message.deliver_at // 1000)
    return send(producer, message)


@instead_of(refimpl.client.entry, "_single", clause="core.client.event-time")
def gives_batches_no_event_times(single, queued):
    """A message in a batch has no event time."""
    return single(replace(queued, message=replace(queued.message, event_time=None)))


@in_place_of(Producer.send, clause="core.client.event-time")
def keeps_the_event_time_of_the_message_before(send, producer, message):
    """A message without an event time has that of the one before."""
    if message.event_time is None:
        message = replace(message, event_time=producer.__dict__.get("event_time"))
    producer.__dict__["event_time"] = message.event_time
    return send(producer, message)


@in_place_of(Producer.send, clause="core.client.numbers-of-user")
def counts_after_the_first_number_of_its_user(send, producer, message):
    """The first sequence id that the user gives counts, and the later ones are counted from it."""
    if producer.last_sequence_id >= 0:
        message = replace(message, sequence_id=None)
    return send(producer, message)


@in_place_of(Producer._on_attached, clause="core.client.numbers-of-user")
def numbers_anew_what_it_sends_again(on_attached, producer, connection):
    """What is sent again on a new connection has numbers that go on from the last receipt."""
    waiting = list(producer._unconfirmed.values())
    stored = producer.__dict__.get("stored", 0)
    for number, entry in enumerate(waiting, stored):
        del producer._unconfirmed[entry.sequence_id]
        entry.queued[:] = [replace(one, sequence_id=number) for one in entry.queued]
        producer._unconfirmed[number] = entry
    on_attached(producer, connection)


@on_outgoing(CommandLookupTopic, clause="core.client.listener-named")
def names_its_listener_once(connection, request):
    """The first LOOKUP on a connection names the listener, and those after it do not."""
    if connection.__dict__.setdefault("named", False):
        request.ClearField("advertised_listener_name")
    connection.__dict__["named"] = True
