"""Measures the suite: codec, engine, judging, and a whole run on a running real broker."""

from __future__ import annotations

import statistics
import time

from figures import row, seconds
from pydantic import BaseModel

from conformance.engine import log
from conformance.judging.results import RunLog, judge_log
from conformance.running import recorder
from conformance.running.runner import Options, Silent, run_suite
from conformance.running.units import is_slow
from conformance.suite import Suite
from conformance.targets import ApachePulsar, AttachedTarget
from refimpl.wire import FrameDecoder, decode_frame
from refimpl.wire.pulsar_api_pb2 import BaseCommand

_ROUNDS = 9


def _recorded_frames(run: RunLog) -> list[bytes]:
    return [
        bytes.fromhex(event.data) for trial_log in run.trial_logs.values() for event in trial_log.events if isinstance(event, log.Frame)
    ]


def codec(run: RunLog) -> None:
    """Decode a stream of recorded frames, against the bare parse of the same commands; both keep what they made."""
    frames = [data for data in _recorded_frames(run) if len(data) < 4096]
    frames *= max(1, 50_000 // len(frames))
    stream = b"".join(frames)
    commands = [data[8 : 8 + int.from_bytes(data[4:8], "big")] for data in frames]

    def decode() -> object:
        decoder = FrameDecoder()
        return [decoder.receive(stream[place : place + 65536]) for place in range(0, len(stream), 65536)]

    def parse() -> object:
        return [BaseCommand.FromString(data) for data in commands]

    pairs = [(seconds(decode), seconds(parse)) for _ in range(_ROUNDS)]
    ours, bare = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    row("codec", f"{len(frames) / ours:,.0f} frames/s", f"{len(stream) / ours / 1e6:.1f} MB/s; {ratio:.2f} times the bare parse")
    row("", f"{len(frames) / bare:,.0f} frames/s", f"{len(stream) / bare / 1e6:.1f} MB/s; the bare parse of the same commands")
    assert decode_frame(frames[0]).data == frames[0]


def engine(suite: Suite, run: RunLog) -> None:
    """Judge all conversations of one target."""
    events = sum(len(trial_log.events) for trial_log in run.trial_logs.values())
    times = [seconds(lambda: judge_log(suite, run)) for _ in range(3)]
    row("engine", f"{events / statistics.median(times):,.0f} events/s", f"{events:,} events of {run.header.target}")


def judging(suite: Suite) -> None:
    """Read and judge every recording of the suite."""

    def work() -> object:
        return [judge_log(suite, run) for run in map(recorder.load_target, recorder.targets()) if run is not None]

    taken = statistics.median(seconds(work) for _ in range(3))
    row("judging", f"{taken:.1f} s", f"all recordings of {', '.join(recorder.targets())}; goal: under 10 s")


def _discard(_: BaseModel) -> None:
    pass


async def whole_run(suite: Suite, version: str, rounds: int) -> None:
    """Run all cases without settings of their own that are not slow, on one broker that is running already."""
    cases = [case.id for case in suite.transcripts.values() if not is_slow(case) and not case.target_config]
    times = []
    async with ApachePulsar(version).run(progress=print) as endpoint:
        for number in range(rounds):
            begin = time.perf_counter()
            await run_suite(suite, AttachedTarget(endpoint), Options(select=cases, seed=number + 1), _discard, Silent())
            times.append(time.perf_counter() - begin)
    shown = ", ".join(f"{seconds:.1f}" for seconds in times)
    row("run", f"{statistics.median(times):.1f} s", f"{len(cases)} cases on apache-pulsar@{version} ({shown}); goal: under 60 s")
