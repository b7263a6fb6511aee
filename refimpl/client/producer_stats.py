"""What a producer has sent, and what that cost: PIP-191 buys filtering by the header with smaller batches and longer headers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from refimpl.client.entry import Entry, Queued
from refimpl.proposals.uniform_batches import Batch, Reason, header_bytes


@dataclass(frozen=True)
class ProducerStats:
    """Counts of what was sent; what is sent again after a reconnect counts once.

    Attributes:
        messages: That went out.
        entries: That they went out in, batches and single messages.
        entry_bytes: Of the entries, headers included, commands not.
        header_bytes: Of these, what stands before the messages: checksum and MessageMetadata.
        extracted_bytes: Of these, the extracted sets of PIP-191.
        reasons: Number of entries by the reason why they went out when they did.
    """

    messages: int = 0
    entries: int = 0
    entry_bytes: int = 0
    header_bytes: int = 0
    extracted_bytes: int = 0
    reasons: Mapping[Reason, int] = field(default_factory=dict)

    @property
    def messages_per_entry(self) -> float:
        """Return the mean size of a batch; 0: nothing was sent."""
        return self.messages / self.entries if self.entries else 0.0

    @property
    def bytes_per_message(self) -> float:
        """Return the mean share of a message in the bytes of its entry."""
        return self.entry_bytes / self.messages if self.messages else 0.0

    @property
    def header_bytes_per_message(self) -> float:
        """Return the mean share of a message in the header of its entry: the price of small batches."""
        return self.header_bytes / self.messages if self.messages else 0.0

    def with_entry(self, entry: Entry, batch: Batch[Queued]) -> ProducerStats:
        """Return the counts with one more entry."""
        return ProducerStats(
            self.messages + len(batch.items),
            self.entries + 1,
            self.entry_bytes + len(entry.payload),
            self.header_bytes + entry.header_bytes,
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
