"""Acknowledgements inside batches: the client acknowledges an entry once all its messages are acknowledged."""

from __future__ import annotations

from refimpl.client.messages import MessageId

Position = tuple[int, int]


class BatchAcks:
    """Which messages of the delivered batches are still open, as bits by ledger and entry."""

    def __init__(self) -> None:
        self._open: dict[Position, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def delivered(self, position: Position, size: int, bits: int) -> int:
        """Record a batch.

        Args:
            position: Ledger and entry.
            size: Number of messages in the batch.
            bits: The messages that are open at the broker.

        Returns:
            The messages that are open at the client: those acknowledged before a redelivery stay acknowledged.
        """
        everything = (1 << size) - 1
        still = bits & self._open.get(position, everything)
        self._open[position] = still
        return still

    def individual(self, message_id: MessageId) -> bool:
        """Acknowledge one message; return whether to acknowledge its entry now."""
        if message_id.batch_index < 0:
            return True
        bits = self._open.get(message_id.position)
        if bits is None:
            return False
        return self._keep(message_id.position, bits & ~(1 << message_id.batch_index))

    def cumulative(self, message_id: MessageId) -> MessageId:
        """Acknowledge one message and all before it.

        Returns:
            The last entry to acknowledge: that of the message, or the one before, whose number is -1 if it ends another ledger.
        """
        for position in [position for position in self._open if position < message_id.position]:
            del self._open[position]
        if message_id.batch_index < 0:
            return message_id
        upto = message_id.batch_index + 1
        if self._keep(message_id.position, self._open.get(message_id.position, 0) >> upto << upto):
            return message_id
        return MessageId(message_id.ledger_id, message_id.entry_id - 1, partition=message_id.partition)

    def refused(self, position: Position, size: int) -> None:
        """Handle an entry that will be redelivered; forget it unless some of its messages are acknowledged."""
        if self._open.get(position) == (1 << size) - 1:
            del self._open[position]

    def clear(self) -> None:
        """Forget everything, because the position was moved."""
        self._open.clear()

    def _keep(self, position: Position, bits: int) -> bool:
        self._open[position] = bits
        if not bits:
            del self._open[position]
        return not bits
