"""Faults of PIP-145: updates, races between them and requests, and the close of a watcher."""

from urllib.parse import unquote

from conformance.mutants.model import in_place_of, mutant, on_incoming, on_request
from conformance.mutants.watches import Update, Watch, drop
from refimpl.broker import Broker, Session
from refimpl.indexes.topic_patterns import PatternIndex, compile_pattern
from refimpl.indexes.topics_hash import EMPTY_HASH, topics_hash
from refimpl.names import namespace_of, partitioned_topic_name
from refimpl.proposals.refused import Refused
from refimpl.proposals.topic_list.broker import TopicListBroker, TopicListExtension
from refimpl.proposals.topic_list.rules import visible_topics, without_domain
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    ServiceNotReady,
)


@in_place_of(PatternIndex.matching, clause="pip145.update.only-matching")
def announces_what_a_pattern_fits_at_the_beginning(matching, index, name):
    """A pattern is told of longer names than it fits."""
    return list(dict.fromkeys(text for end in range(len(name) + 1) for text in matching(index, name[:end])))


@in_place_of(PatternIndex.matching, clause="pip145.update.on-create")
def forgets_the_flags_of_patterns(matching, index, name):
    """Changes are compared with a pattern as it is written: flags at its beginning count for the answer only."""
    found = matching(index, name)
    return [text for text in found if not text.startswith("(?") or compile_pattern(text.partition(")")[2]).matches(name)]


@in_place_of(PatternIndex.matching, clause="pip145.update.on-create")
def decodes_the_names_of_changes(matching, index, name):
    """The name of a topic that is created or deleted is percent-decoded once more before it is matched."""
    return matching(index, unquote(name))


@in_place_of(TopicListBroker.deleted, clause="pip145.watch.partition-suffix")
def deletes_partitions_by_their_own_names(deleted, lists, topic):
    """When a partition is deleted, the pattern is compared with its name, -partition-N included."""
    known = lists._indexes.get(namespace_of(topic))
    told = known.matching(topic.partition("://")[2]) if known is not None else ()
    return [one for one in deleted(lists, topic) if lists._watchers.find(one[0], one[1].watcher_id).text in told]


@in_place_of(TopicListBroker.created, clause="pip145.update.on-create")
def announces_each_partition_once(created, lists, topic):
    """A partition that was announced is not announced again when it comes back."""
    updates = created(lists, topic)
    told = lists.__dict__.setdefault("told_by_faults", set())
    again = topic in told and partitioned_topic_name(topic) != topic
    told.add(topic)
    return [] if again else updates


# Closing


@on_incoming(Watch, clause="pip145.close.id-reusable")
def remembers_the_pattern_of_a_closed_watcher(session, request):
    """A watcher_id that is registered anew watches what it watched before its close."""
    patterns = session.__dict__.setdefault("patterns_by_faults", {})
    request.topics_pattern = patterns.setdefault(request.watcher_id, request.topics_pattern)


@on_request("watchTopicListClose", clause="pip145.close.without-permission")
def lets_only_those_close_who_may_list(carry_out, session, request):
    """WATCH_TOPIC_LIST_CLOSE needs the permission to list some namespace."""
    if not any(session.broker.may_list(session, namespace) for namespace in session.broker.store.namespaces):
        raise Refused(AuthorizationError, "Client is not authorized to close a topic list watcher")
    carry_out()


# Changes


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
    """Of all changes in one moment a watcher is told of the first."""
    told = {}

    def change(session, update):
        before, told[session, update.watcher_id] = told.get((session, update.watcher_id)), session.broker.now
        return before != session.broker.now

    patches.outgoing(Update, change)


@in_place_of(TopicListBroker.created, TopicListBroker.deleted, clause="pip145.update.hash")
def hashes_only_what_an_update_names(tell, lists, topic):
    """The hash of an update is that of its own names."""
    updates = tell(lists, topic)
    for _, update in updates:
        update.topics_hash = topics_hash([*update.new_topics, *update.deleted_topics])
    return updates


# Races: what has changed within the last ten milliseconds is not yet where it should be


def _recently(patches, change):
    """Return what tells which topics have just changed, by `Broker.create_topic` or `Broker.delete_topic`."""
    original, times = getattr(Broker, change), {}

    def changed(broker, name):
        times[name.full] = broker.now
        original(broker, name)

    patches.replace(Broker, change, changed)
    return lambda broker: [topic for topic, time in times.items() if 0 < broker.now - time < 0.01]


def _on_answers(patches, change):
    """Change the answers to watch requests: `change` gets session, request, answer, and what was just created and deleted."""
    created, deleted = _recently(patches, "create_topic"), _recently(patches, "delete_topic")

    def watch(original):
        def changed(lists, session, request):
            answer = original(lists, session, request)
            pattern = compile_pattern(without_domain(request.topics_pattern))
            young, gone = (visible_topics(recent(session.broker), pattern) for recent in (created, deleted))
            change(session, request, answer, young, gone)
            return answer

        return changed

    patches.wrap(TopicListBroker, "watch", watch)


@mutant("pip145.race.create-not-lost", "pip145.race.delete-not-lost", "pip145.race.reconcile")
def lists_before_it_listens(patches):
    """What changes between listing and listening is neither in the answer nor announced."""

    def change(session, request, answer, young, gone):
        answer.topic[:] = [*(topic for topic in answer.topic if topic not in young), *gone]
        answer.topics_hash = topics_hash(answer.topic)

    _on_answers(patches, change)


@mutant("pip145.race.create-not-doubled", "pip145.race.delete-not-unheard")
def listens_before_it_lists(patches):
    """What changes between listening and listing is in the answer, and announced."""

    def change(session, request, answer, young, gone):
        news = [{"new_topics": [topic]} for topic in young if topic in answer.topic] + [{"deleted_topics": [topic]} for topic in gone]
        for one in news:
            update = Update(watcher_id=request.watcher_id, topics_hash=answer.topics_hash, **one)
            session.broker.timers.at(session.broker.now, lambda update=update: session.send(update))

    _on_answers(patches, change)


@in_place_of(Session.send, clause="pip145.race.close")
def sends_updates_by_another_thread(send, session, message, payload=None):
    """An update goes out 5 ms after its change, also if its watcher is closed meanwhile."""
    if isinstance(message, Update):
        session.broker.timers.at(session.broker.now + 0.005, lambda: send(session, message, payload))
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
