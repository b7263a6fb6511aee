"""The broker's side of PIP-247, rule by rule; the ids are those of the clauses."""

from dataclasses import replace

import pytest

from refimpl.proposals.partition_watch import AS_WRITTEN, DEFAULT, DELIVERIES, IMPOSSIBLE, Delivery, News
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    CommandSuccess,
    FeatureFlags,
    InvalidTopicName,
    NotAllowedError,
    TooManyRequests,
)
from tests.samples.partition_watch import A, B, C, Store, told


def watched(*topics, counts=None, **arguments):
    store = Store({A: 2, B: 3} if counts is None else counts, **arguments)
    store.watch(*(topics or (A, B)))
    return store


def refused(store, *topics, **arguments):
    with pytest.raises(Refused) as raised:
        store.watch(*topics, **arguments)
    return raised.value.code


# ---- the flag and the switch ----


@pytest.mark.parametrize("enabled", [True, False])
def test_flag_pip247_flag_advertised(enabled):
    flags = FeatureFlags(supports_partition_update_watchers=not enabled)
    Store(enabled=enabled).side.advertise(flags)
    assert flags == FeatureFlags(supports_partition_update_watchers=enabled)


def test_switched_off_pip247_watch_switched_off():
    store = Store({A: 2}, enabled=False)
    assert refused(store, A) == NotAllowedError
    assert refused(store, "bad") == NotAllowedError
    assert store.side.watcher_count("a") == 0
    assert store.set(A, 4) == []
    assert store.close() == CommandSuccess(request_id=1)
    assert store.result(1) is None


# ---- watching ----


def test_success_pip247_watch_success():
    store = Store({A: 2, B: 3})
    success = store.watch(B, C, A, request_id=2**64 - 1, watcher_id=0)
    assert (success.request_id, success.watcher_id) == (2**64 - 1, 0)
    assert told(success) == [(B, 3), (C, 0), (A, 2)]  # pip247.watch.order, pip247.watch.count
    assert store.side.next_deadline() is None  # pip247.watch.success-needs-no-result
    assert store.side.watcher_count("a") == 1


def test_names_are_echoed_and_compared_in_full_pip247_watch_names_echoed():
    store = Store({A: 2, B: 3})
    assert told(store.watch("a", B, A, "b", "a")) == [("a", 2), (B, 3)]  # pip247.watch.duplicates
    assert store.set(A, 4) == [("a", 7, 1, [("a", 4), (B, 3)])]


def test_empty_list_pip247_watch_empty():
    store = Store({A: 2})
    assert told(store.watch()) == []
    assert store.side.watcher_count("a") == 1
    assert store.set(A, 4) == []


@pytest.mark.parametrize("topics", [("bad",), (A, "bad"), ("",)])
def test_invalid_name_pip247_watch_invalid_name(topics):
    store = Store({A: 2})
    assert refused(store, *topics) == InvalidTopicName
    assert store.side.watcher_count("a") == 0  # pip247.watch.nothing-after-error
    assert store.set(A, 4) == []


def test_one_forbidden_topic_forbids_the_watch_pip247_watch_unauthorized():
    store = Store({A: 2, B: 3}, may_watch=lambda connection, topic: connection == "admin" or topic == A)
    assert refused(store, A, "b") == AuthorizationError
    assert store.side.watcher_count("a") == 0
    assert store.set(A, 4) == []
    assert told(store.watch(A)) == [(A, 4)]
    assert told(store.watch(A, B, connection="admin")) == [(A, 4), (B, 3)]


def test_limits_pip247_watch_limits():
    store = Store({A: 2}, max_watchers=2, max_topics=4)
    store.watch(A, B, watcher_id=1)
    store.watch(A, watcher_id=2)
    assert refused(store, watcher_id=3) == TooManyRequests
    assert refused(store, A, B, C, watcher_id=2) == TooManyRequests
    store.watch(A, B, watcher_id=2)
    store.watch(A, B, connection="b")
    store.close(1)
    store.watch(B, C, watcher_id=3)
    assert refused(store, A, B, C, watcher_id=2) == TooManyRequests
    store.side.disconnected("a")
    store.watch(A, B, C, "d")


def test_update_that_fits_into_no_frame_pip247_watch_too_large():
    store = Store(max_frame_size=1000)
    assert refused(store, *(f"t-{number}" for number in range(100))) == NotAllowedError
    assert store.side.watcher_count("a") == 0
    assert len(told(store.watch(*(f"t-{number}" for number in range(50))))) == 50


