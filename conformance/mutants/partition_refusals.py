"""Brokers that refuse watch requests for partition counts wrongly, or go on after they have refused one."""

from collections.abc import Hashable

from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import partition_watches
from refimpl.broker import Session
from refimpl.proposals import partition_watch
from refimpl.proposals.partition_watch import PartitionWatchBroker
from refimpl.proposals.partition_watch.rules import largest_frame
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import (
    CommandWatchPartitionUpdate,
    CommandWatchPartitionUpdateSuccess,
    InvalidTopicName,
    NotAllowedError,
)

Watch = CommandWatchPartitionUpdate
Success = CommandWatchPartitionUpdateSuccess


@mutant("pip247.watch.too-large")
def registers_what_it_can_not_tell(patches: Patches) -> None:
    """A watch request is accepted although an update for its topics does not fit into a frame, and answered without counts."""
    patches.replace(partition_watch, "largest_frame", lambda _: 0)

    def change(session: Session, answer: Success) -> None:
        if largest_frame(one.topic for one in answer.topic_with_partition) > partition_watches(session.broker)._max_frame_size:
            answer.ClearField("topic_with_partition")

    patches.outgoing(Success, change)


@mutant("pip247.watch.error-keeps-connection")
def throws_out_who_asks_for_too_much(patches: Patches) -> None:
    """A watch request that is refused because an update for it would be too large ends the connection behind the ERROR."""
    refuse = Session.refuse

    def changed(session: Session, request: object, refused: Refused) -> None:
        refuse(session, request, refused)  # type: ignore[arg-type]
        if isinstance(request, Watch) and refused.code == NotAllowedError and partition_watches(session.broker)._enabled:
            session.end("a watch request was too large")

    patches.replace(Session, "refuse", changed)


@mutant("pip247.watch.switched-off")
def serves_watches_though_switched_off(patches: Patches) -> None:
    """With notifications switched off watch requests are served all the same."""
    watch = PartitionWatchBroker.watch

    def changed(watches: PartitionWatchBroker, session: Session, request: Watch) -> Success:
        switched = watches._enabled
        watches._enabled = True
        try:
            return watch(watches, session, request)
        finally:
            watches._enabled = switched

    patches.replace(PartitionWatchBroker, "watch", changed)


@mutant("pip247.watch.invalid-name")
def takes_a_blank_for_a_name(patches: Patches) -> None:
    """A topic whose local name is a blank is watched."""
    names = PartitionWatchBroker._names

    def changed(watches: PartitionWatchBroker, request: Watch) -> dict[str, str]:
        blank = {topic: topic for topic in request.topics if topic.endswith("/ ")}
        others = Watch(request_id=request.request_id, watcher_id=request.watcher_id)
        others.topics.extend(topic for topic in request.topics if topic not in blank)
        return names(watches, others) | blank

    patches.replace(PartitionWatchBroker, "_names", changed)


@mutant("pip247.watch.unauthorized")
def checks_the_first_topic_only(patches: Patches) -> None:
    """A watch request is accepted if its first topic may be looked up."""
    watch = PartitionWatchBroker.watch

    def changed(watches: PartitionWatchBroker, session: Session, request: Watch) -> Success:
        may_watch = watches._may_watch
        first = watches._full_name(request.topics[0]) if request.topics and watches._enabled else ""
        watches._may_watch = lambda connection, topic: topic != first or may_watch(connection, topic)
        try:
            return watch(watches, session, request)
        finally:
            watches._may_watch = may_watch

    patches.replace(PartitionWatchBroker, "watch", changed)


@mutant("pip247.watch.permission-revoked")
def checks_permissions_once(patches: Patches) -> None:
    """Permissions are checked when a watcher is registered, and not when it is told something."""
    watch = PartitionWatchBroker.watch
    checks: dict[PartitionWatchBroker, object] = {}

    def anybody(connection: Hashable, topic: str) -> bool:  # noqa: ARG001
        return True

    def changed(watches: PartitionWatchBroker, session: Session, request: Watch) -> Success:
        watches._may_watch = checks.setdefault(watches, watches._may_watch)  # type: ignore[assignment]
        try:
            return watch(watches, session, request)
        finally:
            watches._may_watch = anybody

    patches.replace(PartitionWatchBroker, "watch", changed)


@mutant("pip247.watch.nothing-after-error")
def watches_the_valid_names_of_a_refused_request(patches: Patches) -> None:
    """A watch request with an invalid name beside several valid ones is refused, and its valid topics are watched."""
    watch = PartitionWatchBroker.watch

    def changed(watches: PartitionWatchBroker, session: Session, request: Watch) -> Success:
        try:
            return watch(watches, session, request)
        except Refused as refused:
            valid = [topic for topic in request.topics if not topic.startswith("no-domain:")]
            if refused.code == InvalidTopicName and len(valid) > 1:
                watch(watches, session, Watch(request_id=request.request_id, watcher_id=request.watcher_id, topics=valid))
            raise

    patches.replace(PartitionWatchBroker, "watch", changed)
