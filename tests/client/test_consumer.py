"""A consumer against a scripted broker: permits, batches, acknowledgements, seeks, reconnects, and broken entries."""

import pytest

from refimpl.client import (
    EARLIEST,
    LATEST,
    BrokerRefused,
    Closed,
    ConsumerOptions,
    MessageId,
    ProtocolError,
)
from refimpl.wire import SingleMessage, compress, encode_batch
from refimpl.wire.pulsar_api_pb2 import LZ4, CommandAck, CommandSubscribe, KeyValue, SingleMessageMetadata
from tests.fakes.consuming import consuming, take
from tests.fakes.scripted_broker import TOPIC, ScriptedBroker

S = CommandSubscribe
MAX = 2**64 - 1


def batch(*bodies: bytes, **header: object) -> tuple[bytes, dict[str, object]]:
    singles = [
        SingleMessage(SingleMessageMetadata(properties=[KeyValue(key="i", value=str(index))], partition_key=f"k{index}"), body)
        for index, body in enumerate(bodies)
    ]
    return encode_batch(singles), {"num_messages_in_batch": len(bodies), **header}


def deliver_batch(broker: ScriptedBroker, entry: int, size: int = 3, **fields: object) -> None:
    body, header = batch(*(b"%d.%d" % (entry, index) for index in range(size)))
    broker.message(entry, body, header=header, **fields)


def reattach(broker: ScriptedBroker) -> object:
    broker.answer_lookup()
    return broker.succeed("subscribe")


def test_subscribe_says_what_was_chosen() -> None:
    broker = ScriptedBroker()
    options = ConsumerOptions(
        "s", type=S.Shared, initial_position=S.Earliest, name="me", priority=3, properties={"a": "b"}, subscription_properties={"c": "d"}
    )
    broker.begin(broker.core.subscribe, "t", options)
    broker.accept()
    broker.answer_partitions()
    broker.answer_lookup()
    request = broker.expect("subscribe")
    assert (request.topic, request.subscription, request.subType, request.consumer_name) == (TOPIC, "s", S.Shared, "me")
    assert (request.initialPosition, request.priority_level, request.durable, request.force_topic_creation) == (S.Earliest, 3, True, True)
    assert [(pair.key, pair.value) for pair in request.metadata] == [("a", "b")]
    assert [(pair.key, pair.value) for pair in request.subscription_properties] == [("c", "d")]
    assert not request.HasField("start_message_id")


def test_messages_arrive_with_all_that_was_said_about_them() -> None:
    broker, group = consuming()
    header = {"partition_key": "k", "event_time": 7, "properties": [KeyValue(key="a", value="é")]}
    broker.message(4, b"hello", header=header, redelivery_count=2)
    (message,) = take(broker, group)
    assert (message.id, message.topic, message.payload, message.key) == (MessageId(3, 4), TOPIC, b"hello", "k")
    assert (dict(message.properties), message.event_time, message.publish_time) == ({"a": "é"}, 7, 1)
    assert (message.producer_name, message.sequence_id, message.redelivery_count) == ("p", 4, 2)


def test_a_compressed_batch_is_taken_apart() -> None:
    broker, group = consuming()
    body, header = batch(b"a" * 100, b"", b"c", compression=LZ4)
    broker.message(0, compress(body, LZ4), header={**header, "uncompressed_size": len(body)})
    messages = take(broker, group)
    assert [message.payload for message in messages] == [b"a" * 100, b"", b"c"]
    assert [str(message.id) for message in messages] == ["3:0:-1:0", "3:0:-1:1", "3:0:-1:2"]
    assert [(message.key, message.properties["i"], message.id.batch_size) for message in messages] == [
        ("k0", "0", 3),
        ("k1", "1", 3),
        ("k2", "2", 3),
    ]


def test_permits_are_returned_as_the_application_takes_messages() -> None:
    broker, group = consuming(queue_size=10)
    deliver_batch(broker, 0, 4)
    assert broker.sent() == []
    assert len(take(broker, group)) == 4
    assert broker.sent() == []
    broker.message(1)
    assert len(take(broker, group)) == 1
    assert broker.expect("flow").messagePermits == 5


