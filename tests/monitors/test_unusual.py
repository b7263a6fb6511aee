"""What real clients and brokers were seen to do, and may do, is never accused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from refimpl.wire import pulsar_api_pb2 as pb
from tests.samples.conversation import TOPIC, Talk, conversation, entry, entry_id, single
from tests.samples.conversation_faults import attach_again

_NO_ENTRY = 2**64 - 1


def closes_what_is_not_open(talk: Talk) -> None:
    closed = talk.after(talk.find("CloseProducer"), pb.CommandCloseProducer(producer_id=0, request_id=50))
    talk.after(closed, pb.CommandSuccess(request_id=50), direction="<-")


def sends_what_crosses_a_close_of_the_broker(talk: Talk) -> None:
    talk.after(talk.find("Send", 1), pb.CommandCloseProducer(producer_id=0, request_id=_NO_ENTRY), direction="<-")


def attaches_again_and_sends_again_what_has_no_receipt(talk: Talk) -> None:
    last, sent = talk.find("Send", 4), talk.find("Send", 2)
    for number in (4, 3, 2):
        talk.drop(talk.find("SendReceipt", number))
    closed = talk.after(last, pb.CommandCloseProducer(producer_id=0, request_id=_NO_ENTRY), direction="<-")
    asked = talk.after(
        closed, pb.CommandProducer(topic="persistent://public/default/t", producer_id=0, request_id=51, epoch=1), direction="->"
    )
    ready = talk.after(asked, pb.CommandProducerSuccess(request_id=51, producer_name="p"), direction="<-")
    again = talk.after(ready, sent.message, sent.payload, direction="->")
    receipt = pb.CommandSendReceipt(producer_id=0, sequence_id=4, message_id=entry_id(2))
    talk.after(talk.find("SendReceipt", 1), receipt, direction="<-")
    assert talk.lines.index(again) < talk.lines.index(talk.find("SendReceipt", 0))


def begins_anew_as_another_producer(talk: Talk) -> None:
    attach_again(talk, single("another message"), producer_name="p")


def sends_the_same_again_under_its_sequence_id(talk: Talk) -> None:
    attach_again(talk, single("m"), producer_name="p", epoch=1)


def encrypts_the_same_anew(talk: Talk) -> None:
    attach_again(talk, single("ciphertext", encryption_keys=[pb.EncryptionKeys(key="k", value=b"v")]), producer_name="p", epoch=1)


def makes_another_batch_of_what_it_sends_again(talk: Talk) -> None:
    attach_again(talk, entry(["m", "n"]), 2, producer_name="p", epoch=1)


def sends_again_what_the_broker_has_refused(talk: Talk) -> None:
    talk.drop(talk.find("SendReceipt", 1))
    last, sent = talk.find("SendReceipt", 3), talk.find("Send", 1)
    refused = talk.after(last, pb.CommandSendError(producer_id=0, sequence_id=1, error="ChecksumError", message=""))  # type: ignore[arg-type]
    again = talk.after(refused, sent.message, sent.payload, direction="->")
    talk.after(again, pb.CommandSendReceipt(producer_id=0, sequence_id=1, message_id=entry_id(1)), direction="<-")


def leaves_out_sequence_ids(talk: Talk) -> None:
    for name in ("Send", "SendReceipt"):
        for number, sequence_id in ((3, 600), (4, 600)):
            message: Any = talk.find(name, number).message
            message.sequence_id = sequence_id


def acknowledges_one_entry_three_times(talk: Talk) -> None:
    talk.again(talk.again(talk.find("Ack", 0)))


def acknowledges_the_entry_before_the_first(talk: Talk) -> None:
    message: Any = talk.find("Ack", 1).message
    message.message_id[0].entryId = _NO_ENTRY


def acknowledges_cumulatively_in_front_of_what_came(talk: Talk) -> None:
    message: Any = talk.find("Ack", 1).message
    message.message_id[0].ledgerId = 4
    message.message_id[0].entryId = 777


def subscribes_again_with_the_same_id(talk: Talk) -> None:
    again = talk.again(talk.find("Subscribe", 0))
    message: Any = again.message
    message.request_id = 70
    talk.after(again, pb.CommandSuccess(request_id=70), direction="<-")


def closes_a_consumer_and_uses_its_id_for_another_topic(talk: Talk) -> None:
    flow = talk.after(talk.find("AckResponse"), pb.CommandFlow(consumer_id=0, messagePermits=3), direction="->")
    closed = talk.after(flow, pb.CommandCloseConsumer(consumer_id=0, request_id=71))
    asked = pb.CommandSubscribe(topic="u", subscription="s", subType="Shared", consumer_id=0, request_id=72)  # type: ignore[arg-type]
    late = talk.after(talk.after(closed, asked), pb.CommandMessage(consumer_id=0, message_id=entry_id(3)), single(), direction="<-")
    first = talk.after(late, pb.CommandSuccess(request_id=71))
    talk.after(first, pb.CommandSuccess(request_id=72))


def lets_its_queue_grow(talk: Talk) -> None:
    talk.find("Flow").message.messagePermits = 1  # type: ignore[attr-defined]
    talk.drop(talk.find("Message", 1))
    talk.drop(talk.find("Ack", 0))


def closes_a_consumer_and_begins_with_a_smaller_queue(talk: Talk) -> None:
    closed = talk.after(talk.find("AckResponse"), pb.CommandCloseConsumer(consumer_id=0, request_id=_NO_ENTRY), direction="<-")
    asked = pb.CommandSubscribe(topic=TOPIC, subscription="s", subType="Shared", consumer_id=0, request_id=73)  # type: ignore[arg-type]
    ready = talk.after(talk.after(closed, asked, direction="->"), pb.CommandSuccess(request_id=73), direction="<-")
    talk.after(ready, pb.CommandFlow(consumer_id=0, messagePermits=7), direction="->")


def encrypts_a_batch(talk: Talk) -> None:
    keys = [pb.EncryptionKeys(key="k", value=b"v")]
    talk.find("Send", 2).payload = single("secret", num_messages_in_batch=2, encryption_keys=keys, compression=pb.LZ4, uncompressed_size=7)


def compresses_as_nobody_knows(talk: Talk) -> None:
    header = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, uncompressed_size=7).SerializeToString() + b"\x40\x63"
    talk.find("Send", 0).payload = len(header).to_bytes(4, "big") + header + b"?"  # compression 99


def sends_no_checksum(talk: Talk) -> None:
    talk.find("Send", 0).payload = single(checksum="absent")


def sends_a_batch_of_one(talk: Talk) -> None:
    talk.find("Send", 0).payload = entry("m")


def sends_one_message_with_all_its_properties_in_the_header(talk: Talk) -> None:
    talk.find("Send", 0).payload = single(properties=[pb.KeyValue(key="region", value="us"), pb.KeyValue(key="x", value="y")])


def watches_another_pattern_after_a_refusal(talk: Talk) -> None:
    message: Any = talk.find("WatchTopicList", 1).message
    message.topics_pattern = "b.*"
    closed = talk.after(talk.find("WatchTopicUpdate", 1), pb.CommandWatchTopicListClose(request_id=59, watcher_id=0), direction="->")
    done = talk.after(closed, pb.CommandSuccess(request_id=59), direction="<-")
    asked = pb.CommandWatchTopicList(request_id=60, watcher_id=0, namespace="public/default", topics_pattern="(")
    request = talk.after(done, asked, direction="->")
    talk.after(request, pb.CommandError(request_id=60, error="InvalidTopicName", message=""), direction="<-")  # type: ignore[arg-type]


def says_a_result_although_the_watcher_was_registered_again(talk: Talk) -> None:
    result = talk.find("PartitionUpdateResult", 2)
    asked = talk.after(
        talk.find("PartitionUpdate", 2), pb.CommandWatchPartitionUpdate(request_id=80, watcher_id=0, topics=["t"]), direction="->"
    )
    talk.after(asked, pb.CommandWatchPartitionUpdateSuccess(request_id=80, watcher_id=0), direction="<-")
    assert talk.lines.index(asked) < talk.lines.index(result)


def pings_before_it_connects(talk: Talk) -> None:
    ping, pong = (
        talk.after(talk.find("Connect"), message, direction=way) for message, way in ((pb.CommandPing(), "->"), (pb.CommandPong(), "<-"))
    )
    for place, line in enumerate((ping, pong)):
        talk.drop(line)
        talk.lines.insert(place, line)


def the_broker_pings_twice_before_the_client_answers(talk: Talk) -> None:
    talk.again(talk.find("Ping"))
    talk.again(talk.find("Pong"))


def the_broker_refuses_one_of_two_requests_with_one_id(talk: Talk) -> None:
    producing, counting = talk.find("ProducerSuccess", 0), talk.find("PartitionedTopicMetadataResponse")
    talk.after(counting, pb.CommandError(request_id=1, error="MetadataError", message=""))  # type: ignore[arg-type]
    talk.drop(counting)
    assert producing in talk.lines


def the_broker_refuses_the_connection(talk: Talk) -> None:
    talk.after(talk.find("Connected"), pb.CommandError(request_id=_NO_ENTRY, error="AuthenticationError", message=""))  # type: ignore[arg-type]


def the_broker_sends_a_batch_in_part(talk: Talk) -> None:
    message: Any = talk.find("Message", 1).message
    message.ack_set.append(-2)  # all but the first, in a word of 64 bits


WAYS: list[Callable[[Talk], None]] = [
    one
    for name, one in list(globals().items())
    if getattr(one, "__module__", "") == __name__ and callable(one) and not name.startswith("_")
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_it_is_not_accused(way: Callable[[Talk], None]) -> None:
    talk = conversation()
    way(talk)
    assert talk.judged() == []
