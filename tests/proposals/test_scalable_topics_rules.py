"""The rules that both sides of PR 25648 share; the ids are those of the clauses."""

from dataclasses import fields
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.names import is_namespace, namespace_of
from refimpl.proposals.scalable_topics import AS_WRITTEN, DEFAULT, PROFILES, record_path, retry_delay, topics_hash
from refimpl.proposals.scalable_topics.rules import FoldedChanges, ScalableTopicChanges, filters_of, fits, topic_of_path
from tests.samples.scalable_topics import pairs

LOCAL = st.text(min_size=1)


@pytest.mark.parametrize(
    ("filters", "selected"),
    [
        pytest.param([], ["alice", "bob", "prod", "ALICE", "none", "empty", "odd", "space"], id="pr25648.filter.none"),
        pytest.param([("owner", "alice")], ["alice", "prod"], id="one"),
        pytest.param([("owner", "alice"), ("env", "prod")], ["prod"], id="pr25648.filter.all-hold"),
        pytest.param([("env", "prod"), ("owner", "alice")], ["prod"], id="pr25648.filter.all-hold-other-order"),
        pytest.param([("Owner", "alice")], [], id="pr25648.filter.exact-key"),
        pytest.param([("owner", "ALICE")], ["ALICE"], id="pr25648.filter.exact-case"),
        pytest.param([("owner", "alic")], [], id="pr25648.filter.exact-prefix"),
        pytest.param([("missing", "x")], [], id="missing"),
        pytest.param([("missing", "")], [], id="missing-is-not-empty"),
        pytest.param([("owner", "alice"), ("missing", "x")], [], id="one-missing"),
        pytest.param([("owner", "alice"), ("owner", "bob")], ["bob"], id="pr25648.filter.repeated-key"),
        pytest.param([("owner", "bob"), ("owner", "alice")], ["alice", "prod"], id="pr25648.filter.repeated-key-reversed"),
        pytest.param([("owner", "")], ["empty"], id="pr25648.filter.empty-value"),
        pytest.param([("", "x")], ["odd"], id="pr25648.filter.empty-key"),
        pytest.param([("owner", " alice")], ["space"], id="no-trimming"),
    ],
)
def test_filters(filters, selected):
    topics = {
        "alice": {"owner": "alice"},
        "bob": {"owner": "bob"},
        "prod": {"owner": "alice", "env": "prod"},
        "ALICE": {"owner": "ALICE"},
        "none": {},
        "empty": {"owner": ""},
        "odd": {"": "x"},
        "space": {"owner": " alice"},
    }
    assert [name for name, properties in topics.items() if fits(properties, filters_of(pairs(filters)))] == selected


@pytest.mark.parametrize("text", ["public/default", "a/b", "a-b/c=d:e.f_g"])
def test_namespace(text):
    assert is_namespace(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "a/b/c",
        "public/",
        "/x",
        "public/ r1",
        "public/no such",
        "public/default/",
        "public/ns\n",
        "public/\u00e9",
        "topic://a/b",
    ],
)
def test_malformed_namespace_pr25648_namespace_malformed(text):
    assert not is_namespace(text)


@given(local=LOCAL)
def test_a_record_has_one_path(local):
    topic = f"topic://public/ns/{local}"
    assert topic_of_path(record_path(topic)) == topic
    assert namespace_of(topic) == "public/ns"


@given(local=LOCAL, below=st.text(alphabet="/abc", min_size=1))
def test_what_lies_below_a_record_is_no_topic_pr25648_diff_direct_children(local, below):
    path = record_path(f"topic://public/ns/{local}")
    assert topic_of_path(f"{path}/{below}") is None
    assert topic_of_path(f"/elsewhere{path}") is None


@pytest.mark.parametrize(
    "path", ["/topics/public/ns/t/subscriptions/s", "/topics/public/ns/t/controller", "/topics/public/ns", "/topics/public/ns/", "/", ""]
)
def test_other_paths_pr25648_diff_direct_children(path):
    assert topic_of_path(path) is None


def test_hash_of_scalable_topics_pr25648_hash_function():
    assert topics_hash([]) == "00000000"
    assert topics_hash(["topic://tenant/ns/t1"]) == "195271ae"


class Middle:
    @staticmethod
    def random():
        return 0.5


def test_backoff_pr25648_client_backoff():
    assert [round(retry_delay(failures, Middle()) / 0.95, 6) for failures in range(11)] == [
        0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0,
    ]  # fmt: skip


@given(failures=st.integers(0, 10**6), seed=st.integers())
def test_backoff_stays_within_its_bounds_pr25648_client_backoff_jitter(failures, seed):
    longest = min(0.1 * 2.0 ** min(failures, 20), 30.0)
    delay = retry_delay(failures, Random(seed))
    assert 0.9 * longest <= delay <= longest
    assert delay == retry_delay(failures, Random(seed))


def test_profiles():
    assert (PROFILES["default"], PROFILES["as-written"]) == (DEFAULT, AS_WRITTEN)
    assert all(getattr(DEFAULT, field.name) != getattr(AS_WRITTEN, field.name) for field in fields(DEFAULT))


@pytest.mark.parametrize(
    ("known", "changes", "default", "written"),
    [
        pytest.param(False, "+", ("x", ""), ("x", ""), id="came"),
        pytest.param(True, "-", ("", "x"), ("", "x"), id="went"),
        pytest.param(False, "+-", ("", "x"), None, id="pr25648.diff.cancels-out"),
        pytest.param(True, "-+", ("x", ""), ("x", "x"), id="pr25648.diff.both"),
        pytest.param(False, "+-+", ("x", ""), ("x", ""), id="came-at-last"),
        pytest.param(True, "-+-", ("", "x"), ("", "x"), id="went-at-last"),
        pytest.param(True, "-+-+", ("x", ""), ("x", "x"), id="is-another-at-last"),
    ],
)
def test_folded_changes_pr25648_diff_last_wins(known, changes, default, written):
    for profile, expected in ((DEFAULT, default), (AS_WRITTEN, written)):
        folded = FoldedChanges(profile.coalescing)
        for change in changes:
            (folded.add if change == "+" else folded.remove)("x")
        assert folded.take() == (expected and ScalableTopicChanges(*map(tuple, expected)))
        assert folded.take() is None  # pr25648.diff.never-empty


@given(
    known=st.frozensets(st.sampled_from("abcd")),
    toggles=st.lists(st.sampled_from("abcd")),
    rule=st.sampled_from(["last_wins", "cancels_out"]),
)
def test_folded_changes_lead_to_the_same_set_pr25648_client_removed_first(known, toggles, rule):
    folded, topics = FoldedChanges(rule), set(known)
    for topic in toggles:
        (folded.remove if topic in topics else folded.add)(topic)
        topics ^= {topic}
    changes = folded.take()
    if changes is not None:
        assert len(set(changes.added)) == len(changes.added)
        assert len(set(changes.removed)) == len(changes.removed)
        known = known - set(changes.removed) | set(changes.added)
        if rule == "last_wins":
            assert not set(changes.added) & set(changes.removed)
    assert known == topics


def test_changes_keep_their_order():
    folded = FoldedChanges("last_wins")
    for topic in "cab":
        folded.add(topic)
    for topic in "zyx":
        folded.remove(topic)
    assert folded.take() == ScalableTopicChanges(("c", "a", "b"), ("z", "y", "x"))
