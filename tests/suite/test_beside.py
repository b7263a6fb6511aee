"""Work in a copy of the process, beside the event loop."""

import asyncio
import multiprocessing
import os
import time

import pytest

from conformance.running.beside import BrokenOff, beside


def come_to_nothing():
    raise RuntimeError("it went wrong")


def test_the_result_comes_from_another_process_that_has_what_this_one_has():
    found = object()
    known = {"found": found}

    async def go():
        async with beside(lambda: (os.getpid(), known["found"] is found)) as result:
            return await result()

    where, same = asyncio.run(go())
    assert same
    assert where != os.getpid()


def test_work_without_a_result_is_broken_off_and_its_error_is_shown(capfd):
    async def go():
        async with beside(come_to_nothing) as result:
            await result()

    with pytest.raises(BrokenOff):
        asyncio.run(go())
    assert "it went wrong" in capfd.readouterr().err


@pytest.mark.parametrize("asked", [False, True])
def test_the_copy_ends_with_the_block(asked):
    async def go():
        async with beside(lambda: time.sleep(600)) as result, asyncio.timeout(0.05):
            await (result() if asked else asyncio.sleep(600))

    with pytest.raises(TimeoutError):
        asyncio.run(go())
    assert multiprocessing.active_children() == []