def test_a_hundred_thousand_topics_pip247_watch_many_topics():
    names = [f"t-{number}" for number in range(100_000)]
    store = Store({f"persistent://public/default/{name}": 1 for name in names})
    assert told(store.watch(*names)) == [(name, 1) for name in names]
    ((_, _, version, counts),) = store.set("persistent://public/default/t-99999", 2)
    assert (version, counts[-1], len(counts)) == (1, ("t-99999", 2), 100_000)


# ---- the same id again ----


def test_repeated_id_replaces_the_topics_pip247_watch_repeat_replaces():
    store = watched(A)
    assert store.set(A, 4) == [("a", 7, 1, [(A, 4)])]
    assert told(store.watch(B, request_id=2)) == [(B, 3)]
    assert store.side.watcher_count("a") == 1
    assert store.side.next_deadline() is None or store.side.tick(100.0) == []  # pip247.watch.repeat-clears
    assert store.set(A, 5) == []
    assert store.result(1) is None
    assert store.side.unexpected_results == 1
    assert store.set(B, 6) == [("a", 7, 2, [(B, 6)])]  # pip247.watch.repeat-version


def test_repeated_id_without_a_change_pip247_watch_repeat_version():
    store = watched(A)
    store.set(A, 3)
    store.result(1)
    assert told(store.watch(A)) == [(A, 3)]
    assert store.set(A, 4) == [("a", 7, 2, [(A, 4)])]


def test_repeated_id_forgets_failures():
    store = watched(A)
    store.set(A, 3)
    for _ in range(3):
        store.result(1, success=False)
        if store.side.next_deadline() < 10.0:
            store.wait()
    store.watch(A)
    store.set(A, 4)
    assert store.result(2, success=False) == (2, [(A, 4)])


def test_refused_repetition_leaves_the_watcher_pip247_watch_repeat_refused():
    store = watched(A)
    assert store.set(A, 3) == [("a", 7, 1, [(A, 3)])]
    assert refused(store, "bad") == InvalidTopicName
    assert store.wait() == (10.0, [("a", 7, 1, [(A, 3)])])
    assert store.set(A, 4) == [("a", 7, 2, [(A, 4)])]


def test_closed_id_begins_anew_pip247_close_id_reusable():
    store = watched(A)
    store.set(A, 3)
    store.close()
    store.watch(A)
    assert store.set(A, 4) == [("a", 7, 1, [(A, 4)])]  # pip247.version.from-one


# ---- updates ----


def test_update_carries_all_topics_pip247_update_all_topics():
    store = watched(B, C, A)
    assert store.set(A, 4) == [("a", 7, 1, [(B, 3), (C, 0), (A, 4)])]
    assert store.set(C, 1) == [("a", 7, 2, [(B, 3), (C, 1), (A, 4)])]  # pip247.update.replaces, pip247.version.grows


def test_only_changes_are_told_pip247_update_only_changes():
    store = watched(A)
    assert store.set(A, 2) == []
    assert store.set(B, 9) == []
    assert store.set(A, 3) == [("a", 7, 1, [(A, 3)])]
    assert store.set(A, 3) == []


def test_changes_of_several_topics_at_once_are_one_update():
    store = watched(A, B)
    store.counts = {A: 0, B: 0}
    assert store.shown(store.side.changed(A, 0.0)) == [("a", 7, 1, [(A, 0), (B, 0)])]
    assert store.shown(store.side.changed(B, 0.0)) == []


def test_deleted_and_created_again_pip247_update_shrinking():
    store = watched(A)
    assert store.set(A, 0) == [("a", 7, 1, [(A, 0)])]
    assert store.set(A, 1) == [("a", 7, 2, [(A, 1)])]
    assert store.set(A, 2) == [("a", 7, 3, [(A, 2)])]


def test_topic_that_comes_later_pip247_update_created():
    store = watched(C)
    assert store.set(C, 5) == [("a", 7, 1, [(C, 5)])]


def test_every_watcher_has_its_own_versions_pip247_version_per_watcher():
    store = watched(A)
    store.set(A, 3)
    store.watch(A, watcher_id=8)
    store.watch(B, A, watcher_id=7, connection="b")
    store.watch(B, watcher_id=9)
    assert store.set(A, 4) == [("a", 7, 2, [(A, 4)]), ("a", 8, 1, [(A, 4)]), ("b", 7, 1, [(B, 3), (A, 4)])]
    assert store.result(2) is None  # pip247.watch.id-per-connection, pip247.watch.independent
    assert store.wait() == (10.0, [("a", 8, 1, [(A, 4)]), ("b", 7, 1, [(B, 3), (A, 4)])])


