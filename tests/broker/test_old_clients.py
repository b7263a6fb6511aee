"""What clients of older protocol versions get, and what comes too late for anybody."""

import pytest

from refimpl.broker import Broker
from refimpl.names import partition_name
from tests.fakes.broker_peer import TOPIC, Peer


@pytest.mark.parametrize(("version", "checksum"), [(0, None), (10, None), (11, True), (21, True)])
def test_checksums_are_for_clients_of_version_11(version: int, checksum: bool | None) -> None:
    broker = Broker()
    producer, consumer = Peer(broker), Peer(broker, version=version)
    producer.producer()
    consumer.subscribe()
    producer.publish("m")
    consumer.send("flow", consumer_id=1, messagePermits=1)
    (frame,) = consumer.frames()
    assert (frame.payload().checksum_valid, frame.payload().body) == (checksum, b"m")


@pytest.mark.parametrize(("version", "told"), [(11, []), (12, ["CommandActiveConsumerChange"])])
def test_active_consumers_are_told_from_version_12(version: int, told: list[str]) -> None:
    peer = Peer(Broker(), version=version)
    peer.send("subscribe", topic=TOPIC, subscription="s", subType="Failover", consumer_id=1, request_id=1)
    assert [type(one).__name__ for one in peer.answers()] == ["CommandSuccess", *told]


def test_a_send_after_the_broker_has_closed_the_producer_is_dropped_for_a_while() -> None:
    broker = Broker()
    peer = Peer(broker)
    peer.producer()
    broker.admin.unload_topic(TOPIC)
    peer.frames()
    peer.publish("late")
    assert (peer.frames(), peer.session.closing) == ([], False)
    broker.tick(29)
    peer.send("ping")
    peer.frames()
    peer.producer()
    peer.publish("now")
    assert [type(one).__name__ for one in peer.answers()] == ["CommandSendReceipt"]
    peer.ask("close_producer", producer_id=1, request_id=2)
    peer.publish("nobody")
    assert peer.session.closing


def test_it_ends_the_connection_when_the_client_must_have_heard_of_it() -> None:
    broker = Broker()
    peer = Peer(broker)
    peer.producer()
    broker.admin.unload_topic(TOPIC)
    broker.tick(29)
    peer.send("ping")
    broker.tick(31)
    peer.publish("late")
    assert peer.session.closing


def test_new_partitions_have_the_durable_subscriptions_of_the_first() -> None:
    broker = Broker()
    broker.admin.create_partitioned_topic(TOPIC, 2)
    peer = Peer(broker)
    peer.subscribe(partition_name(TOPIC, 0), name="kept")
    peer.subscribe(partition_name(TOPIC, 0), consumer_id=2, name="reader", durable=False)
    peer.subscribe(partition_name(TOPIC, 1), consumer_id=3, name="of-second")
    broker.admin.update_partitioned_topic(TOPIC, 4)
    assert [broker.admin.subscriptions(partition_name(TOPIC, number)) for number in (2, 3)] == [["kept"], ["kept"]]
