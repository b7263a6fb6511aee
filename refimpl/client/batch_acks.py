"""Acknowledgements inside batches: the broker takes whole entries, so one is acknowledged once all of its messages are."""

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
            size: Messages in it.
            bits: Those that are open as far as the broker knows.

        Returns:
            Those that are open indeed: what was acknowledged here before a redelivery stays so.
        """
        everything = (1 << size) - 1
        still = bits & self._open.get(position, everything)
        self._open[position] = still
        return still

    def individual(self, message_id: MessageId) -> bool:
        """Acknowledge one message; tell whether its entry is to be acknowledged now."""
        if message_id.batch_index < 0:
            return True
        bits = self._open.get(message_id.position)
        if bits is None:
            return False
        return self._keep(message_id.position, bits & ~(1 << message_id.batch_index))

    def cumulative(self, message_id: MessageId) -> MessageId | None:
        """Acknowledge one message and all before it.

        Returns:
            The entry up to which all are acknowledged now: that of the message, or the one before; None if there is none.
        """
        for position in [position for position in self._open if position < message_id.position]:
            del self._open[position]
        if message_id.batch_index < 0:
            return message_id
        upto = message_id.batch_index + 1
        if self._keep(message_id.position, self._open.get(message_id.position, 0) >> upto << upto):
            return message_id
        if message_id.entry_id == 0:
            return None
        return MessageId(message_id.ledger_id, message_id.entry_id - 1, partition=message_id.partition)

    def refused(self, position: Position, size: int) -> None:
        """Record that an entry will be asked for again; nothing is kept of it unless some of it was acknowledged."""
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
