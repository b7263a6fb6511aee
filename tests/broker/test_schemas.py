"""Schemas of topics: answers as Apache Pulsar 4.2.4 was observed to give them."""

import json
from base64 import b64encode

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto as Message
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from refimpl.broker import avro_schemas
from refimpl.broker.rest import handle
from refimpl.broker.schemas import MOST_VERSIONS, version_bytes
from refimpl.proposals.administration import AdminRequest, AdminResponse
from refimpl.wire.pulsar_api_pb2 import IncompatibleSchema, InvalidTopicName, KeyValue, Schema, TopicNotFound
from tests.fakes.broker_peer import TOPIC, Peer, make_broker


def record(*fields: object, name: str = "R") -> bytes:
    listed = [{"name": one, "type": "string"} if isinstance(one, str) else one for one in fields]
    return json.dumps({"type": "record", "name": name, "fields": listed}).encode()


def schema(definition: bytes, kind: int = Schema.Avro, **properties: str) -> Schema:
    pairs = [KeyValue(key=key, value=value) for key, value in properties.items()]
    return Schema(name="whatever", type=kind, schema_data=definition, properties=pairs)


A, B_WITH_DEFAULT, B = "a", {"name": "b", "type": ["null", "string"], "default": None}, {"name": "b", "type": ["null", "string"]}
ONE, TWO = record(A), record(A, B_WITH_DEFAULT)


@pytest.fixture
def peer() -> Peer:
    return Peer(make_broker())


def test_a_topic_without_a_schema_and_one_that_is_missing(peer: Peer) -> None:
    peer.producer()
    for topic in (TOPIC, "persistent://public/default/none", "persistent://public/none/t"):
        answer = peer.ask("getSchema", request_id=5, topic=topic)
        assert (answer.request_id, answer.error_code) == (5, TopicNotFound)
        assert answer.error_message == f"Topic not found or no-schema {topic}"
    assert peer.ask("getSchema", request_id=5, topic="persistent://x").error_code == InvalidTopicName
    missing = "persistent://public/default/none"
    refused = peer.ask("getOrCreateSchema", request_id=6, topic=missing, schema=schema(ONE))
    assert (refused.error_code, refused.error_message) == (TopicNotFound, f"Topic not found {missing}")
    assert peer.broker.admin.topics("public/default", "persistent") == [TOPIC]


def test_get_or_create_twice_and_what_is_got(peer: Peer) -> None:
    assert peer.producer().schema_version == b""
    for _ in range(2):
        assert peer.ask("getOrCreateSchema", request_id=6, topic=TOPIC, schema=schema(ONE, k="v")).schema_version == bytes(8)
    for fields in ({}, {"schema_version": bytes(8)}, {"schema_version": bytes(9)}):
        answer = peer.ask("getSchema", request_id=7, topic=TOPIC, **fields)
        assert answer.schema == Schema(name="public/default/t", type=Schema.Avro, schema_data=ONE, properties=schema(ONE, k="v").properties)
        assert answer.schema_version == bytes(8)
    assert peer.ask("getSchema", request_id=7, topic=TOPIC, schema_version=version_bytes(1)).error_code == TopicNotFound
    empty = peer.ask("getSchema", request_id=7, topic=TOPIC, schema_version=b"")
    assert (empty.error_code, empty.error_message) == (IncompatibleSchema, "Empty schema version")


def test_a_version_of_a_few_bytes_costs_an_answer_not_the_connection(peer: Peer) -> None:
    """Apache Pulsar 4.2.4 ends the connection."""
    assert peer.ask("getSchema", request_id=7, topic=TOPIC, schema_version=b"abcd").error_code == IncompatibleSchema
    assert not peer.session.closing


