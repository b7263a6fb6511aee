"""Brokers that lie about batches with the same property values: how they compare, and what becomes of what they reject."""

from collections.abc import Callable

from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import entry_filters
from refimpl.broker import Broker
from refimpl.broker.filtering import SubscriptionFilters
from refimpl.broker.subscription import Consumer, NonPersistentSubscription
from refimpl.proposals.extension import EntryVerdict
from refimpl.proposals.uniform_batches.broker import FilterCounts, PropertyEntryFilter, SubscriptionEntryFilters
from refimpl.store import Cursor, Entry
from refimpl.wire.pulsar_api_pb2 import KeyValue, MessageMetadata

Judge = Callable[[PropertyEntryFilter, MessageMetadata], EntryVerdict]


def change_judge(patches: Patches, changed: Callable[[Judge, PropertyEntryFilter, MessageMetadata], EntryVerdict]) -> None:
    """Replace how the property entry filter judges: `changed` gets what it was, the filter and the header."""
    judge = PropertyEntryFilter.judge
    patches.replace(PropertyEntryFilter, "judge", lambda one, metadata: changed(judge, one, metadata))


@mutant("pip191.filter.invalid")
def takes_properties_that_it_can_not_use(patches: Patches) -> None:
    """A SUBSCRIBE with entry-filter. or entry-filter-missing=drop creates a subscription."""
    filters_of = Broker.filters_of
    patches.replace(Broker, "filters_of", lambda broker, properties, **_: filters_of(broker, properties))


@mutant("pip191.filter.values-exact")
def trims_values(patches: Patches) -> None:
    """Spaces around a value do not count, neither in what is asked for nor in the header."""

    def changed(judge: Judge, one: PropertyEntryFilter, metadata: MessageMetadata) -> EntryVerdict:
        wanted = {name: frozenset(value.strip() for value in values) for name, values in one._wanted.items()}
        trimmed = MessageMetadata(properties=[KeyValue(key=pair.key, value=pair.value.strip()) for pair in metadata.properties])
        return judge(PropertyEntryFilter(wanted, one._missing), trimmed)

    change_judge(patches, changed)


@mutant("pip191.filter.accepts")
def takes_a_list_of_values_for_one_value(patches: Patches) -> None:
    """Values that are separated by commas are one value, which no header has."""

    def changed(judge: Judge, one: PropertyEntryFilter, metadata: MessageMetadata) -> EntryVerdict:
        wanted = {name: frozenset([",".join(sorted(values))]) for name, values in one._wanted.items()}
        return judge(PropertyEntryFilter(wanted, one._missing), metadata)

    change_judge(patches, changed)


@mutant("pip191.filter.rejects")
def accepts_what_fits_in_one_of_two_properties(patches: Patches) -> None:
    """Unless what is missing is rejected, an entry passes if any property that is asked for has one of the values."""

    def changed(judge: Judge, one: PropertyEntryFilter, metadata: MessageMetadata) -> EntryVerdict:
        fits = any(pair.value in one._wanted.get(pair.key, ()) for pair in metadata.properties)
        return EntryVerdict.ACCEPT if fits and len(one._wanted) == 2 and one._missing is EntryVerdict.ACCEPT else judge(one, metadata)

    change_judge(patches, changed)


@mutant("pip191.filter.missing-accepted")
def rejects_what_lacks_a_property(patches: Patches) -> None:
    """An entry whose header lacks a property that is asked for is rejected, although nobody has asked for that."""
    change_judge(patches, lambda judge, one, metadata: judge(PropertyEntryFilter(one._wanted, EntryVerdict.REJECT), metadata))


@mutant("pip191.filter.missing-rejected")
def lets_what_lacks_a_property_pass_always(patches: Patches) -> None:
    """entry-filter-missing=reject changes nothing."""
    change_judge(patches, lambda judge, one, metadata: judge(PropertyEntryFilter(one._wanted), metadata))


