"""The laws of filters: formulations agree with the reference in the common dialect, and the dialect is what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import reduce
from operator import add
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from conformance.corpus.filtering.comparing import INSIDE, Comparison, Disagreements, matcher, reference_fits
from conformance.corpus.filtering.dialect import DIVERGENCES, REFERENCE
from conformance.corpus.filtering.formulations import FORMULATIONS
from conformance.corpus.filtering.patterns import PatternSet
from conformance.corpus.filtering.rules import MatchesAny, Matching
from conformance.corpus.laws import Law, Outcome, judged

AGREES: Mapping[str, Law] = {
    name: Law(f"{name}-agrees", f"In the dialect {name} gives what the reference gives: by each rule, on each row, for each pattern.")
    for name in FORMULATIONS
    if name != REFERENCE
}
"""By formulation. They are about comparisons, which have counted already."""
ANY_IS_SOME = Law(
    "any-is-some",
    "A topic fits any pattern if and only if there is one that it fits, in each formulation.",
    "true",
    "NOT (size(fitting) > 0) <=> fits_any",
)
CLASSES_ARE_REAL = Law(
    "classes-are-real",
    "The witness of each class outside of the dialect is answered otherwise by the formulations that it names, and by no others.",
)
LAWS = (*AGREES.values(), ANY_IS_SOME, CLASSES_ARE_REAL)


def agreement(formulation: str, comparisons: Mapping[str, Comparison]) -> Outcome:
    """Judge whether a formulation agrees with the reference, from what was compared by each rule."""
    found = [one for comparison in comparisons.values() for one in comparison.found if one.formulation == formulation]
    broken = sorted((one for one in found if one.class_name == INSIDE), key=lambda one: sum(map(len, one.shrunk)))
    checked = sum(comparison.inside(formulation) for comparison in comparisons.values())
    return AGREES[formulation].outcome(checked, sum(one.count for one in broken), [shown(one) for one in broken])


def shown(one: Disagreements) -> dict[str, Any]:
    """Return disagreements as JSON can hold them."""
    return {**asdict(one), "shrunk": list(one.shrunk)}


def any_is_some(topics: DataFrame, patterns: PatternSet, formulations: Sequence[str]) -> Outcome:
    """Compare the result of matching any pattern with the results of matching each."""

    def of(name: str) -> Outcome:
        formulation = FORMULATIONS[name]
        both = formulation(formulation(topics.select("id", "topic"), Matching(patterns), "fitting"), MatchesAny(patterns), "fits_any")
        (outcome,) = judged(both.withColumn("formulation", F.lit(name)), [ANY_IS_SOME], ("formulation", "id", "topic", "fitting"))
        return outcome

    return reduce(add, map(of, formulations))


def classes_are_real(spark: SparkSession, formulations: Sequence[str]) -> Outcome:
    """Try the witness of each class: the formulations that it names differ from the reference, and the others do not."""
    java = int(spark.sql("SELECT reflect('java.lang.System', 'getProperty', 'java.specification.version')").collect()[0][0])
    examples = []
    for one in DIVERGENCES:
        agrees_by_now = one.agrees_from_java is not None and java >= one.agrees_from_java
        for name in formulations:
            parts = matcher(spark, name)(*one.witness) is not reference_fits(*one.witness)
            if parts is not (name in one.formulations and not agrees_by_now):
                examples.append({"class": one.name, "formulation": name, "witness": list(one.witness), "parts": parts, "java": java})
    return CLASSES_ARE_REAL.outcome(len(DIVERGENCES) * len(formulations), len(examples), examples)
