"""A producer against a scripted broker: batches, receipts, reconnects, refusals."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refimpl.client import (
    BrokerRefused,
    ClientOptions,
    Closed,
    InvalidMessage,
    MessageId,
    PartitionedProducer,
    ProducerOptions,
    ProtocolError,
    QueueFull,
    TimedOut,
)
from refimpl.client.partitioned_producer import key_hash
from refimpl.client.scheduler import Process
from refimpl.wire import decode_batch, decompress
from refimpl.wire.pulsar_api_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD, CommandProducer, CompressionType, ProducerAccessMode
from tests.fakes.producing import SINGLE, producing, receipt, send
from tests.fakes.scripted_broker import TOPIC, ScriptedBroker


def test_a_single_message_goes_out_at_once_with_all_that_was_said_about_it() -> None:
    broker, group = producing()
    sending = send(broker, group, b"hello", properties={"a": "é"}, key="k", event_time=9)
    frame = broker.expect_frame("send")
    command, payload = frame.command.send, frame.payload()
    assert (command.producer_id, command.sequence_id, command.num_messages) == (0, 0, 1)
    assert payload.checksum_valid
    metadata = payload.metadata
    assert (metadata.producer_name, metadata.sequence_id, metadata.partition_key, metadata.event_time) == ("p-1", 0, "k", 9)
    assert [(pair.key, pair.value) for pair in metadata.properties] == [("a", "é")]
    assert (metadata.uncompressed_size, metadata.HasField("num_messages_in_batch"), payload.body) == (5, False, b"hello")
    assert not sending.done
    receipt(broker, 0, highest_sequence_id=2**64 - 1)  # core.client.highest-sequence-optional
    assert sending.value() == MessageId(3, 5)
    assert str(sending.value()) == "3:5:-1"


@pytest.mark.parametrize("compression", [NONE, LZ4, ZLIB, ZSTD, SNAPPY], ids=CompressionType.Name)
def test_messages_of_one_delay_make_one_batch(compression: int) -> None:
    broker, group = producing(ProducerOptions(batch_delay=0.01, compression=compression))
    sendings = [send(broker, group, b"m%d" % i * 50, properties={"i": str(i)}, key=f"k{i}") for i in range(3)]
    assert broker.sent() == []
    broker.wait(0.01)
    frame = broker.expect_frame("send")
    command, payload = frame.command.send, frame.payload()
    assert (command.sequence_id, command.num_messages, command.highest_sequence_id) == (0, 3, 2)
    metadata = payload.metadata
    assert (metadata.num_messages_in_batch, metadata.compression, metadata.partition_key) == (3, compression, "k0")
    body = decompress(payload.body, metadata.compression, metadata.uncompressed_size)
    singles = decode_batch(body, 3)
    assert [single.body for single in singles] == [b"m%d" % i * 50 for i in range(3)]
    assert [single.metadata.sequence_id for single in singles] == [0, 1, 2]
    assert [single.metadata.partition_key for single in singles] == ["k0", "k1", "k2"]
    receipt(broker, 0)
    assert [sending.value() for sending in sendings] == [MessageId(3, 5, index) for index in range(3)]
    assert sendings[1].value().batch_size == 3


def test_a_batch_goes_out_when_it_is_full() -> None:
    broker, group = producing(ProducerOptions(batch_delay=9.0, batch_messages=2, batch_bytes=100))
    for size in (1, 1, 1, 90, 200, 1):
        send(broker, group, b"x" * size)
    frames = [broker.expect_frame("send") for _ in range(4)]
    assert [frame.command.send.num_messages for frame in frames] == [2, 1, 1, 1]
    assert broker.sent() == []
    broker.wait(9.0)
    assert broker.sent() == ["send"]


def test_a_delayed_message_is_not_batched_and_keeps_its_place() -> None:
    broker, group = producing(ProducerOptions(batch_delay=9.0))
    send(broker, group, b"a")
    send(broker, group, b"b", deliver_at=77)
    first, second = broker.expect_frame("send"), broker.expect_frame("send")
    assert (first.payload().body, second.payload().body, second.payload().metadata.deliver_at_time) == (b"a", b"b", 77)


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=40), st.integers(1, 8), st.integers(1, 500))
def test_every_message_is_sent_once_and_in_order_however_batches_are_cut(payloads: list[bytes], most: int, size: int) -> None:
    broker, group = producing(ProducerOptions(batch_messages=most, batch_bytes=size))
    sendings = [send(broker, group, payload) for payload in payloads]
    broker.wait(1.0)
    seen: list[bytes] = []
    for entry in range(len(payloads)):
        if not broker.frames and broker.connection.has_output is False:
            break
        frame = broker.expect_frame("send")
        payload = frame.payload()
        assert frame.command.send.sequence_id == len(seen)
        count = frame.command.send.num_messages
        assert count <= most
        seen += [single.body for single in decode_batch(payload.body, count)] if count > 1 else [payload.body]
        receipt(broker, frame.command.send.sequence_id, entry)
    assert seen == payloads
    ids = [sending.value() for sending in sendings]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_what_has_no_receipt_is_sent_again_after_a_reconnect() -> None:
    broker, group = producing()
    sendings = [send(broker, group, b"%d" % i) for i in range(3)]
    assert broker.sent() == ["send"] * 3
    receipt(broker, 0)
    broker.cut()
    sendings.append(send(broker, group, b"3"))
    assert broker.dialled() == []
    broker.wait(0.1)
    broker.accept()
    broker.answer_lookup()
    request = broker.answer_producer()
    assert (request.producer_id, request.producer_name, request.epoch, request.user_provided_producer_name) == (0, "p-1", 1, False)
    assert [broker.expect_frame("send").payload().body for _ in range(3)] == [b"1", b"2", b"3"]
    for sequence_id in (1, 2, 3):
        receipt(broker, sequence_id)
    assert all(sending.done and sending.error is None for sending in sendings)


def test_attempts_to_reconnect_are_further_and_further_apart() -> None:
    broker, _ = producing()
    broker.cut()
    times = []
    for _ in range(12):
        while not (connections := broker.dialled()):
            broker.wait(0.01)
        times.append(broker.now)
        connections[0].eof(broker.now, "refused")
    gaps = [after - before for before, after in itertools.pairwise(times)]
    for gap, nominal in zip(gaps, [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0, 30.0], strict=True):
        assert 0.9 * nominal - 0.02 <= gap <= nominal + 0.02


def test_a_producer_that_the_broker_closes_looks_the_topic_up_again() -> None:
    broker, group = producing()
    send(broker, group)
    assert broker.sent() == ["send"]
    broker.send("close_producer", producer_id=0, request_id=2**64 - 1)
    assert broker.sent() == []
    broker.wait(0.1)
    broker.answer_lookup()
    broker.answer_producer()
    assert broker.sent() == ["send"]


def test_a_named_producer_goes_on_with_its_sequence() -> None:
    broker, group = producing(ProducerOptions(name="mine", batching=False), producer_name="mine", last_sequence_id=41)
    send(broker, group)
    assert broker.expect("send").sequence_id == 42


def test_receipts_out_of_turn_end_the_connection_and_old_ones_are_ignored() -> None:
    broker, group = producing()
    for _ in range(2):
        send(broker, group)
    receipt(broker, 0)
    receipt(broker, 0)
    assert not broker.connection.closing
    receipt(broker, 9)
    assert isinstance(broker.connection.reason, ProtocolError)


def test_a_skipped_receipt_ends_the_connection() -> None:
    broker, group = producing()
    sendings = [send(broker, group) for _ in range(2)]
    receipt(broker, 1)
    assert isinstance(broker.connection.reason, ProtocolError)
    assert not any(sending.done for sending in sendings)


def test_a_refused_message_fails_alone() -> None:
    broker, group = producing()
    first, second = send(broker, group), send(broker, group)
    broker.send("send_error", producer_id=0, sequence_id=0, error="NotAllowedError", message="no")
    receipt(broker, 1)
    assert isinstance(first.error, BrokerRefused)
    assert second.error is None


@pytest.mark.parametrize("error", ["ChecksumError", "PersistenceError", "ServiceNotReady"])
def test_a_message_that_could_not_be_stored_now_is_sent_again(error: str) -> None:
    broker, group = producing()
    sending = send(broker, group)
    assert broker.sent() == ["send"]
    broker.send("send_error", producer_id=0, sequence_id=0, error=error, message="later")
    broker.succeed("close_producer")
    broker.wait(0.1)
    broker.answer_lookup()
    assert broker.answer_producer().epoch == 1
    assert broker.sent() == ["send"]
    receipt(broker, 0)
    assert sending.value() == MessageId(3, 5)


def test_a_terminated_topic_ends_the_producer() -> None:
    broker, group = producing()
    sending = send(broker, group)
    broker.send("send_error", producer_id=0, sequence_id=0, error="TopicTerminatedError", message="over")
    assert isinstance(sending.error, BrokerRefused)
    with pytest.raises(BrokerRefused, match="TopicTerminatedError"):
        send(broker, group)


def test_a_message_above_the_limit_is_not_sent() -> None:
    broker, group = producing(max_message_size=1000)
    assert isinstance(send(broker, group, b"x" * 1000).error, InvalidMessage)
    fits = send(broker, group, b"x" * 900)
    assert broker.sent() == ["send"]
    broker.cut()
    broker.wait(0.1)
    broker.accept(max_message_size=500)
    broker.answer_lookup()
    broker.answer_producer()
    assert isinstance(fits.error, InvalidMessage)
    assert broker.sent() == []


def test_no_more_messages_wait_than_are_allowed() -> None:
    broker, group = producing(ProducerOptions(batching=False, max_pending_messages=2))
    for _ in range(2):
        send(broker, group)
    with pytest.raises(QueueFull):
        send(broker, group)
    room = broker.begin(group.members[0].room)
    assert not room.done
    receipt(broker, 0)
    assert room.done
    send(broker, group)


def test_a_message_without_a_receipt_fails_in_time() -> None:
    broker, group = producing(ProducerOptions(send_timeout=5.0))
    first = send(broker, group)
    broker.wait(3.0)
    broker.cut()
    second = send(broker, group)
    broker.wait(2.0)
    assert isinstance(first.error, TimedOut)
    assert not second.done
    broker.wait(3.1)
    assert isinstance(second.error, TimedOut)
    assert broker.core.next_deadline() is not None


def test_flush_waits_for_every_receipt() -> None:
    broker, group = producing(ProducerOptions(batch_delay=60.0))
    send(broker, group)
    flushing = broker.begin(lambda: broker.core.scheduler.spawn(group.flush()))
    assert broker.sent() == ["send"]
    assert not flushing.done
    receipt(broker, 0)
    assert flushing.done


def test_closing_waits_for_receipts_and_for_the_broker() -> None:
    broker, group = producing(ProducerOptions(batch_delay=60.0))
    sending = send(broker, group)
    closing = broker.begin(group.close)
    assert broker.sent() == ["send"]
    with pytest.raises(Closed):
        send(broker, group)
    receipt(broker, 0)
    broker.succeed("close_producer")
    assert (closing.done, sending.value()) == (True, MessageId(3, 5))
    assert broker.begin(group.close).done


def test_messages_of_a_producer_that_is_not_attached_fail_when_it_is_closed() -> None:
    broker, group = producing()
    broker.cut()
    sending = send(broker, group)
    assert broker.begin(group.close).done
    assert isinstance(sending.error, Closed)
    broker.wait(100.0)
    assert broker.dialled() == []


def test_a_refused_producer_is_an_error_and_leaves_nothing() -> None:
    broker = ScriptedBroker()
    creating = broker.begin(broker.core.create_producer, "t")
    broker.accept()
    broker.answer_partitions()
    broker.answer_lookup()
    broker.refuse("producer", "ProducerBusy")
    with pytest.raises(BrokerRefused, match="ProducerBusy: because"):
        creating.value()
    broker.wait(60.0)
    assert "producer" not in broker.sent()


def test_what_may_pass_is_tried_again_until_the_operation_times_out() -> None:
    broker = ScriptedBroker(ClientOptions(operation_timeout=1.0))
    creating = broker.begin(broker.core.create_producer, "t")
    broker.accept()
    broker.answer_partitions()
    attempts = 0
    while not creating.done:
        broker.answer_lookup()
        broker.refuse("producer", "ServiceNotReady")
        attempts += 1
        while not creating.done and not broker.connection.has_output:
            broker.wait(0.1)
    assert attempts == 5  # at 0.0, 0.1, 0.3, 0.7 and 1.5 s
    assert isinstance(creating.error, BrokerRefused)


def test_an_unanswered_producer_request_times_out_and_is_taken_back() -> None:
    broker = ScriptedBroker(ClientOptions(operation_timeout=1.0))
    creating = broker.begin(broker.core.create_producer, "t")
    broker.accept()
    broker.answer_partitions()
    broker.answer_lookup()
    broker.wait(1.0)
    assert isinstance(creating.error, TimedOut)
    assert broker.sent()[:2] == ["producer", "close_producer"]


def test_partitions_get_messages_in_turn_or_by_key() -> None:
    broker = ScriptedBroker()
    creating = broker.begin(broker.core.create_producer, "t", SINGLE)
    broker.accept()
    broker.answer_partitions(3)
    requests = [broker.expect("lookupTopic") for _ in range(3)]
    assert [request.topic for request in requests] == [f"{TOPIC}-partition-{index}" for index in range(3)]
    for request in requests:
        broker.send("lookupTopicResponse", request_id=request.request_id, response="Connect", brokerServiceUrl="pulsar://broker:6650")
    for index in range(3):
        assert broker.answer_producer(producer_name=f"p-{index}").producer_id == index
    group = creating.value()
    for _ in range(6):
        send(broker, group)
    assert sorted(broker.expect("send").producer_id for _ in range(6)) == [0, 0, 1, 1, 2, 2]
    for key in ("a", "a", "b", "a"):
        send(broker, group, key=key)
    assert [broker.expect("send").producer_id for _ in range(4)] == [97 % 3, 97 % 3, 98 % 3, 97 % 3]
    sending = send(broker, group, key="a")
    broker.sent()
    for sequence_id in range(group.members[1].last_sequence_id + 1):
        broker.send("send_receipt", producer_id=1, sequence_id=sequence_id, message_id={"ledgerId": 1, "entryId": sequence_id})
    assert sending.value().partition == 1


def test_a_senseless_number_of_partitions_is_refused() -> None:
    broker = ScriptedBroker(ClientOptions(operation_timeout=0.05))
    creating = broker.begin(broker.core.create_producer, "t")
    broker.accept()
    broker.answer_partitions(4_000_000_000)
    broker.wait(0.1)
    broker.answer_partitions(4_000_000_000)
    assert isinstance(creating.error, ProtocolError)


def test_key_hash_is_that_of_java_strings() -> None:
    assert [key_hash(key) for key in ("", "a", "hello", "été", "😀")] == [0, 97, 99162322, 227742, 1772899]
    assert key_hash("polygenelubricants") == 0  # the sign bit alone


def waiting() -> tuple[ScriptedBroker, Process[PartitionedProducer], CommandProducer]:
    """Return a producer that the broker has put behind another one, and its request."""
    broker = ScriptedBroker(ClientOptions(operation_timeout=5))
    options = ProducerOptions(batching=False, access_mode=ProducerAccessMode.WaitForExclusive)
    creating = broker.begin(broker.core.create_producer, "t", options)
    broker.accept()
    broker.answer_partitions()
    broker.answer_lookup()
    return broker, creating, put_behind(broker)


def put_behind(broker: ScriptedBroker) -> CommandProducer:
    request: CommandProducer = broker.expect("producer")
    assert request.producer_access_mode == ProducerAccessMode.WaitForExclusive
    broker.send("producer_success", request_id=request.request_id, producer_name="p-1", last_sequence_id=-1, producer_ready=False)
    return request


def ready(broker: ScriptedBroker, request: CommandProducer) -> None:
    broker.send("producer_success", request_id=request.request_id, producer_name="p-1", last_sequence_id=-1, producer_ready=True)


def test_a_producer_that_waits_for_exclusive_access_waits_for_its_turn() -> None:
    broker, creating, request = waiting()
    broker.wait(20)  # longer than the operation time-out
    assert not creating.done
    ready(broker, request)
    assert creating.done
    send(broker, creating.value(), b"m")
    broker.expect("send")


def test_a_producer_that_is_closed_while_it_waits_for_its_turn_asks_again() -> None:
    broker, creating, request = waiting()
    broker.wait(20)
    broker.send("close_producer", producer_id=request.producer_id, request_id=1)
    broker.wait(1)
    broker.answer_lookup()
    second = put_behind(broker)
    assert second.epoch > request.epoch
    broker.wait(20)
    assert not creating.done
    ready(broker, second)
    assert creating.value().error is None


def test_a_producer_that_wants_to_wait_has_the_operation_time_out_until_the_broker_lets_it() -> None:
    broker = ScriptedBroker(ClientOptions(operation_timeout=5))
    creating = broker.begin(broker.core.create_producer, "t", ProducerOptions(access_mode=ProducerAccessMode.WaitForExclusive))
    broker.accept()
    broker.answer_partitions()
    broker.answer_lookup()
    broker.expect("producer")
    broker.wait(6)
    assert isinstance(creating.error, TimedOut)