def test_producers_bring_versions(peer: Peer) -> None:
    def version(definition: bytes, kind: int = Schema.Avro, **properties: str) -> object:
        version.number += 1
        answer = peer.producer(producer_id=version.number, schema=schema(definition, kind, **properties))
        return answer.error if answer.DESCRIPTOR.name == "CommandError" else int.from_bytes(answer.schema_version, "big")

    version.number = 10
    assert version(ONE) == 0
    assert version(json.dumps(json.loads(ONE), indent=2).encode()) == 0
    assert version(ONE, k="v") == 0
    assert version(record(A, B)) == IncompatibleSchema, "a new field without a default: old messages lack it"
    assert version(TWO) == 1
    assert version(ONE) == 0, "an old one keeps its version"
    assert version(record({"name": "a", "type": "int"})) == IncompatibleSchema
    assert version(ONE, Schema.Json) == IncompatibleSchema
    assert version(b"", Schema.String) == IncompatibleSchema
    assert version(b"{nix") == IncompatibleSchema
    assert version(b"", Schema.AutoConsume) == IncompatibleSchema
    assert peer.producer(producer_id=99).schema_version == b"", "without a schema, to a topic that has one"
    assert peer.producer(producer_id=11).schema_version == bytes(8), "a repeated request gets the same answer"
    assert peer.ask("getSchema", request_id=7, topic=TOPIC).schema.schema_data == TWO


def test_a_refused_schema_creates_no_producer(peer: Peer) -> None:
    assert peer.producer(schema=schema(b"{")).error == IncompatibleSchema
    assert peer.broker.admin.topic_stats(TOPIC)["publishers"] == []
    assert peer.producer().producer_name


def test_consumers_bring_the_first_schema_and_must_read_the_newest(peer: Peer) -> None:
    def subscribe(number: int, given: Schema | None) -> object:
        answer = peer.subscribe(kind="Shared", name=f"s{number}", consumer_id=number, **({"schema": given} if given else {}))
        return answer.error if answer.DESCRIPTOR.name == "CommandError" else "in"

    assert subscribe(1, schema(b"", Schema.AutoConsume)) == "in"
    assert subscribe(2, schema(ONE)) == "in"
    assert subscribe(3, None) == "in"
    assert subscribe(4, schema(TWO)) == "in", "it reads what ONE wrote"
    assert peer.ask("getSchema", request_id=7, topic=TOPIC).schema.schema_data == ONE, "and is not kept"
    assert subscribe(5, schema(record(A, B))) == IncompatibleSchema
    assert subscribe(6, schema(b"", Schema.String)) == IncompatibleSchema
    assert subscribe(7, schema(b"", Schema.None_)) == IncompatibleSchema
    assert subscribe(8, schema(b"{")) == IncompatibleSchema
    assert peer.broker.admin.subscriptions(TOPIC) == ["s1", "s2", "s3", "s4"]


@pytest.mark.parametrize("used", ["producer", "consumer", "message"])
def test_a_consumer_can_not_bring_a_schema_to_a_topic_in_use(used: str) -> None:
    peer = Peer(make_broker())
    if used == "consumer":
        peer.subscribe(name="other", consumer_id=7)
    else:
        peer.producer()
    if used == "message":
        peer.publish("a")
        peer.frames()
        peer.ask("close_producer", producer_id=1, request_id=3)
    answer = peer.subscribe(schema=schema(ONE))
    assert (answer.error, answer.message) == (
        IncompatibleSchema,
        "Failed to add schema to an active topic with empty(BYTES) schema: new schema type AVRO",
    )


def test_partitions_and_domains_share_a_schema(peer: Peer) -> None:
    peer.broker.admin.create_partitioned_topic(TOPIC, 2)
    assert peer.producer(f"{TOPIC}-partition-0", schema=schema(ONE)).schema_version == bytes(8)
    for topic in (TOPIC, f"{TOPIC}-partition-1", "non-persistent://public/default/t"):
        assert peer.ask("getSchema", request_id=7, topic=topic).schema.name == "public/default/t"
    assert peer.producer(f"{TOPIC}-partition-1", 2, schema=schema(record("z"))).error == IncompatibleSchema
    peer.broker.admin.delete_partitioned_topic(TOPIC, force=True)
    peer.frames()
    assert peer.ask("getSchema", request_id=7, topic=TOPIC).error_code == TopicNotFound


