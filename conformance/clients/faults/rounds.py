"""Clients with a fault that shows in a second round: after a second reconnect, on what was found later, when a thing comes again."""

from crc32c import crc32c

from conformance.clients.faults.model import fault, in_place_of, on_incoming
from refimpl.client.batch_acks import BatchAcks
from refimpl.client.consumer import Consumer
from refimpl.client.multi_topics_consumer import MultiTopicsConsumer
from refimpl.client.pattern_consumer import PatternConsumer
from refimpl.client.producer import Producer
from refimpl.proposals.partition_watch import client as partition_watch
from refimpl.proposals.partition_watch.client import PartitionWatch
from refimpl.proposals.scalable_topics.client import ScalableTopicsWatch
from refimpl.proposals.uniform_batches.client import UniformBatcher
from refimpl.wire.pulsar_api_pb2 import (
    CommandAck,
    CommandCloseProducer,
    CommandSubscribe,
    CommandWatchPartitionUpdateSuccess,
    CommandWatchScalableTopics,
)

# Batches and what is acknowledged of them


@on_incoming(CommandCloseProducer, clause="core.client.batch-open-kept")
def stops_its_delay_when_the_broker_closes(connection, close):
    """When the broker closes a producer, the delay of its open batch ends, and nothing sends the batch."""
    producer = connection._peers["producer_id", close.producer_id]
    if producer._batch_timer is not None:
        producer._batch_timer.cancel()
    return True


@in_place_of(UniformBatcher.add, clause="core.client.order-kept")
def sends_large_messages_first(add, batcher, item, properties, size, now, **options):
    """A message that has no place beside others is sent before the open batch."""
    if size > 0.9 * batcher.max_bytes:
        options["has_delivery_time"] = True
        return add(batcher, item, properties, size, now, **options)[::-1]
    return add(batcher, item, properties, size, now, **options)


@in_place_of(BatchAcks.individual, clause="core.client.acks-in-batch")
def forgets_a_batch_that_it_gives_back(individual, acks, message_id):
    """Once a message of a batch is given back, an acknowledgement of another one counts for the whole batch."""
    return message_id.position not in acks._open or individual(acks, message_id)


@in_place_of(Consumer.acknowledge, clause="core.client.negative-all")
def gives_no_batch_back_of_which_something_is_acknowledged(acknowledge, consumer, message_id):
    """An acknowledgement of one message of a batch ends the wait for another one that was given back."""
    consumer._refused.pop(message_id.position, None)
    acknowledge(consumer, message_id)


@in_place_of(Consumer._acknowledge, clause="core.client.acks-kept")
def keeps_acknowledgements_as_single_ones(acknowledge, consumer, kind, message_id, validation_error=None):
    """A cumulative acknowledgement that waits for a connection is sent as that of one message."""
    acknowledge(consumer, CommandAck.Individual if consumer.connection is None else kind, message_id, validation_error)


@in_place_of(Consumer._acknowledge, clause="core.client.cumulative-before")
def knows_nothing_before_entry_zero(acknowledge, consumer, kind, message_id, validation_error=None):
    """A cumulative acknowledgement in the first entry of a ledger is sent only when all of the entry is acknowledged."""
    if message_id.entry_id >= 0:
        acknowledge(consumer, kind, message_id, validation_error)


@in_place_of(Consumer.redeliver, clause="core.client.negative-named")
def gives_all_back_where_keys_are_in_order(redeliver, consumer, positions=None):
    """A consumer of a Key_Shared subscription asks for all its messages, as one that has the subscription for itself."""
    redeliver(consumer, None if consumer.options.type == CommandSubscribe.Key_Shared else positions)


# A second connection, and a third one


@in_place_of(Producer._confirmed, clause="core.client.receipt-confirms")
def confirms_the_oldest_after_a_reconnect(confirmed, producer, receipt):
    """After a reconnect each receipt confirms the oldest message without one."""
    if producer._epoch > 1 and producer._unconfirmed:
        receipt.sequence_id = min(producer._unconfirmed)
    confirmed(producer, receipt)


@in_place_of(Producer._register, clause="core.client.topic-epoch")
async def says_its_topic_epoch_once(register, producer, connection):
    """Only the first return of a producer has its topic_epoch."""
    if producer._epoch > 1:
        producer._topic_epoch = None
    await register(producer, connection)


