"""Brokers that lie to producers."""

from conformance.mutants.model import Patches, mutant
from refimpl.broker import Broker, Session, admin, publishing
from refimpl.broker.publishing import close_producer, producer, send
from refimpl.broker.topic import Producer, Topic
from refimpl.names import is_system_topic, partition_name
from refimpl.proposals.refused import Refused
from refimpl.wire import checksum_matches
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandCloseProducer,
    CommandProducer,
    CommandProducerSuccess,
    CommandSend,
    CommandSendError,
    CommandSendReceipt,
    InvalidTopicName,
    MetadataError,
    NotAllowedError,
    ProducerAccessMode,
    ProducerBusy,
)


@mutant("core.producer.success")
def gives_no_producer_name(patches: Patches) -> None:
    """PRODUCER_SUCCESS for a producer that brings no name has an empty producer_name."""

    def change(session: Session, answer: CommandProducerSuccess) -> None:
        if any(one.name == answer.producer_name and not one.user_provided_name for one in session.producers.values()):
            answer.producer_name = ""

    patches.outgoing(CommandProducerSuccess, change)


@mutant("core.producer.name-generated")
def has_one_name_for_all_nameless_producers(patches: Patches) -> None:
    """Every producer without a name gets the same one, so that the second of a topic is refused."""

    def new_producer_name(broker: Broker) -> str:
        return f"{broker.configuration.cluster_name}-0-0"

    patches.replace(Broker, "new_producer_name", new_producer_name)


@mutant("core.producer.name-kept")
def names_every_producer_itself(patches: Patches) -> None:
    """A producer that brings a name gets a new one all the same."""

    def change(_: Session, request: CommandProducer) -> None:
        request.ClearField("producer_name")

    patches.incoming(CommandProducer, change)


@mutant("core.producer.no-last-sequence")
def begins_with_sequence_0_as_published(patches: Patches) -> None:
    """For a producer that has published nothing last_sequence_id is 0, as if it had published a message."""

    def change(_: Session, answer: CommandProducerSuccess) -> None:
        answer.last_sequence_id = 0

    patches.outgoing(CommandProducerSuccess, change)


@mutant("core.producer.name-taken")
def lets_the_last_producer_of_a_name_win(patches: Patches) -> None:
    """A producer takes the name of a live one, which it throws out."""
    add_producer = Topic.add_producer

    def changed(topic: Topic, producer: Producer) -> None:
        old = topic.producers.get(producer.name)
        if old is not None:
            old.session.drop_producer(old)
        add_producer(topic, producer)

    patches.replace(Topic, "add_producer", changed)


@mutant("core.producer.name-freed")
def reserves_a_producer_name_for_ever(patches: Patches) -> None:
    """A name that a producer brought stays taken after its CLOSE_PRODUCER."""

    def changed(session: Session, request: CommandCloseProducer, frame: Frame) -> None:
        closed = session.producers.get(request.producer_id)
        close_producer(session, request, frame)
        if closed is not None and closed.user_provided_name:
            closed.topic.producers[closed.name] = closed

    patches.request("close_producer", lambda _: changed)


@mutant("core.producer.repeated")
def opens_a_repeated_producer_anew(patches: Patches) -> None:
    """PRODUCER for a producer_id that is open replaces the producer, which gets another name."""

    def changed(session: Session, request: CommandProducer, frame: Frame) -> None:
        old = session.producers.get(request.producer_id)
        if old is not None:
            session.drop_producer(old)
        producer(session, request, frame)

    patches.request("producer", lambda _: changed)


@mutant("core.producer.creates-topic")
def takes_a_topic_that_a_producer_created_for_one_of_its_own(patches: Patches) -> None:
    """A topic that a PRODUCER brought into being is left out where topics are listed for administrators, like a system topic."""
    created: set[str] = set()

    def changed(session: Session, request: CommandProducer, frame: Frame) -> None:
        name = session.broker.topic_name(request.topic)
        if name.namespace in session.broker.store.namespaces and not session.broker.exists(name):
            created.add(name.full)
        producer(session, request, frame)

    patches.request("producer", lambda _: changed)
    patches.replace(admin, "is_system_topic", lambda topic: topic in created or is_system_topic(topic))


@mutant("core.producer.partitioned-base")
def lets_producers_of_a_partitioned_topic_into_its_first_partition(patches: Patches) -> None:
    """PRODUCER for the name of a partitioned topic opens a producer of its partition 0."""

    def changed(session: Session, request: CommandProducer, frame: Frame) -> None:
        name = session.broker.topic_name(request.topic)
        if session.broker.partitions(name):
            request.topic = partition_name(name.full, 0)
        producer(session, request, frame)

    patches.request("producer", lambda _: changed)


