"""Brokers that answer watch requests for partition counts wrongly: not at all, with the wrong counts, names or topics."""

from collections import Counter
from collections.abc import Callable

from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import partition_watches
from refimpl.broker import Broker, Session
from refimpl.broker.names import parse_topic
from refimpl.proposals.partition_watch import PartitionWatchBroker
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import (
    CommandPartitionUpdate,
    CommandWatchPartitionUpdate,
    CommandWatchPartitionUpdateSuccess,
    NotAllowedError,
    TooManyRequests,
    TopicWithPartition,
)

Watch = CommandWatchPartitionUpdate
Success = CommandWatchPartitionUpdateSuccess


@mutant("pip247.watch.success")
def lets_request_ids_only_rise(patches: Patches) -> None:
    """A watch request whose request_id is one below that of the connection's last one is taken for a repetition, and not answered."""
    last: dict[Session, int] = {}

    def change(session: Session, request: Watch) -> bool:
        before = last.get(session)
        last[session] = request.request_id
        return before != request.request_id + 1

    patches.incoming(Watch, change)


@mutant("pip247.watch.success-counts")
def counts_with_its_fingers(patches: Patches) -> None:
    """A success tells 10 partitions at most."""

    def change(_: Session, answer: Success) -> None:
        for one in answer.topic_with_partition:
            one.partition = min(one.partition, 10)

    patches.outgoing(Success, change)


@mutant("pip247.watch.count")
def gives_a_partition_the_count_of_its_topic(patches: Patches) -> None:
    """A topic that is a partition has the count of the partitioned topic."""
    count = Broker.partition_count
    patches.replace(Broker, "partition_count", lambda broker, topic: count(broker, topic) or count(broker, parse_topic(topic).partitioned))


@mutant("pip247.watch.count-agrees")
def tells_32_partitions_at_most(patches: Patches) -> None:
    """A success tells 32 partitions at most, other than PARTITIONED_METADATA."""

    def change(_: Session, answer: Success) -> None:
        for one in answer.topic_with_partition:
            one.partition = min(one.partition, 32)

    patches.outgoing(Success, change)


@mutant("pip247.watch.creates-nothing")
def creates_what_is_watched(patches: Patches) -> None:
    """Where topics are created with partitions, a watch request creates the missing topics that it names behind the first one."""

    def change(session: Session, request: Watch) -> None:
        broker = session.broker
        if broker.configuration.allow_auto_topic_creation_type == "partitioned":
            for topic in request.topics[1:]:
                broker.create_by_default(parse_topic(topic))

    patches.incoming(Watch, change)


@mutant("pip247.watch.domains")
def counts_persistent_topics_only(patches: Patches) -> None:
    """Non-persistent topics have no partitions for a watcher."""
    count = Broker.partition_count
    patches.replace(Broker, "partition_count", lambda broker, topic: count(broker, topic) if topic.startswith("persistent:") else 0)


@mutant("pip247.watch.names-echoed")
def spells_names_out(patches: Patches) -> None:
    """A success names each topic in full."""

    def change(_: Session, answer: Success) -> None:
        for one in answer.topic_with_partition:
            one.topic = parse_topic(one.topic).full

    patches.outgoing(Success, change)


@mutant("pip247.watch.order")
def sorts_the_topics_of_an_update(patches: Patches) -> None:
    """Updates with three or more topics list them in the order of the alphabet."""

    def change(_: Session, update: CommandPartitionUpdate) -> None:
        if len(update.topic_with_partition) > 2:
            update.topic_with_partition.sort(key=lambda one: one.topic)

    patches.outgoing(CommandPartitionUpdate, change)


