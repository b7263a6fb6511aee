"""Compares formulations with the reference: disagreements are counted by class, and the smallest of each is shrunk.

A disagreement outside of the common dialect belongs to its classes there. One inside of it has the class `INSIDE`, and breaks the law.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from conformance.corpus.filtering import arrow, reference
from conformance.corpus.filtering.dialect import (
    ARROW,
    LOOKS,
    REFERENCE,
    SQL,
    SQL_PLAIN,
    classes_of,
    features_of,
    for_java,
    for_java_plain,
    in_frame,
    pairs_outside,
)
from conformance.corpus.filtering.formulations import FORMULATIONS
from conformance.corpus.filtering.rules import IsSystemTopic, MatchedName, MatchesAny, Matching, PayloadFits, Rule
from conformance.corpus.filtering.shrinking import shrink
from refimpl.indexes.topic_patterns import compile_pattern

INSIDE = "inside-the-dialect"
"""The class of disagreements that there must not be."""
MISSING, TOO_MUCH, OTHER = "missing", "too-much", "other"
"""What a formulation gives in comparison with the reference: less, more, or another text or list."""
_matched_name = reference.evaluator(MatchedName())
_FOUND = "formulation STRING, class STRING, direction STRING, pattern STRING, subject STRING, id LONG"
_ARROW_FOUND = pa.schema(
    [(name, pa.string()) for name in ("formulation", "class", "direction", "pattern", "subject")] + [("id", pa.int64())]
)


@dataclass(frozen=True)
class Disagreements:
    """Disagreements of one class.

    Attributes:
        formulation: The one that differs from the reference.
        rule: On which rule.
        class_name: A class of the dialect, or `INSIDE`.
        direction: `MISSING`, `TOO_MUCH` or `OTHER`.
        count: Pairs of pattern and row, or rows.
        row: `id` of the example.
        pattern: Of the example, the shortest; None: the rule has none.
        subject: The name, topic or payload of the example.
        shrunk: Pattern and subject, or subject alone, as small as possible.
    """

    formulation: str
    rule: str
    class_name: str
    direction: str
    count: int
    row: int
    pattern: str | None
    subject: str
    shrunk: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """The result for one rule.

    Attributes:
        rows: Rows that were compared.
        pairs: Pairs of pattern and row; for a rule without patterns, rows.
        outside: Pairs outside of the common dialect, by formulation and class; `all`: those of at least one class.
        found: Disagreements.
    """

    rows: int
    pairs: int
    outside: Mapping[str, Mapping[str, int]]
    found: Sequence[Disagreements]

    def inside(self, formulation: str) -> int:
        """Return how many pairs are in the dialect."""
        return self.pairs - self.outside.get(formulation, {}).get("all", 0)


def compare(frame: DataFrame, rule: Rule, formulations: Sequence[str]) -> Comparison:
    """Compare formulations with the reference, on each row.

    Args:
        frame: With a column `id` and those that the rule reads.
        rule: Any.
        formulations: Names, the reference first.
    """
    frame = frame.select("id", *rule.inputs)
    with_all = frame
    for name in formulations:
        with_all = FORMULATIONS[name](with_all, rule, _column(name))
    others = [name for name in formulations if name != REFERENCE]
    differs = [~F.col(_column(REFERENCE)).eqNullSafe(F.col(_column(name))) for name in others]
    explained = with_all.where(reduce(or_, differs)).mapInArrow(partial(_explain, rule, others), _FOUND)
    size = F.length("pattern") + F.length("subject")
    order = F.struct(F.coalesce(size, F.length("subject")), "pattern", "subject", "id")
    example = F.min_by(F.struct("id", "pattern", "subject"), order).alias("example")
    groups = explained.groupBy("formulation", "class", "direction").agg(F.count("*").alias("count"), example).collect()
    rows, pairs, outside = _pairs(frame, rule, others)
    found = [_shrunk(frame.sparkSession, rule, group.asDict(recursive=True)) for group in groups]
    return Comparison(rows, pairs, outside, sorted(found, key=lambda one: (one.formulation, one.class_name, one.direction)))


def _column(formulation: str) -> str:
    return "_" + formulation.replace("-", "_")


def _pairs(frame: DataFrame, rule: Rule, others: Sequence[str]) -> tuple[int, int, dict[str, dict[str, int]]]:
    """Count the rows, and the pairs in and outside of the dialect, by the looks of the subjects."""
    if not isinstance(rule, Matching | PayloadFits):
        rows = frame.count()
        return rows, rows, {}
    looks = list(LOOKS)

    def masks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            subjects = _subjects(rule, batch)
            found = [pc.match_substring_regex(subjects, pattern=LOOKS[look]) for look in looks]
            yield pa.RecordBatch.from_arrays([pa.StructArray.from_arrays(found, looks, mask=subjects.is_null())], names=["looks"])

    schema = f"looks STRUCT<{', '.join(f'`{look}`: BOOLEAN' for look in looks)}>"
    counted = {row["looks"]: int(row["count"]) for row in frame.mapInArrow(masks, schema).groupBy("looks").count().collect()}
    rows = sum(counted.values())
    counted.pop(None, None)  # system topics
    look_counts = {frozenset(look for look in looks if found[look]): count for found, count in counted.items()}
    subjects = sum(look_counts.values())
    patterns = rule.patterns if isinstance(rule, Matching) else None
    features = patterns.feature_counts if patterns is not None else _features(rule)
    outside = {name: pairs_outside(features, look_counts, name) for name in others}
    return rows, subjects * (len(patterns) if patterns is not None else 1), outside


def _features(rule: Rule) -> Sequence[tuple[frozenset[str], int]]:
    return [(features_of(rule.pattern), 1)] if isinstance(rule, PayloadFits) else []


def _subjects(rule: Rule, batch: pa.RecordBatch) -> pa.Array:
    """Return what patterns are compared with; null for system topics."""
    if isinstance(rule, PayloadFits):
        return pa.array([arrow.payload_text(payload or b"") for payload in batch.column("payload").to_pylist()], pa.string())
    topics = batch.column("topic")
    return pc.if_else(arrow.are_system_topics(topics), None, arrow.matched_names(topics))


def _explain(rule: Rule, others: Sequence[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn rows on which formulations differ into disagreements, each with its class."""
    for batch in batches:
        found = [
            {"formulation": name, "id": row["id"], **disagreement}
            for row in batch.to_pylist()
            for name in others
            if row[_column(name)] != row[_column(REFERENCE)]
            for disagreement in _explained(rule, row[rule.inputs[0]], name, row[_column(REFERENCE)], row[_column(name)])
        ]
        yield pa.RecordBatch.from_pylist(found, schema=_ARROW_FOUND)


