"""The client's side of PIP-145, rule by rule; the ids are those of the clauses."""

import pytest

from refimpl.proposals.topic_list import (
    AS_WRITTEN,
    EMPTY_HASH,
    TopicChanges,
    TopicListBroker,
    TopicListState,
    TopicListWatch,
    topics_hash,
)
from refimpl.wire import command, wrap
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    CommandGetTopicsOfNamespace,
    CommandSuccess,
    CommandWatchTopicList,
    FeatureFlags,
    MetadataError,
    NotAllowedError,
)
from tests.samples.topic_list import NO_RECONCILE, WATCHERS, Peer, full

T1, T2, T3 = full("t-1", "t-2", "t-3")
H0, H1, H12 = EMPTY_HASH, topics_hash([T1]), topics_hash([T1, T2])
NO_FLAGS = FeatureFlags()


def peer_of(pattern="public/ns/t-.*", **arguments):
    return Peer(TopicListWatch("public/ns", pattern, 7, **arguments))


def watching(*topics, flags=WATCHERS, **arguments):
    """Return a peer whose client has a watcher."""
    peer = peer_of(**arguments)
    peer.connect(flags)
    peer.list(*topics)
    assert peer.sent()[0][0] == "watch"
    peer.success(*topics)
    assert peer.watch.state is TopicListState.WATCHING
    return peer


# ---- the first list, and what follows it ----


def test_start():
    peer = peer_of()
    assert (peer.watch.topics, peer.watch.topics_hash, peer.sent()) == (frozenset(), None, [])
    assert peer.connect() == [("list", None)]  # pip145.client.list-first-without-hash
    assert peer.list(T2, T1) == TopicChanges((T1, T2), ())
    assert (peer.watch.topics, peer.watch.topics_hash) == ({T1, T2}, H12)
    assert peer.sent() == [("watch", H12)]  # pip145.client.watch-creates
    assert peer.success(topics_hash_=H12) is None
    assert peer.watch.topics == {T1, T2}
    assert peer.wait() == (60.0, [("watch", H12)])  # pip145.client.watch-periodic
    assert peer.success(topics_hash_=H12) is None
    assert peer.wait()[0] == 60.0


def test_requests_carry_what_the_user_gave_pip145_client_list_sends_pattern():
    pattern = r"^\Qpersistent://public/ns/t-\E.*$"
    watch = TopicListWatch("public/ns", pattern, 2**64 - 1, mode=CommandGetTopicsOfNamespace.PERSISTENT)
    watch.connected(WATCHERS, 0.0)
    (request,) = watch.commands_to_send(lambda: 5, 0.0)
    assert request == CommandGetTopicsOfNamespace(
        request_id=5, namespace="public/ns", mode=CommandGetTopicsOfNamespace.PERSISTENT, topics_pattern=pattern
    )
    watch.received(command("getTopicsOfNamespaceResponse", request_id=5, topics_hash=H0, filtered=True), 0.0)
    (request,) = watch.commands_to_send(lambda: 6, 0.0)
    assert request == CommandWatchTopicList(
        request_id=6, watcher_id=2**64 - 1, namespace="public/ns", topics_pattern=pattern, topics_hash=H0
    )


def test_letter_sends_the_hash_of_a_watch_only_after_a_reconnect_pip145_client_watch_hash_first():
    peer = peer_of(profile=AS_WRITTEN)
    peer.connect()
    peer.list(T1)
    assert peer.sent() == [("watch", None)]
    assert peer.success(T1) is None
    assert peer.wait() == (60.0, [("list", H1)])
    peer.list(changed=False, topics_hash_=H1)
    assert peer.connect() == [("watch", H1)]  # pip145.client.watch-hash-on-reconnect


def test_letter_keeps_to_its_pattern_if_the_broker_is_switched_off_pip145_client_list_no_hash_filters():
    names = full("t-1", "u-1")
    side = TopicListBroker(lambda _: names, profile=AS_WRITTEN, evaluation_enabled=False)
    flags = FeatureFlags()
    side.advertise(flags)
    watch = TopicListWatch("public/ns", "public/ns/t-.*", 1, profile=AS_WRITTEN)
    watch.connected(flags, 0.0)
    for number in (1, 2):
        (request,) = watch.commands_to_send(lambda number=number: number, 60.0 * number)
        watch.received(wrap(side.get_topics(request, names)), 60.0 * number)
        assert watch.topics == {names[0]}
        watch.tick(60.0 * (number + 1))


