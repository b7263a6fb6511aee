"""Work beside the event loop, in a process of its own: Python computes on one processor at a time."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from typing import TypeVar

T = TypeVar("T")


class BrokenOff(Exception):
    """The work ended without a result; its error is on standard error."""


@asynccontextmanager
async def beside(work: Callable[[], T]) -> AsyncIterator[Callable[[], Awaitable[T]]]:
    """Begin work in a copy of this process; the copy has ended when the block is left.

    Open files and sockets are copied too, so that what this process closes stays open while the copy lives: begin before there are any.

    Args:
        work: Its result must be something that `pickle` can write.

    Returns:
        A function that waits for the result. It raises `BrokenOff` if there is none.
    """
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=_send, args=(sender, work), daemon=True)
    process.start()
    sender.close()

    async def result() -> T:
        try:
            found: T = await asyncio.to_thread(receiver.recv)
        except EOFError:
            raise BrokenOff("the process beside this one ended without a result; its error is on standard error") from None
        return found

    try:
        yield result
    finally:
        process.kill()
        process.join()
        receiver.close()


def _send(sender: Connection, work: Callable[[], T]) -> None:
    signal.set_wakeup_fd(-1)  # the event loop of the original listens there
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the original ends its copy
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sender.send(work())
