"""The errors that the application sees.

ClientError
    ConnectionLost      the connection could not be opened, or has ended
        ProtocolError   the broker broke the protocol
    BrokerRefused       the broker refused a request; `code` has the reason
    TimedOut            no answer in time
    InvalidMessage      a message that can't be sent
    QueueFull           too many messages wait for their receipts
    Closed              used after it was closed
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
    """An operation has failed.

    Attributes:
        code: The broker's `ServerError`; None if the broker did not refuse the request.
        retriable: Whether the same request may succeed later.
    """

    code: int | None = None
    retriable = False


class ConnectionLost(ClientError):
    """The connection could not be opened, or has ended."""

    retriable = True


class ProtocolError(ConnectionLost):
    """The broker broke the protocol."""


class BrokerRefused(ClientError):
    """The broker refused a request.

    Args:
        code: A value of `ServerError`.
        message: The broker's error message.
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
    """The maximum number of messages waits for receipts."""


class Closed(ClientError):
    """The client, producer or consumer was closed."""
