"""Hashes of lists from hashed ranges: equal to the reference, however the list is divided."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from conformance.corpus.filtering.checksums import Part, combined, hexadecimal, joined, product, shift
from conformance.corpus.filtering.hashes import _hash_ranges, namespace_hashes, reference_hashes, utf16_order, whole_hash
from conformance.corpus.jobs.hashes_agree import COMES, GOES, JOB, _apply_diff
from refimpl.indexes.topics_hash import EMPTY_HASH, topics_hash
from refimpl.indexes.topics_hash import utf16_order as reference_order
from tests.samples.corpus import run_job

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_a_checksum_is_that_of_its_parts(first: bytes, second: bytes) -> None:
    assert combined(crc32c(first), crc32c(second), len(second)) == crc32c(first + second)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=8))
def test_many_parts_are_combined_one_after_the_other(parts: list[bytes]) -> None:
    whole, text = crc32c(parts[0]), parts[0]
    for part in parts[1:]:
        whole, text = combined(whole, crc32c(part), len(part)), text + part
    assert whole == crc32c(text)


def test_a_long_part_is_combined() -> None:
    second = bytes(3_000_000) + b"x"
    assert combined(crc32c(b"begin"), crc32c(second), len(second)) == crc32c(b"begin" + second)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_products_are_those_of_a_field(one: int, other: int, third: int) -> None:
    assert product(one, other) == product(other, one)
    assert product(product(one, other), third) == product(one, product(other, third))
    assert product(one, other ^ third) == product(one, other) ^ product(one, third)
    assert product(one, 1 << 31) == one


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_shifts_add_up(one: int, other: int) -> None:
    assert product(shift(one), shift(other)) == shift(one + other)


@given(st.lists(NAMES, max_size=30), st.lists(st.integers(0, 30), max_size=5))
def test_ranges_of_a_list_give_its_hash(names: list[str], cuts: list[int]) -> None:
    ordered = sorted(names, key=reference_order)
    borders = sorted({0, len(ordered), *(cut for cut in cuts if cut < len(ordered))})
    texts = [",".join(ordered[first:last]).encode() for first, last in pairwise(borders)]
    whole = joined(Part(crc32c(text), len(text)) for text in texts)
    assert (EMPTY_HASH if whole is None else hexadecimal(whole.checksum)) == topics_hash(names)


def _batches(rows: list[tuple[str, str]], size: int) -> list[pa.RecordBatch]:
    ordered = sorted(rows, key=lambda row: (row[0], reference_order(row[1])))
    table = pa.table(
        {
            "namespace": pa.array([space for space, _ in ordered], pa.string()),
            "topic": pa.array([topic for _, topic in ordered], pa.string()),
            "_order": pa.array([reference_order(topic) for _, topic in ordered], pa.binary()),
        }
    )
    return table.to_batches(max_chunksize=size)


@given(st.lists(st.tuples(st.sampled_from(["t/a", "t/b", "u/a"]), NAMES), max_size=40), st.integers(1, 7))
def test_a_namespace_that_goes_on_in_the_next_batch_is_one_range(rows: list[tuple[str, str]], size: int) -> None:
    found = pa.Table.from_batches(list(_hash_ranges(_batches(rows, size))) or [], schema=None if rows else pa.schema([]))
    hashes = {row["namespace"]: (hexadecimal(row["checksum"]), row["topics"]) for row in found.to_pylist()}
    spaces = {space: [name for other, name in rows if other == space] for space, _ in rows}
    assert hashes == {space: (topics_hash(names), len(names)) for space, names in spaces.items()}
    assert found.num_rows == len(hashes)


def test_a_diff_leads_to_the_later_listing() -> None:
    rows = [(f"persistent://t/n/{name}", number) for number, name in enumerate(["a", "b", "\uff5e", "\U00010000", "c"])]
    table = pa.table({"namespace": ["t/n"] * 5, "topic": [topic for topic, _ in rows], "_number": [number for _, number in rows]})
    later = [topic for topic, number in rows if number != GOES]
    assert _apply_diff(table).to_pylist() == [{"namespace": "t/n", "hash": topics_hash(later), "topics": 4}]
    assert COMES != GOES


def test_spark_sorts_by_utf16_code_units(spark: SparkSession) -> None:
    topics = ["b", "a", "\U00010000", "\uff5e", "\ue000", "a,b", "a\n", "\ud7ff", "\U0010ffff", "é"]
    frame = spark.createDataFrame([(topic,) for topic in topics], "topic STRING")
    found = [row.topic for row in frame.orderBy(utf16_order()).collect()]
    assert found == sorted(topics, key=reference_order)
    assert found != sorted(topics)


def test_distributed_hashes_are_those_of_the_reference(spark: SparkSession) -> None:
    topics = spark.read.format("synthetic_topics").option("rows", 20_000).option("mix", "adversarial").option("namespaces", 3).load()
    expected = {row.namespace: (row.hash, row.topics) for row in reference_hashes(topics).collect()}
    assert namespace_hashes(topics, 5) == expected
    names = [row.topic for row in topics.select("topic").collect()]
    assert whole_hash(topics, 3) == topics_hash(names)
    assert whole_hash(topics.where("id < 0"), 3) == EMPTY_HASH


def test_the_job_holds(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_job(JOB, spark, tmp_path, monkeypatch, "--rows", "5000", "--mix", "adversarial", "--ranges", "3", "--held", "1000")
    laws = {law["name"]: law for law in result["laws"]}
    assert set(laws) == {law.name for law in JOB.laws}
    assert all(law["broken"] == 0 and law["checked"] > 1 for law in laws.values())
    assert result["counters"]["topics"] > 4000
