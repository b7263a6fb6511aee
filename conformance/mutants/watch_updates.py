"""Brokers that announce changes wrongly: late, twice, in the wrong order, with the wrong hash, or not at all."""

from collections import Counter
from collections.abc import Hashable, Iterable

from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import topic_lists
from refimpl.broker import Broker, Session
from refimpl.broker.admin import Admin
from refimpl.broker.topic import Topic
from refimpl.names import TopicName, namespace_of, partitioned_topic_name
from refimpl.proposals.extension import send_all
from refimpl.proposals.topic_list import EMPTY_HASH, TopicListBroker, topics_hash, utf16_order
from refimpl.proposals.topic_list import broker as topic_list_broker
from refimpl.wire.pulsar_api_pb2 import CommandWatchTopicUpdate

Updates = list[tuple[Hashable, CommandWatchTopicUpdate]]


@mutant("pip145.update.on-create")
def remembers_the_deletion_of_a_new_topic(patches: Patches) -> None:
    """A topic that was deleted when nobody watched it is not announced when it is created again."""
    announce = TopicListBroker._announce
    deleted: set[str] = set()

    def changed(lists: TopicListBroker, topic: str, *, is_new: bool) -> Updates:
        updates = announce(lists, topic, is_new=is_new)
        if not is_new and not updates:
            deleted.add(topic)
        return [] if is_new and topic in deleted else updates

    patches.replace(TopicListBroker, "_announce", changed)


@mutant("pip145.update.on-delete")
def remembers_that_a_topic_was_deleted_before(patches: Patches) -> None:
    """The deletion of a topic that was deleted once before, when nobody watched it, is not announced."""
    announce = TopicListBroker._announce
    deleted: set[str] = set()

    def changed(lists: TopicListBroker, topic: str, *, is_new: bool) -> Updates:
        updates = announce(lists, topic, is_new=is_new)
        if is_new:
            return updates
        known = topic in deleted
        if not updates:
            deleted.add(topic)
        return [] if known else updates

    patches.replace(TopicListBroker, "_announce", changed)


@mutant("pip145.update.hash")
def forgets_a_first_name_in_the_hash(patches: Patches) -> None:
    """The update of a new topic that comes before all others in their order carries the hash of the others."""
    announce = TopicListBroker._announce

    def changed(lists: TopicListBroker, topic: str, *, is_new: bool) -> Updates:
        updates = announce(lists, topic, is_new=is_new)
        for connection, update in updates:
            names = sorted(lists._watchers[connection][update.watcher_id].topics, key=utf16_order)
            if is_new and len(names) > 1 and names[0] == topic:
                update.topics_hash = topics_hash(names[1:])
        return updates

    patches.replace(TopicListBroker, "_announce", changed)


@mutant("pip145.update.once")
def tells_twice_of_a_topic_that_came_back(patches: Patches) -> None:
    """A topic that was deleted and created again is announced a second time with the next new topic."""
    announce = TopicListBroker._announce
    deleted: set[str] = set()
    again: dict[str, Updates] = {}

    def changed(lists: TopicListBroker, topic: str, *, is_new: bool) -> Updates:
        updates = announce(lists, topic, is_new=is_new)
        namespace = namespace_of(topic)
        if not is_new:
            deleted.add(topic)
        elif topic in deleted:
            again[namespace] = updates
        else:
            updates = [*again.pop(namespace, []), *updates]
        return updates

    patches.replace(TopicListBroker, "_announce", changed)


@mutant("pip145.update.one-name")
def sums_up_when_the_last_topic_goes(patches: Patches) -> None:
    """The update with which a set gets empty names every topic that it has announced as new."""
    announce = TopicListBroker._announce
    told: dict[tuple[Hashable, int], dict[str, None]] = {}

    def changed(lists: TopicListBroker, topic: str, *, is_new: bool) -> Updates:
        updates = announce(lists, topic, is_new=is_new)
        for connection, update in updates:
            names = told.setdefault((connection, update.watcher_id), {})
            names.update(dict.fromkeys(update.new_topics))
            if update.topics_hash == EMPTY_HASH and len(names) > 1:
                update.deleted_topics[:] = names
        return updates

    patches.replace(TopicListBroker, "_announce", changed)


@mutant("pip145.update.order")
def lets_a_creation_overtake_a_deletion(patches: Patches) -> None:
    """The second deletion of a topic that is watched is announced behind its next creation."""
    announce = TopicListBroker._announce
    deletions: Counter[str] = Counter()
    held: dict[str, Updates] = {}

    def changed(lists: TopicListBroker, topic: str, *, is_new: bool) -> Updates:
        updates = announce(lists, topic, is_new=is_new)
        if is_new:
            return updates + held.pop(topic, [])
        deletions[topic] += bool(updates)
        if deletions[topic] == 2:
            held[topic], updates = updates, []
        return updates

    patches.replace(TopicListBroker, "_announce", changed)


