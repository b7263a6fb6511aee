"""Brokers that watch numbers of partitions wrongly (PIP-247): what they tell, to whom, with which version, and how often."""

from conformance.mutants.model import in_place_of, mutant, on_incoming, on_request
from refimpl.broker import Broker
from refimpl.names import namespace_of, partitioned_topic_name
from refimpl.proposals.partition_watch.broker import Delivery, PartitionWatchBroker, PartitionWatchExtension
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    CommandPartitionUpdate,
    CommandPartitionUpdateResult,
    CommandWatchPartitionUpdate,
    CommandWatchPartitionUpdateClose,
    CommandWatchPartitionUpdateSuccess,
    NotAllowedError,
)

Watch = CommandWatchPartitionUpdate
Success = CommandWatchPartitionUpdateSuccess
Update = CommandPartitionUpdate


def drop(watches, connection, watcher_id):
    """End a watcher."""
    watches.__class__.close(watches, connection, CommandWatchPartitionUpdateClose(request_id=0, watcher_id=watcher_id))


# Flags and refusals


@in_place_of(PartitionWatchBroker.watch, clause="pip247.watch.unauthorized")
def looks_at_the_permission_for_the_first_topic(watch, watches, session, request):
    """Whoever may look up the first topic of a watch request may watch them all."""
    may, first = watches._may_watch, list(map(session.broker.topic_name, request.topics[:1]))
    watches._may_watch = lambda connection, _: all(may(connection, name.full) for name in first)
    try:
        return watch(watches, session, request)
    finally:
        watches._may_watch = may


@mutant("pip247.watch.reconnect")
def remembers_the_counts_that_it_told(patches):
    """A new watcher begins with the counts that an earlier one of the topic was told last."""
    told = {}

    def change(session, message):
        known = told.setdefault(session.broker, {})
        for one in message.topic_with_partition:
            one.partition = known.setdefault(one.topic, one.partition)

    def remember(session, message):
        told.setdefault(session.broker, {}).update({one.topic: one.partition for one in message.topic_with_partition})

    patches.outgoing(Update, remember)
    patches.outgoing(Success, change)


@in_place_of(PartitionWatchExtension.partitions_changed, clause="pip247.flag.nothing-unasked")
def tells_every_connection_of_growth(partitions_changed, extension, topic):
    """A growth is told to every connection, watchers or none."""
    partitions_changed(extension, topic)
    for session in extension.host.sessions:
        if not extension.watches.watcher_count(session):
            session.send(Update(version=1, watcher_id=0))


@on_request("watchPartitionUpdate", clause="pip247.watch.nothing-after-error")
def watches_the_first_topic_of_a_refused_request(carry_out, session, request):
    """Of a watch request that is refused the first topic is watched all the same."""
    try:
        carry_out()
    except Refused:
        first = Watch(request_id=0, watcher_id=request.watcher_id, topics=request.topics[:1])
        session.broker.extension(PartitionWatchExtension).watches.watch(session, first)
        raise


# Answers


@in_place_of(Broker.partition_count, clause="pip247.watch.count")
def gives_a_partition_the_count_of_its_topic(count, broker, topic):
    """A topic that is a partition has the count of the partitioned topic."""
    return count(broker, partitioned_topic_name(topic))


@on_request("watchPartitionUpdate", clause="pip247.watch.creates-nothing")
def creates_what_is_watched(carry_out, session, request):
    """Where topics are created with partitions, a watch request creates the missing topics that it names."""
    broker = session.broker
    for name in map(broker.topic_name, request.topics):
        if name.namespace in broker.store.namespaces and not broker.partitions(name) and not broker.exists(name):
            broker.create_by_default(name)
    carry_out()


@in_place_of(Broker.partition_count, clause="pip247.watch.domains")
def counts_persistent_topics_only(count, broker, topic):
    """Non-persistent topics have no partitions for a watcher."""
    return count(broker, topic) if topic.startswith("persistent:") else 0


@on_request("watchPartitionUpdate", clause="pip247.watch.names-echoed")
def spells_names_out(carry_out, session, request):
    """Topics are named in full."""
    request.topics[:] = [session.broker.topic_name(topic).full for topic in request.topics]
    carry_out()


@on_incoming(Watch, clause="pip247.watch.order")
def sorts_the_topics_of_a_watcher(_, request):
    """A watcher has its topics in the order of the alphabet."""
    request.topics.sort()


@in_place_of(PartitionWatchBroker.watch, clause="pip247.watch.listener-first")
def listens_a_moment_later(watch, watches, session, request):
    """A change within ten milliseconds after a watch request is not told."""
    changed, begun = watches.changed, session.broker.now
    watches.changed = lambda topic, now: changed(topic, now) if now == begun or now > begun + 0.01 else []
    return watch(watches, session, request)


# Whose


@in_place_of(PartitionWatchBroker.result, clause="pip247.watch.independent")
def settles_all_watchers_of_a_connection_at_once(result, watches, session, told, now):
    """A successful result settles what is in flight for every watcher of its connection."""
    for watcher_id, watcher in watches._watchers.get(session, {}).items():
        if told.success and watcher.in_flight is not None and watcher_id != told.watcher_id:
            result(watches, session, CommandPartitionUpdateResult(watcher_id=watcher_id, version=watcher.in_flight, success=True), now)
    return result(watches, session, told, now)


