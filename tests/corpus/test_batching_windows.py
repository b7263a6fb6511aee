import json
from collections import Counter
from functools import reduce

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from conformance.corpus.batching.entries import both
from conformance.corpus.batching.laws import LAWS, find
from conformance.corpus.batching.settings import Setting, Want, frequent_values
from conformance.corpus.batching.sizes import varint_bytes
from conformance.corpus.batching.slices import slices
from conformance.corpus.batching.windows import PRODUCER, with_batches
from conformance.corpus.jobs import batches_agree
from conformance.corpus.session import frame_of
from refimpl.proposals.uniform_batches import Reason
from tests.samples.batching import awkward, one_producer

pytestmark = pytest.mark.usefixtures("without_compiling")
VALUES = {"region": ("eu", "🌍", ""), "version": ("1",)}
WANTS = (Want("region", "eu"), Want("region", "", "reject"), Want("version", "EU"), Want("tag", "1", "reject"))
SETTINGS = (
    Setting("no proposal", max_messages=7, delay=20),
    Setting("bytes", {"region": ("eu", "EU"), "version": ()}, max_bytes=1000, delay=10**6),
    Setting("java", VALUES, max_messages=3, max_bytes=700, delay=5, batch_of_one="java_single", chunk=600),
    Setting("by key", max_messages=9, delay=100, by_key=True),
)


def broken(found):
    return {one.name: one.examples[:3] for one in found.outcomes if one.broken}


@pytest.fixture(scope="module")
def corpus(spark):
    made = frame_of(spark, awkward(11)).repartition(3).localCheckpoint()
    yield made
    made.unpersist()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_all_laws_hold_on_an_awkward_corpus(corpus, setting):
    found = find([both(corpus, setting, WANTS)], setting, WANTS)
    assert broken(found) == {}
    checked = {one.name: one.checked for one in found.outcomes}
    assert [one.name for one in found.outcomes] == [law.name for law in LAWS]
    assert checked["formulations"] == checked["payload"] == corpus.count() == found.counters["messages"]
    assert checked["verdicts"] == len(WANTS) * found.counters["entries"]
    if setting.name == "java":
        assert set(found.counters["reasons"]) == {reason.name for reason in Reason} - {"OTHER_KIND"}


def test_slices_tell_together_what_the_corpus_tells(corpus):
    cut, setting = slices(corpus, 3), SETTINGS[1]
    parts = list(cut)
    producers = [{tuple(row) for row in part.select(*PRODUCER).distinct().collect()} for part in parts]
    assert len(parts) == 3
    assert sum(map(len, producers)) == len(set().union(*producers)) == corpus.select(*PRODUCER).distinct().count()
    whole = find([both(corpus, setting, WANTS)], setting, WANTS)
    assert find((both(part, setting, WANTS) for part in parts), setting, WANTS) == whole
    first, *others = (both(part, setting, WANTS) for part in parts if part.count())
    unsent = sql.col("plan")["number"] == 0
    nothing = sql.lit(None).cast(others[0].schema["found"].dataType)
    lost = others[0].withColumns(
        {"found": sql.when(unsent, nothing).otherwise(sql.col("found")), "times": sql.when(unsent, 0).otherwise(1)}
    )
    assert broken(find([first, lost], setting, WANTS))["none-lost"]
    cut.unpersist()


