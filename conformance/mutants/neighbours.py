"""Brokers that confuse what is alike: ids of two connections, names, partitions, and what is there with what was there before."""

import re
from dataclasses import replace
from urllib.parse import unquote

from conformance.mutants.model import in_place_of, mutant, on_incoming, on_request
from refimpl.broker.access_modes import ProducerAccess
from refimpl.broker.deduplication import is_duplicate
from refimpl.broker.names import parse_topic
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import CommandProducer, CommandSubscribe, ProducerAccessMode, ProducerBusy

# Ids


@mutant("core.request.ids-per-connection")
def finds_consumers_of_all_connections(patches):
    """A command for a consumer that its connection does not have concerns the one of that id on another connection."""

    def make(handler):
        def changed(session, request, frame):
            other = next((one for one in session.broker.sessions if request.consumer_id in one.consumers), session)
            if request.consumer_id in session.consumers or other is session:
                handler(session, request, frame)
                return
            session.consumers[request.consumer_id] = other.consumers[request.consumer_id]
            handler(session, request, frame)
            session.consumers.pop(request.consumer_id, None)

        return changed

    for command in ("flow", "ack", "redeliverUnacknowledgedMessages", "seek"):
        patches.request(command, make)


@in_place_of(is_duplicate, clause="core.policy.deduplication")
def goes_on_with_the_sequence_of_a_producer_id(is_duplicate, producer, request, metadata):
    """A producer goes on with the last sequence id of the one that had its producer_id before, whatever its name was."""
    last, key = producer.session.__dict__.setdefault("last_by_faults", {}), (producer.topic.name.full, producer.producer_id)
    sequences = producer.topic.stored.sequences
    if last.get(key, -1) > sequences.get(producer.name, -1):
        sequences[producer.name] = last[key]
    duplicate = is_duplicate(producer, request, metadata)
    last[key] = sequences.get(producer.name, -1)
    return duplicate


# Names


@on_incoming(CommandSubscribe, clause="core.ack.own-subscription")
def ends_names_of_subscriptions_at_a_nul(_, request):
    """The name of a subscription ends before its first NUL."""
    request.subscription = request.subscription.split("\0")[0]


@mutant("core.ack.own-subscription")
def decodes_names_of_topics(patches):
    """An escape in the name of a topic stands for the character that it is for in URLs."""

    def decode(_, request):
        request.topic = unquote(request.topic)

    for command in (CommandProducer, CommandSubscribe):
        patches.incoming(command, decode)


@in_place_of(parse_topic, clause="core.deliver.partition-index")
def finds_a_partition_inside_of_a_name(parse, text):
    """A topic whose name goes on after the suffix of a partition has the index of the partition."""
    name, found = parse(text), re.search(r"-partition-([0-9]+)-", text)
    return replace(name, partition=int(found[1])) if found else name


@on_request("producer", clause="core.producer.repeated")
def renames_a_repeated_producer(carry_out, session, request):
    """A repeated PRODUCER gives its producer the name that it asks for."""
    found = session.producers.get(request.producer_id)
    if found is not None and request.producer_name:
        found.topic.producers.pop(found.name, None)
        found.name = request.producer_name
        found.topic.producers[found.name] = found
    carry_out()


# What was there before


@on_incoming(CommandSubscribe, clause="core.subscribe.reader-start")
def begins_a_reader_behind_the_batch_that_it_names(_, request):
    """A reader that names a later message than the first one of a batch begins with the entry behind it."""
    if request.HasField("start_message_id") and request.start_message_id.batch_index > 0:
        request.start_message_id.entryId += 1


@on_incoming(CommandProducer, clause="core.producer.initial-subscription")
def makes_no_subscription_with_a_new_topic(session, request):
    """A PRODUCER that creates its topic does not create the subscription that it names."""
    if not session.broker.exists(session.broker.topic_name(request.topic)):
        request.ClearField("initial_subscription_name")


@mutant("core.access.waiting-leaves")
def keeps_topics_for_producers_that_waited(patches):
    """After a producer that waited is gone, no shared one is let in any more."""

    def left(original):
        def changed(access, producer):
            access.kept_by_faults = getattr(access, "kept_by_faults", False) or producer in access.waiting
            return original(access, producer)

        return changed

    def check(original):
        def changed(access, producer):
            if producer.access_mode == ProducerAccessMode.Shared and getattr(access, "kept_by_faults", False):
                raise Refused(ProducerBusy, "A producer waits")
            original(access, producer)

        return changed

    patches.wrap(ProducerAccess, "left", left)
    patches.wrap(ProducerAccess, "check", check)


@in_place_of(ProducerAccess.enter, clause="core.access.fencing")
def fences_no_producer_of_its_own_connection(enter, access, producer):
    """A producer that fences leaves those of its own connection in the topic."""
    own = {name: one for name, one in access._topic.producers.items() if one.session is producer.session}
    if producer.access_mode != ProducerAccessMode.ExclusiveWithFencing:
        return enter(access, producer)
    for name in own:
        del access._topic.producers[name]
    entered = enter(access, producer)
    access._topic.producers.update(own)
    return entered
