"""Brokers that lie about batches with the same property values: what they carry, whom they filter, and when."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import entry_filters
from conformance.targets import reference
from refimpl.broker import Broker
from refimpl.broker.filtering import SubscriptionFilters
from refimpl.broker.subscription import Consumer, NonPersistentSubscription, Subscription, SubType
from refimpl.broker.topic import Topic
from refimpl.proposals.extension import EntryVerdict
from refimpl.proposals.uniform_batches.broker import MISSING, PREFIX, SubscriptionEntryFilters
from refimpl.store import Cursor, Entry
from refimpl.wire import WireError, decode_batch, decompress, encode_payload, is_batch, parse_payload
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, KeyValue


def messages_of(octets: bytes) -> list[Iterable[KeyValue]]:
    """Return the properties of each message of a batch; none if the batch can't be read."""
    payload = parse_payload(octets)
    metadata = payload.metadata
    try:
        body = decompress(payload.body, metadata.compression, metadata.uncompressed_size)
        return [one.metadata.properties for one in decode_batch(body, metadata.num_messages_in_batch)]
    except WireError:
        return []


def properties_of(pairs: Iterable[KeyValue]) -> dict[str, str]:
    """Return properties by name."""
    return {one.key: one.value for one in pairs}


@mutant("pip191.carry.header-kept")
def takes_the_properties_out_of_batch_headers(patches: Patches) -> None:
    """A batch is delivered without the properties that its header had."""
    send = Consumer.send

    def changed(consumer: Consumer, index: int, entry: Entry, redeliveries: int, open_messages: frozenset[int] | None) -> None:
        payload = parse_payload(entry.data)
        if is_batch(payload.metadata) and payload.metadata.properties:
            del payload.metadata.properties[:]
            octets = encode_payload(payload.metadata, payload.body)
            entry = Entry(octets, entry.messages, entry.batch, entry.publish_time)
        send(consumer, index, entry, redeliveries, open_messages)

    patches.replace(Consumer, "send", changed)


@mutant("pip191.carry.properties-stored")
def keeps_the_properties_of_the_latest_subscribe(patches: Patches) -> None:
    """The properties of a subscription are those of the SUBSCRIBE that came last."""
    subscribe = Topic.subscribe

    def changed(topic: Topic, name: str, index: int, *, properties: dict[str, str], **others: Any) -> Subscription:
        found = subscribe(topic, name, index, properties=properties, **others)
        found.cursor.properties = properties
        return found

    patches.replace(Topic, "subscribe", changed)


@mutant("pip191.carry.old-broker")
def filters_although_it_is_said_not_to(patches: Patches) -> None:
    """A broker of which it is said that it has no property entry filter has one."""
    patches.replace(reference, "CAPABILITIES", {**reference.CAPABILITIES, "property-entry-filter": False})


@mutant("pip191.filter.header-only")
def opens_batches_whose_header_says_nothing(patches: Patches) -> None:
    """A batch without properties in its header is judged by those of its first message."""
    verdict = SubscriptionEntryFilters._verdict

    def changed(filters: SubscriptionEntryFilters, octets: bytes, messages: int) -> EntryVerdict:
        payload = parse_payload(octets)
        if is_batch(payload.metadata) and not payload.metadata.properties:
            for properties in messages_of(octets)[:1]:
                payload.metadata.properties.extend(properties)
            octets = encode_payload(payload.metadata, payload.body)
        return verdict(filters, octets, messages)

    patches.replace(SubscriptionEntryFilters, "_verdict", changed)


@mutant("pip191.filter.whole-entry")
def takes_messages_out_of_batches(patches: Patches) -> None:
    """Of a batch that passes, only those messages are delivered that say the same as the header themselves."""
    judge = SubscriptionFilters.judge

    def changed(filters: SubscriptionFilters, consumer: Consumer, index: int, entry: Entry, cursor: Cursor) -> EntryVerdict:
        found = judge(filters, consumer, index, entry, cursor)
        metadata = parse_payload(entry.data).metadata
        if found is EntryVerdict.ACCEPT and entry_filters(filters).active and is_batch(metadata):
            header = properties_of(metadata.properties)
            same = [place for place, one in enumerate(messages_of(entry.data)) if header.items() <= properties_of(one).items()]
            if 0 < len(same) < entry.messages:
                cursor.acknowledge_in_part(index, same)
        return found

    patches.replace(SubscriptionFilters, "judge", changed)


@mutant("pip191.filter.needs-permits")
def judges_what_nobody_has_permits_for(patches: Patches) -> None:
    """What comes behind the last message that a consumer had permits for is judged at once, and what is rejected is acknowledged."""
    dispatch = Subscription.dispatch

    def changed(subscription: Subscription) -> None:
        dispatch(subscription)
        waiting = next((one for one in subscription.consumers if one.messages_out and one.permits <= 0), None)
        if waiting is not None and entry_filters(subscription.filters).active:
            for index in range(subscription._read, len(subscription.topic.entries)):
                subscription.filters.judge(waiting, index, subscription.topic.entries[index], subscription.cursor)

    patches.replace(Subscription, "dispatch", changed)


