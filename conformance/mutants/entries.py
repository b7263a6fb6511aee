"""Brokers that filter entries by their headers wrongly (PIP-191): what they compare, whom they filter, and what becomes of the rest."""

from dataclasses import replace

from conformance.mutants.model import in_place_of, mutant, on_incoming
from refimpl.broker import Broker
from refimpl.broker.admin import Admin
from refimpl.broker.filtering import SubscriptionFilters
from refimpl.broker.non_persistent import NonPersistentSubscription
from refimpl.broker.subscription import Subscription, SubType
from refimpl.broker.topic import Topic
from refimpl.proposals.extension import EntryVerdict
from refimpl.proposals.uniform_batches.broker import (
    MISSING,
    PREFIX,
    FilterCounts,
    HeaderJudge,
    PropertyEntryFilter,
    SubscriptionEntryFilters,
    UniformBatchesExtension,
)
from refimpl.store import Entry
from refimpl.wire import WireError, decode_batch, decompress, encode_payload, is_batch, parse_payload
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, KeyValue, MessageMetadata


def messages_of(data):
    """Return the messages of a batch; none if it can't be read."""
    payload = parse_payload(data)
    try:
        body = decompress(payload.body, payload.metadata.compression, payload.metadata.uncompressed_size)
        return decode_batch(body, payload.metadata.num_messages_in_batch)
    except WireError:
        return []


def header_filters(filters):
    """Return the entry filters of a subscription."""
    return next(judge.filters for judge in filters.judges.values() if isinstance(judge, HeaderJudge))


# What is carried


@in_place_of(Topic.subscribe, clause="pip191.carry.properties-stored")
def keeps_the_properties_of_the_latest_subscribe(subscribe, topic, name, index, *, properties, **others):
    """The properties of a subscription are those of the SUBSCRIBE that came last."""
    found = subscribe(topic, name, index, properties=properties, **others)
    found.cursor.properties = properties
    return found


@in_place_of(Topic.subscribe, clause="pip191.filter.properties-of-first")
def takes_new_properties_when_nobody_is_left(subscribe, topic, name, index, *, properties, **others):
    """A SUBSCRIBE that finds a subscription without consumers brings the properties by which it filters from now on."""
    found = subscribe(topic, name, index, properties=properties, **others)
    if not found.consumers:
        found.cursor.properties, found.filters = properties, topic._filters_of(properties)
    return found


@in_place_of(Admin.create_subscription, clause="pip191.filter.invalid-by-administrator")
def takes_any_properties_from_administrators(create, admin, topic, subscription, position, properties=None, **options):
    """An administrator creates a subscription whatever its properties are."""
    broker = admin._broker
    broker.filters_of = lambda properties, is_new=False: Broker.filters_of(broker, properties)
    create(admin, topic, subscription, position, properties, **options)
    del broker.filters_of


# What is compared


@in_place_of(HeaderJudge.judge, clause="pip191.filter.header-only")
def opens_batches(judge, one, consumer, index, entry, cursor, now):
    """A batch is judged by the properties of its first message."""
    payload = parse_payload(entry.data)
    if is_batch(payload.metadata) and messages_of(entry.data):
        payload.metadata.ClearField("properties")
        payload.metadata.properties.extend(messages_of(entry.data)[0].metadata.properties)
        entry = Entry(encode_payload(payload.metadata, payload.body), entry.messages, entry.batch, entry.publish_time)
    return judge(one, consumer, index, entry, cursor, now)


@in_place_of(SubscriptionFilters.judge, clause="pip191.filter.whole-entry")
def takes_messages_out_of_batches(judge, filters, consumer, index, entry, cursor):
    """Of a batch that passes, only those messages are delivered whose own properties pass."""
    verdict = judge(filters, consumer, index, entry, cursor)
    own = [one for one in header_filters(filters)._filters.values() if isinstance(one, PropertyEntryFilter)]
    if verdict is EntryVerdict.ACCEPT and own and entry.batch:
        headers = [MessageMetadata(properties=one.metadata.properties) for one in messages_of(entry.data)]
        passing = [place for place, header in enumerate(headers) if own[0].verdict(header) is EntryVerdict.ACCEPT]
        if 0 < len(passing) < entry.messages:
            cursor.acknowledge_in_part(index, passing)
    return verdict


