"""A set of topics has, after each change, the hash that a list of its members has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.indexes import topics_hash as module
from refimpl.indexes.topics_hash import EMPTY_HASH, TopicSet, topics_hash, utf16_order

LETTERS = st.sampled_from("ab,-\u00fc\ud7ff\ue000\uff5e\U00010000\U0010ffff")
NAMES = st.one_of(st.text(LETTERS, max_size=3), st.integers(0, 40).map("t-{}".format))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 3)


@given(st.lists(NAMES, max_size=20), st.lists(st.tuples(st.booleans(), NAMES, st.booleans()), max_size=60))
def test_hash_of_a_changing_set(first, changes):
    topics, expected = TopicSet(first), set(first)
    for is_new, name, is_asked in changes:
        if is_new:
            assert topics.add(name) is (name not in expected)
            expected.add(name)
        else:
            assert topics.remove(name) is (name in expected)
            expected.discard(name)
        if is_asked:
            assert topics.hash == topics_hash(expected)
        assert (name in topics) is is_new
    assert topics.hash == topics_hash(expected)
    assert list(topics) == sorted(expected, key=utf16_order)
    assert len(topics) == len(expected)


@given(st.sets(NAMES, max_size=30))
def test_a_set_that_is_emptied_has_the_hash_of_the_empty_list(names):
    topics = TopicSet(names)
    for name in names:
        topics.remove(name)
    assert topics.hash == EMPTY_HASH == topics_hash([])
    assert not topics


def test_order_is_that_of_utf16_code_units():
    names = ["\uff5e", "\U00010000", "\ud7ff"]
    assert list(TopicSet(names)) == ["\ud7ff", "\U00010000", "\uff5e"]
    assert TopicSet(names).hash == topics_hash(reversed(names))
    assert 1 not in TopicSet(names)