@pytest.mark.parametrize(
    ("local", "encoded"),
    [("t+1", "t%2B1"), ("t%2B1", "t%252B1"), ("t 1", "t+1"), ("ü", "%C3%BC"), ("a:b", "a%3Ab"), ("t~1", "t%7E1"), ("t*1-._", "t*1-._")],
)
def test_the_name_of_a_schema_has_the_local_name_encoded_as_all_releases_do(peer: Peer, local: str, encoded: str) -> None:
    topic = f"persistent://public/default/{local}"
    assert peer.producer(topic, schema=schema(ONE)).schema_version == bytes(8)
    assert peer.ask("getSchema", request_id=7, topic=topic).schema.name == f"public/default/{encoded}"


def test_a_deleted_topic_has_no_schema_left_and_a_restarted_broker_has_it_still(peer: Peer) -> None:
    peer.producer(schema=schema(ONE))
    second = Peer(make_broker(store=peer.broker.store))
    assert second.ask("getSchema", request_id=7, topic=TOPIC).schema_version == bytes(8)
    second.broker.admin.delete_topic(TOPIC, force=True)
    assert second.producer().schema_version == b""
    assert second.ask("getSchema", request_id=7, topic=TOPIC).error_code == TopicNotFound


@pytest.mark.parametrize("kind", [Schema.String, Schema.Int32, Schema.Bool, Schema.Instant])
def test_a_primitive_schema_has_no_definition(peer: Peer, kind: int) -> None:
    answer = peer.producer(schema=schema(b"zz", kind))
    assert (answer.error, "should be zero, but 2 bytes" in answer.message) == (IncompatibleSchema, True)
    assert peer.producer(schema=schema(b"", kind, one="1")).schema_version == bytes(8)
    assert peer.producer(producer_id=2, schema=schema(b"", kind, other="2")).schema_version == bytes(8)


def test_a_topic_has_a_limit_of_versions(peer: Peer) -> None:
    peer.producer()
    for number in range(MOST_VERSIONS):
        stored = peer.broker.store.namespaces["public/default"].schemas
        stored.setdefault("public/default/t", []).append(schema(record(A, name=f"R{number}")))
    answer = peer.ask("getOrCreateSchema", request_id=6, topic=TOPIC, schema=schema(record(A, name="New")))
    assert (answer.error_code, "1000 schema versions" in answer.error_message) == (IncompatibleSchema, True)


# The admin interface

BASE = "/admin/v2/schemas/public/default/t"


def call(peer: Peer, method: str, path: str, body: object = None) -> AdminResponse:
    return handle(peer.broker, AdminRequest(method, BASE + path, body=b"" if body is None else json.dumps(body).encode()), 0.0)


def test_administrators_post_and_read_schemas(peer: Peer) -> None:
    def post(definition: bytes | str, kind: str = "AVRO") -> tuple[int, object]:
        text = definition.decode() if isinstance(definition, bytes) else definition
        answer = call(peer, "POST", "/schema", {"type": kind, "schema": text, "properties": {"k": "v"}})
        return answer.status, json.loads(answer.body).get("version")

    assert call(peer, "GET", "/schema").status == 404
    assert post(ONE) == post(ONE) == (200, {"version": 0})
    assert post(TWO) == (200, {"version": 1})
    assert post(record("z"))[0] == 409
    assert post("{nix")[0] == 422
    assert post(ONE, "AVROX")[0] == 422
    shown = {"type": "AVRO", "timestamp": 0, "properties": {"k": "v"}}
    assert json.loads(call(peer, "GET", "/schema").body) == {"version": 1, "data": TWO.decode(), **shown}
    assert json.loads(call(peer, "GET", "/schema/0").body) == {"version": 0, "data": ONE.decode(), **shown}
    assert call(peer, "GET", "/schema/9").status == call(peer, "GET", "/schema/x").status == 404
    assert call(peer, "POST", "/schema", {"type": 1, "schema": "", "properties": {}}).status == 400
    assert call(peer, "POST", "/schema", {"type": "AVRO", "schema": "{}", "properties": [1]}).status == 400


