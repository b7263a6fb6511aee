"""What can go wrong, for the application: one small tree.

ClientError
    ConnectionLost      the connection could not be made, or has ended
        ProtocolError   the broker sent what it must not
    BrokerRefused       the broker said no; `code` says why
    TimedOut            no answer in time
    InvalidMessage      a message that can't be sent
    QueueFull           too many messages wait for their receipts
    Closed              used after its end
"""

from __future__ import annotations

from refimpl.wire.pulsar_api_pb2 import (
    AuthenticationError,
    AuthorizationError,
    ConsumerAssignError,
    ConsumerBusy,
    IncompatibleSchema,
    InvalidTopicName,
    NotAllowedError,
    ProducerBlockedQuotaExceededError,
    ProducerBlockedQuotaExceededException,
    ProducerBusy,
    ProducerFenced,
    ServerError,
    SubscriptionNotFound,
    TopicNotFound,
    TopicTerminatedError,
    UnsupportedVersionError,
)

_PERMANENT = frozenset(
    {
        AuthenticationError,
        AuthorizationError,
        ConsumerAssignError,
        ConsumerBusy,
        IncompatibleSchema,
        InvalidTopicName,
        NotAllowedError,
        ProducerBlockedQuotaExceededError,
        ProducerBlockedQuotaExceededException,
        ProducerBusy,
        ProducerFenced,
        SubscriptionNotFound,
        TopicNotFound,
        TopicTerminatedError,
        UnsupportedVersionError,
    }
)


class ClientError(Exception):
    """Something that the application asked for has failed.

    Attributes:
        code: The broker's `ServerError`; None if it was not the broker who refused.
        retriable: Whether the same request may succeed a little later.
    """

    code: int | None = None
    retriable = False


class ConnectionLost(ClientError):
    """The connection could not be made, or has ended."""

    retriable = True


class ProtocolError(ConnectionLost):
    """The broker sent what it must not."""


class BrokerRefused(ClientError):
    """The broker refused a request.

    Args:
        code: A value of `ServerError`.
        message: The broker's words.
    """

    def __init__(self, code: int, message: str) -> None:
        name = ServerError.Name(code) if code in ServerError.values() else f"error {code}"
        super().__init__(f"{name}: {message}" if message else name)
        self.code = code
        self.message = message
        self.retriable = code not in _PERMANENT


class TimedOut(ClientError):
    """No answer came in time."""

    retriable = True


class InvalidMessage(ClientError):
    """A message that can't be sent, such as one above the broker's limit."""


class QueueFull(ClientError):
    """As many messages as allowed wait for their receipts."""


class Closed(ClientError):
    """The client, producer or consumer was closed."""
