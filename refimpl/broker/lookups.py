"""Commands that ask about topics: where they are, how many partitions they have, which there are, and which come and go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from refimpl.broker.errors import ProtocolViolation
from refimpl.broker.names import is_namespace
from refimpl.proposals.refused import Refused
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandPartitionUpdateResult,
    CommandWatchPartitionUpdate,
    CommandWatchPartitionUpdateClose,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    TooManyRequests,
    TopicNotFound,
)

if TYPE_CHECKING:
    from refimpl.broker.session import Session


def lookup(session: Session, request: CommandLookupTopic, frame: Frame) -> None:  # noqa: ARG001
    """Answer where a topic is served: here. Creates nothing; the local name may be a pattern."""
    _check_room(session)
    name = session.broker.topic_name(request.topic)
    session.broker.authorization.check(session.role, name.namespace, "Lookup", "produce", "consume")
    if name.namespace not in session.broker.store.namespaces:  # core.lookup.missing-namespace
        raise Refused(TopicNotFound, "Namespace not found")
    answer = CommandLookupTopicResponse(
        request_id=request.request_id,
        response=CommandLookupTopicResponse.Connect,
        authoritative=True,
        brokerServiceUrl=session.broker.service_url,
    )
    if answer.brokerServiceUrl.startswith("pulsar+ssl:"):
        answer.brokerServiceUrlTls = answer.brokerServiceUrl
    session.send(answer)


def partitioned_metadata(session: Session, request: CommandPartitionedTopicMetadata, frame: Frame) -> None:  # noqa: ARG001
    """Answer how many partitions a topic has; 0: it is not partitioned, or does not exist and may be created without."""
    _check_room(session)
    broker = session.broker
    name = broker.topic_name(request.topic)
    broker.authorization.check(session.role, name.namespace, "Get Partition Metadata", "produce", "consume")
    if name.namespace not in broker.store.namespaces:  # core.partitions.missing-namespace
        raise Refused(TopicNotFound, "Namespace not found")
    partitions = broker.partitions(name)
    if not partitions and not broker.exists(name):
        if not request.metadata_auto_creation_enabled:  # core.partitions.missing-without-creation
            raise Refused(TopicNotFound, "")
        partitions = broker.create_by_default(name)  # core.partitions.created-by-request
    session.send(
        CommandPartitionedTopicMetadataResponse(
            request_id=request.request_id, response=CommandPartitionedTopicMetadataResponse.Success, partitions=partitions
        )
    )


def get_topics(session: Session, request: CommandGetTopicsOfNamespace, frame: Frame) -> None:  # noqa: ARG001
    """Answer with the topics of a namespace."""
    _check_room(session)
    broker = session.broker
    _check_namespace(request.namespace)
    if not broker.may_list(session, request.namespace):  # pip145.list.unauthorized
        if not broker.authorization.knows_tenant(request.namespace):
            raise Refused(AuthorizationError, "Exception occurred while trying to authorize GetTopicsOfNamespace")
        raise Refused(AuthorizationError, "Client is not authorized to GetTopicsOfNamespace")
    topics = _topics(session, request)
    if "pip145" in broker.proposals:
        session.send(broker.topic_lists.get_topics(request, topics))
    else:  # pip145.compat.old-broker
        session.send(CommandGetTopicsOfNamespaceResponse(request_id=request.request_id, topics=topics))


def _topics(session: Session, request: CommandGetTopicsOfNamespace) -> Iterable[str]:
    broker = session.broker
    if request.mode != CommandGetTopicsOfNamespace.NON_PERSISTENT:
        yield from broker.persistent_topics(request.namespace)
    if request.mode != CommandGetTopicsOfNamespace.PERSISTENT:
        yield from broker.non_persistent_topics(request.namespace)


def watch_topic_list(session: Session, request: CommandWatchTopicList, frame: Frame) -> None:  # noqa: ARG001
    """Register a watcher, or check the set of one."""
    _check_room(session)
    _check_namespace(request.namespace)
    broker = session.broker
    if not broker.may_list(session, request.namespace):
        if not broker.authorization.knows_tenant(request.namespace):
            raise Refused(AuthorizationError, "Exception occurred while trying to handle command WatchTopicList")
        raise Refused(AuthorizationError, "Proxy Client is not authorized to watchTopicList")
    session.send(broker.topic_lists.watch(session, request))


def watch_topic_list_close(session: Session, request: CommandWatchTopicListClose, frame: Frame) -> None:  # noqa: ARG001
    """End a watcher; needs no permission: pip145.close.without-permission."""
    session.send(session.broker.topic_lists.close(session, request))


def watch_partition_update(session: Session, request: CommandWatchPartitionUpdate, frame: Frame) -> None:  # noqa: ARG001
    """Register a watcher for the numbers of partitions of topics, or replace one."""
    session.send(session.broker.partition_watches.watch(session, request))


def partition_update_result(session: Session, result: CommandPartitionUpdateResult, frame: Frame) -> None:  # noqa: ARG001
    """Record whether the peer has applied an update; there is no answer: pip247.result.no-answer."""
    update = session.broker.partition_watches.result(session, result, session.broker.now)
    if update is not None:
        session.send(update)


def watch_partition_update_close(session: Session, request: CommandWatchPartitionUpdateClose, frame: Frame) -> None:  # noqa: ARG001
    """End a watcher; needs no permission: pip247.close.without-permission."""
    session.send(session.broker.partition_watches.close(session, request))


def _check_room(session: Session) -> None:
    """Refuse a request beyond the limit. Each is answered at once, so that none is ever in flight beside it."""
    if session.broker.configuration.max_concurrent_lookup_request < 1:
        raise Refused(TooManyRequests, "Failed due to too many pending lookup requests")


def _check_namespace(namespace: str) -> None:
    if not is_namespace(namespace):  # pip145.list.malformed-namespace, pip145.watch.malformed-namespace
        raise ProtocolViolation(f"{namespace!r} is no namespace")
