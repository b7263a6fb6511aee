"""Corpora by name, Parquet in and out, and what is taken out of captures."""

import argparse
from collections import Counter

import pytest

from conformance.captures import log_rows, write_capture
from conformance.corpus import captured, corpora
from conformance.corpus.corpora import MESSAGE_COLUMNS, TOPIC_COLUMNS, add_corpus_option, check_columns, messages, save, topics
from conformance.corpus.errors import CorpusError
from conformance.running.recorder import HOME
from refimpl.wire import SingleMessage, command, compress, encode_batch, encode_frame, encode_payload
from refimpl.wire.pulsar_api_pb2 import ZSTD, MessageMetadata, SingleMessageMetadata

TOPIC = "persistent://public/default/t"


def send(producer, metadata=None, body=b"body", **fields):
    metadata = metadata or MessageMetadata(producer_name="p", sequence_id=1, publish_time=7, **fields)
    return encode_frame(command("send", producer_id=producer, sequence_id=1), encode_payload(metadata, body))


def producer(number, topic="t", name=None, request=1):
    named = {"producer_name": name} if name else {}
    return encode_frame(command("producer", topic=topic, producer_id=number, request_id=request, **named))


def success(request, name):
    return encode_frame(command("producer_success", request_id=request, producer_name=name))


def found(sent, received=()):
    return list(captured.messages_of(sent, received, "c"))


def test_messages_belong_to_the_producer_that_sent_them():
    sent = [producer(1, name="a", request=1), producer(2, "x", request=2), send(1), send(2), send(1), send(9)]
    assert [(row["topic"], row["producer_name"], row["sequence_id"]) for row in found(sent, [success(1, "z"), success(2, "b")])] == [
        (TOPIC, "a of c", 0),
        ("persistent://public/default/x", "b of c", 0),
        (TOPIC, "a of c", 1),
    ]
    assert [row["producer_name"] for row in found(sent)] == ["a of c", "producer 2 of c", "a of c"]


def test_sequences_go_on_when_a_producer_is_opened_again():
    sent = [producer(1, name="a"), send(1), producer(2, name="a"), send(2), producer(1, "a//b"), send(1)]
    assert [row["sequence_id"] for row in found(sent)] == [0, 1]


def test_a_message_has_its_own_key_properties_and_payload():
    (row,) = found([producer(1, name="a"), send(1, partition_key="k", properties=[{"key": "x", "value": "y"}])])
    assert row == {
        "topic": TOPIC,
        "producer_name": "a of c",
        "sequence_id": 0,
        "publish_time": 7,
        "key": "k",
        "properties": {"x": "y"},
        "payload": b"body",
        "payload_size": 4,
        "event_time": None,
    }


def test_what_is_left_out_is_counted_by_name():
    locked = MessageMetadata(producer_name="p", sequence_id=1, publish_time=7, num_messages_in_batch=3)
    locked.encryption_keys.add(key="k", value=b"v")
    small = MessageMetadata(producer_name="p", sequence_id=1, publish_time=7, num_messages_in_batch=2)
    packed = MessageMetadata(producer_name="p", sequence_id=1, publish_time=7, compression=ZSTD, uncompressed_size=9)
    twice = [{"key": "x", "value": "y"}, {"key": "x", "value": "z"}]
    damaged = encode_frame(command("send", producer_id=1, sequence_id=1), b"\xff" * 9)
    sent = [send(1), producer(1, name="a"), producer(2, "a//b"), send(1, locked), send(1, small), send(1, packed), damaged]
    without = Counter()
    rows = list(captured.messages_of([*sent, send(1, properties=twice), send(2), send(3)], [], "c", without))
    assert len(rows) == 1
    assert without == {
        captured.NO_PRODUCER: 2,
        captured.NO_TOPIC: 1,
        captured.ENCRYPTED: 3,
        captured.DAMAGED_BODY: 2,
        captured.DAMAGED_HEADER: 1,
        captured.REPEATED: 1,
    }


