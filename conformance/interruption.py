"""SIGINT, SIGTERM and SIGHUP: all three end a command in the same way, soon, and what it found until then is kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_LIKE_SIGINT = (signal.SIGTERM, signal.SIGHUP)
_CLEANING = 0.6
"""Seconds that work has to clean up behind itself; its target may be what hinders it."""
_INSISTING = 0.2


@contextlib.contextmanager
def signals_alike() -> Iterator[None]:
    """Turn the first SIGTERM or SIGHUP into SIGINT, for which asyncio has a way. A closed terminal sends several."""
    told = False
    terminals = [number for number in (1, 2) if os.isatty(number)]

    def forward(number: int, _: object) -> None:
        nonlocal told
        if number == signal.SIGHUP:
            _write_nowhere(terminals)
        if not told:
            told = True
            signal.raise_signal(signal.SIGINT)

    handlers: dict[signal.Signals, Any] = {number: forward for number in _LIKE_SIGINT if signal.getsignal(number) is signal.SIG_DFL}
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell has begun the command in its background
        handlers[signal.SIGINT] = signal.default_int_handler
    with _handled(handlers):
        yield


def _write_nowhere(terminals: list[int]) -> None:
    """Let what goes to a terminal that is gone go nowhere: it would be an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in terminals:
        os.dup2(nowhere, number)
    os.close(nowhere)


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Let no signal end what takes a moment and should be whole, such as writing a report."""
    with _handled({signal.SIGINT: signal.SIG_IGN}):
        yield


@contextlib.contextmanager
def _handled(handlers: dict[signal.Signals, Any]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def ending_soon(work: Coroutine[Any, Any, T]) -> T:
    """Do work. When this is cancelled, the work is; soon afterwards everything is cancelled that still waits, until the work has ended.

    Returns:
        The result of the work, also if it ended with one after it was cancelled.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task}, timeout=_CLEANING)
        while not task.done():
            for one in asyncio.all_tasks() - {asyncio.current_task()}:
                one.cancel()
            await asyncio.wait({task}, timeout=_INSISTING)
        return task.result()
