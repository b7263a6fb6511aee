"""The broker's side of PR 25648, rule by rule; the ids are those of the clauses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.proposals.refused import Refused
from refimpl.proposals.scalable_topics import AS_WRITTEN, EMPTY_HASH, PROFILES, ScalableTopicsBroker, record_path, topics_hash
from refimpl.wire import encode_frame, wrap
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    CommandWatchScalableTopics,
    FeatureFlags,
    InvalidTopicName,
    MetadataError,
    NotAllowedError,
    TooManyRequests,
)
from tests.samples.scalable_topics import NS, Store, diff, error, full, snapshot

H12 = topics_hash(full("t-1", "t-2"))


def frame(update):
    return encode_frame(wrap(update)).hex()


# ---- the first answer ----


def test_snapshot_pr25648_watch_snapshot():
    store = Store("t-2", "t-1")
    store.create("t-1", namespace="public/other")
    assert store.watch() == snapshot("t-1", "t-2")
    assert store.side.next_deadline() is None


def test_empty_snapshot_is_present_pr25648_watch_empty_snapshot():
    assert frame(Store().watch(watch_id=1)) == "0000000d00000009084dea040408011200"


def test_unknown_namespace_is_empty_and_watched_pr25648_namespace_unknown():
    store = Store()
    assert store.watch(namespace="public/missing") == snapshot()
    store.create("t-1", namespace="public/missing")
    (update,) = store.flush()
    assert list(update.diff.added) == full("t-1", namespace="public/missing")


@pytest.mark.parametrize(
    ("names", "current_hash"),
    [
        pytest.param([], EMPTY_HASH, id="pr25648.hash.empty-set"),
        pytest.param(["t-1", "t-2"], H12, id="pr25648.hash.silence"),
    ],
)
def test_equal_hash_is_answered_by_silence_pr25648_hash_silence(names, current_hash):
    store = Store(*names)
    assert store.watch(current_hash=current_hash) is None
    store.create("t-3")
    assert store.flush() == [diff(added=["t-3"])]  # pr25648.hash.alive


@pytest.mark.parametrize("current_hash", ["", "00000000", "ffffffff", H12.upper(), f"{H12} ", topics_hash(full("t-1"))])
def test_any_other_hash_brings_a_snapshot_pr25648_hash_other(current_hash):
    assert current_hash != H12  # pr25648.hash.exact-text
    assert Store("t-1", "t-2").watch(current_hash=current_hash) == snapshot("t-1", "t-2")


def test_hash_of_a_filtered_set_pr25648_hash_of_filtered():
    store = Store("t-1")
    store.create("t-2", owner="alice")
    assert store.watch(("owner", "alice"), current_hash=topics_hash(full("t-2"))) is None
    assert store.watch(("owner", "nobody"), current_hash=EMPTY_HASH) is None
    assert store.watch(current_hash=topics_hash(full("t-2"))) == snapshot("t-1", "t-2")


def test_extreme_ids_pr25648_watch_id_range():
    store = Store("t-1")
    for watch_id in (0, 2**63, 2**64 - 1):
        assert store.watch(watch_id=watch_id) == snapshot("t-1", watch_id=watch_id)


# ---- errors ----


def test_errors_stand_in_the_update_pr25648_error_in_update():
    update = Store().watch(namespace="nonsense")
    assert update == error(InvalidTopicName, "Invalid namespace: nonsense")
    assert update.WhichOneof("event") is None  # pr25648.error.without-event


def test_switched_off_pr25648_error_switched_off():
    store = Store("t-1", enabled=False, may_watch=lambda connection, namespace: False)
    flags = FeatureFlags()
    store.side.advertise(flags)
    assert flags.HasField("supports_scalable_topics")  # pr25648.flag.switched-off
    assert not flags.supports_scalable_topics
    refusal = error(NotAllowedError, "Scalable topics are disabled on this broker", watch_id=1)
    assert store.watch(watch_id=1) == refusal
    assert store.watch(watch_id=1, namespace="nonsense") == refusal
    assert frame(refusal) == (
        "0000003a00000036084dea0431080120162a2b5363616c61626c6520746f70696373206172652064697361626c6564206f6e20746869732062726f6b6572"
    )
    assert store.close() is None  # pr25648.close.silent


def test_flag_pr25648_flag_advertised():
    flags = FeatureFlags()
    Store().side.advertise(flags)
    assert flags == FeatureFlags(supports_scalable_topics=True)


def test_unauthorized_pr25648_error_unauthorized():
    asked = []
    store = Store("t-1", may_watch=lambda connection, namespace: asked.append((connection, namespace)))
    assert store.watch().error == AuthorizationError
    assert asked == [("a", NS)]
    assert store.watch(namespace="nonsense").error == InvalidTopicName
    assert store.side.watch_count("a") == 0


def refuses(*_):
    raise Refused(MetadataError, "the store does not answer")


def test_a_failing_store_pr25648_error_store():
    side = ScalableTopicsBroker(refuses, refuses)
    request = CommandWatchScalableTopics(watch_id=7, namespace=NS)
    assert side.watch("a", request) == error(MetadataError, "the store does not answer")
    assert side.watch_count("a") == 0
    side.notified(record_path(full("t-1")[0]), 0.0)
    assert (side._selections, side._sessions, side.next_deadline()) == ({}, {}, None)


def test_an_id_is_free_after_an_error_pr25648_error_id_free():
    store = Store("t-1")
    assert store.watch(namespace="nonsense").HasField("error")
    assert store.watch() == snapshot("t-1")


def test_a_refused_repetition_ends_the_watch_pr25648_error_ends_watch():
    store = Store("t-1")
    store.watch()
    assert store.watch(namespace="nonsense").HasField("error")
    store.create("t-2")
    assert (store.flush(), store.side.watch_count("a")) == ([], 0)


def test_too_many_watches_pr25648_error_too_many():
    store = Store("t-1", max_watches=2)
    assert store.watch(watch_id=1) == snapshot("t-1", watch_id=1)
    assert store.watch(watch_id=2) == snapshot("t-1", watch_id=2)
    assert store.watch(watch_id=3).error == TooManyRequests
    assert store.watch(watch_id=2) == snapshot("t-1", watch_id=2)  # a repetition is not one more
    assert store.watch(watch_id=3, connection="b") == snapshot("t-1", watch_id=3)
    assert store.side.watch_count("a") == 2


# ---- diffs ----


def test_creation_and_deletion():
    store = Store("t-1")
    store.watch()
    store.create("t-2")
    assert store.flush() == [diff(added=["t-2"])]  # pr25648.diff.on-create
    store.delete("t-1")
    assert store.flush() == [diff(removed=["t-1"])]  # pr25648.diff.on-delete
    assert store.watch(current_hash=topics_hash(full("t-2"))) is None


@pytest.mark.parametrize(
    ("change", "data"),
    [
        ("create", "000000230000001f084dea041a08011a160a14746f7069633a2f2f7075626c69632f61322f7431"),
        ("delete", "000000230000001f084dea041a08011a161214746f7069633a2f2f7075626c69632f61322f7431"),
    ],
)
def test_frames_of_a_real_broker(change, data):
    store = Store()
    if change == "delete":
        store.create("t1", namespace="public/a2")
    store.watch(watch_id=1, namespace="public/a2")
    getattr(store, change)("t1", namespace="public/a2")
    assert [frame(update) for update in store.flush()] == [data]


def test_one_frame_holds_both_pr25648_diff_one_frame():
    store = Store()
    store.create("dr00", namespace="public/a4")
    store.watch(watch_id=1, namespace="public/a4")
    store.delete("dr00", namespace="public/a4")
    store.create("mx00", namespace="public/a4")
    assert [frame(update) for update in store.flush()] == [
        "0000003d00000039084dea043408011a300a16746f7069633a2f2f7075626c69632f61342f6d7830301216746f7069633a2f2f7075626c69632f61342f64723030"
    ]


def test_the_window_is_fixed_pr25648_diff_window_fixed():
    store = Store()
    store.watch()
    store.create("t-1")
    assert store.side.next_deadline() == 0.05  # pr25648.diff.window
    assert store.wait(0.03) == []
    store.create("t-2")
    assert store.side.next_deadline() == 0.05
    assert store.wait(0.0199) == []
    assert store.wait(0.0002) == [("a", diff(added=["t-1", "t-2"]))]
    assert store.side.next_deadline() is None
    store.create("t-3")
    assert store.side.next_deadline() == pytest.approx(0.1001)
    assert store.flush() == [diff(added=["t-3"])]


def test_each_watch_has_its_own_window_pr25648_diff_window():
    store = Store()
    store.watch(connection="a")
    store.create("t-1")
    store.wait(0.02)
    assert store.watch(connection="b") == snapshot("t-1")
    store.create("t-2")
    assert store.wait(0.03) == [("a", diff(added=["t-1", "t-2"]))]
    assert store.wait(0.02) == [("b", diff(added=["t-2"]))]


@pytest.mark.parametrize(
    ("profile", "short_lived", "replaced"),
    [
        pytest.param("default", [diff(removed=["t-2"])], [diff(added=["t-1"])], id="pr25648.diff.last-wins"),
        pytest.param("as-written", [], [diff(added=["t-1"], removed=["t-1"])], id="pr25648.diff.cancels-out"),
    ],
)
def test_two_changes_of_one_topic_in_a_window(profile, short_lived, replaced):
    store = Store("t-1", profile=PROFILES[profile])
    store.watch()
    store.create("t-2")
    store.delete("t-2")
    assert store.flush() == short_lived  # pr25648.diff.never-empty
    store.delete("t-1")
    store.create("t-1")
    assert store.flush() == replaced


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_changes_in_two_windows_are_told_twice(profile):
    store = Store(profile=PROFILES[profile])
    store.watch()
    store.create("t-1")
    assert store.flush() == [diff(added=["t-1"])]
    store.delete("t-1")
    assert store.flush() == [diff(removed=["t-1"])]


def test_property_changes_pr25648_diff_on_property_change():
    store = Store()
    store.create("t-1", owner="alice", env="prod")
    assert store.watch(("owner", "alice")) == snapshot("t-1")
    store.modify("t-1", owner="alice", env="test")
    assert (store.side.next_deadline(), store.flush()) == (None, [])  # pr25648.diff.flips-only
    store.modify("t-1", owner="bob")
    assert store.flush() == [diff(removed=["t-1"])]
    store.delete("t-1")
    assert store.flush() == []
    store.create("t-1", owner="alice")
    assert store.flush() == [diff(added=["t-1"])]


def test_other_topics_are_not_told_pr25648_diff_filtered():
    store = Store()
    store.watch(("owner", "alice"))
    store.create("t-1", owner="bob")
    store.create("t-1", owner="alice", namespace="public/other")
    store.delete("t-1")
    assert (store.side.next_deadline(), store.flush()) == (None, [])


def test_direct_children_only_pr25648_diff_direct_children():
    store = Store("t-1")
    store.watch()
    path = record_path(full("t-1")[0])
    del store.topics[full("t-1")[0]]
    for below in ("/controller", "/subscriptions/s", "/subscriptions/s/consumers/c", "/segments/0/load"):
        store.side.notified(path + below, 0.0)
    assert store.side.next_deadline() is None
    store.side.notified(path, 0.0)
    assert store.flush() == [diff(removed=["t-1"])]


def test_notified_twice_told_once_pr25648_diff_flips_only():
    store = Store()
    store.watch()
    for _ in range(2):
        store.create("t-1")
        assert len(store.flush()) <= 1
    store.delete("t-1")
    store.side.notified(record_path(full("t-1")[0]), store.now)
    assert store.flush() == [diff(removed=["t-1"])]


def test_every_watch_is_told_pr25648_diff_every_watch():
    store = Store()
    for connection, watch_id in (("a", 1), ("a", 2), ("b", 1)):
        store.watch(connection=connection, watch_id=watch_id)
    store.watch(("owner", "alice"), connection="b", watch_id=2)
    store.create("t-1")
    assert store.wait(0.05) == [
        ("a", diff(added=["t-1"], watch_id=1)),
        ("a", diff(added=["t-1"], watch_id=2)),
        ("b", diff(added=["t-1"], watch_id=1)),
    ]


# ---- the life of a watch ----


def test_a_repeated_id_ends_the_older_watch_pr25648_watch_repeated_id():
    store = Store("t-1")
    store.watch()
    store.create("t-2")
    assert store.watch() == snapshot("t-1", "t-2")
    assert store.flush() == []
    store.create("t-3")
    assert store.flush() == [diff(added=["t-3"])]  # once
    assert store.watch(("owner", "alice")) == snapshot()
    store.create("t-4")
    assert store.flush() == []
    store.close()
    store.create("t-5", owner="alice")
    assert (store.flush(), store.side.watch_count("a")) == ([], 0)


def test_the_same_id_on_two_connections_pr25648_watch_id_per_connection():
    store = Store()
    store.watch(connection="a")
    store.watch(connection="b")
    store.close(connection="a")
    store.create("t-1")
    assert store.wait(0.05) == [("b", diff(added=["t-1"]))]


def test_close_pr25648_close_silent():
    store = Store()
    store.watch()
    store.create("t-1")
    assert store.close() is None
    assert (store.side.next_deadline(), store.flush()) == (None, [])  # pr25648.close.nothing-follows
    assert store.close() is None  # pr25648.close.unknown
    assert store.watch() == snapshot("t-1")  # pr25648.close.id-free


def test_a_lost_connection_leaves_nothing_pr25648_watch_dropped_with_connection():
    store = Store()
    store.watch(connection="a")
    store.watch(connection="a", watch_id=8)
    store.watch(connection="b")
    store.create("t-1")
    store.side.disconnected("a")
    store.side.disconnected("a")
    assert store.wait(0.05) == [("b", diff(added=["t-1"]))]
    store.side.disconnected("b")
    assert (store.side._selections, store.side._sessions, store.side._armed) == ({}, {}, {})


def test_a_revoked_permission_pr25648_watch_permission_revoked():
    allowed = {"a", "b"}
    store = Store(may_watch=lambda connection, namespace: connection in allowed)
    store.watch(connection="a")
    store.watch(connection="b")
    allowed.remove("a")
    store.create("t-1")
    assert store.wait(0.05) == [("b", diff(added=["t-1"]))]
    assert (store.side.watch_count("a"), store.side.watch_count("b")) == (0, 1)
    raising = Store(may_watch=lambda connection, namespace: not raising.topics or refuses())
    raising.watch()
    raising.create("t-1")
    assert (raising.flush(), raising.side.watch_count("a")) == ([], 0)


@pytest.mark.parametrize("current_hash", [None, topics_hash(full("t-1", "t-3"))])
def test_changes_during_the_listing_are_in_the_set_pr25648_watch_listener_first(current_hash):
    store = Store("t-1", "t-2")

    def of(namespace):
        yield full("t-1")[0]
        store.create("t-3")
        store.create("t-4")
        store.delete("t-4")
        yield full("t-2")[0]
        store.delete("t-2")

    side = store.side
    side._topics_of = of
    expected = None if current_hash else snapshot("t-1", "t-3")
    assert store.watch(current_hash=current_hash) == expected
    side._topics_of = store.of
    assert store.flush() == []
    store.delete("t-3")
    assert store.flush() == [diff(removed=["t-3"])]


@given(
    steps=st.lists(st.tuples(st.sampled_from(["t-1", "t-2", "t-3"]), st.sampled_from([None, "alice", "bob"]), st.floats(0, 0.06))),
    profile=st.sampled_from(sorted(PROFILES)),
)
def test_diffs_lead_from_the_snapshot_to_what_is_there(steps, profile):
    store = Store(profile=PROFILES[profile])
    known = set(store.watch(("owner", "alice")).snapshot.topics)
    told = []
    for name, owner, seconds in steps:
        if owner is not None:
            store.modify(name, owner=owner)
        elif full(name)[0] in store.topics:
            store.delete(name)
        told += [(store.now, update) for _, update in store.wait(seconds)]
    told += [(store.now, update) for update in store.flush()]
    for _, update in told:
        assert update.diff.added or update.diff.removed
        known = known - set(update.diff.removed) | set(update.diff.added)
        if profile == "default":
            assert not set(update.diff.added) & set(update.diff.removed)
    assert known == {topic for topic, properties in store.topics.items() if properties.get("owner") == "alice"}
    assert store.watch(("owner", "alice"), current_hash=topics_hash(known)) is None


def test_letter_has_the_same_frames_otherwise():
    store = Store("t-1", profile=AS_WRITTEN)
    assert store.watch() == snapshot("t-1")
    store.create("t-2")
    store.delete("t-1")
    assert store.flush() == [diff(added=["t-2"], removed=["t-1"])]
