"""PR 7629 on the broker's wire: what is delivered, acknowledged, charged and counted."""

import json
from collections.abc import Mapping

import pytest

from refimpl.broker import Broker, Configuration
from refimpl.broker.subscription import PAUSE, REJECTED_AT_ONCE
from refimpl.proposals.message_filter import (
    BASIC_AVRO_FILTER,
    BYTES_PREFIX_FILTER,
    PREFIX_KEY,
    REGEX_FILTER,
    REGEX_KEY,
    FilterRegistry,
    SchemaAccess,
)
from refimpl.proposals.message_filter.kinds import BytesPrefixFilter
from refimpl.proposals.profiles import AS_WRITTEN
from refimpl.wire import compress, encode_payload
from refimpl.wire.pulsar_api_pb2 import (
    LZ4,
    ConsumerBusy,
    EncryptionKeys,
    FilterMeta,
    IncompatibleSchema,
    KeyValue,
    MessageMetadata,
    NotAllowedError,
    Schema,
)
from tests.fakes.broker_peer import TOPIC, Peer, make_broker
from tests.samples.message_filter import avro, avro_payload

NUMBERS = [str(number) for number in range(101)]
MATCHING = NUMBERS[30:60]
SUBSCRIBE = {"topic": TOPIC, "subscription": "s", "subType": "Exclusive", "consumer_id": 1, "request_id": 2, "initialPosition": "Earliest"}


def regex(pattern: str = "[3-5][0-9]") -> FilterMeta:
    return meta(REGEX_FILTER, **{REGEX_KEY: pattern})


def meta(name: str, **properties: str) -> FilterMeta:
    return FilterMeta(filter_class_name=name, filter_properties=[KeyValue(key=key, value=value) for key, value in properties.items()])


def filtered(broker: Broker | None = None, filter_meta: FilterMeta | None = None, kind: str = "Exclusive", **fields: object) -> Peer:
    peer = Peer(broker or make_broker())
    peer.producer()
    peer.send("subscribe", **{**SUBSCRIBE, "filter_meta": filter_meta or regex(), "subType": kind, **fields})
    answer = peer.answers()[0]
    assert answer.DESCRIPTOR.name == "CommandSuccess", answer
    return peer


def subscription(peer: Peer, name: str = "s") -> dict:
    return peer.broker.admin.topic_stats(TOPIC)["subscriptions"][name]


def counters(peer: Peer) -> tuple[int, ...]:
    stats = subscription(peer)
    return tuple(stats[f"messageFilter{kind}MsgCount"] for kind in ("Processed", "Accepted", "Rejected", "Undecidable"))


def delivered(peer: Peer) -> list[tuple[int, list[int], int]]:
    """Return entry, ack_set and redelivery count of each MESSAGE."""
    messages = [frame.command.message for frame in peer.frames() if frame.command.HasField("message")]
    return [(one.message_id.entryId, list(one.ack_set), one.redelivery_count) for one in messages]


# The example


def test_the_example() -> None:
    peer = filtered()
    peer.publish(*NUMBERS)
    peer.frames()
    assert peer.flow(1000) == MATCHING
    assert subscription(peer)["msgBacklog"] == 30
    peer.acknowledge(*range(30, 60))
    assert subscription(peer)["msgBacklog"] == 0
    assert counters(peer) == (101, 30, 71, 0)
    assert subscription(peer)["consumers"][0]["availablePermits"] == 970


def test_entries_are_judged_only_while_there_are_permits() -> None:
    peer = filtered()
    peer.publish(*NUMBERS)
    peer.frames()
    assert peer.flow(30) == MATCHING
    peer.acknowledge(*range(30, 60))
    assert subscription(peer)["msgBacklog"] == 41
    assert peer.flow(1) == []
    assert subscription(peer)["msgBacklog"] == 0


def test_each_message_of_a_batch_is_judged() -> None:
    peer = filtered()
    for begin in range(0, 101, 7):
        peer.publish_batch(*NUMBERS[begin : begin + 7])
    peer.frames()
    peer.send("flow", consumer_id=1, messagePermits=1000)
    assert delivered(peer) == [(4, [0b1111100], 0), (5, [], 0), (6, [], 0), (7, [], 0), (8, [0b0001111], 0)]
    stats = subscription(peer)
    assert (stats["msgBacklog"], stats["consumers"][0]["availablePermits"]) == (30, 970)
    peer.acknowledge(4, 5, 6, 7, 8)
    assert subscription(peer)["msgBacklog"] == 0
    assert counters(peer) == (101, 30, 71, 0)


# Acknowledgements and redelivery


