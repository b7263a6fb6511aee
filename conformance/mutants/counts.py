"""Brokers that miscount: permits, and what the stats of consumers and topics say."""

from conformance.mutants.model import in_place_of, mutant, on_incoming, on_request
from refimpl.broker import Session, stats
from refimpl.broker.consumer import Consumer
from refimpl.broker.non_persistent import NonPersistentSubscription
from refimpl.broker.schemas import Schemas, _key
from refimpl.broker.subscription import Subscription, SubType
from refimpl.store import Cursor
from refimpl.wire.pulsar_api_pb2 import CommandAck, CommandSeek, CommandSubscribe

# Permits


@in_place_of(Consumer.send, clause="core.deliver.permits-again")
def charges_for_a_message_once(send, consumer, index, entry, redeliveries, open_messages):
    """A message that the subscription has delivered before uses no permit."""
    before, sent = consumer.permits, consumer.subscription.__dict__.setdefault("sent_by_faults", set())
    send(consumer, index, entry, redeliveries, open_messages)
    if index in sent and consumer.subscription.topic.name.persistent:
        consumer.permits = before
    sent.add(index)


@in_place_of(Subscription.remove, clause="core.deliver.permits-of-each")
def hands_on_the_permits_of_who_leaves(remove, subscription, consumer):
    """The permits that a consumer leaves go to the next one of the subscription."""
    for other in [one for one in subscription.consumers if one is not consumer][:1]:
        other.permits += max(consumer.permits, 0)
    remove(subscription, consumer)


@mutant("core.deliver.permits-of-each", "core.request.ids-free")
def hands_permits_to_the_next_of_the_id(patches):
    """A consumer begins with the permits that a closed one with its consumer_id has left."""

    def dropping(drop):
        def changed(session, consumer):
            session.__dict__.setdefault("left_by_faults", {})[consumer.consumer_id] = consumer.permits
            drop(session, consumer)

        return changed

    def adding(add):
        def changed(subscription, consumer, *rest):
            consumer.permits += consumer.session.__dict__.get("left_by_faults", {}).pop(consumer.consumer_id, 0)
            add(subscription, consumer, *rest)

        return changed

    patches.wrap(Session, "drop_consumer", dropping)
    patches.wrap(Subscription, "add", adding)


@in_place_of(Consumer.send, clause="core.ack.batch-index-permits")
def charges_one_permit_for_the_rest_of_a_batch(send, consumer, index, entry, redeliveries, open_messages):
    """A batch of which messages are acknowledged uses one permit."""
    before = consumer.permits
    send(consumer, index, entry, redeliveries, open_messages)
    if open_messages is not None:
        consumer.permits = before - 1


# Stats


@in_place_of(Consumer.unacknowledged, clause="core.consumer.stats-counts")
def counts_what_all_consumers_have_not_acknowledged(_, consumer):
    """The unacknowledged messages of a consumer are those of its subscription."""
    return sum(sum(one.pending.values()) for one in consumer.subscription.consumers)


@in_place_of(Consumer.send, clause="core.admin.counters")
def counts_deliveries_by_entry(send, consumer, index, entry, redeliveries, open_messages):
    """A batch that is delivered counts as one message."""
    subscription = consumer.subscription
    before = subscription.messages_out
    send(consumer, index, entry, redeliveries, open_messages)
    subscription.messages_out = before + 1


# Of several, of another type, of another kind


@on_request("ack", clause="core.ack.every-id")
def reads_no_further_than_an_older_ledger(carry_out, session, request):
    """An ACK acknowledges what stands before the first id of an older ledger."""
    asking = session.consumers.get(request.consumer_id)
    for place, named in enumerate(request.message_id):
        if asking is not None and asking.subscription.topic.index_of(named) < 0:
            del request.message_id[place:]
            break
    carry_out()


@on_incoming(CommandAck, clause="core.ack.batch-index")
def reads_one_ack_set_for_all_ids(_, request):
    """The ack_set of the first id of an ACK is taken for all of them."""
    for named in request.message_id[1:]:
        named.ack_set[:] = request.message_id[0].ack_set


@in_place_of(Subscription.redeliver, clause="core.redeliver.in-order")
def begins_again_at_the_first_named_message(redeliver, subscription, consumer, indexes):
    """On an exclusive or failover subscription, REDELIVER with ids leaves out what is before the first of them."""
    if subscription.type == SubType.Shared or not indexes:
        redeliver(subscription, consumer, indexes)
        return
    left_out = {index: count for index, count in consumer.pending.items() if index < min(indexes)}
    for index in left_out:
        del consumer.pending[index]
    redeliver(subscription, consumer, indexes)
    for index, count in left_out.items():
        consumer.pending[index] = count


