"""What the benchmarks share: timing and printing."""

import math
import statistics
import time
from collections.abc import Callable, Sequence


def row(name: str, figure: str, remark: str) -> None:
    """Print one line of the table."""
    print(f"{name:10} {figure:>24}  {remark}", flush=True)


def seconds(work: Callable[[], object]) -> float:
    """Return how long a function takes; its result is kept until the clock has stopped."""
    begin = time.perf_counter()
    kept = work()
    end = time.perf_counter()
    del kept
    return end - begin


def p95(values: Sequence[float]) -> float:
    """Return the 95th percentile."""
    return sorted(values)[max(0, math.floor(0.95 * len(values)) - 1)]


def spread(values: Sequence[float], unit: float = 1e-3, name: str = "ms") -> str:
    """Write median and 95th percentile."""
    return f"{statistics.median(values) / unit:.3g} {name} (p95 {p95(values) / unit:.3g})"


def against(name: str, what: str, ours: Sequence[float], peer: Sequence[float], goal: str) -> None:
    """Print medians side by side, and how many times the peer's figure is ours."""
    ratio = statistics.median(peer) / statistics.median(ours)
    row(name, f"{spread(ours)}", f"{what}; real: {spread(peer)}; {ratio:.1f} times faster; goal: {goal}")
