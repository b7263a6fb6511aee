"""Clients with a fault where two things meet that they do right one by one: a loss and an open batch, a refusal and what is behind it."""

import dataclasses

from conformance.clients.faults.model import in_place_of, on_outgoing
from refimpl.client.consumer import Consumer
from refimpl.client.followed_topics import FollowingConsumer
from refimpl.client.multi_topics_consumer import MultiTopicsConsumer
from refimpl.client.pool import Pool
from refimpl.client.producer import Producer
from refimpl.wire import compress, encode_payload, parse_payload
from refimpl.wire.pulsar_api_pb2 import CommandAck, CommandConnect, CommandLookupTopicResponse

# Producers that attach again


@in_place_of(Producer._on_attached, clause="core.client.sends-again")
def sends_its_open_batch_first(on_attached, producer, connection):
    """A producer that attaches again closes its open batch and sends it, and behind it what has no receipt."""
    waiting, producer._unconfirmed = producer._unconfirmed, {}
    if waiting:
        producer._close_batch()
    opened, producer._unconfirmed = producer._unconfirmed, waiting
    on_attached(producer, connection)
    producer._unconfirmed = {**opened, **producer._unconfirmed}


@in_place_of(Producer._on_attached, clause="core.client.sends-again")
def compresses_twice(on_attached, producer, connection):
    """What is sent again is compressed once more."""
    for number, entry in producer._unconfirmed.items():
        payload = parse_payload(entry.payload)
        body = compress(payload.body, producer.options.compression)
        producer._unconfirmed[number] = dataclasses.replace(entry, payload=encode_payload(payload.metadata, body))
    on_attached(producer, connection)


@in_place_of(Producer._register, clause="core.client.topic-epoch")
async def keeps_its_first_topic_epoch(register, producer, connection):
    """The topic_epoch of the first PRODUCER_SUCCESS counts, and those of later ones are not looked at."""
    first = producer._topic_epoch
    await register(producer, connection)
    producer._topic_epoch = producer._topic_epoch if first is None else first


@in_place_of(Producer._refused, clause="core.client.epoch-grows")
def keeps_its_epoch_when_it_is_refused(refused, producer, refusal):
    """A producer that attaches again because of SEND_ERROR has the same epoch as before."""
    refused(producer, refusal)
    if producer.connection is None:
        producer._epoch -= 1


# Time-outs


@in_place_of(Producer._refused, clause="core.client.times-out")
def stops_its_clock_when_it_is_refused(refused, producer, refusal):
    """After SEND_ERROR no message runs into its send time-out."""
    refused(producer, refusal)
    if producer._expiry_timer is not None:
        producer._expiry_timer.cancel()


@in_place_of(Producer._confirmed, clause="core.client.times-out")
def stops_its_clock_with_a_receipt(confirmed, producer, receipt):
    """A receipt ends the time-outs of the messages that wait for theirs, too."""
    confirmed(producer, receipt)
    if producer._expiry_timer is not None:
        producer._expiry_timer.cancel()


# Consumers that seek or unsubscribe


@in_place_of(Consumer._seek, clause="core.client.seek-refused")
async def drops_its_queue_before_it_seeks(seek, consumer, request, position):
    """What waits for the user is dropped before the broker has moved the consumer."""
    consumer._return(consumer._dropped())
    await seek(consumer, request, position)


@in_place_of(Consumer._moved, clause="core.client.consumer-epoch")
def begins_to_count_epochs_when_it_seeks(moved, consumer, position):
    """After a seek the consumer_epoch begins with 0 again."""
    moved(consumer, position)
    consumer._epoch = 0


@in_place_of(MultiTopicsConsumer.unsubscribe, clause="core.client.unsubscribe-refused")
async def forgets_partitions_when_it_unsubscribes(unsubscribe, consumer):
    """A consumer that unsubscribes follows the count of partitions no more, also if it is refused."""
    if consumer._watcher is not None:
        consumer._watcher.close()
        consumer._watcher = None
    await unsubscribe(consumer)


@in_place_of(MultiTopicsConsumer.unsubscribe, clause="core.client.unsubscribe-refused")
async def forgets_its_pattern_when_it_unsubscribes(unsubscribe, consumer):
    """A pattern consumer that unsubscribes asks for topics no more, also if it is refused."""
    if isinstance(consumer, FollowingConsumer):
        consumer._driver.close()
    await unsubscribe(consumer)


# Ledgers


@in_place_of(Consumer._before_start, clause="core.client.reader-continues")
def takes_a_new_ledger_for_an_old_one(before_start, consumer, message_id):
    """Of two messages in different ledgers the one with the smaller entry id is before the other."""
    wanted = consumer._wanted
    earlier = wanted is not None and wanted.ledger_id < message_id.ledger_id and message_id.entry_id < wanted.entry_id
    return earlier or before_start(consumer, message_id)


@in_place_of(Consumer._acknowledge, clause="core.client.acks-in-batch")
def takes_a_new_ledger_for_acknowledged(acknowledge, consumer, kind, message_id, validation_error=None):
    """A cumulative acknowledgement counts for all smaller entry ids, whatever their ledgers."""
    done = consumer.__dict__.get("done", -1)
    if message_id.entry_id >= done:
        acknowledge(consumer, kind, message_id, validation_error)
    if kind == CommandAck.Cumulative:
        consumer.__dict__["done"] = max(done, message_id.entry_id)


# Connections


@in_place_of(Consumer._acknowledge, Consumer._on_attached, clause="core.client.acks-wait")
def acknowledges_where_it_was(original, consumer, *what):
    """What is acknowledged after CLOSE_CONSUMER is sent on the connection that the consumer had."""
    attached, last = consumer.connection, consumer.__dict__.get("last")
    if attached is None and last is not None and not last.closing:
        consumer.connection = last
    original(consumer, *what)
    consumer.__dict__["last"], consumer.connection = consumer.connection, attached


@in_place_of(Pool._target, clause="core.client.proxy-named")
def leaves_the_proxy_with_a_redirect(target, pool, answer):
    """The broker that a look-up finds behind a redirect is asked without the proxy."""
    redirected = pool.__dict__.get("redirected", False)
    pool.__dict__["redirected"] = answer.response == CommandLookupTopicResponse.Redirect
    if redirected:
        answer.proxy_through_service_url = False
    return target(pool, answer)


@on_outgoing(CommandConnect, clause="core.client.shows-token")
def shows_no_token_behind_a_proxy(connection, connect):
    """CONNECT for a broker behind a proxy has no token."""
    if connect.HasField("proxy_to_broker_url"):
        connect.auth_method_name = "none"
        connect.ClearField("auth_data")