def test_an_entry_of_a_batch_is_acknowledged_once_all_of_it_is() -> None:
    broker, group = consuming()
    deliver_batch(broker, 0)
    deliver_batch(broker, 1)
    messages = take(broker, group)
    for message in (messages[2], messages[0], messages[0], messages[3]):
        broker.begin(group.acknowledge, message)
    assert broker.sent() == []
    broker.begin(group.acknowledge, messages[1])
    ack = broker.expect("ack")
    assert (ack.ack_type, [(one.ledgerId, one.entryId, one.batch_index) for one in ack.message_id]) == (CommandAck.Individual, [(3, 0, -1)])
    assert not ack.HasField("request_id")
    broker.begin(group.acknowledge, messages[1])
    assert broker.sent() == []


def test_a_cumulative_acknowledgement_inside_a_batch_covers_what_is_before_it() -> None:
    broker, group = consuming()
    for entry in range(3):
        deliver_batch(broker, entry)
    messages = take(broker, group)
    broker.begin(group.acknowledge_cumulative, messages[1])  # inside entry 0: complete is what earlier ledgers have
    assert broker.expect("ack").message_id[0].entryId == 2**64 - 1
    broker.begin(group.acknowledge_cumulative, messages[4])  # inside entry 1
    ack = broker.expect("ack")
    assert (ack.ack_type, ack.message_id[0].entryId) == (CommandAck.Cumulative, 0)
    broker.begin(group.acknowledge, messages[5])
    assert broker.expect("ack").message_id[0].entryId == 1
    broker.begin(group.acknowledge_cumulative, messages[8])
    assert broker.expect("ack").message_id[0].entryId == 2


def test_what_others_have_acknowledged_in_a_batch_is_not_delivered() -> None:
    broker, group = consuming(queue_size=4)
    deliver_batch(broker, 0, 4, ack_set=[-1 ^ 0b101])
    messages = take(broker, group)
    assert [message.payload for message in messages] == [b"0.1", b"0.3"]
    assert sum(one.command.flow.messagePermits for one in iter_frames(broker)) == 2, "the broker charges the open ones only"
    for message in messages:
        broker.begin(group.acknowledge, message)
    assert broker.sent() == ["ack"]


def iter_frames(broker: ScriptedBroker) -> list[object]:
    frames = []
    broker._read()
    while broker.frames:
        frames.append(broker.frames.pop(0))
    return frames


def test_a_redelivered_batch_comes_without_what_was_acknowledged() -> None:
    broker, group = consuming()
    deliver_batch(broker, 0)
    messages = take(broker, group)
    broker.begin(group.acknowledge, messages[1])
    deliver_batch(broker, 0, redelivery_count=1)
    assert [message.payload for message in take(broker, group)] == [b"0.0", b"0.2"]


def test_negative_acknowledgements_of_a_shared_subscription_name_their_entries() -> None:
    broker, group = consuming(type=S.Shared, negative_ack_delay=5.0)
    for entry in range(3):
        broker.message(entry)
    messages = take(broker, group)
    broker.begin(group.negative_acknowledge, messages[1])
    broker.wait(2.0)
    broker.begin(group.negative_acknowledge, messages[2])
    broker.wait(2.9)
    assert broker.sent() == []
    broker.wait(0.2)
    assert [one.entryId for one in broker.expect("redeliverUnacknowledgedMessages").message_ids] == [1]
    broker.begin(group.acknowledge, messages[2])
    broker.wait(9.0)
    assert broker.sent() == ["ack"]


def test_on_an_ordered_subscription_everything_comes_again_and_what_is_on_its_way_is_dropped() -> None:
    broker, group = consuming(queue_size=4, negative_ack_delay=1.0)
    for entry in range(3):
        broker.message(entry, consumer_epoch=0)
    with broker.core.entered(broker.now):
        first = group.take()
        assert first is not None
        group.negative_acknowledge(first)
    broker.wait(1.0)
    command = broker.expect("redeliverUnacknowledgedMessages")
    assert (len(command.message_ids), command.consumer_epoch) == (0, 1)
    broker.message(3, consumer_epoch=0)  # was on its way
    for entry in range(3):
        broker.message(entry, consumer_epoch=1)
    assert [message.id.entry_id for message in take(broker, group)] == [0, 1, 2]
    assert sum(one.command.flow.messagePermits for one in iter_frames(broker)) >= 6


