"""Freedoms of producers and consumers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import refimpl.client.entry
import refimpl.client.producer
from conformance.clients.variants.model import after, client_variant, outgoing
from conformance.mutants.model import Patches
from refimpl.client.attached import Attached
from refimpl.client.connection import Connection
from refimpl.client.consumer import Consumer
from refimpl.client.messages import MessageId
from refimpl.client.producer import Producer
from refimpl.wire.pulsar_api_pb2 import (
    CommandAck,
    CommandConsumerStats,
    CommandFlow,
    CommandGetLastMessageId,
    CommandProducer,
    CommandRedeliverUnacknowledgedMessages,
    CommandSend,
    CommandSubscribe,
    KeyValue,
)

_GATHERING = 0.1
"""Seconds for which acknowledgements are gathered."""


def _returns(patches: Patches, enough: Callable[[int], int]) -> None:
    """Send FLOW as soon as there are enough permits for a queue of some size."""

    def give_back(consumer: Any, count: int) -> None:
        permits = consumer._permits
        permits.returned += count
        if consumer.connection is not None and permits.returned >= max(1, enough(consumer.options.queue_size)):
            consumer.connection.send(CommandFlow(consumer_id=consumer.number, messagePermits=permits.returned))
            permits.granted += permits.returned
            permits.returned = 0

    patches.replace(Consumer, "_return", give_back)


@client_variant("core.client.permits-returned")
def gives_each_permit_back_at_once(patches: Patches) -> None:
    """Each message that the user takes is followed by a FLOW with one permit."""
    _returns(patches, lambda _: 1)


@client_variant("core.client.permits-returned")
def gives_permits_back_late(patches: Patches) -> None:
    """FLOW comes again when a single permit is left."""
    _returns(patches, lambda size: size - 1)


@client_variant("core.client.permits-returned")
def gives_first_permits_in_portions(patches: Patches) -> None:
    """The first permits come in several FLOW commands, of which the first one has a single permit."""

    def make(send: Callable[..., None]) -> Callable[..., None]:
        def changed(connection: Connection, message: Any, payload: bytes | None = None) -> None:
            while isinstance(message, CommandFlow) and message.messagePermits > 1:
                send(connection, CommandFlow(consumer_id=message.consumer_id, messagePermits=1))
                message = CommandFlow(consumer_id=message.consumer_id, messagePermits=message.messagePermits - 1)
                if message.messagePermits > 4:
                    break
            send(connection, message, payload)

        return changed

    patches.wrap(Connection, "send", make)


@client_variant("core.ack.response-on-request")
def wants_an_answer_to_each_acknowledgement(patches: Patches) -> None:
    """Each ACK has a request_id."""

    def change(connection: Any, ack: CommandAck) -> None:
        ack.request_id = connection.new_request_id()
        connection._requests.expect(ack)

    outgoing(patches, change, CommandAck)


@client_variant("core.ack.every-id")
def gathers_acknowledgements(patches: Patches) -> None:
    """Acknowledgements of single messages wait 100 ms for others, which share their ACK, or until their consumer is closed."""

    def flush(consumer: Any) -> None:
        gathered, consumer.gathered = getattr(consumer, "gathered", []), []
        if gathered and consumer.connection is not None:
            consumer.connection.send(CommandAck(consumer_id=consumer.number, ack_type=CommandAck.Individual, message_id=gathered))
        elif gathered:
            consumer.gathered = gathered

    def make(acknowledge: Callable[..., None]) -> Callable[..., None]:
        def changed(consumer: Any, kind: int, message_id: MessageId, validation_error: int | None = None) -> None:
            if kind != CommandAck.Individual or validation_error is not None:
                flush(consumer)
                acknowledge(consumer, kind, message_id, validation_error)
                return
            entries = [entry.to_wire(batch_index=False) for entry in message_id.entries]
            consumer.gathered = [*getattr(consumer, "gathered", []), *entries]
            scheduler = consumer._scheduler
            scheduler.call_at(scheduler.now + _GATHERING, lambda: flush(consumer))

        return changed

    def first(method: Callable[..., Any]) -> Callable[..., Any]:
        def changed(consumer: Attached, *args: Any, **options: Any) -> Any:
            flush(consumer)
            return method(consumer, *args, **options)

        return changed

    patches.wrap(Consumer, "_acknowledge", make)
    after(patches, Consumer, "_on_attached", lambda consumer, _: flush(consumer))
    for name in ("redeliver", "_seek", "unsubscribe"):
        patches.wrap(Consumer, name, first)
    patches.wrap(Attached, "close", first)


@client_variant("core.ack.cumulative")
def acknowledges_cumulatively_where_it_can(patches: Patches) -> None:
    """On a subscription in order, the acknowledgement of the oldest open message is cumulative."""

    def make(acknowledge: Callable[..., None]) -> Callable[..., None]:
        def changed(consumer: Any, kind: int, message_id: MessageId, validation_error: int | None = None) -> None:
            entries = consumer.__dict__.setdefault("entries", [])
            if message_id.position in entries:
                is_first = entries[0] == message_id.position
                entries.remove(message_id.position)
                if is_first and consumer.options.ordered and consumer._stored and validation_error is None:
                    kind = CommandAck.Cumulative
            acknowledge(consumer, kind, message_id, validation_error)

        return changed

    def note(unpack: Callable[..., None]) -> Callable[..., None]:
        def changed(consumer: Any, frame: Any) -> None:
            one = frame.command.message.message_id
            entries = consumer.__dict__.setdefault("entries", [])
            if (one.ledgerId, one.entryId) not in entries:
                entries.append((one.ledgerId, one.entryId))
                entries.sort()
            unpack(consumer, frame)

        return changed

    patches.wrap(Consumer, "_acknowledge", make)
    patches.wrap(Consumer, "_unpack", note)
    after(patches, Consumer, "_moved", lambda consumer, _: consumer.__dict__.pop("entries", None))


@client_variant("core.redeliver.named-only")
def asks_for_each_redelivery_alone(patches: Patches) -> None:
    """What was acknowledged negatively is asked for with a command for each message."""

    def make(send: Callable[..., None]) -> Callable[..., None]:
        def changed(connection: Connection, message: Any, payload: bytes | None = None) -> None:
            if isinstance(message, CommandRedeliverUnacknowledgedMessages) and len(message.message_ids) > 1:
                for one in message.message_ids:
                    send(connection, CommandRedeliverUnacknowledgedMessages(consumer_id=message.consumer_id, message_ids=[one]))
            else:
                send(connection, message, payload)

        return changed

    patches.wrap(Connection, "send", make)


@client_variant("core.subscribe.success")
def gives_its_consumers_no_names(patches: Patches) -> None:
    """SUBSCRIBE has no consumer_name, unless the user gives one."""

    def change(_: Connection, subscribe: CommandSubscribe) -> None:
        if len(subscribe.consumer_name) == 5:  # the reference makes these
            subscribe.ClearField("consumer_name")

    outgoing(patches, change, CommandSubscribe)


@client_variant("core.subscribe.success", "core.producer.success")
def tells_more_than_it_has_to(patches: Patches) -> None:
    """PRODUCER and SUBSCRIBE have metadata, and SUBSCRIBE a priority."""

    def change(_: Connection, command: Any) -> None:
        command.metadata.append(KeyValue(key="application", value="x"))
        if isinstance(command, CommandSubscribe):
            command.priority_level = 3

    outgoing(patches, change, CommandProducer, CommandSubscribe)


@client_variant("core.position.last-unknown-consumer")
def asks_what_it_does_not_need(patches: Patches) -> None:
    """A consumer asks for the last message and for its statistics as soon as it is attached."""

    def ask(consumer: Consumer, connection: Any) -> None:
        for request in (CommandGetLastMessageId(consumer_id=consumer.number), CommandConsumerStats(consumer_id=consumer.number)):
            request.request_id = connection.new_request_id()
            connection.send(request)

    after(patches, Consumer, "_on_attached", ask)
    patches.wrap(Connection, "_handle", lambda handle: lambda one, frame: _is_told(frame) or handle(one, frame))


def _is_told(frame: Any) -> bool:
    return bool(frame.command.HasField("consumerStatsResponse"))


@client_variant("core.client.batch-well-formed", "batch-of-one")
def sends_each_message_in_a_batch(patches: Patches) -> None:
    """Without the setting of PIP-191, a message that is sent alone is a batch with one message."""

    def make(encode: Callable[..., Any]) -> Callable[..., Any]:
        def changed(batch: Any, *args: Any) -> Any:
            alone = not batch.is_batch and batch.header is None and batch.items[0].message.deliver_at is None
            encoded = encode(batch, *args)
            return encode(_AsBatch(batch.items, batch.header, batch.reason), *args) if alone and not encoded.further else encoded

        return changed

    patches.wrap(refimpl.client.producer, "encode_entry", make)


class _AsBatch:
    def __init__(self, items: Any, header: Any, reason: Any) -> None:
        self.items, self.header, self.reason, self.is_batch = items, header, reason, True


@client_variant("core.send.checksum-optional", "core.client.checksum-right")
def sends_no_checksums(patches: Patches) -> None:
    """SEND has neither magic number nor checksum."""
    patches.wrap(refimpl.client.entry, "encode_payload", lambda encode: lambda metadata, body: encode(metadata, body, checksum="absent"))


@client_variant("core.client.sequence-grows")
def leaves_gaps_between_sequence_ids(patches: Patches) -> None:
    """Sequence ids begin at 7 and grow by 3."""

    def make(send: Callable[..., Any]) -> Callable[..., Any]:
        def changed(producer: Producer, message: Any) -> Any:
            if message.sequence_id is None:
                producer.last_sequence_id = 6 if producer.last_sequence_id < 6 else producer.last_sequence_id + 2
            return send(producer, message)

        return changed

    patches.wrap(Producer, "send", make)


@client_variant("core.client.highest-sequence-optional")
def always_names_the_highest_sequence_id(patches: Patches) -> None:
    """SEND of a single message has a highest_sequence_id, too: that of the message."""

    def change(_: Connection, send: CommandSend) -> None:
        if not send.HasField("highest_sequence_id"):
            send.highest_sequence_id = send.sequence_id

    outgoing(patches, change, CommandSend)


@client_variant("core.producer.name-kept", "core.client.reattaches-after-close")
def names_its_producers(patches: Patches) -> None:
    """A producer without a name of its user's brings one that the client has made."""

    def make(register: Callable[..., Any]) -> Callable[..., Any]:
        async def changed(producer: Producer, connection: Connection) -> None:
            if producer.options.name is None:
                producer.name = own = producer.name or f"made-{producer._core.random.getrandbits(40):x}"
                await register(producer, connection)
                producer.name = own
            else:
                await register(producer, connection)

        return changed

    patches.wrap(Producer, "_register", make)


@client_variant("core.client.reattaches-after-close")
def starts_epochs_at_ten(patches: Patches) -> None:
    """The epoch of a producer begins at 10."""
    after(patches, Producer, "__init__", lambda producer, *_: setattr(producer, "_epoch", 10))


@client_variant("core.client.permits-returned", "filter-permits")
def has_a_queue_of_its_own_size(patches: Patches) -> None:
    """A queue without a size that the user gave holds 100 messages."""

    def change(consumer: Any, *_: Any) -> None:
        if consumer.options.queue_size == 1000:
            consumer.options = replace(consumer.options, queue_size=100)

    after(patches, Consumer, "__init__", change)
