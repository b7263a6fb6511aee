"""Brokers that lie about where topics are served and how many partitions they have."""

from conformance.mutants.model import Patches, mutant
from refimpl.broker import Broker, Session
from refimpl.broker.lookups import lookup, partitioned_metadata
from refimpl.names import TopicName
from refimpl.proposals.refused import Refused
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    InvalidTopicName,
    TopicNotFound,
)


def _connect(session: Session, request: CommandLookupTopic, url: str | None) -> None:
    session.send(
        CommandLookupTopicResponse(
            request_id=request.request_id,
            response=CommandLookupTopicResponse.Connect,
            authoritative=True,
            brokerServiceUrl=url,
        )
    )


def _partitions(session: Session, request: CommandPartitionedTopicMetadata, number: int) -> None:
    success = CommandPartitionedTopicMetadataResponse.Success
    session.send(CommandPartitionedTopicMetadataResponse(request_id=request.request_id, response=success, partitions=number))


@mutant("core.lookup.connect")
def says_that_its_lookup_answer_is_not_authoritative(patches: Patches) -> None:
    """LOOKUP is answered by Connect, but not as an authority."""

    def change(_: Session, answer: CommandLookupTopicResponse) -> None:
        answer.authoritative = False

    patches.outgoing(CommandLookupTopicResponse, change)


@mutant("core.lookup.creates-nothing")
def names_no_broker_for_a_missing_topic(patches: Patches) -> None:
    """LOOKUP of a topic that does not exist says Connect, but not where to."""

    def changed(session: Session, request: CommandLookupTopic, frame: Frame) -> None:
        name = session.broker.topic_name(request.topic)
        session.broker.authorization.check(session.role, name.namespace, "Lookup", "produce", "consume")
        if name.namespace not in session.broker.store.namespaces or session.broker.exists(name):
            lookup(session, request, frame)
        else:
            _connect(session, request, None)

    patches.request("lookupTopic", lambda _: changed)


@mutant("core.lookup.pattern-as-topic")
def takes_no_pattern_for_a_topic_name(patches: Patches) -> None:
    """LOOKUP of a local name with characters of a regular expression is refused with InvalidTopicName."""

    def changed(session: Session, request: CommandLookupTopic, frame: Frame) -> None:
        if set(request.topic) & set("*?+$|()[]"):
            raise Refused(InvalidTopicName, "Invalid topic name: not a name but a pattern")
        lookup(session, request, frame)

    patches.request("lookupTopic", lambda _: changed)


@mutant("core.lookup.short-name")
def looks_up_full_names_only(patches: Patches) -> None:
    """LOOKUP of a bare name is refused with InvalidTopicName."""

    def changed(session: Session, request: CommandLookupTopic, frame: Frame) -> None:
        if "/" not in request.topic:
            raise Refused(InvalidTopicName, "Invalid topic name: not a full name")
        lookup(session, request, frame)

    patches.request("lookupTopic", lambda _: changed)


@mutant("core.lookup.invalid-name")
def looks_up_whatever_it_is_given(patches: Patches) -> None:
    """LOOKUP of a name that is no topic name is answered by Connect."""

    def changed(session: Session, request: CommandLookupTopic, frame: Frame) -> None:
        try:
            lookup(session, request, frame)
        except Refused as refused:
            if refused.code != InvalidTopicName:
                raise
            _connect(session, request, session.broker.service_url)

    patches.request("lookupTopic", lambda _: changed)


@mutant("core.lookup.missing-namespace")
def looks_up_topics_of_missing_namespaces(patches: Patches) -> None:
    """LOOKUP in a namespace that does not exist is answered by Connect."""

    def changed(session: Session, request: CommandLookupTopic, frame: Frame) -> None:
        try:
            lookup(session, request, frame)
        except Refused as refused:
            if refused.code != TopicNotFound:
                raise
            _connect(session, request, session.broker.service_url)

    patches.request("lookupTopic", lambda _: changed)


@mutant("core.partitions.count")
def counts_partitions_as_the_next_power_of_two(patches: Patches) -> None:
    """PARTITIONED_METADATA rounds up: it answers 4 for a topic with three partitions."""
    count = Broker.partitions

    def partitions(broker: Broker, name: TopicName) -> int:
        number = count(broker, name)
        return 1 << (number - 1).bit_length() if number else 0

    patches.replace(Broker, "partitions", partitions)


