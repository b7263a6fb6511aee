"""The broker's side of PIP-145, rule by rule; the ids are those of the clauses."""

import pytest

from refimpl.proposals.refused import Refused
from refimpl.proposals.topic_list import AS_WRITTEN, EMPTY_HASH, topics_hash
from refimpl.wire.pulsar_api_pb2 import (
    AuthorizationError,
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandSuccess,
    CommandWatchTopicListSuccess,
    FeatureFlags,
    InvalidTopicName,
    MetadataError,
    NotAllowedError,
    TooManyRequests,
)
from tests.samples.topic_list import NS, Store, full, gone, new

TOPICS = ("u-1", "t-2", "t-1", "t-p-partition-0", "t-p-partition-1")


def answer(response):
    return list(response.topics), response.topics_hash, response.filtered, response.changed


# ---- lists ----


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        pytest.param(None, TOPICS, id="pip145.list.no-pattern-all"),
        pytest.param("public/ns/t-.*", TOPICS[1:], id="pip145.list.filter"),
        pytest.param("persistent://public/ns/t-[12]", ("t-2", "t-1"), id="pip145.pattern.domain-removed"),
        pytest.param("non-persistent://public/ns/t-1", ("t-1",), id="pip145.pattern.domain-removed-non"),
        pytest.param("t-.*", (), id="pip145.pattern.name-without-domain"),
        pytest.param("public/ns/t-", (), id="pip145.pattern.full-match"),
        pytest.param("public/ns/t-p", TOPICS[3:], id="pip145.pattern.partitioned-name"),
        pytest.param("public/ns/t-p-partition-0", (), id="pip145.pattern.partitioned-name-suffix"),
        pytest.param(r"^\Qpersistent://public/ns/t-1\E$", ("t-1",), id="pip145.pattern.quoted-name"),
        pytest.param("(?i)PUBLIC/NS/T-1", ("t-1",), id="pip145.pattern.common-syntax"),
        pytest.param("persistent://public/ns/t-1://x", ("t-1",), id="pip145.pattern.second-separator"),
        pytest.param("", (), id="pip145.pattern.empty"),
    ],
)
def test_list(pattern, names):
    store = Store(*TOPICS)
    expected = full(*names)
    assert answer(store.get(pattern)) == (expected, topics_hash(expected), pattern is not None, True)


@pytest.mark.parametrize("pattern", [None, "public/ns/t-.*", "public/ns/none"])
@pytest.mark.parametrize("request_id", [0, 1, 2**64 - 1])
def test_equal_hash_pip145_hash_equal(pattern, request_id):
    store = Store(*TOPICS)
    first = store.get(pattern)
    again = store.get(pattern, first.topics_hash, request_id)
    assert answer(again) == ([], first.topics_hash, pattern is not None, False)
    assert again.request_id == request_id  # pip145.list.request-id-any
    assert all(again.HasField(name) for name in ("filtered", "changed", "topics_hash"))  # pip145.list.flags-written


@pytest.mark.parametrize("topics_hash_", ["", "00000000", "0", "X", " "])
def test_other_hash_pip145_hash_exact_text(topics_hash_):
    store = Store("t-1")
    current = store.get().topics_hash
    for other in (topics_hash_, current.upper(), current[:-1], current + " "):
        assert answer(store.get("public/ns/t-.*", other)) == (full("t-1"), current, True, True)


def test_topics_of_a_mode_keep_their_order_and_hide_system_topics_pip145_list_mode_all():
    topics = [*full("b", "__change_events", "__my", "a"), "non-persistent://public/ns/v"]
    response = Store().get(topics=topics)
    assert list(response.topics) == [*full("b", "__my", "a"), "non-persistent://public/ns/v"]
    assert response.topics_hash == topics_hash(response.topics)
    assert list(Store().get("persistent://public/ns/[bv]", topics=topics).topics) == [topics[0], topics[-1]]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        pytest.param("public/ns/[", "Invalid topics pattern: missing ]", id="pip145.pattern.invalid"),
        pytest.param("public/ns/t-(?!b)", "without look-around and back-references", id="pip145.pattern.look-around-refused"),
        pytest.param(r"(.)\1", "without look-around and back-references", id="pip145.pattern.back-reference-refused"),
        pytest.param(
            "topic://a/b", "java.lang.IllegalArgumentException: Does not support topic domain: topic", id="pip145.pattern.unknown-domain"
        ),
        pytest.param("(persistent|non-persistent)://a", "Does not support topic domain", id="pip145.pattern.unknown-domain-choice"),
        pytest.param("persistent://", "No pattern behind the topic domain", id="pip145.pattern.domain-only"),
    ],
)
def test_refused_list(pattern, text):
    with pytest.raises(Refused) as refused:
        Store("t-1").get(pattern)
    assert refused.value.code == MetadataError
    assert text in refused.value.message


