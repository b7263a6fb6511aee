"""Names and messages of users: what is wrong with them is one line that names file, row and column; Spark is not needed for it."""

import gzip
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conformance.corpus.columns import MAY_HAVE, MESSAGE_COLUMNS, TOPIC_COLUMNS, arrow_schema
from conformance.corpus.errors import CorpusError
from conformance.corpus.inputs import rows as checks
from conformance.corpus.inputs.parquet import check_parquet, spark_name
from conformance.corpus.inputs.text import text_batches
from conformance.corpus.sources.jar_topics import OF_JAR

TOPIC = "persistent://public/default/t"
MESSAGE = {
    "id": 0,
    "topic": TOPIC,
    "producer_name": "p",
    "sequence_id": 0,
    "publish_time": 7,
    "key": None,
    "properties": [("region", "eu")],
    "payload": b"body",
    "payload_size": 4,
}
TOPICS, MESSAGES = arrow_schema(TOPIC_COLUMNS), arrow_schema(MESSAGE_COLUMNS)


def message(number, **changed):
    return {**MESSAGE, "id": number, "sequence_id": number, **changed}


def topic(number, **changed):
    return {"id": number, "topic": f"{TOPIC}{number}", "kind": "read", "properties": [], **changed}


def parquet(path, rows, schema=MESSAGES, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, **options)
    return path


def refusal(path, columns=MESSAGE_COLUMNS, required=None):
    with pytest.raises(CorpusError) as caught:
        check_parquet(str(path), required or columns, {**columns, **OF_JAR})
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Parquet


def test_what_is_right_is_read(tmp_path):
    check_parquet(
        str(parquet(tmp_path / "a.parquet", [message(0), message(1), message(0, id=2, producer_name="q")])),
        MESSAGE_COLUMNS,
        MESSAGE_COLUMNS,
    )
    nothing = message(1, payload=None, key="", properties=[])
    check_parquet(str(parquet(tmp_path / "b.parquet", [message(0), nothing])), MESSAGE_COLUMNS, MESSAGE_COLUMNS)
    names = parquet(tmp_path / "c.parquet", [{"topic": TOPIC}] * 2, pa.schema([("topic", pa.string())]))
    check_parquet(str(names), {"topic": "string"}, TOPIC_COLUMNS)
    dictionary = pa.schema([("topic", pa.dictionary(pa.int32(), pa.string()))])
    check_parquet(str(parquet(tmp_path / "d.parquet", [{"topic": TOPIC}], dictionary)), {"topic": "string"}, TOPIC_COLUMNS)
    large = pa.schema([("topic", pa.large_string()), ("properties", pa.map_(pa.large_string(), pa.large_string()))])
    some = parquet(tmp_path / "e.parquet", [{"topic": TOPIC, "properties": [("a", "b"), ("b", "b")]}], large)
    check_parquet(str(some), {"topic": "string"}, TOPIC_COLUMNS)


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"topic": None}, "column topic: is null"),
        ({"topic": ""}, "column topic: is empty"),
        ({"producer_name": None}, "column producer_name: is null"),
        ({"producer_name": ""}, "column producer_name: is empty"),
        ({"properties": None}, "column properties: is null"),
        ({"properties": [("a", None)]}, "column properties: the value of 'a' is null"),
        ({"properties": [("a", "1"), ("b", "2"), ("a", "1")]}, "column properties: the key 'a' is there 2 times"),
        ({"properties": [("", "1"), ("", "2"), ("", "3")]}, "column properties: the key '' is there 3 times"),
        ({"id": None}, "column id: is null"),
        ({"id": 0}, "column id: is that of {path}, row 1 of 4, too"),
        ({"sequence_id": None}, "column sequence_id: is null"),
        ({"sequence_id": -1}, "column sequence_id: is negative: -1"),
        ({"sequence_id": 1}, f"column sequence_id: 1 of 'p' on '{TOPIC}' is that of an earlier row, too"),
        ({"sequence_id": 4}, "column sequence_id: is 4, but there are only 4 rows, and numbers from 0 have no gaps"),
        (
            {"sequence_id": (1 << 63) - 1},
            "column sequence_id: is 9223372036854775807, but there are only 4 rows, and numbers from 0 have no gaps",
        ),
        ({"publish_time": None}, "column publish_time: is null"),
        ({"publish_time": -5}, "column publish_time: is negative: -5"),
        ({"payload_size": None}, "column payload_size: is null"),
        ({"payload_size": -4}, "column payload_size: is negative: -4"),
        ({"payload_size": 5}, "column payload_size: is 5, but payload has 4 bytes"),
        ({"payload": b""}, "column payload_size: is 4, but payload has 0 bytes"),
    ],
)
def test_a_row_that_is_wrong_is_named(tmp_path, monkeypatch, changed, line):
    rows = [message(0), message(1), message(2, **changed), message(3, **changed)]
    for name, options in (("a", {}), ("b", {"row_group_size": 1})):
        path = parquet(tmp_path / f"{name}.parquet", rows, **options)
        assert refusal(path) == f"{path}, row 3 of 4, {line.format(path=path)}"


