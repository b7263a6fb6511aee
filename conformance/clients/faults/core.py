"""Clients with a fault in the core protocol: connections, requests, producers, consumers."""

from dataclasses import replace

from conformance.clients.faults.model import fault, in_place_of, on_incoming, on_outgoing
from refimpl.client.attached import Attached
from refimpl.client.batch_acks import BatchAcks
from refimpl.client.connection import Connection
from refimpl.client.consumer import Consumer
from refimpl.client.errors import ClientError, Closed, ProtocolError, TimedOut
from refimpl.client.pool import Pool
from refimpl.client.producer import Producer
from refimpl.client.requests import RequestTable
from refimpl.wire import checksum_matches
from refimpl.wire.commands import sub_message
from refimpl.wire.pulsar_api_pb2 import (
    CommandAck,
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandConnected,
    CommandFlow,
    CommandLookupTopic,
    CommandPing,
    CommandProducer,
    CommandRedeliverUnacknowledgedMessages,
    CommandSeek,
    CommandSendReceipt,
    CommandSubscribe,
    CommandUnsubscribe,
)


@on_incoming(CommandPing, clause="core.client.answers-ping")
def ignores_pings(connection, ping):
    """PING gets no answer."""
    return False


@on_incoming(CommandPing, clause="core.client.answers-ping")
def answers_the_first_ping_only(connection, ping):
    """The first PING of a connection gets PONG, and later ones nothing."""
    first = not hasattr(connection, "was_pinged")
    connection.was_pinged = True
    return first


@fault("core.client.pending-by-kind")
def matches_answers_by_id_alone(patches):
    """PRODUCER has request_ids of its own, and an answer of any kind completes the request that has its request_id."""

    def exchange(original):
        def exchanged(connection, request):
            if isinstance(request, CommandProducer):
                request.request_id = connection.asked = getattr(connection, "asked", -1) + 1
            return original(connection, request)

        return exchanged

    def match(original):
        def matched(table, answer):
            request_id = sub_message(answer).request_id
            waiting = next((one for (_, number), one in table._waiting.items() if number == request_id), None)
            if waiting is None:
                return False
            for key in waiting.keys:
                del table._waiting[key]
            waiting.pending.succeed(answer)
            return True

        return matched

    patches.wrap(Connection, "exchange", exchange)
    patches.wrap(RequestTable, "answered", match)


@in_place_of(Consumer._return, clause="core.client.permits-returned")
def never_returns_permits(give_back, consumer, count):
    """The client sends FLOW once, and never again."""


@in_place_of(Consumer._return, clause="core.client.permits-returned")
def returns_permits_late(give_back, consumer, count):
    """The client returns permits when twice as many messages were taken as its queue holds."""
    consumer._permits.returned += count
    if consumer.connection is not None and consumer._permits.returned >= 2 * consumer.options.queue_size:
        consumer.connection.send(CommandFlow(consumer_id=consumer.number, messagePermits=consumer._permits.returned))
        consumer._permits.granted += consumer._permits.returned
        consumer._permits.returned = 0


@on_incoming(CommandCloseConsumer, clause="core.client.reattaches-after-close")
def ignores_the_close_of_a_consumer(connection, close):
    """CLOSE_CONSUMER changes nothing: the client waits for messages that never come."""
    return False


@on_incoming(CommandCloseProducer, clause="core.client.reattaches-after-close")
def ends_with_a_closed_producer(connection, close):
    """After CLOSE_PRODUCER the producer is closed for good."""
    producer = connection._peers.get(("producer_id", close.producer_id))
    if producer is not None:
        producer.end(Closed("the broker has closed it"))
    return False


@in_place_of(Attached._attach, clause="core.client.reattaches-after-close")
async def reattaches_without_a_look_up(attach, one):
    """The client attaches again on the connection that it had, and asks nobody who serves the topic."""
    known = getattr(one, "known_place", None)
    if known is None or known.closing or not isinstance(one, Consumer | Producer):
        one.known_place = await attach(one)
        return one.known_place
    one._lost = type(one._lost)(one._scheduler)
    one._place = known
    known.attach(one.kind, one.number, one)
    await one._register(known)
    return known


@on_outgoing(CommandProducer, clause="core.client.reattaches-after-close")
def reattaches_under_another_name(connection, request):
    """A producer attaches again without the name that the broker gave it."""
    if request.epoch:
        request.ClearField("producer_name")


@on_incoming(CommandConnected, clause="core.client.unknown-flag-ignored")
def refuses_unknown_flags(connection, connected):
    """A broker with a feature flag of a proposal is taken for incompatible."""
    flags = connected.feature_flags
    if flags.supports_message_filter or flags.supports_scalable_topics:
        connection.end(ProtocolError("unknown feature flags"))
        return False
    return True


