"""Brokers that mix requests up, or punish those that they refuse."""

from google.protobuf.message import Message

from conformance.mutants.model import Patches, mutant
from refimpl.broker import Session
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import (
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandProducer,
    InvalidTopicName,
    NotAllowedError,
)

_LARGEST_SIGNED = (1 << 63) - 1


@mutant("core.request.id-echoed")
def answers_with_signed_request_ids(patches: Patches) -> None:
    """LOOKUP_RESPONSE carries the lower 63 bits of its request_id."""

    def change(_: object, answer: CommandLookupTopicResponse) -> None:
        answer.request_id &= _LARGEST_SIGNED

    patches.outgoing(CommandLookupTopicResponse, change)


@mutant("core.request.error-echoes-id")
def refuses_with_signed_request_ids(patches: Patches) -> None:
    """A PRODUCER that is refused gets the lower 63 bits of its request_id back."""
    refuse = Session.refuse

    def changed(session: Session, request: Message, refused: Refused) -> None:
        if isinstance(request, CommandProducer):
            request.request_id &= _LARGEST_SIGNED
        refuse(session, request, refused)

    patches.replace(Session, "refuse", changed)


@mutant("core.request.error-keeps-connection")
def drops_all_producers_for_a_bad_name(patches: Patches) -> None:
    """A request that is refused for its topic name takes all producers off the connection."""
    refuse = Session.refuse

    def changed(session: Session, request: Message, refused: Refused) -> None:
        refuse(session, request, refused)
        if refused.code == InvalidTopicName:
            for producer in list(session.producers.values()):
                session.drop_producer(producer)

    patches.replace(Session, "refuse", changed)


@mutant("core.request.ids-per-family")
def takes_equal_ids_for_the_same_request(patches: Patches) -> None:
    """A LOOKUP with the id of a PARTITIONED_METADATA whose answer has not been taken is not answered."""
    last: dict[Session, int] = {}

    def remember(session: Session, request: CommandPartitionedTopicMetadata) -> None:
        last[session] = request.request_id

    def change(session: Session, request: CommandLookupTopic) -> bool:
        return not session.has_output or last.get(session) != request.request_id

    patches.incoming(CommandPartitionedTopicMetadata, remember)
    patches.incoming(CommandLookupTopic, change)


@mutant("core.request.id-reused")
def takes_each_request_id_once(patches: Patches) -> None:
    """A LOOKUP right behind another with its request_id is refused, unless it names the same topic."""
    last: dict[Session, Message] = {}

    def change(session: Session, request: Message) -> bool:
        before, last[session] = last.get(session), request
        if not isinstance(before, CommandLookupTopic) or not isinstance(request, CommandLookupTopic):
            return True
        if before.request_id != request.request_id or before.topic == request.topic:
            return True
        session.refuse(request, Refused(NotAllowedError, "The request id was used before"))
        return False

    patches.incoming(Message, change)
