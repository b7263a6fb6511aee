"""Brokers that watch scalable topics wrongly (PR 25648): which topics, whose watch, what is told, and what a topic is made of."""

from conformance.mutants.model import in_place_of, mutant, on_incoming, on_outgoing, on_request
from refimpl.broker import Broker
from refimpl.indexes.topics_hash import topics_hash
from refimpl.names import is_namespace, namespace_of, partition_name
from refimpl.proposals.refused import ProtocolViolation
from refimpl.proposals.scalable_topics.broker import ScalableTopicsBroker, ScalableTopicsExtension
from refimpl.proposals.scalable_topics.rules import filters_of, fits, topic_of_path
from refimpl.wire.pulsar_api_pb2 import (
    CommandWatchScalableTopics,
    CommandWatchScalableTopicsClose,
    CommandWatchScalableTopicsUpdate,
    NotAllowedError,
    ScalableTopicsDiff,
    TopicNotFound,
)

Watch = CommandWatchScalableTopics
Update = CommandWatchScalableTopicsUpdate


def drop(watches, connection, watch_id):
    """End a watch."""
    watches.__class__.close(watches, connection, CommandWatchScalableTopicsClose(watch_id=watch_id))


def refusal(request, code=NotAllowedError):
    """Return an update that refuses a watch."""
    return Update(watch_id=request.watch_id, error=code, message="no")


# Flags


@in_place_of(ScalableTopicsExtension.create, clause="pr25648.flag.nothing-unasked")
def tells_every_connection_of_scalable_topics(create, scalable, topic, properties, segments):
    """New scalable topics are told to every connection, watches or none."""
    create(scalable, topic, properties, segments)
    for session in scalable.host.sessions:
        if not scalable.watches.watch_count(session):
            session.send(Update(watch_id=0, diff=ScalableTopicsDiff(added=[topic])))


@in_place_of(ScalableTopicsBroker.watch, clause="pr25648.watch.protocol-version")
def serves_watches_to_newer_clients_only(watch, watches, session, request):
    """A watch of a client that states a protocol version below 20 is refused."""
    return watch(watches, session, request) if session.protocol_version >= 20 else refusal(request)


# Which topics


@in_place_of(is_namespace, clause="pr25648.namespace.malformed")
def takes_any_text_with_a_slash_for_a_namespace(is_one, text, *, lenient=False):
    """Whatever has one slash is a namespace."""
    return text.count("/") == 1


@on_incoming(Watch, clause="pr25648.namespace.trailing-slash")
def cuts_off_a_slash_at_the_end(_, request):
    """A namespace with a slash at its end is watched without it."""
    request.namespace = request.namespace.removesuffix("/")


@in_place_of(ScalableTopicsBroker.watch, clause="pr25648.namespace.unknown")
def refuses_a_namespace_that_does_not_exist(watch, watches, session, request):
    """A watch over a namespace that does not exist is refused with TopicNotFound."""
    known = request.namespace in session.broker.store.namespaces or not is_namespace(request.namespace)
    return watch(watches, session, request) if known else refusal(request, TopicNotFound)


@in_place_of(ScalableTopicsBroker.notified, clause="pr25648.namespace.only")
def tells_all_watches_of_new_topics(notified, watches, path, now):
    """A new topic is told to the watches over all namespaces of its tenant."""
    tenant = namespace_of(topic_of_path(path) or "").partition("/")[0]
    for namespace in [one for one in watches._selections if one.startswith(f"{tenant}/")]:
        for selection in watches._selections[namespace].values():
            for session in selection.sessions:
                session.changed(topic_of_path(path), True)
                watches._armed.setdefault(session, now + 0.05)
    notified(watches, path, now)


@in_place_of(Broker.create_partitions, clause="pr25648.namespace.ordinary-topics")
def tells_of_partitions_too(create, broker, name, partitions):
    """Whoever watches the scalable topics of a namespace is told which partitions of ordinary topics come there."""
    create(broker, name, partitions)
    for session, watches in broker.extension(ScalableTopicsExtension).watches._sessions.items():
        for watch_id in [one for one, watch in watches.items() if watch.selection.namespace == name.namespace]:
            added = [partition_name(name.full, number) for number in range(partitions)]
            session.send(Update(watch_id=watch_id, diff=ScalableTopicsDiff(added=added)))