# Which schema reads which


def avro(kind: object) -> bytes:
    return json.dumps(kind).encode()


def named(name: str, *fields: object) -> object:
    return json.loads(record(*fields, name=name))


KIND = {"type": "enum", "name": "Kind", "symbols": ["X", "Y"]}
TREE = {"type": "record", "name": "Tree", "fields": [{"name": "next", "type": ["null", "Tree"]}]}


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [
        ("long", "int", True),
        ("int", "long", False),
        ("double", "float", True),
        ("bytes", "string", True),
        ("string", "string", True),
        (["null", "string"], "string", True),
        ("string", ["null", "string"], False),
        (["null", "string", "int"], ["int", "null"], True),
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, True),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, False),
        ({"type": "array", "items": "int"}, {"type": "map", "values": "int"}, False),
        ({**KIND, "symbols": ["X", "Y", "Z"]}, KIND, True),
        (KIND, {**KIND, "symbols": ["X", "Y", "Z"]}, True),
        (KIND, {**KIND, "symbols": ["Z"]}, True),
        ({**KIND, "name": "Other"}, KIND, False),
        ({**KIND, "name": "Other", "aliases": ["Kind"]}, KIND, True),
        (KIND, {**KIND, "name": "Other", "aliases": ["Kind"]}, False),
        ({**KIND, "namespace": "new"}, KIND, True),
        (KIND, "string", False),
        (["null", {**KIND, "name": "Other"}], ["null", KIND], False),
        ({**KIND, "default": "X"}, {**KIND, "symbols": ["X", "Y", "Z"]}, True),
        ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 4}, True),
        ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 8}, False),
        ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "G", "size": 4}, False),
        (named("R", "z"), named("S", "z"), True),
        (named("R", "z"), named("S", "y"), False),
        (["null", named("R", "z")], ["null", named("S", "z")], True),
        (["null", named("R", "z", "y"), named("S", "z")], ["null", named("R", "z")], False),
        (["null", named("R", "z")], ["null", named("R", "z", "y"), named("S", "z")], True),
        (named("R", "z", {"name": "d", "type": "int", "default": 1}), named("R", "z"), True),
        (named("R", "z", {"name": "d", "type": "long", "default": 1.5}), named("R", "z"), True),
        (named("R", {"name": "d", "type": KIND, "default": "X"}), named("R"), True),
        (named("R", {"name": "d", "type": ["null", "string"], "default": "Z"}), named("R"), True),
        (named("R", {"name": "d", "type": {"type": "array", "items": "int"}, "default": [1]}), named("R"), True),
        (named("R", {"name": "d", "type": {"type": "map", "values": "int"}, "default": {"a": 1}}), named("R"), True),
        (named("R", {"name": "d", "type": named("Q", "a"), "default": {"a": "b"}}), named("R"), True),
        (TREE, TREE, True),
        (TREE, {**TREE, "name": "Other", "fields": []}, False),
        ({**TREE, "namespace": "new"}, TREE, True),
        ({"type": "string", "doc": "x"}, "string", True),
        ({"type": "long", "logicalType": "timestamp-millis"}, "long", True),
    ],
)
def test_which_schema_reads_which(reader: object, writer: object, expected: bool) -> None:
    assert avro_schemas.reads(avro(reader), avro(writer)) is expected


def test_a_renamed_field_is_found_by_its_alias() -> None:
    new = record({"name": "b", "aliases": ["a"], "type": "string"})
    assert avro_schemas.reads(new, record("a"))
    assert not avro_schemas.reads(record("b"), record("a"))


FIELDS = {"type": "record", "name": "A", "fields": []}


def with_field(**field: object) -> dict[str, object]:
    return {**FIELDS, "fields": [{"name": "a", "type": "int", **field}]}


