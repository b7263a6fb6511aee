"""Brokers that go wrong about the consequences of a message filter: flag, acknowledgements, permits, other consumers, counters."""

import itertools
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import message_filter_of, message_filters
from refimpl.broker import Broker, Session, consuming
from refimpl.broker.broker import PROPOSALS
from refimpl.broker.filtering import SubscriptionFilters
from refimpl.broker.subscription import Consumer, Subscription
from refimpl.proposals import message_filter
from refimpl.proposals.message_filter import (
    REGEX_FILTER,
    EntryJudgement,
    EntryOutcome,
    FilterCounters,
    RequestedFilter,
    SubscriptionMessageFilter,
)
from refimpl.proposals.message_filter.broker import PayloadJudge
from refimpl.proposals.refused import Refused
from refimpl.proposals.uniform_batches import EntryVerdict
from refimpl.store import Cursor, Entry
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandCloseConsumer,
    CommandConnected,
    CommandSubscribe,
    ConsumerBusy,
    KeyValue,
)


def _filters_messages(filters: SubscriptionFilters) -> bool:
    """Tell whether a consumer that is connected has asked for a message filter."""
    return any(message_filter_of(filters)._filters.values())


@mutant("pr7629.flag.set")
def hides_filters_from_older_clients(patches: Patches) -> None:
    """CONNECTED carries supports_message_filter only for a client of protocol version 20 or later."""

    def change(_: Session, answer: CommandConnected) -> None:
        answer.feature_flags.supports_message_filter &= answer.protocol_version >= 20

    patches.outgoing(CommandConnected, change)


@mutant("pr7629.flag.absent-before")
def claims_filters_that_it_does_not_know(patches: Patches) -> None:
    """A broker without message filters sets supports_message_filter, except on its first connections."""
    make_broker = Broker.__init__
    numbers: dict[Broker, Callable[[], int]] = {}

    def changed(broker: Broker, *args: Any, **settings: Any) -> None:
        make_broker(broker, *args, **(settings | {"proposals": PROPOSALS - {"pr7629"}}))

    def change(session: Session, answer: CommandConnected) -> None:
        number = numbers.setdefault(session.broker, itertools.count().__next__)()
        if number > 1:
            answer.feature_flags.supports_message_filter = True

    patches.replace(Broker, "__init__", changed)
    patches.outgoing(CommandConnected, change)


@mutant("pr7629.compat.number-18")
def takes_field_18_for_a_filter(patches: Patches) -> None:
    """A subscription property with the name of a filter is read as the text's FilterMeta."""

    def change(_: Session, request: CommandSubscribe) -> None:
        for one in request.subscription_properties:
            if one.key == REGEX_FILTER:
                request.filter_meta.filter_class_name = one.key
                request.filter_meta.filter_properties.append(KeyValue.FromString(one.value.encode()))

    patches.incoming(CommandSubscribe, change)


@mutant("pr7629.compat.without-filter")
def filters_for_consumers_that_did_not_ask(patches: Patches) -> None:
    """A consumer without a filter gets that of another subscription of the topic."""
    joined = PayloadJudge.joined

    def changed(filters: PayloadJudge, consumer: Consumer, requested: RequestedFilter | None) -> None:
        for other in consumer.subscription.topic.subscriptions.values():
            of_other = message_filter_of(other.filters)
            requested = requested or next(iter(of_other._filters.values()), None)
        joined(filters, consumer, requested)

    patches.replace(PayloadJudge, "joined", changed)


@mutant("pr7629.subscribe.accepted")
def begins_a_filtered_subscription_at_the_first_message(patches: Patches) -> None:
    """A new subscription of a consumer with a filter begins at the first message, whatever its initialPosition."""

    def change(_: Session, request: CommandSubscribe) -> None:
        if request.HasField("filter_meta"):
            request.initialPosition = CommandSubscribe.Earliest

    patches.incoming(CommandSubscribe, change)


