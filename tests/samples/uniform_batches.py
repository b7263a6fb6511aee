"""The example of PIP-191, and short ways to make entries as producers write them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from refimpl.client import ProducerOptions
from refimpl.proposals.uniform_batches import write_header
from refimpl.store import Entry
from refimpl.wire import SingleMessage, decode_frame, encode_batch, encode_payload
from refimpl.wire.pulsar_api_pb2 import KeyValue, MessageIdData, MessageMetadata, SingleMessageMetadata

SETTING = {"region": ["us", "eu"], "version": ["1", "2"]}

EXAMPLE = [
    ("m1", {"region": "eu"}),
    ("m2", {"region": "eu"}),
    ("m3", {"region": "eu", "version": "1", "tag": "a"}),
    ("m4", {"region": "eu", "version": "1"}),
    ("m5", {"region": "us", "version": "1"}),
    ("m6", {"region": "us", "version": "2"}),
    ("m7", {"region": "us", "version": "5"}),
    ("m8", {"region": "us", "version": "6"}),
]

TABLE = [
    ((("region", "eu"),), ["m1", "m2"]),
    ((("region", "eu"), ("version", "1")), ["m3", "m4"]),
    ((("region", "us"), ("version", "1")), ["m5"]),
    ((("region", "us"), ("version", "2")), ["m6"]),
    ((("region", "us"),), ["m7", "m8"]),
]
"""The five batches of the text; the last cell there means m8."""

CONSUMER = SimpleNamespace(
    consumer_id=1,
    name="c",
    subscription=SimpleNamespace(
        name="s", properties={}, topic=SimpleNamespace(message_id=lambda index: MessageIdData(ledgerId=7, entryId=index))
    ),
)


def asked(filters, index, data, messages, now):
    """What the filters of a subscription say of an entry for its consumer."""
    return filters.judge(CONSUMER, index, Entry(data, messages, messages > 1, 0), now)


_FRAMES = Path(__file__).with_name("golden_frames.txt")


def golden_entry(name):
    """What follows the command in a frame that a real client or broker wrote."""
    row = next(line for line in _FRAMES.read_text().splitlines() if line.startswith(f"{name} "))
    return decode_frame(bytes.fromhex(row.split()[-1])).payload_bytes


def key_values(properties):
    return [KeyValue(key=key, value=value) for key, value in dict(properties).items()]


def plain_entry(properties=(), body=b"x", **fields):
    """A message that is not in a batch."""
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, properties=key_values(properties), **fields)
    return encode_payload(metadata, body)


def encode(batch, producer_name="p", publish_time=1):
    """Write a batch as a producer does; its items are (sequence_id, text, properties)."""
    sequence_id, text, properties = batch.items[0]
    metadata = MessageMetadata(producer_name=producer_name, sequence_id=sequence_id, publish_time=publish_time)
    if not batch.is_batch:
        metadata.properties.extend(key_values(properties))
        return encode_payload(metadata, text.encode())
    write_header(metadata, batch)
    metadata.highest_sequence_id = batch.items[-1][0]
    singles = [
        SingleMessage(SingleMessageMetadata(properties=key_values(properties), sequence_id=number), text.encode())
        for number, text, properties in batch.items
    ]
    return encode_payload(metadata, encode_batch(singles))


def uniform(**choices: Any) -> ProducerOptions:
    return ProducerOptions(**{"restrict_same_values_in_batch_properties": SETTING, "batch_delay": 1.0, **choices})
