"""PIP-247 at the whole broker, beside what its cases see: every way in which a count changes, timers, stores, a peer that never reads."""

import pytest

from refimpl.broker import Broker
from refimpl.broker.rest import handle
from refimpl.proposals.administration import AdminRequest
from refimpl.proposals.partition_watch import PartitionWatchExtension
from refimpl.wire.pulsar_api_pb2 import (
    CommandPartitionUpdate,
)
from tests.fakes.broker_peer import Peer, make_broker

A, B = "persistent://public/default/a", "persistent://public/default/b"
LOOSE = "non-persistent://public/default/loose"


@pytest.fixture
def broker():
    broker = make_broker()
    broker.admin.create_partitioned_topic(A, 2)
    return broker


def told(command):
    return [(one.topic, one.partition) for one in command.topic_with_partition]


def watch(peer, *topics, watcher_id=7):
    return peer.ask("watchPartitionUpdate", request_id=1, watcher_id=watcher_id, topics=topics)


def updates(peer):
    """Return what came: watcher, version, counts; nothing but updates may have come."""
    found = peer.answers()
    assert all(isinstance(one, CommandPartitionUpdate) for one in found), found
    return [(one.watcher_id, one.version, told(one)) for one in found]


def result(peer, version, *, success=True, watcher_id=7):
    peer.send("partitionUpdateResult", version=version, success=success, watcher_id=watcher_id)


def flags(broker):
    peer = Peer(broker, connect=False)
    return peer.ask("connect", client_version="test", protocol_version=21).feature_flags


# Counts, and what changes them


def test_every_way_in_which_a_count_changes_is_told_once():
    broker = make_broker(allowAutoTopicCreationType="partitioned", defaultNumPartitions="3")
    broker.admin.create_namespace("public/other")
    other = "persistent://public/other/o"
    peer = Peer(broker)
    asker = Peer(broker)
    watch(peer, A, B, LOOSE, other)
    counts = {A: 0, B: 0, LOOSE: 0, other: 0}
    version = 0

    def changed(**changes):
        nonlocal version
        version += 1
        counts.update({{"a": A, "b": B, "loose": LOOSE, "other": other}[name]: count for name, count in changes.items()})
        assert updates(peer) == [(7, version, list(counts.items()))]
        result(peer, version)

    broker.admin.create_partitioned_topic(A, 1)
    changed(a=1)
    broker.admin.update_partitioned_topic(A, 5)
    changed(a=5)
    asker.ask("partitionMetadata", topic=B, request_id=1)
    changed(b=3)
    broker.admin.create_partitioned_topic(LOOSE, 2)
    changed(loose=2)
    broker.admin.delete_partitioned_topic(B)
    changed(b=0)
    asker.ask("partitionMetadata", topic=other, request_id=1)
    changed(other=3)
    broker.admin.delete_partitioned_topic(LOOSE, force=True)
    changed(loose=0)
    broker.admin.create_partitioned_topic(B, 1)
    changed(b=1)
    asker.session.eof(0.0)
    broker.admin.delete_namespace("public/other", force=True)
    changed(other=0)
    broker.admin.delete_namespace("public/default", force=True)  # two watched topics: one update
    changed(a=0, b=0)


# Time


def test_an_admin_call_happens_at_its_own_time(broker):
    watch(Peer(broker), A)
    handle(broker, AdminRequest("POST", "/admin/v2/persistent/public/default/a/partitions", body=b"3"), 25.0)
    assert broker.next_deadline() == 30.0
    broker.tick(30.0)
    assert broker.next_deadline() == 35.0


# Connections


def test_a_lost_connection_takes_its_watchers_and_what_is_in_flight(broker):
    peer = Peer(broker)
    watch(peer, A)
    broker.admin.update_partitioned_topic(A, 3)
    peer.session.eof(0.0)
    assert broker.extension(PartitionWatchExtension).watches.watcher_count(peer.session) == 0
    assert broker.next_deadline() is None
    again = Peer(broker)
    assert again.answers() == []
    assert told(watch(again, A)) == [(A, 3)]
    broker.admin.update_partitioned_topic(A, 4)
    assert updates(again) == [(7, 1, [(A, 4)])]


def test_a_second_broker_on_the_store_tells_the_counts(broker):
    broker.admin.update_partitioned_topic(A, 5)
    second = Broker(store=broker.store)
    assert told(watch(Peer(second), A)) == [(A, 5)]


def test_a_peer_that_never_reads_costs_only_its_own_connection(broker):
    lazy, other = Peer(broker), Peer(broker)
    names = [f"persistent://public/default/{number:0200}" for number in range(20_000)]
    lazy.send("watchPartitionUpdate", request_id=1, watcher_id=1, topics=[A, *names])
    watch(other, A)
    for count in range(3, 14):
        broker.admin.update_partitioned_topic(A, count)
        assert updates(other) == [(7, count - 2, [(A, count)])]
        result(other, count - 2)
    assert lazy.session.closing
    assert broker.extension(PartitionWatchExtension).watches.watcher_count(lazy.session) == 0