@mutant("pr7629.subscribe.without-filter")
def counts_where_nothing_is_filtered(patches: Patches) -> None:
    """Messages for a consumer without a filter are counted as processed and accepted."""
    judge = SubscriptionMessageFilter.judge

    def changed(
        filters: SubscriptionMessageFilter, consumer: Hashable, octets: bytes, left: frozenset[int] | None = None
    ) -> EntryJudgement:
        if filters._filters.get(consumer) is None:
            filters.counters.add(EntryJudgement(EntryOutcome.ACCEPT, accepted=1))
        return judge(filters, consumer, octets, left)

    patches.replace(SubscriptionMessageFilter, "judge", changed)


@mutant("pr7629.subscribe.every-type")
def filters_nothing_for_readers(patches: Patches) -> None:
    """The filter of a consumer whose subscription is not durable is taken and has no effect."""
    joined = PayloadJudge.joined

    def changed(filters: PayloadJudge, consumer: Consumer, requested: RequestedFilter | None) -> None:
        joined(filters, consumer, requested if consumer.subscription.durable else None)

    patches.replace(PayloadJudge, "joined", changed)


@mutant("pr7629.subscribe.repeated")
def changes_the_filter_of_an_open_consumer(patches: Patches) -> None:
    """SUBSCRIBE for a consumer_id that is open puts its filter in the place of the consumer's."""

    def changed(session: Session, request: CommandSubscribe, frame: Frame) -> None:
        consumer = session.consumers.get(request.consumer_id)
        consuming.subscribe(session, request, frame)
        if consumer is not None:
            message_filter_of(consumer.subscription.filters).joined(consumer, message_filters(session.broker).requested(request))

    patches.request("subscribe", lambda _: changed)
    patches.replace(SubscriptionMessageFilter, "joined", lambda one, consumer, requested: one._filters.update({consumer: requested}))


@mutant("pr7629.ack.individual")
def acknowledges_all_before_what_it_rejects(patches: Patches) -> None:
    """With an entry that is rejected all entries before it are acknowledged, too."""
    judge = SubscriptionFilters.judge

    def changed(filters: SubscriptionFilters, consumer: Consumer, index: int, entry: Entry, cursor: Cursor) -> EntryVerdict:
        verdict = judge(filters, consumer, index, entry, cursor)
        if verdict is EntryVerdict.REJECT and _filters_messages(filters):
            cursor.acknowledge_up_to(index)
        return verdict

    patches.replace(SubscriptionFilters, "judge", changed)


@mutant("pr7629.ack.indexes")
def waits_for_messages_that_it_rejected_itself(patches: Patches) -> None:
    """An acknowledgement of a batch that was delivered in part has no effect unless it names the messages."""
    acknowledge = Subscription.acknowledge

    def changed(subscription: Subscription, consumer: Consumer, indexes: Iterable[int]) -> None:
        acknowledge(subscription, consumer, [index for index in indexes if index not in subscription.cursor.open_messages])

    patches.replace(Subscription, "acknowledge", changed)


@mutant("pr7629.ack.merged")
def lets_the_last_acknowledgement_of_a_batch_win(patches: Patches) -> None:
    """What an acknowledgement leaves open of a batch is open, also if it was acknowledged or rejected before."""

    def changed(cursor: Cursor, index: int, open_messages: Iterable[int]) -> None:
        cursor.open_messages[index] = frozenset(open_messages)
        if not cursor.open_messages[index]:
            cursor.acknowledge(index)

    patches.replace(Cursor, "acknowledge_in_part", changed)