@pytest.mark.parametrize(
    ("text", "bytes_"), [(pa.string(), pa.binary()), (pa.large_string(), pa.large_binary()), (pa.string_view(), pa.binary_view())]
)
def test_texts_of_all_kinds_are_read(tmp_path, text, bytes_):
    kinds = {"topic": text, "producer_name": text, "key": text, "payload": bytes_}
    schema = pa.schema([(one.name, kinds.get(one.name, one.type)) for one in MESSAGES])
    path = parquet(tmp_path / "a.parquet", [message(0), message(1, topic="")], schema)
    assert refusal(path) == f"{path}, row 2 of 2, column topic: is empty"


def test_names_may_hold_anything_and_stay_apart(tmp_path):
    apart = [
        message(0, topic="a\0b", producer_name="c"),
        message(0, id=1, topic="a", producer_name="b\0c"),
        message(0, id=2, topic="é", producer_name="\0"),
    ]
    check_parquet(str(parquet(tmp_path / "a.parquet", apart)), MESSAGE_COLUMNS, MESSAGE_COLUMNS)
    path = parquet(tmp_path / "b.parquet", [*apart, message(0, id=3, topic="é", producer_name="\0")])
    assert refusal(path) == f"{path}, row 4 of 4, column sequence_id: 0 of '\\x00' on 'é' is that of an earlier row, too"


def test_rows_are_counted_in_each_file_of_a_folder(tmp_path):
    for number in range(3):
        parquet(tmp_path / "c.parquet" / f"part-{number}", [message(2 * number), message(2 * number + 1)])
    (tmp_path / "c.parquet" / "_SUCCESS").touch()
    (tmp_path / "c.parquet" / ".part-0.crc").write_bytes(b"crc")
    check_parquet(str(tmp_path / "c.parquet"), MESSAGE_COLUMNS, MESSAGE_COLUMNS)
    again = parquet(tmp_path / "c.parquet" / "part-2", [message(4), message(5, id=1)])
    assert refusal(tmp_path / "c.parquet") == f"{again}, row 2 of 2, column id: is that of {again.parent}/part-0, row 2 of 2, too"
    parquet(again, [message(4), message(1)])
    assert "part-2, row 2 of 2, column sequence_id: 1 of 'p' on" in refusal(tmp_path / "c.parquet") or "column id" in refusal(
        tmp_path / "c.parquet"
    )
    (again.parent / "notes.md").write_text("notes")
    assert refusal(tmp_path / "c.parquet").startswith(f"{again.parent}/notes.md: can't be read as Parquet: ")


