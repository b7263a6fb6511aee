"""Brokers that keep watchers of topic lists wrongly: which topics, whose, until when, and what they are told."""

from urllib.parse import quote

from conformance.mutants.model import in_place_of, mutant, on_incoming, on_outgoing, on_request
from refimpl.broker import Broker
from refimpl.indexes.topic_patterns import PatternIndex
from refimpl.indexes.topics_hash import EMPTY_HASH
from refimpl.names import partitioned_topic_name
from refimpl.proposals.refused import Refused
from refimpl.proposals.topic_list.broker import TopicListBroker, TopicListExtension
from refimpl.proposals.topic_list.rules import matched_name, without_domain
from refimpl.wire.pulsar_api_pb2 import (
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
    NotAllowedError,
)

Watch = CommandWatchTopicList
Success = CommandWatchTopicListSuccess
Update = CommandWatchTopicUpdate


def drop(lists, connection, watcher_id):
    """End a watcher."""
    lists.__class__.close(lists, connection, CommandWatchTopicListClose(request_id=0, watcher_id=watcher_id))


# Flags


@in_place_of(TopicListExtension.topic_created, clause="pip145.flag.nothing-unasked")
def tells_every_connection_of_new_topics(topic_created, extension, topic):
    """New topics are told to every connection, watchers or none."""
    topic_created(extension, topic)
    for session in extension.host.sessions:
        if not extension.lists.watcher_count(session):
            session.send(Update(watcher_id=0, new_topics=[topic], topics_hash=EMPTY_HASH))


@on_request("getTopicsOfNamespace", clause="pip145.list.no-watch")
def watches_whatever_is_listed(carry_out, session, request):
    """A request for a filtered list opens a watcher, with the request_id as its id."""
    carry_out()
    if request.HasField("topics_pattern"):
        watch = Watch(request_id=0, watcher_id=request.request_id, namespace=request.namespace, topics_pattern=request.topics_pattern)
        session.broker.extension(TopicListExtension).lists.watch(session, watch)


@in_place_of(TopicListBroker.watch, clause="core.flags.topic-watcher-reconcile")
def refuses_a_repeated_request(watch, lists, connection, request):
    """A request that repeats a watcher_id is refused although the feature flag is set."""
    before = lists.watcher_count(connection)
    answer = watch(lists, connection, request)
    if lists.watcher_count(connection) == before:
        raise Refused(NotAllowedError, "The watcher exists")
    return answer


# What a watcher begins with


@on_outgoing(Success, clause="pip145.watch.agrees-with-get")
def begins_without_partitions(_, answer):
    """The first list of a watcher has no partitions."""
    answer.topic[:] = [topic for topic in answer.topic if partitioned_topic_name(topic) == topic]


@in_place_of(TopicListBroker.__init__, clause="pip145.watch.persistent-only")
def begins_with_non_persistent_topics(make, lists, topics_of, **settings):
    """The set of a new watcher contains the non-persistent topics that match."""
    broker = topics_of.__self__
    make(lists, lambda namespace: [*topics_of(namespace), *broker.non_persistent_topics(namespace)], **settings)


# Whose


@in_place_of(TopicListBroker.close, clause="pip145.watch.id-per-connection")
def closes_watchers_by_pattern_and_id(close, lists, connection, request):
    """Closing a watcher ends those of other connections that have its namespace, its pattern and its id."""
    selection = lists._watchers.find(connection, request.watcher_id)
    for other, watcher_id in list(selection.watchers) if selection else ():
        if other is not connection and watcher_id == request.watcher_id:
            lists._drop(other, watcher_id)
    return close(lists, connection, request)


@in_place_of(Broker.persistent_topics, clause="pip145.watch.success-lists-matching")
def leaves_terminated_topics_out(topics_of, broker, namespace):
    """A topic that is terminated is not listed any more."""
    return [topic for topic in topics_of(broker, namespace) if not broker.store.namespaces[namespace].topics[topic].terminated]


@in_place_of(TopicListBroker.created, clause="pip145.watch.independent")
def keeps_one_hash_for_a_connection(created, lists, topic):
    """Updates of a change that concerns several watchers of a connection all carry the hash of the first one's set."""
    hashes = {}
    updates = created(lists, topic)
    for connection, update in updates:
        update.topics_hash = hashes.setdefault(connection, update.topics_hash)
    return updates