@mutant("pr7629.ack.not-again")
def offers_what_was_rejected_to_consumers_without_a_filter(patches: Patches) -> None:
    """What was rejected comes to the next consumer that has no filter."""
    judge, joined = SubscriptionFilters.judge, PayloadJudge.joined
    rejected: dict[SubscriptionFilters, set[int]] = {}

    def remember(filters: SubscriptionFilters, consumer: Consumer, index: int, entry: Entry, cursor: Cursor) -> EntryVerdict:
        verdict = judge(filters, consumer, index, entry, cursor)
        if verdict is EntryVerdict.REJECT:
            rejected.setdefault(filters, set()).add(index)
        return verdict

    def changed(filters: PayloadJudge, consumer: Consumer, requested: RequestedFilter | None) -> None:
        joined(filters, consumer, requested)
        again = rejected.pop(consumer.subscription.filters, set()) if requested is None else set()
        if again:
            cursor = consumer.subscription.cursor
            cursor.acknowledged = ({*range(cursor.mark_delete)} | cursor.acknowledged) - again
            cursor.mark_delete = 0
            consumer.subscription._replay_all(again)

    patches.replace(SubscriptionFilters, "judge", remember)
    patches.replace(PayloadJudge, "joined", changed)


@mutant("pr7629.ack.subscription-only")
def rejects_for_subscriptions_without_a_filter_too(patches: Patches) -> None:
    """What the filter of one subscription rejects is acknowledged for those, too, that have none."""
    judge = SubscriptionFilters.judge

    def changed(filters: SubscriptionFilters, consumer: Consumer, index: int, entry: Entry, cursor: Cursor) -> EntryVerdict:
        verdict = judge(filters, consumer, index, entry, cursor)
        if verdict is EntryVerdict.REJECT and _filters_messages(filters):
            for other in consumer.subscription.topic.subscriptions.values():
                if not _filters_messages(other.filters):
                    other.cursor.acknowledge(index)
        return verdict

    patches.replace(SubscriptionFilters, "judge", changed)


@mutant("pr7629.permits.free")
def charges_what_it_rejects(patches: Patches) -> None:
    """An entry that is rejected uses up a permit."""
    judge = SubscriptionFilters.judge

    def changed(filters: SubscriptionFilters, consumer: Consumer, index: int, entry: Entry, cursor: Cursor) -> EntryVerdict:
        verdict = judge(filters, consumer, index, entry, cursor)
        consumer.permits -= verdict is EntryVerdict.REJECT and _filters_messages(filters)
        return verdict

    patches.replace(SubscriptionFilters, "judge", changed)


@mutant("pr7629.permits.open-messages")
def charges_a_batch_in_part_as_a_whole(patches: Patches) -> None:
    """A batch that is delivered in part uses up a permit for each of its messages."""
    send = Consumer.send

    def changed(consumer: Consumer, index: int, entry: Entry, redeliveries: int, open_messages: frozenset[int] | None) -> None:
        send(consumer, index, entry, redeliveries, open_messages)
        if open_messages is not None:
            consumer.permits -= entry.messages - len(open_messages)

    patches.replace(Consumer, "send", changed)


@mutant("pr7629.permits.judged-with-permits")
def judges_for_a_consumer_without_permits(patches: Patches) -> None:
    """What does not match is rejected also while the consumer has no permits."""
    dispatch = Subscription.dispatch

    def changed(subscription: Subscription) -> None:
        dispatch(subscription)
        filters = message_filter_of(subscription.filters)
        requested = next(iter(filters._filters.values()), None)
        if requested is None:
            return
        for index in range(subscription._read, len(subscription.topic.entries)):
            judgement = message_filter.judge(requested.filter, subscription.topic.entries[index].data)
            if judgement.outcome is EntryOutcome.REJECT and not subscription.cursor.is_acknowledged(index):
                filters.counters.add(judgement)
                subscription.cursor.acknowledge(index)

    patches.replace(Subscription, "dispatch", changed)


