"""Commands that ask about topics: lookup, partitioned metadata, topics of a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    ServiceNotReady,
    TopicNotFound,
)

if TYPE_CHECKING:
    from refimpl.broker.session import Session


def lookup(session: Session, request: CommandLookupTopic, frame: Frame) -> None:  # noqa: ARG001
    """Answer a lookup with the broker to go to. It creates no topic; the local name may be a pattern."""
    session.broker.check_lookup_limit()
    name = session.broker.topic_name(request.topic)
    session.broker.authorization.check(session.role, name.namespace, "Lookup", "produce", "consume")
    if request.advertised_listener_name:  # core.lookup.unknown-listener
        raise Refused(ServiceNotReady, f"the broker do not have {request.advertised_listener_name} listener")
    if name.namespace not in session.broker.store.namespaces:  # core.lookup.missing-namespace
        raise Refused(TopicNotFound, "Namespace not found")
    found = session.broker.members.look_up(session.member, name.namespace, name.full, authoritative=request.authoritative)
    session.send(
        CommandLookupTopicResponse(
            request_id=request.request_id,
            response=CommandLookupTopicResponse.Redirect if found.redirect else CommandLookupTopicResponse.Connect,
            authoritative=found.authoritative,
            brokerServiceUrl=found.member.service_url,
            brokerServiceUrlTls=found.member.service_url_tls,
        )
    )


def partitioned_metadata(session: Session, request: CommandPartitionedTopicMetadata, frame: Frame) -> None:  # noqa: ARG001
    """Answer with the partition count of a topic; 0: it is not partitioned, or does not exist and may be created non-partitioned."""
    session.broker.check_lookup_limit()
    broker = session.broker
    name = broker.topic_name(request.topic)
    broker.authorization.check(session.role, name.namespace, "Get Partition Metadata", "produce", "consume")
    if name.namespace not in broker.store.namespaces:  # core.partitions.missing-namespace
        raise Refused(TopicNotFound, "Namespace not found")
    partitions = broker.partitions(name)
    if not partitions and not broker.exists(name):
        allowed = request.metadata_auto_creation_enabled and broker.is_creatable(name)
        if not allowed or broker.takes_name(name):  # core.partitions.missing-without-creation
            raise Refused(TopicNotFound, "")
        partitions = broker.create_by_default(name)  # core.partitions.created-by-request
    session.send(
        CommandPartitionedTopicMetadataResponse(
            request_id=request.request_id, response=CommandPartitionedTopicMetadataResponse.Success, partitions=partitions
        )
    )


def get_topics(session: Session, request: CommandGetTopicsOfNamespace, frame: Frame) -> None:  # noqa: ARG001
    """Answer with the topics of a namespace."""
    broker = session.broker
    broker.check_listing(request.namespace)
    if not broker.may_list(session, request.namespace):
        if not broker.authorization.knows_tenant(request.namespace):
            raise Refused(AuthorizationError, "Exception occurred while trying to authorize GetTopicsOfNamespace")
        raise Refused(AuthorizationError, "Client is not authorized to GetTopicsOfNamespace")
    topics = []
    if request.mode != CommandGetTopicsOfNamespace.NON_PERSISTENT:
        topics += broker.persistent_topics(request.namespace)
    if request.mode != CommandGetTopicsOfNamespace.PERSISTENT:
        topics += broker.non_persistent_topics(request.namespace, in_use=True)
    answers = (extension.list_topics(request, topics) for extension in broker.extensions.values())
    answer = next((one for one in answers if one is not None), None)
    session.send(answer or CommandGetTopicsOfNamespaceResponse(request_id=request.request_id, topics=topics))
