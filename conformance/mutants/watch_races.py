"""Brokers that lose, double or delay a change that happens just before a request about the same topics.

In virtual time the change comes first by some milliseconds. What has happened within the last ten is what such a broker gets wrong.
"""

from collections.abc import Callable

from google.protobuf.message import Message

from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import topic_lists
from refimpl.broker import Broker, Session
from refimpl.broker.admin import Admin
from refimpl.names import TopicName, namespace_of
from refimpl.proposals.topic_list import EMPTY_HASH, TopicListBroker, topics_hash
from refimpl.proposals.topic_list.rules import matched_name
from refimpl.wire.pulsar_api_pb2 import (
    CommandGetTopicsOfNamespace,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
)

Recent = Callable[[Session, str], list[str]]
"""Gets a session and the namespace; returns the topics that have just changed."""


def _recently(patches: Patches, change: str) -> Recent:
    """Take note of changes.

    Args:
        patches: Where it is done.
        change: The method of Broker by which topics change.
    """
    original = getattr(Broker, change)
    times: dict[str, float] = {}

    def changed(broker: Broker, name: TopicName) -> None:
        times[name.full] = broker.now
        original(broker, name)

    def recent(session: Session, namespace: str) -> list[str]:
        found = [topic for topic, time in times.items() if 0 < session.broker.now - time < 0.01]
        return [topic for topic in found if namespace_of(topic) == namespace]

    patches.replace(Broker, change, changed)
    return recent


def _change_answers(
    patches: Patches, change: Callable[[Session, CommandWatchTopicList, CommandWatchTopicListSuccess], object], *, repeated: bool = False
) -> None:
    """Change the answers to first requests, or to repeated ones."""
    watch = TopicListBroker.watch

    def changed(lists: TopicListBroker, session: Session, request: CommandWatchTopicList) -> CommandWatchTopicListSuccess:
        again = request.watcher_id in lists._watchers.get(session, {})
        answer = watch(lists, session, request)
        if again == repeated:
            change(session, request, answer)
        return answer

    patches.replace(TopicListBroker, "watch", changed)


def _is_just_created(answer: CommandWatchTopicListSuccess, recent: list[str]) -> bool:
    return len(answer.topic) == 1 and answer.topic[0] in recent


def _new(answer: CommandWatchTopicListSuccess) -> CommandWatchTopicUpdate:
    return CommandWatchTopicUpdate(watcher_id=answer.watcher_id, new_topics=answer.topic, topics_hash=answer.topics_hash)


def _gone(answer: CommandWatchTopicListSuccess, topic: str) -> CommandWatchTopicUpdate:
    return CommandWatchTopicUpdate(watcher_id=answer.watcher_id, deleted_topics=[topic], topics_hash=answer.topics_hash)


def _send_afterwards(session: Session, message: Message) -> None:
    session.broker.timers.at(session.broker.now, lambda: session.send(message))


@mutant("pip145.update.after-success")
def announces_before_it_answers(patches: Patches) -> None:
    """In a namespace with several topics the only one that matches, just created, is announced before the answer that lists it."""
    recent = _recently(patches, "create_topic")

    def change(session: Session, request: CommandWatchTopicList, answer: CommandWatchTopicListSuccess) -> None:
        several = len(session.broker.persistent_topics(request.namespace)) > 1
        if several and _is_just_created(answer, recent(session, request.namespace)):
            session.send(_new(answer))

    _change_answers(patches, change)


@mutant("pip145.race.create-not-lost")
def answers_before_its_first_topic_is_there(patches: Patches) -> None:
    """A topic that was just created, the only one that matches, is neither in the answer nor announced."""
    recent = _recently(patches, "create_topic")

    def change(session: Session, request: CommandWatchTopicList, answer: CommandWatchTopicListSuccess) -> None:
        if _is_just_created(answer, recent(session, request.namespace)):
            answer.ClearField("topic")
            answer.topics_hash = EMPTY_HASH

    _change_answers(patches, change)


@mutant("pip145.race.create-not-doubled")
def announces_what_it_has_just_listed(patches: Patches) -> None:
    """A topic that was just created, the only one that matches, is in the answer and announced."""
    recent = _recently(patches, "create_topic")

    def change(session: Session, request: CommandWatchTopicList, answer: CommandWatchTopicListSuccess) -> None:
        if _is_just_created(answer, recent(session, request.namespace)):
            _send_afterwards(session, _new(answer))

    _change_answers(patches, change)


def _just_deleted(session: Session, request: CommandWatchTopicList, recent: Recent) -> list[str]:
    pattern = topic_lists(session.broker)._watched_pattern(request)
    present = session.broker.persistent_topics(request.namespace)
    return [topic for topic in recent(session, request.namespace) if topic not in present and pattern.matches(matched_name(topic))]


