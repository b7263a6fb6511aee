"""The client's producer with PIP-191: what it sends to a scripted broker."""

from __future__ import annotations

from typing import Any

import pytest

from refimpl.client import (
    InvalidMessage,
    MessageId,
    PartitionedProducer,
    ProducerOptions,
    ProducerStats,
    QueueFull,
    TimedOut,
)
from refimpl.proposals import profiles, uniform_batches
from refimpl.proposals.uniform_batches import Reason, header_bytes
from refimpl.wire import Frame, crc32c, decode_batch, decompress, encode_batch, is_batch, parse_payload
from refimpl.wire.pulsar_api_pb2 import (
    LZ4,
    NONE,
    SNAPPY,
    ZLIB,
    ZSTD,
    CompressionType,
)
from tests.fakes.producing import receipt, send
from tests.fakes.scripted_broker import ScriptedBroker
from tests.samples.uniform_batches import EXAMPLE, SETTING, TABLE, golden_entry, uniform

JAVA_SINGLE = profiles.DEFAULT.replacing(uniform_batches.PROPOSAL, uniform_batches.UniformBatchesProfile(batch_of_one="java_single"))
EU, US = {"region": "eu"}, {"region": "us"}


def producing(
    options: ProducerOptions | None = None, connected: dict[str, Any] | None = None, **choices: Any
) -> tuple[ScriptedBroker, PartitionedProducer]:
    broker = ScriptedBroker(**choices)
    creating = broker.begin(broker.core.create_producer, "t", options or uniform())
    broker.accept(**(connected or {}))
    broker.answer_partitions()
    broker.answer_lookup()
    broker.answer_producer(producer_name="java")
    return broker, creating.value()


def sends(broker: ScriptedBroker) -> list[Frame]:
    """Take all SEND frames."""
    found = []
    while broker.connection.has_output or broker.frames:
        found.append(broker.expect_frame("send"))
    return found


def flush(broker: ScriptedBroker, group: PartitionedProducer) -> None:
    broker.begin(lambda: broker.core.scheduler.spawn(group.flush()))


def texts(frame: Frame) -> list[str]:
    payload = frame.payload()
    metadata = payload.metadata
    body = decompress(payload.body, metadata.compression, metadata.uncompressed_size)
    if not is_batch(metadata):
        return [body.decode()]
    return [single.body.decode() for single in decode_batch(body, metadata.num_messages_in_batch)]


def header(frame: Frame) -> dict[str, str]:
    return {one.key: one.value for one in frame.payload().metadata.properties}


def send_example(broker: ScriptedBroker, group: PartitionedProducer) -> list[Any]:
    return [send(broker, group, text.encode(), properties=properties) for text, properties in EXAMPLE]


# The example of the text


def entry_by_hand(header: str, singles: list[Any]) -> str:
    data = bytes.fromhex(header)
    covered = len(data).to_bytes(4, "big") + data + encode_batch(singles)
    return (bytes.fromhex("0e01") + crc32c(covered).to_bytes(4, "big") + covered).hex()


