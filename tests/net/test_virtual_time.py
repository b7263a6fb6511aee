"""The loop in virtual time: order, exact times, and errors where a real loop would hang."""

from __future__ import annotations

import asyncio
import random
import socket

import pytest

from refimpl.net.virtual_time import VirtualTimeLoop


def run(main, **options):
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(**options)) as runner:
        return runner.run(main)


def test_time_passes_only_by_waiting_and_exactly():
    async def main():
        loop, seen = asyncio.get_running_loop(), []

        async def sleeper(seconds):
            await asyncio.sleep(seconds)
            seen.append((seconds, loop.time()))

        assert loop.time() == 0.0
        await asyncio.gather(*(sleeper(seconds) for seconds in (3600.0, 0.1, 60.5, 1e-7)))
        for _ in range(1000):
            await asyncio.sleep(0)
        return seen, loop.time()

    seen, end = run(main())
    assert seen == [(1e-7, 1e-7), (0.1, 0.1), (60.5, 60.5), (3600.0, 3600.0)]
    assert end == 3600.0


def test_timers_are_never_early():
    async def main():
        loop, numbers = asyncio.get_running_loop(), random.Random(1)
        for _ in range(2000):
            when = loop.time() + numbers.choice([1e-12, 3e-10, 1e-6, 0.1, 12345.678]) * numbers.random()
            waiting = loop.create_future()
            loop.call_at(when, waiting.set_result, None)
            await waiting
            assert loop.time() >= when

    run(main(), limit=1e9)


def test_time_outs():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(86400):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run(main()) == 86400


def test_everything_waits_for_ever():
    async def main():
        await asyncio.gather(asyncio.create_task(asyncio.Event().wait(), name="the one that waits"))

    with pytest.raises(
        RuntimeError, match=r"no timer is set at 0 s of virtual time, and no task can continue: 2 tasks \(.*the one that waits"
    ):
        run(main())


def test_something_goes_in_circles():
    async def main():
        while True:
            await asyncio.sleep(1)

    with pytest.raises(RuntimeError, match="100 s of virtual time have passed without an end"):
        run(main(), limit=100.0)


def test_sockets_are_refused():
    async def main():
        with socket.socket() as one:
            one.setblocking(False)
            asyncio.get_running_loop().add_reader(one, lambda: None)

    with pytest.raises(RuntimeError, match="takes no sockets: connect through a MemoryLink"):
        run(main())