def test_a_shared_subscription_can_have_everything_again() -> None:
    broker, group = consuming(type=S.Shared)
    broker.message(0)
    broker.begin(group.redeliver)
    command = broker.expect("redeliverUnacknowledgedMessages")
    assert (len(command.message_ids), command.HasField("consumer_epoch")) == (0, False)
    assert take(broker, group) == []


def test_messages_that_are_not_stored_share_one_id() -> None:
    broker = ScriptedBroker()
    subscribing = broker.begin(broker.core.subscribe, "non-persistent://public/default/t", ConsumerOptions("s"))
    broker.accept()
    broker.answer_partitions()
    reattach(broker)
    group = subscribing.value()
    for _ in range(2):
        deliver_batch(broker, 0)
        messages = take(broker, group)
        assert len(messages) == 3
        for message in messages:
            broker.begin(group.acknowledge, message)


def test_a_reconnected_consumer_registers_again_and_sends_what_was_acknowledged_meanwhile() -> None:
    broker, group = consuming()
    broker.message(0)
    broker.message(1)
    with broker.core.entered(broker.now):
        first = group.take()
    broker.cut()
    assert first is not None
    broker.begin(group.acknowledge, first)
    broker.wait(0.1)
    broker.accept()
    request = reattach(broker)
    assert (request.consumer_id, request.subscription) == (0, "s")  # type: ignore[attr-defined]
    assert broker.expect("ack").message_id[0].entryId == 0
    assert broker.expect("flow").messagePermits == 1000
    assert take(broker, group) == []  # entry 1 comes again
    broker.message(1)
    assert [message.id.entry_id for message in take(broker, group)] == [1]


def test_a_consumer_that_the_broker_closes_comes_back() -> None:
    broker, _ = consuming()
    broker.send("close_consumer", consumer_id=0, request_id=MAX)
    assert broker.sent() == []
    broker.wait(0.1)
    reattach(broker)
    assert broker.sent() == ["flow"]


def test_refusals_after_the_first_success_are_waited_out() -> None:
    broker, group = consuming()
    broker.send("close_consumer", consumer_id=0, request_id=MAX)
    for error in ("ConsumerBusy", "ServiceNotReady", "AuthorizationError"):
        while not broker.connection.has_output:
            broker.wait(0.1)
        broker.answer_lookup()
        broker.refuse("subscribe", error)
    while not broker.connection.has_output:
        broker.wait(0.1)
    reattach(broker)
    assert group.error is None


def test_a_topic_that_is_gone_ends_a_consumer_that_may_not_create_it() -> None:
    broker, group = consuming(force_topic_creation=False)
    arrival = broker.begin(group.inbox.arrival)
    broker.send("close_consumer", consumer_id=0, request_id=MAX)
    broker.wait(0.1)
    broker.answer_lookup()
    broker.refuse("subscribe", "TopicNotFound")
    assert arrival.done
    with pytest.raises(BrokerRefused, match="TopicNotFound"):
        take(broker, group)
    broker.wait(60.0)
    assert "subscribe" not in broker.sent()


def test_a_refused_subscription_is_an_error() -> None:
    broker = ScriptedBroker()
    subscribing = broker.begin(broker.core.subscribe, "t", ConsumerOptions("s"))
    broker.accept()
    broker.answer_partitions()
    broker.answer_lookup()
    broker.refuse("subscribe", "ConsumerBusy")
    with pytest.raises(BrokerRefused, match="ConsumerBusy"):
        subscribing.value()


def test_seek_goes_on_at_the_message_once_the_consumer_is_back() -> None:
    broker, group = consuming()
    for entry in range(2):
        deliver_batch(broker, entry)
    target = take(broker, group)[4]
    deliver_batch(broker, 2)
    seeking = broker.begin(lambda: broker.core.scheduler.spawn(group.seek(target)))
    request = broker.expect("seek")
    assert (request.message_id.entryId, request.message_id.batch_index) == (1, -1)
    broker.send("close_consumer", consumer_id=0, request_id=MAX)
    assert broker.sent() == []
    broker.send("success", request_id=request.request_id)
    assert not seeking.done
    reattach(broker)  # at once
    assert seeking.done
    assert broker.sent() == ["flow"]
    deliver_batch(broker, 1)
    messages = take(broker, group)
    assert [message.payload for message in messages] == [b"1.1", b"1.2"]
    for message in messages:
        broker.begin(group.acknowledge, message)
    assert broker.sent() == ["ack"]


