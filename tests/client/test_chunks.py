"""Messages in chunks: put together by consumers, and sent by producers."""

import pytest

from refimpl.client import InvalidMessage, Message, MessageId, ProducerOptions
from refimpl.client.chunks import LARGEST, Chunks
from refimpl.wire import compress
from refimpl.wire.pulsar_api_pb2 import LZ4, CommandSubscribe, MessageMetadata
from tests.fakes.consuming import consuming, take
from tests.fakes.producing import producing, receipt, send
from tests.fakes.scripted_broker import ScriptedBroker


def chunk(entry: int, number: int, body: bytes = b"x", *, uuid: str = "p-1", of: int = 3) -> Message:
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, uuid=uuid, chunk_id=number, num_chunks_from_msg=of)
    return Message(MessageId(1, entry), "t", body, {}, None, 1, 0, "p", 1, 0, metadata)


def deliver(broker: ScriptedBroker, entry: int, number: int, body: bytes, **header: object) -> None:
    broker.message(entry, body, header={"uuid": "p-1", "chunk_id": number, "num_chunks_from_msg": 3, **header})


def test_the_last_chunk_has_the_message_and_names_all_entries() -> None:
    chunks = Chunks(lambda _: None)
    assert [chunks.add(chunk(entry, number, b"%d" % number), 0) for entry, number in ((4, 0), (7, 1))] == [None, None]
    whole = chunks.add(chunk(9, 2, b"2"), 0)
    assert whole is not None
    assert (whole.payload, [one.position for one in whole.id.entries]) == (b"012", [(1, 4), (1, 7), (1, 9)])


@pytest.mark.parametrize("numbers", [(1, 2), (0, 2), (0, 0, 2), (0, 1, 1), (2,)])
def test_chunks_without_all_before_them_are_no_message(numbers: tuple[int, ...]) -> None:
    chunks = Chunks(lambda _: None)
    assert [chunks.add(chunk(entry, number), 0) for entry, number in enumerate(numbers)] == [None] * len(numbers)


def test_a_message_is_given_up_after_a_minute_and_when_ten_others_are_incomplete() -> None:
    given_up: list[MessageId] = []
    chunks = Chunks(given_up.append)
    for number in range(12):
        chunks.add(chunk(number, 0, uuid=f"p-{number}"), number)
    assert [one.entry_id for one in given_up] == [0, 1]
    chunks.add(chunk(20, 0, uuid="p-20"), 64.5)
    assert [one.entry_id for one in given_up] == [0, 1, 2, 3, 4]