@mutant("pip145.race.delete-not-lost")
def lists_a_topic_that_is_just_going(patches: Patches) -> None:
    """A topic that was just deleted is in the answer, and its deletion is not announced."""
    recent = _recently(patches, "delete_topic")

    def change(session: Session, request: CommandWatchTopicList, answer: CommandWatchTopicListSuccess) -> None:
        if gone := _just_deleted(session, request, recent):
            answer.topic.extend(gone)
            answer.topics_hash = topics_hash(answer.topic)

    _change_answers(patches, change)


@mutant("pip145.race.delete-not-unheard")
def announces_the_end_of_what_it_has_not_listed(patches: Patches) -> None:
    """The deletion of a topic that was just deleted is announced after an answer that does not list it."""
    recent = _recently(patches, "delete_topic")

    def change(session: Session, request: CommandWatchTopicList, answer: CommandWatchTopicListSuccess) -> None:
        for topic in _just_deleted(session, request, recent):
            _send_afterwards(session, _gone(answer, topic))

    _change_answers(patches, change)


@mutant("pip145.race.set-converges")
def never_hashes_what_it_listed_in_a_hurry(patches: Patches) -> None:
    """A topic that was just created, the only one that matches, is in the answer, but missing from all later hashes."""
    recent = _recently(patches, "create_topic")
    missing: dict[tuple[Session, int], str] = {}

    def change(session: Session, request: CommandWatchTopicList, answer: CommandWatchTopicListSuccess) -> None:
        if _is_just_created(answer, recent(session, request.namespace)):
            missing[session, answer.watcher_id] = answer.topic[0]

    def rehash(session: Session, update: CommandWatchTopicUpdate) -> None:
        topics = topic_lists(session.broker)._watchers[session][update.watcher_id].topics
        update.topics_hash = topics_hash(topic for topic in topics if topic != missing.get((session, update.watcher_id)))

    _change_answers(patches, change)
    patches.outgoing(CommandWatchTopicUpdate, rehash)


@mutant("pip145.race.reconcile")
def repeats_a_topic_that_is_gone(patches: Patches) -> None:
    """The answer to a repeated request lists a topic that was just deleted, after its deletion was announced."""
    recent = _recently(patches, "delete_topic")

    def change(session: Session, request: CommandWatchTopicList, answer: CommandWatchTopicListSuccess) -> None:
        if gone := _just_deleted(session, request, recent):
            answer.topic.extend(gone)
            answer.topics_hash = topics_hash(answer.topic)

    _change_answers(patches, change, repeated=True)


@mutant("pip145.race.close")
def tells_a_closed_watcher_what_it_missed(patches: Patches) -> None:
    """A topic that was created just before the close of a watcher is announced to it after the answer."""
    recent = _recently(patches, "create_topic")
    close = TopicListBroker.close

    def changed(lists: TopicListBroker, session: Session, request: CommandWatchTopicListClose) -> Message:
        selection = lists._watchers.get(session, {}).get(request.watcher_id)
        for topic in recent(session, selection.namespace) if selection is not None else ():
            if selection is not None and topic in selection.topics:
                update = CommandWatchTopicUpdate(watcher_id=request.watcher_id, new_topics=[topic], topics_hash=selection.topics.hash)
                _send_afterwards(session, update)
        return close(lists, session, request)

    patches.replace(TopicListBroker, "close", changed)


@mutant("pip145.race.unload")
def takes_an_unloaded_namespace_for_an_empty_one(patches: Patches) -> None:
    """A namespace that was unloaded is watched like an empty one."""
    unload = Admin.unload_namespace
    unloaded: set[str] = set()

    def changed(admin: Admin, namespace: str) -> None:
        unloaded.add(namespace)
        unload(admin, namespace)

    def change(_: Session, request: CommandWatchTopicList, answer: CommandWatchTopicListSuccess) -> None:
        if request.namespace in unloaded:
            answer.ClearField("topic")
            answer.topics_hash = EMPTY_HASH

    patches.operation(unload, changed)
    _change_answers(patches, change)


@mutant("pip145.race.connection-lost")
def locks_a_namespace_whose_first_reader_is_lost(patches: Patches) -> None:
    """A namespace whose watcher is lost with its connection can't be listed any more, unless it was listed before."""
    disconnected = TopicListBroker.disconnected
    locked: set[str] = set()
    listed: set[str] = set()

    def changed(lists: TopicListBroker, session: Session) -> None:
        locked.update(selection.namespace for selection in lists._watchers.get(session, {}).values())
        disconnected(lists, session)

    def change(_: Session, request: CommandGetTopicsOfNamespace) -> bool:
        if request.namespace in locked - listed:
            return False
        listed.add(request.namespace)
        return True

    patches.replace(TopicListBroker, "disconnected", changed)
    patches.incoming(CommandGetTopicsOfNamespace, change)