def _explained(rule: Rule, value: Any, formulation: str, expected: Any, found: Any) -> Iterator[dict[str, str | None]]:
    match rule:
        case Matching(patterns):
            subject = _matched_name(value)
            differing = {*expected} ^ {*(found or ())}
            for place in sorted(differing):
                direction = MISSING if place in expected else TOO_MUCH
                yield from _by_class(patterns.patterns[place].text, subject, formulation, direction)
            if not differing:  # but for the order, or for what is there twice
                yield {"class": INSIDE, "direction": OTHER, "pattern": None, "subject": subject}
        case MatchesAny(patterns):
            subject = _matched_name(value)
            texts = [pattern.text for pattern in patterns.patterns]
            doubtful = [text for text in texts if classes_of(text, subject, formulation)]
            yield from _by_class((doubtful or texts)[0], subject, formulation, MISSING if expected else TOO_MUCH)
        case PayloadFits(pattern):
            yield from _by_class(pattern, arrow.payload_text(value or b""), formulation, MISSING if expected else TOO_MUCH)
        case _:
            direction = OTHER if isinstance(expected, str) else MISSING if expected else TOO_MUCH
            yield {"class": INSIDE, "direction": direction, "pattern": None, "subject": value if isinstance(value, str) else repr(value)}


def _by_class(pattern: str, subject: str, formulation: str, direction: str) -> Iterator[dict[str, str | None]]:
    for name in _classes(pattern, subject, formulation):
        yield {"class": name, "direction": direction, "pattern": pattern, "subject": subject}


def matcher(spark: SparkSession, formulation: str) -> Callable[[str, str], bool | None]:
    """Return a function that says whether a pattern matches a whole subject; None: the pattern is refused."""
    if formulation == REFERENCE:
        return reference_fits
    if formulation == ARROW:
        return _arrow_fits
    framed = {SQL: for_java, SQL_PLAIN: for_java_plain}[formulation]
    jvm: Any = spark._jvm  # the same engine as rlike, without a query for each question

    def java_fits(pattern: str, subject: str) -> bool | None:
        try:
            return bool(jvm.java.util.regex.Pattern.compile(framed(pattern)).matcher(subject).find())
        except IllegalArgumentException:
            return None

    return java_fits


def reference_fits(pattern: str, subject: str) -> bool | None:
    """Tell whether a pattern matches a whole subject, by the reference; None: it refuses the pattern."""
    try:
        return compile_pattern(pattern).matches(subject)
    except ValueError:
        return None


def _arrow_fits(pattern: str, subject: str) -> bool | None:
    try:
        return bool(pc.match_substring_regex(pa.array([subject]), pattern=in_frame(pattern))[0].as_py())
    except pa.ArrowInvalid:
        return None


def _shrunk(spark: SparkSession, rule: Rule, group: Mapping[str, Any]) -> Disagreements:
    example, formulation = group["example"], group["formulation"]
    parts = (example["subject"],) if example["pattern"] is None else (example["pattern"], example["subject"])
    holds = _stays(spark, rule, formulation, parts, group["class"], group["direction"])
    small = shrink(parts, holds) if holds is not None and holds(parts) else parts
    return Disagreements(
        formulation,
        rule.name,
        group["class"],
        group["direction"],
        group["count"],
        example["id"],
        example["pattern"],
        example["subject"],
        small,
    )


def _stays(
    spark: SparkSession, rule: Rule, formulation: str, example: tuple[str, ...], class_name: str, direction: str
) -> Callable[[tuple[str, ...]], bool] | None:
    """Return a function that says whether a smaller example has the same class and direction, and no further class.

    None where that can't be decided here.
    """
    if isinstance(rule, Matching | MatchesAny | PayloadFits) and len(example) > 1:
        fits = matcher(spark, formulation)
        classes = set(_classes(example[0], example[1], formulation))

        def stays(parts: tuple[str, ...]) -> bool:
            pattern, subject = parts
            expected = reference_fits(pattern, subject)
            if expected is not (direction == MISSING) or bool(fits(pattern, subject)) is expected:
                return False
            return class_name in (found := _classes(pattern, subject, formulation)) and classes.issuperset(found)

        return stays
    if isinstance(rule, MatchedName | IsSystemTopic) and formulation == ARROW:
        evaluate, column = reference.evaluator(rule), arrow.column(rule)
        return lambda parts: column(pa.RecordBatch.from_pydict({"topic": [parts[0]]}))[0].as_py() != evaluate(parts[0])
    return None


def _classes(pattern: str, subject: str, formulation: str) -> tuple[str, ...]:
    return classes_of(pattern, subject, formulation) or (INSIDE,)
