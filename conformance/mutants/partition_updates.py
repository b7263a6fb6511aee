"""Brokers that tell of new partitions wrongly: not everything, not to everybody, too early, too late, or with wrong versions."""

from collections.abc import Hashable
from typing import Any

from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import partition_watches
from refimpl.broker import Broker, Session
from refimpl.broker.admin import Admin
from refimpl.names import TopicName
from refimpl.proposals import partition_watch
from refimpl.proposals.extension import send_all
from refimpl.proposals.partition_watch import Delivery, News, PartitionWatchBroker
from refimpl.proposals.partition_watch.rules import next_version
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import CommandPartitionUpdate, CommandPartitionUpdateResult, CommandProducer, ServiceNotReady

Update = CommandPartitionUpdate
Updates = list[tuple[Hashable, Update]]


@mutant("pip247.update.on-change")
def tells_of_64_partitions_at_most(patches: Patches) -> None:
    """A growth to more than 64 partitions is not told."""
    patches.outgoing(Update, lambda _, update: all(one.partition <= 64 for one in update.topic_with_partition))


@mutant("pip247.update.all-topics")
def leaves_out_a_last_topic_that_is_missing(patches: Patches) -> None:
    """An update for topics of which only the last does not exist leaves that one out."""

    def change(_: Session, update: Update) -> None:
        *others, last = update.topic_with_partition
        if len(others) > 1 and last.partition == 0 and all(one.partition for one in others):
            del update.topic_with_partition[-1]

    patches.outgoing(Update, change)


@mutant("pip247.update.only-changes")
def tells_of_plain_topics(patches: Patches) -> None:
    """The creation of a watched topic without partitions is told."""
    create = Broker.create_topic

    def changed(broker: Broker, name: TopicName) -> None:
        create(broker, name)
        watches = partition_watches(broker)
        send_all(
            (watcher.connection, update)
            for watcher in list(watches._by_topic.get(name.full, ()))
            if (update := watches._happened(watcher, News.CHANGED, broker.now)) is not None
        )

    patches.replace(Broker, "create_topic", changed)


@mutant("pip247.update.created")
def tells_only_of_what_administrators_create(patches: Patches) -> None:
    """A topic that comes into being because somebody asks for its partitions is not told."""
    create = Broker.create_by_default

    def changed(broker: Broker, name: TopicName) -> int:
        broker.partitions_changed = lambda topic: None  # type: ignore[method-assign] # noqa: ARG005
        try:
            return create(broker, name)
        finally:
            del broker.partitions_changed

    patches.replace(Broker, "create_by_default", changed)


@mutant("pip247.update.shrinking")
def deletes_namespaces_in_silence(patches: Patches) -> None:
    """The deletion of topics with their namespace is not told."""
    delete = Admin.delete_namespace

    def changed(admin: Admin, namespace: str, *, force: bool = False) -> None:
        broker = admin._broker
        broker.partitions_changed = lambda topic: None  # type: ignore[method-assign] # noqa: ARG005
        try:
            delete(admin, namespace, force=force)
        finally:
            del broker.partitions_changed

    patches.operation(delete, changed)


@mutant("pip247.update.every-watcher")
def tells_forty_watchers_at_most(patches: Patches) -> None:
    """A change is told to the first forty watchers that it concerns."""
    changed = PartitionWatchBroker.changed
    patches.replace(PartitionWatchBroker, "changed", lambda watches, topic, now: changed(watches, topic, now)[:40])


@mutant("pip247.update.partitions-exist")
def tells_before_it_is_ready(patches: Patches) -> None:
    """The first producer on a partition that a watched topic has grown by is refused with ServiceNotReady."""
    create = Broker.create_partitions
    unready: set[str] = set()

    def changed(broker: Broker, name: TopicName, partitions: int) -> None:
        present = broker.partitions(name)
        if present and name.full in partition_watches(broker)._by_topic:
            unready.update(f"{name.full}-partition-{number}" for number in range(present, partitions))
        create(broker, name, partitions)

    def make(producer: Any) -> Any:
        def attached(session: Session, request: CommandProducer, frame: Any) -> None:
            if request.topic in unready:
                unready.remove(request.topic)
                raise Refused(ServiceNotReady, "The partition is being created")
            producer(session, request, frame)

        return attached

    patches.replace(Broker, "create_partitions", changed)
    patches.request("producer", make)


