"""The backlog quota, with Pulsar's refusal."""

from __future__ import annotations

import pytest

from refimpl.configuration import Configuration
from refimpl.wire.pulsar_api_pb2 import ProducerBlockedQuotaExceededError, ProducerBlockedQuotaExceededException
from tests.fakes.broker_peer import Peer, make_broker

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
