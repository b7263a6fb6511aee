"""Clients with a fault in PIP-191: which messages share a batch, and what its header holds."""

import refimpl.client.entry
import refimpl.client.options
import refimpl.client.producer
import refimpl.client.unpack
import refimpl.proposals.uniform_batches.client
from conformance.clients.faults.model import fault, in_place_of, instead_of
from refimpl.client.producer import Producer
from refimpl.proposals.uniform_batches import Batch
from refimpl.proposals.uniform_batches.client import Reason, UniformBatcher
from refimpl.wire.pulsar_api_pb2 import KeyValue

batching = refimpl.proposals.uniform_batches.client


# Which messages share a batch


@in_place_of(UniformBatcher._against, clause=("pip191.batch.same-set", "pip191.batch.example"))
def batches_whatever_comes(against, batcher, extracted, size, kind):
    """Messages share a batch whatever is extracted from them; the first one makes the header."""
    return against(batcher, batcher._extracted, size, kind)


@in_place_of(UniformBatcher._against, clause=("pip191.batch.joins", "pip191.extract.order"))
def closes_with_each_message(against, batcher, extracted, size, kind):
    """Each message closes the open batch."""
    return Reason.OTHER_SET if batcher._items else None


@in_place_of(UniformBatcher._against, clause="pip191.batch.small")
def never_sends_a_small_batch(against, batcher, extracted, size, kind):
    """A batch with a single message waits for another one."""
    return None if len(batcher) == 1 else against(batcher, extracted, size, kind)


@in_place_of(UniformBatcher._against, clause="pip191.batch.none-extracted")
def lets_messages_without_a_set_join(against, batcher, extracted, size, kind):
    """A message from which nothing is extracted joins any open batch."""
    return against(batcher, extracted or batcher._extracted, size, kind)


def _a_batch_for_each_set(add, batcher, item, properties, size, now, **options):
    if options.get("has_delivery_time"):
        return add(batcher, item, properties, size, now, **options)
    batcher.open = getattr(batcher, "open", {})
    batcher.open.setdefault(batching.extracted_set(properties, batcher._allowed), []).append(item)
    batcher._items = [item]  # something is open
    return []


def _all_sets(flush, batcher, reason=Reason.FLUSH):
    found, batcher.open, batcher._items = getattr(batcher, "open", {}), {}, []
    return [batcher._sent(tuple(items), extracted, reason) for extracted, items in found.items()]


@fault("pip191.batch.consecutive", "pip191.batch.order")
def keeps_a_batch_open_for_each_set(patches):
    """A batch stays open for each extracted set, so a set that comes back joins its earlier batch, and messages change their order."""
    patches.wrap(UniformBatcher, "add", lambda add: lambda *args, **options: _a_batch_for_each_set(add, *args, **options))
    patches.wrap(UniformBatcher, "flush", lambda flush: lambda *args, **options: _all_sets(flush, *args, **options))


@in_place_of(UniformBatcher.flush, clause="pip191.batch.order")
def sends_a_batch_backwards(flush, batcher, reason=Reason.FLUSH):
    """The messages of a batch are in the reverse order."""
    batcher._items.reverse()
    return flush(batcher, reason)


@in_place_of(UniformBatcher.add, clause=("pip191.batch.delivery-time", "pip191.header.unbatched-all"))
def batches_delayed_messages(add, batcher, item, properties, size, now, *, has_delivery_time=False, **options):
    """A message with a delivery time joins the open batch."""
    return add(batcher, item, properties, size, now, **options)


@in_place_of(UniformBatcher.add, clause="pip191.batch.delivery-time")
def sends_delayed_messages_first(add, batcher, item, properties, size, now, *, has_delivery_time=False, **options):
    """A message with a delivery time is sent before the open batch."""
    if has_delivery_time:
        return [batcher._sent((item,), None, Reason.UNBATCHABLE)]
    return add(batcher, item, properties, size, now, **options)


