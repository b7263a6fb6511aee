"""Brokers that keep watches over scalable topics badly: which ones there are, whose they are, and when they end."""

from collections.abc import Hashable, Mapping

from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import scalable_of
from refimpl.broker import Broker, Session
from refimpl.names import namespace_of
from refimpl.proposals.scalable_topics import ScalableTopicsBroker, ScalableTopicsExtension
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    CommandError,
    CommandSuccess,
    CommandWatchScalableTopics,
    CommandWatchScalableTopicsClose,
    CommandWatchScalableTopicsUpdate,
    InvalidTopicName,
    NotAllowedError,
    ScalableTopicsDiff,
    UnknownError,
)

Update = CommandWatchScalableTopicsUpdate
Updates = list[tuple[Hashable, Update]]


def _moments_of_creation(patches: Patches) -> Mapping[str, float]:
    """Note when each scalable topic was created."""
    create = ScalableTopicsExtension.create
    created: dict[str, float] = {}

    def changed(scalable: ScalableTopicsExtension, topic: str, properties: Mapping[str, str], segments: int) -> None:
        created[topic] = scalable.host.now
        create(scalable, topic, properties, segments)

    patches.replace(ScalableTopicsExtension, "create", changed)
    return created


def _refusal(request: CommandWatchScalableTopics) -> Update:
    return Update(watch_id=request.watch_id, error=NotAllowedError, message="no")


# Opening


@mutant("pr25648.watch.snapshot")
def lists_a_hundred_topics_at_most(patches: Patches) -> None:
    """A snapshot has no more than a hundred topics."""
    patches.outgoing(
        Update, lambda _, update: update.snapshot.topics.__delitem__(slice(100, None)) if update.HasField("snapshot") else None
    )


@mutant("pr25648.watch.empty-snapshot")
def sends_no_snapshot_of_a_namespace_that_was_emptied(patches: Patches) -> None:
    """The snapshot of a namespace that had topics and has none any more is left out of its update."""
    delete = ScalableTopicsExtension.delete
    emptied: set[str] = set()

    def changed(scalable: ScalableTopicsExtension, topic: str) -> None:
        delete(scalable, topic)
        if not scalable.topics_of(namespace_of(topic)):
            emptied.add(namespace_of(topic))

    watch = ScalableTopicsBroker.watch

    def opened(watches: ScalableTopicsBroker, connection: Hashable, request: CommandWatchScalableTopics) -> Update | None:
        update = watch(watches, connection, request)
        if update is not None and not update.snapshot.topics and request.namespace in emptied:
            update.ClearField("snapshot")
        return update

    patches.replace(ScalableTopicsExtension, "delete", changed)
    patches.replace(ScalableTopicsBroker, "watch", opened)


@mutant("pr25648.watch.snapshot-first")
def tells_a_new_topic_before_the_snapshot(patches: Patches) -> None:
    """A topic that came in the last 40 ms is told by a diff in front of the snapshot."""
    watch = ScalableTopicsBroker.watch
    created = _moments_of_creation(patches)

    def changed(watches: ScalableTopicsBroker, session: Session, request: CommandWatchScalableTopics) -> Update | None:
        update = watch(watches, session, request)
        for topic in update.snapshot.topics if update is not None else ():
            if 0 < session.broker.now - created[topic] < 0.04:
                session.send(Update(watch_id=request.watch_id, diff=ScalableTopicsDiff(added=[topic])))
        return update

    patches.replace(ScalableTopicsBroker, "watch", changed)


@mutant("pr25648.watch.listener-first")
def lists_before_it_listens(patches: Patches) -> None:
    """A topic that came in the last 30 ms before a watch is opened is neither listed nor told."""
    watch = ScalableTopicsBroker.watch
    created = _moments_of_creation(patches)

    def changed(watches: ScalableTopicsBroker, session: Session, request: CommandWatchScalableTopics) -> Update | None:
        update = watch(watches, session, request)
        topics = list(update.snapshot.topics) if update is not None else []
        missed = [topic for topic in topics if 0 < session.broker.now - created[topic] < 0.03]
        for topic in missed if update is not None else ():
            update.snapshot.topics.remove(topic)  # type: ignore[union-attr]
            watches._sessions[session][request.watch_id].selection.topics.remove(topic)  # type: ignore[union-attr]
        return update

    patches.replace(ScalableTopicsBroker, "watch", changed)


