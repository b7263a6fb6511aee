"""PR 7629 in the broker, where no case can look: stores that outlive it, filters of others, brokers from before, large backlogs."""

from collections.abc import Mapping

from refimpl.broker import Broker
from refimpl.broker.subscription import PAUSE, REJECTED_AT_ONCE
from refimpl.proposals.message_filter import (
    BASIC_AVRO_FILTER,
    PREFIX_KEY,
    REGEX_FILTER,
    REGEX_KEY,
    FilterRegistry,
    SchemaAccess,
)
from refimpl.proposals.message_filter.kinds import BytesPrefixFilter
from refimpl.wire.pulsar_api_pb2 import (
    FilterMeta,
    IncompatibleSchema,
    Schema,
)
from tests.fakes.broker_peer import TOPIC, Peer, make_broker
from tests.samples.message_filter import avro, meta


def filtered(broker: Broker | None = None, filter_meta: FilterMeta | None = None, kind: str = "Exclusive") -> Peer:
    peer = Peer(broker or make_broker())
    peer.producer()
    assert peer.subscribe(kind=kind, filter_meta=filter_meta or meta()).request_id == 2
    return peer


def subscription(peer: Peer) -> dict:
    return peer.broker.admin.topic_stats(TOPIC)["subscriptions"]["s"]


def delivered(peer: Peer) -> list[tuple[int, list[int], int]]:
    """Return entry, ack_set and redelivery count of each MESSAGE."""
    messages = [frame.command.message for frame in peer.frames() if frame.command.HasField("message")]
    return [(one.message_id.entryId, list(one.ack_set), one.redelivery_count) for one in messages]


# Acknowledgements


def batch_in_part(broker: Broker | None = None) -> Peer:
    peer = filtered(broker, kind="Shared")
    peer.publish_batch("1", "30", "x", "59", "40")
    peer.frames()
    peer.send("flow", consumer_id=1, messagePermits=10)
    assert delivered(peer) == [(0, [0b11010], 0)]
    assert subscription(peer)["unackedMessages"] == 3
    return peer


def test_without_indexes_the_client_acknowledges_the_entry() -> None:
    peer = batch_in_part(make_broker(acknowledgmentAtBatchIndexLevelEnabled="false"))
    peer.send("ack", consumer_id=1, ack_type="Individual", message_id=[{"ledgerId": 1, "entryId": 0, "ack_set": [0b11101]}])
    assert subscription(peer)["msgBacklog"] == 1
    peer.acknowledge(0)
    assert subscription(peer)["msgBacklog"] == 0


def test_a_seek_brings_back_what_was_rejected_and_it_is_judged_by_the_new_filter() -> None:
    peer = filtered()
    peer.publish_batch("30", "x")
    peer.publish("y", "31")
    peer.frames()
    peer.flow(10)
    peer.send("seek", consumer_id=1, request_id=3, message_id={"ledgerId": 1, "entryId": 0})
    peer.frames()
    peer.subscribe(filter_meta=meta(REGEX_FILTER, (REGEX_KEY, "[xy]")))
    peer.send("flow", consumer_id=1, messagePermits=10)
    assert delivered(peer) == [(0, [0b10], 0), (1, [], 0)]


def test_rejected_indexes_outlive_the_broker() -> None:
    peer = batch_in_part()
    second = Peer(Broker(store=peer.broker.store))
    second.subscribe(kind="Shared")
    second.send("flow", consumer_id=1, messagePermits=10)
    assert delivered(second) == [(0, [0b11010], 0)]


# Who may come


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


def test_a_broker_without_the_proposal_ignores_the_field() -> None:
    peer = filtered(Broker(proposals=frozenset({"pip145"})), meta("no such class"))
    peer.publish("1", "30")
    peer.frames()
    assert peer.flow(10) == ["1", "30"]
    assert not any(name.startswith("messageFilter") for name in subscription(peer))
    assert not peer.broker.feature_flags().supports_message_filter
    assert make_broker().feature_flags().supports_message_filter


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


def test_a_schema_that_does_not_fit_is_refused_after_a_filter_that_can_be_built() -> None:
    peer = Peer(make_broker())
    peer.producer(schema=avro())
    other = avro({"type": "record", "name": "shop.Order", "fields": [{"name": "state", "type": "int"}]})
    answer = peer.subscribe(filter_meta=meta(BASIC_AVRO_FILTER, state="paid"), schema=other)
    assert answer.error == IncompatibleSchema
    assert peer.broker.admin.subscriptions(TOPIC) == []
    auto = Schema(name="", type=Schema.AutoConsume, schema_data=b"")
    assert peer.subscribe(filter_meta=meta(BASIC_AVRO_FILTER, state="paid"), schema=auto).request_id == 2
