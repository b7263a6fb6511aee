import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.proposals.message_filter import Candidate, InvalidFilter, SchemaAccess, Undecidable
from refimpl.proposals.message_filter.avro import MAX_SCHEMA_DEPTH, BasicAvroFilter
from refimpl.wire.pulsar_api_pb2 import MessageMetadata, Schema
from tests.samples.message_filter import ORDER, RECORD, avro, avro_payload, by_fields


def wants(message_filter, payload, version=None):
    metadata = MessageMetadata() if version is None else MessageMetadata(schema_version=version)
    return message_filter.matches(Candidate(payload, metadata))


def record(*fields, name="R"):
    return {"type": "record", "name": name, "fields": [{"name": f"f{i}", "type": kind} for i, kind in enumerate(fields)]}


def nested(depth):
    kind = "string"
    for level in range(depth):
        kind = record(kind, name=f"R{level}")
    return kind


@pytest.mark.parametrize("form", ["avro", "json"])
@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"state": "paid"}, True),
        ({"state": "paid", "note": "vip"}, True),
        ({"note": "vip"}, True),
        ({"kind": "BUY"}, True),
        ({"kind": "SELL"}, False),
        ({"state": "paid", "note": "other"}, False),
        ({"state": "pai"}, False),
        ({"state": ""}, False),
        ({"state": "PAID"}, False),
        ({"amount": "7"}, False),  # another type
        ({"items": "[]"}, False),
        ({"missing": "x"}, False),
        ({"state": "paid", "missing": "x"}, False),
    ],
)
def test_all_fields_are_equal(form, properties, expected):
    if form == "avro":
        assert wants(by_fields(properties), avro_payload(ORDER)) is expected
    else:
        assert wants(by_fields(properties, avro(kind=Schema.Json)), json.dumps(ORDER).encode()) is expected


@pytest.mark.parametrize("note", [None, "", "vip", "\u00e9\U0001f600"])
def test_a_union_with_null(note):
    payload = avro_payload(ORDER | {"note": note})
    assert wants(by_fields({"note": "vip"}), payload) is (note == "vip")
    assert wants(by_fields({"note": ""}), payload) is (note == "")
    assert not wants(by_fields({"note": "null"}), payload)


@pytest.mark.parametrize(
    ("kind", "value", "text", "expected"),
    [
        ({"type": "string", "avro.java.string": "String"}, "x", "x", True),
        ({"type": "string", "logicalType": "uuid"}, "0A", "0A", True),
        ("bytes", b"x", "x", False),
        (["null", "bytes"], b"x", "x", False),
        (["null", "int", "string"], 5, "5", False),
        (["null", "int", "string"], "5", "5", True),
        ({"type": "map", "values": "string"}, {"x": "x"}, "x", False),
        (["string", {"type": "map", "values": "int"}], {"x": 1}, "x", False),
        (["string", {"type": "map", "values": "int"}], "x", "x", True),
        (["string", {"type": "fixed", "name": "F", "size": 1}], b"x", "x", False),
        ({"type": "int", "logicalType": "date"}, 99_999_999, "x", False),
    ],
)
def test_kinds_of_fields(kind, value, text, expected):
    definition = record(kind, "string")
    written = json.loads(json.dumps(definition).replace('"logicalType"', '"was"'))
    payload = avro_payload({"f0": value, "f1": "y"}, written)
    assert wants(by_fields({"f0": text}, avro(definition)), payload) is expected
    assert wants(by_fields({"f0": text, "f1": "y"}, avro(definition)), payload) is expected
    assert wants(by_fields({"f1": "y"}, avro(definition)), payload) is True or isinstance(value, dict | bytes)


def test_an_enum_that_is_defined_elsewhere():
    kind = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    definition = record({"type": "array", "items": kind}, "E", ["null", "E"])
    payload = avro_payload({"f0": ["B"], "f1": "A", "f2": "B"}, definition)
    assert wants(by_fields({"f1": "A", "f2": "B"}, avro(definition)), payload)
    assert not wants(by_fields({"f1": "B"}, avro(definition)), payload)


def test_bytes_behind_the_record_are_not_looked_at():
    assert wants(by_fields({"state": "paid"}), avro_payload(ORDER) + b"\xff\xff")


@pytest.mark.parametrize("form", [Schema.Avro, Schema.Json])
@given(st.binary(max_size=40))
def test_bytes_that_do_not_decode_do_not_match(form, payload):
    assert not wants(by_fields({"state": "a text that is longer than the payload can be"}, avro(kind=form)), payload)


@pytest.mark.parametrize("cut", range(len(avro_payload(ORDER))))
def test_a_cut_record_does_not_match(cut):
    assert not wants(by_fields({"state": "paid"}), avro_payload(ORDER)[:cut])