@mutant("pr7629.scope.one-filter")
def compares_properties_in_their_order(patches: Patches) -> None:
    """A filter whose properties are given in another order counts as another one."""
    check_joins = SubscriptionMessageFilter.check_joins

    def changed(filters: SubscriptionMessageFilter, requested: RequestedFilter | None) -> None:
        check_joins(filters, requested)
        for one in filters._filters.values():
            if one is not None and requested is not None and [*one.properties] != [*requested.properties]:
                raise Refused(ConsumerBusy, "A consumer with another message filter is connected")

    patches.replace(SubscriptionMessageFilter, "check_joins", changed)


@mutant("pr7629.scope.other-filter")
def compares_the_names_of_filters_alone(patches: Patches) -> None:
    """A consumer with a filter of the same name and other properties is let in."""
    check_joins = SubscriptionMessageFilter.check_joins

    def changed(filters: SubscriptionMessageFilter, requested: RequestedFilter | None) -> None:
        names = {one.class_name for one in filters._filters.values() if one is not None}
        if requested is None or requested.class_name not in names:
            check_joins(filters, requested)

    patches.replace(SubscriptionMessageFilter, "check_joins", changed)


@mutant("pr7629.scope.no-filter")
def lets_consumers_without_a_filter_in(patches: Patches) -> None:
    """A consumer without a filter is let in beside one that has one."""
    check_joins = SubscriptionMessageFilter.check_joins

    def changed(filters: SubscriptionMessageFilter, requested: RequestedFilter | None) -> None:
        if requested is not None:
            check_joins(filters, requested)

    patches.replace(SubscriptionMessageFilter, "check_joins", changed)


@mutant("pr7629.scope.free-when-empty")
def keeps_the_filter_of_a_consumer_that_was_lost(patches: Patches) -> None:
    """A filter goes with CLOSE_CONSUMER only; that of a consumer whose connection was lost stays in force."""
    left = SubscriptionFilters.left
    closing: set[Consumer] = set()

    def close(session: Session, request: CommandCloseConsumer, frame: Frame) -> None:
        if request.consumer_id in session.consumers:
            closing.add(session.consumers[request.consumer_id])
        consuming.close_consumer(session, request, frame)

    patches.request("close_consumer", lambda _: close)
    patches.replace(SubscriptionFilters, "left", lambda one, consumer: left(one, consumer) if consumer in closing else None)


@mutant("pr7629.scope.per-consumer")
def gives_every_consumer_the_first_filter(patches: Patches) -> None:
    """Consumers of a shared subscription have the filter of the one that came first."""

    def changed(filters: SubscriptionMessageFilter, consumer: Hashable, requested: RequestedFilter | None) -> None:
        filters._filters[consumer] = next(iter(filters._filters.values()), requested)

    patches.replace(SubscriptionMessageFilter, "joined", changed)


@mutant("pr7629.stats.counters")
def counts_what_it_can_not_judge_apart(patches: Patches) -> None:
    """Messages that can't be judged are not among those that were processed."""
    add = FilterCounters.add

    def changed(counters: FilterCounters, judgement: EntryJudgement) -> None:
        add(counters, judgement)
        counters.processed -= judgement.undecidable

    patches.replace(FilterCounters, "add", changed)


@mutant("pr7629.stats.by-messages")
def counts_a_rejected_batch_as_one(patches: Patches) -> None:
    """A batch of which no message matches counts as one rejected message."""
    add = FilterCounters.add

    def changed(counters: FilterCounters, judgement: EntryJudgement) -> None:
        add(counters, EntryJudgement(EntryOutcome.REJECT, rejected=1) if judgement.outcome is EntryOutcome.REJECT else judgement)

    patches.replace(FilterCounters, "add", changed)


@mutant("pr7629.stats.backlog")
def counts_whole_batches_in_the_backlog(patches: Patches) -> None:
    """Of a batch that is open in part all messages count in the backlog."""

    def changed(subscription: Subscription) -> int:
        return sum(subscription.topic.entries[index].messages for index in subscription.unacknowledged())

    patches.replace(Subscription, "backlog", property(changed))
