"""Accepts connections on a socket.

It takes what asyncio's servers lack: a long backlog, and an answer to the end of the file descriptors. Then a new connection is
accepted with a descriptor that was kept for this, and closed at once, so that its peer need not wait and nothing is logged.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable

BACKLOG = 4096
"""Connections that may wait to be accepted; the system may allow fewer."""
HANDSHAKE_SECONDS = 10.0
"""Seconds for a TLS handshake."""
_ACCEPTED_AT_ONCE = 100
_ACCEPT_TURNS = 3
"""Iterations of the event loop after which each accepted connection has its protocol."""
_PAUSE_SECONDS = 0.1
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Room:
    """How many connections some listeners may have together. Beyond that, new ones wait until others have ended.

    Args:
        most: The number; 0: as many as come.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open = 0
        self._waiting: list[Callable[[], None]] = []

    @property
    def full(self) -> bool:
        """Return whether the next connection has to wait."""
        return 0 < self._most <= self._open

    def enter(self) -> None:
        """Count a connection."""
        self._open += 1

    def leave(self) -> None:
        """Count the end of a connection, for which others wait."""
        self._open -= 1
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()

    def wait(self, resume: Callable[[], None]) -> None:
        """Call a function once when a connection has ended."""
        self._waiting.append(resume)


class Listener:
    """A listening socket that gives each connection a protocol, until it is closed.

    Args:
        listening: A bound socket; the listener closes it at the end.
        protocol: Makes the protocol of a connection.
        tls: The TLS context; None: plain TCP.
        room: Where its connections count; the caller tells their end, unless they end during their TLS handshake. None: nowhere.
        failed: Hears why a TLS handshake failed.
    """

    def __init__(
        self,
        listening: socket.socket,
        protocol: Callable[[], asyncio.BaseProtocol],
        tls: ssl.SSLContext | None = None,
        room: Room | None = None,
        failed: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._protocol = protocol
        self._tls = tls
        self._room = room or Room(0)
        self._failed = failed
        self._closed = False
        self._opening: set[asyncio.Task[object]] = set()
        self._spare = os.open(os.devnull, os.O_RDONLY)
        self._pause: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        listening.listen(BACKLOG)
        self._resume()

    async def close(self) -> None:
        """Stop accepting connections. Those that are accepted have their protocol afterwards, or are dropped during their TLS handshake."""
        self._closed = True
        self._loop.remove_reader(self._listening)
        if self._pause is not None:
            self._pause.cancel()
        self._listening.close()
        os.close(self._spare)
        for _ in range(_ACCEPT_TURNS):
            await asyncio.sleep(0)
        for task in self._opening:
            task.cancel()

    def _resume(self) -> None:
        self._pause = None
        if not self._closed:
            self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            if self._room.full:
                self._loop.remove_reader(self._listening)
                self._room.wait(self._resume)
                return
            try:
                connection, _ = self._listening.accept()
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._refuse()
                return
            connection.setblocking(False)
            self._room.enter()
            seconds = HANDSHAKE_SECONDS if self._tls else None
            opening = self._loop.connect_accepted_socket(self._protocol, connection, ssl=self._tls, ssl_handshake_timeout=seconds)
            task = self._loop.create_task(opening)
            self._opening.add(task)
            task.add_done_callback(self._opened)

    def _opened(self, task: asyncio.Task[object]) -> None:
        self._opening.discard(task)
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            self._room.leave()
        if error is not None and self._failed is not None:
            self._failed(error)

    def _refuse(self) -> None:
        """Drop the next connection; if even that is impossible, pause."""
        os.close(self._spare)
        try:
            self._listening.accept()[0].close()
        except OSError:
            self._loop.remove_reader(self._listening)
            self._pause = self._loop.call_later(_PAUSE_SECONDS, self._resume)
        self._spare = os.open(os.devnull, os.O_RDONLY)