@in_place_of(fits, clause="pr25648.filter.none")
def wants_a_filter_for_topics_with_properties(fitting, properties, filters):
    """Without filters, topics with properties are not selected."""
    return fitting(properties, filters) and bool(filters or not properties)


@in_place_of(fits, clause="pr25648.filter.all-hold")
def takes_any_filter_for_enough(fitting, properties, filters):
    """A topic that has one of the properties asked for is selected."""
    return not filters or any(properties.get(key) == value for key, value in filters.items())


@in_place_of(fits, clause="pr25648.filter.exact")
def overlooks_blanks_and_case_of_a_value(fitting, properties, filters):
    """Values are compared without the blanks around them and without regard to case."""
    return all(key in properties and properties[key].strip().lower() == value.strip().lower() for key, value in filters.items())


@in_place_of(fits, clause="pr25648.filter.empty-value")
def takes_an_empty_value_for_any(fitting, properties, filters):
    """A filter with an empty value selects the topics that have the key."""
    return all(key in properties and value in ("", properties[key]) for key, value in filters.items())


@in_place_of(filters_of, clause="pr25648.filter.repeated-key")
def counts_the_first_of_repeated_keys(made, pairs):
    """Of filters with the same key the first one counts."""
    return made(list(pairs)[::-1])


# Hashes


@in_place_of(ScalableTopicsBroker.watch, clause="pr25648.hash.alive")
def goes_to_sleep_after_silence(watch, watches, connection, request):
    """A watch that is answered by silence is told nothing."""
    update = watch(watches, connection, request)
    if update is None:
        drop(watches, connection, request.watch_id)
    return update


@in_place_of(ScalableTopicsBroker.watch, clause="pr25648.hash.other")
def takes_any_hash_for_the_current_one(watch, watches, connection, request):
    """A watch with a hash is met with silence, whatever there is."""
    update = watch(watches, connection, request)
    return None if update is None or (request.current_hash and not update.HasField("error")) else update


@in_place_of(ScalableTopicsBroker.watch, clause="pr25648.hash.of-filtered")
def compares_with_the_hash_of_the_namespace(watch, watches, connection, request):
    """The hash of a watch with filters is compared with that of all topics of the namespace."""
    given, request.current_hash = request.current_hash, ""
    update = watch(watches, connection, request)
    return None if given and given == topics_hash(watches._topics_of(request.namespace)) and not update.HasField("error") else update


# Whose watch


@on_outgoing(Update, clause=("pr25648.watch.id-range", "pr25648.watch.id-echoed"))
def takes_an_id_for_a_signed_number(_, update):
    """Updates carry the lower 63 bits of their watch_id."""
    update.watch_id &= (1 << 63) - 1


@in_place_of(ScalableTopicsBroker.watch, clause="pr25648.watch.repeated-id")
def keeps_the_first_watch_of_an_id(watch, watches, connection, request):
    """A request with the id of an open watch is refused."""
    before = watches.watch_count(connection)
    drop_none = request.watch_id not in watches._sessions.get(connection, {})
    return watch(watches, connection, request) if drop_none or not before else refusal(request)


@in_place_of(ScalableTopicsBroker.tick, clause="pr25648.watch.several")
def tells_one_watch_of_a_connection(tick, watches, now):
    """Of the watches of one connection one is told of a change."""
    return list(dict(reversed(tick(watches, now))).items())


@in_place_of(ScalableTopicsBroker.watch, clause="pr25648.watch.idle-connection")
def forgets_a_watch_after_a_minute(watch, watches, session, request):
    """A watch ends, without a word, after a minute."""
    session.broker.timers.at(session.broker.now + 60, lambda: drop(watches, session, request.watch_id))
    return watch(watches, session, request)


@in_place_of(ScalableTopicsBroker.watch, clause="pr25648.watch.snapshot")
def lists_a_hundred_topics_at_most(watch, watches, connection, request):
    """A snapshot has no more than a hundred topics."""
    update = watch(watches, connection, request)
    if update is not None and len(update.snapshot.topics) > 100:
        del update.snapshot.topics[100:]
    return update


