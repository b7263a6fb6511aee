"""Whether failures look like those of a known fault: one of the mutants that the suite itself is tested with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

_KILLED = Path(__file__).parents[1] / "mutants" / "killed"
_ALIKE = 0.6
"""The share of cases, of all that fail in one or the other, that has to fail in both."""
_TOGETHER = 2
"""So many cases have to fail in both: one says too little."""


def likeness(failing: Set[str]) -> str | None:
    """Return the known fault whose failing cases are most like these, in words; None if none is like them.

    Args:
        failing: Ids of the cases that fail.
    """
    scored = ((len(failing & cases) / len(failing | cases), fault) for fault, cases in _known() if len(failing & cases) >= _TOGETHER)
    share, fault = max(scored, default=(0.0, ""))
    return fault if share >= _ALIKE else None


@cache
def _known() -> tuple[tuple[str, frozenset[str]], ...]:
    return tuple(_read())


def _read() -> Iterator[tuple[str, frozenset[str]]]:
    for path in sorted(_KILLED.glob("*.json")):
        for row in json.loads(path.read_text(encoding="utf-8")).values():
            yield row["fault"], frozenset((*row["killed_by"], *(row["unrelated_failures"] or ())))
