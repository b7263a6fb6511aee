"""The client's side of PIP-247, rule by rule; the ids are those of the clauses."""

import pytest

from refimpl.proposals.partition_watch import (
    AS_WRITTEN,
    PartitionCounts,
    PartitionWatch,
    PartitionWatchState,
)
from refimpl.wire import command
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    CommandWatchPartitionUpdate,
    NotAllowedError,
    ServiceNotReady,
    TooManyRequests,
)
from tests.samples.partition_watch import NO_WATCHERS, WATCHERS, A, B, C, Peer


def peer_of(*topics, **arguments):
    return Peer(PartitionWatch(topics or (A, B), 7, **arguments))


def watching(*counts, **arguments):
    """Return a peer whose client has a watcher, and has applied its counts."""
    counts = counts or ((A, 2), (B, 3))
    peer = peer_of(*(topic for topic, _ in counts), **arguments)
    peer.connect()
    assert peer.success(*counts) == list(counts)
    assert peer.finish() is None
    assert (peer.watch.state, peer.sent()) == (PartitionWatchState.WATCHING, [])
    return peer


# ---- registering ----


def test_start_pip247_client_registers():
    watch = PartitionWatch([A, B, A], 2**64 - 1, profile=AS_WRITTEN)
    assert watch.commands_to_send(lambda: 1, 0.0) == []
    watch.connected(WATCHERS, 0.0)
    (request,) = watch.commands_to_send(lambda: 5, 0.0)
    assert request == CommandWatchPartitionUpdate(request_id=5, watcher_id=2**64 - 1, topics=[A, B])
    assert watch.next_call() is None
    pairs = [{"topic": A, "partition": 2}, {"topic": B, "partition": 0}]
    watch.received(command("watchPartitionUpdateSuccess", request_id=5, watcher_id=2**64 - 1, topic_with_partition=pairs), 1.0)
    assert watch.next_call() == PartitionCounts((A, B), (2, 0))  # pip247.client.success-calls
    assert watch.counts == {A: 0, B: 0}
    watch.called(True, 2.0)
    assert watch.counts == {A: 2, B: 0}
    assert watch.commands_to_send(lambda: 6, 2.0) == []
    assert watch.next_deadline() is None


@pytest.mark.parametrize(
    ("flags", "arguments"),
    [
        pytest.param(None, {}, id="pip247.client.needs-flag-none"),
        pytest.param(NO_WATCHERS, {}, id="pip247.client.needs-flag"),
        pytest.param(NO_WATCHERS, {"profile": AS_WRITTEN}, id="pip247.client.needs-flag-letter"),
        pytest.param(WATCHERS, {"enabled": False}, id="pip247.client.switched-off"),
    ],
)
def test_polling_pip247_client_polls(flags, arguments):
    peer = peer_of(counts={A: 2}, poll_interval=5.0, **arguments)
    assert peer.connect(flags) == []
    assert peer.wait() == (5.0, [("poll", A), ("poll", B)])
    assert peer.metadata(A, 2) is None
    assert peer.metadata(B, 3) == [(B, 3)]
    assert peer.finish() is None
    assert peer.watch.counts == {A: 2, B: 3}
    assert peer.wait() == (5.0, [("poll", A), ("poll", B)])
    assert peer.metadata(A, 1) is None  # pip247.client.shrinking
    assert peer.no_metadata(B) is None  # pip247.client.poll-failed
    assert peer.wait()[0] == 5.0
    peer.watch.close()
    assert (peer.sent(), peer.watch.next_deadline(), peer.watch.state) == ([], None, PartitionWatchState.CLOSED)
    assert peer.metadata(A, 9) is None


def test_default_interval_pip247_client_polls():
    peer = peer_of()
    peer.connect(None)
    assert peer.wait()[0] == 60.0


def test_poll_whose_listener_fails_is_repeated():
    peer = peer_of(A)
    peer.connect(None)
    peer.wait()
    assert peer.metadata(A, 3) == [(A, 3)]
    assert peer.finish(success=False) is None
    assert peer.wait() == (60.0, [("poll", A)])
    assert peer.metadata(A, 3) == [(A, 3)]


def test_answers_to_a_poll_while_the_listener_runs():
    peer = peer_of(A, B, C)
    peer.connect(None)
    peer.wait()
    assert peer.metadata(A, 3) == [(A, 3)]
    assert peer.metadata(C, 4) is None
    assert peer.metadata(B, 5) is None
    assert peer.finish() == [(C, 4), (B, 5)]
    peer.wait()
    assert peer.metadata(B, 5) is None
    assert peer.finish() is None  # B has 5 already
    assert peer.watch.counts == {A: 3, B: 5, C: 4}


