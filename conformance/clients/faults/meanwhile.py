"""Clients with a fault in what comes while something else is under way: a challenge, a removal, a refusal, an end."""

from conformance.clients.faults.model import fault, in_place_of
from refimpl.client.connection import Connection
from refimpl.client.errors import ProtocolError

# Tokens


@fault("core.client.answers-challenge")
def takes_a_challenge_for_a_new_handshake(patches):
    """AUTH_CHALLENGE starts the time limit of the handshake again, although no second CONNECTED comes."""

    def challenging(original):
        def challenged(connection, command):
            original(connection, command)
            connection._timer.cancel()
            connection._timer = connection._later(connection._options.connection_timeout, connection._too_late)

        return challenged

    patches.wrap(Connection, "_challenged", challenging)


@fault("core.client.answers-challenge", "core.client.shows-token")
def keeps_its_first_token(patches):
    """The token is read once, when the client is made."""

    def reading(original):
        def credential(connection):
            if "first_token" not in connection._options.__dict__:
                connection._options.__dict__["first_token"] = original(connection)
            return connection._options.__dict__["first_token"]

        return credential

    patches.wrap(Connection, "_credential", reading)


@in_place_of(Connection._challenged, clause="core.client.answers-challenge")
def answers_one_challenge(challenged, connection, command):
    """Only the first AUTH_CHALLENGE of a connection is answered."""
    if "challenged" not in connection.__dict__:
        connection.__dict__["challenged"] = True
        challenged(connection, command)


@in_place_of(Connection._challenged, clause="core.client.answers-challenge")
def fails_requests_when_it_is_challenged(challenged, connection, command):
    """AUTH_CHALLENGE ends the requests that have no answer."""
    connection._requests.fail_all(ProtocolError("AUTH_CHALLENGE is no answer"))
    challenged(connection, command)


@in_place_of(Connection._credential, clause="core.client.shows-token")
def leaves_the_method_of_its_token_out(credential, connection):
    """A token is sent with the method none."""
    shown = credential(connection)
    if shown is not None:
        shown.auth_method_name = "none"
    return shown
