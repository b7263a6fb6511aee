"""The backlog quota, with Pulsar's refusal."""

from __future__ import annotations

import pytest

from refimpl.broker.policies import BACKLOG_QUOTA
from refimpl.configuration import Configuration
from refimpl.wire.pulsar_api_pb2 import ProducerBlockedQuotaExceededError, ProducerBlockedQuotaExceededException
from tests.fakes.broker_peer import TOPIC, Peer, make_broker

POLICIES = [("producer_request_hold", ProducerBlockedQuotaExceededError), ("producer_exception", ProducerBlockedQuotaExceededException)]


def full(peer: Peer) -> None:
    peer.producer()
    peer.publish(*["x" * 100] * 20)
    peer.frames()


@pytest.mark.parametrize(("policy", "code"), POLICIES)
def test_producers_are_refused_until_the_backlog_is_acknowledged(policy, code):
    broker = make_broker(backlogQuotaDefaultLimitBytes="1000", backlogQuotaDefaultRetentionPolicy=policy)
    peer = Peer(broker)
    peer.subscribe(name="fast")
    peer.subscribe(name="slow", consumer_id=2)
    full(peer)
    peer.acknowledge(19, kind="Cumulative")
    refused = peer.producer(producer_id=2)
    assert (refused.error, refused.message) == (code, "Cannot create producer on topic with backlog quota exceeded")
    peer.acknowledge(15, kind="Cumulative", consumer_id=2)
    assert peer.producer(producer_id=2).producer_ready


def test_connected_producers_are_closed_by_the_next_check():
    broker = make_broker(backlogQuotaDefaultLimitBytes="1000", backlogQuotaCheckIntervalInSeconds="20")
    broker.tick(0.0)
    peer = Peer(broker)
    peer.subscribe()
    full(peer)
    broker.tick(19.0)
    assert peer.frames() == []
    broker.tick(20.0)
    (closed,) = peer.answers()
    assert (closed.DESCRIPTOR.name, closed.producer_id) == ("CommandCloseProducer", 1)
    peer.acknowledge(19, kind="Cumulative")
    assert peer.producer().producer_ready
    broker.tick(40.0)
    assert "CommandCloseProducer" not in [one.DESCRIPTOR.name for one in peer.answers()]


@pytest.mark.parametrize(
    ("sizes", "acknowledged", "is_let_in"), [((10, 12000), 1, True), ((12000, 10), 1, True), ((5000, 5000, 5000), 1, False)]
)
def test_acknowledged_entries_count_with_the_average_size(sizes, acknowledged, is_let_in):
    peer = Peer(make_broker(backlogQuotaDefaultLimitBytes="10000"))
    peer.subscribe()
    peer.producer()
    peer.publish(*("x" * size for size in sizes))
    peer.frames()
    assert not hasattr(peer.producer(producer_id=2), "producer_ready")
    peer.acknowledge(acknowledged - 1, kind="Cumulative")
    assert hasattr(peer.producer(producer_id=2), "producer_ready") == is_let_in


@pytest.mark.parametrize(("above", "is_let_in"), [(1, True), (0, False), (-1, False)])
def test_a_backlog_of_the_size_of_the_quota_is_beyond_it(above, is_let_in):
    """As measured on 4.2.4."""
    broker = make_broker()
    peer = Peer(broker)
    peer.subscribe()
    full(peer)
    size = broker.admin.topic_stats(TOPIC)["backlogSize"]
    quota = {"destination_storage": {"limitSize": size + above, "limitTime": -1, "policy": "producer_exception"}}
    broker.admin.set_policy("public/default", BACKLOG_QUOTA, quota)
    assert hasattr(peer.producer(producer_id=2), "producer_ready") == is_let_in


@pytest.mark.parametrize("subscribed", [False, True])
def test_no_quota_by_default_and_none_without_subscriptions(subscribed):
    peer = Peer(make_broker(**({} if subscribed else {"backlogQuotaDefaultLimitBytes": "1000"})))
    if subscribed:
        peer.subscribe()
    full(peer)
    assert peer.producer(producer_id=2).producer_ready


@pytest.mark.parametrize(("key", "value"), [("LimitBytes", "-2"), ("LimitBytes", "10M"), ("RetentionPolicy", "drop")])
def test_settings_that_mean_nothing_are_refused(key, value):
    with pytest.raises(ValueError, match=f"backlogQuotaDefault{key}"):
        Configuration.from_settings({f"backlogQuotaDefault{key}": value})
