"""Brokers that go wrong with the keys of messages, on Key_Shared subscriptions and for exclusive consumers with hash ranges."""

from conformance.mutants.model import in_place_of, mutant, on_request
from refimpl.broker import key_shared
from refimpl.broker.consumer import takes
from refimpl.broker.key_shared import AutoSplit, KeyShared, Sticky, check_ranges, key_of
from refimpl.broker.non_persistent import NonPersistentSubscription
from refimpl.broker.subscription import Subscription, SubType
from refimpl.wire.payload import parse_payload
from refimpl.wire.pulsar_api_pb2 import CommandAck, KeySharedMeta, MessageMetadata


def _without(metadata, *fields):
    """Return metadata that lack some fields."""
    copy = MessageMetadata()
    copy.CopyFrom(metadata)
    for field in fields:
        copy.ClearField(field)
    return copy


# Consumers for keys


@in_place_of(KeyShared.taker, clause="core.key-shared.same-consumer")
def shares_keys_like_messages(taker, keys, index, takes):
    """Whichever consumer has the most permits gets the next message."""
    return max(filter(takes, keys._consumers), key=lambda one: one.permits)


@in_place_of(AutoSplit.owner, clause="core.key-shared.spread")
def gives_all_keys_to_one(owner, assignment, hash_):
    """The consumer that came first gets the messages of all keys."""
    return next(iter(assignment._places), None)


@mutant("core.key-shared.spread")
def divides_the_keys_only_once(patches):
    """A consumer that joins once messages were sent is a reserve: keys stay with those that were there."""

    def owner(original):
        def changed(assignment, hash_):
            known = assignment.__dict__.setdefault("known_to_faults", {})
            if known.get(hash_) not in assignment._places:
                known[hash_] = original(assignment, hash_)
            return known[hash_]

        return changed

    patches.wrap(AutoSplit, "owner", owner)


@in_place_of(KeyShared.joined, clause="core.key-shared.order")
def moves_keys_at_once(joined, keys, consumer, meta):
    """When a consumer joins, it gets the next message of a key, though the one before is pending with another consumer."""
    released = joined(keys, consumer, meta)
    keys._draining.clear()
    return released


@in_place_of(KeyShared.left, clause="core.key-shared.order")
def moves_keys_when_somebody_leaves(left, keys, consumer):
    """Who leaves takes along that keys of others wait for what is pending."""
    released = left(keys, consumer)
    keys._draining.clear()
    return released


@in_place_of(Subscription.remove, clause="core.key-shared.leave")
def loses_what_was_pending(remove, subscription, consumer):
    """What a Key_Shared consumer has not acknowledged is gone with it."""
    if subscription.type == SubType.Key_Shared:
        consumer.pending.clear()
    remove(subscription, consumer)


@in_place_of(KeyShared.taker, clause="core.key-shared.permits")
def waits_for_the_slowest(taker, keys, index, takes):
    """No key is sent while one of the consumers has no permits."""
    return taker(keys, index, lambda _: all(map(takes, keys._consumers)))


@in_place_of(KeyShared.served, clause="core.key-shared.permits")
def forgets_what_waits_for_permits(served, keys, takes):
    """A message whose consumer had no permits is not sent when it has some again."""
    return []


@in_place_of(KeyShared.taker, clause="core.key-shared.no-key")
def has_no_consumer_without_a_key(taker, keys, index, takes):
    """A message without a key has no hash, so that no consumer gets it."""
    metadata = parse_payload(keys._entries[index].data).metadata
    return taker(keys, index, takes) if metadata.HasField("partition_key") or metadata.HasField("ordering_key") else None


# Hashes


@in_place_of(key_of, clause="core.key-shared.hash")
def prefers_the_partition_key(key_of, metadata):
    """The partition key counts, if there is one, before the ordering key."""
    return key_of(_without(metadata, "ordering_key") if metadata.HasField("partition_key") else metadata)


@in_place_of(key_of, clause="core.key-shared.hash")
def hashes_the_text_of_base64(key_of, metadata):
    """A key in Base64 is hashed as it is written."""
    return key_of(_without(metadata, "partition_key_b64_encoded"))


@in_place_of(KeyShared.taker, clause="core.key-shared.malformed-key")
def stops_at_malformed_keys(taker, keys, index, takes):
    """A message whose key can't be decoded is tried again and again, and nothing behind it is sent."""
    metadata = parse_payload(keys._entries[index].data).metadata
    stuck = keys.__dict__.setdefault("stuck_by_faults", set())
    if metadata.partition_key_b64_encoded and key_of(metadata) == b"NONE_KEY":
        stuck.add(index)
    return None if stuck else taker(keys, index, takes)


@in_place_of(Sticky.hash_of, clause="core.key-shared.hash")
def hashes_sticky_keys_as_others(hash_of, assignment, key):
    """The hashes of keys go from 1 to 65535 for hash ranges, too."""
    return AutoSplit().hash_of(key)


@in_place_of(key_shared._ranges, clause="core.key-shared.sticky")
def leaves_the_last_hash_out(ranges, meta):
    """The end of a hash range does not belong to it."""
    return [range(one.start, one.end) for one in meta.hashRanges]


# Who may join


