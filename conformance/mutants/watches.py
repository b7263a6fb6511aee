"""Brokers that keep watchers of topic lists wrongly: which topics, whose, until when, and what they are told."""

from urllib.parse import quote

from conformance.mutants.model import in_place_of, mutant, on_incoming, on_outgoing, on_request
from refimpl.broker import Broker, Session
from refimpl.indexes.topic_patterns import PatternIndex
from refimpl.indexes.topics_hash import EMPTY_HASH, TopicSet, topics_hash
from refimpl.names import is_namespace, is_system_topic, partitioned_topic_name
from refimpl.proposals.refused import ProtocolViolation, Refused
from refimpl.proposals.topic_list.broker import TopicListBroker, TopicListExtension
from refimpl.proposals.topic_list.rules import matched_name, pattern_length, visible_topics, without_domain
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    CommandConnected,
    CommandSuccess,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
    MetadataError,
    NotAllowedError,
    ServiceNotReady,
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


@in_place_of(TopicListBroker.__init__, clause="pip145.flag.watcher-switch")
def announces_watchers_though_switched_off(make, lists, *args, **settings):
    """With enableBrokerTopicListWatcher=false the feature flags are still set."""
    make(lists, *args, **{**settings, "watchers_enabled": True})


@in_place_of(TopicListBroker.advertise, clause="pip145.flag.filtering-off-clears")
def announces_watchers_that_it_will_refuse(advertise, lists, flags):
    """With the evaluation of patterns switched off supports_topic_watchers is still set."""
    flags.supports_topic_watchers = True


@in_place_of(TopicListBroker.watch, clause="pip145.flag.reconcile")
def takes_a_repeated_request_for_a_sign_of_life(watch, lists, connection, request):
    """A request that repeats a watcher_id is answered by no topics."""
    before = lists.watcher_count(connection)
    answer = watch(lists, connection, request)
    if lists.watcher_count(connection) == before:
        answer.ClearField("topic")
    return answer


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


@on_request("watchTopicList", clause="core.flags.topic-watchers")
def refuses_watchers_that_it_has_announced(carry_out, session, request):
    """WATCH_TOPIC_LIST is refused although the feature flag is set."""
    raise Refused(NotAllowedError, "Topic list watchers are not supported")


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


@on_incoming(Watch, clause="pip145.watch.equal-hash")
def pays_no_attention_to_the_hash_of_a_request(_, request):
    """Each answer lists the whole set, whatever the client has."""
    request.ClearField("topics_hash")


@on_incoming(Watch, clause="pip145.watch.other-hash")
def compares_hashes_as_numbers(_, request):
    """A topics_hash is the current one if it is the same hexadecimal number, with 0x, with blanks or in upper case, too."""
    try:
        request.topics_hash = f"{int(request.topics_hash, 16):08x}"
    except ValueError:
        request.ClearField("topics_hash")


@on_outgoing(Success, clause="pip145.watch.partition-names")
def begins_with_partitioned_topics_by_one_name(_, answer):
    """The first list has a partitioned topic by its own name, once."""
    answer.topic[:] = list(dict.fromkeys(map(partitioned_topic_name, answer.topic)))


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


@in_place_of(PatternIndex.matching, clause="pip145.update.only-matching")
def announces_what_a_pattern_fits_at_the_beginning(matching, index, name):
    """A pattern is told of longer names than it fits."""
    return list(dict.fromkeys(text for end in range(len(name) + 1) for text in matching(index, name[:end])))


# Refusals


@on_request("watchTopicList", clause="pip145.watch.error-keeps-connection")
def ends_the_connection_of_a_refused_watch(carry_out, session, request):
    """A watch that is refused ends the connection."""
    try:
        carry_out()
    except Refused as refused:
        raise ProtocolViolation(refused.message) from None


@on_request("watchTopicList", clause="pip145.watch.invalid-pattern")
def blames_itself_for_what_it_refuses(carry_out, session, request):
    """A pattern that does not compile is refused with MetadataError."""
    try:
        carry_out()
    except Refused as refused:
        raise Refused(MetadataError, refused.message) from None


