"""Which messages of a batch are open, in words of 64 bits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.wire.ack_set import ack_set, is_whole, read_ack_set


@given(st.integers(1, 300))
def test_all_messages_of_a_batch_are_whole(messages):
    assert is_whole(ack_set(range(messages)), messages)


@given(st.integers(1, 300), st.data())
def test_one_message_less_is_not_whole(messages, data):
    lacking = data.draw(st.integers(0, messages - 1))
    words = ack_set(index for index in range(messages) if index != lacking)
    assert not is_whole(words, messages)
    assert read_ack_set(words, messages) == frozenset(range(messages)) - {lacking}


@pytest.mark.parametrize(("words", "messages"), [([7], 2), ([3, 0], 2), ([-1], 65), ([1], 2**31 - 1), ([1], -5), ([-1], 0)])
def test_words_of_another_batch_are_not_whole(words, messages):
    assert not is_whole(words, messages)
