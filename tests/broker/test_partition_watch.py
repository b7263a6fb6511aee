"""PIP-247 at the whole broker: when counts change, who is told, who may watch, what time does, and what a broker from before does."""

import pytest

from refimpl.broker import Broker
from refimpl.broker.broker import PROPOSALS
from refimpl.broker.rest import handle
from refimpl.proposals import profiles
from refimpl.proposals.administration import AdminRequest
from refimpl.proposals.partition_watch import PartitionWatchExtension
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    CommandError,
    CommandPartitionUpdate,
    CommandProducerSuccess,
    InvalidTopicName,
    NotAllowedError,
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


def test_success_tells_the_counts_and_growth_is_told(broker):
    peer = Peer(broker)
    success = watch(peer, "a", A + "-partition-0", B, "public/missing/x", LOOSE)
    assert told(success) == [("a", 2), (A + "-partition-0", 0), (B, 0), ("public/missing/x", 0), (LOOSE, 0)]
    assert broker.store.namespaces["public/default"].partitioned == {A: 2}  # pip247.watch.creates-nothing
    broker.admin.update_partitioned_topic(A, 4)
    assert updates(peer) == [(7, 1, [("a", 4), (A + "-partition-0", 0), (B, 0), ("public/missing/x", 0), (LOOSE, 0)])]
    result(peer, 1)
    assert peer.answers() == []


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
    asker.producer(other)
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


def test_nothing_else_is_told(broker):
    peer = Peer(broker)
    watch(peer, A)
    broker.admin.create_topic(B)
    broker.admin.create_partitioned_topic(LOOSE, 2)
    Peer(broker).producer(A + "-partition-0")
    broker.admin.unload_topic(A)
    broker.admin.unload_namespace("public/default")
    assert peer.answers() == []


def test_partitions_exist_when_the_update_is_sent(broker):
    peer = Peer(broker)
    watch(peer, A)
    broker.admin.update_partitioned_topic(A, 3)
    assert updates(peer) == [(7, 1, [(A, 3)])]
    assert isinstance(peer.producer(A + "-partition-2"), CommandProducerSuccess)


def test_every_connection_is_told_with_versions_of_its_own(broker):
    first, second, third = Peer(broker), Peer(broker), Peer(broker)
    watch(first, A)
    broker.admin.update_partitioned_topic(A, 3)
    assert updates(first) == [(7, 1, [(A, 3)])]
    watch(second, A)
    watch(second, B, A, watcher_id=8)
    broker.admin.update_partitioned_topic(A, 4)
    assert updates(first) == [(7, 2, [(A, 4)])]
    assert updates(second) == [(7, 1, [(A, 4)]), (8, 1, [(B, 0), (A, 4)])]
    assert third.answers() == []  # pip247.flag.nothing-unasked


# Who may


def test_refused_requests_keep_the_connection_and_register_nothing(broker):
    peer = Peer(broker)
    answer = watch(peer, A, "bad://public/default/x")
    assert isinstance(answer, CommandError)
    assert (answer.request_id, answer.error) == (1, InvalidTopicName)
    broker.admin.update_partitioned_topic(A, 3)
    assert peer.answers() == []
    assert told(watch(peer, A)) == [(A, 3)]


def test_permission_is_needed_for_each_topic_and_its_loss_ends_the_watch(broker):
    broker.admin.create_namespace("public/other")
    other = "persistent://public/other/o"
    asked = []

    def allows(role, namespace, *actions):
        asked.append(actions)
        return namespace not in forbidden

    broker.authorization.allows = allows
    forbidden = {"public/other"}
    peer = Peer(broker)
    answer = watch(peer, A, other)
    assert (answer.error, peer.session.closing) == (AuthorizationError, False)
    forbidden.clear()
    assert told(watch(peer, A, other)) == [(A, 2), (other, 0)]
    assert told(watch(peer, A, watcher_id=8)) == [(A, 2)]
    forbidden.add("public/other")
    broker.admin.update_partitioned_topic(A, 3)
    assert updates(peer) == [(8, 1, [(A, 3)])]  # pip247.watch.permission-revoked
    result(peer, 1, watcher_id=8)
    assert set(asked) == {("produce", "consume")}
    assert broker.extension(PartitionWatchExtension).watches.watcher_count(peer.session) == 1
    assert peer.ask("watchPartitionUpdateClose", request_id=4, watcher_id=7).request_id == 4  # pip247.close.without-permission


