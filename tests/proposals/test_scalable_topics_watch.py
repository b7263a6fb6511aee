"""The client's side of PR 25648, rule by rule; the ids are those of the clauses."""

from random import Random

import pytest

from refimpl.proposals.scalable_topics import (
    AS_WRITTEN,
    DEFAULT,
    EMPTY_HASH,
    PROFILES,
    ScalableTopicsState,
    ScalableTopicsWatch,
    topics_hash,
)
from refimpl.wire import command
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    CommandWatchScalableTopics,
    CommandWatchScalableTopicsUpdate,
    FeatureFlags,
    KeyValue,
    NotAllowedError,
    ServiceNotReady,
    UnknownError,
    UnsupportedVersionError,
)
from tests.samples.scalable_topics import NS, SUPPORTED, Peer, diff, error, full, snapshot

H1, H12 = topics_hash(full("t-1")), topics_hash(full("t-1", "t-2"))


def started(*names, **arguments):
    """Return a peer whose client has its first set."""
    peer = Peer(**arguments)
    peer.watch.start()
    assert peer.connect() == [None]  # pr25648.client.first-without-hash
    peer.give(snapshot(*names))
    assert peer.watch.state is ScalableTopicsState.WATCHING
    return peer


# ---- the first set ----


def test_start_pr25648_client_start_resolves():
    peer = Peer()
    assert not peer.watch.wants_connection
    peer.watch.start()
    assert peer.connect() == [None]
    assert (peer.watch.is_started, peer.watch.topics, peer.watch.topics_hash) == (False, frozenset(), None)
    assert peer.give(snapshot("t-2", "t-1")) is None
    assert (peer.watch.is_started, peer.watch.topics, peer.watch.topics_hash) == (True, {*full("t-1", "t-2")}, H12)
    assert (peer.watch.failure, peer.watch.next_deadline(), peer.sent()) == (None, None, [])


def test_an_empty_set_is_a_set_pr25648_client_start_resolves():
    peer = started()
    assert (peer.watch.is_started, peer.watch.topics_hash) == (True, EMPTY_HASH)
    peer.lose()
    peer.wait()
    assert peer.connect() == [EMPTY_HASH]  # pr25648.client.hash-on-reconnect


def test_the_request_carries_what_the_user_gave():
    watch = ScalableTopicsWatch(NS, 2**64 - 1, Random(1), property_filters={"owner": "alice", "env": ""})
    watch.start()
    watch.connected(SUPPORTED, 0.0)
    assert watch.commands_to_send(lambda: 0, 0.0) == [
        CommandWatchScalableTopics(
            watch_id=2**64 - 1, namespace=NS, property_filters=[KeyValue(key="owner", value="alice"), KeyValue(key="env", value="")]
        )
    ]


@pytest.mark.parametrize("flags", [None, FeatureFlags(), FeatureFlags(supports_scalable_topics=False, supports_topic_watchers=True)])
def test_nothing_is_sent_without_the_flag_pr25648_client_needs_flag(flags):
    peer = Peer(profile=AS_WRITTEN)
    peer.watch.start()
    assert peer.connect(flags) == []
    assert (peer.watch.state, peer.watch.failure.code, peer.watch.next_deadline()) == (
        ScalableTopicsState.FAILED,
        UnsupportedVersionError,
        None,
    )


def test_an_error_ends_start_pr25648_client_error_ends_start():
    for profile in PROFILES.values():
        peer = Peer(profile=profile)
        peer.watch.start()
        peer.connect()
        peer.give(error(AuthorizationError, "not yours"))
        assert (peer.watch.state, peer.watch.failure.code, peer.watch.failure.message) == (
            ScalableTopicsState.FAILED,
            AuthorizationError,
            "not yours",
        )
        assert peer.give(snapshot("t-1")) is None
        assert not peer.watch.is_started


def test_an_error_with_the_code_zero_is_one():
    peer = Peer()
    peer.watch.start()
    peer.connect()
    peer.give(error(UnknownError))
    assert peer.watch.state is ScalableTopicsState.FAILED


@pytest.mark.parametrize("connected", [False, True])
def test_an_early_loss_fails_pr25648_client_early_loss_fails(connected):
    peer = Peer(profile=DEFAULT)
    peer.watch.start()
    if connected:
        peer.connect()
    peer.lose()
    assert (peer.watch.state, peer.watch.failure.code, peer.watch.next_deadline()) == (ScalableTopicsState.FAILED, ServiceNotReady, None)
    assert not peer.watch.wants_connection


@pytest.mark.parametrize("connected", [False, True])
def test_an_early_loss_is_retried_by_the_letter_pr25648_client_early_loss_retries(connected):
    peer = Peer(profile=AS_WRITTEN)
    peer.watch.start()
    if connected:
        peer.connect()
    peer.lose()
    assert 0.09 <= peer.wait() <= 0.1
    assert peer.connect() == [None]
    peer.give(snapshot("t-1"))
    assert (peer.watch.is_started, peer.watch.topics, peer.watch.failure) == (True, {*full("t-1")}, None)


