"""The asyncio client and the reference broker in one virtual time."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

from refimpl.broker import Broker, Configuration, Member
from refimpl.client import Message
from refimpl.net.client import Client, Consumer
from refimpl.net.client_memory import memory_dial
from refimpl.net.memory_link import Faults, MemoryLink
from refimpl.net.virtual_time import VirtualTimeLoop

URL = "pulsar://broker:6650"
T = "persistent://public/default/t"


class World:
    """A broker in virtual time, and the transports of clients that reach it."""

    def __init__(self, faults: Faults | None = None, **settings: Any) -> None:
        self.broker = Broker(Configuration(**settings), members=[Member(URL)])
        self.link = MemoryLink(self.broker, faults=faults) if faults else MemoryLink(self.broker)
        self.transports: list[Any] = []
        self.log: list[str] = []

    def client(self, **choices: Any) -> Client:
        return Client(URL, dial=self._dial, seed=3, wall_clock_offset=1_700_000_000.0, log=self.log.append, **choices)

    async def _dial(self, host: str, port: int, protocol_factory: Callable[[], asyncio.Protocol]) -> None:
        self.transports.append(await memory_dial(self.link)(host, port, protocol_factory))

    def cut(self) -> None:
        transports, self.transports = self.transports, []
        for transport in transports:
            transport.abort()


def virtually(test: Callable[[World], Coroutine[Any, Any, None]], faults: Faults | None = None, **settings: Any) -> None:
    """Run a test in virtual time, with settings of the broker; nothing may be left of it."""

    async def main() -> None:
        world = World(faults, **settings)
        try:
            await asyncio.wait_for(test(world), 3600)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left
        finally:
            world.link.close()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())
    gc.collect()


async def received(consumer: Consumer, count: int) -> list[Message]:
    return [await consumer.receive() for _ in range(count)]


async def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
