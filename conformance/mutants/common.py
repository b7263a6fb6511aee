"""Brokers that make one mistake in several proposals: in their handshake, in how they keep watches, and in what they count."""

from google.protobuf.message import Message

from conformance.mutants.model import in_place_of, mutant, on_incoming, on_outgoing
from refimpl.broker import Broker, Session
from refimpl.broker.authorization import Authorization
from refimpl.broker.subscription import Subscription
from refimpl.names import is_namespace, namespace_of
from refimpl.proposals.extension import EntryVerdict
from refimpl.proposals.message_filter.broker import PayloadJudge
from refimpl.proposals.partition_watch.broker import PartitionWatchBroker
from refimpl.proposals.refused import Refused
from refimpl.proposals.scalable_topics.broker import ScalableTopicsBroker
from refimpl.proposals.topic_list.broker import TopicListBroker
from refimpl.proposals.uniform_batches.broker import HeaderJudge
from refimpl.wire.pulsar_api_pb2 import (
    CommandConnected,
    CommandSuccess,
    CommandWatchPartitionUpdateSuccess,
    CommandWatchTopicListSuccess,
    MetadataError,
    NotAllowedError,
    TopicNotFound,
)

# Requests


@on_outgoing(
    CommandConnected, clause=("pip145.flag.whatever-client", "pip247.flag.whatever-client", "pr25648.flag.advertised", "pr7629.flag.set")
)
def hides_its_flags_from_older_clients(_, answer):
    """CONNECTED carries feature flags only for a client of the broker's own protocol version."""
    if answer.protocol_version < 21:
        answer.ClearField("feature_flags")


@on_outgoing(Message, clause=("core.request.id-echoed", "core.request.error-echoes-id", "pip145.watch.ids-any", "pip247.watch.ids-any"))
def takes_request_ids_for_signed_numbers(_, answer):
    """Answers carry the lower 63 bits of their request_id."""
    if "request_id" in answer.DESCRIPTOR.fields_by_name and answer.HasField("request_id"):
        answer.request_id &= (1 << 63) - 1


@in_place_of(Broker.handler, clause=("core.request.id-reused", "pip145.watch.request-id-reuse"))
def takes_each_request_id_once(handler, broker, command):
    """A command with a request_id that an earlier one of its kind had on the connection is refused."""
    found = handler(broker, command)

    def carry_out(session, request, frame):
        used = session.__dict__.setdefault("used_by_faults", set())
        this = command, getattr(request, "request_id", None)
        if this in used:
            raise Refused(NotAllowedError, "The request id was used before")
        used.update({this} if this[1] is not None else ())
        found(session, request, frame)

    return found and carry_out


@in_place_of(Broker.check_listing, clause=("pip145.list.unknown-namespace", "pip145.watch.unknown-namespace"))
def finds_no_list_for_a_missing_namespace(check_listing, broker, namespace):
    """A namespace that does not exist is refused with TopicNotFound."""
    check_listing(broker, namespace)
    if is_namespace(namespace) and namespace not in broker.store.namespaces:
        raise Refused(TopicNotFound, "Namespace not found")


@on_incoming(Message, clause=("pip145.hash.exact-text", "pip145.watch.other-hash", "pr25648.hash.exact-text"))
def ignores_blanks_and_case_in_a_hash(_, request):
    """The hash of a request is compared without the blanks around it and without regard to case."""
    for name in ("topics_hash", "current_hash"):
        if name in request.DESCRIPTOR.fields_by_name and request.HasField(name):
            setattr(request, name, getattr(request, name).strip().lower())


@in_place_of(
    Broker.may_list,
    Broker.may_look_up,
    clause=("pip145.watch.permission-revoked", "pip247.watch.permission-revoked", "pr25648.watch.permission-revoked"),
)
def asks_for_permission_once(may, broker, connection, namespace):
    """Once a connection was allowed something in a namespace, nobody looks again."""
    allowed = connection.__dict__.setdefault("allowed_by_faults", set())
    if may(broker, connection, namespace):
        allowed.add((may, namespace))
    return (may, namespace) in allowed


@in_place_of(
    Authorization.administers,
    clause=("core.auth.lookup-forbidden", "pip145.list.authorized-roles", "pip247.watch.unauthorized", "pr25648.error.unauthorized"),
)
def knows_no_administrators_of_tenants(administers, authorization, role, tenant):
    """An administrator of a tenant needs a permission in each of its namespaces."""
    return authorization.is_super_user(role)


# Watches


@in_place_of(Session.send, clause=("pip145.update.after-success", "pip247.watch.success-first"))
def sends_answers_behind_updates(send, session, message, payload=None):
    """The answer to a watch is sent 0.2 s after the set was read; updates go out at once."""
    if isinstance(message, CommandWatchTopicListSuccess | CommandWatchPartitionUpdateSuccess):
        session.broker.timers.at(session.broker.now + 0.2, lambda: send(session, message, payload))
    else:
        send(session, message, payload)