@pytest.mark.parametrize(
    ("flags", "arguments"),
    [
        pytest.param(NO_FLAGS, {}, id="pip145.client.watch-needs-flag"),
        pytest.param(None, {}, id="pip145.client.list-polls-without-watch"),
        pytest.param(WATCHERS, {"polling_only": True}, id="pip145.client.list-http-polls"),
        pytest.param(WATCHERS, {"mode": CommandGetTopicsOfNamespace.ALL}, id="pip145.client.list-mode"),
        pytest.param(NO_FLAGS, {"profile": AS_WRITTEN}, id="pip145.client.watch-needs-flag-letter"),
    ],
)
def test_polling(flags, arguments):
    peer = peer_of(discovery_period=5.0, **arguments)
    assert peer.connect(flags) == [("list", None)]
    peer.list(T1)
    assert peer.sent() == []
    assert peer.wait() == (5.0, [("list", H1)])  # pip145.client.list-returns-hash
    assert peer.list(changed=False, topics_hash_=H1) is None  # pip145.client.list-unchanged
    assert peer.watch.topics == {T1}
    assert peer.wait() == (5.0, [("list", H1)])
    assert peer.list(T2) == TopicChanges((T2,), (T1,))  # pip145.client.list-whole-set
    peer.watch.close()
    assert (peer.sent(), peer.watch.next_deadline(), peer.watch.state) == ([], None, TopicListState.CLOSED)


def test_list_of_a_pattern_that_is_too_long_pip145_client_list_unfiltered_filters():
    peer = peer_of()
    peer.connect(NO_FLAGS)
    everything = [*full("u", "__change_events", "t-p-partition-0"), T1]
    assert peer.list(*everything, filtered=False) == TopicChanges((T1, everything[2]), ())
    assert peer.wait()[1] == [("list", topics_hash(everything))]
    assert peer.list(changed=False, filtered=False, topics_hash_=topics_hash(everything)) is None
    assert peer.watch.topics_hash == topics_hash(peer.watch.topics)


def test_letter_takes_a_list_with_a_hash_as_filtered_pip145_client_list_hash_means_filtered():
    peer = peer_of(profile=AS_WRITTEN)
    peer.connect(NO_FLAGS)
    peer.list("persistent://public/ns/u", filtered=False)
    assert peer.watch.topics == {"persistent://public/ns/u"}


@pytest.mark.parametrize("arguments", [{}, {"profile": AS_WRITTEN}])
def test_old_broker_pip145_client_list_no_hash_filters(arguments):
    peer = peer_of(pattern="persistent://public/ns/t-.*", **arguments)
    peer.connect(None)
    assert peer.old_list(T1, "persistent://public/ns/u") == TopicChanges((T1,), ())
    assert peer.watch.topics_hash == H1
    assert peer.wait() == (60.0, [("list", H1)])
    assert peer.old_list(T1, "persistent://public/ns/v") is None


def test_list_that_has_not_changed_although_there_was_none():
    peer = peer_of()
    peer.connect()
    assert peer.list(changed=False, topics_hash_=H1) is None
    assert peer.wait() == (0.2, [("list", None)])


# ---- what the watcher tells ----


def test_list_of_a_watch_replaces_the_set_pip145_client_watch_applies_list():
    peer = watching(T1)
    peer.wait()
    assert peer.success(T3, T2) == TopicChanges((T2, T3), (T1,))
    peer.wait()
    assert peer.success() == TopicChanges((), (T2, T3))
    assert peer.watch.topics_hash == H0


def test_empty_list_with_an_unknown_hash_is_not_believed():
    peer = watching(T1)
    peer.wait()
    assert peer.success(topics_hash_=H12) is None
    assert peer.watch.topics == {T1}
    assert peer.sent() == [("list", None)]
    assert peer.list(T1, T2) == TopicChanges((T2,), ())
    assert peer.wait() == (60.0, [("watch", H12)])


def test_empty_list_with_an_unknown_hash_for_a_new_watcher():
    peer = peer_of()
    peer.connect()
    peer.list(T1)
    peer.sent()
    peer.success(topics_hash_=H12)
    assert peer.sent() == [("list", None)]
    assert peer.update([T3], after=[T1, T3]) == TopicChanges((T3,), ())
    assert peer.list(T1, T2, T3) == TopicChanges((T2,), ())
    assert peer.watch.state is TopicListState.WATCHING