def test_refused_watch_polls_pip247_client_refused():
    peer = peer_of()
    peer.connect()
    peer.now = 1.0
    assert peer.error(NotAllowedError) is None
    assert peer.watch.failure.code == NotAllowedError
    assert (peer.sent(), peer.watch.state) == ([], PartitionWatchState.POLLING)
    assert peer.wait() == (59.0, [("poll", A), ("poll", B)])
    peer.watch.close()
    assert peer.sent() == []


def test_refused_after_a_request_that_was_given_up_closes_what_the_broker_may_have():
    peer = peer_of(A)
    peer.connect()
    first = peer.request_id
    peer.wait()
    assert peer.wait() == (0.1, [("watch", A)])
    assert peer.success((A, 2), request_id=first) is None  # too late, but the broker has a watcher
    peer.error(NotAllowedError)
    assert (peer.sent(), peer.watch.state) == ([("close", 7)], PartitionWatchState.POLLING)
    peer.watch.close()
    assert peer.sent() == []


@pytest.mark.parametrize("code", [AuthorizationError, ServiceNotReady, TooManyRequests])
def test_failed_watch_is_repeated_pip247_client_retries(code):
    peer = peer_of(A)
    peer.connect()
    for seconds in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6):
        peer.error(code)
        assert peer.wait() == (seconds, [("watch", A)])
    peer.error(code)
    assert peer.wait() == (8.9, [("poll", A)])  # pip247.client.polls-while-retrying
    assert peer.metadata(A, 2) == [(A, 2)]
    peer.finish()
    assert peer.wait() == (21.1, [("watch", A)])
    assert peer.success((A, 2)) == [(A, 2)]
    peer.finish()
    assert peer.wait() == (600.0, [("watch", A)])
    peer.error(code)
    assert peer.wait() == (0.0, [("poll", A)])  # it is long since anybody told counts
    assert peer.wait() == (0.1, [("watch", A)])


def test_unanswered_watch_is_repeated():
    peer = peer_of(A, operation_timeout=5.0)
    peer.connect()
    late = peer.request_id
    assert peer.wait() == (5.0, [])
    assert peer.success((A, 2), request_id=late) is None
    assert peer.watch.state is PartitionWatchState.WAITING
    assert peer.wait() == (0.1, [("watch", A)])
    assert peer.success((A, 2), request_id=late) is None
    assert peer.success((A, 2)) == [(A, 2)]
    assert peer.watch.state is PartitionWatchState.WATCHING


def test_answers_for_others_are_ignored_pip247_client_unknown_id():
    peer = peer_of(A)
    peer.connect()
    assert peer.update(1, (A, 9)) is None
    assert peer.success((A, 9), watcher_id=8) is None
    assert peer.success((A, 9), request_id=99) is None
    peer.error(NotAllowedError, request_id=99)
    assert peer.metadata(A, 9, request_id=99) is None
    assert peer.watch.received(command("ping"), 0.0) is None
    assert peer.success((A, 2)) == [(A, 2)]
    peer.finish()
    assert peer.update(1, (A, 9), watcher_id=8) is None
    assert peer.sent() == []


# ---- updates ----


def test_update_pip247_client_update_calls():
    peer = watching()
    assert peer.update(1, (A, 2), (B, 4)) == [(A, 2), (B, 4)]
    assert peer.sent() == []
    assert peer.finish() is None
    assert peer.sent() == [("result", 1, True)]  # pip247.client.result
    assert peer.watch.counts == {A: 2, B: 4}
    assert peer.update(5, (A, 6), (B, 4)) == [(A, 6), (B, 4)]
    assert peer.finish(success=False) is None
    assert peer.sent() == [("result", 5, False)]
    assert peer.watch.counts == {A: 2, B: 4}


def test_repeated_update_pip247_client_not_newer():
    peer = watching((A, 2))
    peer.update(3, (A, 4))
    peer.finish()
    assert peer.sent() == [("result", 3, True)]
    for version in (3, 2, 0, 3):
        assert peer.update(version, (A, 9)) is None
        assert peer.sent() == [("result", version, True)]
    assert peer.watch.counts == {A: 4}


