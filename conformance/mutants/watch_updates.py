"""Faults of PIP-145: updates, races between them and requests, and the close of a watcher."""

from conformance.mutants.model import in_place_of, mutant, on_incoming, on_request
from conformance.mutants.watches import Success, Update, Watch, drop
from refimpl.broker import Broker, Session
from refimpl.indexes.topic_patterns import PatternIndex
from refimpl.indexes.topics_hash import EMPTY_HASH, TopicSet, topics_hash
from refimpl.names import partitioned_topic_name
from refimpl.proposals.refused import Refused
from refimpl.proposals.topic_list.broker import TopicListBroker, TopicListExtension
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    CommandSuccess,
    MetadataError,
    ServiceNotReady,
)


@in_place_of(PatternIndex.matching, clause="pip145.update.only-matching")
def announces_what_a_pattern_fits_at_the_beginning(matching, index, name):
    """A pattern is told of longer names than it fits."""
    return list(dict.fromkeys(text for end in range(len(name) + 1) for text in matching(index, name[:end])))


# Closing


@in_place_of(TopicListBroker.close, clause="pip145.close.unknown")
def refuses_to_close_an_unknown_watcher(close, lists, connection, request):
    """The close of a watcher that does not exist is refused with MetadataError."""
    before = lists.watcher_count(connection)
    answer = close(lists, connection, request)
    if lists.watcher_count(connection) == before:
        raise Refused(MetadataError, "Topic list watcher is closed")
    return answer


@in_place_of(TopicListBroker.close, clause="pip145.close.silence")
def answers_a_close_and_keeps_the_watcher(close, lists, connection, request):
    """A close is answered, and the watcher stays."""
    return CommandSuccess(request_id=request.request_id)


@in_place_of(TopicListBroker.close, clause="pip145.close.only-that-one")
def closes_all_watchers_of_the_connection(close, lists, connection, request):
    """The close of a watcher ends all of its connection."""
    lists.disconnected(connection)
    return close(lists, connection, request)


@on_incoming(Watch, clause="pip145.close.id-reusable")
def remembers_the_pattern_of_a_closed_watcher(session, request):
    """A watcher_id that is registered anew watches what it watched before its close."""
    patterns = session.__dict__.setdefault("patterns_by_faults", {})
    request.topics_pattern = patterns.setdefault(request.watcher_id, request.topics_pattern)


@in_place_of(TopicListBroker.close, clause="pip145.close.before-created")
def overlooks_a_close_behind_its_watch(close, lists, session, request):
    """A close that comes before the answer to the watch request is taken is answered, and the watcher stays."""
    return CommandSuccess(request_id=request.request_id) if session.has_output else close(lists, session, request)


@on_request("watchTopicListClose", clause="pip145.close.without-permission")
def lets_only_those_close_who_may_list(carry_out, session, request):
    """WATCH_TOPIC_LIST_CLOSE needs the permission to list some namespace."""
    if not any(session.broker.may_list(session, namespace) for namespace in session.broker.store.namespaces):
        raise Refused(AuthorizationError, "Client is not authorized to close a topic list watcher")
    carry_out()


# Changes


@in_place_of(TopicSet.hash, clause="pip145.update.hash")
def forgets_a_first_name_in_the_hash(hashed, topics):
    """The hash of a set does not have its first name in it."""
    return hashed(TopicSet(list(topics)[1:])) if len(topics) > 1 else hashed(topics)


@mutant("pip145.update.any-origin")
def announces_only_what_administrators_create(patches):
    """A topic that a producer or consumer brings into being is not announced."""
    by_clients, topic_created = set(), TopicListExtension.topic_created

    def make(command, handler):
        def changed(session, request, frame):
            by_clients.add(session.broker)
            try:
                handler(session, request, frame)
            finally:
                by_clients.discard(session.broker)

        return changed

    patches.handlers(make)
    patches.replace(
        TopicListExtension, "topic_created", lambda extension, topic: extension.host in by_clients or topic_created(extension, topic)
    )


@in_place_of(TopicListBroker.deleted, clause="pip145.update.partitioned")
def announces_the_deletion_of_the_first_partition_only(deleted, lists, topic):
    """Of a partitioned topic that is deleted only partition 0 is announced."""
    updates = deleted(lists, topic)
    return updates if partitioned_topic_name(topic) == topic or topic.endswith("-partition-0") else []


@in_place_of(Broker.unload, clause="pip145.update.only-existence")
def takes_an_unloaded_topic_for_a_new_one(unload, broker, name):
    """The unloading of a topic is announced as its deletion and its creation."""
    unload(broker, name)
    for extension in broker.extensions.values():
        extension.topic_deleted(name.full)
        extension.topic_created(name.full)


@in_place_of(TopicListBroker.created, clause="pip145.update.every-watcher")
def tells_one_watcher_of_each_pattern(created, lists, topic):
    """A new topic is announced to one watcher of each connection."""
    return list(dict(reversed(created(lists, topic))).items())