@pytest.mark.parametrize(
    ("pattern", "filtered"),
    [
        pytest.param("persistent://public/ns/t-1".ljust(50, "$"), True, id="pip145.pattern.length-limit"),
        pytest.param("persistent://public/ns/t-1".ljust(51, "$"), False, id="pip145.pattern.length-with-domain"),
        pytest.param("public/ns/t-1".ljust(51, "["), False, id="pip145.pattern.length-limit-not-compiled"),
        pytest.param("topic://public/ns/t-1".ljust(51, "$"), False, id="pip145.pattern.length-limit-domain-not-looked-at"),
        pytest.param("public/ns/t-1|" + "\U0001f600" * 18, True, id="pip145.pattern.length-unit-50"),
        pytest.param("public/ns/t-1|x" + "\U0001f600" * 18, False, id="pip145.pattern.length-unit-51"),
    ],
)
def test_length(pattern, filtered):
    store = Store("t-1", "u-1")
    names = ("t-1",) if filtered else ("t-1", "u-1")
    assert answer(store.get(pattern)) == (full(*names), topics_hash(full(*names)), filtered, True)
    assert answer(store.get(pattern, topics_hash(full(*names)))) == ([], topics_hash(full(*names)), filtered, False)


def test_no_length_limit_pip145_pattern_no_length_limit():
    store = Store("t-1", "u-1", profile=AS_WRITTEN)
    pattern = "persistent://public/ns/t-1" + "$" * 500
    assert answer(store.get(pattern)) == (full("t-1"), topics_hash(full("t-1")), True, True)
    assert list(store.watch(pattern).topic) == full("t-1")


@pytest.mark.parametrize("pattern", ["public/ns/t-.*", "[", "topic://x"])
def test_evaluation_off_pip145_compat_switch_off(pattern):
    store = Store("t-1", "u-1", evaluation_enabled=False)
    everything = full("t-1", "u-1")
    assert answer(store.get(pattern)) == (everything, topics_hash(everything), False, True)
    assert answer(store.get(pattern, topics_hash(everything))) == ([], topics_hash(everything), False, False)


@pytest.mark.parametrize("pattern", ["public/ns/t-.*", "[", None])
def test_evaluation_off_as_written_pip145_compat_switch_off_no_hash(pattern):
    store = Store("t-1", "u-1", "__change_events", evaluation_enabled=False, profile=AS_WRITTEN)
    for known in (None, topics_hash(full("t-1", "u-1"))):
        assert store.get(pattern, known) == CommandGetTopicsOfNamespaceResponse(request_id=1, topics=full("t-1", "u-1"))


def test_properties_and_unknown_mode_change_nothing():
    request = CommandGetTopicsOfNamespace(request_id=1, namespace=NS, properties=[{"key": "k", "value": "v"}])
    assert list(Store().side.get_topics(request, full("t-1")).topics) == full("t-1")


# ---- flags ----


@pytest.mark.parametrize(
    ("arguments", "offered"),
    [
        pytest.param({}, True, id="pip145.flag.advertised"),
        pytest.param({"watchers_enabled": False}, False, id="pip145.flag.watcher-switch"),
        pytest.param({"evaluation_enabled": False}, True, id="pip145.flag.filtering-off-keeps"),
        pytest.param({"evaluation_enabled": False, "profile": AS_WRITTEN}, False, id="pip145.flag.filtering-off-clears"),
        pytest.param({"profile": AS_WRITTEN}, True, id="pip145.flag.advertised-letter"),
    ],
)
def test_flags(arguments, offered):
    side, flags = Store(**arguments).side, FeatureFlags()
    side.advertise(flags)
    assert side.offers_watchers is offered
    assert flags.supports_topic_watchers is flags.supports_topic_watcher_reconcile is offered


