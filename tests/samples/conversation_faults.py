"""Breaches of the clauses that monitors judge, planted into the conversation of `conversation`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.monitors.handshake import ANSWER_TIME
from refimpl.wire import pulsar_api_pb2 as pb
from tests.samples.conversation import TOPIC, A, Talk, conversation, counts, entry, entry_id, single

Planted = Callable[[Talk], object]
BREACHES: dict[str, tuple[str, Planted]] = {}
"""By what is wrong: the clause, and what changes the conversation."""


def breach(clause: str) -> Callable[[Planted], Planted]:
    def register(planted: Planted) -> Planted:
        BREACHES[planted.__name__] = clause, planted
        return planted

    return register


def broken(name: str) -> Talk:
    """Return the conversation with a breach in it."""
    talk = conversation()
    BREACHES[name][1](talk)
    return talk


def unset(talk: Talk, *flags: str) -> None:
    for line in talk.lines:
        if line.name == "Connected":
            message: Any = line.message
            for flag in flags:
                message.feature_flags.ClearField(flag)


@breach("core.client.connect-first")
def connects_twice(talk: Talk) -> None:
    talk.again(talk.find("Connect"))


@breach("pip145.client.watch-needs-flag")
def watches_a_broker_without_topic_watchers(talk: Talk) -> None:
    unset(talk, "supports_topic_watchers")


@breach("pip247.client.needs-flag")
def watches_partitions_of_a_broker_without_the_flag(talk: Talk) -> None:
    unset(talk, "supports_partition_update_watchers")


@breach("pr25648.client.needs-flag")
def watches_scalable_topics_of_a_broker_without_them(talk: Talk) -> None:
    unset(talk, "supports_scalable_topics")


@breach("core.client.flag-before-command")
def watches_coordinators_of_a_broker_without_the_flag(talk: Talk) -> None:
    unset(talk, "supports_tc_metadata_discovery")


@breach("pr7629.client.needs-flag")
def filters_at_a_broker_without_filters(talk: Talk) -> None:
    unset(talk, "supports_message_filter")


@breach("core.client.answers-ping")
def leaves_a_ping_without_an_answer(talk: Talk) -> None:
    talk.drop(talk.find("Pong", 0))
    talk.find("WatchTopicListClose").time = ANSWER_TIME + 2


@breach("core.keepalive.ping-answered")
def the_broker_leaves_a_ping_without_an_answer(talk: Talk) -> None:
    talk.drop(talk.find("Pong", 1))
    talk.find("WatchTopicListClose").time = ANSWER_TIME + 2


@breach("core.keepalive.ping-answered")
def the_broker_answers_a_ping_twice(talk: Talk) -> None:
    talk.again(talk.find("Pong", 1))


@breach("core.client.request-ids-unique")
def asks_twice_with_one_id(talk: Talk) -> None:
    asked = talk.find("WatchPartitionUpdate")
    talk.after(asked, pb.CommandWatchPartitionUpdate(request_id=7, watcher_id=1, topics=["other"]))
    answered = talk.find("WatchPartitionUpdateSuccess")
    talk.after(answered, pb.CommandWatchPartitionUpdateSuccess(request_id=7, watcher_id=1, topic_with_partition=counts(other=1)))


@breach("core.request.id-echoed")
def the_broker_answers_a_request_twice(talk: Talk) -> None:
    talk.again(talk.find("GetTopicsOfNamespaceResponse"))


@breach("core.request.id-echoed")
def the_broker_answers_what_nobody_asked(talk: Talk) -> None:
    talk.after(talk.find("Connected"), pb.CommandLookupTopicResponse(request_id=1))


@breach("core.request.id-echoed")
def the_broker_refuses_what_nobody_asked(talk: Talk) -> None:
    talk.after(talk.find("Connected"), pb.CommandError(request_id=77, error="MetadataError", message=""))  # type: ignore[arg-type]


@breach("core.client.own-producers")
def sends_for_a_producer_that_is_not_there(talk: Talk) -> None:
    sent = talk.after(talk.find("Send"), pb.CommandSend(producer_id=1, sequence_id=0), single())
    talk.after(sent, pb.CommandSendReceipt(producer_id=1, sequence_id=0, message_id=entry_id(9)), direction="<-")


@breach("core.client.own-producers")
def sends_before_its_producer_is_there(talk: Talk) -> None:
    asked = talk.after(talk.find("Connected"), pb.CommandProducer(topic="t", producer_id=1, request_id=20), direction="->")
    talk.after(asked, pb.CommandSend(producer_id=1, sequence_id=0), single())


@breach("core.client.own-producers")
def sends_for_a_producer_that_it_has_closed(talk: Talk) -> None:
    talk.after(talk.find("CloseProducer"), pb.CommandSend(producer_id=0, sequence_id=7), single())


@breach("core.client.own-consumers")
def gives_permits_to_a_consumer_that_is_not_there(talk: Talk) -> None:
    talk.after(talk.find("Flow"), pb.CommandFlow(consumer_id=3, messagePermits=1))


@breach("core.client.ids-unique")
def opens_a_second_topic_with_an_id_that_is_in_use(talk: Talk) -> None:
    talk.after(
        talk.find("Success"),
        pb.CommandSubscribe(topic="u", subscription="s", subType="Shared", consumer_id=0, request_id=30),
        direction="->",
    )  # type: ignore[arg-type]


@breach("core.client.ids-unique")
def opens_a_second_producer_with_an_id_that_is_in_use(talk: Talk) -> None:
    talk.after(talk.find("Success"), pb.CommandProducer(topic="u", producer_id=0, request_id=30), direction="->")


@breach("core.client.checksum-right")
def sends_a_wrong_checksum(talk: Talk) -> None:
    talk.find("Send").payload = single(checksum="invalid")


@breach("core.client.batch-well-formed")
def announces_fewer_messages_than_the_header(talk: Talk) -> None:
    message: Any = talk.find("Send", 1).message
    message.num_messages = 2


@breach("core.client.batch-well-formed")
def announces_messages_that_are_not_there(talk: Talk) -> None:
    line: Any = talk.find("Send", 2)
    line.message.num_messages = 3
    line.payload = entry(
        "de", [{"region": "eu"}] * 2, [("region", "eu")], change=lambda header: setattr(header, "num_messages_in_batch", 3)
    )


@breach("core.client.batch-well-formed")
def sends_more_than_the_batch(talk: Talk) -> None:
    line: Any = talk.find("Send", 2)
    line.message.num_messages = 1
    line.payload = entry(
        "de", [{"region": "eu"}] * 2, [("region", "eu")], change=lambda header: setattr(header, "num_messages_in_batch", 1)
    )


@breach("core.client.batch-well-formed")
def announces_another_size_before_compression(talk: Talk) -> None:
    wrong = entry(
        "de", [{"region": "eu"}] * 2, [("region", "eu")], compression=pb.LZ4, change=lambda header: setattr(header, "uncompressed_size", 3)
    )
    talk.find("Send", 2).payload = wrong


@breach("core.client.batch-well-formed")
def sends_no_metadata(talk: Talk) -> None:
    talk.find("Send").payload = b"\0\0\0\7ab"


@breach("core.client.sequence-grows")
def repeats_a_sequence_id(talk: Talk) -> None:
    sent, receipt = talk.find("Send", 1), talk.find("SendReceipt", 1)
    talk.again(sent)
    talk.again(receipt)


@breach("core.client.sequence-grows")
def ends_a_batch_before_it_begins(talk: Talk) -> None:
    message: Any = talk.find("Send", 2).message
    message.highest_sequence_id = 2


def attach_again(talk: Talk, payload: bytes, count: int = 1, **producer: Any) -> None:
    """Let the broker close the producer behind its last receipt, and the producer come back and send under its first sequence id."""
    last = [line for line in talk.lines if line.name == "SendReceipt"][-1]
    sent: Any = talk.find("Send").message
    closed = talk.after(last, pb.CommandCloseProducer(producer_id=0, request_id=2**64 - 1), direction="<-")
    asked = talk.after(closed, pb.CommandProducer(topic=TOPIC, producer_id=0, request_id=50, **producer), direction="->")
    done = talk.after(asked, pb.CommandProducerSuccess(request_id=50, producer_name="p"), direction="<-")
    again = talk.after(done, pb.CommandSend(producer_id=0, sequence_id=sent.sequence_id, num_messages=count), payload, direction="->")
    receipt = pb.CommandSendReceipt(producer_id=0, sequence_id=sent.sequence_id, message_id=entry_id(90))
    talk.after(again, receipt, direction="<-")


@breach("core.client.sequence-grows")
def sends_something_else_under_an_old_sequence_id(talk: Talk) -> None:
    attach_again(talk, single("another message"), producer_name="p", epoch=1)


@breach("core.send.ids-unchanged")
def the_broker_confirms_what_was_not_sent(talk: Talk) -> None:
    talk.after(talk.find("SendReceipt"), pb.CommandSendReceipt(producer_id=0, sequence_id=99, message_id=entry_id(8)))


@breach("core.send.receipts-in-order")
def the_broker_confirms_in_another_order(talk: Talk) -> None:
    first: Any
    second: Any
    first, second = talk.find("SendReceipt", 1).message, talk.find("SendReceipt", 2).message
    first.sequence_id, second.sequence_id = second.sequence_id, first.sequence_id


@breach("pip191.batch.same-set")
def mixes_values_in_a_batch(talk: Talk) -> None:
    talk.find("Send", 1).payload = entry("abc", [{"region": "us"}, {"region": "eu"}, {"region": "us"}], [("region", "us")])


@breach("pip191.batch.same-set")
def mixes_messages_with_and_without_a_known_value(talk: Talk) -> None:
    talk.find("Send", 2).payload = entry("de", [{"region": "eu"}, {"region": "us"}], [("region", "eu")])


@breach("pip191.header.extracted-set")
def leaves_the_header_of_a_uniform_batch_empty(talk: Talk) -> None:
    talk.find("Send", 2).payload = entry("de", [{"region": "us"}] * 2)


@breach("pip191.header.extracted-set")
def writes_a_pair_twice(talk: Talk) -> None:
    talk.find("Send", 2).payload = entry("de", [{"region": "eu"}] * 2, [("region", "eu")] * 2)


@breach("pip191.header.extracted-set")
def extracts_a_pair_that_no_message_has(talk: Talk) -> None:
    talk.find("Send", 2).payload = entry("de", [{"region": "eu"}] * 2, [("region", "eu"), ("n", "9")])


@breach("core.deliver.needs-permits")
def the_broker_delivers_without_permits(talk: Talk) -> None:
    talk.drop(talk.find("Flow", 1))


@breach("core.client.permits-bounded")
def gives_back_more_permits_than_it_has_used(talk: Talk) -> None:
    talk.find("Flow", 1).message.messagePermits = 1005  # type: ignore[attr-defined]


@breach("core.client.permits-bounded")
def gives_all_permits_anew(talk: Talk) -> None:
    talk.after(talk.find("Message", 0), pb.CommandFlow(consumer_id=0, messagePermits=1000), direction="->")


@breach("core.deliver.consumer-id-unchanged")
def the_broker_delivers_to_nobody(talk: Talk) -> None:
    message: Any = talk.find("Message", 0).message
    message.consumer_id = 4


@breach("core.deliver.content")
def the_broker_delivers_damaged_bytes(talk: Talk) -> None:
    talk.find("Message").payload = single("n", checksum="invalid")


@breach("core.client.acks-delivered")
def acknowledges_an_entry_that_did_not_come(talk: Talk) -> None:
    talk.find("Ack").message.message_id.append(entry_id(40))  # type: ignore[attr-defined]


@breach("core.client.acks-delivered")
def acknowledges_all_that_will_ever_come(talk: Talk) -> None:
    message: Any = talk.find("Ack", 1).message
    message.message_id[0].entryId = 1000


@breach("pip145.flag.nothing-unasked")
def the_broker_tells_another_watcher(talk: Talk) -> None:
    talk.after(talk.find("WatchTopicUpdate"), pb.CommandWatchTopicUpdate(watcher_id=9, new_topics=[A], topics_hash="12345678"))


@breach("pip247.flag.nothing-unasked")
def the_broker_tells_partitions_that_nobody_watches(talk: Talk) -> None:
    talk.after(talk.find("Connected"), pb.CommandPartitionUpdate(version=1, watcher_id=9, topic_with_partition=counts(t=1)))


@breach("pr25648.flag.nothing-unasked")
def the_broker_tells_scalable_topics_that_nobody_watches(talk: Talk) -> None:
    talk.after(talk.find("Connected"), pb.CommandWatchScalableTopicsUpdate(watch_id=9, snapshot=pb.ScalableTopicsSnapshot()))


@breach("pip145.hash.value")
def the_broker_hashes_a_list_wrongly(talk: Talk) -> None:
    message: Any = talk.find("GetTopicsOfNamespaceResponse").message
    message.topics.append("persistent://public/default/z")


@breach("pip145.watch.success-carries-hash")
def the_broker_hashes_an_answer_wrongly(talk: Talk) -> None:
    message: Any = talk.find("WatchTopicListSuccess", 1).message
    message.topic.pop()


@breach("pip145.watch.success-carries-hash")
def the_broker_leaves_out_a_list(talk: Talk) -> None:
    message: Any = talk.find("WatchTopicListSuccess", 1).message
    del message.topic[:]


@breach("pip145.update.hash")
def the_broker_hashes_an_update_wrongly(talk: Talk) -> None:
    message: Any = talk.find("WatchTopicUpdate", 0).message
    message.topics_hash = "12345678"


@breach("pip145.update.hash")
def the_broker_loses_an_update(talk: Talk) -> None:
    talk.drop(talk.find("WatchTopicUpdate", 0))


@breach("pip145.client.watch-id-unique")
def watches_two_patterns_with_one_id(talk: Talk) -> None:
    message: Any = talk.find("WatchTopicList", 1).message
    message.topics_pattern = "b.*"


@breach("pip247.version.grows")
def the_broker_counts_versions_down(talk: Talk) -> None:
    for name, number in (("PartitionUpdate", 2), ("PartitionUpdateResult", 2)):
        message: Any = talk.find(name, number).message
        message.version = 0
    talk.drop(talk.find("PartitionUpdateResult", 2))


@breach("pip247.version.grows")
def the_broker_gives_other_counts_the_same_version(talk: Talk) -> None:
    message: Any = talk.find("PartitionUpdate", 1).message
    message.topic_with_partition[0].partition = 9


@breach("pip247.client.result")
def says_the_result_of_an_update_that_did_not_come(talk: Talk) -> None:
    message: Any = talk.find("PartitionUpdateResult", 2).message
    message.version = 3


@breach("pip247.client.one-result")
def says_a_result_twice(talk: Talk) -> None:
    talk.again(talk.find("PartitionUpdateResult", 2))


@breach("pip247.client.unknown-id")
def says_the_result_of_a_watcher_that_is_not_there(talk: Talk) -> None:
    message: Any = talk.find("PartitionUpdateResult", 2).message
    message.watcher_id = 5


@breach("pip247.client.unknown-id")
def says_the_result_of_a_watcher_that_it_has_closed(talk: Talk) -> None:
    talk.after(talk.find("PartitionUpdate", 2), pb.CommandWatchPartitionUpdateClose(request_id=40, watcher_id=0), direction="->")


@breach("pr25648.client.hash-on-reconnect")
def names_a_set_that_it_never_had(talk: Talk) -> None:
    message: Any = talk.find("WatchScalableTopics", 1).message
    message.current_hash = "12345678"