def test_a_refused_seek_is_an_error_and_the_consumer_goes_on() -> None:
    broker, group = consuming()
    broker.message(0)
    seeking = broker.begin(lambda: broker.core.scheduler.spawn(group.seek(12345)))
    request = broker.expect("seek")
    assert request.message_publish_time == 12345
    broker.send("error", request_id=request.request_id, error="MetadataError", message="no")
    assert isinstance(seeking.error, BrokerRefused)
    assert len(take(broker, group)) == 1


def test_a_seek_whose_connection_is_lost_is_sent_again() -> None:
    broker, group = consuming()
    seeking = broker.begin(lambda: broker.core.scheduler.spawn(group.seek(MessageId(3, 1))))
    assert broker.expect("seek").message_id.entryId == 1
    broker.cut()
    broker.wait(0.2)
    broker.accept()
    reattach(broker)
    assert broker.expect("flow").messagePermits == 1000
    broker.succeed("seek")
    assert seeking.done
    assert seeking.error is None


def test_seek_to_the_ends_is_told_as_such() -> None:
    broker, group = consuming()
    for end, ids in ((EARLIEST, (MAX, MAX)), (LATEST, (2**63 - 1, 2**63 - 1))):
        broker.begin(lambda end=end: broker.core.scheduler.spawn(group.seek(end)))
        request = broker.succeed("seek")
        assert (request.message_id.ledgerId, request.message_id.entryId) == ids


def test_the_last_message_id_of_an_empty_topic_has_no_entry() -> None:
    broker, group = consuming()
    asking = broker.begin(lambda: broker.core.scheduler.spawn(group.last_message_ids()))
    request = broker.expect("getLastMessageId")
    broker.send("getLastMessageIdResponse", request_id=request.request_id, last_message_id={"ledgerId": 5, "entryId": MAX})
    assert asking.value() == {TOPIC: MessageId(5, -1)}


def test_unsubscribing_ends_the_consumer() -> None:
    broker, group = consuming()
    unsubscribing = broker.begin(lambda: broker.core.scheduler.spawn(group.unsubscribe()))
    broker.succeed("unsubscribe")
    assert unsubscribing.done
    assert broker.sent() == []
    with pytest.raises(Closed):
        take(broker, group)


def test_closing_tells_the_broker_and_wakes_who_waits() -> None:
    broker, group = consuming()
    arrival = broker.begin(group.inbox.arrival)
    closing = broker.begin(group.close)
    broker.succeed("close_consumer")
    assert (closing.done, arrival.done) == (True, True)
    broker.message(0)
    with pytest.raises(Closed):
        take(broker, group)


def test_a_consumer_that_is_closed_while_it_attaches_is_taken_back() -> None:
    broker = ScriptedBroker()
    subscribing = broker.begin(broker.core.subscribe, "t", ConsumerOptions("s"))
    broker.accept()
    broker.answer_partitions()
    broker.answer_lookup()
    broker.begin(subscribing.cancel)
    assert broker.sent() == ["subscribe", "close_consumer"]


def test_a_reader_begins_after_its_start_and_goes_on_after_what_was_taken() -> None:
    broker = ScriptedBroker()
    options = ConsumerOptions("r", durable=False, start_message_id=MessageId(3, 1, 0))
    subscribing = broker.begin(broker.core.subscribe, "t", options)
    broker.accept()
    broker.answer_partitions()
    request = reattach(broker)
    start = request.start_message_id  # type: ignore[attr-defined]
    assert (request.durable, start.entryId, start.batch_index) == (False, 1, 0)  # type: ignore[attr-defined]
    broker.sent()
    group = subscribing.value()
    deliver_batch(broker, 1)
    deliver_batch(broker, 2)
    with broker.core.entered(0.0):
        taken = [group.take() for _ in range(3)]
    assert [message.payload for message in taken if message] == [b"1.1", b"1.2", b"2.0"]
    broker.cut()
    broker.wait(0.1)
    broker.accept()
    start = reattach(broker).start_message_id  # type: ignore[attr-defined]
    assert (start.entryId, start.batch_index) == (2, 0)
    deliver_batch(broker, 2)
    assert [message.payload for message in take(broker, group)] == [b"2.1", b"2.2"]


