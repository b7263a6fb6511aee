"""Planted faults: code of the reference or of a formulation that is wrong in one respect, or columns of a formulation, and the laws that have
to notice.

Decide which laws these are from what the laws say, before you run it: a fault that breaks others shows that a law, or what we think of it,
is wrong.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql


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


@dataclass(frozen=True)
class WrongFields:
    """A fault in what one formulation gives.

    Attributes:
        name: What is wrong.
        fields: Fields of its column, as SQL.
        laws: Exactly the laws that it breaks.
    """

    name: str
    fields: Mapping[str, str]
    laws: frozenset[str]


def wrong_fields(name: str, fields: Mapping[str, str], *laws: str) -> WrongFields:
    return WrongFields(name, fields, frozenset(laws))


def with_wrong_fields(rows: DataFrame, column: str, faults: Sequence[WrongFields]) -> DataFrame:
    """Return the rows once for each fault, with its name as their topic."""
    kinds = rows.schema[column].dataType

    def wrong(one: WrongFields) -> DataFrame:
        changed = sql.col(column)
        for field, text in one.fields.items():
            changed = changed.withField(field, sql.expr(text).cast(kinds[field].dataType))  # type: ignore[index]
        return rows.withColumn("topic", sql.lit(one.name)).withColumn(column, changed)

    return reduce(DataFrame.unionByName, map(wrong, faults))


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


def came_and_gone(right: Callable[..., None]) -> Callable[..., None]:
    """Forget that a topic has left if it came in the same window."""

    def remove(self: Any, topic: str) -> None:
        came = topic in self._added
        right(self, topic)
        if came:
            self._removed.pop(topic, None)

    return remove


def alike_if_joined(right: Callable[..., Any]) -> Callable[..., Any]:
    """Take extracted sets for the same if their values are when they are joined."""

    def joined(extracted: Any) -> str:
        return ",".join(value for _, value in extracted)

    def against(self: Any, extracted: Any, size: int, kind: Any) -> Any:
        return right(self, self._extracted if joined(extracted) == joined(self._extracted) else extracted, size, kind)

    return against


def never_full(right: Callable[..., Any]) -> Callable[..., Any]:
    """Let no message join a batch that fills it just so."""
    return lambda self, extracted, size, kind: right(self, extracted, size + 1, kind)