def test_hidden_watchers_are_served_pip145_flag_switched_off_still_serves():
    store = Store("t-1", watchers_enabled=False)
    assert list(store.watch().topic) == full("t-1")
    assert store.create("t-2") == [new("t-2", "t-1", "t-2")]


# ---- watchers ----


@pytest.mark.parametrize(
    ("known", "listed"),
    [
        pytest.param(None, True, id="pip145.watch.success-lists-matching"),
        pytest.param(topics_hash(full("t-1", "t-2")), False, id="pip145.watch.equal-hash"),
        pytest.param(topics_hash(full("t-1", "t-2")).upper(), True, id="pip145.watch.other-hash-upper-case"),
        pytest.param(EMPTY_HASH, True, id="pip145.watch.other-hash-of-nothing"),
        pytest.param("", True, id="pip145.watch.other-hash-empty"),
    ],
)
def test_watch(known, listed):
    store = Store("t-1", "u-1", "t-2", "__change_events")
    response = store.watch(topics_hash=known, request_id=2**64 - 1, watcher_id=2**64 - 1)
    expected = full("t-1", "t-2")
    assert response == CommandWatchTopicListSuccess(
        request_id=2**64 - 1, watcher_id=2**64 - 1, topic=expected if listed else [], topics_hash=topics_hash(expected)
    )


def test_empty_set_pip145_watch_success_carries_hash():
    response = Store("u-1").watch(topics_hash=EMPTY_HASH)
    assert (list(response.topic), response.topics_hash) == ([], EMPTY_HASH)


@pytest.mark.parametrize(
    "pattern",
    [
        "public/ns/t-.*",
        "persistent://public/ns/t-.*",
        "non-persistent://public/ns/t-.*",
        r"\Qpersistent://public/ns/t-\E.*",
        "(?i)public/ns/T-.*",
    ],
)
def test_changes_pip145_watch_scheme_in_pattern(pattern):
    store = Store("t-1", "u-1")
    assert list(store.watch(pattern).topic) == full("t-1")
    assert store.create("t-2") == [new("t-2", "t-1", "t-2")]  # pip145.update.on-create
    assert store.create("u-2") == []  # pip145.update.only-matching
    assert store.delete("t-1") == [gone("t-1", "t-2")]  # pip145.update.on-delete
    assert store.delete("t-2") == [gone("t-2")]  # pip145.update.hash
    assert store.create("t-2") == [new("t-2", "t-2")]  # pip145.update.order


def test_once_pip145_update_once():
    store = Store("t-1")
    store.watch()
    assert store.side.created(full("t-1")[0]) == []
    assert store.side.deleted(full("t-9")[0]) == []
    assert store.create("t-2") == [new("t-2", "t-1", "t-2")]


@pytest.mark.parametrize(
    "topic",
    [
        pytest.param("persistent://public/other/t-1", id="pip145.watch.namespace-only"),
        pytest.param("non-persistent://public/ns/t-1", id="pip145.watch.persistent-only"),
        pytest.param("persistent://public/ns/__change_events", id="pip145.watch.system-topics"),
        pytest.param("persistent://public/ns/__transaction_buffer_snapshot-partition-1", id="pip145.watch.system-topics-partition"),
    ],
)
def test_what_is_not_announced(topic):
    store = Store()
    store.watch(".*")
    assert store.side.created(topic) == store.side.deleted(topic) == []
    assert store.create("__my") == [new("__my", "__my")]


def test_partitions_pip145_update_partitioned():
    store = Store()
    store.watch(r"public/ns/p\d*$")
    names = [f"p1-partition-{number}" for number in range(3)]
    assert store.create(*names) == [new(name, *names[: number + 1]) for number, name in enumerate(names)]
    assert store.create("p1-partition-01", "p1-partition--1", "p1-partition-a") == []  # pip145.pattern.ordinary-suffix
    assert store.delete(*reversed(names)) == [gone(name, *names[:number]) for number, name in reversed(list(enumerate(names)))]


