"""Several brokers on sockets: the addresses that are printed, and a stock client that is redirected and whose topics move."""

from __future__ import annotations

import pulsar
import pytest

from refimpl.broker import Broker
from refimpl.net.embedded import EmbeddedBroker
from tests.fakes.link_peers import DEADLINE

NAMESPACES = [f"public/n{number}" for number in range(6)]


@pytest.fixture
def broker():
    with EmbeddedBroker(brokers=2) as running:
        for namespace in NAMESPACES:
            running.call(lambda one, name=namespace: one.admin.create_namespace(name))
        yield running


def owners(broker: Broker) -> set[str]:
    return {broker.service_urls(f"persistent://{namespace}/t")[0] for namespace in NAMESPACES}


def test_a_stock_client_is_redirected_and_follows_topics_that_move(broker):
    topics = [f"persistent://{namespace}/t" for namespace in NAMESPACES]
    client = pulsar.Client(broker.service_url)
    consumers = [client.subscribe(topic, "s") for topic in topics]
    producers = [client.create_producer(topic) for topic in topics]
    assert len(broker.call(owners)) == 2
    for text in (b"before", b"after"):
        for producer, consumer in zip(producers, consumers, strict=True):
            producer.send(text)
            while (message := consumer.receive(int(DEADLINE * 1000))).data() != text:
                assert message.data() == b"before"  # its acknowledgement may have been on the way when the topic moved
            consumer.acknowledge(message)
        if text == b"before":
            served = {topic: broker.call(lambda one, name=topic: one.service_urls(name)) for topic in topics}
            for namespace in NAMESPACES:
                broker.call(lambda one, name=namespace: one.admin.unload_namespace(name))
    moved = {topic: broker.call(lambda one, name=topic: one.service_urls(name)) for topic in topics}
    assert all(served[topic] != moved[topic] for topic in topics)
    client.close()


def test_each_broker_has_its_own_addresses(broker):
    members = broker.call(lambda one: one.members.running)
    assert members[0].service_url == broker.service_url
    assert len({url for one in members for url in (one.service_url, one.admin_url)}) == 4
