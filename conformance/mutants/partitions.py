"""Brokers that watch numbers of partitions wrongly (PIP-247): what they tell, to whom, with which version, and how often."""

from conformance.mutants.model import in_place_of, mutant, on_incoming, on_outgoing, on_request
from refimpl.broker import Broker, Session
from refimpl.names import namespace_of, partitioned_topic_name
from refimpl.proposals.partition_watch.broker import PartitionWatchBroker, PartitionWatchExtension
from refimpl.proposals.partition_watch.rules import largest_frame
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    CommandConnected,
    CommandPartitionUpdate,
    CommandPartitionUpdateResult,
    CommandSuccess,
    CommandWatchPartitionUpdate,
    CommandWatchPartitionUpdateClose,
    CommandWatchPartitionUpdateSuccess,
    MetadataError,
    NotAllowedError,
)

Watch = CommandWatchPartitionUpdate
Success = CommandWatchPartitionUpdateSuccess
Update = CommandPartitionUpdate


def drop(watches, connection, watcher_id):
    """End a watcher."""
    watches.__class__.close(watches, connection, CommandWatchPartitionUpdateClose(request_id=0, watcher_id=watcher_id))


# Flags and refusals


@on_outgoing(CommandConnected, clause="pip247.flag.whatever-client")
def hides_partition_watchers_from_older_clients(_, answer):
    """CONNECTED carries supports_partition_update_watchers only for a client of protocol version 20 or later."""
    answer.feature_flags.supports_partition_update_watchers &= answer.protocol_version >= 20


@in_place_of(PartitionWatchExtension.partitions_changed, clause="pip247.flag.nothing-unasked")
def tells_every_connection_of_growth(partitions_changed, extension, topic):
    """A growth is told to every connection, watchers or none."""
    partitions_changed(extension, topic)
    for session in extension.host.sessions:
        if not extension.watches.watcher_count(session):
            session.send(Update(version=1, watcher_id=0))


@in_place_of(largest_frame, clause="pip247.watch.too-large")
def registers_what_it_can_not_tell(largest, topics):
    """A watch request is accepted although an update for its topics does not fit into a frame."""
    return 0


@in_place_of(Broker.may_look_up, clause="pip247.watch.unauthorized")
def lets_everybody_watch_partitions(may_look_up, broker, connection, namespace):
    """Whoever asks may watch the partitions of a topic."""
    return True


@mutant("pip247.watch.permission-revoked")
def checks_permissions_once(patches):
    """Permissions are checked when a watcher is registered, and not when it is told something."""
    watch, changed = PartitionWatchBroker.watch, PartitionWatchBroker.changed
    checks = {}

    def begin(watches, connection, request):
        watches._may_watch = checks.setdefault(watches, watches._may_watch)
        return watch(watches, connection, request)

    def tell(watches, topic, now):
        checks.setdefault(watches, watches._may_watch)
        watches._may_watch = lambda *_: True
        return changed(watches, topic, now)

    patches.replace(PartitionWatchBroker, "watch", begin)
    patches.replace(PartitionWatchBroker, "changed", tell)


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


@on_outgoing(Success, clause="pip247.watch.success")
def answers_a_watch_with_the_lower_bits_of_its_id(_, answer):
    """A success carries the lower 31 bits of its request_id."""
    answer.request_id &= (1 << 31) - 1


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


@mutant("pip247.watch.success-first")
def takes_its_time_to_answer(patches):
    """A success is sent 20 ms after the counts were read, behind updates that come meanwhile."""
    send = Session.send

    def changed(session, message, payload=None):
        if isinstance(message, Success):
            session.broker.timers.at(session.broker.now + 0.02, lambda: send(session, message, payload))
        else:
            send(session, message, payload)

    patches.replace(Session, "send", changed)


@in_place_of(PartitionWatchBroker.watch, clause="pip247.watch.listener-first")
def listens_a_moment_later(watch, watches, session, request):
    """A change within ten milliseconds after a watch request is not told."""
    changed, begun = watches.changed, session.broker.now
    watches.changed = lambda topic, now: changed(topic, now) if now == begun or now > begun + 0.01 else []
    return watch(watches, session, request)


# Whose