@pytest.mark.parametrize(
    ("body", "header", "error"),
    [
        (b"x", {"compression": LZ4, "uncompressed_size": 2**31}, CommandAck.UncompressedSizeCorruption),
        (b"x", {"compression": LZ4, "uncompressed_size": 100}, CommandAck.DecompressionError),
        (b"x", {"num_messages_in_batch": 2_000_000_000}, CommandAck.BatchDeSerializeError),
        (b"x", {"num_messages_in_batch": -1}, CommandAck.BatchDeSerializeError),
    ],
)
def test_an_entry_that_can_not_be_read_is_acknowledged_with_the_reason(body: bytes, header: dict[str, object], error: int) -> None:
    broker, group = consuming(queue_size=1)
    broker.message(0, body, header=header)
    assert take(broker, group) == []
    ack = broker.expect("ack")
    assert (ack.validation_error, ack.HasField("validation_error"), ack.message_id[0].entryId) == (error, True, 0)
    assert broker.expect("flow").messagePermits == 1
    assert "is dropped" in broker.log[-1]


def test_damage_is_found_by_the_checksum_and_without_headers() -> None:
    broker, group = consuming(queue_size=1)
    broker.send("message", b"\x0e\x01\x00\x00\x00\x00\x00\x00\x00\x00", consumer_id=0, message_id={"ledgerId": 3, "entryId": 0})
    assert broker.expect("ack").validation_error == CommandAck.ChecksumMismatch
    broker.sent()
    broker.send("message", b"\x00\x00\x00\x09x", consumer_id=0, message_id={"ledgerId": 3, "entryId": 1})
    assert broker.expect("ack").validation_error == CommandAck.BatchDeSerializeError
    broker.sent()
    broker.send("message", consumer_id=0, message_id={"ledgerId": 3, "entryId": 2})
    assert broker.expect("ack").validation_error == CommandAck.BatchDeSerializeError
    assert take(broker, group) == []


def test_a_broker_that_sends_without_permits_is_left() -> None:
    broker, group = consuming(queue_size=1)
    for entry in range(1100):
        if broker.connection.closing:
            break
        broker.message(entry)
    assert isinstance(broker.connection.reason, ProtocolError)
    assert len(group.inbox) < 1100


def test_a_batch_without_messages_is_acknowledged() -> None:
    broker, group = consuming()
    broker.message(0, b"", header={"num_messages_in_batch": 0})
    assert take(broker, group) == []
    assert broker.sent() == ["ack"]


def test_partitions_share_an_inbox_and_are_moved_together() -> None:
    broker = ScriptedBroker()
    subscribing = broker.begin(broker.core.subscribe, "t", ConsumerOptions("s"))
    broker.accept()
    broker.answer_partitions(2)
    lookups = [broker.expect("lookupTopic") for _ in range(2)]
    for request in lookups:
        broker.send("lookupTopicResponse", request_id=request.request_id, response="Connect", brokerServiceUrl="pulsar://broker:6650")
    for index in range(2):
        assert broker.succeed("subscribe").topic == f"{TOPIC}-partition-{index}"
    group = subscribing.value()
    broker.sent()
    broker.message(0, consumer_id=1)
    broker.message(0, consumer_id=0, message_id={"ledgerId": 3, "entryId": 0, "partition": 0})
    messages = take(broker, group)
    assert [message.id.partition for message in messages] == [1, 0]
    broker.begin(group.acknowledge, messages[0])
    assert broker.expect("ack").consumer_id == 1
    broker.begin(lambda: broker.core.scheduler.spawn(group.seek(EARLIEST)))
    assert broker.sent() == ["seek", "seek"]
    broker.begin(lambda: broker.core.scheduler.spawn(group.seek(messages[0])))
    assert broker.expect("seek").consumer_id == 1


def test_a_shared_subscription_has_no_cumulative_acknowledgement() -> None:
    broker, group = consuming(type=S.Shared)
    broker.message(0)
    (message,) = take(broker, group)
    with pytest.raises(ValueError, match="shared"):
        group.acknowledge_cumulative(message)
