"""Clients with a fault in PR 7629: filters of consumers, and batches of which some messages are acknowledged."""

import refimpl.client.consumer
from conformance.clients.faults.model import in_place_of, instead_of, on_incoming, on_outgoing
from refimpl.client.consumer import Consumer
from refimpl.proposals.message_filter import EntryOutcome
from refimpl.proposals.message_filter.client import ConsumerFilter, MessageFilterState
from refimpl.wire.pulsar_api_pb2 import CommandAck, CommandMessage, CommandSubscribe, FeatureFlags


@instead_of(refimpl.client.consumer, "open_messages", clause="pr7629.client.ack-set")
def ignores_the_ack_set(open_messages, ack_set, batch_size):
    """The user gets all messages of a batch, whatever ack_set says."""
    return (1 << batch_size) - 1


@instead_of(refimpl.client.consumer, "open_messages", clause="pr7629.client.ack-set")
def reads_the_ack_set_inverted(open_messages, ack_set, batch_size):
    """A set bit of ack_set is taken for an acknowledged message."""
    everything = (1 << batch_size) - 1
    return everything & ~open_messages(ack_set, batch_size) if ack_set else everything


@instead_of(refimpl.client.consumer, "open_messages", clause="pr7629.client.ack-set")
def reads_the_ack_set_backwards(open_messages, ack_set, batch_size):
    """The first bit of ack_set is taken for the last message."""
    return int(f"{open_messages(ack_set, batch_size):0{batch_size}b}"[::-1], 2)


@in_place_of(ConsumerFilter.connected, clause="pr7629.client.each-connection")
def remembers_the_first_broker(connected, own, flags):
    """The flag of the first connection counts for all later ones."""
    own.first = getattr(own, "first", flags)
    connected(own, own.first)


@in_place_of(ConsumerFilter.connected, clause="pr7629.client.needs-flag")
def sends_filters_to_any_broker(connected, own, flags):
    """The client sends its filter without asking for the feature flag."""
    connected(own, FeatureFlags(supports_message_filter=True))


@in_place_of(ConsumerFilter.connected, clause=("pr7629.client.needs-flag", "pr7629.client.each-connection"))
def sends_filters_to_brokers_without_flags(connected, own, flags):
    """A broker that sends no feature flags at all is taken for one that filters."""
    connected(own, flags if flags.ListFields() else FeatureFlags(supports_message_filter=True))


@in_place_of(ConsumerFilter.prepare, clause="pr7629.client.needs-flag")
def subscribes_without_its_filter(prepare, own, request, schemas=None):
    """A broker without the flag gets a SUBSCRIBE without the filter."""
    if own.state is not MessageFilterState.REFUSED:
        prepare(own, request, schemas)


@in_place_of(ConsumerFilter.prepare, clause="pr7629.client.filters-itself")
def sends_the_filter_and_filters(prepare, own, request, schemas=None):
    """A client that filters by itself sends its filter, too."""
    prepare(own, request, schemas)
    request.filter_meta.CopyFrom(own.policy.filter_meta())


@in_place_of(ConsumerFilter.judge, clause="pr7629.client.filters-itself")
def lets_everything_pass(judge, own, data, open_messages=None):
    """The client's own filter lets every message pass."""


@on_outgoing(CommandAck, clause="pr7629.client.own-acks")
def keeps_what_it_rejects(connection, ack):
    """The client does not acknowledge what its own filter rejects."""
    return False


@in_place_of(Consumer._return, clause="pr7629.client.own-acks")
def keeps_the_permits_of_what_it_rejects(give_back, consumer, count):
    """Permits for messages that the client's own filter rejects are lost."""
    if consumer._filtering is None:
        give_back(consumer, count)


@in_place_of(Consumer._still_open, clause="pr7629.client.own-acks")
def keeps_the_permits_of_what_it_rejects_in_part(still_open, consumer, frame, messages, judgement=None):
    """Of a batch of which some messages fit, permits are given again only for these."""
    wanted = still_open(consumer, frame, messages, judgement)
    if judgement is not None and judgement.outcome is EntryOutcome.PARTIAL:
        consumer._permits.returned -= len(messages) - len(wanted)
    return wanted


@on_outgoing(CommandSubscribe, clause="pr7629.client.sends-meta")
def sends_the_class_name_only(connection, request):
    """The filter in SUBSCRIBE has no properties."""
    del request.filter_meta.filter_properties[:]


@on_outgoing(CommandSubscribe, clause="pr7629.client.sends-meta")
def sends_the_filter_once(connection, request):
    """The filter is in the first SUBSCRIBE only."""
    if request.request_id > 3:
        request.ClearField("filter_meta")


@on_incoming(CommandMessage, clause="pr7629.client.ack-set")
def waits_for_whole_batches(connection, message):
    """A batch of which some messages are acknowledged is dropped."""
    return not message.ack_set


@in_place_of(Consumer._unpack, clause="pr7629.client.own-acks")
def acknowledges_what_it_rejects_cumulatively(unpack, consumer, frame):
    """The acknowledgement of a rejected entry counts for all before it."""
    acknowledge = consumer._acknowledge
    consumer._acknowledge = lambda kind, message_id, error=None: acknowledge(CommandAck.Cumulative, message_id, error)
    unpack(consumer, frame)
    del consumer._acknowledge


@on_outgoing(CommandSubscribe, clause="pr7629.client.sends-meta")
def takes_a_filter_without_properties_for_none(connection, request):
    """A filter without properties is not sent."""
    if not request.filter_meta.filter_properties:
        request.ClearField("filter_meta")


@on_outgoing(CommandSubscribe, clause="pr7629.client.sends-meta")
def leaves_empty_properties_out(connection, request):
    """A property of a filter whose value is empty is not sent."""
    if request.HasField("filter_meta"):
        kept = [one for one in request.filter_meta.filter_properties if one.value]
        del request.filter_meta.filter_properties[:]
        request.filter_meta.filter_properties.extend(kept)


@in_place_of(Consumer._message, clause="pr7629.client.own-order")
def lets_others_overtake(message, consumer, frame):
    """What can be judged at once does not wait for a message whose schema is asked for."""
    if consumer._held and consumer._filtering.missing(frame) is None:
        consumer._permits.entries += 1
        consumer._unpack(frame)
    else:
        message(consumer, frame)


@in_place_of(Consumer._judge_held, clause="pr7629.client.own-order")
async def turns_round_what_has_waited(judge_held, consumer, connection):
    """Of the messages that have waited for a schema the last one comes first."""
    version = consumer._filtering.missing(consumer._held[0])
    if version is not None:
        await consumer._filtering.learn(connection, version)
    consumer._held.reverse()
    await judge_held(consumer, connection)
