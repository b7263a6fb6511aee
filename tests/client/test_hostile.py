"""A broker that says anything at any time: the client may leave it, and must neither raise nor hang."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from refimpl.client import Connection, ConsumerOptions, OutgoingMessage, ProducerOptions
from refimpl.proposals.topic_list import topics_hash
from refimpl.wire import FIELD_BY_TYPE, FrameDecoder, SingleMessage, command, command_name, encode_batch, encode_frame, encode_payload
from refimpl.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe, MessageMetadata, SingleMessageMetadata
from refimpl.wire.schema import fields_of, inner_message, is_repeated, required_fields
from tests.fakes.scripted_broker import URL, ScriptedBroker

NAMES = [
    "connected",
    "send_receipt",
    "send_error",
    "message",
    "success",
    "error",
    "close_producer",
    "close_consumer",
    "producer_success",
    "ping",
    "pong",
    "partitionMetadataResponse",
    "lookupTopicResponse",
    "reachedEndOfTopic",
    "getLastMessageIdResponse",
    "active_consumer_change",
    "getTopicsOfNamespaceResponse",
    "authChallenge",
    "ackResponse",
    "watchTopicListSuccess",
    "watchTopicUpdate",
    "topicMigrated",
]
RARE = ["connected", "authChallenge", "subscribe", "newTxnResponse"]
TEXTS = ["", URL, "persistent://public/default/rx-1", "persistent://public/default/rx-2-partition-0", "x", "00000000", "\U0001f600"]


def anything(choice: random.Random, message: Any, latest: int) -> Any:
    """Fill a message with values that are likely to mean something, and some that can't."""
    for field in fields_of(message).values():
        for _ in range(choice.choice((1, 1, 1, 2)) if is_repeated(field) else 1):
            value = _value(choice, field, message, latest)
            if is_repeated(field):
                inner = inner_message(field)
                if inner is None:
                    getattr(message, field.name).append(value)
                else:
                    anything(choice, getattr(message, field.name).add(), latest)
            elif inner_message(field) is not None:
                if field.name != "first_chunk_message_id":
                    anything(choice, getattr(message, field.name), latest)
            elif not (choice.random() < 0.3 and field.name not in _required(message)):
                setattr(message, field.name, value)
    return message


def _required(message: Any) -> set[str]:
    return {field.name for field in required_fields(message.DESCRIPTOR)}


def _value(choice: random.Random, field: Any, message: Any, latest: int) -> Any:
    if field.enum_type is not None:
        return choice.choice(list(field.enum_type.values_by_number))
    if field.type == FieldDescriptor.TYPE_STRING:
        return choice.choice(TEXTS)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return b"bytes"
    if field.type == FieldDescriptor.TYPE_BOOL:
        return choice.random() < 0.5
    if field.name == "request_id":
        return max(0, latest - choice.randrange(8))
    if field.name == "max_message_size":
        return choice.choice((-1, 0, 100, 5_000_000, 2**31 - 1))
    unsigned = field.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_UINT32)
    extreme = 2**32 - 1 if field.type == FieldDescriptor.TYPE_UINT32 else 2**31 - 1
    return choice.choice((0, 0, 1, 2, 7, extreme, 0 if unsigned else -1))


def payload(choice: random.Random) -> bytes | None:
    kind = choice.randrange(4)
    if kind == 0:
        return None
    if kind == 1:
        return choice.randbytes(choice.randrange(40))
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=0)
    if kind == 2:
        anything(choice, metadata, 0)
    return encode_payload(metadata, choice.randbytes(choice.randrange(60)), checksum=choice.choice(("valid", "invalid", "absent")))


def command_frame(choice: random.Random, latest: int) -> bytes:
    name = choice.choice(RARE) if choice.random() < 0.01 else choice.choice(NAMES[1:])
    number = next(number for number, field in FIELD_BY_TYPE.items() if field == name)
    base = BaseCommand(type=number)  # type: ignore[arg-type]
    getattr(base, name).SetInParent()
    anything(choice, getattr(base, name), latest)
    return encode_frame(base, payload(choice) if name == "message" else None)


