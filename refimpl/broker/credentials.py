"""The credentials of a connection after CONNECT: tokens expire, and permissions are revoked.

A token counts until it expires. From time to time the broker looks whether it has. If so, it asks a client that has announced
`supports_auth_refresh` for another one of the same role, and closes the connection of any other client, and of one that does not answer
until it looks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from refimpl.proposals.refused import ProtocolViolation, Refused
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import AuthData, CommandAuthChallenge, CommandAuthResponse, CommandConnect

if TYPE_CHECKING:
    from refimpl.broker.broker import Broker
    from refimpl.broker.session import Session


class Credentials:
    """The role of a connection, and until when it counts.

    Args:
        session: The connection.

    Attributes:
        role: The role; None if authentication is off.
    """

    def __init__(self, session: Session) -> None:
        self.role: str | None = None
        self._session = session
        self._expires: float | None = None
        self._can_refresh = False
        self._asked = False

    def connect(self, request: CommandConnect) -> None:
        """Take the credentials of CONNECT.

        Raises:
            Refused: AuthenticationError.
        """
        self._can_refresh = request.feature_flags.supports_auth_refresh
        self._take(request.auth_method_name, request.auth_data)
        self._check_later()

    def refresh(self, method: str, data: bytes) -> None:
        """Take the credentials of AUTH_RESPONSE: core.auth.refreshed.

        Raises:
            Refused: AuthenticationError.
            ProtocolViolation: They are of another role.
        """
        before = self.role
        self._take(method, data)
        if self.role != before:  # core.auth.refresh-refused
            raise ProtocolViolation("the role changes with the new credentials")
        self._asked = False

    def _take(self, method: str, data: bytes) -> None:
        authorization = self._session.broker.authorization
        token = data.decode(errors="replace")
        self.role = authorization.authenticate(method, token)
        self._expires = authorization.expires(token)

    def _check_later(self) -> None:
        broker = self._session.broker
        seconds = broker.configuration.authentication_refresh_check_seconds
        if self._expires is not None and seconds > 0:
            broker.timers.at(broker.now + seconds, self._check)

    def _check(self) -> None:
        session = self._session
        if session.closing:
            return
        if self._expires is not None and self._expires < session.broker.time_of_day:
            if self._asked or not self._can_refresh:  # core.auth.expired-closes
                session.end("the token has expired")
                return
            self._asked = True
            challenge = AuthData(auth_method_name="token", auth_data=b"PulsarAuthRefresh")
            session.send(CommandAuthChallenge(challenge=challenge, protocol_version=session.protocol_version))
        self._check_later()


def auth_response(session: Session, request: CommandAuthResponse, frame: Frame) -> None:  # noqa: ARG001
    """Take new credentials; turn the client away if they are none.

    Raises:
        ProtocolViolation: They are of another role, or authentication is off.
    """
    if session.role is None:
        raise ProtocolViolation("AUTH_RESPONSE, and authentication is off")
    try:
        session.credentials.refresh(request.response.auth_method_name, request.response.auth_data)
    except Refused as refused:
        session.turn_away(refused, "AUTH_RESPONSE")


def close_unauthorized(broker: Broker, namespace: str) -> None:
    """Close the producers and consumers in a namespace whose roles may not produce or consume there any more: core.auth.revoked."""
    allows = broker.authorization.allows
    for topic in broker.loaded_topics():
        if topic.name.namespace != namespace:
            continue
        for producer in list(topic.producers.values()):
            if not allows(producer.session.role, namespace, "produce"):
                producer.session.close_producer(producer)
        for consumer in [consumer for one in topic.subscriptions.values() for consumer in one.consumers]:
            if not allows(consumer.session.role, namespace, "consume"):
                consumer.session.close_consumer(consumer)