VALID: list[object] = [
    FIELDS, {**FIELDS, "type": "error"}, {**FIELDS, "name": "a.b.C"}, {**FIELDS, "name": "A$B"}, {**FIELDS, "namespace": "x.Outer$"},
    {**FIELDS, "name": "_A"}, {**FIELDS, "doc": 3}, {**FIELDS, "name": "a.a.A"}, {**FIELDS, "namespace": ""},
    with_field(name="é"), with_field(name="a$b"), with_field(aliases=["1x"]), with_field(default="x"), with_field(type=[]),
    with_field(type=["null", "int"], default=3), with_field(type={"type": "string", "logicalType": "date"}),
    with_field(type=[{**FIELDS, "name": "R"}, {**FIELDS, "name": "S"}]), with_field(type=["null", {"type": "A"}]),
    {**KIND, "symbols": []}, {**KIND, "symbols": ["a$"]}, {**KIND, "default": "X"}, [], ["int", "string"], "int",
    {"type": "map", "values": "int"}, {"type": "array", "items": "int"}, {"type": "int", "foo": 1},
]  # fmt: skip
INVALID: list[object] = [
    {**FIELDS, "name": "1A"}, {**FIELDS, "name": "a-b.C"}, {**FIELDS, "name": ""}, {**FIELDS, "name": "int"}, {**FIELDS, "namespace": "a-b"},
    {**FIELDS, "namespace": "a.1b"}, {**FIELDS, "namespace": 3}, {**FIELDS, "aliases": ["1x"]}, {**FIELDS, "aliases": "x"},
    {"type": "record", "name": "A"}, {"type": "record", "fields": []}, {**FIELDS, "fields": [3]}, {**FIELDS, "fields": {}},
    with_field(name="a-b"), with_field(name="a.b"), with_field(type="nope"), with_field(type=None), with_field(order="foo"),
    with_field(name=None), with_field(type=["A", "A"]), with_field(type=FIELDS), with_field(aliases=[1]),
    {**FIELDS, "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]},
    with_field(type=[{"type": "array", "items": "int"}, {"type": "array", "items": "string"}]),
    ["int", "int"], ["int", ["string"]], {"type": "enum", "name": "E"}, {**KIND, "symbols": ["a-b"]}, {**KIND, "symbols": ["a", "a"]},
    {**KIND, "symbols": [["a"]]}, {**KIND, "default": "Q"}, {"type": "fixed", "name": "F", "size": -1}, {"type": "fixed", "name": "F"},
    {"type": {"type": "int"}}, {"type": "array"}, {"items": "int"}, None, True,
]  # fmt: skip


@pytest.mark.parametrize("definition", VALID)
def test_what_is_a_schema(definition: object) -> None:
    avro_schemas.parse(avro(definition))


@pytest.mark.parametrize(
    "definition", [b"", b"\xff", b"{", b"[]x", b'{"type":"record"}', b"[" * 10_000, b"7", b'"nothing"', *map(avro, INVALID)]
)
def test_what_is_no_schema(definition: bytes) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        avro_schemas.parse(definition)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"doc": "d"}, True),
        ({"aliases": ["Q"]}, True),
        ({"name": "n.A", "namespace": None}, True),
        ({"foo": 2}, False),
        ({"name": "B"}, False),
        ({"fields": [{"name": "a", "type": {"type": "int"}}]}, True),
        ({"fields": [{"name": "a", "type": "int", "doc": "d", "aliases": ["z"], "order": "ascending"}]}, True),
        ({"fields": [{"name": "a", "type": "int", "order": "descending"}]}, False),
        ({"fields": [{"name": "a", "type": "int", "default": 3}]}, False),
        ({"fields": [{"name": "a", "type": "int", "foo": 1}]}, False),
        ({"fields": [{"name": "a", "type": {"type": "int", "foo": 1}}]}, False),
    ],
)
def test_what_is_the_same_schema(other: dict[str, object], expected: bool) -> None:
    one = {**with_field(), "namespace": "n"}
    assert avro_schemas.same(avro(one), avro({**one, **other})) is expected


