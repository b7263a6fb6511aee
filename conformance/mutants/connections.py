"""Brokers that go wrong in the handshake, with credentials and permissions, and about who is alive."""

import re

import jwt

from conformance.mutants.frames import has_unknown_field
from conformance.mutants.model import in_place_of, mutant, on_outgoing
from refimpl.broker import Broker, Session
from refimpl.broker.authorization import Authorization
from refimpl.broker.credentials import Credentials, close_unauthorized
from refimpl.broker.topic import Topic
from refimpl.proposals.refused import ProtocolViolation, Refused
from refimpl.wire.pulsar_api_pb2 import AuthenticationError, BaseCommand, CommandConnected, CommandPong


@on_outgoing(CommandConnected, clause="core.handshake.version-minimum")
def states_its_own_version(_, answer):
    """CONNECTED carries the broker's version, whatever the client's is."""
    answer.protocol_version = 21


@on_outgoing(CommandConnected, clause="core.handshake.max-message-size")
def announces_the_default_message_size(_, answer):
    """CONNECTED.max_message_size is 5242880, whatever the setting is."""
    answer.max_message_size = 5 * 1024 * 1024


@in_place_of(Session._connect, clause="core.handshake.pipelined-command")
def forgets_what_came_with_connect(connect, session, request):
    """Commands in the segment of CONNECT are dropped."""
    connect(session, request)
    session._frames.clear()


@in_place_of(Broker.connect, clause="core.handshake.connection-limit")
def goes_on_to_count_those_it_turned_away(connect, broker, *arguments):
    """A connection beyond the limit counts, also when it has ended."""
    session = connect(broker, *arguments)
    if session.closing:
        broker._counts.update(session.counted)
    return session


@in_place_of(Session.turn_away, clause="core.handshake.connection-limit")
def turns_nobody_away(turn_away, session, refused, *arguments):
    """Connections beyond the limit are served."""


@in_place_of(Session._connect, clause="core.handshake.unknown-parts-ignored")
def turns_newer_clients_away(connect, session, request):
    """A field or feature flag of CONNECT that the broker does not know ends the connection."""
    if has_unknown_field(request):
        raise ProtocolViolation("an unknown field in CONNECT")
    connect(session, request)


@in_place_of(Session._connect, clause="core.handshake.client-flags-no-effect")
def agrees_on_the_flags_of_both_sides(connect, session, request):
    """CONNECTED carries, beside the broker's own flags, those that the client sets."""
    broker, flags = session.broker, session.broker.feature_flags()
    flags.MergeFrom(request.feature_flags)
    broker.feature_flags = lambda: flags
    connect(session, request)
    del broker.feature_flags


@in_place_of(Session._connect, clause="core.handshake.proxy-url-ignored")
def is_no_proxy(connect, session, request):
    """A CONNECT with proxy_to_broker_url ends the connection."""
    if request.HasField("proxy_to_broker_url"):
        raise ProtocolViolation("CONNECT is for a proxy")
    connect(session, request)


@in_place_of(Authorization.authenticate, clause="core.handshake.credentials-ignored")
def refuses_a_method_that_it_does_not_know(authenticate, authorization, method, data):
    """A CONNECT with an unknown auth_method_name is refused with authentication off, too."""
    if method not in ("", "none", "token"):
        raise Refused(AuthenticationError, "Unsupported authentication method")
    return authenticate(authorization, method, data)


@in_place_of(Authorization.authenticate, clause="core.auth.refused")
def reads_tokens_without_their_signature(authenticate, authorization, method, data):
    """A token is believed whoever has signed it."""
    try:
        return jwt.decode(data, options={"verify_signature": False})["sub"]
    except jwt.InvalidTokenError:
        return authenticate(authorization, method, data)


@in_place_of(Authorization.authenticate, clause="core.auth.accepted")
def keeps_out_all_but_super_users(authenticate, authorization, method, data):
    """A CONNECT with the valid token of a role that is no super user is refused."""
    role = authenticate(authorization, method, data)
    if not authorization.is_super_user(role):
        raise Refused(AuthenticationError, "Not a super user")
    return role


@in_place_of(Credentials._check, clause=("core.auth.expired-challenged", "core.auth.expired-closes"))
def never_looks_whether_a_token_has_expired(*_):
    """A token counts as long as its connection lasts."""


@in_place_of(Credentials._check, clause="core.auth.expired-challenged")
def closes_instead_of_asking(check, credentials):
    """A connection whose token has expired is closed, also if its client could bring another one."""
    credentials._can_refresh = False
    check(credentials)


@in_place_of(Credentials._check, clause="core.auth.expired-closes")
def asks_again_and_again(check, credentials):
    """A client that does not answer is asked once more, and so on."""
    credentials._asked = False
    check(credentials)


@in_place_of(Credentials.refresh, clause="core.auth.refreshed")
def asks_for_a_token_once(refresh, credentials, method, data):
    """The second token of a connection counts for ever."""
    refresh(credentials, method, data)
    credentials._expires = None


@in_place_of(Credentials.refresh, clause="core.auth.refreshed")
def begins_anew_with_a_new_token(refresh, credentials, method, data):
    """A new token ends the producers and consumers of the connection."""
    refresh(credentials, method, data)
    session = credentials._session
    for producer in list(session.producers.values()):
        session.drop_producer(producer)


