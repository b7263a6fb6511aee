r"""The rules as Spark SQL expressions.

A pattern becomes `rlike(name, '(?d)\A(?:PATTERN)\z')`; with `plain`, what is often written instead, `rlike(name, '^(?:PATTERN)$')`. Up to
`EXPRESSIONS` patterns are expressions of their own, which Java compiles once. Of more, those that begin with a namespace are rows of a
broadcast table, filed under it, and are filtered by a higher-order function, which compiles those whose beginning fits for each row.

Where the patterns have few beginnings, topics are compared with these first. A pattern that Java refuses fits nothing here; `refused`
tells which these are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from conformance.corpus.filtering.dialect import REFUSABLE, features_of, for_java, for_java_plain
from conformance.corpus.filtering.patterns import Pattern, PatternSet
from conformance.corpus.filtering.rules import (
    DOMAINS,
    PARTITION_SUFFIX,
    HasProperties,
    IsSystemTopic,
    MatchedName,
    MatchesAny,
    Matching,
    PayloadBeginsWith,
    PayloadFits,
    Rule,
)
from conformance.corpus.session import frame_of
from refimpl.names import SYSTEM_ENDING, SYSTEM_LOCAL_NAMES, SYSTEM_PREFIXES

LONGEST_NAME = 1 << 24
"""No name has so many characters."""
EXPRESSIONS = 200
"""So many patterns are expressions of their own."""
_TABLE = pa.schema(
    {"_beginning": pa.string(), "_patterns": pa.list_(pa.struct({"place": pa.int32(), "begins": pa.string(), "regex": pa.string()}))}
)


def with_column(frame: DataFrame, rule: Rule, column: str, *, plain: bool = False) -> DataFrame:
    """Add the column of a rule.

    Args:
        frame: With the columns that the rule reads.
        rule: Any.
        column: What the new column is called.
        plain: Write patterns in the usual way instead of that of the common dialect.
    """
    match rule:
        case Matching(patterns) | MatchesAny(patterns):
            return _with_matching(frame, rule, patterns, column, plain)
        case PayloadFits(pattern) if refused(frame.sparkSession, [pattern], plain=plain):
            return frame.withColumn(column, F.lit(False))
    return frame.withColumn(column, expression(rule, plain=plain))


def expression(rule: Rule, *, plain: bool = False) -> Column:
    """Return a rule as one expression; sets of patterns are none, and need `with_column`."""
    match rule:
        case MatchedName():
            return matched_name()
        case IsSystemTopic():
            return is_system_topic()
        case HasProperties(filters):
            return _all(F.coalesce(F.col("properties")[key] == value, F.lit(False)) for key, value in filters)
        case PayloadFits(pattern):
            return payload_text(F.col("payload")).rlike(regex_of(pattern, plain=plain))
        case PayloadBeginsWith(prefix):
            return F.coalesce(F.col("payload"), F.lit(b"")).startswith(F.lit(prefix))
    raise TypeError(rule)


def without_partition() -> Column:
    """Return the name of the partitioned topic that a partition belongs to; any other name unchanged."""
    topic = F.col("topic")
    return F.when(topic.contains("-partition-"), F.regexp_replace(topic, PARTITION_SUFFIX, "")).otherwise(topic)


def matched_name() -> Column:
    """Return what patterns are compared with."""
    name = without_partition()
    place = F.instr(name, "://")
    return F.when(place > 0, name.substr(place + 3, F.lit(LONGEST_NAME))).otherwise("")


def is_system_topic() -> Column:
    """Tell whether a topic is one of the broker's own."""
    name = without_partition()
    local = F.substring_index(name, "/", -1)
    begins = [name.startswith(prefix) for prefix in SYSTEM_PREFIXES]
    return local.isin(*SYSTEM_LOCAL_NAMES) | begins[0] | begins[1] | name.endswith(SYSTEM_ENDING)


def payload_text(payload: Column) -> Column:
    """Return a payload as the text that a regular expression is compared with."""
    payload = F.coalesce(payload, F.lit(b""))
    return F.when(F.is_valid_utf8(payload.cast("string")), payload.cast("string")).otherwise(F.decode(payload, "ISO-8859-1"))


def refused(spark: SparkSession, patterns: Sequence[str], *, plain: bool = False) -> list[str]:
    """Return the patterns that Java refuses; only those outside of the common dialect are asked about."""
    doubtful = [pattern for pattern in dict.fromkeys(patterns) if features_of(pattern) & REFUSABLE]
    return [pattern for pattern in doubtful if not _is_taken(spark, regex_of(pattern, plain=plain))]


def _is_taken(spark: SparkSession, regex: str) -> bool:
    try:
        spark.sql("SELECT rlike('', :regex)", args={"regex": regex}).collect()
    except PySparkException:
        return False
    return True


