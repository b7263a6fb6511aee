import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.proposals.message_filter import (
    AS_WRITTEN,
    BASIC_AVRO_FILTER,
    BUILT_IN,
    BUILT_IN_REGISTRY,
    BYTES_PREFIX_FILTER,
    DEFAULT,
    PREFIX_KEY,
    PROFILES,
    REGEX_FILTER,
    REGEX_KEY,
    EntryJudgement,
    EntryOutcome,
    FilterCounters,
    FilterRegistry,
    SchemaAccess,
    Undecidable,
    judge,
    requested_filter,
)
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD, EncryptionKeys, NotAllowedError
from tests.samples.message_filter import EXAMPLE, avro, avro_payload, batch, by_fields, entry, meta, regex

ACCEPT, REJECT, PARTIAL = EntryOutcome.ACCEPT, EntryOutcome.REJECT, EntryOutcome.PARTIAL
THIRTIES = regex(EXAMPLE)
COMPRESSIONS = [NONE, LZ4, ZLIB, ZSTD, SNAPPY]


def outcome(data, open_messages=None, message_filter=THIRTIES):
    found = judge(message_filter, data, open_messages)
    return found.outcome, found.open_messages, (found.accepted, found.rejected, found.undecidable)


def test_profiles():
    assert PROFILES == {"default": DEFAULT, "as-written": AS_WRITTEN}
    assert (DEFAULT.filter_scope, AS_WRITTEN.filter_scope) == ("subscription", "consumer")


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


def test_the_order_of_properties_does_not_matter():
    schemas = SchemaAccess(avro())
    one, other = (
        requested_filter(meta(BASIC_AVRO_FILTER, *pairs), BUILT_IN_REGISTRY, schemas)
        for pairs in ([("a", "1"), ("b", "2")], [("b", "2"), ("a", "1")])
    )
    assert one == other
    assert one != requested_filter(meta(BASIC_AVRO_FILTER, ("a", "1")), BUILT_IN_REGISTRY, schemas)
    assert one.filter is not other.filter


# Single messages


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_single_message(compression):
    assert outcome(entry(b"30", compression)) == (ACCEPT, None, (1, 0, 0))
    assert outcome(entry(b"130", compression)) == (REJECT, frozenset(), (0, 1, 0))


def test_compressed_bytes_are_not_what_is_judged():
    assert outcome(entry(b"30", ZLIB), message_filter=regex("(?s)x.*")) == (REJECT, frozenset(), (0, 1, 0))


def test_an_unbatched_payload_is_judged_from_its_first_byte():
    # the code of the text takes the first four bytes for the size of a header
    assert outcome(entry(b"\0\0\0\x0230")) == (REJECT, frozenset(), (0, 1, 0))
    assert outcome(entry(b"\0\0\0\x0230"), message_filter=regex(r"\x00{3}\x0230"))[0] is ACCEPT


def test_an_empty_payload_is_judged():
    assert outcome(entry(b"", null_value=True))[0] is REJECT
    assert outcome(entry(b""), message_filter=regex(".*"))[0] is ACCEPT


@pytest.mark.parametrize("compression", [NONE, ZLIB])
@pytest.mark.parametrize("message", [b"30", b"no"])
def test_encrypted_messages_are_delivered_and_counted(compression, message):
    keys = [EncryptionKeys(key="k", value=b"v")]
    assert outcome(entry(message, compression, encryption_keys=keys)) == (ACCEPT, None, (0, 0, 1))
    assert outcome(batch(message, message, message, encryption_keys=keys)) == (ACCEPT, None, (0, 0, 3))
    assert outcome(batch(message, message, message, encryption_keys=keys), frozenset({1, 2})) == (ACCEPT, frozenset({1, 2}), (0, 0, 2))


def test_chunks_are_delivered_and_counted():
    chunk = {"uuid": "u", "num_chunks_from_msg": 2, "total_chunk_msg_size": 4}
    assert outcome(entry(b"30", chunk_id=0, **chunk)) == (ACCEPT, None, (0, 0, 1))
    assert outcome(entry(b"no", chunk_id=1, **chunk)) == (ACCEPT, None, (0, 0, 1))
    assert outcome(entry(b"no", uuid="u", num_chunks_from_msg=1, chunk_id=0, total_chunk_msg_size=2)) == (REJECT, frozenset(), (0, 1, 0))


@pytest.mark.parametrize("data", [entry(b"no", marker_type=10), entry(b"no", marker_type=0), batch(b"no", b"30", marker_type=10)])
def test_markers_are_not_judged(data):
    assert outcome(data) == (ACCEPT, None, (0, 0, 0))


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


# Batches


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize(
    ("payloads", "open_messages", "expected"),
    [
        ([b"30"], None, (ACCEPT, None, (1, 0, 0))),
        ([b"no"], None, (REJECT, frozenset(), (0, 1, 0))),
        ([b"30", b"31"], None, (ACCEPT, None, (2, 0, 0))),
        ([b"no", b"no"], None, (REJECT, frozenset(), (0, 2, 0))),
        ([b"30", b"no", b"31"], None, (PARTIAL, frozenset({0, 2}), (2, 1, 0))),
        ([b"3", b"0"], None, (REJECT, frozenset(), (0, 2, 0))),
        ([b"30", b"no", b"31"], frozenset({1, 2}), (PARTIAL, frozenset({2}), (1, 1, 0))),
        ([b"30", b"no", b"31"], frozenset({1}), (REJECT, frozenset(), (0, 1, 0))),
        ([b"30", b"no", b"31"], frozenset({0, 2}), (ACCEPT, frozenset({0, 2}), (2, 0, 0))),
        ([], None, (REJECT, frozenset(), (0, 0, 0))),
    ],
)
def test_batches_are_judged_message_by_message(payloads, open_messages, expected, compression):
    assert outcome(batch(*payloads, compression=compression), open_messages) == expected


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


def test_avro_in_a_compressed_batch():
    order = {"state": "paid", "amount": 1, "note": None, "kind": "BUY", "items": []}
    data = batch(avro_payload(order), avro_payload(order | {"state": "open"}), b"\xff", compression=ZSTD)
    assert outcome(data, message_filter=by_fields({"state": "paid"})) == (PARTIAL, frozenset({0}), (1, 2, 0))
    unknown = batch(avro_payload(order), compression=ZSTD, schema_version=b"\7")
    assert outcome(unknown, message_filter=by_fields({"state": "no"})) == (ACCEPT, None, (0, 0, 1))


def test_counters_add_up():
    counters = FilterCounters()
    for data in (entry(b"30"), entry(b"no"), batch(b"30", b"no", b"no"), entry(b"x", num_chunks_from_msg=2), entry(b"", marker_type=1)):
        counters.add(judge(THIRTIES, data))
    assert counters == FilterCounters(processed=6, accepted=2, rejected=3, undecidable=1)