def test_namespace_that_does_not_exist_yet_pip145_watch_unknown_namespace():
    store = Store()
    assert store.watch(".*", namespace="no/where").topics_hash == EMPTY_HASH
    _, update = store.create("t", namespace="no/where")[0]
    assert list(update.new_topics) == full("t", namespace="no/where")


def test_every_watcher_pip145_update_every_watcher():
    store = Store("t-1")
    store.watch("public/ns/t-.*", watcher_id=1)
    store.watch("persistent://public/ns/t-.*", watcher_id=2)
    store.watch("public/ns/t-[2-9]", watcher_id=1, connection="b")
    store.watch("public/ns/u", watcher_id=3, connection="b")
    assert sorted(store.create("t-2"), key=str) == sorted(
        [new("t-2", "t-1", "t-2", watcher_id=1), new("t-2", "t-1", "t-2", watcher_id=2), new("t-2", "t-2", watcher_id=1, connection="b")],
        key=str,
    )
    assert store.side.watcher_count("a") == store.side.watcher_count("b") == 2


def test_repeated_id_pip145_watch_reconcile_keeps():
    store = Store("t-1", "u-1")
    store.watch()
    again = store.watch("public/ns/u-.*", request_id=2)
    assert (again.request_id, list(again.topic)) == (2, full("t-1"))
    assert list(store.watch("public/other/.*", namespace="public/other", request_id=3).topic) == full("t-1")
    assert list(store.watch(topics_hash=again.topics_hash).topic) == []  # pip145.watch.reconcile-answers
    assert store.create("t-2", "u-2") == [new("t-2", "t-1", "t-2")]  # pip145.watch.reconcile-one-push


REFUSALS = [
    pytest.param("public/ns/t-[", {}, InvalidTopicName, "Invalid topics pattern: missing ]: [", id="pip145.watch.invalid-pattern"),
    pytest.param("public/ns/t-(?=a)", {}, InvalidTopicName, "without look-around", id="pip145.watch.look-around"),
    pytest.param(
        "persistent://" + "x" * 51,
        {},
        NotAllowedError,
        "Unable to create topic list watcher: Pattern longer than maximum: 50",
        id="pip145.watch.pattern-too-long",
    ),
    pytest.param("[" * 51, {}, NotAllowedError, "Pattern longer than maximum: 50", id="pip145.watch.pattern-too-long-not-compiled"),
    pytest.param(
        "x" * 11, {"pattern_max_length": 10}, NotAllowedError, "Pattern longer than maximum: 10", id="pip145.watch.pattern-too-long-setting"
    ),
    pytest.param(
        "topic://x",
        {},
        AuthorizationError,
        "Exception occurred while trying to handle command WatchTopicList",
        id="pip145.watch.domain-unsupported",
    ),
    pytest.param(
        "persistent://",
        {},
        AuthorizationError,
        "Exception occurred while trying to handle command WatchTopicList",
        id="pip145.watch.domain-only",
    ),
    pytest.param("topic://" + "x" * 51, {}, AuthorizationError, "Exception occurred", id="pip145.watch.domain-before-length"),
]


@pytest.mark.parametrize(("pattern", "arguments", "code", "text"), REFUSALS)
def test_refused_watch(pattern, arguments, code, text):
    store = Store("t-1", **{"pattern_max_length": 50} | arguments)
    with pytest.raises(Refused) as refused:
        store.watch(pattern)
    assert refused.value.code == code
    assert text in refused.value.message
    assert store.side.watcher_count("a") == 0
    assert list(store.watch(".*").topic) == full("t-1")  # pip145.watch.id-free-after-error
    with pytest.raises(Refused):
        store.watch(pattern)
    assert store.create("u") == [new("u", "t-1", "u")]  # pip145.watch.reconcile-refused


@pytest.mark.parametrize(
    ("pattern", "code"), [("public/ns/.*", NotAllowedError), ("[", NotAllowedError), ("topic://x", AuthorizationError)]
)
def test_evaluation_off_pip145_watch_evaluation_off(pattern, code):
    with pytest.raises(Refused) as refused:
        Store(evaluation_enabled=False).watch(pattern)
    assert refused.value.code == code