def test_the_example_in_octets() -> None:
    """The headers are written by hand, the messages are those that a Java client wrote in one batch of eight."""
    stock = parse_payload(golden_entry("message-java-8-plain"))
    messages = decode_batch(stock.body, 8)
    start, eu, us = "0a046a617661 10{:02x} 18af89fadb9f34", "220c0a06726567696f6e12026575", "220c0a06726567696f6e12027573"
    one, two = "220c0a0776657273696f6e120131", "220c0a0776657273696f6e120132"
    by_hand = [
        entry_by_hand(start.format(0) + eu + "4830 5802 c00101", messages[:2]),
        entry_by_hand(start.format(2) + eu + one + "4856 5802 c00103", messages[2:4]),
        entry_by_hand(start.format(4) + us + one + "4826 5801 c00104", messages[4:5]),
        entry_by_hand(start.format(5) + us + two + "4826 5801 c00105", messages[5:6]),
        entry_by_hand(start.format(6) + us + "484c 5802 c00107", messages[6:]),
    ]
    broker, group = producing(wall_clock_offset=stock.metadata.publish_time / 1000)
    send_example(broker, group)
    flush(broker, group)
    frames = sends(broker)
    assert [(tuple(header(frame).items()), texts(frame)) for frame in frames] == TABLE
    assert [frame.payload_bytes.hex() for frame in frames] == by_hand
    commands = [frame.command.send for frame in frames]
    assert [(one.sequence_id, one.num_messages, one.highest_sequence_id) for one in commands] == [
        (0, 2, 1), (2, 2, 3), (4, 1, 0), (5, 1, 0), (6, 2, 7)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("profile", "option", "java"),
    [
        (profiles.DEFAULT, None, False),
        (profiles.AS_WRITTEN, None, False),
        (JAVA_SINGLE, None, True),
        (JAVA_SINGLE, "batch", False),
        (profiles.DEFAULT, "java_single", True),
    ],
)
def test_the_profile_says_how_a_batch_of_one_is_written_unless_the_producer_does(profile: Any, option: Any, java: bool) -> None:
    broker, group = producing(uniform(batch_of_one=option), profiles=profile)
    send_example(broker, group)
    broker.wait(1.0)
    frames = sends(broker)
    assert [is_batch(frame.payload().metadata) for frame in frames] == [True, True, not java, not java, True]
    assert [texts(frame) for frame in frames] == [texts for _, texts in TABLE]
    send(broker, group, b"m9", properties={"region": "us", "version": "5"})
    broker.wait(1.0)
    assert header(sends(broker)[0]) == ({"region": "us", "version": "5"} if java else {"region": "us"})


def test_singles_keep_all_their_properties_key_and_time() -> None:
    broker, group = producing()
    send(broker, group, b"a", properties={"tag": "x", "region": "eu"}, key="k", event_time=9)
    broker.wait(1.0)
    payload = broker.expect_frame("send").payload()
    (single,) = decode_batch(payload.body, 1)
    assert [(one.key, one.value) for one in single.metadata.properties] == [("tag", "x"), ("region", "eu")]
    assert (single.metadata.partition_key, single.metadata.event_time) == ("k", 9)
    assert (payload.metadata.partition_key, payload.metadata.HasField("event_time")) == ("k", False)


# The triggers


def test_other_triggers_stay() -> None:
    """Each batch goes out for its own reason, and at once."""
    broker, group = producing(uniform(batch_messages=3, batch_bytes=150, batch_delay=2.0))

    def sent() -> list[list[str]]:
        return [texts(frame) for frame in sends(broker)]

    for text in ("a", "b", "c"):
        assert sent() == []
        send(broker, group, text.encode(), properties=EU)
    assert sent() == [["a", "b", "c"]], "it has as many messages as are allowed"
    send(broker, group, b"d" * 50, properties=EU)
    send(broker, group, b"e" * 100, properties=EU)
    assert sent() == [["d" * 50]], "it would have more bytes than are allowed"
    broker.wait(1.9)
    assert sent() == []
    broker.wait(0.1)
    assert sent() == [["e" * 100]], "its first message has waited for two seconds"
    send(broker, group, b"f" * 150, properties=EU)
    assert sent() == [["f" * 150]], "it has as many bytes as are allowed"
    send(broker, group, b"g", properties=EU)
    send(broker, group, b"h", properties=US)
    assert sent() == [["g"]], "another set"
    send(broker, group, b"i")
    assert sent() == [["h"]], "nothing extracted"
    send(broker, group, b"j", deliver_at=77, properties=EU)
    assert sent() == [["i"], ["j"]], "what has a delivery time goes alone"
    send(broker, group, b"k", properties=EU)
    flush(broker, group)
    assert sent() == [["k"]], "flush"
    send(broker, group, b"l", properties=EU)
    broker.begin(group.close)
    assert sent() == [["l"]], "the producer closes"
    assert group.stats.reasons == {
        Reason.MESSAGES: 1, Reason.OCTETS: 2, Reason.DELAY: 1, Reason.OTHER_SET: 2, Reason.UNBATCHABLE: 2, Reason.FLUSH: 2
    }  # fmt: skip


def test_a_new_batch_counts_its_delay_anew() -> None:
    broker, group = producing()
    send(broker, group, b"a", properties=EU)
    broker.wait(0.7)
    send(broker, group, b"b", properties=US)
    assert [texts(frame) for frame in sends(broker)] == [["a"]]
    broker.wait(0.9)
    assert sends(broker) == []
    broker.wait(0.1)
    assert [texts(frame) for frame in sends(broker)] == [["b"]]


