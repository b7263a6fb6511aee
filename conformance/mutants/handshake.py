"""Brokers that lie in the handshake."""

from conformance.mutants.commands import has_unknown_field
from conformance.mutants.model import Patches, mutant
from refimpl.broker import Session
from refimpl.broker.authorization import Authorization
from refimpl.proposals.refused import ProtocolViolation, Refused
from refimpl.wire import DEFAULT_MAX_MESSAGE_SIZE
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import AuthenticationError, CommandConnect, CommandConnected


@mutant("core.handshake.connected")
def does_not_say_what_it_is(patches: Patches) -> None:
    """CONNECTED carries an empty server_version."""

    def change(_: object, answer: CommandConnected) -> None:
        answer.server_version = ""

    patches.outgoing(CommandConnected, change)


@mutant("core.handshake.version-minimum")
def states_its_own_version(patches: Patches) -> None:
    """CONNECTED carries the broker's version, whatever the client's is, unless that is 0."""

    def change(_: object, answer: CommandConnected) -> None:
        answer.protocol_version = 21 if answer.protocol_version > 0 else answer.protocol_version

    patches.outgoing(CommandConnected, change)


@mutant("core.handshake.max-message-size")
def announces_the_default_message_size(patches: Patches) -> None:
    """CONNECTED.max_message_size is 5242880, whatever the setting is."""

    def change(_: object, answer: CommandConnected) -> None:
        answer.max_message_size = DEFAULT_MAX_MESSAGE_SIZE

    patches.outgoing(CommandConnected, change)


@mutant("core.handshake.second-connect-closes")
def shakes_hands_again(patches: Patches) -> None:
    """A second CONNECT is answered like the first."""
    connect = Session._connect

    def changed(session: Session, request: CommandConnect) -> None:
        session.protocol_version = None
        connect(session, request)

    patches.replace(Session, "_connect", changed)


@mutant("core.handshake.connect-first")
def works_for_strangers(patches: Patches) -> None:
    """Commands before CONNECT are carried out."""
    carry_out = Session._carry_out_request

    def changed(session: Session, name: str, request: object, frame: Frame) -> None:
        agreed, session.protocol_version = session.protocol_version, 21
        carry_out(session, name, request, frame)  # type: ignore[arg-type]
        session.protocol_version = agreed

    patches.replace(Session, "_carry_out_request", changed)


@mutant("core.handshake.pipelined-command")
def forgets_what_came_with_connect(patches: Patches) -> None:
    """Commands in the segment of CONNECT are dropped."""
    connect = Session._connect

    def changed(session: Session, request: CommandConnect) -> None:
        connect(session, request)
        session._frames.clear()

    patches.replace(Session, "_connect", changed)


@mutant("core.handshake.unknown-parts-ignored")
def turns_newer_clients_away(patches: Patches) -> None:
    """A field or feature flag of CONNECT that the broker does not know ends the connection."""
    connect = Session._connect

    def changed(session: Session, request: CommandConnect) -> None:
        if has_unknown_field(request):
            raise ProtocolViolation("an unknown field in CONNECT")
        connect(session, request)

    patches.replace(Session, "_connect", changed)


@mutant("core.handshake.client-flags-no-effect")
def repeats_the_flags_of_the_client(patches: Patches) -> None:
    """CONNECTED carries, beside the broker's own flags, those that the client sets."""
    connect = Session._connect

    def changed(session: Session, request: CommandConnect) -> None:
        flags = session.broker.feature_flags()
        for field, value in request.feature_flags.ListFields():
            setattr(flags, field.name, value or getattr(flags, field.name))
        session.broker.feature_flags = lambda: flags  # type: ignore[method-assign]
        connect(session, request)
        del session.broker.feature_flags

    patches.replace(Session, "_connect", changed)


@mutant("core.handshake.proxy-url-ignored")
def is_no_proxy(patches: Patches) -> None:
    """A CONNECT with proxy_to_broker_url ends the connection."""
    connect = Session._connect

    def changed(session: Session, request: CommandConnect) -> None:
        if request.HasField("proxy_to_broker_url"):
            raise ProtocolViolation("CONNECT is for a proxy")
        connect(session, request)

    patches.replace(Session, "_connect", changed)


@mutant("core.handshake.credentials-ignored")
def refuses_a_method_that_it_does_not_know(patches: Patches) -> None:
    """A CONNECT with an unknown auth_method_name is refused with authentication off, too."""
    authenticate = Authorization.authenticate

    def changed(authorization: Authorization, method: str, data: str) -> str | None:
        if method not in ("", "none", "token"):
            raise Refused(AuthenticationError, "Unsupported authentication method")
        return authenticate(authorization, method, data)

    patches.replace(Authorization, "authenticate", changed)
