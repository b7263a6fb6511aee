"""All formulations on Spark: they agree in the dialect, part where it says so, and a wrong one is found."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from conformance.corpus.errors import CorpusError
from conformance.corpus.filtering import comparing, rows, sql
from conformance.corpus.filtering.comparing import INSIDE, MISSING, OTHER, TOO_MUCH, compare, matcher, reference_fits
from conformance.corpus.filtering.dialect import ARROW, DIVERGENCES, REFERENCE, SQL, SQL_PLAIN
from conformance.corpus.filtering.drawing import drawn_patterns
from conformance.corpus.filtering.formulations import FORMULATIONS, formulations_of
from conformance.corpus.filtering.patterns import BEGINNINGS, pattern_set
from conformance.corpus.filtering.rules import (
    IsSystemTopic,
    MatchedName,
    MatchesAny,
    Matching,
    PayloadBeginsWith,
    PayloadFits,
    Rule,
    property_filters,
)
from conformance.corpus.job import BROKEN, NOT_RUN
from conformance.corpus.jobs.filtering_agrees import JOB
from tests.samples.corpus import run_job

SEPARATORS = set("\n\r\u0085\u2028\u2029")
ALL = [REFERENCE, SQL, ARROW, SQL_PLAIN]


@pytest.fixture(scope="module")
def messages(spark: SparkSession) -> DataFrame:
    reader = spark.read.format("synthetic_topics").option("rows", 4000).option("mix", "adversarial").option("partitions", 2)
    return rows.with_payload(reader.load()).cache()


@pytest.fixture(scope="module")
def names(messages: DataFrame) -> list[str]:
    return rows.names_to_draw_from(messages)


@pytest.mark.parametrize(
    "rule",
    [
        MatchedName(),
        IsSystemTopic(),
        property_filters(["region=eu-west", "tier=gold"]),
        property_filters([]),
        PayloadBeginsWith(b"\xff\x00\xc3persistent"),
        PayloadFits(r".*\d"),
        PayloadFits(r"(?s)ÿ.*"),
    ],
)
def test_rules_agree_on_each_row(messages: DataFrame, rule: Rule) -> None:
    comparison = compare(messages, rule, ALL)
    assert comparison.rows == comparison.pairs == 4000
    assert {(one.formulation, one.class_name) for one in comparison.found} <= {(SQL_PLAIN, "line-separator"), (SQL_PLAIN, "end-of-subject")}
    assert comparison.inside(SQL) == 4000


@pytest.mark.parametrize("expressions", [200, 20, 0], ids=["expressions", "table-and-expressions", "tables"])
def test_patterns_agree_in_the_dialect(messages: DataFrame, names: list[str], monkeypatch: pytest.MonkeyPatch, expressions: int) -> None:
    monkeypatch.setattr(sql, "EXPRESSIONS", expressions)
    patterns = pattern_set([*drawn_patterns(names, 30, 1), "(?i).*k.*", ".*", r"(?P<x>.*)\n.*"])
    comparison = compare(messages, Matching(patterns), ALL)
    assert comparison.pairs % len(patterns) == 0
    assert 0 < comparison.inside(SQL) < comparison.inside(ARROW) == comparison.pairs
    found = {(one.formulation, one.class_name, one.direction): one for one in comparison.found}
    assert not any(one.class_name == INSIDE or one.formulation == ARROW for one in comparison.found)
    folded = found[SQL, "case-of-subject", MISSING]
    assert folded.shrunk == ("(?i)k", "\u212a")
    assert folded.count <= comparison.outside[SQL]["case-of-subject"]
    assert found[SQL, "named-group", MISSING].pattern == r"(?P<x>.*)\n.*"
    pattern, subject = found[SQL_PLAIN, "line-separator", MISSING].shrunk
    assert pattern in {".", ".*"}
    assert len(subject) <= 2
    assert SEPARATORS & {*subject}
    assert found[SQL_PLAIN, "end-of-subject", TOO_MUCH].shrunk == ("", "\n")
    any_of = compare(messages, MatchesAny(pattern_set(drawn_patterns(names, 30, 1, outside=False))), [REFERENCE, SQL, ARROW])
    assert any_of.found == []


def test_patterns_whose_beginnings_are_known_agree(spark: SparkSession, messages: DataFrame, names: list[str]) -> None:
    foreign = spark.createDataFrame([(-1, "ftp://t/n/a"), (-2, "t/n/a"), (-3, "persistent://t/n/a-partition-0")], "id LONG, topic STRING")
    drawn = pattern_set(drawn_patterns(names, 60, 3, outside=False)).patterns
    known = pattern_set([*[one.text for one in drawn if one.beginning][: BEGINNINGS - 1], "t/n/a"])
    assert known.beginnings
    topics = messages.select("id", "topic").union(foreign)
    assert compare(topics, Matching(known), ALL[:3]).found == []
    found = sql.with_column(foreign, Matching(known), "places").orderBy("id").collect()
    assert [row.places for row in found] == [[len(known) - 1], [], [len(known) - 1]]


def test_what_is_drawn_does_not_depend_on_the_parts(spark: SparkSession, messages: DataFrame, names: list[str]) -> None:
    assert rows.names_to_draw_from(messages.repartition(3)) == names
    assert len(names) == rows.NAMES


def test_witnesses_are_answered_as_the_dialect_says(spark: SparkSession) -> None:
    java = int(spark.sql("SELECT reflect('java.lang.System', 'getProperty', 'java.specification.version')").collect()[0][0])
    for formulation in (SQL, SQL_PLAIN, ARROW):
        patterns = pattern_set([one.witness[0] for one in DIVERGENCES])
        topics = spark.createDataFrame(
            [(place, f"persistent://{one.witness[1]}") for place, one in enumerate(DIVERGENCES)], "id LONG, topic STRING"
        )
        both = FORMULATIONS[formulation](FORMULATIONS[REFERENCE](topics, Matching(patterns), "expected"), Matching(patterns), "found")
        for row in both.collect():
            one = DIVERGENCES[row.id]
            parts = (row.id in row.expected) != (row.id in row.found)
            agrees_by_now = one.agrees_from_java is not None and java >= one.agrees_from_java
            assert parts == (formulation in one.formulations and not agrees_by_now), (one.name, formulation)
            assert parts == (matcher(spark, formulation)(*one.witness) is not reference_fits(*one.witness))


def test_java_refuses_some_patterns(spark: SparkSession) -> None:
    assert sql.refused(spark, ["t/n/.*", "t/(?P<x>n)", r"t/\p{Greek}", r"t/\pL", "t/a{,2}"]) == ["t/(?P<x>n)", r"t/\p{Greek}", "t/a{,2}"]
    frame = spark.createDataFrame([(b"a",)], "payload BINARY")
    assert sql.with_column(frame, PayloadFits("(?P<x>a)"), "found").collect()[0].found is False


def test_a_wrong_formulation_is_found(messages: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(frame: DataFrame, rule: Rule, column: str) -> DataFrame:
        if isinstance(rule, MatchedName):
            return frame.withColumn(column, F.regexp_replace("topic", "^[a-z-]+://|-partition-[0-9]+$", ""))
        return sql.with_column(frame, rule, column, plain=True)

    monkeypatch.setattr(comparing, "FORMULATIONS", {REFERENCE: FORMULATIONS[REFERENCE], SQL: wrong})
    (renamed,) = compare(messages, MatchedName(), [REFERENCE, SQL]).found
    assert (renamed.class_name, renamed.direction, renamed.pattern) == (INSIDE, OTHER, None)
    assert renamed.count > 10
    found = compare(messages, Matching(pattern_set(["tenant-0/ns-0/.*", "none"])), [REFERENCE, SQL]).found
    assert {(one.class_name, one.direction) for one in found} == {(INSIDE, MISSING), (INSIDE, TOO_MUCH)}
    assert all(one.pattern == "tenant-0/ns-0/.*" and SEPARATORS & {*one.subject} for one in found)


def test_a_wrong_arrow_kernel_is_shrunk(messages: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(frame: DataFrame, rule: Rule, column: str) -> DataFrame:
        return frame.withColumn(column, F.col("topic").contains("__change_events"))

    monkeypatch.setattr(comparing, "FORMULATIONS", {REFERENCE: FORMULATIONS[REFERENCE], ARROW: wrong})
    found = compare(messages, IsSystemTopic(), [REFERENCE, ARROW]).found
    assert {one.direction for one in found} == {MISSING, TOO_MUCH}
    assert all(one.class_name == INSIDE and one.shrunk == (one.subject,) for one in found)


def test_formulations_are_named() -> None:
    assert formulations_of("arrow,reference") == [REFERENCE, ARROW]
    assert formulations_of("sql, arrow,sql") == [REFERENCE, SQL, ARROW]
    with pytest.raises(CorpusError, match="no formulation 'pandas'; known: reference, sql, arrow, sql-plain"):
        formulations_of("pandas")
    with pytest.raises(CorpusError, match="besides the reference: sql, arrow, sql-plain"):
        formulations_of("reference")


def test_topics_from_parquet(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "topics.parquet")
    spark.createDataFrame([("persistent://t/n/a",)], "topic STRING").write.parquet(path)
    options = JOB.parser().parse_args(["--corpus", path])
    with rows.topics_at_hand(spark, options) as topics:
        (row,) = topics.collect()
    assert (row.topic, row.kind, row.properties) == ("persistent://t/n/a", "read", {})
    spark.createDataFrame([("a",)], "name STRING").write.mode("overwrite").parquet(path)
    with (
        pytest.raises(CorpusError, match=r"topics.parquet: not topics: id \(bigint\) is missing; topic \(string\) is missing"),
        rows.topics_at_hand(spark, options),
    ):
        pass
    nowhere = JOB.parser().parse_args(["--corpus", "nowhere"])
    with pytest.raises(CorpusError, match="there is no corpus 'nowhere'"), rows.topics_at_hand(spark, nowhere):
        pass


def test_the_job_holds(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ("--rows", "1500", "--mix", "adversarial", "--patterns", "12", "--parts", "2")
    result = run_job(JOB, spark, tmp_path, monkeypatch, *small)
    assert [law["name"] for law in result["laws"]] == [law.name for law in JOB.laws]
    assert all(law["checked"] > 0 and not law["broken"] for law in result["laws"])
    assert result["counters"]["rules"]["matching"]["pairs"] > 12_000
    assert result["counters"]["costs"]["all"]["bytes filtered"] <= result["counters"]["costs"]["all"]["bytes unfiltered"]
    assert set(result["counters"]["speed"]["matching"]) == set(ALL)


def test_the_job_tells_what_is_wrong(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "patterns.txt"
    path.write_text("".join(f"t/n/{number}.*\n" for number in range(5000)) + "t/n/[\n" + "t/n/z\n" * 5000, encoding="utf-8")
    run_job(JOB, spark, tmp_path, monkeypatch, "--rows", "10", "--pattern-file", str(path), code=NOT_RUN)
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"filtering_agrees: {path}, line 5001 can't be used: 't/n/[': missing ]")
    run_job(JOB, spark, tmp_path, monkeypatch, "--rows", "10", "--payload-regex", "(", code=NOT_RUN)
    assert "the message filter '(' can't be used" in capsys.readouterr().err.splitlines()[-1]
    run_job(JOB, spark, tmp_path, monkeypatch, "--rows", "0", code=NOT_RUN)
    assert "this one has none" in capsys.readouterr().err.splitlines()[-1]


def test_the_job_fails_where_a_law_is_broken(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = partial(sql.with_column, plain=True)
    monkeypatch.setattr(comparing, "FORMULATIONS", {**FORMULATIONS, SQL: plain})
    small = ("--rows", "1500", "--mix", "adversarial", "--patterns", "8", "--inside", "--formulations", "sql", "--parts", "2")
    result = run_job(JOB, spark, tmp_path, monkeypatch, *small, code=BROKEN)
    (broken,) = [law for law in result["laws"] if law["broken"]]
    assert broken["name"] == "sql-agrees"
    assert broken["examples"]