def batch_in_part(**settings: str) -> Peer:
    peer = filtered(make_broker(**settings), kind="Shared")
    peer.publish_batch("1", "30", "x", "59", "40")
    peer.frames()
    peer.send("flow", consumer_id=1, messagePermits=10)
    assert delivered(peer) == [(0, [0b11010], 0)]
    assert subscription(peer)["unackedMessages"] == 3
    return peer


def test_a_batch_in_part_is_redelivered_in_part_without_being_judged_anew() -> None:
    peer = batch_in_part()
    peer.send("redeliverUnacknowledgedMessages", consumer_id=1)
    assert delivered(peer) == [(0, [0b11010], 1)]
    assert counters(peer)[2] == 2, "what is acknowledged is not judged again"


def test_indexes_that_the_client_acknowledges_are_merged_with_the_rejected_ones() -> None:
    peer = batch_in_part(acknowledgmentAtBatchIndexLevelEnabled="true")
    peer.send("ack", consumer_id=1, ack_type="Individual", message_id=[{"ledgerId": 1, "entryId": 0, "ack_set": [0b11101]}])
    peer.send("redeliverUnacknowledgedMessages", consumer_id=1)
    assert delivered(peer) == [(0, [0b11000], 1)]
    peer.send("ack", consumer_id=1, ack_type="Individual", message_id=[{"ledgerId": 1, "entryId": 0, "ack_set": [0b00111]}])
    assert subscription(peer)["msgBacklog"] == 0


def test_without_indexes_the_client_acknowledges_the_entry() -> None:
    peer = batch_in_part()
    peer.send("ack", consumer_id=1, ack_type="Individual", message_id=[{"ledgerId": 1, "entryId": 0, "ack_set": [0b11101]}])
    assert subscription(peer)["msgBacklog"] == 3
    peer.acknowledge(0)
    assert subscription(peer)["msgBacklog"] == 0


def test_rejected_entries_are_acknowledged_one_by_one_and_not_delivered_to_the_next_consumer() -> None:
    peer = filtered()
    peer.publish("30", "1", "x", "31")
    peer.frames()
    assert peer.flow(10) == ["30", "31"]
    internal = peer.broker.admin.internal_stats(TOPIC)["cursors"]["s"]
    assert internal == {"markDeletePosition": "1:-1", "individuallyDeletedMessages": "[1, 2]"}
    peer.send("close_consumer", consumer_id=1, request_id=3)
    peer.frames()
    peer.subscribe(consumer_id=2, filter_meta=regex(".*"))
    assert peer.flow(10, consumer_id=2) == ["30", "31"]


def test_a_seek_brings_back_what_was_rejected_and_it_is_judged_by_the_new_filter() -> None:
    peer = filtered()
    peer.publish_batch("30", "x")
    peer.publish("y", "31")
    peer.frames()
    peer.flow(10)
    peer.send("seek", consumer_id=1, request_id=3, message_id={"ledgerId": 1, "entryId": 0})
    peer.frames()
    peer.subscribe(filter_meta=regex("[xy]"))
    peer.send("flow", consumer_id=1, messagePermits=10)
    assert delivered(peer) == [(0, [0b10], 0), (1, [], 0)]


def test_rejected_indexes_outlive_the_broker() -> None:
    peer = batch_in_part()
    second = Peer(Broker(store=peer.broker.store))
    second.subscribe(kind="Shared")
    second.send("flow", consumer_id=1, messagePermits=10)
    assert delivered(second) == [(0, [0b11010], 0)]


def test_redelivery_goes_to_the_other_consumer_with_the_same_messages() -> None:
    peer = batch_in_part()
    peer.subscribe(consumer_id=2, kind="Shared", filter_meta=regex())
    peer.send("flow", consumer_id=2, messagePermits=1)
    peer.send("redeliverUnacknowledgedMessages", consumer_id=1, message_ids=[{"ledgerId": 1, "entryId": 0}])
    messages = [frame.command.message for frame in peer.frames() if frame.command.HasField("message")]
    assert [(one.consumer_id, list(one.ack_set), one.redelivery_count) for one in messages] == [(2, [0b11010], 1)]


# Kinds of entries, of subscriptions, of topics


@pytest.mark.parametrize("kind", ["Exclusive", "Shared", "Failover"])
def test_every_type_is_filtered(kind: str) -> None:
    peer = filtered(kind=kind)
    peer.publish("1", "30")
    peer.frames()
    assert peer.flow(10) == ["30"]


def test_a_reader_is_filtered() -> None:
    peer = filtered(durable=False, start_message_id={"ledgerId": 0, "entryId": 0})
    peer.publish("1", "30")
    peer.frames()
    assert peer.flow(10) == ["30"]


