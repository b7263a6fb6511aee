"""Brokers that lie about commands that they can't read, or only in part."""

from google.protobuf.message import Message

from conformance.mutants.framing import tolerate
from conformance.mutants.model import Patches, mutant
from refimpl.broker import Session
from refimpl.proposals.refused import ProtocolViolation
from refimpl.wire import FIELD_BY_TYPE, TYPE_BY_FIELD
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import BaseCommand, CommandConnect, CommandPartitionedTopicMetadata
from refimpl.wire.scan import scan
from refimpl.wire.schema import descriptor_of


def _whatever_it_says(octets: bytes) -> BaseCommand:
    """Read a command that may lack required fields."""
    command = BaseCommand()
    command.MergeFromString(octets[8:])
    return command


def has_unknown_field(message: Message) -> bool:
    """Tell whether a message, or one inside of it, has a field that the schema does not know."""
    return any(piece.field is None for piece in scan(descriptor_of(message), message.SerializeToString()))


def _has_unknown_enum_value(message: Message) -> bool:
    enums = [piece for piece in scan(descriptor_of(message), message.SerializeToString()) if piece.field and piece.field.enum_type]
    return any(piece.field and piece.value not in piece.field.enum_type.values_by_number for piece in enums)


@mutant("core.command.unknown-type-closes")
def skips_a_command_that_it_does_not_know(patches: Patches) -> None:
    """A command with an unknown type number is ignored."""
    tolerate(patches, "type of BaseCommand has the unknown value")


@mutant("core.command.no-type-closes")
def guesses_the_type_of_a_command(patches: Patches) -> None:
    """A BaseCommand without a type has that of its sub-message."""

    def guess(octets: bytes) -> list[Frame]:
        command = _whatever_it_says(octets)
        command.type = TYPE_BY_FIELD[command.ListFields()[0][0].name]  # type: ignore[assignment]
        return [Frame(octets, command)]

    tolerate(patches, "BaseCommand lacks its required field type", guess)


@mutant("core.command.broker-type-closes")
def skips_what_only_brokers_send(patches: Patches) -> None:
    """A command that is not for a broker is ignored."""
    carry_out = Session._carry_out_request

    def changed(session: Session, name: str, request: Message, frame: Frame) -> None:
        if session.broker.handler(name) is not None:
            carry_out(session, name, request, frame)

    patches.replace(Session, "_carry_out_request", changed)


@mutant("core.command.missing-sub-message-closes")
def takes_a_missing_sub_message_for_an_empty_one(patches: Patches) -> None:
    """A command without its sub-message is carried out as if it were there, with nothing in it."""

    def fill(octets: bytes) -> list[Frame]:
        command = _whatever_it_says(octets)
        getattr(command, FIELD_BY_TYPE[command.type]).SetInParent()
        return [Frame(octets, command)]

    tolerate(patches, "without its sub-message", fill)


@mutant("core.command.missing-required-field-closes")
def takes_a_missing_request_id_for_0(patches: Patches) -> None:
    """A LOOKUP that lacks its required request_id is answered with request_id 0."""
    tolerate(patches, "CommandLookupTopic lacks its required field", lambda octets: [Frame(octets, _whatever_it_says(octets))])


@mutant("core.command.unknown-field-ignored")
def ends_a_connection_for_an_unknown_field(patches: Patches) -> None:
    """A PARTITIONED_METADATA with a field that the broker does not know ends the connection."""

    def change(_: object, request: CommandPartitionedTopicMetadata) -> None:
        if has_unknown_field(request):
            raise ProtocolViolation("an unknown field")

    patches.incoming(CommandPartitionedTopicMetadata, change)


@mutant("core.command.unknown-enum-is-default")
def ends_a_connection_for_an_unknown_enum_value(patches: Patches) -> None:
    """A CONNECT with an enum value that the broker does not know ends the connection."""
    connect = Session._connect

    def changed(session: Session, request: CommandConnect) -> None:
        if _has_unknown_enum_value(request):
            raise ProtocolViolation("an unknown enum value")
        connect(session, request)

    patches.replace(Session, "_connect", changed)