@in_place_of(Credentials.refresh, clause="core.auth.refresh-refused")
def takes_any_answer_for_a_token(refresh, credentials, method, data):
    """Whatever AUTH_RESPONSE brings, the connection goes on."""
    try:
        refresh(credentials, method, data)
    except (Refused, ProtocolViolation):
        credentials._asked, credentials._expires = False, None


@in_place_of(Credentials.refresh, clause="core.auth.refresh-refused")
def takes_a_token_of_another_role(refresh, credentials, method, data):
    """A connection becomes that of another role."""
    credentials.role = credentials._session.broker.authorization.authenticate(method, data.decode(errors="replace"))
    refresh(credentials, method, data)


@in_place_of(close_unauthorized, clause="core.auth.revoked")
def lets_those_go_on_who_lost_their_permission(*_):
    """Permissions count when a producer or consumer is opened, and never again."""


@in_place_of(Session.close_consumer, clause="core.auth.revoked")
def closes_consumers_without_a_word_when_permissions_end(close_consumer, session, consumer):
    """A consumer that may not consume any more gets nothing, and is not told."""
    if session.broker.authorization.allows(session.role, consumer.subscription.topic.name.namespace, "consume"):
        close_consumer(session, consumer)
    else:
        session.drop_consumer(consumer)


@in_place_of(Authorization.check, clause="core.auth.produce-forbidden")
def lets_consumers_produce(check, authorization, role, namespace, what, *actions):
    """PRODUCER needs the permission to produce or to consume."""
    check(authorization, role, namespace, what, *actions, "consume")


@in_place_of(Authorization.check, clause="core.auth.subscribe-forbidden")
def lets_producers_subscribe(check, authorization, role, namespace, what, *actions):
    """SUBSCRIBE needs the permission to produce or to consume."""
    check(authorization, role, namespace, what, *actions, "produce")


@in_place_of(Session._carry_out, clause="core.keepalive.pong-silent")
def answers_pong_by_pong(carry_out, session, frame):
    """A PONG is answered by PONG, like PING."""
    carry_out(session, frame)
    if frame.command.type == BaseCommand.PONG:
        session.send(CommandPong())


@in_place_of(Session._carry_out, clause="core.keepalive.pong-keeps")
def does_not_take_pong_for_a_sign_of_life(carry_out, session, frame):
    """A peer is disconnected if nothing but PONG comes between two PINGs."""
    pinged = session._pinged
    carry_out(session, frame)
    session._pinged = pinged and frame.command.type == BaseCommand.PONG


@in_place_of(Session._carry_out, clause="core.keepalive.any-command-counts")
def takes_nothing_but_pong_for_a_sign_of_life(carry_out, session, frame):
    """A peer is disconnected if no PONG comes between two PINGs."""
    pinged = session._pinged
    carry_out(session, frame)
    session._pinged = pinged and frame.command.type != BaseCommand.PONG


@in_place_of(Session._check_alive, clause="core.keepalive.version-0-exempt")
def expects_pong_of_the_oldest_clients(check_alive, session):
    """A client of version 0 gets PING like any other."""
    session.protocol_version = session.protocol_version or (None if session.protocol_version is None else 1)
    check_alive(session)


@in_place_of(close_unauthorized, clause="core.auth.revoked")
def closes_the_clients_of_one_topic(close, broker, namespace):
    """When a role loses a permission, its producers and consumers of the first topic are closed."""
    loaded, concerned = broker.loaded_topics, [one for one in broker.loaded_topics() if one.name.namespace == namespace]
    broker.loaded_topics = lambda: concerned[:1]
    close(broker, namespace)
    broker.loaded_topics = loaded


@mutant("core.request.late-end")
def removes_whoever_has_the_name(patches):
    """A producer that the broker has closed stays in the list of its connection, and leaves the topic by its name."""

    def close(original):
        def changed(session, producer):
            original(session, producer)
            session.producers.setdefault(producer.producer_id, producer)

        return changed

    def drop(original):
        def changed(session, producer):
            topic = session.broker.loaded(producer.topic.name.full)
            if topic not in (None, producer.topic):
                topic.producers.pop(producer.name, None)
            original(session, producer)

        return changed

    patches.wrap(Session, "close_producer", close)
    patches.wrap(Session, "drop_producer", drop)


@mutant("core.request.late-end")
def removes_whoever_is_exclusive(patches):
    """A consumer that the broker has closed stays in the list of its connection, and whoever has its exclusive subscription leaves."""

    def close(original):
        def changed(session, consumer):
            original(session, consumer)
            session.consumers[consumer.consumer_id] = consumer

        return changed

    def drop(original):
        def changed(session, consumer):
            there = consumer.subscription.consumers
            original(session, consumer if consumer in there or not there else there[0])
            session.consumers.pop(consumer.consumer_id, None)

        return changed

    patches.wrap(Session, "close_consumer", close)
    patches.wrap(Session, "drop_consumer", drop)


@mutant("core.request.late-end")
def forgets_a_producer_that_has_come_back(patches):
    """A producer that comes back for a generated name takes the place of the one before, whose end takes the name away."""
    generated = re.compile(r".*-[0-9]+-[0-9]+")

    def let_in(original):
        def changed(topic, producer):
            before = topic.producers.get(producer.name)
            if before is not None and before.session is not producer.session and generated.fullmatch(producer.name):
                del topic.producers[producer.name]
            original(topic, producer)

        return changed

    def remove(original):
        return lambda topic, producer: original(topic, topic.producers.get(producer.name, producer))

    patches.wrap(Topic, "_let_in", let_in)
    patches.wrap(Topic, "remove_producer", remove)
