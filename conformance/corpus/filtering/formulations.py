"""The formulations by name: each adds the column of a rule to a frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from conformance.corpus.errors import CorpusError
from conformance.corpus.filtering import arrow, reference, sql
from conformance.corpus.filtering.dialect import ARROW, REFERENCE, SQL, SQL_PLAIN
from conformance.corpus.filtering.rules import Rule

Formulation = Callable[[DataFrame, Rule, str], DataFrame]
"""Adds a column, whose name is the last argument, with what a rule gives for each row."""

_COLUMNS: Mapping[str, Callable[[Rule], Callable[[pa.RecordBatch], pa.Array]]] = MappingProxyType(
    {REFERENCE: reference.column, ARROW: arrow.column}
)


@lru_cache(8)
def _column(formulation: str, rule: Rule) -> Callable[[pa.RecordBatch], pa.Array]:
    """Return the function of a rule, made once in each worker."""
    return _COLUMNS[formulation](rule)


def _in_batches(formulation: str, frame: DataFrame, rule: Rule, column: str) -> DataFrame:
    def add(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        evaluate = _column(formulation, rule)
        for batch in batches:
            yield pa.RecordBatch.from_arrays([*batch.columns, evaluate(batch)], names=[*batch.schema.names, column])

    _column(formulation, rule)  # errors in the rule are raised here, before anything is started
    added = StructField(column, from_arrow_type(rule.type))
    return frame.mapInArrow(add, StructType([*frame.schema.fields, added]))


FORMULATIONS: Mapping[str, Formulation] = MappingProxyType(
    {
        REFERENCE: partial(_in_batches, REFERENCE),
        SQL: sql.with_column,
        ARROW: partial(_in_batches, ARROW),
        SQL_PLAIN: partial(sql.with_column, plain=True),
    }
)
"""All formulations: the reference; SQL and Arrow, which have to agree with it; and SQL as it is often written, which need not."""


def formulations_of(text: str) -> Sequence[str]:
    """Return the formulations that a command line names, the reference first.

    Args:
        text: Names, with commas between them.

    Raises:
        CorpusError: There is no such formulation, or only the reference is named.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in FORMULATIONS:
            raise CorpusError(f"there is no formulation {name!r}; known: {', '.join(FORMULATIONS)}")
    others = [name for name in dict.fromkeys(names) if name != REFERENCE]
    if not others:
        raise CorpusError(f"name a formulation besides the reference: {', '.join(name for name in FORMULATIONS if name != REFERENCE)}")
    return [REFERENCE, *others]
