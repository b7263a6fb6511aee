"""Clients with a fault in PIP-247 and in PR 25648: what comes while something is under way, and what comes back."""

from conformance.clients.faults.model import in_place_of
from refimpl.client.scalable_consumer import NamespaceConsumer
from refimpl.proposals.partition_watch.client import PartitionWatch


@in_place_of(PartitionWatch._updated, clause="pip247.client.update-calls")
def drops_updates_while_its_listener_works(updated, watch, update):
    """An update that comes while the listener works is dropped."""
    if watch._running is None:
        updated(watch, update)


@in_place_of(NamespaceConsumer._remove, clause="pr25648.client.removed-first")
def does_not_come_back(remove, consumer, topic):
    """A scalable topic that was removed once is not attached to again."""
    remove(consumer, topic)
    add = consumer._add
    consumer._add = lambda name: None if name == topic else add(name)
