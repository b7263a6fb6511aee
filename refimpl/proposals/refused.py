"""A request that is refused: what to answer, decided where the rule is."""


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