def test_a_non_persistent_topic_is_filtered() -> None:
    topic = TOPIC.replace("persistent", "non-persistent")
    peer = Peer(make_broker())
    peer.producer(topic)
    peer.subscribe(topic, filter_meta=regex())
    peer.flow(10)
    peer.publish("1", "30")
    peer.publish_batch("2", "31")
    frames = [frame for frame in peer.frames() if frame.command.HasField("message")]
    assert [list(frame.command.message.ack_set) for frame in frames] == [[], [0b10]]
    assert peer.broker.admin.topic_stats(topic)["subscriptions"]["s"]["messageFilterRejectedMsgCount"] == 2


def test_compressed_and_encrypted_entries() -> None:
    peer = filtered()
    plain = {"producer_name": "p", "sequence_id": 0, "publish_time": 0}
    for text in (b"31", b"131"):
        header = MessageMetadata(**plain, compression=LZ4, uncompressed_size=len(text))
        peer.send("send", encode_payload(header, compress(text, LZ4)), producer_id=1, sequence_id=0)
    secret = MessageMetadata(**plain, encryption_keys=[EncryptionKeys(key="k", value=b"v")])
    peer.send("send", encode_payload(secret, b"sealed"), producer_id=1, sequence_id=0)
    peer.frames()
    peer.send("flow", consumer_id=1, messagePermits=10)
    assert delivered(peer) == [(0, [], 0), (2, [], 0)]
    assert counters(peer) == (3, 1, 1, 1)


# Who may come


def test_a_bad_filter_creates_nothing() -> None:
    peer = Peer(make_broker())
    for bad in (meta("x"), meta(REGEX_FILTER), regex("("), meta(BASIC_AVRO_FILTER, state="paid"), FilterMeta(filter_class_name="")):
        answer = peer.subscribe(filter_meta=bad)
        assert answer.error == NotAllowedError
    assert peer.broker.admin.topics("public/default", "persistent") == []
    assert peer.subscribe().request_id == 2, "the id is free"


def test_a_filter_of_somebody_else_is_built_once_for_each_subscribe() -> None:
    built: list[BytesPrefixFilter] = []

    def counting(properties: Mapping[str, str], schemas: SchemaAccess) -> BytesPrefixFilter:
        built.append(BytesPrefixFilter(properties, schemas))
        return built[-1]

    wanted = meta("others.Counting", **{PREFIX_KEY: "3"})
    peer = filtered(Broker(plugins={"pr7629": FilterRegistry({"others.Counting": counting})}), wanted, "Shared")
    assert len(built) == 1, "what was built to check it is what judges"
    peer.publish("1", "30")
    peer.frames()
    assert peer.flow(10) == ["30"]
    assert peer.subscribe(kind="Shared", filter_meta=wanted).request_id == 2
    assert len(built) == 1, "a repeated SUBSCRIBE needs none"
    assert peer.subscribe(consumer_id=2, kind="Shared", filter_meta=wanted).request_id == 2
    assert len(built) == 2


def test_one_filter_for_each_subscription() -> None:
    peer = filtered(kind="Shared")
    assert peer.subscribe(consumer_id=2, kind="Shared", filter_meta=regex("x")).error == ConsumerBusy
    assert peer.subscribe(consumer_id=2, kind="Shared").error == ConsumerBusy
    assert peer.subscribe(consumer_id=2, kind="Shared", filter_meta=regex()).request_id == 2
    assert peer.subscribe(consumer_id=3, kind="Shared", filter_meta=regex("(")).error == NotAllowedError
    for number in (1, 2):
        peer.send("close_consumer", consumer_id=number, request_id=3)
    peer.frames()
    assert peer.subscribe(consumer_id=2, kind="Shared").request_id == 2


def test_the_letter_gives_each_consumer_its_own() -> None:
    peer = filtered(Broker(Configuration(), profiles=AS_WRITTEN), kind="Shared")
    assert peer.subscribe(consumer_id=2, kind="Shared", filter_meta=regex("[0-2][0-9]")).request_id == 2
    peer.send("flow", consumer_id=2, messagePermits=10)
    peer.publish("10", "30")
    assert peer.texts() == ["10"]


def test_a_repeated_subscribe_changes_no_filter() -> None:
    peer = filtered()
    assert peer.subscribe(filter_meta=regex("x")).request_id == 2
    peer.publish("x", "30")
    peer.frames()
    assert peer.flow(10) == ["30"]


def test_a_broker_without_the_proposal_ignores_the_field() -> None:
    peer = filtered(Broker(proposals=frozenset({"pip145"})), meta("no such class"))
    peer.publish("1", "30")
    peer.frames()
    assert peer.flow(10) == ["1", "30"]
    assert not any(name.startswith("messageFilter") for name in subscription(peer))
    assert not peer.broker.feature_flags().supports_message_filter
    assert make_broker().feature_flags().supports_message_filter


