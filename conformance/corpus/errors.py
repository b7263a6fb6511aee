"""The one error of bad input on the Spark side, also when it comes back through Java; and what is said when memory runs out."""

from __future__ import annotations

from collections.abc import Iterator

from py4j.protocol import Py4JError, Py4JNetworkError

OUT_OF_MEMORY = "Spark ran out of memory; give it more with --memory MIB (on a cluster with --driver-memory and --executor-memory)"
JAVA_ENDED = "Java has ended, most likely because memory ran out; free some, or give it more with --memory MIB"
_SIGNS_OF_THE_END = ("does not exist in the JVM", "SparkContext was shut down")
"""What Py4J says of whatever it looks for in a Java that has ended; and Spark, of what it was doing then."""
_SIGNS_OF_NO_MEMORY = ("java.lang.OutOfMemoryError", "SparkOutOfMemoryError", "UNABLE_TO_ACQUIRE_MEMORY", "ArrowMemoryError")


class CorpusError(ValueError):
    """A corpus, an option or a pattern that can't be used: where, what is wrong, and what to do, in one line."""


def reason_of(error: Exception) -> str | None:
    """Return in one line what the user can do something about; None for any other error.

    That is the message of a `CorpusError` that was raised here, or in a worker and reported by Spark, or that there is too little memory.
    """
    if isinstance(error, CorpusError):
        return str(error)
    marker = f"{CorpusError.__name__}: "
    found = [line.partition(marker)[2].strip() for line in _text(error).splitlines() if marker in line]
    if found:
        return found[-1]
    if any(isinstance(one, MemoryError) or any(sign in _text(one) for sign in _SIGNS_OF_NO_MEMORY) for one in _with_causes(error)):
        return OUT_OF_MEMORY
    if any(_tells_of_the_end(one) for one in _with_causes(error)):
        return JAVA_ENDED
    return None


def _tells_of_the_end(error: BaseException) -> bool:
    return isinstance(error, Py4JNetworkError | ConnectionRefusedError) or any(sign in _text(error) for sign in _SIGNS_OF_THE_END)


def _text(error: BaseException) -> str:
    """Return what an error says; nothing if it stands in Java, and Java has ended."""
    try:
        return str(error)
    except (Py4JError, OSError):
        return ""


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
