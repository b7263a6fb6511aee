"""The reference client at a broker that is reached by the network, for one test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from conformance.targets import AdminClient, Endpoint
from refimpl.client import Message
from refimpl.net.client import Client, Consumer
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe

FROM_START: dict[str, Any] = {"initial_position": CommandSubscribe.Earliest}
DEADLINE = 60.0


class Place:
    """A broker with a namespace for one test, and the transports of the clients that reach it."""

    def __init__(self, endpoint: Endpoint, admin: AdminClient, namespace: str) -> None:
        self.endpoint = endpoint
        self.namespace = namespace
        self._admin = admin
        self._transports: list[asyncio.Transport] = []
        self.reachable = True

    def client(self) -> Client:
        return Client(self.endpoint.service_url, dial=self._dial, seed=1)

    def topic(self, name: str = "t") -> str:
        return f"persistent://{self.namespace}/{name}"

    async def admin(self, op: str, arguments: object) -> Any:
        result = await self._admin.call(op, arguments)
        assert result.ok, f"{op} {arguments}: {result.status} {result.reason}"
        return result.body

    def cut(self) -> None:
        """Lose all connections."""
        transports, self._transports = self._transports, []
        for transport in transports:
            transport.abort()

    async def _dial(self, host: str, port: int, protocol_factory: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        if not self.reachable:
            raise ConnectionRefusedError("cut off by the test")
        transport, _ = await asyncio.get_running_loop().create_connection(protocol_factory, host, port)
        self._transports.append(transport)
        return transport


Test = Callable[[Place], Coroutine[Any, Any, None]]


async def received(consumer: Consumer, count: int) -> list[Message]:
    return [await consumer.receive() for _ in range(count)]
