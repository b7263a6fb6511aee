"""How soon did frames come? For each clause about it, the seconds that they took in the recordings, or in the logs of other runs.

python -m conformance.lateness                  all recordings of releases
python -m conformance.lateness EVENTS.jsonl ..  other logs: `reports/events.jsonl` of a run

The limits of the clauses come from these figures; docs/how-soon.md has them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from conformance.engine import log
from conformance.engine.matching import match_frame, see
from conformance.judging.results import RunLog, judge_trial, read_log
from conformance.running import recorder
from conformance.suite import Suite, load_suite

SHARES = (0.5, 0.99, 0.999)


def delays(suite: Suite, run: RunLog) -> Iterator[tuple[str, float, float]]:
    """Yield for each frame that a rule gives a time for: the clause, the seconds that it may take, those that it took.

    Args:
        suite: All cases.
        run: A log. Conversations that the suite can't play any more are left out.
    """
    for trial in run.trial_logs.values():
        outcome = judge_trial(suite, trial, run.header)
        arrived = {event.n: event for event in trial.events if isinstance(event, log.Frame)}
        for step in outcome.taken if outcome is not None else ():
            for clause, rule in suite.soon if step.n in arrived else ():
                if any(match_frame(frame, see(arrived[step.n]), {}) for frame in rule.frames):
                    yield clause, rule.seconds, step.delay


def table(suite: Suite, runs: Iterable[RunLog]) -> list[str]:
    """Return a line for each rule: how many frames, the limit, the median, larger shares, and the longest, in ms."""
    found: dict[tuple[str, float], list[float]] = {(clause, rule.seconds): [] for clause, rule in suite.soon}
    for run in runs:
        for clause, limit, seconds in delays(suite, run):
            found[clause, limit].append(seconds)
    lines = [f"{'clause':22}{'limit':>7}{'frames':>8}" + "".join(f"{share:>8.1%}" for share in SHARES) + f"{'longest':>9}  ms"]
    for (clause, limit), some in found.items():
        ordered = sorted(some)
        shown = [ordered[int(len(ordered) * share)] for share in SHARES] + ordered[-1:] if ordered else []
        lines.append(f"{clause:22}{limit * 1000:7.0f}{len(ordered):8}" + "".join(f"{one * 1000:8.0f}" for one in shown))
    return lines


def main(names: list[str]) -> int:
    """Print the table; return 0."""
    if names:
        runs = [read_log(log.load(Path(name).read_text(encoding="utf-8").splitlines(), name), name) for name in names]
    else:
        runs = [run for run in map(recorder.load_target, recorder.targets()) if run is not None]
    print("\n".join(table(load_suite(), runs)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
