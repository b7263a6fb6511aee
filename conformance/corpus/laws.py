"""Laws: what has to hold, and what came out.

A law has a name and a sentence; `Job.laws` lists those of a job. Most laws are about the rows of a frame: then SQL says how many things
of a row the law speaks of, and how many of them break it. `judged` counts all laws of a frame in one pass; where more is summed up in
that pass, `sums` and `outcomes` are its two halves. What is not rows is counted by the job, which gives the numbers to `Law.outcome`.

`tests/corpus/test_laws.py` names, for each law, planted faults that break it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EXAMPLES = 20
"""So many rows that break a law are kept."""


@dataclass(frozen=True)
class Law:
    """A law.

    Attributes:
        name: Its name, such as `none-lost`.
        text: The law, as a sentence.
        checked: Number of things in a row that it speaks of, or whether it speaks of the row: SQL. Empty: the job counts by itself.
        broken: How many of them break it, or whether the row does.
    """

    name: str
    text: str
    checked: str = ""
    broken: str = ""

    def outcome(self, checked: int, broken: int, examples: Sequence[Mapping[str, Any]] = ()) -> Outcome:
        """Return what came out, with the first examples; there is no other way to make an `Outcome`."""
        return Outcome(self.name, self.text, checked, broken, examples[:EXAMPLES])


@dataclass(frozen=True)
class Outcome:
    """What came out for one law.

    Attributes:
        name: The law's.
        text: The law's.
        checked: Number of rows, pairs or other things that the law is about.
        broken: How many of them break it.
        examples: Some that do, smallest first, as JSON can hold them.
    """

    name: str
    text: str
    checked: int
    broken: int
    examples: Sequence[Mapping[str, Any]] = ()

    @property
    def holds(self) -> bool:
        """Tell whether something was checked and nothing broke the law."""
        return self.checked > 0 and self.broken == 0

    @property
    def verdict(self) -> str:
        """Return `holds`, `BROKEN`, or `nothing` if the corpus has nothing that the law speaks of."""
        return "BROKEN" if self.broken else "holds" if self.checked else "nothing"

    def __add__(self, other: Outcome) -> Outcome:
        examples = (*self.examples, *other.examples)[:EXAMPLES]
        return Outcome(self.name, self.text, self.checked + other.checked, self.broken + other.broken, examples)


def judged(rows: DataFrame, laws: Sequence[Law], columns: Sequence[str]) -> list[Outcome]:
    """Count the laws of the rows of a frame, in one pass unless one is broken.

    Args:
        rows: The rows.
        laws: The laws.
        columns: What examples show of a row; they are sorted by it.
    """
    total = rows.agg(*sums(laws)).collect()[0].asDict()
    broken = [law for law in laws if total[f"broken {law.name}"]]
    examples = {law.name: breaking(rows, law).select(*columns).sort(*columns).limit(EXAMPLES).collect() for law in broken}
    return outcomes(laws, total, {name: [row.asDict(recursive=True) for row in found] for name, found in examples.items()})


def sums(laws: Sequence[Law]) -> list[Column]:
    """Return two sums for each law, by its name: `checked NAME` and `broken NAME`."""
    from pyspark.sql import functions as sql  # noqa: PLC0415

    def total(text: str, name: str) -> Column:
        return sql.sum(sql.coalesce(sql.expr(f"CAST(({text}) AS BIGINT)"), sql.lit(0))).alias(name)

    return [total(text, f"{kind} {law.name}") for law in laws for kind, text in (("checked", law.checked), ("broken", law.broken))]


def breaking(rows: DataFrame, law: Law) -> DataFrame:
    """Return the rows that break a law."""
    from pyspark.sql import functions as sql  # noqa: PLC0415

    return rows.where(sql.expr(f"CAST(({law.broken}) AS BIGINT) > 0"))


def outcomes(laws: Sequence[Law], total: Mapping[str, int | None], examples: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Outcome]:
    """Return what came out.

    Args:
        laws: The laws.
        total: The sums, by their names; of no rows there are none.
        examples: Rows that break laws, by law.
    """
    return [law.outcome(total[f"checked {law.name}"] or 0, total[f"broken {law.name}"] or 0, examples.get(law.name, ())) for law in laws]