def test_long_runs_are_jumped_through_in_pieces(spark):
    rows = [(number, 40 + number % 7, {"region": "eu"}) for number in range(3000)]
    messages = frame_of(spark, one_producer(rows)).localCheckpoint()
    settings = (
        Setting("short", VALUES, max_messages=3, delay=10**6),
        Setting("longer than a piece", VALUES, max_messages=700, delay=10**6),
        Setting("bytes and time", VALUES, max_bytes=700, delay=9),
        Setting("one", VALUES, delay=10**6, max_messages=10**6, max_bytes=10**9),
    )
    other = ~sql.struct("plan.batch", "plan.position").eqNullSafe(sql.struct("found.batch", "found.position"))
    counts = [
        both(messages, setting).agg(sql.lit(setting.name), sql.count_if(other), sql.max("plan.batch") + 1, sql.count("*"))
        for setting in settings
    ]
    found = {row[0]: tuple(row)[1:] for row in reduce(DataFrame.unionAll, counts).collect()}
    assert all(others == 0 and messages == 3000 for others, _, messages in found.values())
    assert {name: batches for name, (_, batches, _) in found.items() if name != "bytes and time"} == {
        "short": 1000,
        "longer than a piece": 5,
        "one": 1,
    }
    assert found["bytes and time"][1] > 3000 / 9


def test_a_filter_on_a_value_that_is_not_extracted_loses_messages_if_it_rejects_the_rest(corpus):
    setting, wants = Setting("region", {"region": ("eu",)}), (Want("region", "EU", "reject"), Want("region", "EU"))
    found = find([both(corpus, setting, wants)], setting, wants)
    rejecting, accepting = found.counters["consumers"]
    assert rejecting["messages_lost"] == rejecting["wanted"] > 0
    assert (accepting["messages_lost"], accepting["wanted"]) == (0, rejecting["wanted"])
    assert accepting["messages_in_vain"] == accepting["messages_accepted"] - accepting["wanted"] > 0
    assert broken(found) == {}


def test_the_order_and_number_of_partitions_make_no_difference(corpus):
    setting = SETTINGS[2]

    def rows(frame):
        return Counter(map(tuple, with_batches(frame, setting).select("producer_name", "sequence_id", "batch", "position").collect()))

    assert rows(corpus) == rows(corpus.coalesce(1).sort(sql.desc("sequence_id")))


def test_varints(spark):
    numbers = [0, 1, 127, 128, 16_383, 16_384, 2**35 - 1, 2**35, 2**62, 2**63 - 1]
    frame = spark.createDataFrame([(number,) for number in numbers], "number LONG")
    assert [row[0] for row in frame.select(varint_bytes(sql.col("number"))).collect()] == [
        max(1, -(-number.bit_length() // 7)) for number in numbers
    ]


def test_frequent_values_come_in_an_order_that_does_not_depend_on_chance(spark):
    messages = frame_of(spark, one_producer([(0, 0, {"region": value}) for value in ("b", "a", "c", "c", "")]))
    assert frequent_values(messages, ["version", "region"], 3) == {"version": (), "region": ("c", "", "a")}


def test_columns_that_are_missing_are_named(spark, tmp_path, capsys):
    spark.range(3).write.parquet(str(tmp_path / "ids.parquet"))
    options = batches_agree.JOB.parser().parse_args(["--corpus", str(tmp_path / "ids.parquet")])
    with pytest.raises(ValueError, match=r"not messages: topic \(string\) is missing; producer_name \(string\) is missing"):
        batches_agree.check(batches_agree.Run(spark, options))
    options = batches_agree.JOB.parser().parse_args(["--corpus", str(tmp_path / "nowhere")])
    with pytest.raises(ValueError, match=r"there is no corpus '.*nowhere'; known: synthetic, jars"):
        batches_agree.check(batches_agree.Run(spark, options))


def test_the_job_tries_settings_and_distributions(spark, tmp_path):
    options = batches_agree.JOB.parser().parse_args(["--rows", "3000", "--settings", "2", "--distributions", "1"])
    findings = batches_agree.check(batches_agree.Run(spark, options))
    assert [law.name for law in findings.laws] == [law.name for law in batches_agree.LAWS]
    assert all(law.holds for law in findings.laws)
    settings = findings.counters["settings"]
    assert list(settings) == ["without the proposal", "region: 5 values", "2 values, delay 100 ms"]
    assert settings["without the proposal"]["header_bytes"] == 0 < settings["region: 5 values"]["header_bytes"]
    assert json.dumps(findings.counters)
