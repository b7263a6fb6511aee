"""A conversation of two connections that speaks of all that monitors judge, and keeps it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from google.protobuf.message import Message

from conformance.monitors import Breach, Monitors
from refimpl.indexes.topics_hash import topics_hash
from refimpl.wire import Frame, SingleMessage, compress, decode_frame, encode_batch, encode_frame, encode_payload, wrap
from refimpl.wire import pulsar_api_pb2 as pb

TOPIC = "persistent://public/default/t"
A, B, C = (f"persistent://public/default/{letter}" for letter in "abc")
SCALABLE = [f"topic://public/default/{letter}" for letter in "abc"]
FLAGS = (
    "supports_topic_watchers",
    "supports_topic_watcher_reconcile",
    "supports_scalable_topics",
    "supports_tc_metadata_discovery",
    "supports_partition_update_watchers",
    "supports_message_filter",
)


@dataclass(eq=False)
class Line:
    """A frame of a conversation; its message may be changed until `frame` is called."""

    connection: str
    direction: str
    message: Message
    payload: bytes | None = None
    time: float = 0.0

    @property
    def name(self) -> str:
        return type(self.message).__name__.removeprefix("Command")

    def frame(self) -> Frame:
        return decode_frame(encode_frame(wrap(self.message), self.payload))


@dataclass
class Talk:
    """A conversation, and how it is changed."""

    lines: list[Line] = field(default_factory=list)

    def say(self, connection: str, direction: str, message: Message, payload: bytes | None = None) -> Line:
        self.lines.append(Line(connection, direction, message, payload))
        return self.lines[-1]

    def find(self, name: str, number: int = 0) -> Line:
        return [line for line in self.lines if line.name == name][number]

    def drop(self, line: Line) -> None:
        self.lines.remove(line)

    def after(self, line: Line, message: Message, payload: bytes | None = None, direction: str | None = None) -> Line:
        new = Line(line.connection, direction or line.direction, message, payload)
        self.lines.insert(self.lines.index(line) + 1, new)
        return new

    def again(self, line: Line) -> Line:
        """Let a line come twice."""
        copy = type(line.message)()
        copy.CopyFrom(line.message)
        return self.after(line, copy, line.payload)

    def timed(self) -> list[Line]:
        """Return the lines, a hundredth of a second apart unless they say otherwise."""
        now = 0.0
        for line in self.lines:
            now = max(now + 0.01, line.time)
            line.time = now
        return self.lines

    def judged(self, monitors: Monitors | None = None) -> list[Breach]:
        """Let monitors hear it."""
        hearing = monitors or Monitors(whole=True)
        found = [one for line in self.timed() for one in hearing.frame(line.connection, line.direction, line.frame(), line.time)]  # type: ignore[arg-type]
        return found + hearing.ended()


def entry(
    texts: Sequence[str],
    properties: Sequence[dict[str, str]] | None = None,
    header: Sequence[tuple[str, str]] = (),
    *,
    compression: int = pb.NONE,
    change: Callable[[pb.MessageMetadata], object] | None = None,
    checksum: str = "valid",
    **metadata: object,
) -> bytes:
    """Return the payload of a batch with these texts."""
    found = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **metadata)  # type: ignore[arg-type]
    found.properties.extend(pb.KeyValue(key=key, value=value) for key, value in header)
    found.num_messages_in_batch = len(texts)
    singles = []
    for text, own in zip(texts, properties or [{}] * len(texts), strict=True):
        single = pb.SingleMessageMetadata(payload_size=len(text.encode()))
        single.properties.extend(pb.KeyValue(key=key, value=value) for key, value in own.items())
        singles.append(SingleMessage(single, text.encode()))
    body = encode_batch(singles)
    if compression != pb.NONE:
        found.compression, found.uncompressed_size = compression, len(body)  # type: ignore[assignment]
        body = compress(body, compression)
    if change is not None:
        change(found)
    return encode_payload(found, body, checksum=checksum)  # type: ignore[arg-type]


def single(text: str = "m", checksum: str = "valid", **metadata: object) -> bytes:
    """Return the payload of one message that is no batch."""
    found = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **metadata)  # type: ignore[arg-type]
    return encode_payload(found, text.encode(), checksum=checksum)  # type: ignore[arg-type]


def entry_id(number: int) -> pb.MessageIdData:
    """Return the id of an entry."""
    return pb.MessageIdData(ledgerId=5, entryId=number)


def counts(**topics: int) -> list[pb.TopicWithPartition]:
    """Return counts of partitions."""
    return [pb.TopicWithPartition(topic=topic, partition=count) for topic, count in topics.items()]


def conversation() -> Talk:
    """Return a conversation that keeps all clauses which monitors judge, and has something to say of each."""
    talk = Talk()

    def client(message: Message, payload: bytes | None = None) -> Line:
        return talk.say("1", "->", message, payload)

    def broker(message: Message, payload: bytes | None = None) -> Line:
        return talk.say("1", "<-", message, payload)

    flags = pb.FeatureFlags(**dict.fromkeys(FLAGS, True))
    client(pb.CommandConnect(client_version="test", protocol_version=21))
    broker(pb.CommandConnected(server_version="test", protocol_version=21, feature_flags=flags))
    client(pb.CommandPartitionedTopicMetadata(topic=TOPIC, request_id=1))
    client(pb.CommandProducer(topic=TOPIC, producer_id=0, request_id=1))  # another kind may have the same id
    broker(pb.CommandPartitionedTopicMetadataResponse(request_id=1, partitions=0, response="Success"))  # type: ignore[arg-type]
    broker(pb.CommandProducerSuccess(request_id=1, producer_name="p", producer_ready=False))
    broker(pb.CommandProducerSuccess(request_id=1, producer_name="p"))
    us, eu = {"region": "us", "n": "1"}, {"region": "eu"}
    sent = [
        client(pb.CommandSend(producer_id=0, sequence_id=0), single()),
        client(
            pb.CommandSend(producer_id=0, sequence_id=1, num_messages=3, highest_sequence_id=3), entry("abc", [us] * 3, [("region", "us")])
        ),
        client(pb.CommandSend(producer_id=0, sequence_id=4, num_messages=2), entry("de", [eu] * 2, [("region", "eu")], compression=pb.LZ4)),
        client(pb.CommandSend(producer_id=0, sequence_id=6, is_chunk=True), single(uuid="u", chunk_id=0, num_chunks_from_msg=2)),
        client(pb.CommandSend(producer_id=0, sequence_id=6, is_chunk=True), single(uuid="u", chunk_id=1, num_chunks_from_msg=2)),
    ]
    for number, line in enumerate(sent):
        broker(pb.CommandSendReceipt(producer_id=0, sequence_id=line.message.sequence_id, message_id=entry_id(number)))  # type: ignore[attr-defined]
    client(pb.CommandSubscribe(topic=TOPIC, subscription="s", subType="Shared", consumer_id=0, request_id=2))  # type: ignore[arg-type]
    broker(pb.CommandSuccess(request_id=2))
    client(pb.CommandFlow(consumer_id=0, messagePermits=2))
    broker(pb.CommandMessage(consumer_id=0, message_id=entry_id(0)), sent[0].payload)
    broker(pb.CommandMessage(consumer_id=0, message_id=entry_id(1)), sent[1].payload)  # three messages for the one permit that is left
    client(pb.CommandFlow(consumer_id=0, messagePermits=3))
    broker(pb.CommandMessage(consumer_id=0, message_id=entry_id(2)), sent[2].payload)
    client(pb.CommandAck(consumer_id=0, ack_type="Individual", message_id=[entry_id(1)]))  # type: ignore[arg-type]
    client(pb.CommandAck(consumer_id=0, ack_type="Cumulative", message_id=[entry_id(2)], request_id=3))  # type: ignore[arg-type]
    broker(pb.CommandAckResponse(consumer_id=0, request_id=3))
    client(pb.CommandGetTopicsOfNamespace(request_id=4, namespace="public/default"))
    broker(pb.CommandGetTopicsOfNamespaceResponse(request_id=4, topics=[B, A], topics_hash=topics_hash([A, B])))
    client(
        pb.CommandWatchTopicList(
            request_id=5, watcher_id=0, namespace="public/default", topics_pattern=".*", topics_hash=topics_hash([A, B])
        )
    )
    broker(pb.CommandWatchTopicListSuccess(request_id=5, watcher_id=0, topics_hash=topics_hash([A, B])))
    broker(pb.CommandWatchTopicUpdate(watcher_id=0, new_topics=[C], topics_hash=topics_hash([A, B, C])))
    broker(pb.CommandWatchTopicUpdate(watcher_id=0, deleted_topics=[A], topics_hash=topics_hash([B, C])))
    client(pb.CommandWatchTopicList(request_id=6, watcher_id=0, namespace="public/default", topics_pattern=".*", topics_hash="00000000"))
    broker(pb.CommandWatchTopicListSuccess(request_id=6, watcher_id=0, topic=[C, B], topics_hash=topics_hash([B, C])))
    client(pb.CommandWatchPartitionUpdate(request_id=7, watcher_id=0, topics=[TOPIC]))
    broker(pb.CommandWatchPartitionUpdateSuccess(request_id=7, watcher_id=0, topic_with_partition=counts(t=2)))
    broker(pb.CommandPartitionUpdate(version=1, watcher_id=0, topic_with_partition=counts(t=3)))
    client(pb.CommandPartitionUpdateResult(version=1, watcher_id=0, success=False))
    broker(pb.CommandPartitionUpdate(version=1, watcher_id=0, topic_with_partition=counts(t=3)))
    client(pb.CommandPartitionUpdateResult(version=1, watcher_id=0, success=True))
    broker(pb.CommandPartitionUpdate(version=2, watcher_id=0, topic_with_partition=counts(t=4)))
    client(pb.CommandPartitionUpdateResult(version=2, watcher_id=0, success=True))
    client(pb.CommandWatchScalableTopics(watch_id=0, namespace="public/default"))
    broker(pb.CommandWatchScalableTopicsUpdate(watch_id=0, snapshot=pb.ScalableTopicsSnapshot(topics=SCALABLE[:2])))
    broker(pb.CommandWatchScalableTopicsUpdate(watch_id=0, diff=pb.ScalableTopicsDiff(removed=SCALABLE[:1], added=SCALABLE[2:])))
    client(pb.CommandWatchTcAssignments(watch_id=0))
    broker(pb.CommandPing())
    client(pb.CommandPong())
    client(pb.CommandPing())
    broker(pb.CommandPong())
    client(pb.CommandWatchTopicListClose(request_id=8, watcher_id=0))
    broker(pb.CommandSuccess(request_id=8))
    client(pb.CommandCloseProducer(producer_id=0, request_id=9))
    broker(pb.CommandSuccess(request_id=9))
    # after a reconnect
    talk.say("2", "->", pb.CommandConnect(client_version="test", protocol_version=21))
    talk.say("2", "<-", pb.CommandConnected(server_version="test", protocol_version=21, feature_flags=flags))
    talk.say("2", "->", pb.CommandAck(consumer_id=0, ack_type="Individual", message_id=[entry_id(0)]))  # type: ignore[arg-type]
    talk.say("2", "->", pb.CommandWatchScalableTopics(watch_id=0, namespace="public/default", current_hash=topics_hash(SCALABLE[1:])))
    meta = pb.FilterMeta(filter_class_name="F")
    asked = pb.CommandSubscribe(topic=TOPIC, subscription="s", subType="Shared", consumer_id=0, request_id=1, filter_meta=meta)  # type: ignore[arg-type]
    talk.say("2", "->", asked)
    talk.say("2", "<-", pb.CommandError(request_id=1, error="NotAllowedError", message="no"))  # type: ignore[arg-type]
    return talk
