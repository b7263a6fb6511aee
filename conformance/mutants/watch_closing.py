"""Brokers that close watchers wrongly."""

from collections.abc import Hashable

from google.protobuf.message import Message

from conformance.mutants.model import Patches, mutant
from refimpl.broker import Session
from refimpl.broker.requests import Handler
from refimpl.proposals.refused import Refused
from refimpl.proposals.topic_list import EMPTY_HASH, TopicListBroker
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    CommandGetTopicsOfNamespace,
    CommandSuccess,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
    MetadataError,
)

Updates = list[tuple[Hashable, CommandWatchTopicUpdate]]


@mutant("pip145.close.answer")
def answers_a_close_as_the_text_says(patches: Patches) -> None:
    """The close of a watcher is answered by WATCH_TOPIC_LIST_SUCCESS, if it comes alone."""
    close = TopicListBroker.close

    def changed(lists: TopicListBroker, session: Session, request: CommandWatchTopicListClose) -> Message:
        alone = not session.has_output and not session._frames
        registered = request.watcher_id in lists._watchers.get(session, {})
        answer = close(lists, session, request)
        if not registered or not alone:
            return answer
        return CommandWatchTopicListSuccess(request_id=request.request_id, watcher_id=request.watcher_id, topics_hash=EMPTY_HASH)

    patches.replace(TopicListBroker, "close", changed)


@mutant("pip145.close.answer-letter")
def answers_a_close_as_apache_pulsar_does(patches: Patches) -> None:
    """The close of a watcher is answered by SUCCESS, whatever the text says."""
    close = TopicListBroker.close

    def changed(lists: TopicListBroker, connection: Hashable, request: CommandWatchTopicListClose) -> CommandSuccess:
        close(lists, connection, request)
        return CommandSuccess(request_id=request.request_id)

    patches.replace(TopicListBroker, "close", changed)


@mutant("pip145.close.unknown")
def refuses_to_close_a_watcher_twice(patches: Patches) -> None:
    """The second close of a watcher is refused with MetadataError."""
    close = TopicListBroker.close
    closed: set[tuple[Hashable, int]] = set()

    def changed(lists: TopicListBroker, connection: Hashable, request: CommandWatchTopicListClose) -> Message:
        key = connection, request.watcher_id
        if key in closed and request.watcher_id not in lists._watchers.get(connection, {}):
            raise Refused(MetadataError, "Topic list watcher is closed")
        closed.add(key)
        return close(lists, connection, request)

    patches.replace(TopicListBroker, "close", changed)


@mutant("pip145.close.silence")
def tells_closed_watchers_of_deletions(patches: Patches) -> None:
    """A closed watcher is told of deletions for as long as its connection has another watcher with its pattern."""
    close, announce = TopicListBroker.close, TopicListBroker._announce
    closed: dict[tuple[Hashable, object], int] = {}

    def changed_close(lists: TopicListBroker, connection: Hashable, request: CommandWatchTopicListClose) -> Message:
        closed[connection, lists._watchers.get(connection, {}).get(request.watcher_id)] = request.watcher_id
        return close(lists, connection, request)

    def changed_announce(lists: TopicListBroker, topic: str, *, is_new: bool) -> Updates:
        updates = announce(lists, topic, is_new=is_new)
        for connection, update in list(updates) if not is_new else ():
            watcher_id = closed.get((connection, lists._watchers[connection][update.watcher_id]))
            if watcher_id is not None:
                late = CommandWatchTopicUpdate(watcher_id=watcher_id, deleted_topics=[topic], topics_hash=update.topics_hash)
                updates.append((connection, late))
        return updates

    patches.replace(TopicListBroker, "close", changed_close)
    patches.replace(TopicListBroker, "_announce", changed_announce)


@mutant("pip145.close.only-that-one")
def closes_those_that_joined_a_watcher(patches: Patches) -> None:
    """The close of the oldest watcher of a pattern ends all that came to it later."""
    close = TopicListBroker.close

    def changed(lists: TopicListBroker, connection: Hashable, request: CommandWatchTopicListClose) -> Message:
        selection = lists._watchers.get(connection, {}).get(request.watcher_id)
        together = list(selection.watchers) if selection is not None else []
        for other, watcher_id in together[1:] if together[:1] == [(connection, request.watcher_id)] else ():
            lists._drop(other, watcher_id)
        return close(lists, connection, request)

    patches.replace(TopicListBroker, "close", changed)


@mutant("pip145.close.id-reusable")
def remembers_the_pattern_of_a_closed_watcher(patches: Patches) -> None:
    """A watcher_id that is registered anew watches what it watched before its close."""
    watch = TopicListBroker.watch
    patterns: dict[tuple[Hashable, int], str] = {}

    def changed(lists: TopicListBroker, connection: Hashable, request: CommandWatchTopicList) -> CommandWatchTopicListSuccess:
        key = connection, request.watcher_id
        lists._watched_pattern(request)
        request.topics_pattern = patterns.setdefault(key, request.topics_pattern)
        return watch(lists, connection, request)

    patches.replace(TopicListBroker, "watch", changed)


@mutant("pip145.close.before-created")
def leaves_a_watcher_whose_close_comes_early(patches: Patches) -> None:
    """A close that comes before the answer to the watch request is taken is answered, and the watcher stays."""
    close = TopicListBroker.close

    def changed(lists: TopicListBroker, session: Session, request: CommandWatchTopicListClose) -> Message:
        return CommandSuccess(request_id=request.request_id) if session.has_output else close(lists, session, request)

    patches.replace(TopicListBroker, "close", changed)


@mutant("pip145.close.before-created-harmless")
def locks_a_namespace_by_an_early_close(patches: Patches) -> None:
    """After a close that comes before the answer to its watch request is taken the namespace can't be listed any more."""
    close = TopicListBroker.close
    locked: set[str] = set()

    def changed(lists: TopicListBroker, session: Session, request: CommandWatchTopicListClose) -> Message:
        selection = lists._watchers.get(session, {}).get(request.watcher_id)
        if selection is not None and session.has_output:
            locked.add(selection.namespace)
        return close(lists, session, request)

    patches.replace(TopicListBroker, "close", changed)
    patches.incoming(CommandGetTopicsOfNamespace, lambda _, request: request.namespace not in locked)


@mutant("pip145.close.without-permission")
def lets_only_superusers_close(patches: Patches) -> None:
    """WATCH_TOPIC_LIST_CLOSE is refused with AuthorizationError, unless the role may do everything."""

    def make(close: Handler) -> Handler:
        def changed(session: Session, request: CommandWatchTopicListClose, frame: Frame) -> None:
            if not session.broker.authorization.is_super_user(session.role):
                raise Refused(AuthorizationError, "Client is not authorized to close a topic list watcher")
            close(session, request, frame)

        return changed

    patches.request("watchTopicListClose", make)
