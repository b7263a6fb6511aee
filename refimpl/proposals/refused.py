"""Exceptions for requests, connections and admin calls that a rule refuses."""

from __future__ import annotations

from collections.abc import Mapping


class Refused(Exception):
    """A refused request. The answer is ERROR, or the failed form of the request's own response.

    Args:
        code: A value of `ServerError`.
        message: The reason, for the reader of the client's log.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ProtocolViolation(Exception):
    """A peer broke the protocol; its connection is closed without an answer."""


class AdminRefused(Exception):
    """A refused admin call.

    Args:
        status: The HTTP status.
        reason: The reason, for the caller.
        headers: Further headers of the response.
    """

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers or {}
