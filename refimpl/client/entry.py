"""Encodes messages as an entry: a single message, or a batch; or a large message as several entries, its chunks."""

from __future__ import annotations

from dataclasses import dataclass, field

from refimpl.client.messages import MessageId, OutgoingMessage
from refimpl.client.scheduler import Pending
from refimpl.proposals.uniform_batches import Batch, write_header
from refimpl.wire import SingleMessage, compress, encode_batch, encode_payload
from refimpl.wire.pulsar_api_pb2 import NONE, KeyValue, MessageMetadata, SingleMessageMetadata

_OVERHEAD = 16
"""Estimated size of a message's header in a batch, without properties and key, in bytes."""


@dataclass(frozen=True)
class Queued:
    """A message that `send` has accepted.

    Attributes:
        message: The message.
        sequence_id: Its sequence id.
        receipt: The pending receipt.
        expires: When it fails without a receipt, in seconds; infinite: never.
    """

    message: OutgoingMessage
    sequence_id: int
    receipt: Pending[MessageId]
    expires: float

    @property
    def size(self) -> int:
        """Return its estimated size in a batch, in bytes."""
        properties = sum(len(key) + len(value) + 6 for key, value in self.message.properties.items())
        return len(self.message.payload) + properties + len(self.message.key or "") + _OVERHEAD


@dataclass(frozen=True)
class Entry:
    """The content of one SEND, or of several with the chunks of one message.

    Attributes:
        queued: The messages.
        payload: The bytes after the command.
        header_bytes: Size of the header in these bytes.
        is_batch: Whether it is a batch, even of one message.
        further: The bytes of the other chunks.
        stored: The ids of the chunks that have their receipts.
    """

    queued: list[Queued]
    payload: bytes
    header_bytes: int
    is_batch: bool
    further: tuple[bytes, ...] = ()
    stored: list[MessageId] = field(default_factory=list)

    @property
    def sequence_id(self) -> int:
        """Return the sequence id of its first message, which identifies the entry."""
        return self.queued[0].sequence_id

    @property
    def payloads(self) -> tuple[bytes, ...]:
        """Return the bytes of each SEND."""
        return (self.payload, *self.further)

    @property
    def size(self) -> int:
        """Return the bytes of its largest SEND."""
        return max(map(len, self.payloads))

    def fail(self, error: Exception) -> None:
        """Fail its messages."""
        for one in self.queued:
            one.receipt.fail(error)

    def confirm(self, message_id: MessageId) -> bool:
        """Note a receipt; complete its messages with their ids once it is the last one. Return whether it is."""
        self.stored.append(message_id)
        if len(self.stored) < len(self.payloads):
            return False
        size = len(self.queued)
        chunks = tuple(one.position for one in self.stored[:-1])
        for index, one in enumerate(self.queued):
            in_batch = (index, message_id.partition, size) if self.is_batch else (-1, message_id.partition, 0)
            one.receipt.succeed(MessageId(message_id.ledger_id, message_id.entry_id, *in_batch, chunks))
        return True


def encode_entry(
    batch: Batch[Queued],
    producer_name: str,
    publish_time: int,
    compression: int,
    schema_version: bytes = b"",
    chunk_bytes: int | None = None,
) -> Entry:
    """Encode messages.

    Args:
        batch: At least one message. `UniformBatcher` decides whether to write a single message as a batch.
        producer_name: The producer's name at the broker.
        publish_time: Milliseconds since 1970.
        compression: A `CompressionType`.
        schema_version: The version of the messages' schema at the broker; empty: there is no schema.
        chunk_bytes: The largest size of header and body; a larger message that is no batch is split into chunks. None: none is split.

    Returns:
        The entry.
    """
    queued = list(batch.items)
    first = queued[0].message
    metadata = MessageMetadata(producer_name=producer_name, sequence_id=queued[0].sequence_id, publish_time=publish_time)
    if first.key is not None:
        metadata.partition_key = first.key
    version = first.schema_version if first.schema_version is not None else schema_version
    if version:
        metadata.schema_version = version
    if first.transaction is not None:
        metadata.txnid_most_bits, metadata.txnid_least_bits = first.transaction
    if not batch.is_batch:
        body = first.payload
        metadata.properties.extend(_properties(first))
        if first.event_time is not None:
            metadata.event_time = first.event_time
        if first.deliver_at is not None:
            metadata.deliver_at_time = first.deliver_at
    else:
        body = encode_batch(_single(one) for one in queued)
        write_header(metadata, batch)
        metadata.highest_sequence_id = queued[-1].sequence_id
    metadata.uncompressed_size = len(body)
    if compression != NONE:
        metadata.compression = compression  # type: ignore[assignment]
        body = compress(body, compression)
    payload = encode_payload(metadata, body)
    header_bytes = len(payload) - len(body)
    further: tuple[bytes, ...] = ()
    if chunk_bytes is not None and len(payload) > chunk_bytes and not batch.is_batch:
        payload, *rest = _chunks(metadata, body, chunk_bytes) or [payload]
        further = tuple(rest)
    return Entry(queued, payload, header_bytes, batch.is_batch, further)


def _chunks(metadata: MessageMetadata, body: bytes, size: int) -> list[bytes]:
    """Return a message in parts that have at most so many bytes with their headers; none if a header leaves no room."""
    metadata.uuid = f"{metadata.producer_name}-{metadata.sequence_id}"
    metadata.total_chunk_msg_size = metadata.num_chunks_from_msg = metadata.chunk_id = len(body)  # as long as they can be
    room = size - len(encode_payload(metadata, b""))
    if room <= 0:
        return []
    starts = range(0, len(body), room)
    metadata.num_chunks_from_msg = len(starts)
    chunks = []
    for number, start in enumerate(starts):
        metadata.chunk_id = number
        chunks.append(encode_payload(metadata, body[start : start + room]))
    return chunks


def _single(queued: Queued) -> SingleMessage:
    message = queued.message
    metadata = SingleMessageMetadata(properties=_properties(message), sequence_id=queued.sequence_id)
    if message.key is not None:
        metadata.partition_key = message.key
    if message.event_time is not None:
        metadata.event_time = message.event_time
    return SingleMessage(metadata, message.payload)


def _properties(message: OutgoingMessage) -> list[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in message.properties.items()]
