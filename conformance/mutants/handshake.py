"""Brokers that lie in the handshake."""

from refimpl.broker import Session
from refimpl.broker.authorization import Authorization
from refimpl.broker.errors import ProtocolViolation
from refimpl.broker.session import PROTOCOL_VERSION
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import AuthenticationError, CommandConnect, CommandConnected, FeatureFlags

from conformance.mutants.commands import unknown_fields
from conformance.mutants.model import Patches, mutant


@mutant("core.handshake.connected")
def does_not_say_what_it_is(patches: Patches) -> None:
    """CONNECTED carries an empty server_version."""

    def change(_: Session, answer: CommandConnected) -> None:
        answer.server_version = ""

    patches.outgoing(CommandConnected, change)


@mutant("core.handshake.version-minimum")
def states_its_own_version(patches: Patches) -> None:
    """CONNECTED carries the broker's version, whatever the client's is."""

    def change(_: object, answer: CommandConnected) -> None:
        answer.protocol_version = PROTOCOL_VERSION

    patches.outgoing(CommandConnected, change)


@mutant("core.handshake.max-message-size")
def announces_the_usual_message_size(patches: Patches) -> None:
    """CONNECTED.max_message_size is 5242880, whatever maxMessageSize is."""

    def change(_: Session, answer: CommandConnected) -> None:
        answer.max_message_size = 5242880

    patches.outgoing(CommandConnected, change)


@mutant("core.handshake.second-connect-closes")
def shakes_hands_twice(patches: Patches) -> None:
    """A second CONNECT is answered by CONNECTED, like the first."""

    def make(connect):  # type: ignore[no-untyped-def]
        def changed(session: Session, request: CommandConnect) -> None:
            session.protocol_version = None
            connect(session, request)

        return changed

    patches.wrap(Session, "_connect", make)