@on_incoming(Watch, clause="pip145.watch.reconnect")
def takes_any_hash_of_a_new_connection_for_the_current_one(session, request):
    """The first request of a connection that brings a hash is answered as if nothing had changed."""
    lists = session.broker.extension(TopicListExtension).lists
    if request.HasField("topics_hash") and not lists.watcher_count(session):
        current = lists.watch(session, Watch(request_id=0, watcher_id=request.watcher_id, namespace=request.namespace,
                                             topics_pattern=request.topics_pattern))  # fmt: skip
        request.topics_hash = current.topics_hash


@in_place_of(TopicListBroker.watch, clause="pip145.watch.reconcile-answers")
def answers_a_check_by_the_hash_alone(watch, lists, connection, request):
    """A request with a hash is answered by no topics."""
    answer = watch(lists, connection, request)
    if request.HasField("topics_hash"):
        answer.ClearField("topic")
    return answer


@in_place_of(TopicListBroker.watch, clause="pip145.watch.reconcile-keeps")
def begins_anew_with_a_repeated_request(watch, lists, connection, request):
    """The pattern and namespace of a repeated request replace the first ones."""
    without_domain(request.topics_pattern)
    drop(lists, connection, request.watcher_id)
    return watch(lists, connection, request)


@mutant("pip145.watch.reconcile-one-push")
def listens_once_more_for_each_request(patches):
    """After each repeated request every change is announced once more."""
    watch, created = TopicListBroker.watch, TopicListBroker.created
    counts = {}

    def begin(lists, connection, request):
        counts[connection, request.watcher_id] = counts.get((connection, request.watcher_id), 0) + 1
        return watch(lists, connection, request)

    def announce(lists, topic):
        return [(to, update) for to, update in created(lists, topic) for _ in range(counts[to, update.watcher_id])]

    patches.replace(TopicListBroker, "watch", begin)
    patches.replace(TopicListBroker, "created", announce)


# Which topics


@in_place_of(TopicListBroker.created, clause="pip145.watch.namespace-only")
def tells_all_watchers_of_new_topics(created, lists, topic):
    """A new topic is announced to the watchers of all namespaces of its tenant."""
    updates = created(lists, topic)
    told = [connection for connection, _ in updates]
    for connection, watchers in lists._watchers.items():
        for watcher_id, selection in watchers.items() if connection not in told and topic.startswith("persistent:") else ():
            updates.append((connection, Update(watcher_id=watcher_id, new_topics=[topic], topics_hash=selection.topics.hash)))
    return updates


@in_place_of(without_domain, clause="pip145.watch.scheme-in-pattern")
def finds_a_domain_at_the_very_beginning_only(without, pattern):
    r"""A topic domain that stands behind `^` or `\Q` is taken for a part of the name."""
    return without(pattern) if pattern.startswith(("persistent://", "non-persistent://")) else pattern


@in_place_of(matched_name, clause="pip145.watch.partition-suffix")
def takes_a_word_for_the_number_of_a_partition(matched, topic):
    """A topic that is called x-partition-WORD is matched as if it were called x."""
    return topic.partition("://")[2].partition("-partition-")[0]


@on_outgoing(Update, clause="pip145.watch.unicode")
def announces_names_as_the_store_spells_them(_, update):
    """New topics are announced in percent encoding."""
    update.new_topics[:] = [quote(topic, safe="/:") for topic in update.new_topics]


# Refusals


@on_request("watchTopicList", clause="pip145.watch.id-free-after-error")
def keeps_the_id_of_a_refused_request(carry_out, session, request):
    """A watcher_id whose request was refused is refused from then on."""
    refused_ids = session.__dict__.setdefault("refused_by_faults", set())
    if request.watcher_id in refused_ids:
        raise Refused(NotAllowedError, "The watcher id is in use")
    try:
        carry_out()
    except Refused:
        refused_ids.add(request.watcher_id)
        raise


@in_place_of(Broker.check_listing, clause="pip145.watch.malformed-namespace")
def watches_what_is_no_namespace(check_listing, broker, namespace):
    """A namespace that is not of the form tenant/name is watched like an empty one."""


@on_request("watchTopicList", clause="pip145.watch.length-without-scheme")
def measures_a_watched_pattern_with_its_domain(carry_out, session, request):
    """The topic domain in front of a watched pattern counts for its length."""
    if len(request.topics_pattern) > session.broker.configuration.subscription_pattern_max_length:
        raise Refused(NotAllowedError, "Pattern longer than maximum")
    carry_out()


@in_place_of(PatternIndex.discard, clause="pip145.close.only-that-one")
def forgets_patterns_by_what_they_ask_for(discard, index, text):
    """The last watcher of a pattern takes all patterns with it that ask for the same text in a name."""
    gone = index._patterns.get(text)
    for other in [other for other, one in index._patterns.items() if gone is not None and one.literal == gone.literal]:
        discard(index, other)