@in_place_of(UniformBatcher.add, clause="pip191.batch.chunks")
def sends_chunks_first(add, batcher, item, properties, size, now, *, is_chunked=False, **options):
    """A message in chunks is sent before the open batch."""
    if is_chunked:
        return [batcher._sent((item,), None, Reason.UNBATCHABLE)]
    return add(batcher, item, properties, size, now, **options)


@in_place_of(UniformBatcher.add, clause="pip191.batch.chunks")
def batches_what_is_too_large(add, batcher, item, properties, size, now, *, is_chunked=False, **options):
    """A message that is too large for one entry is a batch of one, which is not sent."""
    return add(batcher, item, properties, size, now, **options)


@in_place_of(UniformBatcher.add, clause="pip191.trigger.messages")
def waits_although_the_batch_is_full(add, batcher, item, properties, size, now, **options):
    """A batch takes one message more than the maximum."""
    batcher._max_messages += 1
    try:
        return add(batcher, item, properties, size, now, **options)
    finally:
        batcher._max_messages -= 1


@in_place_of(Producer._close_batch, clause="pip191.trigger.flush")
def flushes_nothing(close_batch, producer):
    """Flushing waits until the delay of the open batch is over."""


# What is extracted


@instead_of(batching, "extracted_set", clause=("pip191.extract.pairs", "pip191.setting.map"))
def extracts_all_values(extracted_set, properties, allowed):
    """A property whose name is in the setting is extracted, whatever its value is."""
    last = dict(properties)
    return tuple((name, last[name]) for name in allowed if name in last)


@instead_of(batching, "extracted_set", clause=("pip191.extract.pairs", "pip191.header.extracted-set"))
def extracts_all_properties(extracted_set, properties, allowed):
    """All properties of a message are extracted if one of them is in the setting."""
    return tuple(sorted(dict(properties).items())) if extracted_set(properties, allowed) else ()


@instead_of(batching, "extracted_set", clause="pip191.extract.exact")
def compares_values_without_case(extracted_set, properties, allowed):
    """The case of values does not count."""
    return extracted_set({name: value.lower() for name, value in dict(properties).items()}, allowed)


@instead_of(batching, "extracted_set", clause="pip191.extract.exact")
def trims_values(extracted_set, properties, allowed):
    """White space around values does not count."""
    return extracted_set({name: value.strip() for name, value in dict(properties).items()}, allowed)


@instead_of(batching, "extracted_set", clause="pip191.extract.exact")
def trims_names(extracted_set, properties, allowed):
    """White space around names does not count."""
    return extracted_set({name.strip(): value for name, value in dict(properties).items()}, allowed)


@instead_of(batching, "extracted_set", clause="pip191.extract.exact")
def takes_empty_values_for_none(extracted_set, properties, allowed):
    """A property with an empty value is never extracted."""
    return extracted_set({name: value for name, value in dict(properties).items() if value}, allowed)


@instead_of(batching, "extracted_set", clause="pip191.extract.order")
def lets_the_order_of_properties_matter(extracted_set, properties, allowed):
    """Sets with the same pairs in another order are different sets."""
    found = extracted_set(properties, allowed)
    return tuple(sorted(found, key=lambda pair: list(dict(properties)).index(pair[0])))


# Headers


@instead_of(refimpl.client.entry, "write_header", clause="pip191.header.extracted-set")
def writes_batch_headers_without_properties(write_header, metadata, batch):
    """The header of a batch has no properties."""
    write_header(metadata, Batch(batch.items, (), batch.reason))


@instead_of(refimpl.client.entry, "write_header", clause="pip191.header.extracted-set")
def repeats_pairs_for_each_message(write_header, metadata, batch):
    """The header of a batch holds each pair as often as the batch has messages."""
    write_header(metadata, Batch(batch.items, (batch.header or ()) * len(batch.items), batch.reason))


@instead_of(refimpl.client.entry, "write_header", clause="pip191.header.extracted-set")
def writes_all_properties_of_a_message_alone(write_header, metadata, batch):
    """The header of a batch of one has all properties of its message."""
    alone = len(batch.items) == 1 and batch.header is not None
    properties = tuple(batch.items[0].message.properties.items()) if alone else batch.header
    write_header(metadata, Batch(batch.items, properties, batch.reason))