def test_start_times_out_pr25648_client_start_times_out():
    peer = Peer(operation_timeout=5.0)
    peer.watch.start()
    peer.connect()
    peer.watch.tick(4.9)
    assert peer.watch.state is ScalableTopicsState.OPENING
    assert peer.wait() == 5.0
    assert (peer.watch.state, peer.sent()) == (ScalableTopicsState.FAILED, ["close"])


def test_a_diff_before_the_first_snapshot_is_ignored_pr25648_client_diff_before_snapshot():
    peer = Peer()
    peer.watch.start()
    peer.connect()
    assert peer.give(diff(added=["t-1"])) is None
    assert (peer.watch.state, peer.watch.is_started, peer.watch.topics) == (ScalableTopicsState.OPENING, False, frozenset())


# ---- changes ----


def test_diffs():
    peer = started("t-1")
    assert peer.give(diff(added=["t-2"])) == (["t-2"], [])
    assert peer.watch.topics_hash == H12
    assert peer.give(diff(removed=["t-2"], added=["t-3"])) == (["t-3"], ["t-2"])
    assert peer.watch.topics == {*full("t-1", "t-3")}


def test_removed_is_applied_first_pr25648_client_removed_first():
    peer = started("t-1")
    assert peer.give(diff(added=["t-1"], removed=["t-1"])) == (["t-1"], ["t-1"])
    assert peer.watch.topics == {*full("t-1")}


@pytest.mark.parametrize(
    "update", [diff(added=["t-1"]), diff(removed=["t-9"]), diff(), snapshot("t-1"), snapshot("t-1", "t-1"), diff(added=["t-1", "t-1"])]
)
def test_what_is_known_already_changes_nothing_pr25648_client_duplicates_harmless(update):
    peer = started("t-1")
    assert peer.give(update) is None
    assert (peer.watch.topics, peer.watch.topics_hash, peer.watch.state) == ({*full("t-1")}, H1, ScalableTopicsState.WATCHING)


def test_a_snapshot_replaces_the_set_pr25648_client_snapshot_replaces():
    peer = started("t-1", "t-2")
    assert peer.give(snapshot("t-2", "t-3")) == (["t-3"], ["t-1"])
    assert peer.give(snapshot()) == ([], ["t-2", "t-3"])
    assert peer.watch.topics_hash == EMPTY_HASH


def test_a_late_listener_misses_nothing_pr25648_client_late_listener():
    peer = started("t-1", "t-2")
    for update in (
        diff(added=["t-3"]),
        diff(removed=["t-1"]),
        diff(removed=["t-2"]),
        diff(added=["t-2"]),
        diff(added=["t-4"]),
        diff(removed=["t-4"]),
    ):
        peer.watch.received(command_of(update), 0.0)
    assert peer.changes() == (["t-3", "t-2"], ["t-1", "t-2"])  # t-2 is another one now, and t-4 was never heard of
    assert peer.changes() is None


def command_of(update):
    base = command("watchScalableTopicsUpdate", watch_id=update.watch_id)
    base.watchScalableTopicsUpdate.CopyFrom(update)
    return base


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(snapshot("t-9", watch_id=8), id="pr25648.client.unknown-id"),
        pytest.param(error(NotAllowedError, watch_id=8), id="pr25648.client.unknown-id-error"),
        pytest.param(CommandWatchScalableTopicsUpdate(watch_id=7), id="pr25648.client.empty-update"),
    ],
)
def test_ignored(message):
    peer = started("t-1")
    assert peer.give(message) is None
    peer.watch.received(command("pong"), 0.0)
    assert (peer.watch.state, peer.watch.topics) == (ScalableTopicsState.WATCHING, {*full("t-1")})


# ---- coming back ----


def test_a_lost_connection_is_replaced_pr25648_client_reconnects():
    peer = started("t-1")
    peer.lose()
    assert (peer.watch.state, peer.watch.topics) == (ScalableTopicsState.WAITING, {*full("t-1")})
    assert not peer.watch.wants_connection
    assert 0.09 <= peer.wait() <= 0.1
    assert peer.connect() == [H1]  # pr25648.client.hash-on-reconnect
    assert (peer.watch.state, peer.watch.next_deadline()) == (ScalableTopicsState.WATCHING, None)  # pr25648.client.silence
    assert peer.give(diff(added=["t-2"])) == (["t-2"], [])


def test_a_snapshot_after_a_reconnect_is_a_change_pr25648_client_snapshot_replaces():
    peer = started("t-1", "t-2")
    peer.lose()
    peer.wait()
    peer.connect()
    assert peer.give(snapshot("t-2", "t-3")) == (["t-3"], ["t-1"])


