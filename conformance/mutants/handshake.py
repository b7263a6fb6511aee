"""Brokers that lie in the handshake."""

from conformance.mutants.model import Patches, mutant
from refimpl.wire.pulsar_api_pb2 import CommandConnected


@mutant("core.handshake.version-minimum")
def states_its_own_version(patches: Patches) -> None:
    """CONNECTED carries the broker's version, whatever the client's is."""

    def change(_: object, answer: CommandConnected) -> None:
        answer.protocol_version = 21

    patches.outgoing(CommandConnected, change)
