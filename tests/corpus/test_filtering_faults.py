"""Each law of filters breaks when it should: faults in the reference, in SQL, in Arrow, and in the dialect."""

import dataclasses
import re
from functools import reduce

import pyarrow as pa
import pytest
from pyspark.sql import functions as sql

from conformance.corpus.filtering import arrow, reference, rows
from conformance.corpus.filtering.comparing import INSIDE, _column, _explain
from conformance.corpus.filtering.dialect import ARROW, DIVERGENCES, REFERENCE, SQL, SQL_PLAIN, for_java
from conformance.corpus.filtering.drawing import drawn_patterns, with_twins
from conformance.corpus.filtering.formulations import FORMULATIONS
from conformance.corpus.filtering.laws import AGREES, ANY_IS_SOME, CLASSES_ARE_REAL, classes_are_real
from conformance.corpus.filtering.patterns import pattern_set
from conformance.corpus.filtering.rules import (
    IsSystemTopic,
    MatchedName,
    MatchesAny,
    Matching,
    PayloadBeginsWith,
    PayloadFits,
    property_filters,
)
from conformance.corpus.jobs.filtering_agrees import PAYLOAD_REGEX
from conformance.corpus.laws import sums
from refimpl.indexes.topic_patterns import compile_pattern
from tests.samples.corpus import synthetic
from tests.samples.faults import broken, fault, planted

pytestmark = pytest.mark.usefixtures("without_compiling")
SOME = ("sql-agrees", "sql-plain-agrees")
ALL = (*SOME, "arrow-agrees")


def always(value):
    return lambda right: lambda *given, **more: value


def first_only(right):
    return lambda given, filters: right(given, dict(list(filters.items())[:1]))


def without_first(right):
    return lambda self, name: list(right(self, name))[1:]


def downwards(right):
    def matching(patterns):
        fitting = right(patterns)
        return lambda topic: fitting(topic)[::-1]

    return matching


def any_is_none(right):
    """Give another result by the rule `MatchesAny`."""

    def evaluator(rule):
        evaluate = right(rule)
        return (lambda value: not evaluate(value)) if isinstance(rule, MatchesAny) else evaluate

    return evaluator


def lists_downwards(right):
    return lambda self, topics: pa.array([places[::-1] for places in right(self, topics).to_pylist()], pa.list_(pa.int32()))


def without_last(right):
    def found(self, texts):
        numbers, places = right(self, texts)
        return numbers[:-1], places[:-1]

    return found


def any_is_first(right):
    return lambda patterns, rule: right(patterns[:1] if isinstance(rule, MatchesAny) else patterns, rule)


def joined_downwards(right):
    def joined(parts, rule):
        nothing, found = right(parts, rule)
        return nothing, found if isinstance(rule, MatchesAny) else sql.reverse(found)

    return joined


def some_condition(right):
    return lambda conditions: reduce(lambda one, other: one | other, conditions)


def without_case(right):
    return lambda *pair: tuple(name for name in right(*pair) if not name.startswith("case"))


def missing_is_empty(right):
    """Take a property that is missing for one with the empty text."""

    def have(given, filters):
        keys = [key for key, value in filters if not value]
        filled = [[*pairs, *((key, "") for key in keys if key not in dict(pairs))] for pairs in given.to_pylist()]
        return right(pa.array(filled, given.type), filters)

    return have


def last_of_equal(right):
    """File a pattern in place of an earlier one that is equal."""

    def init(self, patterns):
        right(self, {pattern.beginning: (place, pattern) for place, pattern in patterns}.values())

    return init


def replaced(right):
    def matches(self, message):
        return right(self, dataclasses.replace(message, payload=message.payload.decode(errors="replace").encode()))

    return matches


def shorter_than_all(right):
    return lambda self, message: message.payload != self.prefix and right(self, message)


