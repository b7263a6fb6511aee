"""Brokers that filter messages by their payloads wrongly (PR 7629): which filters they take, what matches, and what follows."""

from dataclasses import replace

from conformance.mutants.model import in_place_of, mutant, on_incoming, on_request
from refimpl.broker.consumer import Consumer
from refimpl.broker.filtering import SubscriptionFilters
from refimpl.broker.subscription import Subscription
from refimpl.proposals.extension import EntryVerdict
from refimpl.proposals.message_filter.broker import PayloadJudge, SubscriptionMessageFilter
from refimpl.proposals.message_filter.kinds import (
    REGEX_FILTER,
)
from refimpl.proposals.message_filter.rules import EntryOutcome, FilterCounters, judge
from refimpl.proposals.refused import Refused
from refimpl.wire import WireError, encode_payload, is_batch, parse_payload
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, ConsumerBusy, KeyValue


def with_header(data, change):
    """Return an entry with another header; one whose header can't be read as it is."""
    try:
        payload = parse_payload(data)
    except WireError:
        return data
    change(payload.metadata)
    return encode_payload(payload.metadata, payload.body)


# Flags and requests


@on_incoming(CommandSubscribe, clause="pr7629.compat.number-18")
def takes_field_18_for_a_filter(_, request):
    """A subscription property with the name of a filter is read as the text's FilterMeta."""
    for one in request.subscription_properties:
        if one.key == REGEX_FILTER:
            request.filter_meta.filter_class_name = one.key
            request.filter_meta.filter_properties.append(KeyValue.FromString(one.value.encode()))


@on_request("subscribe", clause="pr7629.subscribe.nothing-created")
def creates_the_topic_before_it_looks_at_the_filter(carry_out, session, request):
    """A SUBSCRIBE whose filter is refused leaves the topic behind that it would have created."""
    session.broker.topic_to_use(session.broker.topic_name(request.topic), create=request.force_topic_creation)
    carry_out()


@on_incoming(CommandSubscribe, clause="pr7629.subscribe.accepted")
def begins_a_filtered_subscription_at_the_first_message(_, request):
    """A new subscription of a consumer with a filter begins at the first message, whatever its initialPosition."""
    if request.HasField("filter_meta"):
        request.initialPosition = CommandSubscribe.Earliest


@on_request("subscribe", clause="pr7629.scope.bad-before-busy")
def blames_another_consumer_for_a_bad_filter(carry_out, session, request):
    """A filter that can't be built gets ConsumerBusy where a consumer is connected."""
    topic = session.broker.loaded(session.broker.topic_name(request.topic).full)
    found = topic.subscriptions.get(request.subscription) if topic is not None else None
    try:
        carry_out()
    except Refused as refused:
        if found is not None and found.consumers:
            raise Refused(ConsumerBusy, refused.message) from None
        raise


# How an entry is judged


@in_place_of(SubscriptionFilters.judge, clause="pr7629.deliver.matching-only")
def rejects_nothing(judged, filters, consumer, index, entry, cursor):
    """Every entry is delivered."""
    return EntryVerdict.ACCEPT


@mutant("pr7629.deliver.late")
def filters_only_what_is_published_from_now_on(patches):
    """What was published before a consumer with a filter came is delivered to it unfiltered."""
    judged, joined = PayloadJudge.judge, PayloadJudge.joined
    before = {}

    def remember(one, consumer, requested):
        before[consumer] = len(consumer.subscription.topic.entries)
        joined(one, consumer, requested)

    def changed(one, consumer, index, entry, cursor, now):
        return EntryVerdict.ACCEPT if index < before[consumer] else judged(one, consumer, index, entry, cursor, now)

    patches.replace(PayloadJudge, "joined", remember)
    patches.replace(PayloadJudge, "judge", changed)


@in_place_of(judge, clause="pr7629.judge.batch-each")
def judges_a_batch_as_one_message(judged, one, data, open_messages=None, **options):
    """A batch is judged by its whole body."""
    return judged(one, with_header(data, lambda header: header.ClearField("num_messages_in_batch")), None, **options)


@in_place_of(judge, clause="pr7629.judge.compressed")
def judges_compressed_bytes(judged, one, data, open_messages=None, **options):
    """A compressed message that is no batch is judged as it is."""

    def change(header):
        if not is_batch(header):
            header.ClearField("compression")

    return judged(one, with_header(data, change), open_messages, **options)


@in_place_of(judge, clause="pr7629.judge.encrypted")
def judges_what_is_encrypted(judged, one, data, open_messages=None, **options):
    """An encrypted entry is judged like any other."""
    return judged(one, with_header(data, lambda header: header.ClearField("encryption_keys")), open_messages, **options)


