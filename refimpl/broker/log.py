"""The log of a broker: a line for each event."""

from __future__ import annotations

from collections.abc import Callable


class Log:
    """A log that writes each event in one line, whatever names of peers are in it.

    Args:
        write: Called with a line; None: nothing is written.
    """

    def __init__(self, write: Callable[[str], None] | None) -> None:
        self._write = write or (lambda _: None)

    def __call__(self, line: str) -> None:
        """Write a line."""
        self._write(line if line.isprintable() else repr(line)[1:-1])

    def refused(self, what: str, code: str, reason: str, whose: str) -> None:
        """Write what was refused, with which code and why, and to whom."""
        self(f"refused {what} of {whose} with {code}: {reason}")