def test_a_gap_is_named(tmp_path):
    path = parquet(
        tmp_path / "a.parquet", [message(0), message(2), message(0, id=5, producer_name="q" * 200), message(1, id=6, producer_name="r")]
    )
    text = refusal(path)
    assert text.startswith(f"{path}, row 2 of 4, column sequence_id: is 2, but 'p' on '{TOPIC}' has no message 1; ")


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_many_producers_in_any_batches(tmp_path, monkeypatch, batch):
    rows = [message(number // 7, id=number, producer_name=f"p{number % 7}", topic=f"{TOPIC}{number % 2}") for number in range(98)]
    table = pa.Table.from_pylist([{**row, "sequence_id": number // 14} for number, row in enumerate(rows)], schema=MESSAGES)
    for order in (range(98), range(97, -1, -1)):
        looked = checks.Rows(98, lambda row: f"row {row}")
        for one in table.take(list(order)).to_batches(batch):
            looked.check(one)
        looked.end()
    looked = checks.Rows(98, lambda row: f"row {row}")
    *before, last = table.take([*range(97), 3]).to_batches(batch)
    for one in before:
        looked.check(one)
    with pytest.raises(CorpusError, match=r"row 97, column sequence_id: 0 of 'p3' on .* is that of an earlier row"):
        looked.check(last)


def test_topics_that_have_numbers_are_there_once(tmp_path):
    required = {"topic": "string"}
    path = parquet(tmp_path / "a.parquet", [topic(0), topic(1), topic(2, topic=f"{TOPIC}1")], TOPICS)
    assert refusal(path, TOPIC_COLUMNS, required) == f"{path}, row 3 of 3, column topic: is that of {path}, row 2 of 3, too"
    for changed, line in (({"kind": None}, "column kind: is null"), ({"topic": None}, "column topic: is null")):
        path = parquet(tmp_path / "b.parquet", [topic(0), topic(1, **changed)], TOPICS)
        assert refusal(path, TOPIC_COLUMNS, required) == f"{path}, row 2 of 2, {line}"


def retyped(name, kind):
    return pa.schema([(field.name, kind if field.name == name else field.type) for field in MESSAGES])


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        (retyped("sequence_id", pa.int32()), "column sequence_id is int, not bigint"),
        (retyped("payload_size", pa.int64()), "column payload_size is bigint, not int"),
        (retyped("payload", pa.string()), "column payload is string, not binary"),
        (retyped("publish_time", pa.timestamp("ms")), "column publish_time is timestamp[ms], not bigint"),
        (
            retyped("properties", pa.struct([("region", pa.string())])),
            "column properties is struct<region: string>, not map<string,string>",
        ),
        (retyped("properties", pa.map_(pa.string(), pa.int64())), "column properties is map<string,bigint>, not map<string,string>"),
        (retyped("key", pa.null()), "column key is null, not string"),
        (pa.schema([*MESSAGES][1:]), "column id (bigint) is missing"),
        (pa.schema([*MESSAGES, ("propertys", pa.string())]), "column propertys is unknown, did you mean properties?"),
        (pa.schema([*MESSAGES, ("Topic", pa.string())]), "column Topic is unknown, did you mean topic?"),
        (pa.schema([*MESSAGES, ("zzz", pa.string())]), "column zzz is unknown"),
        (pa.schema([*MESSAGES, ("topic", pa.string())]), "column topic is there 2 times"),
        (
            pa.schema([("topic", pa.string()), *[*MESSAGES][4:]]),
            "column id (bigint) is missing; column producer_name (string) is missing; column sequence_id (bigint) is missing",
        ),
    ],
)
def test_columns_that_are_wrong_are_named_all_at_once(tmp_path, schema, line):
    path = tmp_path / "a.parquet"
    pq.write_table(schema.empty_table(), path)
    assert refusal(path) == f"{path}: {line}"


def test_text_that_is_not_utf_8_is_named(tmp_path):
    parts = [pa.py_buffer(b"\x00\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00"), pa.py_buffer(b"a\xffb")]
    wrong = pa.Array.from_buffers(pa.string(), 2, [None, *parts])
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"topic": wrong}), path)
    assert refusal(path, TOPIC_COLUMNS, {"topic": "string"}) == f"{path}, row 2 of 2, column topic: is not UTF-8"
    keys = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), wrong, pa.array(["x", "y"]))
    pq.write_table(pa.table({"topic": ["a", "b"], "properties": keys}), path)
    assert refusal(path, TOPIC_COLUMNS, {"topic": "string"}) == f"{path}, row 2 of 2, column properties: is not UTF-8"


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda path: None, "{path}: can't be read as Parquet: there is no such file or folder"),
        (lambda path: path.mkdir(), "{path}: can't be read as Parquet: there is no file in this folder"),
        (lambda path: path.write_bytes(b""), "{path}: can't be read as Parquet: "),
        (lambda path: path.write_bytes(b"no parquet" * 10), "{path}: can't be read as Parquet: "),
        (lambda path: path.write_bytes(parquet(path, [message(0)]).read_bytes()[:-20]), "{path}: can't be read as Parquet: "),
        (lambda path: parquet(path, []), "{path}: has no rows"),
        (lambda path: parquet(path / "a:b", []), "{path}/a:b: can't be read by Spark, which takes the colon for that of a URI"),
        (lambda path: parquet(path / "region=eu" / "a", [message(0, topic="")]), "{path}/region=eu/a, row 1 of 1, column topic: is empty"),
    ],
)
def test_files_that_are_wrong_are_named(tmp_path, make, line):
    path = tmp_path / "odd [name] *.parquet"
    make(path)
    assert refusal(path).startswith(line.format(path=path))