# Time


def test_an_update_without_a_result_is_sent_again_when_nothing_else_happens(broker):
    peer = Peer(broker)
    watch(peer, A)
    broker.admin.update_partitioned_topic(A, 3)
    assert updates(peer) == [(7, 1, [(A, 3)])]
    assert broker.next_deadline() == 10.0
    broker.tick(9.9)
    assert peer.answers() == []
    broker.tick(10.0)
    assert broker.sessions_with_output() == [peer.session]
    assert updates(peer) == [(7, 1, [(A, 3)])]
    result(peer, 1)
    assert broker.next_deadline() == 30.0  # the keep-alive


@pytest.mark.parametrize("profile", ["default", "as-written"])
def test_failed_results_are_answered_by_the_update(profile):
    broker = Broker(profiles=profiles.PROFILES[profile])
    broker.admin.create_partitioned_topic(A, 2)
    peer = Peer(broker)
    watch(peer, A)
    broker.admin.update_partitioned_topic(A, 3)
    pauses = []
    for _ in range(5):
        assert updates(peer) == [(7, 1, [(A, 3)])]
        result(peer, 1, success=False)
        before = broker.now
        if not peer.session.has_output:
            broker.tick(broker.next_deadline())
        pauses.append(round(broker.now - before, 6))
    assert pauses == {"default": [0, 0.1, 0.2, 0.4, 0.8], "as-written": [0] * 5}[profile]


def test_the_time_out_is_a_setting():
    broker = make_broker(notificationForPartitionUpdateTimeoutSeconds="2")
    broker.admin.create_partitioned_topic(A, 2)
    watch(Peer(broker), A)
    broker.admin.update_partitioned_topic(A, 3)
    assert broker.next_deadline() == 2.0
    with pytest.raises(ValueError, match="from 1, not '0'"):
        make_broker(notificationForPartitionUpdateTimeoutSeconds="0")


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


# The switch, and brokers from before


def test_switched_off(broker):
    assert flags(broker).supports_partition_update_watchers
    off = make_broker(enableNotificationForPartitionUpdate="false")
    assert not flags(off).supports_partition_update_watchers
    peer = Peer(off)
    assert watch(peer, A).error == NotAllowedError
    assert peer.ask("watchPartitionUpdateClose", request_id=2, watcher_id=7).request_id == 2
    assert not peer.session.closing


@pytest.mark.parametrize(
    ("command", "fields"),
    [
        ("watchPartitionUpdate", {"request_id": 1, "watcher_id": 7, "topics": [A]}),
        ("partitionUpdateResult", {"version": 1, "success": True, "watcher_id": 7}),
        ("watchPartitionUpdateClose", {"request_id": 1, "watcher_id": 7}),
    ],
)
def test_a_broker_from_before_ends_the_connection(command, fields):
    broker = Broker(proposals=PROPOSALS - {"pip247"})
    assert not flags(broker).HasField("supports_partition_update_watchers")
    peer = Peer(broker)
    peer.send(command, **fields)
    assert peer.answers() == []
    assert peer.session.closing


@pytest.mark.parametrize("command", ["watchPartitionUpdate", "partitionUpdateResult", "watchPartitionUpdateClose"])
def test_before_connect_the_connection_ends(broker, command):
    peer = Peer(broker, connect=False)
    peer.send(command, watcher_id=7, **({"version": 1, "success": True} if "Result" in command else {"request_id": 1}))
    assert peer.session.closing