def test_repeated_update_after_a_failure_pip247_client_failed_again():
    peer = watching((A, 2))
    peer.update(1, (A, 4))
    for _ in range(3):
        assert peer.finish(success=False) is None
        assert peer.sent() == [("result", 1, False)]
        assert peer.update(1, (A, 4)) == [(A, 4)]
    peer.finish()
    assert peer.sent() == [("result", 1, True)]
    assert peer.update(1, (A, 4)) is None
    assert peer.sent() == [("result", 1, True)]


def test_repeated_update_while_the_listener_runs_pip247_client_one_result():
    peer = watching((A, 2))
    assert peer.update(1, (A, 4)) == [(A, 4)]
    assert peer.update(1, (A, 4)) is None
    assert peer.sent() == []
    assert peer.finish() is None
    assert peer.sent() == [("result", 1, True)]


def test_updates_while_the_listener_runs_pip247_client_newest_only():
    peer = watching((A, 2))
    assert peer.update(1, (A, 3)) == [(A, 3)]
    assert peer.update(2, (A, 4)) is None  # pip247.client.one-call
    assert peer.update(3, (A, 5)) is None
    assert peer.finish(success=False) == [(A, 5)]
    assert peer.sent() == [("result", 1, False)]
    assert peer.update(3, (A, 5)) is None  # the failure was that of version 1
    assert peer.finish() is None
    assert peer.sent() == [("result", 3, True)]


def test_shrinking_counts_pip247_client_shrinking():
    peer = watching((A, 4), (B, 3))
    assert peer.update(1, (A, 0), (B, 3)) == [(A, 4), (B, 3)]
    peer.finish()
    assert peer.sent() == [("result", 1, True)]
    assert peer.update(2, (A, 2), (B, 5)) == [(A, 4), (B, 5)]
    peer.finish()
    assert peer.watch.counts == {A: 4, B: 5}
    assert peer.update(3, (A, 6), (B, 5)) == [(A, 6), (B, 5)]


def test_topics_that_nobody_asked_for_pip247_client_foreign_topic():
    peer = watching((A, 2))
    assert peer.update(1, (C, 9), (A, 3)) == [(A, 3)]
    peer.finish()
    assert peer.update(2) == []
    peer.finish()
    assert peer.watch.counts == {A: 3}


def test_listener_that_was_not_called():
    with pytest.raises(ValueError, match="not called"):
        peer_of().finish()


# ---- a listener that fails on the success ----


def test_success_that_is_not_applied_pip247_client_success_failed():
    peer = peer_of(A)
    peer.connect()
    for seconds in (0.1, 0.2, 0.4):
        assert peer.success((A, 2)) == [(A, 2)]
        assert peer.finish(success=False) is None
        assert (peer.watch.state, peer.sent()) == (PartitionWatchState.DOUBTING, [])
        assert peer.wait() == (seconds, [("watch", A)])
        assert peer.watch.state is PartitionWatchState.CHECKING
    peer.success((A, 2))
    peer.finish()
    assert (peer.watch.counts, peer.watch.failure, peer.watch.state) == ({A: 2}, None, PartitionWatchState.WATCHING)
    peer.wait()
    peer.success((A, 2))
    peer.finish(success=False)
    assert peer.wait()[0] == 0.1


def test_update_makes_up_for_a_success_that_was_not_applied():
    peer = peer_of(A)
    peer.connect()
    peer.success((A, 2))
    assert peer.update(1, (A, 3)) is None
    assert peer.finish(success=False) == [(A, 3)]
    assert peer.watch.state is PartitionWatchState.DOUBTING
    assert peer.finish() is None
    assert (peer.watch.state, peer.sent()) == (PartitionWatchState.WATCHING, [("result", 1, True)])
    assert peer.wait() == (600.0, [("watch", A)])


# ---- reconciling ----


def test_reconcile_pip247_client_reconciles():
    peer = watching((A, 2))
    assert peer.update(1, (A, 3)) == [(A, 3)]
    assert peer.wait() == (600.0, [("watch", A)])
    assert peer.success((A, 4)) is None
    assert peer.finish() == [(A, 4)]
    assert peer.sent() == []  # the success has made up for the update
    assert peer.finish() is None
    assert peer.update(2, (A, 5)) == [(A, 5)]
    assert peer.finish() is None
    assert peer.sent() == [("result", 2, True)]
    assert peer.wait() == (600.0, [("watch", A)])


