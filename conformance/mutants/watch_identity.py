"""Brokers that mix up watchers: those of one connection, of several, and repeated requests of one."""

from collections import Counter
from collections.abc import Hashable

from google.protobuf.message import Message

from conformance.mutants.model import Patches, mutant
from refimpl.broker import Session
from refimpl.proposals.refused import Refused
from refimpl.proposals.topic_list import EMPTY_HASH, TopicListBroker
from refimpl.wire.pulsar_api_pb2 import (
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
    ServiceNotReady,
)

Updates = list[tuple[Hashable, CommandWatchTopicUpdate]]


@mutant("pip145.watch.id-per-connection")
def closes_a_watcher_on_all_connections(patches: Patches) -> None:
    """WATCH_TOPIC_LIST_CLOSE ends the watchers with its watcher_id and namespace on all connections."""
    close = TopicListBroker.close

    def changed(lists: TopicListBroker, connection: Hashable, request: CommandWatchTopicListClose) -> Message:
        watcher_id = request.watcher_id
        closed = lists._watchers.get(connection, {}).get(watcher_id)
        for other, watchers in list(lists._watchers.items()):
            if closed and watcher_id in watchers and watchers[watcher_id].namespace == closed.namespace:
                lists._drop(other, watcher_id)
        return close(lists, connection, request)

    patches.replace(TopicListBroker, "close", changed)


@mutant("pip145.watch.independent")
def keeps_one_hash_for_a_connection(patches: Patches) -> None:
    """Updates of a change that concerns several watchers of a connection all carry the hash of the first one's set."""
    announce = TopicListBroker._announce

    def changed(lists: TopicListBroker, topic: str, *, is_new: bool) -> Updates:
        updates = announce(lists, topic, is_new=is_new)
        hashes: dict[Hashable, str] = {}
        for connection, update in updates:
            update.topics_hash = hashes.setdefault(connection, update.topics_hash)
        return updates

    patches.replace(TopicListBroker, "_announce", changed)


@mutant("pip145.watch.dropped-with-connection")
def hands_on_the_watchers_of_a_lost_connection(patches: Patches) -> None:
    """The watchers of a connection that has ended pass to the next one that watches their namespace."""
    watch, disconnected = TopicListBroker.watch, TopicListBroker.disconnected
    requests: dict[Hashable, list[CommandWatchTopicList]] = {}
    orphans: list[CommandWatchTopicList] = []

    def end(lists: TopicListBroker, connection: Hashable) -> None:
        orphans.extend(requests.pop(connection, ()))
        disconnected(lists, connection)

    def changed(lists: TopicListBroker, connection: Hashable, request: CommandWatchTopicList) -> CommandWatchTopicListSuccess:
        answer = watch(lists, connection, request)
        requests.setdefault(connection, []).append(request)
        for orphan in [one for one in orphans if one.namespace == request.namespace]:
            orphans.remove(orphan)
            watch(lists, connection, orphan)
        return answer

    patches.replace(TopicListBroker, "disconnected", end)
    patches.replace(TopicListBroker, "watch", changed)


@mutant("pip145.watch.reconnect")
def takes_the_hash_of_an_earlier_connection_for_the_current_one(patches: Patches) -> None:
    """A request with a hash that another connection was once given for its pattern is answered by no topics."""
    watch = TopicListBroker.watch
    given: dict[tuple[str, str, str], Hashable] = {}

    def changed(lists: TopicListBroker, connection: Hashable, request: CommandWatchTopicList) -> CommandWatchTopicListSuccess:
        answer = watch(lists, connection, request)
        known = given.get((request.namespace, request.topics_pattern, request.topics_hash), connection)
        if known is not connection:
            answer.ClearField("topic")
        given.setdefault((request.namespace, request.topics_pattern, answer.topics_hash), connection)
        return answer

    patches.replace(TopicListBroker, "watch", changed)


@mutant("pip145.watch.reconcile-answers")
def answers_a_repeated_request_by_the_hash_alone(patches: Patches) -> None:
    """A repeated request with a hash is answered by no topics, unless it is the hash of the empty set."""
    watch = TopicListBroker.watch

    def changed(lists: TopicListBroker, connection: Hashable, request: CommandWatchTopicList) -> CommandWatchTopicListSuccess:
        repeated = request.watcher_id in lists._watchers.get(connection, {})
        answer = watch(lists, connection, request)
        if repeated and request.HasField("topics_hash") and request.topics_hash != EMPTY_HASH:
            answer.ClearField("topic")
        return answer

    patches.replace(TopicListBroker, "watch", changed)


@mutant("pip145.watch.reconcile-keeps")
def lets_a_repeated_request_change_what_is_watched(patches: Patches) -> None:
    """The pattern and namespace of a repeated request replace the first ones."""
    watch = TopicListBroker.watch

    def changed(lists: TopicListBroker, connection: Hashable, request: CommandWatchTopicList) -> CommandWatchTopicListSuccess:
        pattern = lists._watched_pattern(request)
        selection = lists._watchers.get(connection, {}).get(request.watcher_id)
        if selection is not None and (selection.namespace, selection.text) != (request.namespace, pattern.text):
            lists._drop(connection, request.watcher_id)
        return watch(lists, connection, request)

    patches.replace(TopicListBroker, "watch", changed)


@mutant("pip145.watch.reconcile-one-push")
def listens_once_more_for_each_check(patches: Patches) -> None:
    """After each repeated request with a hash every change is announced once more."""
    watch, announce = TopicListBroker.watch, TopicListBroker._announce
    checks: Counter[tuple[Hashable, int]] = Counter()

    def changed_watch(lists: TopicListBroker, connection: Hashable, request: CommandWatchTopicList) -> CommandWatchTopicListSuccess:
        repeated = request.watcher_id in lists._watchers.get(connection, {})
        checks[connection, request.watcher_id] += repeated and request.HasField("topics_hash")
        return watch(lists, connection, request)

    def changed_announce(lists: TopicListBroker, topic: str, *, is_new: bool) -> Updates:
        updates = announce(lists, topic, is_new=is_new)
        return [(to, update) for to, update in updates for _ in range(1 + checks[to, update.watcher_id])]

    patches.replace(TopicListBroker, "watch", changed_watch)
    patches.replace(TopicListBroker, "_announce", changed_announce)


@mutant("pip145.watch.reconcile-refused")
def ends_a_watcher_whose_check_it_refuses(patches: Patches) -> None:
    """A repeated request with a pattern that can't be served ends the watcher."""
    watch = TopicListBroker.watch

    def changed(lists: TopicListBroker, connection: Hashable, request: CommandWatchTopicList) -> CommandWatchTopicListSuccess:
        try:
            return watch(lists, connection, request)
        except Refused:
            lists._drop(connection, request.watcher_id)
            raise

    patches.replace(TopicListBroker, "watch", changed)


@mutant("pip145.race.same-id")
def is_still_creating_the_watcher(patches: Patches) -> None:
    """A repeated request is refused while an answer of the connection has not been taken."""
    watch = TopicListBroker.watch

    def changed(lists: TopicListBroker, session: Session, request: CommandWatchTopicList) -> CommandWatchTopicListSuccess:
        if session.has_output and request.watcher_id in lists._watchers.get(session, {}):
            raise Refused(ServiceNotReady, "The topic list watcher is already being created")
        return watch(lists, session, request)

    patches.replace(TopicListBroker, "watch", changed)
