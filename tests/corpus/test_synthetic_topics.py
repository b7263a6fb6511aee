"""Synthetic topics: the same whatever Spark divides them into, unique, with the classes and shares that are documented."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from conformance.corpus.errors import CorpusError
from conformance.corpus.sources.blocks import BLOCK, generator
from conformance.corpus.sources.synthetic_topics import SyntheticTopics
from conformance.corpus.sources.topic_forms import FORMS, GROUP, KINDS, MIXES, PROPERTIES
from conformance.corpus.sources.zipf import draw, zipf_borders
from refimpl.names import is_system_topic, partitioned_topic_name
from refimpl.proposals.topic_list.rules import matched_name


def topics(rows: int, **options: object) -> pa.Table:
    source = SyntheticTopics({"rows": str(rows), **{name: str(value) for name, value in options.items()}})
    blocks = [source.block(number, min(BLOCK, rows - number * BLOCK)) for number in range(-(-rows // BLOCK))]
    return pa.Table.from_batches(blocks)


@pytest.fixture(scope="module", params=list(MIXES))
def mixed(request: pytest.FixtureRequest) -> tuple[str, pa.Table]:
    return request.param, topics(6 * BLOCK, mix=request.param)


def test_a_name_occurs_once(mixed: tuple[str, pa.Table]) -> None:
    names = mixed[1]["topic"].to_pylist()
    assert len(set(names)) == len(names)


def test_ids_count_from_zero(mixed: tuple[str, pa.Table]) -> None:
    assert mixed[1]["id"].to_pylist() == list(range(mixed[1].num_rows))


def test_each_class_has_its_share(mixed: tuple[str, pa.Table]) -> None:
    mix, table = mixed
    counts = Counter(table["kind"].to_pylist())
    for kind, share in zip(KINDS, np.array(MIXES[mix]) / sum(MIXES[mix]), strict=True):
        deviation = 6 * (share * (1 - share) * GROUP / table.num_rows) ** 0.5
        assert counts[kind] / table.num_rows == pytest.approx(share, abs=deviation), kind


def test_system_topics_are_those_of_the_rule(mixed: tuple[str, pa.Table]) -> None:
    table = mixed[1]
    assert [is_system_topic(topic) for topic in table["topic"].to_pylist()] == [kind == "system" for kind in table["kind"].to_pylist()]


def test_partitions_are_those_of_one_topic() -> None:
    table = topics(BLOCK)
    rows = list(zip(table["topic"].to_pylist(), table["kind"].to_pylist(), strict=True))
    groups = [rows[start : start + GROUP] for start in range(0, BLOCK, GROUP)]
    partitioned = [[topic for topic, _ in group] for group in groups if group[0][1] == "partition"]
    assert partitioned
    for group in partitioned:
        base = partitioned_topic_name(group[0])
        assert group == [f"{base}-partition-{number}" for number in range(GROUP)]


def test_ascii_names_are_ascii() -> None:
    assert all(topic.isascii() for topic in topics(3 * BLOCK, mix="ascii")["topic"].to_pylist())


def test_adversarial_names_have_what_makes_them_so() -> None:
    table = topics(4 * BLOCK, mix="adversarial")
    by_kind: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for topic, kind in zip(table["topic"].to_pylist(), table["kind"].to_pylist(), strict=True):
        by_kind[kind].append(topic)
    assert all(not topic.isascii() and max(topic) <= "\uffff" for topic in by_kind["unicode"])
    assert {"\u212a", "\u017f", "\u0131"} <= set("".join(by_kind["unicode"]))
    assert any(max(topic) > "\uffff" for topic in by_kind["astral"])
    assert any("\ue000" <= max(topic) <= "\uffff" for topic in by_kind["astral"])
    separators = set("\n\r\x0b\x0c\u0085\u2028\u2029")
    assert all(separators & set(topic) for topic in by_kind["line-separator"])
    assert separators <= set("".join(by_kind["line-separator"]))
    near = by_kind["near-miss"]
    assert any(topic.endswith("-partition-01") for topic in near)
    assert any(topic.endswith("-partition-") for topic in near)
    assert any(topic.endswith("-partition-3\n") for topic in near)
    assert any(topic.startswith("PERSISTENT://") for topic in near)
    assert any(topic.endswith("-partition-3-partition-4") and matched_name(topic).endswith("-partition-3") for topic in near)
    assert all(topic.startswith("non-persistent://") for topic in by_kind["non-persistent"])


def test_fewer_rows_are_the_beginning_of_more() -> None:
    assert topics(BLOCK + 7, mix="adversarial").equals(topics(2 * BLOCK, mix="adversarial").slice(0, BLOCK + 7))


def test_another_seed_gives_other_rows() -> None:
    assert not topics(100, seed=1).equals(topics(100, seed=2))
    assert topics(100, seed=2).equals(topics(100, seed=2))


def test_frequent_namespaces_are_few() -> None:
    table = topics(4 * BLOCK, tenants=5, namespaces=4)
    spaces = Counter("/".join(matched_name(topic).split("/", 2)[:2]) for topic in table["topic"].to_pylist())
    assert {space for space in spaces if space not in ("pulsar/system", "TENANT-0/NS-0")} == {
        f"tenant-{a}/ns-{b}" for a in range(5) for b in range(4)
    }
    assert spaces["tenant-0/ns-0"] > 4 * spaces["tenant-4/ns-3"]


def test_without_exponent_all_are_equally_frequent() -> None:
    counts = Counter(draw(generator(1, 9, 0), zipf_borders(10, 0.0), 50_000).tolist())
    assert set(counts) == set(range(10))
    assert max(counts.values()) < 1.1 * min(counts.values())


def test_properties_are_absent_as_often_as_documented() -> None:
    table = topics(4 * BLOCK)
    maps = [dict(pairs) for pairs in table["properties"].to_pylist()]
    for one in PROPERTIES:
        found = [properties[one.key] for properties in maps if one.key in properties]
        assert len(found) / len(maps) == pytest.approx(one.share, abs=0.02)
        assert set(found) <= set(one.values)
        assert Counter(found).most_common(1)[0][0] == one.values[0]


def test_forms_of_a_class_stand_together() -> None:
    kinds = [form.kind for form in FORMS]
    assert [kind for place, kind in enumerate(kinds) if place == 0 or kinds[place - 1] != kind] == list(KINDS)


def test_a_source_can_be_sent_to_workers() -> None:
    source = SyntheticTopics({"rows": "10"})
    assert source.block(0, 10).equals(pickle.loads(pickle.dumps(source)).block(0, 10))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mixx": "usual"}, "did you mean mix"),
        ({"mix": "odd"}, "mix is one of usual, ascii, adversarial"),
        ({"tenants": "0"}, "tenants is at least 1"),
        ({"zipf": "much"}, "zipf is a number"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        SyntheticTopics(options)


def test_rows_do_not_depend_on_the_parts(spark: SparkSession) -> None:
    reader = spark.read.format("synthetic_topics").option("rows", 3 * BLOCK + 11).option("mix", "adversarial")
    few = reader.option("partitions", 1).load().toArrow().sort_by("id")
    many = reader.option("partitions", 5).load().toArrow().sort_by("id")
    assert few.equals(many)
    assert few["topic"].to_pylist() == topics(3 * BLOCK + 11, mix="adversarial")["topic"].to_pylist()
