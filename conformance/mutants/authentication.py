"""Brokers that let the wrong ones in, or keep the right ones out."""

from conformance.mutants.model import Patches, mutant
from refimpl.broker.authorization import Authorization
from refimpl.broker.topic import MAX_U64
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import AuthenticationError, CommandError


@mutant("core.auth.refused")
def refuses_credentials_with_request_id_0(patches: Patches) -> None:
    """The ERROR that answers a CONNECT carries request_id 0."""

    def change(_: object, error: CommandError) -> None:
        if error.request_id == MAX_U64:
            error.request_id = 0

    patches.outgoing(CommandError, change)


@mutant("core.auth.accepted")
def keeps_out_all_but_super_users(patches: Patches) -> None:
    """A CONNECT with the valid token of a role that is no super user is refused."""
    authenticate = Authorization.authenticate

    def changed(authorization: Authorization, method: str, data: str) -> str | None:
        role = authenticate(authorization, method, data)
        if not authorization.is_super_user(role):
            raise Refused(AuthenticationError, "Not a super user")
        return role

    patches.replace(Authorization, "authenticate", changed)


def _let_pass(patches: Patches, what: str, *actions: str) -> None:
    """Let requests pass for some other permissions than they need."""
    check = Authorization.check

    def changed(authorization: Authorization, role: str | None, namespace: str, wanted: str, *needed: str) -> None:
        if wanted != what or (actions and not authorization.allows(role, namespace, *actions)):
            check(authorization, role, namespace, wanted, *needed)

    patches.replace(Authorization, "check", changed)


@mutant("core.auth.lookup-forbidden")
def lets_everybody_look_up(patches: Patches) -> None:
    """LOOKUP needs no permission."""
    _let_pass(patches, "Lookup")


@mutant("core.auth.produce-forbidden")
def lets_consumers_produce(patches: Patches) -> None:
    """PRODUCER needs the permission to produce or to consume."""
    _let_pass(patches, "Produce", "consume")


@mutant("core.auth.subscribe-forbidden")
def lets_producers_subscribe(patches: Patches) -> None:
    """SUBSCRIBE needs the permission to produce or to consume."""
    _let_pass(patches, "subscribe", "produce")