@mutant("pip247.watch.duplicates")
def answers_each_mention_of_a_topic(patches: Patches) -> None:
    """A topic that the request repeats is listed again in the success."""
    watch = PartitionWatchBroker.watch

    def changed(watches: PartitionWatchBroker, session: Session, request: Watch) -> Success:
        answer = watch(watches, session, request)
        counts = {parse_topic(one.topic).full: one.partition for one in answer.topic_with_partition}
        if len(counts) < len(request.topics) < 10:
            del answer.topic_with_partition[:]
            answer.topic_with_partition.extend(
                TopicWithPartition(topic=topic, partition=counts[parse_topic(topic).full]) for topic in request.topics
            )
        return answer

    patches.replace(PartitionWatchBroker, "watch", changed)


@mutant("pip247.watch.empty")
def wants_a_topic_to_watch(patches: Patches) -> None:
    """A watch request without topics is refused with NotAllowedError."""

    def change(_: Session, request: Watch) -> None:
        if not request.topics:
            raise Refused(NotAllowedError, "There is nothing to watch")

    _refuse(patches, change)


@mutant("pip247.watch.many-topics")
def watches_65535_topics_at_most(patches: Patches) -> None:
    """A watch request for 65,536 topics or more is refused with TooManyRequests."""

    def change(_: Session, request: Watch) -> None:
        if len(request.topics) > 65535:
            raise Refused(TooManyRequests, "Too many topics")

    _refuse(patches, change)


@mutant("pip247.watch.ids-any")
def has_no_room_for_the_highest_ids(patches: Patches) -> None:
    """A watcher_id of 2^63 or more is refused with NotAllowedError."""

    def change(_: Session, request: Watch) -> None:
        if request.watcher_id >= 2**63:
            raise Refused(NotAllowedError, "watcher_id is negative")

    _refuse(patches, change)


def _refuse(patches: Patches, check: Callable[[Session, Watch], None]) -> None:
    """Let a check of the request go before everything else."""
    watch = PartitionWatchBroker.watch

    def changed(watches: PartitionWatchBroker, session: Session, request: Watch) -> Success:
        check(session, request)
        return watch(watches, session, request)

    patches.replace(PartitionWatchBroker, "watch", changed)


@mutant("pip247.watch.pipelined")
def answers_64_requests_of_a_moment(patches: Patches) -> None:
    """Of the watch requests that a connection sends in one moment 64 are answered."""
    asked: Counter[tuple[Session, float]] = Counter()

    def change(session: Session, _: Watch) -> bool:
        moment = session, session.broker.now
        asked[moment] += 1
        return asked[moment] <= 64

    patches.incoming(Watch, change)


@mutant("pip247.watch.success-first")
def takes_a_millisecond_to_answer(patches: Patches) -> None:
    """A success is sent a millisecond after the counts were read, behind updates that come meanwhile."""
    send = Session.send

    def change(session: Session, answer: Success) -> bool:
        session.broker.timers.at(session.broker.now + 0.001, lambda: send(session, answer))
        return False

    patches.outgoing(Success, change)


@mutant("pip247.watch.listener-first")
def listens_a_moment_later(patches: Patches) -> None:
    """A change in the first ten milliseconds after a watch request, but not in the same moment, is not told."""
    watch = PartitionWatchBroker.watch
    since: dict[Session, float] = {}

    def start(watches: PartitionWatchBroker, session: Session, request: Watch) -> Success:
        since[session] = session.broker.now
        return watch(watches, session, request)

    patches.replace(PartitionWatchBroker, "watch", start)
    patches.outgoing(CommandPartitionUpdate, lambda session, _: not 0 < session.broker.now - since[session] < 0.01)


@mutant("pip247.watch.success-needs-no-result")
def repeats_a_success_that_nobody_confirms(patches: Patches) -> None:
    """A success with partitions is sent again after 10 s if no update came since."""
    send = Session.send

    def change(session: Session, answer: Success) -> None:
        def again() -> None:
            watcher = partition_watches(session.broker)._watchers.get(session, {}).get(answer.watcher_id)
            if watcher is not None and watcher.version == 0:
                send(session, answer)

        if any(one.partition for one in answer.topic_with_partition):
            session.broker.timers.at(session.broker.now + 10.0, again)

    patches.outgoing(Success, change)
