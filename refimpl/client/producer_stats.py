"""What a producer has sent, and its cost: PIP-191 makes batches smaller and headers longer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from refimpl.client.entry import Entry, Queued
from refimpl.proposals.uniform_batches import Batch, Reason, header_bytes


@dataclass(frozen=True)
class ProducerStats:
    """Counts of what was sent; an entry that is resent after a reconnect counts once.

    Attributes:
        messages: Number of messages.
        entries: Number of entries: batches and single messages.
        entry_bytes: Bytes of the entries, with headers, without commands.
        header_bytes: Bytes of the entries' headers: checksum and MessageMetadata.
        extracted_bytes: Bytes of the extracted sets of PIP-191 in these headers.
        reasons: Number of entries for each reason to send them.
    """

    messages: int = 0
    entries: int = 0
    entry_bytes: int = 0
    header_bytes: int = 0
    extracted_bytes: int = 0
    reasons: Mapping[Reason, int] = field(default_factory=dict)

    @property
    def messages_per_entry(self) -> float:
        """Return the mean number of messages per entry; 0: nothing was sent."""
        return self.messages / self.entries if self.entries else 0.0

    @property
    def bytes_per_message(self) -> float:
        """Return the mean number of entry bytes per message."""
        return self.entry_bytes / self.messages if self.messages else 0.0

    @property
    def header_bytes_per_message(self) -> float:
        """Return the mean number of header bytes per message: the cost of small batches."""
        return self.header_bytes / self.messages if self.messages else 0.0

    def with_entry(self, entry: Entry, batch: Batch[Queued]) -> ProducerStats:
        """Return the counts with one more entry."""
        return ProducerStats(
            self.messages + len(batch.items),
            self.entries + len(entry.payloads),
            self.entry_bytes + sum(map(len, entry.payloads)),
            self.header_bytes + entry.header_bytes * len(entry.payloads),
            self.extracted_bytes + header_bytes(batch.header),
            {**self.reasons, batch.reason: self.reasons.get(batch.reason, 0) + 1},
        )

    @classmethod
    def total(cls, parts: Iterable[ProducerStats]) -> ProducerStats:
        """Return the sum over several producers, such as those of all partitions."""
        listed = list(parts)
        return cls(
            sum(one.messages for one in listed),
            sum(one.entries for one in listed),
            sum(one.entry_bytes for one in listed),
            sum(one.header_bytes for one in listed),
            sum(one.extracted_bytes for one in listed),
            {reason: count for reason in Reason if (count := sum(one.reasons.get(reason, 0) for one in listed))},
        )