# Ids


@mutant("pr25648.watch.id-echoed")
def keeps_twelve_bits_of_an_id(patches: Patches) -> None:
    """Of a watch_id from 4096 to 2^63-1 the lowest twelve bits come back."""

    def change(_: Session, update: Update) -> None:
        if 4096 <= update.watch_id < 2**63:
            update.watch_id &= 4095

    patches.outgoing(Update, change)


@mutant("pr25648.watch.id-range")
def takes_an_id_for_a_signed_number(patches: Patches) -> None:
    """A watch with an id from 2^63 on is refused."""
    watch = ScalableTopicsBroker.watch

    def changed(watches: ScalableTopicsBroker, connection: Hashable, request: CommandWatchScalableTopics) -> Update | None:
        return watch(watches, connection, request) if request.watch_id < 2**63 else _refusal(request)

    patches.replace(ScalableTopicsBroker, "watch", changed)


@mutant("pr25648.watch.id-per-connection")
def ends_the_watches_of_an_id_on_all_connections(patches: Patches) -> None:
    """A close also ends the watches of other connections over the same namespace that have the same id."""
    close = ScalableTopicsBroker.close

    def changed(watches: ScalableTopicsBroker, connection: Hashable, request: CommandWatchScalableTopicsClose) -> None:
        closed = watches._sessions.get(connection, {}).get(request.watch_id)
        for other, sessions in list(watches._sessions.items()):
            session = sessions.get(request.watch_id)
            if closed and session and session.selection.namespace == closed.selection.namespace:
                close(watches, other, request)

    patches.replace(ScalableTopicsBroker, "close", changed)


@mutant("pr25648.watch.repeated-id")
def keeps_the_older_watch_of_an_id(patches: Patches) -> None:
    """A request with the id of an open watch opens a second one; the older goes on, and nothing can close it."""
    watch = ScalableTopicsBroker.watch

    def changed(watches: ScalableTopicsBroker, connection: Hashable, request: CommandWatchScalableTopics) -> Update | None:
        older = watches._sessions.get(connection, {}).pop(request.watch_id, None)
        update = watch(watches, connection, request)
        sessions = watches._sessions.setdefault(connection, {})
        if older is not None:
            hidden = -1 - len(sessions)
            sessions[hidden] = older
            if update is not None and update.HasField("error"):
                watches._drop(connection, hidden)
        return update

    patches.replace(ScalableTopicsBroker, "watch", changed)


@mutant("pr25648.watch.several")
def tells_one_watch_of_a_connection(patches: Patches) -> None:
    """Of the watches of one connection with the same filters the oldest is told."""
    tick = ScalableTopicsBroker.tick

    def changed(watches: ScalableTopicsBroker, now: float) -> Updates:
        return [
            (connection, update)
            for connection, update in tick(watches, now)
            if (own := watches._sessions[connection][update.watch_id])
            is next(session for session in own.selection.sessions if session.connection is connection)
        ]

    patches.replace(ScalableTopicsBroker, "tick", changed)


@mutant("pr25648.watch.dropped-with-connection")
def hands_watches_on_to_the_next_connection(patches: Patches) -> None:
    """Who watches a namespace is also told what lost connections that watched it would have been told."""
    disconnected, watch = ScalableTopicsBroker.disconnected, ScalableTopicsBroker.watch
    left: dict[str, list[CommandWatchScalableTopics]] = {}

    def lost(watches: ScalableTopicsBroker, connection: Hashable) -> None:
        for session in watches._sessions.get(connection, {}).values():
            namespace = session.selection.namespace
            left.setdefault(namespace, []).append(CommandWatchScalableTopics(watch_id=session.watch_id, namespace=namespace))
        disconnected(watches, connection)

    def changed(watches: ScalableTopicsBroker, connection: Hashable, request: CommandWatchScalableTopics) -> Update | None:
        for older in left.pop(request.namespace, []):
            if older.watch_id != request.watch_id:
                watch(watches, connection, older)
        return watch(watches, connection, request)

    patches.replace(ScalableTopicsBroker, "disconnected", lost)
    patches.replace(ScalableTopicsBroker, "watch", changed)


