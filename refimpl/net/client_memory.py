"""Connects the client to brokers inside the process, on any event loop.

link = MemoryLink(broker)
client = Client("pulsar://broker:6650", dial=memory_dial(link))
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Literal

from refimpl.net.client_driver import Dial
from refimpl.net.memory_link import MemoryLink


class MemoryTransport(asyncio.Transport):
    """A transport over a connection of a link.

    Args:
        link: The link to the broker.
        protocol: The protocol of the client.
    """

    def __init__(self, link: MemoryLink, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._closing = False
        self._connection = link.connect(protocol.data_received, self._closed)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        self._connection.send(bytes(data))

    def is_closing(self) -> bool:
        """Return whether it has ended or is closing."""
        return self._closing

    def close(self) -> None:
        """Close after sending what was written."""
        self._end("fin")

    def abort(self) -> None:
        """Close at once, as if the network had lost the connection."""
        self._end("rst")

    def _end(self, how: Literal["fin", "rst"]) -> None:
        if not self._closing:
            self._closing = True
            self._connection.close(how)
            self._loop.call_soon(self._protocol.connection_lost, None)

    def _closed(self, how: Literal["fin", "rst"]) -> None:
        if not self._closing:
            self._closing = True
            self._protocol.connection_lost(None if how == "fin" else ConnectionResetError("the connection was lost"))


def memory_dial(links: MemoryLink | Mapping[str, MemoryLink]) -> Dial:
    """Return a `Dial` for brokers inside the process.

    Args:
        links: The link to the only broker, for any address; or the links by "host:port".
    """

    async def dial(host: str, port: int, protocol_factory: Callable[[], asyncio.Protocol]) -> MemoryTransport:
        link = links if isinstance(links, MemoryLink) else links.get(f"{host}:{port}")
        if link is None:
            raise ConnectionRefusedError(f"no broker listens at {host}:{port}")
        protocol = protocol_factory()
        transport = MemoryTransport(link, protocol)
        protocol.connection_made(transport)
        return transport

    return dial