NO_CLASS = dataclasses.replace(DIVERGENCES[0], name="no-class", witness=("t/n/a", "t/n/a"))
REF, OF_SQL, OF_ARROW = (f"conformance.corpus.filtering.{name}" for name in ("reference", "sql", "arrow"))
COMPARING, DIALECT, OF_LAWS = (f"conformance.corpus.filtering.{name}" for name in ("comparing", "dialect", "laws"))
KINDS = "refimpl.proposals.message_filter.kinds"
ALL_FAULTS = (
    fault("nothing is wrong", f"{REF}:matched_name", lambda right: right),
    # The reference
    fault("names keep the number of a partition", f"{REF}:matched_name", lambda right: lambda topic: topic.partition("://")[2], *ALL),
    fault("no topic is the broker's own", f"{REF}:is_system_topic", always(False), *ALL),
    fault("the index loses a pattern", "refimpl.indexes.topic_patterns:PatternIndex.matching", without_first, *ALL),
    fault("places come downwards", f"{REF}:_matching", downwards, *ALL),
    fault("one property is enough", f"{REF}:fits", first_only, *ALL),
    fault("no payload fits", f"{KINDS}:RegexFilter.matches", always(False), *ALL),
    fault("all payloads fit", f"{KINDS}:RegexFilter.matches", always(True), *ALL),
    fault("all prefixes are there", f"{KINDS}:BytesPrefixFilter.matches", always(True), *ALL),
    fault("what is no UTF-8 is replaced", f"{KINDS}:RegexFilter.matches", replaced, *ALL),
    fault("a payload that is the prefix does not begin with it", f"{KINDS}:BytesPrefixFilter.matches", shorter_than_all, *ALL),
    fault("numbers of partitions have digits of any script", "refimpl.names:_PARTITION_SUFFIX", lambda right: re.compile(right.pattern.replace("[0-9]", r"\d")), *ALL),
    fault("any is none in the reference", f"{REF}:evaluator", any_is_none, "any-is-some"),
    # SQL
    fault("SQL keeps the number of a partition", f"{OF_SQL}:without_partition", lambda right: lambda: sql.col("topic"), *SOME),
    fault("no topic is the broker's own in SQL", f"{OF_SQL}:is_system_topic", lambda right: lambda: sql.lit(False), *SOME),
    fault("SQL does not frame patterns as the dialect says", f"{OF_SQL}:for_java", lambda right: lambda text: f"^(?:{text})$", "sql-agrees"),
    fault("SQL as usual searches", f"{OF_SQL}:for_java_plain", lambda right: lambda text: text, "sql-plain-agrees"),
    fault("SQL takes payloads for ISO 8859-1", f"{OF_SQL}:payload_text", lambda right: lambda payload: sql.decode(payload, "ISO-8859-1"), *SOME),
    fault("one property is enough in SQL", f"{OF_SQL}:_all", some_condition, *SOME),
    fault("places come downwards in SQL", f"{OF_SQL}:_joined", joined_downwards, *SOME),
    fault("SQL looks for the first pattern only", f"{OF_SQL}:_by_expressions", any_is_first, "any-is-some"),
    fault("places of two kinds of patterns are not sorted in SQL", f"{OF_SQL}:F.array_sort", lambda right: lambda found: found, *SOME),
    # Arrow
    fault("a property that is missing is empty in Arrow", f"{OF_ARROW}:_have_properties", missing_is_empty, "arrow-agrees"),
    fault("of equal patterns the last one is found in Arrow", f"{OF_ARROW}:_Dictionary.__init__", last_of_equal, "arrow-agrees"),
    fault("Arrow keeps the number of a partition", f"{OF_ARROW}:without_partition", lambda right: lambda topics: topics, "arrow-agrees"),
    fault("no topic is the broker's own in Arrow", f"{OF_ARROW}:are_system_topics", lambda right: lambda topics: pa.array([False] * len(topics)), "arrow-agrees"),
    fault("a dictionary loses its last row", f"{OF_ARROW}:_Dictionary.found", without_last, "arrow-agrees"),
    fault(".* takes newlines in Arrow", f"{OF_ARROW}:_without_newline_behind", lambda right: lambda names, length, found, places, _: (found, places), "arrow-agrees"),
    fault("Arrow forgets the end of a pattern", f"{OF_ARROW}:in_frame", lambda right: lambda text: rf"\A(?:{text})", "arrow-agrees"),
    fault("Arrow takes payloads for ISO 8859-1", f"{OF_ARROW}:payload_text", lambda right: lambda payload: payload.decode("latin-1"), "arrow-agrees"),
    fault("one property is enough in Arrow", f"{OF_ARROW}:_have_properties", lambda right: lambda given, filters: right(given, filters[:1]), "arrow-agrees"),
    fault("places come downwards in Arrow", f"{OF_ARROW}:_Matching.lists", lists_downwards, "arrow-agrees"),
    fault("any is nothing at all in Arrow", f"{OF_ARROW}:_Matching.any", lambda right: lambda self, topics: pa.nulls(len(topics), pa.bool_()), "any-is-some"),
    fault("any is all in Arrow", f"{OF_ARROW}:_Matching.any", lambda right: lambda self, topics: pa.array([True] * len(topics)), "any-is-some"),
    # The dialect
    fault("patterns have no end in Java", f"{DIALECT}:in_frame", lambda right: lambda text: rf"\A(?:{text})", "sql-agrees", "classes-are-real"),
    fault("SQL as usual is asked with the right frame", f"{COMPARING}:for_java_plain", lambda right: for_java, "classes-are-real"),
    fault("the reference searches", f"{OF_LAWS}:reference_fits", lambda right: lambda text, name: compile_pattern(f"(?s).*(?:{text}).*").matches(name), "classes-are-real"),
    fault("a class is missing", f"{COMPARING}:classes_of", without_case, *SOME),
    fault("a class too many", f"{OF_LAWS}:DIVERGENCES", lambda right: (*right, NO_CLASS), "classes-are-real"),
    fault("a class that is said to be Arrow's, too", f"{OF_LAWS}:DIVERGENCES", lambda right: (dataclasses.replace(right[0], formulations=right[0].formulations | {ARROW}), *right[1:]), "classes-are-real"),
)  # fmt: skip
"""Faults of the reference, of one formulation alone, and of what is said of them."""


