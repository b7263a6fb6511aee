"""Brokers that refuse the wrong requests for lists, or refuse them in the wrong way."""

from conformance.mutants.listing import Request
from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import topic_lists
from refimpl.broker import Session
from refimpl.broker.lookups import get_topics
from refimpl.names import is_namespace
from refimpl.proposals.refused import ProtocolViolation, Refused
from refimpl.store import StoredNamespace
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import AuthorizationError, InvalidTopicName, TopicNotFound


def _exists(session: Session, request: Request) -> bool:
    return request.namespace in session.broker.store.namespaces


@mutant("pip145.list.unknown-namespace")
def finds_no_list_for_a_missing_namespace(patches: Patches) -> None:
    """A namespace that does not exist is refused with TopicNotFound, if the role might list it."""

    def changed(session: Session, request: Request, frame: Frame) -> None:
        if is_namespace(request.namespace) and not _exists(session, request) and session.broker.may_list(session, request.namespace):
            raise Refused(TopicNotFound, "Namespace not found")
        get_topics(session, request, frame)

    patches.request("getTopicsOfNamespace", lambda _: changed)


@mutant("pip145.list.not-created")
def creates_the_namespace_that_is_asked_for(patches: Patches) -> None:
    """A namespace that does not exist is created when its list is asked for."""

    def changed(session: Session, request: Request, frame: Frame) -> None:
        get_topics(session, request, frame)
        session.broker.store.namespaces.setdefault(request.namespace, StoredNamespace())

    patches.request("getTopicsOfNamespace", lambda _: changed)


@mutant("pip145.list.malformed-namespace")
def refuses_a_malformed_namespace_politely(patches: Patches) -> None:
    """A namespace that is not of the form tenant/name is refused with InvalidTopicName, and the connection stays."""

    def changed(session: Session, request: Request, frame: Frame) -> None:
        if not is_namespace(request.namespace):
            raise Refused(InvalidTopicName, "Invalid namespace name")
        get_topics(session, request, frame)

    patches.request("getTopicsOfNamespace", lambda _: changed)


@mutant("pip145.list.error-keeps-connection")
def serves_nobody_whom_it_had_to_refuse(patches: Patches) -> None:
    """After an ERROR for a request, the next request for a list ends the connection."""
    refused: set[Session] = set()

    def changed(session: Session, request: Request, frame: Frame) -> None:
        if session in refused:
            raise ProtocolViolation("a request was refused before")
        try:
            get_topics(session, request, frame)
        except Refused:
            refused.add(session)
            raise

    patches.request("getTopicsOfNamespace", lambda _: changed)


@mutant("pip145.list.unauthorized")
def lists_a_missing_namespace_for_everybody(patches: Patches) -> None:
    """A role that may not list a namespace gets an empty list instead of a refusal if the namespace does not exist."""

    def changed(session: Session, request: Request, frame: Frame) -> None:
        if not is_namespace(request.namespace) or _exists(session, request):
            get_topics(session, request, frame)
        else:
            session.send(topic_lists(session.broker).get_topics(request, ()))

    patches.request("getTopicsOfNamespace", lambda _: changed)


@mutant("pip145.list.authorized-roles")
def lists_for_super_users_only(patches: Patches) -> None:
    """A role that has a permission in the namespace, but is no super-user, is refused."""

    def changed(session: Session, request: Request, frame: Frame) -> None:
        if not session.broker.authorization.is_super_user(session.role):
            raise Refused(AuthorizationError, "Client is not authorized to GetTopicsOfNamespace")
        get_topics(session, request, frame)

    patches.request("getTopicsOfNamespace", lambda _: changed)


@mutant("pip145.list.too-many-requests")
def ends_the_connection_of_whoever_asks_too_much(patches: Patches) -> None:
    """A request beyond maxConcurrentLookupRequest ends the connection without an answer."""

    def changed(session: Session, request: Request, frame: Frame) -> None:
        if session.broker.configuration.max_concurrent_lookup_request < 1:
            raise ProtocolViolation("too many requests")
        get_topics(session, request, frame)

    patches.request("getTopicsOfNamespace", lambda _: changed)