def without(name):
    return pa.schema([field for field in MESSAGES if field.name != name])


def test_a_folder_of_which_spark_would_read_something_else_is_refused(tmp_path):
    def made(name, *files):
        for place, rows, schema in files:
            parquet(tmp_path / name / place, rows, schema)
        return tmp_path / name

    event_time = pa.schema([*MESSAGES, ("event_time", pa.int64())])
    columns = {**MESSAGE_COLUMNS, **MAY_HAVE}
    some, others = [message(0), message(1)], [message(2), message(3)]
    home = made("a.parquet", ("part-0", some, MESSAGES), ("part-1", others, event_time))
    assert refusal(home, columns, MESSAGE_COLUMNS) == (
        f"{home}/part-0: column event_time is missing, which {home}/part-1 has; give all files the same columns"
    )
    home = made("b.parquet", ("part-0", some, event_time), ("part-1", others, MESSAGES))
    assert refusal(home, columns, MESSAGE_COLUMNS).startswith(f"{home}/part-1: column event_time is missing, which {home}/part-0 has; ")
    home = made("c.parquet", ("publish_time=5/part-0", some, without("publish_time")))
    assert refusal(home) == f"{home}/publish_time=5/part-0: column publish_time (bigint) is missing"
    home = made("d.parquet", ("topic=x/part-0", some, MESSAGES))
    assert refusal(home) == f"{home}/topic=x/part-0: column topic is named by a folder; write it into the files"
    home = made("e.parquet", ("part-0", some, MESSAGES), ("x=1/part-0", others, MESSAGES))
    assert refusal(home).startswith(f"{home}/x=1/part-0: other folders with columns lead to it than to {home}/part-0; Spark would read ")
    home = made("f.parquet", ("_x=1/part-0", [message(0), message(1, topic="")], MESSAGES))
    assert refusal(home) == f"{home}/_x=1/part-0, row 2 of 2, column topic: is empty"


def test_links_and_pipes_are_not_passed_over(tmp_path):
    home = tmp_path / "a.parquet"
    parquet(home / "part-0", [message(0)])
    (home / "part-1").symlink_to("gone")
    assert refusal(home) == f"{home}/part-1: is a link to what is not there"
    (home / "part-1").unlink()
    (tmp_path / "b").mkdir()
    (home / "part-1").symlink_to(tmp_path / "b")
    assert refusal(home) == f"{home}/part-1: is a link to a folder, which is not read; give the folder"
    for name in ("c.parquet", "d.txt"):
        os.mkfifo(tmp_path / name)
    assert refusal(tmp_path / "c.parquet") == f"{tmp_path}/c.parquet: is no ordinary file"
    with pytest.raises(CorpusError, match=r"d\.txt: is no ordinary file"):
        lines(tmp_path / "d.txt")


def test_a_message_of_too_many_bytes_is_named(tmp_path):
    path = parquet(tmp_path / "a.parquet", [message(0), message(1, payload=None, payload_size=(1 << 31) - 1)])
    assert refusal(path) == f"{path}, row 2 of 2, column payload_size: is 2147483647: too many bytes for a message"


def test_pages_that_are_damaged_are_named(tmp_path):
    path = parquet(tmp_path / "a.parquet", [message(number) for number in range(1000)], compression="zstd", use_dictionary=False)
    whole = bytearray(path.read_bytes())
    for place in range(4, 400, 3):
        damaged = bytearray(whole)
        damaged[place : place + 40] = bytes(40)
        path.write_bytes(bytes(damaged))
        try:
            check_parquet(str(path), MESSAGE_COLUMNS, MESSAGE_COLUMNS)
        except CorpusError as error:
            assert str(error).startswith(str(path))  # noqa: PT017


def test_names_of_types():
    assert [spark_name(kind) for kind in (pa.int8(), pa.binary(16), pa.list_(pa.string()), pa.float64(), pa.bool_())] == [
        "tinyint",
        "binary",
        "list<item: string>",
        "double",
        "boolean",
    ]
    assert {name: spark_name(arrow_schema({name: kind}).field(0).type) for name, kind in MESSAGE_COLUMNS.items()} == MESSAGE_COLUMNS


