"""Brokers that read frames and commands wrongly, or forgive what they must not forgive."""

from google.protobuf.message import Message

from conformance.mutants.model import in_place_of, on_incoming, tolerating
from refimpl.broker import Broker, Session
from refimpl.proposals.refused import ProtocolViolation
from refimpl.wire import DEFAULT_MAX_FRAME_SIZE, FrameDecoder
from refimpl.wire.commands import FIELD_BY_TYPE, TYPE_BY_FIELD
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import BaseCommand
from refimpl.wire.scan import scan
from refimpl.wire.schema import descriptor_of


def whatever_it_says(data: bytes) -> BaseCommand:
    """Read a command that may lack required fields."""
    command = BaseCommand()
    command.MergeFromString(data[8:])
    return command


def has_unknown_field(message: Message) -> bool:
    """Tell whether a message, or one inside of it, has a field that the schema does not know."""
    return any(piece.field is None for piece in scan(descriptor_of(message), message.SerializeToString()))


@in_place_of(FrameDecoder.__init__, clause="core.frame.largest-accepted")
def counts_the_size_field_twice(make, decoder, max_frame_size=DEFAULT_MAX_FRAME_SIZE):
    """The largest frame is refused, and those that are up to three bytes shorter."""
    make(decoder, max_frame_size - 4)


@in_place_of(FrameDecoder.__init__, clause="core.frame.too-large-closes")
def does_not_count_the_size_field(make, decoder, max_frame_size=DEFAULT_MAX_FRAME_SIZE):
    """A frame of up to four bytes above the limit is waited for."""
    make(decoder, max_frame_size + 4)


@in_place_of(Session.send, clause="core.frame.answers-unlimited")
def keeps_back_what_is_larger_than_a_client_may_send(send, session, message, payload=None):
    """An answer above the frame limit is not sent."""
    if message.ByteSize() <= session.broker.configuration.max_message_size + 10240:
        send(session, message, payload)


@in_place_of(Session.send, clause="core.frame.answers-unlimited")
def cuts_lists_to_what_a_client_may_send(send, session, message, payload=None):
    """A list of topics ends where the frame limit is reached."""
    lists = (getattr(message, "topics", None), getattr(message, "topic", None), getattr(getattr(message, "snapshot", None), "topics", None))
    for topics in lists:
        while topics and not isinstance(topics, str) and message.ByteSize() > session.broker.configuration.max_message_size + 10240:
            del topics[-1]
    send(session, message, payload)


@tolerating("command size 0", clause="core.frame.sizes-inconsistent-closes")
def takes_an_empty_frame_for_a_sign_of_life(_):
    """A frame with command size 0 is skipped."""
    return []


@tolerating("are left", clause="core.frame.not-protobuf-closes")
def skips_a_command_that_is_cut_off(_):
    """A frame whose command would go on beyond its end is skipped."""
    return []


@in_place_of(Session.receive, clause="core.frame.foreign-protocol-closes")
def waits_for_the_end_of_an_http_request(receive, session, data, now):
    """A connection that begins with an HTTP request stays open without an answer."""
    if not data.startswith(b"GET "):
        receive(session, data, now)


@in_place_of(Broker.handler, clause="core.frame.trailing-octets-ignored")
def ends_a_connection_for_bytes_behind_a_command(handler, broker, command):
    """A command without payload whose frame goes on behind it ends the connection."""
    found = handler(broker, command)

    def carry_out(session, request, frame):
        if frame.payload_bytes is not None and command != "send":
            raise ProtocolViolation(f"bytes behind {command}")
        found(session, request, frame)

    return found and carry_out


@in_place_of(Session.receive, clause="core.frame.any-segmentation")
def needs_a_whole_frame_at_once(receive, session, data, now):
    """A segment that does not hold a whole frame is dropped."""
    if len(data) >= 4 + int.from_bytes(data[:4], "big"):
        receive(session, data, now)


@in_place_of(FrameDecoder.receive, clause="core.frame.several-at-once")
def reads_one_frame_of_a_segment(receive, decoder, data):
    """Of several frames in one segment only the first is read."""
    return receive(decoder, data)[:1]


@in_place_of(Session.end, clause="core.frame.fault-stays-local")
def ends_all_connections_for_one(end, session, reason):
    """What ends one connection because its frames are malformed ends those of everybody."""
    end(session, reason)
    for other in session.broker.sessions if "peer" not in reason else ():
        end(other, reason)


@tolerating("type of BaseCommand has the unknown value", clause="core.command.unknown-type-closes")
def skips_a_command_that_it_does_not_know(_):
    """A command with an unknown type number is ignored."""
    return []


@tolerating("BaseCommand lacks its required field type", clause="core.command.no-type-closes")
def guesses_the_type_of_a_command(data):
    """A BaseCommand without a type has that of its sub-message."""
    command = whatever_it_says(data)
    command.type = TYPE_BY_FIELD[command.ListFields()[0][0].name]
    return [Frame(data, command)]


@in_place_of(Broker.handler, clause="core.command.broker-type-closes")
def skips_what_only_brokers_send(handler, broker, command):
    """A command that is not for a broker is ignored."""
    return handler(broker, command) or (lambda *_: None)


@tolerating("without its sub-message", clause="core.command.missing-sub-message-closes")
def takes_a_missing_sub_message_for_an_empty_one(data):
    """A command without its sub-message is carried out as if it were there, with nothing in it."""
    command = whatever_it_says(data)
    getattr(command, FIELD_BY_TYPE[command.type]).SetInParent()
    return [Frame(data, command)]


@tolerating(
    "lacks its required field",
    clause=("core.command.missing-required-field-closes", "pip145.watch.required-fields", "pip247.watch.required-fields"),
)
def takes_a_missing_field_for_its_default(data):
    """A command that lacks a required field is carried out with the default of the field."""
    command = whatever_it_says(data)
    return [Frame(data, command)] if command.HasField("type") else []


@on_incoming(Message, clause=("core.command.unknown-field-ignored", "pip145.compat.unknown-fields"))
def ends_a_connection_for_an_unknown_field(_, request):
    """A command with a field that the broker does not know ends the connection."""
    if has_unknown_field(request):
        raise ProtocolViolation("an unknown field")


@on_incoming(Message, clause="core.command.unknown-enum-is-default")
def ends_a_connection_for_an_unknown_enum_value(_, request):
    """A command with an enum value that the broker does not know ends the connection."""
    pieces = [piece for piece in scan(descriptor_of(request), request.SerializeToString()) if piece.field and piece.field.enum_type]
    if any(piece.value not in piece.field.enum_type.values_by_number for piece in pieces):
        raise ProtocolViolation("an unknown enum value")
