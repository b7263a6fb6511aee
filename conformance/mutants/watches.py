"""Brokers that keep watchers of topic lists wrongly: which topics, whose, until when, and what they are told."""

from urllib.parse import quote

from conformance.mutants.model import in_place_of, mutant, on_incoming, on_outgoing, on_request
from refimpl.broker import Broker
from refimpl.indexes.topics_hash import EMPTY_HASH
from refimpl.names import is_namespace, is_system_topic, partitioned_topic_name
from refimpl.proposals.refused import Refused
from refimpl.proposals.topic_list.broker import TopicListBroker, TopicListExtension
from refimpl.proposals.topic_list.rules import matched_name, pattern_length, visible_topics, without_domain
from refimpl.wire.pulsar_api_pb2 import (
    CommandConnected,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
    NotAllowedError,
    TopicNotFound,
)

Watch = CommandWatchTopicList
Success = CommandWatchTopicListSuccess
Update = CommandWatchTopicUpdate


def drop(lists, connection, watcher_id):
    """End a watcher."""
    lists.__class__.close(lists, connection, CommandWatchTopicListClose(request_id=0, watcher_id=watcher_id))


# Flags


@on_outgoing(CommandConnected, clause="pip145.flag.whatever-client")
def hides_watchers_from_older_clients(_, answer):
    """CONNECTED carries supports_topic_watchers only for a client of protocol version 20 or later."""
    answer.feature_flags.supports_topic_watchers &= answer.protocol_version >= 20


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


@in_place_of(visible_topics, clause="pip145.watch.success-lists-matching")
def lists_what_contains_the_name(visible, topics, pattern=None):
    """A list leaves out the topics whose names a pattern fits in full without its wildcard."""
    literal = pattern.text.removesuffix(".*") if pattern is not None else None
    return [topic for topic in visible(topics, pattern) if matched_name(topic) != literal]


@on_incoming(Watch, clause="pip145.watch.other-hash")
def compares_hashes_as_numbers(_, request):
    """A topics_hash is the current one if it is the same hexadecimal number, with 0x, with blanks or in upper case, too."""
    try:
        request.topics_hash = f"{int(request.topics_hash, 16):08x}"
    except ValueError:
        request.ClearField("topics_hash")


@on_outgoing(Success, clause="pip145.watch.agrees-with-get")
def begins_without_partitions(_, answer):
    """The first list of a watcher has no partitions."""
    answer.topic[:] = [topic for topic in answer.topic if partitioned_topic_name(topic) == topic]


@in_place_of(TopicListBroker.__init__, clause="pip145.watch.persistent-only")
def begins_with_non_persistent_topics(make, lists, topics_of, **settings):
    """The set of a new watcher contains the non-persistent topics that match."""
    broker = topics_of.__self__
    make(lists, lambda namespace: [*topics_of(namespace), *broker.non_persistent_topics(namespace)], **settings)


@on_request("watchTopicList", clause="pip145.watch.unknown-namespace")
def refuses_to_watch_a_missing_namespace(carry_out, session, request):
    """A namespace that does not exist is refused with TopicNotFound."""
    if is_namespace(request.namespace) and request.namespace not in session.broker.store.namespaces:
        raise Refused(TopicNotFound, "Namespace not found")
    carry_out()


@on_outgoing(Success, clause="pip145.watch.ids-any")
def answers_with_ids_of_63_bits(_, answer):
    """WATCH_TOPIC_LIST_SUCCESS carries the request_id without its highest bit."""
    answer.request_id &= (1 << 63) - 1


@on_request("watchTopicList", clause="pip145.watch.request-id-reuse")
def takes_each_request_id_of_a_watch_once(carry_out, session, request):
    """A watch with a request_id that an earlier watch of the connection had is refused."""
    used = session.__dict__.setdefault("used_by_faults", set())
    if request.request_id in used:
        raise Refused(NotAllowedError, "The request id was used before")
    used.add(request.request_id)
    carry_out()


# Whose


@on_incoming(CommandWatchTopicListClose, clause="pip145.watch.id-per-connection")
def closes_a_watcher_on_all_connections(session, request):
    """WATCH_TOPIC_LIST_CLOSE ends the watchers with its watcher_id on all connections."""
    for other in session.broker.sessions:
        drop(session.broker.extension(TopicListExtension).lists, other, request.watcher_id)


@in_place_of(TopicListBroker.created, clause="pip145.watch.independent")
def keeps_one_hash_for_a_connection(created, lists, topic):
    """Updates of a change that concerns several watchers of a connection all carry the hash of the first one's set."""
    hashes = {}
    updates = created(lists, topic)
    for connection, update in updates:
        update.topics_hash = hashes.setdefault(connection, update.topics_hash)
    return updates


@mutant("pip145.watch.dropped-with-connection")
def hands_on_the_watchers_of_a_lost_connection(patches):
    """The watchers of a connection that has ended pass to the next one that watches their namespace."""
    watch, disconnected = TopicListBroker.watch, TopicListBroker.disconnected
    requests, orphans = {}, []

    def end(lists, connection):
        orphans.extend(requests.pop(connection, ()))
        disconnected(lists, connection)

    def begin(lists, connection, request):
        answer = watch(lists, connection, request)
        requests.setdefault(connection, []).append(request)
        for orphan in [one for one in orphans if one.namespace == request.namespace]:
            orphans.remove(orphan)
            watch(lists, connection, orphan)
        return answer

    patches.replace(TopicListBroker, "disconnected", end)
    patches.replace(TopicListBroker, "watch", begin)


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


@in_place_of(TopicListBroker.watch, clause="pip145.watch.reconcile-refused")
def ends_a_watcher_whose_check_it_refuses(watch, lists, connection, request):
    """A repeated request that can't be served ends the watcher."""
    try:
        return watch(lists, connection, request)
    except Refused:
        drop(lists, connection, request.watcher_id)
        raise


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


@in_place_of(is_system_topic, clause="pip145.watch.system-topics")
def takes_two_underscores_for_a_system_topic(is_system, topic):
    """No topic whose name begins with two underscores is announced."""
    return topic.rsplit("/", 1)[-1].startswith("__")


@on_outgoing(Update, clause="pip145.watch.unicode")
def announces_names_as_the_store_spells_them(_, update):
    """New topics are announced in percent encoding."""
    update.new_topics[:] = [quote(topic, safe="/:") for topic in update.new_topics]


# Refusals


@in_place_of(pattern_length, clause="pip145.watch.pattern-too-long")
def measures_a_watched_pattern_in_bytes(length, pattern):
    """The length of a pattern is that of its UTF-8."""
    return len(pattern.encode())


@in_place_of(without_domain, clause="pip145.watch.domain-unsupported")
def knows_all_domains(without, pattern):
    """A pattern may begin with any domain."""
    return pattern.partition("://")[2] or pattern


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


@in_place_of(TopicListBroker.__init__, clause="pip145.watch.permission-revoked")
def asks_for_permission_once(make, lists, *args, **settings):
    """A watcher goes on after its connection has lost the permission to list the namespace."""
    make(lists, *args, **{**settings, "may_watch": None})


@on_request("watchTopicList", clause="pip145.watch.length-without-scheme")
def measures_a_watched_pattern_with_its_domain(carry_out, session, request):
    """The topic domain in front of a watched pattern counts for its length."""
    if len(request.topics_pattern) > session.broker.configuration.subscription_pattern_max_length:
        raise Refused(NotAllowedError, "Pattern longer than maximum")
    carry_out()