@mutant("pip191.filter.each-delivery")
def judges_each_entry_once(patches: Patches) -> None:
    """An entry that was accepted is delivered again without being judged."""
    judge = SubscriptionEntryFilters.judge
    accepted: set[tuple[SubscriptionEntryFilters, int]] = set()

    def changed(filters: SubscriptionEntryFilters, index: int, octets: bytes, messages: int, now: float) -> EntryVerdict:
        if (filters, index) in accepted:
            return EntryVerdict.ACCEPT
        found = judge(filters, index, octets, messages, now)
        if found is EntryVerdict.ACCEPT:
            accepted.add((filters, index))
        return found

    patches.replace(SubscriptionEntryFilters, "judge", changed)


@mutant("pip191.filter.per-subscription")
def filters_a_topic_as_its_first_subscription_asks(patches: Patches) -> None:
    """All subscriptions of a topic have the filter of the one that was created first."""

    def changed(topic: Topic, name: str, cursor: Cursor, durable: bool, filters: SubscriptionFilters) -> Subscription:
        present = getattr(topic, "subscriptions", {})
        first = next((topic._filters_of(one.cursor.properties) for one in present.values()), filters)
        return Subscription(topic, name, cursor, first, durable=durable)

    patches.replace(Topic, "_subscription", changed)


def lets_everything_pass_on(patches: Patches, kind: type[Subscription], sub_type: SubType | None) -> None:
    """Let subscriptions of one kind, and of one type unless that is None, be without entry filters."""
    judge = SubscriptionFilters.judge

    def changed(filters: SubscriptionFilters, consumer: Consumer, index: int, entry: Entry, cursor: Cursor) -> EntryVerdict:
        subscription = consumer.subscription
        if entry_filters(filters).active and isinstance(subscription, kind) and sub_type in (None, subscription.type):
            return EntryVerdict.ACCEPT
        return judge(filters, consumer, index, entry, cursor)

    patches.replace(SubscriptionFilters, "judge", changed)


@mutant("pip191.filter.every-type")
def does_not_filter_failover_subscriptions(patches: Patches) -> None:
    """A Failover subscription gets every entry."""
    lets_everything_pass_on(patches, Subscription, SubType.Failover)


@mutant("pip191.filter.non-persistent")
def does_not_filter_non_persistent_topics(patches: Patches) -> None:
    """A subscription of a non-persistent topic gets every entry."""
    lets_everything_pass_on(patches, NonPersistentSubscription, None)


@mutant("pip191.filter.before-message-filter")
def forgets_entry_filters_for_a_message_filter(patches: Patches) -> None:
    """A subscription with a message filter has no entry filter, whatever its properties ask for."""

    def change(_: object, request: CommandSubscribe) -> None:
        if request.HasField("filter_meta"):
            del request.subscription_properties[:]

    patches.incoming(CommandSubscribe, change)


@mutant("pip191.filter.switched-on")
def forgets_filters_when_a_topic_is_unloaded(patches: Patches) -> None:
    """A subscription that was there before its topic was loaded gets every entry."""

    def changed(topic: Topic, name: str, cursor: Cursor, durable: bool, filters: SubscriptionFilters) -> Subscription:
        is_restored = not hasattr(topic, "subscriptions")
        return Subscription(topic, name, cursor, topic._filters_of({}) if is_restored else filters, durable=durable)

    patches.replace(Topic, "_subscription", changed)


@mutant("pip191.filter.off")
def takes_a_hyphen_for_the_dot(patches: Patches) -> None:
    """A subscription property entry-filter-NAME asks for values of NAME, as entry-filter.NAME does."""
    filters_of = Broker.filters_of

    def dotted(key: str) -> str:
        return key if key == MISSING else re.sub("^entry-filter-", PREFIX, key)

    def changed(broker: Broker, properties: Mapping[str, str], *, is_new: bool = False) -> SubscriptionFilters:
        return filters_of(broker, {dotted(key): value for key, value in properties.items()}, is_new=is_new)

    patches.replace(Broker, "filters_of", changed)


@mutant("pip191.filter.properties-of-first")
def lets_every_subscribe_change_the_filter(patches: Patches) -> None:
    """A SUBSCRIBE with properties changes the filter of a subscription that exists."""
    subscribe = Topic.subscribe

    def changed(topic: Topic, name: str, index: int, *, properties: dict[str, str], **others: Any) -> Subscription:
        found = subscribe(topic, name, index, properties=properties, **others)
        if properties:
            found.filters.judges["pip191"] = topic._filters_of(properties).judges["pip191"]
        return found

    patches.replace(Topic, "subscribe", changed)