@mutant("pip145.update.only-existence")
def takes_a_moved_topic_for_a_new_one(patches: Patches) -> None:
    """The unloading of a topic is announced as its deletion and its creation."""
    unload = Admin.unload_topic

    def changed(admin: Admin, topic: str) -> None:
        unload(admin, topic)
        broker = admin._broker
        send_all(topic_lists(broker).deleted(topic))
        send_all(topic_lists(broker).created(topic))

    patches.operation(unload, changed)


@mutant("pip145.update.any-origin")
def announces_only_what_administrators_create(patches: Patches) -> None:
    """A topic that a producer or consumer brings into being is not announced."""
    to_use = Broker.topic_to_use
    used: list[TopicName] = []

    def changed(broker: Broker, name: TopicName, *, create: bool) -> Topic:
        used.append(name)
        try:
            return to_use(broker, name, create=create)
        finally:
            used.pop()

    patches.replace(Broker, "topic_to_use", changed)
    patches.replace(topic_list_broker, "send_all", lambda updates: None if used else send_all(updates))


@mutant("pip145.update.partitioned")
def announces_the_deletion_of_the_first_partition_only(patches: Patches) -> None:
    """Of a partitioned topic that is deleted only partition 0 is announced."""

    def change(_: Session, update: CommandWatchTopicUpdate) -> bool:
        return all(
            topic in (partitioned_topic_name(topic), f"{partitioned_topic_name(topic)}-partition-0") for topic in update.deleted_topics
        )

    patches.outgoing(CommandWatchTopicUpdate, change)


@mutant("pip145.update.namespace-deleted")
def empties_a_namespace_at_once(patches: Patches) -> None:
    """When a namespace is deleted, each update carries the hash of the empty set."""
    delete = Admin.delete_namespace
    deleted: list[str] = []

    def changed(admin: Admin, namespace: str, *, force: bool = False) -> None:
        deleted.append(namespace)
        try:
            delete(admin, namespace, force=force)
        finally:
            deleted.pop()

    def empty(updates: Iterable[tuple[Hashable, CommandWatchTopicUpdate]]) -> None:
        told = list(updates)
        for _, update in told if deleted else ():
            update.topics_hash = EMPTY_HASH
        send_all(told)

    patches.operation(delete, changed)
    patches.replace(topic_list_broker, "send_all", empty)


def _end_watchers(broker: Broker, namespace: str) -> None:
    lists = topic_lists(broker)
    for connection, watchers in list(lists._watchers.items()):
        for watcher_id in [watcher_id for watcher_id, selection in watchers.items() if selection.namespace == namespace]:
            lists._drop(connection, watcher_id)


@mutant("pip145.update.namespace-recreated")
def ends_watchers_with_their_namespace(patches: Patches) -> None:
    """The watchers of a namespace that is deleted end."""
    delete = Admin.delete_namespace

    def changed(admin: Admin, namespace: str, *, force: bool = False) -> None:
        delete(admin, namespace, force=force)
        _end_watchers(admin._broker, namespace)

    patches.operation(delete, changed)


@mutant("pip145.update.survives-unload")
def unloads_watchers_with_their_namespace(patches: Patches) -> None:
    """The watchers of a namespace that is unloaded end."""
    unload = Admin.unload_namespace

    def changed(admin: Admin, namespace: str) -> None:
        unload(admin, namespace)
        _end_watchers(admin._broker, namespace)

    patches.operation(unload, changed)


@mutant("pip145.update.every-watcher")
def tells_a_hundred_watchers_at_most(patches: Patches) -> None:
    """A change is announced to the first hundred watchers that it concerns."""
    announce = TopicListBroker._announce
    patches.replace(TopicListBroker, "_announce", lambda lists, topic, *, is_new: announce(lists, topic, is_new=is_new)[:100])


@mutant("pip145.update.concurrent")
def loses_changes_in_a_burst(patches: Patches) -> None:
    """Of all changes in one moment a watcher is told of fifty."""
    told: Counter[tuple[Session, int, float]] = Counter()

    def change(session: Session, update: CommandWatchTopicUpdate) -> bool:
        moment = session, update.watcher_id, session.broker.now
        told[moment] += 1
        return told[moment] <= 50

    patches.outgoing(CommandWatchTopicUpdate, change)
