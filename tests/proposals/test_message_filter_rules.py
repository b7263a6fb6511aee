import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.proposals.message_filter import (
    BASIC_AVRO_FILTER,
    BUILT_IN,
    BUILT_IN_REGISTRY,
    BYTES_PREFIX_FILTER,
    PREFIX_KEY,
    REGEX_FILTER,
    REGEX_KEY,
    EntryJudgement,
    EntryOutcome,
    FilterRegistry,
    SchemaAccess,
    Undecidable,
    judge,
    requested_filter,
)
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD, EncryptionKeys, NotAllowedError
from tests.samples.message_filter import EXAMPLE, batch, entry, meta, regex

ACCEPT, REJECT, PARTIAL = EntryOutcome.ACCEPT, EntryOutcome.REJECT, EntryOutcome.PARTIAL
THIRTIES = regex(EXAMPLE)
COMPRESSIONS = [NONE, LZ4, ZLIB, ZSTD, SNAPPY]


def outcome(data, open_messages=None, message_filter=THIRTIES):
    found = judge(message_filter, data, open_messages)
    return found.outcome, found.open_messages, (found.accepted, found.rejected, found.undecidable)


# FilterMeta


def refusal(filter_meta):
    with pytest.raises(Refused) as caught:
        requested_filter(filter_meta, BUILT_IN_REGISTRY, SchemaAccess())
    assert caught.value.code == NotAllowedError
    return caught.value.message


@pytest.mark.parametrize(
    ("filter_meta", "words"),
    [
        (meta("nobody.Knows"), ["'nobody.Knows'"]),
        (meta(""), ["''"]),
        (meta(REGEX_FILTER, ("x", "y")), ["RegexFilter", "'x'", "unknown", REGEX_KEY]),
        (meta(BYTES_PREFIX_FILTER), ["BytesPrefixFilter", f"'{PREFIX_KEY}'", "missing"]),
        (meta(REGEX_FILTER, (REGEX_KEY, "[")), [f"'{REGEX_KEY}'", "RE2"]),
        (meta(REGEX_FILTER, (REGEX_KEY, "a"), (REGEX_KEY, "a")), [f"'{REGEX_KEY}'", "2 times"]),
        (meta(REGEX_FILTER, (REGEX_KEY, "a"), ("", "a")), ["key ''"]),
        (meta(BASIC_AVRO_FILTER, ("f", "x")), ["BasicAvroFilter", "schema"]),
    ],
)
def test_a_refusal_names_the_key(filter_meta, words):
    message = refusal(filter_meta)
    assert [word for word in words if word not in message] == []


def test_a_refusal_stays_short():
    assert len(refusal(meta("n" * 100_000))) < 500
    assert len(refusal(meta(REGEX_FILTER, ("k" * 100_000, "y")))) < 1000


# Damaged entries


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (entry(b"30", ZLIB)[:-1], 1),
        (batch(b"30", b"31", compression=ZSTD)[:-1], 2),
        (batch(b"30", b"31")[:-1], 2),
        (batch(b"30", b"31", count=3), 3),
        (batch(b"30", b"31", count=1), 1),
        (batch(b"30", b"31", count=-5), 1),
        (batch(b"30", count=2**31 - 1), 2**31 - 1),
        (b"\x0e\x01", 1),
        (b"", 1),
        (entry(b"0" * (5 * 1024 * 1024 + 1), ZLIB), 1),
    ],
)
def test_a_damaged_entry_is_delivered_and_counted(data, count):
    judgement = judge(THIRTIES, data)
    assert (judgement.outcome, judgement.open_messages, judgement.undecidable) == (ACCEPT, None, count)
    assert "can't be read" in judgement.reason


def test_size_limit():
    large = entry(b"3" + b"0" * 99, LZ4)
    assert judge(regex("30+"), large, max_size=100) == EntryJudgement(ACCEPT, None, accepted=1)
    assert judge(regex("30+"), large, max_size=99).undecidable == 1


def test_what_cannot_be_judged_is_counted_by_its_open_messages():
    sealed = batch(b"30", b"no", b"no", encryption_keys=[EncryptionKeys(key="k", value=b"v")])
    assert outcome(sealed) == (ACCEPT, None, (0, 0, 3))
    assert outcome(sealed, frozenset({1, 2})) == (ACCEPT, frozenset({1, 2}), (0, 0, 2))


def test_a_marker_of_type_0_is_a_marker():
    assert outcome(entry(b"no", marker_type=0)) == (ACCEPT, None, (0, 0, 0))


# Batches


def test_a_batch_of_nothing_is_not_delivered():
    assert outcome(batch()) == (REJECT, frozenset(), (0, 0, 0))


@given(st.data(), st.lists(st.sampled_from([b"30", b"59", b"60", b"130", b""]), min_size=1, max_size=150), st.sampled_from(COMPRESSIONS))
def test_a_batch_keeps_exactly_what_matches(data, payloads, compression):
    everything = frozenset(range(len(payloads)))
    open_messages = data.draw(st.none() | st.frozensets(st.sampled_from(sorted(everything)), min_size=1))
    judgement = judge(THIRTIES, batch(*payloads, compression=compression), open_messages)
    were_open = everything if open_messages is None else open_messages
    matching = {index for index in were_open if payloads[index] in (b"30", b"59")}
    assert (judgement.accepted, judgement.rejected) == (len(matching), len(were_open) - len(matching))
    stays_open = were_open if judgement.open_messages is None else judgement.open_messages
    assert stays_open == matching
    if judgement.outcome is PARTIAL:
        assert matching < were_open
        again = judge(THIRTIES, batch(*payloads, compression=compression), judgement.open_messages)
        assert (again.outcome, again.open_messages) == (ACCEPT, judgement.open_messages)
    else:
        assert judgement.outcome is (ACCEPT if matching else REJECT)


# Filters of others


class Fickle:
    def __init__(self, properties=None, schemas=None):
        pass

    def matches(self, message):
        if message.payload == b"wrong":
            raise ZeroDivisionError("one")
        if message.payload == b"unclear":
            raise Undecidable("two")
        return [] if message.payload == b"no" else [1]


def test_a_filter_that_fails_loses_nothing():
    fickle = requested_filter(meta("x.Fickle"), FilterRegistry({**BUILT_IN, "x.Fickle": Fickle}), SchemaAccess()).filter
    judgement = judge(fickle, batch(b"no", b"wrong", b"unclear", b"yes"))
    assert judgement == EntryJudgement(PARTIAL, frozenset({1, 2, 3}), 1, 1, 2, "ZeroDivisionError: one")
    assert outcome(entry(b"unclear"), message_filter=fickle) == (ACCEPT, None, (0, 0, 1))
    assert outcome(entry(b"no"), message_filter=fickle) == (REJECT, frozenset(), (0, 1, 0))
    assert outcome(batch(b"no", b"unclear"), message_filter=fickle) == (PARTIAL, frozenset({1}), (0, 1, 1))


def test_a_filter_sees_headers():
    class Headers(Fickle):
        def matches(self, message):
            seen.append((message.metadata.producer_name, message.single is not None))
            return True

    seen = []
    judge(Headers(), entry(b""))
    judge(Headers(), batch(b""))
    assert seen == [("p", False), ("p", True)]