def test_a_subscription_without_a_filter_gets_everything() -> None:
    peer = filtered()
    peer.subscribe(consumer_id=2, name="all")
    peer.publish("1", "30")
    peer.frames()
    assert peer.flow(10, consumer_id=2) == ["1", "30"]
    assert subscription(peer, "all")["messageFilterProcessedMsgCount"] == 0


def test_a_filter_that_wants_nothing_of_a_large_backlog_holds_up_nobody() -> None:
    count = 2 * REJECTED_AT_ONCE // 1000
    peer = filtered()
    peer.publish(*["x"] * count, "30")
    peer.frames()
    assert peer.flow(1) == []
    left = [subscription(peer)["msgBacklog"]]
    assert count // 4 < left[0] < count
    assert Peer(peer.broker).ask("ping").DESCRIPTOR.name == "CommandPong"
    while left[-1] > 1:
        deadline = peer.broker.next_deadline()
        assert deadline <= peer.broker.now + PAUSE
        peer.broker.tick(deadline)
        left.append(subscription(peer)["msgBacklog"])
    assert (peer.texts(), len(left)) == (["30"], 3)


# Schemas

PAID = {"state": "paid", "amount": 7, "note": None, "kind": "BUY", "items": []}
OPEN = {**PAID, "state": "open"}


def send(peer: Peer, payload: bytes, version: bytes = b"") -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=0)
    if version:
        metadata.schema_version = version
    peer.send("send", encode_payload(metadata, payload), producer_id=1, sequence_id=0)


@pytest.mark.parametrize(
    ("kind", "encode"), [(Schema.Avro, avro_payload), (Schema.Json, lambda value: json.dumps(value).encode())], ids=["avro", "json"]
)
@pytest.mark.parametrize("first", ["producer", "consumer"])
def test_a_filter_reads_messages_by_the_schema_of_the_topic(kind: int, encode: object, first: str) -> None:
    peer = Peer(make_broker())
    wanted = meta(BASIC_AVRO_FILTER, state="paid")
    if first == "consumer":
        assert peer.subscribe(filter_meta=wanted, schema=avro(kind=kind)).request_id == 2
    version = peer.producer(schema=avro(kind=kind)).schema_version
    assert version == bytes(8)
    if first == "producer":
        assert peer.subscribe(filter_meta=wanted).request_id == 2
    for value in (OPEN, PAID):
        send(peer, encode(value), version)
    peer.frames()
    peer.send("flow", consumer_id=1, messagePermits=10)
    assert delivered(peer) == [(1, [], 0)]


def test_messages_are_read_by_the_schema_that_they_were_written_with() -> None:
    def schema(*fields: str) -> dict:
        named = [{"name": name, "type": "string", "default": ""} for name in fields]
        return {"type": "record", "name": "R", "fields": named}

    old, new = schema("state"), schema("since", "state")
    peer = Peer(make_broker())
    first = peer.producer(schema=avro(old)).schema_version
    peer.subscribe(filter_meta=meta(BASIC_AVRO_FILTER, state="paid"))
    second = peer.producer(producer_id=2, schema=avro(new)).schema_version
    assert second == b"\0" * 7 + b"\1"
    send(peer, avro_payload({"state": "paid"}, old), first)
    send(peer, avro_payload({"since": "paid", "state": "open"}, new), second)
    send(peer, avro_payload({"since": "x", "state": "paid"}, new), second)
    send(peer, b"\0", b"\0" * 7 + b"\7")
    peer.frames()
    peer.send("flow", consumer_id=1, messagePermits=10)
    assert [entry for entry, _, _ in delivered(peer)] == [0, 2, 3]
    assert counters(peer) == (4, 2, 1, 1)


def test_a_schema_that_does_not_fit_is_refused_after_a_filter_that_can_be_built() -> None:
    peer = Peer(make_broker())
    peer.producer(schema=avro())
    other = avro({"type": "record", "name": "shop.Order", "fields": [{"name": "state", "type": "int"}]})
    answer = peer.subscribe(filter_meta=meta(BASIC_AVRO_FILTER, state="paid"), schema=other)
    assert answer.error == IncompatibleSchema
    assert peer.broker.admin.subscriptions(TOPIC) == []
    auto = Schema(name="", type=Schema.AutoConsume, schema_data=b"")
    assert peer.subscribe(filter_meta=meta(BASIC_AVRO_FILTER, state="paid"), schema=auto).request_id == 2


def test_a_prefix_needs_no_schema() -> None:
    peer = filtered(filter_meta=meta(BYTES_PREFIX_FILTER, **{PREFIX_KEY: "ab"}))
    peer.publish("a", "ab", "abc", "xab")
    peer.frames()
    assert peer.flow(10) == ["ab", "abc"]