@in_place_of(PropertyEntryFilter.verdict, clause="pip191.filter.values-exact")
def trims_values(judge, one, metadata):
    """Spaces around a value in a header do not count."""
    return judge(one, MessageMetadata(properties=[KeyValue(key=pair.key, value=pair.value.strip()) for pair in metadata.properties]))


@in_place_of(PropertyEntryFilter.verdict, clause="pip191.filter.accepts")
def takes_a_list_of_values_for_one_value(judge, one, metadata):
    """Values that are separated by commas are one value, which no header has."""
    wanted = {name: frozenset([",".join(sorted(values))]) for name, values in one._wanted.items()}
    return judge(PropertyEntryFilter(wanted, one._missing), metadata)


@in_place_of(PropertyEntryFilter.verdict, clause="pip191.filter.rejects")
def accepts_what_fits_in_one_property(judge, one, metadata):
    """An entry passes if any property that is asked for has one of the values."""
    fits = any(pair.value in one._wanted.get(pair.key, ()) for pair in metadata.properties)
    return EntryVerdict.ACCEPT if fits else judge(one, metadata)


@in_place_of(PropertyEntryFilter.verdict, clause="pip191.filter.missing-accepted")
def rejects_what_lacks_a_property(judge, one, metadata):
    """An entry whose header lacks a property that is asked for is rejected, although nobody has asked for that."""
    return judge(PropertyEntryFilter(one._wanted, EntryVerdict.REJECT), metadata)


@in_place_of(PropertyEntryFilter.verdict, clause="pip191.filter.missing-rejected")
def lets_what_lacks_a_property_pass_always(judge, one, metadata):
    """entry-filter-missing=reject changes nothing."""
    return judge(PropertyEntryFilter(one._wanted), metadata)


@in_place_of(PropertyEntryFilter.verdict, clause="pip191.filter.repeated-name")
def lets_the_first_value_of_a_repeated_name_count(judge, one, metadata):
    """Of a name that the header repeats, the first value counts."""
    return judge(one, MessageMetadata(properties=list(reversed(metadata.properties))))


@in_place_of(PropertyEntryFilter.verdict, clause="pip191.filter.wrapped")
def lets_every_encrypted_entry_pass(judge, one, metadata):
    """An encrypted entry is delivered whatever its header says."""
    return EntryVerdict.ACCEPT if metadata.encryption_keys else judge(one, metadata)


@in_place_of(UniformBatchesExtension.entry_judge, clause="pip191.filter.off")
def takes_every_property_for_a_filter(entry_judge, extension, properties, *, is_new):
    """Each subscription property asks for values, with entry-filter. in front or without."""
    known = (PREFIX, MISSING)
    return entry_judge(
        extension, {key if key.startswith(known) else f"{PREFIX}{key}": value for key, value in properties.items()}, is_new=is_new
    )


# Whom it filters, and when


@in_place_of(UniformBatchesExtension.entry_judge, clause="pip191.filter.switched-on")
def forgets_filters_of_subscriptions_that_exist(entry_judge, extension, properties, *, is_new):
    """A subscription that was there before its topic was loaded gets every entry."""
    return entry_judge(extension, properties if is_new else {}, is_new=is_new)


@mutant("pip191.filter.per-subscription")
def filters_a_topic_as_its_first_subscription_asks(patches):
    """All subscriptions of a topic have the filter of the one that was created first."""
    subscribe = Topic.subscribe

    def changed(topic, name, index, *, properties, **others):
        first = next(iter(topic.subscriptions.values()), None)
        found = subscribe(topic, name, index, properties=properties, **others)
        if first is not None:
            found.filters.judges["pip191"] = first.filters.judges["pip191"]
        return found

    patches.replace(Topic, "subscribe", changed)


@in_place_of(Topic.subscribe, clause="pip191.filter.properties-of-first")
def lets_every_subscribe_change_the_filter(subscribe, topic, name, index, *, properties, filters=None, **others):
    """The filter of a subscription is that of the SUBSCRIBE that came last."""
    found = subscribe(topic, name, index, properties=properties, filters=filters, **others)
    found.filters.judges["pip191"] = topic._filters_of(properties).judges["pip191"]
    return found


