"""Messages and their ids, as the application sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from refimpl.wire.pulsar_api_pb2 import MessageIdData, MessageMetadata

_U64 = 1 << 64
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True, order=True)
class MessageId:
    """Where a message stands. Ids of one topic are ordered as its messages are.

    Attributes:
        ledger_id: -1 for `EARLIEST`.
        entry_id: -1 for `EARLIEST`, and for the last message of an empty topic.
        batch_index: Place inside its batch, from 0; -1: it is in none.
        partition: Number of its partition; -1: the topic has none.
        batch_size: Messages in its batch; 0: it is in none.
    """

    ledger_id: int
    entry_id: int
    batch_index: int = -1
    partition: int = field(default=-1, compare=False)
    batch_size: int = field(default=0, compare=False)

    @property
    def position(self) -> tuple[int, int]:
        """Return what the broker stores as one: ledger and entry."""
        return self.ledger_id, self.entry_id

    def to_wire(self, *, batch_index: bool = True) -> MessageIdData:
        """Write it for a command.

        Args:
            batch_index: Whether to name the place inside the batch, not only the entry.
        """
        data = MessageIdData(ledgerId=self.ledger_id % _U64, entryId=self.entry_id % _U64)
        if self.partition >= 0:
            data.partition = self.partition
        if batch_index and self.batch_index >= 0:
            data.batch_index = self.batch_index
        return data

    @staticmethod
    def from_wire(data: MessageIdData, partition: int = -1) -> MessageId:
        """Read it from a command; `partition` stands in if it names none."""
        number = data.partition if data.partition >= 0 else partition
        return MessageId(_signed(data.ledgerId), _signed(data.entryId), data.batch_index, number, max(data.batch_size, 0))

    def __str__(self) -> str:
        text = f"{self.ledger_id}:{self.entry_id}:{self.partition}"
        return text if self.batch_index < 0 else f"{text}:{self.batch_index}"


EARLIEST = MessageId(-1, -1)
"""Before the first message of a topic."""

LATEST = MessageId(_LARGEST, _LARGEST)
"""After the last message of a topic."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message that was received.

    Attributes:
        id: Where it stands.
        topic: The full name of its topic, or of its partition.
        payload: The message itself.
        properties: What the producer said about it.
        key: Its key, or None.
        publish_time: Milliseconds since 1970, by the producer's clock.
        event_time: Milliseconds since 1970, given by the application; 0: none.
        producer_name: Who sent it.
        sequence_id: The producer's number for it.
        redelivery_count: How often it was delivered before, as far as the broker counts.
        metadata: The header of the entry that holds it.
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
    """A message to be sent.

    Attributes:
        payload: The message itself.
        properties: What to say about it.
        key: Messages with the same key go to the same partition.
        event_time: Milliseconds since 1970; None: none.
        deliver_at: Milliseconds since 1970 before which shared subscriptions do not get it; such a message is not batched.
        schema_version: Of the schema that it was written with, as the broker names it; None: none. A batch has one.
        transaction: Most and least significant 64 bits of the id of the transaction that it belongs to; None: none. A batch has one.
    """

    payload: bytes
    properties: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    event_time: int | None = None
    deliver_at: int | None = None
    schema_version: bytes | None = None
    transaction: tuple[int, int] | None = None


def _signed(number: int) -> int:
    return number - _U64 if number > _LARGEST else number
