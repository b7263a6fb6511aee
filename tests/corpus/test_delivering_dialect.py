"""JSON and Avro are read alike by both formulations of filters over entries, or the entry is counted as outside."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as sql

from conformance.corpus.delivering import columns
from conformance.corpus.delivering.avro import texts
from conformance.corpus.delivering.columns import _json_fits
from conformance.corpus.delivering.dialect import END, json_classes, json_outside
from conformance.corpus.delivering.laws import judge
from conformance.corpus.delivering.stored import STORED
from conformance.corpus.delivering.subscriptions import RECORD, Subscription
from conformance.corpus.session import frame_of
from refimpl.proposals.message_filter import Candidate, SchemaAccess
from refimpl.proposals.message_filter.avro import BasicAvroFilter
from refimpl.wire.pulsar_api_pb2 import MessageMetadata, Schema

pytestmark = pytest.mark.usefixtures("without_compiling")
ASKED = Subscription("json", fields={"region": "eu"}, schema="json")
BESIDE = (
    *("1", "-0", "1e5", "1E400", "9" * 899, "1." + "0" * 100, "01", "-01", "+1", "1.", ".5", "1e", "-", "0x10", "NaN", "-Infinity", "INF"),
    *('"a"', '"\\ud83d\\ude00"', '"\\u0000"', '"\x01"', '"\x7f"', '"\\x41"', '"\\u00zz"', "'a'", '"a\\\nb"', '"\\\\ud800"', '"\\ud800"', '"\\udc00\\ud800"'),
    *("[]", "[1,]", "[,1]", "[1 2]", '{"a": 1,}', '{"a": 1, "a": 2}', '{"": 1}', "tRue", "True", "null", "nul", "//c\n1", "/*c*/1", "\xa01", "\x0b1"),
    *("[" * depth + "]" * depth for depth in (100, 390, 970, 1000, 1001, 5000)),
    *('{"a":' * depth + "1" + "}" * depth for depth in (100, 390, 990, 5000)),
    *("9" * 1001, "0." + "1" * 2000, '{"%s": 1}' % ("k" * 49_990), '{"%s": 1}' % ("k" * 50_001), '"%s"' % ("a" * 100_000), "[%s 1]" % ("1," * 5000)),
)  # fmt: skip
"""Values that parsers may or may not take."""
AROUND = (
    *('{"region":"eu"}', ' \n\t\r{"region" : "eu" } ', '\ufeff{"region":"eu"}', '\x0b{"region":"eu"}', '\x0c{"region":"eu"}', '\xa0{"region":"eu"}'),
    *('{"region":"eu"}' + end for end in (" x", "{}", "\n{}", ",", "\x00", "]", '],"a"]', ',"a"', ",1", "}", "} ", f',"{END}"]')),
    *('{"region":"us","region":"eu"}', '{"region":"eu","region":"us"}', '{"region":"eu","region":1}', '{"region":"eu"', '{region:"eu"}'),
    *('{"region":"e\\u0075"}', '{"reg\\u0069on":"eu"}', '{"Region":"eu"}', '{"region":"eu "}', '{"region":["eu"]}', '{"region.x":"eu"}'),
    *('{"region":{"region":"eu"}}', '["eu"]', '[{"region":"eu"}]', '"eu"', "", "{", "{}", "null", '{"region":"eu","\\ud800":1,"?":2}'),
)  # fmt: skip
WITNESSES = {
    "half a character": '{"region":"eu","x":"\\ud800"}',
    "long number": '{"region":"eu","x":%s}' % ("9" * 1001),
    "long name": '{"region":"eu","%s":1}' % ("k" * 50_001),
    "deep nesting": '{{"region":"eu","x":{}{}}}'.format("[" * 995, "]" * 995),
    "large": '{"region":"eu","x":"%s"}' % ("a" * 20_000_001),
    "the end": f'{{"region":"eu"}},"{END}"]',
}
"""A text of each class that is read differently."""


def octets(text):
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def by_reference(form, payload):
    data = b"{}" if form == Schema.Json else json.dumps(RECORD).encode()
    schema = Schema(name="s", type=form, schema_data=data)
    kept = BasicAvroFilter({"region": "eu"}, SchemaAccess(schema, lambda _: None))
    return kept.matches(Candidate(payload, MessageMetadata()))


def judged(spark, payloads):
    """Return what the reference says of each payload, what columns say, and whether it is outside; of those outside columns say no."""
    frame = frame_of(spark, pa.table({"number": range(len(payloads)), "payload": pa.array(payloads, pa.binary())}))
    read = frame.select("number", _json_fits(sql.col("payload"), ASKED).alias("fits"), json_outside(sql.col("payload")).alias("outside"))
    rows = sorted((row["number"], row["fits"], row["outside"]) for row in read.collect())
    return [(by_reference(Schema.Json, payload), fits, outside) for payload, (_, fits, outside) in zip(payloads, rows, strict=True)]


def different(spark, payloads):
    return [
        payload[:100]
        for payload, (one, other, outside) in zip(payloads, judged(spark, payloads), strict=True)
        if one != other and not outside
    ]


def test_texts_that_parsers_may_read_differently(spark):
    payloads = [octets(text) for text in (*(f'{{"region":"eu","x":{value}}}' for value in BESIDE), *AROUND)]
    payloads += ['{"region":"eu"}'.encode("utf-16"), b'{"region":"eu","x":"\xff"}', b'{"region":"eu","x":"\xed\xa0\x80"}']
    assert different(spark, payloads) == []


def test_a_text_of_each_class_is_read_differently(spark, monkeypatch):
    monkeypatch.setattr(columns, "json_outside", lambda _: sql.lit(False))
    found = judged(spark, [octets(text) for text in WITNESSES.values()])
    assert [name for name, (one, other, outside) in zip(WITNESSES, found, strict=True) if one == other or not outside] == []
    assert set(json_classes(sql.lit(""))) == set(WITNESSES)


def test_a_field_that_is_nested_deep_does_not_end_java(spark):
    payloads = [octets('{{"region":{}1{}}}'.format('{"a":' * depth, "}" * depth)) for depth in (390, 700, 998)]
    assert [outside for *_, outside in judged(spark, payloads)] == [False, True, True]


def test_few_texts_are_outside(spark):
    texts_inside = ['{"region":"eu"}', '{"a":"\\ud83d\\ude00","b":[%s1]}' % ("[1]," * 390), '{"n":%s}' % ("1" * 880), "[" * 2000, "\\ud800"]
    assert [outside for *_, outside in judged(spark, [octets(text) for text in texts_inside])] == [False] * len(texts_inside)


KEYS = st.sampled_from(["region", "reg\\u0069on", "Region", "a", "", "\\ud800", "it's"])
VALUES = st.recursive(
    st.sampled_from([*BESIDE[:60], '"eu"', '"e\\u0075"', '"us"', " ", ""]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda some: f"[{','.join(some)}]"),
        st.lists(st.tuples(KEYS, inner), max_size=3).map(lambda some: "{{{}}}".format(",".join(f'"{key}":{value}' for key, value in some))),
    ),
    max_leaves=5,
)
OBJECTS = st.lists(st.tuples(KEYS, VALUES), max_size=3).map(
    lambda some: "{{{}}}".format(",".join(f'"{key}":{value}' for key, value in [("region", '"eu"'), *some]))
)


@st.composite
def damaged(draw, whole):
    """Draw a text that may have lost, changed or got a byte."""
    data = octets(draw(whole))
    place = draw(st.integers(0, len(data)))
    what = draw(st.sampled_from(["", "", "cut", "changed", "more"]))
    if what == "cut":
        return data[:place]
    one = draw(st.sampled_from([b"\xff", b"\x00", b"{", b"}", b"]", b",", b'"', b"\\", b" ", b"\x80", b"1", b"\n"]))
    return data if not what else data[:place] + one + data[place + (what == "changed") :]


@settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.data_too_large, HealthCheck.too_slow],
)
@given(payloads=st.lists(damaged(st.one_of(OBJECTS, VALUES)), min_size=60, max_size=120))
def test_drawn_texts_are_read_alike(spark, payloads):
    assert different(spark, payloads) == []


def varint(number):
    value = (number << 1 ^ number >> 63) & (1 << 64) - 1
    digits = [value >> shift & 0x7F for shift in range(0, 70, 7)]
    while len(digits) > 1 and not digits[-1]:
        digits.pop()
    return bytes([*(digit | 0x80 for digit in digits[:-1]), digits[-1]])


NUMBERS = st.one_of(
    st.sampled_from([0, 1, -1, -2, -3, 2, 63, 64, -64, 1 << 31, 1 << 62, -(1 << 63)]).map(varint),
    st.builds(
        lambda more, last: bytes(more) + bytes([last]),
        st.lists(st.sampled_from([0x80, 0x81, 0xFF]), max_size=12),
        st.sampled_from([0, 1, 2, 0x7F]),
    ),
)
TEXTS = st.one_of(
    st.sampled_from([b"eu", b"us", b"", b"\xff", "é".encode(), b"eu" * 40]).map(lambda text: varint(len(text)) + text),
    st.builds(lambda size, text: size + text, NUMBERS, st.sampled_from([b"eu", b"", b"\xff"])),
)
REGIONS = st.one_of(TEXTS.map(lambda text: varint(1) + text), st.just(varint(0)), st.builds(bytes.__add__, NUMBERS, TEXTS))
RECORDS = st.builds(lambda *parts: b"".join(parts), REGIONS, NUMBERS, TEXTS)


@settings(max_examples=100)
@given(st.lists(st.one_of(damaged(RECORDS), st.binary(max_size=12)), min_size=1, max_size=60))
def test_drawn_records_are_read_alike(payloads):
    found, disputed = texts(pa.array(payloads, pa.binary()), RECORD, ["region"])
    by_columns = [text == "eu" for text in found["region"].to_pylist()]
    wrong = [
        one
        for one, fits, beyond in zip(payloads, by_columns, disputed, strict=True)
        if fits != by_reference(Schema.Avro, one) and not beyond
    ]
    assert wrong == []


def test_only_negative_branches_are_disputed():
    payloads = [varint(branch) + varint(2) + b"eu" + varint(5) + varint(0) for branch in (-3, -2, -1, 0, 1, 2)]
    _, disputed = texts(pa.array(payloads, pa.binary()), RECORD, ["region"])
    assert np.flatnonzero(disputed).tolist() == [1, 2]
    assert by_reference(Schema.Avro, payloads[2])


def test_a_number_of_more_than_ten_bytes_is_disputed():
    payloads = [varint(1) + varint(2) + b"eu" + number + varint(2) + b"eu" for number in (b"\x80" * 9 + b"\0", b"\x80" * 10 + b"\0")]
    found, disputed = texts(pa.array(payloads, pa.binary()), RECORD, ["region"])
    assert found["region"].to_pylist() == ["eu", None]
    assert disputed.tolist() == [False, True]
    assert all(by_reference(Schema.Avro, one) for one in payloads)


def entry(number, payload):
    header = MessageMetadata(producer_name="p", sequence_id=number, publish_time=0).SerializeToString()
    return {
        "topic": "t",
        "producer_name": "p",
        "batch": number,
        "part": 0,
        "data": len(header).to_bytes(4, "big") + header + payload,
        "kind": "plain",
        "open": None,
    }


def test_entries_outside_are_counted_and_break_no_law(spark):
    payloads = [b'{"region":"eu"}', octets(WITNESSES["half a character"]), varint(-1) + varint(2) + b"eu" + varint(5) + varint(0)]
    entries = frame_of(spark, pa.Table.from_pylist([entry(*one) for one in enumerate(payloads)], STORED))
    found = judge(entries, [ASKED, Subscription("avro", fields={"region": "eu"}), Subscription("all")])
    assert [one.name for one in found.outcomes if one.broken] == []
    assert {name: one["outside"] for (name,), one in found.counters.items()} == {"json": 1, "avro": 1, "all": 0}
    assert next(one.checked for one in found.outcomes if one.name == "goes-out") == 7
