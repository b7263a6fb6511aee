"""Whether failures look like those of a known fault: one of the mutants that the suite itself is tested with.

Rather nothing than something wrong. That is measured by leaving out one fault at a time: its cases fail, and the hint can only name
another one. Of 537 faults, in November 2026,

    share   in both   named   of these with no clause in common with the fault that is there
    0.6     2         38      24
    0.8     3          9       4
    0.9     2         12       2
    0.9     3          5       0

`tests/report/test_known_faults.py` measures again. The price: the failing cases of a known fault have to be those that are published, which
are of its own registers. In whole runs of three that fail four or five cases, the share was 0.75 to 0.83: they are not named. To ask
for a distance to the second best fault instead removes the right hints first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

_KILLED = Path(__file__).parents[1] / "mutants" / "killed"
_ALIKE = 0.9
"""The share of cases, of all that fail in one or the other, that has to fail in both."""
_TOGETHER = 3
"""So many cases have to fail in both: one or two say too little."""


def likeness(failing: Set[str], but: str | None = None) -> str | None:
    """Return the known fault whose failing cases are most like these, in words; None if none is like them.

    Args:
        failing: Ids of the cases that fail.
        but: A fault that is left out, in words.
    """
    known = ((fault, cases) for fault, cases in _known() if fault != but and len(failing & cases) >= _TOGETHER)
    scored = ((len(failing & cases) / len(failing | cases), fault) for fault, cases in known)
    share, fault = max(scored, default=(0.0, ""))
    return fault if share >= _ALIKE else None


@cache
def _known() -> tuple[tuple[str, frozenset[str]], ...]:
    return tuple(_read())


def _read() -> Iterator[tuple[str, frozenset[str]]]:
    for path in sorted(_KILLED.glob("*.json")):
        for row in json.loads(path.read_text(encoding="utf-8")).values():
            yield row["fault"], frozenset((*row["killed_by"], *(row.get("unrelated_failures") or ())))
