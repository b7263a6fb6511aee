"""Brokers that go wrong with the access modes of producers."""

from conformance.mutants.model import in_place_of, mutant, on_incoming, on_request
from refimpl.broker import Broker, Session
from refimpl.broker.access_modes import ProducerAccess
from refimpl.broker.topic import Topic
from refimpl.wire.pulsar_api_pb2 import CommandProducer, ProducerAccessMode


@in_place_of(ProducerAccess.check, clause="core.access.exclusive-refused")
def lets_exclusive_producers_join_shared_ones(check, access, producer):
    """An exclusive producer is refused only where another one has the topic alone."""
    if any(one.access_mode != ProducerAccessMode.Shared for one in access._topic.producers.values()) or access.waiting:
        check(access, producer)


@in_place_of(ProducerAccess._fence, clause="core.access.fencing")
def fences_exclusive_producers_only(fence, access):
    """Shared producers go on beside the one that fences."""
    if any(one.access_mode != ProducerAccessMode.Shared for one in access._topic.producers.values()):
        fence(access)


@mutant("core.access.fencing")
def lets_fenced_producers_send(patches):
    """A producer that was thrown out of its topic can still send."""

    def fence(access):
        access._topic.producers.clear()

    patches.function(ProducerAccess._fence, fence)


@in_place_of(Topic.remove_producer, clause="core.access.wait")
def serves_the_last_that_waits(remove_producer, topic, producer):
    """Of several producers that wait, the one that came last gets the topic."""
    topic.access.waiting.reverse()
    remove_producer(topic, producer)
    topic.access.waiting.reverse()


@in_place_of(ProducerAccess.enter, clause="core.access.wait")
def waits_for_exclusive_producers_only(enter, access, producer):
    """A producer that would wait for shared producers is let in beside them."""
    if any(one.access_mode != ProducerAccessMode.Shared for one in access._topic.producers.values()):
        return enter(access, producer)
    waiting, access.waiting = access.waiting, []
    producers, access._topic.producers = access._topic.producers, {}
    try:
        return enter(access, producer)
    finally:
        access.waiting, access._topic.producers = waiting, producers


@in_place_of(ProducerAccess.check, clause="core.access.waiting-keeps-out")
def lets_others_overtake_those_that_wait(check, access, producer):
    """Shared producers join shared ones, though one waits until they have left."""
    waiting, access.waiting = access.waiting, []
    check(access, producer)
    access.waiting = waiting


@in_place_of(ProducerAccess.left, clause="core.access.waiting-leaves")
def gives_topics_to_producers_that_are_gone(left, access, producer):
    """A producer that waited and is gone gets its turn nevertheless, and keeps the topic."""
    return None if producer in access.waiting else left(access, producer)


@on_request("send", clause="core.access.waiting-sends")
def stores_what_producers_send_while_they_wait(carry_out, session, request):
    """A producer can send while it waits."""
    found = session.producers.get(request.producer_id)
    if found is None or found.ready:
        carry_out()
        return
    found.ready = True
    carry_out()
    found.ready = False


@in_place_of(Session.refuse, clause="core.access.waiting-fenced")
def forgets_to_tell_those_that_wait(refuse, session, request, refused):
    """A producer that waits is thrown out without a word."""
    if refused.message != "Fenced out":
        refuse(session, request, refused)


@in_place_of(Broker.close_producers, clause="core.access.waiting-unloaded")
def forgets_who_waits_with_an_unload(close_producers, broker, topic):
    """An unload closes the producers of a topic, and leaves those that wait without a word."""
    topic.access.waiting.clear()
    close_producers(broker, topic)


@on_incoming(CommandProducer, clause="core.access.epoch")
def ignores_the_epochs_of_producers(_, request):
    """PRODUCER gets a new epoch, whichever it brings."""
    request.ClearField("topic_epoch")


@in_place_of(ProducerAccess._take_epoch, clause="core.access.epoch")
def refuses_all_epochs_that_are_not_new(take_epoch, access, producer):
    """A producer that brings the topic's own epoch is refused, too."""
    if producer.topic_epoch is not None and producer.topic_epoch == access._topic.stored.epoch:
        producer.topic_epoch -= 1
    take_epoch(access, producer)


@in_place_of(ProducerAccess.left, clause="core.producer.topic-epoch")
def counts_no_epoch_for_a_turn(left, access, producer):
    """A producer that has waited has the epoch of the one before it."""
    epoch = access._topic.stored.epoch
    following = left(access, producer)
    access._topic.stored.epoch = epoch
    return following


@in_place_of(ProducerAccess.enter, clause="core.producer.topic-epoch")
def counts_no_epoch_for_who_fences(enter, access, producer):
    """A producer that fences has the epoch of the one that it throws out."""
    epoch = access._topic.stored.epoch
    entered = enter(access, producer)
    if producer.access_mode == ProducerAccessMode.ExclusiveWithFencing and producer.topic_epoch is None:
        access._topic.stored.epoch = epoch or 0
    return entered
