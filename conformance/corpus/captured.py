"""Topics and messages in captures: the topics that commands name, and the messages that producers sent.

Messages are those that a client sent, batches opened; encrypted ones can't be read and are left out, and so is what a producer sends that
was opened before the capture began. `left_out` counts what is left out, each under a name. A producer's name gets its connection and file
added, since captures may repeat names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf.message import Message
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from conformance.captures import defect_class
from conformance.corpus.inputs.names import topic_name
from refimpl.proposals.refused import Refused
from refimpl.proposals.scalable_topics.layout import SCALABLE, SEGMENT
from refimpl.wire import Frame, WireError, command_name, decode_batch, decode_frame, decompress, is_batch, sub_message
from refimpl.wire.pulsar_api_pb2 import BaseCommand, MessageMetadata, SingleMessageMetadata

_FIELDS = frozenset({"topic", "topics", "new_topics", "deleted_topics", "added", "removed", "resolved_topic_name", "segment_topic"})
"""Fields that hold names of topics, in whatever command; what is no such name is left out."""
ENCRYPTED = "encrypted messages"
NO_PRODUCER = "messages of producers that were opened before the capture began"
NO_TOPIC = "messages to what is no topic"
NO_NAME = "names that are no topics"
DAMAGED_HEADER = "entries whose header is damaged"
DAMAGED_BODY = "entries that can't be decompressed or divided into messages"
REPEATED = "properties whose key comes again in a message"
"""What is left out, besides pieces that are no frame, which have their class as name."""
_SIGN = 1 << 63
"""Java reads larger numbers as negative ones."""
_MAP = pa.map_(pa.string(), pa.string())
_TOPICS = pa.schema([("topic", pa.string()), ("kind", pa.string())])
_LEFT_OUT = pa.schema([("what", pa.string()), ("count", pa.int64())])
_MESSAGES = pa.schema(
    [
        ("source", pa.string()),
        ("connection", pa.string()),
        ("place", pa.int64()),
        ("topic", pa.string()),
        ("producer_name", pa.string()),
        ("sequence_id", pa.int64()),
        ("publish_time", pa.int64()),
        ("key", pa.string()),
        ("properties", _MAP),
        ("payload", pa.binary()),
        ("payload_size", pa.int32()),
        ("event_time", pa.int64()),
    ]
)


def topics(frames: DataFrame) -> DataFrame:
    """Return the topics that frames name, each once, sorted; `kind` is the domain, or `partition`."""
    found = frames.select("octets").mapInArrow(_topic_batches, "topic STRING, kind STRING").distinct()
    number = F.row_number().over(Window.orderBy("topic")) - F.lit(1)
    return found.select(number.cast("bigint").alias("id"), "topic", "kind", F.create_map().cast("map<string,string>").alias("properties"))


def messages(frames: DataFrame) -> DataFrame:
    """Return the messages that clients sent; those of one connection have to fit into memory."""
    schema = (
        "source STRING, connection STRING, place BIGINT, topic STRING, producer_name STRING, sequence_id BIGINT, publish_time BIGINT, "
        "key STRING, properties MAP<STRING, STRING>, payload BINARY, payload_size INT, event_time BIGINT"
    )
    wanted = frames.where(F.col("command").isin("producer", "producer_success", "send"))
    of_connections = wanted.select("source", "connection", "direction", "offset", "octets").groupBy("source", "connection")
    sent = of_connections.applyInArrow(_of_group, schema)
    number = F.row_number().over(Window.orderBy("source", "connection", "place")) - F.lit(1)
    return sent.withColumn("id", number.cast("bigint")).drop("source", "connection", "place")


def left_out(frames: DataFrame) -> dict[str, int]:
    """Count what `topics` and `messages` leave out, by name.

    Args:
        frames: All rows of the captures, also those that are no frame.
    """
    sent = frames.where(F.col("command").isin("producer", "send") & (F.col("direction") == "client"))
    rows = sent.select("source", "connection", "direction", "offset", "octets").groupBy("source", "connection")
    found = rows.applyInArrow(_left_out_of_group, "what STRING, count BIGINT")
    others = frames.select("octets", "_corrupt").mapInArrow(_left_out_of_rows, "what STRING, count BIGINT")
    total = found.unionAll(others).groupBy("what").agg(F.sum("count").alias("count")).sort("what")
    return {row["what"]: row["count"] for row in total.collect()}


def _left_out_of_group(table: pa.Table) -> pa.Table:
    found: Counter[str] = Counter()
    rows = sorted(table.select(["offset", "octets"]).to_pylist(), key=lambda row: row["offset"])
    for _ in messages_of([row["octets"] for row in rows], [], "", found):
        pass
    return pa.Table.from_pylist([{"what": what, "count": count} for what, count in found.items() if count], schema=_LEFT_OUT)


def _left_out_of_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        found: Counter[str] = Counter()
        for row in batch.to_pylist():
            if row["_corrupt"] is not None:
                found[f"pieces that are no frame: {defect_class(row['_corrupt'])}"] += 1
            else:
                topics_in(decode_frame(row["octets"]).command, found)
        yield pa.RecordBatch.from_pylist([{"what": what, "count": count} for what, count in found.items()], schema=_LEFT_OUT)


def _topic_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        names = {name for data in batch.column("octets").to_pylist() for name in topics_in(decode_frame(data).command)}
        rows = [{"topic": topic, "kind": kind} for topic, kind in sorted(names)]
        yield pa.RecordBatch.from_pylist(rows, schema=_TOPICS)


def topics_in(command: BaseCommand, without: Counter[str] | None = None) -> set[tuple[str, str]]:
    """Return the topics that a command names: full name, and kind.

    Args:
        command: The command.
        without: Counts what is left out.
    """
    without = Counter() if without is None else without
    found = set()
    for text in _names(sub_message(command)):
        try:
            name = topic_name(text)
        except Refused:
            without[NO_NAME] += 1
            continue
        ordinary = name.full.partition("://")[0] not in (SCALABLE, SEGMENT)
        found.add((name.full, "partition" if ordinary and name.partition >= 0 else name.full.partition("://")[0]))
    return found


def _names(message: Message) -> Iterator[str]:
    for field, value in message.ListFields():
        values = [value] if isinstance(value, str | Message) else value if isinstance(value, Iterable) else []
        for one in values:
            if isinstance(one, Message):
                yield from _names(one)
            elif isinstance(one, str) and field.name in _FIELDS:
                yield one


def _of_group(table: pa.Table) -> pa.Table:
    rows = sorted(table.to_pylist(), key=lambda row: (row["direction"], row["offset"]))
    sent = [row["octets"] for row in rows if row["direction"] == "client"]
    received = [row["octets"] for row in rows if row["direction"] == "broker"]
    where = {"source": rows[0]["source"], "connection": rows[0]["connection"]}
    found = messages_of(sent, received, f"{where['connection']} in {where['source']}")
    return pa.Table.from_pylist([{**where, "place": place, **message} for place, message in enumerate(found)], schema=_MESSAGES)


def messages_of(
    sent: Sequence[bytes], received: Sequence[bytes], whose: str, without: Counter[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Return the messages that a client sent on one connection.

    Args:
        sent: Its frames, in order; only those of producers matter.
        received: The broker's frames, in order.
        whose: Suffix for the producers' names.
        without: Counts what is left out.
    """
    without = Counter() if without is None else without
    names = _producer_names(received)
    producers: dict[int, tuple[str, str] | None] = {}
    sequence: dict[tuple[str, str], int] = {}
    for data in sent:
        frame = decode_frame(data)
        kind = command_name(frame.command)
        if kind == "producer":
            opened = frame.command.producer
            name = opened.producer_name or names.get(opened.request_id, f"producer {opened.producer_id}")
            try:
                producers[opened.producer_id] = topic_name(opened.topic).full, f"{name} of {whose}"
            except Refused:
                producers[opened.producer_id] = None
        elif kind == "send":
            producer = producers.get(frame.command.send.producer_id)
            if producer is None:
                without[NO_TOPIC if frame.command.send.producer_id in producers else NO_PRODUCER] += max(1, frame.command.send.num_messages)
                continue
            for row in _opened(frame, without):
                number = sequence.get(producer, 0)
                sequence[producer] = number + 1
                yield {"topic": producer[0], "producer_name": producer[1], "sequence_id": number, **row}