@in_place_of(MultiTopicsConsumer.close, clause="core.client.closed-stays")
def leaves_lost_partitions_to_themselves(close, consumer):
    """Of several partitions those without a connection are not closed."""
    if len(consumer.members) > 1:
        consumer.members = {topic: one for topic, one in consumer.members.items() if one.connection is not None}
    return close(consumer)


@in_place_of(PartitionWatch.called, clause="pip247.client.success-failed")
def takes_a_later_success_for_applied(called, watch, success, now):
    """Once a success was applied, one on which the listener fails is not asked for again."""
    is_success = watch._running[0].source is CommandWatchPartitionUpdateSuccess
    called(watch, success or (is_success and watch.__dict__.get("was_applied", False)), now)
    watch.__dict__["was_applied"] = watch.__dict__.get("was_applied", False) or success


@in_place_of(Consumer._still_open, clause="pr7629.client.own-whole")
def filters_what_comes_for_the_first_time(still_open, consumer, frame, messages, judgement=None):
    """Of a batch that is delivered again the user gets all, also what its filter rejects."""
    if frame.command.message.redelivery_count:
        consumer._acks.clear()
        judgement = None
    return still_open(consumer, frame, messages, judgement)


@fault("pr25648.client.hash-on-reconnect")
def hashes_its_topics_as_they_came(patches):
    """The hash has what a diff added behind the others."""

    def applying(original):
        def apply(watch, diff):
            before = watch.__dict__.get("came") or sorted(watch.topics)
            original(watch, diff)
            watch.came = [*(one for one in before if one in watch.topics), *(one for one in diff.added if one not in before)]

        return apply

    def asking(original):
        def messages(watch, *arguments):
            for message in original(watch, *arguments):
                if isinstance(message, CommandWatchScalableTopics) and watch.__dict__.get("came"):
                    message.current_hash = crc32c(",".join(watch.came).encode()).to_bytes(4, "little").hex()
                yield message

        return messages

    patches.wrap(ScalableTopicsWatch, "_apply", applying)
    patches.wrap(ScalableTopicsWatch, "_messages", asking)


# Partitions and topics that were found later


@in_place_of(Producer._register, clause="core.client.numbers-from")
async def numbers_the_first_partition_only(register, producer, connection):
    """Only the first partition takes up the last_sequence_id that the broker tells."""
    first = not producer._was_attached
    await register(producer, connection)
    if first and producer._partition > 0:
        producer.last_sequence_id = -1


def _only_first(original):
    """Let a method see the topics only that the consumer had when it was made."""

    async def changed(consumer, *arguments):
        everything = consumer.members
        consumer.members = {topic: one for topic, one in everything.items() if topic in consumer.__dict__.get("had_first", everything)}
        try:
            await original(consumer, *arguments)
        finally:
            if consumer.error is None:
                consumer.members = everything

    return changed


@fault("core.client.parts-alike")
def forgets_later_partitions_on_the_way(patches):
    """A seek or an unsubscription reaches only the partitions that the consumer had when it was made."""

    def following(original):
        def follow(consumer, topic, count):
            consumer.had_first = set(consumer.members)
            original(consumer, topic, count)

        return follow

    patches.wrap(MultiTopicsConsumer, "follow", following)
    for name in ("seek", "unsubscribe"):
        patches.wrap(MultiTopicsConsumer, name, _only_first)


@fault("core.client.parts-alike")
def forgets_later_topics_on_the_way(patches):
    """A pattern consumer that unsubscribes does so only on the topics that it had when it was made."""

    def opening(original):
        async def opened(consumer):
            await original(consumer)
            consumer.had_first = set(consumer.members)

        return opened

    patches.wrap(PatternConsumer, "open", opening)
    patches.wrap(MultiTopicsConsumer, "unsubscribe", _only_first)


@fault("pip247.client.attaches-once")
def counts_down_and_attaches_again(patches):
    """A smaller count is stored, so that with the old one the partitions between are new."""

    def growing(original):
        async def grow(consumer, topics):
            known = consumer.__dict__.get("known", len(consumer.members))
            consumer.known = len(topics)
            for topic in topics[known:]:
                consumer.members.pop(topic, None)
            await original(consumer, topics)

        return grow

    patches.wrap(partition_watch, "count_in_force", lambda _: lambda known, told: told)
    patches.wrap(MultiTopicsConsumer, "grow", growing)