@on_incoming(CommandConnected, clause="core.client.flag-before-command")
def needs_feature_flags(connection, connected):
    """A broker without any feature flags is taken for incompatible."""
    if not connected.HasField("feature_flags"):
        connection.end(ProtocolError("no feature flags"))
        return False
    return True


@in_place_of(Consumer._register, clause="core.client.reattaches-after-loss")
async def closes_the_consumer_that_came_back(register, consumer, connection):
    """The lost consumer is closed when the new one is there, and both have one id."""
    again = consumer._was_attached
    await register(consumer, connection)
    if again:
        connection.send(CommandCloseConsumer(consumer_id=consumer.number, request_id=1_000_000))


@in_place_of(Consumer._on_attached, clause="core.client.reattaches-after-loss")
def grants_no_permits_again(attached, consumer, connection):
    """A consumer that attaches again sends no FLOW."""
    if getattr(consumer, "was_granted", False):
        consumer._permits.granted = consumer.options.queue_size
        consumer.connection = connection
    else:
        consumer.was_granted = True
        attached(consumer, connection)


@in_place_of(Consumer._register, clause="core.client.attaches-alike")
async def attaches_at_the_other_end(register, consumer, connection):
    """A consumer that attaches again names the other initial position."""
    if consumer._was_attached:
        other = CommandSubscribe.Earliest if consumer.options.initial_position == CommandSubscribe.Latest else CommandSubscribe.Latest
        consumer.options = replace(consumer.options, initial_position=other)
    await register(consumer, connection)


@in_place_of(Consumer._register, clause="core.client.attaches-alike")
async def attaches_under_another_name(register, consumer, connection):
    """A consumer that attaches again has a new name."""
    if consumer._was_attached:
        consumer.name += "-again"
    await register(consumer, connection)


@on_outgoing(CommandSubscribe, clause="core.client.attaches-alike")
def attaches_again_as_its_only_consumer(connection, request):
    """A consumer that attaches again is an exclusive one."""
    if request.consumer_epoch or request.consumer_id in (known := connection.__dict__.setdefault("was_known", set())):
        request.subType = CommandSubscribe.Exclusive
    known.add(request.consumer_id)


@on_incoming(CommandCloseConsumer, clause="core.client.ids-meant")
def reattaches_the_first_consumer_only(connection, close):
    """CLOSE_CONSUMER counts for the consumer with the id 0 alone."""
    return close.consumer_id == 0


@on_incoming(CommandCloseProducer, clause="core.client.reattaches-after-close")
def reattaches_the_first_producer_only(connection, close):
    """CLOSE_PRODUCER counts for the producer with the lowest id alone."""
    return close.producer_id == min(number for kind, number in connection._peers if kind == "producer_id")


@on_incoming(CommandCloseConsumer, clause="core.client.ids-meant")
def reattaches_all_consumers(connection, close):
    """CLOSE_CONSUMER counts for all consumers of the connection."""
    for (kind, number), consumer in list(connection._peers.items()):
        if kind == "consumer_id" and number != close.consumer_id:
            consumer._closed_by_broker()
    return True


@on_outgoing(CommandAck, clause="core.client.ids-meant")
def acknowledges_for_the_first_consumer(connection, ack):
    """ACK names the consumer 0, whoever acknowledges."""
    ack.consumer_id = 0


@on_outgoing(CommandRedeliverUnacknowledgedMessages, clause="core.client.ids-meant")
def gives_back_for_the_first_consumer(connection, redeliver):
    """What is given back is asked for by the consumer 0."""
    redeliver.consumer_id = 0


@on_outgoing(CommandSeek, clause="core.client.ids-meant")
def seeks_with_the_first_consumer(connection, seek):
    """SEEK moves the consumer 0, whoever seeks."""
    seek.consumer_id = 0


@on_outgoing(CommandUnsubscribe, clause="core.client.ids-meant")
def unsubscribes_the_first_consumer(connection, unsubscribe):
    """UNSUBSCRIBE names the consumer 0, whoever unsubscribes."""
    unsubscribe.consumer_id = 0


@on_outgoing(CommandCloseConsumer, clause="core.client.ids-meant")
def closes_the_first_consumer(connection, close):
    """CLOSE_CONSUMER names the consumer 0, whoever is closed."""
    close.consumer_id = 0


@on_outgoing(CommandCloseProducer, clause="core.client.ids-meant")
def closes_the_first_producer(connection, close):
    """CLOSE_PRODUCER names the producer 0, whoever is closed."""
    close.producer_id = 0


@in_place_of(Producer._confirmed, clause="core.client.receipt-confirms")
def confirms_all_that_waits(confirmed, producer, receipt):
    """A receipt confirms everything that has none yet."""
    for number in list(producer._unconfirmed):
        confirmed(producer, CommandSendReceipt(producer_id=receipt.producer_id, sequence_id=number, message_id=receipt.message_id))


