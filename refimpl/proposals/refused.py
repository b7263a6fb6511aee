"""What is refused, decided where the rule is: requests, connections, admin calls."""


class Refused(Exception):
    """A request that is answered by ERROR, or by the failed form of its own answer.

    Args:
        code: A value of `ServerError`.
        message: What is wrong, for the person who reads the client's log.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ProtocolViolation(Exception):
    """A peer broke a rule that ends its connection without an answer."""


class AdminRefused(Exception):
    """An admin call that is refused.

    Args:
        status: The HTTP status.
        reason: What is wrong, for the person who reads it.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