@mutant("pr25648.watch.permission-revoked")
def never_looks_at_a_permission_again(patches: Patches) -> None:
    """A watch goes on when its permission is revoked."""
    patches.replace(ScalableTopicsBroker, "_still_may", lambda _watches, _session: True)


@mutant("pr25648.watch.idle-connection")
def forgets_a_watch_after_a_minute(patches: Patches) -> None:
    """A watch ends, without a word, when nothing was told for a minute."""
    watch, changes = ScalableTopicsBroker.watch, ScalableTopicsExtension._changed
    used: dict[tuple[Hashable, int], float] = {}

    def opened(watches: ScalableTopicsBroker, session: Session, request: CommandWatchScalableTopics) -> Update | None:
        used[session, request.watch_id] = session.broker.now
        return watch(watches, session, request)

    def changed(scalable: ScalableTopicsExtension, topic: str) -> None:
        for (session, watch_id), moment in list(used.items()):
            if scalable.host.now - moment > 60:
                scalable.watches._drop(session, watch_id)
        changes(scalable, topic)

    patches.replace(ScalableTopicsBroker, "watch", opened)
    patches.replace(ScalableTopicsExtension, "_changed", changed)


# Errors


@mutant("pr25648.error.in-update")
def tells_a_malformed_namespace_by_ERROR(patches: Patches) -> None:  # noqa: N802
    """A malformed namespace is refused by ERROR with the watch_id as its request_id."""

    def change(session: Session, update: Update) -> bool:
        malformed = update.HasField("error") and update.error == InvalidTopicName
        if malformed:
            session.send(CommandError(request_id=update.watch_id, error=update.error, message=update.message))
        return not malformed

    patches.outgoing(Update, change)


@mutant("pr25648.error.without-event")
def tells_an_empty_set_with_a_missing_permission(patches: Patches) -> None:
    """The update that refuses a watch over a namespace that exists, for want of permission, has an empty snapshot."""
    watch = ScalableTopicsBroker.watch

    def changed(watches: ScalableTopicsBroker, session: Session, request: CommandWatchScalableTopics) -> Update | None:
        update = watch(watches, session, request)
        if update is not None and update.error == AuthorizationError and request.namespace in session.broker.store.namespaces:
            update.snapshot.SetInParent()
        return update

    patches.replace(ScalableTopicsBroker, "watch", changed)


@mutant("pr25648.error.nothing-follows")
def opens_the_watch_that_it_refuses(patches: Patches) -> None:
    """A watch that is refused for want of permission is told of changes all the same."""
    watch, still_may = ScalableTopicsBroker.watch, ScalableTopicsBroker._still_may
    refused: set[Hashable] = set()

    def changed(watches: ScalableTopicsBroker, connection: Hashable, request: CommandWatchScalableTopics) -> Update | None:
        update = watch(watches, connection, request)
        if update is not None and update.HasField("error") and update.error == AuthorizationError:
            watches._open(connection, request)
            refused.add(connection)
        return update

    patches.replace(ScalableTopicsBroker, "watch", changed)
    patches.replace(ScalableTopicsBroker, "_still_may", lambda watches, one: one.connection in refused or still_may(watches, one))


@mutant("pr25648.error.ends-watch")
def keeps_a_watch_whose_repetition_it_refuses(patches: Patches) -> None:
    """A request with a malformed namespace leaves the open watch of its id as it is."""
    watch = ScalableTopicsBroker.watch

    def changed(watches: ScalableTopicsBroker, connection: Hashable, request: CommandWatchScalableTopics) -> Update | None:
        older = watches._sessions.get(connection, {}).pop(request.watch_id, None)
        update = watch(watches, connection, request)
        if older is None:
            return update
        malformed = update is not None and update.HasField("error") and update.error == InvalidTopicName
        hidden = request.watch_id if malformed else -1
        watches._sessions.setdefault(connection, {})[hidden] = older
        if not malformed:
            watches._drop(connection, hidden)
        return update

    patches.replace(ScalableTopicsBroker, "watch", changed)