def test_incomplete_messages_have_room_for_so_many_bytes_together() -> None:
    given_up: list[MessageId] = []
    chunks = Chunks(given_up.append)
    chunks.add(chunk(0, 0, bytes(LARGEST // 2), uuid="p-0"), 0)
    chunks.add(chunk(1, 0, bytes(LARGEST // 2), uuid="p-1"), 0)
    assert [one.entry_id for one in given_up] == [0]
    assert [chunks.add(chunk(2, number, uuid="p-0"), 0) for number in (1, 2)] == [None, None]
    chunks.add(chunk(3, 1, uuid="p-1"), 0)
    assert chunks.add(chunk(4, 2, uuid="p-1"), 0) is not None


def test_what_says_that_it_is_a_chunk_of_nothing_is_a_message() -> None:
    broker, group = consuming()
    body = compress(b"message", LZ4)
    broker.message(0, body, header={"num_chunks_from_msg": 3, "compression": LZ4, "uncompressed_size": 7})
    assert [message.payload for message in take(broker, group)] == [b"message"]


def test_a_consumer_acknowledges_and_gives_back_all_entries_and_their_permits() -> None:
    broker, group = consuming(type=CommandSubscribe.Shared, queue_size=2, negative_ack_delay=1.0)
    body = compress(b"012", LZ4)
    for number in range(3):
        deliver(broker, number, number, body[number : number + 1] if number < 2 else body[2:], compression=LZ4, uncompressed_size=3)
        if number < 2:
            assert broker.expect("flow").messagePermits == 1
    (message,) = take(broker, group)
    assert message.payload == b"012"
    broker.expect("flow")
    with broker.core.entered(broker.now):
        group.negative_acknowledge(message)
    broker.wait(1.0)
    asked = broker.expect("redeliverUnacknowledgedMessages")
    assert [one.entryId for one in asked.message_ids] == [0, 1, 2]
    with broker.core.entered(broker.now):
        group.acknowledge(message)
    assert [one.entryId for one in broker.expect("ack").message_id] == [0, 1, 2]


def test_a_message_that_can_not_be_decompressed_is_acknowledged_with_the_reason() -> None:
    broker, group = consuming()
    for number in range(3):
        deliver(broker, number, number, b"x", compression=LZ4, uncompressed_size=3)
    ack = broker.expect("ack")
    assert ([one.entryId for one in ack.message_id], ack.HasField("validation_error"), take(broker, group)) == ([0, 1, 2], True, [])


def sent_chunks(broker: ScriptedBroker, number: int, limit: int = 300) -> list[tuple[int, MessageMetadata, bytes]]:
    frames = [broker.expect_frame("send") for _ in range(number)]
    assert all(frame.command.send.is_chunk and len(frame.payload_bytes or b"") <= limit for frame in frames)
    return [(frame.command.send.sequence_id, frame.payload().metadata, frame.payload().body) for frame in frames]


def test_a_producer_splits_what_is_too_large_and_has_the_id_of_the_last_chunk() -> None:
    broker, group = producing(ProducerOptions(batching=False, chunking=True), max_message_size=300)
    small, large = send(broker, group, b"small"), send(broker, group, b"v" * 700)
    frame = broker.expect_frame("send")
    assert (frame.command.send.HasField("is_chunk"), frame.payload().metadata.HasField("uuid")) == (False, False)
    chunks = sent_chunks(broker, 3)
    assert [(number, metadata.uuid, metadata.chunk_id) for number, metadata, _ in chunks] == [(1, "p-1-1", index) for index in range(3)]
    assert {(metadata.num_chunks_from_msg, metadata.total_chunk_msg_size) for _, metadata, _ in chunks} == {(3, 700)}
    assert b"".join(body for _, _, body in chunks) == b"v" * 700
    receipt(broker, 0)
    for entry in (6, 7):
        receipt(broker, 1, entry)
    assert (small.done, large.done) == (True, False)
    receipt(broker, 1, 9)
    assert [one.position for one in large.value().entries] == [(3, 6), (3, 7), (3, 9)]


def test_all_chunks_are_sent_again_on_a_new_connection() -> None:
    broker, group = producing(ProducerOptions(batching=False, chunking=True), max_message_size=300)
    large = send(broker, group, b"v" * 700)
    sent_chunks(broker, 3)
    receipt(broker, 0)
    broker.cut()
    broker.wait(1.0)
    broker.accept(max_message_size=300)
    broker.answer_lookup()
    broker.answer_producer()
    sent_chunks(broker, 3)
    for entry in (6, 7, 8):
        assert not large.done
        receipt(broker, 0, entry)
    assert [one.position for one in large.value().entries] == [(3, 6), (3, 7), (3, 8)]


def test_a_message_in_chunks_is_not_batched_and_comes_behind_the_open_batch() -> None:
    broker, group = producing(ProducerOptions(batch_delay=1.0, chunking=True), max_message_size=600)
    for body in (b"first", b"v" * 700, b"last"):
        send(broker, group, body)
    assert broker.expect_frame("send").payload().metadata.num_messages_in_batch == 1
    assert [metadata.chunk_id for _, metadata, _ in sent_chunks(broker, 2, 600)] == [0, 1]
    assert broker.sent() == []
    broker.wait(1.0)
    assert broker.expect_frame("send").command.send.sequence_id == 2


def test_a_message_whose_header_leaves_no_room_for_a_chunk_is_refused() -> None:
    broker, group = producing(ProducerOptions(batching=False, chunking=True), max_message_size=300)
    large = send(broker, group, b"v" * 700, properties={"a": "x" * 400})
    assert broker.sent() == []
    assert isinstance(large.error, InvalidMessage)