@in_place_of(judge, clause="pr7629.judge.chunked")
def judges_chunks(judged, one, data, open_messages=None, **options):
    """A chunk is judged as if it were the whole message."""
    return judged(one, with_header(data, lambda header: header.ClearField("num_chunks_from_msg")), open_messages, **options)


@in_place_of(judge, clause="pr7629.judge.marker")
def judges_markers(judged, one, data, open_messages=None, **options):
    """A marker is judged and counted like a message."""
    return judged(one, with_header(data, lambda header: header.ClearField("marker_type")), open_messages, **options)


@in_place_of(judge, clause="pr7629.judge.damaged")
def rejects_what_it_can_not_judge(judged, one, data, open_messages=None, **options):
    """What can't be judged is rejected."""
    found = judged(one, data, open_messages, **options)
    return replace(found, outcome=EntryOutcome.REJECT) if found.undecidable else found


@in_place_of(PayloadJudge.judge, clause="pr7629.judge.none-matches")
def leaves_what_nobody_wants(judged, one, consumer, index, entry, cursor, now):
    """A batch of which no message matches is delivered whole."""
    verdict = judged(one, consumer, index, entry, cursor, now)
    return EntryVerdict.ACCEPT if entry.batch else verdict


@in_place_of(SubscriptionMessageFilter.judge, clause="pr7629.judge.acknowledged-not-judged")
def judges_what_is_acknowledged(judged, one, consumer, data, open_messages=None):
    """All messages of a batch are judged and counted each time, also those that are acknowledged."""
    return judged(one, consumer, data)


@in_place_of(PayloadJudge.judge, clause="pr7629.scope.free-when-empty")
def judges_no_rest_of_a_batch(judged, one, consumer, index, entry, cursor, now):
    """What is left of a batch that a filter has judged goes to the next consumer as it is, whatever filter that one has."""
    known = one.__dict__.setdefault("judged_by_faults", {})
    if index not in known or index not in cursor.open_messages:
        known[index] = judged(one, consumer, index, entry, cursor, now)
    return known[index]


# What follows


@in_place_of(PayloadJudge.joined, clause="pr7629.compat.without-filter")
def filters_for_consumers_that_did_not_ask(joined, one, consumer, requested):
    """A consumer without a filter gets that of another subscription of the topic."""
    for other in consumer.subscription.topic.subscriptions.values():
        theirs = next(judge for judge in other.filters.judges.values() if isinstance(judge, PayloadJudge)).message_filter
        requested = requested or next(iter(theirs._filters.values()), None)
    joined(one, consumer, requested)


@in_place_of(PayloadJudge.judge, clause="pr7629.ack.subscription-only")
def acknowledges_for_all_subscriptions(judged, one, consumer, index, entry, cursor, now):
    """What the filter of one subscription rejects is acknowledged for the others, too."""
    verdict = judged(one, consumer, index, entry, cursor, now)
    for other in consumer.subscription.topic.subscriptions.values() if verdict is EntryVerdict.REJECT else ():
        other.cursor.acknowledge(index)
    return verdict


@in_place_of(SubscriptionFilters.judge, clause="pr7629.ack.not-again")
def leaves_what_it_rejects_to_the_next_consumer(judged, filters, consumer, index, entry, cursor):
    """An entry of which nothing matches is not acknowledged: it comes again when the consumer for which it was judged leaves."""
    copy = type(cursor)(mark_delete=index)
    verdict = judged(filters, consumer, index, entry, copy)
    if verdict is EntryVerdict.REJECT:
        consumer.pending[index] = entry.messages
    elif copy.open_messages:
        cursor.acknowledge_in_part(index, copy.open_messages[index])
    return verdict


@in_place_of(Consumer.send, clause="pr7629.permits.open-messages")
def charges_a_batch_in_part_as_a_whole(send, consumer, index, entry, redeliveries, open_messages):
    """A batch that is delivered in part uses up a permit for each of its messages."""
    send(consumer, index, entry, redeliveries, open_messages)
    consumer.permits -= entry.messages - len(open_messages) if open_messages is not None else 0


@in_place_of(SubscriptionMessageFilter.check_joins, clause="pr7629.scope.one-filter")
def lets_nobody_share_a_filter(check_joins, one, requested):
    """A second consumer of a subscription with a filter is refused, whatever filter it has."""
    if requested is not None and one._filters:
        raise Refused(ConsumerBusy, "A consumer with a message filter is connected")
    check_joins(one, requested)