def test_updates_pip145_client_watch_applies_update():
    peer = watching(T1)
    assert peer.update([T2], after=[T1, T2]) == TopicChanges((T2,), ())
    assert peer.update([T2], after=[T1, T2]) is None
    assert peer.update([], [T3], after=[T1, T2]) is None
    assert peer.update([T3, T1], [T1, T2], after=[T1, T3]) == TopicChanges((T3,), (T2,))
    assert peer.update([T3], [T3], after=[T1, T3]) is None
    assert peer.update(after=[T1, T3]) is None
    assert peer.update([T1], watcher_id=8, topics_hash_="x") is None  # pip145.client.watch-unknown-id
    assert peer.sent() == []
    assert peer.watch.topics == {T1, T3}


@pytest.mark.parametrize(("flags", "kind"), [(WATCHERS, "watch"), (NO_RECONCILE, "list")])
def test_mismatch_pip145_client_watch_mismatch(flags, kind):
    peer = watching(T1, flags=flags)
    assert peer.update([T3], after=[T1, T2, T3]) == TopicChanges((T3,), ())
    assert peer.sent() == [(kind, topics_hash([T1, T3]))]
    assert peer.update([], [T3], after=[T1, T2]) == TopicChanges((), (T3,))
    assert peer.sent() == []  # one check at a time
    answered = peer.success if kind == "watch" else peer.list
    assert answered(T1, T2) == TopicChanges((T2,), ())
    assert peer.wait() == (60.0, [(kind, H12)])


def test_periodic_check_without_reconcile_flag_pip145_client_watch_periodic():
    peer = watching(T1, flags=NO_RECONCILE, discovery_period=3.0)
    assert peer.wait() == (3.0, [("list", H1)])
    assert peer.list(changed=False, topics_hash_=H1) is None
    assert peer.update([T2], after=[T1, T2]) == TopicChanges((T2,), ())
    assert peer.wait() == (3.0, [("list", H12)])


# ---- refusals ----


def test_refused_watch_pip145_client_watch_refused():
    peer = peer_of(discovery_period=5.0)
    peer.connect()
    peer.list(T1)
    peer.sent()
    assert peer.error(NotAllowedError) is None
    assert (peer.watch.failure.code, peer.watch.failure.message) == (NotAllowedError, "no")
    assert peer.sent() == [("list", H1)]
    peer.list(changed=False, topics_hash_=H1)
    for _ in range(3):
        assert peer.wait() == (5.0, [("list", H1)])
        peer.list(changed=False, topics_hash_=H1)
    assert peer.connect() == [("watch", H1)]  # another broker may allow it
    peer.error(NotAllowedError)
    peer.sent()
    peer.watch.close()
    assert peer.sent() == []


def test_failed_watch_is_repeated_with_longer_and_longer_pauses_and_a_list_each_time():
    peer = peer_of(discovery_period=1.0)
    peer.connect()
    peer.list(T1)
    for pause in (0.2, 0.4, 0.8, 1.0, 1.0):
        assert peer.sent() == [("watch", H1)]
        peer.error(MetadataError)
        assert peer.watch.failure.code == MetadataError
        assert peer.wait() == (pause, [("list", H1)])
        peer.list(changed=False, topics_hash_=H1)
    peer.sent()
    peer.success(topics_hash_=H1)
    assert (peer.watch.state, peer.watch.failure) == (TopicListState.WATCHING, None)
    peer.wait()
    peer.error(MetadataError)
    assert peer.wait() == (0.2, [("list", H1)])


def test_failed_list_is_repeated():
    peer = peer_of()
    peer.connect()
    for pause in (0.2, 0.4):
        peer.error(AuthorizationError)
        assert peer.wait() == (pause, [("list", None)])
    peer.list(T1)
    assert peer.sent() == [("watch", H1)]


def test_refused_check_leaves_the_watcher_and_updates_are_still_taken():
    peer = watching(T1)
    peer.wait()
    peer.error(NotAllowedError)
    assert peer.sent() == [("list", H1)]
    assert peer.update([T2], after=[T1, T2]) == TopicChanges((T2,), ())
    peer.list(T1, T2)
    assert peer.watch.state is TopicListState.POLLING
    peer.watch.close()
    assert peer.sent() == [("close", 7)]