def _producer_names(received: Iterable[bytes]) -> Mapping[int, str]:
    commands = (decode_frame(data).command for data in received)
    answers = (command.producer_success for command in commands if command_name(command) == "producer_success")
    return {answer.request_id: answer.producer_name for answer in answers}


def _opened(frame: Frame, without: Counter[str]) -> Iterator[dict[str, Any]]:
    try:
        payload = frame.payload()
    except WireError:
        without[DAMAGED_HEADER] += 1
        return
    metadata = payload.metadata
    if metadata.encryption_keys:
        without[ENCRYPTED] += max(1, metadata.num_messages_in_batch)
        return
    try:
        body = decompress(payload.body, metadata.compression, metadata.uncompressed_size)
        batch = decode_batch(body, metadata.num_messages_in_batch) if is_batch(metadata) else None
    except WireError:
        without[DAMAGED_BODY] += 1
        return
    messages = [(metadata, body)] if batch is None else [(one.metadata, one.body) for one in batch]
    for own, content in messages:
        without[REPEATED] += len(own.properties) - len({pair.key for pair in own.properties})
        yield _message(metadata, own, content)


def _message(outer: MessageMetadata, own: MessageMetadata | SingleMessageMetadata, body: bytes) -> dict[str, Any]:
    return {
        "publish_time": _signed(outer.publish_time),
        "key": own.partition_key if own.HasField("partition_key") else None,
        "properties": {pair.key: pair.value for pair in own.properties},
        "payload": body,
        "payload_size": len(body),
        "event_time": _signed(own.event_time) if own.event_time else None,
    }


def _signed(number: int) -> int:
    return (number + _SIGN) % (2 * _SIGN) - _SIGN