def test_the_default_of_an_enum_makes_no_other_schema() -> None:
    assert avro_schemas.same(avro(KIND), avro({**KIND, "default": "X"}))
    assert not avro_schemas.same(avro(KIND), avro({**KIND, "symbols": ["Y", "X"]}))


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int", "x"), ("int", None), ("int", True), ("string", 1), (KIND, "Z"), ({"type": "map", "values": "int"}, {"a": "b"}),
        ({"type": "array", "items": "int"}, {}), (named("Q", "a"), {}), (["null", "string"], 1), ({"type": "fixed", "name": "F", "size": 1}, 1),
    ],
)  # fmt: skip
def test_a_default_of_another_type_is_noticed_where_schemas_are_compared(kind: object, default: object) -> None:
    one, other = named("R", {"name": "d", "type": kind, "default": default}), named("R")
    avro_schemas.parse(avro(one))
    for pair in ((one, other), (other, one)):
        for compare in (avro_schemas.reads, avro_schemas.same):
            with pytest.raises(ValueError, match="the default of d has another type"):
                compare(*map(avro, pair))


def test_large_unions_are_not_compared_for_ever() -> None:
    sizes = (("R", 20_000), ("S", 2_000), ("R", 2_000))
    one, other, several = ([named(f"{letter}{number}", letter) for number in range(size)] for letter, size in sizes)
    assert not avro_schemas.reads(avro(several), avro(other)), "no pair fits"
    assert not avro_schemas.reads(avro(one), avro(one)), "each fits, but they are too many"
    assert avro_schemas.reads(avro(several), avro(several))


def test_defaults_are_not_looked_at_for_ever() -> None:
    many = named("Many", *({"name": f"f{number}", "type": "int", "default": 0} for number in range(2_000)))
    fields = [{"name": f"g{number}", "type": "Many", "default": {}} for number in range(2_000)]
    with pytest.raises(ValueError, match="too many defaults"):
        avro_schemas.same(avro(FIELDS), avro(named("R", {"name": "many", "type": many}, *fields)))


# Types that are not defined in Avro, or not only


def keyed(key: bytes, value: bytes, kinds: tuple[str, str] = ("STRING", "AVRO"), **properties: str) -> Schema:
    data = b"".join(len(one).to_bytes(4, "big") + one for one in (key, value))
    given = {"key.schema.type": kinds[0], "value.schema.type": kinds[1], **properties}
    return schema(data, Schema.KeyValue, **given)


WRONG = record(A, {"name": "b", "type": "int", "default": "x"})


def native_text(message: str, **others: str) -> str:
    within = Message(name="B", nested_type=[Message(name="Inner")])
    files = FileDescriptorSet(file=[FileDescriptorProto(name="a.proto", package="a", message_type=[within, Message(name="C")])])
    return json.dumps({"fileDescriptorSet": b64encode(files.SerializeToString()).decode(), "rootMessageTypeName": message, **others})


def native(message: str, **others: str) -> Schema:
    return schema(native_text(message, **others).encode(), Schema.ProtobufNative)


INT = record({"name": "a", "type": "int"})