@mutant("pr25648.error.id-free")
def spends_an_id_on_an_error(patches: Patches) -> None:
    """A watch whose id was refused once on its connection is refused with NotAllowedError."""
    watch = ScalableTopicsBroker.watch
    spent: set[tuple[Hashable, int]] = set()

    def changed(watches: ScalableTopicsBroker, connection: Hashable, request: CommandWatchScalableTopics) -> Update | None:
        update = watch(watches, connection, request)
        if update is not None and update.HasField("error"):
            spent.add((connection, request.watch_id))
        elif (connection, request.watch_id) in spent:
            return _refusal(request)
        return update

    patches.replace(ScalableTopicsBroker, "watch", changed)


@mutant("pr25648.error.unauthorized")
def shows_anybody_that_there_is_nothing(patches: Patches) -> None:
    """Whoever watches a namespace that does not exist gets the empty snapshot, with or without permission."""
    may_list = Broker.may_list

    def changed(broker: Broker, session: Session, namespace: str) -> bool:
        return namespace not in broker.store.namespaces or may_list(broker, session, namespace)

    watch = ScalableTopicsBroker.watch

    def opened(watches: ScalableTopicsBroker, session: Session, request: CommandWatchScalableTopics) -> Update | None:
        patched = Patches()
        patched.replace(Broker, "may_list", changed)
        try:
            return watch(watches, session, request)
        finally:
            patched.undo()

    patches.replace(ScalableTopicsBroker, "watch", opened)


# Closing


@mutant("pr25648.close.silent")
def answers_a_close(patches: Patches) -> None:
    """The close of a watch is answered by SUCCESS if the connection has one other watch."""

    def change(session: Session, request: CommandWatchScalableTopicsClose) -> None:
        others = set(scalable_of(session.broker).watches._sessions.get(session, ())) - {request.watch_id}
        if len(others) == 1:
            session.send(CommandSuccess(request_id=request.watch_id))

    patches.incoming(CommandWatchScalableTopicsClose, change)


@mutant("pr25648.close.nothing-follows")
def tells_the_rest_of_a_window_after_a_close(patches: Patches) -> None:
    """What a window holds when its watch is closed is told at its end."""
    close = ScalableTopicsBroker.close

    def changed(watches: ScalableTopicsBroker, connection: Hashable, request: CommandWatchScalableTopicsClose) -> None:
        session = watches._sessions.get(connection, {}).get(request.watch_id)
        deadline = watches._armed.get(session) if session is not None else None
        close(watches, connection, request)
        if session is not None and deadline is not None:
            watches._armed[session] = deadline

    patches.replace(ScalableTopicsBroker, "close", changed)


@mutant("pr25648.close.unknown")
def complains_of_an_unknown_id(patches: Patches) -> None:
    """A close of an id that has no watch is answered by ERROR."""

    def change(session: Session, request: CommandWatchScalableTopicsClose) -> None:
        unknown = request.watch_id not in scalable_of(session.broker).watches._sessions.get(session, ())
        if unknown and session.protocol_version is not None:
            session.send(CommandError(request_id=request.watch_id, error=UnknownError, message="there is no such watch"))

    patches.incoming(CommandWatchScalableTopicsClose, change)


@mutant("pr25648.close.id-free")
def begins_without_a_snapshot_on_a_closed_id(patches: Patches) -> None:
    """A watch whose id was closed before on its connection begins with silence."""
    watch, close = ScalableTopicsBroker.watch, ScalableTopicsBroker.close
    closed: set[tuple[Hashable, int]] = set()

    def ended(watches: ScalableTopicsBroker, connection: Hashable, request: CommandWatchScalableTopicsClose) -> None:
        closed.add((connection, request.watch_id))
        close(watches, connection, request)

    def changed(watches: ScalableTopicsBroker, connection: Hashable, request: CommandWatchScalableTopics) -> Update | None:
        update = watch(watches, connection, request)
        return None if (connection, request.watch_id) in closed else update

    patches.replace(ScalableTopicsBroker, "close", ended)
    patches.replace(ScalableTopicsBroker, "watch", changed)
