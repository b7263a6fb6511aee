"""Measures the suite: `make bench`. Figures are medians; those with a peer are ratios, taken alternately in one run.

codec     FrameDecoder over a stream of recorded frames, against protobuf's bare parse of the same commands
engine    events per second of the matching machine, over all recordings of one target
judging   all recordings of the suite, judged offline, as `judge` does it
run       all cases that are not slow, on a running real Apache Pulsar (needs Java and Maven)
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable

from pydantic import BaseModel

from conformance import recorder
from conformance.engine import log
from conformance.engine import model as m
from conformance.engine.verdict import Outcome
from conformance.results import RunLog, judge_log
from conformance.runner import Options, is_slow, run_suite
from conformance.suite import Suite, load_suite
from conformance.targets import ApachePulsar, AttachedTarget
from refimpl.wire import FrameDecoder, decode_frame
from refimpl.wire.pulsar_api_pb2 import BaseCommand

_ROUNDS = 9


def _row(name: str, figure: str, remark: str) -> None:
    print(f"{name:8} {figure:>22}  {remark}")


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    kept = work()
    end = time.perf_counter()
    del kept
    return end - begin


def _recorded_frames(run: RunLog) -> list[bytes]:
    return [bytes.fromhex(event.octets) for talk in run.talks.values() for event in talk.events if isinstance(event, log.Frame)]


def codec(run: RunLog) -> None:
    """Decode a stream of recorded frames, against the bare parse of the same commands; both keep what they made."""
    frames = [octets for octets in _recorded_frames(run) if len(octets) < 4096]
    frames *= max(1, 50_000 // len(frames))
    stream = b"".join(frames)
    commands = [octets[8 : 8 + int.from_bytes(octets[4:8], "big")] for octets in frames]

    def decode() -> object:
        decoder = FrameDecoder()
        return [decoder.receive(stream[place : place + 65536]) for place in range(0, len(stream), 65536)]

    def parse() -> object:
        return [BaseCommand.FromString(octets) for octets in commands]

    pairs = [(_seconds(decode), _seconds(parse)) for _ in range(_ROUNDS)]
    ours, bare = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    _row("codec", f"{len(frames) / ours:,.0f} frames/s", f"{len(stream) / ours / 1e6:.1f} MB/s; {ratio:.2f} times the bare parse")
    _row("", f"{len(frames) / bare:,.0f} frames/s", f"{len(stream) / bare / 1e6:.1f} MB/s; the bare parse of the same commands")
    assert decode_frame(frames[0]).octets == frames[0]


def engine(suite: Suite, run: RunLog) -> None:
    """Judge all conversations of one target."""
    events = sum(len(talk.events) for talk in run.talks.values())
    times = [_seconds(lambda: judge_log(suite, run)) for _ in range(3)]
    _row("engine", f"{events / statistics.median(times):,.0f} events/s", f"{events:,} events of {run.header.target}")


def judging(suite: Suite) -> None:
    """Read and judge every recording of the suite."""

    def work() -> object:
        return [judge_log(suite, run) for run in map(recorder.load_target, recorder.targets()) if run is not None]

    seconds = statistics.median(_seconds(work) for _ in range(3))
    _row("judging", f"{seconds:.1f} s", f"all recordings of {', '.join(recorder.targets())}; goal: under 10 s")


class _Quiet:
    def note(self, text: str) -> None:
        print(f"         {text}")

    def total(self, conversations: int) -> None:
        pass

    def ended(self, case: m.Transcript, outcome: Outcome) -> None:
        pass


def _discard(_: BaseModel) -> None:
    pass


async def whole_run(suite: Suite, version: str, rounds: int) -> None:
    """Run all cases without settings of their own that are not slow, on one broker that is running already."""
    cases = [case.id for case in suite.transcripts.values() if not is_slow(case) and not case.target_config]
    times = []
    async with ApachePulsar(version).run(progress=_Quiet().note) as endpoint:
        for number in range(rounds):
            begin = time.perf_counter()
            await run_suite(suite, AttachedTarget(endpoint), Options(select=cases, seed=number + 1), _discard, _Quiet())
            times.append(time.perf_counter() - begin)
    shown = ", ".join(f"{seconds:.1f}" for seconds in times)
    _row("run", f"{statistics.median(times):.1f} s", f"{len(cases)} cases on apache-pulsar@{version} ({shown}); goal: under 60 s")


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="apache-pulsar@4.2.4", help="whose recordings to use, and what to run")
    parser.add_argument("--no-run", action="store_true", help="leave out what needs a real broker")
    parser.add_argument("--rounds", type=int, default=3, help="whole runs")
    arguments = parser.parse_args()
    suite = load_suite()
    run = recorder.load_target(arguments.target)
    if run is None:
        raise SystemExit(f"there are no recordings of {arguments.target}: make recordings TARGET={arguments.target}")
    codec(run)
    engine(suite, run)
    judging(suite)
    if not arguments.no_run:
        asyncio.run(whole_run(suite, arguments.target.rpartition("@")[2], arguments.rounds))


if __name__ == "__main__":
    main()