@pytest.mark.parametrize(
    ("first", "second", "version"),
    [
        (keyed(b"", ONE), keyed(b"", ONE, **{"kv.encoding.type": "SEPARATED"}), 0),
        (keyed(b"", ONE), keyed(b"", TWO), 1),
        (keyed(b"", ONE), keyed(b"", record(A, B)), None),
        (keyed(b"", ONE), keyed(b"", INT), None),
        (keyed(ONE, ONE, ("AVRO", "AVRO")), keyed(TWO, ONE, ("AVRO", "AVRO")), 1),
        (keyed(ONE, ONE, ("JSON", "JSON")), keyed(INT, ONE, ("JSON", "JSON")), None),
        (keyed(b"", ONE), keyed(b"", TWO, ("INT32", "AVRO")), None),
        (keyed(b"", ONE), keyed(b"", TWO, ("STRING", "JSON")), None),
        (keyed(b"", ONE), keyed(b"", b"{"), None),
        (keyed(b"", ONE), keyed(b"", ONE, ("STRING", "NOTHING")), None),
        (keyed(b"", ONE), schema(b"\0\0", Schema.KeyValue), None),
        (native("a.B"), native("a.C"), None),
        (native("a.B"), native("a.D"), None),
        (native("a.B"), native("a.B", fileDescriptorSet=""), None),
        (native("a.B"), native("a.B", fileDescriptorSet="eA=="), None),
        (native("a.B"), schema(b"[]", Schema.ProtobufNative), None),
        (native("a.B.Inner"), native("a.B.Inner", rootFileDescriptorName="a.proto"), 1),
        (schema(ONE), schema(WRONG), None),
        (schema(WRONG), schema(ONE), None),
        (schema(ONE, Schema.Protobuf), schema(INT, Schema.Protobuf), 1),
        (schema(ONE, Schema.Protobuf), schema(b"{", Schema.Protobuf), None),
        (schema(ONE, Schema.Json), schema(b"[]", Schema.Json), None),
    ],
)
@pytest.mark.parametrize("consumer", [False, True])
def test_what_may_follow(peer: Peer, first: Schema, second: Schema, version: int | None, consumer: bool) -> None:
    assert peer.producer(schema=first).schema_version == bytes(8)
    if consumer and version is not None:
        assert peer.subscribe(schema=second).DESCRIPTOR.name == "CommandSuccess"
        return
    answer = peer.subscribe(schema=second) if consumer else peer.producer(producer_id=2, schema=second)
    assert answer.error == IncompatibleSchema if version is None else int.from_bytes(answer.schema_version, "big") == version


def test_the_defaults_of_a_protobuf_schema_are_looked_at_when_it_is_looked_for(peer: Peer) -> None:
    assert peer.producer(schema=schema(ONE, Schema.Protobuf)).schema_version == bytes(8)
    assert peer.producer(producer_id=2, schema=schema(WRONG, Schema.Protobuf)).error == IncompatibleSchema


def test_a_union_is_a_json_schema_but_no_avro_schema(peer: Peer) -> None:
    assert peer.producer(schema=schema(b"[]")).error == IncompatibleSchema
    assert peer.producer(schema=schema(b"[]", Schema.Json)).schema_version == bytes(8)


PULSAR_NAMES = (
    "NONE", "STRING", "BOOLEAN", "INT8", "INT16", "INT32", "INT64", "FLOAT", "DOUBLE", "DATE", "TIME", "TIMESTAMP", "INSTANT", "LOCAL_DATE",
    "LOCAL_TIME", "LOCAL_DATE_TIME",
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "definition", "shown"),
    [
        *((kind, "", (kind, "")) for kind in PULSAR_NAMES),
        ("BYTES", "", ("NONE", "")),
        ("JSON", ONE.decode(), ("JSON", ONE.decode())),
        ("PROTOBUF", ONE.decode(), ("PROTOBUF", ONE.decode())),
        ("PROTOBUF_NATIVE", native_text("a.B"), ("PROTOBUF_NATIVE", native_text("a.B"))),
        ("PROTOBUF_NATIVE", "{}", None),
        ("KEY_VALUE", '{"key": "", "value": {"type": "int"}}', ("KEY_VALUE", '{"key":"","value":{"type":"int"}}')),
        ("KEY_VALUE", "x", None),
        ("KEY_VALUE", "{}", None),
        *((kind, "", None) for kind in ("BOOL", "KEYVALUE", "boolean", "AUTO", "AUTO_CONSUME", "AUTO_PUBLISH", "foo")),
    ],
)
def test_the_types_of_schemas_have_pulsars_names(peer: Peer, kind: str, definition: str, shown: tuple[str, str] | None) -> None:
    body = {"type": kind, "schema": definition, "properties": {"value.schema.type": "AVRO"}}
    assert call(peer, "POST", "/schema", body).status == (422 if shown is None else 200)
    if shown is not None:
        found = json.loads(call(peer, "GET", "/schema").body)
        assert (found["type"], found["data"]) == shown


def test_bytes_are_a_type_of_their_own(peer: Peer) -> None:
    for kind, status in (("BYTES", 200), ("STRING", 409)):
        assert call(peer, "POST", "/schema", {"type": kind, "schema": "", "properties": {}}).status == status