def test_what_captures_have_besides_topics_and_messages(spark, tmp_path):
    sent = [producer(1, name="a"), producer(2, "a//b"), send(1), send(9), b"\0\0\0\4\0\0\0\0"]
    (tmp_path / "1.client").write_bytes(b"".join(sent) + b"\0\0")
    (tmp_path / "2.client").write_bytes(b"")
    (tmp_path / "index.jsonl").write_text('{"connection": "c", "direction": "client", "file": "1.client"}\n')
    (tmp_path / "link").symlink_to(tmp_path)
    options = argparse.Namespace(corpus=f"capture:{tmp_path}", messages=None)
    assert corpora.left_out(spark, options) == {
        options.corpus: {
            captured.NO_PRODUCER: 1,
            captured.NO_NAME: 1,
            "pieces that are no frame: refused": 1,
            "pieces that are no frame: truncated": 1,
            "files that are no capture": 2,
        }
    }
    assert corpora.left_out(spark, argparse.Namespace(corpus="synthetic")) == {}


def test_batches_are_opened():
    single = [SingleMessage(SingleMessageMetadata(partition_key=f"k{number}"), b"x" * number) for number in range(3)]
    body = encode_batch(single)
    metadata = MessageMetadata(
        producer_name="p", sequence_id=1, publish_time=7, num_messages_in_batch=3, compression=ZSTD, uncompressed_size=len(body)
    )
    rows = found([producer(1, name="a"), send(1, metadata, compress(body, ZSTD)), send(1)])
    assert [(row["sequence_id"], row["key"], row["payload_size"]) for row in rows] == [
        (0, "k0", 0),
        (1, "k1", 1),
        (2, "k2", 2),
        (3, None, 4),
    ]


def test_what_can_not_be_opened_is_left_out():
    broken = encode_frame(command("send", producer_id=1, sequence_id=1), b"\x00\x00\x00\x09short")
    secret = MessageMetadata(producer_name="p", sequence_id=1, publish_time=7, encryption_keys=[{"key": "k", "value": b"v"}])
    damaged = MessageMetadata(producer_name="p", sequence_id=1, publish_time=7, compression=ZSTD, uncompressed_size=9)
    assert [row["sequence_id"] for row in found([producer(1), broken, send(1, secret), send(1, damaged), send(1)])] == [0]


def test_topics_are_named_by_commands_of_all_kinds():
    def named(name, **fields):
        return captured.topics_in(command(name, **fields))

    assert named("lookupTopic", topic="t", request_id=1) == {(TOPIC, "persistent")}
    assert named("lookupTopic", topic=f"{TOPIC}-partition-3", request_id=1) == {(f"{TOPIC}-partition-3", "partition")}
    assert named("lookupTopic", topic="a/b/c/d", request_id=1) == set()
    update = {"watcher_id": 1, "new_topics": [TOPIC], "deleted_topics": ["non-persistent://a/b/c"], "topics_hash": "x"}
    assert named("watchTopicUpdate", **update) == {(TOPIC, "persistent"), ("non-persistent://a/b/c", "non-persistent")}
    assert named("subscribe", topic=TOPIC, subscription="persistent://a/b/c", subType="Shared", consumer_id=1, request_id=1) == {
        (TOPIC, "persistent")
    }
    assert named("scalableTopicLookup", topic="topic://a/b/c", session_id=1) == {("topic://a/b/c", "topic")}
    assert named("ping") == set()


def test_the_option_of_jobs():
    parser = argparse.ArgumentParser()
    add_corpus_option(parser, "jars")
    assert parser.parse_args([]).corpus == "jars"


# Spark


def test_columns_are_checked(spark):
    good = spark.createDataFrame([], ", ".join(f"{name} {kind}" for name, kind in reversed(TOPIC_COLUMNS.items())) + ", more INT")
    assert check_columns(good, TOPIC_COLUMNS, "x").columns == [*TOPIC_COLUMNS, "more"]
    bad = good.withColumn("id", good.id.cast("int")).drop("kind")
    with pytest.raises(CorpusError) as caught:
        check_columns(bad, TOPIC_COLUMNS, "x.parquet: not topics")
    assert str(caught.value) == "x.parquet: not topics: id is int, not bigint; kind (string) is missing"