@in_place_of(Broker.unload, clause="pip145.update.survives-unload")
def unloads_watchers_with_their_topics(unload, broker, name):
    """The watchers of all connections end when a topic is unloaded."""
    unload(broker, name)
    for session in broker.sessions:
        broker.extension(TopicListExtension).lists.disconnected(session)


@in_place_of(TopicListBroker.deleted, clause="pip145.update.namespace-recreated")
def ends_a_watcher_that_has_nothing_left(deleted, lists, topic):
    """A watcher ends when its set becomes empty."""
    updates = deleted(lists, topic)
    for connection, update in updates:
        if update.topics_hash == EMPTY_HASH:
            drop(lists, connection, update.watcher_id)
    return updates


@mutant("pip145.update.concurrent")
def tells_of_one_change_of_a_moment(patches):
    """Of all changes in one moment a watcher is told of fifty."""
    told = {}

    def change(session, update):
        key = session, update.watcher_id, session.broker.now
        told[key] = told.get(key, 0) + 1
        return told[key] <= 50

    patches.outgoing(Update, change)


# Races: what has changed within the last ten milliseconds is not yet where it should be


def _recently(patches, change):
    """Return what tells which topics of a namespace have just changed, by `Broker.create_topic` or `Broker.delete_topic`."""
    original, times = getattr(Broker, change), {}

    def changed(broker, name):
        times[name.full] = broker.now
        original(broker, name)

    patches.replace(Broker, change, changed)
    return lambda broker, namespace: [
        topic for topic, time in times.items() if 0 < broker.now - time < 0.01 and topic.startswith(f"persistent://{namespace}/t-")
    ]


def _on_answers(patches, change):
    """Change the answers to watch requests: `change` gets the session, the request and the answer."""

    def watch(original):
        def changed(lists, session, request):
            answer = original(lists, session, request)
            change(session, request, answer)
            return answer

        return changed

    patches.wrap(TopicListBroker, "watch", watch)


def _soon(session, update):
    session.broker.timers.at(session.broker.now, lambda: session.send(update))


@mutant("pip145.race.create-not-lost")
def lists_before_it_listens(patches):
    """A topic that was created between listing and listening is neither in the answer nor announced."""
    recent = _recently(patches, "create_topic")

    def change(session, request, answer):
        young = recent(session.broker, request.namespace)
        answer.topic[:] = [topic for topic in answer.topic if topic not in young]
        answer.topics_hash = topics_hash(answer.topic)

    _on_answers(patches, change)


@mutant("pip145.race.create-not-doubled")
def listens_before_it_lists(patches):
    """A topic that was created between listening and listing is in the answer and announced."""
    recent = _recently(patches, "create_topic")

    def change(session, request, answer):
        for topic in set(recent(session.broker, request.namespace)) & set(answer.topic):
            _soon(session, Update(watcher_id=request.watcher_id, new_topics=[topic], topics_hash=answer.topics_hash))

    _on_answers(patches, change)


@mutant("pip145.race.delete-not-lost")
def lists_a_topic_that_is_just_going(patches):
    """A topic that was deleted between listing and listening is in the answer, and its deletion is not announced."""
    recent = _recently(patches, "delete_topic")

    def change(session, request, answer):
        answer.topic.extend(recent(session.broker, request.namespace))
        answer.topics_hash = topics_hash(answer.topic)

    _on_answers(patches, change)


@mutant("pip145.race.delete-not-unheard")
def announces_the_end_of_what_it_has_not_listed(patches):
    """A topic that was deleted between listening and listing is not in the answer, and announced as deleted."""
    recent = _recently(patches, "delete_topic")

    def change(session, request, answer):
        for topic in recent(session.broker, request.namespace):
            _soon(session, Update(watcher_id=request.watcher_id, deleted_topics=[topic], topics_hash=answer.topics_hash))

    _on_answers(patches, change)


@in_place_of(Session.send, clause="pip145.update.after-success")
def sends_answers_behind_updates(send, session, message, payload=None):
    """The answer to a watch is sent 0.2 s after the set was read; updates go out at once."""
    if isinstance(message, Success):
        session.broker.timers.at(session.broker.now + 0.2, lambda: send(session, message, payload))
    else:
        send(session, message, payload)


@in_place_of(TopicListBroker.watch, clause="pip145.race.same-id")
def is_still_creating_the_watcher(watch, lists, session, request):
    """A repeated request is refused while the answer to the first one has not been taken."""
    before = lists.watcher_count(session)
    answer = watch(lists, session, request)
    if lists.watcher_count(session) == before and session.has_output:
        raise Refused(ServiceNotReady, "The topic list watcher is already being created")
    return answer


@in_place_of(TopicListExtension.topic_deleted, clause="pip145.update.order")
def announces_deletions_later(topic_deleted, extension, topic):
    """A deletion is announced 50 ms later, behind what is created meanwhile."""
    extension.host.timers.at(extension.host.now + 0.05, lambda: topic_deleted(extension, topic))
