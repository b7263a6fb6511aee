"""The Arrow formulation gives what the reference gives, row by row; Spark is not needed for that."""

from __future__ import annotations

import base64

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.corpus.errors import CorpusError
from conformance.corpus.filtering import arrow, reference
from conformance.corpus.filtering.drawing import drawn_patterns
from conformance.corpus.filtering.patterns import pattern_set
from conformance.corpus.filtering.rules import (
    HasProperties,
    IsSystemTopic,
    MatchedName,
    MatchesAny,
    Matching,
    PayloadBeginsWith,
    PayloadFits,
    Rule,
    property_filters,
)
from refimpl.indexes.topic_patterns import compile_pattern
from refimpl.names import is_system_topic
from refimpl.proposals.message_filter.kinds import PREFIX_BASE64_KEY, BytesPrefixFilter, Candidate, SchemaAccess
from refimpl.proposals.topic_list.rules import matched_name, visible_topics
from refimpl.wire.pulsar_api_pb2 import MessageMetadata
from tests.samples.corpus import synthetic

TOPICS = [
    "persistent://t/n/a",
    "persistent://t/n/a-partition-0",
    "persistent://t/n/a-partition-01",
    "persistent://t/n/a-partition-",
    "persistent://t/n/a-partition-1\n",
    "persistent://t/n/a\n",
    "persistent://t/n/a\nb",
    "non-persistent://t/n/a",
    "PERSISTENT://t/n/a",
    "xpersistent://t/n/a",
    "a://b://c",
    "no domain-partition-3",
    "",
    "://",
    "persistent://",
    "persistent://t/n/😀-partition-12",
    "persistent://t/n/a-partition-٣",
    "persistent://t/n/__change_events",
    "persistent://t/n/__change_events-partition-0",
    "persistent://t/n/x__change_events",
    "__change_events",
    "persistent://t/n/x__transaction_pending_ack",
    "persistent://t/n/x__transaction_pending_ack\n",
    "persistent://pulsar/system/transaction_coordinator_assign-partition-3",
    "persistent://pulsar/system/transaction_coordinator_assignment",
    "persistent://pulsar/system/__transaction_log_0",
    "non-persistent://pulsar/system/__transaction_log_0",
    "persistent://pulsar/system/other",
]


def both(rule: Rule, batch: pa.RecordBatch) -> list[object]:
    found = arrow.column(rule)(batch)
    assert found.type == rule.type
    expected = reference.column(rule)(batch)
    assert found.to_pylist() == expected.to_pylist()
    return list(expected.to_pylist())


def topic_batch(topics: list[str]) -> pa.RecordBatch:
    return pa.record_batch({"topic": pa.array(topics, pa.string())})


def payload_batch(payloads: list[bytes | None]) -> pa.RecordBatch:
    return pa.record_batch({"payload": pa.array(payloads, pa.binary())})


@pytest.mark.parametrize("topics", [TOPICS, *([topic] for topic in TOPICS), []])
def test_names_and_system_topics(topics: list[str]) -> None:
    assert both(MatchedName(), topic_batch(topics)) == [matched_name(topic) for topic in topics]
    assert both(IsSystemTopic(), topic_batch(topics)) == [is_system_topic(topic) for topic in topics]


@given(st.lists(st.text(st.sampled_from("persistent-:/_0123\na😀"), max_size=30), max_size=5))
def test_names_of_any_form(topics: list[str]) -> None:
    both(MatchedName(), topic_batch(topics))
    both(IsSystemTopic(), topic_batch(topics))


@pytest.mark.parametrize("mix", ["usual", "adversarial"])
def test_names_of_a_corpus(mix: str) -> None:
    both(MatchedName(), synthetic(4000, mix=mix))
    both(IsSystemTopic(), synthetic(4000, mix=mix))


@pytest.mark.parametrize("count", [1, 10, 300])
def test_matching_drawn_patterns(count: int) -> None:
    batch = synthetic(2000, mix="adversarial")
    names = [matched_name(topic) for topic in batch.column("topic").to_pylist()]
    patterns = pattern_set(drawn_patterns(names, count, seed=count))
    found = both(Matching(patterns), batch)
    assert any(found)
    assert both(MatchesAny(patterns), batch) == [bool(places) for places in found]
    compiled = [compile_pattern(pattern.text) for pattern in patterns.patterns]
    for topic, places in list(zip(batch.column("topic").to_pylist(), found, strict=True))[:200]:
        assert places == [place for place, pattern in enumerate(compiled) if visible_topics([topic], pattern)]


def test_ten_thousand_patterns() -> None:
    batch = synthetic(300)
    names = [matched_name(topic) for topic in batch.column("topic").to_pylist()]
    assert any(both(Matching(pattern_set(drawn_patterns(names, 10_000, seed=1))), batch))


