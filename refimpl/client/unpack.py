"""Decodes a MESSAGE frame into messages: checks the checksum, decompresses the body, splits the batch. Chunks stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from refimpl.client.messages import Message, MessageId
from refimpl.wire import Frame, WireError, checksum_matches, decode_batch, decompress, is_batch
from refimpl.wire.pulsar_api_pb2 import CommandAck, MessageMetadata, SingleMessageMetadata

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


def is_chunk(metadata: MessageMetadata) -> bool:
    """Return whether an entry has only a part of a message. Chunks that are encrypted remain as they are."""
    return metadata.num_chunks_from_msg > 1 and bool(metadata.uuid) and not metadata.encryption_keys


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
    message_id = replace(MessageId.from_wire(command.message_id, partition), batch_index=-1, batch_size=0)
    if metadata.encryption_keys or is_chunk(metadata):  # the message of a chunk is compressed as a whole
        return [_message(message_id, topic, payload.body, metadata, None, command.redelivery_count)]
    body = decompressed(payload.body, metadata, max_size)
    if not is_batch(metadata):
        return [_message(message_id, topic, body, metadata, None, command.redelivery_count)]
    try:
        singles = decode_batch(body, metadata.num_messages_in_batch)
    except WireError as error:
        raise Corrupt(CommandAck.BatchDeSerializeError, f"the batch can't be read: {error}") from None
    ids = [replace(message_id, batch_index=index, batch_size=len(singles)) for index in range(len(singles))]
    return [
        _message(own_id, topic, single.body, metadata, single.metadata, command.redelivery_count)
        for own_id, single in zip(ids, singles, strict=True)
    ]


def decompressed(body: bytes, metadata: MessageMetadata, max_size: int) -> bytes:
    """Decompress a body, as its header says.

    Raises:
        Corrupt: It can't be read.
    """
    try:
        return decompress(body, metadata.compression, metadata.uncompressed_size, limit=max_size)
    except WireError as error:
        too_large = metadata.uncompressed_size > max_size
        kind = CommandAck.UncompressedSizeCorruption if too_large else CommandAck.DecompressionError
        raise Corrupt(kind, error.reason) from None


def _message(
    message_id: MessageId, topic: str, body: bytes, metadata: MessageMetadata, single: SingleMessageMetadata | None, redelivery_count: int
) -> Message:
    """Return a message of an entry; `single` is its own header if the entry is a batch."""
    own = metadata if single is None else single
    return Message(
        id=message_id,
        topic=topic,
        payload=body,
        properties={pair.key: pair.value for pair in own.properties},
        key=own.partition_key if own.HasField("partition_key") else None,
        publish_time=metadata.publish_time,
        event_time=own.event_time,
        producer_name=metadata.producer_name,
        sequence_id=own.sequence_id if own.HasField("sequence_id") else metadata.sequence_id + message_id.batch_index,
        redelivery_count=redelivery_count,
        metadata=metadata,
    )
