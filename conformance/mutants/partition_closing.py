"""Brokers that close watchers of partition counts wrongly."""

from typing import Any

from conformance.mutants.model import Patches, mutant
from refimpl.broker import Session
from refimpl.proposals.partition_watch import PartitionWatchBroker
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    CommandPartitionUpdate,
    CommandSuccess,
    CommandWatchPartitionUpdateClose,
    CommandWatchPartitionUpdateSuccess,
    MetadataError,
    NotAllowedError,
)

Close = CommandWatchPartitionUpdateClose


@mutant("pip247.close.answer")
def refuses_to_close_while_switched_off(patches: Patches) -> None:
    """With notifications switched off a close is refused with NotAllowedError."""
    close = PartitionWatchBroker.close

    def changed(watches: PartitionWatchBroker, session: Session, request: Close) -> CommandSuccess:
        if not watches._enabled:
            raise Refused(NotAllowedError, "Notifications are switched off")
        return close(watches, session, request)

    patches.replace(PartitionWatchBroker, "close", changed)


@mutant("pip247.close.unknown")
def closes_a_partition_watcher_once(patches: Patches) -> None:
    """Closing a watcher that is closed already is refused with MetadataError."""
    close = PartitionWatchBroker.close
    closed: set[tuple[Session, int]] = set()

    def changed(watches: PartitionWatchBroker, session: Session, request: Close) -> CommandSuccess:
        exists = request.watcher_id in watches._watchers.get(session, {})
        if not exists and (session, request.watcher_id) in closed:
            raise Refused(MetadataError, f"there is no watcher {request.watcher_id}")
        closed.add((session, request.watcher_id))
        return close(watches, session, request)

    patches.replace(PartitionWatchBroker, "close", changed)


@mutant("pip247.close.silence")
def repeats_what_a_closed_watcher_did_not_confirm(patches: Patches) -> None:
    """An update in flight when its watcher is closed is sent again 10 s later."""
    close = PartitionWatchBroker.close

    def changed(watches: PartitionWatchBroker, session: Session, request: Close) -> CommandSuccess:
        watcher = watches._watchers.get(session, {}).get(request.watcher_id)
        if watcher is not None and watcher.in_flight is not None:
            update = CommandPartitionUpdate(version=watcher.in_flight, watcher_id=watcher.watcher_id)
            update.topic_with_partition.extend(watcher.topics_with_partitions())
            session.broker.timers.at(session.broker.now + 10.0, lambda: session.send(update))
        return close(watches, session, request)

    patches.replace(PartitionWatchBroker, "close", changed)


@mutant("pip247.close.only-that-one")
def closes_watchers_by_their_topics(patches: Patches) -> None:
    """A close ends all watchers of its connection that have the topics of the watcher."""
    close = PartitionWatchBroker.close

    def changed(watches: PartitionWatchBroker, session: Session, request: Close) -> CommandSuccess:
        closed = watches._watchers.get(session, {}).get(request.watcher_id)
        others = list(watches._watchers.get(session, {}).values()) if closed is not None else []
        for other in others:
            if closed is not None and other is not closed and list(other.names) == list(closed.names):
                watches._drop(other)
        return close(watches, session, request)

    patches.replace(PartitionWatchBroker, "close", changed)


@mutant("pip247.close.id-reusable")
def counts_on_after_a_close(patches: Patches) -> None:
    """A watcher_id that is registered anew goes on with the versions that it had when it was closed."""
    close, watch = PartitionWatchBroker.close, PartitionWatchBroker.watch
    versions: dict[tuple[Session, int], int] = {}

    def end(watches: PartitionWatchBroker, session: Session, request: Close) -> CommandSuccess:
        watcher = watches._watchers.get(session, {}).get(request.watcher_id)
        if watcher is not None:
            versions[session, request.watcher_id] = watcher.version
        return close(watches, session, request)

    def changed(watches: PartitionWatchBroker, session: Session, request: Any) -> CommandWatchPartitionUpdateSuccess:
        answer = watch(watches, session, request)
        watcher = watches._watchers[session][request.watcher_id]
        watcher.version = versions.pop((session, request.watcher_id), watcher.version)
        return answer

    patches.replace(PartitionWatchBroker, "close", end)
    patches.replace(PartitionWatchBroker, "watch", changed)


@mutant("pip247.close.with-watch")
def overlooks_a_close_that_comes_with_its_watch(patches: Patches) -> None:
    """A close that comes before the answer to the watch request was sent is answered, and not carried out."""
    close = PartitionWatchBroker.close

    def changed(watches: PartitionWatchBroker, session: Session, request: Close) -> CommandSuccess:
        return CommandSuccess(request_id=request.request_id) if session.has_output else close(watches, session, request)

    patches.replace(PartitionWatchBroker, "close", changed)


@mutant("pip247.close.without-permission")
def lets_only_who_may_watch_close(patches: Patches) -> None:
    """Closing a watcher needs the permission to look up its topics."""
    close = PartitionWatchBroker.close

    def changed(watches: PartitionWatchBroker, session: Session, request: Close) -> CommandSuccess:
        watcher = watches._watchers.get(session, {}).get(request.watcher_id)
        if watcher is not None and not all(watches._may_watch(session, topic) for topic in watcher.names):
            raise Refused(AuthorizationError, "Client is not authorized to close")
        return close(watches, session, request)

    patches.replace(PartitionWatchBroker, "close", changed)
