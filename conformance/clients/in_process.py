"""Cases for clients against the reference client inside this process, in virtual time: minutes of protocol take seconds.

reference driver <-- bytes in memory --> Backdrop <-- bytes in memory --> reference broker
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from conformance.clients.backdrop import Backdrop, Link, Listener
from conformance.clients.driver import Driver, Hello
from conformance.clients.known import IN_PROCESS
from conformance.clients.runner import run_clients
from conformance.drivers import reference
from conformance.judging.results import RunLog
from conformance.running.runner import Options, Silent
from conformance.suite import Suite
from refimpl.net.virtual_time import VirtualTimeLoop

_PORTS = itertools.count(1)
_ACCEPT: dict[int, Callable[[], Link]] = {}
"""What accepts connections, by the number in the service URL."""
_START_TIME = 1_700_000_000.0
"""Seconds since 1970 at which virtual time begins, so that every run is the same."""


def run_clients_in_process(suite: Suite, select: Sequence[str] = (), *, jobs: int | None = None) -> RunLog:
    """Run cases with the reference client, with whatever has been patched in it.

    Args:
        suite: All cases.
        select: Globs for the names of cases; none: all.
        jobs: Conversations at a time; None: four.

    Returns:
        The log of the run.

    Raises:
        RuntimeError: The run ended early, and why.
    """
    client = replace(IN_PROCESS, name="client:reference")
    options = Options(select=select, seed=1, jobs=jobs)
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        run, stopped = runner.run(run_clients(suite, client, options, lambda _: None, Silent(), MemoryDriver))
    if stopped is not None:
        raise RuntimeError(stopped)
    return run


class MemoryBackdrop(Backdrop):
    """A backdrop that is reached through memory."""

    async def _listen(self) -> str:
        self._port = next(_PORTS)
        _ACCEPT[self._port] = self._accepted
        return f"pulsar://memory:{self._port}"

    async def _stop_listening(self) -> None:
        del _ACCEPT[self._port]

    def _wall_clock_offset(self) -> float:
        return _START_TIME


class MemoryDriver(Driver):
    """The reference driver inside this process."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        super().__init__(name, command, log)
        self._reference = reference.Driver(self._said, dial=_dial, seed=1, wall_clock_offset=_START_TIME)
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Take over what the reference driver says of itself."""
        self.hello = Hello.model_validate({**reference.HELLO, "verbs": []})
        return self

    def backdrop(self, listener: Listener, config: Mapping[str, str]) -> Backdrop:
        """Return a backdrop that the client reaches."""
        return MemoryBackdrop(listener, config)

    def _write(self, line: str) -> None:
        task = asyncio.get_running_loop().create_task(reference.perform(self._reference, json.loads(line)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def _runs(self) -> bool:
        return True

    async def kill(self) -> None:
        """Forget what is going on."""
        for task in [*self._tasks, *self._reference.tasks]:
            task.cancel()
        self._fail("it was ended")

    def _said(self, line: dict[str, Any]) -> None:
        asyncio.get_running_loop().call_soon(partial(self._take_told, json.loads(json.dumps(line))))


class _MemoryTransport(asyncio.Transport):
    """One end of a connection in memory. What is written arrives in the next iteration of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.other: _MemoryTransport
        self.protocol: asyncio.Protocol
        self._ended = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        if not self._ended:
            asyncio.get_running_loop().call_soon(self.other.arrived, bytes(data))

    def arrived(self, data: bytes) -> None:
        """Take bytes, unless this end has ended."""
        if not self._ended:
            self.protocol.data_received(data)

    def is_closing(self) -> bool:
        """Tell whether it has ended."""
        return self._ended

    def close(self) -> None:
        """End it behind what was written."""
        self._end("fin")

    def abort(self) -> None:
        """End it, as if the connection were lost."""
        self._end("rst")

    def _end(self, how: Literal["fin", "rst"]) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(self.lost, None)
        loop.call_soon(self.other.lost, None if how == "fin" else ConnectionResetError("the connection was lost"))

    def lost(self, error: Exception | None) -> None:
        """Tell the protocol that the connection has ended."""
        if not self._ended:
            self._ended = True
            self.protocol.connection_lost(error)


async def _dial(host: str, port: int, protocol_factory: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
    accept = _ACCEPT.get(port)
    if accept is None:
        raise ConnectionRefusedError(f"nothing listens at {host}:{port}")
    mine, theirs = _MemoryTransport(), _MemoryTransport()
    mine.other, theirs.other = theirs, mine
    mine.protocol, theirs.protocol = protocol_factory(), accept()
    theirs.protocol.connection_made(theirs)
    mine.protocol.connection_made(mine)
    return mine