def test_updates_of_an_older_connection_are_ignored():
    peer = started("t-1")
    peer.lose()
    assert peer.give(diff(added=["t-2"])) is None
    peer.wait()
    assert peer.give(snapshot()) is None
    assert peer.give(error(NotAllowedError)) is None
    assert (peer.watch.state, peer.watch.topics) == (ScalableTopicsState.CONNECTING, {*full("t-1")})


class Least:
    """Cuts nothing off a pause."""

    @staticmethod
    def random():
        return 0.0


def test_pauses_double_pr25648_client_backoff():
    peer = started("t-1", random=Least())
    peer.lose()
    pauses = []
    for _ in range(11):
        pauses.append(round(peer.wait(), 6))
        assert peer.watch.wants_connection
        peer.lose()
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    peer.wait()
    peer.connect()
    peer.give(snapshot("t-1"))
    peer.lose()
    assert round(peer.wait(), 6) == 0.1  # pr25648.client.backoff-reset


def test_pauses_are_jittered_by_the_generator_pr25648_client_backoff_jitter():
    def pauses(seed):
        peer = started(random=Random(seed))
        found = []
        for _ in range(5):
            peer.lose()
            found.append(peer.wait())
        return found

    assert pauses(1) == pauses(1)
    assert pauses(1) != pauses(2)


@pytest.mark.parametrize(("seconds", "pause"), [(0.0, 0.4), (0.15, 0.4), (0.5, 0.1)])
def test_silence_that_lasts_is_a_success_pr25648_client_backoff_reset(seconds, pause):
    peer = started("t-1", random=Least())
    peer.lose()
    peer.wait()
    peer.lose()
    assert round(peer.wait(), 6) == 0.2
    peer.connect()
    peer.now += seconds
    peer.lose()
    assert round(peer.wait(), 6) == pause


def test_an_error_after_the_first_set_is_retried_on_the_connection_pr25648_client_error_retried():
    peer = started("t-1", random=Least())
    peer.give(error(NotAllowedError, "not now"))
    assert (peer.watch.state, peer.watch.failure.code, peer.watch.topics) == (ScalableTopicsState.REFUSED, NotAllowedError, {*full("t-1")})
    assert peer.give(diff(added=["t-2"])) is None  # it has ended
    assert round(peer.wait(), 6) == 0.1
    assert (peer.sent(), peer.watch.wants_connection) == ([H1], False)
    peer.give(error(NotAllowedError, "not now"))
    assert round(peer.wait(), 6) == 0.2
    peer.sent()
    peer.give(error(NotAllowedError, "not now"))
    peer.lose()
    assert peer.watch.state is ScalableTopicsState.WAITING
    peer.wait()
    assert peer.connect() == [H1]


def test_a_broker_without_support_after_one_with_it_pr25648_client_needs_flag():
    peer = started("t-1", random=Least())
    peer.lose()
    peer.wait()
    assert peer.connect(FeatureFlags()) == []
    assert (peer.watch.state, peer.watch.topics) == (ScalableTopicsState.WAITING, {*full("t-1")})
    assert round(peer.wait(), 6) == 0.2
    assert peer.connect() == [H1]


def test_what_was_not_sent_before_the_loss_is_not_sent_after_it():
    peer = Peer(profile=AS_WRITTEN)
    peer.watch.start()
    peer.watch.connected(SUPPORTED, 0.0)
    peer.lose()
    assert peer.sent() == []


# ---- the end ----


def test_close_pr25648_client_closes():
    peer = started("t-1")
    peer.watch.close()
    peer.watch.close()
    assert (peer.sent(), peer.watch.state, peer.watch.next_deadline()) == (["close"], ScalableTopicsState.CLOSED, None)
    assert peer.give(diff(added=["t-2"])) is None
    peer.lose()
    peer.watch.start()
    peer.watch.connected(SUPPORTED, 0.0)
    assert (peer.sent(), peer.watch.state, peer.watch.wants_connection) == ([], ScalableTopicsState.CLOSED, False)


def closed(peer):
    peer.watch.close()
    return peer.sent(), peer.watch.state, peer.watch.next_deadline()


def test_close_in_any_state_pr25648_client_closes():
    quiet, told = ([], ScalableTopicsState.CLOSED, None), (["close"], ScalableTopicsState.CLOSED, None)
    assert closed(Peer()) == quiet
    peer = Peer()
    peer.watch.start()
    assert closed(peer) == quiet
    peer = Peer()
    peer.watch.start()
    peer.connect()
    assert closed(peer) == told
    peer = Peer()
    peer.watch.start()
    peer.watch.connected(SUPPORTED, 0.0)  # the request has not been taken
    assert closed(peer) == quiet
    peer = started()
    peer.lose()
    assert closed(peer) == quiet
    peer = started()
    peer.give(error(NotAllowedError))
    assert closed(peer) == quiet


def test_the_end_by_failure_stays():
    peer = Peer()
    peer.watch.start()
    peer.lose()
    peer.watch.close()
    peer.watch.start()
    peer.watch.tick(100.0)
    assert (peer.watch.state, peer.sent()) == (ScalableTopicsState.FAILED, [])