@in_place_of(Producer._confirmed, clause="core.client.receipt-confirms")
def confirms_the_oldest(confirmed, producer, receipt):
    """A receipt confirms the oldest message that has none yet, whatever its sequence_id says."""
    if producer._unconfirmed:
        receipt.sequence_id = min(producer._unconfirmed)
    confirmed(producer, receipt)


@in_place_of(Producer._confirmed, clause="core.client.highest-sequence-optional")
def confirms_up_to_the_highest_sequence_id(confirmed, producer, receipt):
    """A receipt confirms what its highest_sequence_id says, even of a single message."""
    if receipt.HasField("highest_sequence_id") and receipt.highest_sequence_id >= receipt.sequence_id:
        producer._unconfirmed.pop(receipt.highest_sequence_id, None)
    confirmed(producer, receipt)


@on_incoming(CommandSendReceipt, clause="core.client.highest-sequence-optional")
def wants_the_highest_sequence_id(connection, receipt):
    """A receipt counts only if its highest_sequence_id is that of the message."""
    return receipt.highest_sequence_id == receipt.sequence_id


@in_place_of(Connection._connected, clause="core.client.flag-before-command")
def takes_all_flags_for_set(take, connection, connected):
    """The client takes every broker for one with topic watchers."""
    connected.feature_flags.supports_topic_watchers = True
    take(connection, connected)


@in_place_of(Producer._on_attached, clause="core.client.sends-again")
def sends_again_backwards(attached, producer, connection):
    """What has no receipt is sent again in the wrong order."""
    for entry in reversed(list(producer._unconfirmed.values())):
        producer.connection = connection
        producer._transmit(entry)


@in_place_of(Producer._expire, clause="core.client.failed-for-good")
def sends_what_has_failed(expire, producer):
    """A message whose time is over is reported as lost, and kept for the next connection."""
    for entry in producer._unconfirmed.values():
        entry.fail(TimedOut("there was no receipt in time"))


@on_outgoing(CommandProducer, clause="core.client.epoch-grows")
def repeats_its_epoch(connection, request):
    """The epoch of PRODUCER is always 0."""
    request.epoch = 0


@on_outgoing(CommandLookupTopic, clause="core.client.redirect-followed")
def forgets_authoritative(connection, request):
    """LOOKUP never says authoritative."""
    request.authoritative = False


@in_place_of(Pool._target, clause="core.client.proxy-named")
def goes_past_the_proxy(target, pool, answer):
    """The broker that LOOKUP_RESPONSE names is connected to, whatever else it says."""
    answer.proxy_through_service_url = False
    return target(pool, answer)


@in_place_of(checksum_matches, clause="core.client.checksum-verified")
def trusts_every_checksum(matches, data):
    """Checksums are not looked at."""
    return


@in_place_of(BatchAcks.cumulative, clause="core.client.acks-in-batch")
def acknowledges_the_batch_cumulatively(cumulative, acks, message_id):
    """A cumulative acknowledgement inside of a batch is one of the whole batch."""
    cumulative(acks, message_id)
    return message_id


@in_place_of(BatchAcks.individual, clause="core.client.acks-in-batch")
def acknowledges_the_batch_with_its_first_message(individual, acks, message_id):
    """The acknowledgement of any message of a batch is one of the whole batch."""
    individual(acks, message_id)
    return True


@in_place_of(Consumer.redeliver, clause="core.client.negative-named")
def asks_for_everything_again(redeliver, consumer, positions=None):
    """A message that is given back brings all messages again that are not acknowledged."""
    redeliver(consumer)


@in_place_of(Consumer.taken, clause="core.client.reader-continues")
def reads_from_the_beginning_again(taken, consumer, message):
    """A reader that attaches again begins at its first position."""
    consumer._return(1)


@in_place_of(BatchAcks.clear, clause="core.client.seek-starts-anew")
def remembers_acknowledgements_after_a_seek(clear, acks):
    """What was acknowledged before a seek is left out after it."""


@in_place_of(Connection._keep_alive, clause="core.client.silent-broker-left")
def waits_for_a_silent_broker(keep_alive, connection):
    """Nobody notices that a broker does not answer PING."""
    connection._silent = False
    keep_alive(connection)


@in_place_of(Attached._wait, clause="core.client.pauses")
async def asks_again_at_once(wait, attached, seconds):
    """What is refused is asked for again without a pause."""
    await wait(attached, 0)


@in_place_of(Consumer._register, Producer._register, clause="core.client.unanswered-closed")
async def leaves_behind_what_was_not_answered(register, one, connection):
    """A consumer or producer whose creation is not answered in time is not closed at the broker."""
    try:
        await register(one, connection)
    except TimedOut as error:
        raise ClientError(str(error)) from None