@instead_of(refimpl.client.entry, "write_header", clause="pip191.setting.empty-is-off")
def writes_properties_without_the_setting(write_header, metadata, batch):
    """Without the setting the header of a batch has the properties of its first message."""
    write_header(metadata, batch)
    if batch.header is None:
        first = batch.items[0].message.properties
        metadata.properties.extend(KeyValue(key=key, value=value) for key, value in first.items())


@in_place_of(UniformBatcher._against, clause="pip191.setting.empty-is-off")
def splits_batches_without_the_setting(against, batcher, extracted, size, kind):
    """Without the setting every message has a batch of its own."""
    return Reason.OTHER_SET if batcher._items and not batcher._allowed else against(batcher, extracted, size, kind)


@instead_of(refimpl.client.entry, "_single", clause="pip191.header.singles-keep-all")
def moves_properties_into_the_header(single, queued):
    """The messages of a batch have no properties: they are in the header."""
    found = single(queued)
    del found.metadata.properties[:]
    return found


@instead_of(refimpl.client.entry, "_properties", clause="pip191.header.unbatched-all")
def keeps_one_property_of_unbatched_messages(properties, message):
    """The header of a message that is sent alone has its first property only."""
    found = properties(message)
    return found if message.deliver_at is None else found[:1]


@instead_of(refimpl.client.unpack, "_message", clause="pip191.header.not-inherited")
def inherits_properties_of_the_header(message, message_id, topic, body, metadata, single, redelivery_count):
    """A message of a batch without properties of its own has those of the header."""
    if single is not None and not single.properties:
        single.properties.extend(metadata.properties)
    return message(message_id, topic, body, metadata, single, redelivery_count)


# The setting


def _checks_changed(patches, change):
    """Change a setting before the client checks it."""
    for module in (refimpl.client.options, refimpl.client.producer):
        patches.wrap(module, "allowed_values", lambda check: lambda setting: check(change(setting)))


@fault("pip191.setting.invalid")
def accepts_empty_names(patches):
    """A setting with an empty property name is accepted."""
    _checks_changed(patches, lambda setting: {name or "unnamed": values for name, values in setting.items()})


@fault("pip191.setting.invalid")
def takes_a_text_for_its_letters(patches):
    """A setting with one text in the place of a list is accepted as a list of its letters."""
    _checks_changed(patches, lambda setting: {name: list(values) for name, values in setting.items()})


@fault("pip191.setting.not-with-key-based")
def allows_batches_by_key(patches):
    """The setting and batches by key go together, and keys do not count."""
    patches.wrap(refimpl.client.options.ProducerOptions, "__post_init__", lambda check: lambda options: None)


@in_place_of(UniformBatcher.add, clause="pip191.trigger.delay")
def forgets_the_delay_of_a_batch_behind_another_set(add, batcher, *arguments, **options):
    """The delay of a batch that another set has begun is not set."""
    sent = add(batcher, *arguments, **options)
    if sent and len(batcher):
        batcher._deadline = None
    return sent


@in_place_of(UniformBatcher.add, clause="pip191.trigger.delay")
def waits_for_the_last_message(add, batcher, item, properties, size, now, **options):
    """The delay begins anew with each message of a batch."""
    sent = add(batcher, item, properties, size, now, **options)
    if len(batcher):
        batcher._deadline = now + batcher._delay
    return sent


@in_place_of(UniformBatcher.split, clause="pip191.trigger.octets")
def loses_half_of_a_large_batch(split, batcher, batch):
    """Of a batch that is too large only the first half is sent."""
    return split(batcher, batch)[:1]


@in_place_of(UniformBatcher.split, clause="pip191.header.extracted-set")
def writes_no_header_for_half_a_batch(split, batcher, batch):
    """The halves of a batch that is too large have no properties in their headers."""
    return [Batch(half.items, (), half.reason) for half in split(batcher, batch)]
