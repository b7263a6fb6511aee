"""Which messages of a batch are still open."""

from hypothesis import given, settings
from hypothesis import strategies as st

from refimpl.client import MessageId
from refimpl.client.batch_acks import BatchAcks
from refimpl.client.unpack import open_messages


@settings(max_examples=200)
@given(st.integers(1, 200), st.data())
def test_an_entry_is_complete_exactly_when_each_message_was_acknowledged(size: int, data: st.DataObject) -> None:
    acks = BatchAcks()
    words = data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4))
    bits = open_messages(words, size)
    assert acks.delivered((1, 1), size, bits) == bits
    still = {index for index in range(size) if bits >> index & 1}
    for index in data.draw(st.permutations(sorted(still))) if still else ():
        still.discard(index)
        assert acks.individual(MessageId(1, 1, index)) == (not still)
    assert len(acks) == (1 if not bits else 0)


def test_ack_sets_are_read_as_java_writes_them() -> None:
    assert open_messages([], 3) == 0b111
    assert open_messages([5], 3) == 0b101
    assert open_messages([-1, 1], 65) == (1 << 65) - 1
    assert open_messages([-(2**63)], 64) == 1 << 63
    assert open_messages([0], 3) == 0