@in_place_of(SubscriptionMessageFilter.check_joins, clause="pr7629.scope.other-filter")
def lets_consumers_with_any_filter_in(check_joins, one, requested):
    """A consumer with another filter than that in force is let in."""
    if requested is None:
        check_joins(one, requested)


@in_place_of(SubscriptionMessageFilter.check_joins, clause="pr7629.scope.no-filter")
def lets_consumers_without_a_filter_in(check_joins, one, requested):
    """A consumer without a filter is let in beside one that has one."""
    if requested is not None:
        check_joins(one, requested)


@in_place_of(SubscriptionMessageFilter.left, clause="pr7629.scope.free-when-empty")
def keeps_the_filter_of_a_consumer_that_has_left(left, one, consumer):
    """The filter of a consumer stays in force when it leaves."""


@in_place_of(SubscriptionMessageFilter.joined, clause="pr7629.scope.per-consumer")
def gives_every_consumer_the_first_filter(joined, one, consumer, requested):
    """Consumers of a shared subscription have the filter of the one that came first."""
    joined(one, consumer, next(iter(one._filters.values()), requested))


@in_place_of(FilterCounters.stats, clause="pr7629.stats.counters")
def counts_what_it_can_not_judge_apart(stats, counters):
    """Messages that can't be judged are not among those that were processed."""
    return {**stats(counters), "messageFilterProcessedMsgCount": counters.accepted + counters.rejected}


@in_place_of(FilterCounters.add, clause="pr7629.stats.by-messages")
def counts_a_rejected_batch_as_one(add, counters, judgement):
    """A batch of which no message matches counts as one rejected message."""
    add(counters, replace(judgement, rejected=1) if judgement.outcome is EntryOutcome.REJECT else judgement)


@in_place_of(Subscription.backlog, clause="pr7629.stats.backlog")
def counts_whole_batches_in_the_backlog(backlog, subscription):
    """Of a batch that is open in part all messages count in the backlog."""
    return sum(subscription.topic.entries[index].messages for index in subscription.unacknowledged())


@in_place_of(SubscriptionMessageFilter.left, clause="pr7629.scope.one-leaves")
def switches_the_filter_off_when_one_leaves(left, one, consumer):
    """When one of several consumers with a filter leaves, the others have none."""
    left(one, consumer)
    one._filters = dict.fromkeys(one._filters)


@in_place_of(PayloadJudge.judge, clause="pr7629.subscribe.every-type")
def filters_exclusive_subscriptions_only(judged, one, consumer, index, entry, cursor, now):
    """A subscription of another type than Exclusive gets every entry."""
    exclusive = consumer.subscription.type == CommandSubscribe.Exclusive
    return judged(one, consumer, index, entry, cursor, now) if exclusive else EntryVerdict.ACCEPT


@in_place_of(PayloadJudge.judge, clause="pr7629.ack.individual")
def acknowledges_everything_before_what_it_rejects(judged, one, consumer, index, entry, cursor, now):
    """What is rejected is acknowledged with all that comes before it."""
    verdict = judged(one, consumer, index, entry, cursor, now)
    if verdict is EntryVerdict.REJECT:
        cursor.acknowledge_up_to(index)
    return verdict


@in_place_of(PayloadJudge.judge, clause="pr7629.ack.indexes")
def acknowledges_nothing_of_a_batch_in_part(judged, one, consumer, index, entry, cursor, now):
    """The messages of a batch that are rejected are not acknowledged."""
    copy = type(cursor)(mark_delete=cursor.mark_delete)
    return judged(one, consumer, index, entry, copy, now)


@in_place_of(SubscriptionFilters.judge, clause=("pr7629.subscribe.every-type", "pip191.filter.every-type"))
def does_not_filter_delayed_messages(judge, filters, consumer, index, entry, cursor):
    """What was delayed is not judged."""
    return EntryVerdict.ACCEPT if entry.deliver_at else judge(filters, consumer, index, entry, cursor)


@on_request("flow", clause=("pr7629.ack.individual", "pip191.filter.reject-acknowledged"))
def looks_for_the_end_before_it_filters(carry_out, session, request):
    """Whether all of a terminated topic is acknowledged is looked at before the filter rejects what is left."""
    consumer = session.consumers.get(request.consumer_id)
    if consumer is None:
        return
    consumer.subscription.tell_end()
    consumer.subscription.tell_end = lambda: None
    carry_out()
    del consumer.subscription.tell_end


@in_place_of(SubscriptionMessageFilter.left, clause="pr7629.stats.counters")
def counts_anew_when_all_consumers_have_left(left, message_filter, consumer):
    """The counters of a subscription begin at 0 when its last consumer leaves."""
    left(message_filter, consumer)
    if not message_filter._filters:
        message_filter.counters = FilterCounters()
