"""What ends a connection, and what refuses an admin call. A request that is refused is `refimpl.proposals.refused.Refused`."""


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
