import dataclasses
import pickle

import pyarrow as pa
import pytest

from conformance.corpus.batching.laws import distribution, percentile
from conformance.corpus.batching.opened import OPENED, opened_batches
from conformance.corpus.batching.sent import SENT, sent_batches
from conformance.corpus.batching.settings import Setting, Want, sweep, wants
from conformance.corpus.errors import CorpusError
from tests.samples.batching import awkward, one_producer
from tests.samples.uniform_batches import EXAMPLE, SETTING, TABLE

EU = Setting("eu", {"region": ("eu", "us")}, delay=10)


def entries(messages, setting, wants=(), size=None):
    pieces = messages.to_batches(size) if size else messages.to_batches()
    return pa.Table.from_batches(sent_batches(iter(pieces), setting, wants), SENT)


def batched(messages, setting, wants=(), size=None):
    """One row for each batch, opened again."""
    return pa.Table.from_batches(opened_batches(entries(messages, setting, wants, size).to_batches()), OPENED).to_pylist()


def numbers(messages, setting):
    """The batch of each message."""
    found = {one["sequence_id"]: row["batch"] for row in batched(messages, setting) for one in row["messages"]}
    return [found[number] for number in sorted(found)]


def test_the_example_of_the_text():
    messages = one_producer([(0, 1, properties) for _, properties in EXAMPLE])
    names = [name for name, _ in EXAMPLE]
    rows = batched(messages, Setting("text", SETTING))
    assert [
        (tuple((pair["key"], pair["value"]) for pair in row["header"]), [names[one["sequence_id"]] for one in row["messages"]])
        for row in rows
    ] == TABLE


def test_pieces_make_no_difference():
    messages = awkward(5, producers=1).sort_by("sequence_id")
    whole = entries(messages, EU)
    for size in (1, 7, 64):
        assert entries(messages, EU, size=size).combine_chunks().equals(whole.combine_chunks())
    assert sum(len(row["messages"]) for row in batched(messages, EU)) == len(messages)


def test_no_messages_no_rows():
    assert list(sent_batches(iter([]), EU)) == []
    empty = one_producer([(0, 0, {})]).to_batches()[0].slice(1)
    assert list(sent_batches(iter([empty]), EU)) == []
    assert batched(one_producer([]), EU) == []


def test_each_compression_occurs_in_turn():
    rows = batched(one_producer([(0, 40, {})] * 6), dataclasses.replace(EU, max_messages=1))
    assert [row["compression"] for row in rows] == [0, 1, 2, 3, 4, 0]
    assert all(row["problem"] is None and row["body"] == row["said"] for row in rows)


def test_a_large_message_goes_alone_in_chunks():
    setting = dataclasses.replace(EU, chunk=100, compressions=(0,))
    messages = one_producer([(0, 5, {}), (0, 250, {"n": "1"}), (0, 5, {}), (0, 100, {})])
    assert [(row["batch"], row["part"]) for row in entries(messages, setting).to_pylist()] == [(0, 0), (1, 0), (1, 1), (1, 2), (2, 0)]
    rows = batched(messages, setting)
    assert [(row["parts"], row["reason"], row["count"]) for row in rows] == [
        (1, "UNBATCHABLE", 1),
        (3, "UNBATCHABLE", None),
        (1, "FLUSH", 2),
    ]
    assert len(rows[1]["messages"][0]["payload"]) == 250


def test_batches_by_key_keep_the_order_of_their_first_messages():
    messages = one_producer([(0, 1, {}), (0, 2, {}), (0, 3, {}), (9, 4, {})])
    keys = pa.array(["b", None, "b", "a"], pa.string())
    setting = Setting("keys", delay=5, by_key=True)
    rows = batched(messages.set_column(messages.schema.get_field_index("key"), "key", keys), setting)
    assert [(row["header_key"], [one["sequence_id"] for one in row["messages"]]) for row in rows] == [
        ("b", [0, 2]),
        (None, [1]),
        ("a", [3]),
    ]


def test_chunks_that_are_missing_or_mixed_up_are_noticed():
    setting = dataclasses.replace(EU, chunk=100, compressions=(0,))
    sent = entries(one_producer([(0, 250, {}), (0, 5, {})]), setting)
    for places in ([0, 2, 3], [0, 1, 3], [1, 2, 3], [1, 0, 2, 3]):
        rows = pa.Table.from_batches(opened_batches(sent.take(places).to_batches()), OPENED).to_pylist()
        assert [row["problem"] for row in rows if row["problem"]]
        assert rows[-1]["problem"] is None


def test_a_batch_whose_time_is_up_closes_before_a_message_of_that_instant():
    assert numbers(one_producer([(0, 0, {}), (9, 0, {}), (10, 0, {}), (19, 0, {}), (20, 0, {})]), EU) == [0, 0, 1, 1, 2]
    assert numbers(one_producer([(5, 0, {}), (5, 0, {})]), dataclasses.replace(EU, delay=0)) == [0, 1]


def test_a_clock_that_goes_back_closes_nothing():
    assert numbers(one_producer([(100, 0, {}), (3, 0, {}), (109, 0, {}), (50, 0, {}), (110, 0, {})]), EU) == [0, 0, 0, 0, 1]


def test_messages_out_of_order_are_refused():
    messages = one_producer([(0, 0, {}), (0, 0, {})])
    with pytest.raises(CorpusError, match=r"^p: message 0 comes after message 1; give each producer's messages increasing numbers$"):
        batched(messages.take([1, 0]), EU)


def test_a_batch_of_one_as_java_writes_it_has_all_properties():
    setting = dataclasses.replace(EU, batch_of_one="java_single", max_messages=1)
    rows = batched(one_producer([(0, 0, {"region": "eu", "version": "1"})]), setting, [Want("version", "1", "reject")])
    assert [pair["key"] for pair in rows[0]["header"]] == ["region", "version"]
    assert (rows[0]["count"], rows[0]["accepted"]) == (None, [True])


def test_entry_filters_see_what_producers_extract():
    messages = one_producer([(0, 0, {"region": "eu"}), (0, 0, {"region": "asia"}), (0, 0, {}), (0, 0, {"region": "us"})])
    consumers = [Want("region", "eu"), Want("region", "eu", "reject"), Want("region", "asia", "reject")]
    assert numbers(messages, EU) == [0, 1, 1, 2]
    assert [row["accepted"] for row in batched(messages, EU, consumers)] == [
        [True, True, False],
        [True, False, False],
        [False, False, False],
    ]


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
    assert settings[2].allowed == {"region": ("eu", "us", "a,b"), "version": ("eu", "us", "a,b", "1", "", "eu,1", "us,1", "a,b,1")}
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