def regex_of(pattern: str, *, plain: bool = False) -> str:
    """Return what Java searches for."""
    return for_java_plain(pattern) if plain else for_java(pattern)


def _all(conditions: Iterable[Column]) -> Column:
    wanted = F.lit(True)
    for condition in conditions:
        wanted = wanted & condition
    return wanted


def _with_matching(frame: DataFrame, rule: Rule, patterns: PatternSet, column: str, plain: bool) -> DataFrame:
    no_use = set(refused(frame.sparkSession, [pattern.text for pattern in patterns.patterns], plain=plain))
    usable = [
        _Searched(place, one, regex_of(one.text, plain=plain)) for place, one in enumerate(patterns.patterns) if one.text not in no_use
    ]
    anywhere = [one for one in usable if one.pattern.namespace is None]
    named = frame.withColumn("_name", matched_name()).withColumn("_system", is_system_topic())
    if len(usable) <= EXPRESSIONS:
        parts = [_by_expressions(usable, rule)]
    elif len(anywhere) <= EXPRESSIONS:
        named, of_namespace = _by_table(named, [one for one in usable if one.pattern.namespace is not None], rule)
        parts = [of_namespace, _by_expressions(anywhere, rule)]
    else:
        named, of_namespace = _by_table(named, [one for one in usable if one.pattern.namespace is not None], rule)
        named, of_all = _by_one_row(named, anywhere, rule)
        parts = [of_namespace, of_all]
    nothing, found = _joined(parts, rule)
    found = found & ~F.col("_system") if isinstance(rule, MatchesAny) else F.when(F.col("_system"), nothing).otherwise(found)
    if patterns.beginnings:
        found = F.when(_begins_with(patterns.beginnings), found).otherwise(nothing)
    return named.withColumn(column, found).select(*frame.columns, column)


def _begins_with(beginnings: Iterable[str]) -> Column:
    """Tell whether the name of a topic begins with one of some texts; in no known domain it may."""
    topic = F.col("topic")
    domains = reduce(or_, [topic.startswith(domain) for domain in DOMAINS])
    return ~domains | reduce(or_, [topic.startswith(domain + beginning) for domain in DOMAINS for beginning in beginnings])


@dataclass(frozen=True)
class _Searched:
    """A pattern, its place, and what is searched for."""

    place: int
    pattern: Pattern
    regex: str

    @property
    def row(self) -> dict[str, object]:
        return {"place": self.place, "begins": self.pattern.beginning, "regex": self.regex}


def _joined(parts: Sequence[Column], rule: Rule) -> tuple[Column, Column]:
    """Return the result for a topic that matches nothing, and the combination of the parts."""
    if isinstance(rule, MatchesAny):
        return F.lit(False), reduce(or_, parts)
    return F.array().cast("array<int>"), F.array_sort(F.concat(*parts)) if len(parts) > 1 else parts[0]


def _by_expressions(patterns: Sequence[_Searched], rule: Rule) -> Column:
    fitting = [F.col("_name").rlike(one.regex) for one in patterns]
    if isinstance(rule, MatchesAny):
        return reduce(or_, fitting, F.lit(False))
    places = [F.when(fits, F.lit(one.place)) for fits, one in zip(fitting, patterns, strict=True)]
    return F.array_compact(F.array(*places)) if places else F.array().cast("array<int>")


def _by_table(named: DataFrame, patterns: Sequence[_Searched], rule: Rule) -> tuple[DataFrame, Column]:
    filed: dict[str, list[dict[str, object]]] = defaultdict(list)
    for one in patterns:
        filed[f"{one.pattern.namespace}/"].append(one.row)
    rows = pa.table({"_beginning": list(filed), "_patterns": list(filed.values())}, schema=_TABLE)
    table = F.broadcast(frame_of(named.sparkSession, rows))
    key = F.concat(F.substring_index("_name", "/", 2), F.lit("/"))
    joined = named.join(table, key == F.col("_beginning"), "left")
    return joined, _by_filter(F.coalesce("_patterns", F.array().cast(joined.schema["_patterns"].dataType)), rule)


def _by_one_row(named: DataFrame, patterns: Sequence[_Searched], rule: Rule) -> tuple[DataFrame, Column]:
    row = pa.table({"_beginning": [""], "_patterns": [[one.row for one in patterns]]}, schema=_TABLE)
    table = frame_of(named.sparkSession, row).select(F.col("_patterns").alias("_anywhere"))
    return named.crossJoin(F.broadcast(table)), _by_filter(F.col("_anywhere"), rule)


def _by_filter(patterns: Column, rule: Rule) -> Column:
    def fits(pattern: Column) -> Column:
        return F.col("_name").startswith(pattern["begins"]) & F.rlike("_name", pattern["regex"])

    if isinstance(rule, MatchesAny):
        return F.exists(patterns, fits)
    return F.transform(F.filter(patterns, fits), lambda pattern: pattern["place"])
