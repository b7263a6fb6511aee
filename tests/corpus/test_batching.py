import dataclasses
import pickle

import pyarrow as pa
import pytest

from conformance.corpus.batching.laws import distribution, percentile
from conformance.corpus.batching.reference import ADDED, reference_batches
from conformance.corpus.batching.settings import Setting, Want, sweep, wants
from conformance.corpus.errors import CorpusError
from tests.samples.batching import awkward, one_producer
from tests.samples.uniform_batches import EXAMPLE, SETTING, TABLE

EU = Setting("eu", {"region": ("eu", "us")}, delay=10)


def batched(messages, setting, wants=(), size=None, **options):
    pieces = messages.to_batches(size) if size else messages.to_batches()
    return pa.Table.from_batches(reference_batches(iter(pieces), setting, wants, **options))


def numbers(messages, setting):
    return batched(messages, setting)["reference_batch"].to_pylist()


def test_the_example_of_the_text():
    messages = one_producer([(0, 1, properties) for _, properties in EXAMPLE])
    rows = batched(messages, Setting("text", SETTING)).to_pylist()
    batches = {}
    for row, (name, _) in zip(rows, EXAMPLE, strict=True):
        header = tuple((key, value) for key, value in zip(SETTING, row["reference_header"], strict=True) if value is not None)
        batches.setdefault((row["reference_batch"], header), []).append(name)
    assert [(header, names) for (_, header), names in batches.items()] == TABLE


def test_pieces_make_no_difference():
    messages = awkward(5, producers=1).sort_by("sequence_id")
    whole = batched(messages, EU)
    for size in (1, 7, 64):
        assert batched(messages, EU, size=size).combine_chunks().equals(whole.combine_chunks())
    assert len(whole) == len(messages)


def test_columns_that_are_added_are_those_that_are_declared():
    given = batched(one_producer([(0, 1, {"region": "eu"})]), EU, [Want("region", "eu")], encode_every=1)
    assert given.schema.names[-len(ADDED) :] == ADDED.names
    assert all(given.schema.field(name).type == ADDED.field(name).type for name in ADDED.names)


def test_no_messages_no_rows():
    assert list(reference_batches(iter([]), EU)) == []
    empty = one_producer([(0, 0, {})]).to_batches()[0].slice(1)
    assert [piece.num_rows for piece in reference_batches(iter([empty]), EU)] == [0]


def test_only_the_open_batch_waits():
    setting = dataclasses.replace(EU, delay=10**6, max_messages=10)
    pieces = one_producer([(0, 0, {"region": "eu"})] * 1000).to_batches(10)
    read = 0

    def counted():
        nonlocal read
        for piece in pieces:
            read += 1
            yield piece

    out = reference_batches(counted(), setting)
    next(out)
    assert read == 1


def test_a_batch_whose_time_is_up_closes_before_a_message_of_that_instant():
    assert numbers(one_producer([(0, 0, {}), (9, 0, {}), (10, 0, {}), (19, 0, {}), (20, 0, {})]), EU) == [0, 0, 1, 1, 2]
    assert numbers(one_producer([(5, 0, {}), (5, 0, {})]), dataclasses.replace(EU, delay=0)) == [0, 1]


def test_a_clock_that_goes_back_closes_nothing():
    assert numbers(one_producer([(100, 0, {}), (3, 0, {}), (109, 0, {}), (50, 0, {}), (110, 0, {})]), EU) == [0, 0, 0, 0, 1]


def test_messages_out_of_order_are_refused():
    messages = one_producer([(0, 0, {}), (0, 0, {})])
    with pytest.raises(CorpusError, match=r"^p: message 0 comes after message 1; give each producer's messages increasing numbers$"):
        batched(messages.take([1, 0]), EU)


def test_a_batch_of_one_as_java_writes_it_has_no_extracted_set_and_all_properties():
    setting = dataclasses.replace(EU, batch_of_one="java_single", max_messages=1)
    rows = batched(one_producer([(0, 0, {"region": "eu", "version": "1"})]), setting, [Want("version", "1", "reject")]).to_pylist()
    assert rows[0]["reference_header"] is None
    assert rows[0]["reference_header_octets"] == 0
    assert rows[0]["reference_accepted"] == [True]


def test_entry_filters_see_what_producers_extract():
    messages = one_producer([(0, 0, {"region": "eu"}), (0, 0, {"region": "asia"}), (0, 0, {}), (0, 0, {"region": "us"})])
    consumers = [Want("region", "eu"), Want("region", "eu", "reject"), Want("region", "asia", "reject")]
    rows = batched(messages, EU, consumers).to_pylist()
    assert [row["reference_batch"] for row in rows] == [0, 1, 1, 2]
    assert [row["reference_accepted"] for row in rows] == [
        [True, True, False],
        [True, False, False],
        [True, False, False],
        [False, False, False],
    ]


def test_what_is_encoded_is_chosen_by_number():
    rows = batched(one_producer([(time, 5, {}) for time in (0, 10, 20, 30)]), EU, encode_every=2).to_pylist()
    assert [row["wire_entry_octets"] is None for row in rows] == [False, True, False, True]
    assert rows[0]["wire_entry_octets"] > rows[0]["wire_header_octets"] + 5


def test_only_filters_that_see_the_value_or_let_the_rest_pass_are_safe():
    assert Want("region", "asia").is_safe(EU)
    assert Want("region", "eu", "reject").is_safe(EU)
    assert not Want("region", "asia", "reject").is_safe(EU)
    assert not Want("version", "1", "reject").is_safe(EU)


def test_settings_and_consumers_travel_to_workers():
    assert pickle.loads(pickle.dumps((EU, Want("a", "b")))) == (EU, Want("a", "b"))


def test_settings_differ_in_one_respect_each():
    frequent = {"region": ("eu", "us", "a,b"), "version": ("1",)}
    settings = sweep(frequent)
    assert len({setting.name for setting in settings}) == len(settings)
    assert settings[0].allowed == {}
    assert settings[1].allowed == {"region": ("eu", "us", "a,b")}
    assert settings[2].allowed == frequent
    assert {(want.name, want.value) for want in wants(frequent)} == {("region", "eu"), ("version", "1")}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Setting("s", {"": ("a",)}), "setting s: restrict_same_values_in_batch_properties has an empty property name"),
        (lambda: Setting("s", max_messages=0), "setting s: a batch has at least 1 message"),
        (lambda: Setting("s", delay=-1), "waits 0 ms or more, not 1000, 131072, -1"),
        (lambda: Want("region", "a,b"), "a value without a comma, not 'region' 'a,b'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(make, message):
    with pytest.raises(CorpusError) as refused:
        make()
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_sizes_of_entries_are_described():
    assert distribution({}) == {"mean": 0.0, "p50": 0, "p90": 0, "p99": 0, "max": 0, "classes": {}}
    assert distribution({1: 50, 3: 49, 700: 1}) == {
        "mean": 8.97,
        "p50": 1,
        "p90": 3,
        "p99": 3,
        "max": 700,
        "classes": {"1": 50, "2": 49, "512": 1},
    }
    assert [percentile({5: 1, 7: 1}, percent) for percent in (1, 50, 51, 100)] == [5, 5, 7, 7]