@in_place_of(key_shared._overlap, clause="core.key-shared.sticky-overlap")
def looks_at_the_ends_of_ranges(overlap, one, other):
    """Two hash ranges overlap if an end of the second one is in the first one."""
    return other.start in one or other.stop - 1 in one


@in_place_of(key_shared._overlap, clause="core.key-shared.sticky-overlap")
def lets_ranges_meet(overlap, one, other):
    """Two hash ranges may have their ends in common."""
    return one.start < other.stop - 1 and other.start < one.stop - 1


@in_place_of(Sticky.remove, clause="core.key-shared.sticky-overlap")
def keeps_the_ranges_of_who_has_left(remove, assignment, consumer):
    """The hash ranges of a consumer that has left stay taken."""


@in_place_of(check_ranges, clause="core.key-shared.sticky-invalid")
def takes_any_ranges(check, meta):
    """A consumer may name no hash ranges at all, or any numbers."""


@in_place_of(check_ranges, clause="core.key-shared.own-overlap")
def takes_ranges_that_share_a_hash(check, meta):
    """The ranges of a consumer are looked at one by one."""
    for one in meta.hashRanges or [None]:
        check(KeySharedMeta(keySharedMode=meta.keySharedMode, hashRanges=[one] if one else []))


@in_place_of(KeyShared.settled, clause="core.key-shared.order")
def waits_for_the_first_message_of_a_key_only(settled, keys, consumer, index):
    """When a consumer joins, what comes for a key waits until one of its pending messages is acknowledged."""
    if keys._draining:
        keys._draining = type(keys._draining)(dict.fromkeys(keys._draining, 1))
    return settled(keys, consumer, index)


@in_place_of(KeyShared.check_joins, clause="core.key-shared.mode-conflict")
def lets_any_mode_join(check_joins, keys, meta):
    """A consumer joins with whatever mode and order the first one asked for."""


@in_place_of(KeyShared.taker, clause="core.key-shared.sticky-uncovered")
def drops_what_nobody_asks_for(taker, keys, index, takes):
    """A message whose hash is in nobody's ranges is never sent."""
    found = taker(keys, index, takes)
    keys._waiting.pop(None, None)
    return found


@in_place_of(Subscription.add, clause="core.key-shared.exclusive-ranges")
def gives_exclusive_consumers_all_keys(add, subscription, consumer, sub_type, meta):
    """The hash ranges of an exclusive consumer are ignored."""
    add(subscription, consumer, sub_type, type(meta)() if sub_type == SubType.Exclusive else meta)


@in_place_of(KeyShared.taker, clause="core.key-shared.exclusive-ranges")
def acknowledges_keys_of_nobody(taker, keys, index, takes):
    """Messages that an exclusive consumer does not want by its hash ranges are acknowledged for it."""
    found = taker(keys, index, takes)
    if found is None and keys._consumers[0].subscription.type == SubType.Exclusive:
        keys._consumers[0].subscription.cursor.acknowledge(index)
    return found


@in_place_of(NonPersistentSubscription.offer, clause="core.key-shared.non-persistent")
def gives_keys_to_whoever_has_permits(offer, subscription, entry):
    """A message on a non-persistent topic goes to another consumer, if the one of its key has no permits."""
    owner = subscription._keys.owner(entry) if subscription._keys is not None else None
    other = next(filter(takes, subscription.consumers), None)
    if owner is None or takes(owner) or other is None:
        offer(subscription, entry)
    else:
        other.send(0, entry, 0, None)


# What a Key_Shared subscription has in common with a Shared one


@in_place_of(Subscription.redeliver, clause="core.redeliver.named-only")
def redelivers_all_to_consumers_for_keys(redeliver, subscription, consumer, indexes):
    """Only a Shared subscription heeds the ids of a REDELIVER."""
    redeliver(subscription, consumer, indexes if subscription.type == SubType.Shared else list(consumer.pending))


@on_request("ack", clause="core.ack.cumulative-in-order")
def acknowledges_cumulatively_for_keys(carry_out, session, request):
    """A cumulative ACK of a Key_Shared consumer acknowledges all before it."""
    consumer = session.consumers.get(request.consumer_id)
    if consumer is not None and request.ack_type == CommandAck.Cumulative and consumer.subscription.type == SubType.Key_Shared:
        for one in request.message_id:
            consumer.subscription.acknowledge_up_to(consumer, consumer.subscription.topic.index_of(one))
    carry_out()


@in_place_of(key_of, clause="core.key-shared.same-consumer")
def takes_an_empty_key_for_none(key_of, metadata):
    """An empty key counts as no key."""
    return key_of(_without(metadata, *(name for name in ("partition_key", "ordering_key") if not getattr(metadata, name))))


@in_place_of(Subscription._keys_for, clause="core.key-shared.mode-conflict")
def keeps_what_the_first_consumer_asked_for(keys_for, subscription, sub_type, meta):
    """The mode of a Key_Shared subscription stays when its consumers have left."""
    return subscription._keys if sub_type == SubType.Key_Shared and subscription._keys else keys_for(subscription, sub_type, meta)


@in_place_of(KeyShared.left, clause="core.key-shared.leave")
def loses_what_waits_for_permits_of_who_leaves(left, keys, consumer):
    """What waits for the permits of a consumer is gone when it leaves."""
    keys._waiting.pop(consumer, None)
    return left(keys, consumer)
