"""Messages and message ids for the application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from refimpl.wire.pulsar_api_pb2 import MessageIdData, MessageMetadata

_U64 = 1 << 64
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True, order=True)
class MessageId:
    """The id of a message. Ids of one topic have the order of its messages.

    Attributes:
        ledger_id: -1 for `EARLIEST`.
        entry_id: -1 for `EARLIEST`, and for the last message of an empty topic.
        batch_index: The index in its batch, from 0; -1: it is not in a batch.
        partition: The partition index; -1: the topic is not partitioned.
        batch_size: Number of messages in its batch; 0: it is not in a batch.
        chunks: Ledger and entry of the chunks before its last one; empty: it is in one entry.
    """

    ledger_id: int
    entry_id: int
    batch_index: int = -1
    partition: int = field(default=-1, compare=False)
    batch_size: int = field(default=0, compare=False)
    chunks: tuple[tuple[int, int], ...] = field(default=(), compare=False)

    @property
    def position(self) -> tuple[int, int]:
        """Return the ledger id and the entry id, which identify the stored entry; of a message in chunks, its last one."""
        return self.ledger_id, self.entry_id

    @property
    def entries(self) -> tuple[MessageId, ...]:
        """Return the ids of the entries that have the message: several, if it came in chunks."""
        return (*(MessageId(*position, partition=self.partition) for position in self.chunks), replace(self, chunks=()))

    def to_wire(self, *, batch_index: bool = True) -> MessageIdData:
        """Convert it for a command.

        Args:
            batch_index: Whether to include the batch index.
        """
        message_id = MessageIdData(ledgerId=self.ledger_id % _U64, entryId=self.entry_id % _U64)
        if self.partition >= 0:
            message_id.partition = self.partition
        if batch_index and self.batch_index >= 0:
            message_id.batch_index = self.batch_index
        return message_id

    @staticmethod
    def from_wire(sent: MessageIdData, partition: int = -1) -> MessageId:
        """Convert it from a command; `partition` is the default if it names no partition."""
        number = sent.partition if sent.partition >= 0 else partition
        return MessageId(_signed(sent.ledgerId), _signed(sent.entryId), sent.batch_index, number, max(sent.batch_size, 0))

    def __str__(self) -> str:
        text = f"{self.ledger_id}:{self.entry_id}:{self.partition}"
        return text if self.batch_index < 0 else f"{text}:{self.batch_index}"


EARLIEST = MessageId(-1, -1)
"""Before the first message of a topic."""

LATEST = MessageId(_LARGEST, _LARGEST)
"""After the last message of a topic."""


@dataclass(frozen=True, slots=True)
class Message:
    """A received message.

    Attributes:
        id: The message id.
        topic: The full name of the topic or of the partition.
        payload: The payload.
        properties: The properties.
        key: The key, or None.
        publish_time: Milliseconds since 1970, by the producer's clock.
        event_time: Milliseconds since 1970, given by the application; 0: none.
        producer_name: The name of the producer.
        sequence_id: The sequence id that the producer gave it.
        redelivery_count: How often the broker has delivered it before, if the broker counts that.
        metadata: The header of its entry.
    """

    id: MessageId
    topic: str
    payload: bytes
    properties: Mapping[str, str]
    key: str | None
    publish_time: int
    event_time: int
    producer_name: str
    sequence_id: int
    redelivery_count: int
    metadata: MessageMetadata = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message to send.

    Attributes:
        payload: The payload.
        properties: The properties.
        key: Messages with the same key go to the same partition.
        event_time: Milliseconds since 1970; None: none.
        deliver_at: Milliseconds since 1970; shared subscriptions receive it at this time or later. Such a message is not batched.
        schema_version: The version of its schema at the broker; None: none. All messages of a batch share it.
        transaction: The most and least significant 64 bits of its transaction id; None: none. All messages of a batch share it.
        sequence_id: Its sequence id, above those before it; None: the next one.
    """

    payload: bytes
    properties: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    event_time: int | None = None
    deliver_at: int | None = None
    schema_version: bytes | None = None
    transaction: tuple[int, int] | None = None
    sequence_id: int | None = None


def _signed(number: int) -> int:
    return number - _U64 if number > _LARGEST else number