# Text


def lines(path, columns=TOPIC_COLUMNS):
    return [row for batch in text_batches(path, columns) for row in batch.to_pylist()]


def written(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_names_are_completed_and_each_is_there_once(tmp_path):
    text = (
        "\ufefforders\r\n\r\npersistent://public/default/orders\n  \nt/n/x y\ntopic://t/n/s\nnon-persistent://t/n/🌍-partition-3\nt/n/a\\nb"
    )
    for name in ("names.txt", "names.txt.gz"):
        data = text.encode() if name == "names.txt" else gzip.compress(text.encode())
        found = lines(written(tmp_path / name, data))
        assert [row["topic"] for row in found] == [
            "persistent://public/default/orders",
            "persistent://t/n/x y",
            "topic://t/n/s",
            "non-persistent://t/n/🌍-partition-3",
            "persistent://t/n/a\\nb",
        ]
        assert [(row["id"], row["kind"], row["properties"]) for row in found] == [(number, "read", []) for number in range(5)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ": has no line with a topic"),
        ("\n \n\r\n", ": has no line with a topic"),
        ("a\nb/c\n", ", line 2, column topic: 'b/c' is no name of a topic: Invalid topic name: "),
        ("a\n\nhttp://x/y/z", ", line 3, column topic: 'http://x/y/z' is no name of a topic: "),
        ("persistent://t/n/", ", line 1, column topic: 'persistent://t/n/' is no name of a topic: "),
        ("persistent://t/../a/b\n", ", line 1, column topic: "),
        ("a\n\xff".encode("latin-1"), ", line 2: is not UTF-8 at byte 1"),
        ("orders".encode("utf-16"), ", line 1: is not UTF-8 at byte 1"),
    ],
)
def test_a_name_that_is_wrong_is_named(tmp_path, text, line):
    path = written(tmp_path / "names.txt", text)
    with pytest.raises(CorpusError) as caught:
        lines(path)
    assert str(caught.value).startswith(f"{path}{line}")


def test_messages_get_what_is_not_said(tmp_path):
    said = [
        {"topic": "orders", "payload": "hello", "key": "k", "properties": {"region": "eu"}},
        {"topic": "orders", "payload_base64": "/wA=", "publish_time": 5},
        {"topic": "t/n/x", "producer_name": "p", "id": 77},
        {"topic": "orders", "payload": None, "key": None},
    ]
    path = written(tmp_path / "messages.jsonl", "".join(json.dumps(row) + "\n" for row in said))
    names = ("id", "topic", "producer_name", "sequence_id", "publish_time", "key", "properties", "payload", "payload_size")
    assert [tuple(row[name] for name in names) for row in lines(path, MESSAGE_COLUMNS)] == [
        (0, "persistent://public/default/orders", "producer", 0, 0, "k", [("region", "eu")], b"hello", 5),
        (1, "persistent://public/default/orders", "producer", 1, 5, None, [], b"\xff\x00", 2),
        (77, "persistent://t/n/x", "p", 0, 0, None, [], b"", 0),
        (3, "persistent://public/default/orders", "producer", 2, 0, None, [], b"", 0),
    ]
    path = written(tmp_path / "topics.jsonl", '{"topic": "a", "properties": {"x": ""}}\n{"topic": "b", "kind": "mine"}\n')
    assert [(row["id"], row["kind"], row["properties"]) for row in lines(path)] == [(0, "read", [("x", "")]), (1, "mine", [])]