@pytest.mark.parametrize("setting", [SETTING, {}])
def test_messages_of_another_schema_or_transaction_begin_a_new_batch(setting: Any) -> None:
    broker, group = producing(uniform(restrict_same_values_in_batch_properties=setting))
    kinds: list[dict[str, Any]] = [
        {},
        {"schema_version": b"\1"},
        {"schema_version": b"\2"},
        {"transaction": (3, 2**63)},
        {"transaction": (4, 2**63)},
        {},
    ]
    for number, kind in enumerate(kinds):
        for half in "ab":
            send(broker, group, f"{number}{half}".encode(), properties=EU, **kind)
    broker.wait(1.0)
    frames = sends(broker)
    assert [texts(frame) for frame in frames] == [[f"{number}a", f"{number}b"] for number in range(6)]
    headers = [frame.payload().metadata for frame in frames]
    assert [one.schema_version for one in headers] == [b"", b"\1", b"\2", b"", b"", b""]
    for one in (headers[3], frames[3].command.send):
        assert (one.txnid_most_bits, one.txnid_least_bits) == (3, 2**63)
    assert [frame.command.send.HasField("txnid_most_bits") for frame in frames] == [False, False, False, True, True, False]
    assert group.stats.reasons == {Reason.OTHER_KIND: 5, Reason.DELAY: 1}


def test_an_empty_setting_writes_batches_as_ever() -> None:
    seen = []
    for options in (ProducerOptions(batch_delay=1.0), uniform(restrict_same_values_in_batch_properties={})):
        broker, group = producing(options)
        send_example(broker, group)
        broker.wait(1.0)
        send(broker, group, b"alone", properties=EU)
        broker.wait(1.0)
        seen.append([frame.payload_bytes for frame in sends(broker)])
    assert seen[0] == seen[1]
    batch, alone = (parse_payload(data).metadata for data in seen[0])
    assert (batch.num_messages_in_batch, list(batch.properties)) == (8, [])
    assert (is_batch(alone), [one.value for one in alone.properties]) == (False, ["eu"])