@in_place_of(PartitionWatchBroker.watch, clause="pip247.watch.repeat-replaces")
def adds_the_topics_of_a_repeated_request(watch, watches, session, request):
    """A repeated request adds its topics to those that its watcher has."""
    known = session.__dict__.setdefault("topics_by_faults", {}).setdefault(request.watcher_id, [])
    known.extend(topic for topic in request.topics if topic not in known)
    return watch(watches, session, Watch(request_id=request.request_id, watcher_id=request.watcher_id, topics=known))


@in_place_of(PartitionWatchBroker.watch, clause="pip247.watch.repeat-clears")
def keeps_an_update_in_flight_across_a_repeated_request(watch, watches, session, request):
    """What is in flight when a watch request is repeated stays so."""
    old = watches._watchers.get(session, {}).get(request.watcher_id)
    answer = watch(watches, session, request)
    if old is not None and old.in_flight is not None:
        watcher = watches._watchers[session][request.watcher_id]
        watcher.delivery = old.delivery
        watches._wake(watcher, session.broker.now + watches._result_timeout)
    return answer


@in_place_of(PartitionWatchBroker.watch, clause="pip247.watch.repeat-refused")
def forgets_the_last_update_when_it_refuses(watch, watches, session, request):
    """A refused request with the id of a watcher ends the resending of its last update."""
    try:
        return watch(watches, session, request)
    except Refused:
        watcher = watches._watchers.find(session, request.watcher_id)
        if watcher is not None:
            watcher.delivery, watcher.deadline = Delivery.SETTLED, None
        raise


@in_place_of(PartitionWatchBroker.watch, clause="pip247.watch.repeat-version")
def starts_versions_again_for_a_repeated_request(watch, watches, session, request):
    """After a repeated request the next update has version 1."""
    drop(watches, session, request.watcher_id)
    return watch(watches, session, request)


# Closing


@in_place_of(PartitionWatchBroker.close, clause="pip247.close.answer")
def refuses_to_close_while_switched_off(close, watches, session, request):
    """With notifications switched off a close is refused with NotAllowedError."""
    if not session.broker.configuration.enable_notification_for_partition_update:
        raise Refused(NotAllowedError, "Notifications are switched off")
    return close(watches, session, request)


@in_place_of(PartitionWatchBroker.close, clause="pip247.close.silence")
def forgets_to_cancel_a_retry(close, watches, session, request):
    """A close leaves the timer of an update that waits to be sent again."""
    watcher = watches._watchers.find(session, request.watcher_id)
    due = watcher.deadline if watcher is not None and watcher.delivery is Delivery.WAITING else None
    answer = close(watches, session, request)
    if due is not None:
        watcher.deadline = due
    return answer


@in_place_of(PartitionWatchBroker.close, clause="pip247.close.without-permission")
def lets_only_those_close_who_may_look_up(close, watches, session, request):
    """Closing a watcher needs the permission to look up its topics."""
    watcher = watches._watchers.get(session, {}).get(request.watcher_id)
    if watcher is not None and not all(session.broker.may_look_up(session, namespace_of(topic)) for topic in watcher.names):
        raise Refused(AuthorizationError, "Client is not authorized to close")
    return close(watches, session, request)


@mutant("pip247.version.per-watcher")
def counts_on_after_a_close(patches):
    """A watcher_id that is registered anew goes on with the versions that it had when it was closed."""
    close, watch = PartitionWatchBroker.close, PartitionWatchBroker.watch
    versions = {}

    def end(watches, session, request):
        watcher = watches._watchers.get(session, {}).get(request.watcher_id)
        versions[session, request.watcher_id] = watcher.version if watcher is not None else 0
        return close(watches, session, request)

    def begin(watches, session, request):
        answer = watch(watches, session, request)
        watcher = watches._watchers[session][request.watcher_id]
        watcher.version = versions.pop((session, request.watcher_id), watcher.version)
        return answer

    patches.replace(PartitionWatchBroker, "close", end)
    patches.replace(PartitionWatchBroker, "watch", begin)


@on_request("watchPartitionUpdate", clause="pip247.watch.duplicates")
def refuses_topics_that_are_named_twice(carry_out, session, request):
    """A watch request that names a topic twice is refused with NotAllowedError."""
    if len(set(request.topics)) < len(request.topics):
        raise Refused(NotAllowedError, "A topic is named twice")
    carry_out()


@on_request("watchPartitionUpdate", clause="pip247.watch.many-topics")
def watches_ten_thousand_topics_at_most(carry_out, session, request):
    """A watch request for more than 10,000 topics is refused with NotAllowedError."""
    if len(request.topics) > 10_000:
        raise Refused(NotAllowedError, "These are too many topics")
    carry_out()


@in_place_of(PartitionWatchBroker.watch, clause="pip247.watch.count")
def remembers_the_counts_of_deleted_topics(watch, watches, session, request):
    """The answer for a topic that is deleted has the count that was told of it last."""
    answer, known = watch(watches, session, request), watches.__dict__.setdefault("known_by_faults", {})
    for one in answer.topic_with_partition:
        one.partition = known[one.topic] = one.partition or known.get(one.topic, 0)
    return answer
