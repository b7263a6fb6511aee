"""What the statistics of a topic tell besides its counters."""

from __future__ import annotations

import pytest

from refimpl.net.embedded import EmbeddedBroker

pulsar = pytest.importorskip("pulsar", reason="the client of PyPI is not installed")
TOPIC = "persistent://public/default/t"


@pytest.fixture
def broker():
    with EmbeddedBroker() as running:
        yield running


def test_who_is_there_and_what_was_delivered(broker):
    client = pulsar.Client(broker.service_url)
    kinds = pulsar.ConsumerType
    consumers = {
        kind: client.subscribe(TOPIC, kind.name, kind, consumer_name="mine", properties={"a": "b"})
        for kind in (kinds.Failover, kinds.KeyShared)
    }
    producer = client.create_producer(TOPIC, properties={"c": "d"})
    producer.send(b"one")
    for consumer in consumers.values():
        consumer.acknowledge(consumer.receive(20_000))
    stats = broker.call(lambda one: one.admin.topic_stats(TOPIC))
    (found,) = stats["publishers"]
    assert found["metadata"] == {"c": "d"}
    assert found["clientVersion"].startswith("Pulsar-CPP")
    failover, keys = stats["subscriptions"]["Failover"], stats["subscriptions"]["KeyShared"]
    assert failover["activeConsumerName"] == "mine"
    assert (keys["keySharedMode"], keys["allowOutOfOrderDelivery"], "activeConsumerName" in keys) == ("AUTO_SPLIT", False, False)
    assert keys["consumers"][0]["metadata"] == {"a": "b"}
    assert stats["deduplicationStatus"] == "Disabled"
    consumers[kinds.Failover].close()
    after = broker.call(lambda one: one.admin.topic_stats(TOPIC))["subscriptions"]["Failover"]
    assert (after["consumers"], after["msgOutCounter"], after["bytesOutCounter"] > 0) == ([], 1, True)  # of a consumer that has left
    client.close()
