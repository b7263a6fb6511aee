"""The one error of bad input on the Spark side, also when it comes back through Java."""

from __future__ import annotations


class CorpusError(ValueError):
    """A corpus, an option or a pattern that can't be used: where, what is wrong, and what to do, in one line."""


def reason_of(error: Exception) -> str | None:
    """Return the message of a `CorpusError` that was raised here, or in a worker and reported by Spark; None for any other error."""
    if isinstance(error, CorpusError):
        return str(error)
    marker = f"{CorpusError.__name__}: "
    found = [line.partition(marker)[2].strip() for line in str(error).splitlines() if marker in line]
    return found[-1] if found else None