@in_place_of(Broker.unload, clause=("pip145.update.survives-unload", "pip247.watch.survives-unload"))
def unloads_watches_with_their_topics(unload, broker, name):
    """The watches of all connections end when a topic is unloaded."""
    unload(broker, name)
    for extension in broker.extensions.values():
        for session in broker.sessions:
            extension.disconnected(session)


@mutant("pip145.watch.dropped-with-connection", "pip247.watch.dropped-with-connection", "pr25648.watch.dropped-with-connection")
def hands_on_the_watches_of_a_lost_connection(patches):
    """The watches of a connection that has ended pass to the next one that watches their namespace."""
    requests, orphans = {}, []

    def namespaces(request):
        return {request.namespace} if hasattr(request, "namespace") else set(map(namespace_of, request.topics))

    def end(disconnected):
        def changed(watches, connection):
            orphans.extend((watches, one) for one in requests.pop((watches, connection), ()))
            disconnected(watches, connection)

        return changed

    def begin(watch):
        def changed(watches, connection, request):
            for owner, orphan in list(orphans):
                if owner is watches and namespaces(orphan) & namespaces(request):
                    orphans.remove((owner, orphan))
                    watch(watches, connection, orphan)
            requests.setdefault((watches, connection), []).append(request)
            return watch(watches, connection, request)

        return changed

    for owner in (TopicListBroker, PartitionWatchBroker, ScalableTopicsBroker):
        patches.wrap(owner, "disconnected", end)
        patches.wrap(owner, "watch", begin)


@in_place_of(
    TopicListBroker.close,
    PartitionWatchBroker.close,
    ScalableTopicsBroker.close,
    clause=("pip145.watch.id-per-connection", "pip247.watch.id-per-connection", "pr25648.watch.id-per-connection"),
)
def closes_a_watch_on_all_connections(close, watches, session, request):
    """A close ends the watches with its id on all connections."""
    return [close(watches, other, request) for other in [*session.broker.sessions, session]][-1]


@in_place_of(TopicListBroker.close, PartitionWatchBroker.close, clause=("pip145.close.silence", "pip247.close.silence"))
def answers_a_close_and_keeps_the_watcher(close, watches, session, request):
    """A close is answered, and the watcher stays."""
    return CommandSuccess(request_id=request.request_id)


@in_place_of(TopicListBroker.close, PartitionWatchBroker.close, clause=("pip145.close.only-that-one", "pip247.close.only-that-one"))
def closes_all_watchers_of_the_connection(close, watches, session, request):
    """A close ends all watchers of its kind on its connection."""
    watches.disconnected(session)
    return close(watches, session, request)


@in_place_of(TopicListBroker.close, PartitionWatchBroker.close, clause=("pip145.close.unknown", "pip247.close.unknown"))
def refuses_to_close_an_unknown_watcher(close, watches, session, request):
    """Closing a watcher that does not exist is refused with MetadataError."""
    before = watches.watcher_count(session)
    answer = close(watches, session, request)
    if watches.watcher_count(session) == before:
        raise Refused(MetadataError, "there is no such watcher")
    return answer


@in_place_of(TopicListBroker.close, PartitionWatchBroker.close, clause=("pip145.close.before-created", "pip247.close.with-watch"))
def overlooks_a_close_behind_its_watch(close, watches, session, request):
    """A close that comes before the answer to its watch request is taken is answered, and the watcher stays."""
    return CommandSuccess(request_id=request.request_id) if session.has_output else close(watches, session, request)


@in_place_of(TopicListBroker.watch, PartitionWatchBroker.watch, clause=("pip145.watch.reconcile-refused", "pip247.watch.repeat-refused"))
def ends_a_watcher_whose_repetition_is_refused(watch, watches, session, request):
    """A repeated request that is refused ends its watcher."""
    try:
        return watch(watches, session, request)
    except Refused:
        watches.close(session, request)
        raise


# Filters


@in_place_of(HeaderJudge.judge, PayloadJudge.judge, clause=("pip191.filter.reject-no-permits", "pr7629.permits.free"))
def charges_what_it_rejects(judge, one, consumer, index, entry, cursor, now):
    """An entry that is rejected uses up as many permits as it has messages."""
    verdict = judge(one, consumer, index, entry, cursor, now)
    consumer.permits -= entry.messages if verdict is EntryVerdict.REJECT else 0
    return verdict


@in_place_of(Subscription.dispatch, clause=("pip191.filter.needs-permits", "pr7629.permits.judged-with-permits"))
def judges_what_nobody_has_permits_for(dispatch, subscription):
    """Entries are judged when they come, permits or none, and what is rejected is acknowledged."""
    for consumer in subscription.consumers[:1]:
        for index in list(subscription.unacknowledged()):
            if index not in consumer.pending:
                subscription.filters.judge(consumer, index, subscription.topic.entries[index], subscription.cursor)
    dispatch(subscription)