@mutant("core.partitions.not-partitioned")
def leaves_out_the_partition_count_of_a_topic_without_partitions(patches: Patches) -> None:
    """PARTITIONED_METADATA of an existing topic without partitions is answered by Success without the field `partitions`."""

    def changed(session: Session, request: CommandPartitionedTopicMetadata, frame: Frame) -> None:
        name = session.broker.topic_name(request.topic)
        if session.broker.partitions(name) or not session.broker.exists(name):
            partitioned_metadata(session, request, frame)
        else:
            success = CommandPartitionedTopicMetadataResponse.Success
            session.send(CommandPartitionedTopicMetadataResponse(request_id=request.request_id, response=success))

    patches.request("partitionMetadata", lambda _: changed)


@mutant("core.partitions.missing-is-zero")
def creates_the_topic_whose_partitions_are_asked_for(patches: Patches) -> None:
    """PARTITIONED_METADATA creates a missing topic also where topics are created without partitions."""

    def changed(session: Session, request: CommandPartitionedTopicMetadata, frame: Frame) -> None:
        partitioned_metadata(session, request, frame)
        name = session.broker.topic_name(request.topic)
        broker = session.broker
        if not broker.exists(name) and not broker.partitions(name):
            broker.create_topic(name)

    patches.request("partitionMetadata", lambda _: changed)


@mutant("core.partitions.missing-without-creation")
def believes_in_partitions_behind_the_last_one(patches: Patches) -> None:
    """PARTITIONED_METADATA without creation finds any partition of a topic that has partitions, however many there are."""

    def changed(session: Session, request: CommandPartitionedTopicMetadata, frame: Frame) -> None:
        name = session.broker.topic_name(request.topic)
        if name.partition >= 0 and session.broker.partitions(session.broker.topic_name(name.partitioned)):
            _partitions(session, request, 0)
        else:
            partitioned_metadata(session, request, frame)

    patches.request("partitionMetadata", lambda _: changed)


@mutant("core.partitions.created-by-request")
def creates_all_missing_topics_without_partitions(patches: Patches) -> None:
    """PARTITIONED_METADATA of a missing topic creates nothing and answers 0 also where topics are created with partitions."""

    def create_by_default(_: Broker, name: TopicName) -> int:  # noqa: ARG001
        return 0

    patches.replace(Broker, "create_by_default", create_by_default)


@mutant("core.partitions.growth-visible")
def remembers_the_partition_count_it_has_told(patches: Patches) -> None:
    """PARTITIONED_METADATA goes on answering the number that it answered first."""
    told: dict[tuple[Broker, str], int] = {}

    def changed(session: Session, request: CommandPartitionedTopicMetadata, frame: Frame) -> None:
        partitions = session.broker.partitions(session.broker.topic_name(request.topic))
        first = told.setdefault((session.broker, request.topic), partitions) if partitions else 0
        if first == partitions:
            partitioned_metadata(session, request, frame)
        else:
            _partitions(session, request, first)

    patches.request("partitionMetadata", lambda _: changed)


@mutant("core.partitions.deleted")
def keeps_the_partition_count_of_a_deleted_topic(patches: Patches) -> None:
    """PARTITIONED_METADATA of a partitioned topic that was deleted is answered by Success and the number that it had."""
    create_partitions = Broker.create_partitions
    counts: dict[tuple[Broker, str], int] = {}

    def created(broker: Broker, name: TopicName, partitions: int) -> None:
        counts[broker, name.full] = partitions
        create_partitions(broker, name, partitions)

    def changed(session: Session, request: CommandPartitionedTopicMetadata, frame: Frame) -> None:
        count = counts.get((session.broker, request.topic))
        if count is None:
            partitioned_metadata(session, request, frame)
        else:
            _partitions(session, request, count)

    patches.replace(Broker, "create_partitions", created)
    patches.request("partitionMetadata", lambda _: changed)


@mutant("core.partitions.missing-namespace")
def knows_topics_of_missing_namespaces(patches: Patches) -> None:
    """PARTITIONED_METADATA in a namespace that does not exist is answered by Success and 0."""

    def changed(session: Session, request: CommandPartitionedTopicMetadata, frame: Frame) -> None:
        if session.broker.topic_name(request.topic).namespace in session.broker.store.namespaces:
            partitioned_metadata(session, request, frame)
        else:
            _partitions(session, request, 0)

    patches.request("partitionMetadata", lambda _: changed)


@mutant("core.partitions.invalid-name")
def finds_no_partitions_in_a_name_that_is_none(patches: Patches) -> None:
    """PARTITIONED_METADATA of a name that is no topic name is answered by Success and 0."""

    def changed(session: Session, request: CommandPartitionedTopicMetadata, frame: Frame) -> None:
        try:
            partitioned_metadata(session, request, frame)
        except Refused as refused:
            if refused.code != InvalidTopicName:
                raise
            _partitions(session, request, 0)

    patches.request("partitionMetadata", lambda _: changed)