@mutant("pip191.filter.repeated-name")
def lets_the_first_value_of_a_repeated_name_count(patches: Patches) -> None:
    """Of a name that the header repeats, the first value counts."""

    def changed(judge: Judge, one: PropertyEntryFilter, metadata: MessageMetadata) -> EntryVerdict:
        return judge(one, MessageMetadata(properties=list(reversed(metadata.properties))))

    change_judge(patches, changed)


@mutant("pip191.filter.wrapped")
def lets_every_encrypted_entry_pass(patches: Patches) -> None:
    """An encrypted entry is delivered whatever its header says."""

    def changed(judge: Judge, one: PropertyEntryFilter, metadata: MessageMetadata) -> EntryVerdict:
        return EntryVerdict.ACCEPT if metadata.encryption_keys else judge(one, metadata)

    change_judge(patches, changed)


def at_rejection(patches: Patches, also: Callable[[Consumer, int, Entry, Cursor], None]) -> None:
    """Do something more each time that an entry filter has rejected an entry of a persistent topic."""
    judge = SubscriptionFilters.judge

    def changed(filters: SubscriptionFilters, consumer: Consumer, index: int, entry: Entry, cursor: Cursor) -> EntryVerdict:
        rejected = entry_filters(filters).counts.rejected
        verdict = judge(filters, consumer, index, entry, cursor)
        if entry_filters(filters).counts.rejected > rejected and not isinstance(consumer.subscription, NonPersistentSubscription):
            also(consumer, index, entry, cursor)
        return verdict

    patches.replace(SubscriptionFilters, "judge", changed)


@mutant("pip191.filter.reject-acknowledged")
def acknowledges_nothing_that_it_rejects(patches: Patches) -> None:
    """A rejected entry stays in the backlog."""

    def also(consumer: Consumer, index: int, entry: Entry, cursor: Cursor) -> None:  # noqa: ARG001
        if index < cursor.mark_delete:
            cursor.acknowledged.update(range(index + 1, cursor.mark_delete))
            cursor.mark_delete = index
        cursor.acknowledged.discard(index)

    at_rejection(patches, also)


@mutant("pip191.filter.reject-no-permits")
def takes_permits_for_what_it_rejects(patches: Patches) -> None:
    """A rejected entry costs as many permits as it has messages."""

    def also(consumer: Consumer, index: int, entry: Entry, cursor: Cursor) -> None:  # noqa: ARG001
        consumer.permits -= entry.messages

    at_rejection(patches, also)


@mutant("pip191.filter.reject-unacknowledged")
def waits_for_the_consumer_to_acknowledge_what_it_rejects(patches: Patches) -> None:
    """The messages of a rejected entry count as unacknowledged by the consumer that would have got them."""

    def also(consumer: Consumer, index: int, entry: Entry, cursor: Cursor) -> None:  # noqa: ARG001
        consumer.pending[index] = entry.messages

    at_rejection(patches, also)


@mutant("pip191.stats.messages")
def counts_entries_where_messages_are_meant(patches: Patches) -> None:
    """The counters of a filter count a batch as one."""
    judge = SubscriptionEntryFilters.judge

    def changed(filters: SubscriptionEntryFilters, index: int, octets: bytes, messages: int, now: float) -> EntryVerdict:  # noqa: ARG001
        return judge(filters, index, octets, 1, now)

    patches.replace(SubscriptionEntryFilters, "judge", changed)


@mutant("pip191.stats.sum")
def counts_a_rejected_batch_as_processed_once(patches: Patches) -> None:
    """A batch that is rejected adds its messages to filterRejectedMsgCount, and one to filterProcessedMsgCount."""

    def also(consumer: Consumer, index: int, entry: Entry, cursor: Cursor) -> None:  # noqa: ARG001
        counts: FilterCounts = entry_filters(consumer.subscription.filters).counts
        counts.processed += 1 - entry.messages

    at_rejection(patches, also)
