"""Brokers that go wrong with messages that are to be delivered later."""

from dataclasses import replace

from conformance.mutants.model import in_place_of, on_request
from refimpl.broker import Broker
from refimpl.broker.delayed import DelayedEntries
from refimpl.broker.non_persistent import NonPersistentSubscription
from refimpl.broker.subscription import Subscription, SubType
from refimpl.store import Entries


@in_place_of(DelayedEntries.keep, clause=("core.delay.held", "core.delay.kept", "core.delay.permits"))
def delays_nothing(*_):
    """Every message is delivered at once, whatever its time."""
    return False


@in_place_of(DelayedEntries.keep, clause=("core.delay.held", "core.delay.kept"))
def delivers_two_seconds_early(keep, delayed, index, deliver_at, until):
    """A message comes 2 s before its time, in addition to the tick."""
    return keep(delayed, index, deliver_at - 2000, until)


@in_place_of(Subscription._await_delayed, clause=("core.delay.held", "core.delay.order", "core.delay.kept"))
def looks_at_delayed_messages_only_when_something_happens(*_):
    """No timer: a message whose time has come waits for the next message or FLOW."""


@in_place_of(Subscription._next, clause="core.delay.others-pass")
def holds_everything_behind_a_delayed_message(following, subscription, broker, *, unread=True):
    """While a message waits for its time, so do all that were published later."""
    if subscription.type == SubType.Shared and (subscription.delayed.next_time or 0) > broker.delivered_until:
        return None
    return following(subscription, broker, unread=unread)


@in_place_of(Subscription._next, clause=("core.delay.held", "core.delay.order"))
def delays_nothing_that_has_its_consumer_by_key(following, subscription, broker, *, unread=True):
    """Shared subscriptions wait for the time of a message, Key_Shared ones do not."""
    known = subscription.type
    subscription.type = SubType.Exclusive if known == SubType.Key_Shared else known
    try:
        return following(subscription, broker, unread=unread)
    finally:
        subscription.type = known


@in_place_of(Subscription._next, clause="core.delay.shared-only")
def delays_for_all_types(following, subscription, broker, *, unread=True):
    """Exclusive and Failover subscriptions wait for the time of a message, too."""
    known, subscription.type = subscription.type, SubType.Shared
    try:
        return following(subscription, broker, unread=unread)
    finally:
        subscription.type = known


@in_place_of(DelayedEntries.keep, clause="core.delay.past")
def takes_a_time_of_the_past_for_a_span(keep, delayed, index, deliver_at, until):
    """A time that is not in the future is added to the time of today."""
    return keep(delayed, index, deliver_at if deliver_at in (0, -1) or deliver_at > until else until + 3_600_000, until)


@in_place_of(DelayedEntries.keep, clause="core.delay.order")
def delivers_delayed_messages_in_the_order_of_publication(keep, delayed, index, deliver_at, until):
    """A message waits as long as those that were published before it."""
    return keep(delayed, index, max([deliver_at, *(time for time, _ in delayed._heap)]), until)


@in_place_of(Subscription._next, clause="core.delay.permits")
def takes_a_permit_for_a_message_that_waits(following, subscription, broker, *, unread=True):
    """A consumer pays for a delayed message twice: when it is put off, and when it comes."""
    before = len(subscription.delayed)
    found = following(subscription, broker, unread=unread)
    subscription.consumers[0].permits -= max(0, len(subscription.delayed) - before)
    return found


@in_place_of(Subscription.remove, clause="core.delay.kept")
def forgets_delayed_messages_with_the_last_consumer(remove, subscription, consumer):
    """When the last consumer leaves, the messages that wait for their time are forgotten."""
    remove(subscription, consumer)
    if not subscription.consumers:
        subscription.delayed.clear()


def _ends_delays(entries: Entries) -> None:
    entries._kept[:] = [replace(one, deliver_at=0) for one in entries._kept]


@in_place_of(Broker.unload, clause="core.delay.kept")
def forgets_delays_with_an_unload(unload, broker, name):
    """A topic that is loaded again delivers all its messages at once."""
    if name.full in broker._topics:
        _ends_delays(broker._topics[name.full].entries)
    unload(broker, name)


@on_request("redeliverUnacknowledgedMessages", clause="core.delay.again")
def delays_what_comes_again(carry_out, session, request):
    """A delayed message that is asked for again waits a minute."""
    if request.consumer_id in session.consumers:
        entries = session.consumers[request.consumer_id].subscription.topic.entries
        until = session.broker.delivered_until + 60_000
        entries._kept[:] = [replace(one, deliver_at=until) if one.deliver_at else one for one in entries._kept]
    carry_out()


@in_place_of(NonPersistentSubscription.offer, clause="core.delay.non-persistent")
def drops_delayed_messages_of_non_persistent_topics(offer, subscription, entry):
    """A message with a deliver_at_time in the future is not delivered by a non-persistent topic."""
    if not subscription.consumers or entry.deliver_at <= subscription.consumers[0].session.broker.delivered_until:
        offer(subscription, entry)


@in_place_of(Subscription.skip, clause="core.admin.skip")
def does_not_skip_what_waits(skip, subscription, count):
    """Skipping messages passes over those that wait for their time."""
    waiting = {index for _, index in subscription.delayed._heap}
    for index in [one for one in list(subscription.unacknowledged())[:count] if one not in waiting]:
        subscription.cursor.acknowledge(index)
