"""Brokers that mix up watchers of partition counts: those of one connection, of several, and repeated requests of one."""

from collections.abc import Hashable
from typing import Any

from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import partition_watches
from refimpl.broker import Session
from refimpl.broker.admin import Admin
from refimpl.names import namespace_of
from refimpl.proposals.partition_watch import Delivery, PartitionWatchBroker
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import (
    CommandPartitionUpdateResult,
    CommandSuccess,
    CommandWatchPartitionUpdate,
    CommandWatchPartitionUpdateClose,
    CommandWatchPartitionUpdateSuccess,
)

Watch = CommandWatchPartitionUpdate
Success = CommandWatchPartitionUpdateSuccess


@mutant("pip247.watch.id-per-connection")
def closes_partition_watchers_on_all_connections(patches: Patches) -> None:
    """WATCH_PARTITION_UPDATE_CLOSE ends the watchers with its watcher_id on all connections that share a topic."""
    close = PartitionWatchBroker.close

    def changed(watches: PartitionWatchBroker, session: Session, request: CommandWatchPartitionUpdateClose) -> CommandSuccess:
        closed = watches._watchers.get(session, {}).get(request.watcher_id)
        for topic in closed.names if closed is not None else ():
            for other in list(watches._by_topic[topic]):
                if other.watcher_id == request.watcher_id and other is not closed:
                    watches._drop(other)
        return close(watches, session, request)

    patches.replace(PartitionWatchBroker, "close", changed)


@mutant("pip247.watch.independent")
def settles_all_watchers_of_a_connection_at_once(patches: Patches) -> None:
    """A successful result settles what is in flight for every watcher of its connection."""
    result = PartitionWatchBroker.result

    def changed(watches: PartitionWatchBroker, session: Session, told: CommandPartitionUpdateResult, now: float) -> Any:
        answer = result(watches, session, told, now)
        for watcher_id, watcher in watches._watchers.get(session, {}).items():
            if told.success and watcher_id != told.watcher_id:
                watcher.delivery, watcher.deadline = Delivery.SETTLED, None
        return answer

    patches.replace(PartitionWatchBroker, "result", changed)


@mutant("pip247.watch.repeat-replaces")
def adds_the_topics_of_a_repeated_request(patches: Patches) -> None:
    """A repeated request adds its topics to those that its watcher has."""
    watch = PartitionWatchBroker.watch

    def changed(watches: PartitionWatchBroker, session: Session, request: Watch) -> Success:
        old = watches._watchers.get(session, {}).get(request.watcher_id)
        both = Watch(request_id=request.request_id, watcher_id=request.watcher_id)
        both.topics.extend([*(old.names.values() if old is not None else ()), *request.topics])
        return watch(watches, session, both)

    patches.replace(PartitionWatchBroker, "watch", changed)


@mutant("pip247.watch.repeat-clears")
def keeps_an_update_in_flight_across_a_repeated_request(patches: Patches) -> None:
    """What is in flight when a watch request is repeated stays so."""
    watch = PartitionWatchBroker.watch

    def changed(watches: PartitionWatchBroker, session: Session, request: Watch) -> Success:
        old = watches._watchers.get(session, {}).get(request.watcher_id)
        in_flight = old.in_flight if old is not None else None
        answer = watch(watches, session, request)
        if in_flight is not None:
            watcher = watches._watchers[session][request.watcher_id]
            watcher.delivery = Delivery.IN_FLIGHT
            watches._wake(watcher, session.broker.now + watches._result_timeout)
        return answer

    patches.replace(PartitionWatchBroker, "watch", changed)


@mutant("pip247.watch.repeat-version")
def starts_versions_again_for_a_repeated_request(patches: Patches) -> None:
    """After a repeated request the next update has version 1."""
    watch = PartitionWatchBroker.watch

    def changed(watches: PartitionWatchBroker, session: Session, request: Watch) -> Success:
        answer = watch(watches, session, request)
        watches._watchers[session][request.watcher_id].version = 0
        return answer

    patches.replace(PartitionWatchBroker, "watch", changed)


@mutant("pip247.watch.repeat-refused")
def ends_a_watcher_whose_repetition_is_refused(patches: Patches) -> None:
    """A repeated request that is refused ends its watcher."""
    watch = PartitionWatchBroker.watch

    def changed(watches: PartitionWatchBroker, session: Session, request: Watch) -> Success:
        try:
            return watch(watches, session, request)
        except Refused:
            old = watches._watchers.get(session, {}).get(request.watcher_id)
            if old is not None:
                watches._drop(old)
            raise

    patches.replace(PartitionWatchBroker, "watch", changed)


