"""Benchmarks are too slow for the tests; that each part can still be loaded is seen here."""

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[1] / "benchmarks" / "bench.py"


def test_every_part_of_the_benchmarks_can_be_loaded() -> None:
    done = subprocess.run([sys.executable, BENCH, "--help"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "scalable" in done.stdout
