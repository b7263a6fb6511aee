"""The pure rules of PIP-145, with the vectors that real brokers gave."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.indexes.topic_patterns import compile_pattern
from refimpl.names import is_system_topic, namespace_of, partitioned_topic_name
from refimpl.proposals.topic_list import AS_WRITTEN, DEFAULT, PROFILES, pattern_length, topics_hash, without_domain
from refimpl.proposals.topic_list.rules import matched_name, visible_topics

PATTERN_TOPICS = [f"persistent://my-property/my-ns/pattern-topic-{n}" for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ([], "00000000"),
        (PATTERN_TOPICS, "90d4a04a"),
        (PATTERN_TOPICS[::-1], "90d4a04a"),
        (PATTERN_TOPICS[:1], "0d0602ed"),
        (["persistent://tenant/ns/topic1"], "fd59a01d"),
        (["persistent://tenant/ns/topic2", "persistent://tenant/ns/topic1"], "21ed405c"),
        (["topic://tenant/ns/t1"], "195271ae"),
        (["persistent://public/default/tp-partition-0", "persistent://public/default/tp-partition-1"], "daa0d1e6"),
        (["persistent://t/n/\uff5e", "persistent://t/n/\U00010000"], "18ec43c1"),
        (["persistent://public/default/foo-1"], "6838ac45"),
        (["persistent://public/default/foo-1", "persistent://public/default/foo-2"], "f6c271e4"),
        (["persistent://public/default/foo-1"] * 2, "023121f7"),
        (["persistent://public/w3v/\uff5e", "persistent://public/w3v/\U00010000"], "b4adb558"),
    ],
)
def test_topics_hash_vectors(topics, expected):
    assert topics_hash(topics) == expected


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=8), max_size=8), st.randoms())
def test_topics_hash_does_not_depend_on_the_order(topics, random):
    shuffled = list(topics)
    random.shuffle(shuffled)
    assert topics_hash(shuffled) == topics_hash(topics)


@pytest.mark.parametrize(
    ("topic", "base"),
    [
        ("persistent://t/n/a-partition-0", "persistent://t/n/a"),
        ("persistent://t/n/a-partition-10", "persistent://t/n/a"),
        ("persistent://t/n/a-partition-01", "persistent://t/n/a-partition-01"),
        ("persistent://t/n/a-partition--1", "persistent://t/n/a-partition--1"),
        ("persistent://t/n/a-partition-x", "persistent://t/n/a-partition-x"),
        ("persistent://t/n/a-partition-1-partition-2", "persistent://t/n/a-partition-1"),
    ],
)
def test_partitioned_topic_name(topic, base):
    assert partitioned_topic_name(topic) == base


@pytest.mark.parametrize(
    ("pattern", "rest"),
    [
        ("a/b/.*", "a/b/.*"),
        ("persistent://a/b/.*", "a/b/.*"),
        ("non-persistent://a/b/.*", "a/b/.*"),
        (r"^\Qpersistent://a/b/c\E$", r"^\Qa/b/c\E$"),
        ("^persistent://a/b/c$", "^a/b/c$"),
        ("persistent://a/b/c://d", "a/b/c"),
    ],
)
def test_without_domain(pattern, rest):
    assert without_domain(pattern) == rest


@pytest.mark.parametrize(
    ("pattern", "head"),
    [
        ("topic://a/b/.*", "topic"),
        ("PERSISTENT://a/b/c", "PERSISTENT"),
        ("(persistent|non-persistent)://a/b/.*", r"\(persistent\|non-persistent\)"),
        ("://x", ""),
        ("xx://", "xx"),
    ],
)
def test_domain_that_no_pattern_may_have(pattern, head):
    with pytest.raises(ValueError, match=rf"^Does not support topic domain: {head}$"):
        without_domain(pattern)


@pytest.mark.parametrize("pattern", ["persistent://", "^non-persistent://", "persistent://://x"])
def test_domain_with_nothing_behind_it(pattern):
    with pytest.raises(ValueError, match="No pattern behind the topic domain"):
        without_domain(pattern)


def test_pattern_length_counts_utf16_code_units():
    assert pattern_length("ab") == 2
    assert pattern_length("\U00010000") == 2
    assert pattern_length("\uff5e") == 1


@pytest.mark.parametrize(
    ("topic", "system"),
    [
        ("persistent://a/b/__change_events", True),
        ("persistent://a/b/__change_events-partition-0", True),
        ("persistent://a/b/__transaction_buffer_snapshot_segments", True),
        ("persistent://a/b/t-sub__transaction_pending_ack", True),
        ("persistent://pulsar/system/transaction_coordinator_assign-partition-3", True),
        ("persistent://a/b/__my", False),
        ("persistent://a/b/t", False),
        ("persistent://a/b/transaction_coordinator_assign", False),
        ("persistent://pulsar/system/__transaction_log_0", True),
        ("persistent://pulsar/system/mine", False),
    ],
)
def test_is_system_topic(topic, system):
    assert is_system_topic(topic) is system


@pytest.mark.parametrize(
    ("topic", "name", "namespace"),
    [
        ("persistent://t/n/a", "t/n/a", "t/n"),
        ("non-persistent://t/n/a", "t/n/a", "t/n"),
        ("persistent://t/n/a-partition-3", "t/n/a", "t/n"),
        ("persistent://t/n/a-partition-03", "t/n/a-partition-03", "t/n"),
        ("persistent://t/n/a/b", "t/n/a/b", "t/n"),
    ],
)
def test_what_a_pattern_is_compared_with(topic, name, namespace):
    assert (matched_name(topic), namespace_of(topic)) == (name, namespace)


def test_visible_topics_keep_their_order():
    topics = ["persistent://t/n/b", "persistent://t/n/__change_events", "persistent://t/n/a-partition-1", "persistent://t/n/a-partition-0"]
    assert visible_topics(topics) == [topics[0], *topics[2:]]
    assert visible_topics(topics, compile_pattern("t/n/a")) == topics[2:]
    assert visible_topics(topics, compile_pattern("t/n/a-partition-.*")) == []


def test_every_field_of_the_profiles_differs():
    assert PROFILES == {"default": DEFAULT, "as-written": AS_WRITTEN}
    assert all(getattr(DEFAULT, name) != getattr(AS_WRITTEN, name) for name in DEFAULT.__dataclass_fields__)