def test_jars_and_captures_and_parquet_by_name(spark, tmp_path):
    jars = topics(spark, "jars")
    assert jars.columns[: len(TOPIC_COLUMNS)] == list(TOPIC_COLUMNS)
    some = jars.where("id < 1000")
    path = f"{tmp_path}/some.parquet"
    save(some, path)
    again = topics(spark, path)
    assert sorted(tuple(row) for row in again.select("id", "topic").collect()) == sorted(
        tuple(row) for row in some.select("id", "topic").collect()
    )
    save(again.where("id < 10"), f"{tmp_path}/other.parquet")
    save(topics(spark, f"{tmp_path}/other.parquet").limit(5), path)
    assert topics(spark, path).count() == 5
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["other.parquet", "some.parquet"]
    assert messages(spark, "jars").columns[: len(MESSAGE_COLUMNS)] == list(MESSAGE_COLUMNS)


def test_what_is_no_corpus_is_named(spark, tmp_path):
    def refused(read, corpus):
        with pytest.raises(CorpusError) as caught:
            read(spark, corpus)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert (
        refused(topics, "jar")
        == "there is no corpus 'jar'; known: synthetic, jars, jars:FOLDER, capture:PATH, PATH.parquet, PATH.txt or PATH.jsonl"
    )
    assert refused(topics, f"jars:{tmp_path}/gone") == f"{tmp_path}/gone: there is no such folder; path names one with jars"
    assert refused(messages, f"capture:{tmp_path}/gone") == f"{tmp_path}/gone: there is no such file or folder"
    assert "gone.parquet: can't be read as Parquet: " in refused(topics, f"{tmp_path}/gone.parquet")
    (tmp_path / "foreign.parquet").write_bytes(b"no parquet" * 10)
    assert "foreign.parquet: can't be read as Parquet: " in refused(topics, f"{tmp_path}/foreign.parquet")
    save(topics(spark, "jars").limit(1), f"{tmp_path}/topics.parquet")
    assert refused(messages, f"{tmp_path}/topics.parquet").startswith(
        f"{tmp_path}/topics.parquet: not messages: producer_name (string) is missing; sequence_id (bigint) is missing"
    )
    with pytest.raises(CorpusError, match=r"a corpus that is written ends in \.parquet"):
        save(topics(spark, "jars"), str(tmp_path / "x"))


def test_a_corpus_that_can_not_be_written_leaves_what_was_there(spark, tmp_path):
    path = f"{tmp_path}/a.parquet"
    save(spark.range(3), path)
    with pytest.raises(Exception, match=r"raise_error|boom"):
        save(spark.range(3).selectExpr("if(id = 2, raise_error('boom'), id) AS id"), path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.parquet"]
    assert spark.read.parquet(path).count() == 3


def test_captures_give_topics_and_messages(spark, tmp_path):
    rows = list(log_rows(HOME / "apache-pulsar@4.2.4" / "pip191.jsonl.gz", "r"))
    write_capture(tmp_path / "c", rows)
    sent = {}
    for row in rows:
        if row.corrupt is None:
            sent.setdefault(row.origin.connection, {"client": [], "broker": []})[row.origin.direction].append(row.data)
    expected = sorted(
        (row["topic"], row["producer_name"], row["sequence_id"], row["payload"])
        for name, frames in sent.items()
        for row in captured.messages_of(frames["client"], frames["broker"], f"r {name} in .")
    )
    assert len(expected) >= 20
    frame = messages(spark, f"capture:{tmp_path / 'c'}").collect()
    assert sorted((row["topic"], row["producer_name"], row["sequence_id"], bytes(row["payload"])) for row in frame) == expected
    assert sorted(row["id"] for row in frame) == list(range(len(expected)))
    ordered = {}
    for row in sorted(frame, key=lambda row: row["id"]):
        key = row["topic"], row["producer_name"]
        assert row["sequence_id"] == ordered.get(key, -1) + 1
        ordered[key] = row["sequence_id"]
    named = topics(spark, f"capture:{tmp_path / 'c'}").collect()
    assert {row["topic"] for row in frame} <= {row["topic"] for row in named}
    assert [row["topic"] for row in sorted(named, key=lambda row: row["id"])] == sorted({row["topic"] for row in named})