@pytest.mark.parametrize(
    ("pattern", "fitting"),
    [
        (
            "t/n/a",
            ["persistent://t/n/a", "persistent://t/n/a-partition-0", "non-persistent://t/n/a", "PERSISTENT://t/n/a", "xpersistent://t/n/a"],
        ),
        ("persistent://t/n/a\n", ["persistent://t/n/a\n"]),
        ("t/n/a.", ["persistent://t/n/a\n"][:0]),
        ("(?s)t/n/a.", ["persistent://t/n/a\n"]),
        ("t/n/a-.*01", ["persistent://t/n/a-partition-01"]),
        (r"\Qt/n/😀\E", ["persistent://t/n/😀-partition-12"]),
        (r"\Qt/n/😀", ["persistent://t/n/😀-partition-12"]),
        (
            "t/n/.",
            [
                "persistent://t/n/a",
                "persistent://t/n/a-partition-0",
                "non-persistent://t/n/a",
                "PERSISTENT://t/n/a",
                "xpersistent://t/n/a",
                "persistent://t/n/😀-partition-12",
            ],
        ),
        ("b://c", ["a://b://c"]),
        ("", ["no domain-partition-3", "", "://", "persistent://"]),
    ],
)
def test_one_pattern(pattern: str, fitting: list[str]) -> None:
    text = "b:\\/\\/c" if pattern == "b://c" else pattern
    found = both(Matching(pattern_set([text])), topic_batch(TOPICS))
    assert [topic for topic, places in zip(TOPICS, found, strict=True) if places] == fitting


def test_patterns_that_are_there_twice() -> None:
    patterns = pattern_set(["t/n/a", "persistent://t/n/a", "t/n/.*", "non-persistent://t/n/.*", "t/n/[a]", "persistent://t/n/[a]"])
    assert both(Matching(patterns), topic_batch(TOPICS[:1])) == [[0, 1, 2, 3, 4, 5]]


def test_an_automaton_without_memory_reports_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    class Exhausted:
        def Match(self, _: str) -> list[int]:  # noqa: N802
            return []

    patterns = pattern_set(["t/n/[a]", "t/n/[b]"])
    automaton = arrow._Automaton(list(enumerate(patterns.patterns)), Exhausted())  # type: ignore[arg-type]
    assert automaton.matching("t/n/b") == [1]
    assert automaton.matching("t/n/c") == []


@pytest.mark.parametrize(
    "wanted", [[], ["region=eu-west"], ["region=eu-west", "tier=gold"], ["label="], ["label=größe"], ["Region=eu-west"], ["none=x"]]
)
def test_properties_of_a_corpus(wanted: list[str]) -> None:
    found = both(property_filters(wanted), synthetic(8000))
    assert any(found) == (wanted != ["none=x"])
    assert all(found) == (not wanted)


def test_topics_without_properties() -> None:
    properties = pa.array(
        [None, [], [("a", "1")], [("a", None)], [("A", "1")], [("b", "1"), ("a", "1")]], pa.map_(pa.string(), pa.string())
    )
    assert both(HasProperties((("a", "1"),)), pa.record_batch({"properties": properties})) == [False, False, True, False, False, True]


def test_a_filter_without_value_is_refused() -> None:
    assert property_filters(["a=b=c", "a=d"]) == HasProperties((("a", "d"),))
    with pytest.raises(CorpusError, match="written key=value, not 'region'"):
        property_filters(["region"])


PAYLOADS = [
    b"",
    None,
    b"abc",
    b"abc\n",
    "größe".encode(),
    b"gr\xf6\xdfe",
    b"\xff\x00a",
    b"\xc3",
    "😀".encode(),
    b"\xed\xa0\x80",
    b"\xc0\xaf",
    b"a" * 5000,
]


@pytest.mark.parametrize(
    "pattern", ["", "abc", ".*", "(?s).*", "größe", "gr..e", "ÿ.a", "Ã", ".", "í.*", r"[^\x00-\x7f]+", "(?i)GRÖSSE|GRÖßE", "a*"]
)
def test_payloads_that_fit(pattern: str) -> None:
    both(PayloadFits(pattern), payload_batch(PAYLOADS))
    both(PayloadFits(pattern), payload_batch([b"abc", b"a", None]))


@given(st.lists(st.binary(max_size=6) | st.text(max_size=4).map(str.encode), max_size=6))
@settings(max_examples=50)
def test_any_payload(payloads: list[bytes]) -> None:
    for pattern in (".", "..", "[^a]*", r"\w+", "é|ÿ"):
        both(PayloadFits(pattern), payload_batch(list(payloads)))


@pytest.mark.parametrize("prefix", [b"", b"a", b"abc\n", b"\xff\x00", b"gr", b"\xc3"])
def test_payloads_that_begin_with_bytes(prefix: bytes) -> None:
    found = both(PayloadBeginsWith(prefix), payload_batch(PAYLOADS))
    of_reference = BytesPrefixFilter({PREFIX_BASE64_KEY: base64.b64encode(prefix).decode()}, SchemaAccess())
    assert found == [of_reference.matches(Candidate(payload or b"", MessageMetadata())) for payload in PAYLOADS]


def test_a_filter_that_the_reference_refuses_is_refused() -> None:
    with pytest.raises(CorpusError, match=r"message filter '\(a' can't be used: .*missing \)"):
        reference.evaluator(PayloadFits("(a"))
