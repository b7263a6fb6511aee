"""What PIP-191 rejects, and what a header of a batch is not: a container that sorts by sets, and properties of its messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.client.unpack import unpack
from refimpl.proposals.uniform_batches import Reason, UniformBatcher, allowed_values, extracted_set
from refimpl.wire import decode_frame, encode_frame
from refimpl.wire.commands import wrap
from refimpl.wire.pulsar_api_pb2 import CommandMessage, MessageIdData
from tests.samples.uniform_batches import EXAMPLE, SETTING, TABLE, encode

REGIONS = st.lists(st.sampled_from(["us", "eu", "asia"]), max_size=12)


def sent(regions):
    into = UniformBatcher(allowed_values(SETTING), max_bytes=1000, delay=1.0)
    batches = [batch for number, region in enumerate(regions) for batch in into.add(number, {"region": region}, 1, 0.0)]
    return [batch.items for batch in batches + into.flush()]


def is_in_order(batches):
    numbers = [number for items in batches for number in items]
    return numbers == sorted(numbers)


def put_into_a_batch_for_each_set(batcher, item, properties, size, now):
    held = batcher.__dict__.setdefault("held", {})
    held.setdefault(extracted_set(properties, batcher._allowed), []).append(item)
    return []


def send_all_that_are_open(batcher, reason=Reason.FLUSH):
    return [batcher._sent(tuple(items), header, reason) for header, items in batcher.__dict__.pop("held", {}).items()]


@given(REGIONS)
def test_one_open_batch_keeps_the_order(regions):
    assert is_in_order(sent(regions))


def test_the_rejected_container_sends_messages_out_of_order(monkeypatch):
    """A batch for each set makes two entries where one open batch makes four, and the third message overtakes the second."""
    regions = ["eu", "us", "eu", "us"]
    assert sent(regions) == [(0,), (1,), (2,), (3,)]
    monkeypatch.setattr(UniformBatcher, "add", put_into_a_batch_for_each_set)
    monkeypatch.setattr(UniformBatcher, "flush", send_all_that_are_open)
    assert sent(regions) == [(0, 2), (1, 3)]
    assert not is_in_order(sent(regions))


def test_the_example_of_the_text_does_not_tell_the_two_apart(monkeypatch):
    """Its sets come one after the other, and none comes back."""
    monkeypatch.setattr(UniformBatcher, "add", put_into_a_batch_for_each_set)
    monkeypatch.setattr(UniformBatcher, "flush", send_all_that_are_open)
    into = UniformBatcher(allowed_values(SETTING), max_bytes=1000, delay=1.0)
    for text, properties in EXAMPLE:
        into.add(text, properties, 1, 0.0)
    assert [(batch.header, list(batch.items)) for batch in into.flush()] == TABLE


@pytest.mark.parametrize("region", ["eu", "asia"])
def test_a_message_of_a_batch_has_its_own_properties_only(region):
    """The header says what holds for the batch; a message without properties has none."""
    into = UniformBatcher(allowed_values({"region": ["eu"]}), max_bytes=1000, delay=1.0)
    own = {"region": region, "tag": "a"}
    into.add((0, "m0", own), own, 1, 0.0)
    (batch,) = into.flush()
    with_header = type(batch)((*batch.items, (1, "m1", {})), (("region", "eu"), ("source", "header")), batch.reason)
    message = CommandMessage(consumer_id=1, message_id=MessageIdData(ledgerId=1, entryId=0))
    frame = decode_frame(encode_frame(wrap(message), encode(with_header)))
    found = unpack(frame, "persistent://public/default/t", -1, 1000)
    assert [dict(one.properties) for one in found] == [own, {}]