@in_place_of(SubscriptionFilters.judge, clause="pip191.filter.every-type")
def filters_shared_subscriptions_only(judge, filters, consumer, index, entry, cursor):
    """A subscription of another type than Shared gets every entry."""
    shared = consumer.subscription.type == SubType.Shared
    return judge(filters, consumer, index, entry, cursor) if shared else EntryVerdict.ACCEPT


@in_place_of(SubscriptionFilters.judge, clause="pip191.filter.non-persistent")
def does_not_filter_non_persistent_topics(judge, filters, consumer, index, entry, cursor):
    """A subscription of a non-persistent topic gets every entry."""
    stored = not isinstance(consumer.subscription, NonPersistentSubscription)
    return judge(filters, consumer, index, entry, cursor) if stored else EntryVerdict.ACCEPT


@on_incoming(CommandSubscribe, clause="pip191.filter.before-message-filter")
def forgets_entry_filters_for_a_message_filter(_, request):
    """A subscription with a message filter has no entry filter, whatever its properties ask for."""
    if request.HasField("filter_meta"):
        del request.subscription_properties[:]


@in_place_of(HeaderJudge.judge, clause="pip191.filter.each-delivery")
def judges_each_entry_once(judge, one, consumer, index, entry, cursor, now):
    """An entry that was accepted is delivered again without being judged."""
    accepted = one.filters.__dict__.setdefault("accepted_by_faults", set())
    if index in accepted:
        return EntryVerdict.ACCEPT
    verdict = judge(one, consumer, index, entry, cursor, now)
    if verdict is EntryVerdict.ACCEPT:
        accepted.add(index)
    return verdict


# What becomes of what it rejects


@in_place_of(SubscriptionFilters.judge, clause="pip191.filter.reject-acknowledged")
def acknowledges_nothing_that_it_rejects(judge, filters, consumer, index, entry, cursor):
    """A rejected entry is not delivered, and stays in the backlog."""
    copy = type(cursor)(mark_delete=index)
    verdict = judge(filters, consumer, index, entry, copy)
    if verdict is EntryVerdict.ACCEPT and copy.open_messages:
        cursor.acknowledge_in_part(index, copy.open_messages[index])
    return verdict


@in_place_of(HeaderJudge.judge, clause="pip191.filter.reject-unacknowledged")
def waits_for_the_consumer_to_acknowledge_what_it_rejects(judge, one, consumer, index, entry, cursor, now):
    """The messages of a rejected entry count as unacknowledged by the consumer that would have got them."""
    verdict = judge(one, consumer, index, entry, cursor, now)
    if verdict is EntryVerdict.REJECT:
        consumer.pending[index] = entry.messages
    return verdict


@in_place_of(SubscriptionEntryFilters.judge, clause="pip191.stats.messages")
def counts_entries_where_messages_are_meant(judge, filters, consumer, index, entry, now):
    """The counters of a filter count a batch as one."""
    return judge(filters, consumer, index, replace(entry, messages=1), now)


@in_place_of(HeaderJudge.judge, clause="pip191.filter.header-only")
def lets_chunks_pass(judge, one, consumer, index, entry, cursor, now):
    """Chunks are delivered whatever their headers say."""
    return EntryVerdict.ACCEPT if entry.chunk is not None else judge(one, consumer, index, entry, cursor, now)


@in_place_of(SubscriptionFilters.__init__, clause="pip191.filter.before-message-filter")
def runs_message_filters_first(make, filters, judges):
    """Message filters judge also what the entry filter rejects."""
    make(filters, judges)
    filters.judges = dict(reversed(filters.judges.items()))


@in_place_of(Subscription.add, clause="pip191.stats.messages")
def counts_anew_for_the_first_consumer(add, subscription, consumer, sub_type, meta):
    """The counters of a subscription begin at 0 when a consumer comes to it and nobody else is there."""
    for judge in [] if subscription.consumers else subscription.filters.judges.values():
        if isinstance(judge, HeaderJudge):
            judge.filters.counts = FilterCounts()
    add(subscription, consumer, sub_type, meta)
