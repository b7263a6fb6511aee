"""Clients with a fault that shows where two things meet: a refusal, a time-out or an open batch, and then a loss or another message."""

from conformance.clients.faults.model import fault, in_place_of, stays_away
from refimpl.client.consumer import Consumer
from refimpl.client.entry import Entry
from refimpl.client.errors import ClientError
from refimpl.client.messages import MessageId
from refimpl.client.producer import Producer
from refimpl.client.scheduler import Pending
from refimpl.proposals.uniform_batches.client import UniformBatcher

# Receipts, sizes and batches


@in_place_of(Producer._confirmed, clause="core.client.receipt-confirms")
def takes_a_late_receipt_for_the_next_one(confirmed, producer, receipt):
    """The receipt of a message that has timed out confirms the oldest one that still waits."""
    oldest = next(iter(producer._unconfirmed), None)
    if oldest is not None and receipt.sequence_id < oldest:
        receipt.sequence_id = oldest
    confirmed(producer, receipt)


@in_place_of(Producer._transmit, clause="core.client.chunks-receipts")
def counts_receipts_from_before(transmit, producer, entry):
    """Receipts of chunks from before a reconnect count for the chunks that are sent again."""
    stored = list(entry.stored)
    transmit(producer, entry)
    entry.stored.extend(stored)


@in_place_of(Entry.confirm, clause="core.client.chunks-receipts")
def takes_one_chunk_for_all(confirm, entry, message_id):
    """The receipt of its first chunk confirms a message."""
    entry.stored.extend([message_id] * len(entry.further))
    return confirm(entry, message_id)


@in_place_of(Producer._on_attached, clause="core.client.size-limit")
def sends_again_what_is_too_large(on_attached, producer, connection):
    """What has no receipt is sent again, also on a connection that does not take so much."""
    limit, connection.max_message_size = connection.max_message_size, 1 << 30
    on_attached(producer, connection)
    connection.max_message_size = producer._max_message_size = limit
    producer._batcher.max_bytes = min(producer.options.batch_bytes, limit)


@fault("core.client.batch-delay", "pip191.trigger.delay")
def keeps_the_timer_of_the_batch_before(patches):
    """A batch that is begun while the timer of another one runs gets none of its own."""

    def put_all(producer, batches):
        for batch in batches:
            producer._put(batch)
        deadline = producer._batcher.next_deadline()
        if deadline is not None and producer._batch_timer is None:
            producer._batch_timer = producer._scheduler.call_at(deadline, producer._delay_is_over)

    def delay_is_over(producer):
        producer._batch_timer = None
        for batch in producer._batcher.tick(producer._scheduler.now):
            producer._put(batch)

    patches.replace(Producer, "_put_all", put_all)
    patches.replace(Producer, "_delay_is_over", delay_is_over)


@in_place_of(UniformBatcher.add, clause="pip191.header.extracted-set")
def keeps_the_set_of_the_batch_before(add, batcher, item, *args, **options):
    """After a message that is sent alone, the next batch has the set of the one that was open before it."""
    before = batcher._extracted if batcher._items else None
    sent = add(batcher, item, *args, **options)
    if options["has_delivery_time"] or options["is_chunked"]:
        batcher.set_before = before
    elif len(batcher._items) == 1 and (kept := batcher.__dict__.pop("set_before", None)) is not None:
        batcher._extracted = kept
    return sent


# Refusals


@in_place_of(Consumer._seek, clause="core.client.reattaches-after-close")
async def goes_on_seeking(seek, consumer, request, position):
    """A consumer whose seek was refused waits for its end when the broker closes it later."""
    try:
        await seek(consumer, request, position)
    except ClientError:
        consumer._seeking = Pending(consumer._scheduler)
        raise


@fault("core.client.reattaches-after-loss")
def takes_itself_for_unsubscribed(patches):
    """A consumer whose UNSUBSCRIBE was refused does not attach again when its connection ends."""

    def unsubscribing(original):
        async def unsubscribe(consumer):
            consumer.is_unsubscribed = True
            await original(consumer)

        return unsubscribe

    patches.wrap(Consumer, "unsubscribe", unsubscribing)
    stays_away(patches, "is_unsubscribed")


@fault("core.client.acks-kept")
def loses_acknowledgements_with_a_refusal(patches):
    """Acknowledgements without a connection are lost if the next SUBSCRIBE is refused, and what comes again is left out as acknowledged."""

    def registering(original):
        async def register(consumer, connection):
            waiting, consumer._unsent_acks = consumer._unsent_acks, []
            await original(consumer, connection)
            consumer._unsent_acks = waiting + consumer._unsent_acks

        return register

    def acknowledging(original):
        def acknowledge(consumer, kind, message_id, *args):
            consumer.__dict__.setdefault("acknowledged", set()).add(message_id.position)
            original(consumer, kind, message_id, *args)

        return acknowledge

    def unpacking(original):
        def unpack(consumer, frame):
            came = MessageId.from_wire(frame.command.message.message_id, consumer._partition)
            if came.position in consumer.__dict__.get("acknowledged", ()):
                consumer._return(1)
            else:
                original(consumer, frame)

        return unpack

    patches.wrap(Consumer, "_register", registering)
    patches.wrap(Consumer, "_acknowledge", acknowledging)
    patches.wrap(Consumer, "_unpack", unpacking)


# Messages that wait for their schema


@in_place_of(Consumer._on_attached, clause="pr7629.client.own-order")
def keeps_what_has_waited_on_another_connection(on_attached, consumer, connection):
    """Messages that wait for a schema when the connection ends stay in front of all that comes on the next one."""
    held = list(consumer._held)
    on_attached(consumer, connection)
    consumer._held.extend(held)


@fault("core.client.older-epoch")
def looks_at_the_epoch_before_the_schema(patches):
    """Whether a message is older than a request for redelivery is looked at when it comes, not when its schema is there."""

    def holding(original):
        def hold(consumer, frame):
            consumer.__dict__.setdefault("came_in_time", []).append(None if consumer._stale(frame) else frame)
            original(consumer, frame)

        return hold

    def judging(original):
        def stale(consumer, frame):
            return not any(one is frame for one in consumer.__dict__.get("came_in_time", ())) and original(consumer, frame)

        return stale

    patches.wrap(Consumer, "_hold", holding)
    patches.wrap(Consumer, "_stale", judging)


@in_place_of(Consumer._judge_held, clause="pr7629.client.own-retries")
async def subscribes_again_beside_its_consumer(judge_held, consumer, connection):
    """After a refused GET_SCHEMA a consumer subscribes again without closing what the broker has."""

    async def sends_nothing(_):
        pass

    consumer._send_close_request = sends_nothing
    await judge_held(consumer, connection)
    del consumer._send_close_request


@in_place_of(Consumer._judge_held, clause="pr7629.client.own-retries")
async def waits_for_a_refused_schema(judge_held, consumer, connection):
    """After a refused GET_SCHEMA the message, and all behind it, wait for ever."""
    version = consumer._filtering.missing(consumer._held[0])
    try:
        await consumer._filtering.learn(connection, version)
    except ClientError:
        return
    await judge_held(consumer, connection)