@on_incoming(CommandWatchPartitionUpdateClose, clause="pip247.watch.id-per-connection")
def closes_partition_watchers_on_all_connections(session, request):
    """WATCH_PARTITION_UPDATE_CLOSE ends the watchers with its watcher_id on all connections."""
    for other in session.broker.sessions:
        drop(session.broker.extension(PartitionWatchExtension).watches, other, request.watcher_id)


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


@in_place_of(PartitionWatchBroker.watch, clause="pip247.watch.repeat-version")
def starts_versions_again_for_a_repeated_request(watch, watches, session, request):
    """After a repeated request the next update has version 1."""
    drop(watches, session, request.watcher_id)
    return watch(watches, session, request)


@in_place_of(PartitionWatchBroker.watch, clause="pip247.watch.repeat-refused")
def ends_a_watcher_whose_repetition_is_refused(watch, watches, session, request):
    """A repeated request that is refused ends its watcher."""
    try:
        return watch(watches, session, request)
    except Refused:
        drop(watches, session, request.watcher_id)
        raise


@mutant("pip247.watch.dropped-with-connection")
def hands_on_partition_watchers(patches):
    """The watchers of a connection that has ended pass to the next one that watches a topic of their namespace."""
    watch, disconnected = PartitionWatchBroker.watch, PartitionWatchBroker.disconnected
    requests, orphans = {}, []

    def end(watches, connection):
        orphans.extend(requests.pop(connection, ()))
        disconnected(watches, connection)

    def begin(watches, connection, request):
        namespaces = set(map(namespace_of, request.topics))
        for orphan in [one for one in orphans if namespaces & set(map(namespace_of, one.topics))]:
            orphans.remove(orphan)
            if orphan.watcher_id != request.watcher_id:
                watch(watches, connection, orphan)
        requests.setdefault(connection, []).append(request)
        return watch(watches, connection, request)

    patches.replace(PartitionWatchBroker, "disconnected", end)
    patches.replace(PartitionWatchBroker, "watch", begin)


@in_place_of(Broker.unload, clause="pip247.watch.survives-unload")
def unloads_partition_watchers_with_their_topics(unload, broker, name):
    """The watchers of all connections end when a topic is unloaded."""
    unload(broker, name)
    for session in broker.sessions:
        broker.extension(PartitionWatchExtension).watches.disconnected(session)


# Closing


@in_place_of(PartitionWatchBroker.close, clause="pip247.close.answer")
def refuses_to_close_while_switched_off(close, watches, session, request):
    """With notifications switched off a close is refused with NotAllowedError."""
    if not session.broker.configuration.enable_notification_for_partition_update:
        raise Refused(NotAllowedError, "Notifications are switched off")
    return close(watches, session, request)


@in_place_of(PartitionWatchBroker.close, clause="pip247.close.unknown")
def refuses_to_close_an_unknown_partition_watcher(close, watches, session, request):
    """Closing a watcher that does not exist is refused with MetadataError."""
    before = watches.watcher_count(session)
    answer = close(watches, session, request)
    if watches.watcher_count(session) == before:
        raise Refused(MetadataError, "there is no such watcher")
    return answer


@in_place_of(PartitionWatchBroker.close, clause="pip247.close.silence")
def answers_a_close_and_keeps_the_partition_watcher(close, watches, session, request):
    """A close is answered, and the watcher stays."""
    return CommandSuccess(request_id=request.request_id)


@in_place_of(PartitionWatchBroker.close, clause="pip247.close.only-that-one")
def closes_all_partition_watchers_of_the_connection(close, watches, session, request):
    """A close ends all watchers of its connection."""
    watches.disconnected(session)
    return close(watches, session, request)


@in_place_of(PartitionWatchBroker.close, clause="pip247.close.with-watch")
def overlooks_a_close_that_comes_with_its_watch(close, watches, session, request):
    """A close that comes before the answer to the watch request was sent is answered, and not carried out."""
    return CommandSuccess(request_id=request.request_id) if session.has_output else close(watches, session, request)


@in_place_of(PartitionWatchBroker.close, clause="pip247.close.without-permission")
def lets_only_those_close_who_may_look_up(close, watches, session, request):
    """Closing a watcher needs the permission to look up its topics."""
    watcher = watches._watchers.get(session, {}).get(request.watcher_id)
    if watcher is not None and not all(session.broker.may_look_up(session, namespace_of(topic)) for topic in watcher.names):
        raise Refused(AuthorizationError, "Client is not authorized to close")
    return close(watches, session, request)


@mutant("pip247.close.id-reusable")
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
