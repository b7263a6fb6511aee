"""Clients with a fault in PIP-247 and in PR 25648: what comes while something is under way, what comes back, and what fails."""

from conformance.clients.faults.model import fault, in_place_of
from refimpl.client.attached import Attached
from refimpl.client.scalable_consumer import NamespaceConsumer, ScalableConsumer
from refimpl.client.segment_lookup import SegmentLookup
from refimpl.proposals.partition_watch.client import PartitionWatch, PartitionWatchSend, PartitionWatchState
from refimpl.proposals.scalable_topics.client import ScalableTopicsEvent, ScalableTopicsState, ScalableTopicsWatch
from refimpl.wire.pulsar_api_pb2 import FeatureFlags, NotAllowedError


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


@in_place_of(PartitionWatch._error, clause="pip247.client.other-broker")
def is_refused_for_good(failed, watch, error, now):
    """A watch request that was refused is made on no later connection either."""
    if error.request_id == watch._watch_request and error.error == NotAllowedError:
        watch._enabled = False
    failed(watch, error, now)


@fault("pip247.client.no-poll-beside-watch")
def polls_on_beside_its_watcher(patches):
    """A client that has begun to poll goes on, also when it has a watcher."""

    def deadline(next_deadline):
        def changed(watch):
            polls = [watch._beside] if watch.state is PartitionWatchState.WATCHING and hasattr(watch, "_beside") else []
            return min((when for when in [next_deadline(watch), *polls] if when is not None), default=None)

        return changed

    def tick(original):
        def changed(watch, now):
            if watch.state in (PartitionWatchState.POLLING, PartitionWatchState.WAITING) and watch._poll_due is not None:
                watch._beside = watch._poll_due + watch._poll_interval
            elif watch.state is PartitionWatchState.WATCHING and getattr(watch, "_beside", now + 1) <= now:
                watch._beside = now + watch._poll_interval
                watch._outbox.append(PartitionWatchSend.POLL)
            original(watch, now)

        return changed

    patches.wrap(PartitionWatch, "next_deadline", deadline)
    patches.wrap(PartitionWatch, "tick", tick)


@in_place_of(ScalableConsumer._apply_segments, clause="pr25648.layout.client-meanwhile")
def drops_layouts_while_it_attaches(apply, consumer, topic, segments):
    """A layout that comes while the consumers of the segments are attached is dropped."""
    if not segments or all(attaching.done for attaching in consumer._segments.get(topic, {}).values()):
        apply(consumer, topic, segments)


@fault("pr25648.client.attaches-again")
def gives_topics_of_a_set_up(patches):
    """A topic of the set whose look-up fails is never looked up again."""

    def gives_up(original):
        return lambda one, error, give_up_at: isinstance(one, SegmentLookup) or original(one, error, give_up_at)

    patches.wrap(Attached, "_gives_up", gives_up)
    patches.wrap(NamespaceConsumer, "_attach_missing", lambda _: lambda consumer: None)


@in_place_of(ScalableTopicsWatch.connected, clause="pr25648.client.needs-flag")
def reads_the_flag_of_its_first_broker(connected, watch, flags, now):
    """Whether the broker has scalable topics is read once."""
    watch.first_flags = getattr(watch, "first_flags", flags)
    connected(watch, watch.first_flags, now)


@in_place_of(ScalableTopicsWatch._new_deadline, clause="pr25648.client.error-retried")
def asks_again_after_one_error_only(new_deadline, watch, event, now):
    """The second error of a watch ends it."""
    if event is ScalableTopicsEvent.ERROR:
        watch.errors = getattr(watch, "errors", 0) + 1
        if watch.errors > 1:
            return None
    return new_deadline(watch, event, now)


@fault("pr25648.client.late-listener")
def drops_changes_while_it_attaches(patches):
    """What changes before the client is attached to all topics of its first set changes its hash, and nothing else."""

    def opening(original):
        async def opened(consumer):
            await original(consumer)
            consumer.is_open = True

        return opened

    def following(original):
        def followed(consumer):
            if consumer._first.done and not hasattr(consumer, "is_open"):
                consumer.watch.take_changes()
            original(consumer)

        return followed

    patches.wrap(NamespaceConsumer, "open", opening)
    patches.wrap(NamespaceConsumer, "_follow", following)


@fault("pr25648.client.silence")
def takes_silence_for_a_loss(patches):
    """A watch that comes back with its hash and hears nothing within the operation time-out is closed and opened again."""

    def deadline(new_deadline):
        def changed(watch, event, now):
            waits = watch.state is ScalableTopicsState.WATCHING and event is ScalableTopicsEvent.CONNECTED
            return now + watch._timeout if waits else new_deadline(watch, event, now)

        return changed

    def tick(due):
        def changed(watch, now):
            if watch.state is ScalableTopicsState.WATCHING:
                watch.disconnected(now)
            else:
                due(watch, now)

        return changed

    patches.wrap(ScalableTopicsWatch, "_new_deadline", deadline)
    patches.wrap(ScalableTopicsWatch, "_due", tick)


@in_place_of(ScalableTopicsWatch.connected, clause="pr25648.client.needs-flag")
def asks_brokers_without_flags_for_scalable_topics(connected, watch, flags, now):
    """A broker that sends no feature flags at all is sent watch requests."""
    connected(watch, flags if flags.ListFields() else FeatureFlags(supports_scalable_topics=True), now)


@in_place_of(PartitionWatch.connected, clause="pip247.client.needs-flag")
def asks_brokers_without_flags_for_partitions(connected, watch, flags, now):
    """A broker that sends no feature flags at all is sent watch requests."""
    connected(watch, flags if flags.ListFields() else FeatureFlags(supports_partition_update_watchers=True), now)