def test_without_batching_the_setting_does_nothing() -> None:
    broker, group = producing(uniform(batching=False))
    send_example(broker, group)
    frames = sends(broker)
    assert [header(frame) for frame in frames] == [properties for _, properties in EXAMPLE]
    assert not any(is_batch(frame.payload().metadata) for frame in frames)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"restrict_same_values_in_batch_properties": {"": ["x"]}}, "empty property name"),
        ({"restrict_same_values_in_batch_properties": {"region": "us"}}, r"\['region'\] is a list of values, not the text 'us'"),
        ({"restrict_same_values_in_batch_properties": {"region": [1]}}, r"\['region'\] is a list of texts, not \[1\]"),
        ({"restrict_same_values_in_batch_properties": {"region": b"us"}}, r"\['region'\] is a list of texts"),
        ({"restrict_same_values_in_batch_properties": {"region": None}}, r"\['region'\] is a list of texts, not None"),
        ({"restrict_same_values_in_batch_properties": {7: ["us"]}}, "7 for a property name"),
        ({"restrict_same_values_in_batch_properties": ["region"]}, "is a map of property names to lists of values"),
        ({"batcher": "key_based"}, "restrict_same_values_in_batch_properties can't be combined with key-based batching"),
        ({"batcher": "key_based", "restrict_same_values_in_batch_properties": {}}, "batcher 'key_based' is not supported"),
        ({"batch_of_one": "single"}, "batch_of_one is 'batch' or 'java_single', not 'single'"),
        ({"batch_delay": -1.0}, "batch_delay"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_sent(choices: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        uniform(**choices)


# What else a producer does, as before


@pytest.mark.parametrize("compression", [NONE, LZ4, ZLIB, ZSTD, SNAPPY], ids=CompressionType.Name)
def test_the_header_is_readable_whatever_the_compression(compression: int) -> None:
    broker, group = producing(uniform(compression=compression))
    send_example(broker, group)
    broker.wait(1.0)
    frames = sends(broker)
    assert {frame.payload().metadata.compression for frame in frames} == {compression}
    assert [(tuple(header(frame).items()), texts(frame)) for frame in frames] == TABLE


def test_a_batch_that_is_too_large_with_its_header_is_divided() -> None:
    """The batcher does not count the header, which may be large."""
    value = "v" * 200
    options = uniform(restrict_same_values_in_batch_properties={"p": [value]}, batch_bytes=1000)
    broker, group = producing(options, {"max_message_size": 1000})
    sendings = [send(broker, group, b"x" * 60, properties={"p": value}) for _ in range(7)]
    broker.wait(1.0)
    frames = sends(broker)
    assert all(len(frame.payload_bytes or b"") <= 1000 for frame in frames)
    assert sum(len(texts(frame)) for frame in frames) == 7
    assert {tuple(header(frame)) for frame in frames} == {("p",)}
    assert group.stats.entries == len(frames)
    for frame in frames:
        receipt(broker, frame.command.send.sequence_id, entry=frame.command.send.sequence_id)
    assert [sending.value().entry_id + sending.value().batch_index for sending in sendings] == list(range(7))
    too_large = send(broker, group, b"x" * 900, properties={"p": value})
    fits = send(broker, group, b"x", properties={"p": value})
    broker.wait(1.0)
    assert isinstance(too_large.error, InvalidMessage)
    assert not fits.done
    assert [texts(frame) for frame in sends(broker)] == [["x"]]


def test_a_thousand_messages_of_one_set_are_one_batch() -> None:
    broker, group = producing()
    for number in range(1001):
        send(broker, group, b"%d" % number, properties={**EU, "n": str(number)})
        if number == 999:
            assert [frame.command.send.num_messages for frame in sends(broker)] == [1000]
            receipt(broker, 0)
    broker.wait(1.0)
    assert [texts(frame) for frame in sends(broker)] == [["1000"]]


def test_sequence_ids_receipts_and_limits() -> None:
    broker, group = producing(uniform(max_pending_messages=8, send_timeout=5.0))
    sendings = send_example(broker, group)
    with pytest.raises(QueueFull):
        send(broker, group, properties=EU)
    broker.wait(1.0)
    frames = sends(broker)
    for entry, frame in enumerate(frames[:3]):
        receipt(broker, frame.command.send.sequence_id, entry)
    ids = [sending.value() for sending in sendings[:5]]
    assert ids == [MessageId(3, 0, 0), MessageId(3, 0, 1), MessageId(3, 1, 0), MessageId(3, 1, 1), MessageId(3, 2, 0)]
    assert [one.batch_size for one in ids] == [2, 2, 2, 2, 1]
    broker.cut()
    broker.wait(0.2)
    broker.accept()
    broker.answer_lookup()
    broker.answer_producer(producer_name="java")
    assert [frame.payload_bytes for frame in sends(broker)] == [frame.payload_bytes for frame in frames[3:]]
    assert group.stats.entries == 5, "what is sent again counts once"
    broker.wait(5.0)
    assert [type(sending.error) for sending in sendings[5:]] == [TimedOut] * 3


def test_the_price_is_reported() -> None:
    broker, group = producing()
    assert group.stats == ProducerStats()
    assert (group.stats.messages_per_entry, group.stats.bytes_per_message, group.stats.header_bytes_per_message) == (0, 0, 0)
    send_example(broker, group)
    assert group.stats.messages == 6, "two wait for others"
    broker.wait(1.0)
    frames = sends(broker)
    stats = group.stats
    assert (stats.messages, stats.entries) == (8, 5)
    assert stats.entry_bytes == sum(len(frame.payload_bytes or b"") for frame in frames)
    bodies = sum(len(frame.payload().body) for frame in frames)
    assert stats.header_bytes == stats.entry_bytes - bodies
    assert stats.extracted_bytes == sum(header_bytes(header) for header, _ in TABLE)
    assert stats.messages_per_entry == 1.6
    assert stats.header_bytes_per_message == stats.header_bytes / 8
    assert stats.bytes_per_message == stats.entry_bytes / 8
    plain, others = producing(ProducerOptions(batch_delay=1.0))
    send_example(plain, others)
    plain.wait(1.0)
    assert others.stats.entries == 1
    assert others.stats.extracted_bytes == 0
    assert others.stats.header_bytes < stats.header_bytes
