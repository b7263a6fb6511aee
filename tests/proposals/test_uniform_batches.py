"""The producer's side of PIP-191: what is extracted, and which messages share a batch."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.proposals.uniform_batches import (
    AS_WRITTEN,
    DEFAULT,
    PROFILES,
    Batch,
    BatchCounts,
    Reason,
    UniformBatcher,
    UniformBatchesProfile,
    allowed_values,
    check_combination,
    extracted_set,
    header_bytes,
    write_header,
)
from refimpl.wire import crc32c, decode_batch, encode_batch, parse_payload
from refimpl.wire.pulsar_api_pb2 import MessageMetadata
from tests.samples.uniform_batches import EXAMPLE, SETTING, TABLE, encode, golden_entry

ALLOWED = allowed_values(SETTING)
EU = (("region", "eu"),)
JAVA_SINGLE = UniformBatchesProfile(batch_of_one="java_single")


def batcher(setting=SETTING, **arguments):
    return UniformBatcher(allowed_values(setting), **{"max_bytes": 1000, "delay": 1.0, **arguments})


def add(into, item, properties=(), size=1, now=0.0, **arguments):
    return into.add(item, dict(properties), size, now, **arguments)


def out(batches):
    return [(list(batch.items), batch.header, batch.reason) for batch in batches]


def example_batches(profile=DEFAULT):
    into = batcher(profile=profile)
    sent = [batch for number, (text, of) in enumerate(EXAMPLE) for batch in add(into, (number, text, of), of)]
    return sent + into.flush(), into


# The setting


@pytest.mark.parametrize(
    "setting", [{"": ["a"]}, {"region": "us"}, {"region": None}, {"region": [1]}, {"region": b"us"}, {1: ["a"]}, ["region"]]
)
def test_a_setting_that_means_nothing_is_refused(setting):
    with pytest.raises(ValueError, match="restrict_same_values_in_batch_properties"):
        allowed_values(setting)


def test_a_setting_is_a_copy():
    values = ["us"]
    allowed = allowed_values({"region": values})
    values.append("eu")
    assert extracted_set({"region": "eu"}, allowed) == ()


def test_no_values_allow_nothing():
    assert extracted_set({"region": "us", "": ""}, allowed_values({"region": []})) == ()


def test_key_based_batches_are_refused():
    with pytest.raises(ValueError, match="key-based"):
        check_combination(ALLOWED, key_based=True)
    check_combination(ALLOWED, key_based=False)
    check_combination(allowed_values({}), key_based=True)


@pytest.mark.parametrize("arguments", [{"max_messages": 0}, {"max_bytes": 0}, {"delay": -0.1}, {"delay": float("nan")}])
def test_limits_that_no_batch_can_keep_are_refused(arguments):
    with pytest.raises(ValueError, match="at least 1 message"):
        batcher(**arguments)


def test_the_profiles_agree_in_what_the_text_shows():
    assert PROFILES == {"default": DEFAULT, "as-written": AS_WRITTEN}
    assert DEFAULT.batch_of_one == AS_WRITTEN.batch_of_one == "batch"


# The extracted set


@pytest.mark.parametrize(
    ("properties", "extracted"),
    [
        ({}, ()),
        ({"tag": "a"}, ()),
        ({"region": "eu"}, EU),
        ({"region": "eu", "tag": "a"}, EU),
        ({"region": "eu", "version": "1"}, (("region", "eu"), ("version", "1"))),
        ({"version": "1", "region": "eu"}, (("region", "eu"), ("version", "1"))),
        ({"region": "eu", "version": "5"}, EU),
        ({"region": "EU"}, ()),
        ({"Region": "eu"}, ()),
        ({"region": " eu"}, ()),
        ({"region": ""}, ()),
        ({"region": "us,eu"}, ()),
        ({"region": "1"}, ()),
        ([("region", "us"), ("region", "eu")], EU),
        ([("region", "eu"), ("region", "asia")], ()),
        ([("region", "asia"), ("tag", "a"), ("region", "eu")], EU),
    ],
)
def test_extracted_set(properties, extracted):
    assert extracted_set(properties, ALLOWED) == extracted


def test_empty_values_are_values():
    assert extracted_set({"region": ""}, allowed_values({"region": [""]})) == (("region", ""),)


NAMES = st.sampled_from(["region", "version", "tag", "Region"])
VALUES = st.sampled_from(["us", "eu", "1", "2", "5", ""])
PAIRS = st.lists(st.tuples(NAMES, VALUES), max_size=5)
SETTINGS = st.dictionaries(NAMES, st.lists(VALUES, max_size=3), max_size=3)


@given(PAIRS, SETTINGS, st.randoms())
def test_extraction_is_a_restriction_of_the_map_and_knows_no_order(pairs, setting, random):
    allowed = allowed_values(setting)
    extracted = extracted_set(pairs, allowed)
    assert dict(extracted) == {name: value for name, value in dict(pairs).items() if value in setting.get(name, ())}
    assert len(extracted) == len(dict(extracted))
    shuffled = list(dict(pairs).items())
    random.shuffle(shuffled)
    assert extracted_set(shuffled, allowed) == extracted_set(extracted, allowed) == extracted


# The example of the text


def test_the_example_gives_the_five_batches_of_its_table():
    sent, into = example_batches()
    assert [(batch.header, [text for _, text, _ in batch.items]) for batch in sent] == TABLE
    assert all(batch.is_batch for batch in sent)
    assert [batch.reason for batch in sent] == [Reason.OTHER_SET] * 4 + [Reason.FLUSH]
    overhead = sum(header_bytes(header) for header, _ in TABLE)
    assert into.counts == BatchCounts(8, 5, overhead, {Reason.OTHER_SET: 4, Reason.FLUSH: 1})


def test_the_example_in_octets():
    """The headers are written by hand, the messages are those that a Java client wrote in one batch of eight."""
    stock = parse_payload(golden_entry("message-java-8-plain"))
    messages = decode_batch(stock.body, 8)
    eu, us = "220c0a06726567696f6e12026575", "220c0a06726567696f6e12027573"
    one, two = "220c0a0776657273696f6e120131", "220c0a0776657273696f6e120132"
    headers = [
        ("0a046a617661 1000 18af89fadb9f34" + eu + "5802 c00101", messages[:2]),
        ("0a046a617661 1002 18af89fadb9f34" + eu + one + "5802 c00103", messages[2:4]),
        ("0a046a617661 1004 18af89fadb9f34" + us + one + "5801 c00104", messages[4:5]),
        ("0a046a617661 1005 18af89fadb9f34" + us + two + "5801 c00105", messages[5:6]),
        ("0a046a617661 1006 18af89fadb9f34" + us + "5802 c00107", messages[6:]),
    ]
    sent, _ = example_batches()
    for batch, (header, singles) in zip(sent, headers, strict=True):
        covered = (len(bytes.fromhex(header))).to_bytes(4, "big") + bytes.fromhex(header) + encode_batch(singles)
        expected = bytes.fromhex("0e01") + crc32c(covered).to_bytes(4, "big") + covered
        assert encode(batch, "java", stock.metadata.publish_time).hex() == expected.hex()


def test_the_example_as_java_writes_batches_of_one():
    sent, _ = example_batches(JAVA_SINGLE)
    assert [batch.is_batch for batch in sent] == [True, True, False, False, True]
    metadata = parse_payload(encode(sent[2])).metadata
    assert not metadata.HasField("num_messages_in_batch")
    assert {one.key: one.value for one in metadata.properties} == {"region": "us", "version": "1"}


def test_a_batch_of_one_hides_what_is_not_allowed_and_a_java_single_shows_it():
    seen = {}
    for profile in (DEFAULT, JAVA_SINGLE):
        into = batcher(profile=profile)
        add(into, (0, "m7", {"region": "us", "version": "5"}), {"region": "us", "version": "5"})
        metadata = parse_payload(encode(*into.flush())).metadata
        seen[profile.batch_of_one] = {one.key: one.value for one in metadata.properties}
    assert seen == {"batch": {"region": "us"}, "java_single": {"region": "us", "version": "5"}}


# What closes a batch


def test_a_message_without_any_allowed_property_has_groups_of_its_own():
    into = batcher()
    assert add(into, "a", {"tag": "x"}) == []
    assert out(add(into, "b", {"region": "eu"})) == [(["a"], (), Reason.OTHER_SET)]
    assert out(add(into, "c")) == [(["b"], EU, Reason.OTHER_SET)]
    assert add(into, "d", {"region": "asia"}) == []
    (last,) = into.flush()
    assert out([last]) == [(["c", "d"], (), Reason.FLUSH)]
    assert last.is_batch


def test_a_set_that_comes_back_begins_a_new_batch():
    into = batcher()
    sent = [batch for text, region in zip("abc", ["eu", "us", "eu"], strict=True) for batch in add(into, text, {"region": region})]
    assert [batch.items for batch in sent + into.flush()] == [("a",), ("b",), ("c",)]


def test_count_closes():
    into = batcher(max_messages=2)
    assert add(into, "a", EU) == []
    assert out(add(into, "b", EU)) == [(["a", "b"], EU, Reason.MESSAGES)]
    assert into.next_deadline() is None


def test_another_set_and_a_full_batch_in_one_call():
    into = batcher(max_messages=2, max_bytes=10)
    add(into, "a", EU)
    assert out(add(into, "b", size=10)) == [(["a"], EU, Reason.OTHER_SET), (["b"], (), Reason.OCTETS)]


def test_octets_close_before_and_after():
    into = batcher(max_bytes=10)
    assert add(into, "a", size=6) == []
    assert out(add(into, "b", size=5)) == [(["a"], (), Reason.OCTETS)]
    assert out(add(into, "c", size=5)) == [(["b", "c"], (), Reason.OCTETS)]
    assert out(add(into, "d", size=99)) == [(["d"], (), Reason.OCTETS)]
    into.max_bytes = 2
    assert add(into, "e", size=1) == []
    assert out(add(into, "f", size=2)) == [(["e"], (), Reason.OCTETS), (["f"], (), Reason.OCTETS)]


@pytest.mark.parametrize("profile", [DEFAULT, JAVA_SINGLE])
def test_a_batch_that_turned_out_too_large_is_divided_under_its_header(profile):
    into = batcher(max_messages=3, profile=profile)
    (batch,) = [sent for item in "abc" for sent in add(into, item, {"region": "eu"})]
    halves = into.split(batch)
    assert [half.items for half in halves] == [("a",), ("b", "c")]
    assert [half.header for half in halves] == [None if profile is JAVA_SINGLE else EU, EU]
    assert [half.is_batch for half in halves] == [profile is not JAVA_SINGLE, True]
    assert {half.reason for half in halves} == {Reason.OCTETS}
    expected = sum(header_bytes(half.header) for half in halves)
    assert into.counts == BatchCounts(3, 2, expected, {Reason.OCTETS: 2, Reason.MESSAGES: 0})


def test_without_a_setting_a_batch_is_divided_down_to_single_messages():
    into = batcher({}, max_messages=2)
    (batch,) = [sent for item in "ab" for sent in add(into, item)]
    assert [half.is_batch for half in into.split(batch)] == [False, False]


def test_delay_counts_from_the_first_message():
    into = batcher(delay=0.5)
    assert into.next_deadline() is None
    assert into.tick(100.0) == []
    add(into, "a", EU, now=1.0)
    add(into, "b", EU, now=1.4)
    assert into.next_deadline() == 1.5
    assert into.tick(1.49) == []
    assert out(into.tick(1.5)) == [(["a", "b"], EU, Reason.DELAY)]
    assert into.next_deadline() is None


def test_another_set_starts_the_delay_anew():
    into = batcher(delay=0.5)
    add(into, "a", EU, now=1.0)
    add(into, "b", now=1.4)
    assert into.next_deadline() == 1.9
    add(into, "c", now=7.0)
    assert out(into.tick(7.0)) == [(["b", "c"], (), Reason.DELAY)]


def test_flush_closes_and_an_empty_one_does_nothing():
    into = batcher()
    assert into.flush() == []
    add(into, "a", EU)
    assert len(into) == 1
    assert out(into.flush()) == [(["a"], EU, Reason.FLUSH)]
    assert into.flush() == []
    assert into.counts.entries == 1


def test_schema_and_transaction_close():
    into = batcher()
    add(into, "a", EU, kind=b"v1")
    assert out(add(into, "b", EU, kind=b"v2")) == [(["a"], EU, Reason.OTHER_KIND)]
    assert out(add(into, "c", EU)) == [(["b"], EU, Reason.OTHER_KIND)]


@pytest.mark.parametrize("why", ["has_delivery_time", "is_chunked"])
@pytest.mark.parametrize("setting", [SETTING, {}])
def test_what_is_never_batched_goes_out_alone_and_in_its_place(why, setting):
    into = batcher(setting)
    add(into, "a", EU)
    sent = add(into, "b", EU, **{why: True})
    assert [(batch.items, batch.reason) for batch in sent] == [(("a",), Reason.UNBATCHABLE), (("b",), Reason.UNBATCHABLE)]
    assert sent[1].header is None
    assert not sent[1].is_batch
    assert into.next_deadline() is None


def test_without_a_setting_batches_are_made_as_ever():
    into = batcher({}, max_messages=3)
    assert add(into, "a", EU) == add(into, "b", {"region": "us"}) == []
    assert out(add(into, "c")) == [(["a", "b", "c"], None, Reason.MESSAGES)]
    add(into, "d", EU)
    (single,) = into.flush()
    assert single.header is None
    assert not single.is_batch


def test_write_header_leaves_the_rest_alone():
    metadata = MessageMetadata(producer_name="p", sequence_id=4, publish_time=5, partition_key="k")
    write_header(metadata, Batch((1, 2, 3), EU, Reason.FLUSH))
    expected = MessageMetadata(producer_name="p", sequence_id=4, publish_time=5, partition_key="k", num_messages_in_batch=3)
    expected.properties.add(key="region", value="eu")
    assert metadata == expected


@given(st.dictionaries(st.text(st.characters(exclude_categories=("Cs",)), max_size=150), st.text("aä", max_size=150), max_size=4))
def test_header_bytes_are_what_the_header_grows_by(pairs):
    without = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    write_header(without, Batch((1,), (), Reason.FLUSH))
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    write_header(metadata, Batch((1,), tuple(pairs.items()), Reason.FLUSH))
    assert metadata.ByteSize() - without.ByteSize() == header_bytes(tuple(pairs.items()))
    assert header_bytes(None) == 0


# Whatever comes


MESSAGES = st.lists(st.tuples(PAIRS, st.integers(1, 12), st.sampled_from([False, False, False, True])), max_size=30)


@given(MESSAGES, SETTINGS, st.integers(1, 5), st.integers(1, 20), st.sampled_from([DEFAULT, JAVA_SINGLE]))
def test_batches_are_runs_of_equal_sets_in_order(messages, setting, most, data, profile):
    allowed = allowed_values(setting)
    into = UniformBatcher(allowed, max_messages=most, max_bytes=data, profile=profile)
    sent = []
    for number, (pairs, size, alone) in enumerate(messages):
        sent += into.add(number, pairs, size, 0.0, has_delivery_time=alone)
    sent += into.flush()
    assert [number for batch in sent for number in batch.items] == list(range(len(messages)))
    assert (into.counts.messages, into.counts.entries) == (len(messages), len(sent))
    assert into.counts.reasons.total() == len(sent)
    for batch in sent:
        rows = [messages[number] for number in batch.items]
        assert len({extracted_set(pairs, allowed) for pairs, _, _ in rows}) == 1
        assert len(rows) <= most
        assert len(rows) == 1 or sum(size for _, size, _ in rows) <= data
        assert len(rows) == 1 or not any(alone for _, _, alone in rows)
        if batch.is_batch and setting:
            assert batch.header == extracted_set(rows[0][0], allowed)
        else:
            assert batch.header is None
    for batch, following in itertools.pairwise(sent):
        differs = extracted_set(messages[batch.items[0]][0], allowed) != extracted_set(messages[following.items[0]][0], allowed)
        if batch.reason is Reason.OTHER_SET:
            assert differs
        elif batch.reason is Reason.OCTETS:
            assert (
                sum(messages[number][1] for number in (*batch.items, following.items[0])) > data
                or sum(messages[number][1] for number in batch.items) >= data
            )


@given(MESSAGES, st.integers(1, 5), st.integers(1, 20))
def test_an_empty_setting_and_one_that_allows_nothing_group_alike(messages, most, data):
    groups = []
    for setting in ({}, {"absent": ["x"]}):
        into = UniformBatcher(allowed_values(setting), max_messages=most, max_bytes=data)
        sent = [batch for pairs, size, alone in messages for batch in into.add(size, pairs, size, 0.0, is_chunked=alone)]
        groups.append([(batch.items, batch.reason) for batch in sent + into.flush()])
    assert groups[0] == groups[1]
