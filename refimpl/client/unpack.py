"""Decodes a MESSAGE frame into messages: checks the checksum, decompresses the body, splits the batch."""

from __future__ import annotations

from collections.abc import Sequence

from refimpl.client.messages import Message, MessageId
from refimpl.wire import Frame, Payload, WireError, checksum_matches, decode_batch, decompress, is_batch
from refimpl.wire.pulsar_api_pb2 import CommandAck, KeyValue, MessageMetadata, SingleMessageMetadata

_WORD = 64


class Corrupt(Exception):
    """An entry that can't be read.

    Attributes:
        validation_error: A `CommandAck.ValidationError` for its acknowledgement, so that the broker does not redeliver it forever.
    """

    def __init__(self, validation_error: int, reason: str) -> None:
        super().__init__(reason)
        self.validation_error = validation_error


def open_messages(ack_set: Sequence[int], batch_size: int) -> int:
    """Return which messages of a batch are still open.

    Args:
        ack_set: Signed words of 64 bits, as in CommandMessage; a set bit is an open message. Empty: all are open.
        batch_size: Number of messages in the batch.

    Returns:
        The bits as one number.
    """
    everything = (1 << batch_size) - 1
    if not ack_set:
        return everything
    bits = sum((word % (1 << _WORD)) << (_WORD * index) for index, word in enumerate(ack_set))
    return bits & everything


def unpack(frame: Frame, topic: str, partition: int, max_size: int) -> list[Message]:
    """Decode the messages of an entry.

    Args:
        frame: A frame with a MESSAGE.
        topic: The topic.
        partition: The partition index; -1: the topic is not a partition.
        max_size: Maximum size of the decompressed body, in bytes.

    Returns:
        All messages in order, including acknowledged ones; the body of an encrypted message is unchanged.

    Raises:
        Corrupt: It can't be read.
    """
    command = frame.command.message
    if frame.payload_bytes is not None and checksum_matches(frame.payload_bytes) is False:
        raise Corrupt(CommandAck.ChecksumMismatch, "the checksum is wrong")
    try:
        payload = frame.payload()
    except WireError as error:
        raise Corrupt(CommandAck.BatchDeSerializeError, f"the headers can't be read: {error}") from None
    metadata = payload.metadata
    message_id = MessageId.from_wire(command.message_id, partition)
    if metadata.encryption_keys:
        return [_single(message_id, topic, payload.body, metadata, command.redelivery_count)]
    body = _decompressed(payload, max_size)
    if not is_batch(metadata):
        return [_single(message_id, topic, body, metadata, command.redelivery_count)]
    try:
        singles = decode_batch(body, metadata.num_messages_in_batch)
    except WireError as error:
        raise Corrupt(CommandAck.BatchDeSerializeError, f"the batch can't be read: {error}") from None
    return [
        _batched(message_id, index, len(singles), topic, single.body, metadata, single.metadata, command.redelivery_count)
        for index, single in enumerate(singles)
    ]


def _decompressed(payload: Payload, max_size: int) -> bytes:
    metadata = payload.metadata
    try:
        return decompress(payload.body, metadata.compression, metadata.uncompressed_size, limit=max_size)
    except WireError as error:
        too_large = metadata.uncompressed_size > max_size
        kind = CommandAck.UncompressedSizeCorruption if too_large else CommandAck.DecompressionError
        raise Corrupt(kind, error.reason) from None


def _single(message_id: MessageId, topic: str, body: bytes, metadata: MessageMetadata, redelivery_count: int) -> Message:
    return Message(
        id=MessageId(message_id.ledger_id, message_id.entry_id, partition=message_id.partition),
        topic=topic,
        payload=body,
        properties=_properties(metadata.properties),
        key=metadata.partition_key if metadata.HasField("partition_key") else None,
        publish_time=metadata.publish_time,
        event_time=metadata.event_time,
        producer_name=metadata.producer_name,
        sequence_id=metadata.sequence_id,
        redelivery_count=redelivery_count,
        metadata=metadata,
    )


def _batched(
    entry: MessageId,
    index: int,
    size: int,
    topic: str,
    body: bytes,
    metadata: MessageMetadata,
    single: SingleMessageMetadata,
    redelivery_count: int,
) -> Message:
    return Message(
        id=MessageId(entry.ledger_id, entry.entry_id, index, entry.partition, size),
        topic=topic,
        payload=body,
        properties=_properties(single.properties),
        key=single.partition_key if single.HasField("partition_key") else None,
        publish_time=metadata.publish_time,
        event_time=single.event_time,
        producer_name=metadata.producer_name,
        sequence_id=single.sequence_id if single.HasField("sequence_id") else metadata.sequence_id + index,
        redelivery_count=redelivery_count,
        metadata=metadata,
    )


def _properties(pairs: Sequence[KeyValue]) -> dict[str, str]:
    return {pair.key: pair.value for pair in pairs}