def test_revoked_permission_ends_a_watcher_in_silence_pip247_watch_permission_revoked():
    forbidden = set()
    store = watched(A, B, may_watch=lambda connection, topic: topic not in forbidden)
    store.watch(A, watcher_id=8)
    store.set(A, 3)
    forbidden.add(B)
    assert store.wait() == (10.0, [("a", 8, 1, [(A, 3)])])
    assert store.side.watcher_count("a") == 1
    assert store.set(A, 4) == [("a", 8, 2, [(A, 4)])]
    forbidden.add(A)
    assert store.set(A, 5) == []
    assert (store.side.watcher_count("a"), store.side.next_deadline()) == (0, None)


# ---- results ----


def test_success_settles_pip247_result_success():
    store = watched(A)
    store.set(A, 3)
    assert store.result(1) is None
    assert store.side.next_deadline() is None or store.side.tick(100.0) == []
    assert store.result(1) is None  # pip247.result.nothing-in-flight
    assert store.result(1, success=False) is None
    assert store.side.unexpected_results == 2


def test_late_result_pip247_result_lower():
    store = watched(A)
    store.set(A, 3)
    store.set(A, 4)
    assert store.result(1) is None
    assert store.result(1, success=False) is None
    assert store.side.unexpected_results == 0
    assert store.wait() == (10.0, [("a", 7, 2, [(A, 4)])])


def test_result_from_the_future_pip247_result_higher():
    store = watched(A)
    store.set(A, 3)
    assert store.result(2) is None
    assert store.result(2**64 - 1, success=False) is None
    assert store.side.unexpected_results == 2
    assert store.wait() == (10.0, [("a", 7, 1, [(A, 3)])])


def test_result_for_nobody_pip247_result_unknown_watcher():
    store = watched(A)
    store.set(A, 3)
    assert store.result(1, watcher_id=8) is None
    assert store.result(1, connection="b") is None
    store.close()
    assert store.result(1, success=False) is None  # pip247.close.silence
    assert store.side.unexpected_results == 3


def test_failures_pip247_result_failure_backoff():
    store = watched(A)
    store.set(A, 3)
    again = [("a", 7, 1, [(A, 3)])]
    assert store.result(1, success=False) == (1, [(A, 3)])  # pip247.result.failure, pip247.version.same-counts
    for seconds in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0):
        assert store.result(1, success=False) is None
        assert store.wait() == (seconds, again)
    store.result(1)  # pip247.result.success-resets
    store.set(A, 4)
    assert store.result(2, success=False) == (2, [(A, 4)])
    assert store.result(2, success=False) is None
    assert store.wait()[0] == 0.1


def test_letter_resends_at_once_pip247_result_failure_at_once():
    store = watched(A, profile=AS_WRITTEN)
    store.set(A, 3)
    for _ in range(100):
        assert store.result(1, success=False) == (1, [(A, 3)])
    assert store.wait() == (10.0, [("a", 7, 1, [(A, 3)])])


def test_failure_reads_counts_again_pip247_result_failure_reads_again():
    store = watched(A)
    store.set(A, 3)
    store.counts[A] = 4
    assert store.result(1, success=False) == (2, [(A, 4)])
    assert store.result(2, success=False) is None
    store.counts[A] = 5
    assert store.wait() == (0.1, [("a", 7, 3, [(A, 5)])])


def test_result_while_the_retry_waits_pip247_result_nothing_in_flight():
    store = watched(A)
    store.set(A, 3)
    store.result(1, success=False)
    store.result(1, success=False)
    assert store.result(1) is None
    assert store.result(1, success=False) is None
    assert store.side.unexpected_results == 2
    assert store.wait() == (0.1, [("a", 7, 1, [(A, 3)])])


def test_change_while_the_retry_waits_pip247_update_replaces_waiting():
    store = watched(A)
    store.set(A, 3)
    for _ in range(2):
        store.result(1, success=False)
    assert store.set(A, 4) == [("a", 7, 2, [(A, 4)])]
    assert store.wait() == (10.0, [("a", 7, 2, [(A, 4)])])
    assert store.result(2, success=False) is None
    assert store.wait()[0] == 0.2  # only a success resets the delay