@mutant("pip247.update.replaces")
def lets_updates_follow_slowly(patches: Patches) -> None:
    """A change within 6 s of an update without a result is told when the 6 s are over."""
    happened, update = PartitionWatchBroker._happened, PartitionWatchBroker._update
    sent: dict[object, float] = {}

    def note(watches: PartitionWatchBroker, watcher: Any, now: float) -> Update | None:
        sent[watcher] = now
        return update(watches, watcher, now)

    def changed(watches: PartitionWatchBroker, watcher: Any, news: News, now: float) -> Update | None:
        if news is News.CHANGED and watcher.in_flight is not None and now < sent[watcher] + 6.0:
            watches._wake(watcher, sent[watcher] + 6.0)
            return None
        return happened(watches, watcher, news, now)

    patches.replace(PartitionWatchBroker, "_update", note)
    patches.replace(PartitionWatchBroker, "_happened", changed)


@mutant("pip247.update.replaces-waiting")
def lets_a_change_wait_for_the_retry(patches: Patches) -> None:
    """A change while an update waits to be sent again is told when that is due."""
    happened = PartitionWatchBroker._happened

    def changed(watches: PartitionWatchBroker, watcher: Any, news: News, now: float) -> Update | None:
        waits = watcher.delivery is Delivery.WAITING and news is News.CHANGED
        return None if waits else happened(watches, watcher, news, now)

    patches.replace(PartitionWatchBroker, "_happened", changed)


@mutant("pip247.update.one-in-flight")
def repeats_updates_that_were_replaced(patches: Patches) -> None:
    """An update that was replaced, and got no result, is sent again 10 s after it was sent."""
    send = Session.send
    open_updates: dict[tuple[Session, int], Update] = {}

    def note(session: Session, update: Update) -> None:
        before = open_updates.get((session, update.watcher_id))
        open_updates[session, update.watcher_id] = update
        if before is not None and before.version < update.version:
            session.broker.timers.at(session.broker.now + 3.0, lambda: again(session, before))

    def again(session: Session, update: Update) -> None:
        if (session, update.watcher_id) in open_updates:
            send(session, update)

    def settle(session: Session, result: CommandPartitionUpdateResult) -> None:
        open_updates.pop((session, result.watcher_id), None)

    patches.outgoing(Update, note)
    patches.incoming(CommandPartitionUpdateResult, settle)


@mutant("pip247.version.from-one")
def numbers_updates_by_the_clock(patches: Patches) -> None:
    """The first version of a watcher is greater by 1 for each half minute that it has waited for it."""
    watch, update = PartitionWatchBroker.watch, PartitionWatchBroker._update
    since: dict[object, float] = {}

    def start(watches: PartitionWatchBroker, session: Session, request: Any) -> Any:
        answer = watch(watches, session, request)
        since[watches._watchers[session][request.watcher_id]] = session.broker.now
        return answer

    def changed(watches: PartitionWatchBroker, watcher: Any, now: float) -> Update | None:
        if watcher.version == 0:
            watcher.version = int((now - since[watcher]) // 30)
        return update(watches, watcher, now)

    patches.replace(PartitionWatchBroker, "watch", start)
    patches.replace(PartitionWatchBroker, "_update", changed)


@mutant("pip247.version.grows")
def counts_versions_in_three_bits(patches: Patches) -> None:
    """Version 8 is followed by version 1."""

    def changed(version: int, **how: Any) -> int:
        return (next_version(version, **how) - 1) % 8 + 1

    patches.replace(partition_watch, "next_version", changed)