# Errors


@in_place_of(ScalableTopicsBroker.watch, clause="pr25648.error.nothing-follows")
def opens_the_watch_that_it_refuses(watch, watches, connection, request):
    """A watch that is refused is told of changes all the same."""
    update = watch(watches, connection, request)
    if update is not None and update.HasField("error"):
        may, watches._may_watch = watches._may_watch, lambda *_: True
        watch(watches, connection, request)
        watches._still_may = lambda _: True
        watches._may_watch = may
    return update


@in_place_of(ScalableTopicsBroker.watch, clause="pr25648.error.ends-watch")
def keeps_a_watch_whose_repetition_it_refuses(watch, watches, connection, request):
    """A request that is refused leaves the open watch of its id as it is."""
    return watch(watches, connection, request) if is_namespace(request.namespace) else refusal(request)


@in_place_of(ScalableTopicsBroker.watch, clause="pr25648.error.id-free")
def spends_an_id_on_an_error(watch, watches, session, request):
    """A watch whose id was refused once on its connection is refused again."""
    spent = session.__dict__.setdefault("spent_by_faults", set())
    update = refusal(request) if request.watch_id in spent else watch(watches, session, request)
    if update is not None and update.HasField("error"):
        spent.add(request.watch_id)
    return update


# Closing


@on_incoming(CommandWatchScalableTopicsClose, clause="pr25648.close.nothing-follows")
def closes_a_watch_when_its_window_ends(session, request):
    """A watch ends a tenth of a second after its close."""
    watches = session.broker.extension(ScalableTopicsExtension).watches
    session.broker.timers.at(session.broker.now + 0.1, lambda: drop(watches, session, request.watch_id))
    return False


@on_request("watchScalableTopicsClose", clause="pr25648.close.unknown")
def ends_the_connection_for_an_unknown_id(carry_out, session, request):
    """A close of an id that has no watch ends the connection."""
    watches = session.broker.extension(ScalableTopicsExtension).watches
    before = watches.watch_count(session)
    carry_out()
    if watches.watch_count(session) == before:
        raise ProtocolViolation("there is no such watch")


@in_place_of(ScalableTopicsBroker.watch, clause="pr25648.close.id-free")
def begins_a_closed_id_with_silence(watch, watches, session, request):
    """A watch whose id was used before on its connection begins with silence."""
    used = session.__dict__.setdefault("used_by_faults", set())
    update = watch(watches, session, request)
    silent = request.watch_id in used
    used.add(request.watch_id)
    return None if silent else update


# Races: what has changed within the last 30 milliseconds is not yet where it should be


def _young(patches):
    """Return what tells which topics of a list have just been created."""
    create, created = ScalableTopicsExtension.create, {}

    def changed(scalable, topic, properties, segments):
        created[topic] = scalable.host.now
        create(scalable, topic, properties, segments)

    patches.replace(ScalableTopicsExtension, "create", changed)
    return lambda session, topics: [topic for topic in topics if 0 < session.broker.now - created[topic] < 0.03]


@mutant("pr25648.watch.snapshot-first")
def tells_a_new_topic_before_the_snapshot(patches):
    """A topic that came between listening and listing is told by a diff in front of the snapshot."""
    watch, young = ScalableTopicsBroker.watch, _young(patches)

    def changed(watches, session, request):
        update = watch(watches, session, request)
        for topic in young(session, update.snapshot.topics) if update is not None else ():
            session.send(Update(watch_id=request.watch_id, diff=ScalableTopicsDiff(added=[topic])))
        return update

    patches.replace(ScalableTopicsBroker, "watch", changed)


@mutant("pr25648.watch.listener-first")
def lists_scalable_topics_before_it_listens(patches):
    """A topic that came between listing and listening is neither listed nor told."""
    watch, young = ScalableTopicsBroker.watch, _young(patches)

    def changed(watches, session, request):
        update = watch(watches, session, request)
        for topic in young(session, list(update.snapshot.topics)) if update is not None else ():
            update.snapshot.topics.remove(topic)
        return update

    patches.replace(ScalableTopicsBroker, "watch", changed)