def test_request_that_is_never_answered():
    peer = peer_of(operation_timeout=10.0)
    peer.connect()
    late = peer.request_id
    assert peer.wait() == (10.0, [])
    assert peer.watch.state is TopicListState.WAITING
    assert peer.wait() == (0.2, [("list", None)])
    assert peer.list(T1, request_id=late) is None
    assert peer.watch.topics_hash is None
    assert peer.list(T1) == TopicChanges((T1,), ())
    assert peer.watch.failure is not None


def test_answer_for_another_watcher_is_not_taken_for_ours():
    peer = peer_of()
    peer.connect()
    peer.list(T1)
    peer.sent()
    assert peer.success(T2, watcher_id=8) is None
    assert peer.watch.state is TopicListState.REGISTERING
    assert peer.success(T2) == TopicChanges((T2,), (T1,))


# ---- connections, close ----


def test_reconnect_pip145_client_watch_hash_on_reconnect():
    peer = watching(T1)
    peer.watch.disconnected(peer.now)
    assert (peer.watch.topics, peer.watch.next_deadline(), peer.sent()) == ({T1}, None, [])
    assert peer.update([T2], after=[T1, T2]) is None
    assert peer.connect() == [("watch", H1)]
    assert peer.update([T2], after=[T1, T2]) is None  # of the older connection, as SUCCESS comes first
    assert peer.success(T2, T1) == TopicChanges((T2,), ())
    assert peer.connect(NO_FLAGS) == [("list", H12)]


def test_answers_of_an_older_connection_are_ignored():
    peer = peer_of()
    peer.connect()
    old = peer.request_id
    peer.connect()
    assert peer.list(T1, request_id=old) is None
    assert peer.error(MetadataError, request_id=old) is None
    assert peer.watch.state is TopicListState.LISTING
    peer.list(T1)
    peer.sent()
    old = peer.request_id
    peer.connect()
    assert peer.success(T2, request_id=old) is None
    assert peer.watch.topics == {T1}


def test_answers_to_others_are_ignored():
    peer = peer_of()
    peer.connect()
    assert peer.give(CommandSuccess(request_id=peer.request_id)) is None
    assert peer.success(T1) is None  # a list was asked for, not a watcher
    assert peer.list(T1, request_id=99) is None
    assert peer.watch.state is TopicListState.LISTING


@pytest.mark.parametrize("pattern", ["[", "topic://x", "(?=a)"])
def test_pattern_that_does_not_compile(pattern):
    with pytest.raises(ValueError, match=r"Does not support topic domain|RE2"):
        TopicListWatch("public/ns", pattern, 7)


def test_close_pip145_client_watch_close():
    peer = watching(T1)
    peer.watch.close()
    peer.watch.close()
    assert peer.sent() == [("close", 7)]
    assert (peer.watch.state, peer.watch.next_deadline()) == (TopicListState.CLOSED, None)
    assert peer.give(CommandSuccess(request_id=peer.request_id)) is None
    assert peer.connect() == []


def test_close_follows_the_answer_to_a_watch_that_is_on_its_way():
    for answer, sent in ((lambda peer: peer.success(T1), [("close", 7)]), (lambda peer: peer.error(MetadataError), [])):
        peer = peer_of()
        peer.connect()
        peer.list(T1)
        peer.sent()
        peer.watch.close()
        assert peer.sent() == []
        answer(peer)
        assert peer.sent() == sent
        assert peer.watch.state is TopicListState.CLOSED


def test_close_while_a_watch_is_never_answered():
    peer = peer_of()
    peer.connect()
    peer.list(T1)
    peer.sent()
    peer.watch.close()
    assert peer.wait() == (30.0, [("close", 7)])


def test_close_before_a_watch_was_sent():
    peer = peer_of()
    peer.connect()
    peer.list(T1)
    peer.watch.close()
    assert (peer.sent(), peer.watch.state) == ([], TopicListState.CLOSED)
    peer = peer_of()
    peer.connect()
    peer.list(T1)
    peer.sent()
    peer.watch.close()
    peer.watch.disconnected(peer.now)
    assert peer.watch.state is TopicListState.CLOSED
