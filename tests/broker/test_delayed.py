"""Delayed delivery: what the cases can't ask of a broker in its default settings, and many delays at once."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.broker import Broker, Configuration
from refimpl.wire import encode_payload
from refimpl.wire.pulsar_api_pb2 import MessageMetadata
from tests.fakes.broker_peer import TOPIC, Peer

DAY = 1_700_000_000.0
"""Seconds since 1970 when the broker's own clock begins."""


def world(**settings):
    broker = Broker(Configuration(**settings), wall_clock_offset=DAY)
    peer = Peer(broker)
    peer.producer()
    peer.subscribe(kind="Shared")
    peer.flow(1000)
    return peer


def publish(peer, number, seconds):
    """Publish a message that is due so many seconds after the beginning; return what comes at once."""
    metadata = MessageMetadata(producer_name="p", sequence_id=number, publish_time=0, deliver_at_time=round((DAY + seconds) * 1000))
    peer.send("send", encode_payload(metadata, b"%d" % number), producer_id=1, sequence_id=number)
    return numbers(peer)


def numbers(peer):
    return list(map(int, peer.texts()))


def at(peer, seconds):
    peer.broker.tick(seconds)
    return numbers(peer)


@pytest.mark.parametrize(
    ("settings", "early", "due"),
    [
        ({}, 1.0, 3.0),
        ({"delayed_delivery_tick_time_millis": 200}, 0.2, 3.0),
        ({"is_delayed_delivery_deliver_at_time_strict": True}, 0.0, 3.0),
    ],
)
def test_entry_waits_for_its_time_or_comes_a_tick_before_it_when_something_else_happens(settings, early, due):
    peer = world(**settings)
    assert publish(peer, 0, due) == []
    assert peer.broker.next_deadline() == pytest.approx(due)
    assert at(peer, due - early - 0.01) == []
    assert peer.flow(1) == []
    assert at(peer, due - early) == ([0] if early == 0 else [])
    assert peer.flow(1) == ([] if early == 0 else ["0"])


def test_nothing_waits_if_delayed_delivery_is_disabled():
    assert publish(world(delayed_delivery_enabled=False), 0, 3600) == [0]


def test_what_waits_is_told_in_the_stats():
    peer = world()
    publish(peer, 0, 60)
    assert peer.broker.admin.topic_stats(TOPIC)["subscriptions"]["s"]["msgDelayed"] == 1


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30))
def test_each_comes_once_when_its_time_has_come_in_the_order_of_time(delays):
    peer = world()
    found = [body for number, seconds in enumerate(delays) for body in publish(peer, number, seconds)]
    for second in range(42):
        came = at(peer, float(second))
        assert all(second - 1 <= delays[one] <= second + 1 for one in came)
        found += came
    assert sorted(found) == list(range(len(delays)))
    assert all(delays[one] <= delays[other] + 1 for one, other in pairwise(found))
    assert peer.broker.next_deadline() is None or peer.broker.next_deadline() > 42


def test_consumers_of_another_type_get_what_waited():
    peer = world()
    assert publish(peer, 0, 3600) == []
    peer.ask("close_consumer", consumer_id=1, request_id=2)
    peer.subscribe(consumer_id=2)
    assert peer.flow(1, consumer_id=2) == ["0"]
