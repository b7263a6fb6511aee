"""The errors of the Spark side: of input that can't be used, and of a machine on which Spark can't be used; and what they say in one line.

An error of input may be raised in a worker and come back through Java; `reason_of` finds it there, or says that memory ran out.
Importing this needs neither Spark nor Java.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_ON_A_CLUSTER = "on a cluster with --driver-memory and --executor-memory, on the standalone one of this machine with --worker-memory"
OUT_OF_MEMORY = f"Spark has too little memory; give it more with --memory MIB ({_ON_A_CLUSTER})"
EXECUTORS_LOST = f"the executors have ended, most likely because memory ran out; give them more ({_ON_A_CLUSTER})"
JAVA_ENDED = "Java has ended, most likely because memory ran out; free some, or give it more with --memory MIB"
_SIGNS_OF_THE_END = ("does not exist in the JVM", "SparkContext was shut down")
"""What Py4J says of whatever it looks for in a Java that has ended; and Spark, of what it was doing then."""
_SIGNS_OF_LOST_EXECUTORS = ("ExecutorLostFailure", "FetchFailedException")
"""What Spark says when one after the other has ended: of a task that was at work there, or of its results that were kept there."""
_SIGNS_OF_NO_MEMORY = (
    *("java.lang.OutOfMemoryError", "SparkOutOfMemoryError", "UNABLE_TO_ACQUIRE_MEMORY", "ArrowMemoryError"),
    *("INVALID_DRIVER_MEMORY", "INVALID_EXECUTOR_MEMORY"),  # it does not start with less
)


class CorpusError(ValueError):
    """A corpus, an option or a pattern that can't be used. The message says where, why, and what to do, in one line."""


class SparkError(Exception):
    """Spark can't be used here.

    Args:
        message: What is missing.
        hint: How to fix it.
    """

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.message = message
        self.hint = hint


def reason_of(error: Exception) -> str | None:
    """Return the message of an error that the user can fix, in one line; None for any other error.

    That is the message of a `CorpusError` or `CaptureError` that was raised here, or in a worker and reported by Spark, or that there is
    too little memory.
    """
    from conformance.captures.errors import CaptureError  # noqa: PLC0415 -- workers import this module, and no captures

    if isinstance(error, CorpusError | CaptureError):
        return "".join(one if one.isprintable() else repr(one)[1:-1] for one in str(error))  # files and columns may have any names
    markers = [f"{kind.__name__}: " for kind in (CorpusError, CaptureError)]
    found = [line.partition(marker)[2].strip() for line in _text(error).splitlines() for marker in markers if marker in line]
    if found:
        return found[-1]
    from py4j.protocol import Py4JNetworkError  # noqa: PLC0415

    errors = list(_with_causes(error))
    if _any_tells(errors, _SIGNS_OF_NO_MEMORY, MemoryError):
        return OUT_OF_MEMORY
    if _any_tells(errors, _SIGNS_OF_LOST_EXECUTORS):
        return EXECUTORS_LOST
    if _any_tells(errors, _SIGNS_OF_THE_END, Py4JNetworkError, ConnectionRefusedError):
        return JAVA_ENDED
    return None


def _any_tells(errors: Sequence[BaseException], signs: Sequence[str], *kinds: type[BaseException]) -> bool:
    return any(isinstance(one, kinds) or any(sign in _text(one) for sign in signs) for one in errors)


def _text(error: BaseException) -> str:
    """Return the message of an error; empty if it is in Java, and Java has ended."""
    from py4j.protocol import Py4JError  # noqa: PLC0415

    try:
        return str(error)
    except (Py4JError, OSError):
        return ""


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
