"""Clients with a fault that monitors see in any conversation: ids, checksums, batches, sequence ids, acknowledgements."""

import refimpl.client.entry
import refimpl.wire
from conformance.clients.faults.model import in_place_of, instead_of, on_outgoing
from refimpl.client.connection import Connection
from refimpl.client.consumer import Consumer
from refimpl.client.producer import Producer
from refimpl.wire.pulsar_api_pb2 import (
    CommandAck,
    CommandCloseProducer,
    CommandFlow,
    CommandPartitionedTopicMetadata,
    CommandSend,
    CommandSubscribe,
    CommandWatchTopicList,
)


@in_place_of(Connection._connect, clause="core.client.connect-first")
def connects_twice(connect, connection):
    """A connection begins with two CONNECT commands."""
    connect(connection)
    connect(connection)


@in_place_of(Connection.send, clause="core.client.request-ids-unique")
def asks_twice_with_one_id(send, connection, message, payload=None):
    """A question for partitions is repeated at once, with the same request_id."""
    send(connection, message, payload)
    if isinstance(message, CommandPartitionedTopicMetadata):
        send(connection, message, payload)


@in_place_of(Connection.send, clause="core.client.own-producers")
def sends_after_the_close(send, connection, message, payload=None):
    """What a producer sent last is sent once more, behind its CLOSE_PRODUCER."""
    send(connection, message, payload)
    if isinstance(message, CommandSend):
        connection.sent_last = message, payload
    elif isinstance(message, CommandCloseProducer) and hasattr(connection, "sent_last"):
        send(connection, *connection.sent_last)


@on_outgoing(CommandFlow, clause="core.client.own-consumers")
def gives_permits_to_nobody(connection, flow):
    """The permits of FLOW are for the next consumer, which does not exist."""
    flow.consumer_id += 1


@on_outgoing(CommandSubscribe, clause="core.client.ids-unique")
def gives_all_consumers_one_id(connection, subscribe):
    """Each consumer has the id 0."""
    subscribe.consumer_id = 0


@instead_of(refimpl.client.entry, "encode_payload", clause="core.client.checksum-right")
def leaves_out_the_metadata_in_checksums(encode, metadata, body):
    """The checksum is that of the payload alone."""
    return encode(metadata, body, checksum=refimpl.wire.crc32c(body))


@on_outgoing(CommandSend, clause="core.client.batch-well-formed")
def announces_one_message_too_many(connection, send):
    """SEND announces one message more than the batch has."""
    send.num_messages += 1


@on_outgoing(CommandSend, clause="core.client.sequence-grows")
def gives_all_messages_one_sequence_id(connection, send):
    """Each SEND has the sequence_id 0."""
    send.sequence_id = 0


@in_place_of(Producer._register, clause="core.client.sequence-grows")
async def begins_to_count_anew(register, producer, connection):
    """A producer that attaches again begins with the sequence_id 0."""
    again = producer._was_attached
    await register(producer, connection)
    if again:
        producer.last_sequence_id = -1


@in_place_of(Producer._register, clause="core.client.sequence-grows")
async def counts_one_back(register, producer, connection):
    """A producer that attaches again gives its last sequence_id to the next message, too."""
    again = producer._was_attached
    await register(producer, connection)
    if again:
        producer.last_sequence_id -= 1


@in_place_of(Consumer._unpack, clause="core.client.permits-bounded")
def returns_permits_of_rejected_messages_twice(unpack, consumer, frame):
    """The permits of messages that the client rejects itself are granted twice."""
    before = len(consumer._inbox)
    unpack(consumer, frame)
    if len(consumer._inbox) == before:
        consumer._return(1)


@on_outgoing(CommandFlow, clause="core.client.permits-bounded")
def rounds_permits_up(connection, flow):
    """FLOW grants one permit more than there is room."""
    flow.messagePermits += 1 if getattr(connection, "has_granted", False) else 0
    connection.has_granted = True


@on_outgoing(CommandAck, clause="core.client.acks-delivered")
def acknowledges_what_is_still_to_come(connection, ack):
    """An acknowledgement names the hundredth entry behind the one that was taken."""
    ack.message_id[0].entryId += 100


@on_outgoing(CommandWatchTopicList, clause="pip145.client.watch-id-unique")
def watches_another_pattern_the_second_time(connection, watch):
    """A watch request that is repeated has another pattern."""
    if hasattr(connection, "has_watched"):
        watch.topics_pattern += "x"
    connection.has_watched = True