@mutant("core.producer.missing-partition")
def creates_partitions_behind_the_last_one(patches: Patches) -> None:
    """PRODUCER for a partition beyond the number of partitions creates that partition."""

    def changed(session: Session, request: CommandProducer, frame: Frame) -> None:
        name = session.broker.topic_name(request.topic)
        if name.partition >= 0 and not session.broker.exists(name):
            session.broker.create_topic(name)
        producer(session, request, frame)

    patches.request("producer", lambda _: changed)


@mutant("core.producer.invalid-name")
def keeps_the_id_of_a_producer_that_it_refused(patches: Patches) -> None:
    """After a PRODUCER that was refused for its topic name, its producer_id can't be used any more."""
    refused_ids: set[tuple[Session, int]] = set()

    def changed(session: Session, request: CommandProducer, frame: Frame) -> None:
        if (session, request.producer_id) in refused_ids:
            raise Refused(ProducerBusy, f"Producer {request.producer_id} is being opened already")
        try:
            producer(session, request, frame)
        except Refused as refused:
            if refused.code == InvalidTopicName:
                refused_ids.add((session, request.producer_id))
            raise

    patches.request("producer", lambda _: changed)


@mutant("core.producer.exclusive-access")
def takes_every_access_mode_for_shared(patches: Patches) -> None:
    """An exclusive producer shares its topic with all others."""

    def change(_: Session, request: CommandProducer) -> None:
        request.producer_access_mode = ProducerAccessMode.Shared

    patches.incoming(CommandProducer, change)


@mutant("core.producer.close")
def refuses_to_close_a_producer_twice(patches: Patches) -> None:
    """CLOSE_PRODUCER for a producer that was closed before is answered by ERROR."""
    closed: set[tuple[Session, int]] = set()

    def changed(session: Session, request: CommandCloseProducer, frame: Frame) -> None:
        if request.producer_id in session.producers:
            closed.add((session, request.producer_id))
        elif (session, request.producer_id) in closed:
            raise Refused(MetadataError, "Producer is closed already")
        close_producer(session, request, frame)

    patches.request("close_producer", lambda _: changed)


@mutant("core.send.receipt")
def stores_messages_without_an_id_where_nobody_subscribed(patches: Patches) -> None:
    """The receipt of a message that no subscription waits for has no message id."""

    def change(session: Session, receipt: CommandSendReceipt) -> None:
        if not session.producers[receipt.producer_id].topic.subscriptions:
            receipt.ClearField("message_id")

    patches.outgoing(CommandSendReceipt, change)


@mutant("core.send.receipts-in-order")
def begins_to_number_anew_after_32_entries(patches: Patches) -> None:
    """The entry ids in receipts begin with 0 again after 31, in the same ledger."""

    def change(_: Session, receipt: CommandSendReceipt) -> None:
        receipt.message_id.entryId %= 32

    patches.outgoing(CommandSendReceipt, change)


@mutant("core.send.checksum-verified")
def stores_damaged_messages(patches: Patches) -> None:
    """A SEND is stored without a look at its checksum."""
    patches.replace(publishing, "checksum_matches", lambda _: True)


@mutant("core.send.checksum-optional")
def demands_a_checksum(patches: Patches) -> None:
    """A SEND without a checksum is answered by SEND_ERROR ChecksumError."""
    patches.replace(publishing, "checksum_matches", lambda octets: bool(checksum_matches(octets)))


@mutant("core.send.batch-one-receipt")
def numbers_receipts_by_message_instead_of_by_entry(patches: Patches) -> None:
    """The message id after a batch of three is three further on."""

    def change(session: Session, receipt: CommandSendReceipt) -> None:
        entries = session.producers[receipt.producer_id].topic.entries[: receipt.message_id.entryId]
        receipt.message_id.entryId = sum(entry.messages for entry in entries)

    patches.outgoing(CommandSendReceipt, change)


@mutant("core.send.unknown-producer-closes")
def answers_a_message_of_an_unknown_producer(patches: Patches) -> None:
    """A SEND for a producer_id that is not open is answered by SEND_ERROR, and the connection stays."""

    def changed(session: Session, request: CommandSend, frame: Frame) -> None:
        if request.producer_id in session.producers:
            send(session, request, frame)
            return
        session.send(
            CommandSendError(
                producer_id=request.producer_id, sequence_id=request.sequence_id, error=NotAllowedError, message="The producer is not open"
            )
        )

    patches.request("send", lambda _: changed)


@mutant("core.send.no-payload-closes")
def overlooks_a_message_without_payload(patches: Patches) -> None:
    """A SEND without metadata and payload is ignored."""

    def changed(session: Session, request: CommandSend, frame: Frame) -> None:
        if frame.payload_bytes is not None:
            send(session, request, frame)

    patches.request("send", lambda _: changed)