@pytest.mark.parametrize("scheme", ["", "persistent://", "non-persistent://"])
def test_length_pip145_watch_length_without_scheme(scheme):
    store = Store("t-1")
    fitting = "public/ns/t-1".ljust(50, "$")
    assert list(store.watch(scheme + fitting).topic) == full("t-1")
    with pytest.raises(Refused):
        store.watch(scheme + fitting + "$", watcher_id=8)


def test_list_and_watch_agree_pip145_watch_agrees_with_get():
    store = Store("t-2", "t-1", "__change_events", "t-p-partition-0")
    listed, watched = store.get("public/ns/t-.*"), store.watch()
    assert sorted(listed.topics) == sorted(watched.topic)
    assert listed.topics_hash == watched.topics_hash
    assert not store.get("public/ns/t-.*", watched.topics_hash).changed  # pip145.hash.interchangeable


@pytest.mark.parametrize("watcher_id", [7, 99])
def test_close(watcher_id):
    store = Store("t-1")
    store.watch()
    assert store.close(watcher_id, 5) == CommandSuccess(request_id=5)  # pip145.close.answer, pip145.close.unknown
    assert store.create("t-2") == ([] if watcher_id == 7 else [new("t-2", "t-1", "t-2")])  # pip145.close.silence
    assert store.close(watcher_id, 6) == CommandSuccess(request_id=6)


@pytest.mark.parametrize("watcher_id", [7, 99])
def test_close_pip145_close_answer_letter(watcher_id):
    store = Store("t-1", profile=AS_WRITTEN)
    store.watch()
    assert store.close(watcher_id, 5) == CommandWatchTopicListSuccess(request_id=5, watcher_id=watcher_id, topics_hash=EMPTY_HASH)


def test_closed_id_pip145_close_id_reusable():
    store = Store("t-1", "u-1")
    store.watch()
    store.watch("public/ns/t-1", watcher_id=8)
    store.close()
    assert list(store.watch("public/ns/u-.*").topic) == full("u-1")
    assert store.create("t-2", "u-2") == [new("u-2", "u-1", "u-2")]
    assert store.delete("t-1") == [gone("t-1", watcher_id=8)]  # pip145.close.only-that-one


def test_lost_connection_pip145_watch_dropped_with_connection():
    store = Store("t-1")
    for watcher_id in range(3):
        store.watch(watcher_id=watcher_id)
    store.watch(connection="b")
    store.side.disconnected("a")
    store.side.disconnected("a")
    assert store.create("t-2") == [new("t-2", "t-1", "t-2", connection="b")]
    store.side.disconnected("b")
    assert not any((store.side._watchers, store.side._selections, store.side._indexes))


def test_revoked_permission_pip145_watch_permission_revoked():
    allowed = {"a": True, "b": True}
    store = Store("t-1", may_watch=lambda connection, namespace: allowed[connection])
    store.watch()
    store.watch(".*", watcher_id=8)
    store.watch(connection="b")
    allowed["a"] = False
    assert store.create("t-2") == [new("t-2", "t-1", "t-2", connection="b")]
    assert store.side.watcher_count("a") == 0
    allowed["a"] = True
    assert store.create("t-3") == [new("t-3", "t-1", "t-2", "t-3", connection="b")]
    assert list(store.watch("public/ns/t-1").topic) == full("t-1")


def test_repeated_request_from_an_allowed_namespace_tells_nothing_of_a_revoked_one():
    allowed = {NS, "public/other"}
    store = Store("t-1", may_watch=lambda connection, namespace: namespace in allowed)
    store.watch()
    allowed.remove(NS)
    assert list(store.watch("public/other/.*", namespace="public/other").topic) == []


def test_limit_of_watchers():
    store = Store(max_watchers=2)
    store.watch(watcher_id=1)
    store.watch(watcher_id=2)
    with pytest.raises(Refused) as refused:
        store.watch(watcher_id=3)
    assert refused.value.code == TooManyRequests
    store.watch(watcher_id=2)
    store.watch(watcher_id=3, connection="b")
    store.close(1)
    store.watch(watcher_id=3)