@pytest.mark.parametrize("behind", [b"", b"\x02", b"\x06ab", b"\x01", b"\x80"])
def test_a_record_that_is_cut_behind_the_field_does_not_match(behind):
    message_filter = by_fields({"f0": "a"}, avro(record("string", "string")))
    assert wants(message_filter, b"\x02a\x04bc")
    assert not wants(message_filter, b"\x02a" + behind)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b'"paid"',
        b'{"state": ["paid"]}',
        b'{"state": "paid"',
        b'{"state": "paid", "n": NaN}',
        b'{"state": "paid", "n": -Infinity}',
        b"\xff",
        '{"state": "paid"}'.encode("utf-16"),
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_json_that_does_not_match(payload):
    assert not wants(by_fields({"state": "paid"}, avro(kind=Schema.Json)), payload)


def test_json_with_a_long_number_beside_the_field():
    assert wants(by_fields({"state": "paid"}, avro(kind=Schema.Json)), b'{"n": %s, "f": 1e999, "state": "paid"}' % (b"1" * 10_000))


# Schemas


@pytest.mark.parametrize(
    "schema",
    [
        avro(b"{"),
        avro(b"\xff"),
        avro(b""),
        avro("string"),
        avro(["null", RECORD]),
        avro({"type": "record", "name": "R", "fields": 5}),
        avro({"type": "record", "name": 5, "fields": []}),
        avro(record("nope")),
        avro(record({"type": "array"})),
        avro(record(["bytes", "string"])),
        avro(b"[" * 100_000),
        Schema(name="s", type=Schema.String, schema_data=b""),
        Schema(name="s", type=Schema.KeyValue, schema_data=b""),
        Schema(name="s", type=Schema.Protobuf, schema_data=b"{}"),
    ],
)
def test_schemas_that_are_refused(schema):
    with pytest.raises(InvalidFilter) as caught:
        by_fields({"f0": "x"}, schema)
    assert caught.value.key is None
    assert "schema" in caught.value.reason


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        (record("string", ["null", "R"]), "recursive"),
        (record("string", {"type": "array", "items": "R"}), "recursive"),
        (record("string", {"type": "array", "items": "null"}), "no bytes"),
        (record("string", {"type": "array", "items": record(name="Empty")}), "no bytes"),
        (record("string", record(name="Empty"), {"type": "map", "values": "Empty"}), "no bytes"),
        (record("string", {"type": "fixed", "name": "F", "size": 0}), "no bytes"),
        (record("string", "null"), "no bytes"),
        (nested(MAX_SCHEMA_DEPTH), "nested"),
        (record(["null", nested(MAX_SCHEMA_DEPTH // 2)], ["null", "R15"], nested(100)), "nested"),
    ],
)
def test_schemas_that_would_cost_the_broker_its_life(definition, reason):
    with pytest.raises(InvalidFilter, match=reason):
        by_fields({"f0": "x"}, avro(definition))


def test_a_chain_of_names_counts_as_nesting():
    chain = [record("string", name="R0")] + [record(f"R{level}", f"R{level}", name=f"R{level + 1}") for level in range(60)]
    with pytest.raises(InvalidFilter, match="nested"):
        by_fields({"f0": "x"}, avro(record("string", *chain, name="Top")))


def test_the_deepest_schema_is_served():
    definition = nested(MAX_SCHEMA_DEPTH - 1)
    assert not wants(by_fields({"f0": "x"}, avro(definition)), b"\x02x")


def test_many_values_beside_the_field_cost_little():
    definition = record({"type": "array", "items": record("int", name="I")}, "string")
    payload = b"\x80\x89\x7a" + b"\x02" * 1_000_000 + b"\x00\x02x"
    started = time.process_time()
    assert wants(by_fields({"f1": "x"}, avro(definition)), payload)
    assert time.process_time() - started < 20  # of this process: others on the machine do not count


# Which schema


def test_without_a_schema_and_without_a_field_it_is_refused():
    with pytest.raises(InvalidFilter, match="neither SUBSCRIBE nor the topic has a schema"):
        BasicAvroFilter({"state": "x"}, SchemaAccess())
    with pytest.raises(InvalidFilter, match="name of a field"):
        by_fields({})
    with pytest.raises(InvalidFilter) as caught:
        by_fields({"": "x"})
    assert caught.value.key == ""


def test_a_message_is_read_by_the_schema_that_it_was_written_with():
    versions = {b"\0": avro(record("int", "string")), b"\1": avro(record("string")), b"\2": avro(record(["bytes", "string"]))}
    asked = []

    def of_version(version):
        asked.append(version)
        return versions.get(version)

    message_filter = by_fields({"f0": "x"}, versions[b"\1"], of_version)
    old = avro_payload({"f0": 1, "f1": "x"}, record("int", "string"))
    new = avro_payload({"f0": "x"}, record("string"))
    assert [wants(message_filter, payload, version) for payload, version in ((new, None), (new, b""), (new, b"\1"), (old, b"\0"))] == [
        True,
        True,
        True,
        False,
    ]
    assert wants(message_filter, new, b"\1")
    assert asked == [b"\1", b"\0"]
    for version in (b"\2", b"\3"):
        with pytest.raises(Undecidable, match=version.hex()):
            wants(message_filter, new, version)
