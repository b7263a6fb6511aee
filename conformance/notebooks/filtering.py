"""Entries and consumers with filters, for notebooks: what a producer sends, what a consumer receives, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from conformance.notebooks.live import Stage
from conformance.notebooks.shown import attempt
from conformance.report.rows import Row
from refimpl.client.unpack import open_messages, unpack
from refimpl.proposals.message_filter import (
    BUILT_IN_REGISTRY,
    Candidate,
    EntryOutcome,
    MessageFilter,
    MessageFilterBroker,
    MessageFilterPolicy,
    SchemaAccess,
    judge,
)
from refimpl.wire import (
    DEFAULT_MAX_MESSAGE_SIZE,
    SingleMessage,
    command,
    compress,
    decode_frame,
    encode_batch,
    encode_frame,
    encode_payload,
    parse_payload,
)
from refimpl.wire.ack_set import ack_set
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, CompressionType, MessageMetadata, ServerError, SingleMessageMetadata

TOPIC = "persistent://public/default/numbers"
ASKED: dict[str, Any] = {
    "topic": TOPIC,
    "subscription": "s",
    "subType": "Exclusive",
    "consumer_id": 1,
    "request_id": 2,
    "initialPosition": "Earliest",
}
"""What `subscribe` says if it is not told otherwise."""
PUBLISH_TIME = 1_700_000_000_000
"""Milliseconds since 1970, of every entry: as many bytes as a real time has."""


@dataclass(frozen=True)
class Delivery:
    """An entry that a consumer was sent.

    Attributes:
        entry: Its number in the topic.
        messages: The texts of all its messages.
        wanted: Those that ack_set leaves open.
        ack_set: As in the frame.
        size: Bytes of the frame.
    """

    entry: int
    messages: list[str]
    wanted: list[str]
    ack_set: list[int]
    size: int


@dataclass(frozen=True)
class Cost:
    """What it costs to send entries to a consumer.

    Attributes:
        size: Bytes of the frames that it is sent.
        messages: In them, wanted or not.
        wanted: Those that match.
    """

    size: int
    messages: int
    wanted: int


def built(policy: MessageFilterPolicy, schemas: SchemaAccess = SchemaAccess()) -> MessageFilter:  # noqa: B008
    """Build the filter that a policy names.

    Raises:
        InvalidFilter: It can't be built.
    """
    return BUILT_IN_REGISTRY.build(policy.class_name, policy.properties, schemas)


def matches(policy: MessageFilterPolicy, payload: bytes, schemas: SchemaAccess = SchemaAccess()) -> bool:  # noqa: B008
    """Tell whether a payload that is not in a batch and names no schema version is wanted."""
    return built(policy, schemas).matches(Candidate(payload, MessageMetadata()))


def single(payload: str | bytes, compression: str = "NONE", **metadata: Any) -> bytes:
    """Return an entry with one message, not in a batch: checksum, metadata and body.

    Args:
        payload: Its bytes, or their text.
        compression: The name of a `CompressionType`.
        metadata: Further fields of its MessageMetadata.
    """
    return _entry(_bytes(payload), compression, metadata)


def batch(payloads: Iterable[str | bytes], compression: str = "NONE", **metadata: Any) -> bytes:
    """Return an entry that is a batch, even of one message; see `single`."""
    listed = [_bytes(payload) for payload in payloads]
    body = encode_batch(SingleMessage(SingleMessageMetadata(), one) for one in listed)
    return _entry(body, compression, {"num_messages_in_batch": len(listed), **metadata})


def cost(entries: Iterable[bytes], message_filter: MessageFilter | None = None) -> Cost:
    """Add up what a consumer with permits is sent.

    Args:
        entries: Made by `single` and `batch`.
        message_filter: Its filter; None: it has none.
    """
    size = messages = wanted = 0
    for index, entry in enumerate(entries):
        head: dict[str, Any] = {"consumer_id": 1, "message_id": {"ledgerId": 1, "entryId": index, "partition": -1}}
        count = max(parse_payload(entry).metadata.num_messages_in_batch, 1)
        if message_filter is not None:
            judgement = judge(message_filter, entry)
            wanted += judgement.accepted
            if judgement.outcome is EntryOutcome.REJECT:
                continue
            head["ack_set"] = ack_set(judgement.open_messages or ())
        size += len(encode_frame(command("message", **head), entry))
        messages += count
    return Cost(size, messages, wanted)


def meet(stage: Stage, policy: MessageFilterPolicy | None = None, **fields: Any) -> Stage:
    """Open a producer on connection p, and on connection c a consumer without permits of the new subscription s.

    Args:
        stage: Where.
        policy: The filter of the consumer; None: it has none.
        fields: Of SUBSCRIBE; see `subscribe`.

    Returns:
        The same stage.
    """
    stage.connect("p")
    stage.say("producer", "p", topic=TOPIC, producer_id=1, request_id=1, producer_name="p")
    stage.connect("c")
    subscribe(stage, policy, **fields)
    return stage


def subscribe(stage: Stage, policy: MessageFilterPolicy | None = None, at: str = "c", **fields: Any) -> str:
    """Let a consumer subscribe.

    Args:
        stage: Where.
        policy: Its filter; None: it has none.
        at: Its connection, which is open.
        fields: Of SUBSCRIBE, where they are others than for consumer 1 of the exclusive subscription s, from the beginning.

    Returns:
        `SUCCESS`, or the name of the error.
    """
    asked = dict(ASKED)
    if policy is not None:
        asked["filter_meta"] = policy.filter_meta()
    code = getattr(stage.say("subscribe", at, **{**asked, **fields})[0], "error", None)
    return "SUCCESS" if code is None else ServerError.Name(code)


def answer(name: str, properties: Mapping[str, str], **fields: Any) -> str:
    """Return `served`, or why a broker refuses a filter.

    Args:
        name: Of its class.
        properties: Its properties.
        fields: Further fields of SUBSCRIBE, such as `schema`.
    """
    meta = MessageFilterPolicy(name, properties).filter_meta()
    said = attempt(MessageFilterBroker().requested, CommandSubscribe(**ASKED, filter_meta=meta, **fields))
    return said.rpartition("is refused: ")[2] if "refused" in said else "served"


def given(request: CommandSubscribe) -> dict[str, Any]:
    """Return the fields of a request that are set, for `Stage.say`."""
    return {field.name: value for field, value in request.ListFields()}


def produce(stage: Stage, *entries: bytes) -> None:
    """Let the producer of `meet` send entries, made by `single` and `batch`."""
    for entry in entries:
        count = max(parse_payload(entry).metadata.num_messages_in_batch, 1)
        stage.send(encode_frame(command("send", producer_id=1, sequence_id=0, num_messages=count), entry), "p")


def flow(stage: Stage, permits: int, at: str = "c") -> list[Delivery]:
    """Let a consumer give permits, and return what comes."""
    before = len(stage.rows)
    stage.say("flow", at, consumer_id=1, messagePermits=permits)
    return received(stage.rows[before:], at)


def received(rows: Iterable[Row], at: str = "c") -> list[Delivery]:
    """Return what a connection was sent.

    Args:
        rows: What was said, such as `Stage.rows`.
        at: The connection.
    """
    return [_delivery(row.data) for row in rows if row.head == "MESSAGE" and row.at == at and row.data is not None]


def acknowledge(stage: Stage, entries: Iterable[int], at: str = "c") -> None:
    """Let a consumer acknowledge entries, one by one."""
    ids = [{"ledgerId": 1, "entryId": entry} for entry in entries]
    stage.say("ack", at, consumer_id=1, ack_type="Individual", message_id=ids)


def stats(stage: Stage, *names: str, subscription: str = "s") -> list[int]:
    """Return figures of a subscription, or of its first consumer, by their names in the topic's stats."""
    figures = stage.broker.admin.topic_stats(TOPIC)["subscriptions"][subscription]
    figures = {**next(iter(figures["consumers"]), {}), **figures}
    return [figures[name] for name in names]


def _delivery(data: bytes) -> Delivery:
    frame = decode_frame(data)
    texts = [message.payload.decode(errors="replace") for message in unpack(frame, "", -1, DEFAULT_MAX_MESSAGE_SIZE)]
    head = frame.command.message
    bits = open_messages(head.ack_set, len(texts))
    wanted = [text for index, text in enumerate(texts) if bits >> index & 1]
    return Delivery(head.message_id.entryId, texts, wanted, list(head.ack_set), len(data))


def _bytes(payload: str | bytes) -> bytes:
    return payload.encode() if isinstance(payload, str) else payload


def _entry(body: bytes, compression: str, fields: dict[str, Any]) -> bytes:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=PUBLISH_TIME)
    kind = CompressionType.Value(compression)
    if kind:
        metadata.MergeFrom(MessageMetadata(compression=compression, uncompressed_size=len(body)))
    metadata.MergeFrom(MessageMetadata(**fields))
    return encode_payload(metadata, compress(body, kind))
