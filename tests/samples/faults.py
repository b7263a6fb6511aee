"""Planted faults: code of the reference or of a formulation that is wrong in one respect, and the laws that have to notice."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
        name: What is wrong.
        place: The function that is replaced: module, colon, name.
        wrong: From the right function to the wrong one.
        laws: Exactly the laws that it breaks.
    """

    name: str
    place: str
    wrong: Callable[[Any], Any]
    laws: frozenset[str]


def fault(name: str, place: str, wrong: Callable[[Any], Any], *laws: str) -> Fault:
    return Fault(name, place, wrong, frozenset(laws))


@contextmanager
def planted(one: Fault) -> Iterator[None]:
    """Put the fault in place for the length of a block."""
    module, _, path = one.place.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, one.wrong(getattr(owner, name)))
        yield


def broken(row: Mapping[str, Any]) -> set[str]:
    """Return the laws that a row of sums says are broken."""
    return {name.removeprefix("broken ") for name, count in row.items() if name.startswith("broken ") and count}