@mutant("pip247.watch.dropped-with-connection")
def hands_on_partition_watchers(patches: Patches) -> None:
    """The watchers of a connection that has ended pass to the next one that watches a topic of their namespace."""
    watch, disconnected = PartitionWatchBroker.watch, PartitionWatchBroker.disconnected
    orphans: list[Watch] = []

    def end(watches: PartitionWatchBroker, connection: Hashable) -> None:
        for watcher in watches._watchers.get(connection, {}).values():
            orphans.append(Watch(request_id=0, watcher_id=watcher.watcher_id, topics=watcher.names))
        disconnected(watches, connection)

    def changed(watches: PartitionWatchBroker, session: Session, request: Watch) -> Success:
        answer = watch(watches, session, request)
        namespaces = {namespace_of(topic) for topic in watches._watchers[session][request.watcher_id].names}
        for orphan in [one for one in orphans if namespaces.intersection(map(namespace_of, one.topics))]:
            orphans.remove(orphan)
            if orphan.watcher_id not in watches._watchers[session]:
                watch(watches, session, orphan)
        return answer

    patches.replace(PartitionWatchBroker, "disconnected", end)
    patches.replace(PartitionWatchBroker, "watch", changed)


@mutant("pip247.watch.reconnect")
def remembers_counts_for_who_comes_back(patches: Patches) -> None:
    """A watcher_id with the topics that it had on a connection that has ended is told the counts that it was told there."""
    watch, disconnected = PartitionWatchBroker.watch, PartitionWatchBroker.disconnected
    known: dict[tuple[int, tuple[str, ...]], list[Any]] = {}

    def end(watches: PartitionWatchBroker, connection: Hashable) -> None:
        for watcher in watches._watchers.get(connection, {}).values():
            if not next(iter(watcher.names), "").endswith("/fence"):
                known[watcher.watcher_id, tuple(watcher.names)] = watcher.topics_with_partitions()
        disconnected(watches, connection)

    def changed(watches: PartitionWatchBroker, session: Session, request: Watch) -> Success:
        answer = watch(watches, session, request)
        told = known.get((request.watcher_id, tuple(watches._watchers[session][request.watcher_id].names)))
        if told is not None:
            del answer.topic_with_partition[:]
            answer.topic_with_partition.extend(told)
        return answer

    patches.replace(PartitionWatchBroker, "disconnected", end)
    patches.replace(PartitionWatchBroker, "watch", changed)


@mutant("pip247.version.per-watcher")
def counts_on_after_a_reconnect(patches: Patches) -> None:
    """A watcher_id with the topics that it had on a connection that has ended goes on with the versions of that time."""
    watch, disconnected = PartitionWatchBroker.watch, PartitionWatchBroker.disconnected
    known: dict[tuple[int, tuple[str, ...]], int] = {}

    def end(watches: PartitionWatchBroker, connection: Hashable) -> None:
        for watcher in watches._watchers.get(connection, {}).values():
            known[watcher.watcher_id, tuple(watcher.names)] = watcher.version
        disconnected(watches, connection)

    def changed(watches: PartitionWatchBroker, session: Session, request: Watch) -> Success:
        answer = watch(watches, session, request)
        watcher = watches._watchers[session][request.watcher_id]
        watcher.version = known.pop((request.watcher_id, tuple(watcher.names)), watcher.version)
        return answer

    patches.replace(PartitionWatchBroker, "disconnected", end)
    patches.replace(PartitionWatchBroker, "watch", changed)


@mutant("pip247.watch.survives-unload")
def unloads_partition_watchers_with_their_namespace(patches: Patches) -> None:
    """The watchers of the topics of a namespace that is unloaded end."""
    unload = Admin.unload_namespace

    def changed(admin: Admin, namespace: str) -> None:
        unload(admin, namespace)
        watches = partition_watches(admin._broker)
        for topic in [one for one in watches._by_topic if namespace_of(one) == namespace]:
            for watcher in list(watches._by_topic.get(topic, ())):
                watches._drop(watcher)

    patches.operation(unload, changed)


@mutant("pip247.update.beside-topic-list")
def closes_both_kinds_of_watchers(patches: Patches) -> None:
    """WATCH_TOPIC_LIST_CLOSE ends the watcher of partition counts with its watcher_id, too."""

    def make(close: Any) -> Any:
        def changed(session: Session, request: Any, frame: Any) -> None:
            partition_watches(session.broker).close(session, CommandWatchPartitionUpdateClose(request_id=0, watcher_id=request.watcher_id))
            close(session, request, frame)

        return changed

    patches.request("watchTopicListClose", make)
