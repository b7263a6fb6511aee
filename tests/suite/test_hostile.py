"""What a hostile target, or a broken file, can't do to the suite."""

import asyncio

import pytest

from conformance.engine.verdict import Verdict
from conformance.interruption import ending_soon
from conformance.running import probe as probing
from conformance.running import runner
from conformance.running.connection import Allowance
from conformance.targets import TargetError
from tests.fakes.peers import DripOfPings, EndlessPings
from tests.suite.test_runner import judged


def test_a_flood_ends_the_probe(add):
    with pytest.raises(TargetError, match="floods: it sends more than 28 MB, or 14336 frames, in one conversation"):
        judged(add(), EndlessPings("connect"))


def test_a_drip_does_not_lengthen_the_time_to_answer(add, monkeypatch):
    monkeypatch.setattr(probing, "_SECONDS", 0.3)

    async def in_time():
        async with asyncio.timeout(10):
            await asyncio.to_thread(judged, add(), DripOfPings())

    with pytest.raises(TargetError, match=r"does not answer connect within 0\.3 s"):
        asyncio.run(in_time())


def test_a_flood_in_a_conversation_ends_the_conversation(add, ping):
    waiting = ping.replace("pong: {}", "success: {}").replace("ambient: []\n", "")
    results, records, stopped = judged(add(waiting), EndlessPings("ping"))
    assert stopped is None
    assert results[0].verdict == Verdict.ERROR
    assert "the target floods" in results[0].summary
    assert sum(record.record == "frame" for record in records) < 14336 * 3


def test_a_run_keeps_no_more_than_it_has_room_for(add, ping, monkeypatch):
    monkeypatch.setattr(runner, "_IN_A_RUN", 1 << 20)
    _, records, stopped = judged(add(ping.replace("pong: {}", "success: {}").replace("ambient: []\n", "")), EndlessPings("ping"))
    assert stopped is not None
    assert "it floods" in stopped
    assert sum(record.record == "frame" for record in records) < 300


def test_an_allowance_is_part_of_another_one():
    whole = Allowance(10)
    one, other = Allowance(8, whole), Allowance(8, whole)
    assert one.take(8)
    assert not one.take(1)
    assert not other.take(2)


def test_what_hinders_the_end_is_cancelled_too():
    async def cleans_for_ever():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            try:
                await asyncio.gather(asyncio.sleep(60), asyncio.sleep(60))
            except asyncio.CancelledError:
                return "kept"

    async def main():
        asyncio.get_running_loop().call_later(0.05, asyncio.current_task().cancel)
        return await ending_soon(cleans_for_ever())

    assert asyncio.run(main()) == "kept"