class MoodyBroker:
    """Answers a connection of the client as it should, most of the time, and says something else now and then."""

    def __init__(self, choice: random.Random, connection: Connection) -> None:
        self._choice = choice
        self._connection = connection
        self._decoder = FrameDecoder()
        self._latest = 0
        self._entry = 0

    def turn(self, now: float) -> None:
        """Read what the client has sent and say something."""
        self._connection.opened(now)
        data = b""
        for frame in self._decoder.receive(self._connection.data_to_send(1 << 24)):
            if self._choice.random() < 0.97:
                data += b"".join(self._answer(frame.command))
        while self._choice.random() < 0.15:
            data += command_frame(self._choice, self._latest)
        if self._choice.random() < 0.005:
            data = data[: self._choice.randrange(len(data) + 1)] + self._choice.randbytes(5)
        self._connection.receive(data, now)
        if self._choice.random() < 0.01:
            self._connection.eof(now)

    def _answer(self, request: BaseCommand) -> Iterator[bytes]:
        name = command_name(request)
        inner = getattr(request, name)
        request_id = getattr(inner, "request_id", 0)
        self._latest = max(self._latest, request_id)
        if name == "connect":
            yield encode_frame(
                command("connected", server_version="s", protocol_version=21, feature_flags={"supports_topic_watchers": True})
            )
        elif name == "lookupTopic":
            yield encode_frame(command("lookupTopicResponse", request_id=request_id, response="Connect", brokerServiceUrl=URL))
        elif name == "partitionMetadata":
            yield encode_frame(command("partitionMetadataResponse", request_id=request_id, partitions=0, response="Success"))
        elif name == "producer":
            yield encode_frame(command("producer_success", request_id=request_id, producer_name="p"))
        elif name == "send":
            ids = {"producer_id": inner.producer_id, "sequence_id": inner.sequence_id}
            yield encode_frame(command("send_receipt", message_id={"ledgerId": 1, "entryId": inner.sequence_id}, **ids))
        elif name == "flow":
            for _ in range(min(inner.messagePermits, 40) // 4):
                self._entry += 1
                yield self._message(inner.consumer_id)
        elif name == "getTopicsOfNamespace":
            topics = ["persistent://public/default/rx-1"]
            answer = {"topics": topics, "filtered": True, "topics_hash": topics_hash(topics)}
            yield encode_frame(command("getTopicsOfNamespaceResponse", request_id=request_id, **answer))
        elif name == "watchTopicList":
            answer = {"watcher_id": inner.watcher_id, "topics_hash": inner.topics_hash}
            yield encode_frame(command("watchTopicListSuccess", request_id=request_id, **answer))
        elif name == "ping":
            yield encode_frame(command("pong"))
        elif name in ("subscribe", "seek", "close_consumer", "close_producer", "watchTopicListClose"):
            yield encode_frame(command("success", request_id=request_id))

    def _message(self, consumer_id: int) -> bytes:
        data = payload(self._choice)
        if self._choice.random() < 0.7:
            size = self._choice.randrange(1, 4)
            metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=0, num_messages_in_batch=size)
            data = encode_payload(metadata, encode_batch([SingleMessage(SingleMessageMetadata(), b"x")] * size))
        message_id = {"ledgerId": 3, "entryId": self._entry}
        return encode_frame(command("message", consumer_id=consumer_id, message_id=message_id), data)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_a_broker_says_the_client_lives_and_can_be_closed(seed: int) -> None:
    choice = random.Random(seed)
    broker = ScriptedBroker()
    core = broker.core
    with core.entered(0.0):
        creating = core.create_producer("t", ProducerOptions(max_pending_messages=5))
        subscribing = core.subscribe("t", ConsumerOptions("s", type=choice.choice((0, 1, 2)), queue_size=10))
        core.subscribe("t", ConsumerOptions("r", durable=False, queue_size=8))
        core.subscribe_pattern("rx-.*", ConsumerOptions("s", initial_position=CommandSubscribe.Earliest), discovery_period=5.0)
    live: dict[Connection, MoodyBroker] = {}
    for _ in range(300):
        live.update({connection: MoodyBroker(choice, connection) for connection in core.connections_to_open()})
        for connection, peer in list(live.items()):
            peer.turn(broker.now)
            if connection.closing:
                del live[connection]
        broker.wait(choice.choice((0.0, 0.05, 0.5, 3.0)))
        use(choice, broker, creating, subscribing)
    closing = broker.begin(core.close)
    broker.wait(200.0)
    assert closing.done
    assert all(connection.closing for connection in live)
    assert creating.done
    assert subscribing.done
    assert core.next_deadline() is None


def use(choice: random.Random, broker: ScriptedBroker, creating: Any, subscribing: Any) -> None:
    core = broker.core
    with core.entered(broker.now):
        if creating.done and creating.error is None and creating.value().error is None:
            producer = creating.value()
            message = OutgoingMessage(b"x" * choice.randrange(200))
            if producer.route(message).has_room:
                producer.members[0].send(message)
        if subscribing.done and subscribing.error is None and subscribing.value().error is None:
            group = subscribing.value()
            while group.error is None and (message := group.take()) is not None:
                choice.choice((group.acknowledge, group.negative_acknowledge))(message)
            if choice.random() < 0.05 and group.error is None:
                core.scheduler.spawn(group.seek(0))