@in_place_of(Schemas.join, clause="core.schema.of-consumer")
def replaces_the_newest_schema_by_that_of_a_consumer(join, schemas, topic, schema):
    """The newest version of a topic becomes the schema that a consumer brings."""
    join(schemas, topic, schema)
    newest = schemas.newest(topic.name)
    if newest is not None:
        newest.schema_data = schema.schema_data


@in_place_of(NonPersistentSubscription.offer, clause="core.deliver.non-persistent-types")
def gives_each_failover_consumer_a_copy(offer, subscription, entry):
    """On a non-persistent topic each consumer of a failover subscription gets every message."""
    everyone = subscription.consumers
    for one in everyone if subscription.type == SubType.Failover else []:
        subscription.consumers = [one]
        offer(subscription, entry)
    subscription.consumers = everyone
    if subscription.type != SubType.Failover:
        offer(subscription, entry)


@in_place_of(_key, clause="core.schema.of-domain")
def keeps_schemas_for_each_domain(key, name):
    """A persistent and a non-persistent topic of one name have schemas of their own."""
    return f"{name.domain}/{key(name)}"


@in_place_of(Subscription.skip, clause="core.admin.skip-held")
def leaves_skipped_messages_with_their_consumers(_, subscription, count):
    """A message that is skipped while a consumer has it stays unacknowledged there."""
    for index in list(subscription.unacknowledged())[:count]:
        subscription.cursor.acknowledge(index)
    subscription.topic.free()


@in_place_of(stats._subscription, clause="core.admin.counters")
def counts_for_consumers_that_are_there(describe, subscription):
    """The stats of a subscription are the sum of those of its consumers."""
    return {**describe(subscription), "msgOutCounter": sum(one.messages_out for one in subscription.consumers)}


@in_place_of(Subscription.tell_active, clause="core.ack.batch-index")
def reads_batches_anew_for_the_next_active(tell_active, subscription, joined=None):
    """What was acknowledged of a batch by itself is forgotten when another consumer becomes active."""
    last = subscription._last_active
    if last is not None and subscription.active not in (None, last):
        for index in last.pending:
            subscription.cursor.open_messages.pop(index, None)
    tell_active(subscription, joined)


# Of many


@on_request("getLastMessageId", clause="core.position.last-message")
def looks_for_the_last_message_in_the_newest_ledger(carry_out, session, request):
    """When a ledger of 50 entries is full, the last message is looked for in the one that follows, which is empty."""
    consumer = session.consumers.get(request.consumer_id)
    entries = consumer.subscription.topic.entries if consumer is not None else ()
    if len(entries) and len(entries) % 50 == 0:
        entries.first, kept = entries.end, entries.first
        carry_out()
        entries.first = kept
    else:
        carry_out()


@on_incoming(CommandSeek, clause="core.seek.position")
def seeks_whole_ledgers(_, request):
    """SEEK leads to the first message of the ledger of 50 entries that has the named one."""
    if request.HasField("message_id") and request.message_id.entryId < 1 << 62:
        request.message_id.entryId -= request.message_id.entryId % 50 if request.message_id.entryId >= 50 else 0


@on_incoming(CommandSubscribe, clause="core.subscribe.reader-start")
def starts_readers_with_whole_ledgers(_, request):
    """A reader begins with the first message of the ledger of 50 entries that has the named one."""
    if request.HasField("start_message_id") and 50 <= request.start_message_id.entryId < 1 << 62:
        request.start_message_id.entryId -= request.start_message_id.entryId % 50


@in_place_of(Cursor.acknowledge_up_to, clause="core.ack.cumulative")
def acknowledges_cumulatively_in_one_ledger(acknowledge_up_to, cursor, index):
    """A cumulative acknowledgement ends at the beginning of its ledger of 50 entries."""
    begin = index - index % 50
    if begin <= cursor.mark_delete:
        acknowledge_up_to(cursor, index)
    else:
        cursor.acknowledged.update(range(begin, index + 1))


@in_place_of(Subscription.unacknowledged, clause="core.admin.backlog")
def finds_the_backlog_in_the_newest_ledger(unacknowledged, subscription):
    """The backlog has the messages of the newest ledger of 50 entries only."""
    newest = (len(subscription.topic.entries) - 1) // 50 * 50
    return (index for index in unacknowledged(subscription) if index >= newest)