@pytest.mark.parametrize(
    ("second", "line"),
    [
        ('{"topic": null}', ", line 2, column topic: is null"),
        ('{"key": "a"}', ", line 2, column topic: is missing"),
        ('{"topic": ""}', ", line 2, column topic: '' is no name of a topic"),
        ('{"topic": 7}', ", line 2, column topic: is a number, not a text"),
        ('{"topic": "a", "key": ["a"]}', ", line 2, column key: is a list, not a text"),
        ('{"topic": "a", "topic": "b"}', ", line 2, column topic: is there more than once"),
        ('{"topic": "a", "properties": {"x": "1", "x": "1"}}', ", line 2, column properties: the key 'x' is there more than once"),
        ('{"topic": "a", "properties": {"x": 1}}', ", line 2, column properties: the value of 'x' is a number, not a text"),
        ('{"topic": "a", "properties": {"x": null}}', ", line 2, column properties: the value of 'x' is null, not a text"),
        ('{"topic": "a", "properties": {"x": {}}}', ", line 2, column properties: the value of 'x' is an object, not a text"),
        ('{"topic": "a", "properties": "x"}', ", line 2, column properties: is a text, not an object of texts"),
        ('{"topic": "a", "propertys": {}}', ", line 2: column propertys is unknown, did you mean properties?"),
        ('{"topic": "a", "publish_time": -1}', ", line 2, column publish_time: is negative: -1"),
        ('{"topic": "a", "publish_time": true}', ", line 2, column publish_time: is true or false, not a whole number"),
        ('{"topic": "a", "publish_time": 1.5}', ", line 2, column publish_time: is a number, not a whole number"),
        ('{"topic": "a", "publish_time": 1e400}', ", line 2, column publish_time: is a number, not a whole number"),
        ('{"topic": "a", "publish_time": NaN}', ", line 2, column publish_time: NaN is no number"),
        ('{"topic": "a", "publish_time": %s}' % ("7" * 5000), ", line 2, column publish_time: is a number of 5,000 digits"),
        ('{"topic": "a", "properties": {"x": Infinity}}', ", line 2, column properties: the value of 'x' is no number, not a text"),
        ('{"topic": "a", "publish_time": 9223372036854775808}', ", line 2, column publish_time: 9223372036854775808 is too large"),
        ('{"topic": "a", "payload_size": 2147483648}', ", line 2, column payload_size: 2147483648 is too large"),
        ('{"topic": "a", "payload": "ab", "payload_size": 3}', ", line 2, column payload_size: is 3, but payload has 2 bytes"),
        ('{"topic": "a", "payload_base64": "a"}', ", line 2, column payload_base64: is not base64: "),
        ('{"topic": "a", "payload_base64": "é==="}', ", line 2, column payload_base64: is not base64: "),
        ('{"topic": "a", "payload": "", "payload_base64": ""}', ", line 2, column payload_base64: there is a payload, too"),
        (
            '{"topic": "a", "sequence_id": 1}',
            ", line 2, column sequence_id: is 1, but 'producer' on 'persistent://public/default/a' has no message 0",
        ),
        ('{"topic": "first", "sequence_id": 0}', ", line 2, column sequence_id: 0 of 'producer' on "),
        ('{"topic": "a", "id": 0}', ", line 2, column id: is that of "),
        (r'{"topic": "a", "key": "\ud800"}', ", line 2, column key: '\\ud800' has half a character"),
        (r'{"topic": "\udc00"}', ", line 2, column topic: '\\udc00' has half a character"),
        ('{"topic": "a"', ", line 2: is not JSON: "),
        ("[" * 100_000, ", line 2: is not JSON: it is nested too deep"),
        ("7" * 5000, ", line 2: is no number, not an object with columns"),
        ('{"topic": "a", "event_time": -1}', ", line 2, column event_time: is negative: -1"),
        ("[]", ", line 2: is a list, not an object with columns"),
        ("topic,payload", ", line 2: is not JSON: Expecting value at character 1"),
        ('{"record": "header"}', ", line 2: column record is unknown; this is an event log: give it as capture:PATH"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path, second, line):
    path = written(tmp_path / "messages.jsonl", f'{{"topic": "first"}}\n{second}\n')
    with pytest.raises(CorpusError) as caught:
        lines(path, {**MESSAGE_COLUMNS, **MAY_HAVE})
    assert str(caught.value).startswith(f"{path}{line}")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_text_that_can_not_be_read_is_named(tmp_path):
    for name, data, line in (
        ("a.txt", None, ": No such file or directory"),
        ("b.txt.gz", gzip.compress(b"a\n" * 1000)[:-4], ", line 1,001: can't be decompressed further: "),
        ("c.txt.gz", b"a\n", ", line 1: can't be decompressed further: Not a gzipped file"),
    ):
        if data is not None:
            written(tmp_path / name, data)
        with pytest.raises(CorpusError) as caught:
            lines(tmp_path / name)
        assert str(caught.value).startswith(f"{tmp_path / name}{line}")
    (tmp_path / "d.txt").mkdir()
    with pytest.raises(CorpusError, match=r"d\.txt: Is a directory"):
        lines(tmp_path / "d.txt")
