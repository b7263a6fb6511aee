"""What tests that are driven by seeds share: run them in groups, and show that a fault would be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from conformance.mutants import Patches

Run = Callable[[int], None]


def run_group(run: Run, seeds: Iterable[int], module: str = "") -> None:
    """Run seeds; a failure names its seed, and the command that shows what happened if a module does that."""
    for seed in seeds:
        try:
            run(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}: python -m {module} {seed}" if module else f"seed {seed}")
            raise


def shown(run: Run, seed: int, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a seed; return what it prints."""
    run(seed)
    return capsys.readouterr().out


def count_caught(run: Run, seeds: Iterable[int], owner: type, name: str, fault: Callable) -> int:
    """Return how many of the seeds fail while a method has a fault."""
    patches = Patches()
    patches.wrap(owner, name, fault)
    try:
        return sum(_fails(run, seed) for seed in seeds)
    finally:
        patches.undo()


def _fails(run: Run, seed: int) -> bool:
    try:
        run(seed)
    except AssertionError:
        return True
    return False