@in_place_of(pattern_length, clause="pip145.watch.pattern-too-long")
def measures_a_watched_pattern_in_bytes(length, pattern):
    """The length of a pattern is that of its UTF-8."""
    return len(pattern.encode())


@in_place_of(without_domain, clause="pip145.watch.domain-unsupported")
def knows_all_domains(without, pattern):
    """A pattern may begin with any domain."""
    return pattern.partition("://")[2] or pattern


@in_place_of(TopicListBroker.__init__, clause="pip145.watch.evaluation-off")
def watches_although_evaluation_is_off(make, lists, *args, **settings):
    """With enableBrokerSideSubscriptionPatternEvaluation=false watch requests are served."""
    make(lists, *args, **{**settings, "evaluation_enabled": True})


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


@in_place_of(Broker.may_list, clause="pip145.watch.unauthorized")
def lets_everybody_watch(may_list, broker, connection, namespace):
    """Whoever asks may watch a namespace."""
    return True


@in_place_of(TopicListBroker.__init__, clause="pip145.watch.permission-revoked")
def asks_for_permission_once(make, lists, *args, **settings):
    """A watcher goes on after its connection has lost the permission to list the namespace."""
    make(lists, *args, **{**settings, "may_watch": None})


# Closing


@in_place_of(TopicListBroker.close, clause="pip145.close.answer")
def answers_a_close_as_the_text_says(close, lists, connection, request):
    """The close of a watcher is answered by WATCH_TOPIC_LIST_SUCCESS."""
    close(lists, connection, request)
    return Success(request_id=request.request_id, watcher_id=request.watcher_id, topics_hash=EMPTY_HASH)


@in_place_of(TopicListBroker.close, clause="pip145.close.answer-letter")
def answers_a_close_as_apache_pulsar_does(close, lists, connection, request):
    """The close of a watcher is answered by SUCCESS, whatever the text says."""
    close(lists, connection, request)
    return CommandSuccess(request_id=request.request_id)


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


@in_place_of(TopicListBroker.created, clause="pip145.update.on-create")
def tells_nobody_of_a_first_topic(created, lists, topic):
    """A topic that comes into an empty set is not announced."""
    updates = created(lists, topic)
    return [] if all(update.topics_hash == topics_hash([topic]) for _, update in updates) else updates


@in_place_of(TopicListBroker.deleted, clause="pip145.update.on-delete")
def tells_nobody_of_a_last_deletion(deleted, lists, topic):
    """A topic that was the last of its set is not announced as deleted."""
    updates = deleted(lists, topic)
    return [] if all(update.topics_hash == EMPTY_HASH for _, update in updates) else updates


@in_place_of(TopicSet.hash, clause="pip145.update.hash")
def forgets_a_first_name_in_the_hash(hashed, topics):
    """The hash of a set does not have its first name in it."""
    return hashed(TopicSet(list(topics)[1:])) if len(topics) > 1 else hashed(topics)


@on_outgoing(Update, clause="pip145.update.one-name")
def tells_every_name_twice(_, update):
    """An update names its topic twice."""
    update.new_topics.extend(list(update.new_topics))


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


@on_request("watchTopicList", clause="pip145.watch.length-without-scheme")
def measures_a_watched_pattern_with_its_domain(carry_out, session, request):
    """The topic domain in front of a watched pattern counts for its length."""
    if len(request.topics_pattern) > session.broker.configuration.subscription_pattern_max_length:
        raise Refused(NotAllowedError, "Pattern longer than maximum")
    carry_out()


@in_place_of(TopicListExtension.topic_deleted, clause="pip145.update.order")
def announces_deletions_later(topic_deleted, extension, topic):
    """A deletion is announced 50 ms later, behind what is created meanwhile."""
    extension.host.timers.at(extension.host.now + 0.05, lambda: topic_deleted(extension, topic))