def test_reconcile_that_is_refused_keeps_the_watcher():
    peer = watching((A, 2), reconcile_period=10.0)
    peer.wait()
    peer.error(NotAllowedError)
    assert peer.watch.state is PartitionWatchState.POLLING
    assert peer.update(1, (A, 3)) == [(A, 3)]
    peer.finish()
    assert peer.sent() == [("result", 1, True)]
    peer.watch.close()
    assert peer.sent() == [("close", 7)]


def test_letter_starts_no_task_beside_the_watcher_pip247_client_no_task_beside_watch():
    peer = watching((A, 2), profile=AS_WRITTEN)
    assert peer.watch.next_deadline() is None
    peer.update(1, (A, 3))
    peer.finish()
    assert peer.watch.next_deadline() is None


# ---- connections that come and go ----


def test_reconnect_pip247_client_reconnects():
    peer = watching((A, 2))
    peer.update(9, (A, 3))
    peer.finish()
    peer.watch.disconnected(peer.now)
    assert (peer.sent(), peer.watch.next_deadline(), peer.watch.counts) == ([], None, {A: 3})
    assert peer.update(10, (A, 9)) is None
    assert peer.connect() == [("watch", A)]
    assert peer.success((A, 3)) == [(A, 3)]  # pip247.client.success-calls
    peer.finish()
    assert peer.update(1, (A, 4)) == [(A, 4)]  # pip247.client.versions-restart
    peer.finish()
    assert peer.sent() == [("result", 1, True)]


def test_listener_that_outlives_its_connection_pip247_client_no_foreign_result():
    peer = watching((A, 2))
    assert peer.update(1, (A, 3)) == [(A, 3)]
    peer.connect()
    assert peer.success((A, 4)) is None
    assert peer.update(1, (A, 5)) is None
    assert peer.finish() == [(A, 5)]
    assert (peer.sent(), peer.watch.counts) == ([], {A: 3})
    peer.finish()
    assert peer.sent() == [("result", 1, True)]


def test_what_was_told_before_the_end_of_a_connection_is_still_applied():
    peer = watching((A, 2))
    peer.update(1, (A, 3))
    peer.update(2, (A, 4))
    peer.watch.disconnected(peer.now)
    assert peer.finish(success=False) == [(A, 4)]
    assert peer.finish() is None
    assert (peer.watch.counts, peer.sent()) == ({A: 4}, [])


def test_brokers_with_and_without_pip247_client_other_broker():
    peer = watching((A, 2))
    peer.now = 1000.0
    assert peer.connect(NO_WATCHERS) == []
    assert peer.wait() == (0.0, [("poll", A)])
    assert peer.metadata(A, 3) == [(A, 3)]
    peer.finish()
    peer.now += 59.0
    peer.connect(NO_WATCHERS)
    assert peer.wait() == (1.0, [("poll", A)])  # connections that come and go don't put polls off
    peer.now += 30.0
    assert peer.connect(WATCHERS) == [("watch", A)]
    assert peer.metadata(A, 9) is None
    assert peer.success((A, 4)) == [(A, 4)]
    peer.finish()
    assert peer.watch.next_deadline() == peer.now + 600.0
    peer.connect(NO_WATCHERS)
    assert peer.wait() == (60.0, [("poll", A)])  # the success has told what the next poll would have


def test_refusal_holds_for_its_connection_only():
    peer = peer_of(A)
    peer.connect()
    peer.error(NotAllowedError)
    assert peer.connect() == [("watch", A)]


# ---- the end ----


@pytest.mark.parametrize("answered", [True, False])
def test_close_pip247_client_closes(answered):
    peer = peer_of(A)
    peer.connect()
    if answered:
        peer.success((A, 2))
    peer.watch.close()
    assert peer.sent() == [("close", 7)]
    assert peer.success((A, 2)) is None
    assert peer.update(1, (A, 9)) is None
    peer.watch.close()
    if answered:
        peer.finish()
    assert (peer.sent(), peer.watch.next_deadline(), peer.watch.state) == ([], None, PartitionWatchState.CLOSED)
    assert peer.connect() == []


def test_close_of_what_was_never_sent():
    peer = peer_of(A)
    peer.watch.connected(WATCHERS, 0.0)
    peer.watch.close()
    assert peer.sent() == []
    peer = peer_of(A)
    peer.watch.close()
    assert (peer.watch.state, peer.connect()) == (PartitionWatchState.CLOSED, [])