@pytest.fixture(scope="module")
def topics(spark):
    """Topics with payloads."""
    return rows.with_payload(spark.createDataFrame(pa.Table.from_batches([synthetic(800, mix="adversarial")]))).localCheckpoint()


@pytest.fixture(scope="module")
def rules(topics):
    drawn = with_twins(drawn_patterns(rows.names_to_draw_from(topics), 30, 1, outside=False))
    patterns = pattern_set([*drawn, "(?i).*k.*", ".*", "tenant-[0-9]/.*", "tenant-0/ns-0/.*"])
    return [
        MatchedName(),
        IsSystemTopic(),
        Matching(patterns),
        property_filters(["region=eu-west", "tier="]),
        PayloadFits(PAYLOAD_REGEX.removesuffix("*") + "{0,12}"),
        PayloadBeginsWith(b"persistent://tenant-1"),
        MatchesAny(patterns),
    ]


def by_sql(topics, rules):
    """Return the columns of both formulations in SQL, by formulation and rule; patterns of a namespace are in a table."""
    frame = topics
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{OF_SQL}.EXPRESSIONS", 20)
        for name in (SQL, SQL_PLAIN):
            for rule in rules:
                frame = FORMULATIONS[name](frame, rule, f"{name} {rule.name}")
    found = frame.select("id", *(f"`{name} {rule.name}`" for name in (SQL, SQL_PLAIN) for rule in rules)).toArrow().sort_by("id")
    return {(name, rule): found[f"{name} {rule.name}"] for name in (SQL, SQL_PLAIN) for rule in rules}


def in_driver(batch, rules):
    """Return the columns of the reference and of Arrow, made without Spark, so that what is planted here is in force."""
    makers = {REFERENCE: reference.column, ARROW: arrow.column}
    return {(name, rule): pa.chunked_array([make(rule)(batch)]) for name, make in makers.items() for rule in rules}


def laws_of_agreement(batch, rules, columns):
    """Return the laws of agreement that are broken."""
    others = [SQL, ARROW, SQL_PLAIN]
    noticed = set()
    for rule in rules[:-1]:
        compared = pa.table({"id": batch["id"], rule.inputs[0]: batch[rule.inputs[0]]})
        for name in (REFERENCE, *others):
            compared = compared.append_column(_column(name), columns[name, rule])
        found = pa.Table.from_batches(_explain(rule, others, compared.combine_chunks().to_batches())).to_pylist()
        noticed |= {AGREES[one["formulation"]].name for one in found if one["class"] == INSIDE}
    return noticed


def test_each_fault_breaks_just_the_laws_that_speak_of_it(spark, topics, rules):
    batch = topics.sort("id").toArrow().combine_chunks().to_batches()[0]
    right = by_sql(topics, rules)
    found, any_of = {}, []
    for one in ALL_FAULTS:
        with planted(one):
            of_sql = by_sql(topics, rules) if one.place.startswith((OF_SQL, DIALECT)) else right
            columns = {**of_sql, **in_driver(batch, rules)}
            found[one.name] = laws_of_agreement(batch, rules, columns)
            if not classes_are_real(spark, [SQL, ARROW, SQL_PLAIN]).holds:
                found[one.name].add(CLASSES_ARE_REAL.name)
        for name in FORMULATIONS:
            each, fits_any = columns[name, rules[2]], columns[name, rules[-1]]
            any_of.append(pa.table({"fault": pa.array([one.name] * len(each)), "fitting": each, "fits_any": fits_any}))
    totals = spark.createDataFrame(pa.concat_tables(any_of).combine_chunks()).groupBy("fault").agg(*sums([ANY_IS_SOME])).collect()
    for row in totals:
        found[row["fault"]] |= broken(row.asDict())
    assert {one.name: found[one.name] for one in ALL_FAULTS if found[one.name] != one.laws} == {}