def test_each_sending_counts_pip247_version_each_sending():
    store = watched(A, profile=replace(DEFAULT, resend_version="each"))
    store.set(A, 3)
    assert store.result(1, success=False) == (2, [(A, 3)])
    assert store.wait() == (10.0, [("a", 7, 3, [(A, 3)])])
    assert store.result(2) is None  # a listener that is slower than the time-out is late for ever
    assert store.wait() == (10.0, [("a", 7, 4, [(A, 3)])])


# ---- time-out ----


def test_time_out_pip247_timeout_resend():
    store = watched(A, result_timeout=3.0)
    store.set(A, 3)
    assert store.side.tick(2.999) == []
    for _ in range(50):  # pip247.timeout.until-connection-ends
        assert store.wait() == (3.0, [("a", 7, 1, [(A, 3)])])
    store.counts[A] = 4  # pip247.timeout.reads-again
    assert store.wait() == (3.0, [("a", 7, 2, [(A, 4)])])
    assert store.result(1) is None
    assert store.result(2) is None  # pip247.timeout.late-success
    assert store.side.tick(1000.0) == []
    assert store.side.next_deadline() is None


def test_time_out_counts_from_the_last_update():
    store = watched(A)
    store.set(A, 3)
    store.now = 9.0
    store.set(A, 4)
    assert store.side.next_deadline() == 19.0
    assert store.side.tick(18.9) == []
    assert store.wait() == (10.0, [("a", 7, 2, [(A, 4)])])


def test_deadlines_of_many_watchers_come_in_their_order():
    store = Store({A: 1})
    for watcher_id in range(5):
        store.watch(A, watcher_id=watcher_id)
    store.set(A, 2)
    store.now = 1.0
    for _ in range(2):
        store.result(1, success=False, watcher_id=3)
    store.result(1, watcher_id=1)
    store.close(2)
    assert store.wait() == (0.1, [("a", 3, 1, [(A, 2)])])
    assert [update[1] for update in store.wait()[1]] == [0, 4]
    assert store.now == 10.0
    assert store.wait() == (1.1, [("a", 3, 1, [(A, 2)])])
    assert len(store.side._alarms) <= 5


def test_updates_with_results_leave_no_alarms_behind():
    store = watched(A)
    for partitions in range(3, 1000):
        store.now += 0.001
        ((_, _, version, _),) = store.set(A, partitions)
        if partitions % 2:
            store.result(version)
    assert len(store.side._alarms) == 1
    store.result(version)
    assert store.side.next_deadline() is None


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan")])
def test_time_out_has_to_be_above_0(seconds):
    with pytest.raises(ValueError, match="above 0"):
        Store(result_timeout=seconds)


# ---- the end ----


def test_close_pip247_close_answer():
    store = watched(A)
    store.watch(A, watcher_id=8)
    store.set(A, 3)
    assert store.close(request_id=5) == CommandSuccess(request_id=5)
    assert store.close(request_id=6) == CommandSuccess(request_id=6)  # pip247.close.unknown
    assert store.close(watcher_id=8, connection="b") == CommandSuccess(request_id=1)
    assert store.set(A, 4) == [("a", 8, 2, [(A, 4)])]  # pip247.close.silence, pip247.close.only-that-one
    assert store.wait() == (10.0, [("a", 8, 2, [(A, 4)])])


def test_lost_connection_pip247_watch_dropped_with_connection():
    store = watched(A)
    store.watch(A, connection="b")
    store.set(A, 3)
    store.side.disconnected("a")
    store.side.disconnected("a")
    assert store.set(A, 4) == [("b", 7, 2, [(A, 4)])]
    assert store.wait() == (10.0, [("b", 7, 2, [(A, 4)])])
    store.side.disconnected("b")
    assert (store.side.next_deadline(), store.side.tick(1e9)) == (None, [])
    left = [store.side._watchers, store.side._by_topic, store.side._topics, store.side._alarms]
    assert not any(left)


def test_every_pair_has_a_row_or_is_named_as_impossible():
    pairs = {(delivery, news) for delivery in Delivery for news in News}
    assert DELIVERIES.keys() | IMPOSSIBLE == pairs
    assert not DELIVERIES.keys() & IMPOSSIBLE
    assert set(DELIVERIES.values()) == set(Delivery)
